//! Finds what is slow, where, and since when, from the findings about each segment.
//!
//! ```text
//!  states (with findings)       --> risen segments, worst first
//!  states + chain of a path     --> locate::explain --> causes, faults of measuring, uncovered hops
//! ```

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

use locate::{BOUND_ERRORS, Finding, Hop, Member, Signal, explain, fault, seconds};
use records::float;
use records::station::{
    self, Blame, Failure, MeasuringFault, PathAnswer, PathBlame, PathBlames, Paths, Risen,
};
use report::msp::{Kind, Neighbour};

use crate::clock::ms;
use crate::fleet::by_number;
use crate::place::{Name, Place, label};
use crate::state::State;

mod failure;

/// Delay that counts as much as a lost packet, in nanoseconds: TCP's minimum retransmission timeout (RFC 6298, section
/// 2.4).
const LOST_NS: f64 = 1e9;

/// Attributes delay and loss to segments of a fleet.
pub struct Blamer<'s> {
    states: &'s [State],
    numbers: HashMap<u32, &'s State>,
    /// Neighbours by switch and port.
    peers: HashMap<[&'s str; 2], &'s Neighbour>,
    /// Probes with separate measurements of both directions.
    directions: HashSet<Name<'s>>,
    /// All segments by name, built on first use.
    by_name: OnceCell<HashMap<(&'static str, Name<'s>), Place<'s>>>,
    /// Sorted by place.
    failed: Vec<Failure>,
    now_unix_ns: u64,
}

impl<'s> Blamer<'s> {
    /// Examines all switches at a time. `is_read` returns whether all reports of a partition have been counted.
    pub fn new(states: &'s [State], now_unix_ns: u64, is_read: impl Fn(u16) -> bool) -> Self {
        let mut peers = HashMap::new();
        for state in states {
            for other in &state.neighbours {
                let at = [state.switch.as_str(), state.name(other.port)];
                peers.entry(at).or_insert(other);
            }
        }
        let places = states.iter().flat_map(State::places);
        let one_way = places.filter(|place| place.kind() == Kind::Probe);
        let measured = one_way.filter(|place| place.known.last.samples > 0);
        let mut blamer = Self {
            states,
            numbers: by_number(states),
            peers,
            directions: measured.map(Place::name).collect(),
            by_name: OnceCell::new(),
            failed: Vec::new(),
            now_unix_ns,
        };
        blamer.failed = blamer.failures(is_read);
        blamer
    }

    /// Returns whether a segment is the round trip of a probe whose directions are also measured separately.
    fn is_in_directions(&self, place: Place<'s>) -> bool {
        place.kind() == Kind::RoundTrip && self.directions.contains(&place.name())
    }

    /// Returns the segment of this kind and name.
    fn place(&self, kind: &str, name: Name<'_>) -> Option<Place<'s>> {
        let by_name: &HashMap<(&str, Name<'_>), Place<'s>> = self.by_name.get_or_init(|| {
            let mut by_name = HashMap::new();
            for place in self.places() {
                let key = (label(place.kind()), place.name());
                by_name.entry(key).or_insert(place);
            }
            by_name
        });
        by_name.get(&(kind, name)).copied()
    }

    fn places(&self) -> impl Iterator<Item = Place<'s>> {
        self.states.iter().flat_map(State::places)
    }

    /// Returns the switch at the other end of a wire, and its port.
    fn peer(&self, state: &'s State, port: &str) -> Option<(&'s State, &'s str)> {
        let by_port: &HashMap<[&str; 2], &'s Neighbour> = &self.peers;
        let other = by_port.get(&[state.switch.as_str(), port])?;
        Some((
            self.numbers.get(&other.wire_switch()?)?,
            state.name(other.peer_port),
        ))
    }

    /// Returns the findings about a segment. A wire depends on both ends and their clocks.
    fn finding(&self, place: Place<'s>) -> Finding {
        let mut finding = place.finding(self.now_unix_ns);
        if place.stale(&self.numbers, self.now_unix_ns).is_some() {
            let found = &mut finding.found;
            (found.present_ns, found.delay, found.loss) = (None, None, None);
            (finding.deviation_ns, finding.p99_ns) = (None, None);
        }
        let peer = (place.kind() == Kind::Wire)
            .then(|| self.peer(place.state, place.port()))
            .flatten();
        if let Some((peer, _)) = peer
            && is_free(peer)
        {
            let since = ms(peer.end_unix_ns);
            let found = &mut finding.found;
            found.unsynchronised_since_ms.get_or_insert(since);
        }
        finding
    }

    /// Returns the title, such as `edge-1: lan>wan` or `edge-1:wan > edge-2:wan`, with the class unless it is `all`.
    fn title(&self, place: Place<'s>) -> String {
        let title = if place.kind() == Kind::Wire {
            self.wire_title(place)
        } else if matches!(place.kind(), Kind::Inside | Kind::Around) {
            place.title()
        } else {
            // The ends of a probe are nodes.
            let [from, to] = place.ends();
            let back = if place.kind() == Kind::RoundTrip {
                format!(" > {from}")
            } else {
                String::new()
            };
            format!("{from} > {to}{back}")
        };
        with_class(title, place.class())
    }

    /// Returns the title of a wire, such as `edge-1:wan > edge-2:wan`.
    fn wire_title(&self, place: Place<'s>) -> String {
        let port = place.port();
        let here = format!("{}:{port}", place.state.switch);
        let there = self.peer(place.state, port).map_or_else(
            || "?".to_owned(),
            |(peer, at)| format!("{}:{at}", peer.switch),
        );
        if place.is_outgoing() {
            format!("{here} > {there}")
        } else {
            format!("{there} > {here}")
        }
    }

    /// Returns the failures of the switches and wires of a path.
    pub fn failed_on(&self, path: &PathAnswer) -> Vec<Failure> {
        let is_on = |failed: &&Failure| {
            let mut titles = path.chain.iter().map(|hop| &hop.title);
            path.switches.contains(&failed.place) || titles.any(|title| *title == failed.place)
        };
        self.failed.iter().filter(is_on).cloned().collect()
    }

    /// Returns whether the other end of this wire, which measures it, also reports it.
    fn is_second_hand(&self, place: Place<'s>) -> bool {
        place.is_outgoing()
            && self
                .peer(place.state, place.port())
                .is_some_and(|(peer, _)| !peer.is_silent(self.now_unix_ns))
    }

    /// Returns at most `limit` risen segments of a class, or of all classes, with the worst first, and the faults of
    /// measuring.
    pub fn all(&self, class: Option<&str>, limit: usize) -> Blame {
        let (mut segments, mut learning) = (0, 0);
        let mut risen = Vec::new();
        let is_asked = |place: &Place<'s>| class.is_none_or(|class| place.class() == class);
        let places = self.places().filter(is_asked);
        let is_left_out =
            |place: Place<'s>| self.is_second_hand(place) || self.is_in_directions(place);
        for place in places.filter(|&place| !is_left_out(place)) {
            let finding = self.finding(place);
            segments += 1;
            learning += u64::from(!finding.found.is_ready);
            let signals = Signal::ALL.into_iter();
            risen.extend(signals.filter_map(|signal| self.risen(place, &finding, signal)));
        }
        let severity =
            |risen: &Risen| risen.rise * if risen.signal == "loss" { LOST_NS } else { 1.0 };
        risen.sort_by(|one, other| {
            let worse = severity(other).total_cmp(&severity(one));
            worse.then_with(|| one.title.cmp(&other.title))
        });
        let matching = risen.len() as u64;
        risen.truncate(limit);
        Blame {
            segments,
            learning,
            matching,
            risen,
            failed: self.failed.clone(),
            faults: self.faults(),
        }
    }

    fn risen(&self, place: Place<'s>, finding: &Finding, signal: Signal) -> Option<Risen> {
        let rise = finding.rise(signal).filter(|rise| rise.by > 0.0)?;
        let now = f64::from(match signal {
            Signal::Delay => finding.found.present_ns?,
            Signal::Loss => finding.found.present_loss?,
        });
        let by = f64::from(rise.by);
        let [switch, from, to, class] = place.name().map(str::to_owned);
        Some(Risen {
            title: self.title(place),
            switch,
            kind: label(place.kind()).to_owned(),
            from,
            to,
            class,
            signal: signal.label().to_owned(),
            now,
            usual: now - by,
            rise: by,
            confidence: rise.confidence(),
            since_unix_s: seconds(rise.since_ms),
        })
    }

    /// Explains each path separately.
    pub fn paths(&self, paths: &Paths) -> PathBlames {
        PathBlames {
            from: paths.from.clone(),
            to: paths.to.clone(),
            is_cut: paths.is_cut,
            paths: paths.paths.iter().map(|path| self.path(path)).collect(),
        }
    }

    fn path(&self, path: &PathAnswer) -> PathBlame {
        let hops: Vec<Hop> = path.chain.iter().map(|hop| self.hop(hop)).collect();
        let now_ms = ms(self.now_unix_ns);
        let end_to_end = self.end_to_end(path).map(|(place, finding)| {
            let kind = label(place.kind());
            (finding.hop(&self.title(place), kind, now_ms), finding)
        });
        let mut blame = explain(&hops, end_to_end, now_ms);
        blame.switches.clone_from(&path.switches);
        blame.failed = self.failed_on(path);
        let sessions = path.chain.iter().filter_map(|hop| self.session_of(hop));
        blame.faults.extend(sessions);
        blame
    }

    fn hop(&self, hop: &station::Hop) -> Hop {
        let title = hop.title.clone();
        if hop.joined.is_empty() {
            let cover = hop.hint.clone().unwrap_or_default();
            return Hop::Uncovered { title, cover };
        }
        let is_one = hop.joined.len() == 1;
        let members = hop.joined.iter().map(|joined| {
            let place = self.place(&hop.kind, name_of(joined));
            Member {
                segment: match place {
                    Some(place) if !is_one => self.title(place),
                    _ => with_class(title.clone(), &joined.class),
                },
                weight: joined.packets as f64,
                finding: place.map(|place| self.one_way(place)),
            }
        });
        let members = members.collect();
        Hop::Measured {
            title,
            kind: hop.kind.clone(),
            members,
        }
    }

    /// Returns the findings about one direction. Half of a round trip stands for either direction, which may have any
    /// part of it.
    fn one_way(&self, place: Place<'s>) -> Finding {
        let mut finding = self.finding(place);
        if place.kind() == Kind::RoundTrip {
            let found = &mut finding.found;
            if let Some(present_ns) = &mut found.present_ns {
                let all = f64::from(*present_ns) / BOUND_ERRORS;
                let error = f64::from(found.present_error_ns);
                found.present_error_ns = float(f64::midpoint(all, error));
                *present_ns /= 2.0;
            }
            found.usual_ns = found.usual_ns.map(|usual| usual / 2.0);
            (finding.deviation_ns, finding.p99_ns) = (None, None);
        }
        finding
    }

    /// Returns the first measurement from end to end with a present delay: by a probe, or by a wire over several links.
    fn end_to_end(&self, path: &PathAnswer) -> Option<(Place<'s>, Finding)> {
        let probes = path.end_to_end.iter().filter_map(|probe| {
            let name = [&*probe.switch, &*probe.from, &*probe.to, &*probe.class];
            self.place(&probe.kind, name)
        });
        let ends = path.switches.first().zip(path.switches.last());
        let wires = ends
            .filter(|_| path.switches.len() > 2)
            .into_iter()
            .flat_map(|(first, last)| {
                self.places().filter(move |&place| {
                    let peer = || self.peer(place.state, place.port());
                    place.kind() == Kind::Wire
                        && !place.is_outgoing()
                        && place.state.switch == *last
                        && peer().is_some_and(|(peer, _)| peer.switch == *first)
                })
            });
        let found = probes
            .chain(wires)
            .map(|place| (place, self.finding(place)));
        found
            .into_iter()
            .find(|(_, finding)| finding.level().is_some())
    }

    fn session_of(&self, hop: &station::Hop) -> Option<MeasuringFault> {
        let joined = hop.joined.first().filter(|_| hop.kind == "wire")?;
        let place = self.place(&hop.kind, name_of(joined))?;
        let mut at_port = place.state.neighbours.iter();
        let other = at_port.find(|other| place.state.name(other.port) == place.port())?;
        self.session(place.state, other)
    }
}

fn name_of(joined: &station::Joined) -> Name<'_> {
    [&joined.switch, &joined.from, &joined.to, &joined.class]
}

/// Returns whether the clock of a switch's wires is not synchronised.
fn is_free(state: &State) -> bool {
    let health = state.health.as_ref();
    health.is_some_and(|health| health.clock == "free")
}

impl<'s> Blamer<'s> {
    /// Returns the faults of measuring at all switches.
    fn faults(&self) -> Vec<MeasuringFault> {
        let mut faults = Vec::new();
        for state in self.states {
            let by_place = |failed: &Failure| failed.place.cmp(&state.switch);
            if self.failed.binary_search_by(by_place).is_ok() {
                continue;
            }
            if state.is_silent(self.now_unix_ns) {
                let words = if self.forwards(state) {
                    "it sends no reports, but its wires are up: it cannot reach NATS"
                } else {
                    "it sends no reports: it is down or unreachable"
                };
                let since_ms = ms(state.end_unix_ns);
                faults.push(fault(("silent", words), &state.switch, since_ms));
                continue;
            }
            if is_free(state) {
                let words = "its clock is not synchronised: start chrony or linuxptp";
                let since_ms = unsynchronised_since(state).unwrap_or_default();
                faults.push(fault(
                    ("clock_unsynchronised", words),
                    &state.switch,
                    since_ms,
                ));
            }
            faults.extend(self.sessions(state));
        }
        let steps = self.places().filter_map(|place| {
            let finding = self.finding(place);
            finding.step_fault(&self.title(place), ms(self.now_unix_ns))
        });
        faults.extend(steps);
        faults.sort_by(|one, other| one.place.cmp(&other.place));
        faults.dedup_by(|one, other| one.place == other.place && one.what == other.what);
        faults
    }

    /// Returns the faults of wires that measure nothing. If the other end is silent, that fault is reported instead.
    fn sessions(&self, state: &'s State) -> impl Iterator<Item = MeasuringFault> {
        let wires = state.neighbours.iter().filter(|other| {
            other.wire_switch().is_some_and(|peer| {
                let peer = self.numbers.get(&peer);
                peer.is_none_or(|peer| !peer.is_silent(self.now_unix_ns))
            })
        });
        wires.filter_map(|other| self.session(state, other))
    }

    /// Returns the fault of a wire's session, if it has one.
    fn session(&self, state: &'s State, wire: &Neighbour) -> Option<MeasuringFault> {
        let port = state.name(wire.port);
        let here = format!("{}:{port}", state.switch);
        let place = match self.peer(state, port) {
            Some((peer, at)) => format!("{here} - {}:{at}", peer.switch),
            None => here,
        };
        let session = &wire.session;
        let words = format!("the wire's session is `{session}`: `vernier wires` says why");
        (session != "established").then(|| fault(("wire_session", &words), &place, 0))
    }
}

/// Returns since when wires of a switch have no figures, in milliseconds since 1970.
fn unsynchronised_since(state: &State) -> Option<u64> {
    let wires = state.places().filter(|place| place.kind() == Kind::Wire);
    let since = wires.filter_map(|place| place.known.found.as_ref()?.unsynchronised_since_ms);
    since.min()
}

/// Appends the class to the title of a segment.
fn with_class(title: String, class: &str) -> String {
    if class == "all" {
        title
    } else {
        format!("{title} {class}")
    }
}

#[cfg(test)]
mod tests;
