//! Traffic between the hosts: iperf3, ping, and a mix of UDP flows: heavy-tailed, bursty, of IMIX sizes. Every packet
//! of the mix has different first bytes.

use std::fs::{self, File};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, Geometric};
use rand_pcg::Pcg64Mcg;
use reporting::statistics::whole;
use serde_json::Value;
use testkit::process::{PATIENCE, Process, output, until, wait};

use crate::wire::namespaces::HOSTS;

/// Destination port of the mix.
const PORT: u16 = 5_500;

/// Flows from one host to the other, each from a port of its own.
const FLOWS: u16 = 200;

/// Average number of packets sent back to back.
const BURST: f64 = 6.0;

/// Traffic between the hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// A mix of UDP flows both ways, some TCP, and ping.
    Mix,
    /// As much TCP as possible, and a thin mix.
    Tcp,
}

/// A mix of flows from one host to the other.
#[derive(Debug, Args)]
pub struct Mix {
    /// Address of the sender
    from: String,
    /// Address of the receiver
    to: String,
    /// Packets a second
    #[arg(long)]
    pps: f64,
    /// Seconds that it lasts
    #[arg(long)]
    seconds: f64,
}

impl Mix {
    /// Sends it; returns the number of packets.
    pub fn send(&self) -> Result<u64> {
        let to = SocketAddr::new(self.to.parse().context("not an address")?, PORT);
        let socket = |_| {
            let socket = UdpSocket::bind((self.from.as_str(), 0)).context("no socket")?;
            socket.connect(to).context("no route to the other host")?;
            Ok(socket)
        };
        let duration = Duration::from_secs_f64(self.seconds);
        let sockets: Vec<UdpSocket> = (0..FLOWS).map(socket).collect::<Result<_>>()?;
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let more = Geometric::new(1.0 / BURST)?;
        let gap_s = BURST / self.pps;
        let began = Instant::now();
        let mut next = Duration::ZERO;
        let (mut payload, mut sent) = ([0; 1_472], 0_u64);
        while next < duration {
            // A late sender catches up: the rate is kept.
            std::thread::sleep(next.saturating_sub(began.elapsed()));
            for _ in 0..=more.sample(&mut random) {
                payload[..8].copy_from_slice(&sent.to_be_bytes());
                payload[8..16].copy_from_slice(&random.random::<[u8; 8]>());
                let flow = pick_flow(&mut random, sockets.len());
                let size = pick_size(random.random_range(0..12));
                // A packet refused because the kernel's queue is full counts as not sent.
                let _ = sockets[flow].send(&payload[..size]);
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
    let rank = whole((flows as f64 + 1.0).powf(random.random::<f64>()));
    rank.saturating_sub(1).min(flows.saturating_sub(1))
}

/// A payload of 64, 594 or 1,518 bytes on the wire, 7 : 4 : 1, by a number from 0 to 11.
fn pick_size(die: u32) -> usize {
    match die {
        0..7 => 18,
        7..11 => 548,
        _ => 1_472,
    }
}

/// Receives a mix and discards it, until it is killed.
pub fn sink(address: &str) -> Result<()> {
    let socket = UdpSocket::bind((address, PORT)).context("no socket")?;
    let mut payload = [0; 2_048];
    loop {
        socket.recv(&mut payload).context("cannot receive")?;
    }
}

/// All processes that send and receive.
pub struct Traffic {
    /// Sinks and senders, killed at the end.
    others: Vec<Process>,
    iperf: Process,
    /// What iperf says.
    report: PathBuf,
}

impl Traffic {
    pub fn begin(load: Load, duration: Duration, folder: &Path) -> Result<Self> {
        let own = std::env::current_exe().context("the path of this program is not known")?;
        let own = own.to_string_lossy();
        let start = |mut command: Command, arguments: &str, out: Stdio| {
            command.args(arguments.split(' ')).stdout(out);
            Process::start(command.stdin(Stdio::null()))
        };
        let quiet = |command, arguments: &str| start(command, arguments, Stdio::null());
        let [a, b] = &HOSTS;
        let (to_a, to_b) = (a.address, b.address);
        let mut others = vec![
            quiet(a.command(&own), &format!("wire sink {to_a}"))?,
            quiet(b.command(&own), &format!("wire sink {to_b}"))?,
            quiet(b.command("iperf3"), &format!("-s -B {to_b}"))?,
        ];
        until(PATIENCE, "iperf3 does not listen", || {
            let sockets = output(b.command("ss").arg("-ltn"))?;
            Ok(sockets.contains(":5201").then_some(()))
        })?;
        let seconds = duration.as_secs();
        let (pps, rate) = match load {
            Load::Mix => ([8_000, 4_000], "40M"),
            Load::Tcp => ([1_000, 1_000], "0"),
        };
        for ((from, to), pps) in [(a, b), (b, a)].into_iter().zip(pps) {
            let (here, there) = (from.address, to.address);
            let mix = format!("wire mix {here} {there} --pps {pps} --seconds {seconds}");
            others.push(quiet(from.command(&own), &mix)?);
        }
        let ping = format!("-q -i 0.02 -w {seconds} {to_b}");
        others.push(quiet(a.command("ping"), &ping)?);
        let iperf = format!("-c {to_b} -J --connect-timeout 5000 -t {seconds} -b {rate}");
        let report = folder.join("iperf.json");
        Ok(Self {
            others,
            iperf: start(a.command("iperf3"), &iperf, File::create(&report)?.into())?,
            report,
        })
    }

    /// Waits for its end; returns the bits per second of TCP, or `None` if it gave up.
    pub fn end(mut self, duration: Duration) -> Result<Option<f64>> {
        wait(duration)?;
        // It ends by itself; if it hangs, it is killed.
        let patience = Duration::from_secs(15);
        let _ = until(patience, "iperf3 hangs", || {
            Ok(self.iperf.child.try_wait()?)
        });
        drop((self.others, self.iperf));
        let report = fs::read(&self.report).context("iperf3 left no report")?;
        let report: Value = serde_json::from_slice(&report).unwrap_or_default();
        Ok(report["end"]["sum_received"]["bits_per_second"].as_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_flows_have_their_shares() {
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
            from: "127.0.0.1".to_owned(),
            to: "127.0.0.1".to_owned(),
            pps: 2_000.0,
            seconds: 0.5,
        };
        let sent = mix.send().unwrap();
        assert!((700..1_400).contains(&sent), "{sent}");
        drop(sink);
    }
}
