use super::*;
use crate::experiment::Curve;

fn drawn(x_axis: Axis, curves: &[(&str, Vec<(f64, f64)>)]) -> String {
    let curves = curves.iter().map(|(label, points)| Curve {
        label: (*label).to_owned(),
        points: points.clone(),
    });
    let figure = Figure {
        x_axis,
        curves: curves.collect(),
        ..Figure::of_errors("test", "Errors & <delays>")
    };
    let folder = tempfile::tempdir().unwrap();
    write(&[figure], folder.path()).unwrap();
    fs::read_to_string(folder.path().join("test.svg")).unwrap()
}

#[test]
fn every_curve_is_drawn_and_named() {
    let points: Vec<_> = (1..50).map(|n| (f64::from(n), f64::from(n * n))).collect();
    let curves = [("ours", points.clone()), ("paper's decoder", points)];
    for x_axis in [Axis::Linear, Axis::Logarithmic] {
        let svg = drawn(x_axis, &curves);
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        let strokes = svg.matches("stroke-width=\"2\"").count();
        assert_eq!(strokes, 2 + 2, "curves, legend");
        assert!(svg.contains("paper&apos;s decoder"), "{svg}");
        assert!(svg.contains("Errors &amp; &lt;delays&gt;"));
    }
}

#[test]
fn nothing_to_draw_is_an_empty_frame() {
    let nan = ("nan", vec![(f64::NAN, 1.0), (1.0, f64::INFINITY)]);
    let zeros = ("zeros", vec![(0.0, 1.0); 10]);
    for curves in [vec![], vec![nan], vec![zeros]] {
        for x_axis in [Axis::Linear, Axis::Logarithmic] {
            assert!(drawn(x_axis, &curves).contains("</svg>"));
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
