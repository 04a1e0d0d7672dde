//! RLI on a trace whose delays have no serialisation: linear interpolation between references at
//! the packet's arrival (Lee et al. 2010, eq. 1, without its size correction).
//!
//! `measure::rli` does this online, packet by packet in the order of time; a trace is sorted by flow.

use measure::rli::Method;

use crate::trace::{Reference, Trace};

/// RLI's estimates, one entry per flow.
#[derive(Debug, Clone, Default)]
pub struct Interpolated {
    /// Means in nanoseconds; NaN if a flow has no packet, or there is no reference.
    pub mean_ns: Vec<f64>,
    /// 98 % bounds in nanoseconds ([`measure::rli::FlowDelay::bound_ns`]); likewise.
    pub bound_ns: Vec<f64>,
}

impl Interpolated {
    /// Interpolates the delay of every packet that arrived.
    pub fn of(trace: &Trace) -> Self {
        let references = &trace.references[..];
        let squares = squared_errors(references);
        let mut all = Self::default();
        let mut intervals = Vec::new();
        for flow in 0..trace.flows() {
            intervals.clear();
            let mut sum_ns = 0.0;
            for (_, packet) in trace.of_flow(flow) {
                let Some(delay_ns) = packet.delay_ns() else {
                    continue;
                };
                let received_ns = packet.sent_ns as f64 + f64::from(delay_ns);
                let right = references.partition_point(|at| at.received_ns <= received_ns);
                sum_ns += interpolate(references, right, received_ns);
                intervals.push(right);
            }
            let packets = intervals.len() as f64;
            all.mean_ns.push(sum_ns / packets);
            all.bound_ns.push(bound(&mut intervals, &squares));
        }
        all
    }
}

/// The delay at a time before the reference at `right` and not before the one on its left; outside
/// of all references that of the nearest.
pub fn interpolate(references: &[Reference], right: usize, at_ns: f64) -> f64 {
    let left = right.checked_sub(1).and_then(|left| references.get(left));
    match (left, references.get(right)) {
        (Some(left), Some(right)) => between(left, right, at_ns),
        (Some(only), None) | (None, Some(only)) => only.delay_ns,
        (None, None) => f64::NAN,
    }
}

fn between(left: &Reference, right: &Reference, at_ns: f64) -> f64 {
    let share = (at_ns - left.received_ns) / (right.received_ns - left.received_ns);
    left.delay_ns + share.clamp(0.0, 1.0) * (right.delay_ns - left.delay_ns)
}

/// e^2 of each reference, predicted from its neighbours; the ends have their neighbour's.
fn squared_errors(references: &[Reference]) -> Vec<f64> {
    let inner: Vec<f64> = references
        .windows(3)
        .map(|three| {
            let predicted = between(&three[0], &three[2], three[1].received_ns);
            (three[1].delay_ns - predicted).powi(2)
        })
        .collect();
    match (inner.first(), inner.last()) {
        (Some(&first), Some(&last)) => std::iter::once(first).chain(inner).chain([last]).collect(),
        _ => vec![f64::INFINITY; references.len()],
    }
}

/// `calibration x 2 sqrt(sum over intervals of (n_I / n)^2 max(e_left^2, e_right^2))`.
fn bound(intervals: &mut [usize], squares: &[f64]) -> f64 {
    intervals.sort_unstable();
    let packets = intervals.len() as f64;
    let at = |index: Option<usize>| index.and_then(|index| squares.get(index)).copied();
    let sum: f64 = intervals
        .chunk_by(|a, b| a == b)
        .filter_map(|alike| {
            let right = *alike.first()?;
            let larger = match (at(right.checked_sub(1)), at(Some(right))) {
                (Some(left), Some(right)) => left.max(right),
                (one, other) => one.or(other)?,
            };
            Some((alike.len() as f64 / packets).powi(2) * larger)
        })
        .sum();
    if packets > 0.0 && !squares.is_empty() {
        Method::Linear.bound_calibration(1.0) * 2.0 * sum.sqrt()
    } else {
        f64::NAN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::Crossing;

    fn packet(flow: u32, sent_ns: u64, delay_ns: u64) -> Crossing {
        Crossing::of_ns(flow, sent_ns, Some(sent_ns + delay_ns))
    }

    fn reference(received_ns: f64, delay_ns: f64) -> Reference {
        Reference {
            received_ns,
            delay_ns,
        }
    }

    #[test]
    fn packets_between_references_lie_between_their_delays() {
        let references = vec![
            reference(100.0, 10.0),
            reference(200.0, 30.0),
            reference(300.0, 10.0),
        ];
        // Flow 0 arrives at 150 and 225; flow 1 before all, flow 2 after all.
        let packets = [
            packet(0, 130, 20),
            packet(0, 200, 25),
            packet(1, 40, 10),
            packet(2, 390, 10),
        ];
        let trace = Trace::from_crossings(&packets, references, 1);
        let rli = Interpolated::of(&trace);
        assert_eq!(rli.mean_ns, [22.5, 10.0, 10.0]);
        // The middle one is predicted 10 instead of 30: e = 20 everywhere.
        let half = Method::Linear.bound_calibration(1.0) * 2.0 * (0.5_f64 * 400.0).sqrt();
        assert!((rli.bound_ns[0] - half).abs() < 1e-9, "{:?}", rli.bound_ns);
        assert!((rli.bound_ns[1] - half * 2.0_f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn without_references_nothing_is_known() {
        let trace = Trace::from_crossings(&[packet(0, 1, 1)], Vec::new(), 1);
        let rli = Interpolated::of(&trace);
        assert!(rli.mean_ns[0].is_nan());
        assert!(rli.bound_ns[0].is_nan());
    }
}
