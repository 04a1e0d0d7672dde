//! Real and unusual frames, if they are available next to the workspace.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::{check_consistency, hasher};
use crate::packet::{FlowHash, FlowKey, Kind};

fn shared(folder: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../shared")
        .join(folder);
    let found = path.is_dir();
    if !found {
        println!("skipped: there is no {}", path.display());
    }
    found.then_some(path)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// Frames of a classic pcap file of Ethernet with their lengths on the wire; none of any other.
fn frames(path: &Path) -> Vec<(Vec<u8>, u32)> {
    let bytes = std::fs::read(path).unwrap();
    let little = match bytes.get(..4) {
        Some([0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1]) => true,
        Some([0xa1, 0xb2, 0xc3, 0xd4] | [0xa1, 0xb2, 0x3c, 0x4d]) => false,
        _ => return Vec::new(),
    };
    let word = |at: usize| {
        let word = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(if little {
            u32::from_le_bytes(word)
        } else {
            u32::from_be_bytes(word)
        })
    };
    let mut found = Vec::new();
    let is_ethernet = word(20).is_some_and(|link_type| link_type & 0xffff == 1);
    let mut at = 24;
    while let (true, Some(captured), Some(length)) = (is_ethernet, word(at + 8), word(at + 12)) {
        let end = (at + 16).saturating_add(captured as usize);
        let Some(frame) = bytes.get(at + 16..end) else {
            break;
        };
        found.push((frame.to_vec(), length.max(captured)));
        at = end;
    }
    found
}

#[test]
fn odd_frames_are_parsed() {
    let Some(folder) = shared("odd-frames") else {
        return;
    };
    let hasher = hasher();
    let mut kinds = HashMap::<Kind, u64>::new();
    for (frame, length) in files(&folder).iter().flat_map(|path| frames(path)) {
        // A first segment may end anywhere.
        for head in [frame.len(), frame.len() / 2, frame.len().min(64)] {
            check_consistency(&hasher, &frame[..head], length).unwrap();
        }
        *kinds.entry(hasher.parse(&frame, length).kind).or_default() += 1;
    }
    println!("{kinds:?}");
    assert_eq!(kinds.len(), Kind::COUNT, "odd frames of every kind");
}

#[test]
fn flows_of_real_traffic_do_not_collide() {
    let Some(folder) = shared("traces") else {
        return;
    };
    let hasher = hasher();
    let mut keys = HashSet::<FlowKey>::new();
    let mut flows = HashSet::<FlowHash>::new();
    for (frame, length) in files(&folder).iter().flat_map(|path| frames(path)) {
        keys.insert(FlowKey::parse(&frame));
        flows.insert(hasher.parse(&frame, length).flow);
    }
    println!("{} flows", keys.len());
    assert!(keys.len() > 10_000);
    assert_eq!(keys.len(), flows.len());
}
