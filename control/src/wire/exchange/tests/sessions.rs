use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use wire::frame::{ClockState, PortName};
use wire::session::{Key, KeyId, KeyRing};

use super::bench::{Switch, keys};
use super::*;

#[test]
fn a_clock_that_is_synchronised_later_lets_the_session_begin() {
    let mut bench = Bench::alike();
    bench.switches[0].clock.state = ClockState::Free;
    bench.steps(200);
    assert_eq!(
        bench.switches[1].status().mismatch,
        Some(Mismatch::FreeClock)
    );
    bench.switches[0].clock = LOCKED;
    bench.establish();
    bench.steps(2);
    assert_eq!(
        bench.switches[1].status().session,
        SessionState::Established
    );
    assert_eq!(bench.switches[1].status().mismatch, None);
}

#[test]
fn a_clock_that_is_lost_withholds_numbers_until_it_is_back() {
    let mut bench = Bench::alike();
    bench.establish();
    (0..4).for_each(|_| bench.epoch());
    let before = fates(&bench.switches[1].status(), EpochFate::Usable);
    bench.switches[0].clock.state = ClockState::Free;
    (0..12).for_each(|_| bench.epoch());
    let status = bench.switches[1].status();
    assert_eq!(status.session, SessionState::Mismatch);
    assert!(fates(&status, EpochFate::Clock) >= 5);
    assert!(status.receiving[0].latest.unwrap().outcome.is_none());
    assert!(
        fates(&status, EpochFate::Usable) <= before + 6,
        "a hello a second"
    );
    bench.switches[0].clock = LOCKED;
    (0..10).for_each(|_| bench.epoch());
    bench.steps(30);
    assert_true(&latest(&bench));
    assert_eq!(bench.switches[1].status().counters.sessions, 1);
}

#[test]
fn a_silent_peer_is_lost_and_found_again() {
    let mut bench = Bench::alike();
    bench.establish();
    (0..3).for_each(|_| bench.epoch());
    bench.fault = Box::new(|_, _, _| vec![]);
    bench.steps(1_300);
    for switch in &bench.switches {
        let status = switch.status();
        assert_eq!(status.session, SessionState::Lost);
        assert_eq!(status.counters.sessions_lost, 1);
        assert!(switch.sessions.is_none(), "the worker knows");
    }
    bench.fault = Box::new(|_, _, _| vec![(0, false)]);
    bench.establish();
    bench.epoch();
    // The worker's open epoch may be an old one.
    bench.epoch += 1_000;
    (0..5).for_each(|_| bench.epoch());
    bench.steps(30);
    assert_true(&latest(&bench));
    let status = bench.switches[1].status();
    assert_eq!(fates(&status, EpochFate::Unmeasured), 0);
}

#[test]
fn recordings_of_a_dead_peer_do_not_keep_it_alive() {
    let mut bench = Bench::alike();
    bench.establish();
    let recorded = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let into = std::rc::Rc::clone(&recorded);
    bench.fault = Box::new(move |_, _, frame| {
        into.borrow_mut().push(frame.to_vec());
        vec![(0, false)]
    });
    (0..3).for_each(|_| bench.epoch());
    bench.fault = Box::new(|_, _, _| vec![]);
    let recorded = recorded.borrow().clone();
    for step in 0..1_300 {
        bench.step();
        let frame = &recorded[step % recorded.len()];
        for switch in &mut bench.switches {
            switch.receive(frame, bench.now.tai_ns);
        }
    }
    for switch in &bench.switches {
        assert_eq!(switch.status().counters.sessions_lost, 1);
        assert!(switch.sessions.is_none());
    }
}

/// Polls one switch so many times, which hears of its own frames what `back` gives of all that it has sent so far.
fn alone(
    alone: &mut Switch,
    now: &mut Moment,
    steps: u32,
    back: fn(&mut Vec<Vec<u8>>) -> Vec<Vec<u8>>,
) {
    let (mut random, mut sent) = (bench::Random(9), Vec::new());
    for _ in 0..steps {
        now.tai_ns += STEP_NS;
        now.monotonic_ns += STEP_NS;
        alone.exchange.poll(*now, &mut || random.bits());
        while let Some(boxed) = alone.worker.to_send() {
            sent.push(boxed.frame().to_vec());
            alone.worker.sent();
        }
        for frame in back(&mut sent) {
            alone.receive(&frame, now.tai_ns);
        }
    }
}

#[test]
fn who_hears_himself_blocks_until_he_does_not() {
    let mut bench = Bench::alike();
    let [looped, _] = &mut bench.switches;
    let is_blocked = Arc::clone(&looped.worker.is_blocked);
    let is_blocked = || is_blocked.load(std::sync::atomic::Ordering::Relaxed);
    alone(looped, &mut bench.now, 200, std::mem::take);
    assert_eq!(looped.status().session, SessionState::Loop);
    assert!(is_blocked() && looped.status().counters.loops > 0);
    alone(looped, &mut bench.now, 1_400, |_| Vec::new());
    assert!(!is_blocked() && !looped.status().is_blocked);
}

#[test]
fn a_peer_that_comes_ends_the_block() {
    let mut bench = Bench::alike();
    alone(&mut bench.switches[0], &mut bench.now, 200, std::mem::take);
    assert!(bench.switches[0].status().is_blocked);
    bench.establish();
    let status = bench.switches[0].status();
    assert_eq!(
        (status.session, status.is_blocked),
        (SessionState::Established, false)
    );
}

#[test]
fn one_own_hello_thrown_back_again_and_again_blocks_nothing() {
    let mut bench = Bench::alike();
    let [one, _] = &mut bench.switches;
    alone(one, &mut bench.now, 400, |sent| vec![sent[0].clone()]);
    assert!(!one.status().is_blocked);
    assert!(one.status().counters.loops > 0);
}

#[test]
fn across_routers_own_hellos_that_come_back_are_shown_and_block_nothing() {
    let routed = Settings {
        is_routed: true,
        ..settings(1)
    };
    let mut one = Switch::new(routed);
    alone(&mut one, &mut Bench::alike().now, 400, std::mem::take);
    assert!(!one.status().is_blocked);
    assert_eq!(one.status().session, SessionState::Loop);
}

/// Ends that renew their sessions every second and a half.
fn renewing() -> Bench {
    let often = |switch| Settings {
        renew_ns: 1_500_000_000,
        ..settings(switch)
    };
    Bench::new([often(1), often(2)])
}

#[test]
fn renewals_get_through_when_a_third_of_all_frames_is_lost_doubled_or_late() {
    let mut bench = renewing();
    bench.establish();
    bench.fault = Box::new(|random, _, _| match random.below(9) {
        0 => vec![],
        1 => vec![(0, false), (3, false)],
        2 => vec![(u64::try_from(random.below(20)).unwrap(), false)],
        _ => vec![(0, false)],
    });
    (0..150).for_each(|_| bench.epoch());
    bench.fault = Box::new(|_, _, _| vec![(0, false)]);
    (0..6).for_each(|_| bench.epoch());
    bench.steps(30);
    assert_true(&latest(&bench));
    for switch in &bench.switches {
        let counters = switch.status().counters;
        assert_eq!((counters.sessions, counters.sessions_lost), (1, 0));
        assert!(counters.renewals >= 4, "{counters:?}");
        // Doubled ones, and no others: all that was under way was still accepted.
        let others = switch
            .refused
            .iter()
            .filter(|error| !matches!(error, Refusal::Replayed));
        assert_eq!(others.count(), 0, "{:?}", switch.refused);
    }
}

#[test]
fn renewals_cost_no_epoch_and_no_frame() {
    let mut bench = renewing();
    bench.establish();
    (0..40).for_each(|_| bench.epoch());
    bench.steps(30);
    let status = bench.switches[1].status();
    // The first is partial, and the last waits.
    assert_eq!(fates(&status, EpochFate::Usable), 38);
    for switch in &bench.switches {
        let counters = switch.status().counters;
        assert!(counters.renewals >= 2, "{counters:?}");
        assert_eq!((counters.sessions, &switch.refused[..]), (1, &[][..]));
    }
}

#[test]
fn frames_of_a_session_that_was_renewed_are_refused_afterwards() {
    let mut bench = renewing();
    let recorded = Rc::new(RefCell::new(Vec::new()));
    let into = Rc::clone(&recorded);
    bench.establish();
    // Never heard before: no window has seen them.
    bench.fault = Box::new(move |random, kind, frame| {
        if kind == Kind::Report && random.chance(0.5) {
            into.borrow_mut().push(frame.to_vec());
            return vec![];
        }
        vec![(0, false)]
    });
    (0..4).for_each(|_| bench.epoch());
    bench.fault = Box::new(|_, _, _| vec![(0, false)]);
    (0..50).for_each(|_| bench.epoch());
    let recorded = recorded.borrow();
    assert!(!recorded.is_empty());
    for switch in &mut bench.switches {
        assert!(switch.status().counters.renewals >= 1);
        let before = switch.refused.len();
        for frame in recorded.iter() {
            switch.receive(frame, bench.now.tai_ns);
        }
        let refused = &switch.refused[before..];
        assert_eq!(refused.len(), recorded.len());
        assert!(refused.iter().all(|error| *error == Refusal::Session));
    }
}

#[test]
fn keys_are_changed_at_one_end_after_the_other_and_nothing_is_lost() {
    let (old, new) = (KeyId(1), KeyId(2));
    let both = || keys().with(new, Key::new([8; 16])).unwrap();
    let alone = KeyRing::new().with(new, Key::new([8; 16])).unwrap();
    let mut bench = Bench::alike();
    bench.establish();
    let steps = [(both(), old), (both(), new), (alone, new)];
    for (ring, id) in steps {
        for end in 0..2 {
            (0..3).for_each(|_| bench.epoch());
            let exchange = &mut bench.switches[end].exchange;
            exchange.machine.set_keys(ring.clone(), id).unwrap();
        }
    }
    (0..4).for_each(|_| bench.epoch());
    bench.steps(30);
    assert_true(&latest(&bench));
    for switch in &mut bench.switches {
        assert_eq!(switch.refused, []);
        assert_eq!(switch.status().counters.sessions, 1);
        let refused = switch.exchange.machine.set_keys(keys(), new);
        assert!(refused.is_err(), "no such key");
    }
    let usable = fates(&bench.switches[1].status(), EpochFate::Usable);
    assert_eq!(usable, 20);
}

/// Two ends, each with its expectations of the other.
fn expecting(of_one: Expected, of_other: Expected) -> Bench {
    let with = |switch, expected| Settings {
        expected,
        ..settings(switch)
    };
    Bench::new([with(1, of_one), with(2, of_other)])
}

#[test]
fn the_end_that_is_expected_is_let_in() {
    let expected = |switch| Expected {
        switch: Some(switch),
        port: PortName::from("trunk").ok(),
    };
    let mut bench = expecting(expected(2), expected(1));
    bench.establish();
    assert_eq!(bench.switches[0].status().counters.strangers, 0);
}

#[test]
fn wires_that_are_spliced_are_refused_by_name() {
    let wrong_switch = Expected {
        switch: Some(3),
        port: None,
    };
    let wrong_port = Expected {
        switch: Some(2),
        port: PortName::from("uplink").ok(),
    };
    for wrong in [wrong_switch, wrong_port] {
        let mut bench = expecting(wrong, Expected::default());
        bench.steps(200);
        let [one, other] = &bench.switches;
        let status = one.status();
        assert_eq!(status.session, SessionState::Mismatch);
        assert_eq!(status.mismatch, Some(Mismatch::Peer));
        let peer = status.peer.unwrap();
        assert_eq!((peer.header.switch, &*peer.hello.port_name), (2, "trunk"));
        assert!(status.counters.strangers > 0);
        assert!(one.sessions.is_none() && other.sessions.is_none());
    }
    // With keys of their own, wires do not even hear each other.
    let mut other = settings(2);
    other.keys = KeyRing::new().with(KeyId(1), Key::new([8; 16])).unwrap();
    let mut bench = Bench::new([settings(1), other]);
    bench.steps(200);
    for switch in &bench.switches {
        assert_eq!(switch.status().session, SessionState::Waiting);
        assert!(switch.refused.contains(&Refusal::Tag));
    }
}

#[test]
fn ends_of_other_sizes_say_so_and_give_no_numbers() {
    let mut other = settings(2);
    other.layout.stash_packets = 16;
    let mut bench = Bench::new([settings(1), other]);
    bench.steps(200);
    for switch in &bench.switches {
        let status = switch.status();
        let found = (status.session, status.mismatch);
        assert_eq!(found, (SessionState::Mismatch, Some(Mismatch::Stash)));
        assert!(switch.sessions.is_none());
    }
    bench.switches[1] = Switch::new(settings(2));
    bench.establish();
}

#[test]
fn a_wrong_peer_ends_no_session() {
    let expected = Expected {
        switch: Some(2),
        port: None,
    };
    let mut bench = expecting(expected, Expected::default());
    bench.establish();
    let mut stranger = Switch::new(settings(3));
    let mut random = bench::Random(77);
    for _ in 0..400 {
        bench.step();
        // What the first one says is heard by the stranger, too, and answered.
        let now = bench.now;
        stranger.exchange.poll(now, &mut || random.bits());
        while let Some(boxed) = stranger.worker.to_send() {
            let frame = boxed.frame().to_vec();
            stranger.worker.sent();
            bench.switches[0].receive(&frame, now.tai_ns);
        }
    }
    let status = bench.switches[0].status();
    assert_eq!(status.session, SessionState::Established);
    assert_eq!(status.peer.unwrap().header.switch, 2);
    assert!(status.counters.strangers > 0);
    assert_eq!(status.counters.sessions, 1);
}
