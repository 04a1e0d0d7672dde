//! A segment together with the state of the switch that reports it, which resolves its names.

use std::collections::HashMap;

use locate::{BOUND_ERRORS, Finding, Found};
use records::float;
use records::station::{Joined, SegmentFigures, StationSegment};
use report::msp::{Kind, Neighbour};

use crate::clock::ms;
use crate::state::{Known, State, Sums};

/// A segment, with the state that contains it.
#[derive(Debug, Clone, Copy)]
pub struct Place<'s> {
    /// State of the switch that reports the segment.
    pub state: &'s State,
    /// The segment as stored in the state.
    pub known: &'s Known,
}

/// Kinds of segments measured by probes.
pub const PROBES: [Kind; 2] = [Kind::Probe, Kind::RoundTrip];

/// Switch, ends and class of a segment.
pub type Name<'s> = [&'s str; 4];

impl State {
    /// Returns all segments of the switch.
    pub fn places(&self) -> impl Iterator<Item = Place<'_>> + Clone {
        let segments = self.segments.iter();
        segments.map(|known| Place { state: self, known })
    }

    /// Returns the names of a neighbour's port here and of its own port.
    pub fn ports(&self, link: &Neighbour) -> [&str; 2] {
        [link.port, link.peer_port].map(|name| self.name(name))
    }
}

impl<'s> Place<'s> {
    /// Returns the segment's kind.
    pub fn kind(self) -> Kind {
        self.known.last.kind()
    }

    /// Returns where packets enter and leave the segment.
    pub fn ends(self) -> [&'s str; 2] {
        [self.known.last.from, self.known.last.to].map(|name| self.state.name(name))
    }

    /// Returns the segment's class.
    pub fn class(self) -> &'s str {
        self.state.name(self.known.last.class)
    }

    /// Returns the segment's name, unique among all segments of its kind.
    pub fn name(self) -> Name<'s> {
        let [from, to] = self.ends();
        [&self.state.switch, from, to, self.class()]
    }

    /// Returns whether the segment is of this kind, and of this class if one is given.
    pub fn is_of(self, kind: Kind, class: Option<&str>) -> bool {
        self.kind() == kind && class.is_none_or(|class| self.class() == class)
    }

    /// Returns whether a probe measures the segment.
    pub fn is_probe(self) -> bool {
        PROBES.contains(&self.kind())
    }

    /// Returns the ports of a switch that the segment connects, including those that lead to a device; `None` for a
    /// segment that leaves the switch.
    pub fn ports(self) -> Option<[&'s str; 2]> {
        match self.kind() {
            Kind::Inside => Some(self.ends()),
            Kind::Around => {
                let port = |end: &'s str| end.split_once(':').map_or(end, |(_, port)| port);
                Some(self.ends().map(port))
            }
            Kind::Wire | Kind::Probe | Kind::RoundTrip => None,
        }
    }

    /// Returns whether the segment is an outgoing wire, whose end is at the peer.
    pub fn is_outgoing(self) -> bool {
        self.kind() == Kind::Wire && self.ends()[1].contains(':')
    }

    /// Returns the port of the switch at which the wire is connected.
    pub fn port(self) -> &'s str {
        let [from, to] = self.ends();
        if self.is_outgoing() { from } else { to }
    }

    /// Returns the neighbour at the other end of a wire.
    pub fn link(self) -> Option<&'s Neighbour> {
        let mut links = self.state.neighbours.iter();
        let is_here = |link: &&Neighbour| {
            link.wire_switch().is_some() && self.state.name(link.port) == self.port()
        };
        links.find(is_here).filter(|_| self.kind() == Kind::Wire)
    }

    /// Returns since when the figures are out of date, in nanoseconds since 1970, and why; `None` if they are current.
    /// `numbers` maps numbers on wires to switches.
    pub fn stale(self, numbers: &HashMap<u32, &State>, now_unix_ns: u64) -> Option<(u64, String)> {
        let silent = |state: &State| {
            let words = || format!("{} sends no reports", state.switch);
            let is_silent = state.is_silent(now_unix_ns);
            is_silent.then(|| (state.end_unix_ns, words()))
        };
        silent(self.state).or_else(|| {
            let link = self.link()?;
            let age_ns = self.state.age_ns(self.known.end_unix_ns, now_unix_ns);
            // A silent switch may still forward packets while its reports do not reach NATS.
            if age_ns <= self.state.patience_ns() {
                return None;
            }
            let peer = numbers.get(&link.wire_switch()?);
            peer.and_then(|peer| silent(peer)).or_else(|| {
                let session = &link.session;
                let words = || format!("the wire's session is `{session}`");
                (session != "established").then(|| (self.known.end_unix_ns, words()))
            })
        })
    }

    /// Returns the title, such as `edge-1: lan>wan`.
    pub fn title(self) -> String {
        title(&self.state.switch, self.ends().map(Some))
    }

    /// Returns the seconds since the end of the epoch that the figures belong to.
    pub fn age_s(self, now_unix_ns: u64) -> f64 {
        self.state.age_s(self.known.end_unix_ns, now_unix_ns)
    }

    /// Returns the figures of the last report.
    pub fn figures(self) -> SegmentFigures {
        Sums::of(&self.known.last).figures()
    }

    /// Returns the present findings; before localisation has any, those of the last report.
    pub fn finding(self, now_unix_ns: u64) -> Finding {
        let Self { state, known } = self;
        let last = &known.last;
        let reported = || Found {
            present_ns: (last.samples > 0).then_some(last.mean_ns),
            present_error_ns: float(f64::from(last.bound_ns.unwrap_or_default()) / BOUND_ERRORS),
            ..Found::default()
        };
        let age_ns = state.age_ns(known.end_unix_ns, now_unix_ns);
        Finding {
            found: known.found.unwrap_or_else(reported),
            // The age of the last delays, not of the last report. By the server's clock, like `now_unix_ns`.
            time_ms: ms(now_unix_ns.saturating_sub(age_ns)),
            deviation_ns: last.stddev_ns.map(f64::from),
            p99_ns: last.quantiles.map(|quantiles| quantiles.p99_ns.into()),
            silent_since_ms: state.is_silent(now_unix_ns).then(|| ms(state.end_unix_ns)),
        }
    }

    /// Returns the segment as last reported.
    pub fn record(self, now_unix_ns: u64) -> StationSegment {
        let [switch, from, to, class] = self.name().map(str::to_owned);
        let method = (self.known.last.samples > 0).then_some(self.known.last.method);
        let method = method.map_or("", |method| self.state.name(method));
        StationSegment {
            switch,
            kind: label(self.kind()).to_owned(),
            from,
            to,
            class,
            method: method.to_owned(),
            age_s: self.age_s(now_unix_ns),
            silent_since_unix_s: self.state.silent_since_unix_s(now_unix_ns),
            figures: self.figures(),
        }
    }

    /// Returns the segment as a part of a hop.
    pub fn joined(self) -> Joined {
        let [switch, from, to, class] = self.name().map(str::to_owned);
        Joined {
            switch,
            from,
            to,
            class,
            packets: self.known.last.packets,
        }
    }
}

/// Returns a title such as `edge-1: lan>wan`; an unknown end is `*`.
pub fn title(switch: &str, ends: [Option<&str>; 2]) -> String {
    let [from, to] = ends.map(|end| end.unwrap_or("*"));
    format!("{switch}: {from}>{to}")
}

/// Returns the name of a kind.
pub fn label(kind: Kind) -> &'static str {
    match kind {
        Kind::Inside => "inside",
        Kind::Wire => "wire",
        Kind::Around => "around",
        Kind::Probe => "probe",
        Kind::RoundTrip => "round_trip",
    }
}

impl Sums {
    /// Returns the figures of the sums.
    pub fn figures(&self) -> SegmentFigures {
        let samples = self.samples as f64;
        let mean_ns = (self.samples > 0).then(|| self.sum_ns / samples);
        let with_all = |without: u64| mean_ns.filter(|_| without == 0);
        SegmentFigures {
            packets: self.packets,
            lost: self.lost,
            samples: self.samples,
            mean_ns,
            bound_ns: with_all(self.unbounded).map(|_| self.bounds_ns / samples),
            stddev_ns: with_all(self.undeviated)
                .map(|mean| (self.squares_ns2 / samples - mean.powi(2)).max(0.0).sqrt()),
            p99_ns: self.p99_ns.map(f64::from),
            max_ns: self.max_ns.map(f64::from),
        }
    }
}
