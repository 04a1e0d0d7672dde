//! Wires of two switches in memory, joined by a path of the test: control frames at their positions among the data,
//! exact counts at both ends, and no control frame forwarded.
use std::num::NonZeroU64;
use std::ops::{Deref, DerefMut};

use contract::counters::{DropReason, Rejection};
use contract::wire::handover::WireControlEnd;
use measure::observation::End;
use measure::synopsis::Synopsis;
use measure::time::{EpochSchedule, Ticks};
use serde_json::json;
use simulate::rack::wired::{HOST, WIRE, is_control, kind_of, wired};
use simulate::rack::{GRACE, INTERVAL, Rack, udp};
use wire::SealedWire;
use wire::exchange::Order;
use wire::frame::Kind;
use wire::session::{Nonce, Sessions};

/// A switch, and the control core's end of its wire.
struct Switch {
    rack: Rack,
    control: WireControlEnd,
}

impl Deref for Switch {
    type Target = Rack;

    fn deref(&self) -> &Rack {
        &self.rack
    }
}

impl DerefMut for Switch {
    fn deref_mut(&mut self) -> &mut Rack {
        &mut self.rack
    }
}

fn nonce(n: u64) -> Nonce {
    Nonce(NonZeroU64::new(n).unwrap())
}

impl Switch {
    fn new(number: u32, share: f64) -> Self {
        let wire = json!({
            "capacity_bps": 10_000_000_000_u64, "share": share, "flows": 1_024, "stash_packets": 64,
            "lda": { "banks": [{ "rows": 256, "probability": 1.0 }] },
            "lds": { "cells": 1_024, "rows": [1.0, 1.0] },
            "rli": { "policy": { "kind": "count", "packets": 20 } },
        });
        let schedule = EpochSchedule::new(Ticks(0), INTERVAL, GRACE);
        let mut rack = wired(number, &wire, 1_000, schedule);
        let (_, control) = rack.wires.remove(0);
        Self { rack, control }
    }

    fn dropped(&self, reason: DropReason) -> u64 {
        self.sum(|port| port.drops[reason as usize].get())
    }

    fn rejected(&self, why: Rejection) -> u64 {
        self.control.counters.rejected[why as usize].get()
    }

    fn accepted(&self, kind: Kind) -> u64 {
        self.control.counters.accepted[kind.index()].get()
    }

    fn sealed(&mut self, end: End) -> Vec<SealedWire> {
        std::iter::from_fn(|| self.control.take_sealed(end)).collect()
    }
}

/// Both switches in one session.
fn pair(share: f64) -> [Switch; 2] {
    let [mut one, mut other] = [1, 2].map(|number| Switch::new(number, share));
    let (mine, theirs) = (nonce(11), nonce(22));
    let begin = |own, peer| Order::Begin(Sessions::new(own, peer));
    one.control.order(begin(mine, theirs)).unwrap();
    other.control.order(begin(theirs, mine)).unwrap();
    one.pass_at(1);
    other.pass_at(1);
    [one, other]
}

/// Sends packets from host to host for a while, each `delay` ticks on the wire; returns those that the second host
/// received.
fn run(
    [one, other]: &mut [Switch; 2],
    ticks: std::ops::Range<u64>,
    delay: u64,
    mut on_wire: impl FnMut(u64, Vec<u8>) -> Vec<Vec<u8>>,
) -> Vec<Vec<u8>> {
    let step = 5_000;
    let (mut under_way, mut got) = (std::collections::VecDeque::new(), Vec::new());
    for now in ticks.step_by(step) {
        let n = u32::try_from(now / step as u64).unwrap();
        for part in 0..2 {
            one.arrive(HOST, udp((n % 40) as u16, 2 * n + part, 200));
        }
        one.pass_at(now);
        for frame in one.frames(WIRE) {
            for frame in on_wire(now, frame) {
                under_way.push_back((now + delay, frame));
            }
        }
        while under_way.front().is_some_and(|(at, _)| *at <= now) {
            other.arrive(WIRE, under_way.pop_front().unwrap().1);
        }
        other.pass_at(now);
        got.extend(other.frames(HOST));
        // Only control frames come back.
        for frame in other.frames(WIRE) {
            assert!(is_control(&frame));
            one.arrive(WIRE, frame);
        }
    }
    got
}

/// Behind the last packet of each burst, they would have waited for all of it, which its packets did not.
#[test]
fn references_go_behind_the_packets_that_are_due_also_within_a_burst() {
    let [mut one, _] = pair(0.005);
    let mut frames = Vec::new();
    for now in (5_000..INTERVAL).step_by(50_000) {
        for n in 0..32 {
            one.arrive(HOST, udp(n, u32::try_from(now).unwrap(), 200));
        }
        one.pass_at(now);
        frames.extend(one.frames(WIRE));
    }
    one.assert_conserved();
    let kinds: Vec<_> = frames.iter().map(|frame| kind_of(frame)).collect();
    let references = kinds.split(|kind| *kind == Some(Kind::Reference.number()));
    let data = references.map(|between| between.iter().filter(|kind| kind.is_none()).count());
    let data: Vec<_> = data.collect();
    let [at_first, between @ .., _] = data.as_slice() else {
        panic!("{data:?}");
    };
    assert_eq!(*at_first, 0, "one begins the stream");
    assert!(
        between.len() > 20 && between.iter().all(|data| *data == 20),
        "{data:?}"
    );
}

#[test]
fn both_ends_count_the_same_packets_in_the_same_epochs() {
    let mut switches = pair(0.005);
    let mut data_sent = 0;
    let delay = 35_000;
    let got = run(&mut switches, 5_000..5 * INTERVAL, delay, |_, frame| {
        data_sent += usize::from(!is_control(&frame));
        vec![frame]
    });
    assert!(got.iter().all(|frame| !is_control(frame)));
    assert!(got.len() > data_sent - 20 && got.len() <= data_sent);
    let [one, other] = &mut switches;
    one.assert_conserved();
    other.assert_conserved();
    let (sent, received) = (one.sealed(End::Sender), other.sealed(End::Receiver));
    let mut compared = 0;
    for mine in &sent {
        let theirs = received.iter().find(|theirs| theirs.epoch == mine.epoch);
        let Some(theirs) = theirs.filter(|theirs| !theirs.shard.marks.is_partial) else {
            continue;
        };
        let (here, there) = (&mine.shard.segments[0], &theirs.shard.segments[0]);
        assert_eq!(here.tally.sent, there.tally.received);
        assert!(here.tally.sent > 100);
        let mut lda = here.lda.clone();
        lda.merge(&there.lda).unwrap();
        let estimate = lda.estimate(there.tally.received);
        assert_eq!(estimate.effective_samples, here.tally.sent);
        assert_eq!(estimate.mean_ticks, Some(delay as f64));
        let rli = there.rli.mean_ns().unwrap();
        assert!((rli - delay as f64).abs() < 1.0, "{rli}");
        compared += 1;
    }
    assert!(
        compared >= 2,
        "{} sent, {} received",
        sent.len(),
        received.len()
    );
    assert_eq!(other.accepted(Kind::Marker), 5 * 3, "three copies a turn");
    assert!(other.accepted(Kind::Reference) > 50);
    let control = other.accepted(Kind::Marker) + other.accepted(Kind::Reference);
    assert_eq!(other.dropped(DropReason::Control), control);
}

#[test]
fn a_forged_or_changed_frame_is_counted_and_goes_nowhere() {
    let mut switches = pair(0.005);
    let mut forged = 0;
    let got = run(&mut switches, 5_000..3 * INTERVAL, 0, |_, frame| {
        if kind_of(&frame) == Some(Kind::Reference.number()) {
            forged += 1;
            let mut other = frame.clone();
            other[30] ^= 1;
            let again = frame.clone();
            return vec![other, frame, again];
        }
        vec![frame]
    });
    assert!(forged > 10 && got.iter().all(|frame| !is_control(frame)));
    let [_, other] = &switches;
    let rejected: u64 = Rejection::ALL.map(|why| other.rejected(why)).iter().sum();
    assert_eq!(rejected, 2 * forged);
    assert_eq!(other.rejected(Rejection::Replayed), forged);
    assert_eq!(other.accepted(Kind::Reference), forged);
    other.assert_conserved();
}

#[test]
fn the_type_without_the_magic_is_data() {
    let mut switches = pair(0.005);
    let [one, other] = &mut switches;
    let mut frame = udp(1, 1, 100);
    frame[12..14].copy_from_slice(&[0x88, 0xB5]);
    one.arrive(HOST, frame.clone());
    one.pass_at(10);
    let sent = one.frames(WIRE);
    let data: Vec<_> = sent
        .into_iter()
        .filter(|frame| !is_control(frame))
        .collect();
    assert_eq!(data, [frame.clone()]);
    other.arrive(WIRE, frame.clone());
    other.pass_at(20);
    assert_eq!(other.frames(HOST), [frame]);
}

#[test]
fn nothing_overtakes_a_marker_that_the_driver_refused() {
    let mut switches = pair(0.005);
    let [one, _] = &mut switches;
    one.frames(WIRE);
    one.set_room(WIRE, Some(0));
    one.arrive(HOST, udp(1, 1, 100));
    one.pass_at(INTERVAL + 10);
    one.pass_at(INTERVAL + 20);
    assert!(one.frames(WIRE).is_empty());
    one.set_room(WIRE, None);
    one.pass_at(INTERVAL + 30);
    let order: Vec<_> = one
        .frames(WIRE)
        .iter()
        .map(|frame| kind_of(frame))
        .collect();
    let data = order.iter().position(Option::is_none).unwrap();
    assert!(
        order[..data].contains(&Some(Kind::Marker.number())),
        "{order:?}"
    );
}

#[test]
fn a_looped_port_lets_no_data_pass_but_control_frames() {
    let mut switches = pair(0.005);
    let [one, _] = &mut switches;
    one.control.block(true);
    one.frames(WIRE);
    one.arrive(HOST, udp(1, 1, 100));
    one.arrive(WIRE, udp(1, 2, 100));
    one.pass_at(INTERVAL + 10);
    one.pass_at(INTERVAL + 20);
    assert!(one.frames(HOST).is_empty());
    let sent = one.frames(WIRE);
    assert!(!sent.is_empty() && sent.iter().all(|frame| is_control(frame)));
    assert_eq!(one.dropped(DropReason::Loop), 2);
    one.assert_conserved();
    one.control.block(false);
    one.arrive(HOST, udp(1, 3, 100));
    one.pass_at(INTERVAL + 30);
    let is_data = |frame: &Vec<u8>| !is_control(frame);
    assert_eq!(one.frames(WIRE).iter().filter(|f| is_data(f)).count(), 1);
}

#[test]
fn references_are_kept_back_when_the_share_is_used_up() {
    let mut switches = pair(0.000_05);
    let mut link_bytes = 0;
    run(&mut switches, 5_000..40 * INTERVAL, 0, |_, frame| {
        if is_control(&frame) {
            link_bytes += frame.len() as u64 + 24;
        }
        vec![frame]
    });
    let [one, _] = &switches;
    assert_eq!(one.control.counters.sent_bytes.get(), link_bytes);
    assert!(one.control.counters.references_withheld.get() > 0);
    let references = one.control.counters.sent[Kind::Reference.index()].get();
    assert!(references < 60, "{references} of 800 that would be due");
    // 40 ms of a share of 62.5 bytes a ms, what may be saved up, and markers, which cannot wait.
    let markers = one.control.counters.sent[Kind::Marker.index()].get() * 200;
    assert!(link_bytes < 40 * 63 + 6_000 + markers + 200, "{link_bytes}");
}
