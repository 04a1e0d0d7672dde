//! A switch in a test tube: in-memory ports, a clock turned by hand, and what a test asks of them.
#![allow(
    missing_docs,
    missing_debug_implementations,
    clippy::missing_panics_doc,
    clippy::return_self_not_must_use,
    clippy::new_without_default,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "it is for tests, and says what must hold in the plainest way"
)]

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use contract::config;
use contract::counters::{DropReason, PortCounters, WorkerCounters};
use contract::handover::{ControlEnd, handover};
use contract::ids::PortIndex;
use measure::lda::{Bank, LdaLayout};
use measure::packet::Hasher;
use measure::shard::{ShardLayout, Tally};
use measure::time::{EpochSchedule, Ticks};
use switch::decide::{BridgeLayout, Decide};
use switch::egress::EgressLayout;
use switch::egress::Lane;
use switch::generation::{Generations, generations};
use switch::meter::{Meter, Plan, SegmentMap};
use switch::packet_io::ClassIndex;
use switch::packet_io::memory::MemoryIo;
use switch::references::References;
use switch::worker::Worker;

use crate::rack::between;
pub use crate::rack::{GHZ, GRACE, INTERVAL, rate};

pub const EAST: PortIndex = PortIndex(0);
pub const WEST: PortIndex = PortIndex(1);

pub struct TestTube {
    pub worker: Worker<MemoryIo>,
    pub counters: Arc<WorkerCounters>,
    pub control: ControlEnd,
    pub generations: Generations<MemoryIo>,
}

pub struct Setup {
    pub ports: u8,
    pub queue_packets: u32,
    pub capacity_bps: Option<u64>,
    pub bridge: bool,
}

pub const TWO_PATCHED: Setup = Setup {
    ports: 2,
    queue_packets: 64,
    capacity_bps: None,
    bridge: false,
};

/// One queue of `packets` packets behind a link of `capacity_bps`.
pub fn one_queue(packets: u32, capacity_bps: Option<u64>) -> EgressLayout {
    let egress = config::Egress {
        queue_packets: packets,
        capacity_bps,
        ..config::Egress::default()
    };
    EgressLayout::from_config(&egress, 1500, &[])
}

/// Every ordered pair of ports, one class.
pub fn pairs(ports: u8) -> Vec<(PortIndex, PortIndex, ClassIndex)> {
    let all = || (0..ports).map(PortIndex);
    all()
        .flat_map(|a| {
            all()
                .filter(move |&b| a != b)
                .map(move |b| (a, b, ClassIndex(0)))
        })
        .collect()
}

impl TestTube {
    pub fn new(setup: &Setup) -> Self {
        Self::with_references(setup, None)
    }

    pub fn with_references(setup: &Setup, references: Option<References>) -> Self {
        let ports = usize::from(setup.ports);
        let lda = LdaLayout::new(&[Bank {
            rows: 64,
            probability: 1.0,
        }])
        .unwrap();
        let pairs = pairs(setup.ports);
        let layout = ShardLayout {
            lda: Some(lda),
            ..ShardLayout::new(rate(), pairs.len())
        };
        let (worker_end, control) = handover(&layout);
        let plan = Plan {
            handover: worker_end,
            segments: SegmentMap::new(ports, pairs),
            hashing: layout.hashing(),
            flows: None,
            stamps_packets: false,
            arounds: None,
            references: references.map(Box::new),
        };
        let meter = Meter::new(
            Hasher::new([7; 16]),
            EpochSchedule::new(Ticks(0), INTERVAL, GRACE),
            Some(Box::new(plan)),
            Ticks(0),
        );
        let lanes = (0..setup.ports)
            .map(|port| {
                let layout = one_queue(setup.queue_packets, setup.capacity_bps);
                Lane::own(&layout, 1500, rate(), port.into(), Vec::new())
            })
            .collect();
        let decide = if setup.bridge {
            Decide::bridge(BridgeLayout::plain(setup.ports), rate())
        } else {
            Decide::patch(ports, &[(EAST, WEST)])
        };
        let counters = Arc::new(WorkerCounters::new(ports));
        let (generations, worker_generations) = generations();
        let worker = Worker::new(
            MemoryIo::new(ports),
            lanes,
            Box::new(decide),
            meter,
            Arc::clone(&counters),
            worker_generations,
            Arc::new(AtomicUsize::new(1)),
            10 * INTERVAL,
        );
        Self {
            worker,
            counters,
            control,
            generations,
        }
    }

    pub fn arrive(&mut self, port: PortIndex, frame: Vec<u8>) {
        self.worker.io_mut().arrive(port, frame);
    }

    pub fn pass_at(&mut self, now: u64) -> usize {
        self.worker.io_mut().set_now(Ticks(now));
        self.worker.pass()
    }

    pub fn departed(&mut self, port: PortIndex) -> Vec<(u64, Vec<u8>)> {
        let departed = self.worker.io_mut().departed(port);
        departed
            .into_iter()
            .map(|(at, packet)| (at.0, packet.bytes().to_vec()))
            .collect()
    }

    pub fn dropped(&self, port: PortIndex, reason: DropReason) -> u64 {
        self.counters.ports[port.index()].drops[reason as usize].get()
    }

    /// received + copies = transmitted + dropped + queued, over all ports.
    pub fn assert_conserved(&self) {
        let sum = |f: fn(&PortCounters) -> u64| -> u64 { self.counters.ports.iter().map(f).sum() };
        assert_eq!(
            sum(|port| port.rx_packets.get() + port.copies.get()),
            sum(|port| port.tx_packets.get() + port.dropped_total() + port.queued_packets.get()),
        );
    }

    pub fn sealed_tally(&mut self, segment: usize) -> Option<(u64, Tally)> {
        let shard = self.control.take_sealed()?;
        let result = (shard.epoch().0, shard.segments()[segment].tally);
        self.control.give_back(shard, []);
        Some(result)
    }
}

/// A UDP datagram distinguished from others by `n`.
pub fn udp(n: u32) -> Vec<u8> {
    frame_between([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], n)
}

pub fn frame_between(destination: [u8; 6], source: [u8; 6], n: u32) -> Vec<u8> {
    between(destination, source, 12_345, n, 60)
}
