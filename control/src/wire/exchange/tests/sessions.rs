use measure::codec::ClockState;

use super::bench::Switch;
use super::*;

#[test]
fn ends_that_disagree_say_so_on_both_sides() {
    let mut other = settings(2);
    other.seed_check = 43;
    let mut bench = Bench::new([settings(1), other]);
    bench.steps(200);
    for switch in &bench.switches {
        let status = switch.status();
        assert_eq!(status.session, SessionState::Mismatch);
        assert_eq!(status.mismatch, Some(Mismatch::Seed));
        assert!(switch.sessions.is_none());
        assert!(status.peer.is_some());
    }
}

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
fn a_restart_of_one_end_begins_another_session() {
    let mut bench = Bench::alike();
    bench.establish();
    (0..4).for_each(|_| bench.epoch());
    for restarted in [0, 1] {
        let number = u32::try_from(restarted).unwrap() + 1;
        bench.switches[restarted] = Switch::new(settings(number));
        bench.steps(200);
        bench.truth.clear();
        // A switch numbers its epochs from its start.
        bench.epoch = 0;
        (0..5).for_each(|_| bench.epoch());
        bench.steps(30);
        assert_true(&latest(&bench));
        assert_eq!(
            bench.switches[1 - restarted].status().session,
            SessionState::Established
        );
    }
    assert_eq!(bench.switches[0].status().counters.sessions, 2);
    assert_eq!(bench.switches[0].status().counters.sessions_lost, 0);
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
    // What the worker had open may be of long before.
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

#[test]
fn who_hears_himself_blocks_until_he_does_not() {
    let mut bench = Bench::alike();
    let mut heard = Vec::new();
    let [looped, _] = &mut bench.switches;
    let mut random = bench::Random(9);
    let mut now = bench.now;
    for _ in 0..200 {
        now.tai_ns += STEP_NS;
        now.monotonic_ns += STEP_NS;
        looped.exchange.poll(now, &LOCKED, &mut || random.bits());
        while let Some(boxed) = looped.worker.to_send() {
            heard.push(boxed.frame().to_vec());
            looped.worker.sent();
        }
        for frame in &heard {
            looped.receive(frame, now.tai_ns);
        }
        heard.truncate(1);
    }
    assert_eq!(looped.status().session, SessionState::Loop);
    assert!(
        looped
            .worker
            .is_blocked
            .load(std::sync::atomic::Ordering::Relaxed)
    );
    assert!(looped.status().counters.loops > 0);
    // A recording from long ago does not count.
    for _ in 0..1_400 {
        now.tai_ns += STEP_NS;
        now.monotonic_ns += STEP_NS;
        looped.exchange.poll(now, &LOCKED, &mut || random.bits());
        while looped.worker.to_send().is_some() {
            looped.worker.sent();
        }
    }
    assert!(!looped.status().is_blocked);
    assert!(
        !looped
            .worker
            .is_blocked
            .load(std::sync::atomic::Ordering::Relaxed)
    );
    looped.receive(&heard[0], now.tai_ns);
    looped.exchange.poll(now, &LOCKED, &mut || random.bits());
    assert!(!looped.status().is_blocked);
}
