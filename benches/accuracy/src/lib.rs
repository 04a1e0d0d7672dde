//! Compares every method of Vernier with the exact truth and the papers' figures, and runs the methods on CSV files.
//!
//! ```text
//!  traffic (generated | capture) --> queue (FIFO, RED, classes, paths, loss) --> crossings
//!                                                                                    |
//!     experiment: lda | lds | hybrid | rli | baselines | interference | locality | quantiles <---+
//!          |
//!          +--> cases x seeds, in parallel --> rows (paper, limit, ours, others)
//!                                                  |
//!                                                  +--> report (Markdown, JSON)
//! ```
#![forbid(unsafe_code)]

mod baselines;
mod capture;
pub mod cli;
mod experiment;
mod hybrid;
pub mod interchange;
mod interference;
mod interpolation;
mod lda;
mod lds;
mod locality;
mod quantiles;
mod queue;
mod recording;
mod report;
mod rli;
mod sketched;
mod trace;
mod traffic;
mod truth;

use experiment::Experiment;

/// Every experiment, in the order of the report.
const EXPERIMENTS: &[Experiment] = &[
    Experiment::new(
        "lda",
        "LDA: mean, deviation and interval of a segment",
        lda::plan,
    ),
    Experiment::new("lds", "LDS: the mean delay of every flow", lds::plan),
    Experiment::new(
        "hybrid",
        "Hybrid: LDS that uses RLI's estimates",
        hybrid::plan,
    ),
    Experiment::new(
        "rli",
        "RLI: methods, policies, bounds, the segment's mean",
        rli::plan,
    ),
    Experiment::new(
        "baselines",
        "RLI beside probes, sampling, MPE and LDA",
        baselines::plan,
    ),
    Experiment::new(
        "interference",
        "Interference of references with the traffic",
        interference::plan,
    ),
    Experiment::new("locality", "Delay locality", locality::plan),
    Experiment::new("quantiles", "RLI: quantiles of flows", quantiles::plan),
];
