//! Answers to DPDK's telemetry, which a program's operator may look at anyway (`dpdk-telemetry.py`).

use std::ffi::CStr;
use std::sync::Arc;

use control::published::Published;
use dpdk_bindings::Host;
use dpdk_bindings::telemetry::{self, Command, Row};
use records::query::FlowQuery;

/// Most rows of an answer: telemetry's answers end after 16 KiB.
const ROWS_MAX: usize = 64;

/// Flows that are listed without parameters.
const FLOWS: usize = 10;

/// Answers from what is published from now on.
pub fn offer(host: &Host<'_>, published: Arc<Published>) {
    let answer = move |command, parameters: &str| rows(command, parameters, &published);
    if let Err(errno) = telemetry::offer(host, answer) {
        tracing::info!("DPDK's telemetry has no room for commands: {errno}");
    }
}

fn rows(command: Command, parameters: &str, published: &Published) -> Option<Vec<Row>> {
    match command {
        Command::Segments => Some(segments(parameters, published)),
        Command::Flows if parameters.is_empty() => Some(flows(FLOWS, published)),
        Command::Flows => {
            let limit = parameters.parse().ok();
            let limit = limit.filter(|limit| (1..=ROWS_MAX).contains(limit))?;
            Some(flows(limit, published))
        }
    }
}

/// Segments with packets, of one egress port where it is named.
fn segments(egress: &str, published: &Published) -> Vec<Row> {
    let snapshot = published.read();
    let is_asked = |of: &str| egress.is_empty() || of == egress;
    let segments = snapshot.segments.iter().filter(|it| is_asked(&it.egress));
    let segments = segments.filter(|segment| segment.total.counts.received_packets > 0);
    let row = |segment: &records::snapshot::Segment| {
        let mut row = row(segment.names(), None);
        row.numbers
            .push((c"packets", segment.total.counts.received_packets));
        if let Some(delays) = &segment.last_minute {
            let stamped = &delays.stamped;
            row.numbers.extend([
                (c"mean_ns", whole(stamped.mean_ns)),
                (c"p99_ns", whole(stamped.p99_ns)),
                (c"max_ns", whole(stamped.max_ns)),
            ]);
        }
        row
    };
    segments.take(ROWS_MAX).map(row).collect()
}

/// The flows with most bytes.
fn flows(limit: usize, published: &Published) -> Vec<Row> {
    let query = FlowQuery {
        limit,
        ..FlowQuery::default()
    };
    let page = published.flows(&query);
    let row = |flow: &records::snapshot::Flow| {
        let names = [&*flow.ingress, &*flow.egress, &*flow.class];
        let mut row = row(names, Some((c"flow", &flow.flow)));
        row.numbers.extend([
            (c"packets", flow.total.packets),
            (c"bytes", flow.total.bytes),
        ]);
        let mean_ns = flow.total.mean_ns;
        row.numbers
            .extend(mean_ns.map(|mean_ns| (c"mean_ns", whole(mean_ns))));
        row
    };
    page.flows.iter().map(row).collect()
}

/// A row of names, without figures.
fn row([ingress, egress, class]: [&str; 3], more: Option<(&'static CStr, &String)>) -> Row {
    let names = [(c"from", ingress), (c"to", egress), (c"class", class)];
    let more = more.map(|(name, text)| (name, text.clone()));
    let names = names.map(|(name, text)| (name, text.to_owned()));
    Row {
        texts: more.into_iter().chain(names).collect(),
        numbers: Vec::new(),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "delays are positive, and far below the bound"
)]
fn whole(ns: f64) -> u64 {
    ns.round() as u64
}
