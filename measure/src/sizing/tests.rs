use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Weibull};
use rand_pcg::Pcg64;

use super::lds::Shape;
use super::*;
use crate::lda::LdaPair;
use crate::observation::tests::observation_with_delay;
use crate::observation::{End, Observation};
use crate::packet::PacketHash;

/// Deviation over mean of a Weibull of shape 0.6.
const WEIBULL_CV: f64 = 1.758;

fn lda() -> LdaDemand {
    LdaDemand {
        packets_per_s: 20_000.0,
        epoch_s: 1.0,
        loss: 0.01,
        worst_loss: 0.01,
        delay_cv: WEIBULL_CV,
        alpha: 1.0,
    }
}

fn lds() -> LdsDemand {
    LdsDemand {
        flows: 20_000,
        sizes: FlowSizes::pareto(1.0, 1.1, 1e5).unwrap(),
        packets_per_s: 1e5,
        epoch_s: 1.0,
        loss: 0.0,
        flow_packets: 1_000.0,
        delay_spread: 0.5,
        delay_cv: 0.5,
        miss_share: 0.05,
    }
}

/// Means over epochs of the packets in usable cells and of the relative error of the mean, with
/// a share `loss` of packets lost.
fn simulate(plan: &LdaPlan, demand: &LdaDemand, loss: f64, epochs: u64) -> (f64, f64) {
    let layout = plan.layout().unwrap();
    let delays = Weibull::new(100.0, 0.6).unwrap();
    let (mut samples, mut error) = (0.0, 0.0);
    for seed in 0..epochs {
        let mut rng = Pcg64::seed_from_u64(seed);
        let mut lda = LdaPair::new(&layout);
        let (mut received, mut sum) = (0_u64, 0.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "counts and delays"
        )]
        for _ in 0..demand.packets_per_s as u64 {
            let sent = Observation {
                packet: PacketHash(rng.random()),
                ..observation_with_delay(0)
            };
            lda.record(End::Sender, &[sent]);
            let time = (delays.sample(&mut rng) * 1_000.0) as u64;
            if !rng.random_bool(loss) {
                lda.record(End::Receiver, &[Observation { time, ..sent }]);
                received += 1;
                sum += time as f64;
            }
        }
        let estimate = lda.estimate(received);
        let truth = sum / received as f64;
        samples += estimate.effective_samples as f64;
        error += (estimate.mean_ticks.unwrap() - truth).abs() / truth;
    }
    (samples / epochs as f64, error / epochs as f64)
}

#[test]
fn an_lda_does_what_its_plan_says() {
    let two_banks = LdaDemand {
        worst_loss: 0.1,
        alpha: 0.75,
        ..lda()
    };
    for (demand, bytes) in [(lda(), 2_048), (lda(), 8_192), (two_banks, 4_096)] {
        let plan = LdaPlan::for_memory(&demand, bytes).unwrap();
        for (loss, forecast) in [(demand.loss, plan.usual), (demand.worst_loss, plan.worst)] {
            let (samples, error) = simulate(&plan, &demand, loss, 60);
            let LdaForecast {
                effective_samples,
                mean_error,
                ..
            } = forecast;
            println!("{samples:.0} of {effective_samples:.0}, {error:.4} of {mean_error:.4}");
            assert!((samples / effective_samples - 1.0).abs() < 0.05);
            assert!((error / mean_error - 1.0).abs() < 0.35);
        }
    }
}

/// The accepted error of an LDA, by formula.
#[test]
fn the_reference_lda_is_forecast() {
    let demand = LdaDemand {
        packets_per_s: 5e6,
        loss: 0.001,
        worst_loss: 0.001,
        ..lda()
    };
    let plan = LdaPlan::for_memory(&demand, 1024 * 16).unwrap();
    assert_eq!((plan.rows(), plan.wire_bytes), (1024, 16_384));
    // p R / e.
    let by_hand = 1024.0 / 5_001.0 * plan.usual.received / std::f64::consts::E;
    assert!((plan.usual.effective_samples / by_hand - 1.0).abs() < 0.001);
    assert!(plan.usual.mean_error < 0.003, "{:?}", plan.usual);
    let lossy = LdaDemand {
        loss: 0.2,
        worst_loss: 0.2,
        ..demand
    };
    let lossy = LdaPlan::for_memory(&lossy, 1024 * 16).unwrap();
    assert!(lossy.usual.mean_error < 0.05, "{:?}", lossy.usual);
}

#[test]
fn the_smallest_lda_for_an_error_is_found() {
    for demand in [
        lda(),
        LdaDemand {
            worst_loss: 0.2,
            ..lda()
        },
    ] {
        let plan = LdaPlan::for_error(&demand, 0.02).unwrap();
        assert!(plan.usual.mean_error <= 0.02);
        assert!(plan.rows().is_multiple_of(2) && plan.layout().is_ok());
        let less = LdaPlan::for_memory(&demand, plan.memory_bytes - 32).unwrap();
        assert!(less.usual.mean_error > 0.02);
    }
    let few = LdaDemand {
        packets_per_s: 100.0,
        loss: 0.5,
        worst_loss: 0.5,
        ..lda()
    };
    let error = LdaPlan::for_error(&few, 1e-6).unwrap_err();
    assert!(
        matches!(error, SizingError::OutOfReach { best, .. } if best > 1e-6),
        "{error}"
    );
}

#[test]
fn numbers_out_of_range_are_named() {
    type Spoil = fn(&mut LdaDemand);
    let spoils: [(Spoil, &str); 7] = [
        (|d| d.packets_per_s = f64::NAN, "packets a second"),
        (|d| d.epoch_s = -1.0, "the epoch in seconds"),
        (|d| d.epoch_s = 1e-9, "packets in an epoch"),
        (|d| d.loss = 1.0, "the share of packets lost"),
        (|d| d.worst_loss = 0.0, "at the worst"),
        (|d| d.delay_cv = f64::INFINITY, "the deviation"),
        (|d| d.alpha = 0.0, "alpha"),
    ];
    for (spoil, what) in spoils {
        let mut demand = lda();
        spoil(&mut demand);
        let error = LdaPlan::for_error(&demand, 0.01).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
        assert!(error.contains("give it"), "{error}");
    }
    assert!(LdaPlan::for_error(&lda(), 0.0).is_err());
    let tiny = LdaPlan::for_memory(&lda(), 15).unwrap_err();
    let expected = SizingError::MemoryTooSmall {
        memory_bytes: 15,
        least_bytes: 16,
    };
    assert_eq!(tiny, expected);
    assert!(FlowSizes::pareto(1.0, f64::NAN, 2.0).is_err());
    assert!(FlowSizes::pareto(2.0, 1.0, 1.0).is_err());
}

#[test]
fn an_lds_plan_keeps_its_error() {
    for loss in [0.0, 0.002] {
        let demand = LdsDemand { loss, ..lds() };
        let plan = LdsPlan::for_error(&demand, 0.05).unwrap();
        println!("{plan:?}");
        assert!(plan.miss_share <= demand.miss_share);
        assert_eq!(plan.cells(), u64::from(plan.columns) * plan.rows() as u64);
        assert_eq!(
            plan.virtual_cells > 1,
            loss > 0.0,
            "virtual cells are for losses only"
        );
    }
}

#[test]
fn an_lds_that_cannot_be_is_refused_with_advice() {
    let easy = LdsPlan::for_error(&lds(), 0.6).unwrap_err();
    let expected = SizingError::MeanSuffices {
        target: 0.6,
        spread: 0.5,
    };
    assert_eq!(easy, expected);
    let lossy = LdsDemand {
        loss: 0.9,
        flow_packets: 10.0,
        delay_cv: 2.0,
        ..lds()
    };
    let error = LdsPlan::for_error(&lossy, 0.001).unwrap_err();
    assert!(matches!(error, SizingError::OutOfReach { .. }), "{error}");
    let none = LdsDemand { flows: 0, ..lds() };
    assert!(matches!(
        LdsPlan::for_error(&none, 0.1),
        Err(SizingError::Argument(_))
    ));
}

#[test]
fn pareto_sizes_are_those_that_are_drawn() {
    const FLOWS: usize = 100_000;
    for shape in [0.8, 1.0, 1.5] {
        let formula = FlowSizes::pareto(1e6, shape, 1e9).unwrap();
        let mut rng = Pcg64::seed_from_u64(3);
        let size = |_| ((1.0 - rng.random::<f64>()).powf(-1.0 / shape) * 1e6).min(1e9);
        let mut drawn: Vec<f64> = (0..FLOWS).map(size).collect();
        drawn.sort_by(f64::total_cmp);
        let up_to = |packets: f64| &drawn[..drawn.partition_point(|&size| size <= packets)];
        let share_over = |packets| 1.0 - up_to(packets).len() as f64 / FLOWS as f64;
        let mean_up_to = |packets| up_to(packets).iter().sum::<f64>() / FLOWS as f64;
        for packets in [5e5, 2e6, 1e7, 1e8] {
            let (left, right) = (formula.share_over(packets), share_over(packets));
            assert!(
                (left - right).abs() < 0.05 * right + 0.001,
                "{left}, {right}"
            );
            let (left, right) = (formula.mean_up_to(packets), mean_up_to(packets));
            assert!((left - right).abs() <= 0.05 * right, "{left}, {right}");
        }
        let (left, right) = (formula.mean_up_to(1e10), mean_up_to(1e10));
        assert!((left / right - 1.0).abs() < 0.1, "{left}, {right}");
        let (left, right) = (formula.attained_by(0.01), drawn[FLOWS - FLOWS / 100]);
        assert!((left / right - 1.0).abs() < 0.1, "{left}, {right}");
        assert!(formula.share_over(1e9) == 0.0);
    }
}

proptest! {
    #[test]
    fn more_memory_is_no_more_error(
        rate in 10.0..1e7_f64,
        loss in 0.0..0.5_f64,
        worse in 1.0..1.9_f64,
        alpha in 0.01..=1.0_f64,
        bytes in 128_u64..1 << 20,
    ) {
        let demand = LdaDemand {
            packets_per_s: rate,
            loss,
            worst_loss: loss * worse,
            alpha,
            ..lda()
        };
        let plan = LdaPlan::for_memory(&demand, bytes).unwrap();
        let more = LdaPlan::for_memory(&demand, bytes * 2).unwrap();
        prop_assert!(plan.layout().is_ok());
        prop_assert!(plan.memory_bytes <= bytes);
        prop_assert!(plan.usual.effective_samples <= plan.usual.received * (1.0 + 1e-9));
        prop_assert!(more.usual.mean_error <= plan.usual.mean_error * 1.01);
    }
}

fn demand() -> LdsDemand {
    LdsDemand {
        flows: 20_000,
        sizes: FlowSizes::pareto(1.0, 1.1, 1e5).unwrap(),
        packets_per_s: 1e6,
        epoch_s: 1.0,
        loss: 0.0,
        flow_packets: 2_000.0,
        delay_spread: 0.5,
        delay_cv: 0.0,
        miss_share: 0.02,
    }
}

fn pareto(rng: &mut Pcg64) -> f64 {
    let share: f64 = 1.0 - rng.random::<f64>();
    share.powf(-1.0 / 1.1).min(1e5)
}

/// Flows thrown into cells: share of flows of `packets` packets that find in none of their cells
/// at most `interfering / k` packets of others and no loss. A flow's packets are spread evenly
/// over its cells; own losses hit the same offset in every row that samples them.
fn simulated(
    demand: &LdsDemand,
    columns: usize,
    k: usize,
    rows: usize,
    interfering: f64,
    packets: f64,
) -> f64 {
    let mut rng = Pcg64::seed_from_u64(11);
    let (mut missed, mut probes) = (0_u32, 0_u32);
    for _ in 0..12 {
        let flows: Vec<f64> = (0..demand.flows - 1).map(|_| pareto(&mut rng)).collect();
        let sketch: Vec<Vec<(f64, f64)>> = (0..rows)
            .map(|_| {
                let mut cells = vec![(0.0, 0.0); columns];
                for &size in &flows {
                    let base = rng.random_range(0..columns);
                    for offset in 0..k {
                        let cell = &mut cells[(base + offset) % columns];
                        cell.0 += size / k as f64;
                        cell.1 += demand.loss * size / k as f64;
                    }
                }
                cells
            })
            .collect();
        for _ in 0..4_000 {
            let own: Vec<bool> = (0..k)
                .map(|_| rng.random_bool((-demand.loss * packets / k as f64).exp()))
                .collect();
            let is_good = sketch.iter().any(|cells| {
                let base = rng.random_range(0..columns);
                (0..k).any(|offset| {
                    let (packets, losses) = cells[(base + offset) % columns];
                    packets <= interfering / k as f64
                        && own[offset]
                        && rng.random_bool((-losses).exp())
                })
            });
            missed += u32::from(!is_good);
            probes += 1;
        }
    }
    f64::from(missed) / f64::from(probes)
}

/// The model compared with simulation, in tenths of the allowed deviation.
#[test]
fn large_collisions_are_as_many_as_the_model_says() {
    // Columns, k, rows, loss, packets of the flow.
    let cases = [
        (10_000, 1, 1, 0.0, 2_000.0),
        (2_000, 1, 2, 0.0, 2_000.0),
        (4_000, 5, 1, 0.0, 2_000.0),
        (10_000, 5, 1, 0.0, 2_000.0),
        (4_000, 5, 1, 0.001, 2_000.0),
        (4_000, 5, 3, 0.002, 2_000.0),
        (4_000, 3, 2, 0.001, 4_000.0),
    ];
    for (columns, k, rows, loss, packets) in cases {
        let demand = LdsDemand { loss, ..demand() };
        let shape = Shape {
            virtual_cells: k,
            row_probabilities: vec![1.0; rows],
        };
        let error = 0.05;
        let interfering = packets * 0.1 / 0.9;
        let model = shape.miss_share(&demand, columns, error, packets);
        let truth = simulated(
            &demand,
            usize::try_from(columns).unwrap(),
            k as usize,
            rows,
            interfering,
            packets,
        );
        println!("{columns} x {rows}, k {k}, loss {loss}: model {model:.4}, simulated {truth:.4}");
        assert!(
            (model - truth).abs() <= 0.2 * truth + 0.003,
            "{model}, {truth}"
        );
    }
}

#[test]
fn a_plan_is_the_smallest_of_its_shape() {
    for loss in [0.0, 0.002] {
        let demand = LdsDemand {
            packets_per_s: 1e5,
            flow_packets: 1_000.0,
            loss,
            delay_cv: 0.5,
            miss_share: 0.05,
            ..demand()
        };
        let cells = LdsPlan::for_error(&demand, 0.05).unwrap().cells();
        let (.., error) = LdsPlan::best(&demand, cells).unwrap();
        assert!(error <= 0.0501, "{error}");
        let (.., error) = LdsPlan::best(&demand, cells * 9 / 10).unwrap();
        assert!(error > 0.05, "{error}");
    }
}
