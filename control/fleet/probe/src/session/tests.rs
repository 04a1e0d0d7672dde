use std::net::SocketAddr;

use proptest::prelude::*;

use super::*;
use crate::clock::ClockState;
use crate::config::ReflectorConfig;
use crate::reflector::{Reflector, Settings};
use crate::socket::Arrival;
use crate::wire::ClockSource;
use crate::wire::least_bytes;

const EPOCH: u64 = 1_700_000_000_000_000_000;
const GAP: Duration = Duration::from_millis(10);
const TIMEOUT: Duration = Duration::from_millis(300);

fn settings(key: Option<Key>, extensions: Vec<Kind>) -> SessionSettings {
    let mode = Mode::of(key.is_some());
    let to = SocketAddr::from(([192, 0, 2, 2], 862));
    let config = SessionConfig {
        length: Some(least_bytes(mode, &extensions, key.is_some())),
        tlvs: extensions,
        schedule: Spacing::Periodic,
        interval_ms: Some(10.0),
        timeout_ms: 300,
        ..SessionConfig::default()
    };
    SessionSettings {
        id: SessionId {
            name: "a".to_owned(),
            node: "there".to_owned(),
            class: "all".to_owned(),
            from: ([192, 0, 2, 1], 5_000).into(),
            to,
            ssid: 3,
            dscp: 10,
        },
        config,
        tlv_key: key.clone(),
        key,
        count: None,
        error: ErrorEstimate::new(true, Format::Ntp, 1_000),
    }
}

fn reflector(key: Option<Key>) -> Reflector {
    Reflector::new(Settings {
        config: ReflectorConfig {
            limit_pps: None,
            ..ReflectorConfig::default()
        },
        tlv_key: key.clone(),
        key,
        error: ErrorEstimate::new(true, Format::Ptp, 2_000),
        clock: ClockSource::Satellite,
    })
}

/// A session, a reflector, and a path whose delays are set by hand.
struct Path {
    session: Session,
    reflector: Reflector,
    /// The reflector's clock less the sender's.
    offset_ns: i64,
    forward_us: u64,
    backward_us: u64,
    clock: LocalClock,
}

fn wall(at: Duration) -> UnixNs {
    UnixNs(EPOCH + u64::try_from(at.as_nanos()).unwrap())
}

fn stamps(at: Duration) -> Stamps {
    Stamps {
        hardware: None,
        system: wall(at),
        by: Stamped::Kernel,
    }
}

impl Path {
    fn new(key: Option<Key>, extensions: Vec<Kind>) -> Self {
        let intervals = Intervals {
            length: Duration::from_secs(1),
            start: UnixNs(EPOCH),
        };
        let settings = settings(key.clone(), extensions);
        Self {
            session: Session::new(settings, intervals, Duration::ZERO, 1),
            reflector: reflector(key),
            offset_ns: 0,
            forward_us: 100,
            backward_us: 200,
            clock: LocalClock::default(),
        }
    }

    /// Sends the next packet when it is due: when, the reply, and when that arrives.
    fn exchange(&mut self) -> (Duration, Vec<u8>, Duration) {
        let now = self.session.due().unwrap();
        let mut packet = self.session.request(now, wall(now)).unwrap().to_vec();
        let sequence = self.session.was_sent(now, wall(now), self.clock);
        self.session.transmitted(sequence, stamps(now));
        let there = now + Duration::from_micros(self.forward_us);
        let arrival = Arrival {
            from: self.session.settings().id.from,
            to: self.session.settings().id.to,
            stamps: Stamps {
                system: UnixNs(wall(there).0.wrapping_add_signed(self.offset_ns)),
                ..stamps(there)
            },
            ttl: 60,
            traffic_class: 9 << 2,
        };
        let pending = self
            .reflector
            .reflect(&mut packet, &arrival, there)
            .unwrap();
        // A millisecond in the reflector counts for nothing.
        let leaves = there + Duration::from_millis(1);
        let at = UnixNs(wall(leaves).0.wrapping_add_signed(self.offset_ns));
        self.reflector.finish(&mut packet, pending, at);
        (
            now,
            packet,
            leaves + Duration::from_micros(self.backward_us),
        )
    }

    fn deliver(&mut self, packet: &[u8], at: Duration) {
        let (came, clock) = (stamps(at), self.clock);
        self.session.answered(packet, came, clock, at);
    }

    fn exchange_all_until(&mut self, end: Duration) {
        while self.session.due().unwrap() < end {
            let (_, packet, at) = self.exchange();
            self.deliver(&packet, at);
        }
    }

    fn poll(&mut self, now: Duration) -> Vec<SessionResult> {
        std::iter::from_fn(|| self.session.poll(now, self.clock)).collect()
    }
}

/// Packets that were sent, answered, lost, and answered late.
fn counted(result: &SessionResult) -> [u64; 4] {
    let counts = result.counts;
    [counts.sent, counts.received, counts.lost, counts.late]
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn delays_are_those_of_the_path() {
    for key in [None, Some(Key::new(&[1; 32]))] {
        let mut path = Path::new(key, Vec::new());
        path.exchange_all_until(secs(1));
        let results = path.poll(secs(1) + TIMEOUT);
        let [result] = &results[..] else {
            panic!("{results:?}")
        };
        assert_eq!(counted(result), [100, 100, 0, 0]);
        assert_eq!(
            (result.interval, result.start_unix_ms),
            (0, EPOCH / 1_000_000)
        );
        let least = [result.round_trip, result.forward, result.backward]
            .map(|delays| delays.unwrap().min_ns);
        assert_eq!(least, [300_000, 100_000, 200_000]);
        let round_trip = result.round_trip.unwrap();
        assert_eq!((round_trip.samples, round_trip.max_ns), (100, 300_000));
        assert_eq!(result.one_way, OneWay::Absolute);
        assert!(result.reflector_clock.unwrap().is_synchronised);
    }
}

#[test]
fn a_packet_under_way_is_not_lost() {
    let mut path = Path::new(None, Vec::new());
    while path.session.due().unwrap() + GAP < secs(1) {
        let (_, packet, at) = path.exchange();
        path.deliver(&packet, at);
    }
    // The last of the interval is answered after its end, before its time is over.
    let (sent, packet, _) = path.exchange();
    assert!(path.poll(secs(1)).is_empty(), "one is under way");
    path.deliver(&packet, sent + TIMEOUT.mul_f64(0.99));
    let result = &path.poll(secs(1) + TIMEOUT / 2)[0];
    assert_eq!(counted(result), [100, 100, 0, 0]);
}

#[test]
fn a_reply_after_the_time_out_is_late_and_its_packet_lost() {
    let mut path = Path::new(None, Vec::new());
    let (sent, packet, _) = path.exchange();
    assert!(path.poll(sent + TIMEOUT).is_empty());
    path.deliver(&packet, sent + TIMEOUT + GAP);
    let result = &path.poll(secs(1))[0];
    assert_eq!(counted(result), [1, 0, 1, 1]);
    assert_eq!((result.round_trip, result.stamps), (None, None));
}

#[test]
fn duplicates_and_reordered_replies_are_counted_as_such() {
    let mut path = Path::new(None, Vec::new());
    let replies: Vec<_> = (0..4).map(|_| path.exchange()).collect();
    for index in [0, 2, 1, 1, 3, 0] {
        let (_, packet, _) = &replies[index];
        path.deliver(packet, replies[3].2);
    }
    let result = &path.poll(secs(1))[0];
    assert_eq!(counted(result), [4, 4, 0, 0]);
    assert_eq!((result.counts.duplicates, result.counts.reordered), (2, 1));
}

#[test]
fn strangers_are_rejected() {
    let key = Key::new(&[1; 32]);
    let mut path = Path::new(Some(key.clone()), Vec::new());
    let (_, packet, at) = path.exchange();
    let mut changed = packet.clone();
    changed[33] ^= 1;
    path.deliver(&changed, at);
    // Authentic, but of a time that was never sent.
    let mut replayed = packet.clone();
    replayed[70] ^= 1;
    wire::sign_base(&key, &mut replayed);
    path.deliver(&replayed, at);
    let mut other = packet.clone();
    other[27] = 9;
    wire::sign_base(&key, &mut other);
    path.deliver(&other, at);
    path.deliver(&packet[..50], at);
    let mut future = packet.clone();
    future[51] = 200;
    wire::sign_base(&key, &mut future);
    path.deliver(&future, at);
    path.deliver(&packet, at);
    let result = &path.poll(secs(1))[0];
    assert_eq!(
        (
            result.counts.received,
            result.counts.rejected,
            result.counts.duplicates
        ),
        (1, 5, 0)
    );
}

#[test]
fn extensions_say_what_the_reflector_saw() {
    let kinds = vec![
        Kind::TimestampInformation,
        Kind::ClassOfService,
        Kind::DirectMeasurement,
        Kind::FollowUpTelemetry,
        Kind::Location,
    ];
    for key in [None, Some(Key::new(&[1; 32]))] {
        let mut path = Path::new(key, kinds.clone());
        path.exchange_all_until(secs(1));
        let said = path.poll(secs(2))[0].extensions.unwrap();
        assert_eq!(said.clock, Some(ClockSource::Satellite));
        assert_eq!(
            (said.dscp_received, said.ecn_received, said.is_dscp_refused),
            (Some(9), Some(0), Some(false))
        );
        assert_eq!(
            (said.reflector_received, said.reflector_sent),
            (Some(100), Some(100))
        );
        let (sequence, at) = said.follow_up.unwrap();
        assert_eq!(sequence, 98);
        assert!(at > EPOCH && at < EPOCH + 1_000_000_000);
        assert_eq!(said.ports, Some((5_000, 862)));
        assert_eq!(
            (said.unrecognised, said.is_malformed, said.is_not_authentic),
            (0, false, false)
        );
    }
}

#[test]
fn a_clock_that_is_set_is_told_from_a_path_that_changes() {
    let mut path = Path::new(None, Vec::new());
    let mut states = Vec::new();
    for second in 0..20 {
        match second {
            8 => path.offset_ns = 5_000_000,
            // The path, not a clock.
            12 => path.forward_us += 5_000,
            16 => path.offset_ns = -2_000_000_000,
            _ => {}
        }
        path.exchange_all_until(secs(second + 1));
        let results = path.poll(secs(second + 1) + TIMEOUT);
        states.extend(
            results
                .iter()
                .map(|result| (result.clocks.state, result.clocks.step_ns)),
        );
    }
    assert_eq!(states.len(), 20);
    let stepped: Vec<_> = (0..20)
        .filter(|second| states[*second].0.has_stepped())
        .collect();
    assert_eq!(stepped, [8, 16]);
    assert_eq!(states[8], (ClockState::ReflectorStepped, Some(5e6)));
    assert_eq!(states[16], (ClockState::ReflectorStepped, Some(-2.005e9)));
}

#[test]
fn when_the_own_clock_is_set_no_delay_is_made_up() {
    let mut path = Path::new(None, Vec::new());
    path.exchange_all_until(secs(1) / 2);
    let (_, packet, at) = path.exchange();
    (path.clock.steps, path.clock.step_ns) = (1, 3e6);
    path.deliver(&packet, at);
    let result = &path.poll(secs(2))[0];
    assert_eq!(
        (result.counts.unusable, result.clocks.state),
        (1, ClockState::SenderStepped)
    );
    assert_eq!(result.round_trip.unwrap().max_ns, 300_000);
    assert_eq!(
        result.counts.received,
        result.round_trip.unwrap().samples + 1
    );
}

#[test]
fn a_session_with_a_count_ends() {
    let intervals = Intervals {
        length: Duration::from_hours(1),
        start: UnixNs(EPOCH),
    };
    let settings = SessionSettings {
        count: Some(5),
        ..settings(None, Vec::new())
    };
    let mut session = Session::new(settings, intervals, Duration::ZERO, 1);
    while let Some(due) = session.due() {
        session.request(due, wall(due)).unwrap();
        session.was_sent(due, wall(due), LocalClock::default());
    }
    assert!(!session.is_over());
    assert!(session.poll(secs(5), LocalClock::default()).is_none());
    assert!(session.is_over());
    let result = session.finish(LocalClock::default()).unwrap();
    assert_eq!((result.counts.sent, result.counts.lost), (5, 5));
    assert_eq!(session.finish(LocalClock::default()), None);
}

#[test]
fn what_is_under_way_at_the_end_is_not_counted() {
    let mut path = Path::new(None, Vec::new());
    let (_, packet, at) = path.exchange();
    path.exchange();
    path.deliver(&packet, at);
    let result = path.session.finish(path.clock).unwrap();
    assert_eq!(counted(&result), [1, 1, 0, 0]);
}

#[test]
fn a_time_of_transmission_is_taken_where_it_can_be_the_packets() {
    let mut path = Path::new(None, Vec::new());
    let now = path.session.due().unwrap();
    path.session.request(now, wall(now)).unwrap();
    let sequence = path.session.was_sent(now, wall(now), path.clock);
    let left = |session: &mut Session| session.window.get(sequence).unwrap().stamps.system;
    path.session
        .transmitted(sequence, stamps(now.saturating_sub(GAP)));
    path.session.transmitted(sequence, stamps(now + secs(20)));
    path.session.transmitted(sequence + 1, stamps(now));
    assert_eq!(left(&mut path.session), wall(now));
    path.session.transmitted(sequence, stamps(now + GAP));
    assert_eq!(left(&mut path.session), wall(now + GAP));
}

#[test]
fn memory_is_bounded_where_nobody_answers() {
    let mut path = Path::new(None, Vec::new());
    let now = path.session.due().unwrap();
    let mut refused = 0;
    for _ in 0..PACKETS_MAX + 100 {
        if path.session.request(now, wall(now)).is_some() {
            path.session.was_sent(now, wall(now), LocalClock::default());
        } else {
            refused += 1;
        }
    }
    assert_eq!(refused, 100);
    let result = &path.poll(secs(2))[0];
    assert_eq!(
        (result.counts.not_sent, result.counts.sent),
        (100, PACKETS_MAX as u64)
    );
}

proptest! {
    /// Any replies, lost, repeated and out of order: every packet is answered or lost, and none is both.
    #[test]
    fn every_packet_is_accounted_for(
        fates in proptest::collection::vec((0_u8..4, 0_u64..600), 1..250),
    ) {
        let mut path = Path::new(None, Vec::new());
        let (mut replies, mut results) = (Vec::new(), Vec::new());
        for (fate, delay_ms) in &fates {
            let (now, packet, _) = path.exchange();
            let at = now + Duration::from_millis(*delay_ms);
            for _ in 0..*fate {
                replies.push((at, packet.clone()));
            }
            replies.sort_by_key(|reply| reply.0);
            while replies.first().is_some_and(|reply| reply.0 <= now) {
                let (at, packet) = replies.remove(0);
                results.extend(path.poll(at));
                path.deliver(&packet, at);
            }
            results.extend(path.poll(now));
        }
        for (at, packet) in replies {
            results.extend(path.poll(at));
            path.deliver(&packet, at);
        }
        results.extend(path.poll(secs(60)));
        let sum = |of: fn(&SessionResult) -> u64| results.iter().map(of).sum::<u64>();
        prop_assert_eq!(sum(|result| result.counts.sent), fates.len() as u64);
        let mut expected = 0;
        for result in &results {
            prop_assert_eq!(result.counts.sent, result.counts.received + result.counts.lost);
            prop_assert_eq!(result.round_trip.map_or(0, |delays| delays.samples), result.counts.received);
        }
        for (fate, delay_ms) in fates {
            expected += u64::from(fate > 0 && Duration::from_millis(delay_ms) < TIMEOUT);
        }
        prop_assert_eq!(sum(|result| result.counts.received), expected);
    }

    #[test]
    fn any_bytes_are_no_reply(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut path = Path::new(None, vec![Kind::ClassOfService, Kind::Location]);
        path.exchange();
        path.deliver(&bytes, GAP);
        let result = &path.poll(secs(2))[0];
        prop_assert_eq!((result.counts.received, result.counts.lost), (0, 1));
    }
}

fn gaps(spacing: Spacing) -> Vec<f64> {
    let mut random = Pcg64Mcg::seed_from_u64(7);
    let mut schedule = Schedule::new(spacing, GAP, Duration::ZERO, &mut random);
    assert!(schedule.next < GAP);
    let gaps = (0..20_000).map(|_| {
        let before = schedule.next;
        assert_eq!(schedule.advance(before, &mut random), 0);
        (schedule.next.as_secs_f64() - before.as_secs_f64()) / GAP.as_secs_f64()
    });
    gaps.collect()
}

#[test]
fn poisson_gaps_are_exponential() {
    let gaps = gaps(Spacing::Poisson);
    let count = gaps.len() as f64;
    let mean = gaps.iter().sum::<f64>() / count;
    let squares = gaps.iter().map(|gap| gap * gap).sum::<f64>() / count;
    let over_two = gaps.iter().filter(|gap| **gap > 2.0).count() as f64 / count;
    assert!((mean - 1.0).abs() < 0.03, "{mean}");
    assert!((squares - 2.0).abs() < 0.15, "{squares}");
    assert!((over_two - (-2.0_f64).exp()).abs() < 0.01, "{over_two}");
}

#[test]
fn periodic_gaps_are_equal() {
    assert!(
        gaps(Spacing::Periodic)
            .iter()
            .all(|gap| (gap - 1.0).abs() < 1e-6)
    );
}

#[test]
fn what_was_due_long_ago_is_left_out_and_counted() {
    let mut random = Pcg64Mcg::seed_from_u64(7);
    let mut schedule = Schedule::new(Spacing::Periodic, GAP, Duration::ZERO, &mut random);
    let first = schedule.next;
    let left_out = schedule.advance(first + Duration::from_secs(10), &mut random);
    assert_eq!(left_out, 999);
    assert_eq!(schedule.next, first + GAP * 1_000);
}

fn sent(at_ms: u64) -> Sent {
    Sent {
        written: UnixNs(at_ms),
        stamps: Stamps::now(),
        at: Duration::from_millis(at_ms),
        interval: 0,
        clock_steps: 0,
        is_answered: false,
    }
}

#[test]
fn numbers_roll_over() {
    let mut window = Window {
        first: u32::MAX - 1,
        ..Window::default()
    };
    for at_ms in 0..4 {
        assert_eq!(window.next_sequence(), (u32::MAX - 1).wrapping_add(at_ms));
        window.push(sent(u64::from(at_ms)));
    }
    assert_eq!(window.get(1).unwrap().written, UnixNs(3));
    assert!(window.get(2).is_none() && window.get(u32::MAX - 2).is_none());
    assert!(window.is_past(u32::MAX - 2) && !window.is_past(2));
    let popped = std::iter::from_fn(|| window.pop_before(Duration::from_millis(2)));
    assert_eq!(popped.count(), 3);
    assert!(window.get(0).is_none() && window.is_past(0));
    assert_eq!(window.get(1).unwrap().at, Duration::from_millis(3));
}
