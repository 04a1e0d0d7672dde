//! The stamp: from receive to transmit, in copies, in fresh mbufs, beside `net_pcap`'s own field.

#![allow(
    clippy::unwrap_used,
    reason = "what does not work as it should fails the test"
)]

mod common;

use common::{Burst, eal, frame, pool, receive_all, start, write_capture};
use dpdk_bindings::{Eal, Mbuf, Mempool, StampField};

#[test]
fn stamp_travels_with_its_packet_and_no_further() {
    let eal = eal();
    let stamp = StampField::register(&eal).unwrap();
    let pool = pool(&eal);
    one_packet(&stamp, &pool);
    a_burst(&stamp, &pool);

    // Whatever field earlier packets left behind, a fresh mbuf is unstamped.
    let stamp_all = |mut all: Vec<Mbuf>| {
        for mbuf in &mut all {
            stamp.set(mbuf, [9; 3]);
        }
        all.len()
    };
    let all = || std::iter::from_fn(|| pool.alloc_frame(&[0; 60], 60)).collect::<Vec<_>>();
    assert_eq!(stamp_all(all()), 2047);
    assert!(all().iter().all(|mbuf| stamp.get(mbuf).is_none()));

    // Registering again finds the same field.
    let again = StampField::register(&eal).unwrap();
    let mut mbuf = frame(&pool, 0);
    again.set(&mut mbuf, [4, 5, 6]);
    assert_eq!(stamp.get(&mbuf), Some([4, 5, 6]));
    drop(mbuf);
    through_ports(&eal, &stamp, &pool);
}

fn one_packet(stamp: &StampField, pool: &Mempool<'_>) {
    let mut mbuf = frame(pool, 0);
    assert_eq!(stamp.get(&mbuf), None);
    stamp.set(&mut mbuf, [1, u64::MAX, 3]);
    assert_eq!(stamp.get(&mbuf), Some([1, u64::MAX, 3]));
    assert_eq!(
        (mbuf.len_bytes(), mbuf.segments(), mbuf.head().len()),
        (60, 1, 60)
    );

    // A copy has the same stamp; clearing one does not change the other.
    let mut copy = mbuf.copy(pool).unwrap();
    assert_eq!(stamp.get(&copy), Some([1, u64::MAX, 3]));
    stamp.clear(&mut copy);
    assert_eq!(
        (stamp.get(&copy), stamp.get(&mbuf)),
        (None, Some([1, u64::MAX, 3]))
    );
    drop((copy, mbuf));

    // A stamp is taken once. Without the flag its words are kept, because they may be recognised in another way.
    let take = |mbuf: &mut Mbuf<'_>, vouches: fn(&Mbuf<'_>, u64) -> bool| {
        let one = std::slice::from_mut(mbuf);
        let shared = stamp.first_of(one, vouches)?;
        assert_eq!(stamp.take_run(one, &shared).0, 1);
        let [first, second] = stamp.first_words(mbuf);
        Some([first, second, shared.last])
    };
    let mut mbuf = frame(pool, 0);
    stamp.set(&mut mbuf, [7, 8, 9]);
    assert_eq!(take(&mut mbuf, |_, _| false), Some([7, 8, 9]));
    assert_eq!(take(&mut mbuf, |_, _| false), None);
    stamp.set(&mut mbuf, [7, 8, 9]);
    stamp.clear(&mut mbuf);
    assert_eq!(take(&mut mbuf, |_, _| false), None);
    assert_eq!(take(&mut mbuf, |_, last| last == 9), Some([7, 8, 9]));
    assert_eq!(take(&mut mbuf, |_, last| last == 9), None);
}

/// All packets with the same stamp are taken at once.
fn a_burst(stamp: &StampField, pool: &Mempool<'_>) {
    let mut burst: Vec<Mbuf> = (0..5).map(|_| frame(pool, 0)).collect();
    let bytes: u64 = burst.iter().map(|mbuf| u64::from(mbuf.len_bytes())).sum();
    let take = |burst: &mut [Mbuf], vouches: fn(&Mbuf<'_>, u64) -> bool| {
        let shared = stamp.first_of(burst, vouches)?;
        let (taken, bytes) = stamp.take_run(burst, &shared);
        let lengths = burst[..taken]
            .iter()
            .map(|mbuf| u64::from(mbuf.len_bytes()));
        assert_eq!(bytes, lengths.sum());
        Some((shared.last, taken))
    };
    assert_eq!(take(&mut burst[..0], |_, _| true), None);
    assert_eq!(stamp.set_last_of(&mut burst, 7), bytes);
    // If only the flag is proof, each packet's flag is checked.
    stamp.clear(&mut burst[2]);
    assert_eq!(take(&mut burst, |_, _| false), Some((7, 2)));
    assert_eq!(take(&mut burst, |_, _| false), None);
    assert_eq!(take(&mut burst[2..], |_, _| false), None);
    assert_eq!(take(&mut burst[2..], |_, last| last == 7), Some((7, 3)));
    assert_eq!(take(&mut burst[2..], |_, _| false), None);
    stamp.set_last_of(&mut burst, 7);
    for mbuf in &mut burst {
        stamp.clear(mbuf);
    }
    assert_eq!(take(&mut burst, |_, last| last == 8), None);
    assert_eq!(take(&mut burst, |_, last| last == 7), Some((7, 5)));
    let others: [fn(&StampField, &mut Mbuf); 2] = [
        |stamp, mbuf| stamp.set_last(mbuf, 8),
        |_, mbuf| mbuf.set_port(9),
    ];
    for other in others {
        stamp.set_last_of(&mut burst, 7);
        other(stamp, &mut burst[3]);
        let word = stamp.get(&burst[3]).map(|[_, _, last]| last);
        assert_eq!(take(&mut burst, |_, _| true), Some((7, 3)));
        assert_eq!(
            take(&mut burst[3..], |_, _| true).map(|taken| taken.0),
            word
        );
    }
}

/// `net_pcap` registers a field of its own; received mbufs are unstamped, and a stamp survives transmit and receive
/// through a ring.
fn through_ports(eal: &Eal, stamp: &StampField, pool: &Mempool<'_>) {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.pcap");
    write_capture(&input, &vec![vec![7; 60]; 20]);
    let device = format!("net_pcap0,rx_pcap={}", input.display());
    let capture = start(eal, &device, pool);
    let ring = start(eal, "net_ring0", pool);
    let mut burst: Burst = receive_all(&mut capture.rx_queue(0).unwrap())
        .into_iter()
        .collect();
    assert_eq!(burst.len(), 20);
    for (mbuf, n) in burst.iter_mut().zip(0..) {
        assert_eq!(stamp.get(mbuf), None);
        stamp.set(mbuf, [n, n << 32, !n]);
    }
    assert_eq!(ring.tx_queue(0).unwrap().transmit(&mut burst), 20);
    let returned = receive_all(&mut ring.rx_queue(0).unwrap());
    assert!(
        returned
            .iter()
            .map(|mbuf| stamp.get(mbuf))
            .eq((0..20).map(|n| Some([n, n << 32, !n])))
    );
}
