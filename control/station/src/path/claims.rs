//! Which wires both of their ends report.

use std::collections::{HashMap, HashSet};

use report::msp::Neighbour;

use crate::state::State;

/// What switches report of their wires.
pub(super) struct Claims<'n, 's> {
    numbers: &'n HashMap<u32, &'s State>,
    /// A switch's number, and that of its neighbour.
    wires: HashSet<(u32, u32)>,
}

impl<'n, 's> Claims<'n, 's> {
    pub fn of(states: &[State], numbers: &'n HashMap<u32, &'s State>) -> Self {
        let wires = states.iter().flat_map(|state| {
            let others = state.neighbours.iter().filter_map(Neighbour::wire_switch);
            others.filter_map(|other| Some((state.wire_switch?, other)))
        });
        let wires = wires.collect();
        Self { numbers, wires }
    }

    /// Whether both ends of a wire report it, if both report at all: no switch has links to others by its own report alone.
    pub fn is_mutual(&self, state: &State, link: &Neighbour) -> bool {
        let Some(peer) = link.wire_switch() else {
            return true;
        };
        let is_holder = |own: &u32| {
            let holder = self.numbers.get(own);
            holder.is_some_and(|holder| holder.switch == state.switch)
        };
        let own = state.wire_switch.filter(is_holder);
        !self.numbers.contains_key(&peer)
            || own.is_some_and(|own| self.wires.contains(&(peer, own)))
    }
}
