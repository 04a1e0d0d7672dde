//! The measurement points of one worker: they turn packets into sights, sights into open shards,
//! and hand each shard over when its epoch is sealed.
//!
//! Epochs turn by the clock, not by traffic. Two are open at any time: the present one, and the
//! one before it until its grace ends. If the control core has not given a shard back in time, the
//! coming epoch goes unmeasured (and is counted as missed): a worker never waits.

use control::handover::WorkerEnd;
use measure::packet::{Hasher, Kind};
use measure::shard::{Shard, Tally};
use measure::sight::{End, SegmentIndex, Sight};
use measure::synopsis::Synopsis;
use measure::time::{Epoch, EpochSchedule, EpochTag};

use crate::packet_io::{BURST, PortIndex, Stamp};

/// Sights of one burst.
pub type Sights = arrayvec::ArrayVec<Sight, BURST>;

/// A stamp carries the low 48 bits of the counter.
const STAMP_TICKS_MASK: u64 = (1 << 48) - 1;

/// Where no segment leads; shards ignore sights of it.
const NO_SEGMENT: SegmentIndex = SegmentIndex(u16::MAX);

/// Which segment leads from one port to another.
#[derive(Debug, Clone)]
pub struct SegmentMap {
    ports: usize,
    segments: Vec<SegmentIndex>,
}

impl SegmentMap {
    /// A map over `ports` ports in which the n-th pair (ingress, egress) is segment n.
    pub fn new(ports: usize, pairs: impl IntoIterator<Item = (PortIndex, PortIndex)>) -> Self {
        let mut segments = vec![NO_SEGMENT; ports * ports];
        for (n, (ingress, egress)) in (0u16..).zip(pairs) {
            segments[usize::from(ingress.0) * ports + usize::from(egress.0)] = SegmentIndex(n);
        }
        Self { ports, segments }
    }

    #[inline]
    fn get(&self, ingress: PortIndex, egress: PortIndex) -> SegmentIndex {
        let index = usize::from(ingress.0) * self.ports + usize::from(egress.0);
        self.segments.get(index).copied().unwrap_or(NO_SEGMENT)
    }
}

/// An epoch that still takes sights; without a shard it is unmeasured.
#[derive(Debug)]
struct Open {
    epoch: Epoch,
    tag: EpochTag,
    start: u64,
    shard: Option<Box<Shard>>,
}

/// The measurement points of one worker.
#[derive(Debug)]
pub struct Meter {
    worker: u8,
    hasher: Hasher,
    segments: SegmentMap,
    schedule: EpochSchedule,
    handover: WorkerEnd,
    current: Open,
    previous: Option<Open>,
    /// When something is to be done next: a seal or a turn.
    next_event: u64,
}

impl Meter {
    /// Points of worker `worker`, beginning in the epoch that `schedule` has at `now`.
    pub fn new(
        worker: u8,
        hasher: Hasher,
        segments: SegmentMap,
        schedule: EpochSchedule,
        mut handover: WorkerEnd,
        now: u64,
    ) -> Self {
        let current = Self::open(&schedule, &mut handover, schedule.epoch_at(now));
        let next_event = schedule.start_of(current.epoch.next());
        Self {
            worker,
            hasher,
            segments,
            schedule,
            handover,
            current,
            previous: None,
            next_event,
        }
    }

    fn open(schedule: &EpochSchedule, handover: &mut WorkerEnd, epoch: Epoch) -> Open {
        Open {
            epoch,
            tag: epoch.tag(),
            start: schedule.start_of(epoch),
            shard: handover.take_empty(),
        }
    }

    /// Parses and hashes the frame that begins with `head` and stamps it as first seen at `now`.
    #[inline]
    pub fn stamp(&self, head: &[u8], len_bytes: u32, now: u64) -> (Stamp, Kind) {
        let parsed = self.hasher.parse(head, len_bytes);
        let stamp = Stamp {
            flow: parsed.flow,
            packet: parsed.packet,
            ticks: now,
            epoch: self.current.tag,
            worker: self.worker,
        };
        (stamp, parsed.kind)
    }

    /// The sight, at `now`, of a stamped packet on its way from `ingress` to `egress`.
    #[inline]
    pub fn sight(
        &self,
        stamp: &Stamp,
        ingress: PortIndex,
        egress: PortIndex,
        bytes: u32,
        now: u64,
    ) -> Sight {
        let start = if stamp.epoch == self.current.tag {
            self.current.start
        } else {
            self.previous_start()
        };
        Sight {
            flow: stamp.flow,
            packet: stamp.packet,
            time: now.wrapping_sub(start),
            delay: now.wrapping_sub(stamp.ticks) & STAMP_TICKS_MASK,
            bytes,
            segment: self.segments.get(ingress, egress),
            epoch: stamp.epoch,
        }
    }

    #[cold]
    fn previous_start(&self) -> u64 {
        self.previous
            .as_ref()
            .map_or(self.current.start, |previous| previous.start)
    }

    /// Records the sights of one burst at one end of their segments, each in its own epoch. What
    /// belongs to a sealed epoch is counted as late.
    #[inline]
    pub fn record(&mut self, end: End, sights: &[Sight]) {
        let is_alike =
            |a: &Sight, b: &Sight| (a.delay, a.segment, a.epoch) == (b.delay, b.segment, b.epoch);
        for run in sights.chunk_by(is_alike) {
            self.record_alike(end, run);
        }
    }

    /// The same for sights that are all of one segment, one epoch and one delay.
    #[inline]
    pub fn record_alike(&mut self, end: End, sights: &[Sight]) {
        let Some(&Sight { segment, epoch, .. }) = sights.first() else {
            return;
        };
        let Some(open) = self.open_with(epoch) else {
            return self.record_late(sights);
        };
        let shard = open.shard.as_mut();
        if let Some(segment) = shard.and_then(|shard| shard.segment_mut(segment)) {
            segment.record_alike(end, sights);
        }
    }

    #[inline]
    fn open_with(&mut self, tag: EpochTag) -> Option<&mut Open> {
        if self.current.tag == tag {
            return Some(&mut self.current);
        }
        self.previous
            .as_mut()
            .filter(|previous| previous.tag == tag)
    }

    #[cold]
    fn record_late(&mut self, sights: &[Sight]) {
        for sight in sights {
            if let Some(tally) = self.tally(self.current.tag, sight.segment) {
                tally.late += 1;
            }
        }
    }

    /// Counts a stamped packet that was dropped on its way from `ingress` to `egress`.
    #[cold]
    pub fn dropped(&mut self, stamp: &Stamp, ingress: PortIndex, egress: PortIndex) {
        let segment = self.segments.get(ingress, egress);
        // A drop after the seal is still a loss: the present epoch's.
        let present = self.current.tag;
        let tag = self.open_with(stamp.epoch).map_or(present, |open| open.tag);
        if let Some(tally) = self.tally(tag, segment) {
            tally.dropped += 1;
        }
    }

    fn tally(&mut self, tag: EpochTag, segment: SegmentIndex) -> Option<&mut Tally> {
        let shard = self.open_with(tag)?.shard.as_mut()?;
        shard.segment_mut(segment).map(|segment| &mut segment.tally)
    }

    /// Seals and turns epochs whose time has come at `now`. To be called once a pass.
    #[inline]
    pub fn tick(&mut self, now: u64) {
        if now >= self.next_event {
            self.turn(now);
        }
    }

    #[cold]
    fn turn(&mut self, now: u64) {
        let due = |open: &Open, schedule: &EpochSchedule| now >= schedule.sealed_from(open.epoch);
        if self
            .previous
            .as_ref()
            .is_some_and(|previous| due(previous, &self.schedule))
        {
            self.seal_previous();
        }
        let epoch = self.schedule.epoch_at(now);
        if epoch > self.current.epoch {
            // Only after a stall of most of an epoch is the previous one still there.
            self.seal_previous();
            let next = Self::open(&self.schedule, &mut self.handover, epoch);
            self.previous = Some(std::mem::replace(&mut self.current, next));
            if self
                .previous
                .as_ref()
                .is_some_and(|previous| due(previous, &self.schedule))
            {
                self.seal_previous();
            }
        }
        self.next_event = match &self.previous {
            Some(previous) => self.schedule.sealed_from(previous.epoch),
            None => self.schedule.start_of(self.current.epoch.next()),
        };
    }

    fn seal_previous(&mut self) {
        if let Some(Open {
            epoch,
            shard: Some(shard),
            ..
        }) = self.previous.take()
        {
            self.handover.give_sealed(shard.seal(epoch));
        }
    }

    /// Seals everything: the switch stops. The last epoch is handed over as far as it got.
    pub fn finish(mut self) {
        self.seal_previous();
        if let Some(shard) = self.current.shard.take() {
            self.handover.give_sealed(shard.seal(self.current.epoch));
        }
    }
}
