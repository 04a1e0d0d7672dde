//! Figures as SVG.

use std::fs;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use crate::experiment::{Axis, Figure};

const SIZE: (u32, u32) = (960, 480);
const FONT: &str = "sans-serif";

/// Decades of a logarithmic axis, at most: what is smaller is drawn at its left end.
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

/// Draws figures into `folder`, each in a file by its name.
pub fn write(figures: &[Figure], folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for figure in figures {
        let file = folder.join(format!("{}.svg", figure.name));
        let svg = svg(figure).with_context(|| format!("cannot draw {}", figure.name))?;
        fs::write(&file, svg).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// Points that are not numbers are left out.
fn svg(figure: &Figure) -> Result<String> {
    let points = || {
        let all = figure.curves.iter().flat_map(|curve| &curve.points);
        all.filter(|(x, y)| x.is_finite() && y.is_finite())
    };
    let x = range(points().map(|point| point.0));
    let y = range(points().map(|point| point.1));
    let y = y.start.min(0.0)..y.end + 0.05 * (y.end - y.start);
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
    let drawn = match figure.x_axis {
        Axis::Linear => draw(&root, figure, x.clone(), &x, y),
        Axis::Logarithmic => {
            let least = points().map(|point| point.0).filter(|&x| x > 0.0);
            let x = decades(least.fold(f64::INFINITY, f64::min), x.end);
            draw(&root, figure, x.clone().log_scale(), &x, y)
        }
    };
    drawn.map_err(|error| anyhow!("{error}"))?;
    drop(root);
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
    let mut chart = ChartBuilder::on(root)
        .caption(&figure.title, (FONT, 18))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(60)
        .build_cartesian_2d(x_axis, y)?;
    chart
        .configure_mesh()
        .x_desc(figure.x_label)
        .y_desc(figure.y_label)
        .light_line_style(BLACK.mix(0.04))
        .draw()?;
    for (curve, colour) in figure.curves.iter().zip(COLOURS.iter().cycle()) {
        let points = curve.points.iter().copied();
        let points = points.filter(|(x, y)| x.is_finite() && y.is_finite());
        let points = points.map(|(at, y)| (at.clamp(x.start, x.end), y));
        let style = colour.stroke_width(2);
        chart
            .draw_series(LineSeries::new(points, style))?
            .label(&curve.label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .draw()?;
    root.present()
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

#[cfg(test)]
mod tests;
