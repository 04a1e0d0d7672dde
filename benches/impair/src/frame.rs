//! A packet on its way through the box: in an mbuf, or in a test's memory.

use dpdk_bindings::{Mbuf, Mempool};
use measure::packet::header::ethertype;

/// A packet that can be changed.
pub trait Frame: Sized {
    /// Its first bytes, mostly all.
    fn head(&self) -> &[u8];
    /// The same, to be changed.
    fn head_mut(&mut self) -> &mut [u8];
    fn len_bytes(&self) -> u32;
    /// Another of the same bytes; `None` without memory.
    fn copy(&self) -> Option<Self>;
    /// Puts a VLAN tag on; whether it could.
    fn push_vlan(&mut self, tag: u16) -> bool;
    /// Takes the outer VLAN tag off, where there is one.
    fn pop_vlan(&mut self);
}

/// A packet in an mbuf.
#[derive(Debug)]
pub struct Packet<'pool> {
    pub mbuf: Mbuf<'pool>,
    /// Where copies come from.
    pub pool: &'pool Mempool<'pool>,
}

impl Frame for Packet<'_> {
    fn head(&self) -> &[u8] {
        self.mbuf.head()
    }

    fn head_mut(&mut self) -> &mut [u8] {
        self.mbuf.head_mut()
    }

    fn len_bytes(&self) -> u32 {
        self.mbuf.len_bytes()
    }

    fn copy(&self) -> Option<Self> {
        let mbuf = self.mbuf.copy(self.pool)?;
        Some(Self { mbuf, ..*self })
    }

    fn push_vlan(&mut self, tag: u16) -> bool {
        self.mbuf.push_vlan(ethertype::VLAN, tag).is_ok()
    }

    fn pop_vlan(&mut self) {
        self.mbuf.pop_vlan();
    }
}

#[cfg(test)]
mod memory {
    //! A packet in memory.

    use measure::packet::header::{ethernet, ethertype, vlan};

    use super::Frame;

    /// Where the ethertype is, before which tags are.
    const TYPE_AT: usize = ethernet::field::ETHERTYPE.start;

    impl Frame for Vec<u8> {
        fn head(&self) -> &[u8] {
            self
        }

        fn head_mut(&mut self) -> &mut [u8] {
            self
        }

        fn len_bytes(&self) -> u32 {
            u32::try_from(self.len()).unwrap()
        }

        fn copy(&self) -> Option<Self> {
            Some(self.clone())
        }

        fn push_vlan(&mut self, tag: u16) -> bool {
            if self.len() < TYPE_AT {
                return false;
            }
            let tag = [ethertype::VLAN.to_be_bytes(), tag.to_be_bytes()];
            self.splice(TYPE_AT..TYPE_AT, tag.into_iter().flatten());
            true
        }

        fn pop_vlan(&mut self) {
            let ethertype = ethernet::Header::of(self).map(ethernet::Header::ethertype);
            let is_tagged = matches!(ethertype, Some(ethertype::VLAN | ethertype::QINQ));
            if is_tagged && self.len() >= ethernet::BYTES + vlan::BYTES {
                self.drain(TYPE_AT..TYPE_AT + vlan::BYTES);
            }
        }
    }
}
