//! A figure as SVG.

use std::ops::Range;

use anyhow::{Result, anyhow};
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use crate::table::{Curve, Figure};

/// The whole drawing, and the part of it for axes and curves; the rest is the legend.
const SIZE: (u32, u32) = (960, 480);
const CHART_WIDTH: u32 = 660;
const LEGEND_LINE: i32 = 22;
const LEGEND_CHARACTERS: usize = 38;
const FONT: &str = "sans-serif";

/// Decades of a logarithmic axis, at most: what is smaller stands at its left end.
const DECADES_MAX: i32 = 8;

/// Colours that colour-blind people can tell apart (Okabe and Ito 2008), without the yellow.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 0, 0),
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];

/// Draws `figure`; points that are not numbers are left out.
///
/// # Errors
/// What the drawing library says; not for want of points.
pub(super) fn svg(figure: &Figure) -> Result<String> {
    let mut text = String::new();
    let points = || {
        let all = figure.curves.iter().flat_map(|curve| &curve.points);
        all.filter(|(x, y)| x.is_finite() && y.is_finite())
    };
    let x = range(points().map(|point| point.0));
    let y = range(points().map(|point| point.1));
    // Shares, as of cumulative distributions, are seen best from 0 to 1.
    let y = if y.start >= 0.0 && y.end <= 1.0 && y.end > 0.5 {
        0.0..1.0
    } else {
        let margin = (y.end - y.start) * 0.05;
        let near_0 = (0.0..0.5 * y.end).contains(&y.start);
        let bottom = if near_0 { 0.0 } else { y.start - margin };
        bottom..y.end + margin
    };
    {
        let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        let drawn = if figure.x_log {
            let smallest = points().map(|point| point.0).filter(|&x| x > 0.0);
            let x = decades(smallest.fold(f64::INFINITY, f64::min), x.end);
            draw(&root, figure, x.clone().log_scale(), &x, y)
        } else {
            draw(&root, figure, x.clone(), &x, y)
        };
        drawn.map_err(|error| anyhow!("{error}"))?;
    }
    Ok(text)
}

type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

fn draw<'a, X>(
    root: &DrawingArea<SVGBackend<'a>, plotters::coord::Shift>,
    figure: &Figure,
    x_axis: X,
    x: &Range<f64>,
    y: Range<f64>,
) -> Drawn<'a>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
{
    root.fill(&WHITE)?;
    let (area, legend) = root.split_horizontally(CHART_WIDTH);
    let mut chart = ChartBuilder::on(&area)
        .caption(&figure.title, (FONT, 18))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(60)
        .build_cartesian_2d(x_axis, y)?;
    chart
        .configure_mesh()
        .x_desc(&figure.x_label)
        .y_desc(&figure.y_label)
        .x_label_formatter(&|value| tick(*value))
        .y_label_formatter(&|value| tick(*value))
        .label_style((FONT, 13))
        .axis_desc_style((FONT, 14))
        .bold_line_style(BLACK.mix(0.12))
        .light_line_style(BLACK.mix(0.04))
        .draw()?;
    let mut bottom = 44;
    for (index, curve) in figure.curves.iter().enumerate() {
        let style = style(index);
        let points = curve.points.iter().copied();
        let points = points.filter(|(x, y)| x.is_finite() && y.is_finite());
        let points = points.map(|(at, y)| (at.clamp(x.start, x.end), y));
        if dashed(index) {
            chart.draw_series(DashedLineSeries::new(points, 7, 4, style))?;
        } else {
            chart.draw_series(LineSeries::new(points, style))?;
        }
        bottom = legend_entry(&legend, curve, index, bottom)?;
    }
    root.present()
}

/// The name of a curve beside a piece of it, from `top` on; returns where the next may begin.
fn legend_entry<'a>(
    legend: &DrawingArea<SVGBackend<'a>, plotters::coord::Shift>,
    curve: &Curve,
    index: usize,
    top: i32,
) -> Result<i32, DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>> {
    let pieces: &[(i32, i32)] = if dashed(index) {
        &[(4, 11), (15, 22), (26, 33)]
    } else {
        &[(4, 33)]
    };
    for &(from, to) in pieces {
        let line = vec![(from, top + 6), (to, top + 6)];
        legend.draw(&PathElement::new(line, style(index)))?;
    }
    let lines = super::text::wrap(&curve.label, LEGEND_CHARACTERS);
    let mut at = top;
    for line in &lines {
        legend.draw(&Text::new(line.as_str(), (40, at), (FONT, 13)))?;
        at += LEGEND_LINE - 5;
    }
    Ok(top.max(at - LEGEND_LINE + 5) + LEGEND_LINE)
}

fn style(index: usize) -> ShapeStyle {
    let colour = COLOURS.get(index % COLOURS.len()).copied().unwrap_or(BLACK);
    colour.stroke_width(2)
}

/// When colours are used a second time, lines are dashed.
fn dashed(index: usize) -> bool {
    index / COLOURS.len() % 2 == 1
}

/// From the least to the greatest, and never empty.
fn range(values: impl Iterator<Item = f64> + Clone) -> Range<f64> {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let greatest = values.fold(f64::NEG_INFINITY, f64::max);
    if least < greatest {
        least..greatest
    } else if least.is_finite() {
        least - 0.5..least + 0.5
    } else {
        0.0..1.0
    }
}

/// Whole decades around `least` to `greatest`.
fn decades(least: f64, greatest: f64) -> Range<f64> {
    if !(least.is_finite() && least > 0.0 && greatest >= least) {
        return 0.1..1.0;
    }
    #[expect(clippy::cast_possible_truncation, reason = "exponents of floats")]
    let (from, to) = (least.log10().floor() as i32, greatest.log10().ceil() as i32);
    let from = from.min(to - 1).max(to - DECADES_MAX);
    // A little less, so that the first decade has its mark.
    0.999 * 10_f64.powi(from)..10_f64.powi(to)
}

/// What stands at a mark of an axis: `0.01`, `250`, `1e-6`.
fn tick(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude < 1e-12 {
        "0".to_owned()
    } else if (1e-3..1e6).contains(&magnitude) {
        // Marks are sums of steps: what they lack to round figures is not worth showing.
        let text = format!("{value:.4}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        format!("{value:.0e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(x_log: bool, curves: Vec<Curve>) -> Figure {
        Figure {
            name: "test".into(),
            title: "Errors & <delays>".into(),
            x_label: "relative error, %".into(),
            y_label: "share of flows".into(),
            x_log,
            curves,
        }
    }

    #[test]
    fn curves_and_their_names_are_drawn() {
        let curves = ["joint", "paper's decoder"]
            .map(|label| Curve::cdf(label, (1..=100).map(|n| f64::from(n * n) / 100.0).collect()));
        for x_log in [false, true] {
            let svg = svg(&figure(x_log, curves.to_vec())).unwrap();
            assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
            assert_eq!(
                svg.matches("stroke-width=\"2\"").count(),
                2 + 2,
                "curves, legend"
            );
            assert!(svg.contains("paper&apos;s decoder"), "{svg}");
            assert!(svg.contains("Errors &amp; &lt;delays&gt;"));
        }
    }

    #[test]
    fn nothing_to_draw_is_an_empty_frame() {
        let nan = Curve {
            label: "nan".into(),
            points: vec![(f64::NAN, 1.0), (1.0, f64::INFINITY)],
        };
        let zeros = Curve::cdf("exact", vec![0.0; 10]);
        for curves in [vec![], vec![nan], vec![zeros]] {
            for x_log in [false, true] {
                assert!(
                    svg(&figure(x_log, curves.clone()))
                        .unwrap()
                        .contains("</svg>")
                );
            }
        }
    }

    #[test]
    fn decades_are_whole_and_bounded() {
        assert_eq!(decades(0.02, 30.0), 0.00999..100.0);
        assert_eq!(decades(1.0, 1.0), 0.0999..1.0);
        assert_eq!(decades(1e-30, 1.0), 0.999e-8..1.0);
        assert_eq!(decades(f64::INFINITY, 0.0), 0.1..1.0);
    }

    #[test]
    fn ticks_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.600_000_000_000_000_1, "0.6"),
            (250.0, "250"),
            (0.01, "0.01"),
            (1e-6, "1e-6"),
            (1e-16, "0"),
        ] {
            assert_eq!(tick(value), text);
        }
    }
}
