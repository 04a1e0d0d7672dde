//! Answers over HTTP: JSON, and Prometheus. The server with its limits and access is that of the switch ([`api::http`]).

use std::io;

use api::http::{Answer, InFlight, Parameters, Refusal, Running, Server};
use api::process;
use api::prometheus::{Format, write_families};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use serde::{Deserialize, Serialize};

use crate::metrics;
use crate::published::{Board, Published};
use crate::reflector::ReflectorCounts;

/// The paths, and what they answer.
const PATHS: [(&str, &str); 6] = [
    ("/", "this page"),
    ("/metrics", "everything, for Prometheus"),
    ("/healthz", "200 as long as the program works"),
    (
        "/readyz",
        "200 once every session has a result, else 503 and why",
    ),
    (
        "/api/v1/sessions",
        "sessions: the last interval and totals (JSON); ?name=",
    ),
    ("/api/v1/reflector", "the reflector's counts (JSON)"),
];

/// Sessions that take as many bytes of an answer as a segment of a switch.
const SESSIONS_PER_SEGMENT: usize = 16;

#[derive(Clone)]
struct Sources {
    board: Board,
    sessions: usize,
    in_flight: InFlight,
}

type Answered = Result<Response, Refusal>;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Filter {
    name: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// The answer of `/api/v1/reflector`.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReflectorAnswer {
    /// `None`: there is no reflector.
    pub reflector: Option<ReflectorCounts>,
}

/// Serves `board`, with so many sessions, on a thread of its own, until it is dropped.
///
/// # Errors
/// When the system gives no thread or no event queue.
pub fn serve(server: Server, board: Board, sessions: usize) -> io::Result<Running> {
    let sources = Sources {
        board,
        sessions,
        in_flight: InFlight::default(),
    };
    server.serve_routes(router(sources), PATHS.map(|(path, _)| path))
}

fn router(sources: Sources) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/metrics", get(metrics_page))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/api/v1/sessions", get(sessions))
        .route("/api/v1/reflector", get(reflector))
        .fallback(not_found)
        .with_state(sources)
}

impl Sources {
    fn answer(&self) -> Answer {
        self.in_flight
            .answer(self.sessions.div_ceil(SESSIONS_PER_SEGMENT))
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

async fn readyz(State(sources): State<Sources>) -> (StatusCode, String) {
    let (with, all) = (sources.board.session_count(), sources.sessions);
    if with == all {
        return (StatusCode::OK, "ok\n".to_owned());
    }
    let why = format!(
        "{} of {all} sessions have no result yet\n",
        all - with.min(all)
    );
    (StatusCode::SERVICE_UNAVAILABLE, why)
}

async fn metrics_page(State(sources): State<Sources>) -> Answered {
    let own = process::own_metrics();
    let content_type = Format::Text.content_type();
    sources.answer().written(content_type, |out| {
        write_families(&own, out, |page| metrics::families(page, &sources.board))
    })
}

/// The answer of `/api/v1/sessions`.
#[derive(Serialize)]
struct Sessions<'s> {
    sessions: Vec<&'s Published>,
}

async fn sessions(
    State(sources): State<Sources>,
    Parameters(filter): Parameters<Filter>,
) -> Answered {
    let Some(name) = filter.name else {
        let all = sources.board.sessions();
        let sessions = all.iter().map(AsRef::as_ref).collect();
        return sources.answer().json(&Sessions { sessions });
    };
    let Some(session) = sources.board.session(&name) else {
        let error = format!("expected `name` of a session with a result, got {name:?}");
        return Err(Refusal::new(StatusCode::NOT_FOUND, error));
    };
    let sessions = vec![session.as_ref()];
    sources.answer().json(&Sessions { sessions })
}

async fn reflector(State(sources): State<Sources>, _: Parameters<Nothing>) -> Answered {
    let reflector = sources.board.reflector();
    sources.answer().json(&ReflectorAnswer { reflector })
}
