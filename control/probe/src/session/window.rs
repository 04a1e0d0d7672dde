//! Packets that were sent and may still be answered, or answered again.

use std::collections::VecDeque;
use std::time::Duration;

use crate::socket::Stamps;
use crate::wire::time::UnixNs;

/// Most packets in the window of a session; no more are sent while it is full.
pub(super) const PACKETS_MAX: usize = 1 << 17;

/// A packet that was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    /// The time in the packet.
    pub(super) written: UnixNs,
    /// When it left, as far as that is known.
    pub(super) stamps: Stamps,
    /// By the clock that never steps.
    pub(super) at: Duration,
    /// Number of the interval it counts for.
    pub(super) interval: u64,
    /// How often the system's clock had been set.
    pub(super) clock_steps: u32,
    pub(super) is_answered: bool,
}

/// The packets by sequence number, without gaps.
#[derive(Debug, Default)]
pub(super) struct Window {
    packets: VecDeque<Sent>,
    /// Sequence number of the first.
    first: u32,
}

impl Window {
    pub(super) fn is_full(&self) -> bool {
        self.packets.len() >= PACKETS_MAX
    }

    /// The sequence number of the next packet.
    pub(super) fn next_sequence(&self) -> u32 {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "modulo 2^32, and at most 2^17"
        )]
        self.first.wrapping_add(self.packets.len() as u32)
    }

    pub(super) fn push(&mut self, sent: Sent) {
        self.packets.push_back(sent);
    }

    /// The packet of that number, if it is in the window.
    pub(super) fn get(&mut self, sequence: u32) -> Option<&mut Sent> {
        let index = usize::try_from(sequence.wrapping_sub(self.first)).ok()?;
        self.packets.get_mut(index)
    }

    /// The first packet, out of the window, if it was sent before `before`.
    pub(super) fn pop_before(&mut self, before: Duration) -> Option<Sent> {
        let sent = self.packets.pop_front_if(|sent| sent.at <= before)?;
        self.first = self.first.wrapping_add(1);
        Some(sent)
    }

    /// Whether a number is of a packet that has left the window.
    pub(super) fn is_past(&self, sequence: u32) -> bool {
        sequence.wrapping_sub(self.first).cast_signed() < 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(at_ms: u64) -> Sent {
        Sent {
            written: UnixNs(at_ms),
            stamps: Stamps::now(),
            at: Duration::from_millis(at_ms),
            interval: 0,
            clock_steps: 0,
            is_answered: false,
        }
    }

    #[test]
    fn numbers_roll_over() {
        let mut window = Window {
            first: u32::MAX - 1,
            ..Window::default()
        };
        for at_ms in 0..4 {
            assert_eq!(window.next_sequence(), (u32::MAX - 1).wrapping_add(at_ms));
            window.push(sent(u64::from(at_ms)));
        }
        assert_eq!(window.get(1).unwrap().written, UnixNs(3));
        assert!(window.get(2).is_none() && window.get(u32::MAX - 2).is_none());
        assert!(window.is_past(u32::MAX - 2) && !window.is_past(2));
        let popped = std::iter::from_fn(|| window.pop_before(Duration::from_millis(2)));
        assert_eq!(popped.count(), 3);
        assert!(window.get(0).is_none() && window.is_past(0));
        assert_eq!(window.get(1).unwrap().at, Duration::from_millis(3));
    }
}
