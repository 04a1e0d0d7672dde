use super::*;

/// Clocks that are set by hand.
struct ByHand {
    watch: StepWatch,
    now: Reading,
}

impl ByHand {
    fn new() -> Self {
        let mut watch = StepWatch::default();
        let now = Reading::now();
        let now = Reading {
            monotonic: [now.monotonic[0]; 2],
            ..now
        };
        assert_eq!(watch.look(now), Clock::default());
        Self { watch, now }
    }

    fn pass(&mut self, time: Duration) {
        self.now.monotonic = self.now.monotonic.map(|clock| clock + time);
        self.now.system += time;
    }

    fn look(&mut self) -> (u64, f64) {
        let seen = self.watch.look(self.now);
        (seen.steps, seen.last_step_s)
    }
}

const POLL: Duration = Duration::from_millis(5);

#[test]
fn a_step_is_counted_once_in_either_direction() {
    let mut clocks = ByHand::new();
    clocks.pass(POLL);
    clocks.now.system += Duration::from_hours(1);
    let (count, step_s) = clocks.look();
    assert!(count == 1 && (step_s - 3_600.0).abs() < 1e-6, "{step_s}");
    clocks.pass(POLL);
    assert_eq!(clocks.look().0, 1);
    clocks.pass(POLL);
    clocks.now.system -= Duration::from_millis(250);
    let (count, step_s) = clocks.look();
    assert!(count == 2 && (step_s + 0.25).abs() < 1e-6, "{step_s}");
}

#[test]
fn slewing_and_a_control_core_that_was_held_up_are_no_steps() {
    let mut clocks = ByHand::new();
    for _ in 0..100 {
        clocks.pass(Duration::from_secs(1));
        clocks.now.system += Duration::from_millis(1);
        assert_eq!(clocks.look().0, 0);
    }
    clocks.pass(Duration::from_hours(2));
    assert_eq!(clocks.look().0, 0);
    // Held up in the middle of a reading, before the system's clock was read.
    clocks.now.monotonic[1] += Duration::from_secs(3);
    clocks.now.system += Duration::from_secs(3);
    assert_eq!(clocks.look().0, 0);
    clocks.now.monotonic[0] = clocks.now.monotonic[1];
    clocks.pass(POLL);
    assert_eq!(clocks.look().0, 0);
}
