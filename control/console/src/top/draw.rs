//! How the live table looks. It is laid out for 80 columns and 24 rows, and makes use of more.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, BorderType, Paragraph, Table, TableState, Wrap};

use super::app::{App, View};
use super::tab::{Tab, class_packets_per_s};
use crate::view::{FLOW_HEADINGS, SEGMENT_HEADINGS, flow_row, flow_words, known, row};
use contract::units::{count, duration_ns, rate};
use records::answers::ClassTotals;
use records::snapshot::{Estimate, Flow, Segment, Snapshot, Stamped};

mod chart;
mod flow;
mod head;
mod list;
mod ports;
mod table;
mod wires;

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
const CLASS_HEADINGS: &str =
    "class | segments | packets/s | lost | mean | stddev | p99 | p99.9 | max";

/// The list of all switches, or one of them.
pub(super) fn draw(frame: &mut Frame, apps: &[App], current: usize, is_listed: bool) {
    let [head, tabs, middle, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let app = &apps[current];
    frame.render_widget(head::headline(app, head.width), head);
    frame.render_widget(head::tab_line(app, apps.len(), is_listed), tabs);
    frame.render_widget(head::footline(app, is_listed), foot);
    if is_listed {
        return list::draw(frame, middle, apps, current);
    }
    match (&app.view, app.tab) {
        (View::Help, _) => return flow::help(frame, middle),
        (
            View::Flow {
                name,
                answer,
                scroll,
            },
            _,
        ) => flow::draw(frame, middle, app, name, answer.as_deref(), *scroll),
        (View::Table, Tab::Segments) => segments_tab(frame, middle, app),
        (View::Table, Tab::Flows) => flows_tab(frame, middle, app),
        (View::Table, Tab::Classes) => classes_tab(frame, middle, app),
        (View::Table, Tab::Ports) => ports::tab(frame, middle, app),
        (View::Table, Tab::Wires) => wires::tab(frame, middle, app),
    }
    // What a silent switch said last is not what is now.
    if app.silent_for().is_some() {
        frame.buffer_mut().set_style(middle, DIM);
    }
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
    draw_segments(frame, segments, app, &app.order(), app.segment());
    chart::draw(frame, course, app);
    ports::draw(
        frame,
        ports,
        &snapshot.ports.iter().collect::<Vec<_>>(),
        None,
    );
}

fn draw_segments(
    frame: &mut Frame,
    area: Rect,
    app: &App,
    order: &[usize],
    selected: Option<&Segment>,
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
    let mut table = Columns::new(SEGMENT_HEADINGS, rows.collect());
    // An estimate goes with its bound.
    let expendable = ["p99.99", "samples", "stddev", "+-98%, LDA mean", "lost"];
    table.fit(area, &expendable);
    let names = |segment: &Segment| segment.names().map(str::to_owned);
    let selected = selected.map(names);
    let is_selected = |index: &usize| snapshot.segments.get(*index).map(names) == selected;
    let row = selected
        .as_ref()
        .and_then(|_| order.iter().position(is_selected));
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
    let mut table = Columns::new(FLOW_HEADINGS, rows.collect());
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
            "lost" if class.counts.dropped_packets > 0 => Style::new().fg(BAD),
            _ => Style::new(),
        };
        (class_cells(&app.snapshot, class), style)
    });
    let mut table = Columns::new(CLASS_HEADINGS, rows.collect());
    table.fit(list, &["segments", "stddev", "p99"]);
    draw_table(frame, list, table.widget(), "classes", Some(index));
    let class = classes.get(index).map_or("", |row| row.class.as_str());
    let is_of_class = |index: &usize| app.snapshot.segments[*index].class == class;
    let order: Vec<usize> = app.order().into_iter().filter(is_of_class).collect();
    draw_segments(frame, segments, app, &order, None);
}

fn class_cells(snapshot: &Snapshot, class: &ClassTotals) -> [String; 9] {
    let delay =
        |of: fn(Stamped) -> f64| known(class.last.map(|last| of(last.stamped)), duration_ns);
    [
        class.class.clone(),
        class.segments.to_string(),
        rate(class_packets_per_s(snapshot, class)),
        count(class.counts.dropped_packets),
        delay(|stamped| stamped.mean_ns),
        delay(|stamped| stamped.stddev_ns),
        delay(|stamped| stamped.p99_ns),
        delay(|stamped| stamped.p999_ns),
        delay(|stamped| stamped.max_ns),
    ]
}
