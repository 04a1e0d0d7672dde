//! Computes the published figures from one segment's synopses of a whole epoch.

use measure::cell::PassedCell;
use measure::chooser;
use measure::histogram::Histogram;
use measure::lda::LdaEstimate;
use measure::moments::Moments;
use measure::rli::{Method, SegmentDelay};
use measure::shard::{SegmentSynopsis, Shard, Tally};
use measure::time::{Epoch, TickRate};

use crate::decode;
use records::snapshot::{
    Counts, DelayBucket, EpochFigures, Estimate, ReferenceEstimate, Sketch, Stamped,
};

/// The figures of one segment and epoch, with references used by `method`; `None` if no packet passed.
pub(crate) fn figures(
    epoch: Epoch,
    synopsis: &SegmentSynopsis,
    method: Option<Method>,
    rate: TickRate,
) -> Option<EpochFigures> {
    let counts = counts(&synopsis.tally);
    let is_empty = counts.sent_packets == 0 && counts.received_packets == 0;
    let stamped = stamped(&synopsis.moments, &synopsis.histogram, rate);
    let mean_ns = stamped.map(|stamped| stamped.mean_ns);
    let lda = synopsis.lda.as_ref().and_then(|lda| {
        let lda = lda.estimate(counts.received_packets);
        estimate(&lda, mean_ns, rate)
    });
    (!is_empty).then_some(EpochFigures {
        epoch: epoch.0,
        counts,
        stamped,
        lda,
        references: method.and_then(|method| references(&synopsis.rli, method, mean_ns)),
    })
}

/// The mean delay by references; `None` without any.
fn references(
    delays: &SegmentDelay,
    method: Method,
    stamped_mean_ns: Option<f64>,
) -> Option<ReferenceEstimate> {
    let mean_ns = delays.mean_ns()?;
    Some(ReferenceEstimate {
        method: decode::published(chooser::Method::Rli(method))?,
        mean_ns,
        packets: delays.packets(),
        exact_packets: delays.exact_packets(),
        error_ratio: error_ratio(mean_ns, stamped_mean_ns),
    })
}

/// A mean's error relative to the stamped one; `None` if that is unknown or 0.
fn error_ratio(mean: f64, stamped_mean: Option<f64>) -> Option<f64> {
    let stamped_mean = stamped_mean.filter(|&stamped_mean| stamped_mean > 0.0)?;
    Some((mean - stamped_mean) / stamped_mean)
}

/// Least share of packets in usable cells for which their mean is the sketch's mean.
const SHARE_MIN: f64 = 0.99;

/// The figures of the sketch at this index, compared with stamps; `None` if there is no such sketch. The
/// name of its port is left empty.
pub(crate) fn sketch(epoch: Epoch, sum: &Shard, index: usize, rate: TickRate) -> Option<Sketch> {
    let sketch = sum.sketches().get(index)?;
    let layout = sketch.layout();
    let columns = layout.columns() as usize;
    let rows = || (0..layout.rows()).map(|row| layout.row_probability(row));
    let most = rows().fold(0.0, f64::max);
    let (mut filled, mut usable, mut delay_sum) = (0, 0, 0_i128);
    let (mut packets, mut packets_of_all) = (0_u64, 0_u64);
    for (cells, probability) in sketch.cells().chunks_exact(columns).zip(rows()) {
        let is_filled = |cell: &&PassedCell| cell.received > 0 || cell.lost > 0;
        for cell in cells.iter().filter(is_filled) {
            filled += 1;
            packets_of_all += if probability >= most {
                u64::from(cell.received)
            } else {
                0
            };
            let Some(sum) = cell.delay_sum() else {
                continue;
            };
            usable += 1;
            // Rows that sample less contain a subset of the same packets.
            if probability >= most {
                delay_sum += i128::from(sum);
                packets += u64::from(cell.received);
            }
        }
    }
    // Losses and long delays are correlated: cells without losses are not representative.
    let is_enough = packets > 0 && packets as f64 >= SHARE_MIN * packets_of_all as f64;
    let mean_ns = is_enough.then(|| rate.to_ns(delay_sum as f64 / packets as f64));
    let stamped_ns = stamped_by_weight(sum, index).map(|ticks| rate.to_ns(ticks));
    Some(Sketch {
        port: String::new(),
        epoch: epoch.0,
        cells: layout.cells() as u64,
        filled_cells: filled,
        usable_cells: usable,
        mean_ns,
        error_ratio: mean_ns.and_then(|mean_ns| error_ratio(mean_ns, stamped_ns)),
    })
}

/// The stamped mean in ticks of all packets in a sketch, by weight.
fn stamped_by_weight(sum: &Shard, sketch: usize) -> Option<f64> {
    let layout = sum.sketches().get(sketch)?.layout();
    let segments = sum.numbered_segments();
    let (mut ticks, mut packets) = (0.0, 0.0);
    for (index, segment) in segments.filter(|(index, _)| sum.sketch_of(*index) == Some(sketch)) {
        let weight = f64::from(layout.weight(index));
        ticks += weight * segment.moments.sum_ticks() as f64;
        packets += weight * segment.moments.count() as f64;
    }
    (packets > 0.0).then(|| ticks / packets)
}

/// Plain counts.
pub(crate) fn counts(tally: &Tally) -> Counts {
    Counts {
        sent_packets: tally.sent,
        sent_bytes: tally.sent_bytes,
        received_packets: tally.received,
        received_bytes: tally.received_bytes,
        dropped_packets: tally.dropped,
        late_packets: tally.late,
    }
}

/// The non-empty buckets.
pub(crate) fn buckets(histogram: &Histogram) -> Vec<DelayBucket> {
    let buckets = histogram.buckets();
    let bucket = |(le_ns, packets)| DelayBucket { le_ns, packets };
    buckets.map(bucket).collect()
}

/// The exact delays of some packets; `None` without any.
pub(crate) fn stamped(moments: &Moments, histogram: &Histogram, rate: TickRate) -> Option<Stamped> {
    let quantiles_ns = histogram.quantiles_ns([0.5, 0.9, 0.99, 0.999, 0.9999], moments)?;
    Some(Stamped {
        mean_ns: rate.to_ns(moments.mean_ticks()?),
        stddev_ns: rate.to_ns(moments.stddev_ticks()?),
        min_ns: rate.to_ns(moments.min_ticks()? as f64),
        max_ns: rate.to_ns(moments.max_ticks()? as f64),
        p50_ns: quantiles_ns[0],
        p90_ns: quantiles_ns[1],
        p99_ns: quantiles_ns[2],
        p999_ns: quantiles_ns[3],
        p9999_ns: quantiles_ns[4],
    })
}

/// The LDA's estimate with its bound; `None` if it has no mean, or no bound (fewer than two usable cells of
/// a sample).
///
/// The clock's resolution is the floor of the bound. A stamp is truncated to a whole tick at either end, so
/// a delay is off by less than one tick, and so is any mean of delays, sampled or not: if every packet was
/// sampled, the estimate is otherwise exact. The stamped mean comes from the same stamps and shares the
/// error.
fn estimate(lda: &LdaEstimate, stamped_mean_ns: Option<f64>, rate: TickRate) -> Option<Estimate> {
    let mean_ns = rate.to_ns(lda.mean_ticks?);
    let bound_ns = rate
        .to_ns(lda.ci98_half_width_ticks?)
        .max(rate.resolution_ns());
    let error_ns = mean_ns - stamped_mean_ns?;
    Some(Estimate {
        mean_ns,
        bound_ns,
        stddev_ns: lda.stddev_ticks.map(|ticks| rate.to_ns(ticks)),
        stddev_paper_ns: lda.stddev_paper_ticks.map(|ticks| rate.to_ns(ticks)),
        effective_samples: lda.effective_samples,
        usable_cells: lda.usable_cells as u64,
        cells: lda.cells as u64,
        lost_packets: lda.lost_estimate,
        error_ratio: error_ratio(mean_ns, stamped_mean_ns),
        is_within_bound: error_ns.abs() <= bound_ns,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use measure::lda::{Bank, LdaLayout};
    use measure::observation::{End, Observation, SegmentIndex};
    use measure::packet::{FlowHash, PacketHash};
    use measure::shard::SegmentLayout;
    use measure::time::EpochTag;

    /// A counter of 2 GHz: a tick is half a nanosecond.
    pub(crate) fn rate() -> TickRate {
        TickRate::from_hz(2_000_000_000)
    }

    pub(crate) fn layout(probability: f64) -> LdaLayout {
        LdaLayout::new(&[Bank {
            rows: 64,
            probability,
        }])
        .unwrap()
    }

    /// Packet `n` of a segment, seen at its sender's end and `delay` ticks later.
    pub(crate) fn observations(segment: u16, n: u64, delay: u64) -> (Observation, Observation) {
        // Weyl's sequence, mixed: any hash that spreads will do.
        let hash = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let sent = Observation {
            flow: FlowHash(n % 7),
            packet: PacketHash(hash ^ (hash >> 32)),
            time: 1_000 * n,
            delay: 0,
            bytes: 100,
            segment: SegmentIndex(segment),
            epoch: EpochTag(0),
        };
        (
            sent,
            Observation {
                time: sent.time + delay,
                delay,
                ..sent
            },
        )
    }

    fn synopsis(probability: f64, packets: u64, is_lost: impl Fn(u64) -> bool) -> SegmentSynopsis {
        let layout = SegmentLayout {
            lda: Some(layout(probability)),
        };
        let mut synopsis = SegmentSynopsis::new(&layout, rate());
        for n in 0..packets {
            let (sent, received) = observations(0, n, 200 + n % 100);
            synopsis.tally.record(End::Sender, &[sent]);
            let lda = synopsis.lda.as_mut().unwrap();
            lda.record(End::Sender, &[sent]);
            if is_lost(n) {
                synopsis.tally.dropped += 1;
            } else {
                synopsis.tally.record(End::Receiver, &[received]);
                lda.record(End::Receiver, &[received]);
                synopsis.moments.add_delays(received.delay, 1);
                synopsis.histogram.add_delays(received.delay, 1);
            }
        }
        synopsis
    }

    #[test]
    fn without_loss_or_sampling_the_estimate_is_exact_and_its_bound_one_tick() {
        let figures = figures(Epoch(3), &synopsis(1.0, 1_000, |_| false), None, rate()).unwrap();
        let (stamped, lda) = (figures.stamped.unwrap(), figures.lda.unwrap());
        assert_eq!(figures.epoch, 3);
        assert!((stamped.mean_ns - 124.75).abs() < 1e-9);
        assert!((stamped.min_ns, stamped.max_ns) == (100.0, 149.5));
        assert!((lda.mean_ns - stamped.mean_ns).abs() < 1e-9);
        assert!((lda.bound_ns - 0.5).abs() < 1e-12 && lda.is_within_bound);
        assert_eq!(
            (lda.effective_samples, lda.usable_cells, lda.cells),
            (1_000, 64, 64)
        );
        assert!(lda.error_ratio.unwrap().abs() < 1e-12);
    }

    #[test]
    fn losses_cost_cells_and_widen_the_bound() {
        let figures = figures(
            Epoch(0),
            &synopsis(0.5, 2_000, |n| n % 100 == 0),
            None,
            rate(),
        )
        .unwrap();
        let lda = figures.lda.unwrap();
        assert!(lda.usable_cells < 64 && lda.effective_samples < 1_000);
        assert!(lda.bound_ns > 0.5);
        let (low, high) = (lda.mean_ns - lda.bound_ns, lda.mean_ns + lda.bound_ns);
        let mean_ns = figures.stamped.unwrap().mean_ns;
        assert_eq!(lda.is_within_bound, (low..=high).contains(&mean_ns));
        assert_eq!(figures.counts.dropped_packets, 20);
        assert_eq!(figures.counts.received_packets, 1_980);
    }

    #[test]
    fn quantiles_stay_between_the_extremes() {
        let stamped = figures(Epoch(0), &synopsis(1.0, 1, |_| false), None, rate())
            .unwrap()
            .stamped;
        let stamped = stamped.unwrap();
        for quantile in [stamped.p50_ns, stamped.p99_ns, stamped.p9999_ns] {
            assert!((quantile - 100.0).abs() < 1e-9, "{quantile}");
        }
    }

    #[test]
    fn nothing_is_made_of_nothing() {
        assert_eq!(
            figures(Epoch(0), &synopsis(1.0, 0, |_| false), None, rate()),
            None
        );
        let all_lost = figures(Epoch(0), &synopsis(1.0, 9, |_| true), None, rate()).unwrap();
        assert_eq!((all_lost.stamped, all_lost.lda), (None, None));
    }

    #[test]
    fn buckets_are_those_of_the_histogram_that_hold_packets() {
        let synopsis = synopsis(1.0, 1_000, |_| false);
        let buckets = buckets(&synopsis.histogram);
        let bounds: Vec<u64> = buckets.iter().map(|bucket| bucket.le_ns).collect();
        assert_eq!(bounds, [104, 112, 120, 128, 144, 160]);
        let packets = buckets.iter().map(|bucket| bucket.packets);
        assert_eq!(packets.sum::<u64>(), 1_000);
    }
}
