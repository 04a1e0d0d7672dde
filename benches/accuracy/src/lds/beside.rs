//! RLI, MPE and the overall mean on the packets of the sketch (section 5.1, fig. 9 and 10).

use reporting::Limit;
use reporting::statistics::{median, quantile};

use super::{ALL, BESIDE, HUNDREDS, PAPER, Seed, THOUSANDS, Tried};
use crate::baselines::sampling::multi_point_of_trace_ns;
use crate::experiment::{Found, Row};
use crate::interpolation::Interpolated;

/// Lower ends of the bins of fig. 10.
const SIZES: [f64; 7] = [1.0, 10.0, 100.0, 500.0, 1000.0, 10_000.0, f64::INFINITY];
/// Bins by packets of a flow, with the paper's median for its decoder.
const BINS: [(&str, Option<f64>); 6] = [
    ("1-9 packets", None),
    ("10-99 packets", None),
    ("100-499 packets", None),
    ("500-999 packets", Some(1.2)),
    ("1000-9999 packets", Some(0.4)),
    (">= 10000 packets", Some(0.06)),
];
/// Of the errors of RLI and MPE, how much joint decoding may leave for flows of 100 packets and more.
const BETTER: Limit = Limit::AtMost(0.1);

/// Rows for `joint` decoding beside the others.
pub(super) fn run(seed: &Seed, tried: &Tried<'_>, joint: &[f64], paper: &[f64], found: &mut Found) {
    let others = others(seed, tried);
    let row = |name: &str, packets: &std::ops::Range<f64>, of: &str, share: f64| {
        let error = |estimates: &[f64]| quantile(tried.errors(estimates, packets.clone()), share);
        let row = Row::new(format!("{of}: {name}"), "%", error(joint));
        let others = others
            .iter()
            .map(|(label, estimates)| (*label, error(estimates)));
        row.other(PAPER, error(paper)).others(others)
    };
    for (name, packets) in [
        ("all flows", ALL),
        (">= 100 packets", HUNDREDS),
        (">= 1000 packets", THOUSANDS),
    ] {
        found.row(BESIDE, row(name, &packets, "median", 0.5));
    }
    let error = |estimates: &[f64]| median(tried.errors(estimates, HUNDREDS));
    let [rli, mpe_tenth, mpe_hundredth, _] = others.each_ref().map(|(_, of)| error(of));
    let check = "joint / the better of RLI and MPE: >= 100 packets";
    let ratio = Row::ratio(check, error(joint), [rli, mpe_tenth, mpe_hundredth]);
    found.row(BESIDE, ratio.limit(BETTER));
    for (bin, (name, of_paper)) in SIZES.windows(2).zip(BINS) {
        let packets = bin[0]..bin[1];
        found.row(BESIDE, row(name, &packets, "median", 0.5).paper(of_paper));
        found.row(BESIDE, row(name, &packets, "95th percentile", 0.95));
    }
}

/// Estimates of every flow by other methods.
fn others(seed: &Seed, tried: &Tried<'_>) -> [(&'static str, Vec<f64>); 4] {
    let truth = &tried.truth;
    let packets: f64 = truth.received.iter().sum();
    let sums = truth
        .flows(ALL)
        .map(|f| truth.mean_ns[f] * truth.received[f]);
    let overall_ns = sums.sum::<f64>() / packets;
    let mpe = |share| multi_point_of_trace_ns(&seed.trace, share, seed.number);
    [
        ("RLI, 1 kHz", Interpolated::of(&seed.trace).mean_ns),
        ("MPE 10 %", mpe(0.1)),
        ("MPE 1 %", mpe(0.01)),
        ("overall mean", vec![overall_ns; truth.mean_ns.len()]),
    ]
}
