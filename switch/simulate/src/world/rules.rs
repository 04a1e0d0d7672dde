//! The rules that must hold.

use std::collections::BTreeMap;

use records::snapshot::{Flow, FlowQuantiles, Segment, Snapshot, Wire, WireFigures, WireSegment};

use super::ledger::Truth;
use crate::outcome::{Check, holds};

/// `segment-sums`: for each segment sent = received + dropped + late, in total and in the last epoch.
pub(super) fn segment_sums(segment: &Segment) -> Check {
    let last = segment.last.iter().map(|last| &last.counts);
    for counts in last.chain([&segment.total.counts]) {
        let sum = counts.received_packets + counts.dropped_packets + counts.late_packets;
        holds("segment-sums", counts.sent_packets == sum, || {
            format!("{}: {counts:?}", segment.title())
        })?;
    }
    Ok(())
}

/// `segment-truth`: received packets and stamped mean of a usable epoch equal those of the ledger. In an epoch in which
/// the generation changed some packets may be unmeasured; then there are no more than in the ledger.
pub(super) fn segment_truth(segment: &Segment, truth: Truth, may_miss: bool) -> Check {
    let Some(last) = &segment.last else {
        return Ok(());
    };
    let received = last.counts.received_packets;
    let is_right = received == truth.received || may_miss && received < truth.received;
    holds("segment-truth", is_right, || {
        format!(
            "{}: epoch {}: {:?}, in truth {truth:?}",
            segment.title(),
            last.epoch,
            last.counts
        )
    })?;
    if let Some(stamped) = &last.stamped
        && received == truth.received
        && received > 0
    {
        let off = (stamped.mean_ns - truth.mean()).abs();
        holds("segment-truth", off <= 1e-6 * truth.mean().max(1.0), || {
            format!(
                "{}: epoch {}: mean {} ns, true {truth:?}",
                segment.title(),
                last.epoch,
                stamped.mean_ns
            )
        })?;
    }
    Ok(())
}

/// `flow-truth`: the maximum of a flow's delays is exact to the nanosecond, and its percentiles to an eighth.
pub(super) fn flow_truth(flow: &Flow, quantiles: &FlowQuantiles, delays: &[u64]) -> Check {
    let mut sorted = delays.to_vec();
    sorted.sort_unstable();
    let published = [
        (50, quantiles.p50_ns),
        (90, quantiles.p90_ns),
        (99, quantiles.p99_ns),
        (100, quantiles.max_ns.unwrap_or(f64::NAN)),
    ];
    let is_right = published.iter().all(|&(percent, published_ns)| {
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        let exact = sorted.get(rank - 1).map_or(f64::NAN, |&delay| delay as f64);
        let most = if percent == 100 {
            1.0
        } else {
            exact / 8.0 + 1.0
        };
        (published_ns - exact).abs() <= most
    });
    holds("flow-truth", is_right, || {
        format!(
            "{} on {}: epoch {}: {quantiles:?}, true {sorted:?}",
            flow.flow,
            flow.segment_title(),
            flow.last_epoch
        )
    })
}

/// `wire-truth`: the counts of a usable epoch of a wire equal those of the ledger. A copy made by the network cannot be
/// distinguished from an identical packet, so copies count where they arrive, in the epoch in which the packet was
/// sent. If the sender was restarted, either life may have had an epoch with this number.
pub(super) fn wire_truth(segment: &WireSegment, figures: &WireFigures, truths: &[Truth]) -> Check {
    let (Some(sent), Some(lost)) = (figures.sent_packets, figures.lost_packets) else {
        return Ok(());
    };
    let is_right = |truth: &Truth| {
        let arrived = truth.received + truth.doubled;
        truth.sent == sent && truth.sent.cast_signed() - arrived.cast_signed() == lost
    };
    holds("wire-truth", truths.iter().any(is_right), || {
        format!("{}: {figures:?}, in truth {truths:?}", segment.name())
    })
}

/// `monotone`: counters have not fallen since the previous snapshot.
pub(super) fn monotone(before: &Snapshot, now: &Snapshot) -> Check {
    let fell = |what: &str, before: u64, now: u64| {
        holds("monotone", before <= now, || {
            format!("{what} fell from {before} to {now}")
        })
    };
    for old in &before.ports {
        let Some(new) = now.ports.iter().find(|port| port.name == old.name) else {
            continue;
        };
        for (what, was, is) in [
            ("rx", old.counts.rx_packets, new.counts.rx_packets),
            ("tx", old.counts.tx_packets, new.counts.tx_packets),
            ("copies", old.counts.copies, new.counts.copies),
        ] {
            fell(&format!("{what} of {}", new.name), was, is)?;
        }
        for (old, new) in old.drops.iter().zip(&new.drops) {
            fell(&new.label, old.packets, new.packets)?;
        }
    }
    for old in &before.segments {
        let is_same = |new: &&Segment| {
            (&new.ingress, &new.egress, &new.class) == (&old.ingress, &old.egress, &old.class)
        };
        // A segment that was absent for a generation starts again.
        if let Some(new) = now.segments.iter().find(is_same)
            && before.generation == now.generation
        {
            let (a, b) = (&old.total, &new.total);
            fell(&new.title(), a.counts.sent_packets, b.counts.sent_packets)?;
            fell(&new.title(), a.estimated_epochs, b.estimated_epochs)?;
            fell(
                &new.title(),
                a.unusable_epochs.missed_shard,
                b.unusable_epochs.missed_shard,
            )?;
        }
    }
    wires_monotone(before, now)
}

fn wires_monotone(before: &Snapshot, now: &Snapshot) -> Check {
    for (old, new) in before.wires.iter().zip(&now.wires) {
        if old.port != new.port {
            continue;
        }
        let (a, b) = (&old.total, &new.total);
        let lists = [
            (&a.believed_frames, &b.believed_frames),
            (&a.disbelieved_frames, &b.disbelieved_frames),
            (&a.events, &b.events),
        ];
        for (old, new) in lists {
            for (old, new) in old.iter().zip(new) {
                holds("monotone", old.packets <= new.packets, || {
                    format!("{} of {old:?}", new.label)
                })?;
            }
        }
    }
    Ok(())
}

/// `snapshot-sums`: every epoch with an estimate counts either as within the bound or as outside it; the histogram has
/// as many packets as were received.
pub(super) fn snapshot_sums(segment: &Segment) -> Check {
    let total = &segment.total;
    holds(
        "snapshot-sums",
        total.within_bound_epochs <= total.estimated_epochs,
        || format!("{}: {total:?}", segment.title()),
    )?;
    let stamped: u64 = total.buckets.iter().map(|bucket| bucket.packets).sum();
    holds(
        "snapshot-sums",
        stamped == total.counts.received_packets,
        || {
            format!(
                "{}: {stamped} packets in buckets, {:?}",
                segment.title(),
                total.counts
            )
        },
    )
}

/// `accepted`: for each kind except hellos, no more control frames were authenticated than genuine frames were
/// delivered, each counted once.
pub(super) fn accepted(wire: &Wire, genuine: &BTreeMap<String, u64>) -> Check {
    for kind in wire
        .total
        .believed_frames
        .iter()
        .filter(|kind| kind.label != "hello")
    {
        let delivered = genuine.get(&kind.label).copied().unwrap_or(0);
        holds("accepted", kind.packets <= delivered, || {
            format!(
                "{}: {} {}s accepted, {delivered} genuine ones delivered",
                wire.port, kind.packets, kind.label
            )
        })?;
    }
    Ok(())
}
