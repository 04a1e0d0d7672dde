//! Ports that lead to devices of others: packets that come back.

use contract::ids::PortIndex;
use measure::time::Ticks;

use super::Worker;
use crate::packet_io::{Burst, PacketIo};

impl<I: PacketIo> Worker<I> {
    /// Looks among what came in for packets that come back from a device of others.
    #[inline(never)]
    pub(super) fn receive_around(
        &mut self,
        arrivals: &Burst<I::Packet>,
        from: PortIndex,
        now: Ticks,
    ) {
        let Self {
            io,
            meter,
            returned,
            counters,
            spread,
            ..
        } = self;
        let frame = |n: usize| {
            let packet = arrivals.get(n);
            packet.map_or((&[][..], 0), |packet| {
                (io.head(packet), io.len_bytes(packet))
            })
        };
        meter.returned(
            (from, now),
            arrivals.len(),
            frame,
            returned,
            counters,
            spread,
        );
    }
}
