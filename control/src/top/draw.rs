//! How the live table looks.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{
    Axis, Block, BorderType, Cell, Chart, Dataset, GraphType, LegendPosition, Paragraph, Row,
    Table, TableState,
};

use super::{App, HISTORY_S, Point};
use crate::snapshot::{Estimate, Segment, Snapshot, State};
use crate::units::{duration_ns, uptime};
use crate::view::{PORT_HEADINGS, SEGMENT_HEADINGS, port_row, row};

const ACCENT: Color = Color::Cyan;
const ESTIMATE: Color = Color::Yellow;
const GOOD: Color = Color::Green;
const BAD: Color = Color::Red;
const DIM: Style = Style::new().add_modifier(Modifier::DIM);

pub(super) fn draw(frame: &mut Frame, app: &App) {
    let rows = |n: usize| u16::try_from(n + 3).unwrap_or(u16::MAX);
    let [head, segments, chart, ports, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Max(rows(app.snapshot.segments.len().max(1))),
        Constraint::Fill(1),
        Constraint::Max(rows(app.snapshot.ports.len())),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(headline(&app.snapshot), head);
    draw_segments(frame, segments, app);
    draw_chart(frame, chart, app);
    draw_ports(frame, ports, &app.snapshot);
    frame.render_widget(footline(app), foot);
}

fn headline(snapshot: &Snapshot) -> Line<'_> {
    let separator = || Span::styled("  |  ", DIM);
    let state = match snapshot.state {
        State::Running => Span::from("running").fg(GOOD),
        state => Span::from(state.label()).fg(ESTIMATE),
    };
    let epoch = match snapshot.epoch {
        _ if !snapshot.measuring => "measurement off".to_owned(),
        Some(epoch) => format!("epoch {epoch} of {} ms", snapshot.interval_ms),
        None => "first epoch".to_owned(),
    };
    let mut spans = vec![
        Span::from(" vernier ").fg(ACCENT).bold(),
        Span::styled(snapshot.version.as_str(), DIM),
        separator(),
        Span::from(snapshot.switch.as_str()).bold(),
        separator(),
        state,
        separator(),
        Span::from(epoch),
        separator(),
        Span::from(format!("up {}", uptime(snapshot.uptime_s))),
    ];
    for (index, worker) in snapshot.workers.iter().enumerate() {
        spans.push(separator());
        spans.push(Span::from(format!(
            "worker {index} {:.0}% busy",
            worker.busy_ratio * 100.0
        )));
    }
    Line::from(spans)
}

fn footline(app: &App) -> Line<'_> {
    if let Some(trouble) = &app.trouble {
        return Line::from(format!(" {trouble}")).fg(BAD).bold();
    }
    let key = |key: &'static str| Span::from(key).fg(ACCENT).bold();
    Line::from(vec![
        key(" q"),
        " quit  ".into(),
        key("up/down"),
        " select  ".into(),
        key("s"),
        " sort: ".into(),
        Span::from(app.sort.label()),
    ])
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

/// A table whose columns are as wide as they need be, the first to the left.
fn table<const N: usize>(
    headings: &[&'static str; N],
    rows: Vec<[Cell<'static>; N]>,
    widths: [usize; N],
) -> Table<'static> {
    let heading = headings.iter().enumerate().map(|(column, &heading)| {
        let text = Text::from(heading);
        Cell::from(if column == 0 {
            text
        } else {
            text.right_aligned()
        })
    });
    let width = |n: usize| Constraint::Length(u16::try_from(n).unwrap_or(u16::MAX));
    Table::new(rows.into_iter().map(Row::new), widths.map(width))
        .header(Row::new(heading).style(DIM))
        .column_spacing(2)
}

/// Widths of the widest cells.
fn widths<const N: usize>(headings: &[&str; N], rows: &[[String; N]]) -> [usize; N] {
    std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0).max(headings[column].len())
    })
}

fn cell(column: usize, text: String, style: Style) -> Cell<'static> {
    let text = Text::from(text).style(style);
    Cell::from(if column == 0 {
        text
    } else {
        text.right_aligned()
    })
}

fn draw_segments(frame: &mut Frame, area: Rect, app: &App) {
    let block = framed(title("segments"));
    if !app.snapshot.measuring {
        let text = Paragraph::new(" measurement is off (measurement.enabled)").block(block);
        return frame.render_widget(text.style(DIM), area);
    }
    let order = app.order();
    let shown = order.iter().map(|&index| &app.snapshot.segments[index]);
    let texts: Vec<_> = shown
        .clone()
        .map(|segment| row(&app.snapshot, segment))
        .collect();
    let widths = widths(&SEGMENT_HEADINGS, &texts);
    let rows = texts.into_iter().zip(shown).map(|(texts, segment)| {
        let mut column = 0;
        texts.map(|text| {
            let cell = cell(column, text, segment_style(column, segment));
            column += 1;
            cell
        })
    });
    let table = table(&SEGMENT_HEADINGS, rows.collect(), widths)
        .block(block)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let place = order.iter().position(|&index| index == app.selected);
    frame.render_stateful_widget(table, area, &mut TableState::new().with_selected(place));
}

/// Losses in red; the estimate in green when the true mean is inside its bound.
fn segment_style(column: usize, segment: &Segment) -> Style {
    let lda = segment.last.as_ref().and_then(|last| last.lda);
    match (SEGMENT_HEADINGS.get(column), lda) {
        (Some(&"lost"), _) if segment.total.counts.dropped_packets > 0 => Style::new().fg(BAD),
        (
            Some(&("LDA mean" | "+-98%")),
            Some(Estimate {
                is_within_bound: true,
                ..
            }),
        ) => Style::new().fg(GOOD),
        (Some(&("LDA mean" | "+-98%")), Some(_)) => Style::new().fg(ESTIMATE),
        _ => Style::new(),
    }
}

fn draw_ports(frame: &mut Frame, area: Rect, snapshot: &Snapshot) {
    let texts: Vec<_> = snapshot.ports.iter().map(port_row).collect();
    let widths = widths(&PORT_HEADINGS, &texts);
    let rows = texts.into_iter().zip(&snapshot.ports).map(|(texts, port)| {
        let mut column = 0;
        texts.map(|text| {
            let is_drop = PORT_HEADINGS.get(column) == Some(&"dropped");
            let style = match column {
                0 if !port.facts.is_up => Style::new().fg(BAD),
                _ if is_drop && port.dropped_packets() > 0 => Style::new().fg(BAD),
                _ => Style::new(),
            };
            let cell = cell(column, text, style);
            column += 1;
            cell
        })
    });
    frame.render_widget(
        table(&PORT_HEADINGS, rows.collect(), widths).block(framed(title("ports"))),
        area,
    );
}

/// The selected segment's mean delay over the last minute: true and estimated.
fn draw_chart(frame: &mut Frame, area: Rect, app: &App) {
    let Some(segment) = app.snapshot.segments.get(app.selected) else {
        return;
    };
    let block = framed(title(format!(
        "mean delay of {}, last minute",
        segment.title()
    )));
    let points = app.history.get(app.selected).into_iter().flatten();
    let newest = app.snapshot.epoch.unwrap_or(0);
    let interval_s = f64::from(app.snapshot.interval_ms) / 1e3;
    let at = |point: &Point| (point.epoch as f64 - newest as f64) * interval_s;
    let stamped: Vec<_> = points
        .clone()
        .map(|point| (at(point), point.stamped_ns))
        .collect();
    let lda: Vec<_> = points
        .filter_map(|point| Some((at(point), point.lda_ns?)))
        .collect();
    let greatest = stamped
        .iter()
        .chain(&lda)
        .map(|&(_, ns)| ns)
        .fold(0.0, f64::max);
    if stamped.is_empty() {
        let text = Paragraph::new(" no packets yet").style(DIM).block(block);
        return frame.render_widget(text, area);
    }
    let top_ns = (greatest * 1.15).max(1.0);
    let data = |name, points, color| {
        let dataset = Dataset::default()
            .name(name)
            .data(points)
            .style(Style::new().fg(color));
        dataset.marker(Marker::Braille)
    };
    let datasets = vec![
        data("true", &stamped, ACCENT).graph_type(GraphType::Line),
        data("LDA", &lda, ESTIMATE).graph_type(GraphType::Scatter),
    ];
    let y_labels = [0.0, top_ns / 2.0, top_ns].map(duration_ns);
    let x_axis = Axis::default()
        .bounds([-HISTORY_S, 0.0])
        .labels(["-60 s", "-30 s", "now"]);
    let y_axis = Axis::default().bounds([0.0, top_ns]).labels(y_labels);
    let chart = Chart::new(datasets)
        .block(block)
        .x_axis(x_axis.style(DIM))
        .y_axis(y_axis.style(DIM))
        .legend_position(Some(LegendPosition::TopLeft));
    frame.render_widget(chart, area);
}
