//! Ranges, and keys that depend on each other.

use std::collections::HashSet;
use std::net::IpAddr;

use contract::config::document::{
    self, Check, KeyPath, count_within, ensure, name, unique, within,
};

use super::{Address, Config, MsetConfig, ReflectorConfig, SESSIONS_MAX, SessionConfig};

/// Most packets that are under way or in open intervals, over all sessions: about 100 bytes each.
const PACKETS_MAX: f64 = 4e6;

/// The same of one session.
const SESSION_PACKETS_MAX: f64 = 1e5;

impl Config {
    /// Checks every range and reference; the first that does not hold is the error.
    ///
    /// # Errors
    /// [`Faults`](document::Faults)
    pub fn check(&self) -> Check {
        let root = KeyPath::default();
        within(root.key("interval_ms"), self.interval_ms, 100..=3_600_000)?;
        if let Some(error_ns) = self.clock.error_ns {
            let path = root.key("clock").key("error_ns");
            within(path, error_ns, 0..=1_000_000_000)?;
        }
        document::http(&root.key("http"), &self.http)?;
        if let Some(reflector) = &self.reflector {
            check_reflector(&root.key("reflector"), reflector)?;
        }
        let sessions = root.key("sessions");
        count_within(
            sessions.clone(),
            self.sessions.len(),
            0..=SESSIONS_MAX,
            "sessions",
        )?;
        let mut names = HashSet::new();
        let mut packets = 0.0;
        for (index, session) in self.sessions.iter().enumerate() {
            let path = sessions.index(index);
            name(path.key("name"), &session.name)?;
            unique(
                &mut names,
                session.name.as_str(),
                path.key("name"),
                "a name of its own",
            )?;
            packets += self.check_session(&path, session)?;
        }
        ensure(
            packets <= PACKETS_MAX,
            sessions,
            format!("{PACKETS_MAX} packets within an interval and a time-out, over all sessions"),
            packets.ceil(),
        )?;
        let template = self.mset.as_ref().map(MsetConfig::example);
        if let Some(mset) = &self.mset {
            let path = root.key("mset");
            mset.check(&path)?;
            self.check_session(&path.key("session"), &mset.example())?;
            let node = self.mset_node().unwrap_or_default();
            name(path.key("node"), &node)?;
        }
        if let Some(report) = &self.report {
            let sessions = self.sessions.iter().chain(&template);
            let timeouts = sessions.map(|session| session.timeout_ms);
            let longest_ms = timeouts.max().unwrap_or_default();
            report.check(&root.key("report"), self.interval_ms, longest_ms)?;
        }
        let has_sessions = !self.sessions.is_empty() || self.mset.is_some();
        let is_idle = self.reflector.is_none() && !has_sessions;
        ensure(
            !is_idle,
            root.key("sessions"),
            "a session, a reflector, or `mset`",
            "neither",
        )
    }

    /// Sessions of an m-set that there is room for, beside those that are configured.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of sessions, limited below"
    )]
    pub fn mset_room(&self) -> usize {
        let Some(mset) = &self.mset else { return 0 };
        let taken: f64 = self
            .sessions
            .iter()
            .map(|session| self.packets(session))
            .sum();
        let left = (PACKETS_MAX - taken).max(0.0) / self.packets(&mset.example()).max(1e-9);
        (left as usize).min(SESSIONS_MAX - self.sessions.len().min(SESSIONS_MAX))
    }

    /// Packets of a session within an interval and a time-out.
    fn packets(&self, session: &SessionConfig) -> f64 {
        let kept_ms = self.interval_ms + session.timeout_ms;
        kept_ms as f64 / 1e3 / session.gap().as_secs_f64().max(1e-9)
    }

    /// Checks a session; packets of it that are in memory.
    fn check_session(&self, path: &KeyPath, session: &SessionConfig) -> Check<f64> {
        if let Some(node) = &session.node {
            name(path.key("node"), node)?;
        }
        name(path.key("class"), &session.class)?;
        within(path.key("dscp"), session.dscp, 0..=63)?;
        within(path.key("timeout_ms"), session.timeout_ms, 10..=60_000)?;
        check_target(path.key("to"), session.to)?;
        let same = |from: &Address| from.ip.is_ipv4() == session.to.ip.is_ipv4();
        ensure(
            session.from.as_ref().is_none_or(same),
            path.key("from"),
            "an address of the same family as `to`",
            session.from.map_or_else(String::new, String::from),
        )?;
        let mut asked = HashSet::new();
        for (index, tlv) in session.tlvs.iter().enumerate() {
            unique(
                &mut asked,
                tlv,
                path.key("tlvs").index(index),
                "each TLV once",
            )?;
        }
        check_rate(path, session)?;
        let least = session.least_bytes();
        let bytes = session.bytes();
        ensure(
            bytes == least || (least + 4..=9_000).contains(&bytes),
            path.key("length"),
            format!("{least}, or {} to 9000", least + 4),
            bytes,
        )?;
        let kept_ms = self.interval_ms + session.timeout_ms;
        let packets = self.packets(session);
        ensure(
            packets <= SESSION_PACKETS_MAX,
            path.clone(),
            format!(
                "a rate of {SESSION_PACKETS_MAX} packets at most within an interval and a time-out ({kept_ms} ms)"
            ),
            packets.ceil(),
        )?;
        Ok(packets)
    }
}

/// Checks that an address can be one reflector's.
pub(super) fn check_target(path: KeyPath, to: Address) -> Check {
    let is_broadcast = matches!(to.ip, IpAddr::V4(ip) if ip.is_broadcast());
    let expected = if to.port == Some(0) || to.ip.is_unspecified() {
        "the reflector's address and port"
    } else if to.ip.is_multicast() || is_broadcast {
        "the address of one reflector: multicast and broadcast addresses are of many"
    } else if to.lacks_zone() {
        "a link-local address with its zone, such as [fe80::1%eth0]:862"
    } else {
        return Ok(());
    };
    ensure(false, path, expected, String::from(to))
}

fn check_rate(path: &KeyPath, session: &SessionConfig) -> Check {
    let SessionConfig {
        interval_ms,
        share,
        link_bps,
        ..
    } = session;
    if let Some(interval_ms) = *interval_ms {
        within(path.key("interval_ms"), interval_ms, 0.01..=3_600_000.0)?;
        let one = share.is_none() && link_bps.is_none();
        let expected = "either `interval_ms`, or `share` and `link_bps`";
        return ensure(one, path.clone(), expected, "both");
    }
    if let Some(share) = *share {
        let is_share = share > 0.0 && share <= 1.0;
        ensure(is_share, path.key("share"), "over 0 to 1", share)?;
    }
    if let Some(link_bps) = *link_bps {
        within(path.key("link_bps"), link_bps, 1_000..=1_000_000_000_000)?;
    }
    ensure(
        share.is_some() == link_bps.is_some(),
        path.clone(),
        "`share` and `link_bps` together",
        "one of them",
    )
}

fn check_reflector(path: &KeyPath, reflector: &ReflectorConfig) -> Check {
    count_within(
        path.key("listen"),
        reflector.listen.len(),
        1..=64,
        "addresses",
    )?;
    within(
        path.key("sessions_max"),
        reflector.sessions_max,
        0..=1_000_000,
    )?;
    within(path.key("idle_s"), reflector.idle_s, 1..=86_400)?;
    if let Some(limit_pps) = reflector.limit_pps {
        within(path.key("limit_pps"), limit_pps, 1..=10_000_000)?;
    }
    for (index, dscp) in reflector.allowed_dscp.iter().flatten().enumerate() {
        within(path.key("allowed_dscp").index(index), *dscp, 0..=63)?;
    }
    Ok(())
}
