//! Probes between nodes: they cover links, and ways over routers that measure nothing, where no wire does or wires are idle.

use std::collections::{HashMap, HashSet};

use records::station::Hop;
use report::msp::Kind;
use topology::{LINKS_MAX, ROUTERS_MAX, Topology, Weight};

use super::{Network, label};
use crate::state::{Known, State};

/// A probe fills in where a wire has had no packets for so long, and for three epochs.
const IDLE_S: f64 = 10.0;

/// Weight of a link that only probes know: paths take wires where there are any.
const PROBED: f64 = 1e6;

/// All probes that are reported.
pub(super) struct Probes<'s> {
    nodes: HashSet<&'s str>,
    /// By the first node, and the last.
    between: HashMap<&'s str, HashMap<&'s str, Vec<Reported<'s>>>>,
}

/// A segment, and who reports it.
type Reported<'s> = (&'s State, &'s Known);

impl<'s> Probes<'s> {
    pub fn of(states: &'s [State]) -> Self {
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
    pub fn is_node(&self, name: &str) -> bool {
        self.nodes.contains(name)
    }

    /// Segments from one node to another.
    pub fn between(&self, from: &str, to: &str) -> &[Reported<'s>] {
        let found = self.between.get(from).and_then(|from| from.get(to));
        found.map_or(&[], Vec::as_slice)
    }
}

/// Whether it is the kind of a segment that probes measure.
pub(super) fn is_probe(kind: &str) -> bool {
    [Kind::Probe, Kind::RoundTrip].map(label).contains(&kind)
}

/// The network by wires, and by probes where no wires lead; and how many links it has no room for. All switches are in it, then
/// each has a link in turn, so that none takes the room of the others.
pub(super) fn joined<'s>(
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
pub(super) struct Step<'a> {
    /// Place in the route where it ends.
    pub to: usize,
    /// The ports at both ends.
    pub ports: [Option<&'a str>; 2],
    pub hop: Hop,
}

/// By which probes a route goes on, from each place to one not behind `stop`.
pub(super) struct Choices {
    begin: usize,
    stop: usize,
    best: Vec<Choice>,
}

/// Links uncovered from a place on, places without an end of a probe, and where the probe from there ends.
type Choice = (usize, usize, Option<usize>);

impl<'s> Network<'s> {
    /// The next step of a route: a wire that has packets, else a probe, else the link that nothing covers.
    pub(super) fn step<'a>(
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
    pub(super) fn port_to(&self, switch: &str, neighbour: &str) -> Option<&str> {
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

#[cfg(test)]
mod tests;
