//! `vernier-accuracy lda`: the Lossy Difference Aggregator over packets of one's own.

use std::hash::Hasher as _;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use measure::lda::{Bank, LdaLayout, LdaPair};
use measure::packet::PacketHash;
use serde::Serialize;
use siphasher::sip::SipHasher24;

use super::{Kept, files};
use crate::interchange::{PairRecord, Time, read_pairs};
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

    /// Share of packets that each bank samples, separated by commas: one bank for each
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

/// A packet as it is kept until all are read.
struct Packet {
    hash: PacketHash,
    send: Time,
    receive: Option<Time>,
}

pub(super) fn run(arguments: &Lda) -> Result<Kept> {
    let banks: Vec<_> = (arguments.probabilities.iter())
        .map(|&probability| Bank {
            rows: arguments.rows,
            probability,
        })
        .collect();
    let layout = LdaLayout::new(&banks)?;
    let (name, input) = files::open(&arguments.input)?;
    let mut packets = Vec::new();
    read_pairs(&name, input, |pair: PairRecord<'_>| {
        packets.push(Packet {
            hash: hash_of(pair.packet_id, arguments.seed),
            send: pair.send,
            receive: pair.receive,
        });
    })?;
    let estimate = estimate(&layout, &packets)
        .with_context(|| format!("{name}: delays cannot be added up"))?;
    let mut out = files::create("-".as_ref())?;
    writeln!(out, "{}", serde_json::to_string_pretty(&estimate)?)?;
    Ok(true)
}

/// SipHash-2-4 of an id's bytes, keyed with the seed.
fn hash_of(id: &[u8], seed: u64) -> PacketHash {
    let mut hasher = SipHasher24::new_with_keys(seed, 0);
    hasher.write(id);
    PacketHash(hasher.finish())
}

/// Records all packets at both ends. Ticks are picoseconds where their sums fit into 63 bits, else
/// nanoseconds.
fn estimate(layout: &LdaLayout, packets: &[Packet]) -> Result<Findings> {
    let origin = packets.first().map_or(0, |packet| packet.send.as_ps());
    let mut sum_ps = 0_i128;
    for packet in packets {
        if let Some(receive) = packet.receive {
            sum_ps += (receive.as_ps() - packet.send.as_ps()).abs();
        }
    }
    let ticks_per_ns = if sum_ps < i128::from(i64::MAX) {
        1_000
    } else {
        1
    };
    ensure!(
        sum_ps / 1_000 < i128::from(i64::MAX),
        "they come to 2^63 ns or more; are both clocks of one origin?"
    );
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "LDA's times are modulo 2^64"
    )]
    let ticks = |time: Time| ((time.as_ps() - origin) / (1_000 / ticks_per_ns)) as u64;

    let mut lda = LdaPair::new(layout);
    let recorded = packets.iter().map(|packet| {
        let sent = ticks(packet.send);
        let delay = packet
            .receive
            .map(|receive| ticks(receive).wrapping_sub(sent));
        recording::Packet::of_segment(packet.hash, sent, delay)
    });
    record(&mut lda, recorded);
    let mut truth = Truth::default();
    for packet in packets {
        if let Some(receive) = packet.receive {
            truth.add((receive.as_ps() - packet.send.as_ps()) as f64 / 1_000.0);
        }
    }
    let estimate = lda.estimate(truth.count);
    let ns = |ticks: f64| ticks / ticks_per_ns as f64;
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
        received: truth.count,
        lost_estimate: estimate.lost_estimate,
        true_mean_ns: truth.mean(),
        true_stddev_ns: truth.stddev(),
    })
}

/// Exact mean and deviation, added up without cancellation (Welford 1962).
#[derive(Default)]
struct Truth {
    count: u64,
    mean: f64,
    scatter: f64,
}

impl Truth {
    fn add(&mut self, value: f64) {
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.scatter += before * (value - self.mean);
    }

    fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    fn stddev(&self) -> Option<f64> {
        (self.count > 0).then(|| (self.scatter / self.count as f64).sqrt())
    }
}

#[cfg(test)]
mod tests;
