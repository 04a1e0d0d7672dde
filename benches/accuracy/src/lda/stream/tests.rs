use super::*;
use measure::lda::Bank;

fn layout() -> LdaLayout {
    LdaLayout::new(&[Bank {
        rows: 256,
        probability: 1.0,
    }])
    .unwrap()
}

#[test]
fn delays_have_the_mean_of_the_paper() {
    for (delays, slack) in [
        (Delays::Weibull, 0.02),
        (Delays::Pareto, 0.02),
        (Delays::Queue, 0.1),
    ] {
        let stream = Stream::draw(delays, 200_000, 1).unwrap();
        let passed = stream.with(Loss::Uniform(0.0), 0);
        assert!((passed.mean / MEAN_TICKS - 1.0).abs() < slack, "{delays:?}");
    }
}

#[test]
fn both_kinds_of_loss_take_their_share() {
    let stream = Stream::draw(Delays::Weibull, 400_000, 2).unwrap();
    for loss in [Loss::Uniform(0.02), Loss::Episodes(0.02)] {
        let passed = stream.with(loss, 3);
        let lost = 1.0 - passed.received as f64 / 400_000.0;
        assert!((lost - 0.02).abs() < 0.006, "{loss:?}: {lost}");
    }
}

#[test]
fn without_loss_the_mean_is_exact() {
    let stream = Stream::draw(Delays::Weibull, 20_000, 4).unwrap();
    let outcome = stream.with(Loss::Uniform(0.0), 0).lda(&layout(), 5);
    assert!(outcome.mean_error < 1e-9, "{outcome:?}");
    assert!(outcome.covered, "{outcome:?}");
    assert!((outcome.samples - 20_000.0).abs() < 0.5);
}

#[test]
fn queued_packets_wait_alike() {
    let passed = Stream::draw(Delays::Queue, 100_000, 6)
        .unwrap()
        .with(Loss::Uniform(0.0), 0);
    let centred: Vec<f64> = passed
        .delays
        .iter()
        .map(|&delay| f64::from(delay) - passed.mean)
        .collect();
    let lagged: f64 = centred.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let correlation = lagged / 100_000.0 / passed.stddev.powi(2);
    assert!(correlation > 0.9, "{correlation}");
}

#[test]
fn probes_that_meet_every_packet_know_the_mean() {
    let passed = Stream::draw(Delays::Weibull, 50_000, 7)
        .unwrap()
        .with(Loss::Uniform(0.01), 8);
    let seen = passed.probes(50_000.0, 9).mean();
    assert!((seen / passed.mean - 1.0).abs() < 0.05, "{seen}");
}
