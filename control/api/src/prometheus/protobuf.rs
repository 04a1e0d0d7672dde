//! Writes the page as protobuf: delimited messages of `io.prometheus.client`. Histograms of delays are in two forms,
//! classic buckets and native histograms; the scraper chooses by its configuration.
//!
//! A family's length precedes its series, so a family is kept in memory until its last series is encoded, at most 6
//! KiB for each segment.

use std::io;

use prost::{Message, encode_length_delimiter};

use super::native::{Native, SCHEMA, ZERO_THRESHOLD_S};
use super::page::{Histogram, Labels, Sample, Writer};
use contract::metric::MetricKind as Kind;

/// The protobuf writer.
pub(super) struct Protobuf<'o> {
    kind: Kind,
    /// Name, help and type of the current family, encoded.
    head: Vec<u8>,
    /// Its series, encoded. Two concatenated messages decode as one merged message, so each series is encoded as a
    /// family of its own.
    series: Vec<u8>,
    out: &'o mut dyn io::Write,
}

impl<'o> Protobuf<'o> {
    pub(super) fn new(out: &'o mut dyn io::Write) -> Self {
        Self {
            kind: Kind::Gauge,
            head: Vec::new(),
            series: Vec::new(),
            out,
        }
    }
}

impl Writer for Protobuf<'_> {
    fn begin(&mut self, name: &str, kind: Kind, help: &str) -> io::Result<()> {
        self.finish()?;
        let family = messages::Family {
            name: Some(name.to_owned()),
            help: Some(help.to_owned()),
            kind: Some(match kind {
                Kind::Counter => 0,
                Kind::Gauge => 1,
                Kind::Summary => 2,
                Kind::Histogram => 4,
            }),
            metric: Vec::new(),
        };
        self.kind = kind;
        self.head.clear();
        Ok(family.encode(&mut self.head)?)
    }

    fn sample(
        &mut self,
        labels: &Labels,
        more: Option<(&str, &str)>,
        sample: Sample,
    ) -> io::Result<()> {
        let labels = labels.iter().map(|(name, value)| (*name, value.as_ref()));
        let label = |(name, value): (&str, &str)| messages::Label {
            name: name.to_owned(),
            value: value.to_owned(),
        };
        let mut metric = messages::Metric {
            label: labels.chain(more).map(label).collect(),
            ..messages::Metric::default()
        };
        match sample {
            Sample::Value(value) => {
                let value = Some(messages::Value { value });
                match self.kind {
                    Kind::Counter => metric.counter = value,
                    _ => metric.gauge = value,
                }
            }
            Sample::Summary { count, sum } => {
                metric.summary = Some(messages::Summary { count, sum });
            }
            Sample::Histogram(histogram) => metric.histogram = Some(message_of(histogram)),
        }
        let family = messages::Family {
            metric: vec![metric],
            ..messages::Family::default()
        };
        Ok(family.encode(&mut self.series)?)
    }

    /// Writes the current family, if it has series.
    fn finish(&mut self) -> io::Result<()> {
        if self.series.is_empty() {
            return Ok(());
        }
        let mut length = Vec::new();
        encode_length_delimiter(self.head.len() + self.series.len(), &mut length)?;
        for part in [&length, &self.head, &self.series] {
            self.out.write_all(part)?;
        }
        self.series.clear();
        Ok(())
    }
}

fn message_of(histogram: &Histogram) -> messages::Histogram {
    let buckets = histogram.buckets.iter();
    let bucket = buckets.map(|&(upper_bound, cumulative_count)| messages::Bucket {
        cumulative_count,
        upper_bound,
    });
    let classic = messages::Histogram {
        sample_count: histogram.count,
        sample_sum: histogram.sum,
        bucket: bucket.collect(),
        ..messages::Histogram::default()
    };
    let Some(delays) = histogram.delays else {
        return classic;
    };
    let native = Native::of(delays);
    let spans = native.spans.iter();
    messages::Histogram {
        schema: Some(SCHEMA),
        zero_threshold: Some(ZERO_THRESHOLD_S),
        zero_count: Some(native.zero_count),
        positive_span: spans
            .map(|span| messages::Span {
                offset: span.offset,
                length: span.length,
            })
            .collect(),
        positive_delta: native.deltas,
        ..classic
    }
}

/// The used parts of `metrics.proto` of <https://github.com/prometheus/client_model>, by field number.
mod messages {
    use prost::Message;

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Label {
        #[prost(string, required, tag = "1")]
        pub(super) name: String,
        #[prost(string, required, tag = "2")]
        pub(super) value: String,
    }

    /// A counter or a gauge.
    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Value {
        #[prost(double, required, tag = "1")]
        pub(super) value: f64,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Summary {
        #[prost(uint64, required, tag = "1")]
        pub(super) count: u64,
        #[prost(double, required, tag = "2")]
        pub(super) sum: f64,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Bucket {
        #[prost(uint64, required, tag = "1")]
        pub(super) cumulative_count: u64,
        #[prost(double, required, tag = "2")]
        pub(super) upper_bound: f64,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Span {
        #[prost(sint32, required, tag = "1")]
        pub(super) offset: i32,
        #[prost(uint32, required, tag = "2")]
        pub(super) length: u32,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Histogram {
        #[prost(uint64, required, tag = "1")]
        pub(super) sample_count: u64,
        #[prost(double, required, tag = "2")]
        pub(super) sample_sum: f64,
        #[prost(message, repeated, tag = "3")]
        pub(super) bucket: Vec<Bucket>,
        #[prost(sint32, optional, tag = "5")]
        pub(super) schema: Option<i32>,
        #[prost(double, optional, tag = "6")]
        pub(super) zero_threshold: Option<f64>,
        #[prost(uint64, optional, tag = "7")]
        pub(super) zero_count: Option<u64>,
        #[prost(message, repeated, tag = "12")]
        pub(super) positive_span: Vec<Span>,
        #[prost(sint64, repeated, packed = "false", tag = "13")]
        pub(super) positive_delta: Vec<i64>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Metric {
        #[prost(message, repeated, tag = "1")]
        pub(super) label: Vec<Label>,
        #[prost(message, optional, tag = "2")]
        pub(super) gauge: Option<Value>,
        #[prost(message, optional, tag = "3")]
        pub(super) counter: Option<Value>,
        #[prost(message, optional, tag = "4")]
        pub(super) summary: Option<Summary>,
        #[prost(message, optional, tag = "7")]
        pub(super) histogram: Option<Histogram>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Family {
        #[prost(string, optional, tag = "1")]
        pub(super) name: Option<String>,
        #[prost(string, optional, tag = "2")]
        pub(super) help: Option<String>,
        /// 0 counter, 1 gauge, 2 summary, 4 histogram.
        #[prost(int32, optional, tag = "3")]
        pub(super) kind: Option<i32>,
        #[prost(message, repeated, tag = "4")]
        pub(super) metric: Vec<Metric>,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::messages::{Family, Metric};
    use super::*;
    use crate::prometheus::Format;
    use crate::prometheus::tests::bytes as page;
    use contract::config::Prometheus;
    use records::snapshot::Snapshot;

    fn families(snapshot: &Snapshot, settings: &Prometheus) -> Vec<Family> {
        let page = page(snapshot, settings, Format::Protobuf);
        let mut left = page.as_slice();
        let mut families = Vec::new();
        while !left.is_empty() {
            families.push(Family::decode_length_delimited(&mut left).unwrap());
        }
        families
    }

    /// Lines of text by the values of a metric.
    fn lines(name: &str, metric: &Metric, lines: &mut BTreeMap<String, f64>) {
        let labels = metric.label.iter();
        let labels: Vec<String> = labels
            .map(|label| format!("{}=\"{}\"", label.name, label.value))
            .collect();
        let mut line = |suffix: &str, le: Option<String>, value: f64| {
            let labels: Vec<String> = labels.iter().cloned().chain(le).collect();
            let labels = match labels.join(",") {
                labels if labels.is_empty() => labels,
                labels => format!("{{{labels}}}"),
            };
            assert_eq!(lines.insert(format!("{name}{suffix}{labels}"), value), None);
        };
        for value in [&metric.counter, &metric.gauge].into_iter().flatten() {
            line("", None, value.value);
        }
        if let Some(summary) = &metric.summary {
            line("_sum", None, summary.sum);
            line("_count", None, summary.count as f64);
        }
        if let Some(histogram) = &metric.histogram {
            let buckets = histogram.bucket.iter();
            let bounds =
                buckets.map(|bucket| (bucket.upper_bound.to_string(), bucket.cumulative_count));
            for (bound, at_most) in bounds.chain([("+Inf".to_owned(), histogram.sample_count)]) {
                line("_bucket", Some(format!("le=\"{bound}\"")), at_most as f64);
            }
            line("_sum", None, histogram.sample_sum);
            line("_count", None, histogram.sample_count as f64);
        }
    }

    #[test]
    fn both_formats_have_the_same_series_with_the_same_values() {
        for settings in [
            Prometheus::default(),
            Prometheus {
                buckets_per_octave: 8,
                exclude: vec!["vernier_port_*".to_owned(), "a_start*".to_owned()],
                ..Prometheus::default()
            },
        ] {
            let snapshot = Snapshot::example();
            let text = String::from_utf8(page(&snapshot, &settings, Format::Text)).unwrap();
            let written = text.lines().filter(|line| !line.starts_with('#'));
            let written = written.map(|line| {
                let (series, value) = line.rsplit_once(' ').unwrap();
                (series.to_owned(), value.parse().unwrap())
            });
            let written: BTreeMap<String, f64> = written.collect();
            let mut decoded = BTreeMap::new();
            for family in families(&snapshot, &settings) {
                let name = family.name.unwrap();
                let kind = ["counter", "gauge", "summary", "untyped", "histogram"];
                let kind = kind[usize::try_from(family.kind.unwrap()).unwrap()];
                assert!(
                    text.contains(&format!("# TYPE {name} {kind}\n")),
                    "{name} {kind}"
                );
                let help = family.help.unwrap();
                assert!(text.contains(&format!("# HELP {name} {help}\n")) || help.is_empty());
                for metric in &family.metric {
                    lines(&name, metric, &mut decoded);
                }
            }
            assert!(decoded.len() > 300, "{}", decoded.len());
            assert_eq!(decoded, written);
        }
    }

    #[test]
    fn delays_of_segments_are_native_histograms_too_and_nothing_else_is() {
        let snapshot = Snapshot::example();
        let segment = &snapshot.segments[0].total;
        let mut native = Vec::new();
        for family in families(&snapshot, &Prometheus::default()) {
            let histograms = family
                .metric
                .into_iter()
                .filter_map(|metric| metric.histogram);
            let with_schema = histograms.filter(|histogram| histogram.schema.is_some());
            native.extend(with_schema.map(|histogram| (family.name.clone().unwrap(), histogram)));
        }
        let [(name, histogram)] = native.as_slice() else {
            panic!("{native:?}");
        };
        assert_eq!(name, "vernier_segment_delay_seconds");
        assert_eq!(
            (histogram.schema, histogram.zero_threshold),
            (Some(5), Some(1e-9))
        );
        let buckets = histogram.positive_span.iter().map(|span| span.length);
        let deltas = &histogram.positive_delta;
        assert_eq!(buckets.sum::<u32>() as usize, deltas.len());
        assert_eq!(deltas.len(), segment.buckets.len());
        let counts = deltas.iter().scan(0, |count, delta| {
            *count += delta;
            Some(*count)
        });
        assert!(
            counts.eq(segment
                .buckets
                .iter()
                .map(|bucket| bucket.packets.cast_signed()))
        );
        assert_eq!(histogram.zero_count, Some(0));
    }

    /// The limit of answers in flight is designed for pages of text.
    #[test]
    fn a_page_is_smaller_than_as_text() {
        let (snapshot, settings) = (Snapshot::example(), Prometheus::default());
        let [text, _, protobuf] =
            Format::ALL.map(|format| page(&snapshot, &settings, format).len());
        println!("{protobuf} bytes, {text} as text");
        assert!(protobuf < text * 2 / 3);
    }
}
