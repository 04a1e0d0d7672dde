//! Texts instead of tables: the keys, all figures of one flow, and the question before a switch is stopped.

use std::borrow::Cow;

use ratatui::Frame;
use ratatui::layout::{Constraint, Flex, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};

use super::{ACCENT, BAD, DIM, framed, remark, title};
use crate::top::app::{App, OpenFlow};
use crate::view;
use contract::units::rate;

/// Asks whether the switch of this process is to stop.
pub(in crate::top) fn question(frame: &mut Frame, app: &App) {
    let snapshot = &app.snapshot;
    let received: f64 = snapshot.ports.iter().map(|port| port.rx_pps).sum();
    let (ports, received) = (snapshot.ports.len(), rate(received));
    let key = |key: &'static str| Span::from(key).fg(ACCENT).bold();
    let lines = vec![
        Line::from(format!(
            " Its {ports} ports forward {received} packets/s now."
        )),
        Line::default(),
        Line::from(vec![
            key(" y"),
            " stop it    ".into(),
            key("n"),
            " keep it running".into(),
        ]),
        Line::default(),
        Line::from(" vernierd without --live needs no terminal; vernier top").style(DIM),
        Line::from(" shows this table, and leaving it stops nothing.").style(DIM),
    ];
    let [area] = Layout::horizontal([Constraint::Length(60)])
        .flex(Flex::Center)
        .areas(frame.area());
    let [area] = Layout::vertical([Constraint::Length(8)])
        .flex(Flex::Center)
        .areas(area);
    let block = framed(title("Stop the switch?").fg(BAD)).border_style(Style::new().fg(BAD));
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// The keys, by what they do.
const KEYS: [(&str, &str); 17] = [
    ("1 to 5, Tab", "segments, flows, classes, ports, wires"),
    ("0", "all switches, where there are several"),
    ("left, right", "the previous switch, the next one"),
    ("up, down, j, k", "select a row, scroll"),
    ("PgUp, PgDn", "ten rows"),
    ("Home, End, g, G", "the first row, the last one"),
    ("Enter", "all figures of the selected flow"),
    ("/", "only rows whose names contain a text"),
    ("s", "another order, the greatest first"),
    ("r", "reverse the order: the least first"),
    ("c", "another chart: delay, loss, packets/s, busy workers"),
    ("w", "the chart's last minute, ten minutes or hour"),
    ("p", "pause and resume"),
    (
        "m",
        "let the terminal have the mouse, to select text (or hold Shift)",
    ),
    ("?", "these keys"),
    ("Escape", "back; without a filter"),
    (
        "q, Ctrl-C",
        "quit; asks first if a switch forwards in this process",
    ),
];

pub(super) fn draw_help(frame: &mut Frame, area: Rect) {
    let lines = KEYS.map(|(key, what)| format!(" {key:<16} {what}"));
    let text = Paragraph::new(lines.join("\n"));
    frame.render_widget(text.block(framed(title("keys"))), area);
}

/// Returns the last line that its text can begin with.
pub(super) fn draw_flow(frame: &mut Frame, area: Rect, app: &App, flow: &OpenFlow) -> u16 {
    let name = flow.name.as_str();
    let Some(answer) = &flow.answer else {
        remark(frame, area, name, "asking ...");
        return 0;
    };
    let unknown = "no packet of it is known now";
    let seconds = app.width.seconds();
    let text = view::Page::plain(true, |page| view::flow(page, answer, seconds, unknown));
    let width = usize::from(area.width.saturating_sub(3));
    let lines: Vec<String> = text.lines().flat_map(|line| wrapped(line, width)).collect();
    let rows = usize::from(area.height.saturating_sub(2));
    let most = u16::try_from(lines.len().saturating_sub(rows)).unwrap_or(u16::MAX);
    let text = Paragraph::new(lines.join("\n")).scroll((flow.scroll.min(most), 0));
    frame.render_widget(text.block(framed(title(name)).border_style(DIM)), area);
    most
}

/// Breaks sentences into lines; a row of a table stays on one line, and is cut at the edge.
fn wrapped(line: &str, width: usize) -> Vec<String> {
    if line.starts_with("    ") {
        return vec![line.to_owned()];
    }
    let options = textwrap::Options::new(width.max(20)).subsequent_indent("    ");
    let lines = textwrap::wrap(line, options).into_iter();
    lines.map(Cow::into_owned).collect()
}
