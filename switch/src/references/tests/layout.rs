//! The streams that a configuration requires.

use contract::config::Config;
use contract::ids::WorkerIndex;
use measure::rli::Method;
use measure::time::TickRate;

use super::*;

fn config(measurement: &str, egress: &str, workers: &str) -> Config {
    let json = format!(
        r#"{{
            "ports": [
                {{ "name": "a", "device": "0000:01:00.0", "egress": {egress} }},
                {{ "name": "b", "device": "0000:01:00.1", "egress": {egress} }}
            ],
            "forwarding": {{ "mode": "patch", "pairs": [["a", "b"]] }},
            "workers": {workers},
            "measurement": {measurement}
        }}"#
    );
    serde_json::from_str(&json).unwrap()
}

fn layout_of(config: &Config, worker: usize) -> Option<ReferencesLayout> {
    ReferencesLayout::from_config(
        config,
        WorkerIndex::new(worker),
        TickRate::from_hz(GHZ),
        GenerationId(1),
    )
}

const COUNT: &str = r#"{ "rli": { "policy": { "kind": "count", "packets": 100 } } }"#;

#[test]
fn none_unless_asked_for() {
    let config = config("{}", "{}", "[{}]");
    assert_eq!(layout_of(&config, 0), None);
}

#[test]
fn one_worker_sends_all() {
    let config = config(COUNT, "{}", "[{}]");
    let layout = layout_of(&config, 0).unwrap();
    assert_eq!(layout.policy, one_in(100));
    let of: Vec<_> = layout
        .streams
        .iter()
        .map(|of| (of.segment.0, of.port.0))
        .collect();
    assert_eq!(of, [(0, 1), (1, 0)]);
    assert!(layout.streams.iter().all(|of| of.method == Method::Sums));
    assert!(!layout.keeps_flows);
    assert!(References::new(&layout).is_ok());
}

#[test]
fn the_owner_of_a_port_has_its_streams() {
    let config = config(COUNT, r#"{ "capacity_bps": 1000000000 }"#, "[{}, {}]");
    let mut owned: Vec<_> = (0..2)
        .flat_map(|worker| layout_of(&config, worker).unwrap().streams)
        .map(|of| of.segment.0)
        .collect();
    owned.sort_unstable();
    assert_eq!(owned, [0, 1]);
}

#[test]
fn anchors_need_stamps_and_the_whole_port() {
    let method = |method: &str, stamps: &str, egress: &str| {
        let measurement = format!(
            r#"{{ "stamps": "{stamps}", "rli": {{
                "policy": {{ "kind": "count", "packets": 100 }}, "method": "{method}" }} }}"#
        );
        let config = config(&measurement, egress, "[{}]");
        layout_of(&config, 0).unwrap().streams[0].method
    };
    let paced = r#"{ "capacity_bps": 1000000000 }"#;
    assert_eq!(method("auto", "packet", paced), Method::AnchoredSums);
    assert_eq!(method("auto", "burst", paced), Method::Sums);
    assert_eq!(method("auto", "packet", "{}"), Method::Sums);
    assert_eq!(method("linear", "packet", paced), Method::Linear);
    assert_eq!(method("left", "packet", paced), Method::Left);
}

#[test]
fn buffers_hold_two_intervals_and_a_burst() {
    let config = config(COUNT, "{}", "[{}]");
    assert_eq!(layout_of(&config, 0).unwrap().buffer_packets, 264);
    let memory = contract::config::memory::Memory::of(&config);
    let rli = memory.items().iter().find(|item| item.purpose == "RLI");
    assert_eq!(rli.unwrap().copies, 2);
}
