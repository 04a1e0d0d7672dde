//! A packet in memory.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;

use arrayvec::ArrayVec;
use dpdk_sys::rte_mbuf;

/// Longest frame whose segments are sure to add up to its length. `net_pcap` (22.11) counts what it
/// copies in 16 bits, so that a frame of 70,000 bytes has 4,464, and DPDK's own copy or a driver
/// that trusts the length would run off the end of the chain.
pub(crate) const FRAME_BYTES_MAX: u32 = 65_535;

/// Two Ethernet addresses.
const ADDRESSES_BYTES: usize = 12;
const VLAN_TAG_BYTES: u16 = 4;

/// The buffer is another mbuf's, or not an mbuf's at all (`RTE_MBUF_F_INDIRECT`,
/// `RTE_MBUF_F_EXTERNAL`): its headroom need not be ours.
const NOT_DIRECT: u64 = 1 << 62 | 1 << 61;

/// A frame has no room in front for a tag, or is too short to have one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no room for a VLAN tag in front of the frame")]
pub struct NoRoom;

/// A packet, owned: dropping it frees it. One mbuf, or a chain of them when the frame outgrows a
/// data room.
///
/// It is a pointer, so that an array of them is what DPDK calls a burst.
#[derive(Debug)]
#[repr(transparent)]
pub struct Mbuf<'pool> {
    raw: NonNull<rte_mbuf>,
    /// Its pool, a [`Mempool`](crate::Mempool), outlives it.
    _pool: PhantomData<&'pool ()>,
}

// SAFETY: an mbuf has one owner and belongs to no thread; pools take it back from any.
unsafe impl Send for Mbuf<'_> {}

impl Mbuf<'_> {
    /// Takes over a packet; `None` for NULL.
    ///
    /// # Safety
    /// `raw` is NULL or a packet without another owner, from a pool that outlives `'pool`.
    pub(crate) unsafe fn from_raw(raw: *mut rte_mbuf) -> Option<Self> {
        NonNull::new(raw).map(|raw| Self {
            raw,
            _pool: PhantomData,
        })
    }

    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut rte_mbuf {
        self.raw.as_ptr()
    }

    #[inline]
    fn view(&self) -> &rte_mbuf {
        // SAFETY: the mbuf is owned, hence allocated, and written only by its owner.
        unsafe { self.raw.as_ref() }
    }

    #[inline]
    pub(crate) fn view_mut(&mut self) -> &mut rte_mbuf {
        // SAFETY: as in view, and borrowed mutably.
        unsafe { self.raw.as_mut() }
    }

    /// The bytes of the first segment: the whole frame, unless [`segments`](Self::segments) says
    /// otherwise.
    #[inline]
    pub fn head(&self) -> &[u8] {
        let view = self.view();
        // SAFETY: data_len bytes from data_off are in the segment's buffer (rte_mbuf_core.h), which
        // only the owner touches.
        unsafe {
            slice::from_raw_parts(
                view.buf_addr.add(usize::from(view.data_off)),
                usize::from(view.data_len),
            )
        }
    }

    /// The bytes of the first segment, to be changed.
    #[inline]
    pub fn head_mut(&mut self) -> &mut [u8] {
        let view = self.view();
        // SAFETY: as in head, and borrowed mutably; no operation of this crate shares a buffer.
        unsafe {
            slice::from_raw_parts_mut(
                view.buf_addr.add(usize::from(view.data_off)),
                usize::from(view.data_len),
            )
        }
    }

    /// Length of the frame in bytes, over all segments, without frame check sequence; as the driver
    /// reports it, even where (over 65,535 bytes) it did not store as much.
    #[inline]
    pub fn len_bytes(&self) -> u32 {
        self.view().pkt_len
    }

    /// Segments in the chain, 1 or more.
    #[inline]
    pub fn segments(&self) -> u16 {
        self.view().nb_segs
    }

    /// The port that it came in by; 65,535 (`RTE_MBUF_PORT_INVALID`) if by none.
    #[inline]
    pub fn port(&self) -> u16 {
        self.view().port
    }

    /// Notes the port that it came in by.
    #[inline]
    pub fn set_port(&mut self, port: u16) {
        self.view_mut().port = port;
    }

    /// Puts a VLAN tag behind the addresses (IEEE 802.1Q clause 9): tag protocol `tpid`, tag control
    /// information `tci`. Twelve bytes move into the headroom; nothing is copied or allocated.
    ///
    /// # Errors
    /// [`NoRoom`] without headroom, and of a frame shorter than its addresses; it is as it was.
    #[inline]
    pub fn push_vlan(&mut self, tpid: u16, tci: u16) -> Result<(), NoRoom> {
        let view = self.view_mut();
        let is_direct = view.ol_flags & NOT_DIRECT == 0;
        if !is_direct
            || view.data_off < VLAN_TAG_BYTES
            || usize::from(view.data_len) < ADDRESSES_BYTES
            || view.data_len > u16::MAX - VLAN_TAG_BYTES
        {
            return Err(NoRoom);
        }
        view.data_off -= VLAN_TAG_BYTES;
        view.data_len += VLAN_TAG_BYTES;
        view.pkt_len += u32::from(VLAN_TAG_BYTES);
        let head = self.head_mut();
        head.copy_within(4..4 + ADDRESSES_BYTES, 0);
        head[12..14].copy_from_slice(&tpid.to_be_bytes());
        head[14..16].copy_from_slice(&tci.to_be_bytes());
        Ok(())
    }

    /// Takes the outer VLAN tag off (tag protocol 0x8100 or 0x88A8) and returns its tag control
    /// information; `None`, and nothing done, where there is none. A frame may so become shorter than
    /// Ethernet's 60 bytes: NICs pad.
    #[inline]
    pub fn pop_vlan(&mut self) -> Option<u16> {
        let head = self.head_mut();
        let &[tpid_high, tpid_low, tci_high, tci_low, _, _] = head.get(12..18)? else {
            return None;
        };
        if !matches!([tpid_high, tpid_low], [0x81, 0x00] | [0x88, 0xa8]) {
            return None;
        }
        head.copy_within(..ADDRESSES_BYTES, 4);
        let view = self.view_mut();
        view.data_off += VLAN_TAG_BYTES;
        view.data_len -= VLAN_TAG_BYTES;
        view.pkt_len -= u32::from(VLAN_TAG_BYTES);
        Some(u16::from_be_bytes([tci_high, tci_low]))
    }

    /// Hints that the frame's first 64 bytes are wanted soon. Reads the mbuf to know where they are.
    #[inline]
    pub fn prefetch_data(&self) {
        prefetch(self.head().as_ptr());
    }
}

impl Drop for Mbuf<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: owned, and not used again.
        unsafe { dpdk_sys::vernier_mbuf_free(self.as_ptr()) }
    }
}

/// Frees a burst with one call, which is cheaper than dropping its packets one by one.
#[inline]
pub fn free_bulk<const N: usize>(burst: &mut ArrayVec<Mbuf<'_>, N>) {
    const { assert!(N <= u32::MAX as usize, "DPDK counts them in 32 bits") };
    #[expect(clippy::cast_possible_truncation, reason = "asserted above")]
    let count = burst.len() as u32;
    // SAFETY: Mbuf is a transparent pointer, so the burst is an array of count packets, all owned;
    // with its length set to 0 they are not dropped again.
    unsafe {
        dpdk_sys::vernier_mbuf_free_bulk(burst.as_mut_ptr().cast(), count);
        burst.set_len(0);
    }
}

#[inline]
fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint; it does not fault whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
