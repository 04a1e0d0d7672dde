//! How answers are served.

use super::classes::flow_rules;
use super::{Check, KeyPath, all, ensure, name};
use crate::config::{Http, Prometheus};

/// How answers are served: an address that others reach needs a token, or consent.
///
/// # Errors
/// [`super::Invalid`] where it does not hold.
pub fn http(path: &KeyPath, http: &Http) -> Check {
    let (path, hosts) = (path.key("listen"), path.key("hosts"));
    let each = http.hosts.iter().enumerate();
    let hosts = all(each.map(|(index, host)| name(hosts.index(index), host)));
    let Some(address) = http.listen else {
        return hosts;
    };
    let is_guarded = address.ip().is_loopback() || http.token_file.is_some() || http.insecure;
    let guarded = ensure(
        is_guarded,
        path,
        "a loopback address, or `token_file` with what clients have to show, or `insecure` for \
         anyone who can reach it",
        address,
    );
    all([hosts, guarded])
}

pub(super) fn prometheus(path: &KeyPath, prometheus: &Prometheus) -> Check {
    let buckets = prometheus.buckets_per_octave;
    all([
        flow_rules(&path.key("pinned"), &prometheus.pinned),
        ensure(
            matches!(buckets, 1 | 2 | 4 | 8),
            path.key("buckets_per_octave"),
            "1, 2, 4 or 8",
            buckets,
        ),
        patterns(&path.key("include"), &prometheus.include),
        patterns(&path.key("exclude"), &prometheus.exclude),
    ])
}

fn patterns(path: &KeyPath, patterns: &[String]) -> Check {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_:*".contains(c);
    all(patterns.iter().enumerate().map(|(index, pattern)| {
        ensure(
            !pattern.is_empty() && pattern.chars().all(is_plain),
            path.index(index),
            "a metric's name, with `*` for any characters",
            format!("{pattern:?}"),
        )
    }))
}
