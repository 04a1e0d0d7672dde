//! Generated requests to an HTTP router.

use std::sync::{LazyLock, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<Mutex<Runtime>> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(2)
        .build();
    Mutex::new(runtime.unwrap())
});

/// A target of a path and parameters.
pub(crate) fn target<'w>(path: &str, query: impl Iterator<Item = (&'w str, &'w str)>) -> String {
    let query = query.zip(std::iter::once('?').chain(std::iter::repeat('&')));
    let query = query.map(|((name, value), mark)| format!("{mark}{name}={value}"));
    std::iter::once(path.to_owned()).chain(query).collect()
}

/// Returns the response's JSON, or `Null`. Checks that its status is documented and not 500, that JSON is complete and
/// valid and contains the error of a refusal, and that the response is not too large.
pub(crate) fn ask(
    router: &TowerToHyperService<Router>,
    request: Request<Body>,
    bytes_max: usize,
) -> Value {
    let target = request.uri().to_string();
    let (head, body) = RUNTIME.lock().unwrap().block_on(async {
        let Ok(answer) = router.call(request).await;
        let (head, body) = answer.into_parts();
        (head, to_bytes(body, bytes_max).await)
    });
    let (status, body) = (head.status, body.expect(&target));
    let is_documented = matches!(status.as_u16(), 200 | 202 | 400..=499 | 503);
    assert!(is_documented, "{target}: {status}");
    let content = head.headers.get(header::CONTENT_TYPE);
    if content.is_none_or(|content| content != "application/json") || body.is_empty() {
        return Value::Null;
    }
    let json: Value = serde_json::from_slice(&body).expect(&target);
    let is_refused = !matches!(status, StatusCode::OK | StatusCode::ACCEPTED);
    assert!(!is_refused || json["error"].is_string(), "{target}: {json}");
    json
}
