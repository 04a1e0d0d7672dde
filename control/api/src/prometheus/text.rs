//! The page as text (exposition format 0.0.4).

use std::io;

use metrics::{Key, Label};
use metrics_exporter_prometheus::LabelSet;
use metrics_exporter_prometheus::formatting::{
    write_help_line, write_metric_line, write_type_line,
};

use super::page::{Histogram, Kind, Labels, Sample, Writer};

/// Bytes of text after which it is written out: the text of a large switch is never in memory as a whole.
const PART_BYTES: usize = 16 << 10;

/// Writes text.
pub(super) struct Text<'o> {
    /// Lines that were not written out yet.
    lines: String,
    /// Name of the present family.
    name: String,
    out: &'o mut dyn io::Write,
}

impl<'o> Text<'o> {
    pub(super) fn new(out: &'o mut dyn io::Write) -> Self {
        Self {
            lines: String::new(),
            name: String::new(),
            out,
        }
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
        let buckets = histogram.buckets.iter();
        let buckets = buckets.map(|(bound, at_most)| (bound.to_string(), *at_most));
        for (bound, at_most) in buckets.chain([("+Inf".to_owned(), count)]) {
            let le = Some(("le", bound.as_str()));
            self.line(Some("bucket"), labels, le, at_most as f64);
        }
        self.totals(labels, count, sum);
    }

    fn totals(&mut self, labels: &LabelSet, count: u64, sum: f64) {
        self.line(Some("sum"), labels, None, sum);
        self.line(Some("count"), labels, None, count as f64);
    }
}

impl Writer for Text<'_> {
    fn begin(&mut self, name: &str, kind: Kind, help: &str) -> io::Result<()> {
        name.clone_into(&mut self.name);
        write_help_line(&mut self.lines, name, None, None, help);
        write_type_line(&mut self.lines, name, None, None, kind.name());
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
            Sample::Value(value) => self.line(None, &labels, None, value),
            Sample::Summary { count, sum } => self.totals(&labels, count, sum),
            Sample::Histogram(histogram) => self.histogram(&labels, histogram),
        }
        if self.lines.len() < PART_BYTES {
            return Ok(());
        }
        self.finish()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.write_all(self.lines.as_bytes())?;
        self.lines.clear();
        Ok(())
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
