//! The HTTP server: Prometheus text and JSON, read from the published snapshot.
//!
//! One thread, one current-thread runtime, away from the workers. At most [`CONNECTIONS_MAX`]
//! clients are served at once, and none can hold its place by being slow.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use metrics_exporter_prometheus::PrometheusHandle;
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::export::{process, prometheus};
use crate::snapshot::{Published, Segment, Snapshot};

/// Most clients at once; further ones wait to be accepted.
pub const CONNECTIONS_MAX: usize = 64;

/// A client that has not sent a whole request header in this time is cut off.
const HEADER_MAX: Duration = Duration::from_secs(10);

/// A connection is closed after this time, between two requests if it can be: whoever reads its
/// answer slowly gives the place back in the end.
const CONNECTION_MAX: Duration = Duration::from_mins(1);

/// How long a connection that is to be closed may still write its last answer.
const FAREWELL_MAX: Duration = Duration::from_secs(2);

/// How often samples of the process's own histograms are gathered.
const UPKEEP: Duration = Duration::from_secs(5);

const PATHS: [(&str, &str); 6] = [
    ("/", "this page"),
    ("/metrics", "everything, for Prometheus"),
    ("/healthz", "200 as long as the process answers"),
    (
        "/readyz",
        "200 once ports are up and the first epoch closed, else 503 and why",
    ),
    (
        "/api/v1/segments",
        "measured segments, last epoch and totals (JSON)",
    ),
    ("/api/v1/snapshot", "all of the published snapshot (JSON)"),
];

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve HTTP on {address}: {error}; {hint}")]
pub struct BindError {
    /// Where it was to listen.
    pub address: SocketAddr,
    /// What the system says.
    pub error: io::Error,
    /// What to do.
    pub hint: &'static str,
}

/// A server that listens, but does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

/// A server that answers, until it is stopped or dropped.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// Answer of `/api/v1/segments`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Segments {
    /// Number of the last epoch that closed.
    pub epoch: Option<u64>,
    /// Its end in seconds since 1970 (UTC).
    pub epoch_end_unix_s: Option<f64>,
    /// Length of an epoch in milliseconds.
    pub interval_ms: u32,
    /// The segments, in the order of the configuration.
    pub segments: Vec<Segment>,
}

impl From<&Snapshot> for Segments {
    fn from(snapshot: &Snapshot) -> Self {
        Self {
            epoch: snapshot.epoch,
            epoch_end_unix_s: snapshot.epoch_end_unix_s,
            interval_ms: snapshot.interval_ms,
            segments: snapshot.segments.clone(),
        }
    }
}

impl Server {
    /// Listens on `address`; port 0 takes any that is free.
    ///
    /// # Errors
    /// [`BindError`] when the address is taken, not ours, or not permitted.
    pub fn bind(address: SocketAddr) -> Result<Self, BindError> {
        let listen = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok(Self { listener, address })
        };
        listen().map_err(|error: io::Error| {
            let hint = match error.kind() {
                io::ErrorKind::AddrInUse => {
                    "stop what listens there (`ss -ltnp` shows it), or set http.listen to \
                     another port, or to null for no server"
                }
                io::ErrorKind::AddrNotAvailable => {
                    "set http.listen to an address of this machine, such as 127.0.0.1:9464"
                }
                io::ErrorKind::PermissionDenied => "set http.listen to a port over 1023",
                _ => "set http.listen to another address, or to null for no server",
            };
            BindError {
                address,
                error,
                hint,
            }
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers from `published` on a thread of its own.
    ///
    /// # Errors
    /// When the system gives no thread or no event queue.
    pub fn serve(self, published: Arc<Published>) -> io::Result<Running> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(self.listener)?
        };
        let recorder = process::recorder();
        let (stop, stopped) = watch::channel(false);
        let thread = std::thread::Builder::new()
            .name("vernier-http".to_owned())
            .spawn(move || {
                let router = router(published, recorder.clone());
                runtime.block_on(async {
                    tokio::select! {
                        () = accept(listener, router, stopped) => {}
                        () = upkeep(&recorder) => {}
                    }
                });
            })?;
        Ok(Running {
            address: self.address,
            stop,
            thread: Some(thread),
        })
    }
}

impl Running {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Finishes the answers under way and ends.
    pub fn stop(self) {}
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the HTTP server's thread panicked");
        }
    }
}

async fn upkeep(recorder: &PrometheusHandle) {
    loop {
        tokio::time::sleep(UPKEEP).await;
        recorder.run_upkeep();
    }
}

async fn accept(
    listener: tokio::net::TcpListener,
    router: Router,
    mut stopped: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            next = next => next,
            _ = stopped.wait_for(|&stopped| stopped) => break,
        };
        match accepted {
            Ok((stream, _)) => {
                let (router, stopped) = (router.clone(), stopped.clone());
                connections.spawn(async move {
                    converse(stream, router, stopped).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!("cannot accept an HTTP connection: {error}");
                // Out of descriptors, most likely: no use in trying at once.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
    while connections.join_next().await.is_some() {}
}

/// One connection, from its first byte to its last.
async fn converse(
    stream: tokio::net::TcpStream,
    router: Router,
    mut stopped: watch::Receiver<bool>,
) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = pin!(connection);
    tokio::select! {
        // A client that breaks off is its own business.
        _ = &mut connection => return,
        () = tokio::time::sleep(CONNECTION_MAX) => {}
        _ = stopped.wait_for(|&stopped| stopped) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(FAREWELL_MAX, connection).await;
}

/// What every answer is made from.
#[derive(Clone)]
struct Sources {
    published: Arc<Published>,
    recorder: PrometheusHandle,
}

fn router(published: Arc<Published>, recorder: PrometheusHandle) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/metrics", get(metrics_text))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/api/v1/segments", get(segments))
        .route("/api/v1/snapshot", get(snapshot))
        .fallback(async || {
            (
                StatusCode::NOT_FOUND,
                format!("not found; there is:\n{}", paths()),
            )
        })
        .layer(from_fn(count))
        .with_state(Sources {
            published,
            recorder,
        })
}

/// Counts a request and the time it took.
async fn count(request: Request, next: Next) -> Response {
    let began = Instant::now();
    let known = PATHS.iter().find(|(path, _)| *path == request.uri().path());
    let path = known.map_or("other", |(path, _)| path);
    let response = next.run(request).await;
    let status = response.status().as_u16().to_string();
    metrics::counter!(process::HTTP_REQUESTS, "path" => path, "status" => status).increment(1);
    metrics::histogram!(process::HTTP_REQUEST_SECONDS, "path" => path).record(began.elapsed());
    response
}

fn paths() -> String {
    let lines = PATHS.map(|(path, what)| {
        format!(
            "  {path:18} {what}
"
        )
    });
    lines.concat()
}

async fn index(State(sources): State<Sources>) -> String {
    let snapshot = sources.published.read();
    let (switch, version) = (&snapshot.switch, &snapshot.version);
    format!("Vernier {version}, switch {switch}\n\n{}", paths())
}

async fn metrics_text(State(sources): State<Sources>) -> impl IntoResponse {
    let snapshot = sources.published.read();
    let page = prometheus::render(&snapshot) + &sources.recorder.render();
    let config = snapshot.config.as_ref();
    let filter = config.map(|config| prometheus::Filter::from(&config.prometheus));
    let text = filter.unwrap_or_default().apply(page);
    ([(header::CONTENT_TYPE, prometheus::CONTENT_TYPE)], text)
}

async fn readyz(State(sources): State<Sources>) -> impl IntoResponse {
    let reasons = sources.published.read().unready();
    if reasons.is_empty() {
        (StatusCode::OK, "ready\n".to_owned())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, reasons.join("\n") + "\n")
    }
}

async fn segments(State(sources): State<Sources>) -> Json<Segments> {
    Json(Segments::from(&*sources.published.read()))
}

async fn snapshot(State(sources): State<Sources>) -> impl IntoResponse {
    // Serialized here: the snapshot itself is shared and stays so.
    match serde_json::to_string(&*sources.published.read()) {
        Ok(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    fn serve(snapshot: Snapshot) -> (Running, Arc<Published>) {
        let published = Arc::new(Published::new(snapshot));
        let server = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        (server.serve(Arc::clone(&published)).unwrap(), published)
    }

    /// Status, content type and body.
    fn fetch(server: &Running, path: &str) -> (u16, String, String) {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .build();
        let url = format!("http://{}{path}", server.address());
        let mut response = ureq::Agent::new_with_config(config)
            .get(url)
            .call()
            .unwrap();
        let content_type = response.headers()["content-type"]
            .to_str()
            .unwrap()
            .to_owned();
        let body = response.body_mut().read_to_string().unwrap();
        (response.status().as_u16(), content_type, body)
    }

    #[test]
    fn every_path_of_the_index_answers_with_its_content_type() {
        let (server, _) = serve(Snapshot::example());
        for (path, _) in PATHS {
            let (status, content_type, body) = fetch(&server, path);
            let expected = match path {
                "/metrics" => prometheus::CONTENT_TYPE,
                path if path.starts_with("/api") => "application/json",
                _ => "text/plain; charset=utf-8",
            };
            assert_eq!(
                (status, content_type.as_str()),
                (200, expected),
                "{path}: {body}"
            );
            assert!(fetch(&server, "/").2.contains(path));
        }
        let (status, _, body) = fetch(&server, "/metric");
        assert!(
            status == 404 && body.contains("/metrics"),
            "{status} {body}"
        );
    }

    #[test]
    fn json_is_the_published_snapshot() {
        let (server, published) = serve(Snapshot::default());
        published.publish(Snapshot::example());
        let whole = fetch(&server, "/api/v1/snapshot").2;
        assert_eq!(
            serde_json::from_str::<Snapshot>(&whole).unwrap(),
            Snapshot::example()
        );
        let segments = fetch(&server, "/api/v1/segments").2;
        let expected = Segments::from(&Snapshot::example());
        assert_eq!(
            serde_json::from_str::<Segments>(&segments).unwrap(),
            expected
        );
    }

    #[test]
    fn readiness_says_why_not() {
        let (server, published) = serve(Snapshot::default());
        let (status, _, body) = fetch(&server, "/readyz");
        assert_eq!((status, body.as_str()), (503, "the switch is starting\n"));
        assert_eq!(fetch(&server, "/healthz").0, 200);
        published.publish(Snapshot::example());
        assert_eq!(fetch(&server, "/readyz").0, 200);
    }

    #[test]
    fn the_process_s_own_metrics_are_on_the_page() {
        let (server, _) = serve(Snapshot::example());
        fetch(&server, "/healthz");
        let text = fetch(&server, "/metrics").2;
        let counted = r#"vernier_http_requests_total{path="/healthz",status="200"}"#;
        assert!(text.contains(counted), "{text}");
        assert!(
            text.contains("vernier_http_request_seconds_bucket"),
            "{text}"
        );
        if let Some(said) = prometheus::tests::promtool(&text) {
            assert_eq!(said, "exit status: 0", "{text}");
        }
    }

    #[test]
    fn a_taken_address_is_one_clear_message() {
        let (server, _) = serve(Snapshot::default());
        let error = Server::bind(server.address()).unwrap_err().to_string();
        let start = format!(
            "cannot serve HTTP on {}: Address already in use",
            server.address()
        );
        assert!(
            error.starts_with(&start) && error.contains("set http.listen"),
            "{error}"
        );
    }

    #[test]
    fn stopping_waits_for_nobody_and_frees_the_address() {
        let (server, _) = serve(Snapshot::example());
        let address = server.address();
        // One client that says nothing, and one that says half of something.
        let mute = TcpStream::connect(address).unwrap();
        let mut half = TcpStream::connect(address).unwrap();
        half.write_all(b"GET /metrics HT").unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let began = Instant::now();
        server.stop();
        assert!(began.elapsed() < FAREWELL_MAX * 2);
        drop((mute, half));
        Server::bind(address).unwrap();
    }

    #[test]
    fn a_crowd_of_idle_clients_is_bounded_and_the_server_outlives_it() {
        let (server, _) = serve(Snapshot::example());
        let crowd: Vec<_> = (0..CONNECTIONS_MAX)
            .map(|_| TcpStream::connect(server.address()).unwrap())
            .collect();
        std::thread::sleep(Duration::from_millis(100));
        // The next one is not answered as long as the crowd stays.
        let mut next = TcpStream::connect(server.address()).unwrap();
        next.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .unwrap();
        next.set_read_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        let mut answer = String::new();
        assert!(next.read_to_string(&mut answer).is_err());
        drop(crowd);
        next.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        next.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    }
}
