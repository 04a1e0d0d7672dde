//! Limits of a switch: ports, classes, and the most memory that the control side uses, for the budget
//! ([`crate::config::memory`]). The code that uses the memory asserts these limits.

/// Most ports of one switch.
pub const PORTS_MAX: usize = 64;

/// Most classes.
pub const CLASSES_MAX: usize = 8;

/// Bytes of one history of delays, of a segment or of a flow with series of its own.
pub const HISTORY_BYTES: usize = 21_984;

/// Bytes of the delays of the last minute, for each segment and each class.
pub const LAST_MINUTE_BYTES: usize = 49_184;

/// Bytes of the flow directory for each flow slot of each worker, without estimates: the flow, its table entries, and
/// its places in two published lists, the current and the next.
pub const DIRECTORY_BYTES_PER_SLOT: usize = 1_112;

/// Bytes kept for an IPFIX collector for each flow slot of each worker: the entry and its share of a table that has
/// just grown.
pub const EXPORTED_BYTES_PER_SLOT: usize = 384;

/// Bytes of an estimate of a flow.
pub const ESTIMATE_BYTES: usize = 48;

/// Bytes of the totals of a wire's flow, published with each flow of an epoch.
pub const WIRE_SEEN_FLOW_BYTES: usize = 80;

/// The same with the flow's hash and segment, in the wire's table of flows.
pub const WIRE_SEEN_ENTRY_BYTES: usize = 96;

/// Bytes of HTTP answers in flight regardless of the configuration: flows, ports, wires.
const ANSWER_BYTES_BASE: usize = 16 << 20;

/// Further bytes for each segment: a whole page of `/metrics` with the longest names, or two with usual
/// ones.
const ANSWER_BYTES_PER_SEGMENT: usize = 64 << 10;

/// Most bytes of HTTP answers in flight, over all connections of a switch with this many segments.
pub const fn answer_bytes_max(segments: usize) -> usize {
    ANSWER_BYTES_BASE + segments * ANSWER_BYTES_PER_SEGMENT
}
