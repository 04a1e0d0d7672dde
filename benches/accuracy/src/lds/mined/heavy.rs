//! Heavy hitters and mean packet sizes, from packets and bytes that the cells tell (section 4.3).

use reporting::Limit;
use reporting::statistics::{median, percent_of};

use super::super::{HEAVY, HUNDREDS, THOUSANDS, Tried};
use crate::experiment::{Found, Row};
use crate::sketched::errors;

/// A heavy hitter has at least this share of all packets, or bytes.
const SHARES: [f64; 3] = [0.0001, 0.001, 0.01];

pub(super) fn run(
    tried: &Tried<'_>,
    decoded: &[f64],
    count_min: &[f64],
    bytes: &[f64],
    found: &mut Found,
) {
    let truth = &tried.truth;
    // The mean packet size that the least cells say, as the paper has it: for flows alone in a cell it is exact.
    let sizes: Vec<f64> = (bytes.iter().zip(count_min))
        .map(|(bytes, packets)| bytes / packets)
        .collect();
    let decoded_bytes: Vec<f64> = (decoded.iter().zip(&sizes))
        .map(|(packets, size)| packets * size)
        .collect();
    let kinds = [
        ("packets", &truth.received, decoded, count_min),
        ("bytes", &truth.bytes, &decoded_bytes, bytes),
    ];
    for (what, exact, ours, least) in kinds {
        let all: f64 = exact.iter().sum();
        for share in SHARES {
            let at = share * all;
            let label = format!("{} % of {what}", 100.0 * share);
            let is_heavy = |flow: usize| exact.get(flow).is_some_and(|&size| size >= at);
            let precision = |named: &[f64]| {
                let named = named.iter().enumerate().filter(|(_, size)| **size >= at);
                percent_of(named.map(|(flow, _)| is_heavy(flow)))
            };
            let recall = |named: &[f64]| {
                let heavy = named.iter().enumerate().filter(|(flow, _)| is_heavy(*flow));
                percent_of(heavy.map(|(_, size)| *size >= at))
            };
            let check = format!("heavy hitters that are, flows of {label}");
            let row = Row::new(check, "% of flows", precision(ours));
            found.row(HEAVY, row.other("count-min", precision(least)));
            let check = format!("heavy hitters found, flows of {label}");
            let row = Row::new(check, "% of flows", recall(least)).limit(Limit::AtLeast(100.0));
            found.row(HEAVY, row.other("decoded", recall(ours)));
            let heavy = || (0..exact.len()).filter(|flow| is_heavy(*flow));
            let check = format!("size of heavy hitters, flows of {label}");
            let error = |of: &[f64]| median(errors(of, exact, heavy()));
            let row = Row::new(check, "%", error(ours));
            found.row(HEAVY, row.other("count-min", error(least)));
        }
    }
    let exact: Vec<f64> = (truth.bytes.iter().zip(&truth.received))
        .map(|(bytes, packets)| bytes / packets)
        .collect();
    // What an estimate without a sketch would be.
    let overall = truth.bytes.iter().sum::<f64>() / truth.received.iter().sum::<f64>();
    let overall = vec![overall; exact.len()];
    for (packets, name) in [(HUNDREDS, ">= 100 packets"), (THOUSANDS, ">= 1000 packets")] {
        let error = |of: &[f64]| median(errors(of, &exact, truth.flows(packets.clone())));
        let row = Row::new(format!("mean packet size: {name}"), "%", error(&sizes));
        found.row(HEAVY, row.other("overall mean", error(&overall)));
    }
}
