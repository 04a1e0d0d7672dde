//! HTTP answers in JSON and for Prometheus. The server, its limits and access control are those of the switch
//! ([`api::http`]).

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use api::http::{Answer, InFlight, Nothing, Parameters, Refusal, Running, Server, ok_unless};
use api::process;
use api::prometheus::{self, Format, write_families};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use report::sender::ReportCounters;
use serde::{Deserialize, Serialize};

use crate::metrics;
use crate::mset::View;
use crate::published::{Board, Published};

/// So many sessions take as many bytes of an answer as one segment of a switch.
const SESSIONS_PER_SEGMENT: usize = 16;

/// What is served.
#[derive(Debug, Clone)]
pub struct Sources {
    /// Results.
    pub board: Board,
    /// Names of the configured sessions.
    pub sessions: Vec<String>,
    /// What an m-set requires, if one is followed.
    pub mset: Option<View>,
    /// Counters of the sender of reports, if there is one.
    pub reports: Option<Arc<ReportCounters>>,
    /// Answers in progress.
    pub in_flight: InFlight,
}

impl Sources {
    fn answer(&self) -> Answer {
        let segments = self
            .board
            .read()
            .sessions
            .len()
            .div_ceil(SESSIONS_PER_SEGMENT);
        self.in_flight.answer(segments)
    }
}

type Shared = State<Arc<Sources>>;
type Answered = Result<Response, Refusal>;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Filter {
    name: Option<String>,
}

/// All paths, their descriptions and handlers.
fn routes() -> [(&'static str, &'static str, MethodRouter<Arc<Sources>>); 7] {
    let live = get(async || "ok\n");
    let ready = "200 once every session has a result and sends, else 503 and why";
    let results = "sessions: the last interval and totals (JSON); ?name=";
    let counts = "the reflector's counters (JSON)";
    let nodes = "nodes of the m-set and the paths to them (JSON)";
    [
        ("/", "this page", get(index)),
        ("/metrics", "all metrics, for Prometheus", get(metrics_page)),
        ("/healthz", "200 while the program works", live),
        ("/readyz", ready, get(readyz)),
        ("/api/v1/sessions", results, get(sessions)),
        ("/api/v1/reflector", counts, get(reflector)),
        ("/api/v1/mset", nodes, get(mset)),
    ]
}

/// Serves on a thread of its own until the result is dropped.
///
/// # Errors
/// The system refuses a thread or an event queue.
pub fn serve(server: Server, sources: Sources) -> io::Result<Running> {
    let mut router = Router::new();
    for (path, _, answer) in routes() {
        router = router.route(path, answer);
    }
    let router = router.fallback(async || {
        let text = format!("not found; the paths are:\n{}", paths());
        (StatusCode::NOT_FOUND, text)
    });
    let router = router.with_state(Arc::new(sources));
    server.serve_routes(router, routes().map(|(path, ..)| path))
}

fn paths() -> String {
    let lines = routes().map(|(path, what, _)| format!("  {path:20} {what}\n"));
    lines.concat()
}

async fn index() -> String {
    format!("vernier-probe {}\n\n{}", env!("CARGO_PKG_VERSION"), paths())
}

async fn readyz(State(sources): Shared) -> (StatusCode, String) {
    ok_unless(unready(&sources).as_slice(), "ok\n")
}

/// Why it is not ready, if so.
fn unready(sources: &Sources) -> Option<String> {
    let Sources {
        board, sessions, ..
    } = sources;
    let state = board.read();
    if !state.faults.is_empty() {
        return Some(state.faults.to_string());
    }
    let without = sessions.iter();
    let without = without.filter(|name| !state.sessions.contains_key(*name));
    let without = without.count();
    if without > 0 {
        let all = sessions.len();
        return Some(format!("{without} of {all} sessions have no result yet"));
    }
    let wanted = sources.mset.as_ref().map(View::read);
    let wanted = wanted.filter(|wanted| !wanted.is_known)?;
    let why = wanted.problem.as_deref().unwrap_or("it is being read");
    Some(format!("mset: no topology is known yet: {why}"))
}

async fn metrics_page(State(sources): Shared) -> Answered {
    let own = process::own_metrics();
    let content_type = Format::Text.content_type();
    let reports = sources.reports.as_ref().map(|counters| counters.read());
    sources.answer().written(content_type, |out| {
        write_families(&own, out, |page| {
            metrics::families(page, &sources.board);
            if let Some(mset) = &sources.mset {
                metrics::ospf(page, &mset.ospf);
            }
            prometheus::reports(page, reports.as_ref());
        })
    })
}

async fn sessions(State(sources): Shared, Parameters(filter): Parameters<Filter>) -> Answered {
    let sessions = match filter.name {
        None => sources.board.sessions(),
        Some(name) => {
            let session = sources.board.session(&name).ok_or_else(|| {
                let error = format!("expected `name` of a session with a result, got {name:?}");
                Refusal::new(StatusCode::NOT_FOUND, error)
            });
            vec![session?]
        }
    };
    let sessions: Vec<&Published> = sessions.iter().map(AsRef::as_ref).collect();
    answered(&sources, "sessions", &sessions)
}

async fn reflector(State(sources): Shared, _: Parameters<Nothing>) -> Answered {
    let counts = sources.board.read().reflector;
    answered(&sources, "reflector", &counts)
}

async fn mset(State(sources): Shared, _: Parameters<Nothing>) -> Answered {
    let mset = sources.mset.as_ref().map(View::read);
    answered(&sources, "mset", &mset)
}

/// An object with one key.
fn answered(sources: &Sources, key: &str, value: &impl Serialize) -> Answered {
    sources.answer().json(&BTreeMap::from([(key, value)]))
}
