//! Joins both switches' stamps to find the fate of each packet of a wire.
//!
//! Packets are matched by hash. Several packets may have the same hash: a retransmission may, a duplicate always does.
//! If as many were received as sent, they are matched in order; otherwise each received packet is matched with the last
//! unmatched packet sent before it.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read as _};
use std::path::Path;

use anyhow::{Context, Result};
use measure::observation::End;
use reporting::statistics::quantile;

use crate::wire::switch::TRUNK;

/// Fates of the packets of one epoch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Truth {
    pub packets: Packets,
    /// Packets among these that arrived after a packet sent later (RFC 4737 section 3.3).
    pub reordered: u64,
    /// By the flow's hash.
    pub flows: HashMap<u64, FlowTruth>,
}

/// Fates of the packets of one flow.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FlowTruth {
    pub packets: Packets,
    /// Delays of packets that arrived, ns.
    pub delays_ns: Vec<i64>,
}

impl FlowTruth {
    /// The 99th percentile of delays, ns; NaN without any.
    pub fn p99_ns(&self) -> f64 {
        quantile(self.delays_ns.iter().map(|&ns| ns as f64), 0.99)
    }
}

/// Counts of packets, and sums of the delays of those that arrived.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Packets {
    pub sent: u64,
    pub received: u64,
    /// The sum of delays, ns.
    pub sum_ns: i128,
    /// The sum of their squares, ns^2.
    pub squares: f64,
}

impl Packets {
    /// Counts a packet that was sent, with its delay if it arrived.
    pub fn add(&mut self, delay_ns: Option<i64>) {
        self.sent += 1;
        if let Some(delay_ns) = delay_ns {
            self.received += 1;
            self.sum_ns += i128::from(delay_ns);
            self.squares += (delay_ns as f64).powi(2);
        }
    }

    pub fn lost(&self) -> u64 {
        self.sent - self.received
    }

    /// The mean delay, ns; `None` without any.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.received > 0).then(|| self.sum_ns as f64 / self.received as f64)
    }

    /// The standard deviation of delays, ns; `None` without any.
    pub fn deviation_ns(&self) -> Option<f64> {
        let variance = self.squares / self.received as f64 - self.mean_ns()?.powi(2);
        Some(variance.max(0.0).sqrt())
    }
}

/// Fates of packets on a wire in one direction, by the sender's epoch (its low 32 bits).
pub type Epochs = BTreeMap<u32, Truth>;

/// Joins the packets that one switch sent by its wire port with those that the other received by its own.
pub fn join(sending: &[Stamp], receiving: &[Stamp]) -> Epochs {
    let sent = of(sending, End::Sender);
    let received = of(receiving, End::Receiver);

    // For each packet sent: its time of arrival, and whether a packet sent later had arrived before.
    let mut arrivals = vec![None; sent.len()];
    let mut latest = None;
    for (stamp, index) in received.iter().zip(matches(&sent, &received)) {
        let Some(index) = index else { continue };
        let is_late = latest.is_some_and(|latest| index < latest);
        arrivals[index] = Some((stamp.tai_ns, is_late));
        latest = latest.max(Some(index));
    }
    let mut epochs = Epochs::new();
    for (stamp, arrival) in sent.iter().zip(arrivals) {
        let truth = epochs.entry(stamp.epoch).or_default();
        let flow = truth.flows.entry(stamp.flow).or_default();
        let delay_ns = arrival.map(|(ns, _)| ns.wrapping_sub(stamp.tai_ns).cast_signed());
        truth.packets.add(delay_ns);
        truth.reordered += u64::from(arrival.is_some_and(|(_, is_late)| is_late));
        flow.packets.add(delay_ns);
        flow.delays_ns.extend(delay_ns);
    }
    epochs
}

/// For each packet received, the index of its packet among those sent.
fn matches(sent: &[Stamp], received: &[Stamp]) -> Vec<Option<usize>> {
    let mut matches = vec![None; received.len()];
    let (sent_by_hash, received_by_hash) = (by_hash(sent), by_hash(received));
    let mut rest = sent_by_hash.as_slice();
    for arrived in received_by_hash.chunk_by(|a, b| a.0 == b.0) {
        let (hash, _) = arrived[0];
        rest = &rest[rest.partition_point(|&(other, _)| other < hash)..];
        let (same, others) = rest.split_at(rest.partition_point(|&(other, _)| other == hash));
        rest = others;
        let mut unmatched: Vec<usize> = same.iter().map(|&(_, index)| index).collect();
        if same.len() == arrived.len() {
            for (&(_, to), from) in arrived.iter().zip(unmatched) {
                matches[to] = Some(from);
            }
            continue;
        }
        for &(_, to) in arrived {
            let until_ns = received[to].tai_ns;
            let before = unmatched.partition_point(|&from| sent[from].tai_ns <= until_ns);
            if let Some(last) = before.checked_sub(1) {
                matches[to] = Some(unmatched.remove(last));
            }
        }
    }
    matches
}

fn of(stamps: &[Stamp], end: End) -> Vec<Stamp> {
    let ours = |stamp: &&Stamp| stamp.end == end && stamp.port == TRUNK;
    stamps.iter().filter(ours).copied().collect()
}

/// Hashes with their indices, ordered by both.
fn by_hash(stamps: &[Stamp]) -> Vec<(u64, usize)> {
    let hashes = stamps.iter().map(|stamp| stamp.packet).zip(0..);
    let mut hashes: Vec<_> = hashes.collect();
    hashes.sort_unstable();
    hashes
}

/// Bytes of a record.
const RECORD_BYTES: usize = 32;

/// A packet at a wire port of one switch. `vernierd --wire-record` writes records of [`RECORD_BYTES`], numbers
/// little-endian, with nothing before or between them:
///
/// | bytes | field | |
/// |---|---|---|
/// | 0..8 | packet hash | |
/// | 8..16 | flow hash | |
/// | 16..24 | time | ns of TAI since 1970 |
/// | 24..28 | epoch | its low 32 bits |
/// | 28 | end | 0 sent, 1 received |
/// | 29 | port | |
/// | 30 | segment | |
/// | 31 | | 0 |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub packet: u64,
    pub flow: u64,
    /// Time in ns of TAI since 1970.
    pub tai_ns: u64,
    /// Low bits of the epoch. Exact at the sender; at the receiver, the epoch as it was known then.
    pub epoch: u32,
    pub end: End,
    /// Index of the switch's port.
    pub port: u8,
}

impl Stamp {
    fn decode(record: &[u8; RECORD_BYTES]) -> Option<Self> {
        let ([packet, flow, tai_ns, last], _) = record.as_chunks::<8>() else {
            return None;
        };
        let [epoch @ .., end, port, _, 0] = last else {
            return None;
        };
        Some(Self {
            packet: u64::from_le_bytes(*packet),
            flow: u64::from_le_bytes(*flow),
            tai_ns: u64::from_le_bytes(*tai_ns),
            epoch: u32::from_le_bytes(*epoch),
            end: *[End::Sender, End::Receiver].get(usize::from(*end))?,
            port: *port,
        })
    }
}

/// All stamps in a file, in order. A truncated last record is left out.
pub fn read(file: &Path) -> Result<Vec<Stamp>> {
    let file = File::open(file).context("cannot read stamps")?;
    let length = usize::try_from(file.metadata()?.len())?;
    let mut stamps = Vec::with_capacity(length / RECORD_BYTES);
    // The file may be too large to be in memory twice.
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut record = [0; RECORD_BYTES];
    loop {
        match reader.read_exact(&mut record) {
            Ok(()) => {
                let stamp = Stamp::decode(&record);
                stamps.push(stamp.context("this is not a record of vernierd")?);
            }
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(stamps),
            Err(error) => return Err(error).context("cannot read stamps"),
        }
    }
}

#[cfg(test)]
pub mod tests;
