//! Pools of packet buffers.

use std::ffi::{CStr, CString, c_int};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use dpdk_sys::rte_mempool;

use crate::eal::Eal;
use crate::error::{DpdkLog, Errno, logged};
use crate::mbuf::{FRAME_BYTES_MAX, Mbuf};

/// Bytes that DPDK leaves free before the data of each mbuf (`RTE_PKTMBUF_HEADROOM`) for additional headers.
const HEADROOM_BYTES: u16 = 128;

/// Handlers that any thread, lcore or not, may call at any time; the first is DPDK's default.
const HANDLERS: &[&str] = &[
    "ring_mp_mc",
    "ring_mt_rts",
    "ring_mt_hts",
    "stack",
    "lf_stack",
];

/// Why a pool was not created.
#[derive(Debug, thiserror::Error)]
pub enum MempoolError {
    /// A pool with this name exists already.
    #[error("mempool name {name:?} is taken; give each pool its own")]
    Taken {
        /// The name.
        name: String,
    },
    /// Not enough memory.
    #[error(
        "no memory for mempool {name:?}: {mbufs} mbufs of {data_room_bytes} bytes need about \
         {needed_mib} MiB; raise memory_mib or use fewer mbufs"
    )]
    Memory {
        /// The pool.
        name: String,
        /// Mbufs asked for.
        mbufs: u32,
        /// Data room asked for.
        data_room_bytes: u16,
        /// Their sum.
        needed_mib: u64,
    },
    /// A handler that supports only one thread, or that is unknown.
    #[error(
        "mempool {name:?} would be kept by handler {handler:?}, which several threads may not share; leave \
         --mbuf-pool-ops-name out of the EAL arguments (eal_args), or name one of {HANDLERS:?}"
    )]
    Handler {
        /// The pool.
        name: String,
        /// The handler.
        handler: String,
    },
    /// Sizes or a name that DPDK does not accept.
    #[error(
        "cannot create mempool {name:?} of {mbufs} mbufs with caches of {cache} and \
         {data_room_bytes} bytes each: {errno}{log}; the name may have 1 to 20 characters and no \
         NUL, cache must be at most 512 and two thirds of mbufs, the data room 64 to 65,407 bytes"
    )]
    Invalid {
        /// The pool.
        name: String,
        /// Mbufs asked for.
        mbufs: u32,
        /// Cache asked for.
        cache: u32,
        /// Data room asked for.
        data_room_bytes: u16,
        /// DPDK's error.
        errno: Errno,
        /// DPDK's words.
        log: DpdkLog,
    },
}

/// A pool of mbufs (`rte_pktmbuf_pool_create`). Any thread may allocate and free; lcores have a cache of their own.
///
/// Dropping it frees its memory, unless an mbuf is missing (a forgotten port may still own it); then the memory is kept
/// until EAL ends.
///
/// It cannot be dropped before its packets:
///
/// ```compile_fail,E0505
/// # fn run(eal: &dpdk_bindings::Eal) -> Result<(), dpdk_bindings::MempoolError> {
/// let pool = eal.mempool("packets", 8191, 256, 2048)?;
/// let mbuf = pool.alloc_frame(&[], 60);
/// drop(pool);
/// drop(mbuf);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Mempool<'eal> {
    raw: NonNull<rte_mempool>,
    _eal: PhantomData<&'eal Eal>,
}

// SAFETY: a pool belongs to no thread; its handler is one of HANDLERS, which support any number of threads, and caches
// are per lcore (rte_mempool.h).
unsafe impl Send for Mempool<'_> {}
// SAFETY: as above; a shared reference only allows alloc, free and count.
unsafe impl Sync for Mempool<'_> {}

impl Eal {
    /// Creates a pool of `mbufs` buffers (2^n - 1 uses memory best), each with room for `data_room_bytes` of packet
    /// data (64 to 65,407) and 128 bytes of headroom before it. Each lcore caches up to `cache` of them (0 to 512).
    ///
    /// # Errors
    /// See [`MempoolError`].
    pub fn mempool(
        &self,
        name: &str,
        mbufs: u32,
        cache: u32,
        data_room_bytes: u16,
    ) -> Result<Mempool<'_>, MempoolError> {
        self.mempool_near(None, name, mbufs, cache, data_room_bytes)
    }

    /// Like [`mempool`](Self::mempool), in memory of NUMA socket `numa_socket`, or elsewhere if EAL does not have
    /// enough memory there.
    ///
    /// # Errors
    /// See [`MempoolError`].
    pub fn mempool_near(
        &self,
        numa_socket: Option<u16>,
        name: &str,
        mbufs: u32,
        cache: u32,
        data_room_bytes: u16,
    ) -> Result<Mempool<'_>, MempoolError> {
        let invalid = |(errno, log)| MempoolError::Invalid {
            name: name.to_owned(),
            mbufs,
            cache,
            data_room_bytes,
            errno,
            log,
        };
        let c_name = match CString::new(name) {
            Ok(c_name)
                if !name.is_empty()
                    && (64..=u16::MAX - HEADROOM_BYTES).contains(&data_room_bytes) =>
            {
                c_name
            }
            _ => return Err(invalid((Errno::EINVAL, DpdkLog::default()))),
        };
        let mut pool = ptr::null_mut();
        // SAFETY: EAL is initialised while self lives; the name is NUL-terminated and copied; the
        // room with its headroom fits 16 bits.
        let created = logged(|| unsafe {
            Errno::check(dpdk_sys::vernier_mempool_create(
                c_name.as_ptr(),
                mbufs,
                cache,
                data_room_bytes,
                numa_socket.map_or(-1, c_int::from),
                &raw mut pool,
            ))
        });
        match (created, NonNull::new(pool)) {
            (Ok(_), Some(raw)) => Mempool {
                raw,
                _eal: PhantomData,
            }
            .of_any_thread(name),
            (Err((Errno::EEXIST, _)), _) => Err(MempoolError::Taken {
                name: name.to_owned(),
            }),
            (Err((Errno::ENOMEM, _)), _) | (Ok(_), None) => Err(MempoolError::Memory {
                name: name.to_owned(),
                mbufs,
                data_room_bytes,
                // 128 bytes of mbuf, 128 of headroom, 64 of mempool header and alignment.
                needed_mib: (u64::from(mbufs) * (u64::from(data_room_bytes) + 320)) >> 20,
            }),
            (Err(error), _) => Err(invalid(error)),
        }
    }
}

impl Mempool<'_> {
    /// Number of free mbufs, including caches. Exact while no thread allocates or frees.
    pub fn available(&self) -> u32 {
        // SAFETY: the pool lives.
        unsafe { dpdk_sys::vernier_mempool_available(self.raw.as_ptr()) }
    }

    /// Mbufs in all.
    pub fn capacity(&self) -> u32 {
        // SAFETY: the pool lives.
        unsafe { dpdk_sys::vernier_mempool_capacity(self.raw.as_ptr()) }
    }

    /// Allocates a frame of `len_bytes` (or of `head`'s length, if that is greater) that begins with `head` and
    /// continues with zeros; a chain of segments if it exceeds one data room. It carries no stamp. `None` if there are
    /// not enough mbufs.
    #[inline]
    pub fn alloc_frame(&self, head: &[u8], len_bytes: u32) -> Option<Mbuf<'_>> {
        let head_len = u32::try_from(head.len()).ok()?;
        // SAFETY: the pool lives and head has head_len bytes, which are copied.
        unsafe {
            Mbuf::from_raw(dpdk_sys::vernier_frame_alloc(
                self.raw.as_ptr(),
                head.as_ptr(),
                head_len,
                len_bytes.max(head_len),
            ))
        }
    }

    /// Refuses handlers (`--mbuf-pool-ops-name`) that are not [`Sync`].
    fn of_any_thread(self, name: &str) -> Result<Self, MempoolError> {
        // SAFETY: the pool lives, and the name of its handler is NUL-terminated and static.
        let handler = unsafe { CStr::from_ptr(dpdk_sys::vernier_mempool_handler(self.as_ptr())) };
        let handler = handler.to_string_lossy();
        if HANDLERS.contains(&&*handler) {
            return Ok(self);
        }
        Err(MempoolError::Handler {
            name: name.to_owned(),
            handler: handler.into_owned(),
        })
    }

    pub(crate) fn as_ptr(&self) -> *mut rte_mempool {
        self.raw.as_ptr()
    }
}

impl Mbuf<'_> {
    /// Copies the packet into memory of its own, with ingress port and stamp (`rte_pktmbuf_copy`); `None` if the pool
    /// is empty, or the frame has no bytes or more than 65,535.
    #[inline]
    pub fn copy<'p>(&self, pool: &'p Mempool<'_>) -> Option<Mbuf<'p>> {
        // Since 23.11 DPDK copies a frame with no bytes.
        if !(1..=FRAME_BYTES_MAX).contains(&self.len_bytes()) {
            return None;
        }
        // SAFETY: mbuf and pool live; the copy comes from that pool and has no other owner.
        unsafe { Mbuf::from_raw(dpdk_sys::vernier_mbuf_copy(self.as_ptr(), pool.as_ptr())) }
    }
}

impl Drop for Mempool<'_> {
    fn drop(&mut self) {
        // SAFETY: all mbufs and ports that borrow the pool are gone; if a forgotten port still holds an mbuf, the shim
        // keeps the memory.
        unsafe { dpdk_sys::vernier_mempool_free(self.raw.as_ptr()) }
    }
}
