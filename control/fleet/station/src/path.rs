//! The segments of a path, and their sum.
//!
//! ```text
//!  edge-1: lan>wan   edge-1:wan > edge-2:wan   edge-2: wan>lan
//!      inside                 wire                 inside
//!
//!  edge-1: lan>in   edge-1: firewall:in>firewall:out   edge-1: out>wan
//!      inside                    around                    inside
//! ```

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use records::station::{
    Hop, Joined, MapLink, MapRouter, NetworkMap, PathAnswer, Paths, SegmentFigures, StationSegment,
};
use report::msp::{Kind, Neighbour};
use topology::{LINKS_MAX, ROUTERS_MAX, Topology, Weight};

use crate::fleet::by_number;
use crate::state::{Known, State, Sums};

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
            None => joined(states, |state| {
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

    /// Its routers and links.
    pub fn map(&self) -> NetworkMap {
        let topology = &self.topology;
        let routers = topology.routers().map(|router| {
            let name = topology.name(router);
            MapRouter {
                name: name.to_owned(),
                reports: self.states.contains_key(name) || self.probes.is_node(name),
            }
        });
        let links = topology.all_links().map(|(a, b, _)| {
            let [from, to] = [a.min(b), a.max(b)].map(|router| topology.name(router).to_owned());
            MapLink { from, to }
        });
        NetworkMap {
            routers: routers.collect(),
            links: links.collect::<BTreeSet<_>>().into_iter().collect(),
            left_out: self.left_out,
        }
    }

    /// All paths of least cost between two ends; figures of one class, or of all joined.
    ///
    /// # Errors
    /// [`PathError`].
    pub fn paths(&self, from: &str, to: &str, class: Option<&str>) -> Result<Paths, PathError> {
        let (first, last) = (end(from), end(to));
        let router = |switch: &str| {
            let router = self.topology.find(switch);
            router.ok_or_else(|| PathError::Unknown(switch.to_owned()))
        };
        let alternatives = self
            .topology
            .between(router(first.0)?, router(last.0)?, PATHS_MAX + 1);
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
                paths.push(self.path(&names, &links, [first.1, last.1], class));
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
        let way = ports.map_or_else(Vec::new, |(into, out)| way(state, into, out));
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
        let found = self.probes.between(first, last).iter();
        let found = found.filter(|(_, known)| known.last.kind() == Kind::Probe);
        let found = found.map(|(state, known)| segment(state, known, self.now_unix_ns));
        let mut found: Vec<_> = found.collect();
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
    let least = |of: fn(&SegmentFigures) -> u64| {
        let parts = covered.iter().map(|figures| of(figures));
        parts.min().unwrap_or_default()
    };
    let lost = covered.iter().map(|figures| figures.lost);
    let passed: f64 = covered.iter().map(|figures| 1.0 - loss(figures)).product();
    let sum = SegmentFigures {
        packets: least(|figures| figures.packets),
        lost: lost.fold(0, i64::saturating_add),
        samples: least(|figures| figures.samples),
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

/// The end of a path as it is asked for: a switch, and perhaps its port: `edge-1` or `edge-1:lan`.
fn end(text: &str) -> (&str, Option<&str>) {
    match text.split_once(':') {
        Some((switch, port)) => (switch, Some(port)),
        None => (text, None),
    }
}

/// A probe fills in where a wire has had no packets for so long, and for three epochs.
const IDLE_S: f64 = 10.0;

/// Weight of a link that only probes know: paths take wires where there are any.
const PROBED: f64 = 1e6;

/// All probes that are reported.
struct Probes<'s> {
    nodes: HashSet<&'s str>,
    /// By the first node, and the last.
    between: HashMap<&'s str, HashMap<&'s str, Vec<Reported<'s>>>>,
}

/// A segment, and who reports it.
type Reported<'s> = (&'s State, &'s Known);

impl<'s> Probes<'s> {
    fn of(states: &'s [State]) -> Self {
        let mut between: HashMap<&str, HashMap<&str, Vec<_>>> = HashMap::new();
        let mut nodes = HashSet::new();
        for state in states {
            for known in &state.segments {
                if is_probe(label(known.last.kind())) {
                    let [from, to] = [known.last.from, known.last.to].map(|name| state.name(name));
                    nodes.extend([from, to]);
                    let from = between.entry(from).or_default();
                    from.entry(to).or_default().push((state, known));
                }
            }
        }
        Self { nodes, between }
    }

    /// Whether probes begin or end there.
    fn is_node(&self, name: &str) -> bool {
        self.nodes.contains(name)
    }

    /// Segments from one node to another.
    fn between(&self, from: &str, to: &str) -> &[Reported<'s>] {
        let found = self.between.get(from).and_then(|from| from.get(to));
        found.map_or(&[], Vec::as_slice)
    }
}

/// Whether it is the kind of a segment that probes measure.
fn is_probe(kind: &str) -> bool {
    [Kind::Probe, Kind::RoundTrip].map(label).contains(&kind)
}

/// The network by wires, and by probes where no wires lead; and how many links it has no room for. All switches are in it, then
/// each has a link in turn, so that none takes the room of the others.
fn joined<'s>(
    states: &'s [State],
    wires: impl Fn(&'s State) -> Vec<[&'s str; 2]>,
) -> (Topology, u64) {
    let mut open: Vec<_> = states
        .iter()
        .map(|state| {
            let segments = state.segments.iter();
            let segments = segments.filter(|known| is_probe(label(known.last.kind())));
            let by_probes = segments.map(|known| {
                let [from, to] = [known.last.from, known.last.to].map(|name| state.name(name));
                (from, to, PROBED)
            });
            let wires = wires(state).into_iter();
            wires.map(|[a, b]| (a, b, 1.0)).chain(by_probes)
        })
        .collect();
    let mut names = HashSet::new();
    let mut links: HashMap<[&str; 2], f64> = HashMap::new();
    let mut left_out = 0;
    while !open.is_empty() {
        open.retain_mut(|of_state| {
            let Some((a, b, weight)) = of_state.next() else {
                return false;
            };
            let ends = [a.min(b), a.max(b)];
            if let Some(known) = links.get_mut(&ends) {
                *known = f64::min(weight, *known);
                return true;
            }
            let new = ends.iter().filter(|name| !names.contains(**name)).count();
            // Each direction is a link by itself.
            if names.len() + new > ROUTERS_MAX || links.len() >= LINKS_MAX / 2 {
                left_out += 1;
            } else {
                names.extend(ends);
                links.insert(ends, weight);
            }
            true
        });
    }
    let weight = |weight| Weight::new(weight).unwrap_or(Weight::ONE);
    let links = links.into_iter();
    let links = links.map(|([a, b], of)| (a, b, weight(of)));
    (Topology::of_weighted_links(links), left_out)
}

/// From one node of a route to another, over a wire or a probe.
struct Step<'a> {
    /// Place in the route where it ends.
    to: usize,
    /// The ports at both ends.
    ports: [Option<&'a str>; 2],
    hop: Hop,
}

/// By which probes a route goes on, from each place to one not behind `stop`.
struct Choices {
    begin: usize,
    stop: usize,
    best: Vec<Choice>,
}

/// Links uncovered from a place on, places without an end of a probe, and where the probe from there ends.
type Choice = (usize, usize, Option<usize>);

impl<'s> Network<'s> {
    /// The next step of a route: a wire that has packets, else a probe, else the link that nothing covers.
    fn step<'a>(
        &'a self,
        route: &[&str],
        links: &[[Option<&'a str>; 2]],
        place: usize,
        class: Option<&str>,
        choices: &mut Option<Choices>,
    ) -> Step<'a> {
        let mut after = place + 1..route.len();
        let stop = after.find(|&at| self.states.contains_key(route[at]));
        let stop = stop.unwrap_or(route.len() - 1);
        // A wire may lead over routers that measure nothing.
        let (wired_to, ports) = match links.get(place) {
            Some(&ports) if stop == place + 1 || ports[0].is_some() => (place + 1, ports),
            _ => match self.ports(route[place], route[stop]).first() {
                Some(&ports) if ports[0].is_some() => (stop, ports),
                _ => (place + 1, [None; 2]),
            },
        };
        let hop = self.wire([route[place], route[wired_to]], ports, class);
        let wire = Step {
            to: wired_to,
            ports,
            hop,
        };
        let patience_s = self.patience_s(route[wired_to]);
        if wire.hop.age_s.is_some_and(|age_s| age_s < patience_s) {
            return wire;
        }
        let probed = self.probed(route, place, stop, class, choices);
        match probed {
            Some((to, hop)) if wire.hop.age_s.is_none_or(|age_s| hop.age_s < Some(age_s)) => Step {
                to,
                ports: if to == wire.to { ports } else { [None; 2] },
                hop,
            },
            _ => wire,
        }
    }

    /// The port of a switch that has the name of a neighbour, where no wire says which one leads there.
    fn port_to(&self, switch: &str, neighbour: &str) -> Option<&str> {
        let state = self.states.get(switch)?;
        let inside = state
            .segments
            .iter()
            .filter(|known| known.last.kind() == Kind::Inside);
        let mut ports = inside.flat_map(|known| [known.last.from, known.last.to]);
        let port = ports.find(|&port| state.name(port) == neighbour)?;
        Some(state.name(port))
    }

    /// How old the figures of a wire to this switch may be before it counts as idle.
    fn patience_s(&self, switch: &str) -> f64 {
        let length_ns = self.states.get(switch).map_or(0, |state| state.length_ns);
        IDLE_S.max(3.0 * length_ns as f64 / 1e9)
    }

    /// Of the probes from a place of the route to one not behind `stop` that with which the fewest links are left uncovered,
    /// in the most parts.
    fn probed(
        &self,
        route: &[&str],
        place: usize,
        stop: usize,
        class: Option<&str>,
        choices: &mut Option<Choices>,
    ) -> Option<(usize, Hop)> {
        // What was chosen for an earlier place holds for those behind it.
        let of_stop = |known: &Choices| known.stop == stop && known.begin <= place;
        let known = choices.take().filter(of_stop);
        let known = choices.insert(known.unwrap_or_else(|| Choices {
            begin: place,
            stop,
            best: self.choices(&route[place..=stop], class),
        }));
        let to = known.begin + known.best[place - known.begin].2?;
        Some((to, self.probe(&route[place..=to], class)?))
    }

    /// The choice of each place of a route.
    fn choices(&self, route: &[&str], class: Option<&str>) -> Vec<Choice> {
        let stop = route.len() - 1;
        let mut best: Vec<Choice> = vec![(0, 0, None); stop + 1];
        for from in (0..stop).rev() {
            let (uncovered, skipped, _) = best[from + 1];
            let mut choice = (uncovered + 1, skipped, None);
            for to in from + 1..=stop {
                let (uncovered, skipped, _) = best[to];
                let this = (uncovered, skipped + to - from - 1, Some(to));
                if (this.0, this.1) < (choice.0, choice.1)
                    && self.is_probed(route[from], route[to], class)
                {
                    choice = this;
                }
            }
            best[from] = choice;
        }
        best
    }

    /// Whether there is a hop by probes from one node to another.
    fn is_probed(&self, from: &str, to: &str, class: Option<&str>) -> bool {
        let is_of = |kind: Kind, found: &[Reported<'s>]| {
            found.iter().any(|(state, known)| {
                known.last.kind() == kind
                    && known.last.samples > 0
                    && class.is_none_or(|class| state.name(known.last.class) == class)
            })
        };
        let there = self.probes.between(from, to);
        is_of(Kind::Probe, there)
            || is_of(Kind::RoundTrip, there)
            || is_of(Kind::RoundTrip, self.probes.between(to, from))
    }

    /// From the first node to the last: as the sender measures it, else as the other end did on the way back, else by the
    /// round trip.
    fn probe(&self, nodes: &[&str], class: Option<&str>) -> Option<Hop> {
        let (&from, &to) = (nodes.first()?, nodes.last()?);
        let there = self.probes.between(from, to);
        let back = self.probes.between(to, from);
        let title = nodes.join(" > ");
        let is_senders = |state: &State| state.node.as_deref() == Some(from);
        let of = |kind: Kind, found: &mut dyn Iterator<Item = &(&'s State, &'s Known)>| {
            let found = found.filter(|(state, known)| {
                known.last.kind() == kind
                    && class.is_none_or(|class| state.name(known.last.class) == class)
            });
            self.hop(title.clone(), kind, found.copied()).ok()
        };
        let hops = [
            of(
                Kind::Probe,
                &mut there.iter().filter(|(state, _)| is_senders(state)),
            ),
            of(
                Kind::Probe,
                &mut there.iter().filter(|(state, _)| !is_senders(state)),
            ),
            of(Kind::RoundTrip, &mut there.iter().chain(back)).map(half),
        ];
        let hops = hops.into_iter().flatten();
        // Those that have ended, or whose clocks are not synchronised any more, are old.
        let is_present = |hop: &Hop| hop.age_s.is_some_and(|age_s| age_s < IDLE_S);
        let first = hops.clone().find(is_present);
        first.or_else(|| {
            hops.min_by(|a, b| f64::total_cmp(&a.age_s.unwrap_or(0.0), &b.age_s.unwrap_or(0.0)))
        })
    }
}

/// What is known of one direction by the round trip: it is between none of it and all.
fn half(mut hop: Hop) -> Hop {
    hop.hint = Some(
        "half of the round trip; either direction may have all of it: synchronise the clocks of both ends, and say so (`clock.error_ns`)"
            .to_owned(),
    );
    if let Some(figures) = &mut hop.figures {
        let mean_ns = figures.mean_ns.map(|mean_ns| mean_ns / 2.0);
        let bound_ns = figures.bound_ns.map(|bound_ns| bound_ns / 2.0);
        figures.bound_ns = mean_ns.zip(bound_ns).map(|(mean, bound)| mean + bound);
        figures.mean_ns = mean_ns;
        (figures.stddev_ns, figures.p99_ns, figures.max_ns) = (None, None, None);
    }
    hop
}

/// What switches report of their wires.
struct Claims<'n, 's> {
    numbers: &'n HashMap<u32, &'s State>,
    /// A switch's number, and that of its neighbour.
    wires: HashSet<(u32, u32)>,
}

impl<'n, 's> Claims<'n, 's> {
    fn of(states: &[State], numbers: &'n HashMap<u32, &'s State>) -> Self {
        // Who claims the number of another says nothing of that switch's wires.
        let wires = states.iter().filter_map(|state| {
            let own = own_number(numbers, state)?;
            Some((own, state.neighbours.iter()))
        });
        let wires = wires.flat_map(|(own, others)| {
            let others = others.filter_map(Neighbour::wire_switch);
            others.map(move |other| (own, other))
        });
        let wires = wires.collect();
        Self { numbers, wires }
    }

    /// Whether both ends of a wire report it, if both report at all: no switch has links to others by its own report alone.
    fn is_mutual(&self, state: &State, link: &Neighbour) -> bool {
        let Some(peer) = link.wire_switch() else {
            return true;
        };
        let own = own_number(self.numbers, state);
        !self.numbers.contains_key(&peer)
            || own.is_some_and(|own| self.wires.contains(&(peer, own)))
    }
}

/// The number of a switch, unless that is another's.
fn own_number(numbers: &HashMap<u32, &State>, state: &State) -> Option<u32> {
    let holds = |own: &u32| {
        let holder = numbers.get(own);
        holder.is_some_and(|holder| holder.switch == state.switch)
    };
    state.wire_switch.filter(holds)
}

/// The fewest segments that lead from one port of a switch to another, devices among them; none where nothing leads there.
fn way<'s>(state: &'s State, from: &'s str, to: &str) -> Vec<&'s Known> {
    let mut leading: HashMap<&str, Vec<(&Known, &str)>> = HashMap::new();
    for known in &state.segments {
        if let Some([start, next]) = ends(state, known) {
            leading.entry(start).or_default().push((known, next));
        }
    }
    let mut by: HashMap<&str, &Known> = HashMap::new();
    let mut reached = VecDeque::from([from]);
    while let Some(port) = reached.pop_front() {
        if port == to {
            break;
        }
        for &(known, next) in leading.get(port).into_iter().flatten() {
            if next != from && !by.contains_key(next) {
                by.insert(next, known);
                reached.push_back(next);
            }
        }
    }
    let mut way = Vec::new();
    let mut port = to;
    while let Some(&known) = by.get(port).filter(|_| port != from) {
        way.push(known);
        let Some([start, _]) = ends(state, known) else {
            break;
        };
        port = start;
    }
    way.reverse();
    way
}

/// The ports that a segment joins: those of a switch, or those that lead to a device.
fn ends<'s>(state: &'s State, known: &Known) -> Option<[&'s str; 2]> {
    let names = [known.last.from, known.last.to].map(|name| state.name(name));
    match known.last.kind() {
        Kind::Inside => Some(names),
        Kind::Around => Some(names.map(|name| name.split_once(':').map_or(name, |(_, port)| port))),
        Kind::Wire | Kind::Probe | Kind::RoundTrip => None,
    }
}

#[cfg(test)]
mod tests;
