//! Handshakes and replay windows, beside naive models.
//!
//! Oracle of a window: a set of all numbers seen. Oracle of handshakes between two ends and somebody who
//! records every hello and says it again, to whom he likes: a session that an end begins has a nonce of its
//! own that no session had before. Once both ends hear each other they agree on one in a bounded number of
//! hellos, where an end whose peer is silent begins anew, as the control core sees to after some seconds.

use std::collections::HashSet;
use std::num::NonZeroU64;

use arbitrary::Arbitrary;
use wire::frame::ReplayWindow;
use wire::session::{Handshake, Heard, Nonce, Nonces, SessionId, Sessions};

use crate::read;

#[derive(Debug, Arbitrary)]
struct Input {
    sequences: Vec<Sequence>,
    actions: Vec<Action>,
}

/// The next sequence number.
#[derive(Debug, Clone, Copy, Arbitrary)]
enum Sequence {
    Ahead(u8),
    Behind(u8),
    Of(u64),
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Action {
    /// An end says its hello, and the other hears it.
    Say { by: bool },
    /// It says it, and it is lost.
    Lose { by: bool },
    /// A recording is played to an end.
    Replay { to: bool, which: u16 },
    /// An end's hello comes back to it.
    Reflect { by: bool },
    /// An end begins anew.
    Restart { which: bool },
}

/// Hellos to agree in, at most, once they are undisturbed and ends whose peer was silent have begun anew.
const HELLOS_MAX: usize = 12;

/// The bytes are sequence numbers, and what happens to hellos.
pub fn session(bytes: &[u8]) {
    let Some(input) = read::<Input>(bytes) else {
        return;
    };
    window(&input.sequences);
    let mut bench = Bench::new();
    for action in input.actions {
        bench.act(action);
    }
    bench.settle();
}

fn window(sequences: &[Sequence]) {
    let mut window = ReplayWindow::default();
    let (mut seen, mut greatest) = (HashSet::new(), 0_u64);
    for sequence in sequences {
        let sequence = match *sequence {
            Sequence::Ahead(by) => greatest.saturating_add(by.into()),
            Sequence::Behind(by) => greatest.saturating_sub(by.into()),
            Sequence::Of(number) => number,
        };
        let is_recent = sequence > greatest || greatest - sequence < ReplayWindow::WIDTH;
        let is_new = sequence > 0 && is_recent && seen.insert(sequence);
        greatest = greatest.max(sequence);
        assert_eq!(window.accept(sequence), is_new, "{sequence}");
    }
}

struct End {
    switch: u32,
    handshake: Handshake,
    sessions: Option<Sessions>,
    /// The peer of the session was heard, or the session began.
    is_alive: bool,
}

struct Bench {
    ends: [End; 2],
    drawn: u64,
    /// Every hello that was ever said: by whom, and what.
    said: Vec<(u32, Nonces)>,
    /// What ends send under.
    sending: HashSet<SessionId>,
}

impl Bench {
    fn new() -> Self {
        let end = |switch: u32| End {
            switch,
            handshake: Handshake::new(switch, nonce(switch.into())),
            sessions: None,
            is_alive: false,
        };
        Self {
            ends: [end(1), end(2)],
            drawn: 2,
            said: Vec::new(),
            sending: HashSet::new(),
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Say { by } => {
                let hello = self.say(by.into());
                self.hear(usize::from(!by), hello);
            }
            Action::Lose { by } => drop(self.say(by.into())),
            Action::Replay { to, which } => {
                if let Some(index) = usize::from(which).checked_rem(self.said.len()) {
                    self.hear(to.into(), self.said[index]);
                }
            }
            Action::Reflect { by } => {
                let hello = self.say(by.into());
                self.hear(by.into(), hello);
            }
            Action::Restart { which } => {
                self.drawn += 1;
                let end = &mut self.ends[usize::from(which)];
                end.handshake = Handshake::new(end.switch, nonce(self.drawn));
                end.sessions = None;
            }
        }
    }

    fn say(&mut self, by: usize) -> (u32, Nonces) {
        let end = &self.ends[by];
        let hello = (end.switch, end.handshake.nonces());
        self.said.push(hello);
        hello
    }

    /// An end hears a hello; what it answers is said at once, and heard by the other.
    fn hear(&mut self, to: usize, hello: (u32, Nonces)) {
        let Some(answer) = self.hear_once(to, hello) else {
            return;
        };
        let answer = (self.ends[to].switch, answer);
        self.said.push(answer);
        self.hear_once(1 - to, answer);
    }

    fn hear_once(&mut self, to: usize, (switch, nonces): (u32, Nonces)) -> Option<Nonces> {
        let end = &mut self.ends[to];
        let drawn = &mut self.drawn;
        let draw = || {
            *drawn += 1;
            nonce(*drawn)
        };
        match end.handshake.hear(switch, nonces, draw) {
            Heard::Established(sessions) | Heard::Renewed { sessions, .. } => {
                assert!(end.handshake.is_established());
                assert_ne!(switch, end.switch, "a session with itself");
                assert!(
                    self.sending.insert(sessions.sending.id()),
                    "a session come back"
                );
                end.sessions = Some(sessions);
                end.is_alive = true;
                None
            }
            Heard::Loop => {
                assert_eq!(switch, end.switch);
                None
            }
            Heard::Answer(nonces) => Some(nonces),
            Heard::Alive => {
                end.is_alive = true;
                None
            }
            Heard::Stale => None,
        }
    }

    /// No more disturbance.
    fn settle(&mut self) {
        if self.agree() {
            return;
        }
        for which in [false, true] {
            if !self.ends[usize::from(which)].is_alive {
                self.act(Action::Restart { which });
            }
        }
        assert!(self.agree(), "no session after {HELLOS_MAX} hellos");
    }

    fn agree(&mut self) -> bool {
        for end in &mut self.ends {
            end.is_alive = false;
        }
        for hellos in 0..HELLOS_MAX {
            self.act(Action::Say {
                by: hellos % 2 == 1,
            });
        }
        let [one, other] = self.ends.each_ref().map(|end| end.sessions);
        one.zip(other).is_some_and(|(one, other)| {
            one.sending == other.receiving && other.sending == one.receiving
        })
    }
}

fn nonce(number: u64) -> Nonce {
    Nonce(NonZeroU64::new(number).unwrap_or(NonZeroU64::MIN))
}
