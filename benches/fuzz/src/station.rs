//! A station's routes over hostile values of the key-value store and the history.
//!
//! Oracle: every request gets a response with a documented status, never 500; JSON is complete and valid, and contains
//! the error of a refusal; no response is larger than the values allow; lists are within their limits.

use std::sync::Arc;

use arbitrary::Arbitrary;
use axum::body::{Body, Bytes};
use axum::http::Request;
use contract::config::Nats;
use hyper_util::service::TowerToHyperService;
use prost::Message;
use report::msp::{Flow, Health, Neighbour, Segment};
use station::histories::{Histories, Room};
use station::settings::Settings;
use station::state::{Gap, Known, Minute, MinuteSegment, Run, State, Sums};
use station::{Station, answers, histories, values};

use crate::{read, web};

/// Larger than any response from the values of an input.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Largest number of values of each kind.
const VALUES_MAX: usize = 16;

const NAMES: [&str; 12] = [
    "a",
    "b",
    "c",
    "p",
    "q",
    "p:q",
    "all",
    "",
    "a:p",
    "\u{1b}[2J\"\n",
    "x > y",
    "stamped",
];

const PARAMETERS: [&str; 12] = [
    "switch", "kind", "class", "offset", "limit", "minutes", "from", "to", "flow", "name", "",
    "sort",
];

const VALUES: [&str; 14] = [
    "a",
    "a:p",
    "b:q",
    "c",
    "all",
    "wire",
    "inside",
    "0",
    "1",
    "18446744073709551615",
    "-1",
    "",
    "10.0.0.1:1024%3E10.0.0.2:80/tcp",
    "%1B",
];

#[derive(Debug, Arbitrary)]
struct Input {
    states: Vec<Of<Made>>,
    minutes: Vec<Of<MadeMinute>>,
    parts: Vec<Vec<u8>>,
    requests: Vec<Asked>,
}

#[derive(Debug, Arbitrary)]
struct Asked {
    path: u8,
    query: Vec<(u8, u8)>,
    own: Option<String>,
}

/// A value under a switch's key: any bytes, or an almost valid value.
#[derive(Debug, Arbitrary)]
enum Of<T> {
    Bytes(u8, Vec<u8>),
    Made(u8, T),
}

#[derive(Debug, Arbitrary)]
struct Made {
    name: u8,
    end: [u64; 2],
    numbers: [u64; 3],
    wire_switch: Option<u8>,
    node: Option<u8>,
    names: Vec<u8>,
    segments: Vec<(MadeSegment, Option<MadeSums>)>,
    neighbours: Vec<(u32, u8, u32, Option<u8>)>,
    flow_names: Vec<[u32; 3]>,
    is_free: bool,
}

#[derive(Debug, Arbitrary)]
struct MadeSegment {
    kind: i8,
    names: [u8; 4],
    packets: u64,
    lost: i64,
    samples: u64,
    mean_ns: f32,
    bound_ns: Option<f32>,
    stddev_ns: Option<f32>,
    end_unix_ns: u64,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
struct MadeSums {
    packets: u64,
    lost: i64,
    samples: u64,
    sums: [f64; 3],
    p99_ns: Option<f32>,
}

#[derive(Debug, Arbitrary)]
struct MadeMinute {
    minute: u64,
    names: Vec<u8>,
    segments: Vec<(i8, [u32; 3], MadeSums)>,
}

/// The bytes are values and requests.
pub fn station(bytes: &[u8]) {
    let Some(input) = read::<Input>(bytes) else {
        return;
    };
    let station =
        Station::new(&Settings::of(Nats::to("nats://127.0.0.1:4222".to_owned()))).unwrap();
    for (revision, state) in (1..).zip(input.states.iter().take(VALUES_MAX)) {
        let (switch, value) = state.value(Made::state);
        station
            .fleet
            .put_state(&values::key(switch), revision, &value);
    }
    for minute in input.minutes.iter().take(VALUES_MAX) {
        let (switch, value) = minute.value(MadeMinute::minute);
        let subject = values::minutes_of(switch);
        station.fleet.put_minute(subject, &value);
    }
    let mut restored = Histories::new(Arc::new(Room::new(4)));
    let parts = input.parts.iter().map(|part| Bytes::copy_from_slice(part));
    let _ = histories::restore(parts, u64::MAX, &mut restored);
    let router = TowerToHyperService::new(answers::router(Arc::clone(&station)));
    for asked in input.requests.iter().take(8) {
        let target = target(asked);
        let Ok(request) = Request::builder().uri(&target).body(Body::empty()) else {
            continue;
        };
        let json = web::ask(&router, request, ANSWER_BYTES_MAX);
        for (list, max) in [("paths", 16), ("risen", 10_000), ("segments", 100_000)] {
            let count = json[list].as_array().map_or(0, Vec::len);
            assert!(count <= max, "{target}: {count} {list}");
        }
    }
}

fn target(asked: &Asked) -> String {
    let query = asked.query.iter().map(|&(name, value)| {
        let known = VALUES[usize::from(value) % VALUES.len()];
        let own = asked.own.as_deref().filter(|_| value == u8::MAX);
        let name = PARAMETERS[usize::from(name) % PARAMETERS.len()];
        (name, own.unwrap_or(known))
    });
    let paths = answers::paths();
    let path = paths[usize::from(asked.path) % paths.len()];
    web::target(path, query)
}

fn named(name: u8) -> String {
    NAMES[usize::from(name) % NAMES.len()].to_owned()
}

impl<T> Of<T> {
    /// The switch, and the value under its key.
    fn value<M: Message>(&self, encode: impl FnOnce(&T, &str) -> M) -> (&'static str, Vec<u8>) {
        let switch = |number: u8| NAMES[usize::from(number % 3)];
        match self {
            Self::Bytes(number, bytes) => (switch(*number), bytes.clone()),
            Self::Made(number, made) => (
                switch(*number),
                encode(made, switch(*number)).encode_to_vec(),
            ),
        }
    }
}

impl Made {
    fn state(&self, switch: &str) -> State {
        let [missed_epochs, epoch, length_ns] = self.numbers;
        // Usually the name of its key.
        let switch = if self.name < 200 {
            switch.to_owned()
        } else {
            named(self.name)
        };
        State {
            switch,
            end_unix_ns: self.end[0],
            received_unix_ns: self.end[1],
            runs: vec![Run {
                incarnation: epoch,
                epoch,
            }],
            length_ns,
            missed_epochs,
            gaps: vec![Gap {
                first: epoch,
                last: missed_epochs,
                end_unix_ns: self.end[0],
            }],
            health: Some(Health {
                clock: if self.is_free { "free" } else { "locked" }.to_owned(),
                unready: self.node.map(named).into_iter().collect(),
                ..Health::default()
            }),
            wire_switch: self.wire_switch.map(|number| u32::from(number % 4)),
            node: self.node.map(named),
            names: self.names.iter().copied().map(named).collect(),
            segments: self
                .segments
                .iter()
                .map(|(segment, open)| segment.known(*open))
                .collect(),
            neighbours: self
                .neighbours
                .iter()
                .map(|&(port, peer_switch, peer_port, system)| Neighbour {
                    port,
                    peer_switch: u32::from(peer_switch % 4),
                    peer_port,
                    system: system.map(named),
                    ..Neighbour::default()
                })
                .collect(),
            flows: self
                .flow_names
                .iter()
                .map(|&[from, to, class]| Flow {
                    from,
                    to,
                    class,
                    ..Flow::default()
                })
                .collect(),
            ..State::default()
        }
    }
}

impl MadeSegment {
    fn known(&self, open: Option<MadeSums>) -> Known {
        let [from, to, class, method] = self.names.map(u32::from);
        Known {
            last: Segment {
                kind: self.kind.into(),
                from,
                to,
                class,
                method,
                packets: self.packets,
                lost: self.lost,
                samples: self.samples,
                mean_ns: self.mean_ns,
                bound_ns: self.bound_ns,
                stddev_ns: self.stddev_ns,
                ..Segment::default()
            },
            end_unix_ns: self.end_unix_ns,
            open: open.map(Sums::from),
            found: None,
        }
    }
}

impl From<MadeSums> for Sums {
    fn from(made: MadeSums) -> Self {
        let [sum_ns, squares_ns2, bounds_ns] = made.sums;
        Self {
            packets: made.packets,
            lost: made.lost,
            samples: made.samples,
            sum_ns,
            squares_ns2,
            bounds_ns,
            p99_ns: made.p99_ns,
            ..Self::default()
        }
    }
}

impl MadeMinute {
    fn minute(&self, switch: &str) -> Minute {
        let segments = self
            .segments
            .iter()
            .map(|&(kind, [from, to, class], sums)| MinuteSegment {
                kind: kind.into(),
                from,
                to,
                class,
                sums: sums.into(),
            });
        Minute {
            switch: switch.to_owned(),
            minute: self.minute,
            names: self.names.iter().copied().map(named).collect(),
            segments: segments.collect(),
            part: 0,
        }
    }
}
