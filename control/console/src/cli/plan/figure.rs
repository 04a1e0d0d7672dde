//! Probe hops and mean segments by upgrades, as SVG.

use anyhow::anyhow;
use contract::units::rate;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use super::{Answer, Step};

const SIZE: (u32, u32) = (1_100, 480);
const FONT: &str = "sans-serif";

/// Colours that colour-blind people can tell apart (Okabe and Ito 2008).
const COLOURS: [RGBColor; 3] = [
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(120, 120, 120),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

/// Two charts side by side.
pub(super) fn svg(answer: &Answer) -> anyhow::Result<String> {
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
    draw(&root, answer).map_err(|error| anyhow!("the figure cannot be drawn: {error}"))?;
    drop(root);
    Ok(text)
}

fn draw<'a>(root: &Area<'a>, answer: &Answer) -> Drawn<'a> {
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(SIZE.0 / 2);
    let steps = || answer.plans.iter().flat_map(|course| &course.steps);
    // A scale of decades needs more than one value.
    let hops = || steps().map(|step| step.probe_hops);
    let most = hops().max().unwrap_or(1).max(2) as f64;
    let least = hops().min().unwrap_or(1).max(1) as f64;
    let hops = (least / 1.3..most * 1.3).log_scale();
    let hops_of = |step: &Step| step.probe_hops.max(1) as f64;
    chart(&left, answer, "probe hops (logarithmic)", hops, hops_of)?;
    let longest = steps().map(|step| step.mean_hops).fold(1.0, f64::max);
    let mean_of = |step: &Step| step.mean_hops;
    let mean = 0.0..longest * 1.05;
    chart(&right, answer, "mean segment, hops", mean, mean_of)?;
    root.present()
}

fn chart<'a, Y>(
    area: &Area<'a>,
    answer: &Answer,
    title: &str,
    y: Y,
    value: impl Fn(&Step) -> f64,
) -> Drawn<'a>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let upgrades = answer.plans.iter();
    let upgrades = upgrades.map(|course| course.steps.len() - 1).max();
    let upgrades = upgrades.unwrap_or(0).max(1);
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 18))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(56)
        .build_cartesian_2d(0..upgrades, y)?;
    chart
        .configure_mesh()
        .x_desc("routers upgraded")
        .y_label_formatter(&|y| rate(*y))
        .max_light_lines(4)
        .light_line_style(BLACK.mix(0.04))
        .draw()?;
    for (course, colour) in answer.plans.iter().zip(COLOURS) {
        let style = colour.stroke_width(2);
        let points = course.steps.iter().map(|step| (step.upgrades, value(step)));
        let label = format!("{:?}", course.method).to_lowercase();
        chart
            .draw_series(LineSeries::new(points, style))?
            .label(label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerLeft)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    Ok(())
}
