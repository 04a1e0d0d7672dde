//! From packets to tags.

use contract::counters::PortCounters;
use measure::flows::FlowId;
use measure::observation::SegmentIndex;
use measure::packet::{Census, Hashing, RandomHashes};
use measure::time::Ticks;

use super::counting::count_kinds;
use crate::decide::Decisions;
use crate::meter::{Segments, Tagging};
use crate::packet_io::{Burst, ClassIndex, PacketIo, Tag, Tags};

/// A packet, its class, and its segment.
type Marked<'p, I> = (&'p <I as PacketIo>::Packet, ClassIndex, SegmentIndex);

/// What the packets of a burst have in common.
pub(super) struct Tagger<'w, I> {
    pub io: &'w I,
    pub tagging: Tagging<'w>,
    /// Of the port that they came in by.
    pub counters: &'w PortCounters,
    /// Those that lead to where they go.
    pub segments: Segments,
    /// Of packets about which there are no decisions.
    pub class: ClassIndex,
    /// Spreads packets that have no hash of their own over the rows of an LDA.
    pub spread: &'w mut RandomHashes,
    pub now: Ticks,
}

impl<I: PacketIo> Tagger<'_, I> {
    /// Tags a burst, about whose packets as much is found out as the plan asks for. Decisions may be left out
    /// where all are of one class.
    #[inline]
    pub fn tag(self, arrivals: &Burst<I::Packet>, decisions: &Decisions, tags: &mut Tags) {
        let segments = self.segments;
        let segment_of = move |class: ClassIndex| segments[usize::from(class.0 & 7)];
        if decisions.is_empty() {
            let (class, segment) = (self.class, segment_of(self.class));
            let packets = arrivals.iter().map(|packet| (packet, class, segment));
            return self.tag_each(packets, tags);
        }
        let packets = arrivals.iter().zip(decisions).map(|(packet, decision)| {
            let class = decision.class();
            (packet, class, segment_of(class))
        });
        self.tag_each(packets, tags);
    }

    #[inline]
    fn tag_each<'p>(self, packets: impl Iterator<Item = Marked<'p, I>>, tags: &mut Tags)
    where
        I::Packet: 'p,
    {
        let (first, is_each_stamped) = (tags.len(), self.tagging.stamps_packets());
        let (io, tagging) = (self.io, self.tagging);
        match tagging.hashing() {
            None => {
                tags.extend(packets.map(|(packet, class, _)| {
                    tagging.blank_tag(io.len_bytes(packet), class, self.now)
                }));
            }
            Some(Hashing::None) => self.tag_unparsed(packets, tags),
            Some(Hashing::Flow) => self.tag_parsed::<false>(packets, tags),
            Some(Hashing::Packet) => self.tag_parsed::<true>(packets, tags),
        }
        if is_each_stamped {
            for tag in &mut tags[first..] {
                tag.arrived = io.now();
            }
        }
    }

    #[inline]
    fn tag_unparsed<'p>(self, packets: impl Iterator<Item = Marked<'p, I>>, tags: &mut Tags)
    where
        I::Packet: 'p,
    {
        let Self {
            io,
            tagging,
            spread,
            now,
            ..
        } = self;
        tags.extend(packets.map(|(packet, class, segment)| Tag {
            packet: spread.next_hash(),
            segment,
            ..tagging.blank_tag(io.len_bytes(packet), class, now)
        }));
    }

    /// Parses, hashes and tags a burst in one tight loop. Not inlined, so that the loop has all
    /// registers to itself.
    #[inline(never)]
    fn tag_parsed<'p, const PACKET: bool>(
        self,
        packets: impl Iterator<Item = Marked<'p, I>>,
        tags: &mut Tags,
    ) where
        I::Packet: 'p,
    {
        let (flows, mut spread) = (self.tagging.flows(), self.spread.clone());
        let mut census = Census::default();
        tags.extend(packets.map(|(packet, class, segment)| {
            let len_bytes = self.io.len_bytes(packet);
            let parsed = self
                .tagging
                .parse::<PACKET>(self.io.head(packet), len_bytes);
            census.add(parsed.kind);
            if let Some(flows) = flows {
                flows.prefetch(FlowId::new(parsed.flow, segment));
            }
            Tag {
                flow: parsed.flow,
                packet: if PACKET {
                    parsed.packet
                } else {
                    spread.next_hash()
                },
                segment,
                ..self.tagging.blank_tag(len_bytes, class, self.now)
            }
        }));
        *self.spread = spread;
        count_kinds(self.counters, census);
    }
}
