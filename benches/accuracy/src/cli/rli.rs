//! `vernier-accuracy rli`: Reference Latency Interpolation on the packets of the user's link.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use measure::packet::PacketHash;
use measure::rli::{FlowDelay, Link, Method, ReceiverConfig, ReceiverCounters, ReferenceSender};

use super::{open, write_lines};
use crate::interchange::{LinkPacket, known, read_link, whole};
use crate::rli::exchange::{Arrival, STREAM, receive};
use crate::traffic::{Kind, mix};

/// Estimate flow delays from reference packets on a link, by the four methods of RLI
///
/// Reads `kind,flow,bytes,send_ns,recv_ns` in the order of sending; kind is reference, regular or
/// cross, and a packet without `recv_ns` was dropped. All packets of the link must be there for
/// RLI-AS. Times are rounded to nanoseconds.
/// Writes `flow,packets,rli_l_ns,rli_ns,rli_s_ns,rli_as_ns,rli_bound_ns,true_ns`.
#[derive(Debug, Args)]
pub(super) struct Rli {
    /// Packets of the link; - is standard input
    #[arg(long = "in", value_name = "FILE", default_value = "-")]
    input: PathBuf,

    /// Bit rate of the link, bits per second
    #[arg(long, value_name = "B", value_parser = bits_per_second)]
    capacity_bps: u64,

    /// Bytes that the link adds to each packet: 20 on Ethernet, 0 if the file includes them
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    overhead_bytes: u32,

    /// Output file for the estimates; - is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
}

fn bits_per_second(text: &str) -> Result<u64, String> {
    whole(text).ok_or_else(|| "give a whole number, such as 10000000000 or 10e9".to_owned())
}

/// Largest number of packets between two references that are interpolated; the others are estimated by RLI-L.
const BUFFER_PACKETS: usize = 1 << 16;

/// The content of the file, packet by packet.
struct Packets {
    /// Numbers of flows by name.
    numbers: HashMap<String, u32>,
    /// Received packets with time, length and kind, in the order of sending.
    arrivals: Vec<(u64, u32, Arrival)>,
    /// For each flow its name, received packets, and the sum of their delays in picoseconds.
    truth: Vec<(String, u64, i128)>,
    sender: ReferenceSender,
    regular: u64,
    origin_ps: Option<i128>,
}

impl Packets {
    fn new() -> Self {
        Self {
            numbers: HashMap::new(),
            arrivals: Vec::new(),
            truth: Vec::new(),
            sender: ReferenceSender::new(STREAM),
            regular: 0,
            origin_ps: None,
        }
    }

    fn take(&mut self, packet: LinkPacket<'_>) {
        let origin_ps = *self.origin_ps.get_or_insert(packet.send_ps);
        let send_ns = whole_ns(packet.send_ps - origin_ps);
        let receive_ps = packet.receive_ps;
        let arrival = match packet.kind {
            Kind::Cross => Arrival::Cross,
            Kind::Reference => Arrival::Reference(self.sender.reference(send_ns)),
            Kind::Regular => {
                self.regular += 1;
                let hash = PacketHash(mix(self.regular));
                self.sender.record(hash, send_ns);
                let flow = self.flow(packet.flow);
                if let Some(receive_ps) = receive_ps {
                    let (_, count, sum_ps) = &mut self.truth[flow as usize];
                    *count += 1;
                    *sum_ps += receive_ps - packet.send_ps;
                }
                Arrival::Regular { flow, hash }
            }
        };
        if let Some(receive_ps) = receive_ps {
            let at_ns = whole_ns(receive_ps - origin_ps);
            self.arrivals.push((at_ns, packet.bytes, arrival));
        }
    }

    fn flow(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        // Lines are fewer than 2^32, and so are flows.
        let number = u32::try_from(self.truth.len()).unwrap_or(u32::MAX);
        self.numbers.insert(name.to_owned(), number);
        self.truth.push((name.to_owned(), 0, 0));
        number
    }
}

/// Picoseconds in whole nanoseconds, modulo 2^64.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "RLI's times are modulo 2^64"
)]
fn whole_ns(ps: i128) -> u64 {
    (ps + 500).div_euclid(1_000) as u64
}

impl Rli {
    pub(super) fn run(&self) -> Result<ExitCode> {
        let link = Link::new(self.capacity_bps, self.overhead_bytes)?;
        let (name, input) = open(&self.input)?;
        let mut packets = Packets::new();
        read_link(&name, input, |packet| packets.take(packet))?;
        // In the order of arrival and, for equal times, of sending.
        let arrivals = &mut packets.arrivals;
        arrivals.sort_by_key(|&(receive_ns, ..)| receive_ns.cast_signed());
        let estimate = |method: Method| {
            let config = ReceiverConfig {
                buffer_packets: BUFFER_PACKETS,
                ..ReceiverConfig::new(STREAM, method, link)
            };
            let arrivals = packets.arrivals.iter().copied();
            receive(config, packets.truth.len(), arrivals, |_| ())
                .with_context(|| format!("{} cannot be run", method.label()))
        };
        let linear = estimate(Method::Linear)?;
        report(&linear.counters);
        let estimates = [
            estimate(Method::Left)?,
            linear,
            estimate(Method::Sums)?,
            estimate(Method::AnchoredSums)?,
        ];
        self.write(&packets, &estimates.map(|received| received.flows))?;
        Ok(ExitCode::SUCCESS)
    }

    fn write(&self, packets: &Packets, estimates: &[Vec<FlowDelay>; 4]) -> Result<()> {
        let header = "flow,packets,rli_l_ns,rli_ns,rli_s_ns,rli_as_ns,rli_bound_ns,true_ns";
        let text = |value: Option<f64>| value.map(known).unwrap_or_default();
        let flows = packets.truth.iter().enumerate();
        let lines = flows.map(|(flow, (name, count, sum_ps))| {
            let of = |estimates: &Vec<FlowDelay>| estimates.get(flow).copied();
            let means = estimates.each_ref().map(|all| of(all)?.mean_ns());
            let bound = of(&estimates[1]).and_then(|flow| flow.bound_ns(Method::Linear));
            let truth = (*count > 0).then(|| *sum_ps as f64 / 1_000.0 / *count as f64);
            let figures = means.into_iter().chain([bound, truth]).map(text);
            let named = [name.clone(), count.to_string()].into_iter();
            named.chain(figures).collect()
        });
        write_lines(&self.out, header, lines)
    }
}

/// Prints warnings about the estimates on standard error.
fn report(counters: &ReceiverCounters) {
    if counters.references == 0 {
        eprintln!("rli: no reference arrived, so nothing can be estimated");
        return;
    }
    for (count, what) in [
        (counters.lost_references, "references were lost"),
        (
            counters.stale_references,
            "references were overtaken by later ones and not used",
        ),
        (
            counters.early_packets,
            "packets came before the first reference: no estimate",
        ),
        (
            counters.overflowed_packets,
            "packets found no room between two references: estimated by RLI-L",
        ),
    ] {
        if count > 0 {
            eprintln!("rli: {count} {what}");
        }
    }
}
