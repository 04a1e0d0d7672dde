//! The filtering database of one worker: the port at which each station was last seen.
//!
//! A set-associative table of fixed size: four stations in a bucket, one cache line for each bucket, no
//! allocation after start, no tombstones. In a bucket full of live stations, one of the port with the most
//! stations in the table is evicted for one of a port with fewer; otherwise the bucket learns no more until
//! one ages. Frames to a station without room are flooded, and it is counted.
//!
//! It is a replica: it learns at once from the frames that it sees, and reports them; from the control core
//! it receives what other workers saw (`contract::fdb`).
//!
//! Flushing a port takes effect at once: its *era* is incremented, and entries of an earlier era are
//! ignored. They are cleared a few buckets in each pass.

use std::time::Duration;

use contract::fdb::{Learned, Limits, REFRESHES_PER_AGE, ReplicaCounts, ReplicaEnd, StationKey};
use contract::ids::PortIndex;
use measure::time::{TickRate, Ticks};

/// Ages are in units of 2^28 ticks (about 0.1 s at 2.7 GHz), so that a refresh rarely writes.
const AGE_SHIFT: u32 = 28;

/// Most ports.
const PORTS: usize = contract::config::PORTS_MAX;

/// Buckets cleared of flushed stations in each pass.
const SWEPT_PER_TICK: usize = 16;

/// The table.
#[derive(Debug)]
pub struct Fdb {
    buckets: Box<[Bucket]>,
    /// A bucket's index is the upper bits of the key multiplied by an odd number.
    multiplier: u64,
    shift: u32,
    age_limit: i32,
    /// Units of age after which an active station is reported again.
    refresh: u16,
    eras: [u8; PORTS],
    /// Buckets still to be cleared since the last flush.
    unswept: usize,
    flushes_unswept: u8,
    /// Learnt stations by port; aged ones count until they are swept.
    learnt: Limits,
    learnt_max: Limits,
    /// Age as of the last tick, and as of the last sweep of aged stations.
    age: u32,
    swept: u32,
    counts: ReplicaCounts,
}

impl Fdb {
    /// A table with room for at least `stations` (rounded up to a power of two, at least eight), each
    /// forgotten after `ageing` (0.1 s resolution) without a frame. `seed` keys the buckets of stations, so
    /// that no sender can aim at one.
    pub fn new(stations: usize, ageing: Duration, rate: TickRate, seed: u64) -> Self {
        let buckets = Self::buckets(stations);
        let age_limit = i32::try_from(rate.ticks_in(ageing) >> AGE_SHIFT).unwrap_or(i32::MAX);
        Self {
            buckets: vec![Bucket::default(); buckets].into_boxed_slice(),
            multiplier: seed | 1,
            shift: u64::BITS - buckets.ilog2(),
            age_limit: age_limit.max(1),
            // At most half of what 16 bits can distinguish.
            refresh: u16::try_from(age_limit.cast_unsigned() / REFRESHES_PER_AGE)
                .unwrap_or(u16::MAX)
                .min(0x7fff),
            eras: [0; PORTS],
            unswept: 0,
            flushes_unswept: 0,
            learnt: [0; PORTS],
            learnt_max: [u32::MAX; PORTS],
            age: 0,
            swept: 0,
            counts: ReplicaCounts::default(),
        }
    }

    /// Limits the stations learnt at each port.
    #[must_use]
    pub fn with_limits(self, learnt_max: Limits) -> Self {
        Self { learnt_max, ..self }
    }

    /// At most half full; otherwise more than one in a hundred buckets would overflow long before it is
    /// full.
    fn buckets(stations: usize) -> usize {
        (2 * stations.max(1))
            .div_ceil(WAYS)
            .next_power_of_two()
            .max(2)
    }

    /// Bytes of a table for this many stations.
    pub fn size_bytes(stations: usize) -> usize {
        Self::buckets(stations) * size_of::<Bucket>()
    }

    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "shifted to the table's size"
    )]
    fn bucket_of(&self, station: StationKey) -> usize {
        (station.0.wrapping_mul(self.multiplier) >> self.shift) as usize
    }

    #[inline]
    fn era_of(&self, port: PortIndex) -> u8 {
        self.eras[port.index() % PORTS]
    }

    /// An observation at `port` at `now`.
    #[inline]
    pub fn fresh(&self, port: PortIndex, now: Ticks) -> Fresh {
        // Ages compare modulo 2^32 units, 13 years.
        let age = (now.0 >> AGE_SHIFT) & 0xffff_ffff;
        Fresh(age | u64::from(port.0 & 0x3f) << 32 | u64::from(self.era_of(port)) << 40)
    }

    #[inline]
    fn is_live(&self, mark: Mark, age: u32) -> bool {
        // Once all buckets are swept, no earlier era is left.
        let is_current = || self.unswept == 0 || mark.era() == self.era_of(mark.port());
        // Negative if the counter went back by a tick at a unit's end.
        let unseen = age.wrapping_sub(mark.seen()).cast_signed();
        (is_current() && unseen <= self.age_limit) || mark.is_static()
    }

    /// Whether a station is already stored with this observation: then nothing can be [learnt](Self::learn)
    /// from it.
    #[inline]
    pub fn is_seen(&self, station: StationKey, fresh: Fresh) -> bool {
        let mark = self.mark_of(station);
        mark.is_some_and(|mark| mark.is_seen(fresh))
    }

    /// Whether a frame to a station leaves by the port of `there`, a current observation.
    #[inline]
    pub fn is_behind(&self, station: StationKey, there: Fresh) -> bool {
        self.mark_of(station).is_some_and(|mark| {
            let unseen = there.age().wrapping_sub(mark.seen()).cast_signed();
            mark.is_of_port(there) && unseen <= self.age_limit
                || mark.is_static() && mark.port() == there.port()
        })
    }

    #[inline]
    fn mark_of(&self, station: StationKey) -> Option<Mark> {
        self.buckets.get(self.bucket_of(station))?.mark_of(station)
    }

    /// Stores an observation of a station, and reports it at `end` if due.
    #[inline]
    pub fn learn(&mut self, station: StationKey, fresh: Fresh, end: &mut Option<ReplicaEnd>) {
        let index = self.bucket_of(station);
        let Some(bucket) = self.buckets.get(index) else {
            return;
        };
        let way = bucket.find(station);
        let mark = bucket.marks.get(way);
        if mark.is_some_and(|mark| mark.is_seen(fresh)) {
            return;
        }
        self.learn_news(station, fresh, index, way, end);
    }

    /// Stores a station that is new, has moved, or is seen for the first time in this unit of age.
    #[cold]
    fn learn_news(
        &mut self,
        station: StationKey,
        fresh: Fresh,
        index: usize,
        way: usize,
        end: &mut Option<ReplicaEnd>,
    ) {
        let Some(&old) = self.buckets[index].marks.get(way) else {
            return self.insert(station, fresh, index, end);
        };
        let is_here = old.port() == fresh.port();
        if old.is_static() {
            if is_here {
                self.buckets[index].marks[way] = old.seen_again(fresh);
            }
            return;
        }
        let is_live = self.is_live(old, fresh.age());
        self.uncount(old);
        if self.is_full(fresh.port()) {
            // It is not at its old port, and must not be at the new one: the master forgets it everywhere.
            self.buckets[index].keys[way] = FREE;
            Self::report(station, fresh, end);
            return self.limited(end.as_ref());
        }
        self.count(fresh.port());
        #[expect(clippy::cast_possible_truncation, reason = "16 bits are compared")]
        let unreported = (fresh.age() as u16).wrapping_sub(old.reported());
        let is_due = !is_live || !is_here || old.is_unreported() || unreported >= self.refresh;
        self.buckets[index].marks[way] = if is_due {
            Self::report(station, fresh, end)
        } else {
            old.seen_again(fresh)
        };
    }

    fn insert(
        &mut self,
        station: StationKey,
        fresh: Fresh,
        index: usize,
        end: &mut Option<ReplicaEnd>,
    ) {
        if self.is_full(fresh.port()) {
            return self.limited(end.as_ref());
        }
        let Some(way) = self.free_way(index, fresh) else {
            return self.overflow(end.as_ref());
        };
        let mark = Self::report(station, fresh, end);
        self.enter(index, way, station, mark);
    }

    /// A free way of a bucket, or one of a station at the port with most stations, evicted for a port that then
    /// has no more; cleared.
    fn free_way(&mut self, index: usize, newcomer: Fresh) -> Option<usize> {
        let Bucket { keys, marks } = self.buckets[index];
        let mut ways = keys.iter().zip(&marks);
        let free =
            ways.position(|(&key, &mark)| key == FREE || !self.is_live(mark, newcomer.age()));
        let way = free.or_else(|| self.busiest(&marks, newcomer))?;
        if keys[way] != FREE {
            self.uncount(marks[way]);
            self.counts.evictions += u64::from(free.is_none());
        }
        Some(way)
    }

    /// The station to evict among these, all of them live.
    fn busiest(&mut self, marks: &[Mark; WAYS], newcomer: Fresh) -> Option<usize> {
        if self.unswept == 0 && self.age.wrapping_sub(self.swept) > u32::from(self.refresh) {
            // Aged stations count for their port until then.
            (self.unswept, self.swept) = (self.buckets.len(), self.age);
        }
        let of = |port: PortIndex| self.learnt[port.index() % PORTS];
        let unseen = |mark: &Mark| newcomer.age().wrapping_sub(mark.seen()).cast_signed();
        let learnt = (0..WAYS).filter(|&way| !marks[way].is_static());
        let busiest = learnt.max_by_key(|&way| (of(marks[way].port()), unseen(&marks[way])))?;
        (of(marks[busiest].port()) > of(newcomer.port()).saturating_add(1)).then_some(busiest)
    }

    fn enter(&mut self, index: usize, way: usize, station: StationKey, mark: Mark) {
        self.buckets[index].keys[way] = station.0;
        self.buckets[index].marks[way] = mark;
        if !mark.is_static() {
            self.count(mark.port());
        }
    }

    fn is_full(&self, port: PortIndex) -> bool {
        let port = port.index() % PORTS;
        self.learnt[port] >= self.learnt_max[port]
    }

    fn count(&mut self, port: PortIndex) {
        self.learnt[port.index() % PORTS] += 1;
    }

    /// Removes a station with this mark from the count. Those of an earlier era were removed before.
    fn uncount(&mut self, mark: Mark) {
        if !mark.is_static() && mark.era() == self.era_of(mark.port()) {
            let learnt = &mut self.learnt[usize::from(mark.port().0) % PORTS];
            *learnt = learnt.saturating_sub(1);
        }
    }

    fn overflow(&mut self, end: Option<&ReplicaEnd>) {
        self.counts.overflows += 1;
        self.show(end);
    }

    fn limited(&mut self, end: Option<&ReplicaEnd>) {
        self.counts.limited += 1;
        self.show(end);
    }

    fn show(&self, end: Option<&ReplicaEnd>) {
        if let Some(end) = end {
            end.show(self.counts);
        }
    }

    /// Reports an observation; returns the mark to store.
    fn report(station: StationKey, fresh: Fresh, end: &mut Option<ReplicaEnd>) -> Mark {
        let port = fresh.port();
        let is_reported = end
            .as_mut()
            .is_none_or(|end| end.report(Learned { station, port }));
        let reported = Mark::newly_reported(fresh);
        if is_reported {
            reported
        } else {
            Mark(reported.0 | Mark::UNREPORTED)
        }
    }

    /// The port at which a station was last seen, unless that is too long ago.
    #[inline]
    pub fn look_up(&self, station: StationKey, fresh: Fresh) -> Option<PortIndex> {
        let mark = self.mark_of(station)?;
        self.is_live(mark, fresh.age()).then(|| mark.port())
    }

    /// Stores a station seen by another worker, or configured, without a report.
    fn put(&mut self, station: StationKey, mark: Mark) {
        let index = self.bucket_of(station);
        let way = self.buckets[index].find(station);
        if let Some(&old) = self.buckets[index].marks.get(way) {
            if !old.is_static() {
                self.uncount(old);
                self.enter(index, way, station, mark);
            }
            return;
        }
        match self.free_way(index, Fresh(mark.0 & Mark::OBSERVATION)) {
            Some(way) => self.enter(index, way, station, mark),
            None => self.counts.overflows += 1,
        }
    }

    /// Stores a station that another worker saw at `port` about `now`.
    pub fn insert_learnt(&mut self, station: StationKey, port: PortIndex, now: Ticks) {
        self.put(station, Mark::newly_reported(self.fresh(port, now)));
    }

    /// Stores a station permanently.
    pub fn insert_static(&mut self, station: StationKey, port: PortIndex) {
        self.put(station, Mark(self.fresh(port, Ticks(0)).0 | Mark::STATIC));
    }

    /// Removes a station, unless it is static.
    pub fn forget(&mut self, station: StationKey) {
        let index = self.bucket_of(station);
        let way = self.buckets[index].find(station);
        if let Some(&mark) = self.buckets[index].marks.get(way)
            && !mark.is_static()
        {
            self.buckets[index].keys[way] = FREE;
            self.uncount(mark);
        }
    }

    /// Removes all stations at a port, except static ones.
    pub fn flush(&mut self, port: PortIndex) {
        let port = port.index() % PORTS;
        self.eras[port] = self.eras[port].wrapping_add(1);
        self.learnt[port] = 0;
        self.begin_sweep();
    }

    /// Removes all stations, except static ones.
    pub fn flush_all(&mut self) {
        for era in &mut self.eras {
            *era = era.wrapping_add(1);
        }
        self.learnt = [0; PORTS];
        self.begin_sweep();
    }

    fn begin_sweep(&mut self) {
        self.unswept = self.buckets.len();
        self.flushes_unswept += 1;
        if self.flushes_unswept == u8::MAX {
            // The era is about to wrap, which takes 255 flushes within some milliseconds.
            self.sweep(self.unswept);
        }
    }

    /// Clears a few buckets of flushed or aged stations, if any are left. Called once in each pass.
    #[inline]
    pub fn tick(&mut self, now: Ticks) {
        self.age = self.fresh(PortIndex(0), now).age();
        if self.unswept > 0 {
            self.sweep(SWEPT_PER_TICK);
        }
    }

    #[cold]
    fn sweep(&mut self, buckets: usize) {
        let until = self.unswept.saturating_sub(buckets);
        for index in until..self.unswept {
            for way in 0..WAYS {
                let mark = self.buckets[index].marks[way];
                if self.buckets[index].keys[way] != FREE && !self.is_live(mark, self.age) {
                    self.buckets[index].keys[way] = FREE;
                    self.uncount(mark);
                }
            }
        }
        self.unswept = until;
        if until == 0 {
            self.flushes_unswept = 0;
        }
    }

    /// Takes over the stations of `old`, which gets the new, empty table; returns false, and does nothing,
    /// if they differ in size or limits.
    pub fn adopt(&mut self, old: &mut Self) -> bool {
        if self.buckets.len() != old.buckets.len() || self.learnt_max != old.learnt_max {
            return false;
        }
        std::mem::swap(self, old);
        // The new ageing time applies.
        (self.age_limit, self.refresh) = (old.age_limit, old.refresh);
        true
    }

    /// Live stations at `now`. Walks the whole table, so not for the fast path.
    pub fn live_stations(&self, now: Ticks) -> usize {
        let age = self.fresh(PortIndex(0), now).age();
        let entries = self
            .buckets
            .iter()
            .flat_map(|bucket| bucket.keys.iter().zip(&bucket.marks));
        entries
            .filter(|&(&key, &mark)| key != FREE && self.is_live(mark, age))
            .count()
    }

    /// Its counters.
    pub fn counts(&self) -> ReplicaCounts {
        self.counts
    }
}

// The state of a station: one word, four of them on a cache line with their keys.

/// Stations of a bucket.
const WAYS: usize = 4;

/// The state of a station in one word: bits 0 to 31 the age at which it was seen, 32 to 37 its port, 40 to
/// 47 the port's era, 48 to 63 the lower bits of the age at which it was reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Mark(pub u64);

impl Mark {
    /// Whether it never ages and never moves.
    pub const STATIC: u64 = 1 << 38;
    /// Whether a report of it found no room.
    pub const UNREPORTED: u64 = 1 << 39;
    /// The bits that say it was seen in this unit of age at this port of this era.
    pub const OBSERVATION: u64 = 0xffff_ffff | 0x3f << 32 | 0xff << 40;

    pub fn is_static(self) -> bool {
        self.0 & Self::STATIC != 0
    }

    #[inline]
    pub fn is_seen(self, fresh: Fresh) -> bool {
        self.0 & Self::OBSERVATION == fresh.0
    }

    /// Whether it was seen at the port of an observation, in the same era.
    #[inline]
    pub fn is_of_port(self, Fresh(fresh): Fresh) -> bool {
        (self.0 ^ fresh) & (Self::OBSERVATION & !0xffff_ffff) == 0
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "32 bits are meant")]
    pub fn seen(self) -> u32 {
        self.0 as u32
    }

    #[inline]
    pub fn port(self) -> PortIndex {
        #[expect(clippy::cast_possible_truncation, reason = "6 bits")]
        PortIndex((self.0 >> 32) as u8 & 0x3f)
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "8 bits are meant")]
    pub fn era(self) -> u8 {
        (self.0 >> 40) as u8
    }

    pub fn reported(self) -> u16 {
        (self.0 >> 48) as u16
    }

    pub fn is_unreported(self) -> bool {
        self.0 & Self::UNREPORTED != 0
    }

    /// Seen and reported in this observation.
    pub fn newly_reported(fresh: Fresh) -> Self {
        Self(fresh.0 | (fresh.0 & 0xffff) << 48)
    }

    /// Seen in this observation, and reported when `self` was.
    pub fn seen_again(self, fresh: Fresh) -> Self {
        Self(self.0 & !Self::OBSERVATION | fresh.0)
    }
}

/// An observation of a station: time, port, and the port's era; bits as in a `Mark`.
#[derive(Debug, Clone, Copy)]
pub struct Fresh(u64);

impl Fresh {
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "32 bits are meant")]
    fn age(self) -> u32 {
        self.0 as u32
    }

    fn port(self) -> PortIndex {
        Mark(self.0).port()
    }
}

/// The key of a free way; stations have keys of 60 bits.
const FREE: u64 = u64::MAX;

/// Four stations.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Bucket {
    pub keys: [u64; WAYS],
    pub marks: [Mark; WAYS],
}

const _: () = assert!(size_of::<Bucket>() == 64, "one cache line a bucket");

impl Default for Bucket {
    fn default() -> Self {
        Self {
            keys: [FREE; WAYS],
            marks: [Mark::default(); WAYS],
        }
    }
}

impl Bucket {
    /// The state of a station, if it is here.
    #[inline]
    pub fn mark_of(&self, station: StationKey) -> Option<Mark> {
        if self.keys[0] == station.0 {
            return Some(self.marks[0]);
        }
        self.marks.get(self.find(station)).copied()
    }

    /// The way of a station; [`WAYS`] if it is not here. Most stations are first in their buckets; which
    /// way others have is unpredictable, so it takes no branch.
    #[inline]
    pub fn find(&self, station: StationKey) -> usize {
        if self.keys[0] == station.0 {
            return 0;
        }
        let mut found = WAYS;
        for (way, &key) in self.keys.iter().enumerate() {
            found = std::hint::select_unpredictable(key == station.0, way, found);
        }
        found
    }
}

#[cfg(test)]
mod tests;
