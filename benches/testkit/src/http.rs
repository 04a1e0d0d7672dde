//! What programs answer over HTTP.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use serde_json::Value;

/// The most that is read of an answer.
const BYTES_MAX: u64 = 1 << 30;

/// Status and text of an answer, of an error too.
///
/// # Errors
/// When nobody answers.
pub fn answer(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    let url = format!("http://{address}{path}");
    let request = ureq::get(&url).config().http_status_as_error(false).build();
    let mut answer = request.call()?;
    let body = answer.body_mut().with_config().limit(BYTES_MAX);
    let text = body.read_to_string();
    let text = text.with_context(|| format!("cannot read {url}"))?;
    Ok((answer.status().as_u16(), text))
}

/// The text at a path; `None` without an answer, or with an error.
pub fn text(address: SocketAddr, path: &str) -> Option<String> {
    let (status, text) = answer(address, path).ok()?;
    (status == 200).then_some(text)
}

/// The JSON at a path; null where there is none.
pub fn json(address: SocketAddr, path: &str) -> Value {
    let text = text(address, path).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// The value of a metric without labels on the page for Prometheus.
pub fn metric(address: SocketAddr, name: &str) -> Option<f64> {
    let page = text(address, "/metrics")?;
    let mut lines = page.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value?.parse().ok()
}
