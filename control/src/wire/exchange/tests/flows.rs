//! Flows that arrived, as they are listed and answered for.

use std::collections::HashMap;
use std::num::NonZeroU32;

use measure::observation::SegmentIndex;
use measure::packet::{FlowHash, FlowKey, Hasher};
use measure::rli::{Link, Method, Policy};
use records::answers::{FlowOrder, FlowPage, FlowQuery, FlowScope};
use records::snapshot::{FlowList, FlowName, FlowRecord, Flows, Snapshot, Wire, WireSegment};
use wire::{FlowOutcome, ReferencePlan};

use super::*;
use crate::wire::flows::{Decoding, WireFlowsOf, lists};

fn hasher() -> Hasher {
    Hasher::new([5; 16])
}

/// The flows that the second switch has of five epochs, the first of them known by this key.
fn flows(key: &FlowKey) -> (WireFlowsOf, std::sync::Arc<WireFlowsView>) {
    let mut bench = Bench::alike();
    bench.establish();
    for _ in 0..6 {
        bench.epoch();
    }
    bench.steps(30);
    let view = bench.switches[1].exchange.flows().unwrap();
    let mut named = (*view).clone();
    named.flows[0].flow = hasher().flow_hash(key);
    named.job.flows[0].flow = named.flows[0].flow;
    let view = std::sync::Arc::new(named);
    let segment = |is_incoming| WireSegment {
        from: "trunk:peer".to_owned(),
        to: "trunk".to_owned(),
        class: "all".to_owned(),
        is_incoming,
        ..WireSegment::default()
    };
    let wire = Wire {
        segments: vec![segment(false), segment(true)],
        ..Wire::default()
    };
    let interval_s = EPOCH_NS as f64 / 1e9;
    let of = WireFlowsOf::new(&wire, std::sync::Arc::clone(&view), hasher(), interval_s);
    (of, view)
}

#[test]
fn all_flows_are_listed_by_the_names_that_the_switch_knows() {
    let known = FlowRecord::example(7, 3);
    let (of, view) = flows(known.key().unwrap());
    let mut snapshot = Snapshot::example();
    snapshot.flows = Some(Flows {
        list: FlowList::example(vec![known.clone()]).into(),
        ..Flows::default()
    });
    let inside = snapshot.flows.as_ref().unwrap().list.clone();
    let wires = lists(&[of], std::iter::once(&*inside));
    let page = |query: &FlowQuery| FlowPage::of(&snapshot, &wires, query);
    let all = page(&FlowQuery::default());
    assert_eq!((all.matching, all.flows.len()), (101, 100));
    let [on_wires, in_switch] = [FlowScope::Wires, FlowScope::Switch].map(|scope| {
        page(&FlowQuery {
            scope,
            sort: FlowOrder::TotalPackets,
            limit: 1_000,
            ..FlowQuery::default()
        })
    });
    assert_eq!((on_wires.matching, in_switch.matching), (100, 1));
    let named = page(&FlowQuery {
        contains: Some(known.name.to_string()),
        ingress: Some("trunk:peer".to_owned()),
        ..FlowQuery::default()
    });
    let [flow] = &named.flows[..] else {
        panic!("{named:?}");
    };
    let (outcome, seen) = (&view.flows[0], &view.seen[0]);
    assert_eq!((flow.is_on_wire, flow.egress.as_str()), (true, "trunk"));
    assert_eq!(
        (flow.last.packets, flow.last.bytes),
        (outcome.packets, 100 * outcome.packets)
    );
    assert!(seen.packets > outcome.packets && flow.total.packets == seen.packets);
    assert_eq!(flow.total.bytes, 100 * seen.packets);
    assert_eq!((flow.last.lost_packets, flow.last.mean_ns), (Some(0), None));
    let (estimate, running) = (flow.estimate.unwrap(), flow.running.unwrap());
    assert_eq!((estimate.epoch, flow.last_epoch), (view.epoch, view.epoch));
    assert_eq!(running.packets, seen.packets);
    assert!((running.mean_ns - estimate.mean_ns).abs() < running.bound_ns + 5_000.0);
    // By this end's clock, whatever epochs the sender counts.
    let epochs = (flow.last_epoch - flow.first_epoch + 1) as f64;
    let seen_s = flow.last_seen_unix_s - flow.first_seen_unix_s;
    assert!((seen_s - epochs * 0.2).abs() < 1e-6, "{flow:?}");
    assert!((flow.last_seen_unix_s - 1_800_000_000.0).abs() < 60.0);
    let others = on_wires
        .flows
        .iter()
        .filter(|flow| flow.flow.starts_with('#'));
    assert_eq!(others.count(), 99);
}

#[test]
fn what_is_asked_listed_and_published_of_a_flow_is_one_record() {
    let key = *FlowRecord::example(7, 3).key().unwrap();
    let (of, _) = flows(&key);
    let names = HashMap::from([(hasher().flow_hash(&key), key)]);
    let asked = of.ask(FlowName::Key(key));
    let [asked] = &asked[..] else {
        panic!("{asked:?}");
    };
    let hash = FlowName::Hash(hasher().flow_hash(&key).0);
    let [by_hash] = &of.ask(hash)[..] else {
        panic!("not known by its hash");
    };
    assert_eq!(by_hash.flow.flow, hash.to_string());
    assert_eq!(by_hash.flow.last, asked.flow.last);
    assert!(asked.is_counted && !asked.flow.estimates.is_empty());
    let published = of.published(&names);
    assert_eq!(
        (published.number, &published.top[..]),
        (100, std::slice::from_ref(asked))
    );
    let list = of.list(&names);
    let page = FlowPage::of(
        &Snapshot::default(),
        &[list],
        &FlowQuery {
            contains: Some(key.to_string()),
            ..FlowQuery::default()
        },
    );
    assert_eq!(page.flows, std::slice::from_ref(&asked.flow));
}

#[test]
fn the_largest_flows_are_named() {
    let mut settings = settings(1);
    settings.layout.references = Some(ReferencePlan {
        policy: Policy::Count {
            packets: NonZeroU32::MIN,
        },
        method: Method::Sums,
        link: Link::new(10_000_000_000, 24).unwrap(),
        buffer_packets: 16,
        named_flows: 2,
    });
    let mut decoding = Decoding::new(&settings, ResultMode::Awaited);
    let outcome = |n: u64| FlowOutcome {
        flow: FlowHash(n),
        segment: SegmentIndex(0),
        packets: n % 4,
        bytes: 0,
        lost_max: None,
        stddev_ns: None,
        quantiles_ns: None,
        estimates: [].into_iter().collect(),
        chosen: None,
    };
    let flows: Vec<FlowOutcome> = (0..6).map(outcome).collect();
    decoding.name(&flows[..1]);
    assert_eq!(decoding.named(), [(FlowHash(0), SegmentIndex(0))]);
    decoding.name(&flows);
    let mut named: Vec<u64> = decoding.named().iter().map(|(flow, _)| flow.0).collect();
    named.sort_unstable();
    assert_eq!(named, [2, 3]);
}
