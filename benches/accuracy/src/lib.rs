//! Accuracy: every method held against exact truth, beside the papers' figures.
//!
//! ```text
//!  traffic (generated | capture) --> queue (FIFO, RED, classes, paths, loss) --> passages
//!                                                                                  |
//!     experiment: lda | lds | rli | interference | locality | hybrid | baselines <-+
//!          |
//!          +--> tables (paper / limit / ours / pass) and figures --> report (md, json, svg)
//! ```

#![forbid(unsafe_code)]

pub mod baselines;
pub mod cli;
pub mod hybrid;
pub mod interchange;
pub mod interference;
pub mod lda;
pub mod lds;
pub mod locality;
pub mod queue;
pub mod replay;
pub mod report;
pub mod rli;
pub mod sketched;
pub mod table;
pub mod trace;
pub mod traffic;
pub mod truth;

use std::path::PathBuf;

use table::{Figure, Limit, Table};

/// A packet on its way over a segment, with exact truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passage {
    /// Its flow: an index into the experiment's list of flows.
    pub flow: u32,
    /// Bytes on the wire, without preamble and gap.
    pub bytes: u32,
    /// When the sender's end saw it, in nanoseconds since the epoch's start.
    pub sent_ns: i64,
    /// When the receiver's end saw it; `None`: lost.
    pub received_ns: Option<i64>,
}

/// What drives an experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Traffic drawn from the distributions of the papers.
    Generated,
    /// The packets of a capture (times, sizes and flows are real), through the queue simulator.
    Capture(PathBuf),
}

/// How an experiment is run.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Where packets come from.
    pub source: Source,
    /// Seeds to average over; `None`: as many as the limit asks for.
    pub seeds: Option<u32>,
    /// 1 for the size that limits hold for; less for a quick look, which no limit judges.
    pub scale: f64,
}

impl Setting {
    /// The limit, where this setting is one that limits hold for: generated packets at scale 1.
    pub fn judged(&self, limit: Limit) -> Option<Limit> {
        (self.source == Source::Generated && self.scale >= 1.0).then_some(limit)
    }
}

/// What an experiment found.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    /// Tables, in the order of printing.
    pub tables: Vec<Table>,
    /// Figures.
    pub figures: Vec<Figure>,
}

/// One experiment: a name on the command line, and what it does.
pub struct Experiment {
    /// As on the command line: `lda`, `lds`, `rli`.
    pub name: &'static str,
    /// In words, for the progress bar and the report.
    pub title: &'static str,
    /// Steps that [`run`](Self::run) reports by calling its second argument.
    pub steps: fn(&Setting) -> u64,
    /// Runs it; the second argument is called once for each finished step, from any thread.
    pub run: fn(&Setting, &(dyn Fn() + Sync)) -> anyhow::Result<Findings>,
}

/// Every experiment, in the order of the report.
pub const EXPERIMENTS: &[Experiment] = &[
    lda::EXPERIMENT,
    lds::EXPERIMENT,
    hybrid::EXPERIMENT,
    rli::EXPERIMENT,
    baselines::EXPERIMENT,
    interference::EXPERIMENT,
    locality::EXPERIMENT,
];
