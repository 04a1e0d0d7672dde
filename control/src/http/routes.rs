//! Every path of the server in one list: the router, the page of paths and the `OpenAPI` document are
//! made from it.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{MethodRouter, get, post};
use metrics_exporter_prometheus::PrometheusHandle;
use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::access::{self, Token};
use super::answers::{Classes, Epochs, FlowPage, Ports, Reloading, Segments, Status, Wires};
use super::query::{
    Asked, CourseFilter, FlowAsked, FlowsAsked, Nothing, PortFilter, SegmentFilter,
};
use super::refusal::Refusal;
use super::{connection, openapi};
use crate::config::Config;
use crate::export::{process, prometheus};
use crate::snapshot::{FlowAnswer, Published, Snapshot};

/// What a reload has to carry, so that no page in a browser can ask for one: browsers send headers
/// of their own to other sites only where these allow it.
const PROOF: (&str, &str) = ("x-vernier", "reload");

/// Most answers that take long at once: one list of flows, one flow.
pub(super) const LONG_MAX: usize = 2;

/// Makes a type's schema.
pub(super) type Schemer = fn(&mut SchemaGenerator) -> Schema;

/// One path.
pub(super) struct Route {
    pub(super) path: &'static str,
    /// In a few words.
    pub(super) what: &'static str,
    pub(super) answer: Answer,
    handler: MethodRouter<Sources>,
}

/// How a path answers.
pub(super) enum Answer {
    /// `GET`, with this content type.
    Text(&'static str),
    /// JSON.
    Json {
        is_post: bool,
        parameters: Schemer,
        schema: Schemer,
        /// Statuses besides 200 (or 202), 400 and 401, and why.
        refusals: &'static [(u16, &'static str)],
    },
}

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

fn text(path: &'static str, what: &'static str, handler: MethodRouter<Sources>) -> Route {
    Route {
        path,
        what,
        answer: Answer::Text(TEXT),
        handler,
    }
}

fn json<Parameters: JsonSchema, T: JsonSchema>(
    path: &'static str,
    what: &'static str,
    handler: MethodRouter<Sources>,
) -> Route {
    Route {
        path,
        what,
        answer: Answer::Json {
            is_post: false,
            parameters: Parameters::json_schema,
            schema: |schemas| schemas.subschema_for::<T>(),
            refusals: &[],
        },
        handler,
    }
}

impl Route {
    /// Whether it answers without a token, too.
    pub(super) fn is_open(&self) -> bool {
        access::is_open(self.path)
    }

    fn refusing(mut self, reasons: &'static [(u16, &'static str)]) -> Self {
        if let Answer::Json { refusals, .. } = &mut self.answer {
            *refusals = reasons;
        }
        self
    }

    fn by_post(mut self) -> Self {
        if let Answer::Json { is_post, .. } = &mut self.answer {
            *is_post = true;
        }
        self
    }
}

/// All paths.
pub(super) fn routes() -> Vec<Route> {
    vec![
        text("/", "this page", get(index)),
        Route {
            answer: Answer::Text(prometheus::CONTENT_TYPE),
            ..text("/metrics", "everything, for Prometheus", get(metrics_text))
        },
        text(
            "/healthz",
            "200 as long as the control core works, else 503 and why",
            get(healthz),
        ),
        text(
            "/readyz",
            "200 once ports are up and the first epoch closed, else 503 and why",
            get(readyz),
        ),
        json::<Nothing, Status>(
            "/api/v1/status",
            "the switch, its workers, memory and tables (JSON, like all below)",
            get(status),
        ),
        json::<PortFilter, Ports>("/api/v1/ports", "ports; ?name=", get(ports)),
        json::<SegmentFilter, Segments>(
            "/api/v1/segments",
            "measured segments, last epoch and totals; ?ingress= &egress= &class=",
            get(segments),
        ),
        json::<Nothing, Classes>(
            "/api/v1/classes",
            "classes over all ports and segments",
            get(classes),
        ),
        json::<Nothing, Wires>(
            "/api/v1/wires",
            "segments on the wire: both directions, sessions, control frames, the clock",
            get(wires),
        ),
        json::<CourseFilter, Epochs>(
            "/api/v1/epochs",
            "the last minute, ten minutes and hour of segments; as segments, and &width_s=",
            get(epochs),
        ),
        json::<FlowsAsked, FlowPage>(
            "/api/v1/flows",
            "flows; ?state= &sort= &ascending= &offset= &limit= &ingress= &egress= &class= &contains=",
            get(flows),
        ),
        json::<FlowAsked, FlowAnswer>(
            "/api/v1/flow",
            "one flow, tracked or not; ?flow=, or ?source= &destination= &protocol=",
            get(flow),
        )
        .refusing(&[(
            503,
            "Another flow is being looked for: ask again in a second.",
        )]),
        json::<Nothing, Config>(
            "/api/v1/config",
            "the configuration that holds",
            get(config),
        )
        .refusing(&[(503, "The switch is starting: none holds yet.")]),
        json::<Nothing, Snapshot>(
            "/api/v1/snapshot",
            "all of the published snapshot",
            get(snapshot),
        ),
        json::<Nothing, Reloading>(
            "/api/v1/reload",
            "POST: reads the configuration again, with the header X-Vernier: reload",
            post(reload),
        )
        .by_post()
        .refusing(&[
            (
                403,
                "The header `X-Vernier: reload` is missing, or there is neither a token nor an \
                 address in Host.",
            ),
            (409, "The switch has no configuration file."),
        ]),
        json::<Nothing, serde_json::Map<String, serde_json::Value>>(
            "/api/v1/openapi.json",
            "what all of these answer, as OpenAPI 3.1 has it",
            get(document),
        ),
    ]
}

/// What every answer is made from.
#[derive(Clone)]
pub(super) struct Sources {
    published: Arc<Published>,
    recorder: PrometheusHandle,
    reload: Option<Arc<AtomicBool>>,
    /// Whether clients have to show a token.
    is_guarded: bool,
    pages: Arc<Pages>,
    /// Long work, one at a time each: lists of flows wait for each other, single flows do not.
    lists: Arc<Semaphore>,
    pub(super) singles: Arc<Semaphore>,
}

/// What does not change.
struct Pages {
    paths: Vec<&'static str>,
    list: String,
    document: String,
}

impl Sources {
    /// Answers from `published`, and sets `reload` where somebody may ask for one.
    pub(super) fn new(
        published: Arc<Published>,
        recorder: PrometheusHandle,
        reload: Option<Arc<AtomicBool>>,
        is_guarded: bool,
    ) -> Self {
        let routes = routes();
        let line = |route: &Route| format!("  {:20} {}\n", route.path, route.what);
        let pages = Pages {
            paths: routes.iter().map(|route| route.path).collect(),
            list: routes.iter().map(line).collect(),
            document: openapi::document(&routes).to_string(),
        };
        Self {
            published,
            recorder,
            reload,
            is_guarded,
            pages: Arc::new(pages),
            lists: Arc::new(Semaphore::new(1)),
            singles: Arc::new(Semaphore::new(1)),
        }
    }
}

/// The router, with everything that is done to all requests.
pub(super) fn router(sources: Sources, token: Option<Token>) -> Router {
    let pages = Arc::clone(&sources.pages);
    let add = |router: Router<Sources>, route: Route| router.route(route.path, route.handler);
    routes()
        .into_iter()
        .fold(Router::new(), add)
        .fallback(not_found)
        .method_not_allowed_fallback(not_allowed)
        .layer(from_fn_with_state(token, access::guard))
        .layer(from_fn(connection::receive))
        .layer(from_fn_with_state(pages, count))
        .with_state(sources)
}

/// Counts a request and the time it took.
async fn count(State(pages): State<Arc<Pages>>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let known = pages
        .paths
        .iter()
        .find(|path| **path == request.uri().path());
    let path = known.map_or("other", |path| *path);
    let response = next.run(request).await;
    let status = response.status().as_u16().to_string();
    metrics::counter!(process::HTTP_REQUESTS, "path" => path, "status" => status).increment(1);
    metrics::histogram!(process::HTTP_REQUEST_SECONDS, "path" => path).record(began.elapsed());
    response
}

async fn not_found(State(sources): State<Sources>) -> impl IntoResponse {
    let list = &sources.pages.list;
    (
        StatusCode::NOT_FOUND,
        format!("not found; there is:\n{list}"),
    )
}

async fn not_allowed(method: Method, uri: Uri) -> Refusal {
    let path = uri.path();
    let error = format!("{method} is not for {path}; the header Allow says what is");
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, error)
}

async fn index(State(sources): State<Sources>) -> String {
    let snapshot = sources.published.read();
    let (switch, version) = (&snapshot.switch, &snapshot.version);
    let list = &sources.pages.list;
    format!("Vernier {version}, switch {switch}\n\n{list}")
}

async fn metrics_text(State(sources): State<Sources>) -> impl IntoResponse {
    let snapshot = sources.published.read();
    let page = prometheus::render(&snapshot) + &sources.recorder.render();
    let config = snapshot.config.as_ref();
    let filter = config.map(|config| prometheus::Filter::from(&config.prometheus));
    let text = filter.unwrap_or_default().apply(page);
    ([(header::CONTENT_TYPE, prometheus::CONTENT_TYPE)], text)
}

async fn healthz(State(sources): State<Sources>) -> impl IntoResponse {
    well(sources.published.standstill().as_slice(), "ok\n")
}

async fn readyz(State(sources): State<Sources>) -> impl IntoResponse {
    let mut reasons = sources.published.read().unready();
    reasons.extend(sources.published.standstill());
    well(&reasons, "ready\n")
}

/// Says that all is well, or why it is not.
fn well(reasons: &[String], well: &str) -> (StatusCode, String) {
    if reasons.is_empty() {
        (StatusCode::OK, well.to_owned())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, reasons.join("\n") + "\n")
    }
}

async fn status(State(sources): State<Sources>, _: Asked<Nothing>) -> Json<Status> {
    Json(Status::from(&*sources.published.read()))
}

async fn ports(State(sources): State<Sources>, asked: Asked<PortFilter>) -> Json<Ports> {
    let name = asked.0.name.as_deref();
    Json(Ports::of(&sources.published.read(), name))
}

async fn segments(State(sources): State<Sources>, asked: Asked<SegmentFilter>) -> Json<Segments> {
    Json(Segments::of(&sources.published.read(), &asked.0))
}

async fn classes(State(sources): State<Sources>, _: Asked<Nothing>) -> Json<Classes> {
    Json(Classes::from(&*sources.published.read()))
}

async fn wires(State(sources): State<Sources>, _: Asked<Nothing>) -> Json<Wires> {
    Json(Wires::from(&*sources.published.read()))
}

async fn epochs(State(sources): State<Sources>, asked: Asked<CourseFilter>) -> Json<Epochs> {
    let (segments, width) = (asked.0.segments(), asked.0.width_s);
    Json(Epochs::of(&sources.published.read(), &segments, width))
}

async fn flows(
    State(sources): State<Sources>,
    Asked(asked): Asked<FlowsAsked>,
) -> Result<Response, Refusal> {
    // There may be a million, to be searched by name.
    let turn = sources.lists.acquire_owned().await;
    let turn = turn.map_err(|error| Refusal::internal(&error))?;
    let snapshot = sources.published.read();
    let work = move || {
        let state = asked.state;
        let page = FlowPage::of(&snapshot, state, &asked.into_query());
        let answer = serialize(&page);
        drop(turn);
        answer
    };
    let done = spawn_blocking(work).await;
    done.map_err(|error| Refusal::internal(&error))?
}

async fn flow(
    State(sources): State<Sources>,
    Asked(asked): Asked<FlowAsked>,
) -> Result<Response, Refusal> {
    let key = asked.key()?;
    let Ok(turn) = sources.singles.try_acquire_owned() else {
        let error = "another flow is being looked for; ask again in a second";
        return Err(
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error).with(header::RETRY_AFTER, "1")
        );
    };
    let snapshot = sources.published.read();
    let work = move || {
        let answer = snapshot.answer(&key);
        // Held until the work is done, even where nobody waits for it any more.
        drop(turn);
        serialize(&answer)
    };
    let done = spawn_blocking(work).await;
    done.map_err(|error| Refusal::internal(&error))?
}

async fn config(State(sources): State<Sources>, _: Asked<Nothing>) -> Result<Response, Refusal> {
    let Some(config) = sources.published.read().config.clone() else {
        let error = "the switch is starting: no configuration holds yet; ask again in a second";
        return Err(
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error).with(header::RETRY_AFTER, "1")
        );
    };
    let mut config = Config::clone(&config);
    // Who knows the seed can aim packets at cells.
    config.measurement.hash_seed = None;
    serialize(&config)
}

async fn snapshot(State(sources): State<Sources>, _: Asked<Nothing>) -> Result<Response, Refusal> {
    serialize(&*sources.published.read())
}

async fn reload(
    State(sources): State<Sources>,
    headers: HeaderMap,
    _: Asked<Nothing>,
) -> Result<impl IntoResponse, Refusal> {
    let (name, value) = PROOF;
    if headers.get(name).is_none_or(|given| given != value) {
        let error = "expected the header `X-Vernier: reload`, which shows that no web page asks";
        return Err(Refusal::new(StatusCode::FORBIDDEN, error));
    }
    if !sources.is_guarded && !is_by_address(&headers) {
        let error = "expected the switch's address in the header Host, not a name, which could be \
                     that of a web page; or configure http.token_file";
        return Err(Refusal::new(StatusCode::FORBIDDEN, error));
    }
    let Some(wanted) = sources.reload else {
        let error = "the configuration was built in and has no file to be read again; start with \
                     --config FILE";
        return Err(Refusal::new(StatusCode::CONFLICT, error));
    };
    let last = sources.published.read().reload.clone();
    let after = last.map_or(0, |reload| reload.number);
    wanted.store(true, Ordering::Relaxed);
    Ok((StatusCode::ACCEPTED, Json(Reloading { after })))
}

/// Whether a request was sent to an address: a web page can let its own name point to the switch, and
/// then send what headers it likes.
fn is_by_address(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST) else {
        return true;
    };
    let host: Option<Authority> = host.to_str().ok().and_then(|host| host.parse().ok());
    host.is_some_and(|host| {
        let host = host.host().trim_matches(['[', ']']);
        host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok()
    })
}

async fn document(State(sources): State<Sources>, _: Asked<Nothing>) -> impl IntoResponse {
    let document = sources.pages.document.clone();
    ([(header::CONTENT_TYPE, JSON)], document)
}

/// What is large, or shared, is written from where it is.
fn serialize(value: &impl Serialize) -> Result<Response, Refusal> {
    let json = serde_json::to_string(value).map_err(|error| Refusal::internal(&error))?;
    Ok(([(header::CONTENT_TYPE, JSON)], json).into_response())
}
