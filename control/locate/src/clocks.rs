//! Steps of clocks: between two clocks both directions of a link shift by the same amount, in opposite senses. A network
//! does not do that.

use crate::segment::{Segment, Shift};

/// By so much the two shifts may differ, beyond their noise.
const DIFFERENCE: f64 = 0.2;

/// Whether a step of a clock explains what came to a segment at a time; then both directions' shifts.
pub(crate) fn step(of: &Segment, reverse: &Segment, since_ms: u64) -> Option<(Shift, Shift)> {
    let (there, back) = (of.shift(since_ms)?, reverse.shift(since_ms)?);
    let noise = there.noise_ns.hypot(back.noise_ns);
    let greatest = there.by_ns.abs().max(back.by_ns.abs());
    let is_opposite = there.by_ns.signum() != back.by_ns.signum();
    let is_equal = (there.by_ns + back.by_ns).abs() <= DIFFERENCE * greatest + noise;
    let is_seen = there.by_ns.abs().min(back.by_ns.abs()) > noise;
    (is_opposite && is_equal && is_seen).then_some((there, back))
}
