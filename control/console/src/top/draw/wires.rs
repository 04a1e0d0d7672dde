//! Segments on the wire, their sessions and the clock.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::widgets::{Paragraph, Wrap};

use super::table::Columns;
use super::{BAD, FRAME, GOOD, draw_table, framed, remark, title};
use crate::top::app::App;
use crate::view::{WIRE_HEADINGS, WIRE_SEGMENT_HEADINGS, clock_words, wire_row, wire_segment_row};

/// Rows of what is said of the clock, framed.
const CLOCK_ROWS: u16 = 4;

pub(super) fn tab(frame: &mut Frame, area: Rect, app: &App) {
    let Some(clock) = &app.snapshot.wire_clock else {
        let text = "no port measures the path to another switch (ports[].wire)";
        return remark(frame, area, "wires", text);
    };
    let wires = app.snapshot.wires.iter();
    let wires: Vec<_> = wires.filter(|wire| app.is_shown(&wire.port)).collect();
    let rows = u16::try_from(wires.len() + FRAME).unwrap_or(u16::MAX);
    let [sessions, segments, times] = Layout::vertical([
        Constraint::Max(rows),
        Constraint::Fill(1),
        Constraint::Length(CLOCK_ROWS),
    ])
    .areas(area);
    let cells = wires.iter().map(|wire| {
        let style = move |heading: &str| match (heading, wire.session.as_str()) {
            ("session", "established") => Style::new().fg(GOOD),
            ("session", _) => Style::new().fg(BAD),
            _ => Style::new(),
        };
        (wire_row(wire), style)
    });
    let mut table = Columns::new(WIRE_HEADINGS, cells.collect());
    table.fit(
        sessions,
        &["withheld", "of share", "disbelieved", "control"],
    );
    draw_table(frame, sessions, table.widget(), "sessions", None);
    let cells = wires.iter().flat_map(|wire| &wire.segments).map(|segment| {
        let style = |heading: &str| match heading {
            "state" => Style::new().fg(BAD),
            _ => Style::new(),
        };
        (wire_segment_row(segment), style)
    });
    let mut table = Columns::new(WIRE_SEGMENT_HEADINGS, cells.collect());
    table.fit(segments, &["epoch", "by", "samples", "stddev", "sent"]);
    draw_table(frame, segments, table.widget(), "segments on wires", None);
    let text = Paragraph::new(format!(" {}", clock_words(clock))).wrap(Wrap { trim: false });
    frame.render_widget(text.block(framed(title("clock"))), times);
}
