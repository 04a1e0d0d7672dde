use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

#[test]
fn strict_queues_go_first_in_their_order() {
    use QueueService::{Strict, Weight};
    let mut scheduler = Scheduler::new([Weight(1), Strict, Weight(2), Strict]);
    assert_eq!(scheduler.choose(0b1111, |_| 100), Some(1));
    assert_eq!(scheduler.choose(0b1101, |_| 100), Some(3));
    assert_eq!(scheduler.choose(0b0100, |_| 100), Some(2));
    assert_eq!(scheduler.choose(0, |_| 100), None);
}

#[test]
fn a_queue_that_emptied_has_saved_nothing() {
    use QueueService::Weight;
    let mut scheduler = Scheduler::new([Weight(1000), Weight(1)]);
    assert_eq!(scheduler.choose(0b01, |_| 100), Some(0));
    scheduler.charge(0, 100);
    scheduler.emptied(0);
    assert_eq!(
        scheduler.choose(0b11, |_| 100),
        Some(1),
        "the turn has passed on with the deficit"
    );
}

proptest! {
    /// Shreedhar and Varghese, lemma 2 and theorem 1: over any time in which queues do not run dry,
    /// m rounds give each m quanta, less what is left of its deficit (under the longest frame).
    #[test]
    fn shares_are_within_a_quantum_and_a_frame_of_the_ideal(
        weights in vec(1..20u16, 2..=8),
        frames in vec(64..9_046u32, 100..3_000),
        from in 0..100usize,
    ) {
        let n = weights.len();
        let mut scheduler = Scheduler::new(weights.iter().map(|&w| QueueService::Weight(w)));
        let waiting = u8::try_from((1u32 << n) - 1).unwrap();
        let mut fronts = [0u32; QUEUES_MAX];
        let mut frames = frames.into_iter().cycle().take(4_000);
        for front in &mut fronts {
            *front = frames.next().unwrap();
        }
        let mut sent = vec![0f64; n];
        for (step, next) in frames.enumerate() {
            if step == from {
                sent.fill(0.0);
            }
            let queue = scheduler.choose(waiting, |queue| fronts[queue]).unwrap();
            scheduler.charge(queue, fronts[queue]);
            sent[queue] += f64::from(fronts[queue]);
            fronts[queue] = next;

            let (total, weight_sum) = (sent.iter().sum::<f64>(), weights.iter().sum::<u16>());
            for (queue, &weight) in weights.iter().enumerate() {
                let share = f64::from(weight) / f64::from(weight_sum);
                let quantum = f64::from(weight) * f64::from(QUANTUM_BYTES);
                let off = (sent[queue] - share * total).abs();
                // A window that begins anywhere has two ends; with others' frames, in proportion.
                let frames = 1.0f64.max((n - 1) as f64 * share);
                let ends = if step >= from && from > 0 { 2.0 } else { 1.0 };
                prop_assert!(off <= ends * (quantum + frames * 9_046.0), "{queue}: {off}");
            }
        }
    }
}
