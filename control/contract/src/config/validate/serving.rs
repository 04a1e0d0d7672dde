//! How answers are served.

use super::classes::flow_rules;
use super::{Check, KeyPath, count_within, ensure, name, within};
use crate::config::{Http, Prometheus};

/// Most patterns of metric names, of either kind.
const PATTERNS_MAX: usize = 64;

/// Most names by which clients may ask.
const HOSTS_MAX: usize = 64;

pub(super) fn http(path: &KeyPath, http: &Http) -> Check {
    let hosts = path.key("hosts");
    count_within(hosts.clone(), http.hosts.len(), 0..=HOSTS_MAX, "names")?;
    for (index, host) in http.hosts.iter().enumerate() {
        name(hosts.index(index), host)?;
    }
    let Some(address) = http.listen else {
        return Ok(());
    };
    let is_guarded = address.ip().is_loopback() || http.token_file.is_some() || http.insecure;
    ensure(
        is_guarded,
        path.key("listen"),
        "a loopback address, or `token_file` with what clients have to show, or `insecure` for \
         anyone who can reach it",
        address,
    )
}

pub(super) fn prometheus(path: &KeyPath, prometheus: &Prometheus) -> Check {
    within(path.key("top_flows"), prometheus.top_flows, 0..=1_000)?;
    within(path.key("top_hold_s"), prometheus.top_hold_s, 1..=86_400)?;
    flow_rules(&path.key("pinned"), &prometheus.pinned)?;
    patterns(&path.key("include"), &prometheus.include)?;
    patterns(&path.key("exclude"), &prometheus.exclude)
}

fn patterns(path: &KeyPath, patterns: &[String]) -> Check {
    count_within(path.clone(), patterns.len(), 0..=PATTERNS_MAX, "patterns")?;
    for (index, pattern) in patterns.iter().enumerate() {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_:*".contains(c);
        ensure(
            !pattern.is_empty() && pattern.chars().all(is_plain),
            path.index(index),
            "a metric's name, with `*` for any characters",
            format!("{pattern:?}"),
        )?;
    }
    Ok(())
}
