//! A switch of one worker: a host's port patched to one with a wire.

use contract::wire::clock::TaiLine;
use measure::time::{EpochSchedule, Ticks};
use serde_json::{Value, json};
use wire::frame::MAGIC;

use super::{Rack, config, port, rate};
use crate::key_file;

pub const HOST: usize = 0;
pub const WIRE: usize = 1;

/// A time of day for tick 0.
pub const TAI_NS: u64 = 1_800_000_000_000_000_000;

const ETHERTYPE: u16 = 0x88B5;

/// Switch `number`, with these keys for its wire. Sizes are for epochs of `interval_ms`; `schedule` determines the
/// actual epochs.
pub fn wired(number: u32, wire: &Value, interval_ms: u64, schedule: EpochSchedule) -> Rack {
    let key = key_file().unwrap();
    let ports = [
        port("host", ""),
        port("wire", &format!(r#""wire": {wire},"#)),
    ]
    .join(", ");
    let rest = json!({
        "forwarding": { "mode": "patch", "pairs": [["host", "wire"]] },
        "measurement": { "interval_ms": interval_ms, "hash_seed": "07".repeat(16) },
        "wire": { "switch": number, "keys": [{ "id": 1, "file": key.path() }] },
        "prometheus": { "top_flows": 4 },
    });
    let rest = rest.to_string();
    let config = config(1, &ports, &rest[1..rest.len() - 1]);
    let rack = Rack::with(&config, schedule);
    let line = TaiLine::at_rate(Ticks(0), TAI_NS, rate());
    rack.running.platform.line.set(line);
    rack
}

pub fn is_control(frame: &[u8]) -> bool {
    frame[12..14] == ETHERTYPE.to_be_bytes() && frame[14..].starts_with(&MAGIC)
}

/// The number of a control frame's kind.
pub fn kind_of(frame: &[u8]) -> Option<u8> {
    is_control(frame).then(|| frame[19])
}
