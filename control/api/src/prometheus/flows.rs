//! Flows: those with series of their own, `other`, and decoding.

use super::page::{Labels, Page, Sample, with};
use super::segments::judged;
use super::whole;
use contract::metric::MetricKind as Kind;
use records::snapshot::{
    Credit, Decoding, Flow, FlowEstimate, FlowTotals, Flows, JudgedEstimates, Snapshot,
};

/// The flow that all flows without series of their own are added to.
const OTHER: &str = "other";

pub(super) fn flows(page: &mut Page, snapshot: &Snapshot) {
    let flows = snapshot.flows.as_ref();
    directory(page, flows.map(|flows| &flows.totals));
    delays(page, flows);
    estimates(page, snapshot, flows);
    decoding(page, flows.and_then(|flows| flows.decoding.as_ref()));
    judgement(page, flows.map_or(&[], |flows| &flows.judged));
}

fn directory(page: &mut Page, totals: Option<&FlowTotals>) {
    page.metrics(FlowTotals::metrics(), totals.into_iter().flat_map(whole));
    let gone = totals.into_iter().flat_map(|totals| {
        [("idle", totals.expired), ("evicted", totals.evicted)]
            .map(|(reason, flows)| (vec![("reason", reason.into())], flows as f64))
    });
    page.counter(
        "vernier_flows_forgotten_total",
        "Flows that lost their slot: idle, or evicted to make room for others.",
        gone,
    );
}

fn labels<'r>(flow: &'r str, [ingress, egress, class]: [&'r String; 3]) -> Labels<'r> {
    vec![
        ("flow", flow.into()),
        ("segment", format!("{ingress}>{egress}").into()),
        ("ingress", ingress.into()),
        ("egress", egress.into()),
        ("class", class.into()),
    ]
}

fn flow_labels(flow: &Flow) -> Labels<'_> {
    labels(&flow.flow, [&flow.ingress, &flow.egress, &flow.class])
}

/// What each flow and `other` were credited with.
fn delays(page: &mut Page, flows: Option<&Flows>) {
    let top = flows.into_iter().flat_map(|flows| &flows.top);
    let top = top.map(|top| (flow_labels(&top.flow), &top.credited));
    let other = flows.into_iter().flat_map(|flows| &flows.other);
    let other = other.map(|other| {
        let segment = [&other.ingress, &other.egress, &other.class];
        (labels(OTHER, segment), &other.credited)
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

fn estimates(page: &mut Page, snapshot: &Snapshot, flows: Option<&Flows>) {
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

fn decoding(page: &mut Page, decoding: Option<&Decoding>) {
    page.metrics(Decoding::metrics(), decoding.into_iter().flat_map(whole));
    // Nothing before the first decoding.
    let decoded = decoding.filter(|decoding| decoding.epoch.is_some());
    page.gauge(
        "vernier_decode_epochs",
        "Epochs whose sum was decoded last; 1 where decoding keeps up with every epoch.",
        decoded.map(|decoding| (Labels::new(), f64::from(decoding.epochs))),
    );
}

/// How estimates compare with stamps, by method and size of flows.
fn judgement(page: &mut Page, kinds: &[JudgedEstimates]) {
    let labelled = kinds.iter().map(|one| {
        let labels: Labels = vec![
            ("method", one.method.as_str().into()),
            ("size", one.size.as_str().into()),
        ];
        (labels, one)
    });
    page.metrics(JudgedEstimates::metrics(), labelled.clone());
    let judged = labelled.flat_map(|(labels, one)| {
        judged(
            &labels,
            one.within_bound + one.beyond_bound,
            one.within_bound,
        )
    });
    page.counter(
        "vernier_flow_estimates_total",
        "Estimates of tracked flows with a bound, by method, packets of the flow, and whether the stamped mean was \
         within the bound.",
        judged,
    );
}
