use proptest::prelude::*;
use records::snapshot::{Flow, FlowEstimate, FlowFigures, FlowMethod, FlowQuantiles, WireFlow};

use super::*;

pub fn estimate(method: FlowMethod, mean_ns: f64, bound_ns: f64) -> FlowEstimate {
    FlowEstimate {
        method,
        epoch: 0,
        epochs: 1,
        packets: 5,
        mean_ns,
        bound_ns: Some(bound_ns),
        is_within_bound: None,
    }
}

/// A flow as a switch reports it.
pub fn flow(last: FlowFigures, estimate: FlowEstimate, p99_ns: f64) -> WireFlow {
    let quantiles = FlowQuantiles {
        p99_ns,
        ..FlowQuantiles::default()
    };
    WireFlow {
        flow: Flow {
            last,
            estimate: Some(estimate),
            quantiles: Some(quantiles),
            ..Flow::default()
        },
        is_counted: true,
    }
}

fn stamp(end: End, packet: u64, tai_ns: u64) -> Stamp {
    Stamp {
        packet,
        flow: packet % 3,
        tai_ns,
        epoch: u32::try_from(tai_ns / 1_000).unwrap(),
        end,
        port: TRUNK,
    }
}

fn sent(packet: u64, tai_ns: u64) -> Stamp {
    stamp(End::Sender, packet, tai_ns)
}

fn received(packet: u64, tai_ns: u64) -> Stamp {
    stamp(End::Receiver, packet, tai_ns)
}

/// In each of ten epochs a flow sends `packets` packets, which take 100 ns and one more each, and the last is lost.
pub fn ten_epochs(flow: u64, packets: u64) -> Epochs {
    let stamps = |end, packets, delays: u64| {
        let all = (0..10).flat_map(move |epoch| (0..packets).map(move |n| (epoch, n)));
        let stamps = all.map(|(epoch, n)| Stamp {
            flow,
            epoch: u32::try_from(epoch).unwrap(),
            ..stamp(
                end,
                epoch * 10_000 + n,
                epoch * 100_000 + n * 10 + delays * (100 + n),
            )
        });
        stamps.collect::<Vec<_>>()
    };
    let sent = stamps(End::Sender, packets, 0);
    join(&sent, &stamps(End::Receiver, packets - 1, 1))
}

#[test]
fn losses_and_order_belong_to_the_epoch_of_sending() {
    let sender = [sent(10, 10), sent(11, 20), sent(12, 990), sent(13, 1_010)];
    // The first is overtaken, the second lost; 99 was never sent.
    let receiver = [
        received(12, 1_500),
        received(10, 1_600),
        received(99, 1_700),
        received(13, 1_800),
    ];
    let epochs = join(&sender, &receiver);
    let (first, packets) = (&epochs[&0], &epochs[&0].packets);
    assert_eq!((packets.sent, packets.received, packets.lost()), (3, 2, 1));
    assert_eq!(first.reordered, 1);
    assert_eq!(packets.mean_ns(), Some(f64::midpoint(510.0, 1_590.0)));
    assert_eq!(packets.deviation_ns(), Some(540.0));
    let all_lost = &first.flows[&(11 % 3)];
    assert_eq!((all_lost.packets.sent, all_lost.packets.lost()), (1, 1));
    assert!(all_lost.delays_ns.is_empty() && all_lost.p99_ns().is_nan());
    let second = &epochs[&1];
    assert_eq!((second.packets.sent, second.reordered), (1, 0));
    let of_other_port = sender.map(|stamp| Stamp { port: 0, ..stamp });
    assert!(join(&of_other_port, &receiver).is_empty());
}

#[test]
fn packets_with_the_same_hash_are_matched_by_time() {
    let sender = [sent(7, 100), sent(7, 5_000)];
    let means = |receiver: &[Stamp]| {
        let epochs = join(&sender, receiver);
        [0, 5].map(|epoch| epochs[&epoch].packets.mean_ns())
    };
    // The first was lost; then none; then one arrives twice.
    assert_eq!(means(&[received(7, 5_100)]), [None, Some(100.0)]);
    let both = [received(7, 150), received(7, 5_100)];
    assert_eq!(means(&both), [Some(50.0), Some(100.0)]);
    let thrice = [received(7, 150), received(7, 160), received(7, 5_100)];
    assert_eq!(means(&thrice), [Some(50.0), Some(100.0)]);
}

proptest! {
    /// Compared with a simple method: a map from packet to fate, if all hashes differ.
    #[test]
    fn sums_are_those_of_every_packet(fates in prop::collection::vec((any::<bool>(), 1..5_000_u64), 0..200)) {
        let sender: Vec<_> = (0..).zip(&fates).map(|(i, _)| sent(i * 7_919 % 1_009, i * 40)).collect();
        let mut receiver: Vec<_> = sender
            .iter()
            .zip(&fates)
            .filter(|(_, (is_lost, _))| !is_lost)
            .map(|(stamp, (_, delay))| received(stamp.packet, stamp.tai_ns + delay))
            .collect();
        receiver.sort_by_key(|stamp| stamp.tai_ns);
        let epochs = join(&sender, &receiver);
        let total = |of: fn(&Truth) -> u64| epochs.values().map(of).sum::<u64>();
        prop_assert_eq!(total(|truth| truth.packets.sent), fates.len() as u64);
        prop_assert_eq!(total(|truth| truth.packets.received), receiver.len() as u64);
        let sum: i128 = epochs.values().map(|truth| truth.packets.sum_ns).sum();
        let expected = fates.iter().filter(|(is_lost, _)| !is_lost);
        prop_assert_eq!(sum, expected.map(|(_, delay)| i128::from(*delay)).sum::<i128>());
        let index = |stamp: &Stamp| sender.iter().position(|sent| sent.packet == stamp.packet);
        let order: Vec<_> = receiver.iter().map(index).collect();
        let overtaken = (0..order.len()).filter(|&at| order[..at].iter().any(|before| *before > order[at]));
        prop_assert_eq!(total(|truth| truth.reordered), overtaken.count() as u64);
        for truth in epochs.values() {
            let flows = truth.flows.values().map(|flow| flow.packets);
            prop_assert_eq!(flows.clone().map(|flow| flow.received).sum::<u64>(), truth.packets.received);
            prop_assert_eq!(flows.clone().map(|flow| flow.lost()).sum::<u64>(), truth.packets.lost());
            prop_assert_eq!(flows.map(|flow| flow.sum_ns).sum::<i128>(), truth.packets.sum_ns);
        }
    }
}

#[test]
fn records_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stamps");
    let mut bytes: Vec<u8> = (1..=28).chain([0, 3, 7, 0]).collect();
    let sent = Stamp {
        packet: 0x0807_0605_0403_0201,
        flow: 0x100f_0e0d_0c0b_0a09,
        tai_ns: 0x1817_1615_1413_1211,
        epoch: 0x1c1b_1a19,
        end: End::Sender,
        port: 3,
    };
    let received = Stamp {
        end: End::Receiver,
        ..sent
    };
    bytes.extend_from_within(..);
    bytes[RECORD_BYTES + 28] = 1;
    bytes.extend([0; 31]);
    std::fs::write(&file, &bytes).unwrap();
    assert_eq!(read(&file).unwrap(), [sent, received]);

    bytes[28] = 2;
    std::fs::write(&file, &bytes).unwrap();
    assert!(read(&file).is_err());
}
