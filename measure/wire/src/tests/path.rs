//! The path, and known traffic on it.

use std::collections::HashMap;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;
use crate::testing::Network;

/// Length of an epoch.
pub const EPOCH_NS: u64 = 10_000_000;

/// When the tests begin, in TAI.
const BEGIN_NS: u64 = 1_790_000_000_000_000_000;

/// Between two bursts.
const BURST_NS: u64 = 20_000;

/// Behaviour of the path.
#[derive(Debug, Clone, Copy, Default)]
pub struct Path {
    /// A packet takes this long at least,
    pub delay_ns: u64,
    /// and this much longer at most.
    pub jitter_ns: u64,
    /// Packets may overtake each other.
    pub overtakes: bool,
    /// Share of data packets, and of control frames, that are lost.
    pub loss: f64,
    /// Share that come twice.
    pub doubles: f64,
    /// The receiver's clock less the sender's.
    pub clock_ns: i64,
}

impl Path {
    /// In order, with nothing lost.
    pub fn perfect() -> Self {
        Self {
            delay_ns: 30_000,
            jitter_ns: 40_000,
            ..Self::default()
        }
    }
}

/// A control frame on its way.
#[derive(Debug, Clone)]
pub struct Frame {
    pub bytes: Vec<u8>,
    pub due: Due,
    pub epoch: Epoch,
    /// Of a marker: which copy.
    pub marker: Option<Marker>,
}

impl Frame {
    pub fn is_copy(&self, epoch: Epoch, copies: &[u8]) -> bool {
        let copy = self.marker.as_ref().map(|marker| marker.copy);
        self.epoch == epoch && copy.is_some_and(|copy| copies.contains(&copy))
    }
}

#[derive(Debug, Clone)]
enum Item {
    Data {
        observation: Observation,
        epoch: Epoch,
    },
    Control(Box<Frame>),
}

/// What truly happened to the packets that were sent in an epoch, on one segment.
#[derive(Debug, Clone, Default)]
pub struct Truth {
    pub sent: u64,
    pub received: u64,
    pub delay_sum_ns: i64,
    pub flows: HashMap<u64, u64>,
}

impl Truth {
    pub fn mean_ns(&self) -> f64 {
        self.delay_sum_ns as f64 / self.received as f64
    }
}

/// Shards in circulation at one end.
#[derive(Debug)]
pub struct Pool {
    end: End,
    layout: WireLayout,
    pub empty: u64,
    pub taken: u64,
    pub sealed: Vec<SealedWire>,
}

impl Shards for Pool {
    fn take_empty(&mut self) -> Option<Box<WireShard>> {
        self.empty = self.empty.checked_sub(1)?;
        self.taken += 1;
        Some(Box::new(WireShard::new(&self.layout, self.end)))
    }

    fn give(&mut self, sealed: SealedWire) {
        self.sealed.push(sealed);
    }
}

impl Pool {
    pub fn new(layout: &WireLayout, end: End) -> Self {
        Self {
            end,
            layout: layout.clone(),
            empty: 1_000,
            taken: 0,
            sealed: Vec::new(),
        }
    }

    pub fn of(&self, epoch: Epoch) -> &WireShard {
        let mut all = self.sealed.iter().filter(|sealed| sealed.epoch == epoch);
        let one = all.next().unwrap_or_else(|| panic!("no {epoch:?}"));
        assert!(all.next().is_none(), "{epoch:?} twice");
        &one.shard
    }

    pub fn epochs(&self) -> Vec<u64> {
        self.sealed.iter().map(|sealed| sealed.epoch.0).collect()
    }
}

/// Two ends and what lies between them.
pub struct Wire {
    pub layout: WireLayout,
    pub path: Path,
    pub sender: Sender,
    pub receiver: Receiver,
    pub sent: Pool,
    pub received: Pool,
    pub now_ns: u64,
    pub epoch: Epoch,
    pub share: ReferenceShare,
    /// By epoch and segment.
    pub truth: HashMap<(Epoch, u16), Truth>,
    /// Control frames that were sent.
    pub frames: Vec<Frame>,
    /// Fates of packets that arrived.
    pub controls: Vec<Control>,
    /// Data packets that arrived.
    pub arrived: u64,
    /// Control frames that are lost.
    pub drops: Box<dyn FnMut(&Frame) -> bool>,
    rng: Pcg64Mcg,
    network: Network<Item>,
}

impl Wire {
    pub fn new(layout: WireLayout, path: Path, seed: u64) -> Self {
        Self {
            path,
            sender: Sender::new(&layout, 7, 1, &keys(), KeyId(3)).unwrap(),
            receiver: Receiver::new(&layout, keys()).unwrap(),
            sent: Pool::new(&layout, End::Sender),
            received: Pool::new(&layout, End::Receiver),
            now_ns: BEGIN_NS,
            epoch: Epoch(40),
            share: ReferenceShare::Left,
            truth: HashMap::new(),
            frames: Vec::new(),
            controls: Vec::new(),
            arrived: 0,
            drops: Box::new(|_| false),
            rng: Pcg64Mcg::seed_from_u64(seed),
            network: Network::default(),
            layout,
        }
    }

    /// With a session at both ends, and all there is to measure.
    pub fn begun(path: Path, seed: u64) -> Self {
        let mut wire = Self::new(layout(), path, seed);
        wire.begin(1);
        wire
    }

    /// A session begins at both ends.
    pub fn begin(&mut self, n: u64) {
        self.sender.begin(session(n));
        self.receiver.begin(session(n));
    }

    /// The next epoch begins.
    pub fn turn(&mut self) {
        self.turn_to(Epoch(self.epoch.0 + 1));
    }

    pub fn turn_to(&mut self, epoch: Epoch) {
        self.epoch = epoch;
        let empty = self.sent.take_empty();
        if let Some(sealed) = self.sender.turn(epoch, self.now_ns, empty) {
            self.sent.give(sealed);
        }
        self.send_due();
    }

    /// Turns, and sends for a whole epoch; as many times.
    pub fn epochs(&mut self, epochs: usize) {
        for _ in 0..epochs {
            self.turn();
            self.traffic(EPOCH_NS);
        }
    }

    /// Sends for so long.
    pub fn traffic(&mut self, ns: u64) {
        let end_ns = self.now_ns + ns;
        while self.now_ns < end_ns {
            let packets = self.rng.random_range(0..12);
            let observations: Vec<Observation> = (0..packets)
                .map(|_| {
                    let flow = self.rng.random_range(0..30_u64);
                    Observation {
                        flow: FlowHash((flow + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)),
                        packet: PacketHash(self.rng.random()),
                        time: self.now_ns,
                        delay: 0,
                        bytes: [64, 576, 1_500][self.rng.random_range(0..3)],
                        segment: SegmentIndex(u16::try_from(flow).unwrap() % self.layout.segments),
                        epoch: EpochTag(0),
                    }
                })
                .collect();
            self.send(&observations);
            self.now_ns += self.rng.random_range(1..2 * BURST_NS);
            self.deliver(self.now_ns);
        }
        self.now_ns = end_ns;
        self.send_due();
    }

    /// Sends a burst.
    pub fn send(&mut self, observations: &[Observation]) {
        self.sender.sent(observations);
        for observation in observations {
            let epoch = self.epoch;
            let truth = self
                .truth
                .entry((epoch, observation.segment.0))
                .or_default();
            truth.sent += 1;
            let observation = *observation;
            self.travel(&Item::Data { observation, epoch });
        }
        self.send_due();
    }

    /// Sends what control frames are due.
    pub fn send_due(&mut self) {
        let mut buffer = [0; 1_500];
        while let Some(due) = self.sender.due(self.now_ns, self.share, &mut buffer) {
            let bytes = buffer[..due.len].to_vec();
            let frame = crate::frame::Frame::parse(&bytes).unwrap();
            assert_eq!(frame.kind(), due.kind);
            let marker = match Message::parse(&frame).unwrap() {
                Message::Marker(marker) => Some(marker),
                Message::Reference(_) => None,
                other => panic!("{other:?}"),
            };
            let epoch = frame.header().epoch;
            let frame = Frame {
                bytes,
                due,
                epoch,
                marker,
            };
            self.frames.push(frame.clone());
            if !(self.drops)(&frame) {
                self.travel(&Item::Control(Box::new(frame)));
            }
        }
    }

    /// Puts something on the path.
    fn travel(&mut self, item: &Item) {
        let copies = match self.rng.random::<f64>() {
            share if share < self.path.loss => 0,
            share if share < self.path.loss + self.path.doubles => 2,
            _ => 1,
        };
        for _ in 0..copies {
            let jitter_ns = self.rng.random_range(0..=self.path.jitter_ns);
            let mut arrival_ns = self.now_ns + self.path.delay_ns + jitter_ns;
            if !self.path.overtakes {
                arrival_ns = self.network.in_order(0, arrival_ns, 0);
            }
            self.network.send(0, arrival_ns, item.clone());
        }
    }

    /// Lets everything arrive.
    pub fn settle(&mut self) {
        self.deliver(u64::MAX);
    }

    fn deliver(&mut self, until_ns: u64) {
        let mut burst: Vec<Observation> = Vec::new();
        while let Some((arrival_ns, _, item)) = self.network.arrive(until_ns) {
            let seen_ns = arrival_ns.wrapping_add_signed(self.path.clock_ns);
            if burst.first().is_some_and(|first| first.time != seen_ns) {
                self.receiver.received(&std::mem::take(&mut burst));
            }
            match item {
                Item::Data { observation, epoch } => {
                    let truth = self
                        .truth
                        .entry((epoch, observation.segment.0))
                        .or_default();
                    truth.received += 1;
                    truth.delay_sum_ns += seen_ns.wrapping_sub(observation.time).cast_signed();
                    *truth.flows.entry(observation.flow.0).or_default() += 1;
                    self.arrived += 1;
                    burst.push(Observation {
                        time: seen_ns,
                        ..observation
                    });
                }
                Item::Control(frame) => {
                    self.receiver.received(&std::mem::take(&mut burst));
                    self.control(&frame.bytes, seen_ns);
                }
            }
        }
        self.receiver.received(&burst);
    }

    /// A control frame arrives.
    pub fn control(&mut self, frame: &[u8], tai_ns: u64) -> Control {
        let link_bytes = u32::try_from(14 + frame.len()).unwrap();
        let receiver = &mut self.receiver;
        let control = receiver.control(frame, link_bytes, tai_ns, &mut self.received);
        self.controls.push(control);
        control
    }

    /// The truth of an epoch, by segment.
    pub fn truth(&self, epoch: Epoch) -> Vec<Truth> {
        (0..self.layout.segments)
            .map(|segment| self.truth[&(epoch, segment)].clone())
            .collect()
    }

    /// Both ends' halves of an epoch.
    pub fn pair(&self, epoch: Epoch) -> WireShard {
        pair(self.sent.of(epoch), self.received.of(epoch))
    }

    /// Nothing was lost or overtaken, so everything about an epoch is exact.
    #[track_caller]
    pub fn assert_exact(&self, epoch: Epoch) {
        let pair = self.pair(epoch);
        for (segment, truth) in pair.segments.iter().zip(self.truth(epoch)) {
            let (tally, lda) = (segment.tally, segment.lda.estimate(segment.tally.received));
            assert_eq!((tally.sent, tally.received), (truth.sent, truth.received));
            assert_eq!(lda.effective_samples, truth.received, "{epoch:?}");
            assert_eq!(lda.usable_cells, lda.cells, "{epoch:?}");
            let rli = segment.rli;
            assert_eq!(rli.exact_packets(), truth.received, "{epoch:?}");
            assert_eq!(rli.packets(), truth.received, "{epoch:?}");
            assert_eq!(rli.unusable_packets(), 0);
            for mean in [lda.mean_ticks, rli.mean_ns()] {
                let off = mean.unwrap() / truth.mean_ns() - 1.0;
                assert!(off.abs() < 1e-9, "{epoch:?}: off by {off}");
            }
        }
        let lds = pair.lds.as_ref().unwrap();
        assert!(lds.cells().iter().all(|cell| cell.delay_sum().is_some()));
    }
}
