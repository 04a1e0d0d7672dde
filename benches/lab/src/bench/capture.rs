//! Captures for `net_pcap`'s `infinite_rx`.

use std::fs::File;
use std::io::{self, BufWriter};
use std::net::Ipv4Addr;
use std::path::Path;

use measure::packet::header::{ethernet, ethertype, ipv4, protocol, tcp, udp};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;
use testkit::pcap;

/// Length of the shortest frame in bytes: 64 with the frame check sequence.
pub const FRAME_BYTES: usize = ethernet::FRAME_BYTES_MIN;

/// Default number of stations on each side.
pub const STATIONS: u32 = 1_000;

/// The traffic that one port receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traffic {
    /// Flows, fewer than 2^23; three in four are TCP, the rest UDP.
    pub flows: u32,
    /// Packets in the file. Each flow sends as many as any other, give or take one, in random order.
    ///
    /// `net_pcap` keeps every packet of the file in an mbuf of the port's pool permanently, so the pool must hold all
    /// files and the packets in flight.
    pub packets: u32,
    /// MAC addresses on each side, at most 2^16.
    pub stations: u32,
    /// Which side's addresses are the sources, 0 or 1.
    pub side: u8,
}

/// Lengths of frames in bytes, without the frame check sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sizes {
    /// Every frame has [`FRAME_BYTES`].
    Min,
    /// Every frame has 1,514: 1,518 with the frame check sequence.
    Max,
    /// 64, 594 and 1,518 bytes with the frame check sequence, 7 : 4 : 1: the "simple IMIX" of routers' test equipment,
    /// rounded as in Spirent's "Test Methodology Journal: IMIX" (2006).
    Imix,
}

impl Sizes {
    /// The length of packet `number`.
    pub const fn of(self, number: u32) -> usize {
        match self {
            Self::Min => FRAME_BYTES,
            Self::Max => 1_514,
            Self::Imix => match number % 12 {
                0..7 => FRAME_BYTES,
                7..11 => 590,
                _ => 1_514,
            },
        }
    }
}

impl Traffic {
    /// Writes a pcap file of frames of `sizes`, the same one every time.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(&self, file: &Path, sizes: Sizes) -> io::Result<()> {
        let mut order: Vec<u32> = (0..self.packets)
            .map(|packet| packet % self.flows)
            .collect();
        order.shuffle(&mut Pcg64Mcg::seed_from_u64(self.side.into()));
        let mut out = pcap::Writer::new(BufWriter::new(File::create(file)?))?;
        for (number, flow) in (0..).zip(order) {
            out.write(&self.frame(flow, number, sizes.of(number)))?;
        }
        out.finish()
    }

    /// Packet `number`, of `flow`: its payload is zeros up to `frame_bytes`. UDP has no checksum, as IPv4 allows.
    pub fn frame(&self, flow: u32, number: u32, frame_bytes: usize) -> Vec<u8> {
        let [destination, source] = [1 - self.side, self.side].map(|side| {
            let [_, _, high, low] = (flow % self.stations).to_be_bytes();
            [0x02, 0, 0, side, high, low]
        });
        let link = ethernet::Repr {
            destination,
            source,
            ethertype: ethertype::IPV4,
        };
        // 10.0.0.0/9 and 10.128.0.0/9.
        let [destination, source] = [1 - self.side, self.side]
            .map(|side| Ipv4Addr::from(10 << 24 | u32::from(side) << 23 | flow));
        let is_udp = flow.is_multiple_of(4);
        let protocol = if is_udp { protocol::UDP } else { protocol::TCP };
        let segment_bytes = frame_bytes - ethernet::BYTES - ipv4::BYTES;
        #[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
        let ip = ipv4::Repr {
            id: number as u16,
            ..ipv4::Repr::new(source, destination, protocol, segment_bytes)
        };
        #[expect(clippy::cast_possible_truncation, reason = "under 65,024")]
        let source_port = (1_024 + flow % 64_000) as u16;
        let mut frame = [&link.emit()[..], &ip.emit()].concat();
        let segment_at = frame.len();
        if is_udp {
            frame.extend(udp::Repr::new(source_port, 443, segment_bytes - udp::BYTES).emit());
            frame.resize(frame_bytes, 0);
        } else {
            let tcp = tcp::Repr {
                source_port,
                destination_port: 443,
                sequence: number,
                acknowledgement: 0,
                flags: tcp::ACK,
                window: u16::MAX,
            };
            frame.extend(tcp.emit());
            frame.resize(frame_bytes, 0);
            tcp::set_checksum(&mut frame[segment_at..], ip.pseudo_header());
        }
        frame
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use measure::packet::header::checksum::Sum;

    use super::*;

    fn capture(traffic: Traffic, sizes: Sizes) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("capture.pcap");
        traffic.write(&file, sizes).unwrap();
        std::fs::read(&file).unwrap()
    }

    #[test]
    fn files_hold_the_flows_asked_for() {
        let few = Traffic {
            flows: 1_000,
            packets: 16_384,
            stations: STATIONS,
            side: 1,
        };
        let many = Traffic {
            flows: 50_000,
            packets: 65_536,
            side: 0,
            ..few
        };
        let few_stations = Traffic {
            stations: 16,
            ..few
        };
        for traffic in [many, few, few_stations] {
            let bytes = capture(traffic, Sizes::Min);
            let frames = pcap::frames(&bytes).unwrap();
            assert_eq!(frames.len(), traffic.packets as usize);
            assert!(frames.iter().all(|frame| frame.len() == FRAME_BYTES));
            let distinct = |field: fn(&[u8]) -> &[u8]| {
                let fields: HashSet<_> = frames.iter().map(|frame| field(frame)).collect();
                fields.len()
            };
            // Addresses and ports; a flow has one protocol.
            assert_eq!(distinct(|frame| &frame[26..38]), traffic.flows as usize);
            assert_eq!(distinct(|frame| &frame[0..6]), traffic.stations as usize);
            assert_eq!(distinct(|frame| &frame[6..12]), traffic.stations as usize);
        }
    }

    #[test]
    fn an_imix_has_seven_small_four_medium_and_one_large_frame_in_twelve() {
        let traffic = Traffic {
            flows: 100,
            packets: 1_200,
            stations: STATIONS,
            side: 0,
        };
        let bytes = capture(traffic, Sizes::Imix);
        let frames = pcap::frames(&bytes).unwrap();
        for (len, share) in [(60, 700), (590, 400), (1_514, 100)] {
            let count = frames.iter().filter(|frame| frame.len() == len).count();
            assert_eq!(count, share, "{len} bytes");
        }
        for frame in frames {
            let ip = ipv4::Header::at(frame, ethernet::BYTES).unwrap();
            assert_eq!(ip.total_bytes(), frame.len() - ethernet::BYTES);
            assert_eq!(Sum::default().add(ip.bytes()).finish(), 0);
            let segment = &frame[34..];
            if ip.protocol() == protocol::TCP {
                let addresses = &ip.bytes()[ipv4::field::SOURCE.start..];
                let bytes = segment.len().try_into().unwrap();
                let pseudo_header = Sum::pseudo_header(addresses, protocol::TCP, bytes);
                assert_eq!(pseudo_header.add(segment).finish(), 0);
            } else {
                let udp = udp::Header::at(segment, 0).unwrap();
                assert_eq!(udp.length_bytes(), segment.len());
            }
        }
    }
}
