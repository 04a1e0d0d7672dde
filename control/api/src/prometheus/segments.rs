//! Segments inside the switch: counts, exact delays, estimates; and the sketches.

use std::collections::HashMap;

use super::page::{Exemplar, Labels, Page, ratio, with};
use super::wires;
use contract::config::Prometheus;
use contract::metric::Metric;
use contract::metric::MetricKind as Kind;
use records::snapshot::{
    Counts, Delays, Estimate, ReferenceEstimate, Segment, Sketch, Snapshot, Totals, WireEstimate,
    WireFigures,
};

fn labels(segment: &Segment) -> Labels<'_> {
    vec![
        ("segment", segment.name().into()),
        ("ingress", segment.ingress.as_str().into()),
        ("egress", segment.egress.as_str().into()),
        ("class", segment.class.as_str().into()),
    ]
}

/// Samples of what was estimated, by whether the stamped mean was within the bound.
pub(super) fn judged<'r>(
    labels: &Labels<'r>,
    estimates: u64,
    within_bound: u64,
) -> [(Labels<'r>, f64); 2] {
    let beyond = estimates.saturating_sub(within_bound);
    [("true", within_bound), ("false", beyond)].map(|(is_within, number)| {
        let labels = with(labels.clone(), "within_bound", is_within);
        (labels, number as f64)
    })
}

/// By segment, the slowest packet of the last epoch of each flow that has percentiles of its own.
fn exemplars(snapshot: &Snapshot) -> HashMap<[&str; 3], Vec<Exemplar<'_>>> {
    let mut exemplars: HashMap<_, Vec<_>> = HashMap::new();
    let flows = snapshot.flows.iter().flat_map(|flows| &flows.top);
    for flow in flows.map(|top| &top.flow).filter(|flow| !flow.is_on_wire) {
        if let Some(max_ns) = flow.quantiles.and_then(|quantiles| quantiles.max_ns) {
            let segment = [&flow.ingress, &flow.egress, &flow.class].map(String::as_str);
            exemplars.entry(segment).or_default().push(Exemplar {
                flow: &flow.flow,
                delay_s: max_ns / 1e9,
                unix_s: flow.last_seen_unix_s,
            });
        }
    }
    exemplars
}

pub(super) fn segments(page: &mut Page, snapshot: &Snapshot, settings: &Prometheus) {
    let segments = &snapshot.segments;
    let help = "One-way delay inside the switch of every packet, from stamps.";
    page.begin("vernier_segment_delay_seconds", Kind::Histogram, help);
    let exemplars = exemplars(snapshot);
    let has_packets = |segment: &&Segment| segment.total.counts.received_packets > 0;
    for segment in segments.iter().filter(has_packets) {
        let total = &segment.total;
        let (bounds_ns, sum_s) = (settings.bounds_ns(), total.delay_sum_s);
        let known = exemplars
            .get(&segment.names())
            .map_or(&[][..], Vec::as_slice);
        page.delays(&labels(segment), bounds_ns, &total.buckets, known, sum_s);
    }
    let minutes = segments.iter().filter_map(|segment| {
        let last_minute = segment.last_minute.as_ref()?;
        Some((labels(segment), last_minute))
    });
    page.metrics(Delays::metrics(), minutes);
    let totals = segments.iter().map(|s| (labels(s), &s.total));
    page.metrics(Totals::metrics(), totals);
    let counts = segments.iter().map(|s| (labels(s), &s.total.counts));
    page.metrics(Counts::metrics(), counts);
    let judged = segments.iter().flat_map(|segment| {
        let total = &segment.total;
        let labels = with(labels(segment), "method", "lda");
        judged(&labels, total.estimated_epochs, total.within_bound_epochs)
    });
    page.counter(
        "vernier_estimator_epochs_total",
        "Epochs with an estimate, by whether the stamped mean was within its bound.",
        judged,
    );
}

/// The estimates of the last usable epochs: one family for all methods, inside the switch and on the wire.
pub(super) fn estimates(page: &mut Page, snapshot: &Snapshot) {
    let lda = snapshot.segments.iter().filter_map(|segment| {
        let lda = snapshot.fresh(segment)?.lda.as_ref()?;
        Some((with(labels(segment), "method", "lda"), lda))
    });
    let references = snapshot.segments.iter().filter_map(|segment| {
        let references = snapshot.fresh(segment)?.references.as_ref()?;
        let method = references.method.label();
        Some((with(labels(segment), "method", method), references))
    });
    for metric in Estimate::metrics() {
        page.declared(metric);
        page.series(metric, lda.clone());
        let name = metric.declaration.name;
        if let Some(metric) = named(ReferenceEstimate::metrics(), name) {
            page.series(metric, references.clone());
        }
        if let Some(metric) = named(WireEstimate::metrics(), name) {
            page.series(metric, wires::estimates(&snapshot.wires));
        }
        if let Some(metric) = named(WireFigures::metrics(), name) {
            page.series(metric, wires::figures(&snapshot.wires));
        }
    }
    let usable = lda.map(|(labels, lda)| (labels, ratio(lda.usable_cells, lda.cells)));
    let on_wires = wires::figures(&snapshot.wires);
    let on_wires = on_wires.map(|(labels, figures)| (labels, figures.usable_cells_ratio));
    page.gauge(
        "vernier_estimator_usable_cells_ratio",
        "Share of the estimator's cells that were usable in the last usable epoch.",
        usable.chain(on_wires),
    );
}

/// The metric of that name.
fn named<R: 'static>(
    mut metrics: impl Iterator<Item = &'static Metric<R>>,
    name: &str,
) -> Option<&'static Metric<R>> {
    metrics.find(|metric| metric.declaration.name == name)
}

pub(super) fn sketches(page: &mut Page, snapshot: &Snapshot) {
    let sketches = snapshot.sketches.iter();
    let fresh = sketches.filter(|sketch| snapshot.is_fresh(sketch.epoch));
    let fresh = fresh.map(|sketch| (vec![("port", sketch.port.as_str().into())], sketch));
    page.metrics(Sketch::metrics(), fresh.clone());
    let filled = fresh.clone();
    let filled = filled.map(|(labels, one)| (labels, ratio(one.filled_cells, one.cells)));
    page.gauge(
        "vernier_sketch_filled_cells_ratio",
        "Share of the sketch's cells in which packets were counted.",
        filled,
    );
    let usable = fresh.map(|(labels, one)| (labels, ratio(one.usable_cells, one.filled_cells)));
    page.gauge(
        "vernier_sketch_usable_cells_ratio",
        "Share of the filled cells whose two ends agree.",
        usable,
    );
}
