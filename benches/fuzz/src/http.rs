//! Requests to the HTTP server's router with any method, path, query and header.
//!
//! Oracle: every request gets a response with a documented status, never 500; JSON is complete and valid, and contains
//! the error of a refusal; no response is larger than the snapshot allows; only a `POST` with the right header requests
//! a reload.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use api::http;
use arbitrary::Arbitrary;
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Method, Request, header};
use contract::config::Config;
use control::published::Published;
use hyper_util::service::TowerToHyperService;
use records::snapshot::{FlowList, FlowRecord, Flows, Snapshot};

use crate::{read, web};

/// Larger than any response from the snapshot below.
const ANSWER_BYTES_MAX: usize = 4 << 20;

const METHODS: [Method; 6] = [
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::OPTIONS,
    Method::DELETE,
];

/// The server's paths, and some similar ones.
static PATHS: LazyLock<Vec<&str>> =
    LazyLock::new(|| http::paths().chain(["/api/v1/", "//"]).collect());

const PARAMETERS: [&str; 16] = [
    "name",
    "ingress",
    "egress",
    "class",
    "width_s",
    "state",
    "sort",
    "ascending",
    "offset",
    "limit",
    "contains",
    "flow",
    "source",
    "destination",
    "protocol",
    "source_port",
];

const VALUES: [&str; 16] = [
    "",
    "east",
    "west",
    "all",
    "ended",
    "active",
    "packets",
    "true",
    "0",
    "10000",
    "18446744073709551615",
    "-1",
    "10.0.0.1:1024%3E10.0.0.2:80/tcp",
    "2001:db8::1",
    "tcp",
    "10.0.0.1",
];

#[derive(Debug, Arbitrary)]
struct Input {
    method: u8,
    path: Word,
    query: Vec<(Word, Word)>,
    headers: Vec<(u8, Vec<u8>)>,
    body_bytes: u16,
}

/// A word from a list, or any other.
#[derive(Debug, Arbitrary)]
enum Word {
    Known(u8),
    Own(String),
}

impl Word {
    fn of<'w>(&'w self, list: &[&'w str]) -> &'w str {
        match self {
            Self::Known(index) => list[usize::from(*index) % list.len()],
            Self::Own(word) => word,
        }
    }
}

struct Server {
    router: TowerToHyperService<Router>,
    reload: Arc<AtomicBool>,
}

static SERVER: LazyLock<Mutex<Server>> = LazyLock::new(|| {
    let reload = Arc::<AtomicBool>::default();
    let published = Arc::new(Published::new(snapshot()));
    let router = http::router(published, Some(Arc::clone(&reload)));
    Mutex::new(Server {
        router: TowerToHyperService::new(router),
        reload,
    })
});

fn snapshot() -> Snapshot {
    let flows = (0..100).map(|n| FlowRecord::example(n, n.into()));
    let list = Arc::new(FlowList::example(flows.collect()));
    Snapshot {
        flows: Some(Flows {
            list: Arc::clone(&list),
            ended: list,
            ..Flows::default()
        }),
        config: Config::demo().ok().map(Arc::new),
        ..Snapshot::example()
    }
}

/// The bytes are a request.
pub fn http(bytes: &[u8]) {
    let Some(input) = read::<Input>(bytes) else {
        return;
    };
    let Some(request) = request(&input) else {
        return;
    };
    let method = request.method().clone();
    let is_proven = request.headers().contains_key("x-vernier");
    let server = SERVER.lock().unwrap();
    server.reload.store(false, Ordering::Relaxed);
    web::ask(&server.router, request, ANSWER_BYTES_MAX);
    let is_reloaded = server.reload.load(Ordering::Relaxed);
    assert!(!is_reloaded || method == Method::POST && is_proven);
}

fn request(input: &Input) -> Option<Request<Body>> {
    let query = input.query.iter();
    let query = query.map(|(name, value)| (name.of(&PARAMETERS), value.of(&VALUES)));
    let target = web::target(input.path.of(&PATHS), query);
    let mut request = Request::builder()
        .method(METHODS[usize::from(input.method) % METHODS.len()].clone())
        .uri(target)
        .body(Body::from(vec![b'x'; usize::from(input.body_bytes)]))
        .ok()?;
    let names = [
        header::HOST,
        header::AUTHORIZATION,
        header::ACCEPT,
        header::CONTENT_LENGTH,
        header::IF_NONE_MATCH,
        HeaderName::from_static("x-vernier"),
    ];
    for (name, value) in &input.headers {
        let name = names[usize::from(*name) % names.len()].clone();
        let value = match &value[..] {
            // Words that the router looks for.
            [0] => HeaderValue::from_static("reload"),
            [1] => HeaderValue::from_static("127.0.0.1:9464"),
            value => HeaderValue::from_bytes(value).ok()?,
        };
        request.headers_mut().append(name, value);
    }
    Some(request)
}
