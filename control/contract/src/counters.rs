//! Counters of the data plane: written by one worker, read by anybody, never locked.
//!
//! A worker owns its block and adds with a plain load and store; a reader may see a value a few
//! packets old, never a torn one. Everything only rises over the engine's life, so that
//! `received = transmitted + dropped + in flight` can be checked at any time.

use measure::flows::{FlowTable, Untracked};

use crate::limits::CLASSES_MAX;
use crate::sync::{AtomicU64, Ordering};

/// Why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum DropReason {
    /// Shorter than an Ethernet header (14 bytes).
    Runt,
    /// Longer than the egress port's MTU and Ethernet header with two tags.
    Oversize,
    /// Addressed to 01:80:C2:00:00:0X, which a bridge does not forward (IEEE 802.1D 7.12.6).
    LinkLocal,
    /// From a multicast or all-zero address, which no station has: not forwarded by the bridge.
    BadSource,
    /// MAC PAUSE (ethertype 0x8808): ends at the link.
    Pause,
    /// The bridge knows the destination on the port the frame came from (no hairpin).
    Hairpin,
    /// The port has no partner to forward to.
    NoDestination,
    /// Flooded frames of the ingress port are over the limit.
    Storm,
    /// A tag, or none, where the port takes no such frame, or a VLAN that it is no member of; or a
    /// second tag that would become the first at an access port.
    Vlan,
    /// No room in front of the frame for the VLAN tag that it needs.
    NoHeadroom,
    /// No mbuf for a copy to flood.
    NoMbuf,
    /// The egress port has no link.
    LinkDown,
    /// The ring to the egress port's owner was full.
    RingFull,
    /// The egress queue was full, in packets or bytes (tail drop).
    QueueFull,
    /// Dropped early at the egress queue (RED).
    Red,
    /// Waited longer than the egress port's maximum residency.
    Expired,
    /// Still queued when the switch stopped.
    Shutdown,
    /// A control frame of a segment on the wire, believed or not: it ends here.
    Control,
    /// The port is looped to this very switch: no data passes.
    Loop,
}

impl DropReason {
    /// Every reason, in the order of its counters.
    pub const ALL: [Self; 19] = [
        Self::Runt,
        Self::Oversize,
        Self::LinkLocal,
        Self::BadSource,
        Self::Pause,
        Self::Hairpin,
        Self::NoDestination,
        Self::Storm,
        Self::Vlan,
        Self::NoHeadroom,
        Self::NoMbuf,
        Self::LinkDown,
        Self::RingFull,
        Self::QueueFull,
        Self::Red,
        Self::Expired,
        Self::Shutdown,
        Self::Control,
        Self::Loop,
    ];

    /// The value of the `reason` label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Runt => "runt",
            Self::Oversize => "oversize",
            Self::LinkLocal => "link_local",
            Self::BadSource => "bad_source",
            Self::Pause => "pause",
            Self::Hairpin => "hairpin",
            Self::NoDestination => "no_destination",
            Self::Storm => "storm",
            Self::Vlan => "vlan",
            Self::NoHeadroom => "no_headroom",
            Self::NoMbuf => "no_mbuf",
            Self::LinkDown => "link_down",
            Self::RingFull => "ring_full",
            Self::QueueFull => "queue_full",
            Self::Red => "red",
            Self::Expired => "expired",
            Self::Shutdown => "shutdown",
            Self::Control => "control",
            Self::Loop => "loop",
        }
    }
}

/// A counter with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds; only the owner may call it.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_add(n),
            Ordering::Relaxed,
        );
    }

    /// Sets a gauge; only the owner may call it.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The present value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Class queues of a port, at most; as many as [classes](CLASSES_MAX).
pub const QUEUES_MAX: usize = CLASSES_MAX;

/// Buckets of the histogram of bursts.
pub const BURST_BUCKETS: usize = 8;

/// Counters of one port as one worker sees it. Drops are counted at the port the packet came in
/// by, except those behind the decision ([`DropReason::LinkDown`] and later), which are counted at
/// the port it was to leave by.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct PortCounters {
    /// Packets received.
    pub rx_packets: Counter,
    /// Bytes received, without frame check sequences.
    pub rx_bytes: Counter,
    /// Packets that the driver accepted for transmission.
    pub tx_packets: Counter,
    /// Bytes of these.
    pub tx_bytes: Counter,
    /// Copies made to flood a frame to more than one port; each is a packet more in flight.
    pub copies: Counter,
    /// Gauge: packets that this worker holds for the port: in the egress queues, held for a driver
    /// that refused them, and in rings to the port's owner, where this worker reads them.
    pub queued_packets: Counter,
    /// Frames by what the parser found, in the order of `measure::packet::Kind::ALL`.
    pub kinds: [Counter; measure::packet::Kind::COUNT],
    /// Drops, in the order of [`DropReason::ALL`].
    pub drops: [Counter; DropReason::ALL.len()],
    /// What left, and what did not, by class.
    pub classes: [ClassCounters; CLASSES_MAX],
    /// The egress queues, in the order of the configuration.
    pub queues: [QueueCounters; QUEUES_MAX],
}

/// Counters of one class at its egress port.
#[derive(Debug, Default)]
pub struct ClassCounters {
    /// Packets that the driver accepted.
    pub tx_packets: Counter,
    /// Bytes of these.
    pub tx_bytes: Counter,
    /// Packets dropped behind the decision, whatever the reason.
    pub dropped: Counter,
}

/// Counters of one egress queue.
#[derive(Debug, Default)]
pub struct QueueCounters {
    /// Gauge: packets in it.
    pub packets: Counter,
    /// Gauge: bytes of these.
    pub bytes: Counter,
    /// Packets refused since it was full, in packets or bytes ([`DropReason::QueueFull`]).
    pub full: Counter,
    /// Packets dropped early ([`DropReason::Red`]).
    pub red: Counter,
    /// Packets that waited too long ([`DropReason::Expired`]).
    pub expired: Counter,
}

impl PortCounters {
    /// Counts `n` drops.
    #[inline]
    pub fn dropped(&self, reason: DropReason, n: u64) {
        self.drops[reason as usize].add(n);
    }

    /// All drops.
    pub fn dropped_total(&self) -> u64 {
        self.drops.iter().map(Counter::get).sum()
    }
}

/// Counters of one worker.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct WorkerCounters {
    /// Passes of the loop; also its heartbeat: a worker whose passes stand still has stalled.
    pub passes: Counter,
    /// Passes that received nothing.
    pub idle_passes: Counter,
    /// Ticks spent in passes that did some work.
    pub busy_ticks: Counter,
    /// Packets received in these passes, from ports and from rings: with `busy_ticks`, what a
    /// packet costs.
    pub busy_packets: Counter,
    /// Gauge: longest time between two polls of one port since the previous tick, in ticks: what
    /// a stamp cannot see.
    pub poll_gap_ticks_max: Counter,
    /// Bursts received, by size: one packet, 2, 3 to 4, 5 to 8, .. 33 to 64, more.
    pub bursts: [Counter; BURST_BUCKETS],
    /// Gauge: packets that wait in the rings that other workers hand this one packets by.
    pub ring_packets: Counter,
    /// Gauge: number of the generation at work; that of the start is 0.
    pub generation: Counter,
    /// Packets that seem to have left before they came: their delay was taken for 0.
    pub backward_packets: Counter,
    /// Packets that outlived the generation that they were tagged in, and count in no segment.
    pub outlived_packets: Counter,
    /// The table of its flows.
    pub flows: FlowTableCounters,
    /// Reference packets.
    pub references: ReferenceCounters,
    /// The ports, in the order of the configuration.
    pub ports: Vec<PortCounters>,
}

/// What a worker's flow table says of itself.
#[derive(Debug, Default)]
pub struct FlowTableCounters {
    /// Gauge: flows that have a slot.
    pub tracked: Counter,
    /// Gauge: slots that no flow has.
    pub free_slots: Counter,
    /// Packets of flows that found no free slot.
    pub without_free_slot: Counter,
    /// Packets of flows that found both of their buckets full.
    pub without_place: Counter,
    /// Packets of flows that could not be reported.
    pub unreported: Counter,
}

impl FlowTableCounters {
    /// Takes over what the table says. Its totals are those since it was made, to which `base` is
    /// added: what earlier tables of the worker counted.
    pub fn set(&self, table: &FlowTable, base: Untracked) {
        let untracked = table.untracked();
        self.tracked.set(table.tracked() as u64);
        self.free_slots.set(table.free_slots() as u64);
        let total = |counter: &Counter, base: u64, own: u64| counter.set(base.wrapping_add(own));
        total(
            &self.without_free_slot,
            base.without_free_slot,
            untracked.without_free_slot,
        );
        total(
            &self.without_place,
            base.without_place,
            untracked.without_place,
        );
        total(&self.unreported, base.unreported, untracked.unreported);
    }
}

/// Reference packets (RLI) that a worker injected and consumed.
#[derive(Debug, Default)]
pub struct ReferenceCounters {
    /// References injected.
    pub injected: Counter,
    /// References that came to the egress point.
    pub received: Counter,
    /// References that were left out, since too many of their stream were under way.
    pub left_out: Counter,
    /// Packets that did not fit into an interpolation buffer: estimated from the left reference.
    pub overflowed_packets: Counter,
    /// Estimates for packets whose epoch was sealed by then, or went unmeasured.
    pub late_estimates: Counter,
}

impl WorkerCounters {
    /// Counters for a worker that serves `ports` ports.
    pub fn new(ports: usize) -> Self {
        Self {
            ports: (0..ports).map(|_| PortCounters::default()).collect(),
            ..Self::default()
        }
    }

    /// Counts a burst of `packets` packets received; none is no burst.
    #[inline]
    pub fn burst(&self, packets: usize) {
        if packets > 0 {
            let bucket = (usize::BITS - (packets - 1).leading_zeros()) as usize;
            self.bursts[bucket.min(BURST_BUCKETS - 1)].add(1);
        }
    }
}

/// Why a control frame that came in by a wire port was not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Disbelief {
    /// Not one whole frame of this version and a known kind.
    Malformed,
    /// Under a key that is not configured here, or under none.
    UnknownKey,
    /// With a wrong tag.
    Tag,
    /// Of another session than the present one.
    Session,
    /// Seen before, or too old to know.
    Replayed,
    /// Believed, but the control core had no room for it.
    Overflow,
    /// A hello from another time than this end's clock, which is kept, allows.
    Stale,
    /// An old hello, more of which came than are looked at.
    HelloRate,
}

impl Disbelief {
    /// Every reason, in the order of its counters.
    pub const ALL: [Self; 8] = [
        Self::Malformed,
        Self::UnknownKey,
        Self::Tag,
        Self::Session,
        Self::Replayed,
        Self::Overflow,
        Self::Stale,
        Self::HelloRate,
    ];

    /// The value of the `reason` label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::UnknownKey => "unknown_key",
            Self::Tag => "tag",
            Self::Session => "session",
            Self::Replayed => "replayed",
            Self::Overflow => "overflow",
            Self::Stale => "stale",
            Self::HelloRate => "hello_rate",
        }
    }
}

/// What the worker that owns a wire port counts of it.
#[derive(Debug, Default)]
pub struct WireCounters {
    /// Control frames sent, by [`measure::wire::frame::Kind::ALL`].
    pub sent: [Counter; measure::wire::frame::Kind::COUNT],
    /// Their bytes on the link, with preamble, frame check sequence and gap.
    pub sent_bytes: Counter,
    /// Bytes on the link of references alone.
    pub reference_bytes: Counter,
    /// Bytes on the link of data.
    pub data_bytes: Counter,
    /// Control frames believed, by [`measure::wire::frame::Kind::ALL`].
    pub believed: [Counter; measure::wire::frame::Kind::COUNT],
    /// Control frames not believed, by [`Disbelief::ALL`].
    pub disbelieved: [Counter; Disbelief::ALL.len()],
    /// Times that a reference was due and kept back until the link's share allowed it.
    pub references_withheld: Counter,
    /// Epochs for which there was no empty shard at the sender's end, and at the receiver's.
    pub unmeasured_epochs: [Counter; 2],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_counted_by_powers_of_two() {
        let counters = WorkerCounters::new(0);
        let by_bucket: [&[usize]; BURST_BUCKETS] = [
            &[1],
            &[2],
            &[3, 4],
            &[5, 8],
            &[9, 16],
            &[17, 32],
            &[33, 64],
            &[65, 10_000],
        ];
        counters.burst(0);
        for sizes in by_bucket {
            for &packets in sizes {
                counters.burst(packets);
            }
        }
        let counted = counters.bursts.each_ref().map(Counter::get);
        assert_eq!(counted, by_bucket.map(|sizes| sizes.len() as u64));
    }

    #[test]
    fn a_reason_counts_at_its_own_place() {
        let port = PortCounters::default();
        for (n, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(
                reason as usize, n,
                "the order of ALL is that of the counters"
            );
            port.dropped(reason, n as u64 + 1);
        }
        assert_eq!(port.drops[DropReason::Red as usize].get(), 15);
        assert_eq!(port.dropped_total(), 19 * 20 / 2);
    }
}
