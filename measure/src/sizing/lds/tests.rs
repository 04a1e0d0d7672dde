use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;

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

/// The model beside simulation, in tenths of what may be missed.
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
