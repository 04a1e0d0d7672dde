//! Packets of each flow, as given or decoded from the cells' counts.
//!
//! Cells count packets just as they sum delays: `n_c` = sum over flows of `w_f` `n_f` p / k. Lost packets
//! do no harm, because the receiver's own counts are correct in unusable cells as well. The same sweeps
//! solve for `n_f`, with another prior. Sizes spread over orders of magnitude, most of them small; a single
//! Gaussian would smear each large flow over its neighbours. So the prior is a ladder of fixed components,
//! each a few times larger than the one below; only their shares are learnt.

use super::prior::{Gaussian, MIXTURE_MAX, Prior};
use super::sweep::Belief;
use super::system::{Edge, Equation, Features, Scale, Shape, System, bounded, falling, index_of};
use super::{DecodeError, DecodeOptions, run};

/// Sweeps are enough once each flow's size class has settled.
const OPTIONS: DecodeOptions = DecodeOptions {
    components: MIXTURE_MAX,
    sweeps: 20,
    tolerance: 1e-9,
};
/// Least ratio between consecutive rungs of the ladder.
const RATIO: f64 = 2.5;
/// A count with at most this variance is rounded to a whole number.
const WHOLE_VARIANCE: f64 = 0.01;

/// `n_f` of all flows.
pub(super) struct Packets {
    /// One entry for each flow, in the flows' own order.
    pub counts: Vec<f64>,
    /// Posterior variances, likewise; empty if all counts are known.
    variances: Vec<f64>,
    /// Whether all counts were given.
    pub known: bool,
}

impl Packets {
    /// Posterior variance of a flow's count.
    pub fn variance(&self, flow: usize) -> f64 {
        self.variances.get(flow).copied().unwrap_or(0.0)
    }
}

/// Takes given counts, and decodes the others.
pub(super) fn packets(
    shape: &Shape<'_>,
    cancelled: &mut impl FnMut() -> bool,
) -> Result<Packets, DecodeError> {
    let given: Vec<Option<f64>> = (0..shape.flows).map(|flow| shape.packets(flow)).collect();
    let unknown: Vec<usize> = (0..shape.flows).filter(|&f| given[f].is_none()).collect();
    let mut packets = Packets {
        counts: given.iter().map(|count| count.unwrap_or(0.0)).collect(),
        variances: Vec::new(),
        known: unknown.is_empty(),
    };
    if packets.known {
        return Ok(packets);
    }
    packets.variances = vec![0.0; shape.flows];
    let rest = Rest::new(shape, &packets.counts);
    let bounds: Vec<f64> = unknown
        .iter()
        .map(|&flow| rest.bound(shape, flow))
        .collect();
    let order = falling(&bounds);
    let system = rest.system(shape, &unknown, &order);
    let largest = bounds.iter().copied().fold(1.0, f64::max);
    let mut prior = ladder(largest, mean_size(&system));
    let outcome = run(&system, &mut prior, &OPTIONS, cancelled)?;
    for (&index, belief) in order.iter().zip(&outcome.beliefs) {
        let (flow, bound) = (unknown[index as usize], bounds[index as usize]);
        let belief = if outcome.sound {
            refined(*belief, bound)
        } else {
            Belief {
                mean: bound,
                variance: bound * bound,
            }
        };
        packets.counts[flow] = bounded(belief.mean);
        packets.variances[flow] = belief.variance;
    }
    Ok(packets)
}

/// Applies what else is known of a count: it is whole, at most its bound, and at least one if possible,
/// because the flow is listed.
fn refined(belief: Belief, bound: f64) -> Belief {
    let mean = belief.mean.min(bound).max(bound.min(1.0));
    if belief.variance < WHOLE_VARIANCE {
        Belief {
            mean: mean.round(),
            variance: 0.0,
        }
    } else {
        Belief { mean, ..belief }
    }
}

/// The receiver's counts minus those of flows with known counts.
struct Rest {
    /// Packets by weight; `None` if the receiver's half did not arrive.
    cells: Vec<Option<f64>>,
}

impl Rest {
    fn new(shape: &Shape<'_>, known: &[f64]) -> Self {
        let cells = shape.cells.cells().iter();
        let mut cells: Vec<Option<f64>> = cells
            .map(|cell| (!cell.missing).then_some(cell.received as f64))
            .collect();
        for (flow, &count) in known.iter().enumerate().filter(|&(_, &count)| count > 0.0) {
            for (row, cell) in shape.cells_of(flow) {
                if let Some(rest) = &mut cells[cell] {
                    *rest = (*rest - shape.weight(flow) * count * shape.share(row)).max(0.0);
                }
            }
        }
        Self { cells }
    }

    /// The most packets a flow can have: the least content of its cells over all rows (section 4.3). In
    /// sampled rows this is an expectation.
    fn bound(&self, shape: &Shape<'_>, flow: usize) -> f64 {
        let rows = shape.layout().rows();
        let mut sums = [(0.0, true); crate::lds::ROWS_MAX];
        for (row, cell) in shape.cells_of(flow) {
            let (sum, complete) = &mut sums[row];
            *sum += self.cells[cell].unwrap_or(0.0);
            *complete &= self.cells[cell].is_some();
        }
        let of_row = |row: usize| {
            let (sum, complete) = sums[row];
            let packets = sum / (shape.weight(flow) * shape.layout().row_probability(row));
            (complete, packets)
        };
        let (whole, sampled): (Vec<_>, Vec<_>) =
            (0..rows).partition(|&row| shape.layout().takes_all(row));
        let least = |rows: &[usize]| {
            let bounds = rows.iter().map(|&row| of_row(row));
            let complete = bounds.filter(|&(complete, _)| complete);
            complete.map(|(_, packets)| packets).reduce(f64::min)
        };
        least(&whole).or_else(|| least(&sampled)).unwrap_or(1.0)
    }

    /// The system of the unknown flows' counts.
    fn system(&self, shape: &Shape<'_>, unknown: &[usize], order: &[u32]) -> System {
        let equation = |rest: &Option<f64>| Equation {
            sum: rest.unwrap_or(0.0),
            ..Equation::default()
        };
        let mut system = System {
            equations: self.cells.iter().map(equation).collect(),
            starts: Vec::with_capacity(order.len() + 1),
            edges: Vec::with_capacity(order.len() * shape.degree()),
            // A count is not an average over packets of its own.
            inverse_packets: vec![0.0; order.len()],
            parts: None,
            features: Features::constant(),
            scale: Scale::new(0.0, 1.0),
        };
        for &index in order {
            system.starts.push(index_of(system.edges.len()));
            let flow = unknown[index as usize];
            let weight = shape.weight(flow);
            for (row, cell) in shape.cells_of(flow) {
                let Some(rest) = self.cells[cell] else {
                    continue;
                };
                let part = shape.share(row);
                system.edges.push(Edge {
                    cell: index_of(cell),
                    coefficient: weight * part,
                });
                // The number of packets that fall into the cell is random: binomial, weighted.
                let fixed = &mut system.equations[cell].fixed;
                *fixed = f64::max(*fixed, weight * rest * (1.0 - part));
            }
        }
        system.starts.push(index_of(system.edges.len()));
        system
    }
}

/// Mean packets of a flow: the content of all cells divided by their content if each flow had one packet.
fn mean_size(system: &System) -> f64 {
    let held: f64 = system.equations.iter().map(|equation| equation.sum).sum();
    let single: f64 = system.edges.iter().map(|edge| edge.coefficient).sum();
    if single > 0.0 { held / single } else { 1.0 }
}

/// Size classes from one packet to `largest`. Their shares fall as a power of the size: the power for which
/// the flows have the given `mean`.
fn ladder(largest: f64, mean: f64) -> Prior {
    let rungs = MIXTURE_MAX as f64 - 1.0;
    let ratio = largest.powf(rungs.recip()).max(RATIO);
    let mut prior = Prior {
        shapes_fixed: true,
        ..Prior::default()
    };
    let mut size = 1.0;
    while size <= largest * ratio && prior.components.len() < MIXTURE_MAX {
        let deviation = size * (ratio - 1.0) / (ratio + 1.0);
        let mut component = Gaussian {
            between: deviation * deviation,
            ..Gaussian::default()
        };
        component.beta[0] = size;
        prior.components.push(component);
        size *= ratio;
    }
    let (mut least, mut most) = (-8.0, 8.0);
    for _ in 0..50 {
        let power = 0.5 * (least + most);
        if share_by_power(&mut prior, power) > mean {
            least = power;
        } else {
            most = power;
        }
    }
    prior
}

/// Sets shares to size^-power; returns the mean size.
fn share_by_power(prior: &mut Prior, power: f64) -> f64 {
    let mut total = 0.0;
    for component in &mut prior.components {
        component.share = component.beta[0].powf(-power);
        total += component.share;
    }
    let mut mean = 0.0;
    for component in &mut prior.components {
        component.share /= total;
        mean += component.share * component.beta[0];
    }
    mean
}
