//! All that is known of one flow, and the keys.

use std::borrow::Cow;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::widgets::Paragraph;

use super::{DIM, framed, remark, title};
use crate::top::app::App;
use crate::view;
use records::snapshot::FlowAnswer;

/// The keys, by what they do.
const KEYS: [(&str, &str); 13] = [
    ("1 to 5, Tab", "segments, flows, classes, ports, wires"),
    ("0", "all switches, where there are several"),
    ("left, right", "the switch before, the next one"),
    ("up, down, j, k", "select a row, scroll"),
    ("PgUp, PgDn", "ten rows"),
    ("Home, End, g, G", "the first row, the last one"),
    ("Enter", "all that is known of the selected flow"),
    ("/", "only rows whose names contain a text"),
    ("s", "another order, the greatest first"),
    ("w", "the chart's last minute, ten minutes or hour"),
    ("?", "these keys"),
    ("Escape", "back; without a filter; out"),
    ("q, Ctrl-C", "quit"),
];

pub(super) fn help(frame: &mut Frame, area: Rect) {
    let lines = KEYS.map(|(key, what)| format!(" {key:<16} {what}"));
    let text = Paragraph::new(lines.join("\n"));
    frame.render_widget(text.block(framed(title("keys"))), area);
}

pub(super) fn draw(
    frame: &mut Frame,
    area: Rect,
    app: &App,
    name: &str,
    answer: Option<&FlowAnswer>,
    scroll: u16,
) {
    let Some(answer) = answer else {
        return remark(frame, area, name, "asking ...");
    };
    let unknown = "no packet of it is known now";
    let text = view::flow(answer, app.width.seconds(), unknown);
    let width = usize::from(area.width.saturating_sub(3));
    let lines: Vec<String> = text.lines().flat_map(|line| wrapped(line, width)).collect();
    let rows = usize::from(area.height.saturating_sub(2));
    let most = u16::try_from(lines.len().saturating_sub(rows)).unwrap_or(u16::MAX);
    let text = Paragraph::new(lines.join("\n")).scroll((scroll.min(most), 0));
    frame.render_widget(text.block(framed(title(name)).border_style(DIM)), area);
}

/// A sentence over several lines; a row of a table stays one, and is cut at the edge.
fn wrapped(line: &str, width: usize) -> Vec<String> {
    if line.starts_with("    ") {
        return vec![line.to_owned()];
    }
    let options = textwrap::Options::new(width.max(20)).subsequent_indent("    ");
    let lines = textwrap::wrap(line, options).into_iter();
    lines.map(Cow::into_owned).collect()
}
