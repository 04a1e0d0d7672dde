//! What the impairment box did: the files that `vernier-lab impair` writes. `--summary` is a [`Summary`] in JSON;
//! `--record` is what happened to each packet.
//!
//! The record begins with [`MAGIC`]; then follow records of [`RECORD_BYTES`], numbers little-endian:
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0..8 | packet hash | as it arrived |
//! | 8..16 | arrival | ns since 1970 by the system's clock |
//! | 16..24 | departure | the same; 0 if it never left |
//! | 24..28 | order of arrival | in its direction, from 0, modulo 2^32 |
//! | 28..32 | order of departure | the same; 2^32 - 1 if it never left |
//! | 32..36 | length | of the frame that left (or would have), bytes |
//! | 36 | direction | 0 to the right, 1 to the left |
//! | 37 | fate | see [`Fate`] |
//! | 38 | kind | 0 data, else that of the control frame |
//! | 39 | what was done | bits: 1 held back, 2 made up by the box |

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::frames::KINDS;

/// What a file begins with.
pub const MAGIC: [u8; 8] = *b"VRNRBOX1";
/// Bytes of a record.
pub const RECORD_BYTES: usize = 40;
/// Order of departure of what never left.
pub const NEVER: u32 = u32::MAX;

/// What became of a packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Fate {
    /// It left.
    #[default]
    Passed = 0,
    /// It was lost on purpose.
    Lost = 1,
    /// The queue of the rate limit was full.
    Queue = 2,
    /// Its time to live was over.
    Expired = 3,
    /// The box itself had no room or no memory left, or ended: not meant to happen.
    Overrun = 4,
}

impl Fate {
    /// Every fate, in the order of their numbers.
    pub const ALL: [Self; 5] = [
        Self::Passed,
        Self::Lost,
        Self::Queue,
        Self::Expired,
        Self::Overrun,
    ];
}

/// A packet's transit of the box.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transit {
    /// Its hash as it arrived.
    pub packet: u64,
    /// When it arrived: ns since 1970 by the system's clock.
    pub arrival_ns: u64,
    /// When it left, if it did.
    pub departure_ns: u64,
    /// Which packet of its direction it was to arrive, from 0.
    pub arrived: u32,
    /// Which packet of its direction it was to leave, from 0; [`NEVER`].
    pub left: u32,
    /// Length of the frame in bytes.
    pub bytes: u32,
    /// 0 to the right, 1 to the left.
    pub direction: u8,
    /// What became of it.
    pub fate: Fate,
    /// The kind of a control frame; 0 for data.
    pub kind: u8,
    /// It was held back, so that later packets overtake it.
    pub is_held_back: bool,
    /// The box itself made it up.
    pub is_made_up: bool,
}

impl Transit {
    /// Writes its record.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for word in [self.packet, self.arrival_ns, self.departure_ns] {
            out.write_all(&word.to_le_bytes())?;
        }
        for word in [self.arrived, self.left, self.bytes] {
            out.write_all(&word.to_le_bytes())?;
        }
        let done = u8::from(self.is_held_back) | u8::from(self.is_made_up) << 1;
        out.write_all(&[self.direction, self.fate as u8, self.kind, done])
    }

    /// Reads it; `None` for a fate that does not exist.
    pub fn decode(record: &[u8; RECORD_BYTES]) -> Option<Self> {
        let &[.., direction, fate, kind, done] = record;
        let fate = Fate::ALL.get(usize::from(fate)).copied()?;
        Some(Self {
            packet: u64_at(record, 0),
            arrival_ns: u64_at(record, 8),
            departure_ns: u64_at(record, 16),
            arrived: u32_at(record, 24),
            left: u32_at(record, 28),
            bytes: u32_at(record, 32),
            direction,
            fate,
            kind,
            is_held_back: done & 1 != 0,
            is_made_up: done & 2 != 0,
        })
    }

    /// Time that the box kept it; `None` if it never left.
    pub fn delay_ns(&self) -> Option<u64> {
        (self.fate == Fate::Passed).then(|| self.departure_ns.saturating_sub(self.arrival_ns))
    }
}

/// What the box counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// To the right, and to the left.
    pub ways: [Counts; 2],
    /// Transits that the record lacks.
    pub unwritten: u64,
}

/// What the box counted in one direction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Packets that came in.
    pub arrived: u64,
    /// Control frames that the box made up.
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
    /// Frames made up by the box that left.
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

    /// Whether all that came in, or was made here, is accounted for.
    #[cfg(test)]
    pub fn adds_up(&self) -> bool {
        let ends = self.passed + self.lost + self.queue_full + self.expired + self.overrun;
        self.arrived + self.made_up == ends
    }
}

/// The eight bytes from `at` on, little-endian. They must be within the record.
pub fn u64_at(record: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| record[at + i]))
}

/// The four bytes from `at` on, little-endian. They must be within the record.
pub fn u32_at(record: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| record[at + i]))
}

/// All transits in a file; a last record that was cut off is left out.
///
/// # Errors
/// When it cannot be read, or is another kind of file.
pub fn read(file: &Path) -> io::Result<Vec<Transit>> {
    let bytes = fs::read(file)?;
    let records = bytes
        .strip_prefix(&MAGIC)
        .ok_or_else(|| io::Error::other("not a record of vernier-lab impair"))?;
    let (records, _) = records.as_chunks();
    let transits = records.iter().map(|record| {
        let transit = Transit::decode(record);
        transit.ok_or_else(|| io::Error::other("a transit of an unknown fate"))
    });
    transits.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn records_are_what_was_read(mut bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            for record in bytes.as_chunks_mut::<RECORD_BYTES>().0 {
                record[37] %= 5;
                record[39] %= 4;
            }
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("box");
            fs::write(&file, [&MAGIC[..], &bytes].concat()).unwrap();
            let mut records = Vec::new();
            for transit in read(&file).unwrap() {
                transit.write(&mut records).unwrap();
            }
            // It may have ended in the middle of a record.
            let cut = bytes.len() % RECORD_BYTES;
            prop_assert_eq!(records, &bytes[..bytes.len() - cut]);
        }
    }

    #[test]
    fn other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("other");
        fs::write(&file, b"something else").unwrap();
        assert!(read(&file).is_err());
        fs::write(&file, [&MAGIC[..], &[0xff; RECORD_BYTES]].concat()).unwrap();
        assert!(read(&file).unwrap_err().to_string().contains("fate"));
    }
}
