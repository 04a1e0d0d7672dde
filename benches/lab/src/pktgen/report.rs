//! Tables for people.

use contract::units::{duration_ns, rate};
use reporting::Table;
use serde::Serialize;

use crate::pktgen::frames::Frames;
use crate::pktgen::search::{Found, Step};
use crate::pktgen::trial::Outcome;

/// A line of the search.
pub fn step(step: &Step) -> String {
    let outcome = &step.outcome;
    let verdict = match (step.holds, outcome.is_short()) {
        (true, _) => "holds",
        (false, true) => "more than we can offer",
        (false, false) => "fails",
    };
    format!(
        "  {}pps  offered {}pps  lost {:.4} % ({} of them refused)  {verdict}",
        rate(step.rate_pps),
        rate(outcome.offered_pps),
        outcome.loss() * 100.0,
        outcome.refused
    )
}

/// The result of the search.
pub fn found(found: &Found, frames: &Frames, loss: f64) -> String {
    let whose = if found.is_ours {
        " (at least: no more was or could be offered)"
    } else {
        ""
    };
    format!(
        "throughput {}pps, {}bit/s on the wire, each way, at {loss:.4} % loss{whose}",
        rate(found.rate_pps),
        rate(frames.wire_bps(found.rate_pps)),
    )
}

/// Delays at one load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Share of the throughput.
    pub share: f64,
    pub outcome: Outcome,
    /// Least delay; like all below `None` without probes.
    pub min_ns: Option<u64>,
    pub mean_ns: Option<f64>,
    /// Median delay of the probes.
    pub p50_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile.
    pub p999_ns: Option<u64>,
    pub max_ns: Option<u64>,
}

impl Row {
    /// A trial at this share of the throughput.
    pub fn new(share: f64, outcome: Outcome) -> Self {
        Self {
            share,
            min_ns: outcome.delay_ns(0.0),
            mean_ns: outcome.mean_delay_ns(),
            p50_ns: outcome.delay_ns(0.5),
            p99_ns: outcome.delay_ns(0.99),
            p999_ns: outcome.delay_ns(0.999),
            max_ns: outcome.delay_ns(1.0),
            outcome,
        }
    }
}

/// A table of delays by load.
pub fn delays(rows: &[Row]) -> Table {
    let mut table = Table::default()
        .figures(["load", "offered/s", "lost %"])
        .figures(["min", "mean", "p50", "p99", "p99.9", "max"]);
    let shown = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), duration_ns);
    let whole = |ns: Option<u64>| shown(ns.map(|ns| ns as f64));
    for row in rows {
        table.row(&[
            &format!("{:.0} %", row.share * 100.0),
            &rate(row.outcome.offered_pps),
            &format!("{:.4}", row.outcome.loss() * 100.0),
            &whole(row.min_ns),
            &shown(row.mean_ns),
            &whole(row.p50_ns),
            &whole(row.p99_ns),
            &whole(row.p999_ns),
            &whole(row.max_ns),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use contract::config::device::Generate;

    use super::*;

    fn outcome() -> Outcome {
        Outcome {
            wanted_pps: 1e6,
            offered_pps: 999_000.0,
            offered: 1_000,
            refused: 3,
            received: 990,
            foreign: 0,
            delays_ns: (1..=1_000).map(|n| n * 10).collect(),
        }
    }

    #[test]
    fn tables_have_units() {
        let line = step(&Step {
            rate_pps: 1e6,
            holds: false,
            outcome: outcome(),
        });
        let expected = "  1.00 Mpps  offered 999 kpps  lost 1.0000 % (3 of them refused)  fails";
        assert_eq!(line, expected);
        let table = delays(&[Row::new(0.5, outcome())]).markdown();
        let row = table.lines().nth(2).unwrap();
        for part in [
            "50 %", "999 k", "1.0000", "10.0 ns", "5.00 us", "9.90 us", "10.0 us",
        ] {
            assert!(row.contains(part), "{part} in {row}");
        }
        let none = Outcome {
            delays_ns: Vec::new(),
            ..outcome()
        };
        assert!(delays(&[Row::new(1.0, none)]).markdown().contains(" - "));
    }

    #[test]
    fn a_limit_of_our_own_is_said() {
        let frames = Frames::generate(&Generate::default(), 0, 10, 1_500).unwrap();
        let mut all = Found {
            rate_pps: 2e6,
            is_ours: true,
            steps: Vec::new(),
        };
        assert!(found(&all, &frames, 0.0).contains("at least"));
        all.is_ours = false;
        assert!(!found(&all, &frames, 0.0).contains("at least"));
    }
}
