//! A snapshot with something in every field, and some flows, for the tests of all views.

use std::net::Ipv4Addr;
use std::sync::Arc;

use measure::packet::{FiveTuple, FlowKey};

use super::{FlowFigures, FlowList, FlowName, FlowRecord, SegmentName, Snapshot};

impl Snapshot {
    /// Two ports, patched; `east>west` has an estimate, `west>east` has no packet; `west` measures a wire.
    ///
    /// # Panics
    /// Where `example.json` is no snapshot: for tests.
    #[expect(clippy::expect_used, reason = "for tests")]
    pub fn example() -> Self {
        serde_json::from_str(include_str!("example.json")).expect("example.json is a snapshot")
    }
}

impl FlowRecord {
    /// A flow on the first segment where `n` is even, else on the second.
    pub fn example(n: u16, packets: u64) -> Self {
        let figures = FlowFigures {
            packets,
            bytes: 100 * packets,
            lost_packets: Some(n.into()),
            mean_ns: Some(1_000.0 / f64::from(n + 1)),
            stddev_ns: Some(10.0),
        };
        Self {
            name: FlowName::Key(FlowKey::Ip(FiveTuple {
                source: Ipv4Addr::new(10, 0, 0, 1).into(),
                destination: Ipv4Addr::new(10, 0, 0, 2).into(),
                source_port: 1_024 + n,
                destination_port: 80,
                protocol: 6,
            })),
            segment: u32::from(n % 2),
            first_epoch: 2,
            last_epoch: 81,
            last: figures,
            total: figures,
            quantiles: None,
            estimates: None,
            references: None,
        }
    }
}

impl FlowList {
    /// These flows, on `east>west` and `west>east`.
    pub fn example(flows: Vec<FlowRecord>) -> Self {
        let name = |ingress: &str, egress: &str| {
            Arc::new(SegmentName {
                ingress: ingress.to_owned(),
                egress: egress.to_owned(),
                class: "all".to_owned(),
            })
        };
        Self {
            epoch: Some(81),
            segments: vec![name("east", "west"), name("west", "east")],
            wire: None,
            flows,
        }
    }
}
