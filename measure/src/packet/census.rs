//! How many frames of a burst are of each kind.

use super::Kind;

/// Bits of a kind's count.
const BITS: usize = 7;
const MOST: usize = (1 << BITS) - 1;

/// Counts of a burst by [`Kind`], all in one word: a packet's count depends on the one before it by an
/// addition, where a counter in memory would be loaded and stored again for each.
#[derive(Debug, Clone, Copy, Default)]
pub struct Census(u64);

const _: () = assert!(Kind::COUNT * BITS <= 64, "one word");

impl Census {
    /// Most frames that are counted; beyond, counts run into each other.
    pub const FRAMES_MAX: usize = MOST;

    /// Counts one frame.
    #[inline]
    pub fn add(&mut self, kind: Kind) {
        // Looked up: a shift by a product takes three instructions more.
        static ONE_OF: [u64; Kind::COUNT] = {
            let mut ones = [0; Kind::COUNT];
            let mut kind = 0;
            while kind < Kind::COUNT {
                ones[kind] = 1 << (BITS * kind);
                kind += 1;
            }
            ones
        };
        self.0 = self.0.wrapping_add(ONE_OF[kind as usize]);
    }

    /// Frames of each kind, in the order of [`Kind::ALL`].
    #[inline]
    pub fn counts(self) -> [u64; Kind::COUNT] {
        std::array::from_fn(|kind| self.0 >> (BITS * kind) & MOST as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_room_for_a_whole_burst() {
        for (n, kind) in Kind::ALL.into_iter().enumerate() {
            let mut census = Census::default();
            for _ in 0..Census::FRAMES_MAX {
                census.add(kind);
            }
            let mut expected = [0; Kind::COUNT];
            expected[n] = Census::FRAMES_MAX as u64;
            assert_eq!(census.counts(), expected, "{kind:?}");
        }
    }

    #[test]
    fn kinds_do_not_mix() {
        let mut census = Census::default();
        for (n, kind) in Kind::ALL.into_iter().enumerate() {
            for _ in 0..=n {
                census.add(kind);
            }
        }
        assert_eq!(census.counts(), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }
}
