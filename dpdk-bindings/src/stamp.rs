//! Room in every mbuf for the switch's own 24 bytes, and the flag that says whether they are valid.

use std::ffi::CStr;

use dpdk_sys::rte_mbuf;

use crate::eal::Eal;
use crate::error::{DpdkLog, Errno, logged};
use crate::host::Host;
use crate::host::PassingMbuf;
use crate::mbuf::Mbuf;

const FIELD: &CStr = c"vernier_stamp";
const FLAG: &CStr = c"vernier_stamp_valid";

/// Why the field or its flag is unavailable.
#[derive(Debug, thiserror::Error)]
pub enum StampError {
    /// No room left in the mbuf.
    #[error(
        "no 24 free bytes in the mbuf for {FIELD:?}: {errno}{log}; register it before ports are \
         attached, and leave out drivers that take room of their own"
    )]
    Field {
        /// DPDK's error.
        errno: Errno,
        /// DPDK's log lines.
        log: DpdkLog,
    },
    /// No flag left.
    #[error("no free mbuf flag for {FLAG:?}: {errno}{log}")]
    Flag {
        /// DPDK's error.
        errno: Errno,
        /// DPDK's log lines.
        log: DpdkLog,
    },
}

/// A packet that can carry a stamp: an owned one, or one that passes a [`Tap`](crate::Tap).
pub trait Stampable: sealed::Packet {}

impl Stampable for Mbuf<'_> {}
impl Stampable for PassingMbuf<'_> {}

mod sealed {
    use crate::host::PassingMbuf;
    use crate::mbuf::Mbuf;

    pub trait Packet {
        fn mbuf(&self) -> &Mbuf<'_>;
    }

    impl Packet for Mbuf<'_> {
        #[inline]
        fn mbuf(&self) -> &Mbuf<'_> {
            self
        }
    }

    impl Packet for PassingMbuf<'_> {
        #[inline]
        fn mbuf(&self) -> &Mbuf<'_> {
            self
        }
    }
}

/// The stamp: a dynamic field of 24 bytes and a dynamic flag (`rte_mbuf_dyn.h`).
///
/// Only the flag proves a stamp. Copies carry both; a fresh mbuf, received or allocated, has the flag
/// cleared, while its field may contain an earlier packet's stamp.
#[derive(Debug, Clone, Copy)]
pub struct StampField {
    offset: usize,
    flag: u64,
}

/// The common part of the stamps of some packets in a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedStamp {
    /// The last word.
    pub last: u64,
    /// The ingress port according to the mbufs.
    port: u16,
    /// Whether packets with this last word and port need no flag.
    is_vouched: bool,
}

impl StampField {
    /// Reserves field and flag; repeated calls in a process return the same. Call it before ports are
    /// attached: drivers reserve fields, too (`net_pcap` one for its timestamps), and 24 bytes is the most
    /// that fits beside them in 22.11.
    ///
    /// # Errors
    /// See [`StampError`].
    pub fn register(_eal: &Eal) -> Result<Self, StampError> {
        Self::reserve()
    }

    /// Like [`register`](Self::register), in a host program that already has some ports. Mbufs in transit
    /// have the flag cleared, like all others.
    ///
    /// # Errors
    /// See [`StampError`].
    pub fn register_in(_host: &Host<'_>) -> Result<Self, StampError> {
        Self::reserve()
    }

    /// Call this only while EAL is initialised.
    fn reserve() -> Result<Self, StampError> {
        let (size, align) = (size_of::<[u64; 3]>(), align_of::<[u64; 3]>());
        // SAFETY: EAL is initialised, as callers say; the name is NUL-terminated and copied.
        let offset = logged(|| unsafe {
            Errno::check(dpdk_sys::vernier_dynfield_register(
                FIELD.as_ptr(),
                size,
                align,
            ))
        })
        .map_err(|(errno, log)| StampError::Field { errno, log })?;
        // SAFETY: as above.
        let bit =
            logged(|| unsafe { Errno::check(dpdk_sys::vernier_dynflag_register(FLAG.as_ptr())) })
                .map_err(|(errno, log)| StampError::Flag { errno, log })?;
        // A flag's bit is under 64, an offset under 128 (rte_mbuf_dyn.h).
        Ok(Self {
            offset: offset as usize,
            flag: 1 << bit,
        })
    }

    /// The stamp, if the packet has one.
    #[inline]
    pub fn get(&self, mbuf: &Mbuf<'_>) -> Option<[u64; 3]> {
        let mbuf = mbuf.as_ptr();
        // SAFETY: the mbuf is owned, and DPDK reserved 24 aligned bytes at this offset in every one.
        unsafe {
            ((*mbuf).ol_flags & self.flag != 0)
                .then(|| mbuf.byte_add(self.offset).cast::<[u64; 3]>().read())
        }
    }

    /// Stamps the packet.
    #[inline]
    pub fn set(&self, mbuf: &mut impl Stampable, stamp: [u64; 3]) {
        let mbuf = mbuf.mbuf().as_ptr();
        // SAFETY: as in get, and borrowed mutably.
        unsafe {
            let words = mbuf.byte_add(self.offset).cast::<u64>();
            for (n, word) in stamp.into_iter().enumerate() {
                // One by one: combined first, they would be stored and waited for.
                words.add(n).write_volatile(word);
            }
            (*mbuf).ol_flags |= self.flag;
        }
    }

    /// Stamps the packet with a last word; the other words are left from an earlier packet.
    #[inline]
    pub fn set_last(&self, mbuf: &mut impl Stampable, word: u64) {
        let mbuf = mbuf.mbuf().as_ptr();
        // SAFETY: as in get, and borrowed mutably.
        unsafe {
            self.last_word(mbuf).write(word);
            (*mbuf).ol_flags |= self.flag;
        }
    }

    /// Stamps a burst with one last word; returns the bytes of its frames.
    #[inline]
    pub fn set_last_of(&self, burst: &mut [impl Stampable], word: u64) -> u64 {
        // A copy, because no write to an mbuf changes it.
        let field = *self;
        let mut bytes = 0;
        for mbuf in burst {
            bytes += u64::from(mbuf.mbuf().len_bytes());
            field.set_last(mbuf, word);
        }
        bytes
    }

    /// The first two words, whatever they are: the packet's even after its stamp was
    /// [taken](Self::take_run).
    #[inline]
    pub fn first_words(&self, mbuf: &impl Stampable) -> [u64; 2] {
        let mbuf = mbuf.mbuf().as_ptr();
        // SAFETY: as in get.
        unsafe { mbuf.byte_add(self.offset).cast::<[u64; 2]>().read() }
    }

    /// The part of the first packet's stamp that is shared by those behind it, if the flag or `vouches`
    /// says that it is this packet's. For programs that clear unknown flags: then only the words are left,
    /// and those of a fresh mbuf may be an earlier packet's.
    #[inline]
    pub fn first_of(
        &self,
        burst: &[impl Stampable],
        vouches: impl FnOnce(&Mbuf<'_>, u64) -> bool,
    ) -> Option<SharedStamp> {
        let first = burst.first()?.mbuf();
        let raw = first.as_ptr();
        // SAFETY: as in get.
        let (last, flag) = unsafe { (self.last_word(raw).read(), (*raw).ol_flags & self.flag) };
        let is_vouched = vouches(first, last);
        (is_vouched || flag != 0).then(|| SharedStamp {
            last,
            port: first.port(),
            is_vouched,
        })
    }

    /// Removes the stamps from packets at the front of a burst that share that of [the first](Self::first_of):
    /// afterwards they have none, and their last word is 0. Returns their number, and the bytes of their
    /// frames.
    #[inline]
    pub fn take_run(&self, burst: &mut [impl Stampable], shared: &SharedStamp) -> (usize, u64) {
        let Some((first, others)) = burst.split_first_mut() else {
            return (0, 0);
        };
        // Whatever its words are by now: after a fork, another process may have the mbuf, too.
        self.wipe(first);
        let bytes = u64::from(first.mbuf().len_bytes());
        let (more, more_bytes) = if shared.is_vouched {
            self.take_others::<false>(others, shared)
        } else {
            self.take_others::<true>(others, shared)
        };
        (1 + more, bytes + more_bytes)
    }

    /// The same for packets behind the first: if nothing vouches for words without it, all need the flag.
    #[inline]
    fn take_others<const FLAG: bool>(
        &self,
        others: &mut [impl Stampable],
        shared: &SharedStamp,
    ) -> (usize, u64) {
        // A copy, because no write to an mbuf changes it.
        let field = *self;
        let (mut packets, mut bytes) = (0, 0);
        for packet in others {
            let raw = packet.mbuf().as_ptr();
            // SAFETY: as in get.
            let (last, flags) = unsafe { (field.last_word(raw).read(), (*raw).ol_flags) };
            let is_its = last == shared.last && packet.mbuf().port() == shared.port;
            if !is_its || FLAG && flags & field.flag == 0 {
                break;
            }
            field.wipe(packet);
            packets += 1;
            bytes += u64::from(packet.mbuf().len_bytes());
        }
        (packets, bytes)
    }

    /// Clears the last word and the flag.
    #[inline]
    fn wipe(&self, mbuf: &mut impl Stampable) {
        let mbuf = mbuf.mbuf().as_ptr();
        // SAFETY: as in get, and borrowed mutably.
        unsafe {
            self.last_word(mbuf).write(0);
            (*mbuf).ol_flags &= !self.flag;
        }
    }

    /// Address of a packet's last word.
    #[inline]
    fn last_word(&self, mbuf: *mut rte_mbuf) -> *mut u64 {
        mbuf.wrapping_byte_add(self.offset + 16).cast()
    }

    /// Removes the stamp.
    #[inline]
    pub fn clear(&self, mbuf: &mut impl Stampable) {
        // SAFETY: as in get, and borrowed mutably.
        unsafe { (*mbuf.mbuf().as_ptr()).ol_flags &= !self.flag }
    }
}
