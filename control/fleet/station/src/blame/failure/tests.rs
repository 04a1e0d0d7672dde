use records::station::PathAnswer;
use report::msp::{Kind, Report, Segment};

use super::*;
use crate::path::Network;

const BEGIN_S: u64 = 1_700_000_000;

/// Three switches in a row, port `q` of each wired to `p` of the next.
struct Fleet {
    states: Vec<State>,
    second: u64,
    /// Offset of the clock of NATS.
    off_s: i64,
    /// State of each switch's sessions.
    sessions: [&'static str; 3],
}

impl Fleet {
    /// Creates a fleet whose switches have all reported for a minute.
    fn new() -> Self {
        let mut fleet = Self {
            states: (0..3).map(|_| State::default()).collect(),
            second: 0,
            off_s: 0,
            sessions: ["established"; 3],
        };
        assert_eq!(fleet.pass(60, |_, _| true), 0);
        fleet
    }

    fn now_unix_ns(&self) -> u64 {
        (BEGIN_S + self.second).saturating_add_signed(self.off_s) * 1_000_000_000
    }

    fn report(&self, number: u32) -> Report {
        let segment = |kind: Kind, from, to, mean_ns| Segment {
            kind: kind.into(),
            from,
            to,
            class: 4,
            packets: 10,
            samples: 10,
            mean_ns,
            ..Segment::default()
        };
        let session = self.sessions[number as usize - 1];
        let neighbour = |port, peer_switch| Neighbour {
            port,
            peer_switch,
            peer_port: 1 - port,
            session: session.to_owned(),
            system: None,
        };
        let is_up = session == "established" && number > 1;
        let wire = is_up.then(|| segment(Kind::Wire, 2, 0, 100.0));
        let inside = segment(Kind::Inside, 0, 1, 1.0);
        let before = (number > 1).then(|| neighbour(0, number - 1));
        let behind = (number < 3).then(|| neighbour(1, number + 1));
        Report {
            switch: format!("s{number}"),
            epoch: self.second,
            epochs: 1,
            start_unix_ns: self.now_unix_ns() - 1_000_000_000,
            length_ns: 1_000_000_000,
            names: ["p", "q", "p:q", "q:p", "all"].map(str::to_owned).to_vec(),
            segments: std::iter::once(inside).chain(wire).collect(),
            neighbours: before.into_iter().chain(behind).collect(),
            wire_switch: Some(number),
            ..Report::default()
        }
    }

    /// Lets seconds pass; `reports` returns whether a switch reports, given the second and the switch's number. Returns
    /// the first second with a failure, or 0 if there is none.
    fn pass(&mut self, seconds: u64, reports: impl Fn(u64, u32) -> bool) -> u64 {
        let mut first = 0;
        for second in 1..=seconds {
            self.second += 1;
            for number in (1..=3).filter(|&number| reports(second, number)) {
                let report = self.report(number);
                let now_unix_ns = self.now_unix_ns();
                self.states[number as usize - 1].take(&report, now_unix_ns);
            }
            if first == 0 && !self.failed(true).is_empty() {
                first = second;
            }
        }
        first
    }

    fn blamer(&self, is_read: bool) -> Blamer<'_> {
        Blamer::new(&self.states, self.now_unix_ns(), move |_| is_read)
    }

    /// Returns places and kinds of all failures.
    fn failed(&self, is_read: bool) -> Vec<(String, String)> {
        let failed = self.blamer(is_read).all(None, 9).failed.into_iter();
        failed.map(|failed| (failed.place, failed.kind)).collect()
    }

    /// Returns the path from end to end, and the failures on it.
    fn path(&self) -> (PathAnswer, Vec<Failure>) {
        let network = Network::new(&self.states, None, self.now_unix_ns());
        let paths = network.paths("s1:p", "s3:q", None).unwrap();
        let blamed = self.blamer(true).paths(&paths).paths.remove(0);
        let path = paths.paths.into_iter().next().unwrap();
        // `path` and `blame` agree which figures are current.
        for (hop, blamed) in path.chain.iter().zip(&blamed.chain) {
            assert_eq!(hop.is_covered(), blamed.level.is_some(), "{hop:?}");
        }
        assert_eq!(path.is_covered, blamed.sum.is_some());
        (path, blamed.failed)
    }
}

fn of(places: &[(&str, &str)]) -> Vec<(String, String)> {
    let places = places.iter();
    places
        .map(|(place, kind)| ((*place).to_owned(), (*kind).to_owned()))
        .collect()
}

#[test]
fn a_dead_switch_is_named_within_half_a_minute_and_its_figures_are_not_summed() {
    let mut fleet = Fleet::new();
    let (path, failed) = fleet.path();
    assert!(path.is_covered && failed.is_empty());
    assert_eq!(path.sum.mean_ns, Some(203.0));
    let lives = |_, number| number != 2;
    fleet.sessions = ["lost"; 3];
    let named_after_s = fleet.pass(40, lives);
    assert!((20..30).contains(&named_after_s), "{named_after_s}");
    assert_eq!(fleet.failed(true), of(&[("s2", "switch")]));
    // While reports of its partition are unread, its own may be among them.
    assert!(fleet.failed(false).is_empty());
    let (path, failed) = fleet.path();
    assert!(failed[0].words.contains("while 2 other"), "{failed:?}");
    assert!(!path.is_covered);
    assert_eq!(path.sum.mean_ns, Some(2.0));
    let stale = path.chain.iter().filter(|hop| !hop.is_covered());
    let stale: Vec<_> = stale
        .map(|hop| (&*hop.title, hop.figures.is_some()))
        .collect();
    let has = ["s1:q > s2:p", "s2: p>q", "s2:q > s3:p"].map(|title| (title, true));
    assert_eq!(stale, has);
    let hint = path.chain[2].hint.as_ref().unwrap();
    assert!(hint.ends_with("s2 sends no reports"), "{hint}");
    let all = fleet.blamer(true).all(None, 9);
    assert!(!all.faults.iter().any(|fault| fault.what == "silent"));
    // The switch is back.
    fleet.sessions = ["established"; 3];
    fleet.pass(1, |_, _| true);
    assert!(fleet.failed(true).is_empty());
    assert!(fleet.path().0.is_covered);
}

#[test]
fn restarts_and_outages_of_nats_and_steps_of_its_clock_are_no_failures() {
    // Each switch is restarted in turn, for 15 s.
    let mut fleet = Fleet::new();
    let deployed = |second: u64, number: u32| second / 15 != u64::from(number);
    assert_eq!(fleet.pass(120, deployed), 0);
    // NATS is down; the switches come back one after another.
    let mut fleet = Fleet::new();
    let away = |second: u64, number: u32| second > 60 + 6 * u64::from(number);
    assert_eq!(fleet.pass(200, away), 0);
    // No switch is left to prove that NATS works.
    assert_eq!(Fleet::new().pass(200, |_, _| false), 0);
    for off_s in [3_600, -3_600] {
        let mut fleet = Fleet::new();
        fleet.off_s = off_s;
        assert_eq!(fleet.pass(60, |_, _| true), 0);
        // Afterwards a death is detected as before.
        fleet.sessions = ["lost"; 3];
        let named_after_s = fleet.pass(40, |_, number| number != 3);
        assert!((20..30).contains(&named_after_s), "{named_after_s}");
    }
}

#[test]
fn a_switch_whose_wires_work_is_cut_off_from_nats_and_not_dead() {
    let mut fleet = Fleet::new();
    assert_eq!(fleet.pass(60, |_, number| number != 2), 0);
    let faults = fleet.blamer(true).all(None, 9).faults;
    let silent = faults.iter().find(|fault| fault.what == "silent").unwrap();
    assert!(silent.words.ends_with("it cannot reach NATS"), "{silent:?}");
}

#[test]
fn a_wire_that_nothing_passes_fails_while_both_switches_report() {
    let mut fleet = Fleet::new();
    // A switch that restarts does not establish its session at once.
    fleet.sessions = ["established", "lost", "lost"];
    assert_eq!(
        fleet.pass(15, |second, number| number != 3 || second > 8),
        0
    );
    let named_after_s = fleet.pass(20, |_, _| true);
    assert!(named_after_s > 0);
    let failed = of(&[("s1:q > s2:p", "wire"), ("s2:q > s3:p", "wire")]);
    assert_eq!(fleet.failed(true), failed);
    let (path, failed) = fleet.path();
    assert_eq!((path.sum.mean_ns, failed.len()), (Some(3.0), 2));
}
