use std::sync::Arc;

use records::snapshot::Flows;

use super::*;
use crate::encoder::Encoder;
use crate::reader::{Collector, Values, number};
use contract::config::Ipfix;

const OWN: u32 = 32_473;

/// Reads the composed messages; stops after this number of records.
struct Read {
    encoder: Encoder,
    left: usize,
    collector: Collector,
}

impl Sink for Read {
    fn take(&mut self, record: &Record) -> ControlFlow<()> {
        if self.left == 0 {
            return ControlFlow::Break(());
        }
        self.left -= 1;
        if let Some(message) = self.encoder.push(record, 0) {
            self.collector.read(&message.bytes);
        }
        Continue(())
    }
}

/// The records of an export, up to a maximum.
fn exported(composer: &mut Composer, snapshot: &Snapshot, left: usize) -> Vec<Values> {
    let mut read = Read {
        encoder: Encoder::new(&Ipfix::to("")),
        left,
        collector: Collector::default(),
    };
    let _ = composer.export(snapshot, &mut read);
    if let Some(message) = read.encoder.finish(0) {
        read.collector.read(&message.bytes);
    }
    read.collector.records
}

fn all(composer: &mut Composer, snapshot: &Snapshot) -> Vec<Values> {
    exported(composer, snapshot, usize::MAX)
}

/// A text without the zeros behind it.
fn text(value: &[u8]) -> String {
    let text = std::str::from_utf8(value).unwrap();
    text.trim_end_matches('\0').to_owned()
}

/// Those of flows: of source port and packets.
fn flows(records: &[Values]) -> Vec<(u64, u64)> {
    let flow = |record| Some((number(record, 0, 7)?, number(record, 0, 2)?));
    records.iter().filter_map(flow).collect()
}

fn segments(records: &[Values]) -> Vec<&Values> {
    let is_segment = |record: &&Values| number(record, OWN, 2).is_some();
    records.iter().filter(is_segment).collect()
}

fn snapshot(list: Vec<FlowRecord>, ended: Vec<FlowRecord>) -> Snapshot {
    Snapshot {
        flows: Some(Flows {
            list: Arc::new(FlowList::example(list)),
            ended: Arc::new(FlowList::example(ended)),
            ..Flows::default()
        }),
        ..Snapshot::example()
    }
}

#[test]
fn a_flow_of_one_epoch_has_the_figures_of_that_epoch() {
    let snapshot = snapshot(vec![FlowRecord::example(3, 5)], Vec::new());
    let records = all(&mut Composer::default(), &snapshot);
    let flow = records.iter().find(|record| number(record, 0, 7).is_some());
    let flow = flow.unwrap();
    let of = |element| number(flow, 0, element);
    assert_eq!(flow[&(0, 8)], [10, 0, 0, 1]);
    assert_eq!((of(7), of(11), of(4)), (Some(1_027), Some(80), Some(6)));
    assert_eq!((of(1), of(2), of(133)), (Some(500), Some(5), Some(3)));
    let end_ms = |epoch| 1e3 * snapshot.epoch_start_unix_s(epoch);
    assert_eq!(of(152), Some(crate::encoder::rounded(end_ms(81))));
    assert_eq!(of(153), Some(crate::encoder::rounded(end_ms(82))));
    // 250 ns are no microsecond, all five are one.
    assert_eq!((of(530), of(533)), (Some(0), Some(1)));
    assert_eq!((of(531), of(532)), (None, None));
    let own = |element| number(flow, OWN, element);
    assert_eq!(
        (own(4), own(5), own(6), own(7)),
        (Some(81), Some(5), Some(250), Some(10))
    );
    // By names: the second port in, the first out.
    let name = |number_of: u16| {
        let mut names = records
            .iter()
            .filter(|record| record.contains_key(&(0, 82)));
        let found = names.find(|record| record[&(0, 10)] == flow[&(0, number_of)]);
        text(&found.unwrap()[&(0, 82)])
    };
    assert_eq!((name(10), name(14)), ("west".to_owned(), "east".to_owned()));
}

#[test]
fn counts_add_up_over_missed_epochs_breaks_and_ends() {
    let mut composer = Composer::default();
    let mut first = FlowRecord::example(0, 5);
    let mut second = FlowRecord::example(2, 7);
    let before = snapshot(vec![first.clone(), second.clone()], Vec::new());
    assert_eq!(
        flows(&all(&mut composer, &before)),
        [(1_024, 5), (1_026, 7)]
    );
    assert_eq!(flows(&all(&mut composer, &before)), []);
    // One ends after two more epochs, the other continues, and a third has the name of the first.
    for flow in [&mut first, &mut second] {
        flow.total.packets += 20;
        flow.last.packets = 8;
        flow.last_epoch = 83;
    }
    let mut third = first.clone();
    (third.first_epoch, third.total) = (83, third.last);
    let mut after = snapshot(vec![second, third], vec![first]);
    after.epoch = Some(83);
    // Whatever breaks off, nothing is lost and nothing comes twice.
    let mut given = Vec::new();
    for left in 0..4 {
        given.extend(flows(&exported(&mut composer, &after, left)));
    }
    assert_eq!(composer.exported, Some(83));
    given.sort_unstable();
    assert_eq!(given, [(1_024, 8), (1_024, 20), (1_026, 20)]);
}

#[test]
fn a_record_over_several_epochs_has_their_mean_and_deviation_and_no_percentiles() {
    let mut composer = Composer::default();
    let mut before = snapshot(Vec::new(), Vec::new());
    let segment = &mut before.segments[0];
    let last = segment.last.as_mut().unwrap();
    last.counts.received_packets = 4;
    segment.total.counts.sent_packets = 4;
    segment.total.buckets = vec![records::snapshot::DelayBucket {
        le_ns: 8,
        packets: 4,
    }];
    segment.total.delay_sum_s = 4e-6;
    segment.total.delay_squared_sum_s2 = 4e-12;
    let of_one = all(&mut composer, &before);
    let of_one = segments(&of_one)[0];
    let stamped = before.segments[0].last.as_ref().unwrap().stamped.unwrap();
    let wanted = [
        (8, stamped.min_ns),
        (9, stamped.max_ns),
        (10, stamped.p50_ns),
        (14, stamped.p9999_ns),
    ];
    for (element, ns) in wanted {
        assert_eq!(
            number(of_one, OWN, element),
            Some(crate::encoder::rounded(ns))
        );
    }
    // Two packets of 2 us and two of 4 us.
    let mut after = before.clone();
    after.epoch = before.epoch.map(|epoch| epoch + 2);
    let segment = &mut after.segments[0];
    segment.total.counts.sent_packets += 5;
    segment.total.counts.dropped_packets += 1;
    segment.total.buckets[0].packets += 4;
    segment.total.delay_sum_s += 12e-6;
    segment.total.delay_squared_sum_s2 += 40e-12;
    let over_two = all(&mut composer, &after);
    let over_two = segments(&over_two)[0];
    let own = |element| number(over_two, OWN, element);
    assert_eq!(
        (own(5), own(6), own(7)),
        (Some(4), Some(3_000), Some(1_000))
    );
    assert_eq!((own(8), own(9), own(10)), (None, None, None));
    let of = |element| number(over_two, 0, element);
    assert_eq!(
        (of(2), of(133), of(530), of(533)),
        (Some(5), Some(1), Some(3), Some(12))
    );
    let [start_ms, end_ms] = [152, 153].map(|element| of(element).unwrap());
    assert_eq!(end_ms - start_ms, 2 * u64::from(after.interval_ms));
}

#[test]
fn types_and_names_are_described_as_often_as_wanted() {
    let mut composer = Composer::default();
    all(&mut composer, &Snapshot::example());
    for _ in 0..2 {
        let mut read = Read {
            encoder: Encoder::new(&Ipfix::to("")),
            left: usize::MAX,
            collector: Collector::default(),
        };
        assert!(composer.describe(OWN, &mut read).is_continue());
        read.collector.read(&read.encoder.finish(0).unwrap().bytes);
        let records = &read.collector.records;
        let mean = records
            .iter()
            .find(|record| number(record, 0, 303) == Some(6));
        let mean = mean.unwrap();
        let of = |element| number(mean, 0, element);
        assert_eq!(
            (of(346), of(339), of(344), of(345)),
            (Some(OWN.into()), Some(4), Some(1), Some(8))
        );
        assert_eq!(text(&mean[&(0, 341)]), "vernierDelayMean");
        let has = |element, name: &str| {
            let mut values = records.iter().filter_map(|record| record.get(&element));
            values.any(|value| text(value) == name)
        };
        assert!(has((0, 82), "east") && has((0, 82), "west") && has((OWN, 3), "all"));
    }
}
