//! Both ends of a wire, joined by a path that delays, loses, doubles and overtakes.

mod hostile;
mod path;
mod rollover;

use std::num::{NonZeroU32, NonZeroU64};

use path::{EPOCH_NS, Frame, Path, Wire};

use super::*;
use crate::frame::{Kind, Marker, Message};
use crate::session::{Key, KeyId, KeyRing, Nonce, Session};
use measure::lda::Bank;
use measure::observation::{End, Observation, SegmentIndex};
use measure::packet::{FlowHash, PacketHash};
use measure::synopsis::Synopsis;
use measure::time::{Epoch, EpochTag};

/// Packets on each side of a turn in these tests' stashes.
const STASH: u16 = 64;

fn keys() -> KeyRing {
    let key = Key::new(std::array::from_fn(|i| u8::try_from(i).unwrap()));
    KeyRing::new().with(KeyId(3), key).unwrap()
}

/// The keys of one direction in the `n`-th session of two ends.
fn session(n: u64) -> Session {
    let nonce = |bits| Nonce::from_random(1_000 * n + bits);
    Session {
        sender: nonce(1),
        receiver: nonce(2),
    }
}

fn lda(sampled: f64) -> LdaLayout {
    let bank = |rows, probability| Bank { rows, probability };
    LdaLayout::new(&[bank(32, sampled), bank(96, 1.0)]).unwrap()
}

fn plan(policy: rli::Policy) -> ReferencePlan {
    ReferencePlan {
        policy,
        method: rli::Method::Sums,
        link: rli::Link::new(10_000_000_000, 24).unwrap(),
        buffer_packets: 512,
        named_flows: 4,
    }
}

/// Two segments, with all there is.
fn layout() -> WireLayout {
    WireLayout {
        segments: 2,
        lda: lda(0.1),
        lds: Some(LdsLayout::new(64, 5, &[0.1, 1.0]).unwrap()),
        stash_packets: STASH,
        flows: 64,
        references: Some(plan(rli::Policy::Either {
            packets: NonZeroU32::new(50).unwrap(),
            interval_ns: NonZeroU64::new(EPOCH_NS / 20).unwrap(),
        })),
    }
}

/// A packet of flow 1.
fn observation(packet: u64, segment: u16, time: u64) -> Observation {
    Observation {
        flow: FlowHash(1),
        packet: PacketHash(packet),
        time,
        delay: 0,
        bytes: 64,
        segment: SegmentIndex(segment),
        epoch: EpochTag(0),
    }
}

/// Both ends' halves of an epoch.
fn pair(sent: &WireShard, received: &WireShard) -> WireShard {
    let mut pair = received.clone();
    for (whole, half) in pair.segments.iter_mut().zip(&sent.segments) {
        whole.lda.merge(&half.lda).unwrap();
        whole.tally.merge(&half.tally);
    }
    if let (Some(whole), Some(half)) = (&mut pair.lds, &sent.lds) {
        whole.merge(half).unwrap();
    }
    pair
}
