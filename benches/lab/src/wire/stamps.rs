//! When a switch saw each packet at a wire port: the file that `vernierd --wire-record` writes.
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
use std::io::{BufReader, ErrorKind, Read as _};
use std::path::Path;

use crate::transits::{u32_at, u64_at};
use anyhow::{Context, Result};
use measure::observation::End;

/// Bytes of a record.
const RECORD_BYTES: usize = 32;

/// A packet, as one switch saw it.
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
    pub segment: u8,
}

impl Stamp {
    fn decode(record: &[u8; RECORD_BYTES]) -> Option<Self> {
        let &[.., end, port, segment, 0] = record else {
            return None;
        };
        Some(Self {
            packet: u64_at(record, 0),
            flow: u64_at(record, 8),
            tai_ns: u64_at(record, 16),
            epoch: u32_at(record, 24),
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

/// All stamps in a file, in order. A last record that was cut off is left out.
pub fn read(file: &Path) -> Result<Vec<Stamp>> {
    let file = File::open(file).context("cannot read stamps")?;
    let length = usize::try_from(file.metadata()?.len())?;
    let mut stamps = Vec::with_capacity(length / RECORD_BYTES);
    // The file may be larger than what should be in memory twice.
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
mod tests {
    use super::*;

    #[test]
    fn records_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("stamps");
        let mut bytes: Vec<u8> = (1..=28).chain([0, 3, 7, 0]).collect();
        let sent = Stamp {
            packet: 0x0807_0605_0403_0201,
            flow: 0x100f_0e0d_0c0b_0a09,
            tai_ns: 0x1817_1615_1413_1211,
            epoch: 0x1c1b_1a19,
            end: End::Sender,
            port: 3,
            segment: 7,
        };
        let received = Stamp {
            end: End::Receiver,
            ..sent
        };
        bytes.extend_from_within(..);
        bytes[RECORD_BYTES + 28] = 1;
        bytes.extend([0; 31]);
        std::fs::write(&file, &bytes).unwrap();
        assert_eq!(read(&file).unwrap(), [sent, received]);

        bytes[28] = 2;
        std::fs::write(&file, &bytes).unwrap();
        assert!(read(&file).is_err());
    }
}
