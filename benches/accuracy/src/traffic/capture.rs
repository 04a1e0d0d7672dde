//! Traffic from a capture: its times, sizes and flows, at the speed that loads a link as wanted.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use measure::packet::{FlowHash, Hasher};
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{LegacyPcapReader, Linktype, PcapBlockOwned, PcapError};
use thiserror::Error;

use super::{Arrival, Kind, PS_PER_S, Traffic};
use crate::traffic::mix;

/// Room for the longest packet that is taken for one (libpcap's `MAXIMUM_SNAPLEN`), and then some.
const BUFFER_BYTES: usize = 1 << 20;
/// The most packets that are read.
const PACKETS_MAX: usize = 50_000_000;
/// The longest frame that a size on the wire is accepted for, as in TCP segmentation offload.
const FRAME_BYTES_MAX: u32 = 65_550;
/// Seed of the hash that tells flows apart.
const SEED: [u8; 16] = *b"vernier accuracy";

/// Why a capture cannot be used.
#[derive(Debug, Error)]
pub enum CaptureError {
    /// It cannot be opened.
    #[error("{file}: {source}")]
    Open {
        /// Which file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not a pcap file, or damaged.
    #[error("{file}: packet {packet}: {problem}; give a classic pcap file (editcap -F pcap)")]
    Format {
        /// Which file.
        file: PathBuf,
        /// Packets read so far.
        packet: usize,
        /// What the parser found.
        problem: String,
    },
    /// Its packets are not Ethernet frames.
    #[error("{file}: link type {link_type}; only Ethernet (1) is read")]
    LinkType {
        /// Which file.
        file: PathBuf,
        /// As in its header.
        link_type: i32,
    },
    /// It has no two packets at different times.
    #[error("{file}: {packets} packets and no span of time: a load cannot be made of it")]
    NoSpan {
        /// Which file.
        file: PathBuf,
        /// Packets read.
        packets: usize,
    },
}

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
    pub fn read(file: &Path) -> Result<Self, CaptureError> {
        let open = |source| CaptureError::Open {
            file: file.to_owned(),
            source,
        };
        let mut frames: Vec<Frame> = Vec::new();
        let mut numbers: HashMap<FlowHash, u32> = HashMap::new();
        let hasher = Hasher::new(SEED);
        let damaged = |packet: usize, error: &PcapError<&[u8]>| CaptureError::Format {
            file: file.to_owned(),
            packet,
            problem: error.to_string(),
        };
        let mut reader = LegacyPcapReader::new(BUFFER_BYTES, File::open(file).map_err(open)?)
            .map_err(|error| damaged(0, &error))?;
        let mut ns_per_fraction = 1_000;
        while frames.len() < PACKETS_MAX {
            match reader.next() {
                Ok((length, block)) => {
                    match block {
                        PcapBlockOwned::LegacyHeader(header) => {
                            if header.network != Linktype::ETHERNET {
                                return Err(CaptureError::LinkType {
                                    file: file.to_owned(),
                                    link_type: header.network.0,
                                });
                            }
                            if header.is_nanosecond_precision() {
                                ns_per_fraction = 1;
                            }
                        }
                        PcapBlockOwned::Legacy(packet) => {
                            let at_ns = u64::from(packet.ts_sec) * 1_000_000_000
                                + u64::from(packet.ts_usec) * ns_per_fraction;
                            let captured = u32::try_from(packet.data.len()).unwrap_or(u32::MAX);
                            let wire_bytes = packet.origlen.max(captured);
                            let flow = hasher.parse(packet.data, wire_bytes).flow;
                            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
                            frames.push(Frame {
                                at_ns,
                                flow: *numbers.entry(flow).or_insert(next),
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
        let (first, last) = match (frames.first(), frames.last()) {
            (Some(first), Some(last)) if first.at_ns < last.at_ns => (first.at_ns, last.at_ns),
            _ => {
                return Err(CaptureError::NoSpan {
                    file: file.to_owned(),
                    packets: frames.len(),
                });
            }
        };
        debug_assert!(first < last);
        let bytes = frames.iter().map(|frame| u64::from(frame.bytes)).sum();
        for frame in &mut frames {
            frame.at_ns -= first;
        }
        Ok(Self {
            frames,
            flows: u32::try_from(numbers.len()).unwrap_or(u32::MAX),
            bytes,
        })
    }

    /// Its packets, faster or slower so that they ask for a share of a link. `regular_share` of the
    /// flows are measured, the rest is cross traffic; a flow is either.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a time within the run, capped"
    )]
    pub fn at_load(&self, capacity_bps: u64, utilisation: f64, regular_share: f64) -> Traffic {
        let rate_bps = (capacity_bps as f64 * utilisation).max(1.0);
        let duration_ps = (8.0 * self.bytes as f64 / rate_bps * PS_PER_S as f64).min(1e18);
        let span_ns = self.frames.last().map_or(1, |last| last.at_ns.max(1));
        let ps_per_ns = duration_ps / span_ns as f64;
        let measured = |flow: u32| mix(flow.into()) as f64 <= regular_share * u64::MAX as f64;
        let arrivals = self
            .frames
            .iter()
            .map(|frame| Arrival {
                at_ps: (frame.at_ns as f64 * ps_per_ns) as u64,
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
            duration_ps: duration_ps as u64,
        }
    }
}
