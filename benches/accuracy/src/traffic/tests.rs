use std::path::Path;

use super::*;

const RATE: u64 = CAPACITY_BPS;
const FLOWS: u32 = 1_000;
const PACKETS: u32 = 16_384;

/// A capture of UDP packets of 60 bytes, one a microsecond.
fn pcap() -> Vec<u8> {
    let mut bytes = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1]
        .map(u32::to_le_bytes)
        .concat();
    for number in 0..PACKETS {
        let mut frame = [0; 60];
        frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
        frame[16..18].copy_from_slice(&46_u16.to_be_bytes());
        frame[22..24].copy_from_slice(&[64, 17]);
        frame[26..30].copy_from_slice(&(number % FLOWS).to_be_bytes());
        frame[38..40].copy_from_slice(&26_u16.to_be_bytes());
        bytes.extend([0, number, 60, 60].map(u32::to_le_bytes).concat());
        bytes.extend(frame);
    }
    bytes
}

/// The share of the link that the packets ask for.
fn load(traffic: &Traffic) -> f64 {
    let bytes: u64 = traffic.arrivals.iter().map(|a| u64::from(a.bytes)).sum();
    let seconds = traffic.duration_ps as f64 / PS_PER_S as f64;
    8.0 * bytes as f64 / (seconds * RATE as f64)
}

fn regular_share(traffic: &Traffic) -> f64 {
    let regular = traffic.arrivals.iter().filter(|a| a.kind == Kind::Regular);
    regular.count() as f64 / traffic.arrivals.len() as f64
}

fn quick(utilisation: f64, modulation: f64) -> Profile {
    Profile {
        utilisation,
        modulation,
        duration_s: 0.2,
    }
}

#[test]
fn the_load_is_as_asked_for() {
    for (utilisation, modulation) in [(0.67, 0.05), (0.93, 0.05), (0.67, 0.25), (0.93, 0.25)] {
        let traffic = quick(utilisation, modulation).draw(1);
        let load = load(&traffic);
        assert!(
            (load / utilisation - 1.0).abs() < 0.02,
            "{load}, {utilisation}"
        );
        let regular = regular_share(&traffic);
        assert!((regular - 0.33).abs() < 0.01, "{regular}");
        assert!(traffic.arrivals.is_sorted_by_key(|a| a.sent_ps));
    }
}

#[test]
fn the_same_seed_gives_the_same_packets() {
    let profile = quick(0.67, 0.25);
    assert_eq!(profile.draw(7), profile.draw(7));
    assert_ne!(profile.draw(7), profile.draw(8));
}

#[test]
fn bursts_come_at_twice_the_links_rate() {
    // So few that hardly any overlap.
    let traffic = quick(0.005, 0.0).draw(3);
    let mut bursts = 1;
    for pair in traffic.arrivals.windows(2) {
        let gap_ps = pair[1].sent_ps - pair[0].sent_ps;
        bursts += usize::from(gap_ps != serialisation_ps(pair[0].bytes, 2 * RATE));
    }
    let packets = traffic.arrivals.len() as f64 / bursts as f64;
    assert!(
        (packets / BURST_PACKETS_MEAN - 1.0).abs() < 0.15,
        "{packets}"
    );
}

/// Variance of the number of packets in slots of 5 ms, over its mean squared.
fn unevenness(modulation: f64) -> f64 {
    let mut profile = quick(0.67, modulation);
    profile.duration_s = 1.0;
    let mut counts = vec![0.0; 200];
    for arrival in profile.draw(5).arrivals {
        let slot = usize::try_from(arrival.sent_ps / (PS_PER_S / 200)).unwrap();
        if let Some(count) = counts.get_mut(slot) {
            *count += 1.0;
        }
    }
    let mean = counts.iter().sum::<f64>() / 200.0;
    counts
        .iter()
        .map(|count| (count / mean - 1.0).powi(2))
        .sum::<f64>()
        / 200.0
}

#[test]
fn heavy_modulation_is_heavier() {
    // Var exp(0.7 x - 0.245) = exp(0.49) - 1 = 0.63; averaged over one time constant, 0.46.
    let (none, heavy) = (unevenness(0.0), unevenness(0.25));
    assert!(none < 0.005, "{none}");
    assert!((0.01..0.06).contains(&(heavy - none)), "{heavy}, {none}");
}

#[test]
fn flows_are_many_small_ones_and_few_large_ones() {
    let mut rng = Pcg64::seed_from_u64(1);
    let tags = flow_of_each(1_000_000, 2 * PS_PER_S, &mut rng);
    let count = tags.iter().max().unwrap() + 1;
    let mut sizes = vec![0_u32; count as usize];
    for tag in &tags {
        sizes[*tag as usize] += 1;
    }
    sizes.sort_unstable();
    assert!(sizes[0] >= 1, "no gaps in the numbers");
    assert!(sizes[sizes.len() / 2] <= 3);
    let mean = tags.len() as f64 / sizes.len() as f64;
    assert!((20.0..40.0).contains(&mean), "{mean}");
    let tenth = &sizes[sizes.len() * 9 / 10..];
    assert!(tenth.iter().sum::<u32>() > 800_000);
}

#[test]
fn no_time_and_no_load_are_no_packets() {
    for (duration_s, utilisation) in [(0.0, 0.9), (0.01, 0.0), (-1.0, 0.9), (0.01, -3.0)] {
        let mut profile = quick(utilisation, 0.25);
        profile.duration_s = duration_s;
        let traffic = profile.draw(1);
        assert_eq!((traffic.arrivals.len(), traffic.flows), (0, 0));
    }
}

#[test]
fn a_capture_keeps_its_flows_and_fits_the_link() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("few.pcap");
    std::fs::write(&file, pcap()).unwrap();
    let capture = Capture::read(&file).unwrap();
    let traffic = capture.at_load(RATE, 0.8, 1.0);
    assert_eq!(traffic.arrivals.len(), PACKETS as usize);
    assert_eq!(traffic.flows, FLOWS);
    assert!((load(&traffic) - 0.8).abs() < 1e-6);
    let last = traffic.arrivals.last().unwrap().sent_ps;
    assert!(last.abs_diff(traffic.duration_ps) <= 1);
    // All packets of a flow are measured, or none.
    let third = capture.at_load(RATE, 0.8, 0.33);
    let regular = regular_share(&third);
    assert!((regular - 0.33).abs() < 0.05, "{regular}");
}

#[test]
fn what_is_no_capture_is_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let refusal = |bytes: &[u8]| {
        let file = folder.path().join("odd.pcap");
        std::fs::write(&file, bytes).unwrap();
        let error = format!("{:#}", Capture::read(&file).unwrap_err());
        let (_, reason) = error.split_once("odd.pcap: ").unwrap();
        reason.to_owned()
    };
    let missing = Capture::read(Path::new("/nowhere/at.pcap")).unwrap_err();
    let expected = "/nowhere/at.pcap: cannot be opened";
    assert_eq!(missing.to_string(), expected);

    let good = pcap();
    let one = 24 + 16 + 60;
    let mut raw = good[..2 * one].to_vec();
    raw[20] = 101;
    for (bytes, expected) in [
        (&b""[..], "packet 0: "),
        (&[7; 100], "packet 0: "),
        (&good[..one], "1 packets without a span of time"),
        (&good[..one + 50], "packet 1: "),
        (&raw, "link type 101; only Ethernet"),
    ] {
        let reason = refusal(bytes);
        assert!(reason.starts_with(expected), "{reason}");
    }
}
