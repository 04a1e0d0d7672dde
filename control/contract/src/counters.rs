//! Counters of the data plane: one worker writes them, anyone reads them, no lock is taken.
//!
//! A worker owns its block and adds with a plain load and store. A reader may see a value that is a few packets old,
//! but never a torn one. Counters only rise while the engine exists, so `received = transmitted + dropped + in
//! flight` can be checked at any time.
//!
//! Each counter is declared once, here. The worker's counter, the record in the snapshot, and the metric in
//! `/metrics` and `docs/metrics.md` all come from that line ([`crate::metric`]).

use measure::flows::{FlowTable, Untracked};
use schemars::JsonSchema;

use crate::fdb::FdbStats;
use crate::labelled_enum;
use crate::limits::CLASSES_MAX;
use crate::lldp::LldpSlot;
pub use crate::metric::Counter;
use crate::metric::{Declaration, Metric, counters};

labelled_enum! {
    /// Why a packet was dropped.
    #[derive(JsonSchema)]
    #[schemars(rename_all = "snake_case")]
    pub enum DropReason {
        /// Shorter than an Ethernet header (14 bytes).
        Runt = "runt",
        /// Longer than the egress port's MTU and Ethernet header with two tags.
        Oversize = "oversize",
        /// Addressed to 01:80:C2:00:00:0X, which a bridge does not forward (IEEE 802.1D 7.12.6).
        LinkLocal = "link_local",
        /// From a multicast or all-zero source address, which the bridge does not forward.
        BadSource = "bad_source",
        /// MAC PAUSE (ethertype 0x8808), which ends at the link.
        Pause = "pause",
        /// The bridge knows the destination on the port the frame came from (no hairpin).
        Hairpin = "hairpin",
        /// The port has no partner that it forwards to.
        NoDestination = "no_destination",
        /// Flooded frames from the ingress port exceed the limit.
        Storm = "storm",
        /// The port does not accept tagged (or untagged) frames, or is no member of the VLAN; or an access
        /// port would send a frame that still has a second tag.
        Vlan = "vlan",
        /// No room for the VLAN tag in front of the frame.
        NoHeadroom = "no_headroom",
        /// No mbuf for the copy of a flooded frame.
        NoMbuf = "no_mbuf",
        /// The egress port has no link.
        LinkDown = "link_down",
        /// The ring to the egress port's owner was full.
        RingFull = "ring_full",
        /// The egress queue was full, in packets or bytes (tail drop).
        QueueFull = "queue_full",
        /// Dropped early at the egress queue (RED).
        Red = "red",
        /// Waited longer than the egress port's maximum residency.
        Expired = "expired",
        /// Still queued when the switch stopped.
        Shutdown = "shutdown",
        /// A control frame of a segment on the wire, accepted or not; it is not forwarded.
        Control = "control",
        /// The port is looped to this same switch, so it passes no data.
        Loop = "loop",
    }
}

impl DropReason {
    /// Whether drops are counted at the egress port: those after the forwarding decision. Others are counted at the ingress
    /// port.
    pub fn is_at_egress(self) -> bool {
        matches!(
            self,
            Self::LinkDown
                | Self::RingFull
                | Self::QueueFull
                | Self::Red
                | Self::Expired
                | Self::Shutdown
        )
    }

    /// Whether the frame is meant for the link itself, so that its end there is no loss.
    pub fn is_by_design(self) -> bool {
        matches!(self, Self::Control | Self::Pause)
    }
}

/// Most class queues of a port, one for each [class](CLASSES_MAX).
pub const QUEUES_MAX: usize = CLASSES_MAX;

/// Buckets of the histogram of bursts.
pub const BURST_BUCKETS: usize = 8;

counters! {
    /// Counters of one port as one worker sees it. Drops are counted at the ingress port, or at the egress port
    /// ([`DropReason::is_at_egress`]).
    #[repr(align(128))]
    pub struct PortCounters {
        rx_packets: Counter "vernier_port_received_packets_total", packets, in "worker", "Packets received.";
        rx_bytes: Counter "vernier_port_received_bytes_total", bytes, in "worker",
            "Bytes received, without frame check sequences.";
        tx_packets: Counter "vernier_port_transmitted_packets_total", packets, in "worker",
            "Packets that the driver accepted for transmission.";
        tx_bytes: Counter "vernier_port_transmitted_bytes_total", bytes, in "worker",
            "Bytes of the packets transmitted.";
        refused_packets: Counter "vernier_port_refused_packets_total", packets, in "plugin",
            "Packets that a full vhost-user port of a program with the plugin refused, counted once for each attempt.";
        copies: Counter "vernier_port_copied_packets_total", packets, in "worker",
            "Copies made of packets that were received on the port and flooded.";
        queued_packets: Gauge "vernier_port_queued_packets", packets, in "worker",
            "Packets queued for transmission.";
    }
    and {
        /// Parsed frames by what the parser found, in the order of `measure::packet::Kind::ALL`.
        pub kinds: [Counter; measure::packet::Kind::COUNT],
        /// Drops, in the order of [`DropReason::ALL`].
        pub drops: [Counter; DropReason::ALL.len()],
        /// Transmitted and dropped packets, by class.
        pub classes: [ClassCounters; CLASSES_MAX],
        /// The egress queues, in the order of the configuration.
        pub queues: [QueueCounters; QUEUES_MAX],
        /// The device that the port leads to.
        pub around: AroundCounters,
        /// The last LLDP frame from the neighbour.
        pub lldp: LldpSlot,
    }
    read as PortReading
}

counters! {
    /// Counters of one port of another device that packets are measured around. Over all ports of the device,
    /// `entered = returned + lost + displaced + inside`.
    pub struct AroundCounters {
        entered_packets: Counter "vernier_around_entered_packets_total", packets, in "meter",
            "Packets that left for the device by the port.";
        returned_packets: Counter "vernier_around_returned_packets_total", packets, in "meter",
            "Packets that came back by the port after entering the device by any port.";
        reflected_packets: Counter "vernier_around_reflected_packets_total", packets, in "meter",
            "Returned packets that had entered by the same port; no segment counts them.";
        lost_packets: Counter "vernier_around_lost_packets_total", packets, in "meter",
            "Packets that entered by the port and did not come back in time: lost, or rewritten beyond recognition.";
        unknown_packets: Counter "vernier_around_unknown_packets_total", packets, in "meter",
            "Packets that came back by the port without having entered: made by the device, late, or rewritten beyond recognition.";
        displaced_packets: Counter "vernier_around_displaced_packets_total", packets, in "meter",
            "Packets that entered by the port and were evicted from a full table: counted neither as measured nor as lost.";
        reordered_packets: Counter "vernier_around_reordered_packets_total", packets, in "meter",
            "Packets that came back by the port after one that had entered later by the same port (RFC 4737). Only packets received by the same worker are compared, because receive queues of different workers have no common order.";
    }
    read as AroundReading
}

counters! {
    /// Counters of one class at its egress port.
    pub struct ClassCounters {
        tx_packets: Counter "vernier_class_transmitted_packets_total", packets, in "worker",
            "Packets of the class that the driver accepted for transmission.";
        tx_bytes: Counter "vernier_class_transmitted_bytes_total", bytes, in "worker",
            "Bytes of the packets of the class that were transmitted.";
        dropped_packets: Counter "vernier_class_dropped_packets_total", packets, in "worker",
            "Packets of the class dropped on their way to the driver.";
    }
    read as ClassReading
}

counters! {
    /// Counters of one egress queue.
    pub struct QueueCounters {
        packets: Gauge "vernier_queue_packets", packets, in "egress", "Packets in the egress queue.";
        bytes: Gauge "vernier_queue_bytes", bytes, in "egress", "Bytes in the egress queue.";
    }
    and {
        /// Packets refused because the queue was full, in packets or bytes ([`DropReason::QueueFull`]).
        pub full: Counter,
        /// Packets dropped early ([`DropReason::Red`]).
        pub red: Counter,
        /// Packets that waited too long ([`DropReason::Expired`]).
        pub expired: Counter,
    }
    read as QueueReading
}

impl QueueCounters {
    /// Drops by reason.
    pub fn drops(&self) -> [(DropReason, &Counter); 3] {
        [
            (DropReason::QueueFull, &self.full),
            (DropReason::Red, &self.red),
            (DropReason::Expired, &self.expired),
        ]
    }
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

counters! {
    /// Counters of one worker.
    #[repr(align(128))]
    pub struct WorkerCounters {
        // Also a heartbeat: a worker whose passes do not rise has stalled.
        passes: Counter "vernier_worker_passes_total", passes, in "worker", "Passes of the worker's loop.";
        idle_passes: Counter "vernier_worker_idle_passes_total", passes, in "worker",
            "Passes that neither received nor sent a packet.";
        // With `busy_ticks`, the cost of a packet.
        busy_packets: Counter "vernier_worker_received_packets_total", packets, in "worker",
            "Packets that the worker received from ports and from other workers.";
        ring_packets: Gauge "vernier_worker_ring_packets", packets, in "worker",
            "Packets queued in rings from other workers.";
        generation: Gauge "vernier_worker_generation", generation, in "worker",
            "Generation that the worker runs.";
    }
    and {
        /// Ticks spent in passes that did some work.
        pub busy_ticks: Counter,
        /// Gauge: longest time between two polls of one port since the previous tick, in ticks: the error
        /// that a stamp may have.
        pub poll_gap_ticks_max: Counter,
        /// Bursts received, by size: one packet, 2, 3 to 4, 5 to 8, .. 33 to 64, more.
        pub bursts: [Counter; BURST_BUCKETS],
        /// Packets measured in an exceptional way.
        pub exceptions: ExceptionCounters,
        /// Its flow table.
        pub flows: FlowTableCounters,
        /// Reference packets.
        pub references: ReferenceCounters,
        /// The ports, in the order of the configuration.
        pub ports: Vec<PortCounters>,
    }
    read as WorkerReading
}

counters! {
    /// Packets measured in an exceptional way.
    pub struct ExceptionCounters {
        backward_packets: Counter "vernier_backward_packets_total", packets, in "meter",
            "Packets that seem to have left before they arrived, because the counters of two cores disagree; their \
             delay counts as 0.";
        outlived_packets: Counter "vernier_outlived_packets_total", packets, in "meter",
            "Packets still queued when the generation that measured them had ended; no segment counts them.";
    }
    read as #[schemars(rename = "Exceptions")] ExceptionReading
}

counters! {
    /// Reference packets (RLI) that a worker injected and consumed.
    pub struct ReferenceCounters {
        injected: Counter "vernier_worker_references_injected_total", references, in "references",
            "Reference packets injected.";
        received: Counter "vernier_worker_references_received_total", references, in "references",
            "Reference packets that reached the egress point.";
        left_out: Counter "vernier_worker_references_left_out_total", references, in "references",
            "Reference packets not injected, because too many of their stream were in flight.";
        overflowed_packets: Counter "vernier_worker_reference_overflowed_packets_total", packets, in "references",
            "Packets that did not fit into an interpolation buffer; their delay is estimated from the left reference.";
        late_estimates: Counter "vernier_worker_reference_late_estimates_total", packets, in "references",
            "Estimates for packets whose epoch was already sealed, or was not measured.";
    }
    read as #[schemars(rename = "References")] ReferenceReading
}

/// Counters of a worker's flow table.
#[derive(Debug, Default)]
pub struct FlowTableCounters {
    /// Gauge: free slots.
    pub free_slots: Counter,
    /// Packets of flows that found no free slot.
    pub without_free_slot: Counter,
    /// Packets of flows that found both of their buckets full.
    pub without_place: Counter,
    /// Packets of flows that could not be reported.
    pub unreported: Counter,
}

impl FlowTableCounters {
    /// Copies the table's counts. `base`, the counts of the worker's earlier tables, is added to its
    /// totals.
    pub fn set(&self, table: &FlowTable, base: Untracked) {
        let own = table.untracked();
        let sum = u64::wrapping_add;
        self.free_slots.set(table.free_slots() as u64);
        self.without_free_slot
            .set(sum(base.without_free_slot, own.without_free_slot));
        self.without_place
            .set(sum(base.without_place, own.without_place));
        self.unreported.set(sum(base.unreported, own.unreported));
    }

    /// Packets of flows that have no slot, by the value of the `reason` label.
    pub fn untracked(&self) -> [(&'static str, &Counter); 3] {
        [
            ("no_free_slot", &self.without_free_slot),
            ("no_place", &self.without_place),
            ("not_reported", &self.unreported),
        ]
    }
}

impl WorkerCounters {
    /// Counters for a worker that serves `ports` ports.
    pub fn new(ports: usize) -> Self {
        Self {
            ports: (0..ports).map(|_| PortCounters::default()).collect(),
            ..Self::default()
        }
    }

    /// Counts a burst of `packets` received packets; 0 packets are no burst.
    #[inline]
    pub fn burst(&self, packets: usize) {
        if packets > 0 {
            let bucket = (usize::BITS - (packets - 1).leading_zeros()) as usize;
            self.bursts[bucket.min(BURST_BUCKETS - 1)].add(1);
        }
    }
}

labelled_enum! {
    /// Why a control frame received on a wire port was rejected.
    pub enum Rejection {
        /// Not one whole frame of a known kind.
        Malformed = "malformed",
        /// Under an unknown key, or none.
        UnknownKey = "unknown_key",
        /// With a wrong tag.
        Tag = "tag",
        /// Of another session than the current one.
        Session = "session",
        /// A replay, or too old to tell.
        Replayed = "replayed",
        /// Authentic, but the control core had no room for it.
        Overflow = "overflow",
        /// A hello whose time this end's clock, if synchronised, does not allow.
        Stale = "stale",
        /// Hellos arrived faster than they are examined; this is an old one.
        HelloRate = "hello_rate",
        /// Of another version of the protocol.
        Version = "version",
    }
}

/// Counters of a wire port, written by the worker that owns it.
#[derive(Debug, Default)]
pub struct WireCounters {
    /// Control frames sent, by [`wire::frame::Kind::ALL`].
    pub sent: [Counter; wire::frame::Kind::COUNT],
    /// Bytes of control frames on the link, with preamble, frame check sequence and gap.
    pub sent_bytes: Counter,
    /// Bytes on the link of references alone.
    pub reference_bytes: Counter,
    /// Bytes on the link of data.
    pub data_bytes: Counter,
    /// Control frames accepted, by [`wire::frame::Kind::ALL`].
    pub accepted: [Counter; wire::frame::Kind::COUNT],
    /// Control frames rejected, by [`Rejection::ALL`].
    pub rejected: [Counter; Rejection::ALL.len()],
    /// Protocol version of the last frame rejected for its version; 0 if there was none.
    pub other_version: Counter,
    /// References that were due but withheld, because the link's share was used up.
    pub references_withheld: Counter,
    /// Epochs without an empty shard, at the sending and at the receiving end.
    pub unmeasured_epochs: [Counter; 2],
}

/// All declarations, of all records.
pub fn declarations() -> Vec<Declaration> {
    fn of<T: 'static>(
        metrics: impl Iterator<Item = &'static Metric<T>>,
    ) -> impl Iterator<Item = Declaration> {
        metrics.map(|metric| metric.declaration)
    }
    of(PortReading::metrics())
        .chain(of(AroundReading::metrics()))
        .chain(of(ClassReading::metrics()))
        .chain(of(QueueReading::metrics()))
        .chain(of(WorkerReading::metrics()))
        .chain(of(ExceptionReading::metrics()))
        .chain(of(ReferenceReading::metrics()))
        .chain(of(FdbStats::metrics()))
        .collect()
}

#[cfg(test)]
mod tests;
