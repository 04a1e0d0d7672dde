//! LLDP frames (IEEE 802.1AB) in transit from a worker to the control core.

use measure::packet::header::{ethernet, ethertype};
use parking_lot::Mutex;

/// Bytes kept of a frame: mandatory fields are first (IEEE 802.1AB-2016, 8.2), the system's name follows soon after.
pub const FRAME_BYTES: usize = 512;

/// Prefix of the addresses that no bridge forwards (IEEE 802.1Q, table 8-1), to which LLDP is sent.
const LINK_LOCAL: &[u8] = &[0x01, 0x80, 0xc2, 0x00, 0x00];

/// The last unread frame that a port received. Neither side waits for the other.
#[derive(Debug)]
pub struct LldpSlot(Mutex<(usize, [u8; FRAME_BYTES])>);

impl Default for LldpSlot {
    fn default() -> Self {
        Self(Mutex::new((0, [0; FRAME_BYTES])))
    }
}

impl LldpSlot {
    /// Stores an LLDP frame, unless the slot is being read; neighbours repeat their frames.
    pub fn offer(&self, frame: &[u8]) {
        let header = ethernet::Header::of(frame);
        let is_lldp = header.is_some_and(|header| header.ethertype() == ethertype::LLDP)
            && frame.starts_with(LINK_LOCAL);
        if is_lldp && let Some(mut slot) = self.0.try_lock() {
            let bytes = frame.len().min(FRAME_BYTES);
            slot.1[..bytes].copy_from_slice(&frame[..bytes]);
            slot.0 = bytes;
        }
    }

    /// Takes the frame.
    pub fn take(&self) -> Option<Vec<u8>> {
        let mut slot = self.0.lock();
        let bytes = std::mem::take(&mut slot.0);
        (bytes > 0).then(|| slot.1[..bytes].to_vec())
    }
}
