//! Draws the live table. The layout is for 80 columns and 24 rows, and uses more if available.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, BorderType, Paragraph, Table, TableState, Wrap};

use super::app::{App, View};
use super::choice::{Sort, Tab};
use crate::view::{
    Passed, WIRE_HEADINGS, WIRE_SEGMENT_HEADINGS, clock_words, dropped, flow_words, known,
    wire_row, wire_segment_row,
};
use contract::units::{count, duration_ns};
use records::answers::{FEW_PACKETS, FlowPage};
use records::snapshot::{Flow, Port, QueueCounts, Segment};

mod bars;
mod chart;
mod rows;
mod spots;
mod table;
mod text;

use bars::{draw_tabs, footline, headline, name, state};
pub(super) use spots::{Rows, Spots};
use table::Columns;
pub(super) use text::question;
use text::{draw_flow, draw_help};

const ACCENT: Color = Color::Cyan;
const ESTIMATE: Color = Color::Yellow;
const GOOD: Color = Color::Green;
const BAD: Color = Color::Red;
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const SELECTED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Fewest rows of a framed chart.
const CHART_MIN: u16 = 7;

/// Fewest rows of a framed table.
const TABLE_MIN: u16 = 5;

/// Rows for all figures of one flow.
const FLOW_ROWS: usize = 7;

/// Fewest rows of a framed text.
const TEXT_MIN: u16 = 6;

/// Columns for a flow's most important figures beside its name.
const FIGURES: u16 = 30;

/// Characters of a flow's name that are always shown; all of it is below the list.
const NAME_MIN: usize = 20;

/// Rows of the frame around a table, and of its headings.
const FRAME: usize = 3;

/// Draws the list of all switches, or one of them.
pub(super) fn draw(frame: &mut Frame, apps: &[App], current: usize, is_listed: bool) -> Spots {
    let [head, tabs, middle, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let app = &apps[current];
    frame.render_widget(headline(app, head.width), head);
    frame.render_widget(footline(app, is_listed), foot);
    let mut spots = Spots {
        tabs: draw_tabs(frame, tabs, app, apps.len(), is_listed),
        ..Spots::default()
    };
    if is_listed {
        spots.rows = Some(draw_list(frame, middle, apps, current));
        return spots;
    }
    spots.rows = match (&app.view, app.tab) {
        (View::Help, _) => {
            draw_help(frame, middle);
            return spots;
        }
        (View::Flow(flow), _) => {
            spots.scroll_max = draw_flow(frame, middle, app, flow);
            return spots;
        }
        (View::Table, Tab::Segments) => segments_tab(frame, middle, app),
        (View::Table, Tab::Flows) => flows_tab(frame, middle, app),
        (View::Table, Tab::Classes) => classes_tab(frame, middle, app),
        (View::Table, Tab::Ports) => ports_tab(frame, middle, app),
        (View::Table, Tab::Wires) => wires_tab(frame, middle, app),
    };
    // What a silent switch said last is not what is now.
    if app.silent_for().is_some() {
        frame.buffer_mut().set_style(middle, DIM);
    }
    spots
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

/// Rows for a table, a chart, and a table or text below it. The tables get the rows that they need, as long as there is
/// room for a chart; otherwise the first gets two thirds of the rest. If the last would have fewer than `last_min`
/// rows, it is left out. A low area has no chart.
fn shares(area: Rect, first: usize, last: Option<usize>, last_min: u16) -> [Rect; 3] {
    let rows = |n: usize| u16::try_from(n + FRAME).unwrap_or(u16::MAX);
    let (first, last) = (rows(first), last.map_or(0, rows));
    let is_low = area.height < CHART_MIN + TABLE_MIN;
    let chart = if is_low {
        0
    } else {
        CHART_MIN.max(area.height / 4)
    };
    let room = area.height.saturating_sub(chart);
    let last = last.min((room / 3).max(room.saturating_sub(first)));
    let last = if last < last_min { 0 } else { last };
    let first = if is_low { room } else { first }.min(room - last);
    Layout::vertical([
        Constraint::Length(first),
        Constraint::Fill(1),
        Constraint::Length(last),
    ])
    .areas(area)
}

fn segments_tab(frame: &mut Frame, area: Rect, app: &App) -> Option<Rows> {
    let snapshot = &app.snapshot;
    let (segments, ports) = (snapshot.segments.len().max(1), snapshot.ports.len());
    let [segments, course, below] = shares(area, segments, Some(ports), 0);
    let rows = draw_segments(frame, segments, app, &app.order(), Some(app.row()));
    chart::draw(frame, course, app);
    let all: Vec<&Port> = snapshot.ports.iter().collect();
    draw_ports(frame, below, app, &all, None);
    rows
}

fn draw_segments(
    frame: &mut Frame,
    area: Rect,
    app: &App,
    order: &[usize],
    selected: Option<usize>,
) -> Option<Rows> {
    let snapshot = &app.snapshot;
    if !snapshot.measuring {
        let text = "measurement is off (measurement.enabled)";
        remark(frame, area, "segments", text);
        return None;
    }
    let shown = order.iter().map(|&index| &snapshot.segments[index]);
    let rows = shown.map(|segment| {
        let style = move |heading: &str| segment_style(heading, segment);
        (rows::segment(snapshot, segment), style)
    });
    // An estimate goes with its bound.
    let expendable = ["samples", "LDA mean, +-98%", "p99.99", "stddev", "lost/s"];
    let mut table = Columns::new(rows::SEGMENT_HEADINGS, rows.collect());
    if selected.is_some() && app.tab == Tab::Segments {
        table = table.sorted_by(app.sort().headings(), app.is_reversed());
    }
    let table = table.fit(area, &expendable);
    let (count, first) = (order.len(), selected.map_or(0, |_| app.first_row()));
    let rows = table.widget();
    Some(draw_table(
        frame,
        area,
        rows,
        "segments",
        (count, selected, first),
    ))
}

/// Draws a framed table with this number of rows, from the given first row, with the selected row marked.
fn draw_table(
    frame: &mut Frame,
    area: Rect,
    table: Table<'_>,
    name: &str,
    (count, selected, first): (usize, Option<usize>, usize),
) -> Rows {
    let widget = table.block(framed(title(name)));
    let mut state = TableState::new().with_offset(first).with_selected(selected);
    let widget = widget.row_highlight_style(SELECTED);
    frame.render_stateful_widget(widget, area, &mut state);
    let frame_rows = u16::try_from(FRAME).unwrap_or(0);
    Rows {
        area: Rect {
            y: area.y + 2,
            height: area.height.saturating_sub(frame_rows),
            ..area
        },
        first: state.offset(),
        count,
        selected,
    }
}

/// Losses in red; the estimate in green when the true mean is inside its bound.
fn segment_style(heading: &str, segment: &Segment) -> Style {
    let last = segment.last.as_ref();
    let has_lost = last.is_some_and(|last| last.counts.dropped_packets > 0);
    match (heading, last.and_then(|last| last.lda)) {
        ("lost/s" | "loss", _) if has_lost => Style::new().fg(BAD),
        ("LDA mean" | "+-98%", Some(lda)) if lda.is_within_bound => Style::new().fg(GOOD),
        ("LDA mean" | "+-98%", Some(_)) => Style::new().fg(ESTIMATE),
        _ => Style::new(),
    }
}

fn flows_tab(frame: &mut Frame, area: Rect, app: &App) -> Option<Rows> {
    let Some(page) = &app.flows else {
        let text = if app.has_flows() {
            "asking ..."
        } else {
            "this switch tracks no flows (measurement.flows)"
        };
        remark(frame, area, "flows", text);
        return None;
    };
    let listed = page.flows.len();
    let [list, course, detail] = shares(area, listed.max(1), Some(FLOW_ROWS), TEXT_MIN);
    let is_by_delay = app.sort().is_by_delay();
    let rows = page.flows.iter().map(|flow| {
        let is_few = is_by_delay && flow.last.packets < FEW_PACKETS;
        let style = move |heading: &str| {
            if is_few {
                DIM
            } else {
                flow_style(heading, flow)
            }
        };
        let mut cells = rows::flow(page, flow);
        cells[0] = cut(&cells[0], usize::from(list.width.saturating_sub(FIGURES)));
        (cells, style)
    });
    let expendable = [
        "by",
        "estimate, +-98%",
        "ago",
        "stddev",
        "segment",
        "lost/s",
        "p99",
    ];
    let table = Columns::new(rows::FLOW_HEADINGS, rows.collect());
    let table = table.sorted_by(app.sort().headings(), app.is_reversed());
    let selected = (listed, Some(app.selected_flow), app.first_row());
    let name = flows_title(app, page);
    let rows = draw_table(
        frame,
        list,
        table.fit(list, &expendable).widget(),
        &name,
        selected,
    );
    chart::draw(frame, course, app);
    match app.flow() {
        Some(flow) => {
            let text = Paragraph::new(flow_words(flow)).wrap(Wrap { trim: false });
            frame.render_widget(text.block(framed(title(flow.flow.clone()))), detail);
        }
        None => remark(frame, detail, "flow", "no packet of a tracked flow yet"),
    }
    Some(rows)
}

fn flows_title(app: &App, page: &FlowPage) -> String {
    let (matching, listed, sort) = (page.matching, page.flows.len(), app.sort());
    let which = if matching > listed as u64 {
        format!("the first {listed} of {matching} {}", sort.label())
    } else {
        let flows = app.snapshot.flows.as_ref();
        let free = flows.map(|flows| format!("; {} slots free", flows.totals.free_slots));
        format!("{matching}{}", free.unwrap_or_default())
    };
    if sort.is_by_delay() {
        format!("flows: {which}; with fewer than {FEW_PACKETS} packets an epoch last")
    } else {
        format!("flows: {which}")
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
    let estimate = flow.estimate.as_ref();
    let is_within = estimate.and_then(|estimate| estimate.is_within_bound);
    match (heading, is_within) {
        ("lost/s" | "loss", _) if flow.last.lost_packets > Some(0) => Style::new().fg(BAD),
        ("estimate" | "+-98%", Some(true)) => Style::new().fg(GOOD),
        ("estimate" | "+-98%", Some(false)) => Style::new().fg(ESTIMATE),
        _ => Style::new(),
    }
}

fn classes_tab(frame: &mut Frame, area: Rect, app: &App) -> Option<Rows> {
    let classes = app.classes();
    if classes.is_empty() {
        let text = "measurement is off (measurement.enabled)";
        remark(frame, area, "classes", text);
        return None;
    }
    let index = app.row();
    let class = classes.get(index).map_or("", |row| row.class.as_str());
    let is_of_class = |index: &usize| app.snapshot.segments[*index].class == class;
    let order: Vec<usize> = app.order().into_iter().filter(is_of_class).collect();
    let [list, course, segments] = shares(area, classes.len(), Some(order.len()), 0);
    let rows = classes.iter().map(|class| {
        let passed = Passed::of_class(&app.snapshot, &class.class);
        let has_lost = passed.is_some_and(|passed| passed.lost_per_s > 0.0);
        let style = move |heading: &str| match heading {
            "lost/s" | "loss" if has_lost => Style::new().fg(BAD),
            _ => Style::new(),
        };
        (rows::class(&app.snapshot, class), style)
    });
    let table = Columns::new(rows::CLASS_HEADINGS, rows.collect());
    let table = table.sorted_by(app.sort().headings(), app.is_reversed());
    let table = table.fit(list, &["segments", "stddev", "lost/s", "p99"]);
    let selected = (classes.len(), Some(index), app.first_row());
    let rows = draw_table(frame, list, table.widget(), "classes", selected);
    chart::draw(frame, course, app);
    draw_segments(frame, segments, app, &order, None);
    Some(rows)
}

/// The table of ports, with the selected one marked.
fn draw_ports(
    frame: &mut Frame,
    area: Rect,
    app: &App,
    ports: &[&Port],
    selected: Option<usize>,
) -> Rows {
    let rows = ports.iter().map(|port| {
        let is_up = port.facts.is_up;
        let has_dropped = app.drops(port).is_some_and(|drops| drops.per_s() > 0.0);
        let style = move |heading: &str| match heading {
            "port" if !is_up => Style::new().fg(BAD),
            "rx dropped" | "tx dropped" | "dropped/s" if has_dropped => Style::new().fg(BAD),
            _ => Style::new(),
        };
        (rows::port(app, port), style)
    });
    let mut table = Columns::new(rows::PORT_HEADINGS, rows.collect());
    if selected.is_some() {
        table = table.sorted_by(app.sort().headings(), app.is_reversed());
    }
    let table = table.fit(area, &["queued", "rx dropped", "tx dropped"]);
    let selected = (
        ports.len(),
        selected,
        selected.map_or(0, |_| app.first_row()),
    );
    draw_table(frame, area, table.widget(), "ports", selected)
}

fn ports_tab(frame: &mut Frame, area: Rect, app: &App) -> Option<Rows> {
    let (ports, index) = (app.ports(), app.row());
    let Some(port) = ports.get(index) else {
        remark(frame, area, "ports", "no port of this name");
        return None;
    };
    let words = port_words(port);
    let lines = words.lines().count();
    let [list, course, detail] = shares(area, ports.len(), Some(lines), TEXT_MIN);
    let rows = draw_ports(frame, list, app, &ports, Some(index));
    chart::draw(frame, course, app);
    let text = Paragraph::new(words).wrap(Wrap { trim: false });
    let name = format!("{}, since the switch started", port.name);
    frame.render_widget(text.block(framed(title(name))), detail);
    Some(rows)
}

/// Its device, its drops, its queues and its neighbours.
fn port_words(port: &Port) -> String {
    let (facts, counts) = (&port.facts, &port.counts);
    let link = if facts.is_up { "up" } else { "down" };
    let (driver, flaps) = (&facts.driver, count(facts.link_flaps));
    let (received, sent) = (count(counts.rx_packets), count(counts.tx_packets));
    let mut lines = vec![
        format!(" {driver}, link {link}, went down {flaps} times"),
        format!(" received {received} packets, sent {sent}"),
    ];
    if let Some(device) = &facts.device {
        lines.push(format!(
            " device: {} missed, {} without a buffer, {} receive errors, {} transmit errors",
            count(device.missed_packets),
            count(device.no_buffer_packets),
            count(device.rx_error_packets),
            count(device.tx_error_packets)
        ));
    }
    lines.push(format!(" dropped: {}", dropped(&port.drops)));
    lines.extend(port.queues.iter().map(queue_words));
    for neighbour in &port.neighbours {
        let (system, port) = (&neighbour.system, &neighbour.port);
        lines.push(format!(" neighbour: {system}, port {port}"));
    }
    lines.join("\n")
}

fn queue_words(queue: &QueueCounts) -> String {
    let (name, packets) = (&queue.queue, count(queue.counts.packets));
    let dropped = dropped(&queue.drops);
    format!(" queue {name}: {packets} packets now, dropped {dropped}")
}

/// Rows of the framed text about the clock.
const CLOCK_ROWS: u16 = 4;

fn wires_tab(frame: &mut Frame, area: Rect, app: &App) -> Option<Rows> {
    let Some(clock) = &app.snapshot.wire_clock else {
        let text = "no port measures the path to another switch (ports[].wire)";
        remark(frame, area, "wires", text);
        return None;
    };
    let wires = app.snapshot.wires.iter();
    let wires: Vec<_> = wires.filter(|wire| app.is_shown(&wire.port)).collect();
    let rows = u16::try_from(wires.len() + FRAME).unwrap_or(u16::MAX);
    let [sessions, middle, times] = Layout::vertical([
        Constraint::Length(rows.min(area.height / 3)),
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
    let expendable = ["withheld", "of share", "disbelieved", "control"];
    let table = Columns::new(WIRE_HEADINGS, cells.collect()).fit(sessions, &expendable);
    draw_table(
        frame,
        sessions,
        table.widget(),
        "sessions",
        (wires.len(), None, 0),
    );
    let listed = app.wire_segments();
    let [segments, course, _] = shares(middle, listed.len(), None, 0);
    let cells = listed.iter().map(|segment| {
        let style = |heading: &str| match heading {
            "state" => Style::new().fg(BAD),
            _ => Style::new(),
        };
        (wire_segment_row(segment), style)
    });
    let expendable = ["epoch", "by", "samples", "stddev", "sent"];
    let table = Columns::new(WIRE_SEGMENT_HEADINGS, cells.collect()).fit(segments, &expendable);
    let selected = (listed.len(), Some(app.row()), app.first_row());
    let name = "segments on wires, last epoch";
    let rows = draw_table(frame, segments, table.widget(), name, selected);
    chart::draw(frame, course, app);
    let text = Paragraph::new(format!(" {}", clock_words(clock))).wrap(Wrap { trim: false });
    frame.render_widget(text.block(framed(title("clock"))), times);
    Some(rows)
}

const SWITCH_HEADINGS: &str = "switch | state | packets/s | lost/s | loss | slowest | p99.9 | max";

/// All switches, and below them the segments of the selected one.
fn draw_list(frame: &mut Frame, area: Rect, apps: &[App], current: usize) -> Rows {
    let rows = u16::try_from(apps.len() + FRAME).unwrap_or(u16::MAX);
    let [list, segments] =
        Layout::vertical([Constraint::Max(rows), Constraint::Fill(1)]).areas(area);
    let rows = apps.iter().map(|app| {
        let is_silent = app.silent_for().is_some();
        let passed = Passed::of_switch(&app.snapshot).filter(|_| !is_silent);
        let has_lost = passed.is_some_and(|passed| passed.lost_per_s > 0.0);
        let style = move |heading: &str| match heading {
            "state" if is_silent => Style::new().fg(BAD),
            "state" => Style::new().fg(GOOD),
            "lost/s" | "loss" if has_lost => Style::new().fg(BAD),
            _ => Style::new(),
        };
        (switch_row(app, passed), style)
    });
    let expendable = ["lost/s", "packets/s", "slowest"];
    let table = Columns::new(SWITCH_HEADINGS, rows.collect()).fit(list, &expendable);
    let selected = (apps.len(), Some(current), 0);
    let rows = draw_table(frame, list, table.widget(), "switches", selected);
    let app = &apps[current];
    if app.silent_for().is_none() && usize::from(segments.height) > FRAME {
        let order: Vec<usize> = (0..app.snapshot.segments.len()).collect();
        draw_segments(frame, segments, app, &order, None);
    }
    rows
}

/// A switch with the segment whose 99.9th percentile is the greatest.
fn switch_row(app: &App, passed: Option<Passed>) -> [String; 8] {
    let snapshot = &app.snapshot;
    let key = |segment| Sort::P999.of_segment(snapshot, segment).unwrap_or(-1.0);
    let segments = snapshot.segments.iter();
    let slowest = segments.max_by(|a, b| key(a).total_cmp(&key(b)));
    // What a silent switch said last is not what is now.
    let slowest = slowest.filter(|_| app.silent_for().is_none());
    let stamped = slowest.and_then(|segment| snapshot.fresh(segment)?.stamped);
    let [packets, drops, loss] = Passed::cells(passed);
    [
        name(app).to_owned(),
        state(app).to_string(),
        packets,
        drops,
        loss,
        known(stamped.and(slowest), Segment::title),
        known(stamped, |stamped| duration_ns(stamped.p999_ns)),
        known(stamped, |stamped| duration_ns(stamped.max_ns)),
    ]
}
