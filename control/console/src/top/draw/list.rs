//! The list of all switches.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::table::Columns;
use super::{BAD, GOOD, draw_table, head};
use crate::top::app::App;
use crate::top::tab::Sort;
use crate::view::known;
use contract::units::{count, duration_ns, rate};
use records::snapshot::Segment;

const HEADINGS: &str = "switch | state | packets/s | lost | slowest | p99.9 | max";

pub(super) fn draw(frame: &mut Frame, area: Rect, apps: &[App], current: usize) {
    let rows = apps.iter().map(|app| {
        let is_silent = app.silent_for().is_some();
        let has_lost = lost(app) > 0;
        let style = move |heading: &str| match heading {
            "state" if is_silent => Style::new().fg(BAD),
            "state" => Style::new().fg(GOOD),
            "lost" if has_lost => Style::new().fg(BAD),
            _ => Style::new(),
        };
        (row(app), style)
    });
    let mut table = Columns::new(HEADINGS, rows.collect());
    table.fit(area, &["lost", "packets/s", "slowest"]);
    draw_table(frame, area, table.widget(), "switches", Some(current));
}

fn lost(app: &App) -> u64 {
    let segments = app.snapshot.segments.iter();
    segments
        .map(|segment| segment.total.counts.dropped_packets)
        .sum()
}

/// A switch with the segment whose 99.9th percentile is the greatest.
fn row(app: &App) -> [String; 7] {
    let snapshot = &app.snapshot;
    let key = |segment| Sort::P999.of_segment(snapshot, segment);
    let segments = snapshot.segments.iter();
    let slowest = segments.max_by(|a, b| key(a).total_cmp(&key(b)));
    // What a silent switch said last is not what is now.
    let slowest = slowest.filter(|_| app.silent_for().is_none());
    let stamped = slowest.and_then(|segment| snapshot.fresh(segment)?.stamped);
    let received: f64 = snapshot.ports.iter().map(|port| port.rx_pps).sum();
    [
        head::name(app).to_owned(),
        head::state(app).to_string(),
        known(slowest, |_| rate(received)),
        count(lost(app)),
        known(stamped.and(slowest), Segment::title),
        known(stamped, |stamped| duration_ns(stamped.p999_ns)),
        known(stamped, |stamped| duration_ns(stamped.max_ns)),
    ]
}
