//! Reads programs' responses over HTTP.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Largest part of a response that is read.
const BYTES_MAX: u64 = 1 << 30;

/// Status and text of a response, including errors.
///
/// # Errors
/// If there is no response.
pub fn answer(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    let url = format!("http://{address}{path}");
    let request = ureq::get(&url).config().http_status_as_error(false).build();
    let mut answer = request.call()?;
    let body = answer.body_mut().with_config().limit(BYTES_MAX);
    let text = body.read_to_string();
    let text = text.with_context(|| format!("cannot read {url}"))?;
    Ok((answer.status().as_u16(), text))
}

/// The text at a path.
///
/// # Errors
/// Without an answer, or with an error.
pub fn get(address: SocketAddr, path: &str) -> Result<String> {
    let (status, text) = answer(address, path)?;
    ensure!(status == 200, "{path}: status {status}");
    Ok(text)
}

/// The text at a path; `None` without an answer, or with an error.
pub fn text(address: SocketAddr, path: &str) -> Option<String> {
    get(address, path).ok()
}

/// The JSON at a path; null if there is none.
pub fn json(address: SocketAddr, path: &str) -> Value {
    let text = text(address, path).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// The value of a metric without labels on the page for Prometheus.
pub fn metric(address: SocketAddr, name: &str) -> Option<f64> {
    let page = text(address, "/metrics")?;
    values(&page, name).next()
}

/// Values of a metric's family without suffixes.
pub fn values<'p>(page: &'p str, family: &'p str) -> impl Iterator<Item = f64> + 'p {
    let samples = page.lines().filter_map(move |line| {
        let rest = line.strip_prefix(family)?;
        let is_whole = rest.starts_with(['{', ' ']);
        is_whole.then(|| rest.rsplit(' ').next())?
    });
    samples.filter_map(|value| value.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_family_alone() {
        let page = "# TYPE a gauge\na{w=\"0\"} 1.5\na{w=\"1\"} 2\na_total 7\nab 8\na 0.5\n";
        assert_eq!(values(page, "a").collect::<Vec<_>>(), [1.5, 2.0, 0.5]);
    }
}
