//! What few packets need: copies for a flood, VLAN tags.

use contract::counters::DropReason;
use contract::ids::PortIndex;
use measure::time::Ticks;

use super::Worker;
use crate::decide::{PortSet, Rewrite};
use crate::packet_io::{PacketIo, Tag};

impl<I: PacketIo> Worker<I> {
    /// Gives the frame the VLAN tag that it needs on its way out, or takes one away; none, and the
    /// drop counted, if there is no room.
    #[inline]
    pub(super) fn retag(
        &mut self,
        mut packet: I::Packet,
        mut tag: Tag,
        from: PortIndex,
        to: PortIndex,
    ) -> Option<(I::Packet, Tag)> {
        if !self.decide.retags() {
            return Some((packet, tag));
        }
        let head = self.io.head(&packet);
        let done = match self.decide.rewrite(from, to, head) {
            Rewrite::None => true,
            Rewrite::Push(tci) => self.io.push_vlan(&mut packet, tci),
            Rewrite::Pop => self.io.pop_vlan(&mut packet),
            Rewrite::Replace(tci) => {
                self.io.pop_vlan(&mut packet) && self.io.push_vlan(&mut packet, tci)
            }
            Rewrite::Drop => {
                self.port(from).dropped(DropReason::Vlan, 1);
                return None;
            }
        };
        tag.len_bytes = self.io.len_bytes(&packet);
        if !done {
            self.port(from).dropped(DropReason::NoHeadroom, 1);
        }
        done.then_some((packet, tag))
    }

    /// Copies for every egress port but the last, which gets the frame itself.
    #[cold]
    pub(super) fn flood(
        &mut self,
        packet: I::Packet,
        tag: Tag,
        from: PortIndex,
        to: PortSet,
        now: Ticks,
    ) {
        let mut others = to.ports().peekable();
        while let Some(to) = others.next() {
            if others.peek().is_none() {
                return self.queue(packet, tag, from, to, now);
            }
            self.port(from).copies.add(1);
            match self.io.copy(&packet) {
                Some(copy) => self.queue(copy, tag, from, to, now),
                None => self.port(from).dropped(DropReason::NoMbuf, 1),
            }
        }
        self.port(from).dropped(DropReason::NoDestination, 1);
    }
}
