//! Two ends, restarts and recordings.

use super::*;

/// An end of a link: what it would send next, and the sessions it is in.
struct Switch {
    number: u32,
    handshake: Handshake,
    sessions: Option<Sessions>,
}

/// Draws nonces that are never drawn again.
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

    /// Hears a hello and returns its answer, if it has one.
    fn hear(&mut self, (from, nonces): (u32, Nonces), dice: &mut Dice) -> Option<(u32, Nonces)> {
        let hello = Hello { nonces, ..hello() };
        match self.handshake.hear(from, &hello, || dice.draw()) {
            Heard::Established(sessions) => {
                self.sessions = Some(sessions);
                Some(self.hello())
            }
            Heard::Answer(nonces) => Some((self.number, nonces)),
            Heard::Loop | Heard::Alive | Heard::Stale => None,
        }
    }
}

/// Lets both say hello until nothing is answered any more; returns all that was said.
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

        // All that was ever said, said again to both; answers get through.
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

#[test]
fn ones_own_hello_is_a_loop() {
    let mut dice = Dice(0);
    let a = Switch::start(1, &mut dice);
    let mut other_port = Handshake::new(1, dice.draw());
    let hello = Hello {
        nonces: a.handshake.nonces(),
        ..hello()
    };
    assert_eq!(other_port.hear(1, &hello, || dice.draw()), Heard::Loop);
    assert!(!other_port.is_established());
}

#[test]
fn ends_that_differ_are_told_apart() {
    let own = hello();
    assert_eq!(own.agree(&own), Ok(()));
    let other = |change: fn(&mut Hello)| {
        let mut other = hello();
        change(&mut other);
        assert_eq!(own.agree(&other), other.agree(&own));
        own.agree(&other).unwrap_err()
    };
    assert_eq!(other(|hello| hello.hash_version = 2), Mismatch::HashVersion);
    assert_eq!(other(|hello| hello.seed_check ^= 1), Mismatch::Seed);
    assert_eq!(other(|hello| hello.epoch_ns = 1), Mismatch::EpochLength);
    assert_eq!(other(|hello| hello.tai_utc_s = 36), Mismatch::TaiOffset);
    assert_eq!(other(|hello| hello.ptp_domain = 0), Mismatch::PtpDomain);
    assert_eq!(
        other(|hello| hello.clock = ClockState::Free),
        Mismatch::FreeClock
    );
    assert_eq!(other(|hello| hello.stash_packets = 0), Mismatch::Stash);
    assert_eq!(other(|hello| drop(hello.shapes.pop())), Mismatch::Shapes);

    let mut adapted = hello();
    let other_shares = LdaLayout::from_bank_shares(&[(4, 1), (8, 2)]).unwrap();
    adapted.shapes[0] = Shape::Lda(other_shares);
    assert_eq!(
        own.agree(&adapted),
        Ok(()),
        "probabilities follow the losses"
    );
    let other_rows = LdaLayout::from_bank_shares(&[(5, 1 << 29), (8, 7 << 29)]).unwrap();
    adapted.shapes[0] = Shape::Lda(other_rows);
    assert_eq!(own.agree(&adapted), Err(Mismatch::Shapes));
}

proptest! {
    /// Losses, repetitions and restarts in any order: a session is shared, or there is none yet.
    #[test]
    fn ends_converge(steps in proptest::collection::vec((0_u8..8, any::<prop::sample::Index>()), 0..60)) {
        let mut dice = Dice(0);
        let (mut a, mut b) = (Switch::start(1, &mut dice), Switch::start(2, &mut dice));
        let mut said = vec![a.hello(), b.hello()];
        for (step, which) in steps {
            match step {
                0 => a = Switch::start(1, &mut dice),
                1 => b = Switch::start(2, &mut dice),
                2 => said.push(a.hello()),
                3 => said.push(b.hello()),
                _ => {
                    let hello = said[which.index(said.len())];
                    let to = if hello.0 == 1 { &mut b } else { &mut a };
                    said.extend(to.hear(hello, &mut dice));
                }
            }
        }
        // What is said now gets through.
        for _ in 0..3 {
            for hello in [a.hello(), b.hello()] {
                let mut hello = Some(hello);
                while let Some(heard) = hello {
                    let to = if heard.0 == 1 { &mut b } else { &mut a };
                    hello = to.hear(heard, &mut dice);
                }
            }
        }
        settle(&mut a, &mut b, &mut dice);
    }
}
