use serde_json::json;

use super::*;

fn parse(owner: Option<usize>, mbufs: u32) -> Result<Config, String> {
    let text = json!({
        "ports": [
            { "name": "a", "device": "0000:01:00.0", "rx_queues": 2 },
            { "name": "b", "device": "net_ring1", "rx_queues": 1,
              "egress": { "owner": owner, "queue_packets": 800 } },
            { "name": "c", "device": "net_null0", "rx_queues": 1 },
        ],
        "forwarding": { "mode": "bridge" },
        "workers": [{}, {}],
        "dpdk": { "mbufs": mbufs },
    });
    Config::parse(&text.to_string(), "").map_err(|error| error.to_string())
}

#[test]
fn every_holder_counts() {
    let config = parse(None, 65_535).unwrap();
    let held = Held::of(&config);
    assert_eq!(held.descriptors, (2 + 2 + 1 + 2) * 1_024);
    assert_eq!(held.queues, 2 * (1_152 + 900 + 1_152));
    assert_eq!((held.rings, held.workers), (0, 2 * (768 + 512)));
    let owned = Held::of(&parse(Some(0), 65_535).unwrap());
    assert_eq!(owned.descriptors, (2 + 2 + 1 + 1) * 1_024);
    assert_eq!(owned.queues, 2 * 1_152 + 900 + 2 * 1_152);
    assert_eq!(owned.rings, 1_024);
}

#[test]
fn what_the_pool_does_not_have_is_refused() {
    let needed = Held::of(&parse(None, 65_535).unwrap()).total();
    let needed = u32::try_from(needed).unwrap();
    assert!(parse(None, needed).is_ok());
    let error = parse(None, needed - 1).unwrap_err();
    let expected = format!("dpdk.mbufs: expected {needed} at least (7168 in descriptors of ");
    assert!(error.contains(&expected), "{error}");
    assert!(error.ends_with(&format!("got {}", needed - 1)), "{error}");
}
