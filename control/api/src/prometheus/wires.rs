//! Segments on the wire: both directions of each, control frames, sessions, the clock.

use super::page::{Labels, Page, with};
use super::whole;
use records::snapshot::{
    Flow, Snapshot, Wire, WireClock, WireEstimate, WireFigures, WireFlows, WireLda, WirePeer,
    WireSegment, WireTotals,
};
use wire::exchange::SessionState;

/// States of a clock, as the snapshot names them.
const CLOCKS: [&str; 3] = ["free", "holding_over", "locked"];

fn labels(wire: &Wire) -> Labels<'_> {
    vec![("port", wire.port.as_str().into())]
}

fn segment_labels(segment: &WireSegment) -> Labels<'_> {
    vec![
        ("segment", segment.name().into()),
        ("from", segment.from.as_str().into()),
        ("to", segment.to.as_str().into()),
        ("class", segment.class.as_str().into()),
    ]
}

fn segments(wires: &[Wire]) -> impl Iterator<Item = &WireSegment> + Clone {
    wires.iter().flat_map(|wire| &wire.segments)
}

/// The last usable epoch of every segment, by the LDA.
pub(super) fn figures(wires: &[Wire]) -> impl Iterator<Item = (Labels<'_>, &WireFigures)> {
    segments(wires).filter_map(|segment| {
        let last = segment.last.as_ref()?;
        Some((with(segment_labels(segment), "method", "lda"), last))
    })
}

/// The means of the last usable epochs.
pub(super) fn estimates(wires: &[Wire]) -> impl Iterator<Item = (Labels<'_>, &WireEstimate)> {
    segments(wires).flat_map(|segment| {
        let estimates = segment.last.iter().flat_map(|last| &last.estimates);
        estimates.map(|one| (with(segment_labels(segment), "method", &one.method), one))
    })
}

/// 1 for the present state, 0 for the others.
fn states<'r, const N: usize>(
    labels: Labels<'r>,
    known: [&'static str; N],
    present: &'r str,
) -> impl Iterator<Item = (Labels<'r>, f64)> {
    known.into_iter().map(move |state| {
        let labels = with(labels.clone(), "state", state);
        (labels, f64::from(u8::from(state == present)))
    })
}

pub(super) fn wires(page: &mut Page, snapshot: &Snapshot) {
    let wires = snapshot.wires.as_slice();
    let of_segments = segments(wires).map(|segment| (segment_labels(segment), segment));
    page.metrics(WireSegment::metrics(), of_segments);
    let of_wires = wires.iter().map(|wire| (labels(wire), wire));
    page.metrics(
        WireTotals::metrics(),
        of_wires.clone().map(|(labels, wire)| (labels, &wire.total)),
    );
    page.metrics(Wire::metrics(), of_wires.clone());
    page.metrics(
        WireLda::metrics(),
        of_wires.clone().map(|(labels, wire)| (labels, &wire.lda)),
    );
    let used = of_wires.clone().filter(|(_, wire)| wire.share_bps > 0.0);
    page.gauge(
        "vernier_wire_share_used_ratio",
        "Part of the control frames' share of the link that they used over the last second.",
        used.map(|(labels, wire)| (labels, wire.control_bps / wire.share_bps)),
    );
    page.gauge(
        "vernier_wire_session",
        "State of the session between the two ends: 1 for this state, 0 for the others.",
        of_wires.flat_map(|(labels, wire)| {
            states(
                labels,
                SessionState::ALL.map(SessionState::label),
                &wire.session,
            )
        }),
    );
    peers(page, wires);
    flows(page, wires);
    clock(page, snapshot.wire_clock.as_ref());
}

fn peers(page: &mut Page, wires: &[Wire]) {
    let peers = wires
        .iter()
        .filter_map(|wire| Some((labels(wire), wire.peer.as_ref()?)));
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

fn flows(page: &mut Page, wires: &[Wire]) {
    let decoded = wires
        .iter()
        .filter_map(|wire| Some((labels(wire), wire.flows.as_ref()?)));
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
    let number = |number: fn(&Flow) -> f64| {
        let top = top.clone();
        top.map(move |(labels, flow)| (labels, number(flow)))
    };
    page.gauge(
        "vernier_wire_flow_packets",
        "Packets of the flow that arrived in the epoch that was decoded last.",
        number(|flow| flow.last.packets as f64),
    );
    page.gauge(
        "vernier_wire_flow_bytes",
        "Bytes of the flow that arrived in the epoch that was decoded last.",
        number(|flow| flow.last.bytes as f64),
    );
    page.gauge(
        "vernier_wire_flow_delay_last_epoch_seconds",
        "Percentiles of the flow's delay on the wire in the epoch that was decoded last, by references, true to the \
         estimated mean; absent where too few references arrived.",
        top.clone().flat_map(|(labels, flow)| {
            let percentiles = flow.quantiles.map(|of| {
                [("0.5", of.p50_ns), ("0.9", of.p90_ns), ("0.99", of.p99_ns)]
            });
            let percentiles = percentiles.into_iter().flatten();
            percentiles.map(move |(share, ns)| (with(labels.clone(), "share", share), ns / 1e9))
        }),
    );
    let estimates = top
        .clone()
        .filter_map(|(labels, flow)| Some((labels, flow.estimate.as_ref()?)));
    page.gauge(
        "vernier_wire_flow_delay_mean_seconds",
        "Estimated mean delay of the flow on the wire in the epoch that was decoded last.",
        estimates
            .clone()
            .map(|(labels, estimate)| (labels, estimate.mean_ns / 1e9)),
    );
    page.gauge(
        "vernier_wire_flow_delay_bound_seconds",
        "Half-width of the nominal 98 % interval around it, with both clocks' errors.",
        estimates.filter_map(|(labels, estimate)| Some((labels, estimate.bound_ns? / 1e9))),
    );
}

fn clock(page: &mut Page, clock: Option<&WireClock>) {
    let state = clock
        .into_iter()
        .flat_map(|clock| states(Labels::new(), CLOCKS, &clock.state));
    page.gauge(
        "vernier_wire_clock_state",
        "State of the clock: 1 for this state, 0 for the others; a free clock gives no figures on the wire.",
        state,
    );
    page.metrics(WireClock::metrics(), clock.into_iter().flat_map(whole));
}
