//! Captures in memory and in files: pcap with microseconds, link type Ethernet
//! (<https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-05.html>).

use std::io::{self, Write};
use std::net::Ipv4Addr;

use anyhow::{Context, Result, ensure};
use measure::packet::header::{ethernet, ethertype, ipv4, protocol, udp};

const MAGIC_US: u32 = 0xa1b2_c3d4;
const MAGIC_NS: u32 = 0xa1b2_3c4d;
const FILE_HEADER_BYTES: usize = 24;
const PACKET_HEADER_BYTES: usize = 16;
/// Offset of the number of captured bytes in a packet's header.
const CAPTURED_BYTES: std::ops::Range<usize> = 8..12;

/// Writes a capture, frame by frame.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    frames: u32,
}

impl<W: Write> Writer<W> {
    /// Writes the header of the file.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(mut out: W) -> io::Result<Self> {
        // Version 2.4.
        for word in [MAGIC_US, 0x0004_0002, 0, 0, 65_535, 1] {
            out.write_all(&word.to_ne_bytes())?;
        }
        Ok(Self { out, frames: 0 })
    }

    /// Writes a frame, one microsecond after the previous one.
    ///
    /// # Errors
    /// Those of `out`; a frame of 4 GiB.
    pub fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        let (second, microsecond) = (self.frames / 1_000_000, self.frames % 1_000_000);
        self.frames += 1;
        self.write_at(second, microsecond, frame)
    }

    /// Writes a frame with a time of its own.
    ///
    /// # Errors
    /// Those of `out`; a frame of 4 GiB.
    pub fn write_at(&mut self, second: u32, microsecond: u32, frame: &[u8]) -> io::Result<()> {
        let bytes = u32::try_from(frame.len()).map_err(io::Error::other)?;
        for word in [second, microsecond, bytes, bytes] {
            self.out.write_all(&word.to_ne_bytes())?;
        }
        self.out.write_all(frame)
    }

    /// Flushes what is buffered.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A frame with a UDP datagram over IPv4 with this identification, from an address and port to another.
pub fn udp_frame(id: u16, from: (Ipv4Addr, u16), to: (Ipv4Addr, u16), payload: &[u8]) -> Vec<u8> {
    let ethernet = ethernet::Repr {
        destination: [2, 0, 0, 0, 0, 1],
        source: [2, 0, 0, 0, 0, 2],
        ethertype: ethertype::IPV4,
    };
    let ip = ipv4::Repr {
        id,
        ..ipv4::Repr::new(from.0, to.0, protocol::UDP, udp::BYTES + payload.len())
    };
    let udp = udp::Repr::new(from.1, to.1, payload.len());
    [&ethernet.emit()[..], &ip.emit(), &udp.emit(), payload].concat()
}

/// The frames of a capture in this machine's byte order; a truncated last frame is left out.
///
/// # Errors
/// When `bytes` are not such a capture.
pub fn frames(bytes: &[u8]) -> Result<Vec<&[u8]>> {
    let (header, mut rest) = bytes
        .split_at_checked(FILE_HEADER_BYTES)
        .context("a capture has a header of 24 bytes")?;
    let magic = header.first_chunk().map(|magic| u32::from_ne_bytes(*magic));
    ensure!(
        magic.is_some_and(|magic| [MAGIC_US, MAGIC_NS].contains(&magic)),
        "this is not a capture"
    );
    let mut frames = Vec::new();
    while let Some((header, behind)) = rest.split_first_chunk::<PACKET_HEADER_BYTES>() {
        let captured = header[CAPTURED_BYTES].first_chunk();
        let captured = captured.map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        let Some((frame, next)) = behind.split_at_checked(captured as usize) else {
            break;
        };
        frames.push(frame);
        rest = next;
    }
    Ok(frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let written: [&[u8]; 3] = [b"one", b"", b"three"];
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file).unwrap();
        for frame in written {
            writer.write(frame).unwrap();
        }
        writer.finish().unwrap();
        assert_eq!(frames(&file).unwrap(), written);
        // The end of the file may be missing.
        file.pop();
        assert_eq!(frames(&file).unwrap(), written[..2]);
        for bytes in [&[][..], &[1; 30]] {
            assert!(frames(bytes).is_err());
        }
    }
}
