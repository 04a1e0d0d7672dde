use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;

mod reported;

fn spec() -> device::Replay {
    device::Replay {
        file: PathBuf::from("test.pcap"),
        speed: 1.0,
        loops: 1,
    }
}

fn open(bytes: &[u8]) -> Result<Replay, SourceError> {
    Replay::from_bytes(bytes.to_vec(), &spec(), 1500)
}

/// Due time, head and wire length of each frame up to `until_ns`, by stepping from one due time
/// to the next.
fn played(replay: &mut Replay, until_ns: u64) -> Vec<(u64, Vec<u8>, u32)> {
    let mut frames = Vec::new();
    while let Some(record) = replay.records.get(replay.next) {
        let now_ns = replay.loop_start_ns + record.due_ns;
        if now_ns > until_ns {
            break;
        }
        if now_ns > 0 {
            assert_eq!(replay.poll(now_ns - 1, 1, |_| true), 0, "early");
        }
        let emitted = replay.poll(now_ns, 1, |frame| {
            frames.push((now_ns, frame.head.to_vec(), frame.len_bytes));
            true
        });
        assert_eq!(emitted, 1);
    }
    frames
}

/// Due times alone.
fn due(replay: &mut Replay) -> Vec<u64> {
    let frames = played(replay, u64::MAX).into_iter();
    frames.map(|(due_ns, ..)| due_ns).collect()
}

/// Writes integers in the byte order of the file.
struct Writer {
    big_endian: bool,
    bytes: Vec<u8>,
}

impl Writer {
    fn new(big_endian: bool) -> Self {
        let bytes = Vec::new();
        Self { big_endian, bytes }
    }

    fn put<const N: usize>(&mut self, mut little_endian: [u8; N]) -> &mut Self {
        if self.big_endian {
            little_endian.reverse();
        }
        self.bytes.extend(little_endian);
        self
    }

    fn u16(&mut self, value: u16) -> &mut Self {
        self.put(value.to_le_bytes())
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.put(value.to_le_bytes())
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.put(value.to_le_bytes())
    }

    /// A pcapng block: type, length, body, length.
    fn block(&mut self, kind: u32, body: impl FnOnce(&mut Self)) -> &mut Self {
        let mut inner = Self::new(self.big_endian);
        body(&mut inner);
        inner.bytes.resize(inner.bytes.len().next_multiple_of(4), 0);
        let len_bytes = u32::try_from(inner.bytes.len()).unwrap() + 12;
        self.u32(kind).u32(len_bytes);
        self.bytes.extend(inner.bytes);
        self.u32(len_bytes)
    }
}

/// A pcap file; packets are seconds, fraction, captured bytes, length on the wire.
fn pcap(magic: u32, big_endian: bool, link: u32, packets: &[(u32, u32, &[u8], u32)]) -> Vec<u8> {
    let mut file = Writer::new(big_endian);
    file.u32(magic)
        .u16(2)
        .u16(4)
        .u32(0)
        .u32(0)
        .u32(65_535)
        .u32(link);
    for &(seconds, fraction, captured, wire) in packets {
        file.u32(seconds)
            .u32(fraction)
            .u32(u32::try_from(captured.len()).unwrap())
            .u32(wire);
        if magic == MODIFIED {
            file.u32(2).u16(0x0800).bytes.extend([0, 0]);
        }
        file.bytes.extend(captured);
    }
    file.bytes
}

const MICROSECONDS: u32 = 0xa1b2_c3d4;
/// Of files with longer packet headers.
const MODIFIED: u32 = 0xa1b2_cd34;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
const FRAME: [u8; 20] = [7; 20];

/// Three packets at 0, 10 and 40 us.
fn three() -> Vec<u8> {
    let packet = |microseconds| (5, microseconds, &FRAME[..], 60);
    pcap(
        MICROSECONDS,
        false,
        1,
        &[packet(100), packet(110), packet(140)],
    )
}

/// A pcapng file of one section and one interface with options `resolution` and `offset_s`.
fn pcapng(big_endian: bool, resolution: u8, offset_s: u64, ticks: &[u64]) -> Vec<u8> {
    let mut file = Writer::new(big_endian);
    file.block(0x0a0d_0d0a, |b| {
        _ = b.u32(0x1a2b_3c4d).u16(1).u16(0).u64(u64::MAX);
    });
    file.block(1, |b| {
        b.u16(1).u16(0).u32(0);
        b.u16(9).u16(1).bytes.extend([resolution, 0, 0, 0]);
        b.u16(14).u16(8).u64(offset_s).u16(0).u16(0);
    });
    for &ticks in ticks {
        file.block(6, |b| {
            b.u32(0)
                .u32((ticks >> 32) as u32)
                .u32((ticks & 0xffff_ffff) as u32)
                .u32(19)
                .u32(60);
            b.bytes.extend(&FRAME[..19]);
        });
    }
    file.bytes
}

#[test]
fn pcap_of_every_kind_keeps_its_timing() {
    for big_endian in [false, true] {
        for (magic, unit_ns) in [(MICROSECONDS, 1_000), (NANOSECONDS, 1), (MODIFIED, 1_000)] {
            let packets = [(1, 999_999, &[1; 60][..], 60), (2, 0, &[2; 70][..], 70)];
            let mut replay = open(&pcap(magic, big_endian, 1, &packets)).unwrap();
            let gap_ns = 1_000_000_000 - 999_999 * unit_ns;
            let expected = [(0, vec![1; 60], 60), (gap_ns, vec![2; 70], 70)];
            assert_eq!(played(&mut replay, u64::MAX), expected);
            assert!(replay.exhausted());
            assert_eq!(replay.warnings(), [""; 0]);
        }
    }
}

#[test]
fn pcapng_resolutions_are_understood() {
    for big_endian in [false, true] {
        for (resolution, ticks, gap_ns) in [
            (6, 1_000, 1_000_000),
            (9, 1_000, 1_000),
            (0, 2, 2_000_000_000),
            (0x8a, 1_024, 1_000_000_000),
            (12, 5_000, 5),
        ] {
            let file = pcapng(big_endian, resolution, 3, &[1 << 40, (1 << 40) + ticks]);
            let mut replay = open(&file).unwrap();
            let frame = FRAME[..19].to_vec();
            let expected = [(0, frame.clone(), 60), (gap_ns, frame, 60)];
            assert_eq!(
                played(&mut replay, u64::MAX),
                expected,
                "resolution {resolution}"
            );
            assert_eq!(replay.warnings(), [""; 0]);
        }
    }
}

#[test]
fn pcapng_offsets_are_added_between_interfaces() {
    let mut file = pcapng(true, 6, 10, &[0]);
    // A second interface whose clock reads 10 s less, and a packet at the same time and 1 ms.
    let mut more = Writer::new(true);
    more.block(1, |b| _ = b.u16(1).u16(0).u32(0));
    more.block(6, |b| {
        b.u32(1)
            .u32(0)
            .u32(10_001_000)
            .u32(4)
            .u32(4)
            .bytes
            .extend([1; 4]);
    });
    file.extend(more.bytes);
    let mut replay = open(&file).unwrap();
    assert_eq!(played(&mut replay, u64::MAX)[1].0, 1_000_000);
}

#[test]
fn simple_packets_follow_at_once() {
    let simple = |file: &mut Vec<u8>| {
        let mut block = Writer::new(false);
        block.block(3, |b| b.u32(5).bytes.extend([9; 5]));
        file.extend(block.bytes);
    };
    let mut after = pcapng(false, 6, 0, &[1 << 40, (1 << 40) + 7]);
    simple(&mut after);
    let mut replay = open(&after).unwrap();
    assert_eq!(played(&mut replay, u64::MAX)[2], (7_000, vec![9; 5], 5));

    // Before any packet with a time: that time is still the capture's beginning.
    let mut before = pcapng(false, 6, 0, &[]);
    simple(&mut before);
    before.extend(&after[pcapng(false, 6, 0, &[]).len()..]);
    assert_eq!(due(&mut open(&before).unwrap()), [0, 0, 7_000, 7_000]);
}

#[test]
fn order_is_kept_where_the_clock_was_set_back() {
    let packet = |microseconds| (5, microseconds, &FRAME[..], 60);
    let file = pcap(
        MICROSECONDS,
        false,
        1,
        &[packet(100), packet(140), packet(90), packet(150)],
    );
    let due = due(&mut open(&file).unwrap());
    assert_eq!(due, [0, 40_000, 40_000, 50_000]);
}

#[test]
fn speed_and_loops() {
    let spec = device::Replay {
        speed: 2.0,
        loops: 2,
        ..spec()
    };
    let mut replay = Replay::from_bytes(three(), &spec, 1500).unwrap();
    let due = due(&mut replay);
    // A span of 40 us and a mean gap of 20, at twice the pace.
    assert_eq!(due, [0, 5_000, 20_000, 30_000, 35_000, 50_000]);
    assert!(replay.exhausted());

    let spec = device::Replay { loops: 0, ..spec };
    let mut replay = Replay::from_bytes(three(), &spec, 1500).unwrap();
    assert_eq!(replay.poll(30_000_000, usize::MAX, |_| true), 3_001);
    assert!(!replay.exhausted());
}

#[test]
fn a_single_packet_loops_at_a_bounded_pace() {
    let spec = device::Replay { loops: 0, ..spec() };
    let file = pcap(MICROSECONDS, false, 1, &[(0, 0, &FRAME, 20)]);
    let mut replay = Replay::from_bytes(file, &spec, 1500).unwrap();
    assert_eq!(replay.poll(10 * SPANLESS_LOOP_NS, usize::MAX, |_| true), 11);
}

#[test]
fn room_and_memory_bound_what_is_taken() {
    let mut replay = open(&three()).unwrap();
    assert_eq!(replay.poll(u64::MAX, 2, |_| true), 2);
    assert_eq!(replay.poll(u64::MAX, 2, |_| false), 0);
    assert!(!replay.exhausted());
    assert_eq!(replay.poll(u64::MAX, 2, |_| true), 1);
    assert!(replay.exhausted());
}

#[test]
fn long_frames_are_cut_and_counted() {
    let long = [0; 3_000];
    let file = pcap(
        MICROSECONDS,
        false,
        1,
        &[
            (0, 0, &long, 3_000),
            (0, 1, &FRAME, 1_522),
            (0, 2, &FRAME, 1_523),
        ],
    );
    let mut replay = open(&file).unwrap();
    let lengths: Vec<_> = played(&mut replay, u64::MAX)
        .iter()
        .map(|p| (p.1.len(), p.2))
        .collect();
    assert_eq!(lengths, [(1_522, 1_522), (20, 1_522), (20, 1_522)]);
    let cut = "2 packets of the capture test.pcap were longer than 1522 bytes on the wire and are cut to that; \
               raise the port's mtu to replay them whole";
    assert_eq!(replay.warnings(), [cut]);
}

fn damaged_from(byte: usize) -> String {
    format!(
        "the capture test.pcap is cut short or damaged from byte {byte} on; the 2 packets before that are replayed"
    )
}

#[test]
fn a_capture_cut_short_is_replayed_as_far_as_it_goes() {
    for (whole, packet_bytes) in [(three(), 36), (pcapng(false, 6, 0, &[0, 1, 2]), 52)] {
        let cut = &whole[..whole.len() - 1];
        let replay = open(cut).unwrap();
        assert_eq!(replay.packets(), 2);
        let from_byte = whole.len() - packet_bytes;
        assert_eq!(replay.warnings(), [damaged_from(from_byte)]);
    }
}

#[test]
fn a_block_that_is_too_short_to_be_one_ends_the_capture() {
    for big_endian in [false, true] {
        for (kind, len_bytes) in [(0x8000_0001, 11), (0x8000_0001, 0), (6, 11), (0x0bad, 8)] {
            let whole = pcapng(big_endian, 6, 0, &[0, 1]);
            let from_byte = whole.len();
            let mut file = Writer {
                big_endian,
                bytes: whole,
            };
            file.u32(kind).u32(len_bytes).u32(0).u32(len_bytes);
            let replay = open(&file.bytes).unwrap();
            assert_eq!(replay.warnings(), [damaged_from(from_byte)], "{kind:#x}");
        }
    }
}

#[test]
fn what_cannot_be_replayed_is_refused_with_a_reason() {
    let missing = device::Replay {
        file: "no/such.pcap".into(),
        ..spec()
    };
    let message = |refused: Result<Replay, SourceError>| refused.unwrap_err().to_string();
    assert!(message(Replay::open(&missing, 1500)).contains("no/such.pcap: No such file"));
    assert!(
        message(open(b"GIF89a and so on, for a while")).contains("neither a pcap nor a pcapng")
    );
    assert_eq!(
        message(open(b"")),
        "test.pcap is empty; name a pcap or pcapng capture"
    );
    // The error reports the damage, not a lack of packets.
    let packet = [(1, 0, &FRAME[..], 20)];
    let cut = &pcap(MICROSECONDS, false, 1, &packet)[..50];
    assert!(message(open(cut)).contains("damaged from byte 24 on"));
    let no_interface = pcapng(false, 6, 0, &[0]);
    let block = |at: usize| at + no_interface[at + 4] as usize;
    let without = [&no_interface[..block(0)], &no_interface[block(block(0))..]].concat();
    assert!(message(open(&without)).contains("damaged from byte 28 on"));
    // An endless device is refused by its first bytes; a folder with the reason, once.
    let named = |file: &str| {
        let file = file.into();
        message(Replay::open(&device::Replay { file, ..spec() }, 1500))
    };
    assert!(named("/dev/zero").contains("neither a pcap nor a pcapng"));
    assert_eq!(named("/").matches("Is a directory").count(), 1);
    assert!(message(open(&pcap(MICROSECONDS, false, 1, &[]))).contains("holds no whole packet"));
    let raw = message(open(&pcap(MICROSECONDS, false, 101, &[])));
    assert!(
        raw.contains("link type RAW") && raw.contains("only Ethernet"),
        "{raw}"
    );
    let unnamed = message(open(&pcap(MICROSECONDS, false, 147, &[])));
    assert!(unnamed.contains("147"), "{unnamed}");
}

proptest! {
    #[test]
    fn damage_never_panics(
        ng: bool,
        big_endian: bool,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        keep in any::<prop::sample::Index>(),
    ) {
        let mut file = if ng {
            pcapng(big_endian, 6, 0, &[0, 10, 20])
        } else {
            pcap(MICROSECONDS, big_endian, 1, &[(1, 2, &FRAME, 60), (1, 3, &FRAME, 60)])
        };
        for (at, value) in damage {
            let at = at.index(file.len());
            file[at] = value;
        }
        file.truncate(keep.index(file.len()) + 1);
        if let Ok(mut replay) = open(&file) {
            replay.poll(u64::MAX, 1_000, |frame| {
                assert!(frame.len_bytes as usize >= frame.head.len() && frame.len_bytes <= 1_522);
                true
            });
        }
    }
}

/// Captures that others made; they are not part of the project.
#[test]
fn captures_from_the_wild_open_or_are_refused_with_a_reason() {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    let mut files = Vec::new();
    for folder in ["odd-frames", "traces"] {
        collect(&shared.join(folder), &mut files);
    }
    if files.is_empty() {
        eprintln!("SKIPPED: there are no captures at {}", shared.display());
        return;
    }
    let mut outcomes = BTreeMap::<String, Vec<String>>::new();
    for file in &files {
        let name = file.strip_prefix(&shared).unwrap().display().to_string();
        outcomes.entry(outcome(file)).or_default().push(name);
    }
    for (outcome, names) in &outcomes {
        eprintln!("{} {outcome}", names.len());
        if names.len() < 20 {
            eprintln!("    {}", names.join("\n    "));
        }
    }
    let opened = outcomes.iter().filter(|(o, _)| o.starts_with("opens"));
    let opened: usize = opened.map(|(_, names)| names.len()).sum();
    // All but the few that libpcap refuses as well.
    assert!(
        opened + 25 >= files.len(),
        "{opened} of {} open",
        files.len()
    );
}

/// What becomes of a capture.
fn outcome(file: &Path) -> String {
    let spec = device::Replay {
        file: file.to_owned(),
        ..spec()
    };
    match Replay::open(&spec, 1500) {
        Ok(mut replay) => {
            let played = replay.poll(u64::MAX, usize::MAX, |_| true);
            assert_eq!(played, replay.packets(), "{}", file.display());
            assert!(replay.exhausted());
            let is_damaged = |warning: &String| warning.contains("damaged");
            if replay.warnings().iter().any(is_damaged) {
                "opens, damaged".to_owned()
            } else {
                "opens".to_owned()
            }
        }
        Err(error) => format!("refused: {error}").replace(&*spec.file.display().to_string(), "it"),
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = folder.read_dir() else {
        return;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}
