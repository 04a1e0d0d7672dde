//! Two ends of a wire, with workers and exchanges, and a hostile network between them, which loses, duplicates,
//! reorders, damages, replays, reflects and forges frames, while ends restart and clocks step.
//!
//! Oracle:
//! - A frame is accepted only if it was sealed by the other end (a hello by either end), and a frame of a session only once. After an end has accepted a frame of a session, it accepts frames of an earlier one only for [`OVERLAP_NS`].
//! - Every received frame counts once, as accepted or as refused for a reason.
//! - Before there is a session, only hellos are sent.
//! - Once the network behaves, within [`RECOVERY_NS`] both ends are in one session, neither is blocked, and each accepts the other's frames.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU64;

use arbitrary::Arbitrary;
use arrayvec::ArrayVec;
use measure::batch::Member;
use measure::observation::SegmentIndex;
use measure::packet::{FlowHash, HASH_VERSION, PacketHash};
use measure::time::{Epoch, EpochTag, Ticks};
use switch::packet_io::{ClassIndex, Tag};
use wire::exchange::SessionState;
use wire::frame::{ClockState, Frame, Hello, Kind, PortName, Sealer, Subject};
use wire::session::{KeyId, KeyRing, Nonce, Nonces, SessionId};
use wire::testing::Network;

use crate::read;

mod end;

use end::{End, keys};

const TAI_NS: u64 = 1_800_000_000_000_000_000;
const EPOCH_NS: u64 = 100_000_000;
const STEP_NS: u64 = 20_000_000;
/// Largest number of steps in an input before the network behaves.
const STEPS_MAX: u32 = 600;
/// Number of frames kept for replays.
const RECORDED_MAX: usize = 512;
/// After a renewal an end receives in the previous session for another 5 s.
const OVERLAP_NS: u64 = 6_000_000_000;
/// Silence ends a session after 5 s, a loop is over after 3 s, hellos go every second at least.
const RECOVERY_NS: u64 = 20_000_000_000;

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Action {
    /// Time passes; frames in flight arrive or wait.
    Run {
        steps: u8,
        is_delivered: bool,
    },
    /// A frame in flight to an end.
    Deliver {
        to: bool,
        which: u8,
    },
    Lose {
        to: bool,
        which: u8,
    },
    Double {
        to: bool,
        which: u8,
    },
    Damage {
        to: bool,
        which: u8,
        at: u16,
        by: u8,
    },
    /// A recorded frame of any age to either end, including its sender.
    Replay {
        to: bool,
        which: u16,
        times: u8,
    },
    /// A hello with another key, or without a key.
    Forge {
        to: bool,
        hello: ForgedHello,
    },
    Garbage {
        to: bool,
        bytes: [u8; 24],
    },
    Packets {
        by: bool,
        packets: u8,
        is_lost: bool,
    },
    Restart {
        which: bool,
    },
    ClockStep {
        which: bool,
        by_ns: i64,
        is_told: bool,
    },
    ClockState {
        which: bool,
        state: u8,
    },
    Link {
        which: bool,
        is_up: bool,
    },
}

#[derive(Debug, Clone, Copy, Arbitrary)]
struct ForgedHello {
    switch: u8,
    own: u8,
    peer: Option<u8>,
    has_key: bool,
}

/// The bytes are the actions of the network.
pub fn exchange(bytes: &[u8]) {
    let Some(actions) = read::<Vec<Action>>(bytes) else {
        return;
    };
    let mut bench = Bench::new();
    for action in actions {
        bench.act(action);
        if bench.steps >= STEPS_MAX {
            break;
        }
    }
    bench.settle();
}

struct Bench {
    ends: Vec<End>,
    now: u64,
    steps: u32,
    drawn: u64,
    under_way: Network<Vec<u8>>,
    recorded: Vec<Vec<u8>>,
    /// All frames that each end sealed, and all sessions whose frames it accepted.
    sealed: [HashSet<Vec<u8>>; 2],
    accepted: [HashSet<Vec<u8>>; 2],
    /// Sessions that each end has left, and the time until which it may still receive in them.
    past: [HashMap<SessionId, u64>; 2],
}

impl Bench {
    fn new() -> Self {
        Self {
            ends: vec![End::new(1, 0), End::new(2, 0)],
            now: 0,
            steps: 0,
            drawn: 0,
            under_way: Network::default(),
            recorded: Vec::new(),
            sealed: Default::default(),
            accepted: Default::default(),
            past: Default::default(),
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Run {
                steps,
                is_delivered,
            } => (0..steps % 64).for_each(|_| self.step(is_delivered)),
            Action::Deliver { to, which } => self.deliver(to, which, 1, |_| {}),
            Action::Lose { to, which } => self.deliver(to, which, 0, |_| {}),
            Action::Double { to, which } => self.deliver(to, which, 2, |_| {}),
            Action::Damage { to, which, at, by } => self.deliver(to, which, 1, |frame| {
                let at = usize::from(at) % frame.len();
                frame[at] ^= by;
            }),
            Action::Replay { to, which, times } => {
                if let Some(index) = usize::from(which).checked_rem(self.recorded.len()) {
                    let frame = self.recorded[index].clone();
                    (0..=times).for_each(|_| self.hear(to.into(), &frame));
                }
            }
            Action::Forge { to, hello } => {
                if let Some(frame) = self.forged(hello) {
                    self.hear(to.into(), &frame);
                }
            }
            Action::Garbage { to, bytes } => self.hear(to.into(), &bytes),
            Action::Packets {
                by,
                packets,
                is_lost,
            } => self.packets(by.into(), packets, is_lost),
            Action::Restart { which } => self.restart(which.into()),
            Action::ClockStep {
                which,
                by_ns,
                is_told,
            } => {
                let end = &mut self.ends[usize::from(which)];
                if is_told {
                    end.line.count_step();
                }
                // 36 years either way.
                end.set_clock(end.ahead_ns.wrapping_add(by_ns) >> 3);
            }
            Action::ClockState { which, state } => {
                self.ends[usize::from(which)].clock.state = match state % 3 {
                    0 => ClockState::Free,
                    1 => ClockState::HoldingOver,
                    _ => ClockState::Locked,
                };
            }
            Action::Link { which, is_up } => self.ends[usize::from(which)].is_up = is_up,
        }
        for end in &self.ends {
            assert_eq!(end.counted(), end.heard, "a frame counts once");
        }
    }

    /// Takes a frame in flight, and delivers it this number of times.
    fn deliver(&mut self, to: bool, which: u8, times: u8, change: impl FnOnce(&mut Vec<u8>)) {
        let to = usize::from(to);
        if let Some(mut frame) = self.under_way.take(to, which.into()) {
            change(&mut frame);
            (0..times).for_each(|_| self.hear(to, &frame));
        }
    }

    fn step(&mut self, is_delivered: bool) {
        self.now += STEP_NS;
        self.steps += 1;
        for index in 0..2 {
            let frames = self.ends[index].step(self.now, &mut self.drawn);
            for frame in frames {
                if self.recorded.len() < RECORDED_MAX {
                    self.recorded.push(frame.clone());
                }
                self.sealed[index].insert(frame.clone());
                self.under_way.send(1 - index, self.now, frame);
            }
        }
        for to in [0, 1] {
            // A frame that never arrives counts as lost.
            while is_delivered || self.under_way.number(to) > RECORDED_MAX {
                let Some(frame) = self.under_way.take(to, 0) else {
                    break;
                };
                if is_delivered {
                    self.hear(to, &frame);
                }
            }
        }
    }

    fn hear(&mut self, to: usize, frame: &[u8]) {
        let end = &mut self.ends[to];
        let parsed = Frame::parse(frame).ok();
        let kind = parsed.as_ref().map(Frame::kind);
        let before = kind.map(|kind| end.accepted(kind));
        let len_bytes = u32::try_from(frame.len() + 14).unwrap_or(u32::MAX);
        end.wire.control(frame, len_bytes, Ticks(self.now));
        end.heard += 1;
        let is_accepted = kind.map(|kind| end.accepted(kind)) != before;
        let Some(parsed) = parsed.filter(|_| is_accepted) else {
            return;
        };
        let is_by_peer = self.sealed[1 - to].contains(frame);
        if parsed.kind() == Kind::Hello {
            assert!(is_by_peer || self.sealed[to].contains(frame), "forged");
            return;
        }
        assert!(is_by_peer, "not sealed by the peer: {:?}", parsed.header());
        assert!(self.accepted[to].insert(frame.to_vec()), "accepted twice");
        let session = parsed.header().session;
        assert!(session.is_some(), "of no session");
        let until = session.and_then(|session| self.past[to].get(&session));
        assert!(
            until.is_none_or(|until| self.now <= *until),
            "of a session that is over"
        );
        if until.is_none() && end.session != session {
            let left = end.session.map(|left| (left, self.now + OVERLAP_NS));
            self.past[to].extend(left);
            end.session = session;
        }
    }

    fn forged(&self, forged: ForgedHello) -> Option<Vec<u8>> {
        let (ring, id) = if forged.has_key {
            (keys(8), KeyId(1))
        } else {
            (KeyRing::new().trusting(), KeyId::NONE)
        };
        let mut sealer = Sealer::new(forged.switch.into(), 3, &ring, id).ok()?;
        let nonce = |byte: u8| Nonce(NonZeroU64::new(byte.into()).unwrap_or(NonZeroU64::MAX));
        let hello = Hello {
            hash_version: HASH_VERSION,
            seed_check: 42,
            epoch_ns: EPOCH_NS,
            nonces: Nonces {
                own: nonce(forged.own),
                peer: forged.peer.map(nonce),
                renews: None,
            },
            clock_error_ns: 0,
            tai_utc_s: 37,
            clock: ClockState::Locked,
            ptp_domain: 0,
            stash_packets: 8,
            port_name: PortName::default(),
            shapes: ArrayVec::new(),
        };
        let subject = Subject {
            segment: 0,
            epoch: Epoch(0),
            tai_ns: TAI_NS.wrapping_add(self.now).cast_signed(),
        };
        let mut buffer = [0; 512];
        let len = sealer.seal(subject, &hello, &mut buffer).ok()?;
        Some(buffer[..len].to_vec())
    }

    fn packets(&mut self, by: usize, packets: u8, is_lost: bool) {
        let tag = |n: u8| {
            self.drawn += 1;
            Tag {
                flow: FlowHash(u64::from(n % 20) << 20),
                packet: PacketHash(self.drawn.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
                arrived: Ticks(self.now),
                len_bytes: 100,
                segment: SegmentIndex(0),
                epoch: EpochTag::default(),
                class: ClassIndex(0),
            }
        };
        let tags: Vec<Tag> = (0..packets % 64).map(tag).collect();
        self.ends[by]
            .wire
            .sent(&tags, std::iter::empty(), Ticks(self.now));
        if is_lost {
            return;
        }
        let arrived = tags.iter().map(|tag| {
            let arrival = Member {
                flow: tag.flow,
                packet: tag.packet,
                bytes: tag.len_bytes,
            };
            (tag.class, arrival)
        });
        self.ends[1 - by]
            .wire
            .received(arrived, Ticks(self.now + 10_000));
    }

    fn restart(&mut self, which: usize) {
        let mut end = End::new(u32::from(which == 1) + 1, self.now);
        let old = &self.ends[which];
        end.set_clock(old.ahead_ns);
        self.past[which].extend(old.session.map(|left| (left, 0)));
        self.ends[which] = end;
    }

    /// Makes the network behave.
    fn settle(&mut self) {
        self.under_way = Network::default();
        for end in &mut self.ends {
            end.set_clock(0);
            end.clock.state = ClockState::Locked;
            end.is_up = true;
        }
        let until = self.now + RECOVERY_NS;
        loop {
            assert!(self.now < until, "no session: {:?}", self.states());
            self.recorded.clear();
            self.step(true);
            let markers = self.markers();
            if !self.ends.iter().all(End::is_established) {
                continue;
            }
            (0..3 * EPOCH_NS / STEP_NS).for_each(|_| self.step(true));
            let is_heard = markers
                .iter()
                .zip(self.markers())
                .all(|(before, after)| *before < after);
            let is_blocked = self.ends.iter().any(|end| end.wire.is_blocked());
            if is_heard && !is_blocked {
                return;
            }
        }
    }

    /// Markers that each end accepted.
    fn markers(&self) -> Vec<u64> {
        let ends = self.ends.iter();
        ends.map(|end| end.accepted(Kind::Marker)).collect()
    }

    fn states(&self) -> Vec<Option<SessionState>> {
        let state = |end: &End| end.exchange.status().map(|status| status.session);
        self.ends.iter().map(state).collect()
    }
}
