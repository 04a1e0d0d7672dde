//! A packet in memory.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;

use arrayvec::ArrayVec;
use dpdk_sys::rte_mbuf;

/// Longest frame whose segments certainly add up to its length. `net_pcap` (22.11) counts the bytes that it copies in
/// 16 bits, so a frame of 70,000 bytes has only 4,464 in its segments. DPDK's copy function, or a driver that trusts
/// the length, would run past the end of the chain.
pub(crate) const FRAME_BYTES_MAX: u32 = 65_535;

/// Two Ethernet addresses.
const ADDRESSES_BYTES: usize = 12;
const VLAN_TAG_BYTES: u16 = 4;

/// The buffer belongs to another mbuf or to none (`RTE_MBUF_F_INDIRECT`, `RTE_MBUF_F_EXTERNAL`), so its headroom may
/// not be used.
const NOT_DIRECT: u64 = 1 << 62 | 1 << 61;

/// A frame has no room in front of it for a tag, or is too short for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no room for a VLAN tag in front of the frame")]
pub struct NoRoom;

/// An owned packet; dropping it frees it. It is one mbuf, or a chain of mbufs if the frame exceeds a data room.
///
/// It is a transparent pointer, so an array of packets is a burst in DPDK's sense.
#[derive(Debug)]
#[repr(transparent)]
pub struct Mbuf<'pool> {
    raw: NonNull<rte_mbuf>,
    /// Its pool, a [`Mempool`](crate::Mempool), outlives it.
    _pool: PhantomData<&'pool ()>,
}

// SAFETY: an mbuf has one owner and belongs to no thread; any thread may return it to its pool.
unsafe impl Send for Mbuf<'_> {}

impl Mbuf<'_> {
    /// Takes ownership of a packet; `None` for NULL.
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

    /// The bytes of the first segment, mutably.
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

    /// Length of the frame in bytes over all segments, without frame check sequence, as the driver reports it. The
    /// driver may have stored less of a frame over 65,535 bytes.
    #[inline]
    pub fn len_bytes(&self) -> u32 {
        self.view().pkt_len
    }

    /// Number of segments in the chain, 1 or more.
    #[inline]
    pub fn segments(&self) -> u16 {
        self.view().nb_segs
    }

    /// The ingress port; 65,535 (`RTE_MBUF_PORT_INVALID`) if there is none.
    #[inline]
    pub fn port(&self) -> u16 {
        self.view().port
    }

    /// Sets the ingress port.
    #[inline]
    pub fn set_port(&mut self, port: u16) {
        self.view_mut().port = port;
    }

    /// Inserts a VLAN tag behind the addresses (IEEE 802.1Q clause 9), with tag protocol `tpid` and tag control
    /// information `tci`. Only the twelve bytes of the addresses move, into the headroom.
    ///
    /// # Errors
    /// [`NoRoom`] if there is no headroom or the frame is shorter than its addresses; it is then unchanged.
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

    /// Removes the outer VLAN tag (tag protocol 0x8100 or 0x88A8) and returns its tag control information; `None` if
    /// there is no tag. The frame may become shorter than Ethernet's 60 bytes; NICs pad it.
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

    /// Prefetches the frame's first 64 bytes. Reads the mbuf for their address.
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
    const { assert!(N <= u32::MAX as usize, "DPDK counts packets in 32 bits") };
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
