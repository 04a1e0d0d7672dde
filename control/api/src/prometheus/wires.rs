//! Segments on the wire: both directions of each, control frames, sessions, the clock.

use metrics_exporter_prometheus::LabelSet;

use super::{Family, Page, family, labels};
use records::snapshot::{
    Labelled, Snapshot, Wire, WireClock, WireEstimate, WireFlow, WireFlows, WireSegment,
};

/// States of a session and of a clock, as the snapshot names them.
const SESSIONS: [&str; 5] = ["waiting", "mismatch", "established", "lost", "loop"];
const CLOCKS: [&str; 3] = ["free", "holding_over", "locked"];

/// Of one direction of a segment.
const SEGMENTS: [Family<WireSegment, u64>; 3] = [
    Family {
        name: "vernier_wire_sent_packets_total",
        kind: "counter",
        help: "Packets sent in epochs whose counts are known at both ends.",
        value: |segment| segment.sent_packets,
    },
    Family {
        name: "vernier_wire_received_packets_total",
        kind: "counter",
        help: "Packets received in epochs whose counts are known at both ends.",
        value: |segment| segment.received_packets,
    },
    Family {
        name: "vernier_wire_lost_packets_total",
        kind: "counter",
        help: "Packets lost on the wire, at most so far: an epoch may miss what the next one has.",
        value: |segment| segment.lost_packets_max,
    },
];

/// Of a port with a wire.
const WIRES: [Family<Wire, Option<f64>>; 11] = [
    Family {
        name: "vernier_wire_control_bytes_total",
        kind: "counter",
        help: "Bytes of control frames sent, on the link.",
        value: |wire| Some(wire.total.sent_bytes as f64),
    },
    Family {
        name: "vernier_wire_reference_bytes_total",
        kind: "counter",
        help: "Bytes of references among the control frames sent.",
        value: |wire| Some(wire.total.reference_bytes as f64),
    },
    Family {
        name: "vernier_wire_data_bytes_total",
        kind: "counter",
        help: "Bytes of data sent beside the control frames, on the link.",
        value: |wire| Some(wire.total.data_bytes as f64),
    },
    Family {
        name: "vernier_wire_references_withheld_total",
        kind: "counter",
        help: "Times that a reference was due and kept back until the link's share allowed it.",
        value: |wire| Some(wire.total.references_withheld as f64),
    },
    Family {
        name: "vernier_wire_share_used_ratio",
        kind: "gauge",
        help: "What control frames take of their share of the link, over the last second.",
        value: |wire| (wire.share_bps > 0.0).then(|| wire.control_bps / wire.share_bps),
    },
    Family {
        name: "vernier_wire_blocked",
        kind: "gauge",
        help: "1 while no data passes, since the port is looped to this very switch.",
        value: |wire| Some(f64::from(u8::from(wire.is_blocked))),
    },
    Family {
        name: "vernier_wire_peer_clock_error_seconds",
        kind: "gauge",
        help: "What the other end's clock is off by at most, as it says.",
        value: |wire| Some(f64::from(wire.peer.as_ref()?.clock_error_ns) / 1e9),
    },
    Family {
        name: "vernier_wire_least_delay_seconds",
        kind: "gauge",
        help: "Least delay of references that arrived in the last epoch; signed, for clocks differ.",
        value: |wire| Some(wire.floor_ns? / 1e9),
    },
    Family {
        name: "vernier_wire_clock_drift_ratio",
        kind: "gauge",
        help: "How fast the clocks of both ends run apart, where that is more than noise.",
        value: |wire| Some(wire.drift_ns_per_s? / 1e9),
    },
    Family {
        name: "vernier_wire_flows",
        kind: "gauge",
        help: "Flows in the epoch that was decoded last.",
        value: |wire| Some(wire.flows.as_ref()?.number as f64),
    },
    Family {
        name: "vernier_wire_decode_duration_seconds",
        kind: "gauge",
        help: "Time that decoding its flows took.",
        value: |wire| Some(wire.flows.as_ref()?.duration_s),
    },
];

/// Of a flow that has series of its own inside the switch.
const FLOWS: [Family<WireFlow, Option<f64>>; 3] = [
    Family {
        name: "vernier_wire_flow_delay_mean_seconds",
        kind: "gauge",
        help: "Estimated mean delay of the flow on the wire in the epoch that was decoded last.",
        value: |flow| Some(flow.estimate.as_ref()?.mean_ns / 1e9),
    },
    Family {
        name: "vernier_wire_flow_delay_bound_seconds",
        kind: "gauge",
        help: "Half-width of the nominal 98 % interval around it, with both clocks' errors.",
        value: |flow| Some(flow.estimate.as_ref()?.bound_ns? / 1e9),
    },
    Family {
        name: "vernier_wire_flow_packets",
        kind: "gauge",
        help: "Packets of the flow that arrived in that epoch.",
        value: |flow| Some(flow.packets as f64),
    },
];

/// Of the clock.
const CLOCK: [Family<WireClock, f64>; 4] = [
    Family {
        name: "vernier_wire_clock_error_seconds",
        kind: "gauge",
        help: "What this switch's clock is off by at most; part of every bound on the wire.",
        value: |clock| clock.error_ns / 1e9,
    },
    Family {
        name: "vernier_wire_clock_fit_error_seconds",
        kind: "gauge",
        help: "The part of it by which times are read off the time stamp counter.",
        value: |clock| clock.fit_error_ns / 1e9,
    },
    Family {
        name: "vernier_wire_clock_tai_offset_seconds",
        kind: "gauge",
        help: "Offset of TAI from UTC that the kernel reckons with.",
        value: |clock| f64::from(clock.tai_utc_s),
    },
    Family {
        name: "vernier_wire_clock_steps_total",
        kind: "counter",
        help: "Times that the clock was set while the switch ran: epochs around it have no figures.",
        value: |clock| clock.steps as f64,
    },
];

/// What the last usable epochs on the wire say, for the family of estimates inside the switch of this
/// name.
pub(super) fn estimates(snapshot: &Snapshot, name: &str) -> Vec<(LabelSet, f64)> {
    let of_each: fn(&WireEstimate) -> Option<f64> = match name {
        "vernier_segment_estimated_delay_mean_seconds" => |e| Some(e.mean_ns / 1e9),
        "vernier_segment_estimated_delay_bound_seconds" => |e| Some(e.bound_ns? / 1e9),
        "vernier_segment_estimated_delay_effective_samples" => {
            |e| Some(e.effective_samples? as f64)
        }
        _ => |_| None,
    };
    let of_lda = |segment: &WireSegment| {
        let last = segment.last.as_ref()?;
        let value = match name {
            "vernier_segment_estimated_delay_stddev_seconds" => last.stddev_ns? / 1e9,
            "vernier_estimator_usable_cells_ratio" => last.usable_cells_ratio,
            _ => return None,
        };
        Some((segment_labels(segment, &[("method", "lda")]), value))
    };
    let segments = snapshot.wires.iter().flat_map(|wire| &wire.segments);
    let samples = segments.flat_map(|segment| {
        let last = segment.last.iter();
        let each = last.flat_map(|last| &last.estimates).filter_map(|one| {
            let labels = segment_labels(segment, &[("method", &one.method)]);
            Some((labels, of_each(one)?))
        });
        each.chain(of_lda(segment)).collect::<Vec<_>>()
    });
    samples.collect()
}

fn segment_labels(segment: &WireSegment, more: &[(&'static str, &str)]) -> LabelSet {
    let name = segment.name();
    let own = [
        ("segment", name.as_str()),
        ("from", segment.from.as_str()),
        ("to", segment.to.as_str()),
        ("class", segment.class.as_str()),
    ];
    labels(&[&own, more].concat())
}

/// 1 for the state that holds, 0 for the others.
fn states<'a>(
    known: &'a [&'static str],
    present: &'a str,
    more: &'a [(&'static str, &'a str)],
) -> impl Iterator<Item = (LabelSet, u8)> + 'a {
    known.iter().map(move |&state| {
        let own = [more, &[("state", state)]].concat();
        (labels(&own), u8::from(state == present))
    })
}

pub(super) fn wires(page: &mut Page, snapshot: &Snapshot) {
    segments(page, &snapshot.wires);
    frames(page, &snapshot.wires);
    for family in WIRES {
        let samples = snapshot.wires.iter().filter_map(|wire| {
            let value = (family.value)(wire)?;
            Some((labels(&[("port", &wire.port)]), value))
        });
        page.each(&family, samples);
    }
    sessions(page, &snapshot.wires);
    for family in FLOWS {
        let samples = snapshot.wires.iter().flat_map(|wire| {
            let flows = wire.flows.iter().flat_map(|flows: &WireFlows| &flows.top);
            flows.filter_map(|flow| {
                let value = (family.value)(flow)?;
                let own = [
                    ("flow", flow.flow.as_str()),
                    ("port", wire.port.as_str()),
                    ("class", flow.class.as_str()),
                ];
                Some((labels(&own), value))
            })
        });
        page.each(&family, samples);
    }
    let clock = snapshot.wire_clock.iter();
    let state = family(
        "vernier_wire_clock_state",
        "gauge",
        "1 for what the clock follows, else 0; a free clock gives no figures on the wire.",
    );
    page.each(
        &state,
        clock
            .clone()
            .flat_map(|clock| states(&CLOCKS, &clock.state, &[])),
    );
    for family in CLOCK {
        page.each(
            &family,
            clock
                .clone()
                .map(|clock| (labels(&[]), (family.value)(clock))),
        );
    }
}

fn segments(page: &mut Page, wires: &[Wire]) {
    let all = || wires.iter().flat_map(|wire| &wire.segments);
    for family in SEGMENTS {
        page.each(
            &family,
            all().map(|s| (segment_labels(s, &[]), (family.value)(s))),
        );
    }
    let fates = all().flat_map(|segment| {
        segment.epochs.iter().map(|fate| {
            let labels = segment_labels(segment, &[("fate", &fate.label)]);
            (labels, fate.packets)
        })
    });
    page.each(
        &family(
            "vernier_wire_epochs_total",
            "counter",
            "Epochs by what became of them: usable, or why they have no figures.",
        ),
        fates,
    );
}

/// Name and help of a family, its label beside the port's, and its counts.
type List = (
    &'static str,
    &'static str,
    &'static str,
    fn(&Wire) -> &[Labelled],
);

fn frames(page: &mut Page, wires: &[Wire]) {
    let lists: [List; 4] = [
        (
            "vernier_wire_control_frames_sent_total",
            "Control frames sent, by kind.",
            "kind",
            |wire| &wire.total.sent_frames,
        ),
        (
            "vernier_wire_control_frames_believed_total",
            "Control frames that came in and were accepted, by kind.",
            "kind",
            |wire| &wire.total.believed_frames,
        ),
        (
            "vernier_wire_control_frames_disbelieved_total",
            "Control frames that came in and were rejected, by reason.",
            "reason",
            |wire| &wire.total.disbelieved_frames,
        ),
        (
            "vernier_wire_events_total",
            "What happened on the wire besides: sessions, requests, reports, packets moved at turns.",
            "event",
            |wire| &wire.total.events,
        ),
    ];
    for (name, help, label, of) in lists {
        let samples = wires.iter().flat_map(|wire| {
            of(wire).iter().map(move |one| {
                let own = [("port", wire.port.as_str()), (label, one.label.as_str())];
                (labels(&own), one.packets)
            })
        });
        page.each(&counter(name, help), samples);
    }
}

fn counter(name: &'static str, help: &'static str) -> Family<(), ()> {
    family(name, "counter", help)
}

fn sessions(page: &mut Page, wires: &[Wire]) {
    let ports: Vec<[(&str, &str); 1]> = wires.iter().map(|w| [("port", w.port.as_str())]).collect();
    let samples = wires.iter().zip(&ports);
    let samples = samples.flat_map(|(wire, port)| states(&SESSIONS, &wire.session, port));
    page.each(
        &family(
            "vernier_wire_session",
            "gauge",
            "1 for how the ends of the wire stand to each other, else 0.",
        ),
        samples,
    );
    let peers = wires.iter().filter_map(|wire| {
        let peer = wire.peer.as_ref()?;
        let own = [
            ("port", wire.port.as_str()),
            ("peer_switch", &peer.switch.to_string()),
            ("peer_port", &peer.port.to_string()),
            ("peer_port_name", peer.port_name.as_str()),
            ("peer_clock", peer.clock.as_str()),
        ];
        Some((labels(&own), 1))
    });
    page.each(
        &family(
            "vernier_wire_peer_info",
            "gauge",
            "Who is at the other end; always 1.",
        ),
        peers,
    );
}
