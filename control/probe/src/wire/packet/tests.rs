use super::*;
use crate::wire::time::Format;
use proptest::prelude::*;

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
    sign(&key(1), &mut packet);
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
        let reply = Reply {
            sequence, timestamp, error, ssid, received, sender_sequence, sender_timestamp, sender_error, sender_ttl,
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
        sign(&key(3), &mut bytes);
        prop_assert_eq!(is_authentic(&key(3), &bytes), bytes.len() >= 112);
    }
}
