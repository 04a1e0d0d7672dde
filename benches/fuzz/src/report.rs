//! Reports of switches, from their bytes to the state and the histories that a station makes of them.
//!
//! Oracle: a repeated report changes only one count; every counted packet is in a closed minute or in the open one; an
//! epoch ends neither after the server stored its report nor before the switch's previous epoch; indices refer to
//! names; histories are restored as they were written, and release their memory.

use std::collections::HashMap;
use std::sync::Arc;

use arbitrary::Arbitrary;
use prost::Message;
use report::msp::{Flow, Health, Neighbour, Quantiles, Report, Segment};
use station::histories::{Histories, Room};
use station::state::{Minute, State, Taken};

use crate::read;

/// Names that reports refer to, hostile ones among them.
const NAMES: [&str; 8] = [
    "lan",
    "wan",
    "lan:wan",
    "all",
    "",
    "lan",
    "\u{1b}[2J\n",
    "a > b, c:d",
];

/// When the server stores the first report, in nanoseconds since 1970.
const BEGIN_NS: u64 = 1_700_000_000_000_000_000;

#[derive(Debug, Arbitrary)]
struct Input {
    segments_max: u8,
    sent: Vec<Sent>,
}

#[derive(Debug, Arbitrary)]
enum Sent {
    /// Bytes of anybody.
    Bytes(Vec<u8>),
    Made(Made),
    /// The last report of a switch, again.
    Again(u8),
    /// Another station takes over.
    TakeOver,
    /// Obsolete data are dropped.
    Forget,
}

#[derive(Debug, Arbitrary)]
struct Made {
    switch: u8,
    incarnation: u8,
    epoch: Step,
    epochs: u32,
    /// End of the epoch, by the server's clock.
    end: Step,
    waited_ms: u32,
    length_ns: u64,
    is_free: bool,
    names: Vec<u8>,
    segments: Vec<Reported>,
    others: Vec<[u32; 3]>,
}

/// A number close to another, or any.
#[derive(Debug, Clone, Copy, Arbitrary)]
enum Step {
    Next(u8),
    Off(i64),
    To(u32),
}

impl Step {
    fn from(self, now: u64, unit: u64) -> u64 {
        match self {
            Self::Next(more) => now + u64::from(more) * unit,
            Self::Off(by) => now.saturating_add_signed(by) % (u64::MAX / 2),
            Self::To(to) => to.into(),
        }
    }
}

#[derive(Debug, Arbitrary)]
struct Reported {
    kind: i8,
    names: [u8; 4],
    packets: u32,
    lost: i32,
    samples: u64,
    mean_ns: f32,
    bound_ns: Option<f32>,
    stddev_ns: Option<f32>,
    greatest_ns: Option<f32>,
}

/// A station's data.
struct Station {
    room: Arc<Room>,
    histories: Histories,
    states: HashMap<String, (State, Vec<Minute>)>,
    now_ns: u64,
    sequence: u64,
}

/// The bytes are reports, and events between them.
pub fn report(bytes: &[u8]) {
    let Some(input) = read::<Input>(bytes) else {
        return;
    };
    let room = Arc::new(Room::new(u64::from(input.segments_max) + 1));
    let mut station = Station {
        histories: Histories::new(Arc::clone(&room)),
        room: Arc::clone(&room),
        states: HashMap::new(),
        now_ns: BEGIN_NS,
        sequence: 0,
    };
    let mut last: Vec<Vec<u8>> = vec![Vec::new(); 4];
    for sent in &input.sent {
        match sent {
            Sent::Bytes(bytes) => station.take(bytes),
            Sent::Made(made) => {
                let switch = usize::from(made.switch) % last.len();
                last[switch] = station.made(made).encode_to_vec();
                station.take(&last[switch]);
            }
            Sent::Again(switch) => station.take(&last[usize::from(*switch) % last.len()]),
            Sent::TakeOver => station.take_over(),
            Sent::Forget => station.forget(),
        }
        assert!(room.segments() <= u64::from(input.segments_max) + 1);
    }
    drop(station);
    assert_eq!(room.segments(), 0, "room is not given back");
}

impl Station {
    fn made(&mut self, made: &Made) -> Report {
        let switch = format!("s{}", made.switch % 4);
        self.now_ns += u64::from(made.waited_ms) * 1_000_000;
        let epoch = self
            .states
            .get(&switch)
            .and_then(|(state, _)| Some(state.runs.first()?.epoch));
        let names = made
            .names
            .iter()
            .map(|name| NAMES[usize::from(*name) % NAMES.len()].to_owned());
        Report {
            version_major: 1,
            switch,
            incarnation: (made.incarnation % 4).into(),
            epoch: made.epoch.from(epoch.unwrap_or(0), 1),
            epochs: made.epochs.into(),
            start_unix_ns: made.end.from(self.now_ns, 1).saturating_sub(made.length_ns),
            length_ns: made.length_ns,
            health: Some(Health {
                clock: if made.is_free { "free" } else { "locked" }.to_owned(),
                ..Health::default()
            }),
            names: names.collect(),
            segments: made.segments.iter().map(Segment::from).collect(),
            flows: made.others.iter().map(flow).collect(),
            neighbours: made.others.iter().map(neighbour).collect(),
            ..Report::default()
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        let Ok(report) = Report::read(bytes) else {
            return;
        };
        self.sequence += 1;
        let (state, minutes) = self.states.entry(report.switch.clone()).or_default();
        let before = state.clone();
        if state.take(&report, self.now_ns) != Taken::Duplicate {
            // The same from the previous state, as an owner does that starts again.
            let mut again = before.clone();
            let taken = again.take(&report, self.now_ns);
            assert_eq!(again.encode_to_vec(), state.encode_to_vec());
            if let Taken::Counted(Some(minute)) = taken {
                minutes.push(minute);
            }
            let most = packets(&before, &[])
                + u128::from(report.segments.iter().map(|s| s.packets).sum::<u64>());
            let left = minutes
                .last()
                .filter(|minute| minute.minute == before.minute);
            assert_eq!(packets(state, left.map_or(&[], std::slice::from_ref)), most);
        }
        assert!(state.end_unix_ns <= self.now_ns, "an epoch of the future");
        assert!(
            state.end_unix_ns >= before.end_unix_ns.min(self.now_ns),
            "time goes back"
        );
        let mut repeated = state.clone();
        assert_eq!(repeated.take(&report, self.now_ns), Taken::Duplicate);
        repeated.duplicates -= 1;
        assert_eq!(repeated.encode_to_vec(), state.encode_to_vec());
        check_names(state);
        let stored = State::decode(&*state.encode_to_vec()).unwrap();
        assert_eq!(stored.encode_to_vec(), state.encode_to_vec());
        self.histories.feed(&report, self.sequence, self.now_ns);
        self.histories.note(state);
    }

    /// The next owner gets the data that this one wrote.
    fn take_over(&mut self) {
        let written: Vec<(String, u64, Vec<u8>)> = (self.histories.encoded())
            .map(|(switch, heard_ms, bytes)| (switch.to_owned(), heard_ms, bytes))
            .collect();
        self.histories = Histories::new(Arc::clone(&self.room));
        for (switch, heard_ms, bytes) in &written {
            assert!(
                self.histories
                    .restore(switch, self.sequence, *heard_ms, bytes)
            );
        }
        let mut restored = 0;
        for (switch, heard_ms, bytes) in self.histories.encoded() {
            assert!(written.contains(&(switch.to_owned(), heard_ms, bytes)));
            restored += 1;
        }
        assert_eq!(restored, written.len());
    }

    fn forget(&mut self) {
        let now_ms = self.now_ns / 1_000_000;
        let states = &self.states;
        let state_of = |switch: &str| states.get(switch).map(|(state, _)| state);
        for switch in self.histories.forget(state_of, now_ms) {
            assert!(!self.histories.has(&switch));
        }
    }
}

/// Packets in the open minute, and in closed ones.
fn packets(state: &State, minutes: &[Minute]) -> u128 {
    let closed = minutes.iter().flat_map(|minute| &minute.segments);
    let closed = closed.map(|segment| u128::from(segment.sums.packets));
    let open = state.segments.iter().filter_map(|known| known.open);
    closed.sum::<u128>() + open.map(|sums| u128::from(sums.packets)).sum::<u128>()
}

/// All indices refer to names.
fn check_names(state: &State) {
    let segments = state.segments.iter().map(|known| &known.last);
    let mut indices = segments
        .flat_map(|last| [last.from, last.to, last.class, last.method])
        .chain(
            state
                .flows
                .iter()
                .flat_map(|flow| [flow.from, flow.to, flow.class]),
        )
        .chain(
            state
                .neighbours
                .iter()
                .flat_map(|other| [other.port, other.peer_port]),
        );
    assert!(indices.all(|index| (index as usize) < state.names.len()));
}

impl From<&Reported> for Segment {
    fn from(reported: &Reported) -> Self {
        let [from, to, class, method] = reported.names.map(|name| u32::from(name % 8));
        Self {
            kind: reported.kind.into(),
            from,
            to,
            class,
            method,
            packets: reported.packets.into(),
            lost: reported.lost.into(),
            samples: reported.samples,
            mean_ns: reported.mean_ns,
            bound_ns: reported.bound_ns,
            stddev_ns: reported.stddev_ns,
            quantiles: reported.greatest_ns.map(|max_ns| Quantiles {
                max_ns,
                p99_ns: max_ns,
                ..Quantiles::default()
            }),
            ..Self::default()
        }
    }
}

fn flow(of: &[u32; 3]) -> Flow {
    let [from, to, class] = of.map(|name| name % 8);
    Flow {
        from,
        to,
        class,
        ..Flow::default()
    }
}

fn neighbour(of: &[u32; 3]) -> Neighbour {
    Neighbour {
        port: of[0] % 8,
        peer_switch: of[1],
        peer_port: of[2] % 8,
        ..Neighbour::default()
    }
}
