//! The lists that come in, checked, and where each flow is in the sketch.

use super::{COMPONENTS_MAX, DecodeOptions, FEATURES_MAX, FlowTable, KnownMeans};
use crate::argument::{InvalidArgument, ensure};
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
    ) -> Result<Self, InvalidArgument> {
        let rows = cells.layout().rows();
        let shape = Self {
            cells,
            table,
            flows: table.columns.len() / rows.max(1),
        };
        let (components, flows, degree) = (options.components, shape.flows, shape.degree());
        ensure((1..=COMPONENTS_MAX).contains(&components), || {
            format!("{components} components asked for; choose 1 to {COMPONENTS_MAX}")
        })?;
        let features = table.features_per_flow + usize::from(table.known.is_some());
        ensure(features <= FEATURES_MAX, || {
            format!("{features} features a flow; at most {FEATURES_MAX} can be used")
        })?;
        let found = table.columns.len();
        ensure(flows * rows == found, || {
            format!("columns: {found} entries are no multiple of the sketch's {rows} rows")
        })?;
        ensure(flows.saturating_mul(degree) <= EDGES_MAX, || {
            format!("{flows} flows of {degree} cells each are too many to decode at once")
        })?;
        shape.check_lengths()?;
        shape.check_values()?;
        Ok(shape)
    }

    fn check_lengths(&self) -> Result<(), InvalidArgument> {
        let Self { table, flows, .. } = self;
        let known = |list: fn(&KnownMeans<'a>) -> usize| table.known.as_ref().map(list);
        let each = table.features_per_flow;
        for (list, found, needed) in [
            ("packets", table.packets.map(<[f64]>::len), *flows),
            ("weights", table.weights.map(<[f64]>::len), *flows),
            ("features", Some(table.features.len()), flows * each),
            ("known means", known(|known| known.mean_ticks.len()), *flows),
            (
                "their errors",
                known(|known| known.error_ticks2.len()),
                *flows,
            ),
            (
                "their packets",
                known(|known| known.packets_ticks2.len()),
                *flows,
            ),
        ] {
            let found = found.unwrap_or(needed);
            ensure(found == needed, || {
                format!("{list}: {found} entries, but {flows} flows need {needed}")
            })?;
        }
        Ok(())
    }

    fn check_values(&self) -> Result<(), InvalidArgument> {
        let (rows, columns) = (self.layout().rows(), self.layout().columns());
        for (index, &column) in self.table.columns.iter().enumerate() {
            ensure(column < columns, || {
                let (flow, row) = (index / rows, index % rows);
                format!(
                    "flow {flow}, row {row}: column {column} is not below {columns}; use this layout's own"
                )
            })?;
        }
        for (flow, packets) in self.table.packets.into_iter().flatten().enumerate() {
            ensure(!packets.is_infinite() && !(*packets < 0.0), || {
                format!(
                    "flow {flow}: packets must be finite and not negative (NaN where not known)"
                )
            })?;
        }
        for (flow, weight) in self.table.weights.into_iter().flatten().enumerate() {
            ensure(weight.is_finite() && *weight > 0.0, || {
                format!("flow {flow}: the weight must be finite and positive")
            })?;
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
