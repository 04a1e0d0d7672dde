//! The page as text: exposition format 0.0.4, or OpenMetrics 1.0.

use std::fmt::Write;
use std::io;

use contract::metric::MetricKind as Kind;

use super::page::{Exemplar, Writer};
use super::protobuf::messages::{Bucket, Histogram, Label, Metric, Summary, Value};

/// Bytes of text after which it is written out: the text of a large switch is never in memory as a whole.
const PART_BYTES: usize = 16 << 10;

/// Most characters in the labels of an exemplar (OpenMetrics 1.0, "Exemplars").
const EXEMPLAR_MAX: usize = 128;

/// Writes text.
pub(super) struct Text<'o> {
    /// Whether as OpenMetrics: with exemplars, an end, and counters whose families are named without `_total`.
    is_open: bool,
    /// Lines that were not written out yet.
    lines: String,
    /// Name of the present family, and whether its samples end in `_total` in addition.
    name: String,
    is_total: bool,
    out: &'o mut dyn io::Write,
}

impl<'o> Text<'o> {
    /// As OpenMetrics where it `is_open`.
    pub(super) fn new(out: &'o mut dyn io::Write, is_open: bool) -> Self {
        Self {
            is_open,
            lines: String::new(),
            name: String::new(),
            is_total: false,
            out,
        }
    }

    /// Adds a line: the family's name with `suffix`, labels with commas between, and a value.
    fn line(&mut self, suffix: &str, labels: &str, value: f64) {
        let name = &self.name;
        let _ = match labels {
            "" => writeln!(self.lines, "{name}{suffix} {value}"),
            labels => writeln!(self.lines, "{name}{suffix}{{{labels}}} {value}"),
        };
    }

    fn histogram(&mut self, labels: &str, histogram: &Histogram, exemplars: &[Exemplar]) {
        let (count, sum) = (histogram.sample_count, histogram.sample_sum);
        let exemplars = if self.is_open { exemplars } else { &[] };
        let mut exceeded_s = f64::NEG_INFINITY;
        let pair = |bucket: &Bucket| (bucket.upper_bound, bucket.cumulative_count);
        let buckets = histogram.bucket.iter().map(pair);
        for (bound, at_most) in buckets.chain([(f64::INFINITY, count)]) {
            let comma = if labels.is_empty() { "" } else { "," };
            let labels = format!("{labels}{comma}le=\"{}\"", self.bound(bound));
            self.line("_bucket", &labels, at_most as f64);
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

    /// The upper bound of a bucket. OpenMetrics wants whole numbers with a point in them.
    fn bound(&self, bound: f64) -> String {
        if bound.is_infinite() {
            return "+Inf".to_owned();
        }
        let is_whole = bound.fract() == 0.0;
        let point = if self.is_open && is_whole { ".0" } else { "" };
        format!("{bound}{point}")
    }

    /// Adds an exemplar to the line that was written last.
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

    fn totals(&mut self, labels: &str, count: u64, sum: f64) {
        self.line("_sum", labels, sum);
        self.line("_count", labels, count as f64);
    }
}

impl Writer for Text<'_> {
    fn is_native(&self) -> bool {
        false
    }

    fn begin(&mut self, name: &str, kind: Kind, help: &str) -> io::Result<()> {
        // OpenMetrics names the family of a counter without `_total`, and quotes are escaped.
        let counted = name.strip_suffix("_total");
        let (family, kind) = match (self.is_open && kind == Kind::Counter, counted) {
            (false, _) => (name, kind.label()),
            (true, Some(counted)) => (counted, kind.label()),
            (true, None) => (name, "unknown"),
        };
        self.is_total = family != name;
        family.clone_into(&mut self.name);
        let help = escaped(help, self.is_open);
        let _ = write!(
            self.lines,
            "# HELP {family} {help}\n# TYPE {family} {kind}\n"
        );
        Ok(())
    }

    fn series(&mut self, series: Metric, exemplars: &[Exemplar]) -> io::Result<()> {
        let label = |Label { name, value }: &Label| format!("{name}=\"{}\"", escaped(value, true));
        let labels = series.label.iter().map(label).collect::<Vec<_>>().join(",");
        if let Some(Value { value }) = series.counter.or(series.gauge) {
            let suffix = if self.is_total { "_total" } else { "" };
            self.line(suffix, &labels, value);
        }
        if let Some(Summary { count, sum }) = series.summary {
            self.totals(&labels, count, sum);
        }
        if let Some(histogram) = series.histogram {
            self.histogram(&labels, &histogram, exemplars);
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

/// A text without line breaks, and in quotes if `is_quoted`.
fn escaped(text: &str, is_quoted: bool) -> String {
    let text = text.replace('\\', r"\\").replace('\n', r"\n");
    if is_quoted {
        text.replace('"', r#"\""#)
    } else {
        text
    }
}
