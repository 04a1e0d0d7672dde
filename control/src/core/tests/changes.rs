//! What is measured, and ports, change while packets flow.

use super::*;

#[test]
fn a_change_of_sizes_keeps_totals_and_loses_no_epoch() {
    let mut bench = Bench::new(2);
    bench.set_epoch(4);
    for worker in 0..2 {
        bench.shard(worker, 4, 10, 0);
    }
    assert_eq!(bench.poll().generation, 0);
    let mut config = bench.config.clone();
    config.measurement.lds = Some(Lds::default());
    let (change, mut ends) = change(&config, 1, 6);
    let status = bench.status();
    assert_eq!(
        (status.epoch, status.generation),
        (Epoch(4), GenerationId(0))
    );
    assert_eq!(bench.change(change).generation, 1);
    assert!(bench.status().is_busy);
    bench.set_epoch(7);
    for (worker, end) in ends.iter_mut().enumerate() {
        bench.shard(worker, 5, 10, 0);
        give(end, worker, 6, 10, 0);
    }
    bench.ends.clear();
    let snapshot = bench.poll();
    let total = &snapshot.segments[0].total;
    assert_eq!(total.counts.sent_packets, 60);
    assert_eq!(
        total.unusable_epochs,
        records::snapshot::UnusableEpochs::default()
    );
    assert_eq!(snapshot.segments[0].last.as_ref().unwrap().epoch, 6);
    let sketches: Vec<_> = snapshot.sketches.iter().map(|s| s.port.as_str()).collect();
    assert_eq!(sketches, ["east", "west"]);
    let sketch = &snapshot.sketches[1];
    assert_eq!((sketch.epoch, snapshot.sketches[0].filled_cells), (6, 0));
    assert!(sketch.filled_cells > 0 && sketch.filled_cells == sketch.usable_cells);
    assert!(
        sketch.error_ratio.unwrap().abs() < 1e-12,
        "nothing was lost"
    );
    assert!(!bench.status().is_busy, "the first generation is over");
}

#[test]
fn an_epoch_that_workers_measured_in_two_generations_is_marked() {
    let mut bench = Bench::new(2);
    let (change, mut ends) = change(&bench.config, 1, 1);
    bench.change(change);
    bench.shard(0, 0, 10, 0);
    bench.shard(1, 0, 10, 0);
    // The second worker comes an epoch late.
    give(&mut ends[0], 0, 1, 10, 0);
    bench.shard(1, 1, 10, 0);
    give(&mut ends[0], 0, 2, 10, 0);
    give(&mut ends[1], 1, 2, 10, 0);
    let snapshot = bench.poll();
    let segment = &snapshot.segments[0];
    assert_eq!(segment.total.unusable_epochs.generation, 1);
    assert_eq!(segment.total.counts.sent_packets, 40);
    assert_eq!(segment.last.as_ref().unwrap().epoch, 2);
}

#[test]
fn measurement_goes_off_and_on_and_no_epoch_between_is_missed() {
    let mut bench = Bench::new(1);
    bench.shard(0, 0, 10, 0);
    bench.poll();
    let mut off = bench.config.clone();
    off.measurement.enabled = false;
    let (change_off, _) = change(&off, 1, 2);
    bench.shard(0, 1, 10, 0);
    bench.change(change_off);
    bench.ends.clear();
    let snapshot = bench.poll();
    bench.core.publish();
    assert!(snapshot.measuring == off.measurement.enabled);
    let (change_on, mut ends) = change(&bench.config, 2, 50);
    bench.change(change_on);
    give(&mut ends[0], 0, 51, 10, 0);
    let total = &bench.poll().segments[0].total;
    assert_eq!(total.unusable_epochs.missed_shard, 1, "epoch 50 alone");
    assert_eq!(
        total.counts.sent_packets, 10,
        "without measurement there are no segments to be kept"
    );
}

#[test]
fn segments_that_come_and_go_are_told_apart_by_name() {
    let mut bench = Bench::new(1);
    bench.shard(0, 0, 10, 0);
    bench.poll();
    let mut one_way = bench.config.clone();
    let (east, west) = (one_way.ports[0].name.clone(), one_way.ports[1].name.clone());
    one_way.measurement.segments = Some(vec![contract::config::SegmentPorts {
        from: west.clone(),
        to: east.clone(),
    }]);
    let (change, mut ends) = change(&one_way, 1, 1);
    bench.change(change);
    bench.ends.clear();
    give(&mut ends[0], 0, 1, 7, 0);
    let snapshot = bench.poll();
    assert_eq!(snapshot.segments.len(), 1);
    let segment = &snapshot.segments[0];
    assert_eq!((&segment.ingress, &segment.egress), (&west, &east));
    assert_eq!(
        segment.total.counts.sent_packets, 7,
        "not those of the other way"
    );
}

#[test]
fn a_link_that_flaps_makes_epochs_unusable_and_loses_no_count() {
    let mut bench = Bench::new(1);
    bench.set_epoch(5);
    bench.event(Event::Disturbed { port: PortIndex(1) });
    bench.poll();
    for epoch in 3..8 {
        bench.shard(0, epoch, 100, 0);
        bench.poll();
    }
    let snapshot = bench.poll();
    let segment = &snapshot.segments[0];
    assert_eq!(segment.total.unusable_epochs.link, 2, "epochs 4 and 5");
    assert_eq!(segment.total.counts.sent_packets, 500);
    assert_eq!(segment.total.estimated_epochs, 3);
    assert_eq!(segment.last.as_ref().unwrap().epoch, 7);
    bench.event(Event::Disturbed {
        port: PortIndex(99),
    });
    bench.poll();
}

#[test]
fn changes_that_do_not_fit_are_refused_and_change_nothing() {
    let mut bench = Bench::new(2);
    let mut other = bench.config.clone();
    other.measurement.enabled = false;
    let (stale, _) = change(&bench.config, 0, 2);
    let (mut many, _) = change(&bench.config, 1, 2);
    many.ends.push(None);
    let (mut mixed, _) = change(&bench.config, 1, 2);
    mixed.config = other;
    let (good, _ends) = change(&bench.config, 3, 2);
    let (early, _) = change(&bench.config, 4, 2);
    for change in [stale, many, mixed] {
        bench.event(Event::Change(Box::new(change)));
    }
    assert_eq!(bench.poll().generation, 0);
    let refused = [
        ChangeError::Stale {
            number: GenerationId(0),
            present: GenerationId(0),
        },
        ChangeError::Ends {
            ends: 3,
            workers: 2,
        },
        ChangeError::Segments {
            configured: 0,
            laid_out: 2,
        },
    ];
    assert_eq!(bench.answers(), refused.map(Err));
    for change in [good, early] {
        bench.event(Event::Change(Box::new(change)));
    }
    assert_eq!(bench.poll().generation, 3);
    let busy = ChangeError::Busy {
        number: GenerationId(0),
    };
    assert_eq!(bench.answers(), [Ok(()), Err(busy)]);
}

#[test]
fn a_port_that_is_taken_away_is_not_shown_and_has_its_counts_when_it_comes_back() {
    let mut bench = Bench::with(1, |config| config.measurement.enabled = false);
    bench.counters[0].ports[1].rx_packets.add(7);
    let shown = |bench: &mut Bench, number, config: &Config| {
        let (change, _) = change(config, number, 2);
        bench.change(change);
        let snapshot = bench.poll();
        let ports = snapshot.ports.iter();
        ports
            .map(|port| (port.name.clone(), port.counts.rx_packets))
            .collect::<Vec<_>>()
    };
    let (whole, mut less) = (bench.config.clone(), bench.config.clone());
    less.ports[0].device = contract::config::Device::Absent;
    assert_eq!(shown(&mut bench, 1, &less), [("west".to_owned(), 7)]);
    let both = [("east".to_owned(), 0), ("west".to_owned(), 7)];
    assert_eq!(shown(&mut bench, 2, &whole), both);
}
