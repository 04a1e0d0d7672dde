//! Accuracy of the estimates on synthetic streams, compared with the papers and the methods' documentation.

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Pareto, Weibull};
use rand_pcg::Pcg64;

use super::*;

/// A stream of packets with its true figures.
struct Stream {
    lda: LdaPair,
    received: u64,
    lost: u64,
    mean: f64,
    stddev: f64,
}

/// Sends `count` packets with delays of a distribution, in ticks of 1/1000 of its unit; each is
/// lost with probability `loss`.
fn stream(
    layout: &LdaLayout,
    count: u64,
    loss: f64,
    delays: &impl Distribution<f64>,
    seed: u64,
) -> Stream {
    let mut rng = Pcg64::seed_from_u64(seed);
    let mut lda = LdaPair::new(layout);
    let (mut received, mut sum, mut squares) = (0_u64, 0.0, 0.0);
    for n in 0..count {
        #[expect(
            clippy::cast_sign_loss,
            clippy::cast_possible_truncation,
            reason = "delays"
        )]
        let delay = (delays.sample(&mut rng) * 1000.0) as u64;
        let packet = Packet {
            hash: rng.random(),
            sent: 100 * n,
            delay,
            lost: rng.random_bool(loss),
        };
        lda.record(End::Sender, &[packet.sender_observation()]);
        if let Some(observation) = packet.receiver_observation() {
            lda.record(End::Receiver, &[observation]);
            received += 1;
            sum += delay as f64;
            squares += (delay as f64).powi(2);
        }
    }
    let mean = sum / received as f64;
    let stddev = (squares / received as f64 - mean * mean).sqrt();
    Stream {
        lda,
        received,
        lost: count - received,
        mean,
        stddev,
    }
}

fn weibull() -> Weibull<f64> {
    Weibull::new(100.0, 0.6).unwrap()
}

/// A bank tuned to the losses that will come, for the mean.
fn tuned(count: u64, loss: f64) -> LdaLayout {
    #[expect(
        clippy::cast_sign_loss,
        clippy::cast_possible_truncation,
        reason = "a count"
    )]
    let losses = (count as f64 * loss) as u64;
    LdaLayout::new(&[Bank::for_losses(1024, losses, 1.0)]).unwrap()
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

/// Means over seeds of the relative error of the mean, of the better deviation and of the paper's.
fn errors(count: u64, loss: f64, delays: &impl Distribution<f64>, seeds: u64) -> [f64; 3] {
    let layout = tuned(count, loss);
    let errors: Vec<[f64; 3]> = (0..seeds)
        .map(|seed| {
            let stream = stream(&layout, count, loss, delays, seed);
            let estimate = stream.lda.estimate(stream.received);
            let error = |got: Option<f64>, truth: f64| (got.unwrap() - truth).abs() / truth;
            [
                error(estimate.mean_ticks, stream.mean),
                error(estimate.stddev_ticks, stream.stddev),
                error(estimate.stddev_paper_ticks, stream.stddev),
            ]
        })
        .collect();
    [0, 1, 2].map(|which| mean(errors.iter().map(|error| error[which])))
}

#[test]
fn the_mean_is_good_to_three_thousandths_and_to_a_twentieth_where_a_fifth_is_lost() {
    for (loss, mean_max, better_max) in [(0.001, 0.003, 0.04), (0.2, 0.05, f64::INFINITY)] {
        let [mean, better, paper] = errors(5_000_000, loss, &weibull(), 20);
        println!("mean {mean:.5}, deviation {better:.4}, the paper's {paper:.4}");
        assert!(mean <= mean_max, "{mean}");
        assert!(better <= better_max, "{better}");
        assert!(better < paper || loss > 0.1, "{better}, {paper}");
    }
}

#[test]
fn the_deviation_of_heavy_tails_is_good_to_a_twentieth() {
    let layout = tuned(5_000_000, 0.001);
    let mut errors: Vec<f64> = (0..8)
        .map(|seed| {
            let delays = Pareto::new(100.0, 3.0).unwrap();
            let stream = stream(&layout, 5_000_000, 0.001, &delays, seed);
            let estimate = stream.lda.estimate(stream.received);
            (estimate.stddev_ticks.unwrap() - stream.stddev).abs() / stream.stddev
        })
        .collect();
    errors.sort_by(f64::total_cmp);
    println!("{errors:.4?}");
    assert!(f64::midpoint(errors[3], errors[4]) <= 0.05, "{errors:?}");
}

/// Share of runs in which the interval holds the true mean of all packets received, and its width compared with that of
/// equation 1.
fn coverage(count: u64, loss: f64, banks: &[Bank], runs: u64) -> (f64, f64) {
    let layout = LdaLayout::new(banks).unwrap();
    let (mut covered, mut ratio) = (0_u32, 0.0);
    for seed in 0..runs {
        let stream = stream(&layout, count, loss, &weibull(), 1_000 + seed);
        let estimate = stream.lda.estimate(stream.received);
        let half_width = estimate.ci98_half_width_ticks.unwrap();
        covered += u32::from((estimate.mean_ticks.unwrap() - stream.mean).abs() <= half_width);
        let samples = estimate.effective_samples;
        ratio += half_width / eq1_half_width_ticks(estimate.stddev_ticks.unwrap(), samples, 0.02);
    }
    (f64::from(covered) / runs as f64, ratio / runs as f64)
}

#[test]
fn the_interval_covers_the_mean() {
    let one = [bank(256, 1.0)];
    let two = [bank(128, 0.9), bank(128, 0.1)];
    for (loss, banks) in [(0.001, &one[..]), (0.01, &one), (0.01, &two)] {
        let (covered, ratio) = coverage(20_000, loss, banks, 300);
        println!("loss {loss}: covers {covered:.3}, {ratio:.2} of equation 1");
        assert!(covered >= 0.96, "{covered} at loss {loss}");
        assert!(ratio < 0.85, "{ratio}");
    }
}

#[test]
fn losses_are_estimated_from_the_sample() {
    let exact = stream(&full(1024), 100_000, 0.01, &weibull(), 1);
    let estimate = exact.lda.estimate(exact.received);
    assert!((estimate.lost_estimate - exact.lost as f64).abs() < 1e-9);

    let banks = [bank(512, 0.05), bank(512, 0.2)];
    let sampled = stream(
        &LdaLayout::new(&banks).unwrap(),
        200_000,
        0.02,
        &weibull(),
        2,
    );
    let estimate = sampled.lda.estimate(sampled.received);
    // Binomial: a quarter of some 4,000 losses are seen.
    let deviation = (sampled.lost as f64 * 0.75 / 0.25).sqrt();
    let error = (estimate.lost_estimate - sampled.lost as f64).abs();
    assert!(error < 4.0 * deviation, "{error}, {deviation}");
}
