//! One segment, from epoch to epoch.

use measure::histogram::Histogram;
use measure::moments::Moments;
use measure::rli::Method;
use measure::shard::{SegmentSynopsis, Tally};
use measure::synopsis::{ShapeMismatch, Synopsis};
use measure::time::{Epoch, TickRate};

use super::minute::Minute;
use crate::estimate;
use contract::config::{self, Config};
use records::history::{History, Sample};
use records::snapshot::{EpochFigures, Segment, SegmentName, Totals, UnusableEpochs};
use std::sync::Arc;

/// The names of a segment's ports and class.
pub(super) fn name(config: &Config, segment: &config::Segment) -> SegmentName {
    SegmentName {
        ingress: config.segment_from(segment),
        egress: config.segment_to(segment),
        class: config.class_name(segment.class).to_owned(),
    }
}

/// A segment.
#[derive(Debug)]
pub(super) struct SegmentState {
    pub name: Arc<SegmentName>,
    pub unusable: UnusableEpochs,
    last: Option<EpochFigures>,
    tally: Tally,
    moments: Moments,
    histogram: Histogram,
    estimated_epochs: u64,
    within_bound_epochs: u64,
    history: History,
    minute: Minute,
}

impl SegmentState {
    pub fn new(name: Arc<SegmentName>, rate: TickRate) -> Self {
        Self {
            name,
            unusable: UnusableEpochs::default(),
            last: None,
            tally: Tally::default(),
            moments: Moments::default(),
            histogram: Histogram::new(rate),
            estimated_epochs: 0,
            within_bound_epochs: 0,
            history: History::default(),
            minute: Minute::new(),
        }
    }

    /// Adds an epoch that every worker measured. Counts of a disturbed epoch are exact, and add to the
    /// totals; its estimates are dropped.
    pub fn add(
        &mut self,
        epoch: Epoch,
        synopsis: &SegmentSynopsis,
        is_disturbed: bool,
        method: Option<Method>,
        rate: TickRate,
        interval_ms: u32,
    ) -> Result<(), ShapeMismatch> {
        self.tally.merge(&synopsis.tally)?;
        self.moments.merge(&synopsis.moments)?;
        self.histogram.merge(&synopsis.histogram)?;
        if is_disturbed {
            self.unusable.link += 1;
            return Ok(());
        }
        let Some(figures) = estimate::figures(epoch, synopsis, method, rate) else {
            return Ok(());
        };
        match &figures.lda {
            Some(lda) => {
                self.estimated_epochs += 1;
                self.within_bound_epochs += u64::from(lda.is_within_bound);
            }
            None => self.unusable.too_few_cells += u64::from(synopsis.lda.is_some()),
        }
        self.history
            .add(epoch.0, interval_ms, &sample(synopsis, &figures, rate));
        self.minute
            .add(epoch, interval_ms, &synopsis.moments, &synopsis.histogram)?;
        self.last = Some(figures);
        Ok(())
    }

    /// What is published; `present` is the epoch that is open.
    pub fn segment(&self, present: Epoch, interval_ms: u32, rate: TickRate) -> Segment {
        let seconds_per_tick = 1.0 / rate.hz() as f64;
        Segment {
            ingress: self.name.ingress.clone(),
            egress: self.name.egress.clone(),
            class: self.name.class.clone(),
            is_around: false,
            last: self.last.clone(),
            last_minute: self.minute.figures(present, interval_ms, rate),
            minute_parts: self.minute.parts(present, interval_ms),
            history: self.history.clone(),
            total: Totals {
                counts: estimate::counts(&self.tally),
                delay_sum_s: self.moments.sum_ticks() as f64 * seconds_per_tick,
                delay_squared_sum_s2: self.moments.sum_of_squares_ticks2() as f64
                    * seconds_per_tick.powi(2),
                buckets: estimate::buckets(&self.histogram),
                unusable_epochs: self.unusable,
                estimated_epochs: self.estimated_epochs,
                within_bound_epochs: self.within_bound_epochs,
            },
        }
    }
}

fn sample(synopsis: &SegmentSynopsis, figures: &EpochFigures, rate: TickRate) -> Sample {
    let moments = &synopsis.moments;
    let stamped = figures.stamped.unwrap_or_default();
    Sample {
        packets: moments.count(),
        lost_packets: figures.counts.dropped_packets,
        sum_ns: rate.to_ns(moments.sum_ticks() as f64),
        squares_ns2: moments.sum_of_squares_ticks2() as f64 * rate.to_ns(1.0).powi(2),
        max_ns: stamped.max_ns,
        p99_ns: stamped.p99_ns,
        estimate_ns: figures.lda.map(|lda| (lda.mean_ns, lda.bound_ns)),
    }
}
