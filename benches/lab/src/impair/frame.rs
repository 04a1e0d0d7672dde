//! A packet on its way through the box: in an mbuf, or in a test's memory.

use dpdk_bindings::Mbuf;

/// A packet that can be changed.
pub trait Frame {
    /// Its first bytes, mostly all.
    fn head_mut(&mut self) -> &mut [u8];
    fn len_bytes(&self) -> u32;
}

impl Frame for Mbuf<'_> {
    fn head_mut(&mut self) -> &mut [u8] {
        self.head_mut()
    }

    fn len_bytes(&self) -> u32 {
        self.len_bytes()
    }
}

#[cfg(test)]
impl Frame for Vec<u8> {
    fn head_mut(&mut self) -> &mut [u8] {
        self
    }

    fn len_bytes(&self) -> u32 {
        u32::try_from(self.len()).unwrap()
    }
}
