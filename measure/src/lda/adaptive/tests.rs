use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Weibull};
use rand_pcg::Pcg64;

use super::*;
use crate::lda::LdaPair;
use crate::observation::tests::observation_with_delay;
use crate::observation::{End, Observation};
use crate::packet::PacketHash;

const PACKETS: u64 = 50_000;
const ROWS: u32 = 256;

fn options() -> AdaptiveOptions {
    AdaptiveOptions {
        bank_rows: vec![ROWS - ROWS / 8, ROWS / 8],
        first_loss: 0.0,
        worst_loss: 0.2,
        alpha: 0.75,
        epoch_packets: PACKETS,
    }
}

/// Relative error of the mean over an epoch in which packets are lost with probability `loss`,
/// and how many arrived.
fn epoch(layout: &LdaLayout, loss: f64, seed: u64) -> (f64, u64) {
    let mut rng = Pcg64::seed_from_u64(seed);
    let delays = Weibull::new(100.0, 0.6).unwrap();
    let mut lda = LdaPair::new(layout);
    let (mut received, mut sum) = (0_u64, 0.0);
    for n in 0..PACKETS {
        #[expect(
            clippy::cast_sign_loss,
            clippy::cast_possible_truncation,
            reason = "delays"
        )]
        let delay = (delays.sample(&mut rng) * 1_000.0) as u64;
        let sent = Observation {
            packet: PacketHash(rng.random()),
            time: 100 * n,
            ..observation_with_delay(0)
        };
        lda.record(End::Sender, &[sent]);
        if !rng.random_bool(loss) {
            let time = sent.time + delay;
            lda.record(End::Receiver, &[Observation { time, ..sent }]);
            received += 1;
            sum += delay as f64;
        }
    }
    let truth = sum / received as f64;
    let estimate = lda.estimate(received).mean_ticks.unwrap_or(0.0);
    ((estimate - truth).abs() / truth, received)
}

/// Ten epochs each of five losses; mean errors from the third epoch
/// after each step on, of the adaptive LDA and of single banks made for what comes, by step.
fn schedule(epochs_late: usize) -> [(f64, f64); 5] {
    let losses = [0.0, 0.001, 0.01, 0.1, 0.001];
    let seeds = 4;
    let mut errors = [(0.0, 0.0); 5];
    for seed in 0..seeds {
        let mut adaptive = AdaptiveLda::new(options()).unwrap();
        let mut coming = vec![adaptive.layout().clone(); epochs_late];
        for (step, &loss) in losses.iter().enumerate() {
            #[expect(
                clippy::cast_sign_loss,
                clippy::cast_possible_truncation,
                reason = "a count"
            )]
            let expected = (loss * PACKETS as f64) as u64;
            let optimal = LdaLayout::new(&[Bank::for_losses(ROWS, expected, 1.0)]).unwrap();
            for turn in 0..10 {
                let stream = seed * 1_000 + step as u64 * 10 + turn;
                let (error, received) = epoch(&coming.remove(0), loss, stream);
                coming.push(adaptive.observe(PACKETS, received).clone());
                if turn >= 2 {
                    errors[step].0 += error;
                    errors[step].1 += epoch(&optimal, loss, stream).0;
                }
            }
        }
    }
    errors
}

#[test]
fn it_follows_losses_through_four_orders_of_magnitude() {
    for epochs_late in [1, 2] {
        let errors = schedule(epochs_late);
        println!("{epochs_late} late: {errors:.4?}");
        let (adaptive, optimal) = errors
            .iter()
            .fold((0.0, 0.0), |(a, o), &(adaptive, optimal)| {
                (a + adaptive, o + optimal)
            });
        assert!(adaptive <= 1.5 * optimal, "{adaptive}, {optimal}");
        assert!(errors[0].0 < 1e-9, "without loss every packet is a sample");
    }
}

#[test]
fn losses_are_followed_up_as_they_are_and_down_by_logarithms() {
    let mut adaptive = AdaptiveLda::new(options()).unwrap();
    let mut losses_after = |losses: u64| {
        adaptive.observe(PACKETS, PACKETS - losses);
        adaptive.design_losses()
    };
    let expected = [
        (800, 640.0),
        (800, 768.0),
        (0, 769_f64.powf(0.2) - 1.0),
        (0, 769_f64.powf(0.04) - 1.0),
    ];
    for (losses, design) in expected {
        assert!((losses_after(losses) - design).abs() < 1e-9);
    }
}

#[test]
fn banks_stand_in_geometric_steps() {
    let mut options = options();
    options.bank_rows = vec![128, 64, 64];
    let mut adaptive = AdaptiveLda::new(options).unwrap();
    for _ in 0..60 {
        adaptive.observe(PACKETS, PACKETS - 99);
    }
    // Made for 100, sqrt(100 10,001) and 10,001 losses; 75 sampled for each 100 rows.
    let wanted = [
        (64, 48.0 / 10_001.0),
        (64, 48.0 / (100.0 * 10_001.0_f64).sqrt()),
        (128, 96.0 / 100.0),
    ];
    let banks: Vec<Bank> = adaptive.layout().banks().collect();
    for (bank, (rows, share)) in banks.iter().zip(wanted) {
        assert_eq!(bank.rows, rows);
        let capped = f64::min(
            share,
            1.0 - 48.0 / 10_001.0 - 48.0 / (100.0 * 10_001.0_f64).sqrt(),
        );
        assert!((bank.probability - capped).abs() < 1e-6, "{bank:?}");
    }
}

#[test]
fn few_packets_are_all_sampled_whatever_the_worst_case() {
    let mut adaptive = AdaptiveLda::new(options()).unwrap();
    for _ in 0..60 {
        adaptive.observe(10, 10);
    }
    assert!((adaptive.layout().sampled_share() - 1.0).abs() < 1e-9);
    let per_row: Vec<f64> = adaptive
        .layout()
        .banks()
        .map(|bank| bank.probability / f64::from(bank.rows))
        .collect();
    assert!(
        (per_row[0] * f64::from(ROWS) - 1.0).abs() < 1e-6,
        "{per_row:?}"
    );
}

#[test]
fn options_out_of_range_are_refused() {
    type Change = fn(&mut AdaptiveOptions);
    let cases: [(Change, &str); 6] = [
        (
            |options| options.worst_loss = 0.0,
            "the worst loss to prepare for is 0;",
        ),
        (|options| options.worst_loss = f64::NAN, "is NaN;"),
        (
            |options| options.first_loss = -0.1,
            "the first loss to prepare for is -0.1;",
        ),
        (|options| options.alpha = 1.5, "alpha is 1.5;"),
        (|options| options.bank_rows.clear(), "banks, not 0"),
        (|options| options.bank_rows[0] = 0, "has 0 rows"),
    ];
    for (change, wanted) in cases {
        let mut options = options();
        change(&mut options);
        let error = AdaptiveLda::new(options).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
}

proptest! {
    #[test]
    fn whatever_is_observed_a_layout_comes_of_it(
        bank_rows in proptest::collection::vec(1_u32..=LdaLayout::ROWS_MAX, 1..=LdaLayout::BANKS_MAX),
        first_loss in 0.0..=1.0_f64,
        worst_loss in 1e-9..=1.0_f64,
        alpha in 1e-9..=1.0_f64,
        epoch_packets: u64,
        epochs in proptest::collection::vec((any::<u64>(), any::<u64>()), 0..20),
    ) {
        let banks = bank_rows.len();
        let options = AdaptiveOptions { bank_rows, first_loss, worst_loss, alpha, epoch_packets };
        let mut adaptive = AdaptiveLda::new(options.clone()).unwrap();
        for (sent, received) in epochs {
            adaptive.observe(sent, received);
            let made = super::banks(&options, adaptive.design_losses, adaptive.epoch_packets);
            let fresh = LdaLayout::new(&made);
            prop_assert_eq!(fresh.as_ref(), Ok(adaptive.layout()), "the old one never has to serve");
            prop_assert_eq!(adaptive.layout().banks().count(), banks);
        }
    }

    #[test]
    fn banks_whose_rows_do_not_rise_keep_their_places(
        mut bank_rows in proptest::collection::vec(1_u32..=LdaLayout::ROWS_MAX, 1..=LdaLayout::BANKS_MAX),
        first_loss in 0.0..=1.0_f64,
        worst_loss in 1e-9..=1.0_f64,
        epoch_packets: u64,
        epochs in proptest::collection::vec((any::<u64>(), any::<u64>()), 0..20),
    ) {
        bank_rows.sort_by(|one, other| other.cmp(one));
        let options = AdaptiveOptions { bank_rows, first_loss, worst_loss, alpha: 1.0, epoch_packets };
        let mut adaptive = AdaptiveLda::new(options).unwrap();
        let first = adaptive.layout().clone();
        for (sent, received) in epochs {
            prop_assert!(adaptive.observe(sent, received).has_sizes_of(&first));
        }
    }
}
