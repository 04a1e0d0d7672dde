//! Captures as people sent them with bug reports to other programs.

use super::*;

/// Messages about a capture before it is replayed.
fn warnings(replay: &Replay) -> Vec<String> {
    replay.warnings().iter().map(ToString::to_string).collect()
}

/// Head and length on the wire of every frame.
fn frames(file: &[u8]) -> Vec<(Vec<u8>, u32)> {
    let frames = played(&mut open(file).unwrap(), u64::MAX).into_iter();
    frames
        .map(|(_, head, len_bytes)| (head, len_bytes))
        .collect()
}

/// The header of a pcapng section.
fn section(file: &mut Writer) {
    file.block(0x0a0d_0d0a, |b| {
        _ = b.u32(0x1a2b_3c4d).u16(1).u16(0).u64(u64::MAX);
    });
}

/// An Ethernet interface with microseconds, whose frames end with check sequences of this `if_fcslen`.
fn interface(file: &mut Writer, fcslen: Option<u8>) {
    file.block(1, |b| {
        b.u16(1).u16(0).u32(0);
        if let Some(fcslen) = fcslen {
            b.u16(13).u16(1).bytes.extend([fcslen, 0, 0, 0]);
            b.u16(0).u16(0);
        }
    });
}

/// A block with a packet of 20 bytes at `microseconds`, and its flags: enhanced (6), or the obsolete one (2).
fn packet(file: &mut Writer, kind: u32, microseconds: u32, flags: Option<u32>) {
    file.block(kind, |b| {
        if kind == 2 {
            // The interface, and how many packets were lost before this one.
            b.u16(0).u16(0xffff);
        } else {
            b.u32(0);
        }
        b.u32(0).u32(microseconds).u32(20).u32(60);
        b.bytes.extend(FRAME);
        if let Some(flags) = flags {
            b.u16(2).u16(4).u32(flags).u16(0).u16(0);
        }
    });
}

#[test]
fn a_gap_of_years_is_said_and_its_packets_are_counted() {
    let packet = |seconds| (seconds, 0, &FRAME[..], 60);
    let of = |seconds: &[u32]| {
        let packets: Vec<_> = seconds.iter().map(|&seconds| packet(seconds)).collect();
        pcap(MICROSECONDS, false, 1, &packets)
    };
    // A clock that was not set yet, and one that jumped ahead and came back.
    for (seconds, wanted) in [
        (&[0, 1_700_000_000, 1_700_000_001][..], "2 of the 3 packets"),
        (
            &[1_700_000_000, 1_700_000_001, 2_015_360_001, 1_700_000_002],
            "2 of the 4 packets",
        ),
    ] {
        let said = warnings(&open(&of(seconds)).unwrap());
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].contains(wanted) && said[0].contains("years"),
            "{}",
            said[0]
        );
    }
    let quiet = of(&[0, 3_600, 7_200]);
    assert_eq!(warnings(&open(&quiet).unwrap()), [""; 0]);
    // Gaps are those of the replay.
    let slow = device::Replay {
        speed: 0.5,
        ..spec()
    };
    let slow = Replay::from_bytes(quiet.clone(), &slow, 1500).unwrap();
    assert!(warnings(&slow)[0].contains("2 of the 3 packets"));
    let fast = device::Replay {
        speed: 1e6,
        ..spec()
    };
    let fast = Replay::from_bytes(of(&[0, 1_700_000_000]), &fast, 1500).unwrap();
    assert_eq!(warnings(&fast), [""; 0]);
}

#[test]
fn obsolete_packet_blocks_are_packets() {
    for big_endian in [false, true] {
        let mut file = Writer::new(big_endian);
        section(&mut file);
        interface(&mut file, None);
        for n in 0..20 {
            packet(&mut file, if n % 2 == 0 { 2 } else { 6 }, 7 * n, None);
        }
        let mut replay = open(&file.bytes).unwrap();
        assert_eq!(warnings(&replay), [""; 0]);
        let frames = played(&mut replay, u64::MAX);
        let wanted: Vec<_> = (0..20).map(|n| (7_000 * n, FRAME.to_vec(), 60)).collect();
        assert_eq!(frames, wanted);
    }
    // Of an interface that there is not, and too short to be one: the capture is damaged from there on.
    for body in [&[9; 40][..], &[0; 8]] {
        let mut file = Writer::new(false);
        section(&mut file);
        interface(&mut file, None);
        packet(&mut file, 2, 0, None);
        file.block(2, |b| b.bytes.extend(body));
        let said = warnings(&open(&file.bytes).unwrap());
        assert!(said.len() == 1 && said[0].contains("damaged"), "{said:?}");
    }
}

#[test]
fn check_sequences_are_removed_when_the_file_says_that_there_are_some() {
    let captured = |link| {
        let whole = [7; 64];
        let packets = [
            (0, 0, &whole[..], 64),
            (0, 1, &FRAME, 64),
            (0, 2, &whole[..62], 64),
            (0, 3, &FRAME[..3], 3),
        ];
        frames(&pcap(MICROSECONDS, false, link, &packets))
    };
    let lengths = |frames: Vec<(Vec<u8>, u32)>| -> Vec<_> {
        frames
            .iter()
            .map(|(head, len_bytes)| (head.len(), *len_bytes))
            .collect()
    };
    // Two and one words of 16 bits; without the bit that says that the length is known; none.
    assert_eq!(
        lengths(captured(0x2400_0001)),
        [(60, 60), (20, 60), (60, 60), (0, 0)]
    );
    assert_eq!(
        lengths(captured(0x1400_0001)),
        [(62, 62), (20, 62), (62, 62), (1, 1)]
    );
    for link in [0x2000_0001, 0x0400_0001, 1] {
        assert_eq!(
            lengths(captured(link)),
            [(64, 64), (20, 64), (62, 64), (3, 3)]
        );
    }

    // Of the interface, in bytes or (as the draft has it) in bits; of the packet, which counts for more.
    for (fcslen, flags, wanted) in [
        (None, None, 60),
        (Some(4), None, 56),
        (Some(32), None, 56),
        (Some(0), None, 60),
        (Some(4), Some(0), 56),
        (Some(4), Some(2 << 5), 58),
        (None, Some(4 << 5 | 1), 56),
    ] {
        for (kind, big_endian) in [(6, false), (6, true), (2, false), (2, true)] {
            let mut file = Writer::new(big_endian);
            section(&mut file);
            interface(&mut file, fcslen);
            packet(&mut file, kind, 0, flags);
            let frames = frames(&file.bytes);
            assert_eq!(
                frames,
                [(FRAME.to_vec(), wanted)],
                "{fcslen:?} {flags:?} {kind}"
            );
        }
    }
    let mut simple = Writer::new(false);
    section(&mut simple);
    interface(&mut simple, Some(4));
    simple.block(3, |b| b.u32(20).bytes.extend(FRAME));
    assert_eq!(frames(&simple.bytes), [(vec![7; 16], 16)]);
}
