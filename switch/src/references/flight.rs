//! What references say, while they are under way in a queue.

use measure::rli::Reference;

/// Most references of one stream that are under way.
const FLIGHT_MAX: usize = 64;

/// References under way, by sequence number.
#[derive(Debug)]
pub(super) struct Flight {
    /// The reference of sequence number n at n modulo its length.
    said: Box<[Option<Reference>]>,
    /// The oldest that may come, and the next to be sent.
    oldest: u32,
    next: u32,
}

impl Flight {
    /// After this long in a queue, a reference is lost.
    const LOST_NS: i64 = 1_000_000_000;

    pub(super) fn new() -> Self {
        Self {
            said: vec![None; FLIGHT_MAX].into_boxed_slice(),
            oldest: 0,
            next: 0,
        }
    }

    fn slot(&mut self, sequence: u32) -> Option<&mut Option<Reference>> {
        self.said.get_mut(sequence as usize % FLIGHT_MAX)
    }

    /// Whether one more may be sent at `now_ns`. Where none seems to come any more, the oldest is
    /// given up.
    pub(super) fn has_room(&mut self, now_ns: u64) -> bool {
        if (self.next.wrapping_sub(self.oldest) as usize) < FLIGHT_MAX {
            return true;
        }
        let oldest = self.oldest;
        let is_lost = match self.slot(oldest) {
            Some(Some(said)) => now_ns.wrapping_sub(said.sent_ns).cast_signed() > Self::LOST_NS,
            _ => true,
        };
        if is_lost {
            self.oldest = oldest.wrapping_add(1);
        }
        is_lost
    }

    /// Keeps what the newest reference says.
    pub(super) fn send(&mut self, said: Reference) {
        let sequence = said.sequence;
        if let Some(slot) = self.slot(sequence) {
            *slot = Some(said);
        }
        self.next = sequence.wrapping_add(1);
    }

    /// What the reference of that number says; those before it are not to be expected any more.
    pub(super) fn receive(&mut self, sequence: u32) -> Option<Reference> {
        let ahead = sequence.wrapping_sub(self.oldest);
        if ahead >= self.next.wrapping_sub(self.oldest) {
            return None;
        }
        self.oldest = sequence.wrapping_add(1);
        self.slot(sequence)?.take()
    }
}
