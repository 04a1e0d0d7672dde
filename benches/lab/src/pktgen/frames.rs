//! What is sent.

use std::collections::HashSet;
use std::net::Ipv4Addr;

use arrayvec::ArrayVec;
use contract::config::device::Generate;
use measure::packet::header::ethernet::{self, FRAME_BYTES_MIN};
use measure::packet::header::{ethertype, ipv4, protocol, udp};
use reporting::statistics::mean;
use switch::source::{Source, SourceError};

/// Maximum number of bytes that are kept of a frame; the rest are zeros.
const HEAD_BYTES_MAX: usize = 96;

/// First octets of all addresses of a `generate:` source, by which our frames are recognised.
const OURS: [u8; 3] = [0x02, 0, 0];

/// Where a probe's mark and time are: behind Ethernet, IPv4 and UDP headers.
const MARK_AT: usize = ethernet::BYTES + ipv4::BYTES + udp::BYTES;
const MARK: [u8; 8] = *b"vernier1";
const TIME_AT: usize = MARK_AT + MARK.len();

/// Least length of a probe, that of the shortest frame, into which its header fits.
const PROBE_BYTES: u32 = 60;
const _: () = assert!(PROBE_BYTES as usize == FRAME_BYTES_MIN);
const _: () = assert!(TIME_AT + size_of::<u64>() <= FRAME_BYTES_MIN);

/// A frame to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its first bytes.
    pub head: ArrayVec<u8, HEAD_BYTES_MAX>,
    /// Length without frame check sequence.
    pub len_bytes: u32,
}

impl Frame {
    /// The station that sends it.
    fn station(&self) -> [u8; 6] {
        ethernet::Header::of(&self.head).map_or([0; 6], ethernet::Header::source)
    }

    /// A UDP packet between the same stations, as long, that carries `sent_ns`.
    #[must_use]
    pub fn probe(&self, sent_ns: u64) -> Self {
        let len_bytes = self.len_bytes.max(PROBE_BYTES);
        let payload_bytes = len_bytes as usize - MARK_AT;
        // From and to the networks for benchmarks (RFC 2544 appendix C.2.2).
        let [here, there] = [[198, 18, 0, 1], [198, 19, 0, 1]].map(Ipv4Addr::from);
        let ip = ipv4::Repr {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the low bits tell probes apart"
            )]
            id: sent_ns as u16,
            fragment: 0,
            ..ipv4::Repr::new(here, there, protocol::UDP, udp::BYTES + payload_bytes)
        };
        // Port 7, echo, either way (RFC 2544 appendix C.2.6.4); no checksum.
        let udp = udp::Repr::new(7, 7, payload_bytes);
        let parts: [&[u8]; 6] = [
            &self.head[..ethernet::field::SOURCE.end],
            &ethertype::IPV4.to_be_bytes(),
            &ip.emit(),
            &udp.emit(),
            &MARK,
            &sent_ns.to_be_bytes(),
        ];
        let head = parts.into_iter().flatten().copied();
        Self {
            head: head.collect(),
            len_bytes,
        }
    }
}

/// What came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// Not one of ours.
    Foreign,
    /// One of ours.
    Plain,
    /// A probe, and when it was sent.
    Probe { sent_ns: u64 },
}

/// Recognises a frame by its first bytes.
pub fn look(head: &[u8]) -> Seen {
    let source = head.get(ethernet::field::SOURCE);
    if !source.is_some_and(|source| source.starts_with(&OURS)) {
        return Seen::Foreign;
    }
    let payload = head.get(MARK_AT..).unwrap_or_default();
    match payload.strip_prefix(&MARK).and_then(<[u8]>::first_chunk) {
        Some(time) => Seen::Probe {
            sent_ns: u64::from_be_bytes(*time),
        },
        None => Seen::Plain,
    }
}

/// Frames of one side, which are sent repeatedly.
#[derive(Debug, Clone)]
pub struct Frames {
    all: Vec<Frame>,
    /// One frame from each station, for a bridge to learn by.
    pub hellos: Vec<Frame>,
    /// Mean length with frame check sequence, preamble and gap: what a frame takes on the wire.
    wire_bytes: f64,
}

impl Frames {
    /// The first `count` (1 at least) frames of generated traffic, as `side` sends them; its rate
    /// and bursts do not matter.
    pub fn generate(
        spec: &Generate,
        side: u8,
        count: usize,
        mtu_bytes: u16,
    ) -> Result<Self, SourceError> {
        let spec = Generate {
            side,
            ..spec.clone()
        };
        let mut source = Source::generate(&spec, mtu_bytes)?;
        let mut all = Vec::with_capacity(count.max(1));
        source.poll(u64::MAX, count.max(1), |frame| {
            all.push(Frame {
                head: frame.head.iter().take(HEAD_BYTES_MAX).copied().collect(),
                len_bytes: frame.len_bytes,
            });
            true
        });
        let mut stations = HashSet::new();
        let from_new = |frame: &&Frame| stations.insert(frame.station());
        let hellos = all.iter().filter(from_new).cloned().collect();
        let wire_bytes = mean(all.iter().map(|frame| f64::from(frame.len_bytes + 24)));
        Ok(Self {
            all,
            hellos,
            wire_bytes,
        })
    }

    /// Frame `n` of the endless sequence.
    #[inline]
    pub fn get(&self, n: u64) -> &Frame {
        #[expect(clippy::cast_possible_truncation, reason = "less than the length")]
        let index = (n % self.all.len() as u64) as usize;
        &self.all[index]
    }

    /// Bits that `pps` packets a second take on the wire: preamble, frame check sequence and gap are
    /// counted (24 bytes a frame).
    pub fn wire_bps(&self, pps: f64) -> f64 {
        pps * self.wire_bytes * 8.0
    }
}

#[cfg(test)]
mod tests {
    use contract::config::device::FrameSize;
    use measure::packet::header::checksum::Sum;
    use proptest::prelude::*;

    use super::*;

    fn frames(spec: &Generate) -> Frames {
        Frames::generate(spec, 0, 1_000, 1_500).unwrap()
    }

    #[test]
    fn the_same_frames_come_again() {
        let frames = frames(&Generate::default());
        assert_eq!(frames.get(3), frames.get(1_003));
        assert_ne!(frames.get(3), frames.get(4));
        assert_eq!(look(&frames.get(5).head), Seen::Plain);
        assert_eq!(look(&[0; 64]), Seen::Foreign);
        assert_eq!(look(&[]), Seen::Foreign);
    }

    #[test]
    fn every_station_says_hello_once() {
        let frames = frames(&Generate {
            macs: 5,
            ..Generate::default()
        });
        assert_eq!(frames.hellos.len(), 5);
        let stations: HashSet<_> = (0..1_000).map(|n| frames.get(n).station()).collect();
        let greeting: HashSet<_> = frames.hellos.iter().map(Frame::station).collect();
        assert_eq!(stations, greeting);
    }

    #[test]
    fn the_wire_is_counted_with_all_that_it_carries() {
        let frames = frames(&Generate {
            size: FrameSize::Fixed(60),
            flows: 1,
            ..Generate::default()
        });
        // 84 bytes a minimum frame: 14.88 million a second at 10 Gbit/s.
        assert!((frames.wire_bps(14_880_952.0) - 1e10).abs() < 1e3);
    }

    #[test]
    fn frames_too_long_are_refused() {
        let long = Generate {
            size: FrameSize::Fixed(9_000),
            ..Generate::default()
        };
        assert!(Frames::generate(&long, 0, 1, 1_500).is_err());
    }

    proptest! {
        #[test]
        fn a_probe_is_a_packet_and_brings_its_time_back(n in 0_u64..1_000, sent_ns: u64) {
            let frame = frames(&Generate::default()).get(n).clone();
            let probe = frame.probe(sent_ns);
            prop_assert_eq!(look(&probe.head), Seen::Probe { sent_ns });
            prop_assert_eq!(probe.len_bytes, frame.len_bytes.max(60));
            prop_assert_eq!(&probe.head[..12], &frame.head[..12]);
            // A header with its checksum adds up to zero.
            let ip = &probe.head[ethernet::BYTES..][..ipv4::BYTES];
            prop_assert_eq!(Sum::default().add(ip).finish(), 0);
        }

        #[test]
        fn no_frame_panics(head in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = look(&head);
        }
    }
}
