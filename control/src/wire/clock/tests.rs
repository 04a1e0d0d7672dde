#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times of a simulation"
)]

use std::sync::Arc;

use contract::config::WireClock;
use measure::time::{TickRate, Ticks};
use wire::frame::ClockState;

use super::*;

const RATE: u64 = 2_500_000_000;

/// Clocks that are set by hand: a counter that runs 40 ppm faster than its nominal rate, a system's clock that
/// can be set, and readings that scatter.
struct ByHand {
    /// Nanoseconds of true time.
    now_ns: f64,
    offset_ns: f64,
    /// Duration of one reading.
    reading_ns: f64,
    noise_ns: f64,
    seed: u64,
    kernel: Option<KernelClock>,
    tai_utc_s: i16,
}

impl ByHand {
    fn new() -> Self {
        Self {
            now_ns: 1e9,
            offset_ns: 1.7e18,
            reading_ns: 40.0,
            noise_ns: 30.0,
            seed: 1,
            kernel: Some(kept(3)),
            tai_utc_s: 37,
        }
    }

    fn ticks_at(now_ns: f64) -> Ticks {
        Ticks((now_ns * 2.5 * (1.0 + 40e-6)) as u64)
    }

    fn noise(&mut self) -> f64 {
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        ((self.seed >> 40) as f64 / f64::from(1 << 24) - 0.5) * 2.0 * self.noise_ns
    }

    fn tai_ns(&self) -> u64 {
        (self.offset_ns as u64).wrapping_add_signed(self.now_ns as i64)
    }
}

fn kept(error_us: u64) -> KernelClock {
    KernelClock {
        is_synchronised: true,
        estimated_error_us: error_us,
        error_us_max: 10 * error_us,
    }
}

impl DataPlane for ByHand {
    fn now(&mut self) -> Ticks {
        self.now_ns += self.reading_ns / 2.0;
        Self::ticks_at(self.now_ns)
    }

    fn system_time(&mut self) -> SystemTime {
        let noise_ns = self.noise() as i64;
        SystemTime {
            tai_ns: self.tai_ns().wrapping_add_signed(noise_ns),
            tai_utc_s: self.tai_utc_s,
        }
    }

    fn kernel_clock(&mut self) -> Option<KernelClock> {
        self.kernel
    }
}

fn clock(configured: WireClock) -> (TaiClock, Arc<SharedLine>) {
    let line = Arc::new(SharedLine::default());
    let mut clock = TaiClock::new(TickRate::from_hz(RATE), Arc::clone(&line));
    clock.configure(configured);
    (clock, line)
}

/// Looks every 5 ms for so long.
fn run(clock: &mut TaiClock, source: &mut ByHand, seconds: f64) -> ClockStatus {
    let end_ns = source.now_ns + seconds * 1e9;
    let mut status = clock.look(source);
    while source.now_ns < end_ns {
        source.now_ns += 5e6;
        status = clock.look(source);
    }
    status
}

#[test]
fn the_line_follows_the_clock_with_the_counters_true_rate() {
    let (mut clock, shared) = clock(WireClock::default());
    let mut source = ByHand::new();
    let status = run(&mut clock, &mut source, 5.0);
    assert_eq!((status.steps, status.view.state), (0, ClockState::Locked));
    assert!(status.fit_error_ns < 200.0, "{status:?}");
    assert_eq!(status.view.tai_utc_s, 37);
    let error_ns = f64::from(status.view.error_ns);
    assert!((3_000.0..3_300.0).contains(&error_ns), "{status:?}");
    let mut known = (0, TaiLine::default());
    shared.renew(&mut known);
    assert_eq!(Some(known.1), clock.line());
    // A tenth of a second ahead, as far as workers go by it.
    source.now_ns += 1e8;
    let ahead = known.1.tai_ns(ByHand::ticks_at(source.now_ns));
    let off_ns = ahead.wrapping_sub(source.tai_ns()).cast_signed();
    assert!(off_ns.abs() < 100, "{off_ns}");
}

#[test]
fn a_clock_that_was_set_is_a_step_and_followed_at_once() {
    for step_ns in [2e4, -2e4, 5e6, -3.6e12] {
        let (mut clock, shared) = clock(WireClock::default());
        let mut source = ByHand::new();
        run(&mut clock, &mut source, 3.0);
        source.offset_ns += step_ns;
        // A double cannot represent large numbers of nanoseconds exactly.
        let (after, steps) = (run(&mut clock, &mut source, 0.2), shared.steps());
        assert_eq!((after.steps, steps), (1, 1), "{step_ns}");
        let seen_ns = after.last_step_ns.unwrap();
        assert!(
            (seen_ns - step_ns).abs() < 1_000.0,
            "{seen_ns} for {step_ns}"
        );
        let line = clock.line().unwrap();
        let by_line = line.tai_ns(ByHand::ticks_at(source.now_ns));
        let off_ns = by_line.wrapping_sub(source.tai_ns()).cast_signed();
        assert!(off_ns.abs() < 500, "{off_ns}");
        assert_eq!(run(&mut clock, &mut source, 5.0).steps, 1);
    }
}

#[test]
fn slewing_is_no_step_and_a_thread_that_is_held_up_sees_none() {
    let (mut clock, _) = clock(WireClock::default());
    let mut source = ByHand::new();
    run(&mut clock, &mut source, 3.0);
    // 10 ppm for ten seconds.
    for _ in 0..2_000 {
        source.offset_ns += 50.0;
        source.now_ns += 5e6;
        clock.look(&mut source);
    }
    let status = run(&mut clock, &mut source, 3.0);
    assert_eq!(status.steps, 0, "{status:?}");
    // The virtual machine stands still now and then, in the middle of readings too.
    for _ in 0..20 {
        source.reading_ns = 3e6;
        run(&mut clock, &mut source, 0.05);
        source.reading_ns = 40.0;
        run(&mut clock, &mut source, 0.5);
    }
    source.now_ns += 60e9;
    let status = run(&mut clock, &mut source, 3.0);
    assert_eq!(status.steps, 0, "{status:?}");
    assert!(status.fit_error_ns < 200.0, "{status:?}");
}

#[test]
fn a_clock_that_nothing_keeps_is_free_and_one_that_was_kept_holds_over() {
    let (mut clock, _) = clock(WireClock::default());
    let mut source = ByHand::new();
    source.kernel = Some(KernelClock {
        is_synchronised: false,
        ..kept(16_000_000)
    });
    assert_eq!(
        run(&mut clock, &mut source, 1.0).view.state,
        ClockState::Free
    );
    source.kernel = None;
    assert_eq!(
        run(&mut clock, &mut source, 1.0).view.state,
        ClockState::Free
    );
    source.kernel = Some(kept(5));
    assert_eq!(
        run(&mut clock, &mut source, 1.0).view.state,
        ClockState::Locked
    );
    source.kernel = None;
    let held = run(&mut clock, &mut source, 10.0);
    assert_eq!(held.view.state, ClockState::HoldingOver);
    let error_ns = f64::from(held.view.error_ns);
    assert!((100_000.0..110_000.0).contains(&error_ns), "{held:?}");
    let lost = run(&mut clock, &mut source, 1_000.0);
    assert_eq!(lost.view.state, ClockState::Free);
}

#[test]
fn an_operator_who_vouches_is_trusted_until_the_clock_is_known() {
    let configured = WireClock {
        error_ns: Some(250),
        ptp_domain: 24,
    };
    let (mut clock, _) = clock(configured);
    let mut source = ByHand::new();
    source.kernel = None;
    let first = clock.look(&mut source);
    assert_eq!(first.view.state, ClockState::Free, "after one reading");
    let status = run(&mut clock, &mut source, 1.0);
    assert_eq!(
        (status.view.state, status.view.ptp_domain),
        (ClockState::Locked, 24)
    );
    assert!((250..500).contains(&status.view.error_ns), "{status:?}");
    clock.configure(WireClock::default());
    assert_eq!(
        run(&mut clock, &mut source, 1.0).view.state,
        ClockState::Free
    );
}

#[test]
fn the_greatest_error_alone_is_taken_where_nobody_estimates_one() {
    // As linuxptp leaves it.
    let kernel = KernelClock {
        is_synchronised: true,
        estimated_error_us: 16_000_000,
        error_us_max: 0,
    };
    let mut discipline = Discipline::new(WireClock::default());
    let (state, error_ns) = discipline.look(std::time::Duration::ZERO, Some(kernel));
    assert_eq!(discipline.source, ErrorSource::Maximum);
    assert_eq!(state, ClockState::Locked);
    assert!((error_ns - 1_000.0).abs() < 1e-9);
}

#[test]
fn the_systems_own_clock_can_be_read() {
    let time = SystemTime::now();
    let utc = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let ahead = time.tai_ns as f64 / 1e9 - utc.as_secs_f64();
    assert!((ahead - f64::from(time.tai_utc_s)).abs() < 1.0, "{time:?}");
}

#[test]
fn the_claimed_error_is_named_for_what_it_is() {
    let now = std::time::Duration::ZERO;
    let mut discipline = Discipline::new(WireClock::default());
    discipline.look(now, Some(kept(3)));
    assert_eq!(discipline.source.label(), "estimated");
    // While it holds over it is still the estimate, grown.
    discipline.look(now + std::time::Duration::from_secs(1), None);
    assert_eq!(discipline.source.label(), "estimated");
    discipline.configured = WireClock {
        error_ns: Some(500),
        ..WireClock::default()
    };
    discipline.look(now, Some(kept(3)));
    assert_eq!(discipline.source.label(), "configured");
}
