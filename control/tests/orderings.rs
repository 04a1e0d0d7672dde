//! What must hold wherever two threads meet, in every order that loom finds.
//!
//! What a model was seen to fail with stands with it.
//!
//! The reader is the thread that is spawned, the writer the one that spawns it: loom 0.7 remembers the last access
//! only, so that a writer's own load before its store hides a reader's; but a reader that comes later is shown
//! every older value that the orderings allow.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what must hold in the plainest way"
)]

use std::sync::Arc;

use loom::thread;
use measure::flows::{FlowId, Slot};
use measure::observation::SegmentIndex;
use measure::packet::{FlowHash, FlowKey};
use measure::shard::ShardLayout;
use measure::time::{Epoch, TickRate, Ticks};

use contract::counters::Counter;
use contract::handover::{FlowCommand, NewFlow, handover};
use contract::wire::clock::SharedLine;
use contract::wire::clock::TaiLine;
use control::published::{Lookup, Published};
use records::snapshot::{Snapshot, Status};

fn layout() -> ShardLayout {
    ShardLayout {
        flow_slots: 2,
        ..ShardLayout::new(TickRate::from_hz(1_000_000_000), 1)
    }
}

fn flow(number: u64) -> NewFlow {
    NewFlow {
        id: FlowId::new(FlowHash(number), SegmentIndex(0)),
        slot: Slot(0),
        segment: SegmentIndex(0),
        key: FlowKey::parse(&[]),
    }
}

/// Fails without the fence in `ControlEnd::is_over`.
#[test]
fn an_end_is_over_only_when_all_that_was_given_is_taken() {
    loom::model(|| {
        let (mut worker, mut control) = handover(&layout());
        let leaving = thread::spawn(move || {
            let shard = worker.take_empty().unwrap();
            assert!(worker.report_flow(flow(1)));
            worker.give_sealed(shard.seal(Epoch(0)));
        });
        let (mut shards, mut reports) = (0, 0);
        for _ in 0..2 {
            if control.is_over() {
                assert_eq!((shards, reports), (1, 1), "over, and something is left");
            }
            shards += usize::from(control.take_sealed().is_some());
            reports += usize::from(control.next_report().is_some());
        }
        leaving.join().unwrap();
        shards += usize::from(control.take_sealed().is_some());
        reports += usize::from(control.next_report().is_some());
        assert_eq!((shards, reports), (1, 1));
        assert!(control.is_over());
    });
}

#[test]
fn with_a_shard_come_the_reports_of_its_flows() {
    loom::model(|| {
        let (mut worker, mut control) = handover(&layout());
        let core = thread::spawn(move || {
            for _ in 0..2 {
                if let Some(sealed) = control.take_sealed() {
                    assert_eq!(control.next_report(), Some(flow(1)));
                    control.give_back(sealed, []);
                    break;
                }
            }
        });
        let shard = worker.take_empty().unwrap();
        assert!(worker.report_flow(flow(1)));
        worker.give_sealed(shard.seal(Epoch(0)));
        core.join().unwrap();
    });
}

/// Fails where `give_sealed` says how many commands were taken by then.
#[test]
fn what_is_forgotten_counts_in_no_shard_that_says_so() {
    loom::model(|| {
        let (mut worker, mut control) = handover(&layout());
        let forgetting = thread::spawn(move || {
            let mut is_forgotten = false;
            for _ in 0..2 {
                let shard = worker.take_empty().unwrap();
                // A packet between two passes; the epoch's number stands for what it counts.
                let counted = u64::from(!is_forgotten);
                is_forgotten |= worker.next_command().is_some();
                worker.give_sealed(shard.seal(Epoch(counted)));
            }
        });
        assert!(control.command(FlowCommand::Forget(flow(1).id)));
        let mut settle = |is_last: bool| {
            while let Some(sealed) = control.take_sealed() {
                let is_settled = sealed.commands_before > 0;
                assert!(
                    !is_settled || sealed.epoch() == Epoch(0),
                    "counts what is forgotten"
                );
            }
            assert!(!is_last || control.is_over());
        };
        settle(false);
        forgetting.join().unwrap();
        settle(true);
    });
}

/// Fails where a missed epoch is not counted.
#[test]
fn shards_circulate_and_an_epoch_without_one_counts_as_missed() {
    loom::model(|| {
        let (mut worker, mut control) = handover(&layout());
        let turning = thread::spawn(move || {
            let mut taken = 0_u64;
            for epoch in 0..4 {
                if let Some(shard) = worker.take_empty() {
                    taken += 1;
                    worker.give_sealed(shard.seal(Epoch(epoch)));
                }
            }
            taken
        });
        if let Some(sealed) = control.take_sealed() {
            control.give_back(sealed, []);
        }
        let taken = turning.join().unwrap();
        assert!(taken >= 3);
        assert_eq!(taken + control.missed_epochs(), 4);
    });
}

#[test]
fn a_counter_with_one_writer_only_rises_and_loses_nothing() {
    loom::model(|| {
        let counter = Arc::new(Counter::default());
        let writer = {
            let counter = Arc::clone(&counter);
            thread::spawn(move || (0..3).for_each(|_| counter.add(1)))
        };
        let seen = [counter.get(), counter.get()];
        assert!(seen[0] <= seen[1] && seen[1] <= 3, "{seen:?}");
        writer.join().unwrap();
        assert_eq!(counter.get(), 3);
    });
}

/// The models can fail: two writers are what a counter is not made for.
#[test]
#[should_panic(expected = "lost")]
fn a_counter_with_two_writers_loses_some() {
    loom::model(|| {
        let counter = Arc::new(Counter::default());
        let other = {
            let counter = Arc::clone(&counter);
            thread::spawn(move || counter.add(1))
        };
        counter.add(1);
        other.join().unwrap();
        assert_eq!(counter.get(), 2, "lost");
    });
}

/// Fails where `publish` changes the snapshot in two steps.
#[test]
fn a_reader_sees_one_whole_snapshot_and_never_an_older_one() {
    let numbered = |number: u64| {
        Snapshot::from(Status {
            epoch: Some(number),
            switch: number.to_string(),
            ..Status::default()
        })
    };
    loom::model(move || {
        let published = Arc::new(Published::new(numbered(0)));
        let core = {
            let published = Arc::clone(&published);
            thread::spawn(move || {
                (1..3).for_each(|number| published.publish(numbered(number), Lookup::default()))
            })
        };
        let mut last = 0;
        for _ in 0..2 {
            let snapshot = published.read();
            let epoch = snapshot.epoch.unwrap();
            assert_eq!(snapshot.switch, epoch.to_string(), "of two epochs");
            assert!(epoch >= last, "back in time");
            last = epoch;
        }
        core.join().unwrap();
        assert_eq!(published.read().epoch, Some(2));
    });
}

fn line(number: u64) -> TaiLine {
    TaiLine {
        ticks: Ticks(number),
        tai_ns: 10 * number,
        ns_per_tick_q32: 100 * number,
    }
}

/// Fails with either fence taken out, with the last store of `SharedLine::set` relaxed, or the first load of
/// `renew`.
#[test]
fn a_line_is_read_whole_or_not_at_all() {
    loom::model(|| {
        let shared = Arc::new(SharedLine::default());
        let worker = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let mut known = (0, TaiLine::default());
                for _ in 0..2 {
                    let before = known;
                    shared.renew(&mut known);
                    assert_eq!(known.1, line(known.1.ticks.0), "of two lines");
                    assert_eq!(known.0, 2 * known.1.ticks.0, "of another version");
                    assert!(known.0 >= before.0, "back in time");
                }
                known
            })
        };
        (1..3).for_each(|number| shared.set(line(number)));
        let mut known = worker.join().unwrap();
        shared.renew(&mut known);
        assert_eq!(known.1, line(2));
    });
}

/// Fails with either fence taken out.
#[test]
fn a_reader_of_the_line_after_a_step_sees_the_step() {
    loom::model(|| {
        let shared = Arc::new(SharedLine::default());
        let worker = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let mut known = (0, TaiLine::default());
                for _ in 0..2 {
                    shared.renew(&mut known);
                    let steps = shared.steps();
                    assert!(known.1 != line(2) || steps == 1, "a line without its step");
                }
            })
        };
        shared.set(line(1));
        shared.count_step();
        shared.set(line(2));
        worker.join().unwrap();
    });
}

mod wire {
    use ::wire::WireLayout;
    use ::wire::frame::Kind;
    use measure::lda::{Bank, LdaLayout};

    use super::*;
    use ::wire::exchange::Order;
    use contract::counters::WireCounters;
    use contract::wire::handover::{WireControlEnd, WireWorkerEnd, wire_handover};

    fn ends() -> (WireWorkerEnd, WireControlEnd) {
        let bank = Bank {
            rows: 1,
            probability: 1.0,
        };
        let layout = WireLayout {
            segments: 1,
            lda: LdaLayout::new(&[bank]).unwrap(),
            lds: None,
            stash_packets: 1,
            flows: 1,
            references: None,
        };
        wire_handover(&layout, Arc::default(), Arc::new(WireCounters::default()))
    }

    /// Fails where a box is not given back: then no frame comes any more.
    #[test]
    fn frames_come_in_order_and_their_boxes_circulate() {
        loom::model(|| {
            let (mut worker, mut control) = ends();
            let hearing = thread::spawn(move || {
                let heard = (1..=3)
                    .filter(|&n| worker.hear(&[n; 8], Kind::Report, n.into()))
                    .collect();
                (worker, heard)
            });
            let first = control.next_heard();
            let (mut worker, heard): (_, Vec<u8>) = hearing.join().unwrap();
            let rest = std::iter::from_fn(|| control.next_heard());
            let came = first.into_iter().chain(rest).map(|heard| {
                let mut bytes = heard.frame().iter();
                assert!(bytes.all(|&byte| u64::from(byte) == heard.tai_ns));
                heard.tai_ns
            });
            let came: Vec<u64> = came.collect();
            assert_eq!(came, heard.iter().map(|&n| n.into()).collect::<Vec<u64>>());
            assert!(heard.len() >= 2);
            assert!(worker.hear(&[9], Kind::Report, 9), "a box was lost");
        });
    }

    #[test]
    fn what_is_blocked_before_an_order_is_blocked_with_it() {
        loom::model(|| {
            let (mut worker, mut control) = ends();
            let working = thread::spawn(move || {
                if worker.next_order().is_some() {
                    assert!(worker.is_blocked.load(std::sync::atomic::Ordering::Relaxed));
                }
            });
            control.block(true);
            assert!(control.order(Order::End).is_ok());
            working.join().unwrap();
            assert!(control.is_over());
        });
    }
}
