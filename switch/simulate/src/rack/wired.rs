//! A switch of one worker: a host's port patched to one with a wire.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use contract::counters::{WireCounters, WorkerCounters};
use contract::fdb::{DELTAS, MasterEnd, REPORTS, fdb_rings};
use contract::handover::ControlEnd;
use contract::ids::PortIndex;
use contract::wire::clock::SharedLine;
use contract::wire::clock::TaiLine;
use contract::wire::handover::{WireControlEnd, wire_handover};
use measure::time::{EpochSchedule, Ticks};
use switch::egress::Lane;
use switch::generation::generations;
use switch::meter::Meter;
use switch::packet_io::memory::{MemoryIo, MemoryPacket};
use switch::wire::{Envelope, HelloGate, Share, WirePort, WireSetup, Wires, source_address};
use switch::worker::Worker;
use wire::frame::MAGIC;
use wire::session::{Key, KeyId, KeyRing};
use wire::{Receiver, Sender, WireLayout};

use super::{config, decide, egress, hasher, plan, port, rate};

pub const HOST: usize = 0;
pub const WIRE: usize = 1;

/// A time of day for tick 0.
pub const TAI_NS: u64 = 1_800_000_000_000_000_000;

const ETHERTYPE: u16 = 0x88B5;

pub struct Wired {
    pub worker: Worker<MemoryIo>,
    pub counters: Arc<WorkerCounters>,
    pub shards: ControlEnd,
    pub line: Arc<SharedLine>,
    _master: MasterEnd,
}

pub fn keys() -> KeyRing {
    KeyRing::new().with(KeyId(1), Key::new([9; 16])).unwrap()
}

/// Switch `number`, whose control frames may take `share` of a link, and the control core's end of
/// its wire.
pub fn wired(
    number: u32,
    layout: &WireLayout,
    schedule: EpochSchedule,
    (capacity_bps, share): (u64, f64),
) -> (Wired, WireControlEnd) {
    let ports = format!("{}, {}", port("host", ""), port("wire", ""));
    let patch = r#""forwarding": {"mode": "patch", "pairs": [["host", "wire"]]}"#;
    let config = config(1, &ports, patch);
    let (plan, shards) = plan(&config, None);
    let meter = Meter::new(hasher(), schedule, Some(plan), Ticks(0));
    let (replica, master) = fdb_rings(REPORTS, DELTAS);
    let counters = Arc::new(WorkerCounters::new(2));
    let lanes =
        (0..2).map(|index| Lane::own(&egress(&config, index), 1_500, rate(), 0, Vec::new()));
    let line = Arc::new(SharedLine::default());
    line.set(TaiLine::at_rate(Ticks(0), TAI_NS, rate()));
    let (end, control) = wire_handover(layout, Arc::clone(&line), Arc::<WireCounters>::default());
    let wire = WirePort::new(WireSetup {
        port: PortIndex::new(WIRE),
        sender: Sender::new(layout, number, 1, &keys(), KeyId(1)).unwrap(),
        receiver: Receiver::new(layout, keys()).unwrap(),
        end,
        classes: [Some(0); 8],
        envelope: Envelope::Link {
            ethertype: ETHERTYPE,
            source: source_address(number, PortIndex::new(WIRE)),
        },
        share: Share::new(capacity_bps, share, 0.4, rate(), Ticks(0)),
        hellos: HelloGate::new(rate(), Ticks(0)),
        schedule,
        recorder: None,
    });
    let worker = Worker::new(
        MemoryIo::new(2),
        lanes.collect(),
        Box::new(decide(&config, Some(replica))),
        meter,
        Arc::clone(&counters),
        generations().1,
        Arc::new(AtomicUsize::new(1)),
        10 * schedule.interval_ticks(),
    )
    .with_wires(Wires::with(2, vec![(WIRE, Some(Box::new(wire)))]));
    let wired = Wired {
        worker,
        counters,
        shards,
        line,
        _master: master,
    };
    (wired, control)
}

impl Wired {
    pub fn pass(&mut self, now: u64) {
        self.worker.io_mut().set_now(Ticks(now));
        self.worker.pass();
    }

    pub fn arrive(&mut self, port: usize, frame: Vec<u8>) {
        self.worker.io_mut().arrive(PortIndex::new(port), frame);
    }

    pub fn departed(&mut self, port: usize) -> Vec<Vec<u8>> {
        let departed = self.worker.io_mut().departed(PortIndex::new(port));
        let bytes = |(_, packet): (Ticks, MemoryPacket)| packet.bytes().to_vec();
        departed.into_iter().map(bytes).collect()
    }

    /// received + copies = transmitted + dropped + queued.
    pub fn assert_conserved(&self) {
        let sum = |of: fn(&contract::counters::PortCounters) -> u64| -> u64 {
            self.counters.ports.iter().map(of).sum()
        };
        let came = sum(|port| port.rx_packets.get() + port.copies.get());
        let went = sum(|port| port.tx_packets.get() + port.dropped_total());
        assert_eq!(came, went + sum(|port| port.queued_packets.get()));
    }
}

pub fn is_control(frame: &[u8]) -> bool {
    frame[12..14] == ETHERTYPE.to_be_bytes() && frame[14..].starts_with(&MAGIC)
}

/// The number of a control frame's kind.
pub fn kind_of(frame: &[u8]) -> Option<u8> {
    is_control(frame).then(|| frame[19])
}
