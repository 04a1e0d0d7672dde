//! The segments of a path, and their sum.
//!
//! ```text
//!  edge-1: lan>wan   edge-1:wan > edge-2:wan   edge-2: wan>lan
//!      inside                 wire                 inside
//!
//!  edge-1: lan>in   edge-1: firewall:in>firewall:out   edge-1: out>wan
//!      inside                    around                    inside
//! ```

use std::collections::HashMap;

use records::station::{Hop, Joined, PathAnswer, Paths, SegmentFigures, StationSegment};
use report::msp::{Kind, Neighbour};
use topology::Topology;

use crate::fleet::by_number;
use crate::state::{Known, State, Sums};
use claims::Claims;
use end::End;
use probes::{Probes, is_probe};

mod around;
mod claims;
mod end;
mod map;
mod probes;

/// Most paths of an answer.
pub const PATHS_MAX: usize = 16;

/// Why there is no path.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// One of the ends is unknown.
    #[error(
        "{0} is neither a switch that reports nor a router of the topology; see /api/v1/switches"
    )]
    Unknown(String),
    /// Both are known, but nothing joins them.
    #[error(
        "no path leads from {0} to {1}; see `neighbours` of the switches, or the topology's file"
    )]
    Apart(String, String),
}

/// The switch or device at the other end of a link.
fn name_of<'s>(link: &'s Neighbour, numbers: &HashMap<u32, &'s State>) -> Option<&'s str> {
    let by_wire = || Some(numbers.get(&link.wire_switch()?)?.switch.as_str());
    link.system.as_deref().or_else(by_wire)
}

/// All switches with the links between them.
pub struct Network<'s> {
    states: HashMap<&'s str, &'s State>,
    probes: Probes<'s>,
    numbers: HashMap<u32, &'s State>,
    topology: Topology,
    /// Links that the topology has no room for.
    left_out: u64,
    now_unix_ns: u64,
}

impl<'s> Network<'s> {
    /// By the topology of a file, else by the wires and the LLDP neighbours that the switches report, and by probes where
    /// neither leads.
    pub fn new(states: &'s [State], file: Option<&Topology>, now_unix_ns: u64) -> Self {
        let numbers = by_number(states);
        let claims = Claims::of(states, &numbers);
        let (topology, left_out) = match file {
            Some(file) => (file.clone(), 0),
            None => probes::joined(states, |state| {
                let others = state.neighbours.iter();
                let others = others.filter(|other| claims.is_mutual(state, other));
                let others = others.filter_map(|other| name_of(other, &numbers));
                let links = others.map(|other| [state.switch.as_str(), other]);
                // By itself each is known, too.
                let node = state.node.as_ref().unwrap_or(&state.switch).as_str();
                std::iter::once([node, node]).chain(links).collect()
            }),
        };
        Self {
            states: states
                .iter()
                .filter(|state| state.node.is_none())
                .map(|state| (state.switch.as_str(), state))
                .collect(),
            probes: Probes::of(states),
            numbers,
            topology,
            left_out,
            now_unix_ns,
        }
    }

    /// All paths of least cost between two ends; figures of one class, or of all joined.
    ///
    /// # Errors
    /// [`PathError`].
    pub fn paths(&self, from: &str, to: &str, class: Option<&str>) -> Result<Paths, PathError> {
        let (first, last) = (End::from(from), End::from(to));
        let router = |end: End| {
            let router = self.topology.find(end.switch);
            router.ok_or_else(|| PathError::Unknown(end.switch.to_owned()))
        };
        let alternatives = self
            .topology
            .between(router(first)?, router(last)?, PATHS_MAX + 1);
        if alternatives.is_empty() {
            return Err(PathError::Apart(from.to_owned(), to.to_owned()));
        }
        let mut paths = Vec::new();
        for route in &alternatives {
            if paths.len() > PATHS_MAX {
                break;
            }
            let names: Vec<&str> = route
                .iter()
                .map(|&router| self.topology.name(router))
                .collect();
            for links in self.links(&names) {
                paths.push(self.path(&names, &links, [first.port, last.port], class));
            }
        }
        let is_cut = paths.len() > PATHS_MAX;
        paths.truncate(PATHS_MAX);
        let (from, to) = (from.to_owned(), to.to_owned());
        Ok(Paths {
            from,
            to,
            is_cut,
            paths,
        })
    }

    /// The ports at both ends of each link of a route; more than one list where links are parallel.
    fn links<'a>(&'a self, route: &[&str]) -> Vec<Vec<[Option<&'a str>; 2]>> {
        let mut lists: Vec<Vec<_>> = vec![Vec::new()];
        for pair in route.windows(2) {
            let choices = self.ports(pair[0], pair[1]);
            if let [only] = choices[..] {
                for list in &mut lists {
                    list.push(only);
                }
                continue;
            }
            let longer = lists.iter().flat_map(|list: &Vec<_>| {
                choices
                    .iter()
                    .map(move |&choice| [&list[..], &[choice]].concat())
            });
            lists = longer.take(PATHS_MAX + 1).collect();
        }
        lists
    }

    /// Ports by which one switch reaches the next, and those at the other end.
    fn ports(&self, from: &str, to: &str) -> Vec<[Option<&str>; 2]> {
        let leads = |switch: &str, other: &str| -> Vec<[Option<&'s str>; 2]> {
            let Some(&state) = self.states.get(switch) else {
                return Vec::new();
            };
            let to_it = state.neighbours.iter();
            let to_it = to_it.filter(|link| name_of(link, &self.numbers) == Some(other));
            let ports = to_it.map(|link| {
                // By LLDP the other end has no wire.
                let is_wire = link.system.is_none();
                let there = is_wire.then(|| state.name(link.peer_port));
                [Some(state.name(link.port)), there]
            });
            ports.collect()
        };
        let mut ports = leads(from, to);
        if ports.is_empty() {
            let back = leads(to, from).into_iter();
            ports.extend(back.map(|[into, out]| [out, into]));
        }
        if ports.is_empty() {
            vec![[None, None]]
        } else {
            ports
        }
    }

    fn path(
        &self,
        route: &[&str],
        links: &[[Option<&str>; 2]],
        ends: [Option<&str>; 2],
        class: Option<&str>,
    ) -> PathAnswer {
        let mut chain: Vec<Hop> = Vec::new();
        let mut into = ends[0];
        let mut place = 0;
        let mut choices = None;
        while let Some(&switch) = route.get(place) {
            let is_last = place + 1 == route.len();
            let step = (!is_last).then(|| self.step(route, links, place, class, &mut choices));
            let out = match &step {
                Some(step) => {
                    let named = || self.port_to(switch, route[place + 1]);
                    step.ports[0].or_else(named)
                }
                None => ends[1],
            };
            let is_probed = |hop: Option<&Hop>| hop.is_some_and(|hop| is_probe(&hop.kind));
            let is_at_probe =
                is_probed(chain.last()) || is_probed(step.as_ref().map(|step| &step.hop));
            // A prober that stands where no switch is has the node itself in its probes.
            if self.states.contains_key(switch) || !is_at_probe || !self.probes.is_node(switch) {
                chain.extend(self.through(switch, [into, out], class));
            }
            let Some(step) = step else { break };
            chain.push(step.hop);
            let named = || self.port_to(route[step.to], route[step.to - 1]);
            into = step.ports[1].or_else(named);
            place = step.to;
        }
        let (sum, loss_ratio) = sum(&chain);
        PathAnswer {
            switches: route.iter().map(|&name| name.to_owned()).collect(),
            is_covered: chain.iter().all(|hop| hop.figures.is_some()),
            chain,
            sum,
            loss_ratio,
            end_to_end: self.end_to_end(route),
        }
    }

    /// Through a switch: from port to port, or around devices that lie between ports of it.
    fn through(
        &self,
        switch: &str,
        ends @ [into, out]: [Option<&str>; 2],
        class: Option<&str>,
    ) -> Vec<Hop> {
        let Some(state) = self.states.get(switch) else {
            let title = title(switch, ends);
            let hint = format!(
                "{switch} does not report: give its configuration a `report`, or probe past it"
            );
            return vec![uncovered(title, hint)];
        };
        let title = match self.within(state, Kind::Inside, ends, class) {
            Ok(hop) => return vec![hop],
            Err(title) => title,
        };
        let ports = into.zip(out);
        let way = ports.map_or_else(Vec::new, |(into, out)| around::way(state, into, out));
        let hops = way.into_iter().map(|known| {
            let ends = [known.last.from, known.last.to].map(|name| Some(state.name(name)));
            let hop = self.within(state, known.last.kind(), ends, class);
            hop.unwrap_or_else(|title| no_packets(title, switch))
        });
        let hops: Vec<Hop> = hops.collect();
        if hops.is_empty() {
            return vec![no_packets(title, switch)];
        }
        hops
    }

    /// Segments of a switch between these ends joined; the title where there are none.
    fn within(
        &self,
        state: &State,
        kind: Kind,
        ends: [Option<&str>; 2],
        class: Option<&str>,
    ) -> Result<Hop, String> {
        let is_named = |wanted: Option<&str>, name: u32| {
            wanted.is_none_or(|wanted| state.name(name) == wanted)
        };
        let joined = state.segments.iter().filter(|Known { last, .. }| {
            last.kind() == kind
                && is_named(ends[0], last.from)
                && is_named(ends[1], last.to)
                && is_named(class, last.class)
        });
        self.hop(
            title(&state.switch, ends),
            kind,
            joined.map(|known| (state, known)),
        )
    }

    /// From one switch to the next: as the receiver measures it, else as it was reported to the sender.
    fn wire(
        &self,
        [from, to]: [&str; 2],
        [out, into]: [Option<&str>; 2],
        class: Option<&str>,
    ) -> Hop {
        let (Some(out), Some(into)) = (out, into) else {
            let hint = format!(
                "no wire is known between {from} and {to}: give their ports a `wire`, or probe this link"
            );
            return uncovered(format!("{from} > {to}"), hint);
        };
        let mut title = format!("{from}:{out} > {to}:{into}");
        for (switch, port, is_incoming) in [(to, into, true), (from, out, false)] {
            let Some(state) = self.states.get(switch) else {
                continue;
            };
            let joined = state.segments.iter().filter(|Known { last, .. }| {
                let end = if is_incoming { last.to } else { last.from };
                last.kind() == Kind::Wire
                    && state.name(end) == port
                    && class.is_none_or(|class| state.name(last.class) == class)
            });
            match self.hop(title, Kind::Wire, joined.map(|known| (*state, known))) {
                Ok(hop) => return hop,
                Err(same) => title = same,
            }
        }
        uncovered(
            title,
            "the wire has given no figures yet: see /api/v1/wires of both switches".to_owned(),
        )
    }

    /// Segments joined; the title again where there are none.
    fn hop<'k>(
        &self,
        title: String,
        kind: Kind,
        segments: impl Iterator<Item = (&'k State, &'k Known)>,
    ) -> Result<Hop, String> {
        let mut joined = Sums::default();
        let mut names = Vec::new();
        let mut age_ns = 0;
        for (state, known) in segments.filter(|(_, known)| known.last.samples > 0) {
            joined.add(&Sums::of(&known.last));
            names.push(Joined {
                switch: state.switch.clone(),
                from: state.name(known.last.from).to_owned(),
                to: state.name(known.last.to).to_owned(),
                class: state.name(known.last.class).to_owned(),
                packets: known.last.packets,
            });
            age_ns = age_ns.max(state.age_ns(known.end_unix_ns, self.now_unix_ns));
        }
        if joined.samples == 0 {
            return Err(title);
        }
        Ok(Hop {
            title,
            kind: label(kind).to_owned(),
            hint: None,
            age_s: Some(age_ns as f64 / 1e9),
            figures: Some(figures(&joined)),
            joined: names,
        })
    }

    /// What was measured over several links at once.
    fn end_to_end(&self, route: &[&str]) -> Vec<StationSegment> {
        let (Some(&first), Some(&last)) = (route.first(), route.last()) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for (state, known) in self.probes.between(first, last) {
            if known.last.kind() == Kind::Probe {
                found.push(segment(state, known, self.now_unix_ns));
            }
        }
        found.sort_by(|a, b| a.switch.cmp(&b.switch));
        found
    }
}

/// `edge-1: lan>wan`; an end that is not known is any.
fn title(switch: &str, ends: [Option<&str>; 2]) -> String {
    let [from, to] = ends.map(|end| end.unwrap_or("*"));
    format!("{switch}: {from}>{to}")
}

fn no_packets(title: String, switch: &str) -> Hop {
    uncovered(
        title,
        format!("{switch} has reported no packets between these ports"),
    )
}

fn uncovered(title: String, hint: String) -> Hop {
    Hop {
        title,
        kind: "uncovered".to_owned(),
        hint: Some(hint),
        ..Hop::default()
    }
}

/// The name of a kind.
pub fn label(kind: Kind) -> &'static str {
    match kind {
        Kind::Inside => "inside",
        Kind::Wire => "wire",
        Kind::Around => "around",
        Kind::Probe => "probe",
        Kind::RoundTrip => "round_trip",
    }
}

/// Seconds since an epoch of a switch ended ([`State::age_ns`]).
pub fn age_s(state: &State, end_unix_ns: u64, now_unix_ns: u64) -> f64 {
    state.age_ns(end_unix_ns, now_unix_ns) as f64 / 1e9
}

/// From sums to figures.
pub fn figures(sums: &Sums) -> SegmentFigures {
    let samples = sums.samples as f64;
    let mean_ns = (sums.samples > 0).then(|| sums.sum_ns / samples);
    let with_all = |without: u64| mean_ns.filter(|_| without == 0);
    SegmentFigures {
        packets: sums.packets,
        lost: sums.lost,
        samples: sums.samples,
        mean_ns,
        bound_ns: with_all(sums.unbounded).map(|_| sums.bounds_ns / samples),
        stddev_ns: with_all(sums.undeviated)
            .map(|mean| (sums.squares_ns2 / samples - mean.powi(2)).max(0.0).sqrt()),
        p99_ns: sums.p99_ns.map(f64::from),
        max_ns: sums.max_ns.map(f64::from),
    }
}

/// A segment as its switch reported it last.
pub fn segment(state: &State, known: &Known, now_unix_ns: u64) -> StationSegment {
    let last = &known.last;
    StationSegment {
        switch: state.switch.clone(),
        kind: label(last.kind()).to_owned(),
        from: state.name(last.from).to_owned(),
        to: state.name(last.to).to_owned(),
        class: state.name(last.class).to_owned(),
        method: if last.samples > 0 {
            state.name(last.method).to_owned()
        } else {
            String::new()
        },
        age_s: age_s(state, known.end_unix_ns, now_unix_ns),
        figures: figures(&Sums::of(last)),
    }
}

/// The sum over the hops that are covered, and the share of packets that are lost on the way.
///
/// Bounds add as they are: those of wires have the clocks' errors in them, which are of one sign for all packets, so that
/// the root of the sum of squares would be too small. Variances add, as delays of different segments are nearly independent.
fn sum(chain: &[Hop]) -> (SegmentFigures, f64) {
    let covered: Vec<&SegmentFigures> = chain
        .iter()
        .filter_map(|hop| hop.figures.as_ref())
        .collect();
    let total = |of: fn(&SegmentFigures) -> Option<f64>| -> Option<f64> {
        let parts: Option<Vec<f64>> = covered.iter().map(|figures| of(figures)).collect();
        parts
            .filter(|parts| !parts.is_empty())
            .map(|parts| parts.iter().sum())
    };
    let passed: f64 = covered.iter().map(|figures| 1.0 - loss(figures)).product();
    let sum = SegmentFigures {
        packets: covered
            .iter()
            .map(|figures| figures.packets)
            .min()
            .unwrap_or_default(),
        lost: covered
            .iter()
            .fold(0, |sum: i64, figures| sum.saturating_add(figures.lost)),
        samples: covered
            .iter()
            .map(|figures| figures.samples)
            .min()
            .unwrap_or_default(),
        mean_ns: total(|figures| figures.mean_ns),
        bound_ns: total(|figures| figures.bound_ns),
        stddev_ns: total(|figures| figures.stddev_ns.map(|stddev| stddev.powi(2))).map(f64::sqrt),
        p99_ns: None,
        max_ns: None,
    };
    (sum, 1.0 - passed)
}

/// Share of packets lost, 0 to 1.
fn loss(figures: &SegmentFigures) -> f64 {
    (figures.lost as f64 / figures.packets.max(1) as f64).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests;
