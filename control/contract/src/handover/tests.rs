use super::*;
use measure::packet::FlowHash;
use measure::time::{Epoch, TickRate};

fn ends(flow_slots: usize) -> (WorkerEnd, ControlEnd) {
    let layout = ShardLayout {
        flow_slots,
        ..ShardLayout::new(TickRate::from_hz(1_000_000_000), 1)
    };
    handover(&layout)
}

fn flow(n: u64) -> NewFlow {
    NewFlow {
        id: FlowId::new(FlowHash(n), SegmentIndex(0)),
        slot: Slot(3),
        segment: SegmentIndex(0),
        key: FlowKey::parse(&[]),
    }
}

#[test]
fn three_shards_circulate_and_a_fourth_epoch_is_missed() {
    let (mut worker, mut control) = ends(0);
    let shards: Vec<_> = (0..3).map(|_| worker.take_empty().unwrap()).collect();
    assert!(worker.take_empty().is_none());
    assert_eq!(control.missed_epochs(), 1);
    for (epoch, shard) in (0..).zip(shards) {
        worker.give_sealed(shard.seal(Epoch(epoch)));
    }
    for epoch in 0..3 {
        let taken = control.take_sealed().unwrap();
        assert_eq!(taken.epoch(), Epoch(epoch));
        control.give_back(taken, []);
        assert!(worker.take_empty().is_some());
    }
    assert!(control.take_sealed().is_none());
}

#[test]
fn reports_and_commands_are_bounded_and_in_order() {
    let (mut worker, mut control) = ends(4);
    assert_eq!(
        (0..6)
            .map(|n| worker.report_flow(flow(n)))
            .collect::<Vec<_>>(),
        [true, true, true, true, false, false]
    );
    for n in 0..4 {
        assert_eq!(control.next_report(), Some(flow(n)));
    }
    assert_eq!(control.next_report(), None);
    let commands = (0..5).map(|n| control.command(FlowCommand::Give(Slot(n))));
    assert_eq!(
        commands.collect::<Vec<_>>(),
        [true, true, true, true, false]
    );
    assert_eq!(worker.next_command(), Some(FlowCommand::Give(Slot(0))));
}

#[test]
fn without_flows_there_is_room_for_no_report() {
    let (mut worker, mut control) = ends(0);
    assert!(!worker.report_flow(flow(0)));
    assert!(!control.command(FlowCommand::Give(Slot(0))));
    assert_eq!(worker.next_command(), None);
}

#[test]
fn a_shard_says_which_commands_came_before_it() {
    let (mut worker, mut control) = ends(4);
    let before = worker.take_empty().unwrap();
    assert!(control.command(FlowCommand::Forget(flow(0).id)));
    let during = worker.take_empty().unwrap();
    assert!(worker.next_command().is_some());
    let after = worker.take_empty().unwrap();
    for (epoch, shard) in (0..).zip([before, during, after]) {
        worker.give_sealed(shard.seal(Epoch(epoch)));
    }
    let said: Vec<_> = std::iter::from_fn(|| control.take_sealed())
        .map(|taken| taken.commands_before)
        .collect();
    assert_eq!(said, [0, 0, 1], "the flow may count in the first two");
}

#[test]
fn an_end_is_over_once_the_worker_dropped_its_own_and_all_is_taken() {
    let (mut worker, mut control) = ends(4);
    assert!(worker.report_flow(flow(0)));
    let shard = worker.take_empty().unwrap();
    worker.give_sealed(shard.seal(Epoch(0)));
    assert!(!control.is_over());
    drop(worker);
    assert!(!control.is_over());
    assert!(control.take_sealed().is_some() && !control.is_over());
    assert!(control.next_report().is_some() && control.is_over());
}
