//! The linear system: `s_c` = sum over flows of `a_cf` `x_f` + `e_c`, one equation for each usable cell, and its
//! construction from cells and flows.
//!
//! Values are centred on the mean over all cells and divided by their spread, so that thresholds do not depend on the
//! delays. Flows are in decoding order, the largest first; the edges of a flow are adjacent.

use std::ops::RangeInclusive;

use super::counts::Packets;
use super::{COMPONENTS_MAX, DecodeOptions, FEATURES_MAX, FlowTable};
use crate::argument::{InvalidArgument, ensure};
use crate::lds::{DelayCell, DelayCells, LdsLayout};

/// Most edges: at 32 bytes each, 4 GiB.
const EDGES_MAX: usize = 1 << 27;
/// Packet counts below this are 0.
const PACKETS_MIN: f64 = 1e-6;
/// Packet counts are limited to what a cell can count.
const PACKETS_MAX: f64 = u64::MAX as f64;

/// Flows over a sketch, checked to fit it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape<'a> {
    /// The sketch.
    pub cells: &'a DelayCells,
    /// The lists.
    pub table: FlowTable<'a>,
    /// Number of flows.
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
        let each = table.features_per_flow;
        for (list, found, needed) in [
            ("packets", table.packets.map(<[f64]>::len), *flows),
            ("weights", table.weights.map(<[f64]>::len), *flows),
            ("features", Some(table.features.len()), flows * each),
            ("known means", table.known.map(<[_]>::len), *flows),
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
            ensure(
                packets.is_nan() || (0.0..f64::INFINITY).contains(packets),
                || {
                    format!(
                        "flow {flow}: packets must be finite and not negative (NaN where not known)"
                    )
                },
            )?;
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

    /// Whether a flow has a single cell in the row, which contains all of its packets.
    pub fn is_plain(&self, row: usize) -> bool {
        self.layout().virtual_cells() == 1 && self.layout().takes_all(row)
    }

    /// Base columns of a flow, one for each row.
    pub fn base_columns(&self, flow: usize) -> &'a [u32] {
        let rows = self.layout().rows();
        &self.table.columns[flow * rows..][..rows]
    }

    /// All cells of a flow by offset: row and index.
    pub fn cells_of(&self, flow: usize) -> impl Iterator<Item = (usize, usize)> + use<'a> {
        let columns = self.layout().columns() as usize;
        let virtual_cells = self.layout().virtual_cells() as usize;
        let base = self.base_columns(flow).iter().enumerate();
        (0..virtual_cells).flat_map(move |offset| {
            base.clone().map(move |(row, &base)| {
                let column = base as usize + offset;
                // k is at most C, so one subtraction is enough.
                let column = if column < columns {
                    column
                } else {
                    column - columns
                };
                (row, row * columns + column)
            })
        })
    }

    /// Share of a flow's packets in each of its cells in the row: `p_r` / k.
    pub fn share(&self, row: usize) -> f64 {
        self.layout().row_probability(row) / f64::from(self.layout().virtual_cells())
    }

    /// `w_f`.
    pub fn weight(&self, flow: usize) -> f64 {
        self.table.weights.map_or(1.0, |weights| weights[flow])
    }

    /// `n_f` as given; `None` if unknown.
    pub fn packets(&self, flow: usize) -> Option<f64> {
        let packets = self.table.packets?[flow];
        (!packets.is_nan()).then(|| bounded(packets))
    }
}

/// Limits a count of packets to what sums and squares can represent.
pub(super) fn bounded(packets: f64) -> f64 {
    if packets < PACKETS_MIN {
        0.0
    } else {
        packets.min(PACKETS_MAX)
    }
}

/// Flows in decoding order: the largest first, equal ones in input order.
pub(super) fn falling(sizes: &[f64]) -> Vec<u32> {
    let mut keyed: Vec<(u64, u32)> = (0_u32..)
        .zip(sizes)
        // Positive numbers sort like their bits.
        .map(|(flow, &size)| (!size.to_bits(), flow))
        .collect();
    keyed.sort_unstable();
    keyed.into_iter().map(|(_, flow)| flow).collect()
}

/// A flow's share in a cell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edge {
    /// Index of the equation.
    pub cell: u32,
    /// `a_cf`, positive.
    pub coefficient: f64,
}

/// The part of its flow that an edge contains.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// Parts at one offset are nested: the smaller one's packets are among the larger one's. Parts at
    /// different offsets are disjoint.
    pub offset: u32,
    /// Share of the flow's packets.
    pub share: f64,
}

/// Converts a number of a cell, an edge or an offset.
pub(super) fn index_of(number: usize) -> u32 {
    let index = u32::try_from(number);
    assert!(
        index.is_ok(),
        "cells and edges are bounded: ROWS_MAX, COLUMNS_MAX, EDGES_MAX"
    );
    index.unwrap_or(u32::MAX)
}

/// A cell without the flows' own terms.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Equation {
    /// `s_c`.
    pub sum: f64,
    /// Noise: multiple of tau2.
    pub between: f64,
    /// Noise: multiple of sig2.
    pub within: f64,
    /// Noise: multiple of the squared coefficient of known means.
    pub known: f64,
    /// Noise that does not depend on the prior.
    pub fixed: f64,
    /// `n_u`: packets of unlisted flows.
    pub unlisted: f64,
}

impl Equation {
    /// Whether it holds without noise.
    pub fn is_exact(&self) -> bool {
        self.between <= 0.0 && self.within <= 0.0 && self.fixed <= 0.0 && self.unlisted <= 0.0
    }
}

/// x in ticks = centre + unit times x in the system.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    /// In ticks.
    pub centre: f64,
    /// In ticks, positive; a power of two, so that scaling is exact.
    pub unit: f64,
}

impl Scale {
    /// The scale for values with this mean and spread.
    pub fn new(centre: f64, spread: f64) -> Self {
        let unit = spread.log2().round().exp2();
        let unit = if unit.is_normal() { unit } else { 1.0 };
        Self { centre, unit }
    }

    /// A value in ticks.
    pub fn ticks(&self, value: f64) -> f64 {
        self.unit.mul_add(value, self.centre)
    }

    /// A variance in ticks squared.
    pub fn ticks2(&self, variance: f64) -> f64 {
        variance * self.unit * self.unit
    }
}

/// The system.
#[derive(Debug)]
pub(super) struct System {
    /// The equations of all cells; those without edges and unlisted packets are empty.
    pub equations: Vec<Equation>,
    /// First edge of each flow, and the number of edges at the end.
    pub starts: Vec<u32>,
    /// Edges, flow by flow.
    pub edges: Vec<Edge>,
    /// Contents of the edges, flow by flow and offset by offset; `None` if all contain whole flows.
    pub parts: Option<Vec<Part>>,
    /// 1 / `n_f`.
    pub inverse_packets: Vec<f64>,
    /// `z_f`.
    pub features: Features,
    /// Units.
    pub scale: Scale,
}

impl System {
    /// Number of flows.
    pub fn flows(&self) -> usize {
        self.inverse_packets.len()
    }

    /// Factor of sig2 in a flow's prior: 1 / `n_f`, or 0 if its mean is known, because that mean's error
    /// covers all its packets.
    #[inline]
    pub fn share_of_within(&self, flow: usize) -> f64 {
        match self.features.within(flow) {
            Some(_) => 0.0,
            None => self.inverse_packets[flow],
        }
    }

    /// The range of the flow's edges.
    pub fn edges_of(&self, flow: usize) -> std::ops::Range<usize> {
        self.starts[flow] as usize..self.starts[flow + 1] as usize
    }

    /// Most edges of a flow.
    pub fn degree_max(&self) -> usize {
        let degrees = self.starts.windows(2).map(|pair| pair[1] - pair[0]);
        degrees.max().unwrap_or(0) as usize
    }
}

/// Share by which a cell may contain less than its flows claim, because sums of weights round.
const EXCESS: f64 = 1e-9;

/// The system of delays, and anomalies found while building it.
pub(super) struct Delays {
    /// The system.
    pub system: System,
    /// Mean share of packets of unlisted flows in plain cells.
    pub unlisted_share: f64,
    /// Cells whose flows claim more packets than they hold.
    pub excess_cells: usize,
}

/// How claimed packets become coefficients.
#[derive(Debug, Clone, Copy, Default)]
struct Claim {
    /// Sum of w n p / k over the flows of the cell.
    listed: f64,
    /// Factor of the coefficients; 0 for a cell without evidence.
    factor: f64,
    /// Whether the packets of flows in this cell are not known exactly: some were sampled, went to other
    /// virtual cells, or arrived in another epoch.
    thinned: bool,
}

/// Builds the system of the flows in `order`.
pub(super) fn delays(shape: &Shape<'_>, packets: &Packets, order: &[u32]) -> Delays {
    let cells = shape.cells.cells();
    let mut claims = claims(shape, packets);
    let scale = scale(cells);
    let mut equations = vec![Equation::default(); cells.len()];
    let mut unlisted = Unlisted::default();
    let mut excess_cells = 0;
    let columns = shape.layout().columns() as usize;
    for (index, (cell, claim)) in cells.iter().zip(&mut claims).enumerate() {
        if !cell.usable || cell.count == 0 {
            continue;
        }
        let count = cell.count as f64;
        let equation = &mut equations[index];
        equation.sum = centred(cell, scale);
        let plain = shape.is_plain(index / columns) && !cell.partial;
        if plain && packets.known && claim.listed <= count * (1.0 + EXCESS) {
            claim.factor = 1.0;
            equation.unlisted = (count - claim.listed).max(0.0);
            unlisted.add(equation.unlisted, count);
        } else if claim.listed > 0.0 {
            excess_cells += usize::from(plain && packets.known);
            claim.factor = count / claim.listed;
            claim.thinned = !plain || packets.known;
        }
    }
    for equation in &mut equations {
        unlisted.spread(equation);
    }
    let table = &shape.table;
    let mut system = System {
        equations,
        starts: Vec::with_capacity(order.len() + 1),
        edges: Vec::with_capacity(order.len() * shape.degree()),
        parts: claims.iter().any(|claim| claim.thinned).then(Vec::new),
        inverse_packets: Vec::with_capacity(order.len()),
        features: Features::new(table, scale, order, &packets.counts),
        scale,
    };
    for &flow in order {
        add_flow(&mut system, shape, packets, &claims, flow as usize);
    }
    system.starts.push(index_of(system.edges.len()));
    Delays {
        system,
        unlisted_share: unlisted.share(),
        excess_cells,
    }
}

fn claims(shape: &Shape<'_>, packets: &Packets) -> Vec<Claim> {
    let mut claims = vec![Claim::default(); shape.cells.cells().len()];
    for flow in 0..shape.flows {
        let weighted = shape.weight(flow) * packets.counts[flow];
        for (row, cell) in shape.cells_of(flow) {
            claims[cell].listed += weighted * shape.share(row);
        }
    }
    claims
}

fn add_flow(
    system: &mut System,
    shape: &Shape<'_>,
    packets: &Packets,
    claims: &[Claim],
    flow: usize,
) {
    system.starts.push(index_of(system.edges.len()));
    let count = packets.counts[flow];
    // A flow without packets has no edges either; its prior is that of one packet.
    let inverse_packets = if count > 0.0 { count.recip() } else { 1.0 };
    system.inverse_packets.push(inverse_packets);
    let weight = shape.weight(flow);
    let rows = shape.layout().rows();
    let known_within = system.features.within(system.flows() - 1).unwrap_or(0.0);
    for (index, (row, cell)) in shape.cells_of(flow).enumerate() {
        let claim = claims[cell];
        let coefficient = weight * count * shape.share(row) * claim.factor;
        if coefficient <= 0.0 {
            continue;
        }
        system.edges.push(Edge {
            cell: index_of(cell),
            coefficient,
        });
        let equation = &mut system.equations[cell];
        let mut held_here = 1.0;
        if claim.thinned {
            let held = shape.cells.cells()[cell].count as f64;
            let shared = (1.0 - coefficient / held).max(0.0);
            held_here = (coefficient / (weight * count)).min(shape.share(row));
            let elsewhere = 1.0 - held_here;
            equation.between += weight * coefficient * shared;
            equation.within += weight * coefficient * elsewhere;
            equation.known += weight * coefficient * elsewhere * known_within;
        } else if !packets.known {
            let error = packets.variance(flow) * (weight * claim.factor).powi(2);
            equation.between += error;
            equation.within += error * inverse_packets;
        }
        if let Some(parts) = &mut system.parts {
            parts.push(Part {
                offset: index_of(index / rows),
                share: held_here,
            });
        }
    }
}

/// Mean and spread of the delays in usable cells.
fn scale(cells: &[DelayCell]) -> Scale {
    let filled = || cells.iter().filter(|cell| cell.usable && cell.count > 0);
    let packets: f64 = filled().map(|cell| cell.count as f64).sum();
    let sum: f64 = filled().map(|cell| cell.delay_sum as f64).sum();
    // A whole number, so that cells can be centred exactly.
    let centre = if packets > 0.0 {
        (sum / packets).round()
    } else {
        0.0
    };
    let whole = Scale { centre, unit: 1.0 };
    let square = |cell: &DelayCell| centred(cell, whole).powi(2) / cell.count as f64;
    let squares: f64 = filled().map(square).sum();
    Scale::new(centre, (squares / filled().count().max(1) as f64).sqrt())
}

/// `s_c` in the system's units. It is centred in whole numbers, because sums are larger than their
/// differences.
fn centred(cell: &DelayCell, scale: Scale) -> f64 {
    #[expect(clippy::cast_possible_truncation, reason = "between two delays in i64")]
    let centre = scale.centre as i128;
    let expected = i128::from(cell.count).saturating_mul(centre);
    i128::from(cell.delay_sum).saturating_sub(expected) as f64 / scale.unit
}

/// Packets of unlisted flows, in plain cells.
///
/// In a cell that takes every packet they are the rest of its count. Otherwise they would be attributed to
/// the listed flows. In other cells the coefficients are scaled to the cell's count, which absorbs them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Unlisted {
    cells: f64,
    sum: f64,
    squares: f64,
    packets: f64,
}

impl Unlisted {
    /// Adds a usable cell of `packets` packets, `unlisted` of them of unlisted flows.
    pub fn add(&mut self, unlisted: f64, packets: f64) {
        self.cells += 1.0;
        self.sum += unlisted;
        self.squares += unlisted * unlisted;
        self.packets += packets;
    }

    /// Share of unlisted packets.
    pub fn share(&self) -> f64 {
        if self.packets > 0.0 {
            self.sum / self.packets
        } else {
            0.0
        }
    }

    /// Gives an equation the noise of its unlisted packets. They arrive in flows of size g, estimated from
    /// the scatter of `n_u`: at least one packet, at most all of them.
    pub fn spread(&self, equation: &mut Equation) {
        let unlisted = equation.unlisted;
        if unlisted <= 0.0 {
            return;
        }
        let mean = self.sum / self.cells;
        let variance = (self.squares / self.cells - mean * mean).max(0.0);
        let size = (variance / mean).min(unlisted.max(1.0)).max(1.0);
        equation.between += unlisted * size;
        equation.within += unlisted;
    }
}

/// Most terms of a regression: the constant and all features.
pub(super) const TERMS_MAX: usize = FEATURES_MAX + 1;
/// Coefficients, or one flow's z; entries beyond the terms in use are 0.
pub(super) type Terms = [f64; TERMS_MAX];
/// A square of terms.
pub(super) type Square = [Terms; TERMS_MAX];

/// Limit of any clock: known means are within it, and their variances within its square.
const TICKS_MAX: f64 = u64::MAX as f64;
const TICKS2_MAX: f64 = TICKS_MAX * TICKS_MAX;
/// Least error of known means in the system's units.
const ERROR_MIN: f64 = 1e-12;

/// Means known from elsewhere, as terms of the regression.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownTerms {
    /// The constant for which they would be used as they are; their coefficient is then 1.
    pub constant: f64,
    /// Precisions of both.
    pub precisions: [f64; 2],
}

/// Features of all flows in decoding order: means known from elsewhere first, in the system's units, then
/// features, standardised (variance 1). All have mean 0, so a missing value is 0.
#[derive(Debug, Default)]
pub(super) struct Features {
    count: usize,
    /// `count` entries for each flow.
    values: Vec<f64>,
    /// Error variance of each feature, `count` entries for each flow; empty without errors.
    errors: Vec<f64>,
    /// Variance of packets of flows with known means, one entry for each flow, NaN for other flows; empty
    /// without known means.
    within: Vec<f64>,
    /// How known means enter the regression.
    pub known: Option<KnownTerms>,
    /// z-bar: packet-weighted means, the constant's 1 first.
    pub mean: Terms,
    covariance: Square,
    centres: [f64; FEATURES_MAX],
    units: [f64; FEATURES_MAX],
}

impl Features {
    /// No features but the constant.
    pub fn constant() -> Self {
        let mut features = Self::default();
        features.mean[0] = 1.0;
        features
    }

    /// From the lists in the flows' own order; `order` is the decoding order, `packets` (in the flows' own
    /// order) weight the means.
    pub fn new(table: &FlowTable<'_>, scale: Scale, order: &[u32], packets: &[f64]) -> Self {
        let mut features = Self::constant();
        let each = table.features_per_flow;
        let known = usize::from(table.known.is_some());
        features.count = known + each;
        features.values = vec![0.0; order.len() * features.count];
        features.errors = vec![0.0; order.len() * features.count];
        if let Some(known) = table.known {
            let within = |value: f64, limits: RangeInclusive<f64>| {
                if limits.contains(&value) {
                    value
                } else {
                    f64::NAN
                }
            };
            let mean_of = |flow: usize| within(known[flow].mean_ticks, -TICKS_MAX..=TICKS_MAX);
            let error_of = |flow: usize| within(known[flow].error_ticks2, 0.0..=TICKS2_MAX);
            features.fill(0, Some(scale.unit), order, mean_of, error_of);
            let within = order.iter().map(|&flow| {
                let flow = flow as usize;
                let variance = within(known[flow].packets_ticks2, 0.0..=TICKS2_MAX);
                match mean_of(flow) + error_of(flow) {
                    known if known.is_nan() => f64::NAN,
                    _ if variance.is_nan() => 0.0,
                    _ => variance / scale.unit / scale.unit,
                }
            });
            features.within = within.collect();
        }
        for feature in 0..each {
            let value_of = |flow| table.features[flow * each + feature];
            features.fill(known + feature, None, order, value_of, |_| 0.0);
        }
        if features.errors.iter().all(|&error| error == 0.0) {
            features.errors = Vec::new();
        }
        features.summarise(order, packets);
        features.known = table.known.map(|known| {
            let mut terms = KnownTerms {
                constant: (features.centres[0] - scale.centre) / scale.unit,
                // If flows do not differ, they contain no evidence about the coefficient.
                precisions: [0.0, 1.0],
            };
            for (position, &flow) in order.iter().enumerate() {
                let error = known[flow as usize].error_ticks2 / scale.unit / scale.unit;
                if features.within(position).is_some() {
                    let precision = error.max(ERROR_MIN).recip();
                    terms.precisions[0] += precision;
                    terms.precisions[1] += precision * features.of(position)[1].powi(2);
                }
            }
            terms
        });
        features
    }

    /// Sets one entry of each flow, in units of its deviation unless another unit is given. An unknown
    /// value, or one without a finite error, may be off by as much as flows differ.
    fn fill(
        &mut self,
        feature: usize,
        unit: Option<f64>,
        order: &[u32],
        value_of: impl Fn(usize) -> f64,
        error_of: impl Fn(usize) -> f64,
    ) {
        let known = |&flow: &u32| {
            let (value, error) = (value_of(flow as usize), error_of(flow as usize));
            (value.is_finite() && error.is_finite()).then_some((value, error))
        };
        let values = || order.iter().filter_map(known).map(|(value, _)| value);
        let (centre, deviation) = standard(values);
        let unit = unit.unwrap_or(deviation);
        (self.centres[feature], self.units[feature]) = (centre, unit);
        let spread = if deviation.is_finite() {
            deviation / unit
        } else {
            0.0
        };
        for (flow, index) in order.iter().zip((feature..).step_by(self.count)) {
            (self.values[index], self.errors[index]) = match known(flow) {
                Some((value, error)) => (value / unit - centre / unit, error / unit / unit),
                None => (0.0, spread * spread),
            };
        }
    }

    fn summarise(&mut self, order: &[u32], packets: &[f64]) {
        let mut weights = 0.0;
        for (position, &flow) in order.iter().enumerate() {
            let z = self.of(position);
            let weight = packets[flow as usize];
            weights += weight;
            for i in 1..=self.count {
                self.mean[i] += weight * z[i];
                for j in 1..=self.count {
                    self.covariance[i][j] += z[i] * z[j] / order.len() as f64;
                }
            }
        }
        for mean in &mut self.mean[1..] {
            *mean = if weights > 0.0 { *mean / weights } else { 0.0 };
        }
    }

    /// Terms in use: the constant and the features.
    pub fn terms(&self) -> usize {
        self.count + 1
    }

    /// Terms learnt from cells only: all but known means and their constant.
    pub fn learnt(&self) -> usize {
        self.terms() - self.known.map_or(0, |_| 2)
    }

    /// z of a flow.
    pub fn of(&self, flow: usize) -> Terms {
        let mut z = Terms::default();
        z[0] = 1.0;
        let values = &self.values[flow * self.count..][..self.count];
        z[1..=self.count].copy_from_slice(values);
        z
    }

    /// z' beta of a flow.
    #[inline]
    pub fn predict(&self, flow: usize, beta: &Terms) -> f64 {
        let values = &self.values[flow * self.count..][..self.count];
        let products = values.iter().zip(&beta[1..]).map(|(z, b)| z * b);
        beta[0] + products.sum::<f64>()
    }

    /// Whether any flow's feature may have an error.
    pub fn any_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Error variances of the flow's features: one entry each, or none.
    #[inline]
    pub fn errors(&self, flow: usize) -> &[f64] {
        let errors = self.errors.get(flow * self.count..).unwrap_or(&[]);
        &errors[..errors.len().min(self.count)]
    }

    /// Variance that a flow's unknown features, and the errors of others, add to its prior.
    #[inline]
    pub fn blur(&self, flow: usize, beta: &Terms) -> f64 {
        let errors = self.errors(flow).iter();
        errors.zip(&beta[1..]).map(|(error, b)| error * b * b).sum()
    }

    /// Variance of the flow's packets; `None` if its mean is not known.
    #[inline]
    pub fn within(&self, flow: usize) -> Option<f64> {
        self.within
            .get(flow)
            .copied()
            .filter(|within| !within.is_nan())
    }

    /// Variance of z' beta over the flows.
    pub fn spread(&self, beta: &Terms) -> f64 {
        let terms = 1..self.terms();
        let products = terms.clone().flat_map(|i| {
            let row = &self.covariance[i];
            terms.clone().map(move |j| beta[i] * row[j] * beta[j])
        });
        products.sum::<f64>().max(0.0)
    }
}

/// Mean and standard deviation, safe for the largest numbers. The deviation of constant values is infinite,
/// so that the feature becomes 0.
fn standard<I: Iterator<Item = f64>>(values: impl Fn() -> I) -> (f64, f64) {
    let largest = values().fold(0.0, |largest: f64, value| largest.max(value.abs()));
    let count = values().count() as f64;
    if largest == 0.0 {
        return (0.0, f64::INFINITY);
    }
    let mean = values().map(|value| value / largest).sum::<f64>() / count;
    let square = |value: f64| (value / largest - mean).powi(2);
    let deviation = (values().map(square).sum::<f64>() / count).sqrt();
    // A variation that rounding explains is none.
    let unit = if deviation > 1e-12 {
        deviation * largest
    } else {
        f64::INFINITY
    };
    (mean * largest, unit)
}
