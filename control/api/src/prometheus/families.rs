//! The families of a snapshot, with the labels of their series: segments, flows, wires, ports, workers, tables.

use std::collections::HashMap;

use contract::config::Prometheus;
use contract::counters::{
    AroundReading, ClassReading, PortReading, QueueReading, ReferenceReading, WorkerReading,
};
use contract::fdb::FdbStats;
use contract::metric::{Each, Metric, MetricKind as Kind, Shown};
use records::snapshot::{
    AroundCounts, ClassCounts, Counts, Credit, Decoding, Delays, DeviceCounts, EpochFigures,
    Estimate, Fdb, Flow, FlowEstimate, FlowTotals, Flows, JudgedEstimates, Pool, Port, PortFact,
    QueueCounts, ReferenceEstimate, Segment, Sketch, Snapshot, Totals, Wire, WireClock,
    WireEstimate, WireFigures, WireFlows, WireLda, WirePeer, WireSegment, WireTotals, Worker,
};
use wire::exchange::SessionState;

use super::page::{Exemplar, Histogram, Labels, Page, Sample, ratio, with};
use super::whole;

fn port_labels(port: &Port) -> Labels<'_> {
    vec![("port", port.name.as_str().into())]
}

pub(super) fn ports(page: &mut Page, ports: &[Port]) {
    let of_ports = ports.iter().map(|port| (port_labels(port), port));
    page.part(PortReading::metrics(), of_ports.clone(), |port| {
        &port.counts
    });
    page.part(PortFact::metrics(), of_ports.clone(), |port| &port.facts);
    page.metrics(Port::metrics(), of_ports.clone());
    port_info(page, of_ports.clone());
    let devices = of_ports.filter_map(|(labels, port)| Some((labels, port.facts.device.as_ref()?)));
    // None of the families where all devices belong to a host program.
    if devices.clone().next().is_some() {
        page.metrics(DeviceCounts::metrics(), devices);
    }
    let around = ports.iter().filter_map(|port| {
        let AroundCounts { device, counts } = port.around.as_ref()?;
        Some((with(port_labels(port), "device", device), counts))
    });
    if around.clone().next().is_some() {
        page.metrics(AroundReading::metrics(), around);
    }
    let classes = ports.iter().flat_map(|port| {
        let of_port = port.classes.iter();
        of_port
            .map(|ClassCounts { class, counts }| (with(port_labels(port), "class", class), counts))
    });
    page.metrics(ClassReading::metrics(), classes);
    let queues = ports.iter().flat_map(|port| {
        let of_port = port.queues.iter();
        of_port.map(|queue| (with(port_labels(port), "queue", &queue.queue), queue))
    });
    page.part(QueueReading::metrics(), queues.clone(), |queue| {
        &queue.counts
    });
    page.metrics(QueueCounts::metrics(), queues);
}

pub(super) fn workers(page: &mut Page, workers: &[Worker]) {
    let workers = workers.iter().enumerate().map(|(index, worker)| {
        let labels: Labels = vec![("worker", index.to_string().into())];
        (labels, worker)
    });
    page.metrics(Worker::metrics(), workers.clone());
    page.part(WorkerReading::metrics(), workers.clone(), |one| &one.counts);
    page.part(ReferenceReading::metrics(), workers.clone(), |one| {
        &one.references
    });
    page.begin(
        "vernier_worker_burst_packets",
        Kind::Histogram,
        "Packets in the bursts that the worker received.",
    );
    for (labels, worker) in workers {
        let cumulative = worker.bursts.iter().scan(0, |sum, bucket| {
            *sum += bucket.bursts;
            Some((bucket.le_packets, *sum))
        });
        let buckets = cumulative.filter_map(|(le, at_most)| Some((le? as f64, at_most)));
        let histogram = Histogram {
            buckets: buckets.collect(),
            delays: None,
            exemplars: &[],
            count: worker.bursts.iter().map(|bucket| bucket.bursts).sum(),
            sum: worker.counts.busy_packets as f64,
        };
        page.sample(&labels, None, Sample::Histogram(&histogram));
    }
}

/// The filtering database and the pools.
pub(super) fn tables(page: &mut Page, snapshot: &Snapshot) {
    let fdb = snapshot.fdb.iter().flat_map(whole);
    page.metrics(Fdb::metrics(), fdb.clone());
    page.part(FdbStats::metrics(), fdb, |fdb| &fdb.stats);
    let pools = snapshot.pools.iter();
    let pools = pools.map(|pool| (vec![("pool", pool.name.as_str().into())], pool));
    page.metrics(&[POOL_BUFFERS], pools);
}

fn segment_labels(segment: &Segment) -> Labels<'_> {
    vec![
        ("segment", segment.name().into()),
        ("ingress", segment.ingress.as_str().into()),
        ("egress", segment.egress.as_str().into()),
        ("class", segment.class.as_str().into()),
    ]
}

/// Calls `each` with estimates by whether the stamped mean was within the bound.
fn judged(each: Each<'_>, within_bound: u64, beyond_bound: u64) {
    each("true", within_bound as f64);
    each("false", beyond_bound as f64);
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
        let (total, labels) = (&segment.total, segment_labels(segment));
        let (bounds_ns, sum_s) = (settings.bounds_ns(), total.delay_sum_s);
        let known = exemplars.get(&segment.names());
        let known = known.map_or(&[][..], Vec::as_slice);
        page.delays(&labels, bounds_ns, &total.buckets, known, sum_s);
    }
    let minutes = segments.iter().filter_map(|segment| {
        let last_minute = segment.last_minute.as_ref()?;
        Some((segment_labels(segment), last_minute))
    });
    page.metrics(Delays::metrics(), minutes);
    let totals = segments.iter().map(|s| (segment_labels(s), &s.total));
    page.metrics(Totals::metrics(), totals.clone());
    page.part(Counts::metrics(), totals, |total| &total.counts);
    let judged = segments.iter();
    let judged = judged.map(|s| (with(segment_labels(s), "method", "lda"), &s.total));
    page.metrics(&[JUDGED_EPOCHS], judged);
}

/// The estimates of the last usable epochs: one family for all methods, inside the switch and on the wire.
pub(super) fn estimates(page: &mut Page, snapshot: &Snapshot) {
    let synopses = snapshot.segments.iter().flat_map(|segment| {
        let estimates = snapshot.fresh(segment).into_iter();
        let labels = move |method| with(segment_labels(segment), "method", method);
        let estimates = estimates.flat_map(EpochFigures::estimates);
        estimates.map(move |(method, estimate)| (labels(method), estimate))
    });
    let references = snapshot.segments.iter().filter_map(|segment| {
        let references = snapshot.fresh(segment)?.references.as_ref()?;
        let method = references.method.label();
        Some((with(segment_labels(segment), "method", method), references))
    });
    for metric in Estimate::metrics() {
        page.declared(metric);
        page.series(metric, synopses.clone());
        let name = metric.declaration.name;
        if let Some(metric) = named(ReferenceEstimate::metrics(), name) {
            page.series(metric, references.clone());
        }
        if let Some(metric) = named(WireEstimate::metrics(), name) {
            page.series(metric, wire_estimates(&snapshot.wires));
        }
        if let Some(metric) = named(WireFigures::metrics(), name) {
            page.series(metric, wire_figures(&snapshot.wires));
        }
    }
    // Metrics that an estimate by a synopsis does not have.
    let references_own = ReferenceEstimate::metrics().filter(is_no_estimate);
    page.metrics(references_own, references);
    let wires_own = WireEstimate::metrics().filter(is_no_estimate);
    page.metrics(wires_own, wire_estimates(&snapshot.wires));
    let figures_own = WireFigures::metrics().filter(is_no_estimate);
    page.metrics(figures_own, wire_figures(&snapshot.wires));
    page.declared(&USABLE_CELLS);
    page.series(&USABLE_CELLS, synopses);
    page.series(&WIRE_USABLE_CELLS, wire_figures(&snapshot.wires));
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as filters pass it")]
fn is_no_estimate<R>(metric: &&'static Metric<R>) -> bool {
    named(Estimate::metrics(), metric.declaration.name).is_none()
}

/// Returns the metric of this name.
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
    page.metrics(&SKETCH_RATIOS, fresh);
}

/// The name under which flows without series of their own are added up.
const OTHER: &str = "other";

pub(super) fn flows(page: &mut Page, snapshot: &Snapshot) {
    let flows = snapshot.flows.as_ref();
    let totals = flows.into_iter().flat_map(|flows| whole(&flows.totals));
    page.metrics(FlowTotals::metrics(), totals.clone());
    page.metrics(&[FORGOTTEN_FLOWS], totals);
    flow_delays(page, flows);
    flow_estimates(page, snapshot, flows);
    let decoding = flows.and_then(|flows| flows.decoding.as_ref());
    let decoding = decoding.into_iter().flat_map(whole);
    page.metrics(Decoding::metrics(), decoding.clone());
    page.metrics(&[DECODED_EPOCHS], decoding);
    let judged = flows.into_iter().flat_map(|flows| &flows.judged);
    let judged = judged.map(|one| {
        let labels: Labels = vec![
            ("method", one.method.as_str().into()),
            ("size", one.size.as_str().into()),
        ];
        (labels, one)
    });
    page.metrics(JudgedEstimates::metrics(), judged.clone());
    page.metrics(&[JUDGED_ESTIMATES], judged);
}

fn flow_labels_of<'r>(flow: &'r str, [ingress, egress, class]: [&'r String; 3]) -> Labels<'r> {
    vec![
        ("flow", flow.into()),
        ("segment", format!("{ingress}>{egress}").into()),
        ("ingress", ingress.into()),
        ("egress", egress.into()),
        ("class", class.into()),
    ]
}

fn flow_labels(flow: &Flow) -> Labels<'_> {
    flow_labels_of(&flow.flow, [&flow.ingress, &flow.egress, &flow.class])
}

/// The credits of each flow, and of `other`.
fn flow_delays(page: &mut Page, flows: Option<&Flows>) {
    let top = flows.into_iter().flat_map(|flows| &flows.top);
    let top = top.map(|top| (flow_labels(&top.flow), &top.credited));
    let other = flows.into_iter().flat_map(|flows| &flows.other);
    let other = other.map(|other| {
        let of = &other.segment;
        let labels = flow_labels_of(OTHER, [&of.ingress, &of.egress, &of.class]);
        (labels, &other.credited)
    });
    let credits = top.chain(other);
    page.begin(
        "vernier_flow_delay_seconds",
        Kind::Summary,
        "Stamped delay of the packets of the flow while it had series of its own.",
    );
    for (labels, credit) in credits.clone() {
        let (count, sum) = (credit.packets, credit.delay_sum_s);
        page.sample(&labels, None, Sample::Summary { count, sum });
    }
    page.metrics(Credit::metrics(), credits);
}

fn flow_estimates(page: &mut Page, snapshot: &Snapshot, flows: Option<&Flows>) {
    let top = flows.into_iter().flat_map(|flows| &flows.top);
    let fresh = top.clone().map(|top| &top.flow);
    let fresh = fresh.filter(|flow| snapshot.is_fresh(flow.last_epoch));
    page.metrics(Flow::metrics(), fresh.map(|flow| (flow_labels(flow), flow)));
    let estimates = top.filter_map(|top| {
        let estimate = top.flow.estimate.as_ref()?;
        let labels = with(flow_labels(&top.flow), "method", estimate.method.label());
        snapshot
            .is_fresh(estimate.epoch)
            .then_some((labels, estimate))
    });
    page.metrics(FlowEstimate::metrics(), estimates);
}

/// States of a clock, as named in the snapshot.
const CLOCKS: [&str; 3] = ["free", "holding_over", "locked"];

fn wire_labels(wire: &Wire) -> Labels<'_> {
    vec![("port", wire.port.as_str().into())]
}

fn wire_segment_labels(segment: &WireSegment) -> Labels<'_> {
    vec![
        ("segment", segment.name().into()),
        ("from", segment.from.as_str().into()),
        ("to", segment.to.as_str().into()),
        ("class", segment.class.as_str().into()),
    ]
}

fn wire_segments(wires: &[Wire]) -> impl Iterator<Item = &WireSegment> + Clone {
    wires.iter().flat_map(|wire| &wire.segments)
}

/// The last usable epoch of every segment, by the LDA.
pub(super) fn wire_figures(
    wires: &[Wire],
) -> impl Iterator<Item = (Labels<'_>, &WireFigures)> + Clone {
    wire_segments(wires).filter_map(|segment| {
        let last = segment.last.as_ref()?;
        Some((with(wire_segment_labels(segment), "method", "lda"), last))
    })
}

/// The means of the last usable epochs.
pub(super) fn wire_estimates(
    wires: &[Wire],
) -> impl Iterator<Item = (Labels<'_>, &WireEstimate)> + Clone {
    wire_segments(wires).flat_map(|segment| {
        let estimates = segment.last.iter().flat_map(|last| &last.estimates);
        let labels = |one| with(wire_segment_labels(segment), "method", one);
        estimates.map(move |one| (labels(&one.method), one))
    })
}

/// Calls `each` with 1 for the present state, 0 for the others.
fn states<const N: usize>(each: Each<'_>, known: [&str; N], present: &str) {
    for state in known {
        each(state, f64::from(u8::from(state == present)));
    }
}

pub(super) fn wires(page: &mut Page, snapshot: &Snapshot) {
    let wires = snapshot.wires.as_slice();
    let of_segments = wire_segments(wires).map(|segment| (wire_segment_labels(segment), segment));
    page.metrics(WireSegment::metrics(), of_segments);
    let of_wires = wires.iter().map(|wire| (wire_labels(wire), wire));
    page.part(WireTotals::metrics(), of_wires.clone(), |wire| &wire.total);
    page.metrics(Wire::metrics(), of_wires.clone());
    page.part(WireLda::metrics(), of_wires.clone(), |wire| &wire.lda);
    page.metrics(&WIRE_MORE, of_wires);
    peers(page, wires);
    wire_flows(page, wires);
    let clock = snapshot.wire_clock.iter().flat_map(whole);
    page.metrics(&[WIRE_CLOCK_STATE], clock.clone());
    page.metrics(WireClock::metrics(), clock);
}

fn peers(page: &mut Page, wires: &[Wire]) {
    let peers = wires
        .iter()
        .filter_map(|wire| Some((wire_labels(wire), wire.peer.as_ref()?)));
    page.metrics(WirePeer::metrics(), peers.clone());
    let info = peers.map(|(mut labels, peer)| {
        labels.extend([
            ("peer_switch", peer.switch.to_string().into()),
            ("peer_port", peer.port.to_string().into()),
            ("peer_port_name", peer.port_name.as_str().into()),
            ("peer_clock", peer.clock.as_str().into()),
        ]);
        (labels, 1.0)
    });
    let help = "Switch, port and clock at the other end; always 1.";
    page.gauge("vernier_wire_peer_info", help, info);
}

fn wire_flows(page: &mut Page, wires: &[Wire]) {
    let decoded = wires
        .iter()
        .filter_map(|wire| Some((wire_labels(wire), wire.flows.as_ref()?)));
    page.metrics(WireFlows::metrics(), decoded);
    let top = wires.iter().flat_map(|wire| {
        let flows = wire.flows.iter().flat_map(|flows| &flows.top);
        flows.map(|of| {
            let labels: Labels = vec![
                ("flow", of.flow.flow.as_str().into()),
                ("port", wire.port.as_str().into()),
                ("class", of.flow.class.as_str().into()),
            ];
            (labels, &of.flow)
        })
    });
    page.metrics(&WIRE_FLOW, top);
}

fn port_info<'r>(page: &mut Page, ports: impl Iterator<Item = (Labels<'r>, &'r Port)>) {
    let info = ports.map(|(labels, port)| {
        let labels = with(labels, "driver", &port.facts.driver);
        (with(labels, "bridge", &port.facts.bridge), 1.0)
    });
    let help = "Driver of the device behind the port, and Open vSwitch's bridge that it belongs to; always 1.";
    page.gauge("vernier_port_info", help, info);
}

const POOL_BUFFERS: Metric<Pool> = Metric::gauge(
    "vernier_mempool_buffers",
    "Packet buffers in the pool.",
    |pool: &Pool, each| {
        each("used", pool.used as f64);
        each("free", pool.size.saturating_sub(pool.used) as f64);
    },
)
.by("state");

const JUDGED_EPOCHS: Metric<Totals> = Metric::counter(
    "vernier_estimator_epochs_total",
    "Epochs with an estimate, by whether the stamped mean was within its bound.",
    |total: &Totals, each| {
        let within = total.within_bound_epochs;
        judged(each, within, total.estimated_epochs.saturating_sub(within));
    },
)
.by("within_bound");

const USABLE_CELLS: Metric<Estimate> = Metric::gauge(
    "vernier_estimator_usable_cells_ratio",
    "Share of the estimator's cells that were usable in the last usable epoch.",
    |lda, each| each("", ratio(lda.usable_cells, lda.cells)),
);

/// Part of the same family.
const WIRE_USABLE_CELLS: Metric<WireFigures> = Metric::gauge("", "", |figures, each| {
    figures.usable_cells_ratio.show(1.0, each);
});

const SKETCH_RATIOS: [Metric<Sketch>; 2] = [
    Metric::gauge(
        "vernier_sketch_filled_cells_ratio",
        "Share of the sketch's cells in which packets were counted.",
        |sketch, each| each("", ratio(sketch.filled_cells, sketch.cells)),
    ),
    Metric::gauge(
        "vernier_sketch_usable_cells_ratio",
        "Share of the filled cells whose two ends agree.",
        |sketch, each| each("", ratio(sketch.usable_cells, sketch.filled_cells)),
    ),
];

const FORGOTTEN_FLOWS: Metric<FlowTotals> = Metric::counter(
    "vernier_flows_forgotten_total",
    "Flows that lost their slot: idle, or evicted to make room for others.",
    |totals: &FlowTotals, each| {
        each("idle", totals.expired as f64);
        each("evicted", totals.evicted as f64);
    },
)
.by("reason");

const DECODED_EPOCHS: Metric<Decoding> = Metric::gauge(
    "vernier_decode_epochs",
    "Epochs that the last decoding covered as one sum; 1 if decoding keeps up with every epoch.",
    // Absent before the first decoding.
    |decoding, each| decoding.epoch.map(|_| decoding.epochs).show(1.0, each),
);

/// How estimates compare with stamps, by method and size of flows.
const JUDGED_ESTIMATES: Metric<JudgedEstimates> = Metric::counter(
    "vernier_flow_estimates_total",
    "Estimates of tracked flows with a bound, by method, packets of the flow, and whether the \
     stamped mean was within the bound.",
    |one: &JudgedEstimates, each| judged(each, one.within_bound, one.beyond_bound),
)
.by("within_bound");

const WIRE_MORE: [Metric<Wire>; 2] = [
    Metric::gauge(
        "vernier_wire_share_used_ratio",
        "Used part of the link share reserved for control frames, over the last second.",
        |wire, each| {
            let used = (wire.share_bps > 0.0).then(|| wire.control_bps / wire.share_bps);
            used.show(1.0, each);
        },
    ),
    Metric::gauge(
        "vernier_wire_session",
        "State of the session between the two ends: 1 for this state, 0 for the others.",
        |wire: &Wire, each| {
            let known = SessionState::ALL.map(SessionState::label);
            states(each, known, &wire.session);
        },
    )
    .by("state"),
];

const WIRE_FLOW: [Metric<Flow>; 5] = [
    Metric::gauge(
        "vernier_wire_flow_packets",
        "Packets of the flow that arrived in the last decoded epoch.",
        |flow, each| flow.last.packets.show(1.0, each),
    ),
    Metric::gauge(
        "vernier_wire_flow_bytes",
        "Bytes of the flow that arrived in the last decoded epoch.",
        |flow, each| flow.last.bytes.show(1.0, each),
    ),
    Metric::gauge(
        "vernier_wire_flow_delay_last_epoch_seconds",
        "Percentiles of the flow's delay on the wire in the last decoded epoch, by \
         references, scaled to the estimated mean; absent if too few references arrived.",
        |flow: &Flow, each| flow.quantiles.show(1e9, each),
    )
    .by("share"),
    Metric::gauge(
        "vernier_wire_flow_delay_mean_seconds",
        "Estimated mean delay of the flow on the wire in the last decoded epoch.",
        |flow, each| flow.estimate.map(|of| of.mean_ns).show(1e9, each),
    ),
    Metric::gauge(
        "vernier_wire_flow_delay_bound_seconds",
        "Half-width of the nominal 98 % interval around the estimated mean, with both clocks' errors.",
        |flow, each| flow.estimate.and_then(|of| of.bound_ns).show(1e9, each),
    ),
];

const WIRE_CLOCK_STATE: Metric<WireClock> = Metric::gauge(
    "vernier_wire_clock_state",
    "State of the clock: 1 for this state, 0 for the others; a free clock gives no figures on the \
     wire.",
    |clock: &WireClock, each| states(each, CLOCKS, &clock.state),
)
.by("state");
