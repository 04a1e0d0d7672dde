//! A FIFO queue of 10 Gb/s behind bursty traffic: the simulator of `benches`, without its extras.

use rand::{Rng, RngExt, SeedableRng};
use rand_distr::{Distribution, Exp, Pareto, StandardNormal};
use rand_pcg::Pcg64Mcg;

use super::STREAM;
use crate::packet::PacketHash;
use crate::rli::{Injector, Link, Policy, Reference, ReferenceSender};

pub const CAPACITY_BPS: u64 = 10_000_000_000;
pub const REFERENCE_BYTES: u32 = 100;

pub fn link() -> Link {
    Link::new(CAPACITY_BPS, 0).unwrap()
}

/// Settings of an experiment.
#[derive(Debug, Clone, Copy)]
pub struct Traffic {
    pub seed: u64,
    /// Packets in all, regular or not.
    pub packets: usize,
    /// Of the link, 0 to 1.
    pub utilisation: f64,
    /// How much of the rate is modulated.
    pub modulation: f64,
    /// Bytes that the queue holds.
    pub buffer_bytes: f64,
    pub red: bool,
    pub policy: Policy,
    /// Share of all packets lost behind the queue.
    pub loss: f64,
}

/// What arrives at the receiver.
#[derive(Debug, Clone, Copy)]
pub enum Arrival {
    Regular {
        flow: u32,
        hash: PacketHash,
        delay_ns: f64,
    },
    Reference(Reference),
    Cross,
}

#[derive(Debug, Clone, Copy)]
pub struct Event {
    pub received_ns: u64,
    pub bytes: u32,
    pub arrival: Arrival,
}

struct Queue {
    free_ns: f64,
    average_bytes: f64,
    traffic: Traffic,
}

impl Queue {
    /// When a packet departs; `None`: dropped.
    fn offer(&mut self, at_ns: f64, bytes: u32, rng: &mut impl Rng) -> Option<f64> {
        let ns_per_byte = 8e9 / CAPACITY_BPS as f64;
        let queued_bytes = (self.free_ns - at_ns).max(0.0) / ns_per_byte;
        if self.traffic.red {
            self.average_bytes += 0.002 * (queued_bytes - self.average_bytes);
            let place = (self.average_bytes / self.traffic.buffer_bytes - 0.25) / 0.5;
            if place > 0.0 && (place >= 1.0 || rng.random::<f64>() < 0.1 * place) {
                return None;
            }
        }
        if queued_bytes + f64::from(bytes) > self.traffic.buffer_bytes {
            return None;
        }
        self.free_ns = self.free_ns.max(at_ns) + f64::from(bytes) * ns_per_byte;
        (rng.random::<f64>() >= self.traffic.loss).then_some(self.free_ns)
    }
}

/// Flow of each regular packet: heavy-tailed sizes, packets spread over the flow's life.
fn flows(packets: usize, rng: &mut impl Rng) -> Vec<u32> {
    let size = Pareto::new(1.0, 1.1).unwrap();
    let mut places = Vec::new();
    for flow in 0.. {
        if places.len() >= packets {
            break;
        }
        let count = f64::min(size.sample(rng), 1e4) as usize;
        let begin: f64 = rng.random_range(-0.05..1.0);
        let length = 0.05 * (count as f64 / 100.0).min(1.0);
        for _ in 0..count {
            places.push((begin + length * rng.random::<f64>(), flow));
        }
    }
    places.sort_by(|a, b| a.0.total_cmp(&b.0));
    places.into_iter().map(|(_, flow)| flow).collect()
}

/// Send times and sizes, in order.
fn arrivals(traffic: &Traffic, rng: &mut impl Rng) -> Vec<(f64, u32)> {
    let ns_per_byte = 8e9 / CAPACITY_BPS as f64;
    let mean_bytes = 0.4 * 64.0 + 0.2 * 576.0 + 0.4 * 1500.0;
    let mean_gap_ns = 10.0 * mean_bytes * ns_per_byte / traffic.utilisation;
    let (mut now_ns, mut ou) = (0.0, 0.0_f64);
    let mut packets = Vec::with_capacity(traffic.packets + 100);
    while packets.len() < traffic.packets {
        let rate = 1.0 - traffic.modulation + traffic.modulation * (0.7 * ou - 0.245).exp();
        let gap_ns = Exp::new(rate / mean_gap_ns).unwrap().sample(rng);
        now_ns += gap_ns;
        let keep = (-gap_ns / 5e6_f64).exp();
        ou = ou * keep + (1.0 - keep * keep).sqrt() * rng.sample::<f64, _>(StandardNormal);
        let mut at_ns: f64 = now_ns;
        loop {
            let bytes = match rng.random::<f64>() {
                u if u < 0.4 => 64,
                u if u < 0.6 => 576,
                _ => 1500,
            };
            packets.push((at_ns, bytes));
            if rng.random::<f64>() < 0.1 {
                break;
            }
            at_ns += f64::from(bytes) * ns_per_byte / 2.0;
        }
    }
    packets.sort_by(|a, b| a.0.total_cmp(&b.0));
    packets
}

/// Runs the traffic through the queue.
pub fn run(traffic: Traffic) -> Vec<Event> {
    let mut rng = Pcg64Mcg::seed_from_u64(traffic.seed);
    let packets = arrivals(&traffic, &mut rng);
    let mut flows = flows(traffic.packets / 2, &mut rng).into_iter();
    let mut injector = Injector::new(traffic.policy, link()).unwrap();
    let mut sender = ReferenceSender::new(STREAM);
    let mut queue = Queue {
        free_ns: 0.0,
        average_bytes: 0.0,
        traffic,
    };
    let mut events = Vec::with_capacity(packets.len());
    for (at_ns, bytes) in packets {
        let sent_ns = at_ns.round() as u64;
        let regular = rng.random::<f64>() < 0.33;
        let departure = queue.offer(at_ns, bytes, &mut rng);
        let mut arrive = |departure: Option<f64>, bytes, arrival| {
            if let Some(departure_ns) = departure {
                events.push(Event {
                    received_ns: departure_ns.round() as u64,
                    bytes,
                    arrival,
                });
            }
        };
        if !regular {
            arrive(departure, bytes, Arrival::Cross);
            continue;
        }
        let hash = PacketHash(rng.random());
        let delay_ns = departure.map_or(0.0, |departure| departure - at_ns);
        let flow = flows.next().unwrap();
        arrive(
            departure,
            bytes,
            Arrival::Regular {
                flow,
                hash,
                delay_ns,
            },
        );
        sender.record(hash, sent_ns);
        if injector.packet(bytes, sent_ns) {
            injector.injected(sent_ns);
            let reference = Arrival::Reference(sender.reference(sent_ns));
            let departure = queue.offer(at_ns, REFERENCE_BYTES, &mut rng);
            arrive(departure, REFERENCE_BYTES, reference);
        }
    }
    events
}
