//! Writes a snapshot for Prometheus: as text, OpenMetrics with exemplars, or protobuf with native histograms. One
//! pass over the metrics, two writers.
//!
//! Most families are declared beside their records ([`records::snapshot`], [`contract::counters`]). This module adds
//! the labels of each record, and the families made from several fields.
//!
//! Base units throughout: seconds, bytes, ratios. Every set of labels is bounded by the configuration. A segment
//! without packets has counters, but no histogram: a bridge of 64 ports has 4,032 segments, and most have no packets.

use std::io;

use contract::config::Prometheus;
use contract::counters::ExceptionReading;
use records::snapshot::{Clock, IpfixExport, Reports, Snapshot, Status};

use protobuf::Protobuf;
use text::Text;

mod families;
mod native;
mod page;
mod protobuf;
#[cfg(test)]
pub(crate) mod tests;
mod text;

pub use page::{Filter, Labels, Page};

/// A format of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Text, exposition format 0.0.4.
    Text,
    /// OpenMetrics 1.0: text whose delay buckets each name a slow flow.
    OpenMetrics,
    /// Protobuf, delimited: delays of segments as native histograms, in addition to classic buckets.
    Protobuf,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::Text, Self::OpenMetrics, Self::Protobuf];

    /// Its content type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; \
                 encoding=delimited"
            }
        }
    }
}

/// Writes the page piece by piece: those families of the snapshot and of `own`, the text of the process's own
/// recorder, that `settings` select, with their number of buckets.
///
/// # Errors
/// Those of `out`.
pub fn write(
    snapshot: &Snapshot,
    own: &str,
    settings: &Prometheus,
    format: Format,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let filter = Filter::from(settings);
    let mut page = match format {
        Format::Protobuf => Page::new(Protobuf::new(out), filter),
        text => Page::new(Text::new(out, text == Format::OpenMetrics), filter),
    };
    switch(&mut page, snapshot);
    families::segments(&mut page, snapshot, settings);
    families::estimates(&mut page, snapshot);
    families::sketches(&mut page, snapshot);
    families::flows(&mut page, snapshot);
    families::wires(&mut page, snapshot);
    families::ports(&mut page, &snapshot.ports);
    families::workers(&mut page, &snapshot.workers);
    families::tables(&mut page, snapshot);
    page::own(&mut page, own);
    page.finish()
}

/// Writes the page of another program as text, piece by piece: the families added by `families`, and those of `own`,
/// the text of the process's own recorder.
///
/// # Errors
/// Those of `out`.
pub fn write_families(
    own: &str,
    out: &mut dyn io::Write,
    families: impl FnOnce(&mut Page),
) -> io::Result<()> {
    let mut page = Page::new(Text::new(out, false), Filter::default());
    families(&mut page);
    page::own(&mut page, own);
    page.finish()
}

/// Adds the counters of a sender of reports, if any.
pub fn reports(page: &mut Page, reports: Option<&Reports>) {
    page.metrics(Reports::metrics(), reports.into_iter().flat_map(whole));
}

/// A record of the whole switch, without labels.
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
    page.metrics(Status::metrics(), whole(&snapshot.status));
    page.metrics(Clock::metrics(), whole(&snapshot.clock));
    reports(page, snapshot.reports.as_ref());
    let export = snapshot.ipfix.iter().flat_map(whole);
    page.metrics(IpfixExport::metrics(), export);
    page.metrics(ExceptionReading::metrics(), whole(&snapshot.exceptions));
}
