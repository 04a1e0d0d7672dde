//! Two exchanges back to back, with workers, a wire with faults between them, and traffic whose true
//! delays are known.

use std::sync::Arc;

use measure::lda::{Bank, LdaLayout};
use measure::lds::LdsLayout;
use measure::observation::{End, Observation, SegmentIndex};
use measure::packet::{FlowHash, PacketHash};
use measure::time::{Epoch, EpochTag};
use wire::frame::{ClockState, Frame, Kind, PortName, Refusal, Verifier};
use wire::session::{Key, KeyId, KeyRing, Sessions};
use wire::testing::Network;
use wire::{SealedWire, WireLayout, WireShard};

use crate::background::ResultMode;
use crate::wire::exchange::Exchange;
use contract::counters::WireCounters;
use contract::wire::clock::SharedLine;
use contract::wire::handover::{WireWorkerEnd, wire_handover};
use wire::exchange::{
    ClockView, Expected, FrameSettings, Moment, Order, OwnEnd, Settings, WireStatus,
};

/// Length of an epoch, and of a step.
pub const EPOCH_NS: u64 = 200_000_000;
pub const STEP_NS: u64 = 5_000_000;
/// TAI of the first step.
const START_NS: u64 = 1_800_000_000_000_000_000;

pub const LOCKED: ClockView = ClockView {
    state: ClockState::Locked,
    error_ns: 100,
    tai_utc_s: 37,
    ptp_domain: 0,
};

/// splitmix64: the same numbers everywhere.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// 0 to 1.
    pub fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.bits() % most as u64).unwrap()
    }

    pub fn chance(&mut self, probability: f64) -> bool {
        self.share() < probability
    }
}

pub fn layout() -> WireLayout {
    let lda = LdaLayout::new(&[
        Bank {
            rows: 64,
            probability: 0.1,
        },
        Bank {
            rows: 64,
            probability: 0.9,
        },
    ]);
    WireLayout {
        segments: 1,
        lda: lda.unwrap(),
        lds: Some(LdsLayout::new(256, 5, &[0.1, 0.5, 1.0, 1.0]).unwrap()),
        stash_packets: 32,
        flows: 256,
        references: None,
    }
}

pub fn keys() -> KeyRing {
    KeyRing::new().with(KeyId(1), Key::new([7; 16])).unwrap()
}

pub fn settings(switch: u32) -> Settings {
    Settings {
        own: OwnEnd {
            switch,
            port: 3,
            port_name: PortName::from("trunk").unwrap(),
        },
        is_routed: false,
        expected: Expected::default(),
        renew_ns: u64::MAX,
        keys: keys(),
        key: KeyId(1),
        layout: layout(),
        adaptive: None,
        seed_check: 42,
        epoch_ns: EPOCH_NS,
        frames: FrameSettings {
            bytes_max: 1_500,
            overhead_bytes: 38,
            bytes_per_s: 1_000_000,
        },
        idle_epochs: 100,
        components: 1,
        resolution_ns: 1.0,
        delay_min_ns: 0,
    }
}

/// A switch: its exchange, and its worker's part.
pub struct Switch {
    pub exchange: Exchange,
    pub worker: WireWorkerEnd,
    verifier: Verifier,
    pub sessions: Option<Sessions>,
    pub clock: ClockView,
    /// Frames that were not authenticated, and why.
    pub refused: Vec<Refusal>,
    open: [Option<Box<WireShard>>; 2],
    /// The LDA for the next epoch of outgoing packets.
    coming: LdaLayout,
}

impl Switch {
    pub fn new(settings: Settings) -> Self {
        let counters = Arc::<WireCounters>::default();
        let line = Arc::<SharedLine>::default();
        let (worker, control) = wire_handover(&settings.layout, line, counters);
        let verifier = Verifier::new(settings.keys.clone());
        Self {
            coming: settings.layout.lda.clone(),
            exchange: Exchange::new(settings, control, ResultMode::Polled).unwrap(),
            worker,
            verifier,
            sessions: None,
            refused: Vec::new(),
            clock: LOCKED,
            open: [None, None],
        }
    }

    pub fn status(&self) -> WireStatus {
        self.exchange.status().unwrap()
    }

    /// A frame comes in.
    pub fn receive(&mut self, frame: &[u8], tai_ns: u64) {
        match self.verifier.open(frame) {
            Ok(opened) => {
                self.worker.hear(frame, opened.kind(), tai_ns);
            }
            Err(error) => self.refused.push(error),
        }
    }

    fn apply_commands(&mut self) {
        while let Some(order) = self.worker.next_order() {
            match &order {
                Order::Hear(session) => self.verifier.renew(*session),
                Order::Forget => self.verifier.forget(),
                Order::Keys { keys, .. } => self.verifier.set_keys(keys.clone()),
                Order::Spread(lda) => self.coming.clone_from(lda),
                Order::Begin(_) | Order::Send(_) | Order::End => {}
            }
            if !matches!(order, Order::Begin(_) | Order::End) {
                continue;
            }
            self.verifier.end();
            self.sessions = None;
            // The open epoch ends; the next begins in its middle.
            for (end, open) in [End::Sender, End::Receiver].into_iter().zip(&mut self.open) {
                *open = open.take().or_else(|| self.worker.take_empty(end));
                let Some(shard) = open else { continue };
                shard.clear();
                shard.marks.is_partial = true;
            }
            if let Order::Begin(sessions) = order {
                self.verifier.begin(sessions.receiving);
                self.sessions = Some(sessions);
            }
        }
    }

    pub fn shard(&mut self, end: End) -> Option<&mut WireShard> {
        self.open[end as usize].as_deref_mut()
    }

    /// The epoch ends.
    pub fn rollover(&mut self, end: End, epoch: u64) {
        if self.sessions.is_none() {
            return;
        }
        let next = self.worker.take_empty(end);
        let sealed = std::mem::replace(&mut self.open[end as usize], next);
        if let Some(shard) = sealed {
            let epoch = Epoch(epoch);
            self.worker.give_sealed(end, SealedWire { epoch, shard });
        }
    }
}

/// What becomes of a control frame on the wire: arrivals, in steps from now, and whether damaged.
pub type Fault = Box<dyn FnMut(&mut Random, Kind, &[u8]) -> Vec<(u64, bool)>>;

/// A packet as it was sent.
#[derive(Debug, Clone, Copy)]
pub struct Packet {
    pub flow: u64,
    pub hash: u64,
    pub sent_ns: u64,
    pub delay_ns: i64,
    pub is_lost: bool,
}

impl Packet {
    pub fn observation(&self, time: u64) -> Observation {
        Observation {
            flow: FlowHash(self.flow),
            packet: PacketHash(self.hash),
            time,
            delay: 0,
            bytes: 100,
            segment: SegmentIndex(0),
            epoch: EpochTag(0),
        }
    }

    pub fn received_ns(&self) -> u64 {
        self.sent_ns.wrapping_add_signed(self.delay_ns)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "under a second")]
pub fn whole(ns: f64) -> i64 {
    ns as i64
}

/// True figures of an epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Truth {
    pub sent: u64,
    pub received: u64,
    pub mean_ns: f64,
}

/// Traffic from the first switch to the second, and if wanted back.
pub struct Traffic {
    pub packets: usize,
    /// Packets from the second to the first.
    pub packets_back: usize,
    pub flows: u64,
    pub loss: f64,
    /// Packets on either side of each rollover that the receiver counts on the other.
    pub misplaced: usize,
    /// By how much the second switch's clock is ahead.
    pub offset_ns: i64,
    /// What every packet takes at least, there and back, and its mean wait.
    pub base_ns: [f64; 2],
    pub wait_ns: f64,
}

impl Default for Traffic {
    fn default() -> Self {
        Self {
            packets: 2_000,
            packets_back: 0,
            flows: 100,
            loss: 0.0,
            misplaced: 0,
            offset_ns: 0,
            base_ns: [20_000.0; 2],
            wait_ns: 5_000.0,
        }
    }
}

pub struct Bench {
    pub switches: [Switch; 2],
    pub now: Moment,
    pub random: Random,
    pub fault: Fault,
    pub traffic: Traffic,
    pub epoch: u64,
    /// Of the last epoch.
    pub sent: Vec<Packet>,
    /// By epoch.
    pub truth: Vec<(u64, Truth)>,
    network: Network<Vec<u8>>,
    /// Packets of the epoch that the receiver has counted already, and of the one before that it has
    /// not.
    early: Vec<Packet>,
    late: Vec<Packet>,
    /// Everything that went over the wire.
    pub frames: u64,
}

impl Bench {
    pub fn new(settings: [Settings; 2]) -> Self {
        Self {
            switches: settings.map(Switch::new),
            now: Moment {
                tai_ns: START_NS,
                monotonic_ns: 1_000,
                clock: LOCKED,
            },
            random: Random(1),
            fault: Box::new(|_, _, _| vec![(0, false)]),
            traffic: Traffic::default(),
            epoch: 0,
            sent: Vec::new(),
            truth: Vec::new(),
            network: Network::default(),
            early: Vec::new(),
            late: Vec::new(),
            frames: 0,
        }
    }

    pub fn alike() -> Self {
        Self::new([settings(1), settings(2)])
    }

    /// Polls both once; returns the frames that they sent.
    pub fn step(&mut self) {
        self.now.tai_ns += STEP_NS;
        self.now.monotonic_ns += STEP_NS;
        let mut now = self.now;
        for index in 0..2 {
            let (random, switch) = (&mut self.random, &mut self.switches[index]);
            now.clock = switch.clock;
            switch.exchange.poll(now, &mut || random.bits());
            switch.apply_commands();
            while let Some(boxed) = switch.worker.to_send() {
                let frame = boxed.frame().to_vec();
                switch.worker.sent();
                self.frames += 1;
                let kind = Frame::parse(&frame).unwrap().kind();
                for (steps, is_damaged) in (self.fault)(random, kind, &frame) {
                    let mut frame = frame.clone();
                    if is_damaged {
                        let at = random.below(frame.len());
                        frame[at] ^= 1 << (random.bits() % 8);
                    }
                    let at_ns = now.monotonic_ns + steps * STEP_NS;
                    self.network.send(1 - index, at_ns, frame);
                }
            }
        }
        while let Some((_, to, frame)) = self.network.arrive(now.monotonic_ns) {
            self.switches[to].receive(&frame, now.tai_ns);
        }
    }

    pub fn steps(&mut self, steps: usize) {
        (0..steps).for_each(|_| self.step());
    }

    pub fn establish(&mut self) {
        for _ in 0..200 {
            self.step();
            if self.switches.iter().all(|switch| switch.sessions.is_some()) {
                return;
            }
        }
        panic!("no session");
    }

    fn packet(&mut self) -> Packet {
        self.packet_from(0)
    }

    fn packet_from(&mut self, switch: usize) -> Packet {
        let random = &mut self.random;
        let flow = random.bits() % self.traffic.flows;
        // Each flow has its own path through the queues between.
        let base = self.traffic.base_ns[switch] + 400.0 * flow as f64;
        let wait = -(1.0 - random.share()).ln() * self.traffic.wait_ns;
        let offset_ns = [self.traffic.offset_ns, -self.traffic.offset_ns][switch];
        Packet {
            flow: Random(flow + 1).bits(),
            hash: random.bits(),
            sent_ns: self.now.tai_ns - EPOCH_NS + random.bits() % EPOCH_NS,
            delay_ns: whole(base + wait) + offset_ns,
            is_lost: random.chance(self.traffic.loss),
        }
    }

    /// An epoch of traffic, and its rollover.
    pub fn epoch(&mut self) {
        self.steps((EPOCH_NS / STEP_NS) as usize);
        let misplaced = self.traffic.misplaced;
        let fresh = self.traffic.packets.saturating_sub(self.early.len());
        let mut sent: Vec<Packet> = (0..fresh).map(|_| self.packet()).collect();
        sent.sort_by_key(|packet| packet.sent_ns);
        let counted = std::mem::take(&mut self.early);
        let mut arriving: Vec<Packet> = std::mem::take(&mut self.late);
        arriving.extend(&sent);
        self.late = arriving.split_off(arriving.len().saturating_sub(misplaced));
        sent.splice(0..0, counted);
        self.early = (0..misplaced)
            .map(|_| {
                let mut packet = self.packet();
                packet.sent_ns = self.now.tai_ns + 1;
                packet
            })
            .collect();
        arriving.extend(&self.early);
        self.count([0, 1], &sent, &arriving);
        if self.traffic.packets_back > 0 {
            let back = (0..self.traffic.packets_back).map(|_| self.packet_from(1));
            let back: Vec<Packet> = back.collect();
            self.count([1, 0], &back, &back);
        }
        self.truth.push((self.epoch, truth(&sent)));
        self.sent = sent;
        self.rollover();
    }

    fn count(&mut self, [from, to]: [usize; 2], sent: &[Packet], arriving: &[Packet]) {
        if let Some(shard) = self.switches[from].shard(End::Sender) {
            let observations: Vec<Observation> = sent
                .iter()
                .map(|one| one.observation(one.sent_ns))
                .collect();
            shard.record(End::Sender, &observations);
        }
        if let Some(shard) = self.switches[to].shard(End::Receiver) {
            let arrived = arriving.iter().filter(|one| !one.is_lost);
            let observations: Vec<Observation> = arrived
                .map(|one| one.observation(one.received_ns()))
                .collect();
            shard.record(End::Receiver, &observations);
            for observation in &observations {
                let Observation {
                    flow,
                    segment,
                    bytes,
                    ..
                } = *observation;
                shard.flows.count(flow, segment, bytes);
            }
            let arrived = arriving.iter().filter(|one| !one.is_lost);
            let delays = arrived.map(|one| one.delay_ns);
            shard.marks.least_delay_ns = delays.min();
            shard.marks.references = 1;
        }
    }

    /// Both ends seal.
    fn rollover(&mut self) {
        for switch in &mut self.switches {
            switch.rollover(End::Sender, self.epoch);
            switch.rollover(End::Receiver, self.epoch);
        }
        // The markers carry the sender's layout.
        for (from, to) in [(0, 1), (1, 0)] {
            let lda = self.switches[from].coming.clone();
            for (switch, end) in [(from, End::Sender), (to, End::Receiver)] {
                if let Some(shard) = self.switches[switch].shard(end) {
                    assert!(shard.relay(&lda));
                }
            }
        }
        self.epoch += 1;
    }

    /// The truth of an epoch.
    pub fn truth_of(&self, epoch: u64) -> Truth {
        let found = self.truth.iter().find(|(number, _)| *number == epoch);
        found.unwrap().1
    }
}

fn truth(sent: &[Packet]) -> Truth {
    let arrived = sent.iter().filter(|packet| !packet.is_lost);
    let delays: Vec<f64> = arrived.map(|packet| packet.delay_ns as f64).collect();
    Truth {
        sent: sent.len() as u64,
        received: delays.len() as u64,
        mean_ns: delays.iter().sum::<f64>() / delays.len().max(1) as f64,
    }
}
