//! The same answer from a dense matrix: the best linear unbiased prediction.

use nalgebra::{DMatrix, DVector};

use super::synthetic::{Case, Truth};
use crate::lds::DecodeOptions;
use crate::lds::decode::system::{self, Shape};
use crate::lds::decode::{counts, prior, sweep};

/// The prior that decoding sets out from, in ticks.
struct Fitted {
    mean: f64,
    between_ticks2: f64,
    within_ticks2: f64,
}

fn fitted(truth: &Truth) -> Fitted {
    let shape = Shape::new(&truth.cells, truth.table(), &DecodeOptions::default()).unwrap();
    let packets = counts::packets(&shape, &mut || false).unwrap();
    let order = system::falling(&packets.counts);
    let system = system::delays(&shape, &packets, &order).system;
    let prior = sweep::spread(&prior::fit(&system), 1).components[0];
    Fitted {
        mean: system.scale.ticks(prior.beta[0]),
        between_ticks2: system.scale.ticks2(prior.between),
        within_ticks2: system.scale.ticks2(prior.within),
    }
}

/// Without noise in the cells, the prediction is the solution nearest to the prior, in the prior's
/// own units: x = mu + D^1/2 (A D^1/2)^+ (s - A mu).
fn blup(truth: &Truth, prior: &Fitted) -> Vec<f64> {
    let rows = truth.cells.layout().rows();
    let columns = truth.cells.layout().columns() as usize;
    let mean = prior.mean;
    let deviation = |packets: f64| (prior.between_ticks2 + prior.within_ticks2 / packets).sqrt();
    let mut matrix = DMatrix::<f64>::zeros(rows * columns, truth.packets.len());
    let mut rest = DVector::from_iterator(
        rows * columns,
        truth
            .cells
            .cells()
            .iter()
            .map(|cell| cell.delay_sum as f64 - cell.count as f64 * mean),
    );
    for (flow, &packets) in truth.packets.iter().enumerate() {
        for row in 0..rows {
            let cell = row * columns + truth.columns[flow * rows + row] as usize;
            matrix[(cell, flow)] = packets * deviation(packets);
        }
    }
    // Equations of one size each, so that one threshold fits all singular values.
    for cell in 0..rows * columns {
        let size = matrix.row(cell).norm();
        if size > 0.0 {
            matrix.row_mut(cell).scale_mut(size.recip());
            rest[cell] /= size;
        }
    }
    let svd = matrix.clone().svd(true, true);
    let mut solution = DVector::zeros(truth.packets.len());
    // Refined, since singular values span many orders of magnitude.
    for _ in 0..3 {
        solution += svd.solve(&(&rest - &matrix * &solution), 1e-11).unwrap();
    }
    let pairs = solution.iter().zip(&truth.packets);
    pairs
        .map(|(value, &packets)| mean + deviation(packets) * value)
        .collect()
}

#[test]
fn settled_sweeps_give_the_best_linear_prediction() {
    let (mut settled, mut cases) = (0, 0);
    for (load, flows) in [(0.5, 30), (1.0, 60), (2.0, 120)] {
        for seed in 0..20 {
            let truth = Truth::new(&Case {
                seed,
                flows,
                rows: 3,
                columns: 20,
                // The dense solution loses more digits than ours where sizes differ more.
                largest: 1_000.0,
                ..Case::default()
            });
            let decoded = truth.decode(&DecodeOptions {
                sweeps: 3_000,
                tolerance: 1e-15,
                components: 1,
            });
            cases += 1;
            assert!(decoded.flows.iter().all(|flow| flow.mean_ticks.is_finite()));
            if decoded.last_change > 1e-12 || decoded.fallback.is_some() {
                continue;
            }
            settled += 1;
            let expected = blup(&truth, &fitted(&truth));
            for (flow, expected) in decoded.flows.iter().zip(expected) {
                let error = (flow.mean_ticks / expected - 1.0).abs();
                assert!(error < 1e-9, "load {load}, seed {seed}: {error}");
            }
        }
    }
    assert!(settled * 10 >= cases * 8, "{settled} of {cases} settled");
}
