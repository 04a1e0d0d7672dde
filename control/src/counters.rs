//! Counters of the data plane: written by one worker, read by anybody, never locked.
//!
//! A worker owns its block and adds with a plain load and store; a reader may see a value a few
//! packets old, never a torn one. Everything only rises over the engine's life, so that
//! `received = transmitted + dropped + in flight` can be checked at any time.

use std::sync::atomic::{AtomicU64, Ordering};

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
    /// A tag, or none, where the port takes no such frame, or a VLAN that it is no member of.
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
}

impl DropReason {
    /// Every reason, in the order of its counters.
    pub const ALL: [Self; 17] = [
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
    /// Gauge: packets in the egress queue, and held for a driver that refused them.
    pub queued_packets: Counter,
    /// Frames by what the parser found, in the order of `measure::packet::Kind::ALL`.
    pub kinds: [Counter; measure::packet::Kind::COUNT],
    /// Drops, in the order of [`DropReason::ALL`].
    pub drops: [Counter; DropReason::ALL.len()],
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
    /// Passes of the loop.
    pub passes: Counter,
    /// Passes that received nothing.
    pub idle_passes: Counter,
    /// Ticks spent in passes that did some work.
    pub busy_ticks: Counter,
    /// Gauge: longest time between two polls of one port since the previous tick, in ticks: what
    /// a stamp cannot see.
    pub poll_gap_ticks_max: Counter,
    /// The ports, in the order of the configuration.
    pub ports: Vec<PortCounters>,
}

impl WorkerCounters {
    /// Counters for a worker that serves `ports` ports.
    pub fn new(ports: usize) -> Self {
        Self {
            ports: (0..ports).map(|_| PortCounters::default()).collect(),
            ..Self::default()
        }
    }
}
