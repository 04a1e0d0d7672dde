//! Panics in an exchange: it starts anew, and loses nothing that circulates.

use std::sync::Arc;

use super::*;
use crate::contain::{Point, inject};
use contract::wire::handover::{FRAMES_MAX, SHARDS_PER_END, wire_handover};

/// Epochs after which a session is there again, and an epoch was measured from end to end.
const RECOVERY: usize = 14;

#[test]
fn a_panic_in_pairing_costs_the_session_and_the_wire_measures_again() {
    let mut bench = Bench::alike();
    bench.establish();
    (0..4).for_each(|_| bench.epoch());
    let mut usable = fates(&bench.switches[1].status(), EpochFate::Usable);
    assert!(usable > 0);
    // More often than there are shards: each of these panics has taken one.
    for n in 1..=SHARDS_PER_END as u64 + 2 {
        inject::arm(Point::Pairing, 1);
        (0..RECOVERY).for_each(|_| bench.epoch());
        bench.steps(30);
        let status = bench.switches.each_ref().map(Switch::status);
        let restarts: u64 = status.iter().map(|one| one.counters.restarts).sum();
        assert_eq!(restarts, n);
        assert!(
            status
                .iter()
                .all(|one| one.session == SessionState::Established)
        );
        assert_true(&latest(&bench));
        assert!(
            fates(&status[1], EpochFate::Usable) > usable,
            "after {n} panics"
        );
        usable = fates(&status[1], EpochFate::Usable);
    }
    let lost = |switch: &Switch| fates(&switch.status(), EpochFate::Unmeasured);
    assert!(
        bench.switches.iter().map(lost).sum::<u64>() > 0,
        "what was taken is counted"
    );
}

#[test]
fn one_that_panics_at_every_poll_is_polled_once_a_second() {
    let mut bench = Bench::alike();
    bench.establish();
    inject::arm(Point::In(Part::Wire), u64::MAX);
    let second = usize::try_from(1_000_000_000 / STEP_NS).unwrap();
    bench.steps(10 * second);
    inject::arm(Point::In(Part::Wire), 0);
    for switch in &bench.switches {
        let restarts = switch.exchange.machine.outbox.counters.restarts;
        assert!((9..=11).contains(&restarts), "{restarts}");
    }
    bench.steps(2 * second);
    bench.establish();
}

#[test]
fn a_frame_that_panics_is_not_heard_again_and_its_box_goes_round() {
    let layout = settings(1).layout;
    let counters = Arc::default();
    let (mut worker, mut control) = wire_handover(&layout, Arc::default(), counters);
    for _ in 0..2 * FRAMES_MAX {
        assert!(worker.hear(b"frame", Kind::Report, 1));
        assert!(contain(Part::Wire, || control.next_heard(|_| inject::panic())).is_none());
        assert!(control.next_heard(|_| ()).is_none());
    }
}
