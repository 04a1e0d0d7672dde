//! Every path of the server in one list: the router, the page of paths and the `OpenAPI` document are
//! made from it.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
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

use super::access::{self, Access};
use super::in_flight::{Answer, InFlight};
use super::query::{Asked, CourseFilter, FlowAsked, FlowsAsked, Nothing, PortFilter};
use super::refusal::Refusal;
use super::{connection, openapi};
use crate::{process, prometheus};
use contract::config::Config;
use control::published::Published;
use records::answers::{
    Classes, Epochs, FlowPage, Ports, Reloading, SegmentFilter, Segments, Status, Wires,
};
use records::snapshot::{FlowAnswer, Snapshot};

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
    pub(super) form: Form,
    handler: MethodRouter<Sources>,
}

/// How a path answers.
pub(super) enum Form {
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

fn text(path: &'static str, what: &'static str, handler: MethodRouter<Sources>) -> Route {
    Route {
        path,
        what,
        form: Form::Text(TEXT),
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
        form: Form::Json {
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
        if let Form::Json { refusals, .. } = &mut self.form {
            *refusals = reasons;
        }
        self
    }

    fn by_post(mut self) -> Self {
        if let Form::Json { is_post, .. } = &mut self.form {
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
            form: Form::Text(prometheus::CONTENT_TYPE),
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
            "the last minute, ten minutes and hour of segments; as segments, and &width_s= &offset= &limit=",
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
                "The header `X-Vernier: reload` is missing, or Host is neither an address, \
                 `localhost` nor a name of http.hosts.",
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
    pages: Arc<Pages>,
    in_flight: InFlight,
    /// Long work, one at a time each: lists of flows wait for each other, single flows do not.
    lists: Arc<Semaphore>,
    pub(super) singles: Arc<Semaphore>,
}

/// An answer, or why there is none.
type Made = Result<Response, Refusal>;

/// What does not change.
struct Pages {
    paths: Vec<&'static str>,
    list: String,
    document: Bytes,
}

impl Sources {
    /// Answers from `published`, and sets `reload` where somebody may ask for one.
    pub(super) fn new(
        published: Arc<Published>,
        recorder: PrometheusHandle,
        reload: Option<Arc<AtomicBool>>,
    ) -> Self {
        let routes = routes();
        let line = |route: &Route| format!("  {:20} {}\n", route.path, route.what);
        let pages = Pages {
            paths: routes.iter().map(|route| route.path).collect(),
            list: routes.iter().map(line).collect(),
            document: openapi::document(&routes).to_string().into(),
        };
        Self {
            published,
            recorder,
            reload,
            pages: Arc::new(pages),
            in_flight: InFlight::default(),
            lists: Arc::new(Semaphore::new(1)),
            singles: Arc::new(Semaphore::new(1)),
        }
    }

    /// An empty answer, of as many bytes as are free.
    fn answer(&self) -> Answer {
        self.in_flight.answer(self.published.read().segments.len())
    }

    fn json(&self, value: &impl Serialize) -> Made {
        self.answer().json(value)
    }
}

/// The router, with everything that is done to all requests.
pub(super) fn router(sources: Sources, access: Access) -> Router {
    let pages = Arc::clone(&sources.pages);
    let add = |router: Router<Sources>, route: Route| router.route(route.path, route.handler);
    routes()
        .into_iter()
        .fold(Router::new(), add)
        .fallback(not_found)
        .method_not_allowed_fallback(not_allowed)
        .layer(from_fn_with_state(access, access::guard))
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

async fn metrics_text(State(sources): State<Sources>) -> Made {
    let snapshot = sources.published.read();
    let config = snapshot.config.as_ref();
    let filter = config.map(|config| prometheus::Filter::from(&config.prometheus));
    let filter = filter.unwrap_or_default();
    sources.answer().text(prometheus::CONTENT_TYPE, |answer| {
        let mut page = filter.before(answer);
        prometheus::write(&snapshot, &mut page)?;
        page.write_str(&sources.recorder.render())
    })
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

async fn status(State(sources): State<Sources>, _: Asked<Nothing>) -> Made {
    sources.json(&Status::from(&*sources.published.read()))
}

async fn ports(State(sources): State<Sources>, asked: Asked<PortFilter>) -> Made {
    let name = asked.0.name.as_deref();
    sources.json(&Ports::of(&sources.published.read(), name))
}

async fn segments(State(sources): State<Sources>, asked: Asked<SegmentFilter>) -> Made {
    sources.json(&Segments::of(&sources.published.read(), &asked.0))
}

async fn classes(State(sources): State<Sources>, _: Asked<Nothing>) -> Made {
    sources.json(&Classes::from(&*sources.published.read()))
}

async fn wires(State(sources): State<Sources>, _: Asked<Nothing>) -> Made {
    sources.json(&Wires::from(&*sources.published.read()))
}

async fn epochs(State(sources): State<Sources>, Asked(asked): Asked<CourseFilter>) -> Made {
    sources.json(&Epochs::of(&sources.published.read(), &asked.into_query()))
}

async fn flows(State(sources): State<Sources>, Asked(asked): Asked<FlowsAsked>) -> Made {
    // There may be a million, to be searched by name.
    let turn = Arc::clone(&sources.lists).acquire_owned().await;
    let turn = turn.map_err(|error| Refusal::internal(&error))?;
    let snapshot = sources.published.read();
    let work = move || {
        let state = asked.state;
        let page = FlowPage::of(&snapshot, state, &asked.into_query());
        let answer = sources.json(&page);
        drop(turn);
        answer
    };
    let done = spawn_blocking(work).await;
    done.map_err(|error| Refusal::internal(&error))?
}

async fn flow(State(sources): State<Sources>, Asked(asked): Asked<FlowAsked>) -> Made {
    let key = asked.key()?;
    let Ok(turn) = Arc::clone(&sources.singles).try_acquire_owned() else {
        let error = "another flow is being looked for; ask again in a second";
        return Err(
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error).with(header::RETRY_AFTER, "1")
        );
    };
    let work = move || {
        let answer = sources.published.flow(&key);
        // Held until the work is done, even where nobody waits for it any more.
        drop(turn);
        sources.json(&answer)
    };
    let done = spawn_blocking(work).await;
    done.map_err(|error| Refusal::internal(&error))?
}

async fn config(State(sources): State<Sources>, _: Asked<Nothing>) -> Made {
    let Some(config) = sources.published.read().config.clone() else {
        let error = "the switch is starting: no configuration holds yet; ask again in a second";
        return Err(
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error).with(header::RETRY_AFTER, "1")
        );
    };
    let mut config = Config::clone(&config);
    // Who knows the seed can aim packets at cells.
    config.measurement.hash_seed = None;
    sources.json(&config)
}

async fn snapshot(State(sources): State<Sources>, _: Asked<Nothing>) -> Made {
    sources.json(&*sources.published.read())
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

async fn document(State(sources): State<Sources>, _: Asked<Nothing>) -> impl IntoResponse {
    let document = sources.pages.document.clone();
    ([(header::CONTENT_TYPE, "application/json")], document)
}
