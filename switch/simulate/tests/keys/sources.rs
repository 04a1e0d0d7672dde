//! Groups of ports whose packets come from a capture or a generator.

use std::path::PathBuf;

use serde_json::{Value, json};
use testkit::pcap::Writer;

use crate::groups::file;
use crate::{Group, Look, plans};

/// A capture of `frames` frames, 10 ms apart.
fn capture(frames: u32) -> PathBuf {
    let mut bytes = Vec::new();
    let mut capture = Writer::new(&mut bytes).unwrap();
    for n in 0..frames {
        let frame = crate::frames::mix(n).frame(n);
        capture.write_at(1, n * 10_000, &frame).unwrap();
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
    let base = "generate:flows=50,rate=2000";
    let options = [
        ("/ports/0/device#size", "size=128"),
        ("/ports/0/device#burst", "burst=8"),
        ("/ports/0/device#pareto", "pareto=0.5"),
        ("/ports/0/device#seed", "seed=2"),
        ("/ports/0/device#macs", "macs=2"),
        ("/ports/0/device#side", "side=1"),
    ];
    let options = options.map(|(place, option)| (place, json!(format!("{base},{option}"))));
    let mut changes = vec![
        ("/ports/0/device#flows", json!("generate:flows=5,rate=2000")),
        ("/ports/0/device#rate", json!("generate:flows=50,rate=4000")),
    ];
    changes.extend(options);
    from_source(base, plans::sourced, changes)
}
