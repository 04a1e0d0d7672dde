//! Flows: those with series of their own, `other`, and how decoding goes.

use metrics_exporter_prometheus::LabelSet;

use super::families::FLOWS;
use super::{Family, Page, family, labels};
use records::snapshot::{Credit, Decoding, Flow, FlowEstimate, FlowTotals, Flows, Snapshot};

/// The flow that all flows without series of their own are folded into.
const OTHER: &str = "other";

/// Of flows with series of their own that have an estimate.
const ESTIMATES: [Family<FlowEstimate, Option<f64>>; 3] = [
    Family {
        name: "vernier_flow_estimated_delay_mean_seconds",
        kind: "gauge",
        help: "Mean delay of the flow over the epochs that were decoded last.",
        value: |estimate| Some(estimate.mean_ns / 1e9),
    },
    Family {
        name: "vernier_flow_delay_bound_seconds",
        kind: "gauge",
        help: "Half-width of the nominal 98 % interval around the estimated mean.",
        value: |estimate| Some(estimate.bound_ns? / 1e9),
    },
    Family {
        name: "vernier_flow_estimated_epochs",
        kind: "gauge",
        help: "Epochs that the estimate speaks of: 1, or the sum of several where decoding takes long.",
        value: |estimate| Some(f64::from(estimate.epochs)),
    },
];

/// Of joint decoding.
const DECODING: [Family<Decoding, Option<f64>>; 7] = [
    Family {
        name: "vernier_decode_epochs",
        kind: "gauge",
        help: "Epochs whose sum was decoded last; 1 where decoding keeps up with every epoch.",
        value: |decoding| decoding.epoch.map(|_| f64::from(decoding.epochs)),
    },
    Family {
        name: "vernier_decode_flows",
        kind: "gauge",
        help: "Flows that were decoded together last.",
        value: |decoding| Some(decoding.flows as f64),
    },
    Family {
        name: "vernier_decode_duration_seconds",
        kind: "gauge",
        help: "Time that the last decoding took.",
        value: |decoding| Some(decoding.duration_s),
    },
    Family {
        name: "vernier_decode_runs_total",
        kind: "counter",
        help: "Decodings.",
        value: |decoding| Some(decoding.runs as f64),
    },
    Family {
        name: "vernier_decode_summed_epochs_total",
        kind: "counter",
        help: "Epochs that were decoded in a sum with others.",
        value: |decoding| Some(decoding.summed_epochs as f64),
    },
    Family {
        name: "vernier_decode_skipped_epochs_total",
        kind: "counter",
        help: "Epochs whose sketches were not all decoded.",
        value: |decoding| Some(decoding.skipped_epochs as f64),
    },
    Family {
        name: "vernier_flow_estimate_error_median_ratio",
        kind: "gauge",
        help: "Median over flows of 10 packets or more of |estimate - stamped mean| / stamped mean.",
        value: |decoding| decoding.error_ratio_median,
    },
];

pub(super) fn flows(page: &mut Page, snapshot: &Snapshot) {
    let flows = snapshot.flows.as_ref();
    directory(page, flows.map(|flows| &flows.totals));
    delays(page, flows);
    estimates(page, snapshot, flows);
    decoding(page, flows);
}

fn directory(page: &mut Page, flows: Option<&FlowTotals>) {
    let flows = || flows.into_iter();
    for family in FLOWS {
        page.each(
            &family,
            flows().map(|flows| (labels(&[]), (family.value)(flows))),
        );
    }
    let gone = flows().flat_map(|flows| {
        [("idle", flows.expired), ("evicted", flows.evicted)]
            .map(|(reason, n)| (labels(&[("reason", reason)]), n))
    });
    page.each(
        &family(
            "vernier_flows_forgotten_total",
            "counter",
            "Flows that lost their slot: idle, or evicted to make room for others.",
        ),
        gone,
    );
    let untracked = flows().flat_map(|flows| {
        let reasons = flows.untracked.iter();
        reasons.map(|reason| (labels(&[("reason", &reason.label)]), reason.packets))
    });
    page.each(
        &family(
            "vernier_flows_untracked_packets_total",
            "counter",
            "Packets of flows that are not tracked, by reason.",
        ),
        untracked,
    );
}

fn flow_labels(flow: &str, place: [&str; 3], more: &[(&'static str, &str)]) -> LabelSet {
    let [ingress, egress, class] = place;
    let segment = format!("{ingress}>{egress}");
    let own = [
        ("flow", flow),
        ("segment", &segment),
        ("ingress", ingress),
        ("egress", egress),
        ("class", class),
    ];
    labels(&[&own, more].concat())
}

fn place(flow: &Flow) -> [&str; 3] {
    [&flow.ingress, &flow.egress, &flow.class]
}

/// What each flow and `other` were credited with.
fn delays(page: &mut Page, flows: Option<&Flows>) {
    let credits: Vec<(LabelSet, Credit)> = flows
        .into_iter()
        .flat_map(|flows| {
            let top = flows.top.iter().map(|top| {
                let labels = flow_labels(&top.flow.flow, place(&top.flow), &[]);
                (labels, top.credited)
            });
            let other = flows.other.iter().map(|other| {
                let place = [&*other.ingress, &*other.egress, &*other.class];
                (flow_labels(OTHER, place, &[]), other.credited)
            });
            top.chain(other)
        })
        .collect();
    let delay = family(
        "vernier_flow_delay_seconds",
        "summary",
        "Stamped delay of the packets that the flow was credited with while it had series of its own.",
    );
    page.begin(&delay);
    for (labels, credit) in &credits {
        page.line(delay.name, Some("sum"), labels, None, credit.delay_sum_s);
        page.line(delay.name, Some("count"), labels, None, credit.packets);
    }
    let lost = credits.into_iter();
    page.each(
        &family(
            "vernier_flow_lost_packets_total",
            "counter",
            "Packets of the flow that were lost in the switch while it had series of its own.",
        ),
        lost.map(|(labels, credit)| (labels, credit.lost_packets)),
    );
}

fn estimates(page: &mut Page, snapshot: &Snapshot, flows: Option<&Flows>) {
    for family in ESTIMATES {
        let top = flows.into_iter().flat_map(|flows| &flows.top);
        let samples = top.filter_map(|top| {
            let estimate = top.flow.estimate?;
            if !snapshot.is_fresh(estimate.epoch) {
                return None;
            }
            let method = [("method", estimate.method.label())];
            let labels = flow_labels(&top.flow.flow, place(&top.flow), &method);
            Some((labels, (family.value)(&estimate)?))
        });
        page.each(&family, samples);
    }
}

fn decoding(page: &mut Page, flows: Option<&Flows>) {
    let decoding = || flows.and_then(|flows| flows.decoding);
    for family in DECODING {
        let value = decoding().and_then(|decoding| (family.value)(&decoding));
        page.each(&family, value.map(|value| (labels(&[]), value)));
    }
    let judged = decoding().into_iter().flat_map(|decoding| {
        let within = decoding.within_bound;
        let beyond = decoding.estimates.saturating_sub(within);
        [("true", within), ("false", beyond)]
            .map(|(is_within, n)| (labels(&[("within_bound", is_within)]), n))
    });
    page.each(
        &family(
            "vernier_flow_estimates_total",
            "counter",
            "Estimates with a bound of all tracked flows, by whether the stamped mean lay within it.",
        ),
        judged,
    );
}
