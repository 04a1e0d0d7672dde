//! From packets to tags.

use contract::counters::PortCounters;
use measure::flows::FlowId;
use measure::packet::Census;
use measure::time::Ticks;

use crate::decide::Decisions;
use crate::meter::{Segments, Tagging};
use crate::packet_io::{Burst, ClassIndex, Likeness, PacketIo, Tag, Tags};

/// What the packets of a burst have in common.
pub(super) struct Tagger<'w, I> {
    pub io: &'w I,
    pub tagging: Tagging<'w>,
    /// Of the port that they came in by.
    pub counters: &'w PortCounters,
    /// Those that lead to where they go.
    pub segments: Segments,
    pub now: Ticks,
}

impl<I: PacketIo> Tagger<'_, I> {
    /// Parses, hashes and tags a burst in one tight loop. Not inlined, so that the loop has all
    /// registers to itself.
    #[inline(never)]
    pub fn tag(
        &self,
        arrivals: &Burst<I::Packet>,
        decisions: &Decisions,
        tags: &mut Tags,
    ) -> Likeness {
        let decided = arrivals.iter().zip(decisions);
        if !self.tagging.is_on() {
            tags.extend(decided.map(|(packet, decision)| {
                let len_bytes = self.io.len_bytes(packet);
                self.tagging
                    .blank_tag(len_bytes, decision.class(), self.now)
            }));
            return Likeness::Mixed;
        }
        let (first, flows) = (tags.len(), self.tagging.flows());
        let one_class = decisions
            .first()
            .map_or(ClassIndex(0), |decision| decision.class());
        let mut differences = 0;
        let mut census = Census::default();
        tags.extend(decided.map(|(packet, decision)| {
            let (len_bytes, class) = (self.io.len_bytes(packet), decision.class());
            let parsed = self.tagging.parse(self.io.head(packet), len_bytes);
            census.add(parsed.kind);
            let segment = self.segments[usize::from(class.0 & 7)];
            if let Some(flows) = flows {
                flows.prefetch(FlowId::new(parsed.flow, segment));
            }
            differences |= class.0 ^ one_class.0;
            Tag {
                flow: parsed.flow,
                packet: parsed.packet,
                segment,
                ..self.tagging.blank_tag(len_bytes, class, self.now)
            }
        }));
        let is_each_stamped = self.tagging.stamps_packets();
        if is_each_stamped {
            for tag in &mut tags[first..] {
                tag.arrived = self.io.now();
            }
        }
        for (counter, n) in self.counters.kinds.iter().zip(census.counts()) {
            counter.add(n);
        }
        if differences == 0 && !is_each_stamped {
            Likeness::Alike
        } else {
            Likeness::Mixed
        }
    }
}
