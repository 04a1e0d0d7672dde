//! Writes the page as text: exposition format 0.0.4, or OpenMetrics 1.0.

use std::fmt::Write;
use std::io;

use metrics::{Key, Label};
use metrics_exporter_prometheus::LabelSet;
use metrics_exporter_prometheus::formatting::{
    write_help_line, write_metric_line, write_type_line,
};

use contract::metric::MetricKind as Kind;

use super::page::{Exemplar, Histogram, Labels, Sample, Writer};

/// Bytes of text after which it is written out, so that the text of a large switch is never in memory as a
/// whole.
const PART_BYTES: usize = 16 << 10;

/// Most characters in the labels of an exemplar (OpenMetrics 1.0, "Exemplars").
const EXEMPLAR_MAX: usize = 128;

/// The text writer.
pub(super) struct Text<'o> {
    /// Whether to write OpenMetrics: with exemplars, an end mark, and counter families named without `_total`.
    is_open: bool,
    /// Lines not written out yet.
    lines: String,
    /// Name of the current family, and the suffix of its plain samples.
    name: String,
    suffix: Option<&'static str>,
    out: &'o mut dyn io::Write,
}

impl<'o> Text<'o> {
    /// Writes OpenMetrics if `is_open`.
    pub(super) fn new(out: &'o mut dyn io::Write, is_open: bool) -> Self {
        Self {
            is_open,
            lines: String::new(),
            name: String::new(),
            suffix: None,
            out,
        }
    }

    /// Begins a family in OpenMetrics.
    fn begin_open(&mut self, name: &str, kind: Kind, help: &str) {
        let total = (kind == Kind::Counter).then(|| name.strip_suffix("_total"));
        let (name, kind) = match total {
            Some(Some(counted)) => (counted, kind.label()),
            Some(None) => (name, "unknown"),
            None => (name, kind.label()),
        };
        self.suffix = total.flatten().map(|_| "total");
        name.clone_into(&mut self.name);
        let help = help
            .replace('\\', r"\\")
            .replace('"', r#"\""#)
            .replace('\n', r"\n");
        let _ = write!(self.lines, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn line(
        &mut self,
        suffix: Option<&'static str>,
        labels: &LabelSet,
        more: Option<(&'static str, &str)>,
        value: f64,
    ) {
        write_metric_line(
            &mut self.lines,
            &self.name,
            suffix,
            labels,
            more,
            value,
            None,
        );
    }

    fn histogram(&mut self, labels: &LabelSet, histogram: &Histogram) {
        let Histogram { count, sum, .. } = *histogram;
        let exemplars = if self.is_open {
            histogram.exemplars
        } else {
            &[]
        };
        let mut exceeded_s = f64::NEG_INFINITY;
        let last = [(f64::INFINITY, count)];
        for (bound, at_most) in histogram.buckets.iter().copied().chain(last) {
            let written = self.bound(bound);
            let le = Some(("le", written.as_str()));
            self.line(Some("bucket"), labels, le, at_most as f64);
            let inside = exemplars
                .iter()
                .filter(|exemplar| exemplar.delay_s > exceeded_s && exemplar.delay_s <= bound);
            let slowest = inside.max_by(|one, other| one.delay_s.total_cmp(&other.delay_s));
            if let Some(slowest) = slowest {
                self.exemplar(slowest);
            }
            exceeded_s = bound;
        }
        self.totals(labels, count, sum);
    }

    /// The upper bound of a bucket. OpenMetrics wants a decimal point in whole numbers.
    fn bound(&self, bound: f64) -> String {
        if bound.is_infinite() {
            return "+Inf".to_owned();
        }
        let is_whole = bound.fract() == 0.0;
        let point = if self.is_open && is_whole { ".0" } else { "" };
        format!("{bound}{point}")
    }

    /// Adds an exemplar to the last line.
    fn exemplar(&mut self, exemplar: &Exemplar) {
        let Exemplar { flow, delay_s, .. } = exemplar;
        if "flow".len() + flow.chars().count() <= EXEMPLAR_MAX {
            self.lines.pop();
            let at = exemplar.unix_s;
            let _ = writeln!(self.lines, " # {{flow=\"{flow}\"}} {delay_s} {at}");
        }
    }

    fn write_out(&mut self) -> io::Result<()> {
        self.out.write_all(self.lines.as_bytes())?;
        self.lines.clear();
        Ok(())
    }

    fn totals(&mut self, labels: &LabelSet, count: u64, sum: f64) {
        self.line(Some("sum"), labels, None, sum);
        self.line(Some("count"), labels, None, count as f64);
    }
}

impl Writer for Text<'_> {
    fn begin(&mut self, name: &str, kind: Kind, help: &str) -> io::Result<()> {
        if self.is_open {
            self.begin_open(name, kind, help);
            return Ok(());
        }
        name.clone_into(&mut self.name);
        write_help_line(&mut self.lines, name, None, None, help);
        write_type_line(&mut self.lines, name, None, None, kind.label());
        Ok(())
    }

    fn sample(
        &mut self,
        labels: &Labels,
        more: Option<(&str, &str)>,
        sample: Sample,
    ) -> io::Result<()> {
        let labels = label_set(labels, more);
        match sample {
            Sample::Value(value) => self.line(self.suffix, &labels, None, value),
            Sample::Summary { count, sum } => self.totals(&labels, count, sum),
            Sample::Histogram(histogram) => self.histogram(&labels, histogram),
        }
        if self.lines.len() < PART_BYTES {
            return Ok(());
        }
        self.write_out()
    }

    fn finish(&mut self) -> io::Result<()> {
        if self.is_open {
            self.lines.push_str("# EOF\n");
        }
        self.write_out()
    }
}

#[expect(
    clippy::default_trait_access,
    reason = "the map's type is not among our dependencies"
)]
fn label_set(labels: &Labels, more: Option<(&str, &str)>) -> LabelSet {
    let labels = labels.iter().map(|(name, value)| (*name, value.as_ref()));
    let labels = labels.chain(more);
    let labels = labels.map(|(name, value)| Label::new(name.to_owned(), value.to_owned()));
    let key = Key::from_parts("", labels.collect::<Vec<_>>());
    LabelSet::from_key_and_global(&key, &Default::default())
}
