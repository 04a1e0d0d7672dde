//! Delays of each class over all its segments.

use std::sync::Arc;

use measure::histogram::Histogram;
use measure::moments::Moments;
use measure::shard::SegmentSynopsis;
use measure::synopsis::{ShapeMismatch, Synopsis};
use measure::time::{Epoch, TickRate};
use records::snapshot::{ClassDelays, Delays, SegmentName};

use super::minute::Minute;
use crate::estimate;

/// All classes that segments are measured in.
#[derive(Debug, Default)]
pub(super) struct Classes(Vec<ClassState>);

/// A class.
#[derive(Debug)]
struct ClassState {
    /// One of its segments, or one that was.
    name: Arc<SegmentName>,
    /// The epoch that is being summed.
    moments: Moments,
    histogram: Histogram,
    last: Option<(Epoch, Delays)>,
    minute: Minute,
}

impl Classes {
    /// Adds one segment's part of an epoch to its class.
    pub fn add(
        &mut self,
        name: &Arc<SegmentName>,
        synopsis: &SegmentSynopsis,
        rate: TickRate,
    ) -> Result<(), ShapeMismatch> {
        if synopsis.moments.count() == 0 {
            return Ok(());
        }
        let is_of_class = |class: &ClassState| class.name.class == name.class;
        let index = self.0.iter().position(is_of_class);
        let index = index.unwrap_or_else(|| {
            self.0.push(ClassState {
                name: Arc::clone(name),
                moments: Moments::default(),
                histogram: Histogram::new(rate),
                last: None,
                minute: Minute::new(),
            });
            self.0.len() - 1
        });
        let class = &mut self.0[index];
        class.moments.merge(&synopsis.moments)?;
        class.histogram.merge(&synopsis.histogram)
    }

    /// All segments of an epoch were added.
    pub fn close(
        &mut self,
        epoch: Epoch,
        interval_ms: u32,
        rate: TickRate,
    ) -> Result<(), ShapeMismatch> {
        for class in &mut self.0 {
            if let Some(stamped) = estimate::stamped(&class.moments, &class.histogram, rate) {
                let packets = class.moments.count();
                class.last = Some((epoch, Delays { packets, stamped }));
                let (moments, histogram) = (&class.moments, &class.histogram);
                class.minute.add(epoch, interval_ms, moments, histogram)?;
                class.moments.clear();
                class.histogram.clear();
            }
        }
        Ok(())
    }

    /// Forgets classes that are not among these.
    pub fn retain(&mut self, is_known: impl Fn(&str) -> bool) {
        self.0.retain(|class| is_known(&class.name.class));
    }

    /// Every class with packets; `present` is the epoch that is open.
    pub fn publish(&self, present: Epoch, interval_ms: u32, rate: TickRate) -> Vec<ClassDelays> {
        let with_packets = self.0.iter().filter_map(|class| {
            let (epoch, last) = class.last?;
            Some(ClassDelays {
                class: class.name.class.clone(),
                epoch: epoch.0,
                last,
                last_minute: class.minute.figures(present, interval_ms, rate),
            })
        });
        with_packets.collect()
    }
}
