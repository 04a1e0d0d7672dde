//! Ways through a switch that leave it and come back: around devices between ports of it.

use std::collections::{HashMap, VecDeque};

use report::msp::Kind;

use crate::state::{Known, State};

/// The fewest segments that lead from one port of a switch to another, devices among them; none where nothing leads there.
pub(super) fn way<'s>(state: &'s State, from: &'s str, to: &str) -> Vec<&'s Known> {
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
