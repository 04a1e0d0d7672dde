//! Draws the chart of the selected row.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style, Stylize};
use ratatui::symbols::Marker;
use ratatui::text::Span;
use ratatui::widgets::{Axis, Chart as Graph, Dataset, GraphType};

use super::{ACCENT, BAD, DIM, ESTIMATE, framed, remark, title};
use crate::top::app::App;
use crate::top::choice::{Chart, Tab, span};
use crate::top::drops::PortDrops;
use crate::top::memory::{Step, Subject};
use crate::view::percent;
use contract::units::{duration_ns, rate};
use records::history::{BUCKETS_MAX, Bucket, Course};
use records::snapshot::Port;

const SECOND: Color = Color::Magenta;

/// Points further apart than this, in widths of buckets, are not joined, because there were no packets in between.
const GAP: f64 = 1.7;

/// Seconds from now, and a figure.
type Points = Vec<(f64, f64)>;

/// One line of a chart.
struct Curve {
    name: &'static str,
    color: Color,
    /// Points of an estimate are not joined.
    is_joined: bool,
    points: Points,
}

impl Curve {
    fn new(name: &'static str, color: Color, points: impl Iterator<Item = (f64, f64)>) -> Self {
        Self {
            name,
            color,
            is_joined: true,
            points: points.collect(),
        }
    }
}

/// Packets of a span of time.
#[derive(Debug, Default)]
struct Bin {
    /// The span's end in seconds from now.
    at_s: f64,
    duration_s: f64,
    entered: f64,
    lost: f64,
    mean_ns: Option<f64>,
    p99_ns: Option<f64>,
    estimated_ns: Option<f64>,
}

impl Bin {
    fn of_bucket(bucket: &Bucket, course: &Course, app: &App) -> Self {
        let now_s = app.snapshot.epoch_end_unix_s.unwrap_or_default();
        let epoch_s = f64::from(app.snapshot.interval_ms) / 1e3;
        // The open bucket ends with the last epoch.
        let width_s = f64::from(course.width_s).max(epoch_s);
        let end_s = (bucket.start_unix_s + width_s).min(now_s);
        let has_packets = bucket.packets > 0;
        Self {
            at_s: end_s - now_s,
            duration_s: (end_s - bucket.start_unix_s).max(epoch_s),
            entered: (bucket.packets + bucket.lost_packets) as f64,
            lost: bucket.lost_packets as f64,
            mean_ns: has_packets.then_some(bucket.mean_ns),
            p99_ns: bucket.p99_max_ns,
            estimated_ns: bucket.estimated_mean_ns,
        }
    }

    fn of_step(step: &Step, app: &App) -> Self {
        let &[entered, lost, delayed, sum_ns] = &*step.sums else {
            return Self::default();
        };
        Self {
            at_s: step.at_s - app.snapshot.uptime_s,
            duration_s: step.duration_s,
            entered,
            lost,
            mean_ns: (delayed > 0.0).then(|| sum_ns / delayed),
            p99_ns: (step.peak > 0.0).then_some(step.peak),
            estimated_ns: None,
        }
    }
}

/// Lines of a chart of packets.
fn curves(chart: Chart, bins: &[Bin]) -> Vec<Curve> {
    let curve = |name, color, figure: fn(&Bin) -> Option<f64>| {
        let points = bins.iter().filter_map(|bin| Some((bin.at_s, figure(bin)?)));
        Curve::new(name, color, points)
    };
    match chart {
        Chart::Delay => vec![
            curve("mean", ACCENT, |bin| bin.mean_ns),
            curve("p99", SECOND, |bin| bin.p99_ns),
            Curve {
                is_joined: false,
                ..curve("LDA", ESTIMATE, |bin| bin.estimated_ns)
            },
        ],
        Chart::Loss => vec![curve("lost", BAD, |bin| {
            (bin.entered > 0.0).then(|| bin.lost / bin.entered)
        })],
        _ => vec![
            curve("packets/s", ACCENT, |bin| {
                Some(bin.entered / bin.duration_s)
            }),
            curve("lost/s", BAD, |bin| {
                (bin.lost > 0.0).then(|| bin.lost / bin.duration_s)
            }),
        ],
    }
}

fn port_curves(chart: Chart, port: &Port, steps: &[Step], now_s: f64) -> Vec<Curve> {
    let curve = |name, color, figure: fn(&PortDrops) -> Option<f64>| {
        let points = steps.iter().filter_map(|step| {
            let drops = PortDrops::of(port, step);
            Some((step.at_s - now_s, figure(&drops)?))
        });
        Curve::new(name, color, points)
    };
    if chart == Chart::Loss {
        return vec![
            curve("of received", ACCENT, |drops| drops.received.loss()),
            curve("of sent", SECOND, |drops| drops.sent.loss()),
        ];
    }
    vec![
        curve("rx/s", ACCENT, |drops| Some(drops.received.entered_per_s)),
        curve("tx/s", SECOND, |drops| {
            Some(drops.sent.entered_per_s - drops.sent.lost_per_s)
        }),
        curve("dropped/s", BAD, |drops| {
            (drops.per_s() > 0.0).then(|| drops.per_s())
        }),
    ]
}

/// The busiest worker, and the mean of several.
fn busy_curves(steps: &[Step], now_s: f64) -> Vec<Curve> {
    let curve = |name, color, of: fn(&[f64]) -> f64| {
        let busy = |step: &Step| (of(&step.sums) / step.duration_s).clamp(0.0, 1.0);
        let points = steps.iter().map(|step| (step.at_s - now_s, busy(step)));
        Curve::new(name, color, points)
    };
    let busiest = curve("busiest", ACCENT, |sums| {
        sums.iter().copied().fold(0.0, f64::max)
    });
    if steps.last().is_some_and(|step| step.sums.len() > 1) {
        let mean = |sums: &[f64]| sums.iter().sum::<f64>() / sums.len() as f64;
        vec![busiest, curve("mean", SECOND, mean)]
    } else {
        vec![Curve {
            name: "worker 0",
            ..busiest
        }]
    }
}

/// The chart's name and lines; `None` if nothing is selected.
fn plot(app: &App) -> Option<(String, Vec<Curve>)> {
    let (chart, now_s) = (app.chart(), app.snapshot.uptime_s);
    let steps = |subject: &Subject| app.memory.steps(subject, app.width);
    if chart == Chart::Busy {
        let curves = busy_curves(&steps(&Subject::Workers), now_s);
        return Some((chart.label().to_owned(), curves));
    }
    let (of, curves) = match app.subject() {
        // The switch itself remembers segments.
        None => {
            let segment = app.segment().filter(|_| app.tab == Tab::Segments)?;
            (segment.title(), curves(chart, &bins(app)))
        }
        Some(Subject::Port(name)) => {
            let mut ports = app.snapshot.ports.iter();
            let port = ports.find(|port| port.name == name)?;
            let steps = steps(&Subject::Port(name.clone()));
            (name, port_curves(chart, port, &steps, now_s))
        }
        Some(subject) => {
            let steps = steps(&subject).into_iter();
            let bins: Vec<Bin> = steps.map(|step| Bin::of_step(&step, app)).collect();
            (subject.name().to_owned(), curves(chart, &bins))
        }
    };
    Some((format!("{} of {of}", chart.label()), curves))
}

/// The course of the selected segment.
fn bins(app: &App) -> Vec<Bin> {
    let now_s = app.snapshot.epoch_end_unix_s.unwrap_or_default();
    let bins = app.course().into_iter().flat_map(|course| {
        // A history fetched while the table is paused may continue beyond the pause.
        let buckets = course.buckets.iter();
        let buckets = buckets.filter(move |bucket| bucket.start_unix_s < now_s);
        buckets.map(|bucket| Bin::of_bucket(bucket, course, app))
    });
    bins.collect()
}

/// Draws the chosen chart of the selected row.
pub(super) fn draw(frame: &mut Frame, area: Rect, app: &App) {
    let Some((name, curves)) = plot(app) else {
        return remark(frame, area, app.chart().label(), "nothing is selected");
    };
    let (span, labels) = span(app.width);
    let name = format!("{name}, {span}");
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let figures = || points().map(|&(_, figure)| figure);
    if points().next().is_none() {
        let is_asked = app.tab == Tab::Segments && app.course().is_none();
        let text = if is_asked {
            "asking ..."
        } else {
            "nothing so far"
        };
        return remark(frame, area, &name, text);
    }
    let (unit, least): (fn(f64) -> String, f64) = match app.chart() {
        Chart::Delay => (duration_ns, 1.0),
        Chart::Loss | Chart::Busy => (percent, 1e-4),
        Chart::Rate => (rate, 1.0),
    };
    let top = (figures().fold(0.0, f64::max) * 1.15).max(least);
    // Delays between two clocks may be negative.
    let bottom = figures().fold(0.0, f64::min) * 1.15;
    let mut heading = title(format!("{name}:"));
    for curve in &curves {
        if let Some((_, latest)) = curve.points.last() {
            let text = format!("{} {}  ", curve.name, unit(*latest));
            heading.push_span(Span::from(text).fg(curve.color));
        }
    }
    let width_s = f64::from(app.width.seconds()).max(f64::from(app.snapshot.interval_ms) / 1e3);
    let runs = curves.iter().flat_map(|curve| {
        let points = &curve.points;
        let runs = points.chunk_by(|(a, _), (b, _)| b - a <= GAP * width_s);
        runs.map(|run| {
            let kind = if curve.is_joined {
                GraphType::Line
            } else {
                GraphType::Scatter
            };
            let dataset = Dataset::default().data(run).graph_type(kind);
            dataset
                .marker(Marker::Braille)
                .style(Style::new().fg(curve.color))
        })
    });
    let span_s = f64::from(app.width.seconds()) * BUCKETS_MAX as f64;
    let x_axis = Axis::default().bounds([-span_s, 0.0]).labels(labels);
    let y_labels = [bottom, f64::midpoint(bottom, top), top].map(unit);
    let y_axis = Axis::default().bounds([bottom, top]).labels(y_labels);
    let graph = Graph::new(runs.collect())
        .block(framed(heading))
        .x_axis(x_axis.style(DIM))
        .y_axis(y_axis.style(DIM));
    frame.render_widget(graph, area);
}
