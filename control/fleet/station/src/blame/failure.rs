//! Dead switches and failed wires. Finding them needs no history, but patience: a restart of a switch or a station, or
//! an outage of NATS, must not look like a failure.
//!
//! ```text
//!  edge-2 has sent no report for 20 s       --+
//!  another switch has reported all the time --+--> edge-2 is dead
//!  all reports of its partition are counted --+
//!  no wire of a live switch to it is up     --+
//! ```

use std::collections::{BTreeMap, BTreeSet};

use records::station::Failure;
use report::msp::Neighbour;
use report::subject::partition;

use super::Blamer;
use crate::place::Place;
use crate::state::State;
use crate::summary::seconds;

/// Shortest duration of a failure: longer than a restart of a switch, and longer than reconnecting to NATS and taking
/// over a partition together.
const PATIENCE_NS: u64 = 20_000_000_000;

impl<'s> Blamer<'s> {
    /// Returns all failures, sorted by place. `is_read` returns whether all reports of a partition have been counted.
    pub(super) fn failures(&self, is_read: impl Fn(u16) -> bool) -> Vec<Failure> {
        let witnesses = self.states.iter().filter(|state| self.is_steady(state));
        let witnesses: Vec<&str> = witnesses.map(|state| &*state.switch).collect();
        let heard: BTreeSet<u16> = witnesses.iter().map(|name| partition(name)).collect();
        let others = match witnesses.len() {
            0 => return Vec::new(),
            1 => "another switch still reports".to_owned(),
            others => format!("{others} other switches still report"),
        };
        let has_died = |state: &&State| {
            let silent_ns = self.now_unix_ns.saturating_sub(state.received_unix_ns);
            let own = partition(&state.switch);
            // A prober may have been stopped on purpose.
            state.node.is_none()
                && state.reports > 0
                && silent_ns > PATIENCE_NS.max(state.patience_ns())
                && (is_read(own) || heard.contains(&own))
                && !self.forwards(state)
        };
        let dead = self.states.iter().filter(has_died).map(|state| Failure {
            place: state.switch.clone(),
            kind: "switch".to_owned(),
            since_unix_s: seconds(state.end_unix_ns),
            words: format!("its reports stopped, while {others}"),
        });
        let wires = self.places().filter_map(|place| self.failed_wire(place));
        // Each class of a wire is a segment.
        let by_place = dead
            .chain(wires)
            .map(|failed| (failed.place.clone(), failed));
        by_place.collect::<BTreeMap<_, _>>().into_values().collect()
    }

    /// Returns whether a switch has reported without a break for the duration of a failure.
    fn is_steady(&self, state: &State) -> bool {
        let since = self.now_unix_ns.saturating_sub(PATIENCE_NS);
        !state.is_silent(self.now_unix_ns) && state.steady_since_unix_ns <= since
    }

    /// Returns whether a reporting switch has a session with this switch over a wire. If so, this switch lives, but its
    /// reports do not reach NATS.
    pub(super) fn forwards(&self, state: &State) -> bool {
        let peers = state.neighbours.iter().filter_map(Neighbour::wire_switch);
        let mut peers = peers.filter_map(|peer| self.numbers.get(&peer));
        peers.any(|peer| {
            let mut back = peer.neighbours.iter();
            !peer.is_silent(self.now_unix_ns)
                && back.any(|link| {
                    link.wire_switch() == state.wire_switch && link.session == "established"
                })
        })
    }

    /// Returns the failure of a wire whose session is lost although both switches report.
    fn failed_wire(&self, place: Place<'s>) -> Option<Failure> {
        let Place { state, known } = place;
        if place.is_outgoing() {
            return None;
        }
        let link = place.link()?;
        let peer = self.numbers.get(&link.wire_switch()?)?;
        let session = &link.session;
        let age_ns = state.age_ns(known.end_unix_ns, self.now_unix_ns);
        let is_failed = matches!(session.as_str(), "lost" | "waiting")
            && age_ns > PATIENCE_NS.max(state.patience_ns())
            && self.is_steady(state)
            && self.is_steady(peer);
        is_failed.then(|| Failure {
            place: self.wire_title(place),
            kind: "wire".to_owned(),
            since_unix_s: seconds(known.end_unix_ns),
            words: format!(
                "its session is `{session}` although both switches report; the link is down, or loses nearly every packet"
            ),
        })
    }
}

#[cfg(test)]
mod tests;
