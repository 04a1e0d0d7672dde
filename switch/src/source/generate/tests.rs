use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;

const MS: u64 = 1_000_000;
/// FNV-1a of 10,000 frames, which changes only if the meaning of a seed is changed on purpose.
const GOLDEN_DIGEST: u64 = 0x557a_509c_2250_387d;

fn spec() -> device::Generate {
    device::Generate {
        flows: 1_000,
        size: FrameSize::Imix,
        rate_pps: 100_000.0,
        burst: 1.0,
        pareto: 1.2,
        seed: 1,
        macs: 16,
        side: 0,
    }
}

fn generator(spec: &device::Generate) -> Generator {
    Generator::new(spec, 1500).unwrap()
}

/// Head and length of the first `count` frames.
fn frames(spec: &device::Generate, count: usize) -> Vec<(Vec<u8>, u32)> {
    let mut frames = Vec::new();
    let emitted = generator(spec).poll(u64::MAX, count, |frame| {
        frames.push((frame.head.to_vec(), frame.len_bytes));
        true
    });
    assert_eq!(emitted, count);
    frames
}

/// The headers of a frame, checked field by field against the standards.
struct Parsed {
    macs: [[u8; 6]; 2],
    addresses: [Vec<u8>; 2],
    ports: [u16; 2],
    protocol: u8,
}

fn parse((head, len_bytes): &(Vec<u8>, u32)) -> Parsed {
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    // Sums to all ones when the checksum inside is right; what is not in the head is zero.
    let sums_up = |bytes: &[u8], more: u32| {
        let sum = bytes
            .chunks(2)
            .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
            .sum::<u32>()
            + more;
        assert_eq!((sum >> 16) + (sum & 0xffff), 0xffff, "checksum");
    };
    assert!(*len_bytes as usize >= head.len());
    let (transport, addresses, protocol) = match word(12) {
        0x0800 => {
            assert_eq!(head[14], 0x45, "version and header length");
            assert_eq!(u32::from(word(16)), len_bytes - 14, "total length");
            sums_up(&head[14..34], 0);
            (34, 26..34, head[23])
        }
        0x86dd => {
            assert_eq!(head[14] >> 4, 6, "version");
            assert_eq!(u32::from(word(18)), len_bytes - 54, "payload length");
            (54, 22..54, head[20])
        }
        other => panic!("ethertype {other:#06x}"),
    };
    let segment_bytes = len_bytes - u32::try_from(transport).unwrap();
    let pseudo_header = head[addresses.clone()]
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]))
        .sum::<u32>()
        + u32::from(protocol)
        + segment_bytes;
    sums_up(
        &head[transport..],
        (pseudo_header >> 16) + (pseudo_header & 0xffff),
    );
    match protocol {
        6 => assert_eq!(head[transport + 12] >> 4, 5, "data offset"),
        17 => assert_eq!(u32::from(word(transport + 4)), segment_bytes, "UDP length"),
        other => panic!("protocol {other}"),
    }
    let (source, destination) = head[addresses.clone()].split_at(addresses.len() / 2);
    Parsed {
        macs: [
            head[6..12].try_into().unwrap(),
            head[..6].try_into().unwrap(),
        ],
        addresses: [source.to_vec(), destination.to_vec()],
        ports: [word(transport), word(transport + 2)],
        protocol,
    }
}

#[test]
fn the_same_seed_gives_the_same_packets_everywhere() {
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    for (head, len_bytes) in frames(&spec(), 10_000) {
        for byte in head.into_iter().chain(len_bytes.to_le_bytes()) {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    assert_eq!(digest, GOLDEN_DIGEST, "{digest:#x}");
    assert_ne!(
        frames(&spec(), 100),
        frames(&device::Generate { seed: 2, ..spec() }, 100)
    );
}

#[test]
fn every_frame_is_what_it_says() {
    for size in [
        FrameSize::Imix,
        FrameSize::Fixed(60),
        FrameSize::Fixed(75),
        FrameSize::Fixed(1514),
    ] {
        let (mut ipv6, mut udp) = (0, 0);
        for frame in frames(
            &device::Generate {
                size,
                pareto: 10.0,
                ..spec()
            },
            20_000,
        ) {
            let parsed = parse(&frame);
            ipv6 += u32::from(parsed.addresses[0].len() == 16);
            udp += u32::from(parsed.protocol == 17);
        }
        assert!(
            (1_500..3_500).contains(&ipv6),
            "{ipv6} of 20000 IPv6, meant 2500"
        );
        assert!(
            (4_000..6_000).contains(&udp),
            "{udp} of 20000 UDP, meant 5000"
        );
    }
}

#[test]
fn no_two_packets_are_alike() {
    let frames = frames(
        &device::Generate {
            flows: 2,
            size: FrameSize::Fixed(60),
            ..spec()
        },
        50_000,
    );
    let distinct: HashSet<&Vec<u8>> = frames.iter().map(|(head, _)| head).collect();
    assert_eq!(distinct.len(), frames.len());
}

#[test]
fn the_sides_answer_each_other() {
    let conversations = |side: u8| -> HashSet<_> {
        let (from, to) = if side == 0 { (0, 1) } else { (1, 0) };
        frames(
            &device::Generate {
                side,
                flows: 50,
                ..spec()
            },
            20_000,
        )
        .iter()
        .map(parse)
        .map(|p| {
            assert_eq!(p.macs.map(|mac| mac[..4].to_vec())[from], [2, 0, 0, 0]);
            assert_eq!(p.macs.map(|mac| mac[..4].to_vec())[to], [2, 0, 0, 1]);
            let end = |i: usize| (p.macs[i], p.addresses[i].clone(), p.ports[i]);
            (end(from), end(to), p.protocol)
        })
        .collect()
    };
    assert_eq!(conversations(0), conversations(1));
    assert_eq!(conversations(0).len(), 50);
}

#[test]
fn there_are_as_many_addresses_as_asked_for() {
    for macs in [1, 16, 300] {
        let sources: HashSet<_> = frames(
            &device::Generate {
                macs,
                flows: 10_000,
                pareto: 10.0,
                ..spec()
            },
            50_000,
        )
        .iter()
        .map(|frame| parse(frame).macs[0])
        .collect();
        assert_eq!(sources.len(), macs as usize);
    }
}

/// Packets due in each of `windows` windows of 1 ms.
fn counts(spec: &device::Generate, windows: u64) -> Vec<f64> {
    let mut generator = generator(spec);
    (1..=windows)
        .map(|ms| generator.poll(ms * MS, usize::MAX, |_| true) as f64)
        .collect()
}

fn mean_and_variance(counts: &[f64]) -> (f64, f64) {
    let n = counts.len() as f64;
    let mean = counts.iter().sum::<f64>() / n;
    (
        mean,
        counts
            .iter()
            .map(|count| (count - mean).powi(2))
            .sum::<f64>()
            / (n - 1.0),
    )
}

#[test]
fn rate_and_burstiness_are_as_asked_for() {
    for burst in [1.0, 10.0] {
        let (mean, variance) =
            mean_and_variance(&counts(&device::Generate { burst, ..spec() }, 5_000));
        assert!(
            (mean / 100.0 - 1.0).abs() < 0.02,
            "{mean} packets a millisecond, meant 100"
        );
        // Batches of geometric size with mean b in Poisson arrivals: dispersion 2b - 1.
        let dispersion = variance / mean;
        let expected = 2.0 * burst - 1.0;
        assert!(
            (dispersion / expected - 1.0).abs() < 0.1,
            "{dispersion}, meant {expected}"
        );
    }
}

#[test]
fn sizes_are_mixed_seven_to_four_to_one() {
    let mut counts = HashMap::new();
    for (_, len_bytes) in frames(&spec(), 120_000) {
        *counts.entry(len_bytes).or_insert(0_u32) += 1;
    }
    assert!((39_000..41_000).contains(&counts[&590]));
    assert!((9_500..10_500).contains(&counts[&1514]));
    assert!(
        counts
            .keys()
            .all(|len_bytes| [60, 70, 82, 590, 1514].contains(len_bytes))
    );
}

#[test]
fn a_few_flows_send_most() {
    let top_share = |pareto: f64| {
        let mut flows = HashMap::new();
        for frame in frames(&device::Generate { pareto, ..spec() }, 100_000) {
            *flows.entry(parse(&frame).addresses).or_insert(0_u32) += 1;
        }
        let mut counts: Vec<u32> = flows.into_values().collect();
        counts.sort_unstable_by_key(|&count| std::cmp::Reverse(count));
        f64::from(counts[..10].iter().sum::<u32>()) / 100_000.0
    };
    // The top 1 % of 1,000 quantiles: 0.31 at shape 1.2, 0.016 at 10.
    assert!((0.30..0.32).contains(&top_share(1.2)), "{}", top_share(1.2));
    assert!(top_share(10.0) < 0.02, "{}", top_share(10.0));
}

#[test]
fn a_frame_that_found_no_memory_is_due_again() {
    let mut generator = generator(&spec());
    let mut refused = Vec::new();
    assert_eq!(
        generator.poll(MS, 8, |frame| {
            refused = frame.head.to_vec();
            false
        }),
        0
    );
    let mut taken = Vec::new();
    assert_eq!(
        generator.poll(MS, 1, |frame| {
            taken = frame.head.to_vec();
            true
        }),
        1
    );
    assert_eq!(taken, refused);
}

#[test]
fn frames_longer_than_the_port_carries_are_refused() {
    let size = FrameSize::Fixed(1515);
    let error = Generator::new(&device::Generate { size, ..spec() }, 1500).unwrap_err();
    assert!(
        error.to_string().contains("raise the port's mtu to 1501"),
        "{error}"
    );
    assert!(Generator::new(&spec(), 1499).is_err());
    assert!(Generator::new(&spec(), 1500).is_ok());
}

#[test]
fn values_out_of_range_do_no_harm() {
    for (rate_pps, burst, pareto) in [
        (0.0, 0.0, 0.0),
        (-1.0, -1.0, -1.0),
        (f64::NAN, f64::NAN, f64::NAN),
        (1e300, 1e300, 1e300),
    ] {
        let spec = device::Generate {
            flows: 0,
            macs: 0,
            rate_pps,
            burst,
            pareto,
            ..spec()
        };
        let mut generator = generator(&spec);
        assert!(generator.poll(MS, 100, |_| true) <= 100);
    }
}

/// The probability that the table gives each flow.
fn probabilities(table: &Popularity) -> Vec<f64> {
    let columns = table.columns.len() as f64;
    let mut probabilities = vec![0.0; table.columns.len()];
    for (owner, column) in table.columns.iter().enumerate() {
        let share = f64::from(column.share) / 4_294_967_296.0;
        probabilities[owner] += share / columns;
        probabilities[column.alias as usize] += (1.0 - share) / columns;
    }
    probabilities
}

proptest! {
    #[test]
    fn gives_each_flow_its_weight(weights in prop::collection::vec(0..=1_u64 << 40, 1..300)) {
        let total: u64 = weights.iter().sum();
        prop_assume!(total > 0);
        let table = Popularity::new(&weights);
        for (given, &weight) in probabilities(&table).iter().zip(&weights) {
            // Each of the columns rounds by 2^-32 of itself.
            prop_assert!((given - weight as f64 / total as f64).abs() < 2.4e-10);
        }
    }

    #[test]
    fn draws_only_flows_there_are(flows in 1..500_u32, shape in 0.01..10.0, random: u64) {
        prop_assert!(Popularity::pareto(flows, shape).draw(random) < flows);
    }
}

#[test]
fn quantiles_follow_the_shape() {
    let of_pareto = probabilities(&Popularity::pareto(1000, 1.2));
    // u_0 / u_7 = 0.5 / 7.5.
    let expected = (0.5_f64 / 7.5).powf(1.0 / 1.2);
    assert!((of_pareto[7] / of_pareto[0] - expected).abs() < 1e-6);
}
