//! A flow, hop by hop: the switches that report it among their top flows, in the order of the links between them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use records::station::{FlowHop, FlowPath, StationFlow, StationFlows};
use report::msp::{Flow, Kind};

use crate::fleet::by_number;
use crate::place::{Place, label, title};
use crate::state::State;

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
        let flow = self.flow;
        FlowHop {
            title: title(&self.state.switch, self.ends().map(Some)),
            kind: label(Kind::Inside).to_owned(),
            is_of_flow: true,
            packets: flow.packets,
            lost: flow.lost.and_then(|lost| i64::try_from(lost).ok()),
            mean_ns: flow.mean_ns.map(f64::from),
            stddev_ns: flow.stddev_ns.map(f64::from),
            p99_ns: flow.p99_ns.map(f64::from),
            age_s: self.state.age_s(self.state.end_unix_ns, now_unix_ns),
        }
    }
}

/// The connection from one segment to the next.
#[derive(Clone)]
struct Link {
    to: usize,
    hop: Option<FlowHop>,
}

/// Returns the flows whose names contain every word of `contains`, those with most packets first.
pub fn flows(states: &[State], contains: &str, limit: usize, now_unix_ns: u64) -> StationFlows {
    let reporting = states.iter().filter(|state| !state.is_silent(now_unix_ns));
    let is_wanted = |flow: &&Flow| {
        let mut words = contains.split_whitespace();
        words.all(|word| flow.flow.contains(word))
    };
    let mut joined: BTreeMap<&str, StationFlow> = BTreeMap::new();
    for flow in reporting.flat_map(|state| &state.flows).filter(is_wanted) {
        let sum = joined.entry(&flow.flow).or_default();
        sum.segments += 1;
        sum.packets = sum.packets.max(flow.packets);
        sum.lost += flow.lost.unwrap_or_default();
        let mean_ns = flow
            .mean_ns
            .map(|mean_ns| sum.mean_ns.unwrap_or_default() + f64::from(mean_ns));
        sum.mean_ns = mean_ns.or(sum.mean_ns);
    }
    let matching = joined.len() as u64;
    let named = joined.into_iter().map(|(flow, sum)| StationFlow {
        flow: flow.to_owned(),
        ..sum
    });
    let mut flows: Vec<_> = named.collect();
    flows.sort_by_key(|flow| Reverse(flow.packets));
    flows.truncate(limit);
    StationFlows { matching, flows }
}

/// Returns the flow of that name; `None` if no switch reports it.
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

/// Returns the link to the segment that packets enter after this one: over a wire, or around a device of the same
/// switch.
fn link(
    places: &HashMap<(&str, &str), usize>,
    from: &Seen,
    numbers: &HashMap<u32, &State>,
    now_unix_ns: u64,
) -> Option<Link> {
    let state = from.state;
    let [_, out] = from.ends();
    let at = |switch: &str, port: &str| places.get(&(switch, port)).copied();
    let class = state.name(from.flow.class);
    let by_wire = state.neighbours.iter().find_map(|other| {
        let [here, into] = state.ports(other);
        let peer = numbers.get(&other.wire_switch()?).filter(|_| here == out)?;
        let to = at(&peer.switch, into)?;
        let title = format!("{}:{out} > {}:{into}", state.switch, peer.switch);
        let wires = peer.places().filter(|place| place.kind() == Kind::Wire);
        let wires = wires.filter(|place| place.ends()[1] == into);
        let hop = all_packets(wires, class, &title, now_unix_ns);
        Some(Link { to, hop })
    });
    let devices = || state.places().filter(|place| place.kind() == Kind::Around);
    by_wire.or_else(|| {
        devices().find_map(|device| {
            let [before, into] = device.ports()?;
            let to = at(&state.switch, into).filter(|_| before == out)?;
            let alike = devices().filter(|other| other.ends() == device.ends());
            let hop = all_packets(alike, class, &device.title(), now_unix_ns);
            Some(Link { to, hop })
        })
    })
}

/// Returns the figures of all packets of a class on a segment; those of another class if there are none.
fn all_packets<'s>(
    mut places: impl Iterator<Item = Place<'s>> + Clone,
    class: &str,
    title: &str,
    now_unix_ns: u64,
) -> Option<FlowHop> {
    let of_class = places.clone().find(|place| place.class() == class);
    let place = of_class.or_else(|| places.next())?;
    let figures = place.figures();
    Some(FlowHop {
        title: title.to_owned(),
        kind: label(place.kind()).to_owned(),
        is_of_flow: false,
        packets: figures.packets,
        lost: Some(figures.lost),
        mean_ns: figures.mean_ns,
        stddev_ns: figures.stddev_ns,
        p99_ns: figures.p99_ns,
        age_s: place.age_s(now_unix_ns),
    })
}
