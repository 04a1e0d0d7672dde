//! Captures through `net_pcap`: contents, frames longer than an mbuf, statistics.

#![allow(
    clippy::unwrap_used,
    reason = "what does not work as it should fails the test"
)]

mod common;

use common::{eal, pool, read_capture, receive_all, write_capture};
use dpdk_bindings::{ArrayVec, Mbuf, Mempool, Port, PortConfig};

#[test]
fn frames_pass_whole_even_when_longer_than_a_segment() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (
        folder.path().join("in.pcap"),
        folder.path().join("out.pcap"),
    );
    let byte = |i: usize| u8::try_from(i % 251).unwrap();
    let frame = |(n, len)| (0..len).map(|i| byte(i * 7 + n)).collect();
    let lengths = [60, 1514, 2048, 2049, 9000, 9014];
    let frames: Vec<Vec<u8>> = lengths.into_iter().enumerate().map(frame).collect();
    write_capture(&input, &frames);

    let eal = eal();
    let pool = pool(&eal);
    let config = PortConfig {
        mtu: 9000,
        ..PortConfig::default()
    };
    let device = format!(
        "net_pcap0,rx_pcap={},tx_pcap={}",
        input.display(),
        output.display()
    );
    let port = eal.attach(&device).unwrap().start(&config, &pool).unwrap();
    assert!(port.is_up() && port.transmits_chains());

    let received = receive_all(&mut port.rx_queue(0).unwrap());
    let lengths: Vec<u32> = received.iter().map(Mbuf::len_bytes).collect();
    assert_eq!(lengths, [60, 1514, 2048, 2049, 9000, 9014]);
    let segments: Vec<u16> = received.iter().map(Mbuf::segments).collect();
    assert_eq!(segments, [1, 1, 1, 2, 5, 5]);
    for (mbuf, frame) in received.iter().zip(&frames) {
        assert_eq!(mbuf.head(), &frame[..mbuf.head().len()]);
        assert_eq!(mbuf.port(), port.id());
    }

    let mut burst = copies(received, &frames[4][..3000], &pool);
    assert_eq!(port.tx_queue(0).unwrap().transmit(&mut burst), 13);
    assert_eq!(port.stats().tx_packets, 13);
    assert_eq!(port.stats().tx_bytes, 2 * port.stats().rx_bytes + 9000);
    drop(port);
    assert_eq!(pool.available(), pool.capacity());

    let mut expected = [frames.clone(), frames.clone()].concat();
    expected.push([&frames[4][..3000], &vec![0; 6000]].concat());
    assert!(read_capture(&output) == expected, "bytes on the far side");

    write_capture(&input, &[vec![1; 70_000], vec![2; 60]]);
    let port = eal.attach(&device).unwrap().start(&config, &pool).unwrap();
    frames_over_64_kib(port, &pool);
    assert!(read_capture(&output) == [[2; 60]]);
}

/// `net_pcap` stores fewer bytes of a frame over 64 KiB than it reports: such a frame is neither copied nor sent.
fn frames_over_64_kib<'p>(port: Port<'p>, pool: &'p Mempool<'p>) {
    let mut burst: ArrayVec<Mbuf, 32> = receive_all(&mut port.rx_queue(0).unwrap())
        .into_iter()
        .collect();
    assert_eq!(burst[0].len_bytes(), 70_000);
    assert!(burst[0].copy(pool).is_none());
    let mut tx = port.tx_queue(0).unwrap();
    assert_eq!((tx.transmit(&mut burst), tx.transmit(&mut burst)), (1, 1));
    assert_eq!((port.stats().tx_errors, port.stats().tx_packets), (1, 1));
    drop((tx, port));
    assert_eq!(pool.available(), pool.capacity());
}

/// Copies, the frames themselves, and a frame padded over several segments are all complete.
fn copies<'p>(
    received: Vec<Mbuf<'p>>,
    head: &[u8],
    pool: &'p Mempool<'p>,
) -> ArrayVec<Mbuf<'p>, 32> {
    let mut burst: ArrayVec<Mbuf, 32> = received
        .iter()
        .map(|mbuf| mbuf.copy(pool).unwrap())
        .collect();
    burst.extend(received);
    let padded = pool.alloc_frame(head, 9000).unwrap();
    assert_eq!((padded.segments(), padded.len_bytes()), (5, 9000));
    burst.push(padded);
    burst.push(pool.alloc_frame(&[], 0).unwrap());
    assert_eq!(
        burst.last().map(|mbuf| (mbuf.segments(), mbuf.len_bytes())),
        Some((1, 0))
    );
    assert!(burst.pop().unwrap().copy(pool).is_none(), "nothing to copy");
    assert!(
        pool.alloc_frame(&[], u32::MAX).is_none(),
        "more than the pool"
    );
    burst
}
