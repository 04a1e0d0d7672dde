//! A flow, hop by hop: the switches that report it among their top flows, in the order of the links between them.

use std::collections::{HashMap, HashSet};

use records::station::{FlowHop, FlowPath};
use report::msp::{Flow, Kind};

use crate::fleet::by_number;
use crate::path::{age_s, figures, label};
use crate::state::{Known, State, Sums};

/// A segment that saw the flow.
struct Seen<'s> {
    state: &'s State,
    flow: &'s Flow,
}

impl<'s> Seen<'s> {
    fn ends(&self) -> [&'s str; 2] {
        [self.flow.from, self.flow.to].map(|name| self.state.name(name))
    }

    fn hop(&self, now_unix_ns: u64) -> FlowHop {
        let [from, to] = self.ends();
        let flow = self.flow;
        FlowHop {
            title: format!("{}: {from}>{to}", self.state.switch),
            kind: label(Kind::Inside).to_owned(),
            is_of_flow: true,
            packets: flow.packets,
            lost: flow.lost.and_then(|lost| i64::try_from(lost).ok()),
            mean_ns: flow.mean_ns.map(f64::from),
            stddev_ns: flow.stddev_ns.map(f64::from),
            p99_ns: flow.p99_ns.map(f64::from),
            age_s: age_s(self.state, self.state.end_unix_ns, now_unix_ns),
        }
    }
}

/// What leads from one segment to the next.
#[derive(Clone)]
struct Link {
    to: usize,
    hop: Option<FlowHop>,
}

/// The flow of that name; `None` where no switch reports it.
pub fn flow(states: &[State], name: &str, now_unix_ns: u64) -> Option<FlowPath> {
    let seen = states
        .iter()
        .filter(|state| !state.is_silent(now_unix_ns))
        .flat_map(|state| {
            let flows = state.flows.iter().filter(|flow| flow.flow == name);
            flows.map(move |flow| Seen { state, flow })
        });
    let seen: Vec<Seen> = seen.collect();
    if seen.is_empty() {
        return None;
    }
    let numbers = by_number(states);
    let mut places = HashMap::new();
    for (place, seen) in seen.iter().enumerate() {
        let entered = (seen.state.switch.as_str(), seen.ends()[0]);
        places.entry(entered).or_insert(place);
    }
    let next: Vec<Option<Link>> = seen
        .iter()
        .map(|from| link(&places, from, &numbers, now_unix_ns))
        .collect();
    let behind: HashSet<usize> = next.iter().flatten().map(|link| link.to).collect();
    let starts: Vec<usize> = (0..seen.len())
        .filter(|place| !behind.contains(place))
        .collect();
    let mut hops = Vec::new();
    let mut visited = vec![false; seen.len()];
    for start in starts.iter().copied().chain(0..seen.len()) {
        let mut place = start;
        while !std::mem::replace(&mut visited[place], true) {
            hops.push(seen[place].hop(now_unix_ns));
            let Some(link) = &next[place] else { break };
            if !visited[link.to] {
                hops.extend(link.hop.clone());
            }
            place = link.to;
        }
    }
    let mean = |hop: &FlowHop| hop.mean_ns.unwrap_or(f64::NEG_INFINITY);
    let slowest = (0..hops.len()).max_by(|&a, &b| mean(&hops[a]).total_cmp(&mean(&hops[b])));
    let slowest = slowest.filter(|&place| hops[place].mean_ns.is_some());
    let sum: f64 = hops.iter().filter_map(|hop| hop.mean_ns).sum();
    let share = slowest.and_then(|place| hops[place].mean_ns.map(|mean| 100.0 * mean / sum));
    Some(FlowPath {
        flow: name.to_owned(),
        is_ordered: starts.len() == 1,
        slowest,
        slowest_percent: share.filter(|share| share.is_finite()),
        hops,
    })
}

/// To the segment that packets enter behind this one: over a wire, or around a device of the same switch.
fn link(
    places: &HashMap<(&str, &str), usize>,
    from: &Seen,
    numbers: &HashMap<u32, &State>,
    now_unix_ns: u64,
) -> Option<Link> {
    let [_, out] = from.ends();
    let at = |switch: &str, port: &str| places.get(&(switch, port)).copied();
    let class = from.state.name(from.flow.class);
    let ports = from.state.neighbours.iter();
    let by_wire = ports
        .filter(|other| from.state.name(other.port) == out)
        .find_map(|other| {
            let peer = numbers.get(&other.wire_switch()?)?;
            let into = from.state.name(other.peer_port);
            let to = at(&peer.switch, into)?;
            let title = format!("{}:{out} > {}:{into}", from.state.switch, peer.switch);
            let is_it = |known: &&Known| peer.name(known.last.to) == into;
            let hop = all_packets(peer, Kind::Wire, class, is_it, title, now_unix_ns);
            Some(Link { to, hop })
        });
    by_wire.or_else(|| {
        let state = from.state;
        let devices = state.segments.iter();
        devices
            .filter(|known| known.last.kind() == Kind::Around)
            .find_map(|known| {
                let ends = [known.last.from, known.last.to].map(|name| state.name(name));
                let ports = ends.map(|end| end.split_once(':').map_or(end, |(_, port)| port));
                let to = at(&state.switch, ports[1]).filter(|_| ports[0] == out)?;
                let title = format!("{}: {}>{}", state.switch, ends[0], ends[1]);
                let is_it = |other: &&Known| {
                    other.last.from == known.last.from && other.last.to == known.last.to
                };
                let hop = all_packets(state, Kind::Around, class, is_it, title, now_unix_ns);
                Some(Link { to, hop })
            })
    })
}

/// Figures of all packets of a class on a segment.
fn all_packets(
    state: &State,
    kind: Kind,
    class: &str,
    is_it: impl Fn(&&Known) -> bool,
    title: String,
    now_unix_ns: u64,
) -> Option<FlowHop> {
    let of_kind = state
        .segments
        .iter()
        .filter(|known| known.last.kind() == kind);
    let candidates: Vec<&Known> = of_kind.filter(is_it).collect();
    let of_class = candidates
        .iter()
        .find(|known| state.name(known.last.class) == class);
    let known = of_class.or_else(|| candidates.first())?;
    let figures = figures(&Sums::of(&known.last));
    Some(FlowHop {
        title,
        kind: label(kind).to_owned(),
        is_of_flow: false,
        packets: figures.packets,
        lost: Some(figures.lost),
        mean_ns: figures.mean_ns,
        stddev_ns: figures.stddev_ns,
        p99_ns: figures.p99_ns,
        age_s: age_s(state, known.end_unix_ns, now_unix_ns),
    })
}
