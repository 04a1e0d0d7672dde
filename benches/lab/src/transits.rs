//! Records of the impairment box: the files that `vernier-lab impair` writes. `--summary` is a [`Summary`] in JSON;
//! `--record` begins with [`MAGIC`], and a [`Transit`] in postcard's format follows for each packet.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::frames::KINDS;

/// Beginning of a record.
pub const MAGIC: [u8; 8] = *b"VRNRBOX2";
/// Order of departure of packets that never left.
pub const NEVER: u32 = u32::MAX;

/// Fate of a packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fate {
    /// It left.
    #[default]
    Passed,
    /// Dropped by the loss rule.
    Lost,
    /// The queue of the rate limit was full.
    Queue,
    /// Its time to live was over.
    Expired,
    /// The box itself had no room or memory left, or ended; this should not happen.
    Overrun,
}

/// A packet's transit of the box.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transit {
    /// Its hash as it arrived.
    pub packet: u64,
    /// When it arrived: ns since 1970 by the system's clock.
    pub arrival_ns: u64,
    /// When it left, if it did.
    pub departure_ns: u64,
    /// Its position among the arrivals of its direction, from 0.
    pub arrived: u32,
    /// Its position among the departures of its direction, from 0, or [`NEVER`].
    pub left: u32,
    /// Length of the frame in bytes.
    pub bytes: u32,
    /// 0 to the right, 1 to the left.
    pub direction: u8,
    /// Its fate.
    pub fate: Fate,
    /// The kind of a control frame; 0 for data.
    pub kind: u8,
    /// Whether it was held back, so that later packets overtook it.
    pub is_held_back: bool,
    /// Whether the box forged it.
    pub is_made_up: bool,
}

impl Transit {
    /// Time that the box kept it; `None` if it never left.
    pub fn delay_ns(&self) -> Option<u64> {
        (self.fate == Fate::Passed).then(|| self.departure_ns.saturating_sub(self.arrival_ns))
    }
}

/// Counts of the box.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// To the right, and to the left.
    pub ways: [Counts; 2],
    /// Transits that the record lacks.
    pub unwritten: u64,
}

/// Counts of the box in one direction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Packets that came in.
    pub arrived: u64,
    /// Control frames that the box forged.
    pub made_up: u64,
    /// Packets that left.
    pub passed: u64,
    /// Packets lost on purpose.
    pub lost: u64,
    /// Packets that found the queue of the rate limit full.
    pub queue_full: u64,
    /// Packets whose time to live was over.
    pub expired: u64,
    /// Packets for which the box had no room.
    pub overrun: u64,
    /// Packets that left and had been held back.
    pub held_back: u64,
    /// Forged frames that left.
    pub made_up_passed: u64,
    /// Copies of a recorded hello that left; they are counted nowhere else.
    pub replayed: u64,
    /// All other frames that left, by kind: data, hello, marker, stash, fragment, reference, request, report,
    /// anything else with the magic.
    pub passed_by_kind: [u64; KINDS + 1],
    /// Bytes of these.
    pub passed_bytes_by_kind: [u64; KINDS + 1],
}

impl Counts {
    /// Counts a packet whose fate is known.
    pub fn count(&mut self, transit: &Transit) {
        match transit.fate {
            Fate::Passed => {
                self.passed += 1;
                self.held_back += u64::from(transit.is_held_back);
                if transit.is_made_up {
                    self.made_up_passed += 1;
                } else {
                    let kind = usize::from(transit.kind).min(KINDS);
                    self.passed_by_kind[kind] += 1;
                    self.passed_bytes_by_kind[kind] += u64::from(transit.bytes);
                }
            }
            Fate::Lost => self.lost += 1,
            Fate::Queue => self.queue_full += 1,
            Fate::Expired => self.expired += 1,
            Fate::Overrun => self.overrun += 1,
        }
    }

    /// Whether all received and forged frames are accounted for.
    #[cfg(test)]
    pub fn adds_up(&self) -> bool {
        let ends = self.passed + self.lost + self.queue_full + self.expired + self.overrun;
        self.arrived + self.made_up == ends
    }
}

/// All transits in a file; a truncated last one is left out.
///
/// # Errors
/// When it cannot be read, or is another kind of file.
pub fn read(file: &Path) -> io::Result<Vec<Transit>> {
    let bytes = fs::read(file)?;
    let mut rest = bytes
        .strip_prefix(&MAGIC)
        .ok_or_else(|| io::Error::other("not a record of vernier-lab impair"))?;
    let mut transits = Vec::new();
    loop {
        match postcard::take_from_bytes(rest) {
            Ok((transit, behind)) => {
                transits.push(transit);
                rest = behind;
            }
            Err(postcard::Error::DeserializeUnexpectedEnd) => return Ok(transits),
            Err(error) => return Err(io::Error::other(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_was_cut_off_and_other_files_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("box");
        let transit = Transit {
            packet: u64::MAX,
            fate: Fate::Queue,
            is_made_up: true,
            ..Transit::default()
        };
        let record = postcard::to_allocvec(&transit).unwrap();
        let cut = &record[..record.len() - 1];
        fs::write(&file, [&MAGIC, &*record, cut].concat()).unwrap();
        assert_eq!(read(&file).unwrap(), [transit]);
        for other in [&b"something else"[..], &[&MAGIC[..], &[0xff; 40]].concat()] {
            fs::write(&file, other).unwrap();
            assert!(read(&file).is_err());
        }
    }
}
