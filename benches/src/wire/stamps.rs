//! When a switch saw each packet at a wire port: the file that its test recorder writes.
//!
//! Records of [`RECORD_BYTES`], numbers little-endian, with nothing before or between them:
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0..8 | packet hash | |
//! | 8..16 | flow hash | |
//! | 16..24 | time | ns of TAI since 1970 |
//! | 24..28 | epoch | its low 32 bits |
//! | 28 | end | 0 sent, 1 received |
//! | 29 | port | |
//! | 30 | segment | |
//! | 31 | | 0 |

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use measure::observation::End;

use super::passages::{half, number, records};

/// Bytes of a record.
pub const RECORD_BYTES: usize = 32;

/// A packet, as one switch saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Its hash.
    pub packet: u64,
    /// Its flow's.
    pub flow: u64,
    /// When: ns of TAI since 1970.
    pub tai_ns: u64,
    /// Low bits of the epoch: exact where it was sent, as far as was known then where it was
    /// received.
    pub epoch: u32,
    /// Sent or received.
    pub end: End,
    /// The switch's port.
    pub port: u8,
    /// The wire's segment.
    pub segment: u8,
}

impl Stamp {
    /// As it is written.
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        let end = match self.end {
            End::Sender => 0,
            End::Receiver => 1,
        };
        let fields: [&[u8]; 5] = [
            &self.packet.to_le_bytes(),
            &self.flow.to_le_bytes(),
            &self.tai_ns.to_le_bytes(),
            &self.epoch.to_le_bytes(),
            &[end, self.port, self.segment, 0],
        ];
        for (byte, of_field) in bytes.iter_mut().zip(fields.into_iter().flatten()) {
            *byte = *of_field;
        }
        bytes
    }

    /// As it was written; `None` of what is no record.
    pub fn decode(record: &[u8; RECORD_BYTES]) -> Option<Self> {
        let &[.., end, port, segment, 0] = record else {
            return None;
        };
        Some(Self {
            packet: number(record, 0),
            flow: number(record, 8),
            tai_ns: number(record, 16),
            epoch: half(record, 24),
            end: match end {
                0 => End::Sender,
                1 => End::Receiver,
                _ => return None,
            },
            port,
            segment,
        })
    }
}

/// All stamps in a file, in order. A record that is cut off at its end is left out.
///
/// # Errors
/// When it cannot be read, or is another kind of file.
pub fn read(file: &Path) -> io::Result<Vec<Stamp>> {
    let file = File::open(file)?;
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(0);
    let mut stamps = Vec::with_capacity(length / RECORD_BYTES);
    records(BufReader::with_capacity(1 << 20, file), |record| {
        let stamp = Stamp::decode(record);
        stamps.push(stamp.ok_or_else(|| io::Error::other("not a record of vernierd"))?);
        Ok(())
    })?;
    Ok(stamps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("stamps");
        let stamps = [End::Sender, End::Receiver].map(|end| Stamp {
            packet: 0x0102_0304_0506_0708,
            flow: u64::MAX,
            tai_ns: 1_800_000_000_123_456_789,
            epoch: 0x8000_0001,
            end,
            port: 3,
            segment: 7,
        });
        let mut bytes = stamps.map(|stamp| stamp.encode()).concat();
        assert_eq!(bytes[..8], [8, 7, 6, 5, 4, 3, 2, 1]);
        bytes.extend([0; 31]);
        std::fs::write(&file, &bytes).unwrap();
        assert_eq!(read(&file).unwrap(), stamps);

        bytes[28] = 2;
        std::fs::write(&file, &bytes).unwrap();
        assert!(read(&file).is_err());
    }
}
