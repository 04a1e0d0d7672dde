//! STAMP: requests to a reflector, and replies to a session.

use std::time::Duration;

use probe::clock::LocalClock;
use probe::config::{ReflectorConfig, SessionConfig, Spacing};
use probe::reflector::{Reflector, Settings};
use probe::result::SessionId;
use probe::session::{Intervals, Session, SessionSettings};
use probe::socket::{Arrival, Stamped, Stamps};
use probe::wire::{
    ClockSource, ErrorEstimate, Format, Key, Kind, Mode, UnixNs, Walk, is_authentic, least_bytes,
    sign_base,
};

pub(super) const NOW: UnixNs = UnixNs(1_700_000_000_000_000_000);

const TLVS: [Kind; 5] = [
    Kind::Location,
    Kind::TimestampInformation,
    Kind::ClassOfService,
    Kind::DirectMeasurement,
    Kind::FollowUpTelemetry,
];

/// The first byte selects whether base packets are authenticated; the others are a packet, which is signed in that
/// case. A reflector answers with as many bytes, the same TLVs and a correct HMAC, or not at all. A session counts each
/// of its packets once, whatever replies arrive.
pub fn stamp(bytes: &[u8]) {
    let Some((&choice, packet)) = bytes.split_first() else {
        return;
    };
    let key = (choice & 1 == 1).then(|| Key::new(&[7; 32]));
    let mode = Mode::of(key.is_some());
    let mut packet = packet.to_vec();
    if let Some(key) = &key {
        sign_base(key, &mut packet);
    }
    reply(key.as_ref(), mode, &packet);
    request(key.as_ref(), mode, &packet);
}

fn request(key: Option<&Key>, mode: Mode, request: &[u8]) {
    let mut reflector = reflector(key);
    let mut packet = request.to_vec();
    let Some(pending) = reflector.reflect(&mut packet, &arrival(), Duration::ZERO) else {
        assert!(request.len() < mode.bytes());
        assert_eq!(packet, request);
        return;
    };
    reflector.finish(&mut packet, pending, NOW);
    assert_eq!(packet.len(), request.len());
    assert!(key.is_none_or(|key| is_authentic(key, &packet)));
    let shape = |packet: &[u8]| -> Vec<_> {
        let tlvs = Walk::new(&packet[mode.bytes()..]);
        tlvs.map(|tlv| (tlv.at, tlv.number, tlv.bytes)).collect()
    };
    assert_eq!(shape(&packet), shape(request));
}

fn reply(key: Option<&Key>, mode: Mode, packet: &[u8]) {
    let mut session = session(key, mode);
    let clock = LocalClock::default();
    for _ in 0..3 {
        let now = session.due().unwrap();
        assert!(session.request(now, NOW).is_some());
        session.was_sent(now, NOW, clock);
    }
    for _ in 0..2 {
        session.answered(packet, arrival().stamps, clock, Duration::from_millis(50));
    }
    let result = session.poll(Duration::from_secs(10), clock).unwrap();
    let counts = result.counts;
    assert_eq!((counts.sent, counts.received + counts.lost), (3, 3));
    assert_eq!(
        counts.received + counts.duplicates + counts.rejected + counts.late,
        2
    );
}

pub(super) fn arrival() -> Arrival {
    Arrival {
        from: ([192, 0, 2, 1], 5_000).into(),
        to: ([192, 0, 2, 2], 862).into(),
        stamps: Stamps {
            hardware: None,
            system: NOW,
            by: Stamped::Kernel,
        },
        ttl: 64,
        traffic_class: 0xb9,
    }
}

fn reflector(key: Option<&Key>) -> Reflector {
    Reflector::new(reflector_settings(key))
}

pub(super) fn reflector_settings(key: Option<&Key>) -> Settings {
    Settings {
        key: key.cloned(),
        tlv_key: key.cloned(),
        error: ErrorEstimate::new(true, Format::Ntp, 1_000),
        clock: ClockSource::Ptp,
        config: ReflectorConfig {
            sessions_max: 1,
            idle_s: 1,
            limit_pps: None,
            allowed_dscp: Some(vec![0]),
            ..ReflectorConfig::default()
        },
    }
}

pub(super) fn session(key: Option<&Key>, mode: Mode) -> Session {
    let settings = SessionSettings {
        id: SessionId {
            name: "a".to_owned(),
            node: "a".to_owned(),
            class: "all".to_owned(),
            from: arrival().from,
            to: arrival().to,
            ssid: 3,
            dscp: 46,
        },
        key: key.cloned(),
        tlv_key: key.cloned(),
        config: SessionConfig {
            length: Some(least_bytes(mode, &TLVS, key.is_some()) + 12),
            tlvs: TLVS.to_vec(),
            schedule: Spacing::Periodic,
            interval_ms: Some(1.0),
            timeout_ms: 1_000,
            ..SessionConfig::default()
        },
        count: None,
        error: ErrorEstimate::new(true, Format::Ntp, 1_000),
    };
    let intervals = Intervals {
        length: Duration::from_secs(1),
        start: NOW,
    };
    Session::new(settings, intervals, Duration::ZERO, 1)
}

/// Requests and replies with all TLVs and without any, in both modes.
pub(super) fn exchanges() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for key in [None, Some(Key::new(&[7; 32]))] {
        let mode = if key.is_some() {
            Mode::Authenticated
        } else {
            Mode::Open
        };
        let mut session = session(key.as_ref(), mode);
        let mut packet = session.request(Duration::ZERO, NOW).unwrap().to_vec();
        let seed = |packet: &[u8]| [&[u8::from(key.is_some())], packet].concat();
        seeds.push(seed(&packet));
        seeds.push(seed(&packet[..mode.bytes()]));
        let mut reflector = reflector(key.as_ref());
        let pending = reflector.reflect(&mut packet, &arrival(), Duration::ZERO);
        reflector.finish(&mut packet, pending.unwrap(), NOW);
        seeds.push(seed(&packet));
    }
    seeds
}
