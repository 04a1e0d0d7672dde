//! From a whole epoch's synopsis of one segment to the figures that are published.

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

/// The figures of one segment and epoch, whose references are used by `method`; `None` when no packet passed.
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

/// A mean's error against the stamped one; `None` where that is not known, or 0.
fn error_ratio(mean: f64, stamped_mean: Option<f64>) -> Option<f64> {
    let stamped_mean = stamped_mean.filter(|&stamped_mean| stamped_mean > 0.0)?;
    Some((mean - stamped_mean) / stamped_mean)
}

/// Share of packets that usable cells have to hold for their mean to be that of the sketch.
const SHARE_MIN: f64 = 0.99;

/// The figures of the sketch of that index, compared with stamps; `None` where there is no such sketch.
/// The name of its port is left empty.
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
            // Rows that sample less hold a part of the same packets.
            if probability >= most {
                delay_sum += i128::from(sum);
                packets += u64::from(cell.received);
            }
        }
    }
    // Losses and long delays come together: cells without losses are not like the others.
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

/// The stamped mean in ticks of all packets that a sketch holds, with its weights.
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

/// The buckets that hold packets.
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

/// The LDA's estimate with its bound; `None` where it has no mean, or no bound for it (fewer than two
/// usable cells of a sample).
///
/// The bound has the clock's resolution as its floor. A stamp is cut to a whole tick at either end,
/// so a delay is off by less than one tick, and so is any mean of delays, sampled or not: where
/// every packet was a sample the estimate is exact but for that. The stamped mean comes from the
/// same stamps and shares the error.
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
pub(crate) mod tests;
