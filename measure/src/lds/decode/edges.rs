//! From cells and flows to the linear system of delays.

use super::counts::Packets;
use super::features::Features;
use super::shape::Shape;
use super::system::{Edge, Equation, Part, Scale, System, index_of};
use super::unlisted::Unlisted;
use crate::lds::DelayCell;

/// A cell may hold this share less than its flows claim: sums of weights round.
const EXCESS: f64 = 1e-9;

/// The system of delays, and what was seen on the way.
pub(super) struct Delays {
    /// The system.
    pub system: System,
    /// Mean share of packets of unlisted flows in plain cells.
    pub unlisted_share: f64,
    /// Cells whose flows claim more packets than they hold.
    pub excess_cells: usize,
}

/// How the packets that flows claim become coefficients.
#[derive(Debug, Clone, Copy, Default)]
struct Claim {
    /// Sum of w n p / k over the flows of the cell.
    listed: f64,
    /// What that is multiplied with; 0 for a cell that says nothing.
    factor: f64,
    /// How flows' packets fell into this cell is not known exactly: some were sampled, went to
    /// other virtual cells or came in another epoch.
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

/// `s_c` in the system's units: centred in whole numbers, for sums are larger than what sets them
/// apart.
fn centred(cell: &DelayCell, scale: Scale) -> f64 {
    #[expect(clippy::cast_possible_truncation, reason = "between two delays in i64")]
    let centre = scale.centre as i128;
    let expected = i128::from(cell.count).saturating_mul(centre);
    i128::from(cell.delay_sum).saturating_sub(expected) as f64 / scale.unit
}
