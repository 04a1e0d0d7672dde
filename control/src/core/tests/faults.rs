//! Panics in the control core: each costs its part, and the rest continues.

use super::*;
use crate::contain::contained_in;
use contract::handover::FlowCommand;

/// Two epochs of one worker; the second shows that it is still measured.
fn measure_two(bench: &mut Bench, epoch: u64) -> Arc<Snapshot> {
    for epoch in [epoch, epoch + 1] {
        bench.set_epoch(epoch + 1);
        bench.shard(0, epoch, 100, 0);
        bench.poll();
    }
    let snapshot = bench.core.published().read();
    assert_eq!(snapshot.epoch, Some(epoch + 1));
    let last = snapshot.segments[0].last.as_ref().unwrap();
    assert_eq!((last.epoch, last.counts.sent_packets), (epoch + 1, 100));
    snapshot
}

#[test]
fn upkeep_that_panics_is_tried_again_and_the_rest_is_done() {
    let mut bench = Bench::new(1);
    for n in 1..=3 {
        bench.data_plane.said.lock().panics = true;
        bench.poll();
        assert_eq!(contained_in(Part::Upkeep), n);
    }
    let snapshot = measure_two(&mut bench, 0);
    assert_eq!(snapshot.contained_panics, 3);
}

#[test]
fn a_change_that_panics_is_refused() {
    let mut bench = Bench::new(1);
    bench.poll();
    let (change, _ends) = change(&bench.config, 1, 2);
    bench.event(Event::Change(Box::new(change)));
    bench.data_plane.said.lock().arms_upkeep = true;
    bench.poll();
    assert_eq!(bench.answers(), [Err(ChangeError::Fault)]);
}

#[test]
fn a_snapshot_that_panics_half_way_leaves_names_and_the_next_is_whole() {
    let mut bench = Bench::new(1);
    let before = bench.poll();
    bench.data_plane.panics_at_port.store(2, Ordering::Relaxed);
    bench.shard(0, 0, 100, 0);
    let after = bench.poll();
    assert_eq!(contained_in(Part::Publish), 1);
    assert_eq!(
        after.epoch, None,
        "the last one that was whole is still shown"
    );
    let snapshot = measure_two(&mut bench, 1);
    let names =
        |of: &Snapshot| -> Vec<String> { of.ports.iter().map(|p| p.name.clone()).collect() };
    assert_eq!(names(&snapshot), names(&before));
    assert_eq!(snapshot.ports[1].classes, before.ports[1].classes);
    assert_eq!(snapshot.segments[0].total.counts.sent_packets, 300);
}

#[test]
fn an_estimate_that_panics_costs_its_segment_the_epoch() {
    let mut bench = Bench::new(1);
    inject::arm(Point::In(Part::Estimate), 1);
    bench.shard(0, 0, 100, 0);
    let snapshot = bench.poll();
    let internal = |of: &Snapshot, n: usize| of.segments[n].total.unusable_epochs.internal;
    assert_eq!(snapshot.epoch, Some(0));
    assert_eq!((internal(&snapshot, 0), internal(&snapshot, 1)), (1, 0));
    let snapshot = measure_two(&mut bench, 1);
    assert_eq!((internal(&snapshot, 0), internal(&snapshot, 1)), (1, 0));
}

#[test]
fn an_epoch_whose_shard_panics_is_unusable_and_the_worker_keeps_its_shards() {
    let mut bench = Bench::new(1);
    measure_two(&mut bench, 0);
    for epoch in 2..2 + 2 * SHARDS_PER_WORKER as u64 {
        inject::arm(Point::In(Part::Epoch), 1);
        bench.shard(0, epoch, 100, 0);
        bench.poll();
    }
    let snapshot = measure_two(&mut bench, 20);
    let unusable = snapshot.segments[0].total.unusable_epochs;
    assert_eq!(unusable.internal, 2 * SHARDS_PER_WORKER as u64);
    assert_eq!(snapshot.segments[0].total.counts.sent_packets, 400);
}

#[test]
fn flows_begin_anew_after_a_panic_and_workers_get_their_slots_back() {
    let mut bench = Bench::with(1, |config| {
        config.measurement.flows = Some(Flows {
            slots: 16,
            select: FlowSelection::All,
            idle_s: 1,
        });
    });
    let new = NewFlow {
        id: FlowId::new(FlowHash(1), SegmentIndex(0)),
        slot: Slot(3),
        segment: SegmentIndex(0),
        key: FlowKey::parse(&[7; 14]),
    };
    let tracked = |bench: &Bench| {
        let snapshot = bench.core.published().read();
        snapshot.flows.as_ref().unwrap().totals.tracked
    };
    assert!(bench.ends[0].report_flow(new));
    measure_two(&mut bench, 0);
    assert_eq!(tracked(&bench), 1);

    inject::arm(Point::In(Part::Flows), 1);
    bench.shard(0, 2, 100, 0);
    bench.poll();
    assert_eq!(contained_in(Part::Flows), 1);
    let end = &mut bench.ends[0];
    assert_eq!(end.next_command(), Some(FlowCommand::Forget(new.id)));
    measure_two(&mut bench, 3);
    assert_eq!(tracked(&bench), 0);
    let end = &mut bench.ends[0];
    assert_eq!(end.next_command(), Some(FlowCommand::Give(new.slot)));
    assert_eq!(end.next_command(), None);

    assert!(end.report_flow(new));
    let snapshot = measure_two(&mut bench, 5);
    assert_eq!(tracked(&bench), 1);
    // The epoch whose shard was not read to its end gives no numbers.
    let unusable = snapshot.segments[0].total.unusable_epochs;
    assert_eq!(unusable.missed_shard, 1);
}

#[test]
fn no_panic_of_any_part_ends_the_control_core() {
    let mut bench = Bench::new(1);
    for part in Part::ALL {
        inject::arm(Point::In(part), 3);
    }
    for epoch in 0..20 {
        bench.set_epoch(epoch + 1);
        if let Some(shard) = bench.ends[0].take_empty() {
            bench.ends[0].give_sealed(shard.seal(Epoch(epoch)));
        }
        bench.poll();
    }
    for part in [
        Part::Core,
        Part::Upkeep,
        Part::Epoch,
        Part::Estimate,
        Part::Flows,
        Part::Publish,
    ] {
        assert_eq!(contained_in(part), 3, "{part:?}");
    }
    measure_two(&mut bench, 20);
}
