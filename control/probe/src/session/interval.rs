//! What is counted of one interval while packets of it are under way.

use super::rejection::Rejection;
use super::window::Sent;
use super::{Arrived, Reply};
use crate::offset::Least;
use crate::result::{ClockQuality, Counts, Delays, Extensions, StampedBy};
use crate::socket::{SendError, Unreachable};

/// One-way delays of a packet, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample {
    forward_ns: i64,
    backward_ns: i64,
    stamps: StampedBy,
}

/// No delay is so long, and no two clocks are so far apart: two hundred years.
const DELAY_NS_MAX: i64 = 1 << 62;

impl Sample {
    /// `None` where the times make no sense: the clock here was set between, or those of the reflector are none.
    pub(super) fn of(reply: &Reply, sent: &Sent, arrived: &Arrived) -> Option<Self> {
        if sent.clock_steps != arrived.clock.steps {
            return None;
        }
        // Both by the interface's clock, or both by the system's.
        let hardware = sent.stamps.hardware.zip(arrived.stamps.hardware);
        let (left, came, stamps) = match hardware {
            Some((left, came)) => {
                let by = crate::arrival::Stamped::Hardware;
                (
                    left,
                    came,
                    StampedBy {
                        sent: by,
                        received: by,
                    },
                )
            }
            None => (
                sent.stamps.system,
                arrived.stamps.system,
                StampedBy {
                    sent: sent.stamps.by,
                    received: arrived.stamps.by,
                },
            ),
        };
        let format = reply.error.format;
        let received = format.decode(reply.received, came)?;
        let replied = format.decode(reply.timestamp, came)?;
        let (forward_ns, backward_ns) = (received.since(left), came.since(replied));
        let is_sane = |delay: i64| delay.abs() < DELAY_NS_MAX;
        (is_sane(forward_ns) && is_sane(backward_ns)).then_some(Self {
            forward_ns,
            backward_ns,
            stamps,
        })
    }

    /// The time under way, without that in the reflector; 0 where clocks are coarser than that.
    fn round_trip_ns(self) -> i64 {
        (self.forward_ns + self.backward_ns).max(0)
    }
}

/// The interval.
#[derive(Debug, Default)]
pub(super) struct Interval {
    pub(super) counts: Counts,
    /// Packets that are under way.
    pub(super) outstanding: u64,
    pub(super) reflector_clock: Option<ClockQuality>,
    pub(super) extensions: Option<Extensions>,
    pub(super) stamps: Option<StampedBy>,
    /// Why the last request that was not sent was not.
    pub(super) not_sent_for: Option<SendError>,
    /// Why a request was not delivered, as the last ICMP message has it.
    pub(super) unreachable: Option<Unreachable>,
    /// Why the last reply was rejected, and whether others were for other reasons.
    rejection: Option<(Rejection, bool)>,
    samples: Vec<(i64, i64)>,
}

impl Interval {
    /// Whether all packets are answered or timed out.
    pub(super) fn is_settled(&self) -> bool {
        self.outstanding == 0
    }

    /// Counts a reply that is not taken.
    pub(super) fn reject(&mut self, why: Rejection) {
        self.counts.rejected += 1;
        let differs = |(before, differed): (Rejection, bool)| differed || before != why;
        self.rejection = Some((why, self.rejection.is_some_and(differs)));
    }

    /// Why replies were rejected, in words.
    pub(super) fn rejected_for(&self) -> Option<String> {
        let (last, differs) = self.rejection?;
        let others = if differs {
            " (the last; others for other reasons)"
        } else {
            ""
        };
        Some(format!("{last}{others}"))
    }

    /// Takes the delays of a reply.
    pub(super) fn take(&mut self, sample: Option<Sample>) {
        let Some(sample) = sample else {
            self.counts.unusable += 1;
            return;
        };
        let worst = self.stamps.map_or(sample.stamps, |stamps| StampedBy {
            sent: stamps.sent.max(sample.stamps.sent),
            received: stamps.received.max(sample.stamps.received),
        });
        self.stamps = Some(worst);
        self.samples
            .push((sample.round_trip_ns(), sample.forward_ns));
    }

    fn backward_ns(sample: &(i64, i64)) -> i64 {
        sample.0 - sample.1
    }

    /// Round trip, forward and backward.
    pub(super) fn delays(&self) -> [Option<Delays>; 3] {
        let samples = self.samples.iter();
        [
            Delays::of(samples.clone().map(|sample| sample.0)),
            Delays::of(samples.clone().map(|sample| sample.1)),
            Delays::of(samples.map(Self::backward_ns)),
        ]
    }

    /// The least one-way delays.
    pub(super) fn least(&self) -> Option<Least> {
        let forward = self.samples.iter().map(|sample| sample.1).min();
        let backward = self.samples.iter().map(Self::backward_ns).min();
        let round_trip = self.samples.iter().map(|sample| sample.0).min();
        let last = self.samples.last()?;
        Some(Least {
            forward_ns: forward? as f64,
            backward_ns: backward? as f64,
            round_trip_ns: round_trip? as f64,
            last_offset_ns: (last.1 as f64 - Self::backward_ns(last) as f64) / 2.0,
        })
    }
}
