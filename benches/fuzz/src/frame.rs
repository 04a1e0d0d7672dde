//! Ethernet frames.

use std::sync::LazyLock;

use measure::packet::{FlowKey, Hasher};

static HASHER: LazyLock<Hasher> = LazyLock::new(|| Hasher::new(*b"vernier fuzzing!"));

/// Any bytes are a frame: it has hashes, and its flow's key has the flow's hash. Bytes after the first segment change
/// neither flow nor kind.
pub fn frame(bytes: &[u8]) {
    let frame_len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let parsed = HASHER.parse(bytes, frame_len);
    let key = FlowKey::parse(bytes);
    assert_eq!(HASHER.flow_hash(&key), parsed.flow, "{key}");
    assert_eq!(HASHER.parse(bytes, frame_len), parsed, "parsed twice");

    let longer = HASHER.parse(bytes, frame_len.saturating_add(9_000));
    assert_eq!((longer.flow, longer.kind), (parsed.flow, parsed.kind));
}
