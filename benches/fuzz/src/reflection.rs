//! Two reflectors and a session, and an attacker who forges packets.
//!
//! Oracle: a forged packet causes at most two replies, whatever its contents and addresses, and however clocks and
//! formats differ; every request of the session causes one reply, which is no longer than the request; the session
//! counts each of its packets once.

use std::net::SocketAddr;
use std::time::Duration;

use arbitrary::Arbitrary;
use probe::clock::LocalClock;
use probe::reflector::{Reflector, Settings};
use probe::session::Session;
use probe::socket::{Arrival, Stamps};
use probe::wire::{ErrorEstimate, Format, Key, Mode, Reply, Request, UnixNs, sign_base};

use crate::{read, stamp};

/// Largest number of actions: with their waits they take less than a minute, after which a packet may be answered
/// again.
const ACTIONS_MAX: usize = 200;

#[derive(Debug, Arbitrary)]
struct Input {
    is_authenticated: bool,
    clocks: [Clock; 2],
    actions: Vec<Action>,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
struct Clock {
    is_ptp: bool,
    /// Off the session's.
    offset_s: i32,
}

#[derive(Debug, Arbitrary)]
enum Action {
    /// The session sends.
    Request,
    /// The attacker sends a packet with a forged source address.
    Forge {
        from: u8,
        to: u8,
        packet: Forged,
    },
    /// A packet in flight arrives.
    Deliver(u8),
    Lose(u8),
    WaitMs(u8),
}

#[derive(Debug, Arbitrary)]
enum Forged {
    Plain,
    Bytes(Vec<u8>),
    /// A packet that was in flight earlier.
    Seen(u16),
    /// With the time of an earlier packet, in the field in which a reply has the sender's timestamp.
    Marked(u16),
}

struct Packet {
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
    /// The packet that caused it.
    origin: usize,
}

struct Origin {
    is_forged: bool,
    replies: u32,
}

struct World {
    mode: Mode,
    key: Option<Key>,
    now: Duration,
    ends: Vec<(SocketAddr, Clock, Reflector)>,
    session: Session,
    session_at: SocketAddr,
    /// Replies that the session got.
    got: u64,
    sent: u64,
    way: Vec<Packet>,
    seen: Vec<Vec<u8>>,
    origins: Vec<Origin>,
}

/// Actions on two reflectors and a session.
pub fn reflection(bytes: &[u8]) {
    let Some(input) = read::<Input>(bytes) else {
        return;
    };
    let mut world = World::new(&input);
    for action in input.actions.iter().take(ACTIONS_MAX) {
        world.act(action);
    }
    // Delivers all packets in flight, which must end.
    while !world.way.is_empty() {
        world.deliver(0);
    }
    let clock = LocalClock::default();
    let (mut sent, mut settled, mut taken) = (0, 0, 0);
    while let Some(result) = world.session.poll(Duration::from_mins(2), clock) {
        let counts = result.counts;
        sent += counts.sent;
        settled += counts.received + counts.lost;
        taken += counts.received + counts.duplicates + counts.rejected + counts.late;
        if result.interval > 110 {
            break;
        }
    }
    assert_eq!((sent, settled), (world.sent, world.sent));
    assert_eq!(taken, world.got);
}

impl World {
    fn new(input: &Input) -> Self {
        let key = input.is_authenticated.then(|| Key::new(&[7; 32]));
        let mode = match key {
            Some(_) => Mode::Authenticated,
            None => Mode::Open,
        };
        let base = stamp::arrival();
        let other = SocketAddr::from(([192, 0, 2, 3], 4_000));
        let end = |(address, clock): (SocketAddr, Clock)| {
            let format = if clock.is_ptp {
                Format::Ptp
            } else {
                Format::Ntp
            };
            let settings = Settings {
                error: ErrorEstimate::new(true, format, 1_000),
                ..stamp::reflector_settings(key.as_ref())
            };
            (address, clock, Reflector::new(settings))
        };
        Self {
            mode,
            now: Duration::ZERO,
            ends: [base.to, other]
                .into_iter()
                .zip(input.clocks)
                .map(end)
                .collect(),
            session: stamp::session(key.as_ref(), mode),
            key,
            session_at: base.from,
            got: 0,
            sent: 0,
            way: Vec::new(),
            seen: Vec::new(),
            origins: Vec::new(),
        }
    }

    fn wall(&self, clock: Option<Clock>) -> UnixNs {
        let since_ns = u64::try_from(self.now.as_nanos()).unwrap();
        let offset_s = clock.map_or(0, |clock| i64::from(clock.offset_s) / 8);
        UnixNs((stamp::NOW.0 + since_ns).saturating_add_signed(offset_s * 1_000_000_000))
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::Request => self.request(),
            Action::Forge { from, to, packet } => self.forge(*from, *to, packet),
            Action::Deliver(_) | Action::Lose(_) if self.way.is_empty() => {}
            Action::Deliver(which) => self.deliver(usize::from(*which) % self.way.len()),
            Action::Lose(which) => {
                let which = usize::from(*which) % self.way.len();
                drop(self.way.swap_remove(which));
            }
            Action::WaitMs(ms) => self.now += Duration::from_millis(u64::from(*ms)),
        }
    }

    fn send(&mut self, packet: Packet) {
        self.seen.push(packet.bytes.clone());
        self.way.push(packet);
    }

    fn origin(&mut self, is_forged: bool) -> usize {
        self.origins.push(Origin {
            is_forged,
            replies: 0,
        });
        self.origins.len() - 1
    }

    fn request(&mut self) {
        let wall = self.wall(None);
        let Some(bytes) = self.session.request(self.now, wall) else {
            return;
        };
        let bytes = bytes.to_vec();
        self.session.was_sent(self.now, wall, LocalClock::default());
        self.sent += 1;
        let origin = self.origin(false);
        self.send(Packet {
            from: self.session_at,
            to: self.ends[0].0,
            bytes,
            origin,
        });
    }

    fn forge(&mut self, from: u8, to: u8, forged: &Forged) {
        let seen = |which: u16| {
            let which = usize::from(which).checked_rem(self.seen.len())?;
            self.seen.get(which).cloned()
        };
        let plain = || {
            let mut bytes = vec![0; self.mode.bytes()];
            let request = Request {
                sequence: 0,
                timestamp: 1,
                error: ErrorEstimate::from_bits(1),
                ssid: 0,
            };
            request.write(self.mode, &mut bytes);
            bytes
        };
        let mut bytes = match forged {
            Forged::Plain => plain(),
            Forged::Bytes(bytes) => bytes.clone(),
            Forged::Seen(which) => seen(*which).unwrap_or_else(plain),
            Forged::Marked(which) => {
                let mut bytes = plain();
                let marks = seen(*which).and_then(|seen| Reply::read(self.mode, &seen));
                if let (Some(marks), Some(mut reply)) = (marks, Reply::read(self.mode, &bytes)) {
                    reply.sender_timestamp = marks.own.timestamp;
                    reply.write(self.mode, &mut bytes);
                }
                bytes
            }
        };
        // As if it had been recorded: the HMAC does not cover addresses.
        if let Some(key) = &self.key {
            sign_base(key, &mut bytes);
        }
        let addresses = [self.ends[0].0, self.ends[1].0, self.session_at];
        let address = |which: u8| addresses[usize::from(which) % addresses.len()];
        let (from, to) = (address(from), address(to));
        let origin = self.origin(true);
        self.send(Packet {
            from,
            to,
            bytes,
            origin,
        });
    }

    fn deliver(&mut self, which: usize) {
        let packet = self.way.swap_remove(which);
        if packet.to == self.session_at {
            let stamps = Stamps {
                system: self.wall(None),
                ..Stamps::now()
            };
            let clock = LocalClock::default();
            self.got += 1;
            return self
                .session
                .answered(&packet.bytes, stamps, clock, self.now);
        }
        let place = self.ends.iter().position(|end| end.0 == packet.to).unwrap();
        let wall = self.wall(Some(self.ends[place].1));
        let (to, _, reflector) = &mut self.ends[place];
        let arrival = Arrival {
            from: packet.from,
            to: *to,
            stamps: Stamps {
                system: wall,
                ..Stamps::now()
            },
            ..stamp::arrival()
        };
        let origin = &mut self.origins[packet.origin];
        let mut bytes = packet.bytes;
        let length = bytes.len();
        let Some(pending) = reflector.reflect(&mut bytes, &arrival, self.now) else {
            assert!(origin.is_forged, "an honest request is not answered");
            return;
        };
        reflector.finish(&mut bytes, pending, wall);
        assert_eq!(bytes.len(), length);
        origin.replies += 1;
        assert!(origin.replies <= if origin.is_forged { 2 } else { 1 });
        let (from, to, origin) = (*to, packet.from, packet.origin);
        self.send(Packet {
            from,
            to,
            bytes,
            origin,
        });
    }
}

/// Long sequences of any actions.
pub(super) fn sequences() -> Vec<Vec<u8>> {
    let mut state = 1_u64;
    let mut byte = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state.to_be_bytes()[0]
    };
    (0..16)
        .map(|_| (0..2_000).map(|_| byte()).collect())
        .collect()
}
