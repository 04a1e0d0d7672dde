use proptest::prelude::*;

use super::*;
use crate::socket::Stamps;
use crate::wire::{Format, append};

const NOW: Duration = Duration::from_secs(5);

fn key() -> Key {
    Key::new(&[7; 32])
}

fn settings(key: Option<Key>) -> Settings {
    Settings {
        tlv_key: key.clone(),
        key,
        error: ErrorEstimate::new(true, Format::Ntp, 1_000),
        clock: ClockSource::Ptp,
        config: ReflectorConfig {
            limit_pps: None,
            allowed_dscp: Some(vec![0, 46]),
            ..ReflectorConfig::default()
        },
    }
}

/// A reflector that answers a source five times a second.
fn limited(key: Option<Key>) -> Reflector {
    let mut settings = settings(key);
    settings.config.limit_pps = Some(5);
    Reflector::new(settings)
}

fn stamps(at: UnixNs) -> Stamps {
    Stamps {
        hardware: None,
        system: at,
        by: Stamped::Kernel,
    }
}

fn arrival() -> Arrival {
    Arrival {
        from: ([192, 0, 2, 1], 5_000).into(),
        to: ([192, 0, 2, 2], 862).into(),
        stamps: stamps(UnixNs(1_700_000_000_123_456_789)),
        ttl: 61,
        traffic_class: 10 << 2 | 1,
    }
}

fn request(mode: Mode, sequence: u32, tail: &[u8]) -> Vec<u8> {
    let request = Request {
        sequence,
        timestamp: 77,
        error: ErrorEstimate::from_bits(0x0101),
        ssid: 3,
    };
    let mut packet = vec![0; mode.bytes()];
    request.write(mode, &mut packet);
    packet.extend(tail);
    if mode == Mode::Authenticated {
        wire::sign_base(&key(), &mut packet);
    }
    packet
}

/// The reply, in the request's place; its DSCP and ECN.
fn reflected(reflector: &mut Reflector, packet: &mut [u8]) -> Option<u8> {
    let pending = reflector.reflect(packet, &arrival(), NOW)?;
    reflector.finish(packet, pending, UnixNs(1_700_000_000_200_000_000));
    Some(pending.traffic_class)
}

/// These TLVs, as a sender writes them.
fn tlvs(tlvs: &[(Kind, &[u8])]) -> Vec<u8> {
    let mut tail = Vec::new();
    for (kind, value) in tlvs {
        append(&mut tail, *kind, value);
    }
    tail
}

fn flags_and_values(tail: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let walk = Walk::new(tail);
    walk.map(|tlv| (tlv.flags, tail[tlv.value()].to_vec()))
        .collect()
}

#[test]
fn a_reply_has_all_that_the_request_had() {
    for mode in [Mode::Open, Mode::Authenticated] {
        let key = (mode == Mode::Authenticated).then(key);
        let mut reflector = Reflector::new(settings(key.clone()));
        for sent in 0..3 {
            let mut packet = request(mode, 900 + sent, &[]);
            reflected(&mut reflector, &mut packet).unwrap();
            let reply = Reply::read(mode, &packet).unwrap();
            let expected = Reply {
                own: Request {
                    // The reflector's own count.
                    sequence: sent,
                    timestamp: Format::Ntp.encode(UnixNs(1_700_000_000_200_000_000)),
                    error: ErrorEstimate::new(true, Format::Ntp, 1_000),
                    ssid: 3,
                },
                received: Format::Ntp.encode(arrival().stamps.system),
                sender_sequence: 900 + sent,
                sender_timestamp: 77,
                sender_error: ErrorEstimate::from_bits(0x0101),
                sender_ttl: 61,
            };
            assert_eq!(reply, expected);
            assert!(
                key.as_ref()
                    .is_none_or(|key| wire::is_authentic(key, &packet))
            );
        }
        assert_eq!(
            (reflector.counts().answered, reflector.counts().sessions),
            (3, 1)
        );
    }
}

#[test]
fn without_room_a_session_is_answered_with_its_own_numbers() {
    let mut settings = settings(None);
    settings.config.sessions_max = 0;
    let mut reflector = Reflector::new(settings);
    let mut packet = request(Mode::Open, 900, &[]);
    reflected(&mut reflector, &mut packet).unwrap();
    assert_eq!(Reply::read(Mode::Open, &packet).unwrap().own.sequence, 900);
    assert_eq!(reflector.counts().answered_without_state, 1);
}

#[test]
fn what_is_not_authentic_is_not_answered_and_changes_nothing() {
    let mut reflector = Reflector::new(settings(Some(key())));
    let mut packet = request(Mode::Authenticated, 0, &[]);
    packet[20] ^= 1;
    assert_eq!(reflected(&mut reflector, &mut packet), None);
    let mut open = request(Mode::Open, 0, &[]);
    assert_eq!(reflected(&mut reflector, &mut open), None);
    let counts = reflector.counts();
    assert_eq!(
        (
            counts.not_authentic,
            counts.too_short,
            counts.sessions,
            counts.answered
        ),
        (1, 1, 0, 0)
    );
}

#[test]
fn a_source_over_its_limit_is_not_answered() {
    let mut reflector = limited(None);
    let answers =
        (0..50).map(|sequence| reflected(&mut reflector, &mut request(Mode::Open, sequence, &[])));
    assert_eq!(answers.flatten().count(), 5);
    assert_eq!(reflector.counts().over_limit, 45);
}

/// Packets with wrong HMACs from a peer's address use up nothing that is the peer's, and no more than so much work in total.
#[test]
fn forged_packets_cost_their_victim_nothing_and_little_work() {
    let mut reflector = limited(Some(key()));
    let mut forged = request(Mode::Authenticated, 0, &[]);
    forged[20] ^= 1;
    for _ in 0..1_000 {
        assert_eq!(reflected(&mut reflector, &mut forged.clone()), None);
    }
    for sequence in 0..5 {
        reflected(
            &mut reflector,
            &mut request(Mode::Authenticated, sequence, &[]),
        )
        .unwrap();
    }
    assert_eq!(reflector.counts().not_authentic, 1_000);
    for _ in 0..1_000_000 {
        assert_eq!(reflected(&mut reflector, &mut forged.clone()), None);
    }
    let counts = reflector.counts();
    assert_eq!(
        (counts.over_limit, counts.looped, counts.answered),
        (0, 0, 5)
    );
    assert_eq!(counts.not_authentic + counts.unchecked, 1_001_000);
    // 16 MiB of packets of 112 bytes, and 128 for each check.
    assert_eq!(counts.not_authentic, (16_u64 << 20).div_ceil(112 + 128));
    // A moment later there is room again.
    let later = NOW + Duration::from_secs(1);
    let mut packet = request(Mode::Authenticated, 5, &[]);
    assert!(reflector.reflect(&mut packet, &arrival(), later).is_some());
}

/// The HMAC of TLVs alone is no cheaper to forge: it is within the same limit.
#[test]
fn forged_tlvs_are_limited_like_forged_packets() {
    let mut reflector = Reflector::new(Settings {
        key: None,
        ..settings(Some(key()))
    });
    let tail = tlvs(&[
        (Kind::ExtraPadding, &[9; 9_000]),
        (Kind::TimestampInformation, &[0; 4]),
        (Kind::Hmac, &[0; 16]),
    ]);
    for sequence in 0..10_000 {
        let _ = reflected(&mut reflector, &mut request(Mode::Open, sequence, &tail));
    }
    let checked = reflector.counts().tlv_not_authentic;
    assert!(checked * 9_000 < 17 << 20, "{checked}");
    assert_eq!(checked + reflector.counts().unchecked, 10_000);
}

/// A reflector whose clock is off by so much, and which writes times in this format.
struct End {
    reflector: Reflector,
    offset_ns: i64,
    address: SocketAddr,
}

impl End {
    fn new(key: Option<Key>, format: Format, offset_ns: i64, address: SocketAddr) -> Self {
        let reflector = Reflector::new(Settings {
            error: ErrorEstimate::new(true, format, 1_000),
            ..settings(key)
        });
        Self {
            reflector,
            offset_ns,
            address,
        }
    }

    /// Takes a packet at a time; whether it answered.
    fn takes(&mut self, packet: &mut [u8], from: SocketAddr, at: UnixNs) -> bool {
        let own = |at: UnixNs| UnixNs(at.0.saturating_add_signed(self.offset_ns));
        let arrival = Arrival {
            from,
            to: self.address,
            stamps: stamps(own(at)),
            ..arrival()
        };
        let pending = self.reflector.reflect(packet, &arrival, NOW);
        let answered = pending.map(|pending| self.reflector.finish(packet, pending, own(at)));
        answered.is_some()
    }
}

/// However clocks and formats differ, and whatever a forged packet contains.
#[test]
fn two_reflectors_and_a_forged_packet_make_two_replies_at_most() {
    const HOUR_NS: i64 = 3_600_000_000_000;
    let formats = [Format::Ntp, Format::Ptp];
    let offsets = [-HOUR_NS, 0, HOUR_NS];
    let (a, b): (SocketAddr, SocketAddr) = (
        ([192, 0, 2, 1], 4_000).into(),
        ([192, 0, 2, 2], 5_000).into(),
    );
    for key in [None, Some(key())] {
        let mode = key.as_ref().map_or(Mode::Open, |_| Mode::Authenticated);
        for (first, second) in formats.into_iter().flat_map(|f| formats.map(|s| (f, s))) {
            for offset_ns in offsets {
                let mut ends = [
                    End::new(key.clone(), first, 0, a),
                    End::new(key.clone(), second, offset_ns, b),
                ];
                for forged in 0..3 {
                    let mut packet = request(mode, forged, &[]);
                    let (mut at, mut replies) = (1_700_000_000_000_000_000, 0);
                    let mut from = b;
                    while ends[replies % 2].takes(&mut packet, from, UnixNs(at)) {
                        from = ends[replies % 2].address;
                        replies += 1;
                        at += 20_000_000;
                        assert!(replies <= 2, "{mode:?} {first:?} {second:?} {offset_ns}");
                    }
                    assert_eq!(replies, 2);
                }
                let looped = ends[0].reflector.counts().looped;
                assert_eq!(looped, 3);
            }
        }
    }
}

/// Requests that an honest sender may send are answered: from the port of reflectors, with any padding behind, with the sender's
/// time anywhere but in the place of a reply's.
#[test]
fn honest_requests_are_no_loops() {
    let mut reflector = Reflector::new(settings(None));
    let now = Format::Ntp.encode(UnixNs(1_700_000_000_200_000_000));
    for padding in [0, 0x55, 0xaa, 0xff] {
        for sequence in 0..3 {
            let mut packet = request(Mode::Open, sequence, &[padding; 40]);
            packet[4..12].copy_from_slice(&now.to_be_bytes());
            // TWAMP: padding from byte 14 on.
            packet[16..].fill(padding);
            let from = Arrival {
                from: ([192, 0, 2, 1], 862).into(),
                ..arrival()
            };
            let pending = reflector.reflect(&mut packet, &from, NOW).unwrap();
            reflector.finish(&mut packet, pending, UnixNs(1_700_000_000_200_000_000));
        }
    }
    // Zeros are the beginning of an era of NTP, which comes again in 2036.
    let rollover = UnixNs(((1 << 32) - 2_208_988_800) * 1_000_000_000);
    for sequence in 0..3 {
        let mut packet = request(Mode::Open, sequence, &[]);
        let pending = reflector.reflect(&mut packet, &arrival(), NOW).unwrap();
        reflector.finish(&mut packet, pending, rollover);
    }
    assert_eq!(reflector.counts().looped, 0);
}

#[test]
fn tlvs_are_answered_where_they_are() {
    let counts = [0, 0, 0, 9, 1, 1, 1, 1, 2, 2, 2, 2];
    let mut tail = tlvs(&[
        (Kind::TimestampInformation, &[0; 4]),
        (Kind::ClassOfService, &[46 << 2, 0, 0, 0]),
        (Kind::DirectMeasurement, &counts),
        (Kind::FollowUpTelemetry, &[5; 16]),
        (Kind::AccessReport, &[0x20, 1, 7, 7]),
    ]);
    tail.extend([UNRECOGNISED, 251, 0, 2, 8, 9]);
    append(&mut tail, Kind::ExtraPadding, &[6; 7]);
    let mut reflector = Reflector::new(settings(None));
    let mut first = request(Mode::Open, 900, &tail);
    assert_eq!(
        reflected(&mut reflector, &mut first),
        Some(46 << 2),
        "the DSCP that was asked for"
    );
    let answers = flags_and_values(&first[44..]);
    let expected: [(u8, Vec<u8>); 7] = [
        (0, vec![2, 2, 2, 2]),
        // DSCP 10 and ECN 1 arrived.
        (0, vec![46 << 2, 10 << 4 | 1 << 2, 0, 0]),
        (0, vec![0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 1]),
        (0, vec![0; 16]),
        (0, vec![0x20, 1, 0, 0]),
        (UNRECOGNISED, vec![8, 9]),
        (0, vec![6; 7]),
    ];
    assert_eq!(answers, expected);
    // The next reports when the first really left.
    let mut second = request(Mode::Open, 901, &tail);
    reflected(&mut reflector, &mut second).unwrap();
    let follow_up = &flags_and_values(&second[44..])[3].1;
    let left = Format::Ntp
        .encode(UnixNs(1_700_000_000_200_000_000))
        .to_be_bytes();
    assert_eq!(
        (&follow_up[..4], &follow_up[4..12]),
        (&[0; 4][..], &left[..])
    );
    assert_eq!(follow_up[12..], [2, 0, 0, 0]);
}

#[test]
fn a_dscp_that_is_not_allowed_is_refused_in_words() {
    let tail = tlvs(&[(Kind::ClassOfService, &[34 << 2, 0, 0, 0])]);
    let mut packet = request(Mode::Open, 0, &tail);
    let class = reflected(&mut Reflector::new(settings(None)), &mut packet);
    assert_eq!(class, Some(10 << 2), "as it came");
    assert_eq!(packet[48..52], [34 << 2, 10 << 4 | 1 << 2 | 1, 0, 0]);
}

#[test]
fn locations_are_ports_and_addresses() {
    let mut value = vec![0; 4];
    for (kind, bytes) in [(4, 16), (7, 16), (1, 8), (200, 4)] {
        value.extend([UNRECOGNISED, kind, 0, bytes]);
        value.extend(vec![0; usize::from(bytes)]);
    }
    let mut packet = request(Mode::Open, 0, &tlvs(&[(Kind::Location, &value)]));
    reflected(&mut Reflector::new(settings(None)), &mut packet).unwrap();
    let value = &packet[48..];
    assert_eq!(value[..4], [3, 94, 0x13, 0x88]);
    assert_eq!(value[4..12], [0, 5, 0, 16, 192, 0, 2, 2]);
    assert_eq!(value[24..32], [0, 8, 0, 16, 192, 0, 2, 1]);
    assert_eq!(value[44..56], [0, 3, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(value[56..58], [UNRECOGNISED, 200]);
}

#[test]
fn a_malformed_tlv_ends_the_answers() {
    let tail = tlvs(&[
        (Kind::TimestampInformation, &[0; 4]),
        (Kind::FollowUpTelemetry, &[5; 15]),
        (Kind::TimestampInformation, &[0; 4]),
    ]);
    let mut reflector = Reflector::new(settings(None));
    let mut packet = request(Mode::Open, 0, &tail);
    reflected(&mut reflector, &mut packet).unwrap();
    let reply = &packet[44..];
    assert_eq!(reply[..8], [0, 3, 0, 4, 2, 2, 2, 2]);
    // Zeroed, except after the timestamp (section 4.7).
    assert_eq!(reply[8..12], [MALFORMED, 7, 0, 15]);
    assert_eq!(reply[12..27], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 5, 5]);
    assert_eq!(reply[27..], tail[27..], "the rest is copied");
    assert_eq!(reflector.counts().tlv_malformed, 1);
}

#[test]
fn tlvs_have_an_hmac_of_their_own() {
    let signed = |sequence: u32| {
        let mut tail = tlvs(&[
            (Kind::TimestampInformation, &[0; 4]),
            (Kind::Hmac, &[0; 16]),
            (Kind::ExtraPadding, &[9; 3]),
        ]);
        wire::sign_tlvs(&key(), &sequence.to_be_bytes(), &mut tail, 8);
        tail
    };
    let mut reflector = Reflector::new(settings(Some(key())));
    let mut packet = request(Mode::Authenticated, 5, &signed(5));
    reflected(&mut reflector, &mut packet).unwrap();
    assert!(wire::is_authentic(&key(), &packet));
    let (base, tail) = packet.split_at(112);
    assert_eq!(tail[..8], [0, 3, 0, 4, 2, 2, 2, 2]);
    assert_eq!(
        wire::integrity(Some(&key()), &base[..4], tail),
        wire::Integrity::Right(8)
    );

    // Of another packet, or missing: nothing is answered, and all is flagged.
    let unsigned = tlvs(&[(Kind::TimestampInformation, &[0; 4])]);
    for tail in [signed(6), unsigned] {
        let mut packet = request(Mode::Authenticated, 5, &tail);
        reflected(&mut reflector, &mut packet).unwrap();
        for (flags, value) in flags_and_values(&packet[112..]) {
            assert_eq!(flags & INTEGRITY, INTEGRITY);
            assert!(value != [2, 2, 2, 2]);
        }
    }
    assert_eq!(reflector.counts().tlv_not_authentic, 2);
    // Padding alone needs none.
    let padding = tlvs(&[(Kind::ExtraPadding, &[9; 3])]);
    let mut packet = request(Mode::Authenticated, 5, &padding);
    reflected(&mut reflector, &mut packet).unwrap();
    assert_eq!(packet[112], 0);
}

/// Bytes that begin like TLVs often enough.
fn tails() -> impl Strategy<Value = Vec<u8>> {
    let tlv = (
        any::<u8>(),
        0_u8..10,
        0_u8..24,
        proptest::collection::vec(any::<u8>(), 0..24),
    );
    proptest::collection::vec(tlv, 0..6).prop_map(|tlvs| {
        let bytes = tlvs
            .into_iter()
            .flat_map(|(flags, kind, bytes, value)| [vec![flags, kind, 0, bytes], value].concat());
        bytes.collect()
    })
}

proptest! {
    #[test]
    fn any_request_gets_a_reply_of_its_length_or_none(
        tail in tails(), cut in 0_usize..200, is_signed: bool, is_authenticated: bool,
    ) {
        let mode = if is_authenticated { Mode::Authenticated } else { Mode::Open };
        let mut packet = request(mode, 1, &tail);
        packet.truncate(packet.len().saturating_sub(cut));
        if is_signed {
            wire::sign_base(&key(), &mut packet);
        }
        let before = packet.clone();
        let mut reflector = Reflector::new(settings(is_authenticated.then(key)));
        if reflected(&mut reflector, &mut packet).is_none() {
            prop_assert_eq!(packet, before);
            return Ok(());
        }
        prop_assert_eq!(packet.len(), before.len());
        // Types and lengths stay, so that the sender finds its TLVs again.
        let shape = |packet: &[u8]| -> Vec<_> {
            let walk = Walk::new(&packet[mode.bytes()..]);
            walk.map(|tlv| (tlv.at, tlv.number, tlv.bytes)).collect()
        };
        prop_assert_eq!(shape(&packet), shape(&before));
    }

    #[test]
    fn any_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        for key in [None, Some(key())] {
            let _ = reflected(&mut Reflector::new(settings(key)), &mut bytes.clone());
        }
    }
}

#[test]
fn a_source_gets_its_rate_and_no_more() {
    let mut limit = Limit::new(10);
    let (one, other) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let at = |ms| Duration::from_millis(ms);
    let taken = (0..1_000).filter(|_| limit.takes(one, at(0))).count();
    assert_eq!(taken, 10, "a second's packets at once");
    // Unless the two share a bucket: one of 4,096.
    let _ = limit.takes(other, at(0));
    let taken = (0..2_000).filter(|ms| limit.takes(one, at(*ms))).count();
    assert!((19..=20).contains(&taken), "{taken}");
    assert!(
        !limit.takes(one, at(1_000)),
        "time that goes back gives nothing"
    );
}

#[test]
fn the_table_does_not_grow_and_idle_sessions_make_room() {
    let key = |ssid: u16| SessionKey {
        from: ([10, 0, 0, 1], 5_000).into(),
        to: ([10, 0, 0, 2], 862).into(),
        ssid,
    };
    let mut sessions = Sessions::new(100, Duration::from_mins(1));
    let at = Duration::from_secs;
    for ssid in 0..50_000 {
        let state = sessions.see(key(ssid), at(1));
        assert_eq!(state.is_some(), ssid < 100);
    }
    assert_eq!(sessions.states.len(), 100);
    // The first stays in use.
    sessions.see(key(0), at(50)).unwrap().sent = 7;
    sessions.see(key(1), at(1)).unwrap().sent = 9;
    assert!(sessions.see(key(1_000), at(60)).is_none());
    assert!(sessions.see(key(1_000), at(62)).is_some());
    assert_eq!(sessions.states.len(), 2);
    assert_eq!(sessions.see(key(0), at(62)).unwrap().sent, 7);
    // A session that comes back starts again.
    assert_eq!(sessions.see(key(1), at(62)).unwrap().sent, 0);
}
