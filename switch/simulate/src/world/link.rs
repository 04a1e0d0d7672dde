//! Wires between switches: what the path does to each frame.

use rand::RngExt;
use rand_pcg::Pcg64;
use wire::frame::Kind;

use super::configure::HOSTS;
use super::ledger::Sending;
use super::{Event, Fault, World};
use crate::rack::wired::{is_control, kind_of};

/// Genuine control frames of a direction that are kept to be sent again.
const RECORDED: usize = 64;

/// A wire: both ends as (switch, port).
pub(super) struct Link {
    pub ends: [(usize, usize); 2],
    pub is_up: bool,
    /// Frames that are under way now are lost: how often the link was lost.
    pub losses: u64,
    base_ns: u64,
    queue_ns: f64,
    last_arrival: [u64; 2],
    /// Control frames that each end has sent, whenever.
    pub recorded: [Vec<Vec<u8>>; 2],
}

/// Switches in a row: the last wire port of each to the first of the next.
pub(super) fn chain(switches: usize, random: &mut Pcg64) -> Vec<Link> {
    let link = |n: usize| Link {
        ends: [(n, if n == 0 { HOSTS } else { HOSTS + 1 }), (n + 1, HOSTS)],
        is_up: true,
        losses: 0,
        base_ns: random.random_range(10_000..500_000),
        queue_ns: 50_000.0,
        last_arrival: [0; 2],
        recorded: [Vec::new(), Vec::new()],
    };
    (0..switches - 1).map(link).collect()
}

/// The label of a control frame's kind.
pub(super) fn kind_label(frame: &[u8]) -> Option<&'static str> {
    let number = kind_of(frame)?;
    let kind = Kind::ALL.into_iter().find(|kind| *kind as u8 == number)?;
    Some(kind.label())
}

impl World {
    /// The link at a port of a switch, and which of its ends that is.
    pub(super) fn link_at(&self, switch: usize, port: usize) -> Option<(usize, usize)> {
        let at = |link: &Link| link.ends.iter().position(|&end| end == (switch, port));
        (self.links.iter().enumerate()).find_map(|(n, link)| Some((n, at(link)?)))
    }

    /// Whether each port of a switch has its link.
    pub(super) fn links_of(&self, switch: usize) -> Vec<bool> {
        let ports = self.places[switch].shape.ports();
        let is_up = |port| {
            self.link_at(switch, port)
                .is_none_or(|(link, _)| self.links[link].is_up)
        };
        (0..ports).map(is_up).collect()
    }

    /// A link goes down or comes up.
    pub(super) fn set_link(&mut self, number: usize, is_up: bool) {
        let link = &mut self.links[number];
        if link.is_up == is_up {
            return;
        }
        link.is_up = is_up;
        link.losses += u64::from(!is_up);
        for (switch, port) in link.ends {
            if let Some(node) = &self.places[switch].node
                && let Some(has_link) = node.state.lock().has_link.get_mut(port)
            {
                *has_link = is_up;
            }
        }
        let state = if is_up { "up" } else { "down" };
        self.trace
            .note(self.now, format_args!("link {number} is {state}"));
    }

    /// A frame leaves a switch by a wire.
    pub(super) fn transport(
        &mut self,
        (number, end): (usize, usize),
        frame: Vec<u8>,
        packet: Option<(u64, Sending)>,
    ) {
        let is_control = is_control(&frame);
        let link = &mut self.links[number];
        let (switch, port) = link.ends[1 - end];
        if is_control {
            let recorded = &mut link.recorded[end];
            if recorded.len() == RECORDED {
                let any = self.random.random_range(0..RECORDED);
                recorded.swap_remove(any);
            }
            recorded.push(frame.clone());
            if let Some(label) = kind_label(&frame) {
                let genuine = &mut self.places[switch].genuine[port - HOSTS];
                *genuine.entry(label.to_owned()).or_default() += 1;
            }
        }
        if !link.is_up {
            return;
        }
        let step = self.random.random_range(-0.5..0.5) * 4_000.0;
        link.queue_ns = (link.queue_ns + step - (link.queue_ns - 50_000.0) * 0.001).max(0.0);
        let bits = frame.len() as u64 * 8;
        let arrival =
            (self.now + link.base_ns + link.queue_ns as u64).max(link.last_arrival[end] + bits);
        link.last_arrival[end] = arrival;
        let after = arrival - self.now;
        self.disturb(is_control, after, (switch, port), frame, packet);
    }

    fn disturb(
        &mut self,
        is_control: bool,
        mut after: u64,
        (switch, port): (usize, usize),
        mut frame: Vec<u8>,
        packet: Option<(u64, Sending)>,
    ) {
        let menu = self.menu.clone();
        let (lost, reordered, doubled, corrupted) = if is_control {
            (
                menu.control_lost,
                menu.control_reordered,
                menu.control_doubled,
                menu.control_corrupted,
            )
        } else {
            (menu.data_lost, menu.data_reordered, menu.data_doubled, 0.0)
        };
        let kinds = if is_control {
            [
                Fault::ControlLost,
                Fault::ControlReordered,
                Fault::ControlDoubled,
            ]
        } else {
            [Fault::DataLost, Fault::DataReordered, Fault::DataDoubled]
        };
        if self.happens(lost, kinds[0]) {
            return;
        }
        if self.happens(reordered, kinds[1]) {
            after += self.random.random_range(1_000..400_000);
        }
        if self.happens(corrupted, Fault::ControlCorrupted) {
            // Behind the magic: what loses its type is no control frame.
            let at = self.random.random_range(18..frame.len());
            frame[at] ^= 1 << self.random.random_range(0..8);
        }
        if self.happens(doubled, kinds[2]) {
            let later = after + self.random.random_range(0..200_000);
            self.push(later, Event::Arrive(switch, port, frame.clone(), packet));
        }
        self.push(after, Event::Arrive(switch, port, frame, packet));
    }

    fn happens(&mut self, share: f64, fault: Fault) -> bool {
        let happens = !self.is_quiet && share > 0.0 && self.random.random::<f64>() < share;
        if happens {
            *self.faults.entry(fault).or_default() += 1;
        }
        happens
    }
}
