use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::config::{Class, Flows, HostConfig, Lda, QueueService, SegmentPorts};

/// A bridge over NICs with these receive queues.
fn switch(rx_queues: &[Option<u16>], workers: usize) -> Config {
    let mut config = Config::demo().unwrap();
    let port = config.ports[0].clone();
    let ports = rx_queues.iter().enumerate().map(|(n, rx_queues)| Port {
        name: format!("p{n}"),
        device: Device::Dpdk(format!("0000:{n:02x}:00.0")),
        rx_queues: *rx_queues,
        egress: super::super::Egress::default(),
        ..port.clone()
    });
    config.ports = ports.collect();
    let worker = Worker {
        core: None,
        idle: Idle::default(),
        queues: None,
    };
    config.workers = vec![worker; workers];
    config.forwarding = Forwarding::Bridge {
        ageing_s: 300,
        fdb_entries: 16,
        stations: Vec::new(),
        flood_limit_pps: 1,
    };
    config
}

fn classes(named: &[(&str, u32)]) -> Vec<Class> {
    let class = |&(name, lds_weight): &(&str, u32)| Class {
        name: name.to_owned(),
        lds_weight,
    };
    named.iter().map(class).collect()
}

fn pair(from: &str, to: &str) -> Vec<SegmentPorts> {
    let [from, to] = [from, to].map(str::to_owned);
    vec![SegmentPorts { from, to }]
}

fn rli(method: RliMethod) -> Rli {
    let policy = RliPolicy::Count { packets: 100 };
    Rli { policy, method }
}

fn queue(classes: &[&str]) -> Queue {
    Queue {
        classes: classes.iter().map(ToString::to_string).collect(),
        service: QueueService::default(),
        packets: 16,
        bytes: None,
        red: None,
    }
}

#[test]
fn a_port_has_a_queue_for_every_worker_unless_it_says_otherwise() {
    let mut config = switch(&[None, Some(5), None], 3);
    config.ports[2].device = Device::Sink;
    let rx_queues: Vec<_> = (0..4).map(|port| config.rx_queues(port)).collect();
    assert_eq!(rx_queues, [3, 5, 1, 0]);
    let assignment = [
        vec![(0, 0), (1, 0), (1, 3), (2, 0)],
        vec![(0, 1), (1, 1), (1, 4)],
        vec![(0, 2), (1, 2)],
    ];
    assert_eq!(config.assignment(), assignment);
}

#[test]
fn ports_with_few_queues_are_dealt_out_in_turn() {
    let config = switch(&[Some(1); 5], 2);
    let assignment = [vec![(0, 0), (2, 0), (4, 0)], vec![(1, 0), (3, 0)]];
    assert_eq!(config.assignment(), assignment);
    let config = switch(&[Some(2), Some(4), Some(2)], 4);
    let assignment = [
        vec![(0, 0), (1, 0)],
        vec![(0, 1), (1, 1)],
        vec![(1, 2), (2, 0)],
        vec![(1, 3), (2, 1)],
    ];
    assert_eq!(config.assignment(), assignment);
}

#[test]
fn workers_serve_what_they_name() {
    let mut config = switch(&[None, None], 2);
    config.workers[0].queues = Some(vec![("p1".to_owned(), 1)]);
    config.workers[1].queues = Some(vec![("p0".to_owned(), 0), ("p1".to_owned(), 0)]);
    assert_eq!((config.rx_queues(0), config.rx_queues(1)), (1, 2));
    assert_eq!(config.assignment(), [vec![(1, 1)], vec![(0, 0), (1, 0)]]);
    config.ports[0].egress.capacity_bps = Some(1_000_000);
    assert_eq!((config.owner(0), config.owner(1)), (Some(1), None));
}

#[test]
fn ports_are_owned_where_order_matters() {
    let plain = switch(&[Some(1); 3], 2);
    let changes: [fn(&mut Config); 5] = [
        |c| c.ports[1].egress.capacity_bps = Some(1_000_000),
        |c| c.ports[1].egress.queues = vec![queue(&["all"])],
        |c| c.ports[1].egress.max_residency_us = Some(1_000),
        |c| c.ports[1].egress.owner = Some(1),
        |c| {
            c.measurement.rli = Some(rli(RliMethod::AnchoredSums));
            c.measurement.segments = Some(pair("p0", "p1"));
        },
    ];
    assert_eq!(plain.owner(1), None);
    for change in changes {
        let mut config = plain.clone();
        change(&mut config);
        assert_eq!((config.owner(0), config.owner(1)), (None, Some(1)));
        config.workers.truncate(1);
        assert_eq!(config.owner(1), None);
    }
    let mut named = plain;
    named.ports[2].egress.owner = Some(1);
    assert_eq!(named.owner(2), Some(1), "not the worker that serves it");
}

#[test]
fn classes_find_their_queue() {
    let mut config = switch(&[None, None], 1);
    assert_eq!(config.queue_of_class(0), [0; 8]);
    config.classes = classes(&[("voice", 1), ("bulk", 1), ("rest", 1)]);
    config.ports[0].egress.queues = vec![queue(&["bulk"]), queue(&["rest", "voice"])];
    assert_eq!(config.queue_of_class(0), [1, 0, 1, 0, 0, 0, 0, 0]);
    assert_eq!(config.queue_of_class(1), [0; 8]);
}

#[test]
fn workers_are_as_many_as_ports_and_cpus_allow() {
    let number = |ports, cpus| {
        let mut config = switch(&vec![None; ports], 0);
        config.ports[0].device = Device::Sink;
        config.settle_workers(cpus);
        config.workers.len()
    };
    assert_eq!(number(3, 1), 1);
    assert_eq!(number(3, 2), 1);
    assert_eq!(number(3, 8), 2);
    assert_eq!(number(1, 8), 1);
    let mut named = switch(&[None; 3], 2);
    named.settle_workers(64);
    assert_eq!(named.workers.len(), 2);
}

#[test]
fn others_stay_where_they_are_when_a_port_goes() {
    let running = switch(&[Some(1), Some(3), Some(2), Some(1)], 3);
    let whole = running.assignment();
    for gone in 0..4 {
        let mut config = running.clone();
        config.ports.remove(gone);
        let config = config.in_place_of(&running).unwrap();
        let mut left = whole.clone();
        for queues in &mut left {
            queues.retain(|(port, _)| *port != gone);
        }
        assert_eq!(config.assignment(), left);
        assert_eq!((config.rx_queues(gone), config.owner(gone)), (0, None));
        assert!(
            config
                .segments()
                .iter()
                .all(|s| s.ingress != gone && s.egress != gone)
        );
    }
}

proptest! {
    #[test]
    fn every_queue_is_served_by_one_worker(
        rx_queues in prop::collection::vec(prop::option::of(1_u16..20), 1..20),
        workers in 1_usize..12,
    ) {
        let config = switch(&rx_queues, workers);
        let assignment = config.assignment();
        prop_assert_eq!(assignment.len(), workers);
        let served: Vec<_> = assignment.iter().flatten().copied().collect();
        let distinct: HashSet<_> = served.iter().copied().collect();
        prop_assert_eq!(served.len(), distinct.len());
        let all = (0..rx_queues.len())
            .flat_map(|port| (0..config.rx_queues(port)).map(move |queue| (port, queue)));
        prop_assert_eq!(distinct, all.collect());
        // The numbers of a port's queues at any two workers differ by at most one.
        for port in 0..rx_queues.len() {
            let number = |queues: &Vec<(usize, u16)>| queues.iter().filter(|q| q.0 == port).count();
            let numbers: Vec<_> = assignment.iter().map(number).collect();
            prop_assert!(numbers.iter().max() <= numbers.iter().min().map(|n| n + 1).as_ref());
        }
    }
}

fn layout(config: &Config) -> ShardLayout {
    config
        .shard_layout(TickRate::from_hz(1_000_000_000))
        .unwrap()
}

#[test]
fn the_demo_keeps_an_lda_sketches_and_flows() {
    let layout = layout(&Config::demo().unwrap());
    assert_eq!(layout.segments(), 2);
    assert_eq!(layout.segment.lda.map(|lda| lda.cells()), Some(1_024));
    assert_eq!(layout.lds.map(|lds| lds.cells()), Some(12_000));
    assert_eq!(layout.sketches, 2);
    assert_eq!((layout.flow_slots, layout.flow_estimates), (4_096, true));
}

#[test]
fn sketches_follow_egress_ports_and_weights_follow_classes() {
    let mut config = Config::demo().unwrap();
    config.classes = classes(&[("gold", 25), ("rest", 1)]);
    config.measurement.lda = None;
    config.measurement.lds = Some(Lds::default());
    config.measurement.flows = Some(Flows::default());
    config.measurement.rli = Some(rli(RliMethod::Auto));
    let both = layout(&config);
    assert_eq!(config.resolve().sketch_ports, [0, 1]);
    // east>west gold and rest, west>east gold and rest.
    assert_eq!((both.sketches, &both.sketch_of[..]), (2, &[1, 1, 0, 0][..]));
    assert_eq!((both.flow_slots, both.flow_estimates), (65_536, true));
    let lds = both.lds.unwrap();
    assert_eq!((lds.rows(), lds.columns()), (3, 23_333));
    let plain = config.measurement.lds.as_ref().unwrap().layout().unwrap();
    assert_eq!(lds, plain.with_weights(&[25, 1, 25, 1]).unwrap());

    config.measurement.segments = Some(pair("west", "east"));
    let one = layout(&config);
    assert_eq!((one.sketches, &one.sketch_of[..]), (1, &[0, 0][..]));
}

#[test]
fn a_host_s_segments_are_in_the_order_of_egress_ports() {
    let mut host = HostConfig {
        classes: classes(&[("gold", 25), ("rest", 1)]),
        ..HostConfig::default()
    };
    host.measurement.lds = Some(Lds::default());
    let ports = [("a", true), ("gone", false), ("b", true)];
    let config = host.config(&ports.map(|(name, there)| (name.to_owned(), there)));
    let segments = config.segments();
    let order: Vec<_> = segments
        .iter()
        .map(|s| (s.egress, s.ingress, s.class))
        .collect();
    let expected = [
        (0, 0, 0),
        (0, 0, 1),
        (0, 2, 0),
        (0, 2, 1),
        (2, 0, 0),
        (2, 0, 1),
        (2, 2, 0),
        (2, 2, 1),
    ];
    assert_eq!(order, expected);
    let of: Vec<_> = (0..4)
        .map(|port| config.resolve().segments_of_egress(port))
        .collect();
    assert_eq!(of, [0..4, 0..0, 4..8, 0..0]);
    let whole = layout(&config);
    assert_eq!(
        (whole.sketches, &whole.sketch_of[..]),
        (2, &[0, 0, 0, 0, 1, 1, 1, 1][..])
    );
    let part = whole.part(config.resolve().segments_of_egress(2));
    assert_eq!(
        (part.first_segment, part.sketches, &part.sketch_of[..]),
        (4, 1, &[0; 4][..])
    );
    let (weights, index) = (part.lds.unwrap(), measure::observation::SegmentIndex(6));
    assert_eq!(weights.weight(index), 25, "they go by the index among all");
    assert_eq!(part.flow_slots, 16_384);
}

#[test]
fn nothing_is_kept_when_measurement_is_off() {
    let mut config = Config::demo().unwrap();
    config.measurement.enabled = false;
    config.measurement.flows = Some(Flows::default());
    assert_eq!(layout(&config).size_bytes().total(), 0);
}

#[test]
fn sizes_out_of_range_name_their_key() {
    let mut config = Config::demo().unwrap();
    config.measurement.lda = Some(Lda { banks: Vec::new() });
    let error = config.shard_layout(TickRate::from_hz(1)).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("measurement.lda.banks: an LDA has 1 to"),
        "{error}"
    );
}
