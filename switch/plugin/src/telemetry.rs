//! Responses to DPDK's telemetry, which operators of DPDK programs use (`dpdk-telemetry.py`).

use std::ffi::CStr;
use std::sync::Arc;

use control::published::Published;
use dpdk_bindings::Host;
use dpdk_bindings::telemetry::{self, Column, Command, Values};
use records::query::{FlowOrder, FlowQuery};
use records::snapshot::Stamped;

/// Largest number of rows in a response, because telemetry's responses end after 16 KiB.
const ROWS_MAX: usize = 64;

/// Number of flows listed without parameters.
const FLOWS: usize = 10;

/// Registers commands that answer from the published snapshot.
pub fn offer(host: &Host<'_>, published: Arc<Published>) {
    let answer = move |command, parameters: &str| table(command, parameters, &published);
    if let Err(errno) = telemetry::offer(host, answer) {
        tracing::info!("DPDK's telemetry has no room for commands: {errno}");
    }
}

fn table(command: Command, parameters: &str, published: &Published) -> Option<Vec<Column>> {
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

/// Segments with packets in the last minute, of one egress port if it is given.
fn segments(egress: &str, published: &Published) -> Vec<Column> {
    let snapshot = published.read();
    let is_asked = |of: &str| egress.is_empty() || of == egress;
    let segments = snapshot.segments.iter().filter(|it| is_asked(&it.egress));
    let rows = segments.filter_map(|segment| Some((segment, segment.last_minute.as_ref()?)));
    let rows: Vec<_> = rows.take(ROWS_MAX).collect();
    let delay = |name, of: fn(&Stamped) -> f64| {
        numbers(name, &rows, |(_, delays)| whole(of(&delays.stamped)))
    };
    vec![
        texts(c"from", &rows, |(segment, _)| &segment.ingress),
        texts(c"to", &rows, |(segment, _)| &segment.egress),
        texts(c"class", &rows, |(segment, _)| &segment.class),
        numbers(c"packets", &rows, |(_, delays)| delays.packets),
        delay(c"mean_ns", |stamped| stamped.mean_ns),
        delay(c"p99_ns", |stamped| stamped.p99_ns),
        delay(c"max_ns", |stamped| stamped.max_ns),
    ]
}

/// The flows with the most bytes.
fn flows(limit: usize, published: &Published) -> Vec<Column> {
    let query = FlowQuery {
        limit,
        sort: FlowOrder::Bytes,
        ..FlowQuery::default()
    };
    let rows = published.flows(&query).flows;
    vec![
        texts(c"flow", &rows, |flow| &flow.flow),
        texts(c"from", &rows, |flow| &flow.ingress),
        texts(c"to", &rows, |flow| &flow.egress),
        texts(c"class", &rows, |flow| &flow.class),
        numbers(c"packets", &rows, |flow| flow.total.packets),
        numbers(c"bytes", &rows, |flow| flow.total.bytes),
        numbers(c"mean_ns", &rows, |flow| {
            whole(flow.total.mean_ns.unwrap_or(0.0))
        }),
    ]
}

fn texts<R>(name: &'static CStr, rows: &[R], of: impl Fn(&R) -> &String) -> Column {
    let values = Values::Texts(rows.iter().map(|row| of(row).clone()).collect());
    Column { name, values }
}

fn numbers<R>(name: &'static CStr, rows: &[R], of: impl Fn(&R) -> u64) -> Column {
    let values = Values::Numbers(rows.iter().map(of).collect());
    Column { name, values }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "delays are positive, and far below the bound"
)]
fn whole(ns: f64) -> u64 {
    ns.round() as u64
}
