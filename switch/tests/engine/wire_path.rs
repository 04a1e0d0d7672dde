//! What two switches say of the path between them, held against the truth, and what they make of
//! all that can go wrong on it.
use contract::counters::{Counter, Rejection};
use rand::RngExt;
use simulate::path::{EPOCH, Passage, Path, is_control, kind_of};
use wire::exchange::SessionState;
use wire::frame::{EpochFate, Kind};

/// The session, and the first turns in it.
const BEGINNING: u64 = 8;

#[test]
fn without_impairment_every_epoch_is_usable_and_right() {
    let mut path = Path::new(1);
    path.run_undisturbed(110);
    assert_eq!(path.is_established(), [true, true]);
    assert_right(&path, 100);
    let [one, other] = &path.switches;
    one.assert_conserved();
    other.assert_conserved();
    // Both sides show it.
    let reported = one.status().sending[0].usable.unwrap();
    assert!(reported.epoch + 4 > path.now / EPOCH);
}

/// At least so many epochs are usable, their means are nearly all within their bounds, and no loss is wrong.
#[track_caller]
fn assert_right(path: &Path, usable_min: usize) {
    let (usable, covered) = path.coverage();
    assert!(usable >= usable_min, "{usable} epochs usable");
    assert!(covered * 100 >= usable * 93, "{covered} of {usable}");
    assert_eq!(path.wrong_losses(), []);
}

/// Data and control frames lost alike.
fn losing(share: f64) -> impl FnMut(&mut rand_pcg::Pcg64, usize, Vec<u8>) -> Passage {
    move |random, _, frame| {
        if random.random_bool(share) {
            Vec::new()
        } else {
            vec![(0, frame)]
        }
    }
}

#[test]
fn with_losses_counts_are_exact_and_means_within_their_bounds() {
    for (share, usable_least) in [(0.01, 95), (0.05, 95), (0.2, 80)] {
        let mut path = Path::new(2);
        path.run_undisturbed(BEGINNING);
        path.run(100, losing(share));
        assert_right(&path, usable_least);
        assert_eq!(path.is_established(), [true, true]);
    }
}

#[test]
fn packets_that_overtake_each_other_cost_neither_epochs_nor_counts() {
    let mut path = Path::new(3);
    path.run(110, |random, _, frame| {
        let late = random.random_bool(0.05);
        vec![(if late { 150_000 } else { 0 }, frame)]
    });
    assert_right(&path, 100);
}

#[test]
fn jitter_that_reorders_is_met_as_well() {
    let mut path = Path::new(4);
    path.run(110, |random, _, frame| {
        vec![(random.random_range(0..100_000), frame)]
    });
    assert_right(&path, 100);
}

#[test]
fn control_frames_lost_doubled_reordered_and_corrupted_make_no_wrong_number() {
    let mut path = Path::new(5);
    path.run_undisturbed(BEGINNING);
    path.run(100, |random, _, mut frame| {
        if !is_control(&frame) {
            return vec![(0, frame)];
        }
        match random.random_range(0..20) {
            0 => Vec::new(),
            1 => vec![(0, frame.clone()), (200_000, frame)],
            2 => vec![(random.random_range(0..400_000), frame)],
            3 => {
                let byte = random.random_range(18..frame.len());
                frame[byte] ^= 1 << random.random_range(0..8);
                vec![(0, frame)]
            }
            _ => vec![(0, frame)],
        }
    });
    assert_right(&path, 90);
    let rejected: u64 = path.switches[1]
        .wire_counters
        .rejected
        .iter()
        .map(Counter::get)
        .sum();
    assert!(rejected > 100, "{rejected} frames doubled or corrupted");
    assert_eq!(path.is_established(), [true, true]);
}

#[test]
fn an_epoch_whose_markers_are_all_lost_is_marked_with_its_neighbour_and_the_rest_is_right() {
    let mut path = Path::new(6);
    path.run_undisturbed(BEGINNING);
    let before = path.switches[1].fates(EpochFate::NoMarkers);
    path.run(1, |_, _, frame| {
        if kind_of(&frame) == Some(Kind::Marker.number()) {
            Vec::new()
        } else {
            vec![(0, frame)]
        }
    });
    path.run_undisturbed(30);
    let marked = path.switches[1].fates(EpochFate::NoMarkers) - before;
    assert_eq!(
        marked, 2,
        "the epoch that did not end, and the one that did not begin"
    );
    assert_right(&path, 30);
}

#[test]
fn a_switch_that_is_started_anew_in_mid_epoch_is_measured_with_again() {
    for n in 0..2 {
        let mut path = Path::new(7);
        path.run_undisturbed(20);
        assert_eq!(path.is_established(), [true, true]);
        path.now += EPOCH / 3;
        path.restart(n, 256, 77);
        path.measured.clear();
        path.run_undisturbed(60);
        assert_eq!(
            path.is_established(),
            [true, true],
            "switch {n} was restarted"
        );
        assert_right(&path, 40);
    }
}

#[test]
fn other_sizes_at_one_end_are_said_at_both_and_give_no_numbers() {
    let mut path = Path::new(8);
    path.run_undisturbed(20);
    path.restart(1, 128, 88);
    // The old session ends when nothing of it has been heard for seconds.
    path.run_undisturbed(140);
    for switch in &path.switches {
        assert_eq!(switch.status().session, SessionState::Mismatch);
        assert!(switch.status().mismatch.is_some());
    }
    path.measured.clear();
    path.run_undisturbed(20);
    assert_eq!(path.coverage().0, 0);
    // And back.
    path.restart(1, 256, 99);
    path.run_undisturbed(60);
    assert_eq!(path.is_established(), [true, true]);
    assert!(path.coverage().0 >= 30);
}

#[test]
fn a_link_that_is_cut_for_a_while_is_measured_again() {
    for epochs in [3, 160] {
        let mut path = Path::new(9);
        path.run_undisturbed(20);
        path.run(epochs, |_, _, _| Vec::new());
        if epochs > 100 {
            assert_eq!(path.is_established(), [false, false]);
        }
        path.measured.clear();
        path.run_undisturbed(60);
        assert_eq!(path.is_established(), [true, true]);
        assert_right(&path, 40);
    }
}

#[test]
fn a_step_of_a_clock_shows_in_the_floor_and_impossible_epochs_are_marked() {
    let mut path = Path::new(10);
    path.run_undisturbed(40);
    path.now += EPOCH / 2;
    path.run_undisturbed(0);
    path.switches[1].step_clock(-1_000_000);
    path.run_undisturbed(40);
    let status = path.switches[1].status();
    assert_eq!(status.counters.clock_steps, 1);
    // All delays are under 0 from then on, and none is shown as usable.
    assert!(path.switches[1].fates(EpochFate::Clock) >= 36);
    let receiving = &status.receiving[0];
    let usable = receiving.usable.unwrap().outcome.unwrap();
    assert!(usable.chosen.unwrap().mean_ns > 300_000.0);
    let latest = receiving.latest.unwrap();
    assert_eq!(latest.fate, EpochFate::Clock);
    let mean_ns = latest.outcome.unwrap().chosen.unwrap().mean_ns;
    assert!(mean_ns < -300_000.0, "not clamped: {mean_ns}");
    assert!(status.offset.is_contradicted());
    assert_eq!(path.wrong_losses(), []);
    path.switches[1].step_clock(1_000_000);
    path.run_undisturbed(20);
    let status = path.switches[1].status();
    assert_eq!(status.receiving[0].latest.unwrap().fate, EpochFate::Usable);
    assert!(!status.offset.is_contradicted());
}

#[test]
fn a_clock_that_is_set_spoils_the_epochs_that_it_is_set_in_and_those_whose_delays_are_impossible() {
    for n in 0..2 {
        let mut path = Path::new(13);
        path.run_undisturbed(40);
        path.now += EPOCH / 2;
        path.run_undisturbed(0);
        path.switches[n].set_clock(5_000_000);
        path.measured.clear();
        path.run_undisturbed(40);
        let off_ns = if n == 0 { -5e6 } else { 5e6 };
        let (mut usable, mut marked) = (0, 0);
        for (epoch, measured) in &path.measured {
            marked += usize::from(measured.fate == EpochFate::Clock);
            if measured.fate != EpochFate::Usable {
                continue;
            }
            let mean_ns = measured.outcome.unwrap().chosen.unwrap().mean_ns;
            let off = mean_ns - path.truth[epoch].mean_ns();
            let is_before = *epoch < 40;
            assert!(
                (off - if is_before { 0.0 } else { off_ns }).abs() < 1_000.0,
                "{epoch}: {off}"
            );
            usable += 1;
        }
        // Packets arrive before they were sent if the sender's clock is ahead; the other way no direction shows it, because
        // nothing is sent back.
        let (impossible, possible) = if n == 0 {
            (marked, usable)
        } else {
            (usable, marked)
        };
        assert!(
            impossible >= 35 && possible <= 5,
            "{usable} usable, {marked} marked"
        );
    }
}

#[test]
fn an_own_hello_that_somebody_throws_back_blocks_nothing_while_the_peer_is_there() {
    let mut path = Path::new(14);
    path.run_undisturbed(BEGINNING);
    path.throws_back = true;
    path.run_undisturbed(100);
    assert_eq!(path.is_established(), [true, true]);
    for switch in &path.switches {
        assert!(!switch.status().is_blocked);
        switch.assert_conserved();
    }
    assert!(path.coverage().0 >= 95);
    assert_eq!(path.wrong_losses(), []);
}

#[test]
fn keys_are_renewed_under_load_and_no_epoch_and_no_frame_is_lost() {
    let mut path = Path::new(17);
    path.run_undisturbed(BEGINNING);
    path.measured.clear();
    let refused = |path: &Path| {
        let counters = path.switches.iter().map(|switch| &switch.wire_counters);
        let refused = counters.flat_map(|counters| counters.rejected.iter().map(Counter::get));
        refused.sum::<u64>()
    };
    let before = refused(&path);
    path.run_undisturbed(150);
    assert_eq!(refused(&path), before);
    assert_right(&path, 149);
    for switch in &path.switches {
        let counters = switch.status().counters;
        assert!(counters.renewals >= 2, "{counters:?}");
        assert_eq!(counters.sessions, 1);
        switch.assert_conserved();
    }
}

/// Runs for so many epochs, and gives the last hello that the first switch sent in them.
fn recorded_hello(path: &mut Path, epochs: u64) -> Vec<u8> {
    let mut hello = None;
    path.run(epochs, |_, from, frame| {
        if from == 0 && kind_of(&frame) == Some(Kind::Hello.number()) {
            hello = Some(frame.clone());
        }
        vec![(0, frame)]
    });
    hello.unwrap()
}

fn rejected(path: &Path, why: Rejection) -> u64 {
    path.switches[1].wire_counters.rejected[why as usize].get()
}

/// Hellos of a flood in a millisecond: two million a second.
const FLOOD: usize = 2_048;

#[test]
fn a_flood_of_one_recorded_hello_costs_neither_epochs_nor_the_session() {
    let mut path = Path::new(15);
    let of_this_session = recorded_hello(&mut path, 40);
    path.measured.clear();
    path.flood = Some((of_this_session, FLOOD));
    path.run_undisturbed(30);
    path.flood = None;
    let (usable, covered) = path.coverage();
    assert!(usable >= 28, "{usable} epochs usable");
    assert!(covered * 100 >= usable * 90, "{covered} of {usable}");
    assert_eq!(path.wrong_losses(), []);
    assert_eq!(rejected(&path, Rejection::Overflow), 0);
    assert_eq!(path.is_established(), [true, true]);
    assert_eq!(path.switches[1].status().counters.sessions, 1);
    path.switches[1].assert_conserved();
}

#[test]
fn a_peer_that_starts_anew_in_a_flood_of_its_old_hello_is_found_again() {
    let mut path = Path::new(16);
    let of_the_old = recorded_hello(&mut path, 30);
    path.flood = Some((of_the_old, FLOOD));
    path.restart(0, 256, 78);
    path.run_undisturbed(30);
    assert_eq!(path.is_established(), [true, true]);
    path.measured.clear();
    path.run_undisturbed(20);
    let (usable, _) = path.coverage();
    assert!(usable >= 18, "{usable} epochs usable");
    assert_eq!(rejected(&path, Rejection::Overflow), 0);
}

#[test]
fn a_cable_back_to_its_own_switch_is_blocked_until_it_is_gone() {
    let mut path = Path::new(11);
    path.run_undisturbed(10);
    path.loops_back = true;
    // Not before the peer has been silent for a while: nobody who throws a hello back can block.
    path.run_undisturbed(100);
    let status = path.switches[0].status();
    assert_eq!(
        (status.session, status.is_blocked),
        (SessionState::Loop, true)
    );
    path.switches[0].assert_conserved();
    let delivered = path.switches[0].to_host;
    path.run_undisturbed(10);
    assert_eq!(path.switches[0].to_host, delivered, "nothing comes back");
    path.loops_back = false;
    path.measured.clear();
    path.run_undisturbed(160);
    assert!(!path.switches[0].status().is_blocked);
    assert_eq!(path.is_established(), [true, true]);
    assert!(path.coverage().0 >= 20);
}

#[test]
fn what_the_chooser_says_of_flows_is_no_worse_than_any_one_method() {
    let mut path = Path::new(12);
    path.run(100, losing(0.01));
    let errors = &path.flow_errors;
    assert!(errors.epochs >= 80, "{} epochs decoded", errors.epochs);
    let chosen = errors.median("chosen");
    for method in errors.by_method.keys() {
        let median = errors.median(method);
        assert!(chosen <= median * 1.1, "chosen {chosen}, {method} {median}");
    }
}
