//! A snapshot as Prometheus text (exposition format 0.0.4).
//!
//! Most families are declared where their records are ([`records::snapshot`], [`contract::counters`]); here are the
//! labels of each record, and the families that are made from more than one field.
//!
//! Base units throughout: seconds, bytes, ratios. Every label set is bounded by the configuration.
//! A segment without packets has its counters, but no histogram: a bridge of 64 ports has
//! 4,032 segments, and most have no packets.

use std::fmt::{self, Write};

use contract::config::Prometheus;
use contract::counters::ExceptionReading;
use records::snapshot::{Clock, Snapshot};

use page::{Labels, Page};

mod data_plane;
mod filter;
mod flows;
mod page;
mod segments;
#[cfg(test)]
pub(crate) mod tests;
mod wires;

pub use filter::{Filter, Filtered};

/// Content type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Writes the snapshot as Prometheus text, some lines at a time; of `settings` only how fine its histograms are. Which
/// families are taken is for a [`Filter`] around `out`.
///
/// # Errors
/// Those of `out`.
pub fn write(snapshot: &Snapshot, settings: &Prometheus, out: &mut dyn Write) -> fmt::Result {
    let mut page = Page::new(out);
    switch(&mut page, snapshot);
    segments::segments(&mut page, &snapshot.segments, settings);
    segments::estimates(&mut page, snapshot);
    segments::sketches(&mut page, snapshot);
    flows::flows(&mut page, snapshot);
    wires::wires(&mut page, snapshot);
    data_plane::ports(&mut page, &snapshot.ports);
    data_plane::workers(&mut page, &snapshot.workers);
    data_plane::tables(&mut page, snapshot);
    page.finish()
}

/// A record of the whole switch: without labels.
fn whole<R>(record: &R) -> impl Iterator<Item = (Labels<'_>, &R)> + Clone {
    std::iter::once((Labels::new(), record))
}

fn switch(page: &mut Page, snapshot: &Snapshot) {
    let build = vec![
        ("version", snapshot.version.as_str().into()),
        ("hash_version", snapshot.hash_version.to_string().into()),
        ("switch", snapshot.switch.as_str().into()),
    ];
    let help = "Version and name of the switch; always 1.";
    page.gauge("vernier_build_info", help, [(build, 1.0)]);
    page.metrics(Snapshot::metrics(), whole(snapshot));
    page.metrics(Clock::metrics(), whole(&snapshot.clock));
    page.metrics(&ExceptionReading::METRICS, whole(&snapshot.exceptions));
}
