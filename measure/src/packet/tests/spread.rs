//! Statistics of the hashes: avalanche, and pairs that meet in a row. Seeded, so that they come
//! out the same each time.

use std::collections::HashSet;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::frames::{self, Frame, L4};
use super::hasher;
use crate::packet::{Hasher, ROW_MULTIPLIERS, row_of};

const TRIALS: usize = 1024;
/// Six standard deviations of the share of heads in as many throws: 1 in 500 million cells.
const TOLERANCE: f64 = 0.5 * 6.0 / 32.0;

/// Shares of trials in which a bit of the input changes each bit of the output, by input bit.
fn avalanche(
    template: &[u8],
    fields: &[std::ops::Range<usize>],
    randomise: bool,
    hash: impl Fn(&[u8]) -> u64,
) -> Vec<[f64; 64]> {
    let mut rng = Pcg64::seed_from_u64(1);
    let inputs: Vec<Vec<u8>> = (0..TRIALS)
        .map(|trial| {
            let mut frame = template.to_vec();
            for at in fields.iter().cloned().flatten() {
                if randomise {
                    frame[at] = rng.random();
                }
            }
            // Where not random, packets differ as successive packets do: in IPv4 id.
            if !randomise {
                frame[18..20].copy_from_slice(&u16::try_from(trial).unwrap().to_be_bytes());
            }
            frame
        })
        .collect();
    let mut shares = Vec::new();
    for (at, bit) in fields
        .iter()
        .cloned()
        .flatten()
        .flat_map(|at| (0..8).map(move |b| (at, b)))
    {
        let mut flips = [0_u32; 64];
        for input in &inputs {
            let mut flipped = input.clone();
            flipped[at] ^= 1 << bit;
            let changed = hash(input) ^ hash(&flipped);
            for (place, flips) in flips.iter_mut().enumerate() {
                *flips += u32::try_from(changed >> place & 1).unwrap();
            }
        }
        shares.push(flips.map(|flips| f64::from(flips) / TRIALS as f64));
    }
    shares
}

fn worst(shares: &[[f64; 64]]) -> f64 {
    shares
        .iter()
        .flatten()
        .map(|share| (share - 0.5).abs())
        .fold(0.0, f64::max)
}

#[test]
fn every_input_bit_flips_every_output_bit_half_the_time() {
    let hasher = hasher();
    let payload = [0; 40];
    let v4 = Frame::v4(L4::tcp(443, 55_000, &payload)).bytes();
    let v6 = Frame::v6(L4::udp(443, 55_000, &payload)).bytes();
    let arp = frames::arp();
    let packet = |frame: &[u8]| hasher.parse(frame, 94).packet.0;
    let flow = |frame: &[u8]| hasher.parse(frame, 94).flow.0;
    let cases = [
        (
            "IPv4 packet",
            avalanche(&v4, &[18..20, 26..46, 54..70], true, packet),
        ),
        (
            "IPv6 packet",
            avalanche(&v6, &[16..18, 22..58, 62..78], true, packet),
        ),
        (
            "ARP packet",
            avalanche(&arp, &[0..12, 14..30], true, packet),
        ),
        ("IPv4 flow", avalanche(&v4, &[26..30, 30..38], true, flow)),
        ("IPv6 flow", avalanche(&v6, &[22..54, 54..58], true, flow)),
        ("Ethernet flow", avalanche(&arp, &[0..6, 6..12], true, flow)),
    ];
    for (name, shares) in cases {
        let worst = worst(&shares);
        assert!(worst < TOLERANCE, "{name}: off by {worst}");
    }
}

/// Here the trials are no independent throws, since only a counter tells them apart: the shares
/// scatter as a fair coin's, but a few stray further.
#[test]
fn packets_that_differ_by_a_counter_avalanche_too() {
    let hasher = hasher();
    let frame = Frame::v4(L4::tcp(443, 55_000, &[])).bytes();
    let packet = |frame: &[u8]| hasher.parse(frame, 60).packet.0;
    let shares = avalanche(&frame, &[26..38, 38..46], false, packet);
    let cells = shares.len() as f64 * 64.0;
    let variance = shares
        .iter()
        .flatten()
        .map(|share| (share - 0.5).powi(2))
        .sum::<f64>()
        / cells;
    let of_a_coin = 0.25 / TRIALS as f64;
    assert!(
        (0.8..1.2).contains(&(variance / of_a_coin)),
        "{variance} against {of_a_coin}"
    );
    assert!(worst(&shares) < 0.15, "off by {}", worst(&shares));
}

/// Keys that real traffic might present: only a counter changes.
fn structured(count: u32) -> Vec<(&'static str, Vec<u64>)> {
    let hasher = hasher();
    let tcp = Frame::v4(L4::tcp(443, 1, b"")).bytes();
    let udp6 = Frame::v6(L4::udp(443, 1, &[0; 32])).bytes();
    let arp = frames::arp();
    let packets = |template: &[u8], change: &dyn Fn(&mut [u8], u32)| {
        (0..count)
            .map(|n| {
                let mut frame = template.to_vec();
                change(&mut frame, n);
                hasher.parse(&frame, 60)
            })
            .collect::<Vec<_>>()
    };
    let put = |at: usize| {
        move |frame: &mut [u8], n: u32| frame[at..at + 4].copy_from_slice(&n.to_be_bytes())
    };
    let flows_at = |template: &[u8], at| {
        packets(template, &put(at))
            .iter()
            .map(|parsed| parsed.flow.0)
            .collect::<Vec<_>>()
    };
    let packets_at = |template: &[u8], at| {
        packets(template, &put(at))
            .iter()
            .map(|parsed| parsed.packet.0)
            .collect::<Vec<_>>()
    };
    let ids = packets(&tcp, &|frame, n| {
        frame[18..20].copy_from_slice(&n.to_be_bytes()[2..]);
        frame[41] = n.to_be_bytes()[1];
    });
    vec![
        ("flows by source address", flows_at(&tcp, 26)),
        ("flows by destination address", flows_at(&tcp, 30)),
        ("flows by ports", flows_at(&tcp, 34)),
        ("IPv6 flows by address", flows_at(&udp6, 34)),
        ("flows by MAC address", flows_at(&arp, 8)),
        (
            "packets by IP id",
            ids.iter().map(|parsed| parsed.packet.0).collect(),
        ),
        ("packets by sequence number", packets_at(&tcp, 38)),
        ("packets by acknowledgement number", packets_at(&tcp, 42)),
        ("packets by payload", packets_at(&udp6, 62)),
    ]
}

/// How many standard deviations the number of pairs that share a row is from what chance gives:
/// n (n - 1) / 2m pairs, of nearly that variance.
fn pair_excess(rows: impl Iterator<Item = u64>, count: u32, range: f64) -> f64 {
    let mut seen = std::collections::HashMap::<u64, u64>::new();
    let pairs: u64 = rows
        .map(|row| {
            let others = seen.entry(row).or_default();
            *others += 1;
            *others - 1
        })
        .sum();
    let n = f64::from(count);
    let expected = n * (n - 1.0) / 2.0 / range;
    let variance = expected * (1.0 - 1.0 / range);
    (pairs as f64 - expected) / variance.sqrt()
}

#[test]
fn pairs_meet_in_a_row_as_often_as_chance_says() {
    const COUNT: u32 = 50_000;
    for (name, hashes) in structured(COUNT) {
        let distinct: HashSet<_> = hashes.iter().collect();
        assert_eq!(
            distinct.len(),
            hashes.len(),
            "{name}: no two of 64 bits meet"
        );
        for range in [1000_u32, 1024, 17_500, 65_536] {
            for multiplier in ROW_MULTIPLIERS {
                let rows = hashes
                    .iter()
                    .map(|&hash| u64::from(row_of(hash, multiplier, range)));
                let excess = pair_excess(rows, COUNT, f64::from(range));
                assert!(
                    excess.abs() < 5.0,
                    "{name}, {range} rows: {excess} deviations"
                );
            }
        }
    }
}

#[test]
fn rows_of_different_functions_are_independent() {
    const COUNT: u32 = 50_000;
    for (name, hashes) in structured(COUNT) {
        for (i, first) in ROW_MULTIPLIERS.into_iter().enumerate() {
            for second in ROW_MULTIPLIERS.into_iter().skip(i + 1) {
                let both = hashes.iter().map(|&hash| {
                    u64::from(row_of(hash, first, 1024)) << 32
                        | u64::from(row_of(hash, second, 1024))
                });
                let excess = pair_excess(both, COUNT, 1024.0 * 1024.0);
                assert!(excess.abs() < 5.0, "{name}: {excess} deviations");
            }
        }
    }
}

#[test]
fn the_bits_that_serve_bank_digest_and_row_are_independent() {
    const COUNT: u32 = 50_000;
    for (name, hashes) in structured(COUNT) {
        let row = |hash: u64| u64::from(row_of(hash, ROW_MULTIPLIERS[0], 1024));
        let bank_and_row = hashes
            .iter()
            .map(|&hash| (hash & 0xffff_ffff) >> 22 << 32 | row(hash));
        let digest_and_row = hashes
            .iter()
            .map(|&hash| (hash >> 32 & 0x3ff) << 32 | row(hash));
        for excess in [
            pair_excess(bank_and_row, COUNT, 1024.0 * 1024.0),
            pair_excess(digest_and_row, COUNT, 1024.0 * 1024.0),
        ] {
            assert!(excess.abs() < 5.0, "{name}: {excess} deviations");
        }
    }
}

#[test]
fn the_bits_that_serve_sampling_and_place_in_a_virtual_lda_are_independent() {
    const COUNT: u32 = 50_000;
    for (name, hashes) in structured(COUNT) {
        for places in [5_u32, 64] {
            let both = hashes.iter().map(|&hash| {
                let place = row_of(hash, ROW_MULTIPLIERS[3], places);
                (hash & 0xffff_ffff) >> 22 << 32 | u64::from(place)
            });
            let excess = pair_excess(both, COUNT, 1024.0 * f64::from(places));
            assert!(excess.abs() < 5.0, "{name}, {places} places: {excess}");
            // The samples of a row with probability 1/64 are spread evenly.
            let sampled: Vec<_> = hashes
                .iter()
                .filter(|&&hash| (hash & 0xffff_ffff) < 1 << 26)
                .map(|&hash| u64::from(row_of(hash, ROW_MULTIPLIERS[3], places)))
                .collect();
            let count = u32::try_from(sampled.len()).unwrap();
            let excess = pair_excess(sampled.into_iter(), count, f64::from(places));
            assert!(excess.abs() < 5.0, "{name}, {places} places: {excess}");
        }
    }
}

#[test]
fn no_seed_is_bad() {
    let tcp = Frame::v4(L4::tcp(443, 1, b"")).bytes();
    let mut rng = Pcg64::seed_from_u64(2);
    for _ in 0..200 {
        let hasher = Hasher::new(rng.random());
        let rows = (0..10_000_u32).map(|n| {
            let mut frame = tcp.clone();
            frame[38..42].copy_from_slice(&n.to_be_bytes());
            u64::from(row_of(
                hasher.parse(&frame, 60).packet.0,
                ROW_MULTIPLIERS[0],
                1024,
            ))
        });
        let excess = pair_excess(rows, 10_000, 1024.0);
        assert!(excess.abs() < 5.0, "{excess} deviations");
    }
}
