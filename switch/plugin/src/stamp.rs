//! The stamp that a packet carries from its receive queue to its transmit queue.
//!
//! ```text
//!  word 0   flow hash                 absent if only an LDA is configured
//!  word 1   packet hash               likewise
//!  word 2   class, 8 bits | port, 8 bits | when it was received, the low 48 bits of the counter
//! ```
//!
//! 48 bits of a 3 GHz counter wrap around after 26 hours; half of this range is the past. The epoch is derived from the
//! time.
//!
//! The flag shows that the words are valid. But some programs, such as testpmd's macswap, clear flags that they do not
//! know. Then the words are valid if they name the port by which, according to the mbuf, the packet arrived. The last
//! word is cleared when a packet is recorded, every received packet is stamped again, and DPDK clears the port of an
//! mbuf that is allocated for a new packet (`rte_pktmbuf_reset`). So a packet made by the program is never taken for a
//! received one.

use std::sync::atomic::{AtomicU16, Ordering};

use contract::config::PORTS_MAX;
use contract::ids::PortIndex;
use measure::time::Ticks;
use switch::packet_io::ClassIndex;

const TIME_BITS: u32 = 48;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;

/// Value for no measured port; different from `RTE_MBUF_PORT_INVALID`.
pub const NO_PORT: u16 = u16::MAX - 1;

/// DPDK's numbers of measured ports, by index.
#[derive(Debug)]
pub struct PortIds([AtomicU16; PORTS_MAX]);

impl PortIds {
    /// No ports.
    pub fn new() -> Self {
        Self([const { AtomicU16::new(NO_PORT) }; PORTS_MAX])
    }

    /// Sets DPDK's number of the port at `index`, or none.
    pub fn set(&self, index: usize, id: Option<u16>) {
        if let Some(known) = self.0.get(index) {
            known.store(id.unwrap_or(NO_PORT), Ordering::Relaxed);
        }
    }

    /// Whether this last word names the ingress port of a packet without the flag.
    #[inline]
    pub fn vouch(&self, last: u64, came_by: u16) -> bool {
        let index = port_of(last).index();
        let is_it = |id: &AtomicU16| id.load(Ordering::Relaxed) == came_by;
        last != 0 && self.0.get(index).is_some_and(is_it)
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "eight bits are meant")]
fn port_of(word: u64) -> PortIndex {
    PortIndex((word >> TIME_BITS) as u8)
}

/// The decoded last word of a stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// When the packet was received.
    pub arrived: Ticks,
    /// Whether the stamp was later than the present time, by less than half of its range; `received` is then the
    /// present time.
    pub is_backward: bool,
    pub port: PortIndex,
    pub class: ClassIndex,
}

/// Word 2 of a packet of `class`, received by `port` at `now`.
#[inline]
pub fn last_word(port: PortIndex, class: ClassIndex, now: Ticks) -> u64 {
    let class_and_port = u64::from(class.0) << 8 | u64::from(port.0);
    class_and_port << TIME_BITS | now.0 & TIME_MASK
}

impl Stamp {
    /// Decodes the last word of a packet that was received within half a day before `now`.
    #[inline]
    pub fn read(last: u64, now: Ticks) -> Self {
        // The top bit is the sign, because another core's counter may be some ticks ahead.
        let behind = now.since(Ticks(last)) << (u64::BITS - TIME_BITS);
        let delay = behind.cast_signed() >> (u64::BITS - TIME_BITS);
        Self {
            arrived: now.minus(delay.max(0).cast_unsigned()),
            is_backward: delay < 0,
            port: port_of(last),
            class: ClassIndex((last >> (TIME_BITS + 8)) as u8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_flag_words_speak_for_packets_of_their_port_only() {
        let ids = PortIds::new();
        let word = last_word(PortIndex(3), ClassIndex(0), Ticks(5));
        assert!(!ids.vouch(word, 9));
        ids.set(3, Some(9));
        assert!(ids.vouch(word, 9));
        assert!(!ids.vouch(word, 8), "came in by another port");
        assert!(!ids.vouch(word, u16::MAX), "made by the program");
        assert!(!ids.vouch(0, 9), "recorded before");
        ids.set(3, None);
        assert!(!ids.vouch(word, 9));
        ids.set(PORTS_MAX, Some(1));
        let nowhere = last_word(PortIndex(u8::MAX), ClassIndex(0), Ticks(5));
        assert!(!ids.vouch(nowhere, u16::MAX));
    }

    #[test]
    fn a_stamp_of_a_core_whose_counter_is_ahead_is_of_now() {
        for ahead in [1, 9, 1 << 40] {
            let now = Ticks(5_000_000);
            let read = Stamp::read(last_word(PortIndex(3), ClassIndex(0), now.plus(ahead)), now);
            assert_eq!((read.arrived, read.is_backward), (now, true));
        }
        let read = Stamp::read(last_word(PortIndex(3), ClassIndex(0), Ticks(5)), Ticks(5));
        assert_eq!((read.arrived, read.is_backward), (Ticks(5), false));
    }

    #[test]
    fn a_stamp_reads_as_it_was_written_also_where_its_clock_comes_round() {
        for arrived in [0, 12_345, TIME_MASK - 3, TIME_MASK + 9, u64::MAX >> 1].map(Ticks) {
            let word = last_word(PortIndex(31), ClassIndex(7), arrived);
            let read = Stamp::read(word, arrived.plus(1_000_000));
            assert_eq!((read.port, read.class), (PortIndex(31), ClassIndex(7)));
            assert_eq!(read.arrived, arrived);
        }
    }
}
