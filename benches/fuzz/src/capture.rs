//! Captures that a `replay:` port plays.
//!
//! The first three bytes choose speed, loops and MTU; the others are the file.
//!
//! Oracle: a capture that opens returns each of its packets once per loop, never more at once than there is room for,
//! in the order of their times, none longer than the port's MTU allows, and none with more bytes than its length; then
//! it is exhausted. If it does not open, the error says why.

use std::path::PathBuf;

use arbitrary::Unstructured;
use contract::config::device;
use switch::source::Replay;

/// Bytes that two VLAN tags and the Ethernet header add to an MTU.
const ENVELOPE_BYTES: u32 = 14 + 8;

/// Largest number of frames to play; loops of large files find nothing new.
const FRAMES_MAX: u64 = 4_096;

/// The bytes are options of playing, and a file.
pub fn capture(bytes: &[u8]) {
    let Some((&[speed, loops, mtu], file)) = bytes.split_first_chunk() else {
        return;
    };
    let speeds = [1.0, 0.01, 100.0, f64::MIN_POSITIVE, 1e9];
    let spec = device::Replay {
        file: PathBuf::from("fuzz.pcap"),
        speed: speeds[usize::from(speed) % speeds.len()],
        loops: u64::from(loops % 4),
    };
    let mtus = [1_500, 64, 9_000, u16::MAX];
    let mtu_bytes = mtus[usize::from(mtu) % mtus.len()];
    let mut replay = match Replay::from_bytes(file.to_vec(), &spec, mtu_bytes) {
        Ok(replay) => replay,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert!(replay.packets() > 0);
    assert!(
        replay.packets() <= file.len() / 16,
        "more packets than headers"
    );
    let limit_bytes = (u32::from(mtu_bytes) + ENVELOPE_BYTES).min(u16::MAX.into());
    let mut rooms = Unstructured::new(file);
    let mut played = 0;
    let mut elapsed_ns = 0;
    // Far ahead in large steps, then at the end of time, when every packet is due.
    for shift in (20..=64).step_by(4) {
        loop {
            let room = rooms.int_in_range(1..=64).unwrap_or(64);
            let emitted = replay.poll(elapsed_ns, room, |frame| {
                assert!(frame.head.len() <= frame.len_bytes as usize);
                assert!(frame.len_bytes <= limit_bytes, "{} bytes", frame.len_bytes);
                true
            });
            assert!(emitted <= room, "{emitted} frames where {room} have room");
            played += emitted as u64;
            if emitted == 0 || played > FRAMES_MAX {
                break;
            }
        }
        elapsed_ns = 1_u64.checked_shl(shift).unwrap_or(u64::MAX);
    }
    let refused = replay.poll(u64::MAX, 1, |_| false);
    assert_eq!(refused, 0, "a frame that was not accepted counts as played");
    let whole = replay.packets() as u64 * spec.loops;
    if spec.loops > 0 && played <= FRAMES_MAX {
        while replay.poll(u64::MAX, 64, |_| true) > 0 && played <= whole {
            played += 1;
        }
        assert!(replay.exhausted());
    }
    for warning in replay.warnings() {
        assert!(!warning.is_empty());
    }
}
