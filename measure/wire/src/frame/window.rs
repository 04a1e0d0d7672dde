//! Refusal of replayed frames.

/// Which of the latest sequence numbers were seen (RFC 4303, section 3.4.3 and appendix A2): the
/// greatest, and one bit for each of the 64 up to it. Older ones count as seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplayWindow {
    /// 0 before the first.
    greatest: u64,
    /// Bit i: `greatest - i` was seen.
    seen: u64,
}

impl ReplayWindow {
    /// How far a frame may fall behind.
    pub const WIDTH: u64 = 64;

    /// Whether a sequence number was not seen, is not older than the window, and is not 0.
    pub fn is_new(&self, sequence: u64) -> bool {
        let behind = self.greatest.saturating_sub(sequence);
        let is_known = behind >= Self::WIDTH || self.seen >> behind & 1 == 1;
        sequence > self.greatest || sequence != 0 && !is_known
    }

    /// Takes note of a sequence number; `false` where it is not [new](Self::is_new).
    ///
    /// To be called only after the frame has proved authentic, or anyone could move the window.
    pub fn accept(&mut self, sequence: u64) -> bool {
        if !self.is_new(sequence) {
            return false;
        }
        if sequence > self.greatest {
            let ahead = sequence - self.greatest;
            let kept = if ahead < Self::WIDTH {
                self.seen << ahead
            } else {
                0
            };
            self.seen = kept | 1;
            self.greatest = sequence;
            return true;
        }
        self.seen |= 1 << (self.greatest - sequence);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn numbers_beyond_the_window_are_refused() {
        let mut window = ReplayWindow::default();
        assert!(!window.accept(0));
        assert!(window.accept(100));
        assert!(window.accept(37));
        assert!(!window.accept(36));
        assert!(!window.accept(100));
        assert!(window.accept(u64::MAX));
        assert!(!window.accept(101));
        assert!(window.accept(u64::MAX - 63));
    }

    proptest! {
        #[test]
        fn a_window_is_a_set_of_the_latest(sequences in proptest::collection::vec(0_u64..200, 0..300)) {
            let mut window = ReplayWindow::default();
            let (mut seen, mut greatest) = (HashSet::new(), 0);
            for sequence in sequences {
                let fresh = sequence > 0 && sequence + 64 > greatest && seen.insert(sequence);
                greatest = greatest.max(sequence);
                prop_assert_eq!(window.is_new(sequence), fresh, "{}", sequence);
                prop_assert_eq!(window.accept(sequence), fresh, "{}", sequence);
            }
        }
    }
}
