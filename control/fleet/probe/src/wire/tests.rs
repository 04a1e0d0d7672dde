use std::fs;
use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;

use super::*;

const MODES: [Mode; 2] = [Mode::Open, Mode::Authenticated];

fn error() -> impl Strategy<Value = ErrorEstimate> {
    any::<u16>().prop_map(ErrorEstimate::from_bits)
}

fn key(byte: u8) -> Key {
    Key::new(&[byte; 32])
}

#[test]
fn a_request_is_as_figures_2_and_4_have_it() {
    let request = Request {
        sequence: 0x0102_0304,
        timestamp: 0x1112_1314_1516_1718,
        error: ErrorEstimate::from_bits(0x8301),
        ssid: 0x2122,
    };
    let mut open = [0xff; 44];
    request.write(Mode::Open, &mut open);
    let head = [
        1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x83, 1, 0x21, 0x22,
    ];
    assert_eq!(open[..16], head);
    assert_eq!(open[16..], [0; 28]);
    let mut authenticated = [0xff; 112];
    request.write(Mode::Authenticated, &mut authenticated);
    assert_eq!(authenticated[..4], head[..4]);
    assert_eq!(authenticated[4..16], [0; 12]);
    assert_eq!(authenticated[16..28], head[4..]);
    assert_eq!(authenticated[28..], [0; 84]);
    assert_eq!(request.error.format, Format::Ntp);
}

#[test]
fn the_hmac_covers_all_that_is_before_it() {
    let mut packet = [7; 130];
    sign_base(&key(1), &mut packet);
    assert!(is_authentic(&key(1), &packet));
    assert!(!is_authentic(&key(2), &packet));
    for at in 0..112 {
        let mut changed = packet;
        changed[at] ^= 0x10;
        assert!(!is_authentic(&key(1), &changed), "byte {at}");
    }
    // What follows the base packet is not covered.
    packet[112] ^= 1;
    assert!(is_authentic(&key(1), &packet));
    assert!(!is_authentic(&key(1), &packet[..111]));
}

proptest! {
    #[test]
    fn requests_survive_the_wire(sequence: u32, timestamp: u64, error in error(), ssid: u16) {
        let request = Request { sequence, timestamp, error, ssid };
        for mode in MODES {
            let mut packet = vec![0xa5; mode.bytes() + 9];
            request.write(mode, &mut packet);
            prop_assert_eq!(Request::read(mode, &packet), Some(request));
            prop_assert_eq!(&packet[mode.bytes()..], &[0xa5; 9]);
        }
    }

    #[test]
    fn replies_survive_the_wire(
        numbers: (u32, u64, u16, u64, u32, u64, u8), error in error(), sender_error in error(),
    ) {
        let (sequence, timestamp, ssid, received, sender_sequence, sender_timestamp, sender_ttl) = numbers;
        let own = Request { sequence, timestamp, error, ssid };
        let reply = Reply {
            own, received, sender_sequence, sender_timestamp, sender_error, sender_ttl,
        };
        for mode in MODES {
            let mut packet = vec![0xa5; mode.bytes()];
            reply.write(mode, &mut packet);
            prop_assert_eq!(Reply::read(mode, &packet), Some(reply));
        }
    }

    #[test]
    fn any_bytes_are_a_packet_or_too_short(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for mode in MODES {
            let is_whole = bytes.len() >= mode.bytes();
            prop_assert_eq!(Request::read(mode, &bytes).is_some(), is_whole);
            let is_enough = bytes.len() >= if mode == Mode::Open { 36 } else { 112 };
            prop_assert_eq!(Reply::read(mode, &bytes).is_some(), is_enough);
        }
        let mut bytes = bytes;
        sign_base(&key(3), &mut bytes);
        prop_assert_eq!(is_authentic(&key(3), &bytes), bytes.len() >= 112);
    }
}

#[test]
fn known_times_are_known_bits() {
    // 1970 in NTP; half a second is the top bit of the fraction.
    assert_eq!(
        Format::Ntp.encode(UnixNs(500_000_000)),
        NTP_UNIX_S << 32 | 0x8000_0000
    );
    assert_eq!(
        Format::Ptp.encode(UnixNs(1_500_000_000)),
        (1 << 32) + 500_000_000
    );
    // Ten seconds after the rollover of NTP's era, 2036-02-07 06:28:16.
    let later = UnixNs(2_085_978_506 * NS_PER_S);
    assert_eq!(Format::Ntp.encode(later) >> 32, 10);
}

#[test]
fn the_era_is_the_nearest() {
    let rollover_s = (1 << 32) - NTP_UNIX_S;
    let (before, after) = (
        UnixNs((rollover_s - 5) * NS_PER_S),
        UnixNs((rollover_s + 5) * NS_PER_S),
    );
    let bits = Format::Ntp.encode(after);
    assert_eq!(Format::Ntp.decode(bits, before), Some(after));
    let bits = Format::Ntp.encode(before);
    assert_eq!(Format::Ntp.decode(bits, after), Some(before));
    assert_eq!(Format::Ptp.decode(1 << 32 | NS_PER_S, after), None);
}

proptest! {
    #[test]
    fn times_survive_the_wire(
        time in (0..u64::MAX / 2).prop_map(UnixNs), off_s in -1_000_000_000_i64..1_000_000_000,
    ) {
        let near = UnixNs(time.0.saturating_add_signed(off_s * 1_000_000_000));
        for format in [Format::Ntp, Format::Ptp] {
            prop_assert_eq!(format.decode(format.encode(time), near), Some(time));
        }
    }

    #[test]
    fn any_bits_are_decoded_without_a_panic(bits: u64, near: u64) {
        for format in [Format::Ntp, Format::Ptp] {
            let _ = format.decode(bits, UnixNs(near));
        }
    }

    #[test]
    fn estimates_are_no_less_than_the_error_and_survive_the_wire(
        error_ns in 0..u64::MAX, is_synchronised: bool, bits: u16,
    ) {
        let estimate = ErrorEstimate::new(is_synchronised, Format::Ptp, error_ns);
        prop_assert!(estimate.error_ns() >= error_ns as f64 * (1.0 - 1e-12));
        prop_assert!(estimate.error_ns() <= error_ns as f64 * 1.01 + 0.25);
        prop_assert_eq!(ErrorEstimate::from_bits(estimate.to_bits()), estimate);
        prop_assert_eq!(ErrorEstimate::from_bits(bits).to_bits(), bits);
    }
}

/// RFC 4231, test cases 1, 2 and 5; the last is truncated to 128 bits.
#[test]
fn tags_are_those_of_rfc_4231() {
    let cases: [(&[u8], &[u8], [u8; 16]); 3] = [
        (
            &[0x0b; 20],
            b"Hi There",
            0xb034_4c61_d8db_3853_5ca8_afce_af0b_f12b_u128.to_be_bytes(),
        ),
        (
            b"Jefe",
            b"what do ya want for nothing?",
            0x5bdc_c146_bf60_754e_6a04_2426_0895_75c7_u128.to_be_bytes(),
        ),
        (
            &[0x0c; 20],
            b"Test With Truncation",
            0xa3b6_1674_7310_0ee0_6e0c_796c_2955_552b_u128.to_be_bytes(),
        ),
    ];
    for (bytes, text, tag) in cases {
        let key = Key::new(bytes);
        assert_eq!(key.tag(&[&text[..3], &text[3..]]), tag);
        assert!(key.verifies(&[text], &tag));
        assert!(!key.verifies(&[text], &tag[..15]) && !key.verifies(&[&text[1..]], &tag));
    }
}

#[test]
fn keys_come_from_files_that_nobody_else_reads() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    let load = |text: &str, mode: u32| {
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        Key::load(&file).map_err(|error| error.to_string())
    };
    let key = load(&"0B".repeat(20), 0o600).unwrap();
    assert_eq!(key.tag(&[b"x"]), Key::new(&[0x0b; 20]).tag(&[b"x"]));
    let cases = [
        (format!("{}\n", "ab".repeat(15)), 0o600, "got 30"),
        ("ab".repeat(65), 0o600, "got more"),
        (format!("{}a", "ab".repeat(16)), 0o600, "got 33"),
        (
            "not a key, which nobody should see".to_owned(),
            0o600,
            "got other characters",
        ),
        ("ab".repeat(32), 0o604, "chmod o="),
    ];
    for (text, mode, expected) in cases {
        let error = load(&text, mode).unwrap_err();
        assert!(
            error.contains(expected) && !error.contains("nobody should see"),
            "{error}"
        );
    }
    fs::remove_file(&file).unwrap();
    assert!(
        Key::load(&file)
            .unwrap_err()
            .to_string()
            .contains("No such file")
    );
}

#[test]
fn a_wrong_length_ends_the_walk() {
    let mut tail = Vec::new();
    append(&mut tail, Kind::ClassOfService, &[0; 4]);
    append(&mut tail, Kind::DirectMeasurement, &[0; 11]);
    append(&mut tail, Kind::ExtraPadding, &[1; 3]);
    let found: Vec<_> = Walk::new(&tail)
        .map(|tlv| (tlv.at, tlv.is_well_formed))
        .collect();
    assert_eq!(found, [(0, true), (8, false)]);
    // Longer than the packet.
    let found: Vec<_> = Walk::new(&[0x80, 1, 0, 9, 5]).collect();
    assert_eq!(
        (found.len(), found[0].bytes, found[0].is_well_formed),
        (1, 1, false)
    );
}

#[test]
fn what_is_no_tlv_is_none() {
    assert_eq!(Walk::new(&[0; 100]).count(), 0);
    assert_eq!(Walk::new(&[1, 2, 3]).count(), 0);
    let unknown = Walk::new(&[0x80, 99, 0, 1, 5]).next().unwrap();
    assert_eq!(
        (unknown.kind, unknown.number, unknown.is_well_formed),
        (None, 99, true)
    );
}

#[test]
fn an_hmac_stands_behind_all_but_padding() {
    let sequence = [0, 0, 0, 7];
    let mut tail = Vec::new();
    append(&mut tail, Kind::ClassOfService, &[1; 4]);
    assert_eq!(
        integrity(Some(&key(9)), &sequence, &tail),
        Integrity::Absent
    );
    append(&mut tail, Kind::Hmac, &[0; 16]);
    append(&mut tail, Kind::ExtraPadding, &[3; 5]);
    sign_tlvs(&key(9), &sequence, &mut tail, 8);
    assert_eq!(
        integrity(Some(&key(9)), &sequence, &tail),
        Integrity::Right(8)
    );
    assert_eq!(integrity(None, &sequence, &tail), Integrity::Wrong);
    assert_eq!(
        integrity(Some(&key(9)), &[0, 0, 0, 8], &tail),
        Integrity::Wrong
    );
    let mut changed = tail.clone();
    changed[5] ^= 1;
    assert_eq!(
        integrity(Some(&key(9)), &sequence, &changed),
        Integrity::Wrong
    );
    append(&mut tail, Kind::ClassOfService, &[1; 4]);
    assert_eq!(integrity(Some(&key(9)), &sequence, &tail), Integrity::Wrong);
}

proptest! {
    #[test]
    fn any_bytes_are_walked_to_their_end(tail in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut at = 0;
        for tlv in Walk::new(&tail) {
            prop_assert_eq!(tlv.at, at);
            at = tlv.value().end;
            prop_assert!(at <= tail.len());
        }
        let _ = integrity(Some(&key(9)), &[0; 4], &tail);
    }

    #[test]
    fn what_is_appended_is_found(
        values in proptest::collection::vec((0_usize..8, proptest::collection::vec(any::<u8>(), 0..40)), 1..9)
    ) {
        let mut tail = Vec::new();
        let mut expected = Vec::new();
        for (index, value) in &values {
            let kind = Kind::ALL[*index];
            append(&mut tail, kind, value);
            expected.push((Some(kind), value.clone()));
            if !kind.takes(value.len()) {
                break;
            }
        }
        let found = Walk::new(&tail);
        let found: Vec<_> = found.map(|tlv| (tlv.kind, tail[tlv.value()].to_vec())).collect();
        prop_assert_eq!(found, expected);
    }
}
