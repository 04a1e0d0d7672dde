//! Captures for `net_pcap`'s `infinite_rx`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;

/// Length of the shortest frame in bytes: 64 with the frame check sequence.
pub const FRAME_BYTES: usize = 60;

/// Bytes of the Ethernet header.
const ETHERNET_BYTES: usize = 14;
/// Bytes of the Ethernet and IPv4 headers.
const UDP_AT: usize = 34;

/// MAC addresses on each side.
const MACS: u32 = 1_000;

/// What one port is to receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traffic {
    /// Flows; three in four are TCP, the rest UDP.
    pub flows: u32,
    /// Packets in the file. Each flow sends as many as any other, give or take one, in an order
    /// of chance.
    ///
    /// `net_pcap` keeps every packet of the file in an mbuf of the port's pool for good: the pool
    /// has to hold all files and what is in flight.
    pub packets: u32,
    /// Which side's addresses are the sources, 0 or 1.
    pub side: u8,
}

/// From 50,000 flows at one port ...
pub const MANY_FLOWS: Traffic = Traffic {
    flows: 50_000,
    packets: 65_536,
    side: 0,
};
/// ... and from 1,000 at the other.
pub const FEW_FLOWS: Traffic = Traffic {
    flows: 1_000,
    packets: 16_384,
    side: 1,
};

/// Lengths of frames in bytes, without the frame check sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sizes {
    /// Every frame has [`FRAME_BYTES`].
    Least,
    /// Every frame has 1,514: 1,518 with the frame check sequence.
    Most,
    /// 64, 594 and 1,518 bytes with the frame check sequence, 7 : 4 : 1: the "simple IMIX" of
    /// routers' test equipment, rounded as Spirent's "Test Methodology Journal: IMIX" (2006) has it.
    Imix,
}

impl Sizes {
    /// The length of packet `number`.
    pub const fn of(self, number: u32) -> usize {
        match self {
            Self::Least => FRAME_BYTES,
            Self::Most => 1_514,
            Self::Imix => match number % 12 {
                0..7 => FRAME_BYTES,
                7..11 => 590,
                _ => 1_514,
            },
        }
    }
}

impl Traffic {
    /// Writes a pcap file of the shortest frames, the same one every time.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(&self, file: &Path) -> io::Result<()> {
        self.write_sizes(file, Sizes::Least)
    }

    /// Writes a pcap file of frames of `sizes`, the same one every time.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write_sizes(&self, file: &Path, sizes: Sizes) -> io::Result<()> {
        let mut order: Vec<u32> = (0..self.packets)
            .map(|packet| packet % self.flows)
            .collect();
        order.shuffle(&mut Pcg64Mcg::seed_from_u64(self.side.into()));
        let mut out = BufWriter::new(File::create(file)?);
        // Microseconds, version 2.4, link type Ethernet.
        for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1] {
            out.write_all(&u32::to_le_bytes(word))?;
        }
        let padding = [0; Sizes::Most.of(0)];
        for (number, flow) in (0_u32..).zip(order) {
            let len_bytes = sizes.of(number);
            #[expect(clippy::cast_possible_truncation, reason = "1,514 at most")]
            let len = len_bytes as u32;
            for word in [number / 1_000_000, number % 1_000_000, len, len] {
                out.write_all(&word.to_le_bytes())?;
            }
            out.write_all(&self.longer_frame(flow, number, len_bytes))?;
            out.write_all(&padding[FRAME_BYTES..len_bytes])?;
        }
        out.flush()
    }

    /// The first bytes of a frame of `len_bytes` whose payload goes on in zeros, with all lengths
    /// and checksums as they have to be.
    fn longer_frame(&self, flow: u32, number: u32, len_bytes: usize) -> [u8; FRAME_BYTES] {
        let mut frame = self.frame(flow, number);
        #[expect(clippy::cast_possible_truncation, reason = "1,454 at most")]
        let more = (len_bytes - FRAME_BYTES) as u16;
        // Zeros add nothing to a checksum. Each covers one length, TCP's in its pseudo header.
        let lengthen = |frame: &mut [u8; FRAME_BYTES], at: usize| {
            let word = u16::from_be_bytes([frame[at], frame[at + 1]]) + more;
            frame[at..at + 2].copy_from_slice(&word.to_be_bytes());
        };
        let amend = |frame: &mut [u8; FRAME_BYTES], at: usize| {
            let sum = !u16::from_be_bytes([frame[at], frame[at + 1]]);
            let sum = checksum(u32::from(sum) + u32::from(more));
            frame[at..at + 2].copy_from_slice(&sum);
        };
        lengthen(&mut frame, ETHERNET_BYTES + 2);
        amend(&mut frame, ETHERNET_BYTES + 10);
        if flow.is_multiple_of(4) {
            lengthen(&mut frame, UDP_AT + 4);
        } else {
            amend(&mut frame, UDP_AT + 16);
        }
        frame
    }

    /// Packet `number`, of `flow` (under 2^23), with valid IPv4 and TCP checksums and none in UDP.
    pub fn frame(&self, flow: u32, number: u32) -> [u8; FRAME_BYTES] {
        let mut frame = [0; FRAME_BYTES];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            frame[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        let mac = |side: u8| {
            let [_, _, high, low] = (flow % MACS).to_be_bytes();
            [0x02, 0, 0, side, high, low]
        };
        // 10.0.0.0/9 and 10.128.0.0/9.
        let address = |side: u8| (10 << 24 | u32::from(side) << 23 | flow).to_be_bytes();
        put(&mac(1 - self.side));
        put(&mac(self.side));
        put(&[0x08, 0x00]);

        let udp = flow.is_multiple_of(4);
        let [_, _, id @ ..] = number.to_be_bytes();
        // Total length 46, do not fragment, time to live 64, checksum still to come.
        put(&[0x45, 0, 0, 46]);
        put(&id);
        put(&[0x40, 0, 64, if udp { 17 } else { 6 }, 0, 0]);
        put(&address(self.side));
        put(&address(1 - self.side));
        let [_, _, port @ ..] = (1_024 + flow % 64_000).to_be_bytes();
        put(&port);
        put(&443_u16.to_be_bytes());
        if udp {
            // Length 26; no checksum, as IPv4 allows (RFC 768).
            put(&[0, 26, 0, 0]);
        } else {
            put(&number.to_be_bytes());
            // No acknowledgement number, five words of header, the ACK flag, the largest window.
            put(&[0, 0, 0, 0, 0x50, 0x10, 0xff, 0xff]);
        }
        let pseudo_header = sum16(&frame[26..34]) + 6 + 26;
        let ip_checksum = checksum(sum16(&frame[14..34]));
        frame[24..26].copy_from_slice(&ip_checksum);
        if !udp {
            let tcp_checksum = checksum(sum16(&frame[34..]) + pseudo_header);
            frame[50..52].copy_from_slice(&tcp_checksum);
        }
        frame
    }
}

/// Sum of big-endian 16-bit words (RFC 1071).
fn sum16(bytes: &[u8]) -> u32 {
    bytes
        .as_chunks::<2>()
        .0
        .iter()
        .map(|&word| u32::from(u16::from_be_bytes(word)))
        .sum()
}

fn checksum(sum: u32) -> [u8; 2] {
    let sum = (sum >> 16) + (sum & 0xffff);
    let [_, _, checksum @ ..] = (!((sum >> 16) + sum)).to_be_bytes();
    checksum
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// The frames of a file, each with its length in its record's header.
    fn frames(bytes: &[u8]) -> Vec<&[u8]> {
        let (mut rest, mut frames) = (&bytes[24..], Vec::new());
        while let Some((header, more)) = rest.split_first_chunk::<16>() {
            let len = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
            let (frame, more) = more.split_at(len as usize);
            frames.push(frame);
            rest = more;
        }
        frames
    }

    #[test]
    fn files_hold_the_flows_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        for traffic in [MANY_FLOWS, FEW_FLOWS] {
            let file = folder.path().join("capture.pcap");
            traffic.write(&file).unwrap();
            let bytes = std::fs::read(&file).unwrap();
            let frames = frames(&bytes);
            assert_eq!(frames.len(), traffic.packets as usize);
            assert!(frames.iter().all(|frame| frame.len() == FRAME_BYTES));
            // Protocol, IP checksum, addresses and ports: leave the checksum out.
            let flows: HashSet<(u8, &[u8])> = frames.iter().map(|f| (f[23], &f[26..38])).collect();
            assert_eq!(flows.len(), traffic.flows as usize);
            for range in [0..6, 6..12] {
                let macs: HashSet<&[u8]> =
                    frames.iter().map(|frame| &frame[range.clone()]).collect();
                assert_eq!(macs.len(), MACS as usize);
            }
        }
    }

    #[test]
    fn an_imix_has_seven_small_four_medium_and_one_large_frame_in_twelve() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("imix.pcap");
        let traffic = Traffic {
            flows: 100,
            packets: 1_200,
            side: 0,
        };
        traffic.write_sizes(&file, Sizes::Imix).unwrap();
        let bytes = std::fs::read(&file).unwrap();
        let frames = frames(&bytes);
        for (len, share) in [(60, 700), (590, 400), (1_514, 100)] {
            let count = frames.iter().filter(|frame| frame.len() == len).count();
            assert_eq!(count, share, "{len} bytes");
        }
        for frame in frames {
            let ip_bytes = u16::from_be_bytes([frame[16], frame[17]]);
            assert_eq!(usize::from(ip_bytes), frame.len() - ETHERNET_BYTES);
            assert_eq!(checksum(sum16(&frame[14..34])), [0, 0]);
            if frame[23] == 6 {
                let pseudo = sum16(&frame[26..34]) + 6 + u32::from(ip_bytes) - 20;
                assert_eq!(checksum(sum16(&frame[34..]) + pseudo), [0, 0]);
            } else {
                assert_eq!(u16::from_be_bytes([frame[38], frame[39]]), ip_bytes - 20);
            }
        }
    }

    #[test]
    fn checksums_are_right() {
        for flow in 1..100 {
            let frame = FEW_FLOWS.frame(flow, 70_000 + flow);
            assert_eq!(checksum(sum16(&frame[14..34])), [0, 0]);
            if frame[23] == 6 {
                assert_eq!(checksum(sum16(&frame[26..]) + 6 + 26), [0, 0]);
            }
        }
    }
}
