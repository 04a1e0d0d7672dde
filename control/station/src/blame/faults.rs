//! What is wrong with measuring, apart from what is wrong with the network.

use locate::{Fault, FaultKind};
use records::station::MeasuringFault;
use report::msp::Kind;

use super::{Blamer, seconds};
use crate::found::ms;
use crate::state::State;
use crate::summary::is_silent;

/// Whether the clock of a switch's wires is not synchronised.
pub(super) fn is_free(state: &State) -> bool {
    let health = state.health.as_ref();
    health.is_some_and(|health| health.clock == "free")
}

/// From what the library says of a segment.
pub(super) fn of_segment(fault: &Fault) -> MeasuringFault {
    let (what, words) = match fault.kind {
        FaultKind::Silent => (
            "silent",
            "its switch sends no reports: it is down, or cannot be reached".to_owned(),
        ),
        FaultKind::ClockUnsynchronised => (
            "clock_unsynchronised",
            "the clock of one of its ends is not synchronised".to_owned(),
        ),
        FaultKind::ClockStep { shift_ns } => (
            "clock_step",
            format!(
                "both directions shifted by {:.1} us in opposite senses: a clock was set",
                shift_ns.abs() / 1e3
            ),
        ),
    };
    MeasuringFault {
        what: what.to_owned(),
        place: fault.segment.clone(),
        since_unix_s: (fault.since_ms > 0).then(|| seconds(fault.since_ms)),
        words,
    }
}

impl<'s> Blamer<'s> {
    /// Of all switches.
    pub(super) fn faults(&self) -> Vec<MeasuringFault> {
        let mut faults = Vec::new();
        for state in self.states {
            if is_silent(state, self.now_unix_ns) {
                faults.push(MeasuringFault {
                    what: "silent".to_owned(),
                    place: state.switch.clone(),
                    since_unix_s: Some(seconds(ms(state.end_unix_ns))),
                    words: "it sends no reports: it is down, or cannot be reached".to_owned(),
                });
                continue;
            }
            if is_free(state) {
                faults.push(MeasuringFault {
                    what: "clock_unsynchronised".to_owned(),
                    place: state.switch.clone(),
                    since_unix_s: unsynchronised_since(state).map(seconds),
                    words: "its clock is not synchronised: start chrony or linuxptp".to_owned(),
                });
            }
            faults.extend(self.sessions(state));
        }
        let steps = self.places().flat_map(|place| {
            let of = self.finding(place);
            let faults = of.faults(&self.title(place), ms(self.now_unix_ns));
            faults.into_iter().filter_map(|fault| {
                matches!(fault.kind, FaultKind::ClockStep { .. }).then(|| of_segment(&fault))
            })
        });
        faults.extend(steps);
        faults.sort_by(|one, other| one.place.cmp(&other.place));
        faults.dedup_by(|one, other| one.place == other.place && one.what == other.what);
        faults
    }

    /// Wires of a switch that measure nothing. Where the other end is silent, that says it.
    fn sessions(&self, state: &'s State) -> impl Iterator<Item = MeasuringFault> {
        let broken = state.neighbours.iter().filter(|other| {
            other.wire_switch().is_some_and(|peer| {
                let peer = self.numbers.get(&peer);
                other.session != "established"
                    && peer.is_none_or(|peer| !is_silent(peer, self.now_unix_ns))
            })
        });
        broken.map(|other| {
            let port = state.name(other.port);
            self.session(state, port, &other.session)
        })
    }

    /// A wire whose session is in this state.
    fn session(&self, state: &'s State, port: &str, session: &str) -> MeasuringFault {
        let here = format!("{}:{port}", state.switch);
        let place = match self.peer(state, port) {
            Some((peer, at)) => format!("{here} - {}:{at}", peer.switch),
            None => here,
        };
        MeasuringFault {
            what: "wire_session".to_owned(),
            place,
            since_unix_s: None,
            words: format!("the wire's session is `{session}`: `vernier wires` says why"),
        }
    }

    /// The fault of the session of a wire that arrives at a port of a switch, if it has one.
    pub(super) fn session_at(&self, state: &'s State, port: &str) -> Option<MeasuringFault> {
        let mut at_port = state.neighbours.iter();
        let other = at_port.find(|other| state.name(other.port) == port)?;
        (other.session != "established").then(|| self.session(state, port, &other.session))
    }
}

/// Since when wires of a switch have no figures, in milliseconds since 1970.
fn unsynchronised_since(state: &State) -> Option<u64> {
    let wires = state.segments.iter();
    let wires = wires.filter(|known| known.last.kind() == Kind::Wire);
    wires
        .filter_map(|known| known.found.as_ref()?.unsynchronised_since_ms)
        .min()
}
