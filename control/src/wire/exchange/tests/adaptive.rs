//! Banks that follow the losses, from the sender's report to the next marker.

use std::collections::HashMap;

use measure::lda::adaptive::{AdaptiveLda, AdaptiveOptions};
use measure::lda::{Bank, LdaLayout, LdaPair};
use measure::observation::End;
use wire::WireLayout;

use super::bench::Packet;
use super::*;

const ROWS: u32 = 128;
const PACKETS: usize = 15_000;

/// Banks as `wire.lda.adaptive` has them, by default.
fn options() -> AdaptiveOptions {
    AdaptiveOptions {
        bank_rows: vec![ROWS - 2 * 12, 12, 12],
        first_loss: 0.005,
        worst_loss: 0.2,
        alpha: 1.0,
        epoch_packets: PACKETS as u64,
    }
}

/// From the first switch to the second.
fn bench(seed: u64) -> Bench {
    let options = options();
    let lda = AdaptiveLda::new(options.clone()).unwrap().layout().clone();
    let mut bench = Bench::new([1, 2].map(|switch| Settings {
        layout: WireLayout {
            lda: lda.clone(),
            lds: None,
            ..settings(switch).layout
        },
        adaptive: Some(options.clone()),
        ..settings(switch)
    }));
    bench.random = bench::Random(seed);
    bench.traffic.packets = PACKETS;
    bench.traffic.flows = 20;
    bench
}

/// Result of an LDA with `layout`: samples, and packets that arrived.
fn samples(layout: &LdaLayout, packets: &[Packet]) -> (f64, f64) {
    let mut lda = LdaPair::new(layout);
    let mut received = 0;
    for packet in packets {
        lda.record(End::Sender, &[packet.observation(packet.sent_ns)]);
        if !packet.is_lost {
            lda.record(End::Receiver, &[packet.observation(packet.received_ns())]);
            received += 1;
        }
    }
    let estimate = lda.estimate(received);
    (estimate.effective_samples as f64, received as f64)
}

/// The expected error of the mean of this number of samples, in standard deviations of the delay.
fn error((samples, received): (f64, f64)) -> f64 {
    ((1.0 / samples) * (1.0 - samples / received)).sqrt()
}

fn stddev_ns(packets: &[Packet]) -> f64 {
    let arrived = packets.iter().filter(|packet| !packet.is_lost);
    let delays: Vec<f64> = arrived.map(|packet| packet.delay_ns as f64).collect();
    let mean = delays.iter().sum::<f64>() / delays.len() as f64;
    let squares = delays.iter().map(|delay| (delay - mean).powi(2));
    (squares.sum::<f64>() / delays.len() as f64).sqrt()
}

/// Sums of squared errors of the mean over the epochs of one step, after the first three.
#[derive(Debug, Clone, Copy, Default)]
struct Errors {
    epochs: f64,
    /// Of the LDA that follows,
    adaptive: f64,
    /// of the best single probability for this loss,
    best: f64,
    /// and of two banks for 0.5 and 10 %.
    fixed: f64,
    /// The error that was made, as part of the one to expect.
    made: f64,
}

impl Errors {
    fn ratio(&self, of: f64) -> f64 {
        (of / self.best).sqrt()
    }
}

/// Ten epochs of each of these losses, in parts of a thousand; errors from the fourth of each on.
fn steps(losses: [u64; 3], seed: u64, errors: &mut [Errors; 3]) {
    let bank = |rows: u32, per_mille: u64, alpha| {
        Bank::for_losses(rows, PACKETS as u64 * per_mille / 1_000, alpha)
    };
    let fixed = [100, 5].map(|loss| bank(ROWS / 2, loss, 0.75));
    let fixed = LdaLayout::new(&fixed).unwrap();
    let mut bench = bench(seed);
    bench.establish();
    bench.epoch();
    let mut expected = HashMap::new();
    for (step, loss) in losses.into_iter().chain([0]).enumerate() {
        bench.traffic.loss = loss as f64 / 1e3;
        let best = LdaLayout::new(&[bank(ROWS, loss, 1.0)]).unwrap();
        for turn in 0..10 {
            let epoch = bench.epoch;
            bench.epoch();
            if step < 3 && turn >= 3 {
                let others = [&best, &fixed].map(|layout| error(samples(layout, &bench.sent)));
                expected.insert(epoch, (step, others, stddev_ns(&bench.sent)));
            }
            let latest = bench.switches[1].status().receiving[0].latest;
            let Some(measured) = latest else { continue };
            let Some((step, [best, fixed], stddev_ns)) = expected.remove(&measured.epoch) else {
                continue;
            };
            assert_eq!(measured.fate, EpochFate::Usable);
            let (outcome, truth) = (measured.outcome.unwrap(), bench.truth_of(measured.epoch));
            let adaptive = error((outcome.lda.effective_samples as f64, truth.received as f64));
            let made = (outcome.lda_mean.unwrap().mean_ns - truth.mean_ns) / stddev_ns;
            let all = &mut errors[step];
            all.epochs += 1.0;
            all.adaptive += adaptive.powi(2);
            all.best += best.powi(2);
            all.fixed += fixed.powi(2);
            all.made += (made / adaptive).powi(2);
        }
    }
    assert!(expected.is_empty(), "epochs that were not measured");
}

#[test]
fn three_epochs_after_losses_change_the_error_is_near_that_of_the_best_probability() {
    let mut errors = [Errors::default(); 3];
    let losses = [1, 100, 10];
    for seed in 0..12 {
        steps(losses, seed, &mut errors);
    }
    let (mut made, mut epochs) = (0.0, 0.0);
    for (loss, errors) in losses.iter().zip(&errors) {
        let (adaptive, fixed) = (errors.ratio(errors.adaptive), errors.ratio(errors.fixed));
        println!("{loss}/1000: adaptive {adaptive:.3}, fixed {fixed:.3} of the best");
        assert!(adaptive <= 1.15, "{loss}/1000: {adaptive}");
        assert!(fixed >= 1.25 * adaptive, "{loss}/1000: {fixed}");
        made += errors.made;
        epochs += errors.epochs;
    }
    // The actual errors equal the expected errors of this number of samples.
    let made = (made / epochs).sqrt();
    assert!((0.88..=1.12).contains(&made), "{made} over {epochs} epochs");
}

#[test]
fn what_is_announced_is_what_is_shown() {
    let mut bench = bench(1);
    bench.establish();
    let first = bench.switches[0].exchange.machine.lda();
    assert_eq!(
        first,
        (
            &bench.switches[0].exchange.machine.settings().layout.lda,
            Some(75.0)
        )
    );
    bench.traffic.loss = 0.05;
    for _ in 0..6 {
        bench.epoch();
    }
    let (lda, losses) = bench.switches[0].exchange.machine.lda();
    assert!((600.0..900.0).contains(&losses.unwrap()), "{losses:?}");
    let shares: Vec<f64> = lda.banks().map(|bank| bank.probability).collect();
    assert!((shares[2] - 104.0 / 750.0).abs() < 0.03, "{shares:?}");
    // Without reports, the sender has no losses to follow.
    let (other, losses) = bench.switches[1].exchange.machine.lda();
    assert_eq!(
        (other, losses),
        (
            &bench.switches[1].exchange.machine.settings().layout.lda,
            Some(75.0)
        )
    );
}

#[test]
fn a_fault_and_a_new_session_keep_what_is_known_of_the_path() {
    let mut bench = bench(2);
    bench.traffic.loss = 0.05;
    bench.establish();
    for _ in 0..6 {
        bench.epoch();
    }
    let (before, _) = bench.switches[0].exchange.machine.lda();
    let before = before.clone();
    bench.switches[0].exchange.start_anew();
    bench.epoch();
    assert_eq!(bench.switches[0].exchange.machine.lda().0, &before);
    // Until there is a session again.
    for _ in 0..14 {
        bench.epoch();
    }
    bench.steps(30);
    assert!(bench.switches[0].status().counters.sessions >= 2);
    let (_, losses) = bench.switches[0].exchange.machine.lda();
    assert!((600.0..900.0).contains(&losses.unwrap()), "{losses:?}");
    let seen = latest(&bench);
    assert_true(&seen);
    assert!(seen.0.outcome.unwrap().lda.effective_samples > 500);
}
