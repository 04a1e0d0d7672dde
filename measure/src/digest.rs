//! Packets inside another device: a packet that comes out is matched with its entry by its hash.
//!
//! Both ends of the segment are ports of one switch, so packets are matched individually, and their delays
//! are exact; no synopsis is needed. This is hash-based matching of packets (Duffield and Grossglauser,
//! "Trajectory Sampling", ToN 2001) with a sample of all packets, in memory of a fixed size.
//!
//! ```text
//!  bucket, 64 bytes   8 entries
//!  entry, 8 bytes     hash, 25 bits | class, 3 | port, 4 | time, 32        0: free
//! ```
//!
//! - The [hash](crate::packet::PacketHash) does not cover fields that routers rewrite: MAC addresses, VLAN,
//!   TTL, DSCP, checksums. A packet that a device rewrites further (NAT) is not recognised.
//! - Of identical packets, the one that entered first leaves first.
//! - A packet that did not enter is mistaken for one inside with probability 2^-25 for each entry of its
//!   bucket, under 1 in 4 million.
//! - All operations are lock-free, and any thread may call any of them. No entry is taken twice.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::packet::{PacketHash, ROW_MULTIPLIERS};
use crate::prefetch::prefetch;
use crate::time::Ticks;

/// Most ports around one device.
pub const DEVICE_PORTS_MAX: usize = 16;

/// Entries of a bucket, which is a cache line.
const BUCKET: usize = 8;

const TIME_BITS: u32 = 32;
const PORT_BITS: u32 = 4;
const CLASS_BITS: u32 = 3;
const HASH_BITS: u32 = 64 - CLASS_BITS - PORT_BITS - TIME_BITS;

/// Timeouts that an entry can stay before its time wraps.
const TIMEOUTS_PER_WRAP: u64 = 3;

/// Sweeps of the whole table in a timeout.
const SWEEPS_PER_TIMEOUT: u64 = 4;

/// Most buckets swept at a time, so that nobody waits for it.
const SWEPT_MAX: usize = 256;

/// How a packet entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entered {
    /// Time of entry.
    pub at: Ticks,
    /// The device's port by which it entered, 0 to [`DEVICE_PORTS_MAX`] - 1.
    pub port: u8,
    /// Its class at entry, 0 to 7.
    pub class: u8,
}

/// The packets inside a device.
#[derive(Debug)]
pub struct DigestTable {
    buckets: Box<[Bucket]>,
    /// Shift from a 64-bit product to a bucket index.
    bucket_shift: u32,
    /// Shift from ticks to units of an entry's time.
    time_shift: u32,
    timeout_ticks: u64,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Bucket([AtomicU64; BUCKET]);

impl DigestTable {
    /// Makes room for at least `packets` (rounded up to a power of two) for `timeout_ticks` each; allocates
    /// and touches all memory.
    pub fn new(packets: u32, timeout_ticks: u64) -> Self {
        let buckets = buckets(packets);
        let wrap_ticks = timeout_ticks.saturating_mul(TIMEOUTS_PER_WRAP).max(1);
        Self {
            bucket_shift: 64 - buckets.trailing_zeros(),
            buckets: std::iter::repeat_with(Bucket::default)
                .take(buckets)
                .collect(),
            time_shift: (wrap_ticks.ilog2() + 1).saturating_sub(TIME_BITS),
            timeout_ticks,
        }
    }

    /// Bytes of a table for `packets`.
    pub fn size_bytes(packets: u32) -> usize {
        buckets(packets) * size_of::<Bucket>()
    }

    /// Prefetches a packet's entry.
    #[inline]
    pub fn prefetch(&self, packet: PacketHash) {
        prefetch(&self.buckets, self.index(packet));
    }

    /// Adds a packet that enters. If its bucket is full, the oldest entry is evicted and returned: it can no
    /// longer be matched.
    #[inline]
    pub fn insert(&self, packet: PacketHash, entered: Entered) -> Option<Entered> {
        let entry = self.entry(packet, entered);
        let bucket = self.bucket(packet);
        let is_free = |slot: &&AtomicU64| slot.load(Relaxed) == 0;
        // Another thread may take a free slot first; then another may be free, or none.
        for slot in bucket.iter().filter(is_free) {
            if slot.compare_exchange(0, entry, Relaxed, Relaxed).is_ok() {
                return None;
            }
        }
        self.replace(bucket, entry, entered.at)
    }

    #[cold]
    fn replace(&self, bucket: &[AtomicU64; BUCKET], entry: u64, now: Ticks) -> Option<Entered> {
        let age = |slot: &&AtomicU64| self.age(slot.load(Relaxed), now);
        let oldest = bucket.iter().max_by_key(age)?;
        let old = oldest.swap(entry, Relaxed);
        (old != 0).then(|| self.entered(old, now))
    }

    /// Removes a packet that comes out; returns how it entered, if it did.
    #[inline]
    pub fn take(&self, packet: PacketHash, now: Ticks) -> Option<Entered> {
        let hash = hash_bits(packet);
        let bucket = self.bucket(packet);
        loop {
            let mut oldest: Option<(u64, &AtomicU64)> = None;
            for slot in bucket {
                let entry = slot.load(Relaxed);
                let is_older = |other: u64| self.age(entry, now) > self.age(other, now);
                if entry >> (64 - HASH_BITS) == hash
                    && oldest.is_none_or(|(other, _)| is_older(other))
                {
                    oldest = Some((entry, slot));
                }
            }
            let (entry, slot) = oldest?;
            // If another thread was first, there is one entry less, so the loop ends.
            if slot.compare_exchange(entry, 0, Relaxed, Relaxed).is_ok() {
                return Some(self.entered(entry, now));
            }
        }
    }

    /// Removes a packet that was inserted but did not enter after all; returns `false` if it is gone.
    pub fn withdraw(&self, packet: PacketHash, entered: Entered) -> bool {
        let entry = self.entry(packet, entered);
        let mut slots = self.bucket(packet).iter();
        slots.any(|slot| slot.compare_exchange(entry, 0, Relaxed, Relaxed).is_ok())
    }

    #[inline]
    fn index(&self, PacketHash(hash): PacketHash) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "a number of a bucket")]
        let index = (hash.wrapping_mul(ROW_MULTIPLIERS[0]) >> self.bucket_shift) as usize;
        index
    }

    #[inline]
    fn bucket(&self, packet: PacketHash) -> &[AtomicU64; BUCKET] {
        &self.buckets[self.index(packet)].0
    }

    #[inline]
    fn entry(&self, packet: PacketHash, entered: Entered) -> u64 {
        let port = u64::from(entered.port) & ((1 << PORT_BITS) - 1);
        let class = u64::from(entered.class) & ((1 << CLASS_BITS) - 1);
        let head = (hash_bits(packet) << CLASS_BITS | class) << PORT_BITS | port;
        head << TIME_BITS | u64::from(self.units(entered.at))
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
    fn units(&self, at: Ticks) -> u32 {
        (at.0 >> self.time_shift) as u32
    }

    /// Age in units; 0 for an entry just made by a core whose counter is ahead.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
    fn age(&self, entry: u64, now: Ticks) -> u32 {
        let age = self.units(now).wrapping_sub(entry as u32);
        if age > u32::MAX - (1 << 16) { 0 } else { age }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a few bits each")]
    fn entered(&self, entry: u64, now: Ticks) -> Entered {
        let age_ticks = u64::from(self.age(entry, now)) << self.time_shift;
        let port = (entry >> TIME_BITS) as u8 & ((1 << PORT_BITS) - 1);
        let class = (entry >> (TIME_BITS + PORT_BITS)) as u8 & ((1 << CLASS_BITS) - 1);
        Entered {
            at: now.minus(age_ticks),
            port,
            class,
        }
    }
}

/// Progress of the search for packets that do not come out. One for each table.
#[derive(Debug)]
pub struct Sweep {
    next: usize,
    /// When the next bucket is due.
    due: Ticks,
}

impl Sweep {
    /// Begins at `now`.
    pub fn new(now: Ticks) -> Self {
        Self { next: 0, due: now }
    }

    /// Passes entries that have timed out to `lost`, and removes them. Called often, it visits the whole table in a
    /// quarter of a timeout, so losses are known after 1 to 1.25 timeouts.
    #[inline]
    pub fn tick(&mut self, table: &DigestTable, now: Ticks, lost: &mut impl FnMut(Entered)) {
        if now.signed_since(self.due) >= 0 {
            self.sweep(table, now, lost);
        }
    }

    #[cold]
    fn sweep(&mut self, table: &DigestTable, now: Ticks, lost: &mut impl FnMut(Entered)) {
        let buckets = table.buckets.len();
        let part = SWEPT_MAX.min(buckets);
        let parts = (buckets / part) as u64;
        self.due = now.plus(table.timeout_ticks / SWEEPS_PER_TIMEOUT / parts);
        for bucket in &table.buckets[self.next..self.next + part] {
            for slot in &bucket.0 {
                let entry = slot.load(Relaxed);
                let age_ticks = u64::from(table.age(entry, now)) << table.time_shift;
                if entry != 0
                    && age_ticks >= table.timeout_ticks
                    && slot.compare_exchange(entry, 0, Relaxed, Relaxed).is_ok()
                {
                    lost(table.entered(entry, now));
                }
            }
        }
        self.next = (self.next + part) % buckets;
    }
}

fn buckets(packets: u32) -> usize {
    (packets as usize)
        .div_ceil(BUCKET)
        .next_power_of_two()
        .max(2)
}

/// Never 0, so that no entry is 0.
#[inline]
fn hash_bits(PacketHash(hash): PacketHash) -> u64 {
    (hash >> (64 - HASH_BITS)).max(1)
}

#[cfg(test)]
mod tests;
