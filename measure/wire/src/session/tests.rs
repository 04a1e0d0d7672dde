//! Two ends, restarts and recordings.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

/// An end of a link: its next hello, and its sessions.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Switch {
    number: u32,
    handshake: Handshake,
    sessions: Option<Sessions>,
}

/// Draws nonces that are never drawn again.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Dice(u64);

impl Dice {
    fn draw(&mut self) -> Nonce {
        self.0 += 1;
        Nonce::from_random(self.0)
    }
}

impl Switch {
    fn start(number: u32, dice: &mut Dice) -> Self {
        Self {
            number,
            handshake: Handshake::new(number, dice.draw()),
            sessions: None,
        }
    }

    fn hello(&self) -> (u32, Nonces) {
        (self.number, self.handshake.nonces())
    }

    /// Receives a hello and returns its answer, if any.
    fn hear(&mut self, (from, nonces): (u32, Nonces), dice: &mut Dice) -> Option<(u32, Nonces)> {
        match self.handshake.hear(from, nonces, || dice.draw()) {
            Heard::Established(sessions) | Heard::Renewed { sessions, .. } => {
                self.sessions = Some(sessions);
                Some(self.hello())
            }
            Heard::Answer(nonces) => Some((self.number, nonces)),
            Heard::Loop | Heard::Alive | Heard::Stale => None,
        }
    }
}

/// Lets both ends send hellos until no more are answered; returns all of them.
fn settle(a: &mut Switch, b: &mut Switch, dice: &mut Dice) -> Vec<(u32, Nonces)> {
    let mut said = vec![a.hello(), b.hello()];
    let mut next = 0;
    while let Some(&hello) = said.get(next) {
        let to = if hello.0 == a.number {
            &mut *b
        } else {
            &mut *a
        };
        said.extend(to.hear(hello, dice));
        next += 1;
        assert!(next < 20, "they talk without end");
    }
    let (here, there) = (a.sessions.unwrap(), b.sessions.unwrap());
    assert_eq!(here.sending, there.receiving);
    assert_eq!(here.receiving, there.sending);
    assert_ne!(here.sending, here.receiving);
    said
}

/// Both ends send hellos three times, and all arrive, including answers.
fn get_through(a: &mut Switch, b: &mut Switch, dice: &mut Dice) {
    for _ in 0..3 {
        for hello in [a.hello(), b.hello()] {
            let mut hello = Some(hello);
            let mut heard = 0;
            while let Some(said) = hello {
                let to = if said.0 == a.number { &mut *b } else { &mut *a };
                hello = to.hear(said, dice);
                heard += 1;
                assert!(heard < 20, "they talk without end");
            }
        }
    }
}

/// Whether both are in the same two sessions.
fn agree(a: &Switch, b: &Switch) -> bool {
    let there = b.sessions.map(|there| Sessions {
        sending: there.receiving,
        receiving: there.sending,
    });
    a.sessions.is_some() && a.sessions == there
}

#[test]
fn two_ends_agree_on_sessions() {
    let mut dice = Dice(0);
    let (mut a, mut b) = (Switch::start(1, &mut dice), Switch::start(2, &mut dice));
    settle(&mut a, &mut b, &mut dice);
    let first = a.sessions;
    settle(&mut a, &mut b, &mut dice);
    assert_eq!(a.sessions, first, "and keep them");
}

#[test]
fn restarts_make_new_sessions_and_recordings_do_not() {
    let mut dice = Dice(0);
    let (mut a, mut b) = (Switch::start(1, &mut dice), Switch::start(2, &mut dice));
    let mut recorded = settle(&mut a, &mut b, &mut dice);
    let mut past = vec![a.sessions.unwrap()];
    for restart in 0..6 {
        if restart % 2 == 0 {
            b = Switch::start(2, &mut dice);
        } else {
            a = Switch::start(1, &mut dice);
        }
        recorded.extend(settle(&mut a, &mut b, &mut dice));
        let present = a.sessions.unwrap();
        assert!(!past.contains(&present));
        past.push(present);

        // All earlier hellos, replayed to both ends; answers arrive.
        for &hello in &recorded {
            for to_a in [true, false] {
                let (to, back) = if to_a {
                    (&mut a, &mut b)
                } else {
                    (&mut b, &mut a)
                };
                if let Some(answer) = to.hear(hello, &mut dice) {
                    back.hear(answer, &mut dice);
                }
            }
        }
        assert_eq!(a.sessions.unwrap(), present, "no recording ends a session");
        settle(&mut a, &mut b, &mut dice);
        assert_eq!(a.sessions.unwrap(), present);
    }
}

/// One end renews, and both change together, whatever is lost or duplicated on the way; replays have no effect.
#[test]
fn a_session_is_renewed_and_both_ends_know_that_it_goes_on() {
    let mut dice = Dice(0);
    let (mut a, mut b) = (Switch::start(1, &mut dice), Switch::start(2, &mut dice));
    let mut recorded = settle(&mut a, &mut b, &mut dice);
    for _ in 0..5 {
        let before = a.sessions.unwrap();
        a.handshake.renew(|| dice.draw());
        let asked = a.hello();
        assert_eq!(asked.1.renews, Some(before.sending.sender));
        recorded.push(asked);
        b.hear(asked, &mut dice);
        let answer = b.hear(asked, &mut dice).unwrap();
        assert_eq!(b.sessions.unwrap().receiving, before.sending, "not yet");
        let hear = |to: &mut Switch, (from, nonces): (u32, Nonces)| {
            to.handshake.hear(from, nonces, || unreachable!())
        };
        let Heard::Renewed { sessions, is_heard } = hear(&mut a, answer) else {
            panic!("a does not renew");
        };
        assert!(!is_heard, "b has not heard");
        a.sessions = Some(sessions);
        assert_eq!(hear(&mut a, b.hello()), Heard::Stale);
        let hello = a.hello();
        let Heard::Renewed { sessions, is_heard } = hear(&mut b, hello) else {
            panic!("b does not renew");
        };
        assert!(is_heard, "a says it back");
        b.sessions = Some(sessions);
        assert!(agree(&a, &b));
        recorded.extend([answer, hello]);
        for &hello in &recorded {
            a.hear(hello, &mut dice);
            b.hear(hello, &mut dice);
        }
        assert_eq!(a.sessions.unwrap().sending, sessions.receiving);
        assert!(agree(&a, &b));
        recorded.extend(settle(&mut a, &mut b, &mut dice));
    }
}

#[test]
fn a_peer_that_was_started_anew_in_a_renewal_begins_another_session() {
    let mut dice = Dice(0);
    let (mut a, mut b) = (Switch::start(1, &mut dice), Switch::start(2, &mut dice));
    settle(&mut a, &mut b, &mut dice);
    a.handshake.renew(|| dice.draw());
    b = Switch::start(2, &mut dice);
    let answer = b.hear(a.hello(), &mut dice).unwrap();
    let heard = a.handshake.hear(2, answer.1, || dice.draw());
    assert!(matches!(heard, Heard::Established(_)), "{heard:?}");
    let of_b = a.handshake.nonces();
    let heard = b.handshake.hear(1, of_b, || dice.draw());
    assert!(matches!(heard, Heard::Established(_)), "{heard:?}");
}

/// a is in a session with what b was. b begins one with the nonce that a drew for it, and its hello is lost. Then a
/// receives a replay from yet another b.
#[test]
fn a_recording_takes_no_nonce_away_that_the_peer_has_heard() {
    let mut dice = Dice(0);
    let (mut a, mut b) = (Switch::start(1, &mut dice), Switch::start(2, &mut dice));
    let answer = a.hear(b.hello(), &mut dice).unwrap();
    let held_up = b.hear(answer, &mut dice).unwrap();
    assert!(b.handshake.established);

    b = Switch::start(2, &mut dice);
    let recorded = b.hello();
    b = Switch::start(2, &mut dice);

    a.hear(held_up, &mut dice).unwrap();
    assert!(a.handshake.established, "with the first b");
    let answer = a.hear(b.hello(), &mut dice).unwrap();
    b.hear(answer, &mut dice).unwrap();
    assert!(b.handshake.established, "with what a drew for it");
    a.hear(recorded, &mut dice).unwrap();

    get_through(&mut a, &mut b, &mut dice);
    settle(&mut a, &mut b, &mut dice);
}

/// What may have come of a link.
#[derive(Clone)]
struct Scene {
    ends: [Switch; 2],
    /// One for each end, so that nonces do not show which end drew first.
    dice: [Dice; 2],
    restarts: usize,
    /// All hellos sent, with a bit for each of the hellos in any scene.
    said: u128,
    /// How it came to this: for who reads a failure.
    steps: Vec<Step>,
}

#[derive(Debug, Clone, Copy)]
#[expect(dead_code, reason = "read in messages of failed assertions")]
enum Step {
    Restarts { end: usize },
    Hears { end: usize, hello: Nonces },
}

/// The bit of a hello in [`Scene::said`]; `hellos` are all hellos sent so far.
fn bit_of(hello: (u32, Nonces), hellos: &mut Vec<(u32, Nonces)>) -> u128 {
    let index = hellos.iter().position(|&met| met == hello);
    let index = index.unwrap_or_else(|| {
        hellos.push(hello);
        hellos.len() - 1
    });
    assert!(index < 128, "more is said than so few restarts explain");
    1 << index
}

/// Every scene after up to `restarts_max` restarts, with all hellos received in any order, any number of times or
/// never. Periodic hellos are sent as soon as possible.
///
/// What has been said can be heard at any later time. So a scene leads to nothing new if ends in the
/// same state were met where as much was said: it is left out, and few enough remain to go through
/// them all. `see` gets one for each state of the ends.
fn every_scene(restarts_max: usize, mut see: impl FnMut(&Scene)) {
    let mut dice = [Dice(0), Dice(1 << 32)];
    let mut scenes = vec![Scene {
        ends: [
            Switch::start(1, &mut dice[0]),
            Switch::start(2, &mut dice[1]),
        ],
        dice,
        restarts: 0,
        said: 0,
        steps: Vec::new(),
    }];
    let mut hellos = Vec::new();
    let mut seen: HashMap<_, Vec<u128>> = HashMap::new();
    while let Some(mut scene) = scenes.pop() {
        for end in &scene.ends {
            scene.said |= bit_of(end.hello(), &mut hellos);
        }
        let key = (scene.ends.clone(), scene.dice.clone(), scene.restarts);
        let known = seen.entry(key).or_default();
        if known.iter().any(|more| scene.said & !more == 0) {
            continue;
        }
        if known.is_empty() {
            see(&scene);
        }
        known.retain(|less| less & !scene.said != 0);
        known.push(scene.said);

        for end in 0..2 {
            if scene.restarts == restarts_max {
                break;
            }
            let mut next = scene.clone();
            next.ends[end] = Switch::start(scene.ends[end].number, &mut next.dice[end]);
            next.restarts += 1;
            next.steps.push(Step::Restarts { end });
            scenes.push(next);
        }
        for (index, &hello) in hellos.clone().iter().enumerate() {
            if scene.said >> index & 1 == 0 {
                continue;
            }
            let end = usize::from(hello.0 == 1);
            let mut next = scene.clone();
            let answer = next.ends[end].hear(hello, &mut next.dice[end]);
            if agree(&scene.ends[0], &scene.ends[1]) {
                assert!(
                    next.ends[end].sessions == scene.ends[end].sessions,
                    "{hello:?} ends a session after {:?}",
                    scene.steps
                );
            }
            if let Some(answer) = answer {
                next.said |= bit_of(answer, &mut hellos);
            }
            let hello = hello.1;
            next.steps.push(Step::Hears { end, hello });
            scenes.push(next);
        }
    }
}

/// Whatever was lost, repeated or late, with two restarts: a shared session stays, and once hellos arrive, there is
/// one.
#[test]
fn every_two_restarts_converge() {
    let mut seen = 0;
    every_scene(2, |scene| {
        seen += 1;
        let [mut a, mut b] = scene.ends.clone();
        let mut dice = Dice(2 << 32);
        get_through(&mut a, &mut b, &mut dice);
        assert!(agree(&a, &b), "apart after {:?}", scene.steps);
        settle(&mut a, &mut b, &mut dice);
    });
    assert!(seen > 500, "{seen} scenes: too few to say anything");
}

#[test]
fn ones_own_hello_is_a_loop() {
    let mut dice = Dice(0);
    let a = Switch::start(1, &mut dice);
    let mut other_port = Handshake::new(1, dice.draw());
    let nonces = a.handshake.nonces();
    assert_eq!(other_port.hear(1, nonces, || dice.draw()), Heard::Loop);
    assert!(!other_port.established);
}

proptest! {
    /// Losses, repetitions and restarts in any order: a session is shared, or there is none yet.
    #[test]
    fn ends_converge(steps in proptest::collection::vec((0_u8..9, any::<prop::sample::Index>()), 0..60)) {
        let mut dice = Dice(0);
        let (mut a, mut b) = (Switch::start(1, &mut dice), Switch::start(2, &mut dice));
        let mut said = vec![a.hello(), b.hello()];
        for (step, which) in steps {
            match step {
                0 => a = Switch::start(1, &mut dice),
                1 => b = Switch::start(2, &mut dice),
                2 => said.push(a.hello()),
                3 => said.push(b.hello()),
                4 => a.handshake.renew(|| dice.draw()),
                _ => {
                    let hello = said[which.index(said.len())];
                    let to = if hello.0 == 1 { &mut b } else { &mut a };
                    said.extend(to.hear(hello, &mut dice));
                }
            }
        }
        // From now on hellos arrive.
        get_through(&mut a, &mut b, &mut dice);
        settle(&mut a, &mut b, &mut dice);
    }
}
