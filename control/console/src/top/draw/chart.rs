//! The course of the selected segment.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style, Stylize};
use ratatui::symbols::Marker;
use ratatui::text::Span;
use ratatui::widgets::{Axis, Chart, Dataset, GraphType};

use super::{ACCENT, DIM, ESTIMATE, framed, remark, title};
use crate::top::app::App;
use crate::top::tab::span;
use contract::units::duration_ns;
use records::answers::Width;
use records::history::{BUCKETS_MAX, Course};
use records::snapshot::Snapshot;

/// The selected segment's mean delay: true and estimated.
pub(super) fn draw(frame: &mut Frame, area: Rect, app: &App) {
    let Some(segment) = app.segment() else {
        return;
    };
    let name = format!("mean delay of {}, {}", segment.title(), span(app.width));
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
    let x_axis = Axis::default()
        .bounds([span_s, 0.0])
        .labels(labels(app.width));
    let y_labels = [0.0, top_ns / 2.0, top_ns].map(duration_ns);
    let y_axis = Axis::default().bounds([0.0, top_ns]).labels(y_labels);
    let chart = Chart::new(datasets)
        .block(framed(heading))
        .x_axis(x_axis.style(DIM))
        .y_axis(y_axis.style(DIM));
    frame.render_widget(chart, area);
}

fn labels(width: Width) -> [&'static str; 3] {
    match width {
        Width::Second => ["-60 s", "-30 s", "now"],
        Width::TenSeconds => ["-10 min", "-5 min", "now"],
        Width::Minute => ["-60 min", "-30 min", "now"],
    }
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
