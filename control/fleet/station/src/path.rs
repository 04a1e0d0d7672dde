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
    Hop, MapLink, MapRouter, NetworkMap, PathAnswer, Paths, SegmentFigures, StationSegment,
};
use report::msp::{Kind, Neighbour};
use topology::{LINKS_MAX, ROUTERS_MAX, Topology, Weight};

use crate::fleet::by_number;
use crate::place::{PROBES, Place, label, title};
use crate::state::{State, Sums};
use crate::summary::seconds;

/// Largest number of paths in an answer.
pub const PATHS_MAX: usize = 16;

/// Why there is no path.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// An end is unknown.
    #[error(
        "{0} is neither a switch that reports nor a router of the topology; see /api/v1/switches"
    )]
    Unknown(String),
    /// Both ends are known, but not connected.
    #[error(
        "no path leads from {0} to {1}; see `neighbours` of the switches, or the topology's file"
    )]
    Apart(String, String),
}

/// Returns the name of the switch or device at the other end of a link.
fn name_of<'s>(link: &'s Neighbour, numbers: &HashMap<u32, &'s State>) -> Option<&'s str> {
    let by_wire = || Some(numbers.get(&link.wire_switch()?)?.switch.as_str());
    link.system.as_deref().or_else(by_wire)
}

/// All switches with the links between them.
pub struct Network<'s> {
    states: HashMap<&'s str, &'s State>,
    /// Nodes where probes begin or end.
    nodes: HashSet<&'s str>,
    /// Probes by their first and last node.
    probes: HashMap<&'s str, HashMap<&'s str, Vec<Place<'s>>>>,
    numbers: HashMap<u32, &'s State>,
    topology: Topology,
    /// Number of links for which the topology has no room.
    left_out: u64,
    now_unix_ns: u64,
}

/// The known ports at both ends of a link.
type Ports<'a> = [Option<&'a str>; 2];

impl<'s> Network<'s> {
    /// Creates a network from a topology file. Without one, uses the wires and LLDP neighbours that the switches
    /// report, and probes where neither connects nodes.
    pub fn new(states: &'s [State], file: Option<&Topology>, now_unix_ns: u64) -> Self {
        let numbers = by_number(states);
        let (topology, left_out) = match file {
            Some(file) => (file.clone(), 0),
            None => joined(states, &numbers),
        };
        let mut probes: HashMap<&str, HashMap<&str, Vec<_>>> = HashMap::new();
        let mut nodes = HashSet::new();
        for probe in states.iter().flat_map(State::places) {
            if probe.is_probe() {
                let [from, to] = probe.ends();
                nodes.extend([from, to]);
                let from = probes.entry(from).or_default();
                from.entry(to).or_default().push(probe);
            }
        }
        Self {
            states: states
                .iter()
                .filter(|state| state.node.is_none())
                .map(|state| (state.switch.as_str(), state))
                .collect(),
            nodes,
            probes,
            numbers,
            topology,
            left_out,
            now_unix_ns,
        }
    }

    /// Returns the routers and links.
    pub fn map(&self) -> NetworkMap {
        let topology = &self.topology;
        let routers = topology.routers().map(|router| {
            let name = topology.name(router);
            MapRouter {
                name: name.to_owned(),
                reports: self.states.contains_key(name) || self.nodes.contains(name),
            }
        });
        let links = topology
            .all_links()
            .map(|(a, b, _)| [a.min(b), a.max(b)].map(|router| topology.name(router)));
        let links: BTreeSet<_> = links.collect();
        let measured = self.measured();
        let links = links.into_iter().map(|ends| {
            let [from, to] = ends.map(str::to_owned);
            let mut sorted = ends;
            sorted.sort_unstable();
            let of = measured.get(&sorted).copied().unwrap_or_default();
            MapLink {
                from,
                to,
                mean_ns: of[0],
                loss_ratio: of[1],
            }
        });
        NetworkMap {
            routers: routers.collect(),
            links: links.collect(),
            left_out: self.left_out,
        }
    }

    /// Returns the greatest mean delay in nanoseconds and the greatest share of packets lost on the wires between two
    /// reporting switches, by their names in order.
    fn measured(&self) -> HashMap<[&str; 2], [Option<f64>; 2]> {
        let mut measured: HashMap<_, [Option<f64>; 2]> = HashMap::new();
        let reporting = self.states.values();
        for state in reporting.filter(|state| !state.is_silent(self.now_unix_ns)) {
            for link in &state.neighbours {
                let Some(peer) = name_of(link, &self.numbers) else {
                    continue;
                };
                let mut ends = [state.switch.as_str(), peer];
                ends.sort_unstable();
                let [here, _] = state.ports(link);
                let wires = state
                    .places()
                    .filter(|place| place.kind() == Kind::Wire && place.ends().contains(&here));
                let greatest = measured.entry(ends).or_default();
                for figures in wires.map(Place::figures) {
                    let loss = figures.lost as f64 / figures.packets as f64;
                    let found = [figures.mean_ns, (figures.packets > 0).then_some(loss)];
                    for (greatest, found) in greatest.iter_mut().zip(found) {
                        let larger = |found: f64| greatest.map_or(found, |most| most.max(found));
                        *greatest = found.map(larger).or(*greatest);
                    }
                }
            }
        }
        measured
    }

    /// Returns all paths of least cost between two ends, with the figures of one class, or of all classes joined.
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
            let names = route.iter().map(|&router| self.topology.name(router));
            let route: Vec<&str> = names.collect();
            for links in self.links(&route) {
                let walk = Walk {
                    network: self,
                    route: &route,
                    links: &links,
                    class,
                    choices: None,
                };
                paths.push(walk.path([first.1, last.1]));
            }
            if paths.len() > PATHS_MAX {
                break;
            }
        }
        let is_cut = paths.len() > PATHS_MAX;
        paths.truncate(PATHS_MAX);
        Ok(Paths {
            from: from.to_owned(),
            to: to.to_owned(),
            is_cut,
            paths,
        })
    }

    /// Returns the ports at both ends of each link of a route; several lists if links are parallel.
    fn links<'a>(&'a self, route: &[&str]) -> Vec<Vec<Ports<'a>>> {
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

    /// Returns pairs of ports that connect one switch to the next.
    fn ports(&self, from: &str, to: &str) -> Vec<Ports<'_>> {
        let leads = |switch: &str, other: &str| {
            let state = self.states.get(switch).into_iter();
            let links = state.flat_map(|state| state.neighbours.iter().map(move |of| (*state, of)));
            let to_it = links.filter(|(_, link)| name_of(link, &self.numbers) == Some(other));
            let ports = to_it.map(|(state, link)| {
                let [here, there] = state.ports(link);
                // A link known only by LLDP has no wire at the other end.
                [Some(here), link.system.is_none().then_some(there)]
            });
            ports.collect::<Vec<_>>()
        };
        let mut ports = leads(from, to);
        if ports.is_empty() {
            let back = leads(to, from).into_iter();
            ports.extend(back.map(|[into, out]| [out, into]));
        }
        if ports.is_empty() {
            ports.push([None, None]);
        }
        ports
    }

    /// Returns the port of a switch that has the name of a neighbour, for neighbours without a wire.
    fn port_to(&self, switch: &str, neighbour: &str) -> Option<&str> {
        let inside = self.states.get(switch)?.places();
        let inside = inside.filter(|place| place.kind() == Kind::Inside);
        inside.flat_map(Place::ends).find(|port| *port == neighbour)
    }

    /// Returns the age in seconds at which the figures of a wire to this switch make it count as idle.
    fn patience_s(&self, switch: &str) -> f64 {
        let length_ns = self.states.get(switch).map_or(0, |state| state.length_ns);
        IDLE_S.max(3.0 * length_ns as f64 / 1e9)
    }

    /// Returns the probes from one node to another.
    fn probes(&self, from: &str, to: &str) -> &[Place<'s>] {
        let found = self.probes.get(from).and_then(|from| from.get(to));
        found.map_or(&[], Vec::as_slice)
    }
}

/// A route, with the ports at both ends of each of its links.
struct Walk<'a> {
    network: &'a Network<'a>,
    route: &'a [&'a str],
    links: &'a [Ports<'a>],
    class: Option<&'a str>,
    choices: Option<Choices>,
}

/// The best probes along a route, from each place to a place at or before `stop`.
struct Choices {
    begin: usize,
    stop: usize,
    best: Vec<Choice>,
}

/// The number of links that remain uncovered from a place, the number of places skipped by probes, and the end of the
/// next probe.
type Choice = (usize, usize, Option<usize>);

/// A step from one node of a route to another, over a wire or a probe.
struct Step<'a> {
    /// Place in the route where the step ends.
    to: usize,
    ports: Ports<'a>,
    hop: Hop,
}

impl<'a> Walk<'a> {
    /// Returns the path between these ports of the first and the last switch.
    fn path(mut self, [first, last]: Ports<'_>) -> PathAnswer {
        let (network, route) = (self.network, self.route);
        let mut chain: Vec<Hop> = Vec::new();
        let mut into = first;
        let mut place = 0;
        while let Some(&switch) = route.get(place) {
            let step = (place + 1 < route.len()).then(|| self.step(place));
            let out = match &step {
                Some(step) => {
                    let named = || network.port_to(switch, route[place + 1]);
                    step.ports[0].or_else(named)
                }
                None => last,
            };
            let is_probe = |hop: &Hop| PROBES.map(label).contains(&&*hop.kind);
            let is_at_probe = chain.last().is_some_and(is_probe)
                || step.as_ref().is_some_and(|step| is_probe(&step.hop));
            // If there is no switch at a node, a prober's own probes include the node.
            let is_switch = network.states.contains_key(switch);
            if is_switch || !is_at_probe || !network.nodes.contains(switch) {
                chain.extend(self.through(switch, [into, out]));
            }
            let Some(step) = step else { break };
            chain.push(step.hop);
            let named = || network.port_to(route[step.to], route[step.to - 1]);
            into = step.ports[1].or_else(named);
            place = step.to;
        }
        let (sum, loss_ratio) = sum(&chain);
        PathAnswer {
            switches: route.iter().map(|&name| name.to_owned()).collect(),
            is_covered: chain.iter().all(Hop::is_covered),
            chain,
            sum,
            loss_ratio,
            end_to_end: self.end_to_end(),
            failed: Vec::new(),
        }
    }

    /// Returns the hops through a switch: from port to port, or around devices between its ports.
    fn through(&self, switch: &str, ends @ [into, out]: Ports<'_>) -> Vec<Hop> {
        let title = title(switch, ends);
        let Some(&state) = self.network.states.get(switch) else {
            let hint = format!(
                "{switch} does not report: give its configuration a `report`, or probe past it"
            );
            return vec![uncovered(title, hint)];
        };
        if let Some(hop) = self.within(state, Kind::Inside, ends) {
            return vec![hop];
        }
        let no_packets = |title| {
            let hint = format!("{switch} has reported no packets between these ports");
            uncovered(title, hint)
        };
        let ports = into.zip(out);
        let way = ports.map_or_else(Vec::new, |(into, out)| way(state, into, out));
        if way.is_empty() {
            return vec![no_packets(title)];
        }
        let hops = way.into_iter().map(|place| {
            let hop = self.within(state, place.kind(), place.ends().map(Some));
            hop.unwrap_or_else(|| no_packets(place.title()))
        });
        hops.collect()
    }

    /// Joins the segments of a switch between these ends.
    fn within(&self, state: &State, kind: Kind, ends: Ports<'_>) -> Option<Hop> {
        let is_there = |place: &Place| {
            let mut both = ends.iter().zip(place.ends());
            place.is_of(kind, self.class)
                && both.all(|(wanted, end)| wanted.is_none_or(|wanted| wanted == end))
        };
        let title = title(&state.switch, ends);
        self.hop(title, kind, state.places().filter(is_there))
    }

    /// Returns the hop from one switch to the next: as measured by the receiver, otherwise as reported to the sender.
    fn wire(&self, [from, to]: [&str; 2], [out, into]: Ports<'_>) -> Hop {
        let (Some(out), Some(into)) = (out, into) else {
            let hint = format!(
                "no wire is known between {from} and {to}: give their ports a `wire`, or probe this link"
            );
            return uncovered(format!("{from} > {to}"), hint);
        };
        let title = format!("{from}:{out} > {to}:{into}");
        let reported = [(to, into, 1), (from, out, 0)].into_iter();
        let hops = reported.filter_map(|(switch, port, end)| {
            let is_it =
                |place: &Place| place.is_of(Kind::Wire, self.class) && place.ends()[end] == port;
            let places = self.network.states.get(switch)?.places();
            self.hop(title.clone(), Kind::Wire, places.filter(is_it))
        });
        // The first covered hop, because `false` is less than `true`.
        hops.min_by_key(|hop| !hop.is_covered()).unwrap_or_else(|| {
            let hint = "the wire has no figures yet; see /api/v1/wires of both switches";
            uncovered(title.clone(), hint.to_owned())
        })
    }

    /// Joins segments into a hop; `None` without packets.
    fn hop<'p>(
        &self,
        title: String,
        kind: Kind,
        places: impl Iterator<Item = Place<'p>>,
    ) -> Option<Hop> {
        let network = self.network;
        let now_unix_ns = network.now_unix_ns;
        let mut sums = Sums::default();
        let mut joined = Vec::new();
        let mut age_s: f64 = 0.0;
        let places = places.filter(|place| place.known.last.samples > 0);
        let places = places.map(|place| (place, place.stale(&network.numbers, now_unix_ns)));
        let mut places: Vec<_> = places.collect();
        // Stale figures count only if there are no current ones.
        if places.iter().any(|(_, stale)| stale.is_none()) {
            places.retain(|(_, stale)| stale.is_none());
        }
        let mut stale = None;
        for (place, since) in places {
            sums.add(&Sums::of(&place.known.last));
            joined.push(place.joined());
            age_s = age_s.max(place.age_s(now_unix_ns));
            stale = stale.or(since);
        }
        let (since, why) = stale.unzip();
        (sums.samples > 0).then(|| Hop {
            title,
            kind: label(kind).to_owned(),
            hint: why.map(|why| format!("old figures, not in the sum: {why}")),
            stale_since_unix_s: since.map(seconds),
            age_s: Some(age_s),
            figures: Some(sums.figures()),
            joined,
        })
    }

    /// Returns measurements over several links at once.
    fn end_to_end(&self) -> Vec<StationSegment> {
        let (Some(&first), Some(&last)) = (self.route.first(), self.route.last()) else {
            return Vec::new();
        };
        let probes = self.network.probes(first, last).iter();
        let one_way = probes.filter(|place| place.kind() == Kind::Probe);
        let found = one_way.map(|place| place.record(self.network.now_unix_ns));
        let mut found: Vec<_> = found.collect();
        found.sort_by(|a, b| a.switch.cmp(&b.switch));
        found
    }

    /// Returns the next step of a route: a wire with packets, otherwise a probe, otherwise an uncovered link.
    fn step(&mut self, place: usize) -> Step<'a> {
        let (network, route) = (self.network, self.route);
        let mut after = place + 1..route.len();
        let stop = after.find(|&at| network.states.contains_key(route[at]));
        let stop = stop.unwrap_or(route.len() - 1);
        // A wire may cross routers that measure nothing.
        let (wired_to, ports) = match self.links.get(place) {
            Some(&ports) if stop == place + 1 || ports[0].is_some() => (place + 1, ports),
            _ => match network.ports(route[place], route[stop]).first() {
                Some(&ports) if ports[0].is_some() => (stop, ports),
                _ => (place + 1, [None; 2]),
            },
        };
        let wire = Step {
            to: wired_to,
            ports,
            hop: self.wire([route[place], route[wired_to]], ports),
        };
        let patience_s = network.patience_s(route[wired_to]);
        if wire.hop.age_s.is_some_and(|age_s| age_s < patience_s) {
            return wire;
        }
        match self.probed(place, stop) {
            Some((to, hop)) if wire.hop.age_s.is_none_or(|age_s| hop.age_s < Some(age_s)) => Step {
                to,
                ports: if to == wire.to { ports } else { [None; 2] },
                hop,
            },
            _ => wire,
        }
    }

    /// Returns a probe from a place of the route to a place at or before `stop`: first the fewest uncovered links, then
    /// the most parts.
    fn probed(&mut self, place: usize, stop: usize) -> Option<(usize, Hop)> {
        // A choice for an earlier place is valid for later ones.
        let of_stop = |known: &Choices| known.stop == stop && known.begin <= place;
        let known = self.choices.take().filter(of_stop);
        let known = known.unwrap_or_else(|| Choices {
            begin: place,
            stop,
            best: self.best(&self.route[place..=stop]),
        });
        let known = self.choices.insert(known);
        let to = known.begin + known.best[place - known.begin].2?;
        Some((to, self.probe(&self.route[place..=to])?))
    }

    /// Returns the best choice for each place of a part of the route.
    fn best(&self, route: &[&str]) -> Vec<Choice> {
        let stop = route.len() - 1;
        let mut best: Vec<Choice> = vec![(0, 0, None); stop + 1];
        for from in (0..stop).rev() {
            let (uncovered, skipped, _) = best[from + 1];
            let mut choice = (uncovered + 1, skipped, None);
            for to in from + 1..=stop {
                let (uncovered, skipped, _) = best[to];
                let this = (uncovered, skipped + to - from - 1, Some(to));
                if (this.0, this.1) < (choice.0, choice.1) && self.is_probed(route[from], route[to])
                {
                    choice = this;
                }
            }
            best[from] = choice;
        }
        best
    }

    /// Returns whether probes cover the way from one node to another.
    fn is_probed(&self, from: &str, to: &str) -> bool {
        let is_of = |kind: Kind, found: &[Place]| {
            let mut found = found.iter().filter(|place| place.is_of(kind, self.class));
            found.any(|place| place.known.last.samples > 0)
        };
        let there = self.network.probes(from, to);
        is_of(Kind::Probe, there)
            || is_of(Kind::RoundTrip, there)
            || is_of(Kind::RoundTrip, self.network.probes(to, from))
    }

    /// Returns a hop by probes from the first node to the last: as measured by the sender, otherwise by the other end
    /// on the way back, otherwise half of the round trip.
    fn probe(&self, nodes: &[&str]) -> Option<Hop> {
        let (&from, &to) = (nodes.first()?, nodes.last()?);
        let there = self.network.probes(from, to);
        let both = [there, self.network.probes(to, from)].concat();
        let is_senders = |place: &Place| place.state.node.as_deref() == Some(from);
        let (own, others): (Vec<Place>, Vec<Place>) =
            there.iter().partition(|&place| is_senders(place));
        let of = |kind: Kind, found: Vec<Place>| {
            let found = found
                .into_iter()
                .filter(|place| place.is_of(kind, self.class));
            self.hop(nodes.join(" > "), kind, found)
        };
        let hops = [
            of(Kind::Probe, own),
            of(Kind::Probe, others),
            of(Kind::RoundTrip, both).map(half),
        ];
        let hops = hops.into_iter().flatten();
        // Probes that have ended, or whose clocks are no longer synchronised, are old.
        let is_present = |hop: &Hop| hop.age_s.is_some_and(|age_s| age_s < IDLE_S);
        let first = hops.clone().find(is_present);
        first.or_else(|| {
            hops.min_by(|a, b| f64::total_cmp(&a.age_s.unwrap_or(0.0), &b.age_s.unwrap_or(0.0)))
        })
    }
}

fn uncovered(title: String, hint: String) -> Hop {
    Hop {
        title,
        kind: "uncovered".to_owned(),
        hint: Some(hint),
        ..Hop::default()
    }
}
/// Returns the sum over the hops that are measured now, and the share of packets lost on the way.
///
/// Bounds are added linearly, because those of wires contain the clocks' errors, which have one sign for all packets:
/// the root of the sum of squares would be too small. Variances are added because the delays of different segments are
/// nearly independent.
fn sum(chain: &[Hop]) -> (SegmentFigures, f64) {
    let covered: Vec<&SegmentFigures> = chain
        .iter()
        .filter(|hop| hop.is_covered())
        .filter_map(|hop| hop.figures.as_ref())
        .collect();
    let total = |of: fn(&SegmentFigures) -> Option<f64>| {
        let total: Option<f64> = covered.iter().map(|figures| of(figures)).sum();
        total.filter(|_| !covered.is_empty())
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

/// Returns the share of packets lost, 0 to 1.
fn loss(figures: &SegmentFigures) -> f64 {
    (figures.lost as f64 / figures.packets.max(1) as f64).clamp(0.0, 1.0)
}

/// Parses the end of a path: a switch, and optionally its port, such as `edge-1` or `edge-1:lan`.
fn end(text: &str) -> (&str, Option<&str>) {
    match text.split_once(':') {
        Some((switch, port)) => (switch, Some(port)),
        None => (text, None),
    }
}

/// A wire without packets for this long, and for three epochs, is replaced by a probe.
const IDLE_S: f64 = 10.0;

/// Weight of a link known only from probes, so that paths prefer wires.
const PROBED: f64 = 1e6;

/// Returns the network of the wires, and of probes where there are no wires, with the number of links for which it has
/// no room. All switches are included first; then each adds one link in turn, so that none takes the room of the
/// others.
fn joined<'s>(states: &'s [State], numbers: &HashMap<u32, &'s State>) -> (Topology, u64) {
    // Numbers of both ends. A switch that claims the number of another gives no evidence of that switch's wires.
    let claimed = states.iter().filter_map(|state| {
        let own = own_number(numbers, state)?;
        let others = state.neighbours.iter().filter_map(Neighbour::wire_switch);
        Some(others.map(move |other| (own, other)))
    });
    let claimed: HashSet<(u32, u32)> = claimed.flatten().collect();
    // If both ends of a wire report, both must report the wire: no switch can create a link by its own report alone.
    let is_mutual = &|state: &State, link: &Neighbour| {
        link.wire_switch().is_none_or(|peer| {
            let own = own_number(numbers, state);
            !numbers.contains_key(&peer) || own.is_some_and(|own| claimed.contains(&(peer, own)))
        })
    };
    let links_of = |state: &'s State| {
        // Every node is included, even without links.
        let node = state.node.as_ref().unwrap_or(&state.switch).as_str();
        let others = state.neighbours.iter();
        let others = others.filter(move |other| is_mutual(state, other));
        let others = others.filter_map(|other| name_of(other, numbers));
        let wires = others.map(|other| [state.switch.as_str(), other]);
        let wires = std::iter::once([node, node]).chain(wires);
        let probes = state.places().filter(|place| place.is_probe());
        let probes = probes.map(|place| (place.ends(), PROBED));
        wires.map(|ends| (ends, 1.0)).chain(probes)
    };
    let mut open: Vec<_> = states.iter().map(links_of).collect();
    let mut names = HashSet::new();
    let mut links: HashMap<[&str; 2], f64> = HashMap::new();
    let mut left_out = 0;
    while !open.is_empty() {
        open.retain_mut(|of_state| {
            let Some(([a, b], weight)) = of_state.next() else {
                return false;
            };
            let ends = [a.min(b), a.max(b)];
            if let Some(known) = links.get_mut(&ends) {
                *known = f64::min(weight, *known);
                return true;
            }
            let new = ends.iter().filter(|name| !names.contains(**name)).count();
            // Each direction is a separate link.
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

/// Returns the number of a switch, unless another switch holds it.
fn own_number(numbers: &HashMap<u32, &State>, state: &State) -> Option<u32> {
    let holds = |own: &u32| {
        let holder = numbers.get(own);
        holder.is_some_and(|holder| holder.switch == state.switch)
    };
    state.wire_switch.filter(holds)
}

/// Estimates one direction by half of the round trip; it may be any part of it.
fn half(mut hop: Hop) -> Hop {
    hop.hint.get_or_insert_with(|| {
        "half of the round trip; either direction may account for all of it. Synchronise the clocks of both ends, and configure `clock.error_ns`"
            .to_owned()
    });
    if let Some(figures) = &mut hop.figures {
        let mean_ns = figures.mean_ns.map(|mean_ns| mean_ns / 2.0);
        let bound_ns = figures.bound_ns.map(|bound_ns| bound_ns / 2.0);
        figures.bound_ns = mean_ns.zip(bound_ns).map(|(mean, bound)| mean + bound);
        figures.mean_ns = mean_ns;
        (figures.stddev_ns, figures.p99_ns, figures.max_ns) = (None, None, None);
    }
    hop
}

/// Returns the shortest sequence of segments, including devices, that leads from one port of a switch to another; empty
/// if there is none.
fn way<'s>(state: &'s State, from: &'s str, to: &str) -> Vec<Place<'s>> {
    let mut leading: HashMap<&str, Vec<(Place, &str)>> = HashMap::new();
    for place in state.places() {
        if let Some([start, next]) = place.ports() {
            leading.entry(start).or_default().push((place, next));
        }
    }
    // The last segment to each port, with the port before it.
    let mut by: HashMap<&str, (Place, &str)> = HashMap::new();
    let mut reached = VecDeque::from([from]);
    while let Some(port) = reached.pop_front() {
        if port == to {
            break;
        }
        for &(place, next) in leading.get(port).into_iter().flatten() {
            if next != from && !by.contains_key(next) {
                by.insert(next, (place, port));
                reached.push_back(next);
            }
        }
    }
    let mut way = Vec::new();
    let mut port = to;
    while let Some(&(place, before)) = by.get(port).filter(|_| port != from) {
        way.push(place);
        port = before;
    }
    way.reverse();
    way
}

#[cfg(test)]
mod tests;
