//! Classes, each over all its segments, as of the last epoch.

use crate::view::packets_per_s;
use records::snapshot::{Snapshot, Stamped};

/// One class.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ClassRow {
    pub class: String,
    /// Segments that are measured in it.
    pub segments: usize,
    pub packets_per_s: f64,
    /// Since the switch started.
    pub lost_packets: u64,
    pub mean_ns: Option<f64>,
    pub stddev_ns: Option<f64>,
    /// The greatest of its segments: percentiles do not add up.
    pub p99_max_ns: Option<f64>,
    /// Likewise.
    pub p999_max_ns: Option<f64>,
    pub max_ns: Option<f64>,
}

/// Every class that a segment is measured in, in the order of the configuration.
pub(super) fn class_rows(snapshot: &Snapshot) -> Vec<ClassRow> {
    let mut names: Vec<&str> = Vec::new();
    for segment in &snapshot.segments {
        if !names.contains(&segment.class.as_str()) {
            names.push(&segment.class);
        }
    }
    names
        .into_iter()
        .map(|name| class_row(snapshot, name))
        .collect()
}

fn class_row(snapshot: &Snapshot, class: &str) -> ClassRow {
    let mut row = ClassRow {
        class: class.to_owned(),
        ..ClassRow::default()
    };
    let (mut packets, mut sum_ns, mut squares_ns2) = (0.0, 0.0, 0.0);
    let segments = snapshot.segments.iter();
    for segment in segments.filter(|segment| segment.class == class && !segment.is_around) {
        row.segments += 1;
        row.packets_per_s += packets_per_s(snapshot, segment);
        row.lost_packets += segment.total.counts.dropped_packets;
        let Some(last) = snapshot.fresh(segment) else {
            continue;
        };
        let Some(Stamped {
            mean_ns,
            stddev_ns,
            p99_ns,
            p999_ns,
            max_ns,
            ..
        }) = last.stamped
        else {
            continue;
        };
        let n = last.counts.received_packets as f64;
        packets += n;
        sum_ns += n * mean_ns;
        squares_ns2 += n * (mean_ns.powi(2) + stddev_ns.powi(2));
        let greatest = |before: Option<f64>, ns| Some(before.unwrap_or(0.0).max(ns));
        row.p99_max_ns = greatest(row.p99_max_ns, p99_ns);
        row.p999_max_ns = greatest(row.p999_max_ns, p999_ns);
        row.max_ns = greatest(row.max_ns, max_ns);
    }
    if packets > 0.0 {
        let mean_ns = sum_ns / packets;
        row.mean_ns = Some(mean_ns);
        row.stddev_ns = Some((squares_ns2 / packets - mean_ns.powi(2)).max(0.0).sqrt());
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_all_of_its_segments() {
        let mut snapshot = Snapshot::example();
        let mut other = snapshot.segments[0].clone();
        other.total.counts.dropped_packets = 3;
        let last = other.last.as_mut().unwrap();
        let stamped = last.stamped.as_mut().unwrap();
        (stamped.mean_ns, stamped.stddev_ns, stamped.p99_ns) = (512_300.0, 310_500.0, 9e6);
        snapshot.segments.push(other);
        snapshot.segments[1].class = "gold".to_owned();
        let rows = class_rows(&snapshot);
        let names: Vec<_> = rows.iter().map(|row| row.class.as_str()).collect();
        assert_eq!(names, ["all", "gold"]);
        assert_eq!((rows[0].segments, rows[0].lost_packets), (2, 15));
        assert!((rows[0].packets_per_s - 160_000.0).abs() < 1e-6);
        assert!((rows[0].mean_ns.unwrap() - 462_300.0).abs() < 1e-6);
        // Within both 310.5 us, and 50 us to either side of the mean.
        let stddev_ns = (310_500.0_f64.powi(2) + 50_000.0_f64.powi(2)).sqrt();
        assert!((rows[0].stddev_ns.unwrap() - stddev_ns).abs() < 1e-3);
        assert!((rows[0].p99_max_ns.unwrap() - 9e6).abs() < 1e-6);
        assert_eq!((rows[1].segments, rows[1].mean_ns), (1, None));
    }
}
