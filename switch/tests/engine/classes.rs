//! Class queues in the running engine: priority, shares, packets that wait too long, and a bounded amount of work per
//! pass whatever arrives.
use contract::counters::{DropReason, PortCounters};
use measure::shard::{SegmentSynopsis, Shard};
use measure::synopsis::Synopsis;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg32;
use simulate::rack::{self, Rack, config, ledger, port, udp};
use switch::packet_io::BURST;

/// Gold goes first; silver has twice the weight of bronze. Flows 1000 and up are gold, 500 to 999
/// silver, the rest bronze.
const REST: &str = r#"
    "forwarding": {"mode": "patch", "pairs": [["east", "west"]]},
    "classes": [{"name": "gold"}, {"name": "silver"}, {"name": "bronze"}],
    "rules": [
        {"class": "gold", "source_ports": [1000, 65535]},
        {"class": "silver", "source_ports": [500, 999]}
    ],
    "measurement": {"segments": [{"from": "east", "to": "west"}]}"#;

const FLOW_OF_CLASS: [u16; 3] = [1000, 500, 0];

fn three_queues(keys: &str) -> String {
    let west = format!(
        r#""egress": {{"capacity_bps": 1000000000, {keys} "queues": [
            {{"classes": ["bronze"], "service": {{"weight": 1}}, "packets": 256}},
            {{"classes": ["gold"], "service": "strict", "packets": 256}},
            {{"classes": ["silver"], "service": {{"weight": 2}}, "packets": 256}}
        ]}},"#
    );
    [port("east", ""), port("west", &west)].join(", ")
}

/// The segment of a class over all epochs.
fn total_of(epochs: &[(u64, Shard)], class: usize) -> SegmentSynopsis {
    let mut segments = epochs.iter().map(|(_, shard)| &shard.segments()[class]);
    let mut total = segments.next().unwrap().clone();
    segments.for_each(|segment| total.merge(segment).unwrap());
    total
}

#[test]
fn the_strict_queue_goes_first_and_the_others_share_by_weight() {
    let mut rack = Rack::new(&config(1, &three_queues(""), REST));
    let mut number = 0;
    // A frame of 101 bytes takes 1 us. Gold offers a fifth of the link's rate, each other class all of it.
    for _ in 0..2_000 {
        for (class, frames) in [(0, 2), (1, 10), (2, 10)] {
            for _ in 0..frames {
                number += 1;
                rack.arrive(0, udp(FLOW_OF_CLASS[class], number, 101));
            }
        }
        rack.pass_at(rack.now + 10_000);
        rack.assert_conserved();
    }
    let departed = rack.departed(1);
    rack.settle();
    let epochs = rack.take_epochs();
    let [gold, silver, bronze] = [0, 1, 2].map(|class| total_of(&epochs, class));

    assert_eq!((gold.tally.sent, gold.tally.dropped), (4_000, 0));
    // It waits for the frame on the link, for the gold before it, and for the next poll.
    assert!(gold.moments.max_ticks().unwrap() <= 20_000);
    assert!(bronze.moments.max_ticks() > silver.moments.max_ticks());

    // While all of them wait: what silver got, of what gold left, within a quantum and a frame.
    let of_class = |flow: u16| {
        let frames = departed.iter().skip(500);
        frames
            .filter(|(_, frame)| frame[34..36] == flow.to_be_bytes())
            .count() as f64
    };
    let [_, silver_frames, bronze_frames] = FLOW_OF_CLASS.map(of_class);
    let ideal = (silver_frames + bronze_frames) * 2.0 / 3.0;
    assert!((silver_frames - ideal).abs() * 125.0 <= 2.0 * (2.0 * 1_522.0 + 1_542.0));

    for (class, segment) in [&gold, &silver, &bronze].into_iter().enumerate() {
        let counters = &rack.workers[0].counters.ports[1].classes[class];
        let left = segment.tally.received + segment.tally.late;
        assert_eq!(counters.tx_packets.get(), left);
        assert_eq!(counters.tx_bytes.get(), left * 101);
        assert_eq!(counters.dropped_packets.get(), segment.tally.dropped);
    }
    let tally = ledger(epochs.iter().map(|(_, shard)| shard));
    assert_eq!(tally.sent, 44_000);
    assert_eq!(tally.dropped, rack.dropped(1, DropReason::QueueFull));
    assert_eq!(tally.sent, tally.received + tally.late + tally.dropped);
}

#[test]
fn nothing_stays_longer_than_the_maximum() {
    let mut rack = Rack::new(&config(
        1,
        &three_queues(r#""max_residency_us": 150,"#),
        REST,
    ));
    for number in 0..20_000 {
        let class = number as usize % 2 + 1;
        rack.arrive(0, udp(FLOW_OF_CLASS[class], number, 101));
        // Twice the link's rate, with a pause now and then.
        let pause = if number % 5_000 == 0 { 1_000_000 } else { 500 };
        rack.pass_at(rack.now + pause);
        rack.assert_conserved();
    }
    rack.settle();
    let epochs = rack.take_epochs();
    let [silver, bronze] = [1, 2].map(|class| total_of(&epochs, class));
    let longest = bronze.moments.max_ticks().max(silver.moments.max_ticks());
    assert!(
        (140_000..=150_000).contains(&longest.unwrap()),
        "{longest:?}"
    );
    let expired = rack.dropped(1, DropReason::Expired);
    assert!(expired > 1_000, "{expired}");
    let tally = ledger(epochs.iter().map(|(_, shard)| shard));
    let full = rack.dropped(1, DropReason::QueueFull);
    assert_eq!(tally.dropped, expired + full);
    assert_eq!(tally.sent, tally.received + tally.late + tally.dropped);
}

#[test]
fn a_pass_does_a_bounded_amount_of_work() {
    let egress = r#""egress": {"queue_packets": 4096, "max_residency_us": 10, "owner": 0},"#;
    let ports = ["a", "b", "c", "d"]
        .map(|name| port(name, egress))
        .join(", ");
    let rest = r#""forwarding": {"mode": "bridge", "flood_limit_pps": 1000000000}"#;
    let mut rack = Rack::new(&config(2, &ports, rest));
    let mut rng = Pcg32::seed_from_u64(3);
    for number in 0..6_000u32 {
        let station = |n: u8| [2, 0, 0, 0, 0, n];
        let (to, from) = (
            station(rng.random_range(0..12)),
            station(rng.random_range(0..12)),
        );
        rack.arrive(number as usize % 4, rack::between(to, from, 7, number, 60));
    }
    let (inlets, ports, others) = (4, 4, 1);
    // Receive a burst from each queue, and from each ring to a port; send by each port a burst for
    // each of its worker's two queues and for its ring, and two more, and drop as many for their age.
    let received_max = inlets * BURST as u64;
    let sent_max = (2 + others + 2) * ports * BURST as u64;
    let copies_max = (ports - 2) * received_max;
    let refused_max = ports * received_max + others * ports * BURST as u64;
    let mut rng = Pcg32::seed_from_u64(4);
    let mut last = vec![[0; 4]; 2];
    for _ in 0..400 {
        for port in 0..4 {
            rack.set_room(port, [None, Some(0), Some(9)][rng.random_range(0..3)]);
        }
        rack.pass_at(rack.now + rng.random_range(100..20_000));
        rack.assert_conserved();
        for (rack_worker, last) in rack.workers.iter().zip(&mut last) {
            let sum = |of: fn(&PortCounters) -> u64| -> u64 {
                rack_worker.counters.ports.iter().map(of).sum()
            };
            let now = [
                sum(|port| port.rx_packets.get()),
                sum(|port| port.tx_packets.get()),
                sum(|port| port.copies.get()),
                sum(PortCounters::dropped_total),
            ];
            let max = [received_max, sent_max, copies_max, sent_max + refused_max];
            for ((now, last), max) in now.iter().zip(last.iter()).zip(max) {
                assert!(now - last <= max, "{} of {max} in a pass", now - last);
            }
            *last = now;
        }
    }
    let expired = rack.sum(|port| port.drops[DropReason::Expired as usize].get());
    assert!(expired > 10, "{expired} expired");
    rack.settle();
    assert_eq!(rack.sum(|port| port.rx_packets.get()), 6_000);
}
