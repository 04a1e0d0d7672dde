use std::cell::Cell;
use std::iter::once;
use std::rc::Rc;
use std::sync::Arc;

use measure::lda::{Bank, LdaLayout};
use measure::lds::LdsLayout;
use measure::shard::Tally;
use wire::codec::{Shape, SketchShape, fragments};
use wire::frame::Sealer;
use wire::session::{Key, KeyId, KeyRing};

use super::bench::{Fault, Random};
use super::*;
use crate::contain::{Point, inject};
use contract::wire::handover::{FRAMES_MAX, SHARDS_PER_END, wire_handover};

/// Loses this number of fragments each time it is refilled.
fn losing(left: &Rc<Cell<u32>>) -> Fault {
    let left = Rc::clone(left);
    Box::new(move |_, kind, _| {
        if kind == Kind::Fragment && left.get() > 0 {
            left.set(left.get() - 1);
            return vec![];
        }
        vec![(0, false)]
    })
}

#[test]
fn what_is_lost_is_asked_for_once_and_comes() {
    let mut bench = Bench::alike();
    let left = Rc::new(Cell::new(0));
    bench.fault = losing(&left);
    bench.establish();
    (0..3).for_each(|_| bench.epoch());
    left.set(6);
    (0..2).for_each(|_| bench.epoch());
    bench.steps(30);
    let seen = latest(&bench);
    assert_true(&seen);
    assert_eq!(seen.0.outcome.unwrap().cells.missing, 0);
    let [sender, receiver] = bench.switches.each_ref().map(|one| one.status().counters);
    assert!(receiver.requests_sent > 0);
    assert_eq!(sender.requests_answered, receiver.requests_sent);
    assert_eq!(sender.requests_ignored, 0);
}

#[test]
fn what_is_lost_twice_makes_those_cells_unusable_and_nothing_else() {
    let mut bench = Bench::alike();
    bench.traffic.loss = 0.01;
    let losses = Rc::new(Cell::new(false));
    let is_losing = Rc::clone(&losses);
    // The second frame of each LDA, and all of its copies: 128 cells are 2 frames.
    bench.fault = Box::new(move |_, kind, frame| {
        let body = frame.get(50..).unwrap();
        let is_lda = kind == Kind::Fragment && body[0] == 1;
        let first = u32::from_be_bytes([body[4], body[5], body[6], body[7]]);
        if is_losing.get() && is_lda && first > 0 {
            return vec![];
        }
        vec![(0, false)]
    });
    bench.establish();
    (0..3).for_each(|_| bench.epoch());
    losses.set(true);
    (0..4).for_each(|_| bench.epoch());
    bench.steps(60);
    let seen = latest(&bench);
    let cells = seen.0.outcome.unwrap().cells;
    assert!(cells.missing > 20 && cells.missing < 100, "{cells:?}");
    assert_true(&seen);
}

#[test]
fn an_epoch_of_which_nothing_comes_has_no_numbers() {
    let mut bench = Bench::alike();
    bench.establish();
    (0..3).for_each(|_| bench.epoch());
    bench.fault = Box::new(|_, kind, _| match kind {
        Kind::Fragment => vec![],
        _ => vec![(0, false)],
    });
    (0..5).for_each(|_| bench.epoch());
    let status = bench.switches[1].status();
    assert!(fates(&status, EpochFate::NoFragments) >= 3);
    assert!(status.receiving[0].latest.unwrap().outcome.is_none());
    bench.fault = Box::new(|_, _, _| vec![(0, false)]);
    (0..3).for_each(|_| bench.epoch());
    bench.steps(30);
    assert_true(&latest(&bench));
}

#[test]
fn a_small_share_of_the_link_is_kept_to() {
    let mut slow = [settings(1), settings(2)];
    for settings in &mut slow {
        settings.frames.bytes_per_s = 100_000;
    }
    let mut bench = Bench::new(slow);
    let bytes = Rc::new(Cell::new(0_usize));
    let counted = Rc::clone(&bytes);
    bench.fault = Box::new(move |_, _, frame| {
        counted.set(counted.get() + frame.len() + 38);
        vec![(0, false)]
    });
    bench.establish();
    (0..2).for_each(|_| bench.epoch());
    bytes.set(0);
    (0..10).for_each(|_| bench.epoch());
    // Both ends', for two seconds.
    let most = 2.0 * 100_000.0 * (10 * EPOCH_NS) as f64 / 1e9;
    let sent = bytes.get() as f64;
    assert!(sent <= 1.05 * most && sent > 0.2 * most, "{sent} of {most}");
    assert!(fates(&bench.switches[1].status(), EpochFate::Usable) >= 8);
}

#[test]
fn a_sender_that_fell_behind_sends_nothing_twice() {
    const EPOCHS: usize = 10;
    let counting = |bench: &mut Bench| {
        let fragments = Rc::new(Cell::new(0));
        let counted = Rc::clone(&fragments);
        bench.fault = Box::new(move |_, kind, _| {
            counted.set(counted.get() + usize::from(kind == Kind::Fragment));
            vec![(0, false)]
        });
        bench.establish();
        (0..3).for_each(|_| bench.epoch());
        fragments
    };
    let mut bench = Bench::alike();
    let fragments = counting(&mut bench);
    fragments.set(0);
    (0..EPOCHS).for_each(|_| bench.epoch());
    let usual = fragments.get();
    // Sending an epoch takes most of the next epoch: it is requested before all of it has been sent.
    let mut narrow = [settings(1), settings(2)];
    for settings in &mut narrow {
        settings.frames.bytes_per_s = 140_000;
    }
    let mut bench = Bench::new(narrow);
    let fragments = counting(&mut bench);
    fragments.set(0);
    (0..EPOCHS).for_each(|_| bench.epoch());
    let sender = bench.switches[0].status().counters;
    assert!(sender.requests_answered > 0);
    let sent = fragments.get();
    // Some are requested while they are in flight.
    assert!(sent <= usual + usual / 20, "{sent} instead of {usual}");
}

#[test]
fn a_flood_of_useless_frames_changes_nothing() {
    let mut bench = Bench::alike();
    bench.establish();
    (0..3).for_each(|_| bench.epoch());
    let sessions = bench.switches[0].sessions.unwrap();
    let ring = KeyRing::new().with(KeyId(1), Key::new([7; 16])).unwrap();
    let mut sealer = Sealer::new(1, 3, &ring, KeyId(1)).unwrap();
    sealer.begin(sessions.sending);
    let mut random = Random(5);
    let mut buffer = [0; 1_500];
    // Of other sizes than the receiver's.
    let bank = Bank {
        rows: 3,
        probability: 1.0,
    };
    let lda = Shape::Lda(LdaLayout::new(&[bank]).unwrap());
    let lds = LdsLayout::new(500, 1, &[1.0]).unwrap();
    let lds = Shape::Lds(SketchShape::new(&lds));
    let cell = |_| measure::cell::Cell::default();
    for number in 0..5_000_u64 {
        let subject = Subject {
            // A few of them lie within the present epochs.
            segment: (random.bits() % 3) as u16,
            epoch: Epoch(if number % 3 == 0 {
                number % 9
            } else {
                random.bits()
            }),
            tai_ns: 0,
        };
        let at = (random.bits() % 400) as u32;
        let length = match number % 3 {
            0 => {
                let mut cut = fragments(&lda, End::Sender, once(0..1), 1_400, cell);
                sealer.seal(subject, &cut.next().unwrap(), &mut buffer)
            }
            1 => {
                let shape = Shape::Tally;
                let mut cut = fragments(&shape, End::Receiver, once(0..1), 1_400, |_| {
                    Tally::default()
                });
                sealer.seal(subject, &cut.next().unwrap(), &mut buffer)
            }
            _ => {
                let mut cut = fragments(&lds, End::Sender, once(at..at + 9), 1_400, cell);
                sealer.seal(subject, &cut.next().unwrap(), &mut buffer)
            }
        };
        let frame = &buffer[..length.unwrap()];
        // As if the worker had let it pass.
        bench.switches[1].worker.hear(frame, Kind::Fragment, 0);
        if number % 100 == 0 {
            bench.step();
        }
    }
    bench.step();
    assert!(bench.switches[1].status().counters.frames_useless >= 4_000);
    (0..3).for_each(|_| bench.epoch());
    bench.steps(30);
    assert_true(&latest(&bench));
}

#[test]
fn a_fall_of_the_floor_spoils_its_epoch_and_a_rise_is_only_told() {
    let mut bench = Bench::alike();
    bench.establish();
    (0..8).for_each(|_| bench.epoch());
    bench.traffic.offset_ns = -1_000_000;
    (0..4).for_each(|_| bench.epoch());
    let status = bench.switches[1].status();
    assert_eq!(status.counters.clock_steps, 1);
    // The other two wait.
    assert_eq!(fates(&status, EpochFate::Clock), 2);
    let step = status.floor.step.unwrap();
    assert_eq!(step.since.0, 8);
    assert!((step.by_ns + 1e6).abs() < 1e4, "{step:?}");
    bench.traffic.offset_ns = 0;
    (0..6).for_each(|_| bench.epoch());
    let status = bench.switches[1].status();
    assert_eq!(status.counters.clock_steps, 2);
    assert_eq!(
        fates(&status, EpochFate::Clock),
        4,
        "a detour or a queue delays as much, and truly"
    );
    assert_eq!(status.receiving[0].latest.unwrap().fate, EpochFate::Usable);
}

/// Number of epochs after which there is a session again, and an epoch has been measured from end to end.
const RECOVERY: usize = 14;

#[test]
fn a_panic_in_pairing_costs_the_session_and_the_wire_measures_again() {
    let mut bench = Bench::alike();
    bench.establish();
    (0..4).for_each(|_| bench.epoch());
    let mut usable = fates(&bench.switches[1].status(), EpochFate::Usable);
    assert!(usable > 0);
    // More often than there are shards: each of these panics has taken one.
    for n in 1..=SHARDS_PER_END as u64 + 2 {
        inject::arm(Point::Pairing, 1);
        (0..RECOVERY).for_each(|_| bench.epoch());
        bench.steps(30);
        let status = bench.switches.each_ref().map(Switch::status);
        let restarts: u64 = status.iter().map(|one| one.counters.restarts).sum();
        assert_eq!(restarts, n);
        assert!(
            status
                .iter()
                .all(|one| one.session == SessionState::Established)
        );
        assert_true(&latest(&bench));
        assert!(
            fates(&status[1], EpochFate::Usable) > usable,
            "after {n} panics"
        );
        usable = fates(&status[1], EpochFate::Usable);
    }
    let lost = |switch: &Switch| fates(&switch.status(), EpochFate::Unmeasured);
    assert!(
        bench.switches.iter().map(lost).sum::<u64>() > 0,
        "what was taken is counted"
    );
}

#[test]
fn one_that_panics_at_every_poll_is_polled_once_a_second() {
    let mut bench = Bench::alike();
    bench.establish();
    inject::arm(Point::In(Part::Wire), u64::MAX);
    let second = usize::try_from(1_000_000_000 / STEP_NS).unwrap();
    bench.steps(10 * second);
    inject::arm(Point::In(Part::Wire), 0);
    for switch in &bench.switches {
        let restarts = switch.exchange.machine.outbox.counters.restarts;
        assert!((9..=11).contains(&restarts), "{restarts}");
    }
    bench.steps(2 * second);
    bench.establish();
}

#[test]
fn a_frame_is_heard_once_and_its_box_goes_round() {
    let layout = settings(1).layout;
    let counters = Arc::default();
    let (mut worker, mut control) = wire_handover(&layout, Arc::default(), counters);
    for _ in 0..2 * FRAMES_MAX {
        assert!(worker.hear(b"frame", Kind::Report, 1));
        assert!(control.next_heard().is_some());
        assert!(control.next_heard().is_none());
    }
}
