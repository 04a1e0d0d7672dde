//! The lists that come in, checked, and where each flow is in the sketch.

use super::{COMPONENTS_MAX, DecodeError, DecodeOptions, FEATURES_MAX, FlowTable, KnownMeans};
use crate::lds::{DelayCells, LdsLayout};

/// Most edges: at 32 bytes each, 4 GiB.
const EDGES_MAX: usize = 1 << 27;
/// Fewer packets than this are none.
const PACKETS_MIN: f64 = 1e-6;
/// More packets than a cell can count are that many.
const PACKETS_MAX: f64 = u64::MAX as f64;

/// Flows over a sketch, known to fit it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape<'a> {
    /// The sketch.
    pub cells: &'a DelayCells,
    /// The lists.
    pub table: FlowTable<'a>,
    /// How many flows.
    pub flows: usize,
}

impl<'a> Shape<'a> {
    /// Checks all lists.
    pub fn new(
        cells: &'a DelayCells,
        table: FlowTable<'a>,
        options: &DecodeOptions,
    ) -> Result<Self, DecodeError> {
        let layout = cells.layout();
        let rows = layout.rows();
        let flows = table.columns.len() / rows.max(1);
        let shape = Self {
            cells,
            table,
            flows,
        };
        if !(1..=COMPONENTS_MAX).contains(&options.components) {
            return Err(DecodeError::Components {
                components: options.components,
            });
        }
        let features = table.features_per_flow + usize::from(table.known.is_some());
        if features > FEATURES_MAX {
            return Err(DecodeError::Features { features });
        }
        if flows * rows != table.columns.len() {
            return Err(DecodeError::Columns {
                found: table.columns.len(),
                rows,
            });
        }
        if flows.saturating_mul(shape.degree()) > EDGES_MAX {
            return Err(DecodeError::TooLarge {
                flows,
                cells: shape.degree(),
            });
        }
        shape.check_lengths()?;
        shape.check_values()?;
        Ok(shape)
    }

    fn check_lengths(&self) -> Result<(), DecodeError> {
        let table = &self.table;
        let features = Some(table.features.len());
        let known = |list: fn(&KnownMeans<'a>) -> usize| table.known.as_ref().map(list);
        let lists = [
            ("packets", table.packets.map(<[f64]>::len), 1),
            ("weights", table.weights.map(<[f64]>::len), 1),
            ("features", features, table.features_per_flow),
            ("known means", known(|known| known.mean_ticks.len()), 1),
            ("their errors", known(|known| known.error_ticks2.len()), 1),
            (
                "their packets",
                known(|known| known.packets_ticks2.len()),
                1,
            ),
        ];
        for (list, found, each) in lists {
            let needed = self.flows * each;
            if let Some(found) = found.filter(|&found| found != needed) {
                return Err(DecodeError::Length {
                    list,
                    found,
                    flows: self.flows,
                    needed,
                });
            }
        }
        Ok(())
    }

    fn check_values(&self) -> Result<(), DecodeError> {
        let layout = self.layout();
        let columns = layout.columns();
        if let Some(index) = self.table.columns.iter().position(|&c| c >= columns) {
            return Err(DecodeError::Column {
                flow: index / layout.rows(),
                row: index % layout.rows(),
                column: self.table.columns[index],
                columns,
            });
        }
        let wrong = |list: Option<&[f64]>, is_wrong: fn(&f64) -> bool| {
            list.and_then(|list| list.iter().position(is_wrong))
        };
        if let Some(flow) = wrong(self.table.packets, |n| n.is_infinite() || *n < 0.0) {
            return Err(DecodeError::Packets { flow });
        }
        let not_positive = |w: &f64| !(w.is_finite() && *w > 0.0);
        if let Some(flow) = wrong(self.table.weights, not_positive) {
            return Err(DecodeError::Weight { flow });
        }
        Ok(())
    }

    /// The sketch's layout.
    pub fn layout(&self) -> &'a LdsLayout {
        self.cells.layout()
    }

    /// Cells of a flow: R k.
    pub fn degree(&self) -> usize {
        let layout = self.layout();
        layout
            .rows()
            .saturating_mul(layout.virtual_cells() as usize)
    }

    /// Rows in which a flow has one cell that takes all of its packets.
    pub fn is_plain(&self, row: usize) -> bool {
        self.layout().virtual_cells() == 1 && self.layout().takes_all(row)
    }

    /// Base columns of a flow, one a row.
    pub fn base_columns(&self, flow: usize) -> &'a [u32] {
        let rows = self.layout().rows();
        &self.table.columns[flow * rows..][..rows]
    }

    /// All cells of a flow, offset by offset: row and index.
    pub fn cells_of(&self, flow: usize) -> impl Iterator<Item = (usize, usize)> + use<'a> {
        let columns = self.layout().columns() as usize;
        let virtual_cells = self.layout().virtual_cells() as usize;
        let base = self.base_columns(flow).iter().enumerate();
        (0..virtual_cells).flat_map(move |offset| {
            base.clone().map(move |(row, &base)| {
                let column = base as usize + offset;
                // k is at most C, so that one subtraction is enough.
                let column = if column < columns {
                    column
                } else {
                    column - columns
                };
                (row, row * columns + column)
            })
        })
    }

    /// Share of a flow's packets that one of its cells in the row takes: `p_r` / k.
    pub fn share(&self, row: usize) -> f64 {
        self.layout().row_probability(row) / f64::from(self.layout().virtual_cells())
    }

    /// `w_f`.
    pub fn weight(&self, flow: usize) -> f64 {
        self.table.weights.map_or(1.0, |weights| weights[flow])
    }

    /// `n_f` as given; `None` where not known.
    pub fn packets(&self, flow: usize) -> Option<f64> {
        let packets = self.table.packets?[flow];
        (!packets.is_nan()).then(|| bounded(packets))
    }
}

/// A count of packets that sums and squares can bear.
pub(super) fn bounded(packets: f64) -> f64 {
    if packets < PACKETS_MIN {
        0.0
    } else {
        packets.min(PACKETS_MAX)
    }
}

/// Flows in decoding order, the largest first, equals as they came.
pub(super) fn falling(sizes: &[f64]) -> Vec<u32> {
    let mut keyed: Vec<(u64, u32)> = (0_u32..)
        .zip(sizes)
        // Positive numbers sort as their bits do.
        .map(|(flow, &size)| (!size.to_bits(), flow))
        .collect();
    keyed.sort_unstable();
    keyed.into_iter().map(|(_, flow)| flow).collect()
}
