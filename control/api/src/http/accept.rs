//! The format of the metrics that a client asks for by the header `Accept` (RFC 9110, section 12.5.1).

use axum::http::{HeaderMap, header};
use mime::Mime;

use crate::prometheus::Format;

/// Protobuf for who names it and wants nothing more than it, else text: also where neither is accepted.
pub(super) fn format(headers: &HeaderMap) -> Format {
    let lines = headers.get_all(header::ACCEPT).into_iter();
    let lines = lines.filter_map(|line| line.to_str().ok());
    let ranges = lines.flat_map(|line| line.split(','));
    let ranges: Vec<Mime> = ranges
        .filter_map(|range| range.trim().parse().ok())
        .collect();
    let protobuf = quality(&ranges, is_protobuf);
    let text = TEXTS
        .iter()
        .find_map(|text| quality(&ranges, |range| range.essence_str() == *text));
    match protobuf {
        Some(protobuf) if protobuf > 0.0 && protobuf >= text.unwrap_or_default() => {
            Format::Protobuf
        }
        _ => Format::Text,
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use Format::{Protobuf, Text};

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
            (NATIVE.split_once(',').unwrap().1.to_owned(), Text),
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
