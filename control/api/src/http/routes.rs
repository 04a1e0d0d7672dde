//! Every path of the server in one list, from which the router, the index page and the `OpenAPI` document
//! are made.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{FromRequestParts, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{MethodRouter, get, post};
use contract::config::{Config, Prometheus};
use control::published::Published;
use metrics_exporter_prometheus::PrometheusHandle;
use mime::Mime;
use records::answers::{
    Classes, CourseQuery, Distributions, Epochs, FlowPage, FlowQuery, Ports, Reloading,
    SegmentFilter, Segments, StatusAnswer, Wires,
};
use records::snapshot::{FlowAnswer, FlowName, Snapshot};
use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;

use super::access::{self, Access};
use super::answer::{Answer, InFlight, Refusal, accepted};
use super::{connection, openapi, ui};
use crate::process;
use crate::prometheus::{self, Format};

/// The header that a reload requires, so that no web page can request one: browsers send such headers only
/// to sites that allow it.
const PROOF: (&str, &str) = ("x-vernier", "reload");

/// Most long answers at once: one list of flows and one flow.
pub(super) const LONG_MAX: usize = 2;

/// Generates a type's schema.
pub(super) type Schemer = fn(&mut SchemaGenerator) -> Schema;

/// One path.
pub(super) struct Route {
    pub(super) path: &'static str,
    /// Summary of the answer.
    pub(super) what: &'static str,
    pub(super) method: &'static str,
    pub(super) form: Form,
    /// Statuses other than 200 (or 202), 400 and 401, with their reasons.
    pub(super) refusals: &'static [(u16, &'static str)],
    handler: MethodRouter<Sources>,
}

/// The form of an answer.
pub(super) enum Form {
    /// Text, of one of these content types.
    Text(&'static [&'static str]),
    /// JSON of a type; the fields of another type are the parameters.
    Json {
        parameters: Schemer,
        schema: Schemer,
    },
}

const TEXT: [&str; 1] = ["text/plain; charset=utf-8"];

/// Content type of the page for browsers.
const PAGE: [&str; 1] = [ui::HTML];

/// Content types of the metrics.
const METRICS: [&str; 3] = [
    Format::Text.content_type(),
    Format::OpenMetrics.content_type(),
    Format::Protobuf.content_type(),
];

fn text(path: &'static str, what: &'static str, handler: MethodRouter<Sources>) -> Route {
    Route {
        path,
        what,
        method: "get",
        form: Form::Text(&TEXT),
        refusals: &[],
        handler,
    }
}

fn json<Parameters: JsonSchema, T: JsonSchema>(
    path: &'static str,
    what: &'static str,
    handler: MethodRouter<Sources>,
) -> Route {
    Route {
        form: Form::Json {
            parameters: Parameters::json_schema,
            schema: |schemas| schemas.subschema_for::<T>(),
        },
        ..text(path, what, handler)
    }
}

/// A path whose answer depends on the current snapshot alone.
fn made<P: JsonSchema + DeserializeOwned + Send + 'static, T: JsonSchema>(
    path: &'static str,
    what: &'static str,
    make: fn(&Sources, &Snapshot, P) -> Answered,
) -> Route {
    let answer = async move |State(sources): State<Sources>, Parameters(asked): Parameters<P>| {
        make(&sources, &sources.published.read(), asked)
    };
    json::<P, T>(path, what, get(answer))
}

impl Route {
    /// Whether it answers without a token.
    pub(super) fn is_open(&self) -> bool {
        access::is_open(self.path)
    }

    fn refusing(self, refusals: &'static [(u16, &'static str)]) -> Self {
        Self { refusals, ..self }
    }
}

/// All paths.
pub(super) fn routes() -> Vec<Route> {
    let mut routes = texts();
    routes.extend(answers());
    routes
}

fn texts() -> Vec<Route> {
    vec![
        text("/", "this page; browsers are redirected to /ui", get(index)),
        Route {
            form: Form::Text(&PAGE),
            ..text(ui::PATH, "the page for browsers", ui::index(ui::Of::Switch))
        },
        Route {
            form: Form::Text(&METRICS),
            ..text("/metrics", "all metrics, for Prometheus", get(metrics_page))
        },
        text(
            "/healthz",
            "200 while the control core works, else 503 and the reason",
            get(healthz),
        ),
        text(
            "/readyz",
            "200 once ports are up and the first epoch has closed, else 503 and the reasons",
            get(readyz),
        )
        .refusing(&[(503, "The switch is not ready; one line for each reason.")]),
    ]
}

fn answers() -> Vec<Route> {
    vec![
        made::<Nothing, StatusAnswer>(
            "/api/v1/status",
            "the switch, its workers, memory and tables (JSON, like all below)",
            |sources, snapshot, _| sources.json(&StatusAnswer::from(snapshot)),
        ),
        made::<PortFilter, Ports>(
            "/api/v1/ports",
            "ports; ?name=",
            |sources, snapshot, asked| sources.json(&Ports::of(snapshot, asked.name.as_deref())),
        ),
        made::<SegmentFilter, Segments>(
            "/api/v1/segments",
            "measured segments, last epoch and totals; ?ingress= &egress= &class=",
            |sources, snapshot, asked| sources.json(&Segments::of(snapshot, &asked)),
        ),
        made::<Nothing, Classes>(
            "/api/v1/classes",
            "classes over all ports and segments",
            |sources, snapshot, _| sources.json(&Classes::from(snapshot)),
        ),
        made::<Nothing, Wires>(
            "/api/v1/wires",
            "segments on the wire: both directions, sessions, control frames, the clock",
            |sources, snapshot, _| sources.json(&Wires::from(snapshot)),
        ),
        made::<CourseQuery, Epochs>(
            "/api/v1/epochs",
            "the last minute, ten minutes and hour of segments; parameters as for segments, and &width_s= &offset= &limit=",
            |sources, snapshot, asked| sources.json(&Epochs::of(snapshot, &asked)),
        ),
        made::<SegmentFilter, Distributions>(
            "/api/v1/distributions",
            "distribution of segments' delays in the last minute, by 5 s; parameters as for segments",
            |sources, snapshot, asked| sources.json(&Distributions::of(snapshot, &asked)),
        ),
        json::<FlowQuery, FlowPage>(
            "/api/v1/flows",
            "flows; ?scope= &state= &sort= &ascending= &offset= &limit= &ingress= &egress= &class= &contains= &prefix= &port=",
            get(flows),
        ),
        json::<FlowFilter, FlowAnswer>(
            "/api/v1/flow",
            "one flow, tracked or not; ?flow=, or ?source= &destination= &protocol=",
            get(flow),
        )
        .refusing(&[(
            503,
            "A search for another flow is in progress; retry in a second.",
        )]),
        json::<Nothing, Config>("/api/v1/config", "the configuration in use", get(config))
            .refusing(&[(
                503,
                "The switch is starting: no configuration is in use yet.",
            )]),
        made::<Nothing, Snapshot>(
            "/api/v1/snapshot",
            "the whole published snapshot",
            |sources, snapshot, _| sources.json(snapshot),
        ),
        reload_route(),
        json::<Nothing, serde_json::Map<String, serde_json::Value>>(
            "/api/v1/openapi.json",
            "all of these paths and their answers, in OpenAPI 3.1",
            get(document),
        ),
    ]
}

fn reload_route() -> Route {
    Route {
        method: "post",
        refusals: &[
            (
                403,
                "The header `X-Vernier: reload` is missing, or Host is neither an address, \
                 `localhost` nor a name in http.hosts.",
            ),
            (409, "The switch has no configuration file."),
        ],
        ..json::<Nothing, Reloading>(
            "/api/v1/reload",
            "POST: reloads the configuration; needs the header X-Vernier: reload",
            post(reload),
        )
    }
}

/// The sources of every answer.
#[derive(Clone)]
pub(super) struct Sources {
    published: Arc<Published>,
    recorder: PrometheusHandle,
    reload: Option<Arc<AtomicBool>>,
    pages: Arc<Pages>,
    in_flight: InFlight,
    /// Long work, one at a time: lists of flows queue, requests for single flows are refused.
    lists: Arc<Semaphore>,
    pub(super) singles: Arc<Semaphore>,
}

type Answered = Result<Response, Refusal>;

/// Constant texts.
struct Pages {
    paths: Arc<[&'static str]>,
    list: String,
    document: Bytes,
}

impl Sources {
    /// Answers from `published`. A reload request sets `reload`, and is refused without it.
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

    /// An empty answer, whose size is limited by the bytes that are free.
    fn answer(&self) -> Answer {
        self.in_flight.answer(self.published.read().segments.len())
    }

    fn json(&self, value: &impl Serialize) -> Answered {
        self.answer().json(value)
    }
}

/// The router, with the layers that apply to all requests.
pub(super) fn router(sources: Sources, access: Access) -> Router {
    let paths = Arc::clone(&sources.pages.paths);
    let add = |router: Router<Sources>, route: Route| router.route(route.path, route.handler);
    let router = routes()
        .into_iter()
        .fold(ui::with_files(Router::new()), add)
        .fallback(not_found)
        .with_state(sources);
    layered(router, access, paths)
}

/// Adds the layers that apply to all requests; `paths` are those of the routes.
pub(super) fn layered(router: Router, access: Access, paths: Arc<[&'static str]>) -> Router {
    router
        .method_not_allowed_fallback(not_allowed)
        .layer(from_fn_with_state(access, access::guard))
        .layer(from_fn(connection::receive))
        .layer(CompressionLayer::new().quality(CompressionLevel::Fastest))
        .layer(from_fn_with_state(paths, count))
}

/// Counts a request and the time it took.
async fn count(State(paths): State<Arc<[&'static str]>>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let known = paths.iter().find(|path| **path == request.uri().path());
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
        format!("not found; the paths are:\n{list}"),
    )
}

async fn not_allowed(method: Method, uri: Uri) -> Refusal {
    let path = uri.path();
    let error = format!("{path} does not allow {method}; see the header Allow");
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, error)
}

async fn index(State(sources): State<Sources>, headers: HeaderMap) -> Response {
    let snapshot = sources.published.read();
    let (switch, version) = (&snapshot.switch, &snapshot.version);
    let list = &sources.pages.list;
    ui::home(
        &headers,
        format!("Vernier {version}, switch {switch}\n\n{list}"),
    )
}

async fn metrics_page(State(sources): State<Sources>, headers: HeaderMap) -> Answered {
    let snapshot = sources.published.read();
    let defaults = Prometheus::default();
    let config = snapshot.config.as_ref();
    let settings = config.map_or(&defaults, |config| &config.prometheus);
    let format = accepted_format(&headers);
    let own = process::render(&sources.recorder);
    let answer = sources.answer().written(format.content_type(), |answer| {
        prometheus::write(&snapshot, &own, settings, format, answer)
    })?;
    Ok(([(header::VARY, "accept")], answer).into_response())
}

async fn healthz(State(sources): State<Sources>) -> impl IntoResponse {
    ok_unless(sources.published.standstill().as_slice(), "ok\n")
}

async fn readyz(State(sources): State<Sources>) -> impl IntoResponse {
    ok_unless(&sources.published.unready(), "ready\n")
}

/// 200 with `ok`, or 503 with the reasons.
pub fn ok_unless(reasons: &[String], ok: &str) -> (StatusCode, String) {
    if reasons.is_empty() {
        (StatusCode::OK, ok.to_owned())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, reasons.join("\n") + "\n")
    }
}

async fn flows(
    State(sources): State<Sources>,
    Parameters(asked): Parameters<FlowQuery>,
) -> Answered {
    // There may be a million flows to search by name.
    let permit = Arc::clone(&sources.lists).acquire_owned().await;
    let permit = permit.map_err(|error| Refusal::internal(&error))?;
    beside(move || {
        let page = sources.published.flows(&asked);
        let answer = sources.json(&page);
        drop(permit);
        answer
    })
    .await
}

/// Runs long work on a separate thread.
async fn beside(work: impl FnOnce() -> Answered + Send + 'static) -> Answered {
    let done = spawn_blocking(work).await;
    done.map_err(|error| Refusal::internal(&error))?
}

async fn flow(
    State(sources): State<Sources>,
    Parameters(asked): Parameters<FlowFilter>,
) -> Answered {
    let name = asked.name()?;
    let Ok(permit) = Arc::clone(&sources.singles).try_acquire_owned() else {
        let error = "a search for another flow is in progress; retry in a second";
        return Err(Refusal::busy(error));
    };
    beside(move || {
        let answer = sources.published.flow(name);
        // Held until the work is done, even if the client disconnects.
        drop(permit);
        sources.json(&answer)
    })
    .await
}

async fn config(State(sources): State<Sources>, _: Parameters<Nothing>) -> Answered {
    let Some(config) = sources.published.read().config.clone() else {
        let error = "the switch is starting: no configuration is in use yet; retry in a second";
        return Err(Refusal::busy(error));
    };
    let mut config = Config::clone(&config);
    // With the seed, an attacker could aim packets at cells.
    config.measurement.hash_seed = None;
    sources.json(&config)
}

async fn reload(
    State(sources): State<Sources>,
    headers: HeaderMap,
    _: Parameters<Nothing>,
) -> Result<impl IntoResponse, Refusal> {
    let (name, value) = PROOF;
    if headers.get(name).is_none_or(|given| given != value) {
        let error = "expected the header `X-Vernier: reload`, which a web page cannot send";
        return Err(Refusal::new(StatusCode::FORBIDDEN, error));
    }
    let Some(wanted) = sources.reload else {
        let error = "the configuration is built in, and has no file to read again; start with \
                     --config FILE";
        return Err(Refusal::new(StatusCode::CONFLICT, error));
    };
    let last = sources.published.read().reload.clone();
    let after = last.map_or(0, |reload| reload.number);
    wanted.store(true, Ordering::Relaxed);
    Ok((StatusCode::ACCEPTED, Json(Reloading { after })))
}

async fn document(State(sources): State<Sources>, _: Parameters<Nothing>) -> impl IntoResponse {
    let document = sources.pages.document.clone();
    ([(header::CONTENT_TYPE, "application/json")], document)
}

/// The parameters of a request.
#[derive(Debug)]
pub struct Parameters<T>(pub T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Parameters<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let Query(parameters) = Query::try_from_uri(&parts.uri).map_err(|error| {
            // The cause names the parameter; the outer error adds nothing.
            let words = error
                .source()
                .map_or_else(|| error.body_text(), ToString::to_string);
            Refusal::bad_request(words)
        })?;
        Ok(Self(parameters))
    }
}

/// No parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// Which ports to list.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct PortFilter {
    /// Only the port of this name.
    pub(super) name: Option<String>,
}

/// Which flow: either `flow`, or the other three.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct FlowFilter {
    /// The flow as displayed, `10.0.0.1:1024>10.0.0.2:80/tcp`, or its hash from the list of a wire. In a URL, write
    /// `%3E` for `>` and `%23` for `#`.
    flow: Option<String>,
    /// Its source, `10.0.0.1:1024`, `[fd00::1]:1024`, or an address alone for a flow without ports.
    source: Option<String>,
    /// Its destination, likewise.
    destination: Option<String>,
    /// Its protocol: `tcp`, `udp`, `sctp`, `icmp`, `icmpv6` or a number; for flows of MAC addresses
    /// `0x0806` or `0x0806/vlan7`.
    protocol: Option<String>,
}

impl FlowFilter {
    pub(super) fn name(&self) -> Result<FlowName, Refusal> {
        let refuse = |name: &str, error| Refusal::bad_request(format!("{name}: {error}"));
        match self {
            Self {
                flow: Some(flow),
                source: None,
                destination: None,
                protocol: None,
            } => flow.parse().map_err(|error| refuse("flow", error)),
            Self {
                flow: None,
                source: Some(source),
                destination: Some(destination),
                protocol: Some(protocol),
            } => format!("{source}>{destination}/{protocol}")
                .parse()
                .map_err(|error| refuse("source, destination, protocol", error)),
            _ => Err(Refusal::bad_request(
                "expected `flow` alone, or `source`, `destination` and `protocol`",
            )),
        }
    }
}

/// Protobuf or OpenMetrics if the client names it and prefers nothing else, otherwise text, even if none is
/// acceptable.
pub(super) fn accepted_format(headers: &HeaderMap) -> Format {
    let ranges: Vec<Mime> = accepted(headers).collect();
    let text = TEXTS
        .iter()
        .find_map(|text| quality(&ranges, |range| range.essence_str() == *text));
    let named = [
        (Format::Protobuf, quality(&ranges, is_protobuf)),
        (Format::OpenMetrics, quality(&ranges, is_open_metrics)),
    ];
    let mut best = (Format::Text, text.unwrap_or_default());
    for (format, weight) in named.into_iter().rev() {
        let weight = weight.unwrap_or_default();
        if weight > 0.0 && weight >= best.1 {
            best = (format, weight);
        }
    }
    best.0
}

/// Ranges that include text; the narrowest counts.
const TEXTS: [&str; 3] = ["text/plain", "text/*", "*/*"];

/// Greatest weight of a matching range; `None` without one.
fn quality(ranges: &[Mime], fits: impl Fn(&Mime) -> bool) -> Option<f64> {
    let fitting = ranges.iter().filter(|range| fits(range));
    let weights = fitting.map(|range| {
        let weight = range.get_param("q");
        // An unreadable weight is ignored.
        weight.map_or(1.0, |weight| weight.as_str().parse().unwrap_or(0.0))
    });
    weights.max_by(f64::total_cmp)
}

/// Whether a range is our protobuf: delimited messages of this type.
fn is_protobuf(range: &Mime) -> bool {
    let is = |name, value| range.get_param(name).is_none_or(|given| given == value);
    range.essence_str() == "application/vnd.google.protobuf"
        && is("proto", "io.prometheus.client.MetricFamily")
        && is("encoding", "delimited")
}

fn is_open_metrics(range: &Mime) -> bool {
    let version = range.get_param("version");
    range.essence_str() == "application/openmetrics-text"
        && version.is_none_or(|version| version == "1.0.0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use Format::{OpenMetrics, Protobuf, Text};

    /// As Prometheus 2.42 sends it with `--enable-feature=native-histograms`.
    const NATIVE: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,\
         application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,\
         text/plain;version=0.0.4;q=0.5,*/*;q=0.1";

    #[test]
    fn weights_decide() {
        let protobuf = "application/vnd.google.protobuf";
        let cases = [
            (NATIVE.to_owned(), Protobuf),
            (
                "Application/Vnd.Google.Protobuf; Q=0.5, text/plain; q=0.4".to_owned(),
                Protobuf,
            ),
            // Without the feature.
            (NATIVE.split_once(',').unwrap().1.to_owned(), OpenMetrics),
            (
                "application/openmetrics-text;version=0.0.1".to_owned(),
                Text,
            ),
            (
                "application/openmetrics-text;q=0.4,text/plain;q=0.5".to_owned(),
                Text,
            ),
            (
                format!("application/openmetrics-text, {protobuf}"),
                Protobuf,
            ),
            (String::new(), Text),
            ("*/*".to_owned(), Text),
            ("application/*".to_owned(), Text),
            ("application/json".to_owned(), Text),
            (protobuf.to_owned(), Protobuf),
            (format!("{protobuf}, text/plain"), Protobuf),
            (format!("{protobuf};q=0.4, text/plain;q=0.5"), Text),
            (format!("{protobuf};q=0.4, text/*;q=0.5"), Text),
            // The narrowest range of text counts, not the widest.
            (format!("{protobuf};q=0.4, text/plain;q=0.3, */*"), Protobuf),
            (format!("{protobuf};q=0"), Text),
            (format!("{protobuf};q=nonsense"), Text),
            (format!("{protobuf};proto=other.Message"), Text),
            (format!("{protobuf};encoding=text"), Text),
            (format!("{protobuf};q=NaN, text/plain"), Text),
            (",;,,=\"".to_owned(), Text),
        ];
        for (accept, expected) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            assert_eq!(accepted_format(&headers), expected, "{accept}");
        }
        assert_eq!(accepted_format(&HeaderMap::new()), Text);
        // Two header lines form one list.
        let mut headers = HeaderMap::new();
        headers.append(header::ACCEPT, "text/plain;q=0.1".parse().unwrap());
        headers.append(header::ACCEPT, protobuf.parse().unwrap());
        assert_eq!(accepted_format(&headers), Protobuf);
    }
}
