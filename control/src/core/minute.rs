//! Delays of the last minute, in bounded memory: exact sums of five seconds each.

use std::collections::VecDeque;
use std::sync::Arc;

use contract::limits::LAST_MINUTE_BYTES;
use measure::histogram::{Histogram, Trimmed};
use measure::moments::Moments;
use measure::synopsis::Synopsis;
use measure::time::{Epoch, TickRate};
use records::snapshot::{Delays, MinutePart};

use crate::estimate;

/// Length of a part. Epochs are at most a minute long.
const PART_MS: u64 = MinutePart::SECONDS as u64 * 1_000;

/// Parts of a minute, with the open one.
const PARTS: usize = 12;

/// Most bytes of one minute.
const BYTES_MAX: usize =
    size_of::<Minute>() + PARTS * (size_of::<Part>() + COUNTS_BYTES + Trimmed::BYTES_MAX);

/// The two counts of an `Arc`.
const COUNTS_BYTES: usize = 2 * size_of::<usize>();

// The memory budget counts exactly this.
const _: () = assert!(BYTES_MAX == LAST_MINUTE_BYTES);

/// The epochs that ended in the last minute.
#[derive(Debug)]
pub(super) struct Minute {
    /// The oldest first. There may be some that are older than a minute.
    parts: VecDeque<Part>,
}

/// The epochs that ended in some five seconds.
#[derive(Debug)]
struct Part {
    /// Which five seconds, counted from the first epoch.
    index: u64,
    moments: Moments,
    /// Shared with what is published, once the part has ended.
    histogram: Arc<Trimmed>,
}

/// The five seconds in which an epoch begins.
fn part_of(Epoch(epoch): Epoch, interval_ms: u32) -> u64 {
    epoch.saturating_mul(interval_ms.into()) / PART_MS
}

/// Whether the minute that part `index` is the end of goes without this part.
fn is_over(part: &Part, index: u64) -> bool {
    part.index + PARTS as u64 <= index
}

impl Minute {
    pub fn new() -> Self {
        Self {
            parts: VecDeque::with_capacity(PARTS),
        }
    }

    /// Adds an epoch. Epochs come in order; an earlier one counts with the part that is open.
    pub fn add(
        &mut self,
        epoch: Epoch,
        interval_ms: u32,
        moments: &Moments,
        histogram: &Histogram,
    ) -> Result<(), measure::synopsis::ShapeMismatch> {
        if moments.count() == 0 {
            return Ok(());
        }
        let index = part_of(Epoch(epoch.0 + 1), interval_ms);
        self.parts.retain(|part| !is_over(part, index));
        if self.parts.back().is_none_or(|open| open.index < index) {
            self.parts.push_back(Part {
                index,
                moments: Moments::default(),
                histogram: Arc::default(),
            });
        }
        let Some(open) = self.parts.back_mut() else {
            return Ok(());
        };
        Arc::make_mut(&mut open.histogram).add(histogram);
        open.moments.merge(moments)
    }

    /// The parts of that minute that have ended.
    pub fn parts(&self, present: Epoch, interval_ms: u32) -> Vec<MinutePart> {
        let index = part_of(present, interval_ms);
        let parts = self.parts.iter();
        let ended = parts.filter(|part| !is_over(part, index) && part.index < index);
        let part = |part: &Part| MinutePart {
            index: part.index,
            histogram: Arc::clone(&part.histogram),
        };
        ended.map(part).collect()
    }

    /// The minute that ends with epoch `present`, which is open; `None` without packets.
    pub fn figures(&self, present: Epoch, interval_ms: u32, rate: TickRate) -> Option<Delays> {
        let index = part_of(present, interval_ms);
        let parts = self.parts.iter().filter(|part| !is_over(part, index));
        let mut parts = parts.peekable();
        parts.peek()?;
        let (mut moments, mut histogram) = (Moments::default(), Histogram::new(rate));
        for part in parts {
            moments.merge(&part.moments).ok()?;
            histogram.add_trimmed(&part.histogram);
        }
        let stamped = estimate::stamped(&moments, &histogram, rate)?;
        Some(Delays {
            packets: moments.count(),
            stamped,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::tests::{observations, rate};
    use measure::observation::End;
    use proptest::prelude::*;

    /// An epoch with one packet of each delay, in ticks.
    fn epoch_of(delays: &[u64]) -> (Moments, Histogram) {
        let (mut moments, mut histogram) = (Moments::default(), Histogram::new(rate()));
        for &delay in delays {
            let (_, received) = observations(0, 1, delay);
            moments.record(End::Receiver, &[received]);
            histogram.record(End::Receiver, &[received]);
        }
        (moments, histogram)
    }

    fn add(minute: &mut Minute, epoch: u64, interval_ms: u32, delays: &[u64]) {
        let (moments, histogram) = epoch_of(delays);
        let added = minute.add(Epoch(epoch), interval_ms, &moments, &histogram);
        added.unwrap();
    }

    #[test]
    fn what_is_longer_ago_than_a_minute_is_forgotten() {
        let mut minute = Minute::new();
        add(&mut minute, 0, 250, &[2_000_000]);
        for epoch in 1..4 * 59 {
            add(&mut minute, epoch, 250, &[2_000]);
        }
        let figures = |minute: &Minute, present| minute.figures(Epoch(present), 250, rate());
        let last = figures(&minute, 4 * 59).unwrap();
        assert_eq!(last.packets, 4 * 59);
        assert!((last.stamped.max_ns - 1e6).abs() < 1e-9, "{last:?}");
        assert!((last.stamped.p50_ns - 1e3).abs() < 63.0, "{last:?}");
        let later = figures(&minute, 4 * 60).unwrap();
        assert!((later.stamped.max_ns - 1e3).abs() < 1e-9, "{later:?}");
        let parts = |present| minute.parts(Epoch(present), 250);
        let counted = parts(4 * 59);
        let packets = counted.iter().flat_map(|part| part.histogram.buckets());
        // All but those of the part that is open: epochs that ended from second 55 on.
        assert_eq!(packets.map(|(_, packets)| packets).sum::<u64>(), 4 * 55 - 1);
        assert_eq!(
            counted.iter().map(|part| part.index).collect::<Vec<_>>(),
            (0..11).collect::<Vec<_>>()
        );
        assert!(parts(4 * 120).is_empty());
        assert_eq!(figures(&minute, 4 * 120), None, "silence");
        add(&mut minute, 4 * 500, 250, &[8]);
        assert_eq!(figures(&minute, 4 * 500 + 1).unwrap().packets, 1);
        assert_eq!(minute.parts.len(), 1);
    }

    #[test]
    fn an_epoch_of_a_minute_is_shown_until_the_next_has_ended() {
        let mut minute = Minute::new();
        add(&mut minute, 7, 60_000, &[10, 20]);
        let packets = |minute: &Minute, present| {
            let figures = minute.figures(Epoch(present), 60_000, rate());
            figures.map(|last| last.packets)
        };
        assert_eq!(packets(&minute, 8), Some(2));
        assert_eq!(packets(&minute, 9), None);
        add(&mut minute, 8, 60_000, &[30]);
        assert_eq!(packets(&minute, 9), Some(1));
    }

    proptest! {
        #[test]
        fn the_minute_is_the_sum_of_its_epochs(
            epochs in proptest::collection::vec(proptest::collection::vec(1_u64..1 << 40, 0..5), 1..55)
        ) {
            let mut minute = Minute::new();
            let mut all = Vec::new();
            for (epoch, delays) in (0..).zip(&epochs) {
                add(&mut minute, epoch, 1_000, delays);
                all.extend_from_slice(delays);
            }
            let (moments, histogram) = epoch_of(&all);
            let expected = estimate::stamped(&moments, &histogram, rate());
            let figures = minute.figures(Epoch(epochs.len() as u64), 1_000, rate());
            prop_assert_eq!(figures.map(|last| last.stamped), expected);
            prop_assert!(minute.parts.len() <= PARTS && minute.parts.capacity() <= PARTS);
        }
    }
}
