//! Pages of programs that run beside this one.

use std::net::SocketAddr;

use anyhow::{Context, Result};

/// The most that is read of a page.
const BYTES_MAX: u64 = 1 << 30;

/// The text at a path.
pub fn get(address: SocketAddr, path: &str) -> Result<String> {
    let url = format!("http://{address}{path}");
    let mut answer = ureq::get(&url).call()?;
    let body = answer.body_mut().with_config().limit(BYTES_MAX);
    body.read_to_string()
        .with_context(|| format!("cannot read {url}"))
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
