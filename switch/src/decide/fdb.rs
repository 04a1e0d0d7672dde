//! The filtering database of one worker: which station was last seen behind which port.
//!
//! A set-associative table of fixed size: four stations to a bucket, one cache line a bucket, no
//! allocation after start, no tombstones. In a bucket full of live stations one of the port that has
//! most in the table makes room for one of a port that has fewer; else the bucket learns no more until
//! one ages. Frames to a station that found no room are flooded, and it is counted.
//!
//! It is a replica: it learns at once what it sees, and reports it; what other workers saw it hears from
//! the control core (`contract::fdb`).
//!
//! A port is flushed at once: its *era* moves on, and entries of an earlier era count for nothing.
//! They are cleared a few buckets a pass.

use std::time::Duration;

use contract::fdb::{Learned, Limits, REFRESHES_PER_AGE, ReplicaCounts, ReplicaEnd, StationKey};
use contract::ids::PortIndex;
use measure::time::{TickRate, Ticks};

/// Ages are kept in units of 2^28 ticks (about 0.1 s at 2.7 GHz): a refresh then rarely writes.
const AGE_SHIFT: u32 = 28;

/// Most ports.
const PORTS: usize = contract::config::PORTS_MAX;

/// Buckets that one pass clears of stations that were flushed.
const SWEPT_PER_TICK: usize = 16;

/// The table.
#[derive(Debug)]
pub struct Fdb {
    buckets: Box<[Bucket]>,
    /// A bucket's index is the upper bits of the key's product with an odd number.
    multiplier: u64,
    shift: u32,
    age_limit: i32,
    /// Units of age after which a station in use is reported again.
    refresh: u16,
    eras: [u8; PORTS],
    /// Buckets left to be cleared since the last flush.
    unswept: usize,
    flushes_unswept: u8,
    /// Stations by port that are not static: those that have aged count until they are swept.
    learnt: Limits,
    learnt_max: Limits,
    /// As of the last tick, and as buckets were last swept of what had aged.
    age: u32,
    swept: u32,
    counts: ReplicaCounts,
}

impl Fdb {
    /// A table with room for at least `stations` (rounded up to a power of two, eight at least),
    /// each forgotten after `ageing` (0.1 s resolution) without an observation. `seed` keys the bucket of a
    /// station, so that no sender can aim at one.
    pub fn new(stations: usize, ageing: Duration, rate: TickRate, seed: u64) -> Self {
        let buckets = Self::buckets(stations);
        let age_limit = i32::try_from(rate.ticks_in(ageing) >> AGE_SHIFT).unwrap_or(i32::MAX);
        Self {
            buckets: vec![Bucket::default(); buckets].into_boxed_slice(),
            multiplier: seed | 1,
            shift: u64::BITS - buckets.ilog2(),
            age_limit: age_limit.max(1),
            // Half of what 16 bits can tell apart, at most.
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

    /// With so many stations learnt behind each port at most.
    #[must_use]
    pub fn with_limits(self, learnt_max: Limits) -> Self {
        Self { learnt_max, ..self }
    }

    /// Half full at most: more than one in a hundred buckets would overflow long before it is full.
    fn buckets(stations: usize) -> usize {
        (2 * stations.max(1))
            .div_ceil(WAYS)
            .next_power_of_two()
            .max(2)
    }

    /// Bytes of a table for so many stations.
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

    /// An observation behind `port` at `now`.
    #[inline]
    pub fn fresh(&self, port: PortIndex, now: Ticks) -> Fresh {
        // Ages compare modulo 2^32 units, 13 years.
        let age = (now.0 >> AGE_SHIFT) & 0xffff_ffff;
        Fresh(age | u64::from(port.0 & 0x3f) << 32 | u64::from(self.era_of(port)) << 40)
    }

    #[inline]
    fn is_live(&self, mark: Mark, age: u32) -> bool {
        // Nothing of an earlier era is left once all buckets are swept.
        let is_current = || self.unswept == 0 || mark.era() == self.era_of(mark.port());
        // Below 0 where the counter went back by a tick at a unit's end.
        let unseen = age.wrapping_sub(mark.seen()).cast_signed();
        (is_current() && unseen <= self.age_limit) || mark.is_static()
    }

    /// Whether a station was seen so already: then nothing can be [learnt](Self::learn) of it.
    #[inline]
    pub fn is_seen(&self, station: StationKey, fresh: Fresh) -> bool {
        let mark = self.mark_of(station);
        mark.is_some_and(|mark| mark.is_seen(fresh))
    }

    /// Whether a frame to a station goes to the port of `there`, an observation of now.
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

    /// Remembers that a station was seen so, and reports it at `end` where that is due.
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

    /// A station is new, has moved, or is seen for the first time in this unit of age.
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
            // Not where it was, and may not be where it is: the master forgets it everywhere.
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

    /// A way of a bucket that no live station has, or that one of the port with most stations leaves for one of
    /// a port that then has no more; cleared.
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

    /// Which of these stations, all of them live, makes room.
    fn busiest(&mut self, marks: &[Mark; WAYS], newcomer: Fresh) -> Option<usize> {
        if self.unswept == 0 && self.age.wrapping_sub(self.swept) > u32::from(self.refresh) {
            // What has aged counts for its port until then.
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

    /// A station with this mark is not there any more. Those of an earlier era went from the count with it.
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

    /// Reports an observation; what to remember of it.
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

    /// The port behind which a station was last seen, unless that is too long ago.
    #[inline]
    pub fn look_up(&self, station: StationKey, fresh: Fresh) -> Option<PortIndex> {
        let mark = self.mark_of(station)?;
        self.is_live(mark, fresh.age()).then(|| mark.port())
    }

    /// Remembers what another worker saw, or the configuration says; nothing to report.
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

    /// Remembers that another worker saw a station behind `port` about `now`.
    pub fn insert_learnt(&mut self, station: StationKey, port: PortIndex, now: Ticks) {
        self.put(station, Mark::newly_reported(self.fresh(port, now)));
    }

    /// Remembers a station for good.
    pub fn insert_static(&mut self, station: StationKey, port: PortIndex) {
        self.put(station, Mark(self.fresh(port, Ticks(0)).0 | Mark::STATIC));
    }

    /// Forgets a station, unless it is static.
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

    /// Forgets all stations behind a port, static ones excepted.
    pub fn flush(&mut self, port: PortIndex) {
        let port = port.index() % PORTS;
        self.eras[port] = self.eras[port].wrapping_add(1);
        self.learnt[port] = 0;
        self.begin_sweep();
    }

    /// Forgets all stations, static ones excepted.
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
            // An era is about to come round: that takes 255 flushes within some milliseconds.
            self.sweep(self.unswept);
        }
    }

    /// Clears a few buckets of what was flushed, or has aged at `now`, if any are left. To be called
    /// once a pass.
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

    /// Takes over what `old` has learnt, which gets the new, empty table; false, and nothing done,
    /// where they differ in size or limits.
    pub fn adopt(&mut self, old: &mut Self) -> bool {
        if self.buckets.len() != old.buckets.len() || self.learnt_max != old.learnt_max {
            return false;
        }
        std::mem::swap(self, old);
        // Its ageing is the new one's.
        (self.age_limit, self.refresh) = (old.age_limit, old.refresh);
        true
    }

    /// Stations alive at `now`. Walks the whole table: not for the fast path.
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

    /// What it has counted.
    pub fn counts(&self) -> ReplicaCounts {
        self.counts
    }
}

// What the table remembers of a station: one word, four of them to a cache line with their keys.

/// Stations of a bucket.
const WAYS: usize = 4;

/// What is known of a station, in one word: bits 0 to 31 the age at which it was seen, 32 to 37 its
/// port, 40 to 47 the port's era, 48 to 63 the lower bits of the age at which it was reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Mark(pub u64);

impl Mark {
    /// It never ages and never moves.
    pub const STATIC: u64 = 1 << 38;
    /// A report of it found no room.
    pub const UNREPORTED: u64 = 1 << 39;
    /// What tells that it was seen in this unit of age behind this port of this era.
    pub const OBSERVATION: u64 = 0xffff_ffff | 0x3f << 32 | 0xff << 40;

    pub fn is_static(self) -> bool {
        self.0 & Self::STATIC != 0
    }

    #[inline]
    pub fn is_seen(self, fresh: Fresh) -> bool {
        self.0 & Self::OBSERVATION == fresh.0
    }

    /// Whether it was seen behind the port of an observation, in the same era.
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

    /// Seen like this, and reported at the same time.
    pub fn newly_reported(fresh: Fresh) -> Self {
        Self(fresh.0 | (fresh.0 & 0xffff) << 48)
    }

    /// Seen like this, and reported when `self` was.
    pub fn seen_again(self, fresh: Fresh) -> Self {
        Self(self.0 & !Self::OBSERVATION | fresh.0)
    }
}

/// An observation of a station: when, behind which port, in which era of it; bits as in a `Mark`.
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

/// The key of a free way: no station's, which has 60 bits.
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
    /// What is known of a station, if it is here.
    #[inline]
    pub fn mark_of(&self, station: StationKey) -> Option<Mark> {
        if self.keys[0] == station.0 {
            return Some(self.marks[0]);
        }
        self.marks.get(self.find(station)).copied()
    }

    /// The way of a station; [`WAYS`] if it is not here. Most that are in a table are first in their
    /// buckets; which way others are cannot be guessed: that takes no branch.
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
