//! Cells that take parts of flows: virtual LDAs and sampled rows, with packets lost.

use std::f64::consts::TAU;

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, Normal};
use rand_pcg::Pcg64;

use super::median;
use crate::lds::{
    DecodeOptions, Decoded, DelayCell, DelayCells, FlowTable, KnownMean, LdsLayout, Source, decode,
};

const VIRTUAL_CELLS: u32 = 5;

/// Flows whose packets wait in one queue that fills and empties, and the references' means.
struct Queue {
    cells: DelayCells,
    columns: Vec<u32>,
    packets: Vec<f64>,
    means: Vec<f64>,
    known: Vec<KnownMean>,
}

impl Queue {
    fn new(seed: u64, (flows, columns): (usize, u32), rows: &[f64], loss: f64) -> Self {
        let mut rng = Pcg64::seed_from_u64(seed);
        let layout = LdsLayout::new(columns, VIRTUAL_CELLS, rows).unwrap();
        let mut cells = vec![
            DelayCell {
                usable: true,
                ..DelayCell::default()
            };
            layout.cells()
        ];
        let noise = Normal::new(0.0, 30_000.0).unwrap();
        let phase: f64 = rng.random();
        let mut queue = Self {
            cells: DelayCells::new(layout.clone(), cells.clone()).unwrap(),
            columns: Vec::new(),
            packets: Vec::new(),
            means: Vec::new(),
            known: Vec::new(),
        };
        for flow in 0..flows {
            // Shares by Zipf's law.
            let sent = 1 + 1_000 / (flow + 1);
            let base: Vec<u32> = rows.iter().map(|_| rng.random_range(0..columns)).collect();
            let (mut received, mut sum, mut curve) = (0.0, 0.0, Vec::new());
            // Flows begin and end.
            let (start, length): (f64, f64) = (rng.random(), rng.random());
            for _ in 0..sent {
                let time = start + length * rng.random::<f64>();
                let waits = 1e6 * (1.5 + (TAU * (time + phase)).sin());
                let own: f64 = Exp1.sample(&mut rng);
                let delay = (waits + 2e5 * own).round();
                let (place, sampled) = (rng.random_range(0..VIRTUAL_CELLS), rng.random::<f64>());
                let arrives = rng.random::<f64>() >= loss;
                for (row, (&base, &probability)) in base.iter().zip(rows).enumerate() {
                    if sampled < probability {
                        let cell = layout.cell_at(row, base, place).unwrap();
                        add(&mut cells[cell], delay, arrives);
                    }
                }
                if arrives {
                    (received, sum) = (received + 1.0, sum + delay);
                    curve.push(waits + 2e5);
                }
            }
            if received == 0.0 {
                continue;
            }
            let mean = curve.iter().sum::<f64>() / received;
            let squares: f64 = curve.iter().map(|waits| (waits - mean).powi(2)).sum();
            queue.columns.extend(base);
            queue.packets.push(received);
            queue.means.push(sum / received);
            queue.known.push(KnownMean {
                mean_ticks: mean + noise.sample(&mut rng),
                error_ticks2: 30_000_f64.powi(2) + 2e5_f64.powi(2) / received,
                packets_ticks2: squares / received,
            });
        }
        for cell in &mut cells {
            (cell.count, cell.delay_sum) = if cell.usable {
                (cell.received, cell.delay_sum)
            } else {
                (0, 0)
            };
        }
        queue.cells = DelayCells::new(layout, cells).unwrap();
        queue
    }

    fn decode(&self, with_known: bool) -> Decoded {
        let table = FlowTable {
            columns: &self.columns,
            packets: Some(&self.packets),
            weights: None,
            features: &[],
            features_per_flow: 0,
            known: with_known.then_some(&self.known),
        };
        decode(&self.cells, table, &DecodeOptions::default(), || false).unwrap()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "some seconds")]
fn add(cell: &mut DelayCell, delay: f64, arrives: bool) {
    cell.sent += 1;
    if arrives {
        cell.received += 1;
        cell.delay_sum += delay as i64;
    } else {
        cell.usable = false;
    }
}

/// Relative errors, and how many lie within three deviations.
#[derive(Default)]
struct Errors {
    errors: Vec<f64>,
    within: usize,
}

impl Errors {
    fn add(&mut self, mean: f64, estimate: f64, bound: f64) {
        self.errors.push((estimate / mean - 1.0).abs());
        self.within += usize::from((estimate - mean).abs() <= bound);
    }

    fn coverage(&self) -> f64 {
        self.within as f64 / self.errors.len() as f64
    }
}

#[test]
fn losses_make_it_doubt_and_known_means_help() {
    for loss in [0.0, 0.05, 0.2] {
        for large in [false, true] {
            let (mut joint, mut hybrid) = (Errors::default(), Errors::default());
            let mut known = Vec::new();
            for seed in 0..40 {
                let queue = Queue::new(seed, (150, 127), &[0.01, 0.1, 0.5, 1.0], loss);
                let (alone, both) = (queue.decode(false), queue.decode(true));
                for flow in 0..queue.packets.len() {
                    let packets = queue.packets[flow];
                    let spoken = alone.flows[flow].source == Source::Joint;
                    if packets < 10.0 || (packets >= 100.0) != large || !spoken {
                        continue;
                    }
                    let mean = queue.means[flow];
                    for (errors, decoded) in [(&mut joint, &alone), (&mut hybrid, &both)] {
                        let flow = &decoded.flows[flow];
                        errors.add(mean, flow.mean_ticks, 3.0 * flow.variance_ticks2.sqrt());
                    }
                    known.push((queue.known[flow].mean_ticks / mean - 1.0).abs());
                }
            }
            let what = format!("loss {loss}, large {large}, {} flows", known.len());
            let covered = (joint.coverage(), hybrid.coverage());
            assert!(covered.0 > 0.98 && covered.1 > 0.98, "{what}: {covered:?}");
            let known = median(known);
            let (joint, hybrid) = (median(joint.errors), median(hybrid.errors));
            // If losses leave few cells of large flows, their estimates make it worse.
            let limit = if large && loss > 0.0 { 1.4 } else { 1.1 };
            assert!(
                hybrid <= limit * known.min(joint),
                "{what}: {hybrid} {known} {joint}"
            );
        }
    }
}

#[test]
fn all_parts_together_are_the_flow() {
    let queue = Queue::new(1, (3, 4_000), &[1.0, 1.0], 0.0);
    let decoded = queue.decode(false);
    for (index, flow) in decoded.flows.iter().enumerate() {
        let mean = queue.means[index];
        let error = (flow.mean_ticks / mean - 1.0).abs();
        assert!(error < 5e-3, "{flow:?} {mean}");
        // A sample of as many packets would be off by this.
        let sampled = (queue.known[index].packets_ticks2 + 2e5_f64.powi(2)) / queue.packets[index];
        assert!(flow.variance_ticks2 < 0.2 * sampled, "{flow:?} {sampled}");
    }
}

#[test]
fn where_hardly_a_cell_is_usable_it_knows_no_error() {
    let mut queue = Queue::new(1, (20, 127), &[1.0], 0.0);
    let mut cells = queue.cells.cells().to_vec();
    let filled = cells.iter().position(|cell| cell.count > 0).unwrap();
    for cell in &mut cells[filled + 1..] {
        *cell = DelayCell {
            sent: cell.sent + 1,
            received: cell.received,
            ..DelayCell::default()
        };
    }
    queue.cells = DelayCells::new(queue.cells.layout().clone(), cells).unwrap();
    let decoded = queue.decode(false);
    assert!(
        decoded
            .flows
            .iter()
            .all(|flow| flow.variance_ticks2.is_infinite())
    );
}
