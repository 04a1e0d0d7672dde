//! How the live table looks. It is laid out for 80 columns and 24 rows, and makes use of more.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Paragraph, Table, TableState, Wrap};

use super::app::{App, Tab, span};
use super::classes::ClassRow;
use crate::view::{
    FLOW_HEADINGS, PORT_HEADINGS, SEGMENT_HEADINGS, flow_row, flow_words, known, port_row, row,
};
use contract::units::{count, duration_ns, rate, uptime};
use records::snapshot::{Estimate, Flow, Segment, Snapshot, State};

mod chart;
mod table;

use table::Columns;

const ACCENT: Color = Color::Cyan;
const ESTIMATE: Color = Color::Yellow;
const GOOD: Color = Color::Green;
const BAD: Color = Color::Red;
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const SELECTED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Rows of a framed chart in which a course can still be seen.
const CHART_MIN: u16 = 7;

/// Rows of all that is known of one flow, framed.
const FLOW_ROWS: u16 = 10;

/// Columns for a flow's most important figures beside its name.
const FIGURES: u16 = 30;

/// Characters of a flow's name that are always shown; all of it is below the list.
const NAME_MIN: usize = 20;

/// Rows of the frame around a table, and of its headings.
const FRAME: usize = 3;

/// Headings of the classes' table.
const CLASS_HEADINGS: [&str; 7] = [
    "class",
    "segments",
    "packets/s",
    "lost",
    "mean",
    "stddev",
    "p99 max",
];

pub(super) fn draw(frame: &mut Frame, app: &App) {
    let [head, tabs, middle, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(headline(&app.snapshot, head.width), head);
    frame.render_widget(tab_line(app), tabs);
    frame.render_widget(footline(app), foot);
    match app.tab {
        Tab::Segments => segments_tab(frame, middle, app),
        Tab::Flows => flows_tab(frame, middle, app),
        Tab::Classes => classes_tab(frame, middle, app),
    }
}

/// Switch, state and epoch; on a narrow screen only the most important parts.
fn headline(snapshot: &Snapshot, width: u16) -> Line<'static> {
    let state = match snapshot.state {
        State::Running => Span::from("running").fg(GOOD),
        state => Span::from(state.label()).fg(ESTIMATE),
    };
    let epoch = match snapshot.epoch {
        _ if !snapshot.measuring => "measurement off".to_owned(),
        Some(epoch) => format!("epoch {epoch} of {} ms", snapshot.interval_ms),
        None => "first epoch".to_owned(),
    };
    // Each with a rank: the highest is left out first, of equal ones the last.
    let mut parts = vec![
        (2, Span::styled(snapshot.version.clone(), DIM)),
        (0, Span::from(snapshot.switch.clone()).bold()),
        (0, state),
        (1, Span::from(epoch)),
        (3, Span::from(format!("up {}", uptime(snapshot.uptime_s)))),
    ];
    for (index, worker) in snapshot.workers.iter().enumerate() {
        let busy = worker.busy_ratio * 100.0;
        parts.push(if worker.is_stalled {
            (
                0,
                Span::from(format!("worker {index} STALLED")).fg(BAD).bold(),
            )
        } else {
            (1, Span::from(format!("worker {index} {busy:.0}% busy")))
        });
    }
    let name = Span::from(" vernier").fg(ACCENT).bold();
    let separator = Span::styled(" | ", DIM);
    let length = |parts: &[(u8, Span<'static>)]| -> usize {
        let widths = parts
            .iter()
            .map(|(_, part)| separator.width() + part.width());
        name.width() + widths.sum::<usize>()
    };
    while length(&parts) > usize::from(width) {
        let first = parts.iter().enumerate().max_by_key(|(_, (rank, _))| *rank);
        match first {
            Some((index, (rank, _))) if *rank > 0 => drop(parts.remove(index)),
            _ => break,
        }
    }
    let parts = parts
        .into_iter()
        .flat_map(|(_, part)| [separator.clone(), part]);
    Line::from([name.clone()].into_iter().chain(parts).collect::<Vec<_>>())
}

fn tab_line(app: &App) -> Line<'static> {
    let mut spans = Vec::new();
    for (index, tab) in Tab::ALL.into_iter().enumerate() {
        let text = format!(" {} {} ", index + 1, tab.label());
        let style = if tab == app.tab { SELECTED } else { DIM };
        spans.push(Span::from(" "));
        spans.push(Span::styled(text, style));
    }
    Line::from(spans)
}

fn footline(app: &App) -> Line<'_> {
    if let Some(trouble) = &app.trouble {
        return Line::from(format!(" {trouble}")).fg(BAD).bold();
    }
    let key = |key: &'static str| Span::from(key).fg(ACCENT).bold();
    let mut spans = vec![
        key(" q"),
        " quit  ".into(),
        key("1 2 3"),
        " tabs  ".into(),
        key("up/down"),
        " select  ".into(),
        key("s"),
        " sort: ".into(),
        Span::from(app.sort().label()),
    ];
    if app.tab == Tab::Segments {
        spans.extend(["  ".into(), key("w"), " ".into(), span(app.width).into()]);
    }
    Line::from(spans)
}

fn framed(title: impl Into<Line<'static>>) -> Block<'static> {
    Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(DIM)
        .title(title)
}

fn title(text: impl Into<String>) -> Line<'static> {
    Line::from(format!(" {} ", text.into())).bold()
}

/// A frame with a remark instead of a table.
fn remark(frame: &mut Frame, area: Rect, name: &str, text: &str) {
    let paragraph = Paragraph::new(format!(" {text}")).style(DIM);
    frame.render_widget(paragraph.block(framed(title(name))), area);
}

/// Rows for two tables around a chart: what they need, as long as a chart can be seen; then the
/// first has two thirds of what is left.
fn shares(area: Rect, first: usize, last: usize) -> [Rect; 3] {
    let rows = |n: usize| u16::try_from(n + FRAME).unwrap_or(u16::MAX);
    let (first, last) = (rows(first), rows(last));
    let room = area.height.saturating_sub(CHART_MIN);
    let last = last.min((room / 3).max(room.saturating_sub(first)));
    let first = first.min(room - last);
    Layout::vertical([
        Constraint::Length(first),
        Constraint::Fill(1),
        Constraint::Length(last),
    ])
    .areas(area)
}

fn segments_tab(frame: &mut Frame, area: Rect, app: &App) {
    let snapshot = &app.snapshot;
    let [segments, course, ports] =
        shares(area, snapshot.segments.len().max(1), snapshot.ports.len());
    draw_segments(frame, segments, app, &app.order(), Some(app.selected));
    chart::draw(frame, course, app);
    draw_ports(frame, ports, snapshot);
}

fn draw_segments(
    frame: &mut Frame,
    area: Rect,
    app: &App,
    order: &[usize],
    selected: Option<usize>,
) {
    let snapshot = &app.snapshot;
    if !snapshot.measuring {
        let text = "measurement is off (measurement.enabled)";
        return remark(frame, area, "segments", text);
    }
    let shown = order
        .iter()
        .filter_map(|&index| snapshot.segments.get(index));
    let rows = shown.map(|segment| {
        let style = move |heading: &str| segment_style(heading, segment);
        (row(snapshot, segment), style)
    });
    let mut table = Columns::new(&SEGMENT_HEADINGS, rows.collect());
    let expendable = [
        "p99.9", "p99.99", "max", "samples", "lost", "stddev", "+-98%",
    ];
    table.fit(area, &expendable);
    let row = order.iter().position(|&index| Some(index) == selected);
    draw_table(frame, area, table.widget(), "segments", row);
}

/// A framed table with a row that is marked.
fn draw_table(
    frame: &mut Frame,
    area: Rect,
    table: Table<'_>,
    name: &str,
    selected: Option<usize>,
) {
    let widget = table.block(framed(title(name)));
    frame.render_stateful_widget(
        widget.row_highlight_style(SELECTED),
        area,
        &mut TableState::new().with_selected(selected),
    );
}

/// Losses in red; the estimate in green when the true mean is inside its bound.
fn segment_style(heading: &str, segment: &Segment) -> Style {
    let lda = segment.last.as_ref().and_then(|last| last.lda);
    match (heading, lda) {
        ("lost", _) if segment.total.counts.dropped_packets > 0 => Style::new().fg(BAD),
        (
            "LDA mean" | "+-98%",
            Some(Estimate {
                is_within_bound: true,
                ..
            }),
        ) => Style::new().fg(GOOD),
        ("LDA mean" | "+-98%", Some(_)) => Style::new().fg(ESTIMATE),
        _ => Style::new(),
    }
}

fn draw_ports(frame: &mut Frame, area: Rect, snapshot: &Snapshot) {
    let rows = snapshot.ports.iter().map(|port| {
        let style = move |heading: &str| match heading {
            "port" if !port.facts.is_up => Style::new().fg(BAD),
            "dropped" if port.dropped_packets() > 0 => Style::new().fg(BAD),
            _ => Style::new(),
        };
        (port_row(port), style)
    });
    let mut table = Columns::new(&PORT_HEADINGS, rows.collect());
    table.fit(area, &["sent", "received", "queued"]);
    draw_table(frame, area, table.widget(), "ports", None);
}

fn flows_tab(frame: &mut Frame, area: Rect, app: &App) {
    if !app.has_flows() {
        let text = "this switch tracks no flows (measurement.flows)";
        return remark(frame, area, "flows", text);
    }
    let Some(page) = &app.flows else {
        return remark(frame, area, "flows", "asking ...");
    };
    let [list, detail] =
        Layout::vertical([Constraint::Fill(1), Constraint::Max(FLOW_ROWS)]).areas(area);
    let rows = page.flows.iter().map(|flow| {
        let style = move |heading: &str| flow_style(heading, flow);
        let mut cells = flow_row(page.epoch_end_unix_s, flow);
        cells[0] = cut(&cells[0], usize::from(list.width.saturating_sub(FIGURES)));
        (cells, style)
    });
    let mut table = Columns::new(&FLOW_HEADINGS, rows.collect());
    table.fit(
        list,
        &[
            "ago", "by", "stddev", "segment", "lost", "p99", "+-98%", "estimate",
        ],
    );
    let name = match page.matching {
        matching if matching > page.flows.len() as u64 => format!(
            "flows: the first {} of {matching} {}",
            page.flows.len(),
            app.sort().label()
        ),
        matching => {
            let flows = app.snapshot.flows.as_ref();
            let free = flows.map(|flows| format!("; {} slots free", flows.totals.free_slots));
            format!("flows: {matching}{}", free.unwrap_or_default())
        }
    };
    draw_table(frame, list, table.widget(), &name, Some(app.selected_flow));
    match page.flows.get(app.selected_flow) {
        Some(flow) => {
            let text = Paragraph::new(flow_words(flow)).wrap(Wrap { trim: false });
            frame.render_widget(text.block(framed(title(flow.flow.clone()))), detail);
        }
        None => remark(frame, detail, "flow", "no packet of a tracked flow yet"),
    }
}

/// A text cut to `most` characters, but not to fewer than identify it.
fn cut(text: &str, most: usize) -> String {
    let most = most.max(NAME_MIN);
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let start: String = text.chars().take(most - 2).collect();
    start + ".."
}

/// Losses in red; the estimate in green when the true mean is inside its bound.
fn flow_style(heading: &str, flow: &Flow) -> Style {
    let is_within = flow
        .estimate
        .as_ref()
        .and_then(|estimate| estimate.is_within_bound);
    match (heading, is_within) {
        ("lost", _) if flow.last.lost_packets > Some(0) => Style::new().fg(BAD),
        ("estimate" | "+-98%", Some(true)) => Style::new().fg(GOOD),
        ("estimate" | "+-98%", Some(false)) => Style::new().fg(ESTIMATE),
        _ => Style::new(),
    }
}

fn classes_tab(frame: &mut Frame, area: Rect, app: &App) {
    let classes = app.classes();
    if classes.is_empty() {
        let text = "measurement is off (measurement.enabled)";
        return remark(frame, area, "classes", text);
    }
    let index = app.class_index(&classes);
    let rows = u16::try_from(classes.len() + FRAME).unwrap_or(u16::MAX);
    let [list, segments] =
        Layout::vertical([Constraint::Max(rows), Constraint::Fill(1)]).areas(area);
    let rows = classes.iter().map(|class| {
        let style = move |heading: &str| match heading {
            "lost" if class.lost_packets > 0 => Style::new().fg(BAD),
            _ => Style::new(),
        };
        (class_cells(class), style)
    });
    let mut table = Columns::new(&CLASS_HEADINGS, rows.collect());
    table.fit(list, &["segments", "stddev"]);
    draw_table(frame, list, table.widget(), "classes", Some(index));
    let class = classes.get(index).map_or("", |row| row.class.as_str());
    let is_of_class = |index: &usize| app.snapshot.segments[*index].class == class;
    let order: Vec<usize> = app.order().into_iter().filter(is_of_class).collect();
    draw_segments(frame, segments, app, &order, None);
}

fn class_cells(class: &ClassRow) -> [String; 7] {
    [
        class.class.clone(),
        class.segments.to_string(),
        rate(class.packets_per_s),
        count(class.lost_packets),
        known(class.mean_ns, duration_ns),
        known(class.stddev_ns, duration_ns),
        known(class.p99_max_ns, duration_ns),
    ]
}
