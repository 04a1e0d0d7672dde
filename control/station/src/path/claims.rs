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
    pub fn is_mutual(&self, state: &State, link: &Neighbour) -> bool {
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
