//! `vernier-accuracy lda`: the Lossy Difference Aggregator on the user's packets.

use std::hash::Hasher as _;
use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Args;
use measure::lda::{Bank, LdaLayout, LdaPair};
use measure::packet::PacketHash;
use reporting::statistics::mean;
use serde::Serialize;
use siphasher::sip::SipHasher24;

use super::{STANDARD, open, write_to};
use crate::interchange::{PairRecord, read_pairs};
use crate::recording::{self, record};

/// Estimate mean, deviation and loss of a segment from packets at both ends, by LDA
///
/// Reads `packet_id,send_ns,recv_ns`; a packet without `recv_ns` was lost. Prints JSON; a figure
/// that is unknown is null. `true_mean_ns` and `true_stddev_ns` are those of all packets
/// received.
#[derive(Debug, Args)]
pub(super) struct Lda {
    /// Packets at both ends; - is standard input
    #[arg(long = "in", value_name = "FILE", default_value = "-")]
    input: PathBuf,

    /// Rows of each bank
    #[arg(long, value_name = "M", default_value_t = 1024)]
    rows: u32,

    /// Share of packets that each bank samples, separated by commas
    #[arg(
        long,
        value_name = "P,P,...",
        value_delimiter = ',',
        default_value = "1"
    )]
    probabilities: Vec<f64>,

    /// Seed of the hash that spreads packets over banks and rows
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

/// What is printed.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Findings {
    mean_ns: Option<f64>,
    stddev_paper_ns: Option<f64>,
    stddev_ns: Option<f64>,
    effective_samples: u64,
    ci98_low_ns: Option<f64>,
    ci98_high_ns: Option<f64>,
    sent: u64,
    received: u64,
    lost_estimate: f64,
    true_mean_ns: Option<f64>,
    true_stddev_ns: Option<f64>,
}

/// A packet, kept until all are read.
struct Packet {
    hash: PacketHash,
    send_ps: i128,
    receive_ps: Option<i128>,
}

impl Lda {
    pub(super) fn run(&self) -> Result<ExitCode> {
        let banks: Vec<_> = (self.probabilities.iter())
            .map(|&probability| Bank {
                rows: self.rows,
                probability,
            })
            .collect();
        let layout = LdaLayout::new(&banks)?;
        let (name, input) = open(&self.input)?;
        let packets = read(&name, input, self.seed)?;
        let estimate = estimate(&layout, &packets)
            .with_context(|| format!("{name}: delays cannot be added up"))?;
        let text = serde_json::to_string_pretty(&estimate)?;
        write_to(STANDARD.as_ref(), |mut out| writeln!(out, "{text}"))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn read(name: &str, input: impl Read, seed: u64) -> Result<Vec<Packet>> {
    let mut packets = Vec::new();
    read_pairs(name, input, |pair: PairRecord<'_>| {
        packets.push(Packet {
            hash: hash_of(pair.packet_id, seed),
            send_ps: pair.send_ps,
            receive_ps: pair.receive_ps,
        });
    })?;
    Ok(packets)
}

/// SipHash-2-4 of an id's bytes, keyed with the seed.
fn hash_of(id: &[u8], seed: u64) -> PacketHash {
    let mut hasher = SipHasher24::new_with_keys(seed, 0);
    hasher.write(id);
    PacketHash(hasher.finish())
}

/// Records all packets at both ends. Ticks are picoseconds if their sums fit into 63 bits, otherwise nanoseconds.
fn estimate(layout: &LdaLayout, packets: &[Packet]) -> Result<Findings> {
    let origin = packets.first().map_or(0, |packet| packet.send_ps);
    let delays_ps = packets
        .iter()
        .filter_map(|packet| Some(packet.receive_ps? - packet.send_ps));
    let sum_ps: i128 = delays_ps.clone().map(i128::abs).sum();
    let is_small = sum_ps < i128::from(i64::MAX);
    ensure!(
        sum_ps / 1_000 < i128::from(i64::MAX),
        "they add up to 2^63 ns or more; do both clocks have the same origin?"
    );
    let ps_per_tick = if is_small { 1 } else { 1_000 };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "LDA's times are modulo 2^64"
    )]
    let ticks = |time_ps: i128| ((time_ps - origin) / ps_per_tick) as u64;
    let recorded = packets.iter().map(|packet| {
        let sent = ticks(packet.send_ps);
        let received = packet.receive_ps.map(ticks);
        let delay = received.map(|received| received.wrapping_sub(sent));
        recording::Packet::of_segment(packet.hash, sent, delay)
    });
    let mut lda = LdaPair::new(layout);
    record(|end, burst| lda.record(end, burst), recorded);

    let received = delays_ps.clone().count();
    let true_mean_ns = mean(delays_ps.clone().map(|ps| ps as f64 / 1_000.0));
    let squares = delays_ps.map(|ps| (ps as f64 / 1_000.0 - true_mean_ns).powi(2));
    let true_stddev_ns = mean(squares).sqrt();
    let estimate = lda.estimate(received as u64);
    let ns = |ticks: f64| ticks / (1_000 / ps_per_tick) as f64;
    let end_of_interval = |sign: f64| {
        let (mean, half_width) = (estimate.mean_ticks?, estimate.ci98_half_width_ticks?);
        Some(ns(mean + sign * half_width))
    };
    Ok(Findings {
        mean_ns: estimate.mean_ticks.map(ns),
        stddev_paper_ns: estimate.stddev_paper_ticks.map(ns),
        stddev_ns: estimate.stddev_ticks.map(ns),
        effective_samples: estimate.effective_samples,
        ci98_low_ns: end_of_interval(-1.0),
        ci98_high_ns: end_of_interval(1.0),
        sent: packets.len() as u64,
        received: received as u64,
        lost_estimate: estimate.lost_estimate,
        true_mean_ns: (received > 0).then_some(true_mean_ns),
        true_stddev_ns: (received > 0).then_some(true_stddev_ns),
    })
}

#[cfg(test)]
mod tests;
