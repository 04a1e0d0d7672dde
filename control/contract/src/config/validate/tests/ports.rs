use serde_json::json;

use super::check;

#[test]
fn egress_queues_are_checked() {
    check(&[
        (
            "/ports/0/egress/queues/1/classes",
            json!(["rest", "voice"]),
            "ports[0].egress.queues[1].classes[1]: expected a class that is in no queue yet, got \
             \"voice\"",
        ),
        (
            "/ports/0/egress/queues/1/classes",
            json!([]),
            "ports[0].egress.queues[1].classes: expected one class at least, got none",
        ),
        (
            "/ports/0/egress/queues/1/classes",
            json!(["bulk"]),
            "ports[0].egress.queues[1].classes[0]: expected the name of a class (voice, rest), \
             got \"bulk\"",
        ),
        (
            "/ports/0/egress/queues",
            json!([{ "classes": ["rest"] }]),
            "ports[0].egress.queues: expected a queue for class voice, got none",
        ),
        (
            "/ports/0/egress/queues/0/packets",
            json!(65_537),
            "ports[0].egress.queues[0].packets: expected 1 to 65536, got 65537",
        ),
        (
            "/ports/0/egress/queues/1/bytes",
            json!(1_521),
            "ports[0].egress.queues[1].bytes: expected 1522 (a frame of the MTU) to 1073741824, \
             got 1521",
        ),
        (
            "/ports/0/egress/queues/1/service/weight",
            json!(0),
            "ports[0].egress.queues[1].service.weight: expected 1 to 1000, got 0",
        ),
        (
            "/ports/0/egress/queues/1/red/max_packets",
            json!(1_025),
            "ports[0].egress.queues[1].red.max_packets: expected 1 to 1024, got 1025",
        ),
        (
            "/ports/0/egress/queues/1/red/min_packets",
            json!(300),
            "ports[0].egress.queues[1].red.min_packets: expected 0 to 299, got 300",
        ),
        (
            "/ports/0/egress/queues/1/red/probability",
            json!(0),
            "ports[0].egress.queues[1].red.probability: expected over 0, up to 1, got 0",
        ),
        (
            "/ports/0/egress/queues/1/red/weight_log2",
            json!(17),
            "ports[0].egress.queues[1].red.weight_log2: expected 0 to 16, got 17",
        ),
        (
            "/ports/0/egress/queue_packets",
            json!(64),
            "ports[0].egress.queue_packets: expected no such key beside `queues`, which \
             have their own `packets` and `bytes`, got 64",
        ),
        (
            "/ports/0/egress/queue_bytes",
            json!(64_000),
            "ports[0].egress.queue_bytes: expected no such key beside `queues`, which have \
             their own `packets` and `bytes`, got 64000",
        ),
        (
            "/ports/1/egress/queue_bytes",
            json!(64),
            "ports[1].egress.queue_bytes: expected 1522 (a frame of the MTU) to 1073741824, got 64",
        ),
        (
            "/ports/0/egress/burst_bytes",
            json!(16_777_217),
            "ports[0].egress.burst_bytes: expected 0 to 16777216, got 16777217",
        ),
        (
            "/ports/2/egress",
            json!({ "burst_bytes": 9 }),
            "ports[2].egress.burst_bytes: expected `capacity_bps` beside it, got none",
        ),
        (
            "/ports/0/egress/max_residency_us",
            json!(0),
            "ports[0].egress.max_residency_us: expected 1 to 60000000, got 0",
        ),
        (
            "/ports/0/egress/owner",
            json!(2),
            "ports[0].egress.owner: expected 0 to 1, got 2",
        ),
    ]);
}
