//! Captures of minimum-size frames for `net_pcap`'s `infinite_rx`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;

/// Length of every frame in bytes: 64 with the frame check sequence.
pub const FRAME_BYTES: usize = 60;

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

impl Traffic {
    /// Writes a pcap file, the same one every time.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(&self, file: &Path) -> io::Result<()> {
        let mut order: Vec<u32> = (0..self.packets)
            .map(|packet| packet % self.flows)
            .collect();
        order.shuffle(&mut Pcg64Mcg::seed_from_u64(self.side.into()));
        let mut out = BufWriter::new(File::create(file)?);
        // Microseconds, version 2.4, link type Ethernet.
        for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1] {
            out.write_all(&u32::to_le_bytes(word))?;
        }
        for (number, flow) in (0_u32..).zip(order) {
            for word in [number / 1_000_000, number % 1_000_000, 60, 60] {
                out.write_all(&word.to_le_bytes())?;
            }
            out.write_all(&self.frame(flow, number))?;
        }
        out.flush()
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

    #[test]
    fn files_hold_the_flows_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        for traffic in [MANY_FLOWS, FEW_FLOWS] {
            let file = folder.path().join("capture.pcap");
            traffic.write(&file).unwrap();
            let bytes = std::fs::read(&file).unwrap();
            assert_eq!(
                bytes.len(),
                24 + traffic.packets as usize * (16 + FRAME_BYTES)
            );
            let frames: Vec<&[u8]> = bytes[24..]
                .chunks(16 + FRAME_BYTES)
                .map(|r| &r[16..])
                .collect();
            let flows: HashSet<&[u8]> = frames.iter().map(|frame| &frame[23..38]).collect();
            // Protocol, IP checksum, addresses and ports: leave the checksum out.
            let flows: HashSet<(u8, &[u8])> = flows.iter().map(|f| (f[0], &f[3..])).collect();
            assert_eq!(flows.len(), traffic.flows as usize);
            for range in [0..6, 6..12] {
                let macs: HashSet<&[u8]> =
                    frames.iter().map(|frame| &frame[range.clone()]).collect();
                assert_eq!(macs.len(), MACS as usize);
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
