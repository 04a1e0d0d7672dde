//! The format of the metrics that a client asks for by the header `Accept` (RFC 9110, section 12.5.1).

use axum::http::{HeaderMap, header};
use mime::Mime;

use crate::prometheus::Format;

/// Protobuf or OpenMetrics for clients that name it and prefer nothing to it, else text: also where none is accepted.
pub(super) fn format(headers: &HeaderMap) -> Format {
    let lines = headers.get_all(header::ACCEPT).into_iter();
    let lines = lines.filter_map(|line| line.to_str().ok());
    let ranges = lines.flat_map(|line| line.split(','));
    let ranges: Vec<Mime> = ranges
        .filter_map(|range| range.trim().parse().ok())
        .collect();
    let text = TEXTS
        .iter()
        .find_map(|text| quality(&ranges, |range| range.essence_str() == *text));
    let named = [
        (Format::Protobuf, quality(&ranges, is_protobuf)),
        (Format::OpenMetrics, quality(&ranges, is_open_metrics)),
    ];
    let mut best = (Format::Text, text.unwrap_or_default());
    for (format, weight) in named.into_iter().rev() {
        let weight = weight.unwrap_or_default();
        if weight > 0.0 && weight >= best.1 {
            best = (format, weight);
        }
    }
    best.0
}

/// Ranges that text is in; the narrowest counts.
const TEXTS: [&str; 3] = ["text/plain", "text/*", "*/*"];

/// Greatest weight of a range that fits; `None` where none does.
fn quality(ranges: &[Mime], fits: impl Fn(&Mime) -> bool) -> Option<f64> {
    let fitting = ranges.iter().filter(|range| fits(range));
    let weights = fitting.map(|range| {
        let weight = range.get_param("q");
        // One that cannot be read says nothing.
        weight.map_or(1.0, |weight| weight.as_str().parse().unwrap_or(0.0))
    });
    weights.max_by(f64::total_cmp)
}

/// Whether a range is what we write: these messages, each with its length before it.
fn is_protobuf(range: &Mime) -> bool {
    let is = |name, value| range.get_param(name).is_none_or(|given| given == value);
    range.essence_str() == "application/vnd.google.protobuf"
        && is("proto", "io.prometheus.client.MetricFamily")
        && is("encoding", "delimited")
}

fn is_open_metrics(range: &Mime) -> bool {
    let version = range.get_param("version");
    range.essence_str() == "application/openmetrics-text"
        && version.is_none_or(|version| version == "1.0.0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use Format::{OpenMetrics, Protobuf, Text};

    /// As Prometheus 2.42 sends it with `--enable-feature=native-histograms`.
    const NATIVE: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,\
         application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,\
         text/plain;version=0.0.4;q=0.5,*/*;q=0.1";

    #[test]
    fn weights_decide() {
        let protobuf = "application/vnd.google.protobuf";
        let cases = [
            (NATIVE.to_owned(), Protobuf),
            (
                "Application/Vnd.Google.Protobuf; Q=0.5, text/plain; q=0.4".to_owned(),
                Protobuf,
            ),
            // Without the feature.
            (NATIVE.split_once(',').unwrap().1.to_owned(), OpenMetrics),
            (
                "application/openmetrics-text;version=0.0.1".to_owned(),
                Text,
            ),
            (
                "application/openmetrics-text;q=0.4,text/plain;q=0.5".to_owned(),
                Text,
            ),
            (
                format!("application/openmetrics-text, {protobuf}"),
                Protobuf,
            ),
            (String::new(), Text),
            ("*/*".to_owned(), Text),
            ("application/*".to_owned(), Text),
            ("application/json".to_owned(), Text),
            (protobuf.to_owned(), Protobuf),
            (format!("{protobuf}, text/plain"), Protobuf),
            (format!("{protobuf};q=0.4, text/plain;q=0.5"), Text),
            (format!("{protobuf};q=0.4, text/*;q=0.5"), Text),
            // The narrowest range of text counts, not the widest.
            (format!("{protobuf};q=0.4, text/plain;q=0.3, */*"), Protobuf),
            (format!("{protobuf};q=0"), Text),
            (format!("{protobuf};q=nonsense"), Text),
            (format!("{protobuf};proto=other.Message"), Text),
            (format!("{protobuf};encoding=text"), Text),
            (format!("{protobuf};q=NaN, text/plain"), Text),
            (",;,,=\"".to_owned(), Text),
        ];
        for (accept, expected) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            assert_eq!(format(&headers), expected, "{accept}");
        }
        assert_eq!(format(&HeaderMap::new()), Text);
        // Two lines are one list.
        let mut headers = HeaderMap::new();
        headers.append(header::ACCEPT, "text/plain;q=0.1".parse().unwrap());
        headers.append(header::ACCEPT, protobuf.parse().unwrap());
        assert_eq!(format(&headers), Protobuf);
    }
}
