//! What is sent.

use std::collections::HashSet;

use contract::config::device::Generate;
use switch::source::{Source, SourceError};

/// Most bytes that are kept of a frame; the rest are zeros.
pub const HEAD_BYTES_MAX: usize = 96;

/// First octets of all addresses of a `generate:` source: whatever else is on the wire is not ours.
const OURS: [u8; 3] = [0x02, 0, 0];

/// Where a probe's mark and time are: behind Ethernet, IPv4 and UDP headers.
const MARK_AT: usize = 14 + 20 + 8;
const MARK: [u8; 8] = *b"vernier1";
const TIME_AT: usize = MARK_AT + MARK.len();

/// Length of the shortest frame, without frame check sequence: the probe just fits.
const FRAME_BYTES_MIN: u32 = 60;
const _: () = assert!(TIME_AT + 8 <= FRAME_BYTES_MIN as usize);

/// A frame to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    head: [u8; HEAD_BYTES_MAX],
    head_bytes: u8,
    /// Length without frame check sequence.
    pub len_bytes: u32,
}

impl Default for Frame {
    /// Nothing yet.
    fn default() -> Self {
        Self {
            head: [0; HEAD_BYTES_MAX],
            head_bytes: 0,
            len_bytes: 0,
        }
    }
}

impl Frame {
    /// Its first bytes.
    pub fn head(&self) -> &[u8] {
        &self.head[..usize::from(self.head_bytes)]
    }

    /// A UDP packet between the same stations, as long, that carries `sent_ns`.
    #[must_use]
    pub fn probe(&self, sent_ns: u64) -> Self {
        let len_bytes = self.len_bytes.max(FRAME_BYTES_MIN);
        let mut head = [0; HEAD_BYTES_MAX];
        head[..12].copy_from_slice(&self.head[..12]);
        head[12] = 0x08;
        let ip_bytes = u16::try_from(len_bytes - 14).unwrap_or(u16::MAX);
        let ip = &mut head[14..34];
        ip[0] = 0x45;
        ip[2..4].copy_from_slice(&ip_bytes.to_be_bytes());
        ip[4..6].copy_from_slice(&sent_ns.to_be_bytes()[6..]);
        // Time to live, UDP; from and to the networks for benchmarks (RFC 2544 appendix C.2.2).
        ip[8..10].copy_from_slice(&[64, 17]);
        ip[12..20].copy_from_slice(&[198, 18, 0, 1, 198, 19, 0, 1]);
        let sum = ip_checksum(ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        // Port 7, echo, either way (RFC 2544 appendix C.2.6.4); no checksum.
        let udp_bytes = ip_bytes.saturating_sub(20);
        head[34..38].copy_from_slice(&[0, 7, 0, 7]);
        head[38..40].copy_from_slice(&udp_bytes.to_be_bytes());
        head[MARK_AT..TIME_AT].copy_from_slice(&MARK);
        head[TIME_AT..TIME_AT + 8].copy_from_slice(&sent_ns.to_be_bytes());
        Self {
            head,
            head_bytes: 60,
            len_bytes,
        }
    }
}

/// The header checksum of IPv4 (RFC 791), over a header whose own field is zero.
fn ip_checksum(header: &[u8]) -> u16 {
    let words = header.chunks_exact(2);
    let sum: u32 = words
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    !u16::try_from(folded).unwrap_or(u16::MAX)
}

/// What came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// Not one of ours.
    Foreign,
    /// One of ours.
    Plain,
    /// A probe, and when it was sent.
    Probe {
        /// Its time of sending.
        sent_ns: u64,
    },
}

/// Looks at the first bytes of a frame.
pub fn look(head: &[u8]) -> Seen {
    if head.get(6..9) != Some(&OURS) {
        return Seen::Foreign;
    }
    let time = head.get(TIME_AT..TIME_AT + 8);
    match (head.get(MARK_AT..TIME_AT), time) {
        (Some(mark), Some(time)) if mark == MARK => Seen::Probe {
            sent_ns: time
                .iter()
                .fold(0, |sum, &octet| sum << 8 | u64::from(octet)),
        },
        _ => Seen::Plain,
    }
}

/// Frames of one side, which are sent over and over.
#[derive(Debug, Clone)]
pub struct Frames {
    all: Vec<Frame>,
    /// One frame from each station, for a bridge to learn by.
    hellos: Vec<Frame>,
    /// Mean length with frame check sequence, preamble and gap: what a frame takes on the wire.
    wire_bytes: f64,
}

impl Frames {
    /// The first `count` (1 at least) frames of generated traffic, as `side` sends them; its rate
    /// and bursts do not matter.
    ///
    /// # Errors
    /// [`SourceError`] where frames would be longer than the MTU.
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
        let mut frames = Vec::with_capacity(count.max(1));
        source.poll(u64::MAX, count.max(1), |frame| {
            let mut head = [0; HEAD_BYTES_MAX];
            let kept = frame.head.len().min(HEAD_BYTES_MAX);
            head[..kept].copy_from_slice(&frame.head[..kept]);
            frames.push(Frame {
                head,
                head_bytes: u8::try_from(kept).unwrap_or(u8::MAX),
                len_bytes: frame.len_bytes,
            });
            true
        });
        let mut stations = HashSet::new();
        let from_new = |frame: &&Frame| stations.insert(frame.head[6..12].to_vec());
        let hellos = frames.iter().filter(from_new).copied().collect();
        let bytes: f64 = frames
            .iter()
            .map(|frame| f64::from(frame.len_bytes + 24))
            .sum();
        let wire_bytes = bytes / frames.len() as f64;
        Ok(Self {
            all: frames,
            hellos,
            wire_bytes,
        })
    }

    /// Frame `n` of the endless sequence.
    #[inline]
    pub fn get(&self, n: u64) -> &Frame {
        &self.all[usize::try_from(n).unwrap_or(usize::MAX) % self.all.len()]
    }

    /// One frame from each station.
    pub fn hellos(&self) -> &[Frame] {
        &self.hellos
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
        assert_eq!(look(frames.get(5).head()), Seen::Plain);
        assert_eq!(look(&[0; 64]), Seen::Foreign);
        assert_eq!(look(&[]), Seen::Foreign);
    }

    #[test]
    fn every_station_says_hello_once() {
        let frames = frames(&Generate {
            macs: 5,
            ..Generate::default()
        });
        assert_eq!(frames.hellos().len(), 5);
        let all = (0..1_000).map(|n| frames.get(n).head[6..12].to_vec());
        let stations: HashSet<_> = all.collect();
        let greeting: HashSet<_> = frames
            .hellos()
            .iter()
            .map(|f| f.head[6..12].to_vec())
            .collect();
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
            let frame = *frames(&Generate::default()).get(n);
            let probe = frame.probe(sent_ns);
            prop_assert_eq!(look(probe.head()), Seen::Probe { sent_ns });
            prop_assert_eq!(probe.len_bytes, frame.len_bytes.max(60));
            prop_assert_eq!(&probe.head()[..12], &frame.head()[..12]);
            // A header with its checksum adds up to zero.
            prop_assert_eq!(ip_checksum(&probe.head()[14..34]), 0);
        }

        #[test]
        fn no_frame_panics(head in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = look(&head);
        }
    }
}
