//! Traffic from a capture: its times, sizes and flows, at a speed that gives the wanted load of a link, and behind
//! queues.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use measure::packet::Hasher;
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{LegacyPcapBlock, LegacyPcapReader, Linktype, PcapBlockOwned, PcapError};
use reporting::statistics::whole;

use crate::queue::{LinkConfig, cross, share_of};
use crate::rli::exchange::REFERENCE_BYTES;
use crate::trace::{Reference, Trace};
use crate::traffic::{CAPACITY_BPS, Crossing, Kind, PS_PER_NS, PS_PER_S, Traffic, mix};

/// Room for the longest valid packet (libpcap's `MAXIMUM_SNAPLEN`), and more.
const READ_BYTES: usize = 1 << 20;
/// Largest number of packets to read.
const PACKETS_MAX: usize = 50_000_000;
/// The longest frame, as in TCP segmentation offload: sizes on the wire are cut to it.
const FRAME_BYTES_MAX: u32 = 65_550;
/// Seed of the hash that distinguishes flows.
const HASH_SEED: [u8; 16] = *b"vernier accuracy";

/// The load of the link, the lower one of the RLI paper, because captures have longer bursts than its traffic.
const UTILISATION: f64 = 0.67;
/// The queue drops nothing; the experiments lose packets as required.
const QUEUE_BYTES: u64 = u64::MAX / 2;
/// Packets of the path per reference.
const PACKETS_PER_REFERENCE: u64 = 100;
/// Additional delay of the second path.
const DETOUR_PS: u64 = 50_000 * PS_PER_NS;
/// Seed of the paths.
const PATHS_SEED: u64 = 1;

/// The packets of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capture {
    frames: Vec<Frame>,
    flows: u32,
    bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Frame {
    /// Since the first packet, in nanoseconds.
    at_ns: u64,
    flow: u32,
    bytes: u32,
}

impl Capture {
    /// Reads a classic pcap file of Ethernet frames, of micro- or nanoseconds. Sizes are those on
    /// the wire, up to 65,550 bytes; packets out of order are sorted by time.
    ///
    /// # Errors
    /// The file cannot be read, is damaged, holds something else, or has no span of time.
    pub fn read(file: &Path) -> Result<Self> {
        let name = file.display();
        let input = File::open(file).with_context(|| format!("{name}: cannot be opened"))?;
        Self::parse(input).with_context(|| name.to_string())
    }

    fn parse(input: impl Read) -> Result<Self> {
        let mut frames: Vec<Frame> = Vec::new();
        let hasher = Hasher::new(HASH_SEED);
        let mut flows = HashMap::new();
        let mut flow_of = |packet: &LegacyPcapBlock<'_>, wire_bytes| {
            // There are no more flows than packets.
            let next = u32::try_from(flows.len()).unwrap_or(u32::MAX);
            let flow = hasher.parse(packet.data, wire_bytes).flow;
            *flows.entry(flow).or_insert(next)
        };
        let damaged = |packet: usize, error: &PcapError<&[u8]>| {
            let remedy = "give a classic pcap file (editcap -F pcap)";
            anyhow!("packet {packet}: {error}; {remedy}")
        };
        let mut reader =
            LegacyPcapReader::new(READ_BYTES, input).map_err(|error| damaged(0, &error))?;
        let mut ns_per_fraction = 1_000;
        while frames.len() < PACKETS_MAX {
            match reader.next() {
                Ok((length, block)) => {
                    match block {
                        PcapBlockOwned::LegacyHeader(header) => {
                            let link_type = header.network;
                            ensure!(
                                link_type == Linktype::ETHERNET,
                                "link type {}; only Ethernet (1) is read",
                                link_type.0
                            );
                            if header.is_nanosecond_precision() {
                                ns_per_fraction = 1;
                            }
                        }
                        PcapBlockOwned::Legacy(packet) => {
                            let captured = u32::try_from(packet.data.len()).unwrap_or(u32::MAX);
                            let wire_bytes = packet.origlen.max(captured);
                            let seconds_ns = u64::from(packet.ts_sec) * 1_000_000_000;
                            frames.push(Frame {
                                at_ns: seconds_ns + u64::from(packet.ts_usec) * ns_per_fraction,
                                flow: flow_of(&packet, wire_bytes),
                                bytes: wire_bytes.min(FRAME_BYTES_MAX),
                            });
                        }
                        PcapBlockOwned::NG(_) => {}
                    }
                    reader.consume(length);
                }
                Err(PcapError::Eof) => break,
                Err(PcapError::Incomplete(_)) => reader
                    .refill()
                    .map_err(|error| damaged(frames.len(), &error))?,
                Err(error) => return Err(damaged(frames.len(), &error)),
            }
        }
        frames.sort_by_key(|frame| frame.at_ns);
        let first_ns = frames.first().map_or(0, |first| first.at_ns);
        ensure!(
            frames.last().is_some_and(|last| first_ns < last.at_ns),
            "{} packets without a span of time cannot make a load",
            frames.len()
        );
        for frame in &mut frames {
            frame.at_ns -= first_ns;
        }
        Ok(Self {
            flows: u32::try_from(flows.len()).unwrap_or(u32::MAX),
            bytes: frames.iter().map(|frame| u64::from(frame.bytes)).sum(),
            frames,
        })
    }

    /// Its packets, sped up or slowed down to a share of a link. `regular_share` of the flows are measured, all others
    /// are cross traffic.
    pub fn at_load(&self, capacity_bps: u64, utilisation: f64, regular_share: f64) -> Traffic {
        let rate_bps = (capacity_bps as f64 * utilisation).max(1.0);
        let duration_ps = (8.0 * self.bytes as f64 / rate_bps * PS_PER_S as f64).min(1e18);
        let span_ns = self.frames.last().map_or(1, |last| last.at_ns.max(1));
        let ps_per_ns = duration_ps / span_ns as f64;
        let measured = |flow: u32| mix(flow.into()) as f64 <= regular_share * u64::MAX as f64;
        let arrivals = self
            .frames
            .iter()
            .map(|frame| Crossing {
                sent_ps: whole(frame.at_ns as f64 * ps_per_ns) as u64,
                received_ps: None,
                flow: frame.flow,
                bytes: frame.bytes,
                kind: if measured(frame.flow) {
                    Kind::Regular
                } else {
                    Kind::Cross
                },
                class: 0,
            })
            .collect();
        Traffic {
            arrivals,
            flows: self.flows,
            duration_ps: whole(duration_ps) as u64,
        }
    }
}

/// A capture's packets behind queues: times, sizes and flows are real, delays are the simulator's.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Replay {
    pub crossings: Vec<Crossing>,
    /// References on the first path, in the order of their arrival.
    pub references: Vec<Reference>,
}

impl Replay {
    /// All packets wait in one FIFO queue.
    pub fn one_queue(capture: &Capture) -> Self {
        let traffic = capture.at_load(CAPACITY_BPS, UTILISATION, 1.0);
        let mut replay = Self::default();
        replay.send(&traffic, CAPACITY_BPS, 0);
        replay
    }

    /// Flows are spread over two paths, each with a queue of half the rate; the second is longer.
    /// References take the first.
    pub fn two_paths(capture: &Capture) -> Self {
        let traffic = capture.at_load(CAPACITY_BPS, UTILISATION, 1.0);
        let mut replay = Self::default();
        for (path, more_ps) in [(0, 0), (1, DETOUR_PS)] {
            let share = share_of(&traffic, path, 2, PATHS_SEED);
            replay.send(&share, CAPACITY_BPS / 2, more_ps);
        }
        replay
    }

    /// As packets flow by flow; `seed` is that of their hashes.
    pub fn trace(&self, seed: u64) -> Trace {
        Trace::from_crossings(&self.crossings, self.references.clone(), seed)
    }

    /// Sends packets over a path that adds `more_ps`, with references if that is 0.
    fn send(&mut self, traffic: &Traffic, capacity_bps: u64, more_ps: u64) {
        let mut packets = 0_u64;
        let inject = |_: &Crossing| {
            packets += 1;
            let is_due = more_ps == 0 && packets.is_multiple_of(PACKETS_PER_REFERENCE);
            is_due.then_some(REFERENCE_BYTES)
        };
        let link = LinkConfig {
            capacity_bps,
            buffer_bytes: QUEUE_BYTES,
            ..LinkConfig::ACCEPTANCE
        };
        for mut crossing in cross(traffic, &link, PATHS_SEED, inject) {
            if let Kind::Reference = crossing.kind {
                let of = (crossing.received_ns(), crossing.delay_ns());
                if let (Some(received_ns), Some(delay_ns)) = of {
                    self.references.push(Reference {
                        received_ns: received_ns as f64,
                        delay_ns,
                    });
                }
            } else {
                crossing.received_ps = crossing.received_ps.map(|at_ps| at_ps + more_ps);
                self.crossings.push(crossing);
            }
        }
    }
}
