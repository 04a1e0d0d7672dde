//! Generations, as one worker takes them up.

use contract::counters::DropReason;
#[cfg(feature = "planted")]
use measure::planted;
use measure::time::Ticks;

use super::Worker;
use super::counting::count_drop;
use crate::egress::Lane;
use crate::generation::{Generation, Measuring};
use crate::packet_io::PacketIo;

impl<I: PacketIo> Worker<I> {
    /// Does as another generation says from the epoch at `now` on.
    #[cold]
    pub(super) fn take_up(&mut self, mut generation: Box<Generation<I>>, now: Ticks) {
        for handles in &mut generation.gone {
            self.io.give_back(handles);
        }
        for handles in &mut generation.come {
            self.io.take_over(handles);
        }
        self.pace.rewire(self.io.inlets().len());
        if let Some(decide) = &mut generation.decide {
            decide.adopt(&mut self.decide);
            std::mem::swap(decide, &mut self.decide);
        }
        for (port, lane) in &mut generation.lanes {
            match self.lanes.get_mut(*port) {
                Some(old) => {
                    lane.adopt(old);
                    std::mem::swap(old, lane);
                    let counters = &self.counters.ports[*port];
                    let meter = &mut self.meter;
                    lane.drain(|tag| {
                        count_drop(counters, DropReason::LinkDown, tag.class);
                        meter.lost(tag);
                    });
                }
                None => self.lanes.push(std::mem::replace(lane, Lane::closed())),
            }
        }
        #[cfg(feature = "planted")]
        if planted::is(planted::Bug::CountedTwice) {
            for (lane, port) in self.lanes.iter().zip(&self.counters.ports) {
                port.tx_packets.add(lane.waiting() as u64);
            }
        }
        for (port, wire) in &mut generation.wires {
            self.wires.swap(*port, wire);
        }
        if let Measuring::Changed(plan) = &mut generation.measuring {
            self.meter.epochs.replan(plan.take(), now);
        }
        self.counters.generation.set(generation.number.0.into());
        self.retiring = Some(generation);
    }

    /// Gives the old parts of a generation back, once none is in use.
    #[cold]
    pub(super) fn retire(&mut self) {
        let Some(generation) = &mut self.retiring else {
            return;
        };
        if let Measuring::Changed(old) = &mut generation.measuring {
            match self.meter.epochs.take_retired() {
                Some(mut plan) => {
                    plan.show_references(&self.counters);
                    *old = Some(plan);
                }
                None if self.meter.epochs.are_retiring() => return,
                None => {}
            }
        }
        if let Some(generation) = self.retiring.take() {
            self.generations.give_back(generation);
        }
    }
}
