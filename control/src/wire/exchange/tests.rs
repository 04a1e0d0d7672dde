use wire::frame::{EpochFate, Kind, Mismatch, Refusal};

use super::*;
use measure::time::Epoch;
use wire::exchange::{Expected, MeasuredEpoch, SessionState};
use wire::frame::Subject;

mod adaptive;
mod bench;
mod causality;
mod faults;
mod flows;
mod sessions;

use bench::{Bench, EPOCH_NS, LOCKED, STEP_NS, Switch, Truth, settings};

fn fates(status: &WireStatus, fate: EpochFate) -> u64 {
    status.receiving[0].fates[fate as usize]
}

/// The latest epoch, which was measured; and the truth of it.
fn latest(bench: &Bench) -> (MeasuredEpoch, Truth) {
    let status = bench.switches[1].status();
    let latest = status.receiving[0].latest.unwrap();
    (latest, bench.truth_of(latest.epoch))
}

/// Checks counts and mean of a usable epoch.
fn assert_true((measured, truth): &(MeasuredEpoch, Truth)) {
    assert_eq!(measured.fate, EpochFate::Usable);
    let outcome = measured.outcome.unwrap();
    let counts = (outcome.tally.sent, outcome.tally.received);
    assert_eq!(counts, (truth.sent, truth.received));
    assert_eq!(
        outcome.lost(),
        Some((truth.sent - truth.received).cast_signed())
    );
    let chosen = outcome.chosen.unwrap();
    let error = (chosen.mean_ns - truth.mean_ns).abs();
    assert!(
        error <= chosen.bound_ns.unwrap(),
        "off by {error}: {chosen:?}"
    );
}

#[test]
fn what_is_sent_is_measured_and_reported() {
    let mut bench = Bench::alike();
    bench.establish();
    for _ in 0..6 {
        bench.epoch();
    }
    bench.steps(30);
    let seen = latest(&bench);
    assert_true(&seen);
    let [sender, receiver] = bench.switches.each_ref().map(Switch::status);
    assert_eq!(receiver.session, SessionState::Established);
    assert_eq!(receiver.peer.as_ref().unwrap().header.switch, 1);
    // The first was not seen from its beginning; the rollover of the last is still to be reconciled.
    assert_eq!(fates(&receiver, EpochFate::Partial), 1);
    assert_eq!(fates(&receiver, EpochFate::Usable), 4);
    assert_eq!(receiver.receiving[0].fates.iter().sum::<u64>(), 5);
    assert_eq!(receiver.counters.requests_sent, 0);
    // Without a loss every cell is usable and every packet a sample.
    let outcome = seen.0.outcome.unwrap();
    assert_eq!(outcome.cells.unusable(), 0);
    assert!((outcome.lda_mean.unwrap().mean_ns - seen.1.mean_ns).abs() < 1e-3);

    // The sender shows the same.
    let reported = sender.sending[0].usable.unwrap();
    assert_eq!(reported.epoch, seen.0.epoch);
    assert_eq!(
        reported.report.mean_ns,
        outcome.lda_mean.map(|lda| lda.mean_ns)
    );
    assert_eq!(sender.sending[0].sent, receiver.receiving[0].sent);
    assert_eq!(sender.sending[0].fates, receiver.receiving[0].fates);
    // And nothing was sent the other way.
    assert_eq!(fates(&sender, EpochFate::Idle), 4);
}

#[test]
fn flows_are_decoded() {
    let mut bench = Bench::alike();
    bench.establish();
    for _ in 0..4 {
        bench.epoch();
    }
    bench.steps(30);
    let flows = bench.switches[1].exchange.flows().unwrap();
    assert_eq!(flows.flows.len(), 100);
    let within = flows.flows.iter().filter(|flow| {
        // Means of flows differ by 400 ns each; those of their waits are 5,000.
        let number = (0..100).find(|&n| bench::Random(n + 1).bits() == flow.flow.0);
        let expected = 25_000.0 + 400.0 * number.unwrap() as f64;
        let chosen = flow.chosen.unwrap();
        let scatter = 3.0 * 5_000.0 / (flow.packets as f64).sqrt();
        (chosen.mean_ns - expected).abs() <= chosen.bound_ns.unwrap() + scatter
    });
    assert!(within.count() >= 98);
}

#[test]
fn misplaced_packets_are_moved_back() {
    let mut bench = Bench::alike();
    bench.traffic.misplaced = 7;
    bench.establish();
    for _ in 0..6 {
        bench.epoch();
    }
    bench.steps(30);
    let seen = latest(&bench);
    assert_true(&seen);
    assert_eq!(seen.0.outcome.unwrap().cells.unusable(), 0);
    assert_eq!(seen.0.moved, 28, "seven each way at both rollovers");
    let counters = bench.switches[1].status().counters;
    assert!(counters.moved_to_earlier >= 28 && counters.moved_to_later >= 28);
}

#[test]
fn without_the_lists_misplaced_packets_spoil_cells_and_nothing_else() {
    let mut bench = Bench::alike();
    bench.traffic.misplaced = 7;
    bench.fault = Box::new(|_, kind, _| match kind {
        Kind::Stash => vec![],
        _ => vec![(0, false)],
    });
    bench.establish();
    for _ in 0..6 {
        bench.epoch();
    }
    bench.steps(60);
    let (measured, truth) = latest(&bench);
    let outcome = measured.outcome.unwrap();
    assert!(outcome.cells.unusable() >= 14);
    assert_eq!(measured.moved, 0);
    // The first marker came in its time, and references show nothing: still, data may have overtaken it.
    assert_eq!(outcome.lost(), None);
    let lda = outcome.lda_mean.unwrap();
    assert!((lda.mean_ns - truth.mean_ns).abs() <= lda.bound_ns.unwrap());
}

#[test]
fn one_list_of_a_turn_is_enough_to_tell_losses_where_order_is_kept() {
    for lost_side in [0, 1] {
        let mut bench = Bench::alike();
        bench.traffic.loss = 0.01;
        bench.fault = Box::new(move |_, kind, frame| match kind {
            Kind::Stash if frame[50] == lost_side => vec![],
            _ => vec![(0, false)],
        });
        bench.establish();
        for _ in 0..6 {
            bench.epoch();
        }
        bench.steps(60);
        assert_true(&latest(&bench));
    }
}

#[test]
fn epochs_that_nobody_could_record_are_told() {
    let mut bench = Bench::alike();
    bench.establish();
    for _ in 0..3 {
        bench.epoch();
    }
    // The receiver misses two rollovers and reports it; the sender has no memory for two epochs.
    bench.switches[1]
        .shard(End::Receiver)
        .unwrap()
        .marks
        .turns_missed = 2;
    bench.epoch();
    bench.epoch += 2;
    for _ in 0..2 {
        bench.epoch();
    }
    bench.epoch += 3;
    for _ in 0..3 {
        bench.epoch();
    }
    bench.steps(60);
    let status = bench.switches[1].status();
    assert_eq!(fates(&status, EpochFate::NoMarkers), 3);
    assert_eq!(fates(&status, EpochFate::Unmeasured), 3);
    assert_eq!(fates(&status, EpochFate::Partial), 1);
    // Every epoch but the last, which waits, has one fate.
    assert_eq!(
        status.receiving[0].fates.iter().sum::<u64>(),
        bench.epoch - 1
    );
}
