//! How the live table looks. It is laid out for 80 columns and 24 rows, and makes use of more.

use std::borrow::Cow;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{
    Axis, Block, BorderType, Chart, Dataset, GraphType, Paragraph, Table, TableState, Wrap,
};

use super::app::{App, OpenFlow, Sort, Tab, View, class_packets_per_s, span};
use crate::view::{
    self, FLOW_HEADINGS, PORT_HEADINGS, SEGMENT_HEADINGS, WIRE_HEADINGS, WIRE_SEGMENT_HEADINGS,
    clock_words, dropped, flow_row, flow_words, known, port_row, row, wire_row, wire_segment_row,
};
use contract::units::{count, duration_ns, rate, uptime};
use records::answers::ClassTotals;
use records::history::{BUCKETS_MAX, Course};
use records::snapshot::{Flow, Port, QueueCounts, Segment, Snapshot, Stamped, State};

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
    frame.render_widget(headline(app, head.width), head);
    frame.render_widget(tab_line(app, apps.len(), is_listed), tabs);
    frame.render_widget(footline(app, is_listed), foot);
    if is_listed {
        return draw_list(frame, middle, apps, current);
    }
    match (&app.view, app.tab) {
        (View::Help, _) => return draw_help(frame, middle),
        (View::Flow(flow), _) => draw_flow(frame, middle, app, flow),
        (View::Table, Tab::Segments) => segments_tab(frame, middle, app),
        (View::Table, Tab::Flows) => flows_tab(frame, middle, app),
        (View::Table, Tab::Classes) => classes_tab(frame, middle, app),
        (View::Table, Tab::Ports) => ports_tab(frame, middle, app),
        (View::Table, Tab::Wires) => wires_tab(frame, middle, app),
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
    draw_course(frame, course, app);
    let all: Vec<&Port> = snapshot.ports.iter().collect();
    draw_ports(frame, ports, &all, None);
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
    let shown = order.iter().map(|&index| &snapshot.segments[index]);
    let rows = shown.map(|segment| {
        let style = move |heading: &str| segment_style(heading, segment);
        (row(snapshot, segment), style)
    });
    // An estimate goes with its bound.
    let expendable = ["p99.99", "samples", "stddev", "+-98%, LDA mean", "lost"];
    let table = Columns::new(SEGMENT_HEADINGS, rows.collect()).fit(area, &expendable);
    let names = selected.map(Segment::names);
    let is_selected = |index: &usize| Some(snapshot.segments[*index].names()) == names;
    let row = order.iter().position(is_selected);
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
        ("LDA mean" | "+-98%", Some(lda)) if lda.is_within_bound => Style::new().fg(GOOD),
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
    let expendable = [
        "ago", "by", "stddev", "segment", "lost", "p99", "+-98%", "estimate",
    ];
    let table = Columns::new(FLOW_HEADINGS, rows.collect()).fit(list, &expendable);
    let (matching, listed) = (page.matching, page.flows.len());
    let name = if matching > listed as u64 {
        let order = app.sort().label();
        format!("flows: the first {listed} of {matching} {order}")
    } else {
        let flows = app.snapshot.flows.as_ref();
        let free = flows.map(|flows| format!("; {} slots free", flows.totals.free_slots));
        format!("flows: {matching}{}", free.unwrap_or_default())
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
    let estimate = flow.estimate.as_ref();
    let is_within = estimate.and_then(|estimate| estimate.is_within_bound);
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
    let index = app.selected_in(classes.iter().map(|row| &row.class));
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
    let table =
        Columns::new(CLASS_HEADINGS, rows.collect()).fit(list, &["segments", "stddev", "p99"]);
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

/// The selected segment's mean delay: true and estimated.
fn draw_course(frame: &mut Frame, area: Rect, app: &App) {
    let Some(segment) = app.segment() else {
        return;
    };
    let (span, labels) = span(app.width);
    let name = format!("mean delay of {}, {span}", segment.title());
    let Some(course) = app.course() else {
        return remark(frame, area, &name, "asking ...");
    };
    let (stamped, estimated) = points(course, &app.snapshot);
    let all = stamped.iter().chain(&estimated);
    let greatest = all.map(|&(_, ns)| ns).fold(0.0, f64::max);
    if stamped.is_empty() {
        return remark(frame, area, &name, "no packets");
    }
    let top_ns = (greatest * 1.15).max(1.0);
    let data = |points, color: Color| {
        let dataset = Dataset::default()
            .data(points)
            .style(Style::new().fg(color));
        dataset.marker(Marker::Braille)
    };
    let mut datasets = vec![data(&stamped, ACCENT).graph_type(GraphType::Line)];
    let mut heading = title(format!("{name}:"));
    heading.push_span(Span::from("true ").fg(ACCENT));
    if !estimated.is_empty() {
        datasets.push(data(&estimated, ESTIMATE).graph_type(GraphType::Scatter));
        heading.push_span(Span::from("LDA ").fg(ESTIMATE));
    }
    let span_s = -f64::from(app.width.seconds()) * BUCKETS_MAX as f64;
    let x_axis = Axis::default().bounds([span_s, 0.0]).labels(labels);
    let y_labels = [0.0, top_ns / 2.0, top_ns].map(duration_ns);
    let y_axis = Axis::default().bounds([0.0, top_ns]).labels(y_labels);
    let chart = Chart::new(datasets)
        .block(framed(heading))
        .x_axis(x_axis.style(DIM))
        .y_axis(y_axis.style(DIM));
    frame.render_widget(chart, area);
}

/// Seconds from now, nanoseconds.
type Points = Vec<(f64, f64)>;

/// Means by stamps, and as estimated.
fn points(course: &Course, snapshot: &Snapshot) -> (Points, Points) {
    let now_s = snapshot.epoch_end_unix_s.unwrap_or_default();
    // A bucket is drawn at its end, the open one at the end of the last epoch.
    let at = |start_s: f64| (start_s + f64::from(course.width_s) - now_s).min(0.0);
    let buckets = course.buckets.iter().filter(|bucket| bucket.packets > 0);
    let stamped = buckets
        .clone()
        .map(|bucket| (at(bucket.start_unix_s), bucket.mean_ns));
    let estimated =
        buckets.filter_map(|bucket| Some((at(bucket.start_unix_s), bucket.estimated_mean_ns?)));
    (stamped.collect(), estimated.collect())
}

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

fn draw_help(frame: &mut Frame, area: Rect) {
    let lines = KEYS.map(|(key, what)| format!(" {key:<16} {what}"));
    let text = Paragraph::new(lines.join("\n"));
    frame.render_widget(text.block(framed(title("keys"))), area);
}

fn draw_flow(frame: &mut Frame, area: Rect, app: &App, flow: &OpenFlow) {
    let name = flow.name.as_str();
    let Some(answer) = &flow.answer else {
        return remark(frame, area, name, "asking ...");
    };
    let unknown = "no packet of it is known now";
    let text = view::flow(answer, app.width.seconds(), unknown);
    let width = usize::from(area.width.saturating_sub(3));
    let lines: Vec<String> = text.lines().flat_map(|line| wrapped(line, width)).collect();
    let rows = usize::from(area.height.saturating_sub(2));
    let most = u16::try_from(lines.len().saturating_sub(rows)).unwrap_or(u16::MAX);
    let text = Paragraph::new(lines.join("\n")).scroll((flow.scroll.min(most), 0));
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

/// The table of ports, with the selected one marked.
fn draw_ports(frame: &mut Frame, area: Rect, ports: &[&Port], selected: Option<usize>) {
    let rows = ports.iter().map(|port| {
        let style = move |heading: &str| match heading {
            "port" if !port.facts.is_up => Style::new().fg(BAD),
            "dropped" if port.dropped_packets() > 0 => Style::new().fg(BAD),
            _ => Style::new(),
        };
        (port_row(port), style)
    });
    let table =
        Columns::new(PORT_HEADINGS, rows.collect()).fit(area, &["sent", "received", "queued"]);
    draw_table(frame, area, table.widget(), "ports", selected);
}

fn ports_tab(frame: &mut Frame, area: Rect, app: &App) {
    let ports = app.ports();
    let index = app.selected_in(ports.iter().map(|port| &port.name));
    let Some(port) = ports.get(index) else {
        return remark(frame, area, "ports", "no port of this name");
    };
    let rows = u16::try_from(ports.len() + FRAME).unwrap_or(u16::MAX);
    let [list, detail] =
        Layout::vertical([Constraint::Max(rows), Constraint::Min(area.height / 2)]).areas(area);
    draw_ports(frame, list, &ports, Some(index));
    let text = Paragraph::new(port_words(port)).wrap(Wrap { trim: false });
    frame.render_widget(text.block(framed(title(port.name.clone()))), detail);
}

/// Its device, its drops, its queues and its neighbours.
fn port_words(port: &Port) -> String {
    let facts = &port.facts;
    let link = if facts.is_up { "up" } else { "down" };
    let (driver, flaps) = (&facts.driver, count(facts.link_flaps));
    let mut lines = vec![format!(" {driver}, link {link}, went down {flaps} times")];
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

/// Rows of what is said of the clock, framed.
const CLOCK_ROWS: u16 = 4;

fn wires_tab(frame: &mut Frame, area: Rect, app: &App) {
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
    let expendable = ["withheld", "of share", "disbelieved", "control"];
    let table = Columns::new(WIRE_HEADINGS, cells.collect()).fit(sessions, &expendable);
    draw_table(frame, sessions, table.widget(), "sessions", None);
    let cells = wires.iter().flat_map(|wire| &wire.segments).map(|segment| {
        let style = |heading: &str| match heading {
            "state" => Style::new().fg(BAD),
            _ => Style::new(),
        };
        (wire_segment_row(segment), style)
    });
    let expendable = ["epoch", "by", "samples", "stddev", "sent"];
    let table = Columns::new(WIRE_SEGMENT_HEADINGS, cells.collect()).fit(segments, &expendable);
    draw_table(frame, segments, table.widget(), "segments on wires", None);
    let text = Paragraph::new(format!(" {}", clock_words(clock))).wrap(Wrap { trim: false });
    frame.render_widget(text.block(framed(title("clock"))), times);
}

const SWITCH_HEADINGS: &str = "switch | state | packets/s | lost | slowest | p99.9 | max";

fn draw_list(frame: &mut Frame, area: Rect, apps: &[App], current: usize) {
    let rows = apps.iter().map(|app| {
        let is_silent = app.silent_for().is_some();
        let has_lost = lost(app) > 0;
        let style = move |heading: &str| match heading {
            "state" if is_silent => Style::new().fg(BAD),
            "state" => Style::new().fg(GOOD),
            "lost" if has_lost => Style::new().fg(BAD),
            _ => Style::new(),
        };
        (switch_row(app), style)
    });
    let table =
        Columns::new(SWITCH_HEADINGS, rows.collect()).fit(area, &["lost", "packets/s", "slowest"]);
    draw_table(frame, area, table.widget(), "switches", Some(current));
}

fn lost(app: &App) -> u64 {
    let totals = app.snapshot.segments.iter().map(|segment| &segment.total);
    totals.map(|total| total.counts.dropped_packets).sum()
}

/// A switch with the segment whose 99.9th percentile is the greatest.
fn switch_row(app: &App) -> [String; 7] {
    let snapshot = &app.snapshot;
    let key = |segment| Sort::P999.of_segment(snapshot, segment);
    let segments = snapshot.segments.iter();
    let slowest = segments.max_by(|a, b| key(a).total_cmp(&key(b)));
    // What a silent switch said last is not what is now.
    let slowest = slowest.filter(|_| app.silent_for().is_none());
    let stamped = slowest.and_then(|segment| snapshot.fresh(segment)?.stamped);
    let received: f64 = snapshot.ports.iter().map(|port| port.rx_pps).sum();
    [
        name(app).to_owned(),
        state(app).to_string(),
        known(slowest, |_| rate(received)),
        count(lost(app)),
        known(stamped.and(slowest), Segment::title),
        known(stamped, |stamped| duration_ns(stamped.p999_ns)),
        known(stamped, |stamped| duration_ns(stamped.max_ns)),
    ]
}

/// Switch, state and epoch; on a narrow screen only the most important parts.
fn headline(app: &App, width: u16) -> Line<'static> {
    let snapshot = &app.snapshot;
    let epoch = match snapshot.epoch {
        _ if !snapshot.measuring => "measurement off".to_owned(),
        Some(epoch) => format!("epoch {epoch} of {} ms", snapshot.interval_ms),
        None => "first epoch".to_owned(),
    };
    // Each with a rank: the highest is left out first, of equal ones the last.
    let mut parts = vec![
        (2, Span::styled(snapshot.version.clone(), DIM)),
        (0, Span::from(name(app).to_owned()).bold()),
        (0, state(app)),
        (1, Span::from(epoch)),
        (3, Span::from(format!("up {}", uptime(snapshot.uptime_s)))),
    ];
    for (index, worker) in snapshot.workers.iter().enumerate() {
        let busy = worker.busy_ratio * 100.0;
        parts.push(if worker.is_stalled {
            let words = format!("worker {index} STALLED");
            (0, Span::from(words).fg(BAD).bold())
        } else {
            (1, Span::from(format!("worker {index} {busy:.0}% busy")))
        });
    }
    let program = Span::from(" vernier").fg(ACCENT).bold();
    let separator = Span::styled(" | ", DIM);
    let length = |parts: &[(u8, Span<'static>)]| -> usize {
        let widths = parts.iter().map(|(_, part)| part.width());
        program.width() + parts.len() * separator.width() + widths.sum::<usize>()
    };
    while length(&parts) > usize::from(width) {
        let first = parts.iter().enumerate().max_by_key(|(_, (rank, _))| *rank);
        match first {
            Some((index, (rank, _))) if *rank > 0 => drop(parts.remove(index)),
            _ => break,
        }
    }
    let mut line = Line::from(program);
    line.extend(
        parts
            .into_iter()
            .flat_map(|(_, part)| [separator.clone(), part]),
    );
    line
}

/// The switch's name, or its address as long as it has not answered.
fn name(app: &App) -> &str {
    if app.snapshot.switch.is_empty() {
        &app.address
    } else {
        &app.snapshot.switch
    }
}

/// Whether the switch runs, or for how long it has been silent.
fn state(app: &App) -> Span<'static> {
    let silent = app.silent_for().map(|silent| silent.as_secs_f64());
    match (silent, app.snapshot.state) {
        (Some(seconds), _) => Span::from(format!("NO ANSWER for {}", uptime(seconds)))
            .fg(BAD)
            .bold(),
        (None, State::Running) => Span::from("running").fg(GOOD),
        (None, state) => Span::from(state.label()).fg(ESTIMATE),
    }
}

fn tab_line(app: &App, switches: usize, is_listed: bool) -> Line<'static> {
    let list = (switches > 1).then_some((0, "switches", is_listed));
    let tabs = Tab::ALL.into_iter().zip(1..).map(|(tab, number)| {
        let is_shown = !is_listed && tab == app.tab;
        (number, tab.label(), is_shown)
    });
    let all = list.into_iter().chain(tabs);
    let spans = all.flat_map(|(number, label, is_shown)| {
        let style = if is_shown { SELECTED } else { DIM };
        let tab = Span::styled(format!(" {number} {label} "), style);
        [" ".into(), tab]
    });
    spans.collect()
}

/// What is wrong, what is typed, or the keys.
fn footline(app: &App, is_listed: bool) -> Line<'_> {
    if app.is_typing {
        let typed = Span::from(format!(" /{}", app.filter)).fg(ACCENT).bold();
        return Line::from(vec![typed, "_  Enter keeps it, Escape drops it".into()]);
    }
    if let Some(trouble) = &app.trouble {
        return Line::from(format!(" {trouble}")).fg(BAD).bold();
    }
    let sort = format!("sort: {}", app.sort().label());
    let filter = format!("filter: {}", app.filter);
    let filter = if app.filter.is_empty() {
        "filter"
    } else {
        filter.as_str()
    };
    let mut keys = match (&app.view, is_listed) {
        (_, true) => vec![("q", "quit"), ("up/down", "select"), ("Enter", "show it")],
        (View::Flow(_) | View::Help, _) => {
            vec![("Esc", "back"), ("up/down", "scroll"), ("q", "quit")]
        }
        (View::Table, _) => vec![("q", "quit"), ("?", "keys"), ("/", filter), ("s", &sort)],
    };
    match app.tab {
        Tab::Segments if app.is_at_top() && !is_listed => keys.push(("w", span(app.width).0)),
        Tab::Flows if app.is_table() && !is_listed => keys.push(("Enter", "one flow")),
        _ => {}
    }
    let spans = keys.into_iter().flat_map(|(key, what)| {
        let key = Span::from(format!(" {key}")).fg(ACCENT).bold();
        [key, Span::from(format!(" {what} "))]
    });
    spans.collect()
}
