//! Answers over HTTP: JSON, and Prometheus. The server with its limits and access is that of the switch ([`api::http`]).

use std::io;
use std::sync::Arc;

use api::http::{Answer, InFlight, Nothing, Parameters, Refusal, Running, Server};
use api::process;
use api::prometheus::{self, Format, write_families};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use report::sender::ReportCounters;
use serde::{Deserialize, Serialize};

use crate::metrics;
use crate::mset::{View, Wanted};
use crate::published::{Board, Published};
use crate::reflector::ReflectorCounts;

/// The paths, and what they answer.
const PATHS: [(&str, &str); 7] = [
    ("/", "this page"),
    ("/metrics", "everything, for Prometheus"),
    ("/healthz", "200 as long as the program works"),
    (
        "/readyz",
        "200 once every session has a result and sends, else 503 and why",
    ),
    (
        "/api/v1/sessions",
        "sessions: the last interval and totals (JSON); ?name=",
    ),
    ("/api/v1/reflector", "the reflector's counts (JSON)"),
    (
        "/api/v1/mset",
        "nodes that an m-set asks for, and the ways to them (JSON)",
    ),
];

/// Sessions that take as many bytes of an answer as a segment of a switch.
const SESSIONS_PER_SEGMENT: usize = 16;

/// What is served.
#[derive(Debug, Clone)]
pub struct Sources {
    /// Results.
    pub board: Board,
    /// Names of the sessions that are configured.
    pub sessions: Vec<String>,
    /// What an m-set asks for, where one is followed.
    pub mset: Option<View>,
    /// What the sender of reports counts, where there is one.
    pub reports: Option<Arc<ReportCounters>>,
}

#[derive(Clone)]
struct Serving {
    sources: Sources,
    in_flight: InFlight,
}

type Answered = Result<Response, Refusal>;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Filter {
    name: Option<String>,
}

/// The answer of `/api/v1/reflector`.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReflectorAnswer {
    /// `None`: there is no reflector.
    pub reflector: Option<ReflectorCounts>,
}

/// Serves these on a thread of its own, until it is dropped.
///
/// # Errors
/// When the system gives no thread or no event queue.
pub fn serve(server: Server, sources: Sources) -> io::Result<Running> {
    let serving = Serving {
        sources,
        in_flight: InFlight::default(),
    };
    server.serve_routes(router(serving), PATHS.map(|(path, _)| path))
}

fn router(serving: Serving) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/metrics", get(metrics_page))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/api/v1/sessions", get(sessions))
        .route("/api/v1/reflector", get(reflector))
        .route("/api/v1/mset", get(mset))
        .fallback(not_found)
        .with_state(serving)
}

impl Serving {
    fn answer(&self) -> Answer {
        self.in_flight.answer(
            self.sources
                .board
                .session_count()
                .div_ceil(SESSIONS_PER_SEGMENT),
        )
    }
}

fn paths() -> String {
    let lines = PATHS.map(|(path, what)| format!("  {path:20} {what}\n"));
    lines.concat()
}

async fn index() -> String {
    format!("vernier-probe {}\n\n{}", env!("CARGO_PKG_VERSION"), paths())
}

async fn not_found() -> (StatusCode, String) {
    (
        StatusCode::NOT_FOUND,
        format!("not found; the paths are:\n{}", paths()),
    )
}

async fn healthz() -> &'static str {
    "ok\n"
}

async fn readyz(State(serving): State<Serving>) -> (StatusCode, String) {
    let Sources {
        board,
        sessions,
        mset,
        ..
    } = &serving.sources;
    let faults = board.send_faults();
    if !faults.is_empty() {
        return (StatusCode::SERVICE_UNAVAILABLE, format!("{faults}\n"));
    }
    let with = sessions.iter().filter(|name| board.session(name).is_some());
    let without = sessions.len() - with.count();
    if without > 0 {
        let why = format!(
            "{without} of {} sessions have no result yet\n",
            sessions.len()
        );
        return (StatusCode::SERVICE_UNAVAILABLE, why);
    }
    let wanted = mset
        .as_ref()
        .map(View::read)
        .filter(|wanted| !wanted.is_known);
    if let Some(wanted) = wanted {
        let why = wanted
            .problem
            .unwrap_or_else(|| "it is being read".to_owned());
        let why = format!("mset: no topology is known yet: {why}\n");
        return (StatusCode::SERVICE_UNAVAILABLE, why);
    }
    (StatusCode::OK, "ok\n".to_owned())
}

async fn metrics_page(State(serving): State<Serving>) -> Answered {
    let own = process::own_metrics();
    let content_type = Format::Text.content_type();
    let Sources {
        board,
        reports,
        mset,
        ..
    } = &serving.sources;
    let ospf = mset.as_ref().map(View::ospf);
    let reports = reports.as_ref().map(|counters| counters.read());
    serving.answer().written(content_type, |out| {
        write_families(&own, out, |page| {
            metrics::families(page, board);
            if let Some(counts) = &ospf {
                metrics::ospf(page, counts);
            }
            prometheus::reports(page, reports.as_ref());
        })
    })
}

/// The answer of `/api/v1/sessions`.
#[derive(Serialize)]
struct Sessions<'s> {
    sessions: Vec<&'s Published>,
}

async fn sessions(
    State(serving): State<Serving>,
    Parameters(filter): Parameters<Filter>,
) -> Answered {
    let Some(name) = filter.name else {
        let all = serving.sources.board.sessions();
        let sessions = all.iter().map(AsRef::as_ref).collect();
        return serving.answer().json(&Sessions { sessions });
    };
    let Some(session) = serving.sources.board.session(&name) else {
        let error = format!("expected `name` of a session with a result, got {name:?}");
        return Err(Refusal::new(StatusCode::NOT_FOUND, error));
    };
    let sessions = vec![session.as_ref()];
    serving.answer().json(&Sessions { sessions })
}

async fn reflector(State(serving): State<Serving>, _: Parameters<Nothing>) -> Answered {
    let reflector = serving.sources.board.reflector();
    serving.answer().json(&ReflectorAnswer { reflector })
}

/// The answer of `/api/v1/mset`.
#[derive(Debug, Serialize, Deserialize)]
pub struct MsetAnswer {
    /// `None`: no m-set is followed.
    pub mset: Option<Wanted>,
}

async fn mset(State(serving): State<Serving>, _: Parameters<Nothing>) -> Answered {
    let mset = serving.sources.mset.as_ref().map(View::read);
    serving.answer().json(&MsetAnswer { mset })
}
