//! Paths over HTTP, all answered from the fleet.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use api::http::{Nothing, Parameters, Refusal, ui};
use api::prometheus::Format;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use axum::{Json as Answer, Router};
use records::blame::FlowPath;
use records::station::{
    Missing, NetworkMap, Paths, SegmentHistory, SegmentMinute, StationSegment, StationSegments,
    SwitchState, Switches,
};
use report::msp::Kind;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::Station;
use crate::blame::Blamer;
use crate::fleet::refused_numbers;
use crate::page;
use crate::path::{Network, figures, label, segment};
use crate::settings::Ends;
use crate::state::State as Switch;
use crate::summary::summary;

/// Segments in an answer where nothing else is asked for, and at most.
const LIMIT: (usize, usize) = (1_000, 100_000);

/// Risen segments in an answer, likewise.
const RISEN: (usize, usize) = (100, 10_000);

/// All paths.
pub const PATHS: [&str; 12] = [
    ui::PATH,
    "/metrics",
    "/healthz",
    "/readyz",
    "/api/v1/switches",
    "/api/v1/segments",
    "/api/v1/history",
    "/api/v1/missing",
    "/api/v1/topology",
    "/api/v1/path",
    "/api/v1/blame",
    "/api/v1/flow",
];

type Shared = State<Arc<Station>>;
type Result<T> = std::result::Result<T, Refusal>;

/// The router.
pub fn router(station: Arc<Station>) -> Router {
    ui::with_files(Router::new())
        .route(ui::PATH, ui::index(ui::Of::Station))
        .route("/metrics", get(metrics))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/api/v1/switches", get(switches))
        .route("/api/v1/segments", get(segments))
        .route("/api/v1/history", get(history))
        .route("/api/v1/missing", get(missing))
        .route("/api/v1/topology", get(topology))
        .route("/api/v1/path", get(path))
        .route("/api/v1/blame", get(blame))
        .route("/api/v1/flow", get(flow))
        .fallback(async || {
            (
                StatusCode::NOT_FOUND,
                format!("not found; the paths are:\n  {}\n", PATHS.join("\n  ")),
            )
        })
        .with_state(station)
}

async fn metrics(State(station): Shared) -> impl IntoResponse {
    let mut text = Vec::new();
    // Memory takes all of it.
    let written = page::write(&station, &mut text);
    let status = written.map_or(StatusCode::INTERNAL_SERVER_ERROR, |()| StatusCode::OK);
    let content = Format::Text.content_type();
    (status, [(header::CONTENT_TYPE, content)], text)
}

async fn readyz(State(station): Shared) -> impl IntoResponse {
    let mut reasons = station.problems.list();
    if reasons.is_empty() && !station.is_connected.load(Ordering::Relaxed) {
        reasons.push("not connected to NATS yet".to_owned());
    }
    if !station.fleet.is_ready() {
        reasons.push("the states and minutes in JetStream are being read".to_owned());
    }
    if reasons.is_empty() {
        (StatusCode::OK, "ready\n".to_owned())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, reasons.join("\n") + "\n")
    }
}

/// Which switches.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct SwitchQuery {
    /// Only this one.
    switch: Option<String>,
}

/// The states asked for.
fn states(station: &Station, switch: Option<&String>) -> Vec<Switch> {
    match switch {
        Some(switch) => station.fleet.state(switch).into_iter().collect(),
        None => station.fleet.states(),
    }
}

async fn switches(
    State(station): Shared,
    Parameters(asked): Parameters<SwitchQuery>,
) -> Json<Switches> {
    let now = station.clock.now_unix_ns();
    let states = station.fleet.states();
    let refused = refused_numbers(&states);
    let is_wanted = |state: &&Switch| asked.switch.as_ref().is_none_or(|of| state.switch == *of);
    let wanted = states.iter().filter(is_wanted);
    Answer(Switches {
        switches: wanted
            .map(|state| with_number(summary(state, now), &refused))
            .collect(),
    })
}

/// With what is wrong with its number on wires.
fn with_number(mut switch: SwitchState, refused: &HashMap<&str, String>) -> SwitchState {
    let problem = refused.get(&*switch.switch).cloned();
    switch.problems.extend(problem);
    switch
}

/// Which segments.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct SegmentQuery {
    /// Only of this switch.
    switch: Option<String>,
    /// Only of this kind.
    kind: Option<String>,
    /// Only of this class.
    class: Option<String>,
    /// So many are left out first.
    offset: usize,
    /// Most segments; default 1,000, at most 100,000.
    limit: Option<usize>,
}

async fn segments(
    State(station): Shared,
    Parameters(asked): Parameters<SegmentQuery>,
) -> Json<StationSegments> {
    let now = station.clock.now_unix_ns();
    let is_wanted = |segment: &StationSegment| {
        asked.kind.as_ref().is_none_or(|kind| segment.kind == *kind)
            && asked
                .class
                .as_ref()
                .is_none_or(|class| segment.class == *class)
    };
    let mut matching = 0;
    let mut listed = Vec::new();
    let limit = asked.limit.unwrap_or(LIMIT.0).min(LIMIT.1);
    for state in states(&station, asked.switch.as_ref()) {
        let segments = state
            .segments
            .iter()
            .map(|known| segment(&state, known, now));
        for segment in segments.filter(is_wanted) {
            if matching >= asked.offset && listed.len() < limit {
                listed.push(segment);
            }
            matching += 1;
        }
    }
    Answer(StationSegments {
        matching: matching as u64,
        segments: listed,
    })
}

/// Whose minutes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HistoryQuery {
    /// The switch.
    switch: String,
    /// Only the last so many minutes; default 60.
    minutes: Option<usize>,
}

async fn history(
    State(station): Shared,
    Parameters(asked): Parameters<HistoryQuery>,
) -> Json<SegmentHistory> {
    let minutes = station.fleet.minutes(&asked.switch);
    let first = minutes.len().saturating_sub(asked.minutes.unwrap_or(60));
    let listed = minutes[first..].iter().flat_map(|minute| {
        let name = |index: u32| minute.names.get(index as usize).map_or("", String::as_str);
        minute.segments.iter().map(move |segment| SegmentMinute {
            start_unix_s: minute.minute * 60,
            segment: format!(
                "{} {}>{} {}",
                Kind::try_from(segment.kind).map_or("unknown", label),
                name(segment.from),
                name(segment.to),
                name(segment.class)
            ),
            figures: figures(&segment.sums),
        })
    });
    Answer(SegmentHistory {
        minutes: listed.collect(),
    })
}

async fn missing(State(station): Shared, _: Parameters<Nothing>) -> Json<Missing> {
    let now = station.clock.now_unix_ns();
    let states = station.fleet.states();
    let refused = refused_numbers(&states);
    let summaries = (states.iter()).map(|state| with_number(summary(state, now), &refused));
    let switches = summaries.filter(|switch| {
        switch.silent_since_unix_s.is_some()
            || switch.missed_epochs > 0
            || !switch.problems.is_empty()
    });
    let topology = station.topology();
    let routers = topology
        .iter()
        .flat_map(|topology| topology.routers().map(|router| topology.name(router)));
    let is_unreported = |name: &&str| {
        let is_there = |state: &Switch| state.node.as_ref().unwrap_or(&state.switch) == *name;
        !states.iter().any(is_there)
    };
    Answer(Missing {
        known: states.len() as u64,
        switches: switches.collect(),
        unreported: routers.filter(is_unreported).map(str::to_owned).collect(),
    })
}

async fn topology(State(station): Shared, _: Parameters<Nothing>) -> Json<NetworkMap> {
    let states = station.fleet.states();
    let topology = station.topology();
    let network = Network::new(&states, topology.as_deref(), station.clock.now_unix_ns());
    Answer(network.map())
}

async fn path(State(station): Shared, Parameters(asked): Parameters<Ends>) -> Result<Json<Paths>> {
    let states = station.fleet.states();
    let topology = station.topology();
    let network = Network::new(&states, topology.as_deref(), station.clock.now_unix_ns());
    let paths = network.paths(&asked.from, &asked.to, asked.class.as_deref());
    paths
        .map(Answer)
        .map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, error.to_string()))
}

/// Of all of the fleet, or from where to where.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct BlameQuery {
    /// A switch or its port; none: all of the fleet.
    from: Option<String>,
    /// Likewise.
    to: Option<String>,
    /// Only this class.
    class: Option<String>,
    /// Most risen segments of the fleet; default 100, at most 10,000.
    limit: Option<usize>,
}

async fn blame(
    State(station): Shared,
    Parameters(asked): Parameters<BlameQuery>,
) -> Result<Response> {
    let states = station.fleet.states();
    let now = station.clock.now_unix_ns();
    let blamer = Blamer::new(&states, now);
    let class = asked.class.as_deref();
    match (asked.from, asked.to) {
        (Some(from), Some(to)) => {
            let topology = station.topology();
            let network = Network::new(&states, topology.as_deref(), now);
            let paths = network.paths(&from, &to, class);
            let paths =
                paths.map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, error.to_string()))?;
            Ok(Answer(blamer.paths(&paths)).into_response())
        }
        (None, None) => {
            let limit = asked.limit.unwrap_or(RISEN.0).min(RISEN.1);
            Ok(Answer(blamer.all(class, limit)).into_response())
        }
        _ => {
            let words = "expected both `from` and `to`, or neither for all of the fleet";
            Err(Refusal::new(StatusCode::BAD_REQUEST, words.to_owned()))
        }
    }
}

/// Which flow.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FlowQuery {
    /// `10.0.0.1:1024>10.0.0.2:80/tcp`.
    flow: String,
}

async fn flow(
    State(station): Shared,
    Parameters(asked): Parameters<FlowQuery>,
) -> Result<Json<FlowPath>> {
    let states = station.fleet.states();
    let found = crate::flow::flow(&states, &asked.flow, station.clock.now_unix_ns());
    found.map(Answer).ok_or_else(|| {
        let words = format!(
            "no switch reported {} among its top flows of the last epoch: see `report.top_flows` and `measurement.flows` of the switches",
            asked.flow
        );
        Refusal::new(StatusCode::BAD_REQUEST, words)
    })
}
