//! What travels at the turn: counters by slot.

use super::{FlowSight, Slot};
use crate::codec::{Element, ParseError, Put, Reader, Shape, whole};
use crate::moments;
use crate::prefetch::prefetch;
use crate::sight::End;
use crate::synopsis::{ShapeMismatch, Synopsis};

/// Counters a burst asks the cache for at once: more would push each other out.
const BURST: usize = 32;

/// Exact figures of one flow's stamped delays: 32 bytes, so that two flows share a cache line.
///
/// Exact while delays stay under 2^48 ticks (as stamps do), packets under 2^32, the sum of delays
/// under 2^64 ticks (195 years at 3 GHz) and that of squares under 2^96; all wrap beyond.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C, align(32))]
pub struct FlowCounters {
    sum: u64,
    bytes: u64,
    squares_low: u64,
    squares_high: u32,
    packets: u32,
}

const _: () = assert!(size_of::<FlowCounters>() == 32, "two a cache line");

impl FlowCounters {
    /// Packets.
    pub fn packets(&self) -> u64 {
        self.packets.into()
    }

    /// Bytes of these.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Sum of delays in ticks.
    pub fn sum_ticks(&self) -> u64 {
        self.sum
    }

    /// Sum of squared delays in ticks squared.
    pub fn sum_of_squares_ticks2(&self) -> u128 {
        u128::from(self.squares_high) << 64 | u128::from(self.squares_low)
    }

    /// Mean delay; `None` without packets.
    pub fn mean_ticks(&self) -> Option<f64> {
        (self.packets > 0).then(|| self.sum as f64 / f64::from(self.packets))
    }

    /// Standard deviation of the delays seen (over n, not n - 1); `None` without packets.
    pub fn stddev_ticks(&self) -> Option<f64> {
        moments::stddev(
            self.packets(),
            self.sum.into(),
            self.sum_of_squares_ticks2(),
        )
    }

    #[inline]
    fn add(&mut self, sight: &FlowSight) {
        let delay = u128::from(sight.delay);
        self.add_squares(delay * delay);
        self.sum = self.sum.wrapping_add(sight.delay);
        self.packets = self.packets.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(sight.bytes.into());
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "modulo 2^96")]
    fn add_squares(&mut self, squares: u128) {
        let sum = self.sum_of_squares_ticks2().wrapping_add(squares);
        self.squares_low = sum as u64;
        self.squares_high = (sum >> 64) as u32;
    }

    fn merge(&mut self, other: &Self) {
        self.add_squares(other.sum_of_squares_ticks2());
        self.sum = self.sum.wrapping_add(other.sum);
        self.packets = self.packets.wrapping_add(other.packets);
        self.bytes = self.bytes.wrapping_add(other.bytes);
    }
}

/// One estimate of a packet's delay, by its flow's slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotEstimate {
    /// The flow's slot.
    pub slot: Slot,
    /// Estimated delay in ticks; signed, since the ends' clocks may differ.
    pub delay_ticks: i64,
}

/// Figures of one flow's estimated delays: c, m and v of Lee, Duffield and Kompella (SIGCOMM
/// 2010, equations 2 to 6). 32 bytes.
///
/// Exact while the sum stays within 2^63 ticks either way, and that of squares under 2^128.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C, align(32))]
pub struct FlowEstimates {
    sum_of_squares: u128,
    sum: i64,
    packets: u64,
}

impl FlowEstimates {
    /// Packets whose delay was estimated: c.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Sum of estimates in ticks: m.
    pub fn sum_ticks(&self) -> i64 {
        self.sum
    }

    /// Sum of squared estimates in ticks squared: v.
    pub fn sum_of_squares_ticks2(&self) -> u128 {
        self.sum_of_squares
    }

    /// Mean of the estimates, m / c; `None` without packets.
    pub fn mean_ticks(&self) -> Option<f64> {
        (self.packets > 0).then(|| self.sum as f64 / self.packets as f64)
    }

    /// Standard deviation of the estimates, the root of v / c - (m / c)^2 (equation 6 as printed
    /// divides by c^2); `None` without packets.
    pub fn stddev_ticks(&self) -> Option<f64> {
        moments::stddev(
            self.packets,
            self.sum.unsigned_abs().into(),
            self.sum_of_squares,
        )
    }

    #[inline]
    fn add(&mut self, delay_ticks: i64) {
        let magnitude = u128::from(delay_ticks.unsigned_abs());
        self.sum_of_squares = self.sum_of_squares.wrapping_add(magnitude * magnitude);
        self.sum = self.sum.wrapping_add(delay_ticks);
        self.packets = self.packets.wrapping_add(1);
    }

    fn merge(&mut self, other: &Self) {
        self.sum_of_squares = self.sum_of_squares.wrapping_add(other.sum_of_squares);
        self.sum = self.sum.wrapping_add(other.sum);
        self.packets = self.packets.wrapping_add(other.packets);
    }
}

/// Counters of all slots over one epoch, and of what has no slot.
///
/// Two add up where a slot stands for the same flow in both: those of one worker, or of workers
/// whose tables are kept alike.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowSlots {
    /// The last is [`Slot::OTHER`]'s.
    counters: Box<[FlowCounters]>,
    /// As many, or none where nothing is estimated.
    estimates: Box<[FlowEstimates]>,
}

/// The entry of a slot: the last for [`Slot::OTHER`] and for slots beyond the others.
#[inline]
fn place<T>(entries: &[T], Slot(slot): Slot) -> usize {
    (slot as usize).min(entries.len().saturating_sub(1))
}

impl FlowSlots {
    /// Empty counters for `slots` slots: 32 bytes a slot.
    pub fn new(slots: usize) -> Self {
        Self {
            counters: vec![FlowCounters::default(); slots.saturating_add(1)].into_boxed_slice(),
            estimates: Box::default(),
        }
    }

    /// Keeps sums of estimates as well: 32 bytes a slot more.
    #[must_use]
    pub fn with_estimates(mut self) -> Self {
        self.estimates = vec![FlowEstimates::default(); self.counters.len()].into_boxed_slice();
        self
    }

    /// Slots, without [`Slot::OTHER`].
    pub fn slots(&self) -> usize {
        self.counters.len() - 1
    }

    /// What was counted for a slot, or for [`Slot::OTHER`].
    pub fn counters(&self, slot: Slot) -> &FlowCounters {
        &self.counters[place(&self.counters, slot)]
    }

    /// What was estimated for a slot, or for [`Slot::OTHER`]; `None` where nothing is estimated.
    pub fn estimates(&self, slot: Slot) -> Option<&FlowEstimates> {
        self.estimates.get(place(&self.estimates, slot))
    }

    /// The slots in which packets were counted, without [`Slot::OTHER`].
    pub fn filled(&self) -> impl Iterator<Item = (Slot, &FlowCounters)> + '_ {
        (0..)
            .map(Slot)
            .zip(&self.counters[..self.slots()])
            .filter(|(_, counters)| counters.packets > 0)
    }

    /// Adds estimated delays; ignored where estimates are not kept. Never allocates, never fails.
    pub fn record_estimates(&mut self, estimates: &[SlotEstimate]) {
        for burst in estimates.chunks(BURST) {
            for estimate in burst {
                prefetch(&self.estimates, place(&self.estimates, estimate.slot));
            }
            for estimate in burst {
                let place = place(&self.estimates, estimate.slot);
                if let Some(sums) = self.estimates.get_mut(place) {
                    sums.add(estimate.delay_ticks);
                }
            }
        }
    }
}

impl Synopsis for FlowSlots {
    type Item = FlowSight;

    /// Adds stamped delays, from the receiver's end.
    #[inline]
    fn record(&mut self, end: End, sights: &[FlowSight]) {
        if end == End::Sender {
            return;
        }
        for burst in sights.chunks(BURST) {
            for sight in burst {
                prefetch(&self.counters, place(&self.counters, sight.slot));
            }
            for sight in burst {
                let place = place(&self.counters, sight.slot);
                if let Some(counters) = self.counters.get_mut(place) {
                    counters.add(sight);
                }
            }
        }
    }

    fn merge(&mut self, other: &Self) -> Result<(), ShapeMismatch> {
        let same = |what, left: usize, right: usize| {
            let (left, right) = (left as u64, right as u64);
            (left == right)
                .then_some(())
                .ok_or(ShapeMismatch { what, left, right })
        };
        same("number of flow slots", self.slots(), other.slots())?;
        same(
            "number of slots with estimates",
            self.estimates.len(),
            other.estimates.len(),
        )?;
        for (mine, theirs) in self.counters.iter_mut().zip(&other.counters) {
            mine.merge(theirs);
        }
        for (mine, theirs) in self.estimates.iter_mut().zip(&other.estimates) {
            mine.merge(theirs);
        }
        Ok(())
    }

    fn clear(&mut self) {
        self.counters.fill(FlowCounters::default());
        self.estimates.fill(FlowEstimates::default());
    }

    /// Counters, whether there are estimates (1 byte: 0 or 1), and estimates.
    fn encode(&self, out: &mut Vec<u8>) {
        let slots = u32::try_from(self.slots()).unwrap_or(u32::MAX - 1);
        let counters = Shape::FlowCounters { slots };
        let estimates = Shape::FlowEstimates { slots };
        let keeps_estimates = !self.estimates.is_empty();
        whole::encode(&counters, End::Receiver, self.counters.iter().copied(), out);
        out.put_number(u8::from(keeps_estimates));
        if keeps_estimates {
            whole::encode(
                &estimates,
                End::Receiver,
                self.estimates.iter().copied(),
                out,
            );
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let (slots, counters) = match whole::decode(reader, End::Receiver)? {
            (Shape::FlowCounters { slots }, counters) => (slots, counters),
            (other, _) => return Err(whole::unexpected(&other)),
        };
        let estimates = match reader.number("estimates kept")? {
            0_u8 => Vec::new(),
            1 => match whole::decode(reader, End::Receiver)? {
                (shape, estimates) if shape == (Shape::FlowEstimates { slots }) => estimates,
                (other, _) => return Err(whole::unexpected(&other)),
            },
            other => return Err(ParseError::value("estimates kept", other, "0 or 1")),
        };
        Ok(Self {
            counters: counters.into(),
            estimates: estimates.into(),
        })
    }
}

impl Element for FlowCounters {
    const BYTES: usize = 32;

    fn emit(&self, out: &mut impl Put) {
        out.put_number(self.packets);
        out.put_number(self.bytes);
        out.put_number(self.sum);
        out.put_number(self.squares_high);
        out.put_number(self.squares_low);
    }

    fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(Self {
            packets: reader.number("packets of a flow")?,
            bytes: reader.number("bytes of a flow")?,
            sum: reader.number("sum of delays")?,
            squares_high: reader.number("sum of squared delays")?,
            squares_low: reader.number("sum of squared delays")?,
        })
    }
}

impl Element for FlowEstimates {
    const BYTES: usize = 32;

    fn emit(&self, out: &mut impl Put) {
        out.put_number(self.packets);
        out.put_number(self.sum);
        out.put_number(self.sum_of_squares);
    }

    fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(Self {
            packets: reader.number("packets of a flow")?,
            sum: reader.number("sum of estimates")?,
            sum_of_squares: reader.number("sum of squared estimates")?,
        })
    }
}
