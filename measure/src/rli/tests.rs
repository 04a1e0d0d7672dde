//! RLI against delays that are known exactly.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times and counts of small simulations"
)]

mod accuracy;
mod fifo;
mod inject;
mod receiver;
mod runs;

use super::{Link, StreamId};
use crate::observation::SegmentIndex;

/// The stream that all tests listen to.
const STREAM: StreamId = StreamId {
    worker: 0,
    segment: SegmentIndex(0),
    queue: 0,
};

/// A link on which a byte takes a nanosecond.
fn byte_a_ns() -> Link {
    Link::new(8_000_000_000, 0).unwrap()
}
