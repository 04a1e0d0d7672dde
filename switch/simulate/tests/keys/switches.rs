//! Snapshots and frames of a switch in memory.

use std::collections::VecDeque;
use std::collections::hash_map::DefaultHasher;
use std::fmt::Write;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use contract::config::Config;
use control::published::Published;
use records::snapshot::Snapshot;
use simulate::world::{Calm, Departure};

use crate::frames::{Packet, mix};

pub const MS: u64 = 1_000_000;

/// A snapshot without the configuration and without times that are not simulated.
pub fn published(snapshot: &Snapshot) -> String {
    let mut snapshot = snapshot.clone();
    snapshot.config = None;
    if let Some(decoding) = snapshot
        .flows
        .as_mut()
        .and_then(|flows| flows.decoding.as_mut())
    {
        decoding.duration_s = 0.0;
    }
    for flows in snapshot
        .wires
        .iter_mut()
        .filter_map(|wire| wire.flows.as_mut())
    {
        flows.duration_s = 0.0;
    }
    format!("{snapshot:#?}")
}

/// A summary of frames: their number, their bytes, and a hash of all bytes and times.
pub fn summary(frames: &[Departure]) -> String {
    let mut hasher = DefaultHasher::new();
    frames.hash(&mut hasher);
    let bytes: usize = frames.iter().map(|(_, frame)| frame.len()).sum();
    format!(
        "{} frames, {bytes} bytes, {:016x}",
        frames.len(),
        hasher.finish()
    )
}

/// Snapshot and sent frames of a switch.
pub struct Ran {
    pub published: Arc<Published>,
    /// A summary of the frames sent by each port.
    sent: String,
}

impl Ran {
    fn of(calm: &mut Calm, config: &Config) -> Self {
        let mut sent = String::new();
        for port in 0..config.ports.len() {
            let _ = write!(sent, "\nport {port}: {}", summary(&calm.departed(0, port)));
        }
        Self {
            published: calm.published(0),
            sent,
        }
    }

    /// All of it.
    pub fn seen(&self) -> String {
        published(&self.published.read()) + &self.sent
    }
}

fn calm(config: &Config) -> Calm {
    Calm::new(std::slice::from_ref(config), Vec::new()).unwrap()
}

/// Sends bursts of the mix in by port 0, and answers of each destination in by port 1.
fn talk(calm: &mut Calm, rounds: u32) {
    for round in 0..rounds {
        for n in 0..8 {
            calm.arrive(0, 0, mix(round * 8 + n).frame(round * 8 + n));
        }
        let answer = Packet {
            from: 11 + u8::try_from(round % 4).unwrap(),
            to: 1 + u8::try_from(round % 2).unwrap(),
            ..Packet::UDP
        };
        calm.arrive(0, 1, answer.frame(round));
        calm.run(MS / 2);
    }
}

/// A quarter of a second of the mix.
pub fn short(config: &Config) -> Ran {
    let mut calm = calm(config);
    talk(&mut calm, 400);
    calm.run(60 * MS);
    Ran::of(&mut calm, config)
}

/// The same with a clock that advances while it is read.
pub fn ticking(config: &Config) -> Ran {
    let mut calm = calm(config);
    calm.set_tick(7);
    talk(&mut calm, 400);
    calm.run(60 * MS);
    Ran::of(&mut calm, config)
}

/// Two seconds of few flows, then of others, then of none.
pub fn long(config: &Config) -> Ran {
    let mut calm = calm(config);
    for round in 0..250_u32 {
        let host = u8::try_from(round / 100).unwrap();
        for flow in 0..3_u16 {
            let packet = Packet {
                from: 1 + host,
                to: 11 + host,
                ports: (1_000 + flow, 80),
                ..Packet::UDP
            };
            for copy in 0..=flow {
                calm.arrive(0, 0, packet.frame(round * 8 + u32::from(copy)));
            }
        }
        calm.run(10 * MS);
    }
    calm.run(1_500 * MS);
    // Frames to learnt stations are not flooded.
    let answer = Packet {
        from: 11,
        to: 1,
        ..Packet::UDP
    };
    calm.arrive(0, 1, answer.frame(1));
    calm.run(100 * MS);
    Ran::of(&mut calm, config)
}

/// Frames of two priorities in two VLANs, and some without, from each port.
pub fn tagged(config: &Config) -> Ran {
    let mut calm = calm(config);
    for round in 0..30_u32 {
        for port in 0..config.ports.len() {
            let from = u8::try_from(port).unwrap() + 1;
            for tag in [None, Some((0, 10)), Some((5, 20)), Some((5, 30))] {
                let packet = Packet {
                    from,
                    to: 1 + from % 3,
                    tag,
                    ..Packet::UDP
                };
                calm.arrive(0, port, packet.frame(round));
            }
        }
        calm.run(4 * MS);
    }
    calm.run(60 * MS);
    Ran::of(&mut calm, config)
}

/// A tenth of a second of the mix through a device from port 1 to port 2, which takes 3 ms and loses one packet in ten.
pub fn around(config: &Config) -> Ran {
    let mut calm = calm(config);
    let mut inside = VecDeque::new();
    for round in 0..200 {
        for n in 0..8 {
            calm.arrive(0, 0, mix(round * 8 + n).frame(round * 8 + n));
        }
        calm.run(MS / 2);
        inside.push_back(calm.departed(0, 1));
        if inside.len() > 6 {
            let due = inside.pop_front().into_iter().flatten().enumerate();
            for (_, (_, frame)) in due.filter(|(n, _)| n % 10 != 9) {
                calm.arrive(0, 2, frame);
            }
        }
    }
    calm.run(100 * MS);
    Ran::of(&mut calm, config)
}
