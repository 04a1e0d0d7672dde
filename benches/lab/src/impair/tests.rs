//! The complete box: two ports in memory, the path of a frame, and its record.

use std::time::{Duration, Instant, UNIX_EPOCH};

use ::wire::frame::MAGIC;
use arrayvec::ArrayVec;
use dpdk_bindings::{Eal, EalOptions, Mbuf, Mempool, Port, PortConfig};
use measure::packet::Hasher;

use crate::frames::{ETHERTYPE, HELLO, kind};
use crate::impair::Plan;
use crate::impair::bridge::Bridge;
use crate::impair::flood::Replay;
use crate::impair::record::Recorder;
use crate::impair::rule::Rule;
use crate::ports::queues;
use crate::transits::{self, Counts, Fate, Summary};

fn rule(text: &str) -> Rule {
    text.parse().unwrap()
}

/// A frame of its own kind of bytes.
fn frame(number: u64) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend(0x9000_u16.to_be_bytes());
    frame.extend(number.to_le_bytes());
    frame.resize(80, 7);
    frame
}

fn start<'eal>(eal: &'eal Eal, pool: &'eal Mempool<'eal>) -> [Port<'eal>; 2] {
    ["net_ring_left", "net_ring_right"].map(|device| {
        let device = eal.attach(device).unwrap();
        device.start(&PortConfig::default(), pool).unwrap()
    })
}

/// Runs the box until `is_over` has held for a thousand passes. Returns its counts.
fn run(mut bridge: Bridge<'_>, is_over: impl Fn(&Summary) -> bool) -> Summary {
    let patience = Instant::now() + Duration::from_secs(20);
    let mut still = 0;
    while still < 1_000 {
        bridge.pass();
        let summary = bridge.summary();
        still = if is_over(&summary) { still + 1 } else { 0 };
        assert!(Instant::now() < patience, "{summary:?}");
    }
    let summary = bridge.end().unwrap();
    assert!(summary.ways.iter().all(Counts::adds_up), "{summary:?}");
    summary
}

fn put_in<'eal>(
    port: &Port<'eal>,
    pool: &'eal Mempool<'eal>,
    frames: impl Iterator<Item = Vec<u8>>,
) {
    let mut tx = port.tx_queue(0).unwrap();
    for frame in frames {
        let mut burst: ArrayVec<Mbuf, 1> = pool.alloc_frame(&frame, 0).into_iter().collect();
        assert_eq!(tx.transmit(&mut burst), 1);
    }
}

/// `net_ring`'s two ports lead to themselves, so the box receives every frame that it sends. Each frame circulates
/// until a rule loses it; here half are lost at each pass to the left.
#[test]
fn frames_go_through_and_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("record");
    let eal = Eal::init("impair-test", &EalOptions::default()).unwrap();
    let pool = eal.mempool("impair", 8_191, 256, 2_048).unwrap();
    let ports = start(&eal, &pool);
    let plan = Plan {
        seed: 3,
        to_right: Some(rule("delay_us=100")),
        to_left: Some(rule("loss=0.5")),
        ..Plan::default()
    };
    let hasher = Hasher::new([1; 16]);
    // Put in before the box takes the queues.
    let count = 400_u64;
    put_in(&ports[0], &pool, (0..count).map(frame));
    let recorder = Recorder::create(&file).unwrap();
    let queues = ports.each_ref().map(|port| queues(port).unwrap());
    let bridge = Bridge::new(queues, &pool, &plan, hasher.clone(), Some(recorder));
    let summary = run(bridge, |summary| summary.ways[1].lost == count);
    let [to_right, to_left] = &summary.ways;
    assert_eq!((summary.unwritten, to_right.passed), (0, to_right.arrived));
    assert_eq!(
        (to_left.arrived, to_left.passed + count),
        (to_right.passed, to_right.passed)
    );

    let transits = transits::read(&file).unwrap();
    let way = |direction| transits.iter().filter(move |p| p.direction == direction);
    assert_eq!(way(0).count() as u64, to_right.arrived);
    assert!(way(0).all(|p| p.delay_ns() >= Some(100_000)));
    assert!(transits.iter().all(|p| p.bytes == 80));
    assert_eq!(
        way(1).filter(|p| p.fate == Fate::Lost).count() as u64,
        count
    );
    // Each frame is found again at every pass.
    for number in 0..count {
        let hash = hasher.parse(&frame(number), 80).packet.0;
        let there = way(0).filter(|p| p.packet == hash).count();
        let back = way(1).filter(|p| p.packet == hash).count();
        assert!(there == back && there >= 1, "{number}: {there} and {back}");
    }
    let now_ns = UNIX_EPOCH.elapsed().unwrap().as_nanos();
    let old = way(0).filter(|p| u128::from(p.arrival_ns) + 60_000_000_000 < now_ns);
    assert_eq!(old.count(), 0, "times are the system's");
    drop(ports);
    assert_eq!(pool.available(), pool.capacity(), "no mbuf is missing");
}

#[test]
fn the_first_hello_is_sent_again_while_it_is_time_and_what_is_due_goes_first() {
    let eal = Eal::init("impair-test", &EalOptions::default()).unwrap();
    let pool = eal.mempool("impair", 8_191, 256, 2_048).unwrap();
    let ports = start(&eal, &pool);
    let hello = |number: u8| {
        let mut frame = vec![2; 12];
        frame.extend(ETHERTYPE.to_be_bytes());
        frame.extend(MAGIC);
        frame.extend([2, HELLO, number]);
        frame.resize(80, 0);
        assert_eq!(kind(&frame), HELLO);
        frame
    };
    let plan = Plan {
        to_left: Some(rule("loss=1")),
        replay: Replay {
            replay_right: Some(0.05),
            replay_after: 0.0,
        },
        ..Plan::default()
    };
    let hasher = Hasher::new([1; 16]);
    put_in(
        &ports[0],
        &pool,
        [hello(1), hello(2)].into_iter().chain((0..100).map(frame)),
    );
    let queues = ports.each_ref().map(|port| queues(port).unwrap());
    let bridge = Bridge::new(queues, &pool, &plan, hasher, None);
    let summary = run(bridge, |summary| {
        let [to_right, to_left] = &summary.ways;
        to_right.replayed > 0 && to_left.lost == to_right.replayed + 102
    });
    let [to_right, _] = &summary.ways;
    assert_eq!((to_right.passed, to_right.overrun), (102, 0));
    drop(ports);
    assert_eq!(pool.available(), pool.capacity(), "no mbuf is missing");
}
