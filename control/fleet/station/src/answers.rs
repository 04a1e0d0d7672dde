//! The HTTP API, answered from the fleet.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use api::http::{Answer, Nothing, Parameters, Refusal, ok_unless, ui};
use api::prometheus::Format;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use records::names;
use records::station::{
    Blame, FlowPath, Missing, NetworkMap, PathBlames, Paths, SegmentHistory, SegmentMinute,
    StationFlows, StationSegments, SwitchState, Switches, Unreadable,
};
use report::msp::Kind;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use crate::Station;
use crate::blame::Blamer;
use crate::fleet::refused_numbers;
use crate::page;
use crate::path::Network;
use crate::place::{Place, label};
use crate::settings::Ends;
use crate::state::State as Switch;
use crate::summary::summary;

/// Default and largest number of segments in an answer.
const LIMIT: (usize, usize) = (1_000, 100_000);

/// Default and largest number of risen segments or flows in an answer.
const RISEN: (usize, usize) = (100, 10_000);

type Shared = State<Arc<Station>>;
type Answered = Result<Response, Refusal>;

/// Bytes of states that count as one segment in the size limit of answers, like a segment of a switch, which allows 4
/// KiB.
const STATE_BYTES_PER_SEGMENT: usize = 2_048;

/// Largest number of segments that count.
const ANSWER_SEGMENTS_MAX: usize = 4_096;

impl Station {
    /// Returns an empty answer that may grow to the free number of bytes.
    fn answer(&self) -> Answer {
        let segments = self.fleet.states_bytes() / STATE_BYTES_PER_SEGMENT;
        self.in_flight.answer(segments.min(ANSWER_SEGMENTS_MAX))
    }

    /// Returns the present network of these switches.
    pub(crate) fn network<'s>(&self, states: &'s [Switch]) -> Network<'s> {
        Network::new(states, self.topology().as_deref(), self.clock.now_unix_ns())
    }

    /// Returns a [`Blamer`] for the present state of these switches.
    pub(crate) fn blamer<'s>(&self, states: &'s [Switch]) -> Blamer<'s> {
        let progress = self.progress.lock();
        let is_read = |partition| progress.is_read(partition, Instant::now());
        Blamer::new(states, self.clock.now_unix_ns(), is_read)
    }

    /// Summarises these switches at present, with the problems of their numbers on wires.
    fn summaries<'s>(&self, states: &'s [Switch]) -> impl Iterator<Item = SwitchState> + use<'s> {
        let now = self.clock.now_unix_ns();
        let refused = refused_numbers(states);
        states.iter().map(move |state| {
            let mut switch = summary(state, now);
            switch
                .problems
                .extend(refused.get(&*switch.switch).cloned());
            switch
        })
    }
}

/// Makes an answer on a separate thread, so that a slow answer does not block the server.
async fn beside(
    station: Arc<Station>,
    make: impl FnOnce(&Station) -> Answered + Send + 'static,
) -> Answered {
    let turn = Arc::clone(&station.turn).acquire_owned().await;
    let turn = turn.map_err(|error| Refusal::internal(&error))?;
    let done = spawn_blocking(move || {
        let answer = make(&station);
        // Held until the work is done, even if the client has disconnected.
        drop(turn);
        answer
    });
    done.await.map_err(|error| Refusal::internal(&error))?
}

/// Answers with the result of `make` for the parameters, or with its refusal.
async fn answered<P: Send + 'static, T: Serialize + 'static>(
    station: Arc<Station>,
    asked: P,
    make: impl FnOnce(&Station, &P) -> Result<T, Refusal> + Send + 'static,
) -> Answered {
    beside(station, move |station| {
        let value = make(station, &asked)?;
        station.answer().json(&value)
    })
    .await
}

/// Returns a route whose answer is made from its parameters.
fn made<P: DeserializeOwned + Send + 'static, T: Serialize + 'static>(
    make: fn(&Station, &P) -> T,
) -> MethodRouter<Arc<Station>> {
    get(
        async move |State(station): Shared, Parameters(asked): Parameters<P>| {
            let make = move |station: &Station, asked: &P| Ok(make(station, asked));
            answered(station, asked, make).await
        },
    )
}

/// Returns a route that can refuse its parameters.
fn tried<P: DeserializeOwned + Send + 'static, T: Serialize + 'static>(
    make: fn(&Station, &P) -> Result<T, Refusal>,
) -> MethodRouter<Arc<Station>> {
    get(
        async move |State(station): Shared, Parameters(asked): Parameters<P>| {
            answered(station, asked, make).await
        },
    )
}

/// Returns all paths with their handlers.
fn routes() -> [(&'static str, MethodRouter<Arc<Station>>); 14] {
    [
        ("/", get(home)),
        (ui::PATH, ui::index(ui::Of::Station)),
        ("/metrics", get(metrics)),
        ("/healthz", get(async || "ok\n")),
        ("/readyz", get(readyz)),
        ("/api/v1/switches", made(switches)),
        ("/api/v1/segments", made(segments)),
        ("/api/v1/history", made(history)),
        ("/api/v1/missing", made(missing)),
        ("/api/v1/topology", made(topology)),
        ("/api/v1/path", tried(path)),
        ("/api/v1/blame", tried(blame)),
        ("/api/v1/flows", made(flows)),
        ("/api/v1/flow", tried(flow)),
    ]
}

/// Returns all paths.
pub fn paths() -> [&'static str; 14] {
    routes().map(|(path, _)| path)
}

/// Returns the router.
pub fn router(station: Arc<Station>) -> Router {
    let mut router = ui::with_files(Router::new());
    for (path, answer) in routes() {
        router = router.route(path, answer);
    }
    let router = router.fallback(async || {
        let text = format!("not found; the paths are:\n{}", listed());
        (StatusCode::NOT_FOUND, text)
    });
    router.with_state(station)
}

/// Lists all paths, one a line.
fn listed() -> String {
    paths().map(|path| format!("  {path}\n")).concat()
}

async fn home(headers: HeaderMap) -> Response {
    ui::home(&headers, format!("Vernier station\n\n{}", listed()))
}

async fn metrics(State(station): Shared) -> Answered {
    beside(station, |station| {
        let content = Format::Text.content_type();
        let answer = station.answer();
        answer.written(content, |out| page::write(station, out))
    })
    .await
}

async fn readyz(State(station): Shared) -> impl IntoResponse {
    ok_unless(&station.unready(Instant::now()), "ready\n")
}

/// Selects switches.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct SwitchQuery {
    /// Only this switch.
    switch: Option<String>,
}

fn switches(station: &Station, asked: &SwitchQuery) -> Switches {
    let states = station.fleet.states();
    let is_wanted =
        |state: &SwitchState| asked.switch.as_ref().is_none_or(|of| state.switch == *of);
    Switches {
        switches: station.summaries(&states).filter(is_wanted).collect(),
    }
}

/// Selects segments.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct SegmentQuery {
    /// Only segments of this switch.
    switch: Option<String>,
    /// Only segments of this kind.
    kind: Option<String>,
    /// Only segments of this class.
    class: Option<String>,
    /// Number of segments to skip.
    offset: usize,
    /// Largest number of segments; default 1,000, at most 100,000.
    limit: Option<usize>,
}

fn segments(station: &Station, asked: &SegmentQuery) -> StationSegments {
    let now = station.clock.now_unix_ns();
    let states = match &asked.switch {
        Some(switch) => station.fleet.state(switch).into_iter().collect(),
        None => station.fleet.states(),
    };
    let is_wanted = |place: &Place| {
        let (kind, class) = (asked.kind.as_deref(), asked.class.as_deref());
        kind.is_none_or(|kind| label(place.kind()) == kind)
            && class.is_none_or(|class| place.class() == class)
    };
    let wanted = states.iter().flat_map(Switch::places).filter(is_wanted);
    let limit = asked.limit.unwrap_or(LIMIT.0).min(LIMIT.1);
    let listed = wanted.clone().skip(asked.offset).take(limit);
    StationSegments {
        matching: wanted.count() as u64,
        segments: listed.map(|place| place.record(now)).collect(),
    }
}

/// Selects minutes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HistoryQuery {
    /// The switch.
    switch: String,
    /// Number of most recent minutes; default 60.
    minutes: Option<usize>,
}

fn history(station: &Station, asked: &HistoryQuery) -> SegmentHistory {
    let minutes = station.fleet.minutes(&asked.switch);
    // A large minute is stored in parts.
    let mut numbers: Vec<u64> = minutes.iter().map(|minute| minute.minute).collect();
    numbers.dedup();
    let left_out = numbers.len().saturating_sub(asked.minutes.unwrap_or(60));
    let first = numbers.get(left_out).copied().unwrap_or(u64::MAX);
    let listed = minutes.iter().filter(|minute| minute.minute >= first);
    let listed = listed.flat_map(|minute| {
        minute.segments.iter().map(move |segment| {
            let names = [segment.from, segment.to, segment.class];
            let [from, to, class] = names.map(|index| names::name(&minute.names, index));
            let kind = Kind::try_from(segment.kind).map_or("unknown", label);
            SegmentMinute {
                start_unix_s: minute.minute.saturating_mul(60),
                segment: format!("{kind} {from}>{to} {class}"),
                figures: segment.sums.figures(),
            }
        })
    });
    SegmentHistory {
        minutes: listed.collect(),
    }
}

fn missing(station: &Station, _: &Nothing) -> Missing {
    let states = station.fleet.states();
    let switches = station.summaries(&states).filter(|switch| {
        switch.silent_since_unix_s.is_some()
            || switch.missed_epochs > 0
            || !switch.problems.is_empty()
    });
    let topology = station.topology();
    let routers = topology
        .iter()
        .flat_map(|topology| topology.routers().map(|router| topology.name(router)));
    let nodes = states.iter();
    let nodes = nodes.map(|state| state.node.as_ref().unwrap_or(&state.switch).as_str());
    let nodes: HashSet<&str> = nodes.collect();
    let unreported = routers.filter(|name| !nodes.contains(name));
    let unreadable = station.fleet.faults().into_iter();
    Missing {
        known: states.len() as u64,
        switches: switches.collect(),
        unreported: unreported.map(str::to_owned).collect(),
        unreadable: unreadable
            .map(|(switch, why)| Unreadable { switch, why })
            .collect(),
    }
}

fn topology(station: &Station, _: &Nothing) -> NetworkMap {
    station.network(&station.fleet.states()).map()
}

fn path(station: &Station, asked: &Ends) -> Result<Paths, Refusal> {
    let states = station.fleet.states();
    let paths = station
        .network(&states)
        .paths(&asked.from, &asked.to, asked.class.as_deref());
    let mut paths = paths.map_err(|error| Refusal::bad_request(error.to_string()))?;
    let blamer = station.blamer(&states);
    for path in &mut paths.paths {
        path.failed = blamer.failed_on(path);
    }
    Ok(paths)
}

/// Selects the whole fleet, or the ends of a path.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct BlameQuery {
    /// A switch or its port; if omitted, the whole fleet.
    from: Option<String>,
    /// A switch or its port; if omitted, the whole fleet.
    to: Option<String>,
    /// Only segments of this class.
    class: Option<String>,
    /// Largest number of risen segments of the fleet; default 100, at most 10,000.
    limit: Option<usize>,
}

/// Causes in the whole fleet, or on paths.
#[derive(Serialize)]
#[serde(untagged)]
enum Blamed {
    Fleet(Blame),
    Paths(PathBlames),
}

fn blame(station: &Station, asked: &BlameQuery) -> Result<Blamed, Refusal> {
    let states = station.fleet.states();
    let blamer = station.blamer(&states);
    let class = asked.class.as_deref();
    match (&asked.from, &asked.to) {
        (Some(from), Some(to)) => {
            let paths = station.network(&states).paths(from, to, class);
            let paths = paths.map_err(|error| Refusal::bad_request(error.to_string()))?;
            Ok(Blamed::Paths(blamer.paths(&paths)))
        }
        (None, None) => {
            let limit = asked.limit.unwrap_or(RISEN.0).min(RISEN.1);
            Ok(Blamed::Fleet(blamer.all(class, limit)))
        }
        _ => Err(Refusal::bad_request(
            "expected both `from` and `to`, or neither for all of the fleet",
        )),
    }
}

/// Selects flows.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct FlowsQuery {
    /// Only flows whose names contain every word of this text.
    contains: String,
    /// Largest number of flows; default 100, at most 10,000.
    limit: Option<usize>,
}

fn flows(station: &Station, asked: &FlowsQuery) -> StationFlows {
    let states = station.fleet.states();
    let limit = asked.limit.unwrap_or(RISEN.0).min(RISEN.1);
    crate::flow::flows(&states, &asked.contains, limit, station.clock.now_unix_ns())
}

/// Selects a flow.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FlowQuery {
    /// The flow's name, such as `10.0.0.1:1024>10.0.0.2:80/tcp`.
    flow: String,
}

fn flow(station: &Station, asked: &FlowQuery) -> Result<FlowPath, Refusal> {
    let states = station.fleet.states();
    let found = crate::flow::flow(&states, &asked.flow, station.clock.now_unix_ns());
    found.ok_or_else(|| {
        Refusal::bad_request(format!(
            "no switch reported {} among its top flows of the last epoch: see `report.top_flows` and `measurement.flows` of the switches",
            asked.flow
        ))
    })
}

#[cfg(test)]
mod tests {
    use axum::body::HttpBody;
    use contract::config::Nats;
    use prost::Message;
    use report::msp::{Report, Segment};

    use super::*;
    use crate::settings::Settings;
    use crate::values::key;

    /// A station that knows `switches` switches with `segments` segments each.
    fn station(switches: u32, segments: u32) -> Arc<Station> {
        let station = Station::new(&Settings::of(Nats::to("nats://127.0.0.1:1"))).unwrap();
        for number in 0..switches {
            let mut state = Switch::default();
            let segment = |from| Segment {
                from,
                to: from,
                packets: 1,
                ..Segment::default()
            };
            let report = Report {
                switch: format!("edge-{number}"),
                names: (0..segments).map(|n| format!("port-{n}")).collect(),
                segments: (0..segments).map(segment).collect(),
                ..Report::default()
            };
            state.take(&report, station.clock.now_unix_ns());
            let value = state.encode_to_vec();
            station.fleet.put_state(&key(&state.switch), 1, &value);
        }
        station
    }

    #[tokio::test]
    async fn answers_that_nobody_takes_are_bounded_and_the_next_are_refused() {
        let station = station(20, 500);
        let ask = async || {
            let all = SegmentQuery {
                limit: Some(LIMIT.1),
                ..SegmentQuery::default()
            };
            let make = |station: &Station, asked: &SegmentQuery| Ok(segments(station, asked));
            answered(Arc::clone(&station), all, make).await
        };
        let mut stalled = Vec::new();
        let mut bytes = 0;
        let refused = loop {
            match ask().await {
                Ok(answer) => {
                    bytes += answer.body().size_hint().exact().unwrap();
                    stalled.push(answer);
                }
                Err(refusal) => break refusal.into_response(),
            }
            assert!(stalled.len() < 1_000, "{bytes} bytes");
        };
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(stalled.len() > 1 && bytes > 1 << 20, "{bytes}");
        // The limit applies to the page for Prometheus, too.
        assert!(metrics(State(Arc::clone(&station))).await.is_err());
        drop(stalled);
        assert!(ask().await.is_ok());
    }

    /// A slow answer does not occupy the server's thread.
    #[tokio::test]
    async fn liveness_waits_for_no_answer() {
        let station = station(1, 1);
        let (let_go, held) = std::sync::mpsc::channel::<()>();
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let slow = beside(Arc::clone(&station), move |station| {
            let _ = begun.send(());
            let _ = held.recv_timeout(std::time::Duration::from_secs(20));
            station.answer().json(&0)
        });
        let waiting = tokio::spawn(async move { slow.await.is_ok() });
        has_begun.await.unwrap();
        let ready = readyz(State(Arc::clone(&station))).await.into_response();
        assert_eq!(
            ready.status(),
            StatusCode::SERVICE_UNAVAILABLE,
            "not connected"
        );
        assert!(!waiting.is_finished());
        let_go.send(()).unwrap();
        assert!(waiting.await.unwrap());
    }
}
