//! Packets through `net_ring`, which returns every packet sent to it: bursts, queues, ownership.

#![allow(
    clippy::unwrap_used,
    reason = "what does not work as it should fails the test"
)]

mod common;

use common::{Burst, eal, frame, number, pool, receive_all, start};
use dpdk_bindings::{Mbuf, Mempool, RxQueue, TxQueue, free_bulk};

/// Capacity of a ring of 1,024 slots.
const RING_PACKETS: u32 = 1023;

#[test]
fn ring_gives_back_what_it_accepted_and_nothing_is_lost() {
    let eal = eal();
    let pool = pool(&eal);
    assert_eq!((pool.capacity(), pool.available()), (2047, 2047));
    let port = start(&eal, "net_ring0", &pool);
    assert_eq!(
        (port.name(), port.info().driver.as_str()),
        ("net_ring0", "net_ring")
    );
    assert_eq!(eal.port_names(), ["net_ring0"]);

    // A queue has one owner until it is dropped.
    let mut rx = port.rx_queue(0).unwrap();
    assert!(port.rx_queue(0).is_none() && port.rx_queue(1).is_none());
    drop(rx);
    rx = port.rx_queue(0).unwrap();
    let mut tx = port.tx_queue(0).unwrap();

    let mut burst = fill(&mut tx, &pool);
    free_bulk(&mut burst);
    assert!(burst.is_empty());
    assert_eq!(pool.available(), 2047 - RING_PACKETS);
    empty(&mut rx, &pool);
    chains(&mut rx, &mut tx, &pool);
    copies_and_exhaustion(&pool);

    // Packets in the ring when the port is closed also return to their pool.
    let mut burst: Burst = (0..32).map(|n| frame(&pool, n)).collect();
    assert_eq!(tx.transmit(&mut burst), 32);
    drop((rx, tx));
    drop(port);
    assert_eq!(pool.available(), 2047);
    assert!(eal.port_names().is_empty());
}

fn copies_and_exhaustion(pool: &Mempool<'_>) {
    // A copy has its own memory and the packet's ingress port.
    let mut original = frame(pool, 1);
    original.set_port(7);
    let copy = original.copy(pool).unwrap();
    original.head_mut()[3] = 2;
    original.prefetch_data();
    assert_eq!((number(&original), number(&copy), copy.port()), (2, 1, 7));
    drop((original, copy));

    // An empty pool reports it, and recovers.
    let hoard: Vec<Mbuf> = std::iter::from_fn(|| pool.alloc_frame(&[], 60)).collect();
    assert_eq!((hoard.len(), pool.available()), (2047, 0));
    assert!(hoard[0].copy(pool).is_none());
    drop(hoard);
}

/// Fills the ring: the last burst is accepted in part, and the rest stays in order.
fn fill<'p>(tx: &mut TxQueue<'p>, pool: &'p Mempool<'p>) -> Burst<'p> {
    let mut burst = Burst::new();
    let mut next = 0;
    let accepted = loop {
        while !burst.is_full() {
            burst.push(frame(pool, next));
            next += 1;
        }
        let before = burst.len();
        let sent = tx.transmit(&mut burst);
        assert_eq!(burst.len(), before - sent, "removes what was accepted");
        if !burst.is_empty() {
            break next - u32::try_from(burst.len()).unwrap();
        }
    };
    assert_eq!(accepted, RING_PACKETS);
    assert!(
        burst.iter().map(number).eq(accepted..next),
        "the rest is what follows"
    );
    assert_eq!(tx.transmit(&mut burst), 0, "a full ring accepts nothing");
    assert_eq!(
        pool.available(),
        2047 - next,
        "allocated = in the ring + held"
    );
    burst
}

/// Receiving appends to the burst, up to its capacity.
fn empty<'p>(rx: &mut RxQueue<'p>, pool: &'p Mempool<'p>) {
    let mut burst = Burst::new();
    burst.push(frame(pool, 5_000));
    assert_eq!(rx.receive(&mut burst), 31);
    assert_eq!(rx.receive(&mut burst), 0, "a full burst takes nothing");
    assert!(
        burst
            .iter()
            .map(number)
            .eq([5_000].into_iter().chain(0..31))
    );
    assert!(
        burst
            .iter()
            .skip(1)
            .all(|mbuf| mbuf.len_bytes() == 60 && mbuf.segments() == 1)
    );
    drop(burst);
    let rest = receive_all(rx);
    assert!(rest.iter().map(number).eq(31..RING_PACKETS));
    let port = rx.port();
    let stats = port.stats();
    assert_eq!((stats.rx_packets, stats.tx_packets), (1023, 1023));
    drop(rest);
    assert_eq!(pool.available(), 2047);
}

/// A chain that exceeds the MTU, which a driver may be unable to send, is dropped and counted; the packets before and
/// after it are sent.
fn chains<'p>(rx: &mut RxQueue<'p>, tx: &mut TxQueue<'p>, pool: &'p Mempool<'p>) {
    assert!(!tx.port().transmits_chains());
    let chain = pool.alloc_frame(&[], 9000).unwrap();
    let mut burst: Burst = [frame(pool, 1), chain, frame(pool, 2)]
        .into_iter()
        .collect();
    assert_eq!(tx.transmit(&mut burst), 1);
    assert_eq!(
        (tx.transmit(&mut burst), tx.port().stats().tx_errors),
        (1, 1)
    );
    assert_eq!((tx.transmit(&mut burst), tx.transmit(&mut burst)), (1, 0));
    assert!(receive_all(rx).iter().map(number).eq([1, 2]));
    assert_eq!(pool.available(), 2047);
}
