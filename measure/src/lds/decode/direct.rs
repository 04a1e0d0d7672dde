//! Solves without sweeps: peeling, and a small core that does not peel.
//!
//! A flow that is alone in a cell is known exactly from it, then those that are alone once it is removed,
//! and so on. The rest is the core: each of its cells contains several of its flows. On a small core sweeps
//! may diverge, or count the same evidence repeatedly if flows share all their cells. But a small core can
//! be solved by definition: the solution nearest to the prior, in the prior's own units, which is the best
//! linear unbiased prediction.

use super::prior::Gaussian;
use super::sweep::Belief;
use super::system::{Equation, System};

/// Largest core that is solved, because the time grows with its cube.
const CORE_MAX: usize = 192;
/// Largest remaining share of a cell's sum if all its flows are known.
const CONTRADICTION: f64 = 1e-9;
/// An equation with a smaller remainder depends on the others.
const INDEPENDENT: f64 = 1e-10;

/// Beliefs of all flows, if all cells are free of noise and the core is small; otherwise `None`.
pub(super) fn solve(system: &System, prior: &Gaussian) -> Option<Vec<Belief>> {
    if !system.equations.iter().all(Equation::is_exact) {
        return None;
    }
    let mut beliefs: Vec<Belief> = (0..system.flows())
        .map(|flow| prior.of_flow(system, flow))
        .collect();
    let Peeled { mut sums, core } = peel(system, &mut beliefs)?;
    if core.len() > CORE_MAX {
        return None;
    }
    for &flow in &core {
        for edge in &system.edges[system.edges_of(flow)] {
            sums[edge.cell as usize] -= edge.coefficient * beliefs[flow].mean;
        }
    }
    let mut rows = rows(system, &core, &beliefs, &sums);
    let solution = nearest(&mut rows, core.len());
    for (&flow, part) in core.iter().zip(solution) {
        let belief = &mut beliefs[flow];
        belief.mean += belief.variance.sqrt() * part.mean;
        belief.variance *= part.variance;
    }
    Some(beliefs)
}

/// The remainder after peeling.
struct Peeled {
    /// Remaining sum of each cell.
    sums: Vec<f64>,
    /// Flows of the core.
    core: Vec<usize>,
}

/// Unknown flows in a cell: their number, and the exclusive or of their indices, which is the index of the
/// last one.
#[derive(Clone, Copy, Default)]
struct Open {
    flows: u32,
    numbers: usize,
}

/// Sets all flows that peel; `None` if cells contradict each other.
///
/// It subtracts flows' sums, not their means. Whole numbers stay exact, so that errors of large flows do
/// not spread to small ones.
fn peel(system: &System, beliefs: &mut [Belief]) -> Option<Peeled> {
    let sum = |equation: &Equation| equation.sum;
    let mut sums: Vec<f64> = system.equations.iter().map(sum).collect();
    let mut sizes: Vec<f64> = sums.iter().map(|sum| sum.abs()).collect();
    let mut open = vec![Open::default(); sums.len()];
    let mut known = vec![false; system.flows()];
    for (flow, known) in known.iter_mut().enumerate() {
        let edges = &system.edges[system.edges_of(flow)];
        // No cell contains it, so its prior remains.
        *known = edges.is_empty();
        for edge in edges {
            let open = &mut open[edge.cell as usize];
            open.flows += 1;
            open.numbers ^= flow;
        }
    }
    let mut queue: Vec<usize> = (0..open.len())
        .filter(|&cell| open[cell].flows == 1)
        .collect();
    while let Some(cell) = queue.pop() {
        let Open {
            flows: 1,
            numbers: flow,
        } = open[cell]
        else {
            continue;
        };
        let edges = &system.edges[system.edges_of(flow)];
        let own = edges.iter().find(|edge| edge.cell as usize == cell)?;
        let own_sum = sums[cell];
        known[flow] = true;
        beliefs[flow] = Belief {
            mean: own_sum / own.coefficient,
            variance: 0.0,
        };
        for edge in edges {
            let cell = edge.cell as usize;
            let part = own_sum * (edge.coefficient / own.coefficient);
            sums[cell] -= part;
            sizes[cell] += part.abs();
            let open = &mut open[cell];
            open.flows -= 1;
            open.numbers ^= flow;
            if open.flows == 1 {
                queue.push(cell);
            }
        }
    }
    let consistent = |((open, sum), size): ((&Open, &f64), &f64)| {
        open.flows > 0 || sum.abs() <= CONTRADICTION * size
    };
    let mut cells = open.iter().zip(&sums).zip(&sizes);
    let core = (0..system.flows()).filter(|&flow| !known[flow]).collect();
    cells.all(consistent).then_some(Peeled { sums, core })
}

/// One equation of the core in the prior's units: coefficients, then the value.
type Row = Vec<f64>;

fn rows(system: &System, core: &[usize], beliefs: &[Belief], sums: &[f64]) -> Vec<Row> {
    let mut cells: Vec<u32> = core
        .iter()
        .flat_map(|&flow| &system.edges[system.edges_of(flow)])
        .map(|edge| edge.cell)
        .collect();
    cells.sort_unstable();
    cells.dedup();
    let mut rows: Vec<Row> = cells
        .iter()
        .map(|&cell| {
            let mut row = vec![0.0; core.len() + 1];
            row[core.len()] = sums[cell as usize];
            row
        })
        .collect();
    for (column, &flow) in core.iter().enumerate() {
        for edge in &system.edges[system.edges_of(flow)] {
            if let Ok(row) = cells.binary_search(&edge.cell) {
                rows[row][column] = edge.coefficient * beliefs[flow].variance.sqrt();
            }
        }
    }
    rows
}

/// The smallest solution of consistent equations, and the share of its variance that each unknown keeps:
/// modified Gram-Schmidt over the rows, largest remainder first, each twice.
fn nearest(rows: &mut [Row], unknowns: usize) -> Vec<Belief> {
    let mut solution = vec![
        Belief {
            mean: 0.0,
            variance: 1.0,
        };
        unknowns
    ];
    for row in rows.iter_mut() {
        scale(row, unknowns);
    }
    for done in 0..rows.len() {
        let (basis, rest) = rows.split_at_mut(done);
        let longest = |one: &(usize, f64), other: &(usize, f64)| one.1.total_cmp(&other.1);
        let lengths = rest.iter().map(|row| square(&row[..unknowns])).enumerate();
        let Some((longest, left)) = lengths.max_by(longest) else {
            break;
        };
        if left < INDEPENDENT * INDEPENDENT {
            break;
        }
        rest.swap(0, longest);
        let Some((next, others)) = rest.split_first_mut() else {
            break;
        };
        scale(next, unknowns);
        for earlier in basis.iter() {
            subtract(next, earlier, unknowns);
        }
        scale(next, unknowns);
        for other in others {
            subtract(other, next, unknowns);
        }
        for (part, coefficient) in solution.iter_mut().zip(&next[..unknowns]) {
            part.mean += coefficient * next[unknowns];
            part.variance -= coefficient * coefficient;
        }
    }
    for part in &mut solution {
        // Only rounding remains of a determined value.
        part.variance = if part.variance > 1e-12 {
            part.variance
        } else {
            0.0
        };
    }
    solution
}

fn square(coefficients: &[f64]) -> f64 {
    coefficients.iter().map(|value| value * value).sum()
}

/// Normalises an equation.
fn scale(row: &mut Row, unknowns: usize) {
    let length = square(&row[..unknowns]).sqrt();
    if length > 0.0 {
        for value in row {
            *value /= length;
        }
    }
}

/// Subtracts an equation's projection on a normalised one.
fn subtract(row: &mut Row, unit: &Row, unknowns: usize) {
    let common: f64 = row[..unknowns].iter().zip(unit).map(|(a, b)| a * b).sum();
    if common != 0.0 {
        for (value, unit) in row.iter_mut().zip(unit) {
            *value -= common * unit;
        }
    }
}
