//! Joint decoding of 150,000 flows on one core.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use measure::lds::{DecodeOptions, DelayCell, DelayCells, FlowTable, LdsLayout, decode};
use measure::observation::SegmentIndex;
use measure::packet::FlowHash;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Normal, Pareto};
use rand_pcg::Pcg64;

const FLOWS: usize = 150_000;
/// Cells in all rows together.
const CELLS: u32 = 70_000;

/// Flows, and the sketch that saw them.
struct Load {
    cells: DelayCells,
    columns: Vec<u32>,
    packets: Vec<f64>,
}

impl Load {
    /// Heavy-tailed flows of two modes; what several cells share is split evenly between them.
    fn new(rows: u32, virtual_cells: u32) -> Self {
        let mut rng = Pcg64::seed_from_u64(1);
        let probabilities = vec![1.0; rows as usize];
        let layout = LdsLayout::new(CELLS / rows, virtual_cells, &probabilities)
            .unwrap_or_else(|error| unreachable!("sizes are within bounds: {error}"));
        let sizes = Pareto::new(1.0, 0.8).unwrap_or_else(|error| unreachable!("{error}"));
        let noise = Normal::new(0.0, 8_000.0).unwrap_or_else(|error| unreachable!("{error}"));
        let empty = DelayCell {
            usable: true,
            ..DelayCell::default()
        };
        let mut cells = vec![empty; layout.cells()];
        let (mut columns, mut packets) = (Vec::new(), Vec::new());
        for flow in 0..FLOWS {
            let size: f64 = sizes.sample(&mut rng);
            let per_cell = (size.min(400_000.0) / f64::from(virtual_cells)).ceil();
            let mode = if flow % 5 < 3 { 100_000.0 } else { 160_000.0 };
            let mean: f64 = mode + noise.sample(&mut rng);
            let base = layout.base_columns(FlowHash(rng.random()), SegmentIndex(0));
            for (row, &column) in base.iter().take(rows as usize).enumerate() {
                columns.push(column);
                for place in 0..virtual_cells {
                    let column = (column + place) % layout.columns();
                    let cell = &mut cells[row * layout.columns() as usize + column as usize];
                    cell.count += whole(per_cell).unsigned_abs();
                    cell.delay_sum += whole(per_cell * mean);
                }
            }
            packets.push(per_cell * f64::from(virtual_cells));
        }
        for cell in &mut cells {
            (cell.sent, cell.received) = (cell.count, cell.count);
        }
        let cells = DelayCells::new(layout, cells)
            .unwrap_or_else(|error| unreachable!("as many cells as the layout has: {error}"));
        Self {
            cells,
            columns,
            packets,
        }
    }

    fn table(&self) -> FlowTable<'_> {
        FlowTable {
            columns: &self.columns,
            packets: Some(&self.packets),
            weights: None,
            features: &[],
            features_per_flow: 0,
            known: None,
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "far under 2^63")]
fn whole(figure: f64) -> i64 {
    figure as i64
}

fn decoding(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode 150,000 flows, 70,000 cells");
    group.sample_size(10);
    let cases = [
        ("R = 3, K = 1", 3, 1, 1, 10),
        ("R = 4, K = 1", 4, 1, 1, 10),
        ("R = 4, K = 2", 4, 1, 2, 12),
        ("R = 4, k = 5, K = 1", 4, 5, 1, 10),
    ];
    for (name, rows, virtual_cells, components, sweeps) in cases {
        let load = Load::new(rows, virtual_cells);
        let options = DecodeOptions {
            components,
            sweeps,
            ..DecodeOptions::default()
        };
        group.bench_function(name, |bencher| {
            bencher.iter(|| decode(&load.cells, black_box(load.table()), &options, || false));
        });
    }
    let load = Load::new(4, 1);
    let unknown = FlowTable {
        packets: None,
        ..load.table()
    };
    group.bench_function("R = 4, K = 1, packets decoded first", |bencher| {
        let options = DecodeOptions::default();
        bencher.iter(|| decode(&load.cells, black_box(unknown), &options, || false));
    });
    group.finish();
}

criterion_group!(benches, decoding);
criterion_main!(benches);
