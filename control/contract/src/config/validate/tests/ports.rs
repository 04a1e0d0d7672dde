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
            "/ports/0/egress/queues/1/bytes",
            json!(1_521),
            "ports[0].egress.queues[1].bytes: expected 1522 (a frame of the MTU) to 1073741824, \
             got 1521",
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
            "/ports/2/egress",
            json!({ "burst_bytes": 9 }),
            "ports[2].egress.burst_bytes: expected `capacity_bps` beside it, got none",
        ),
        (
            "/ports/0/egress/owner",
            json!(2),
            "ports[0].egress.owner: expected 0 to 1, got 2",
        ),
    ]);
}
