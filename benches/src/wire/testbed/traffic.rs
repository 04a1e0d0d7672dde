//! A mix of flows between hosts: heavy-tailed, bursty, of IMIX sizes; every packet differs from every
//! other in its first bytes.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, Geometric};
use rand_pcg::Pcg64Mcg;

/// Where the mix goes.
pub const PORT: u16 = 5_500;

/// Payloads of 64, 594 and 1,518 bytes on the wire, 7 : 4 : 1.
const SIZES: [(u32, usize); 3] = [(7, 18), (4, 548), (1, 1_472)];

/// Packets that come back to back, on average.
const BURST: f64 = 6.0;

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mix {
    /// Flows, each from a port of its own.
    pub flows: u16,
    /// Packets a second.
    pub pps: f64,
    /// How long.
    pub duration: Duration,
    /// The same seed sends the same.
    pub seed: u64,
}

impl Mix {
    /// Sends it.
    ///
    /// # Errors
    /// When there are no sockets to be had.
    pub fn send(&self, from: &str, to: &str) -> Result<u64> {
        let to = SocketAddr::new(to.parse().context("an address")?, PORT);
        let socket = |_| {
            let socket = UdpSocket::bind((from, 0)).context("no socket")?;
            socket.connect(to).context("no way to the other host")?;
            Ok(socket)
        };
        let sockets: Vec<UdpSocket> = (0..self.flows).map(socket).collect::<Result<_>>()?;
        let mut random = Pcg64Mcg::seed_from_u64(self.seed);
        let more = Geometric::new(1.0 / BURST)?;
        let gap_s = BURST / self.pps;
        let began = Instant::now();
        let mut next = Duration::ZERO;
        let (mut payload, mut sent) = ([0; 1_472], 0_u64);
        while next < self.duration {
            // A late sender makes up for it: the rate is kept.
            std::thread::sleep(next.saturating_sub(began.elapsed()));
            for _ in 0..=more.sample(&mut random) {
                payload[..8].copy_from_slice(&sent.to_be_bytes());
                payload[8..16].copy_from_slice(&random.random::<[u8; 8]>());
                let flow = pick_flow(&mut random, sockets.len());
                let size = pick_size(random.random_range(0..12));
                if let (Some(socket), Some(payload)) = (sockets.get(flow), payload.get(..size)) {
                    // A full queue of the kernel's is a packet that was never sent.
                    let _ = socket.send(payload);
                }
                sent += 1;
            }
            let gap: f64 = Exp1.sample(&mut random);
            next += Duration::from_secs_f64(gap * gap_s);
        }
        Ok(sent)
    }
}

/// A flow by Zipf's law: the first sends most.
fn pick_flow(random: &mut Pcg64Mcg, flows: usize) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 1 to the number of flows"
    )]
    let rank = (flows as f64 + 1.0).powf(random.random::<f64>()) as usize;
    rank.saturating_sub(1).min(flows.saturating_sub(1))
}

fn pick_size(mut die: u32) -> usize {
    for (share, size) in SIZES {
        if die < share {
            return size;
        }
        die -= share;
    }
    SIZES[0].1
}

/// Takes what comes, for ever.
///
/// # Errors
/// When it cannot.
pub fn sink(at: &str) -> Result<()> {
    let socket = UdpSocket::bind((at, PORT)).context("no socket")?;
    let mut payload = [0; 2_048];
    loop {
        socket
            .recv(&mut payload)
            .context("nothing to receive from")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_flows_are_as_said() {
        let of = |size| (0..12).filter(|&die| pick_size(die) == size).count();
        assert_eq!([of(18), of(548), of(1_472)], [7, 4, 1]);
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut counts = [0_u32; 100];
        for _ in 0..100_000 {
            counts[pick_flow(&mut random, 100)] += 1;
        }
        // ln 2 / ln 101 of all are the first flow's.
        assert!((f64::from(counts[0]) / 1e5 - 0.1502).abs() < 0.01);
        assert!(counts.iter().all(|count| *count > 50));
    }

    #[test]
    fn a_mix_keeps_its_rate() {
        let sink = UdpSocket::bind(("127.0.0.1", PORT));
        let mix = Mix {
            flows: 5,
            pps: 2_000.0,
            duration: Duration::from_millis(500),
            seed: 1,
        };
        let sent = mix.send("127.0.0.1", "127.0.0.1").unwrap();
        assert!((700..1_400).contains(&sent), "{sent}");
        drop(sink);
    }
}
