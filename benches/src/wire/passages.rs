//! What the impairment box did to each packet: the file that `vernier-impair --record` writes.
//!
//! It begins with [`MAGIC`]; then follow records of [`RECORD_BYTES`], numbers little-endian:
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
//! | 39 | what was done | bits: 1 duplicate, 2 corrupted, 4 held back, 8 made up by the box; from bit 4 on the copy of a marker |

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use super::frames::Class;

/// What a file begins with.
pub const MAGIC: [u8; 8] = *b"VRNRBOX1";
/// Bytes of a record.
pub const RECORD_BYTES: usize = 40;
/// Order of departure of what never left.
pub const NEVER: u32 = u32::MAX;

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Fate {
    /// It left.
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

/// What was done to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "any of them may be done to a packet, or all"
)]
pub struct Done {
    /// It is the copy of another.
    pub is_duplicate: bool,
    /// A bit was turned.
    pub is_corrupted: bool,
    /// It was held back, so that later ones overtake it.
    pub is_held_back: bool,
    /// The box itself made it up.
    pub is_made_up: bool,
}

/// A packet's way through the box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passage {
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
    /// What it is.
    pub class: Class,
    /// What was done to it.
    pub done: Done,
}

impl Passage {
    /// As it is written.
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let Done {
            is_duplicate,
            is_corrupted,
            is_held_back,
            is_made_up,
        } = self.done;
        let done = u8::from(is_duplicate)
            | u8::from(is_corrupted) << 1
            | u8::from(is_held_back) << 2
            | u8::from(is_made_up) << 3
            | self.class.copy << 4;
        let mut bytes = [0; RECORD_BYTES];
        let fields: [&[u8]; 7] = [
            &self.packet.to_le_bytes(),
            &self.arrival_ns.to_le_bytes(),
            &self.departure_ns.to_le_bytes(),
            &self.arrived.to_le_bytes(),
            &self.left.to_le_bytes(),
            &self.bytes.to_le_bytes(),
            &[self.direction, self.fate as u8, self.class.kind, done],
        ];
        let bytes_of_fields = fields.into_iter().flatten();
        for (byte, of_field) in bytes.iter_mut().zip(bytes_of_fields) {
            *byte = *of_field;
        }
        bytes
    }

    /// As it was written; `None` of a fate that there is not.
    pub fn decode(record: &[u8; RECORD_BYTES]) -> Option<Self> {
        let &[.., direction, fate, kind, done] = record;
        let fate = Fate::ALL.get(usize::from(fate)).copied()?;
        Some(Self {
            packet: number(record, 0),
            arrival_ns: number(record, 8),
            departure_ns: number(record, 16),
            arrived: half(record, 24),
            left: half(record, 28),
            bytes: half(record, 32),
            direction,
            fate,
            class: Class {
                kind,
                copy: done >> 4,
            },
            done: Done {
                is_duplicate: done & 1 != 0,
                is_corrupted: done & 2 != 0,
                is_held_back: done & 4 != 0,
                is_made_up: done & 8 != 0,
            },
        })
    }

    /// How long the box kept it.
    pub fn delay_ns(&self) -> Option<u64> {
        (self.fate == Fate::Passed).then(|| self.departure_ns.saturating_sub(self.arrival_ns))
    }
}

/// Eight bytes of a record.
pub(super) fn number<const N: usize>(record: &[u8; N], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| {
        record.get(at + i).copied().unwrap_or(0)
    }))
}

/// Four bytes of a record.
pub(super) fn half<const N: usize>(record: &[u8; N], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| {
        record.get(at + i).copied().unwrap_or(0)
    }))
}

/// Calls `each` with every whole record of a file; what is cut off at its end is left out.
pub(super) fn records<const N: usize>(
    mut reader: impl Read,
    mut each: impl FnMut(&[u8; N]) -> io::Result<()>,
) -> io::Result<()> {
    let mut record = [0; N];
    loop {
        match reader.read_exact(&mut record) {
            Ok(()) => each(&record)?,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// All passages in a file.
///
/// # Errors
/// When it cannot be read, or is another kind of file.
pub fn read(file: &Path) -> io::Result<Vec<Passage>> {
    let mut reader = BufReader::with_capacity(1 << 20, File::open(file)?);
    let mut magic = MAGIC;
    reader.read_exact(&mut magic)?;
    if magic != MAGIC {
        return Err(io::Error::other("not a record of vernier-impair"));
    }
    let mut passages = Vec::new();
    records(reader, |record| {
        let passage = Passage::decode(record);
        passages.push(passage.ok_or_else(|| io::Error::other("a passage of an unknown fate"))?);
        Ok(())
    })?;
    Ok(passages)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn passages() -> impl Strategy<Value = Passage> {
        let times = any::<(u64, u64, u64)>();
        let places = any::<(u32, u32, u32, u8)>();
        let what = (0..5_usize, any::<u8>(), 0..16_u8);
        let done = any::<(bool, bool, bool, bool)>();
        (times, places, what, done).prop_map(|(times, places, (fate, kind, copy), done)| Passage {
            packet: times.0,
            arrival_ns: times.1,
            departure_ns: times.2,
            arrived: places.0,
            left: places.1,
            bytes: places.2,
            direction: places.3,
            fate: Fate::ALL[fate],
            class: Class { kind, copy },
            done: Done {
                is_duplicate: done.0,
                is_corrupted: done.1,
                is_held_back: done.2,
                is_made_up: done.3,
            },
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(passages in prop::collection::vec(passages(), 0..20), cut in 0..40_usize) {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("box");
            let mut bytes = MAGIC.to_vec();
            for passage in &passages {
                bytes.extend(passage.encode());
            }
            // It may have ended in the middle of a record.
            bytes.extend(std::iter::repeat_n(1, cut % RECORD_BYTES));
            std::fs::write(&file, &bytes).unwrap();
            prop_assert_eq!(read(&file).unwrap(), passages);
        }
    }

    #[test]
    fn other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("other");
        std::fs::write(&file, b"something else").unwrap();
        assert!(read(&file).is_err());
        std::fs::write(&file, [&MAGIC[..], &[0xff; RECORD_BYTES]].concat()).unwrap();
        assert!(read(&file).unwrap_err().to_string().contains("fate"));
    }
}
