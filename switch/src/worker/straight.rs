//! Bursts that are sent from where they were received.

use contract::ids::PortIndex;
use measure::batch::{Batch, Member};
use measure::flows::FlowId;
use measure::packet::{Census, Hashing};

use super::counting::{count_class, count_kinds};
use super::{Received, Worker};
use crate::egress::lane::Exit;
use crate::packet_io::{Burst, PacketIo, Tag};

impl<I: PacketIo> Worker<I> {
    /// Sends a burst, all of the default class, from where it was received, if nothing is ahead of it: its
    /// packets are recorded as one batch, without tags. What the driver refuses waits at the port. False,
    /// and nothing done, in any other case.
    pub(super) fn send_at_once(
        &mut self,
        arrivals: &mut Burst<I::Packet>,
        to: PortIndex,
        received: Received,
    ) -> bool {
        let Received { from, now, .. } = received;
        let tagging = self.meter.tagging();
        if !tagging.takes_batches() || self.meter.epochs.is_due(now) {
            return false;
        }
        let lane = self.lanes.get(to.index());
        if !lane.is_some_and(|lane| lane.is_clear() && received.longest <= lane.frame_bytes_max)
            || self.wires.is_at(from)
            || self.wires.is_at(to)
            || self.meter.is_around(to)
        {
            return false;
        }
        let class = self.decide.default_class();
        let mut batch = Batch {
            packets: arrivals.len(),
            bytes: received.bytes,
            arrived: now,
            delay: 0,
            segment: tagging.segments(from, to)[usize::from(class.0 & 7)],
            epoch: tagging.epoch(),
        };
        let hashing = tagging.hashing().unwrap_or(Hashing::None);
        self.departing.begin(hashing);
        self.departing.batches.push(batch);
        match hashing {
            Hashing::None => {}
            Hashing::Flow => self.parse::<false>(arrivals, received, &batch),
            Hashing::Packet => self.parse::<true>(arrivals, received, &batch),
        }
        let io = &self.io;
        self.meter.prepare(&mut self.departing, |n| {
            arrivals.get(n).map_or(&[][..], |packet| io.head(packet))
        });
        let now = self.io.now();
        batch.packets = self.io.transmit(to, arrivals);
        batch.delay = now.since(batch.arrived);
        let refused = arrivals
            .iter()
            .map(|packet| u64::from(self.io.len_bytes(packet)));
        batch.bytes -= refused.sum::<u64>();
        if batch.packets > 0 {
            self.passed_at_once(to, batch);
        }
        if !arrivals.is_empty() {
            self.keep(arrivals, to, &batch);
        }
        true
    }

    /// Parses, hashes and prefetches a burst in one tight loop. Not inlined, so that the loop has all
    /// registers to itself.
    #[inline(never)]
    fn parse<const HASHES: bool>(
        &mut self,
        arrivals: &Burst<I::Packet>,
        received: Received,
        batch: &Batch,
    ) {
        let (io, tagging) = (&self.io, self.meter.tagging());
        let (flows, mut census) = (tagging.flows(), Census::default());
        let members = arrivals.iter().map(|packet| {
            let bytes = io.len_bytes(packet);
            let parsed = tagging.parse::<HASHES>(io.head(packet), bytes);
            census.add(parsed.kind);
            if let Some(flows) = flows {
                flows.prefetch(FlowId::new(parsed.flow, batch.segment));
            }
            Member {
                flow: parsed.flow,
                packet: parsed.packet,
                bytes,
            }
        });
        self.departing.members.fill::<HASHES>(members);
        count_kinds(self.port(received.from), census);
    }

    /// Records what the driver took.
    #[inline]
    fn passed_at_once(&mut self, to: PortIndex, batch: Batch) {
        let class = self.decide.default_class();
        count_class(self.port(to), class, batch.packets, batch.bytes);
        self.pace.moved(batch.packets);
        if let Some(whole) = self.departing.batches.first_mut() {
            *whole = batch;
        }
        self.meter.passed(&self.departing, &mut self.spread);
        let members = self.departing.members.part(0..batch.packets);
        let references = self.meter.references_among(&batch, members);
        let now = batch.departed();
        let epochs = &mut self.meter.epochs;
        epochs.estimate(to, &self.departing, &references, now);
    }

    /// Keeps what the driver refused, the packets behind the `batch` that it took, at the head of its port.
    #[cold]
    fn keep(&mut self, arrivals: &mut Burst<I::Packet>, to: PortIndex, batch: &Batch) {
        let Some(Exit::Queues(egress)) = self.lanes.get_mut(to.index()).map(|lane| &mut lane.exit)
        else {
            return;
        };
        let (io, spread) = (&self.io, &mut self.spread);
        let class = self.decide.default_class();
        let members = self.departing.members.part(0..usize::MAX);
        let tag = |(n, packet): (usize, &I::Packet)| Tag {
            flow: members.flows.get(n).copied().unwrap_or_default(),
            packet: (members.hashes.get(n).copied()).unwrap_or_else(|| spread.next_hash()),
            arrived: batch.arrived,
            len_bytes: io.len_bytes(packet),
            segment: batch.segment,
            epoch: batch.epoch,
            class,
        };
        egress.offer_all(arrivals, |arrivals, tags| {
            tags.extend((batch.packets..).zip(arrivals).map(tag));
        });
        self.meter.joined(egress, 0);
        self.touched.insert(to);
    }
}
