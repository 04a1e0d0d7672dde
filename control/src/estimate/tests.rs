use super::*;
use measure::lda::{Bank, LdaLayout};
use measure::observation::{End, Observation, SegmentIndex};
use measure::packet::{FlowHash, PacketHash};
use measure::synopsis::Synopsis;
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
    let mut synopsis = SegmentSynopsis::new(Some(&layout(probability)), rate());
    for n in 0..packets {
        let (sent, received) = observations(0, n, 200 + n % 100);
        synopsis.record(End::Sender, &[sent]);
        if is_lost(n) {
            synopsis.tally.dropped += 1;
        } else {
            synopsis.record(End::Receiver, &[received]);
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
