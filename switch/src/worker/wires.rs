//! Ports with a segment on the wire: control frames among the data.

use contract::counters::DropReason;
use contract::ids::PortIndex;
use measure::time::Ticks;

use super::{Received, Worker};
use crate::decide::Decisions;
use crate::packet_io::{Burst, PacketIo};
use crate::wire::Arrival;

impl<I: PacketIo> Worker<I> {
    /// Does what is due at every wire, whether there is data or not.
    #[inline]
    pub(super) fn tend_wires(&mut self, now: Ticks) {
        for port in self.wires.ports().ports() {
            let is_up = self.decide.is_up(port);
            if let Some(wire) = self.wires.at(port) {
                wire.tick(now, is_up);
                if wire.send_due(&mut self.io, now) {
                    wire.send_bulk(&mut self.io, now);
                }
            }
        }
    }

    /// Rolls over the epoch of the wire at a port, if there is one and it is time, and sends what belongs
    /// before the data that comes next; false: nothing may go now.
    #[inline]
    pub(super) fn open_wire(&mut self, to: PortIndex, now: Ticks) -> bool {
        match self.wires.at(to) {
            Some(wire) => {
                wire.turn_at(now);
                wire.send_due(&mut self.io, now)
            }
            None => true,
        }
    }

    /// Whether a port is looped to this switch; what waits there is dropped then.
    #[inline]
    pub(super) fn is_looped(&mut self, to: PortIndex) -> bool {
        let is_looped = self.wires.at(to).is_some_and(|wire| wire.is_blocked());
        if is_looped {
            self.drain(to, DropReason::Loop);
        }
        is_looped
    }

    /// Takes control frames out of what came in, each in its order among the data.
    #[inline(never)]
    pub(super) fn receive_wire(&mut self, mut arrivals: Burst<I::Packet>, received: Received) {
        let Received { from, now, .. } = received;
        let mut data = Burst::new_const();
        for packet in arrivals.drain(..) {
            let head = self.io.head(&packet);
            let len_bytes = self.io.len_bytes(&packet);
            let Some(wire) = self.wires.at(from) else {
                data.push(packet);
                continue;
            };
            if wire.control_in(head).is_none() {
                data.push(packet);
                continue;
            }
            self.dispatch_data(&mut data, received);
            let head = self.io.head(&packet);
            if let Some(wire) = self.wires.at(from)
                && let Some(frame) = wire.control_in(head)
            {
                wire.control(frame, len_bytes, now);
            }
            self.port(from).dropped(DropReason::Control, 1);
        }
        self.dispatch_data(&mut data, received);
    }

    fn dispatch_data(&mut self, data: &mut Burst<I::Packet>, received: Received) {
        let from = received.from;
        if data.is_empty() {
            return;
        }
        if self.wires.at(from).is_some_and(|wire| wire.is_blocked()) {
            self.port(from).dropped(DropReason::Loop, data.len() as u64);
        } else {
            self.dispatch(data, received);
        }
        data.clear();
    }

    /// Counts data at the receiver's end of the wire that it came by.
    #[inline(never)]
    pub(super) fn count_arrivals(
        &mut self,
        arrivals: &Burst<I::Packet>,
        decisions: &Decisions,
        from: PortIndex,
        now: Ticks,
    ) {
        let Self {
            io, meter, wires, ..
        } = self;
        let tagging = meter.tagging();
        let Some(wire) = wires.at(from) else { return };
        let seen = arrivals.iter().zip(decisions).map(|(packet, decision)| {
            let len_bytes = io.len_bytes(packet);
            let parsed = tagging.parse::<true>(io.head(packet), len_bytes);
            let arrival = Arrival {
                flow: parsed.flow,
                packet: parsed.packet,
                len_bytes,
            };
            (decision.class(), arrival)
        });
        wire.received(seen, now);
    }
}
