//! Tables for people.

use std::fmt::Write;

use contract::units::{duration_ns, rate};

use crate::frames::Frames;
use crate::search::{Found, Step};
use crate::trial::Outcome;

/// A line of the search.
pub fn step(step: &Step) -> String {
    let Step {
        rate_pps,
        holds,
        outcome,
    } = step;
    let verdict = match (holds, outcome.is_short()) {
        (true, _) => "holds",
        (false, true) => "more than we can offer",
        (false, false) => "fails",
    };
    format!(
        "  {}pps  offered {}pps  lost {:.4} % ({} of them refused)  {verdict}",
        rate(*rate_pps),
        rate(outcome.offered_pps),
        outcome.loss() * 100.0,
        outcome.refused
    )
}

/// What the search came to.
pub fn found(found: &Found, frames: &Frames, loss_max: f64) -> String {
    let Found {
        rate_pps, is_ours, ..
    } = found;
    let whose = if *is_ours {
        " (at least: no more was or could be offered)"
    } else {
        ""
    };
    format!(
        "throughput {}pps, {}bit/s on the wire, each way, at {:.4} % loss{whose}",
        rate(*rate_pps),
        rate(frames.wire_bps(*rate_pps)),
        loss_max * 100.0
    )
}

/// A table of delays by load: share of the throughput, and what came of it.
pub fn delays(rows: &[(f64, Outcome)]) -> String {
    let mut text = format!(
        "{:>6} {:>12} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
        "load", "offered/s", "lost %", "min", "mean", "p50", "p99", "p99.9", "max"
    );
    for (share, outcome) in rows {
        let delay = |quantile| {
            let delay = outcome.delay_ns(quantile);
            delay.map_or_else(|| "-".to_owned(), |ns| duration_ns(ns as f64))
        };
        let mean = outcome.mean_delay_ns();
        let _ = writeln!(
            text,
            "{:>4.0} % {:>12} {:>9.4} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
            share * 100.0,
            rate(outcome.offered_pps),
            outcome.loss() * 100.0,
            delay(0.0),
            mean.map_or_else(|| "-".to_owned(), duration_ns),
            delay(0.5),
            delay(0.99),
            delay(0.999),
            delay(1.0),
        );
    }
    text
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
        let table = delays(&[(0.5, outcome())]);
        let row = table.lines().nth(1).unwrap();
        for part in [
            "50 %", "999 k", "1.0000", "10.0 ns", "5.00 us", "9.90 us", "10.0 us",
        ] {
            assert!(row.contains(part), "{part} in {row}");
        }
        let none = Outcome {
            delays_ns: Vec::new(),
            ..outcome()
        };
        assert!(delays(&[(1.0, none)]).contains(" - "));
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
