//! Groups of ports whose packets come from a capture or a generator.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::groups::file;
use crate::{Group, Look, plans};

/// A capture of so many frames, 10 ms apart.
fn capture(frames: u32) -> PathBuf {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for n in 0..frames {
        let frame = crate::frames::mix(n).frame(n);
        let len = u32::try_from(frame.len()).unwrap();
        for word in [1, n * 10_000, len, len] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(frame);
    }
    file(&format!("keys-{frames}.pcap"), &bytes)
}

fn from_source(
    device: &str,
    look: fn(&contract::config::Config) -> String,
    changes: Vec<(&'static str, Value)>,
) -> Group {
    Group {
        base: json!({
            "ports": [{ "name": "a", "device": device }, { "name": "b", "device": "sink" }],
            "forwarding": { "mode": "patch", "pairs": [["a", "b"]] },
        }),
        look: Look::Other(look),
        changes,
    }
}

pub fn replay() -> Group {
    let (five, six) = (capture(5), capture(6));
    let device = |file: &PathBuf, options: &str| format!("replay:{}{options}", file.display());
    from_source(
        &device(&five, ""),
        plans::sourced,
        vec![
            ("/ports/0/device#file", json!(device(&six, ""))),
            ("/ports/0/device#speed", json!(device(&five, "?speed=2"))),
            ("/ports/0/device#loop", json!(device(&five, "?loop=2"))),
        ],
    )
}

pub fn generate() -> Group {
    from_source(
        "generate:flows=50,rate=2000",
        plans::sourced,
        vec![
            ("/ports/0/device#flows", json!("generate:flows=5,rate=2000")),
            (
                "/ports/0/device#size",
                json!("generate:flows=50,rate=2000,size=128"),
            ),
            ("/ports/0/device#rate", json!("generate:flows=50,rate=4000")),
            (
                "/ports/0/device#burst",
                json!("generate:flows=50,rate=2000,burst=8"),
            ),
            (
                "/ports/0/device#pareto",
                json!("generate:flows=50,rate=2000,pareto=0.5"),
            ),
            (
                "/ports/0/device#seed",
                json!("generate:flows=50,rate=2000,seed=2"),
            ),
            (
                "/ports/0/device#macs",
                json!("generate:flows=50,rate=2000,macs=2"),
            ),
            (
                "/ports/0/device#side",
                json!("generate:flows=50,rate=2000,side=1"),
            ),
        ],
    )
}
