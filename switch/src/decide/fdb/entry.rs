//! What the table remembers of a station: one word, four of them to a cache line with their keys.

use contract::fdb::StationKey;
use contract::ids::PortIndex;

/// Stations of a bucket.
pub(super) const WAYS: usize = 4;

/// What is known of a station, in one word: bits 0 to 31 the age at which it was seen, 32 to 37 its
/// port, 40 to 47 the port's era, 48 to 63 the lower bits of the age at which it was reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Mark(pub u64);

impl Mark {
    /// It never ages and never moves.
    pub const STATIC: u64 = 1 << 38;
    /// A report of it found no room.
    pub const UNREPORTED: u64 = 1 << 39;
    /// What tells that it was seen in this unit of age behind this port of this era.
    pub const OBSERVATION: u64 = 0xffff_ffff | 0x3f << 32 | 0xff << 40;

    pub fn is_static(self) -> bool {
        self.0 & Self::STATIC != 0
    }

    #[inline]
    pub fn is_seen(self, fresh: Fresh) -> bool {
        self.0 & Self::OBSERVATION == fresh.0
    }

    /// Whether it was seen behind the port of an observation, in the same era.
    #[inline]
    pub fn is_of_port(self, Fresh(fresh): Fresh) -> bool {
        (self.0 ^ fresh) & (Self::OBSERVATION & !0xffff_ffff) == 0
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "32 bits are meant")]
    pub fn seen(self) -> u32 {
        self.0 as u32
    }

    #[inline]
    pub fn port(self) -> PortIndex {
        #[expect(clippy::cast_possible_truncation, reason = "6 bits")]
        PortIndex((self.0 >> 32) as u8 & 0x3f)
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "8 bits are meant")]
    pub fn era(self) -> u8 {
        (self.0 >> 40) as u8
    }

    pub fn reported(self) -> u16 {
        (self.0 >> 48) as u16
    }

    pub fn is_unreported(self) -> bool {
        self.0 & Self::UNREPORTED != 0
    }

    /// Seen like this, and reported at the same time.
    pub fn newly_reported(fresh: Fresh) -> Self {
        Self(fresh.0 | (fresh.0 & 0xffff) << 48)
    }

    /// Seen like this, and reported when `self` was.
    pub fn seen_again(self, fresh: Fresh) -> Self {
        Self(self.0 & !Self::OBSERVATION | fresh.0)
    }
}

/// An observation of a station: when, behind which port, in which era of it; bits as in a `Mark`.
#[derive(Debug, Clone, Copy)]
pub struct Fresh(pub(super) u64);

impl Fresh {
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "32 bits are meant")]
    pub(super) fn age(self) -> u32 {
        self.0 as u32
    }

    pub(super) fn port(self) -> PortIndex {
        Mark(self.0).port()
    }
}

/// The key of a free way: no station's, which has 60 bits.
pub(super) const FREE: u64 = u64::MAX;

/// Four stations.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(super) struct Bucket {
    pub keys: [u64; WAYS],
    pub marks: [Mark; WAYS],
}

const _: () = assert!(size_of::<Bucket>() == 64, "one cache line a bucket");

impl Default for Bucket {
    fn default() -> Self {
        Self {
            keys: [FREE; WAYS],
            marks: [Mark::default(); WAYS],
        }
    }
}

impl Bucket {
    /// What is known of a station, if it is here.
    #[inline]
    pub fn mark_of(&self, station: StationKey) -> Option<Mark> {
        if self.keys[0] == station.0 {
            return Some(self.marks[0]);
        }
        self.marks.get(self.find(station)).copied()
    }

    /// The way of a station; [`WAYS`] if it is not here. Most that are in a table are first in their
    /// buckets; which way others are cannot be guessed: that takes no branch.
    #[inline]
    pub fn find(&self, station: StationKey) -> usize {
        if self.keys[0] == station.0 {
            return 0;
        }
        let mut found = WAYS;
        for (way, &key) in self.keys.iter().enumerate() {
            found = std::hint::select_unpredictable(key == station.0, way, found);
        }
        found
    }
}
