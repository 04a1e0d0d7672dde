//! Exemplars: slow flows that buckets of delays name, as a real Prometheus keeps them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::prometheus::Prometheus;
use crate::support::Daemon;

#[test]
fn prometheus_keeps_the_flows_that_buckets_name() {
    let mut switch = Daemon::start(json!({
        "ports": [
            { "name": "east", "device": "generate:flows=20,rate=20000" },
            { "name": "west", "device": "sink" },
        ],
        "forwarding": { "mode": "patch", "pairs": [["east", "west"]] },
        "measurement": { "interval_ms": 500, "flows": {} },
    }));
    let options = ["--enable-feature=exemplar-storage"];
    let Some(prometheus) = Prometheus::start_of(&[switch.address], &options) else {
        return;
    };
    let series = switch.wait_for_some(|_| {
        let kept = prometheus.exemplars("vernier_segment_delay_seconds_bucket")?;
        (!kept.as_array()?.is_empty()).then_some(kept)
    });
    let flows = switch.json("/api/v1/flows?limit=100").unwrap();
    let flows: BTreeSet<_> = flows["flows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|flow| flow["flow"].as_str().unwrap())
        .collect();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    for series in series.as_array().unwrap() {
        let le = text(&series["seriesLabels"]["le"]);
        let le_s: f64 = le.trim_start_matches('+').parse().unwrap();
        for exemplar in series["exemplars"].as_array().unwrap() {
            assert!(
                flows.contains(exemplar["labels"]["flow"].as_str().unwrap()),
                "{exemplar}"
            );
            let delay_s: f64 = text(&exemplar["value"]).parse().unwrap();
            // Buckets are a quarter of an octave wide.
            assert!(
                delay_s <= le_s && (le_s.is_infinite() || delay_s > le_s / 1.3),
                "{le}: {exemplar}"
            );
        }
    }
}
