mod accuracy;

use proptest::prelude::*;

use super::*;
use crate::observation::SegmentIndex;
use crate::packet::{FlowHash, PacketHash};
use crate::time::{EpochTag, Ticks};

fn observation(hash: u64, time: u64) -> Observation {
    Observation {
        flow: FlowHash(0),
        packet: PacketHash(hash),
        time,
        delay: 0,
        bytes: 64,
        segment: SegmentIndex(0),
        epoch: EpochTag(0),
    }
}

/// Packets without hashes come in batches of one delay each. The deviation is estimated from how rows differ, so
/// rows must not share batches: as neighbours would, if each batch went to one row after the other.
#[test]
fn batches_are_spread_over_rows() {
    const TRIALS: u32 = 200;
    for (rows, packets) in [(1_024, 64), (1_000, 32), (63, 17)] {
        let mut spread = RandomHashes::default();
        let (mut ratios, mut squares, mut missed) = (0.0, 0.0, 0);
        for trial in 0..TRIALS {
            let mut lda = LdaPair::<PassedCell>::empty(&full(rows));
            let (mut received, mut sum, mut sum_of_squares) = (0, 0.0, 0.0);
            for n in 0..400_u64 {
                // Every other batch waits: a period that rows in a fixed order would fall in with.
                let delay = 1_000 + 500 * (n % 2) + n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 97;
                let batch = Batch {
                    packets,
                    bytes: 0,
                    arrived: Ticks(0),
                    delay,
                    segment: SegmentIndex(0),
                    epoch: EpochTag(0),
                };
                lda.pass(&batch, &[], &mut spread);
                received += packets as u64;
                sum += packets as f64 * delay as f64;
                sum_of_squares += packets as f64 * (delay * delay) as f64;
            }
            let counted: u32 = lda.cells().iter().map(|cell| cell.received).sum();
            assert_eq!(u64::from(counted), received);
            for n in 0..rows / 8 {
                let hash = u64::from(trial * 997 + n).wrapping_mul(0xd6e8_feb8_6659_fd93);
                lda.record(End::Sender, &[observation(hash, 0)]);
            }
            let mean = sum / received as f64;
            let deviation = (sum_of_squares / received as f64 - mean * mean).sqrt();
            let estimate = lda.estimate(received);
            let ratio = estimate.stddev_ticks.unwrap() / deviation;
            ratios += ratio;
            squares += (ratio - 1.0).powi(2);
            let off = (estimate.mean_ticks.unwrap() - mean).abs();
            missed += u32::from(off > estimate.ci98_half_width_ticks.unwrap());
        }
        let (ratio, error) = (
            ratios / f64::from(TRIALS),
            (squares / f64::from(TRIALS)).sqrt(),
        );
        println!("{rows} rows: deviation {ratio}, off by {error}; {missed} of {TRIALS} outside");
        assert!((ratio - 1.0).abs() < 0.02, "{rows} rows: biased by {ratio}");
        assert!(error < 1.2 / f64::from(rows).sqrt(), "{rows} rows: {error}");
        assert!(missed <= TRIALS / 20, "{rows} rows: {missed}");
    }
}

/// One bank that takes every packet.
fn full(rows: u32) -> LdaLayout {
    LdaLayout::new(&[bank(rows, 1.0)]).unwrap()
}

/// A packet in a test: hash, send time, delay, and whether it arrives.
#[derive(Debug, Clone, Copy)]
struct Packet {
    hash: u64,
    sent: u64,
    delay: u64,
    lost: bool,
}

impl Packet {
    fn sender_observation(&self) -> Observation {
        observation(self.hash, self.sent)
    }

    fn receiver_observation(&self) -> Option<Observation> {
        (!self.lost).then(|| observation(self.hash, self.sent.wrapping_add(self.delay)))
    }
}

fn record(lda: &mut LdaPair, packets: &[Packet]) {
    let sent: Vec<_> = packets.iter().map(Packet::sender_observation).collect();
    let received: Vec<_> = packets
        .iter()
        .filter_map(Packet::receiver_observation)
        .collect();
    lda.record(End::Sender, &sent);
    lda.record(End::Receiver, &received);
}

fn lda_of(layout: &LdaLayout, packets: &[Packet]) -> LdaPair {
    let mut lda = LdaPair::new(layout);
    record(&mut lda, packets);
    lda
}

fn arrived(packets: &[Packet]) -> u64 {
    packets.iter().filter(|packet| !packet.lost).count() as u64
}

fn packets(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Packet>> {
    let packet = (
        any::<u64>(),
        any::<u64>(),
        0_u64..1 << 40,
        proptest::bool::weighted(0.05),
    );
    let packet = packet.prop_map(|(hash, sent, delay, lost)| Packet {
        hash,
        sent,
        delay,
        lost,
    });
    proptest::collection::vec(packet, count)
}

fn layouts() -> impl Strategy<Value = LdaLayout> {
    let bank = (1_u32..40, 0.01..0.3_f64);
    let banks = bank.prop_map(|(rows, probability)| Bank { rows, probability });
    let sampling =
        proptest::collection::vec(banks, 1..4).prop_map(|banks| LdaLayout::new(&banks).unwrap());
    prop_oneof![sampling, (1_u32..40).prop_map(full)]
}

/// The expected estimate, from the packets themselves.
fn naive_estimate(layout: &LdaLayout, packets: &[Packet]) -> LdaEstimate {
    let mut by_cell = vec![Vec::new(); layout.cells()];
    for packet in packets {
        if let Some(cell) = layout.cell_of(PacketHash(packet.hash)) {
            by_cell[cell].push(*packet);
        }
    }
    let usable: Vec<_> = by_cell
        .iter()
        .map(|cell| cell.iter().all(|packet| !packet.lost).then_some(cell))
        .collect();
    let seen: Vec<_> = usable.iter().flatten().copied().flatten().collect();
    let samples = seen.len() as f64;
    let mean = seen.iter().map(|packet| packet.delay as f64).sum::<f64>() / samples;

    let delay_sum = |cell: &Vec<Packet>| cell.iter().map(|packet| packet.delay as f64).sum::<f64>();
    let filled: Vec<_> = usable
        .iter()
        .flatten()
        .filter(|cell| !cell.is_empty())
        .collect();
    let scatter = filled
        .iter()
        .map(|cell| {
            let count = cell.len() as f64;
            (delay_sum(cell) - count * mean).powi(2) / count
        })
        .sum::<f64>();

    let (mut squares, mut pair_samples) = (0.0, 0.0);
    let mut first = 0;
    for bank in layout.banks() {
        let rows = bank.rows as usize;
        for pair in usable[first..first + rows].chunks_exact(2) {
            if let [Some(plus), Some(minus)] = pair {
                squares += (delay_sum(plus) - delay_sum(minus)).powi(2);
                pair_samples += (plus.len() + minus.len()) as f64;
            }
        }
        first += rows;
    }
    let lost = by_cell
        .iter()
        .flatten()
        .filter(|packet| packet.lost)
        .count() as f64;
    LdaEstimate {
        mean_ticks: (samples > 0.0).then_some(mean),
        stddev_ticks: (filled.len() > 1).then(|| (scatter / (filled.len() - 1) as f64).sqrt()),
        stddev_paper_ticks: (pair_samples > 0.0)
            .then(|| (squares / pair_samples - mean * mean).max(0.0).sqrt()),
        ci98_half_width_ticks: None,
        effective_samples: seen.len() as u64,
        lost_estimate: lost / layout.sampled_share(),
        usable_cells: usable.iter().flatten().count(),
        cells: layout.cells(),
    }
}

fn near(left: Option<f64>, right: Option<f64>) -> bool {
    match (left, right) {
        (Some(left), Some(right)) => {
            // Ticks up to 2^40, summed in floating point on the naive side.
            (left - right).abs() <= 1e-6 * left.abs().max(right.abs()).max(1.0)
        }
        (left, right) => left == right,
    }
}

proptest! {
    #[test]
    fn estimates_are_those_of_the_packets_in_usable_cells(
        layout in layouts(),
        packets in packets(0..300),
    ) {
        let estimate = lda_of(&layout, &packets).estimate(arrived(&packets));
        let naive = naive_estimate(&layout, &packets);
        prop_assert!(near(estimate.mean_ticks, naive.mean_ticks));
        prop_assert!(near(estimate.stddev_ticks, naive.stddev_ticks));
        // Squares lose half of the digits.
        let paper = estimate.stddev_paper_ticks.zip(naive.stddev_paper_ticks);
        let scale = naive.mean_ticks.unwrap_or(0.0).abs().max(1.0);
        prop_assert!(paper.is_none_or(|(ours, theirs)| (ours - theirs).abs() <= 1e-3 * scale));
        prop_assert_eq!(
            LdaEstimate { mean_ticks: None, stddev_ticks: None, stddev_paper_ticks: None, ci98_half_width_ticks: None, ..estimate },
            LdaEstimate { mean_ticks: None, stddev_ticks: None, stddev_paper_ticks: None, ..naive }
        );
    }

    #[test]
    fn without_loss_and_with_every_packet_sampled_it_is_exact(
        rows in 2_u32..200,
        packets in packets(1..300),
    ) {
        let packets: Vec<_> =
            packets.into_iter().map(|packet| Packet { lost: false, ..packet }).collect();
        let estimate = lda_of(&full(rows), &packets).estimate(arrived(&packets));
        let sum: u128 = packets.iter().map(|packet| u128::from(packet.delay)).sum();
        prop_assert_eq!(estimate.mean_ticks, Some(sum as f64 / packets.len() as f64));
        prop_assert_eq!(estimate.ci98_half_width_ticks, Some(0.0));
        prop_assert_eq!(estimate.effective_samples, packets.len() as u64);
        prop_assert!(estimate.lost_estimate.abs() < 1e-9);
        prop_assert_eq!(estimate.usable_cells, estimate.cells);
    }

    #[test]
    fn merging_is_the_synopsis_of_the_union(
        layout in layouts(),
        packets in packets(0..100),
        cuts in (0_usize..100, 0_usize..100),
    ) {
        let (low, high) = (cuts.0.min(cuts.1).min(packets.len()), cuts.0.max(cuts.1).min(packets.len()));
        let a = lda_of(&layout, &packets[..low]);
        let b = lda_of(&layout, &packets[low..high]);
        // One with only the sender's end, one with the other.
        let mut c = LdaPair::new(&layout);
        let mut d = LdaPair::new(&layout);
        for packet in &packets[high..] {
            c.record(End::Sender, &[packet.sender_observation()]);
            d.record(End::Receiver, packet.receiver_observation().as_slice());
        }
        let sum = |parts: [&LdaPair; 4]| {
            let mut sum = LdaPair::new(&layout);
            for part in parts {
                sum.merge(part).unwrap();
            }
            sum
        };
        let union = lda_of(&layout, &packets);
        prop_assert_eq!(&sum([&a, &b, &c, &d]), &union);
        prop_assert_eq!(&sum([&d, &b, &c, &a]), &union);
        let mut right = c.clone();
        right.merge(&d).unwrap();
        let mut left = a.clone();
        left.merge(&b).unwrap();
        left.merge(&right).unwrap();
        prop_assert_eq!(&left, &union);
    }
}

#[test]
fn means_are_signed() {
    // The receiver's clock is 500 ticks behind.
    let mut lda = LdaPair::new(&full(16));
    for hash in 0..100_u64 {
        let hash = hash << 57;
        lda.record(End::Sender, &[observation(hash, 1_000)]);
        lda.record(End::Receiver, &[observation(hash, 500)]);
    }
    assert_eq!(lda.estimate(100).mean_ticks, Some(-500.0));
}

#[test]
fn equal_counts_of_different_packets_are_found_by_the_digest() {
    let mut lda = LdaPair::new(&full(1));
    lda.record(End::Sender, &[observation(1 << 40, 0)]);
    lda.record(End::Receiver, &[observation(2 << 40, 10)]);
    let estimate = lda.estimate(1);
    assert_eq!((estimate.usable_cells, estimate.effective_samples), (0, 0));
    assert_eq!(estimate.mean_ticks, None);
}

#[test]
fn nothing_seen_is_nothing_said() {
    let estimate = LdaPair::new(&full(4)).estimate(0);
    let expected = LdaEstimate {
        usable_cells: 4,
        cells: 4,
        ..LdaEstimate::default()
    };
    assert_eq!(estimate, expected);
}

#[test]
fn one_usable_cell_has_no_deviation() {
    // Two packets, one lost, in different cells.
    let packets = [
        Packet {
            hash: 0,
            sent: 0,
            delay: 10,
            lost: false,
        },
        Packet {
            hash: 1 << 63,
            sent: 0,
            delay: 10,
            lost: true,
        },
        Packet {
            hash: 1 << 63,
            sent: 0,
            delay: 10,
            lost: false,
        },
    ];
    let estimate = lda_of(&full(2), &packets).estimate(2);
    assert_eq!(estimate.mean_ticks, Some(10.0));
    assert_eq!(estimate.effective_samples, 1);
    assert_eq!(estimate.stddev_ticks, None);
    assert_eq!(
        estimate.ci98_half_width_ticks, None,
        "one of two packets was seen"
    );
}

#[test]
fn other_layouts_are_refused() {
    let mut lda = LdaPair::new(&full(16));
    let before = lda.clone();
    for (other, what) in [
        (vec![bank(17, 1.0)], "rows of a bank"),
        (vec![bank(16, 0.5)], "sampled share in 2^-32"),
        (vec![bank(8, 0.5); 2], "number of banks"),
    ] {
        let other = LdaLayout::new(&other).unwrap();
        let error = lda.merge(&LdaPair::new(&other)).unwrap_err();
        assert_eq!(error.what, what);
        assert_eq!(lda, before);
    }
}

#[test]
fn equation_1_is_wider_than_the_interval() {
    // 98 %: sigma sqrt(2 ln 100 / S).
    let half_width = eq1_half_width_ticks(100.0, 10_000, 0.02);
    assert!((half_width - 3.034_854).abs() < 1e-6);
}

fn bank(rows: u32, probability: f64) -> Bank {
    Bank { rows, probability }
}

/// Share of 1,000,000 spread hashes in each bank and in each of its rows.
fn shares(layout: &LdaLayout) -> (Vec<f64>, Vec<u32>) {
    const COUNT: u64 = 1_000_000;
    let mut cells = vec![0_u32; layout.cells()];
    let hasher = crate::packet::Hasher::new([3; 16]);
    let mut frame = [0_u8; 60];
    frame[12] = 0x88;
    for n in 0..COUNT {
        frame[20..28].copy_from_slice(&n.to_be_bytes());
        if let Some(cell) = layout.cell_of(hasher.parse(&frame, 60).packet) {
            cells[cell] += 1;
        }
    }
    let mut first = 0;
    let mut shares = Vec::new();
    for bank in layout.banks() {
        let rows = bank.rows as usize;
        let count: u32 = cells[first..first + rows].iter().sum();
        shares.push(f64::from(count) / COUNT as f64);
        first += rows;
    }
    (shares, cells)
}

#[test]
fn banks_sample_what_they_were_told_to() {
    let layout = LdaLayout::new(&[bank(512, 0.5), bank(300, 0.07), bank(256, 0.003)]).unwrap();
    let (shares, cells) = shares(&layout);
    for (share, expected) in shares.iter().zip([0.003, 0.07, 0.5]) {
        let deviation = (expected * (1.0 - expected) / 1e6_f64).sqrt();
        assert!(
            (share - expected).abs() < 5.0 * deviation,
            "{share} for {expected}"
        );
    }
    // Rows of a bank are alike: chi-square over the 512 rows of the last.
    let last = &cells[556..];
    let expected = 500_000.0 / 512.0;
    let chi_square: f64 = last
        .iter()
        .map(|&count| (f64::from(count) - expected).powi(2) / expected)
        .sum();
    assert!(
        (chi_square - 511.0).abs() < 5.0 * (2.0 * 511.0_f64).sqrt(),
        "{chi_square}"
    );
}

#[test]
fn the_last_bank_gets_the_rest() {
    let layout = LdaLayout::new(&[bank(10, 1.0), bank(10, 0.25)]).unwrap();
    let probabilities: Vec<_> = layout.banks().map(|bank| bank.probability).collect();
    assert_eq!(probabilities, [0.25, 0.75]);
    assert!((layout.sampled_share() - 1.0).abs() < f64::EPSILON);
    let (shares, _) = shares(&layout);
    assert!(
        (shares[0] + shares[1] - 1.0).abs() < 1e-9,
        "no packet is left out"
    );
}

#[test]
fn impossible_banks_are_refused() {
    let wrong = |probability| vec![bank(1, 0.5), bank(1, probability)];
    for (banks, wanted) in [
        (vec![], "1 to 16 banks, not 0"),
        (vec![bank(1, 0.01); 17], "1 to 16 banks, not 17"),
        (vec![bank(0, 1.0)], "bank 0 has 0 rows;"),
        (vec![bank(65_537, 1.0)], "bank 0 has 65537 rows;"),
        (wrong(0.0), "bank 1 samples with probability 0;"),
        (wrong(-1.0), "bank 1 samples with probability -1;"),
        (wrong(1.1), "bank 1 samples with probability 1.1;"),
        (
            wrong(1e-10),
            "bank 1 samples with probability 0.0000000001;",
        ),
        (wrong(f64::INFINITY), "bank 1 samples with probability inf;"),
        (wrong(f64::NAN), "bank 1 samples with probability NaN;"),
        (vec![bank(1, 1.0); 2], "bank 1 would get no packets"),
        (
            vec![bank(1, 0.9), bank(1, 0.5), bank(1, 0.5)],
            "bank 0 would get no packets",
        ),
    ] {
        let error = LdaLayout::new(&banks).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
}

#[test]
fn banks_are_designed_for_losses() {
    let tuned = Bank::for_losses(1024, 2047, 0.5);
    assert_eq!(tuned, bank(1024, 0.25));
    assert_eq!(Bank::for_losses(1024, 0, 0.75), bank(1024, 1.0));
}
