//! A fault in one segment of a chain of switches is found, and is still found when a station dies.

use report::msp::{Flow, Health, Kind, Neighbour, Report, Segment};
use serde_json::{Value, json};
use testkit::nats::NatsServer;
use testkit::process::wait_for;

use super::Reporter;
use super::support::Station;

/// Number of switches in a row.
pub const SWITCHES: u32 = 4;
/// Length of an epoch here: a switch is silent after 2.6 s.
const LENGTH_NS: u64 = 200_000_000;
/// Number of epochs until rises can be found, with a margin.
pub const LEARN: u64 = 260;
/// The fault is on the wire from this switch to the next.
const AT: u32 = 2;
pub const FLOW: &str = "10.0.0.1:80>10.0.0.2:9/udp";
const NAMES: [&str; 6] = ["west", "east", "west:peer", "east:peer", "all", "lda"];

/// Returns noise of a few per cent that depends on the arguments.
fn noise(number: u32, at: u64, epoch: u64) -> f32 {
    let mixed = (u64::from(number) << 40 ^ at << 32 ^ epoch).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    0.97 + 0.06 * f32::from(u16::try_from(mixed >> 48).unwrap()) / 65_536.0
}

/// The flow that all switches see, as seen by one of them.
fn flow(number: u32) -> Flow {
    Flow {
        flow: FLOW.to_owned(),
        from: 0,
        to: 1,
        class: 4,
        packets: 100,
        lost: Some(u64::from(number == 3)),
        mean_ns: Some(1_000.0 * number as f32),
        ..Flow::default()
    }
}

/// A fleet whose epochs begin at a common time.
pub struct Fleet {
    begin_ns: u64,
    length_ns: u64,
    epoch: u64,
    /// Lost packets per 1,000 on the faulty wire.
    lost: i64,
}

impl Fleet {
    /// Creates a fleet whose first epochs, of this length, are long enough ago to learn from, with `more` epochs in
    /// addition.
    pub fn new(length_ns: u64, more: u64) -> Self {
        Self {
            begin_ns: station::now_unix_ns() - (LEARN + more) * length_ns,
            length_ns,
            epoch: 0,
            lost: 0,
        }
    }

    fn report(&self, number: u32, added_ns: f32) -> Report {
        let epoch = self.epoch;
        let segment = |kind: Kind, from: u32, to: u32, mean_ns: f32| Segment {
            kind: kind.into(),
            from,
            to,
            class: 4,
            packets: 1_000,
            samples: 1_000,
            mean_ns: mean_ns * noise(number, u64::from(from * 8 + to), epoch),
            bound_ns: Some(mean_ns * 0.01),
            method: 5,
            ..Segment::default()
        };
        let mut segments = vec![
            segment(Kind::Inside, 0, 1, 2_000.0),
            segment(Kind::Inside, 1, 0, 2_500.0),
        ];
        let mut neighbours = Vec::new();
        let mut wire = |port: u32, peer: u32| {
            let (into, out) = (5_000.0, 6_000.0);
            // The sender has the receiver's figures.
            let is_into = peer == AT && number == AT + 1;
            let is_out = peer == AT + 1 && number == AT;
            let more = |is_there: bool| if is_there { added_ns } else { 0.0 };
            let mut incoming = segment(Kind::Wire, port + 2, port, into + more(is_into));
            if is_into {
                incoming.lost = self.lost;
                incoming.samples -= self.lost.unsigned_abs();
            }
            let outgoing = segment(Kind::Wire, port, port + 2, out + more(is_out));
            segments.extend([incoming, outgoing]);
            neighbours.push(Neighbour {
                port,
                peer_switch: peer,
                peer_port: 1 - port,
                session: "established".to_owned(),
                system: None,
            });
        };
        if number > 1 {
            wire(0, number - 1);
        }
        if number < SWITCHES {
            wire(1, number + 1);
        }
        Report {
            version_major: 1,
            switch: format!("s{number}"),
            incarnation: 9,
            epoch,
            epochs: 1,
            start_unix_ns: self.begin_ns + epoch * self.length_ns,
            length_ns: self.length_ns,
            health: Some(Health {
                clock: "locked".to_owned(),
                ..Health::default()
            }),
            names: NAMES.map(str::to_owned).to_vec(),
            segments,
            flows: vec![flow(number)],
            neighbours,
            wire_switch: Some(number),
            ..Report::default()
        }
    }

    /// Sends epochs of these switches, with `added_ns` added to the faulty wire.
    pub fn send(&mut self, reporter: &Reporter, switches: u32, epochs: u64, added_ns: f32) {
        for _ in 0..epochs {
            for number in 1..=switches {
                reporter.send(&self.report(number, added_ns));
            }
            self.epoch += 1;
        }
    }

    /// Waits until a station has counted all reports of these switches.
    pub fn settle(&self, station: &Station, switches: u32) {
        for number in 1..=switches {
            station.wait_for_epoch(&format!("s{number}"), self.epoch - 1);
        }
    }
}

/// Returns the titles of risen segments.
fn risen(station: &Station) -> Vec<(String, String)> {
    let blame = station.json("/api/v1/blame");
    let risen = blame["risen"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    risen
        .map(|risen| (text(&risen["title"]), text(&risen["signal"])))
        .collect()
}

/// Asserts that the path from end to end has one cause. Returns its beginning in milliseconds since 1970.
fn cause(station: &Station) -> u64 {
    let answer = station.json("/api/v1/blame?from=s1:west&to=s4:east");
    let path = &answer["paths"][0];
    assert_eq!(path["chain"].as_array().unwrap().len(), 7, "{answer}");
    let [cause] = &path["causes"].as_array().unwrap()[..] else {
        panic!("{answer}")
    };
    assert_eq!(cause["title"], "s2:east > s3:west");
    assert!(cause["share_percent"].as_f64().unwrap() > 99.0, "{cause}");
    assert!(cause["confidence"].as_f64().unwrap() > 0.95, "{cause}");
    assert_eq!(path["faults"], json!([]), "{answer}");
    let sum = &path["sum"];
    let rise = sum["mean_ns"].as_f64().unwrap() - sum["usual_ns"].as_f64().unwrap();
    assert!((90_000.0..110_000.0).contains(&rise), "{sum}");
    milliseconds(cause["since_unix_s"].as_f64().unwrap())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time since 1970"
)]
fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1e3).round() as u64
}

#[test]
fn a_fault_is_found_within_three_reports_and_outlives_a_station() {
    let folder = tempfile::tempdir().unwrap();
    let server = NatsServer::start(folder.path(), "").unwrap();
    let [first, second] = [(); 2].map(|()| Station::start(&server, &json!({})));
    let reporter = Reporter::new(&server);
    let mut fleet = Fleet::new(LENGTH_NS, 0);
    fleet.send(&reporter, SWITCHES, LEARN, 0.0);
    fleet.settle(&first, SWITCHES);
    let before = first.json("/api/v1/blame");
    assert_eq!(
        [&before["risen"], &before["learning"], &before["faults"]],
        [&json!([]), &json!(0), &json!([])],
        "{before}"
    );
    assert_eq!(before["segments"], 14, "{before}");

    fleet.send(&reporter, SWITCHES, 3, 100_000.0);
    let named = [("s2:east > s3:west".to_owned(), "delay".to_owned())];
    let since = [&first, &second].map(|station| {
        fleet.settle(station, SWITCHES);
        assert_eq!(risen(station), named);
        cause(station)
    });
    assert_eq!(since[0], since[1]);
    let begin_ms = (fleet.begin_ns + (LEARN + 1) * LENGTH_NS) / 1_000_000;
    assert_eq!(since[0], begin_ms);

    // Findings are available at once, and histories once another station owns the partition.
    let taken_over = first.metric("vernier_station_reports_total");
    drop(first);
    assert_eq!(risen(&second), named);
    wait_for("the other owns all", || {
        second.metric("vernier_station_partitions") == 64
    });
    fleet.send(&reporter, SWITCHES, 2, 100_000.0);
    fleet.settle(&second, SWITCHES);
    assert_eq!(risen(&second), named);
    assert_eq!(cause(&second), since[0]);
    // By chance the first station may have owned no partition with a switch.
    let read_again = second.metric("vernier_station_read_again_reports_total");
    assert!(read_again > 0 || taken_over == 0, "{taken_over}");
    let third = Station::start(&server, &json!({}));
    fleet.send(&reporter, SWITCHES, 12, 0.0);
    fleet.settle(&third, SWITCHES);
    assert_eq!(risen(&third), []);
    let s3 = third.switch("s3").unwrap();
    assert_eq!([&s3["duplicates"], &s3["missed_epochs"]], [0, 0], "{s3}");
    assert_flow(&third);

    assert_silence(&mut fleet, &reporter, &third);
}

#[test]
fn an_outage_is_found_within_half_a_minute_of_the_first_report() {
    let folder = tempfile::tempdir().unwrap();
    let server = NatsServer::start(folder.path(), "").unwrap();
    let station = Station::start(&server, &json!({}));
    let reporter = Reporter::new(&server);
    let mut fleet = Fleet::new(1_000_000_000, 0);
    fleet.lost = 990;
    fleet.send(&reporter, SWITCHES, 30, 0.0);
    fleet.settle(&station, SWITCHES);
    let named = [("s2:east > s3:west".to_owned(), "loss".to_owned())];
    assert_eq!(risen(&station), named);
    let path = station.json("/api/v1/blame?from=s1:west&to=s4:east");
    let cause = &path["paths"][0]["causes"][0];
    assert_eq!(cause["title"], named[0].0, "{path}");
    assert!(cause["rise"].as_f64().unwrap() > 0.9, "{cause}");
}

/// The last switch stops, which is not a fault of the network.
fn assert_silence(fleet: &mut Fleet, reporter: &Reporter, third: &Station) {
    wait_for("it is silent", || {
        fleet.send(reporter, SWITCHES - 1, 1, 0.0);
        let faults = &third.json("/api/v1/blame")["faults"];
        let faults = faults.as_array().unwrap();
        faults.iter().any(|fault| fault["place"] == "s4")
    });
    fleet.settle(third, SWITCHES - 1);
    let blame = third.json("/api/v1/blame");
    let [fault] = &blame["faults"].as_array().unwrap()[..] else {
        panic!("{blame}")
    };
    assert_eq!([&fault["what"], &fault["place"]], ["silent", "s4"]);
    assert_eq!(blame["risen"], json!([]), "{blame}");
    let path = third.json("/api/v1/blame?from=s1:west&to=s4:east");
    let path = &path["paths"][0];
    assert_eq!(path["causes"], json!([]));
    let silent = path["faults"].as_array().unwrap().iter();
    assert!(
        silent.clone().any(|fault| fault["what"] == "silent"),
        "{path}"
    );
    assert_eq!(path["sum"], Value::Null);
}

/// The flow is joined over the switches and the wires between them, and its slowest hop is named.
fn assert_flow(station: &Station) {
    let flow = station.json(&format!(
        "/api/v1/flow?flow={}",
        FLOW.replace('>', "%3E").replace('/', "%2F")
    ));
    let hops = flow["hops"].as_array().unwrap();
    let titles: Vec<&Value> = hops.iter().map(|hop| &hop["title"]).collect();
    assert_eq!(
        titles,
        [
            "s1: west>east",
            "s1:east > s2:west",
            "s2: west>east",
            "s2:east > s3:west",
            "s3: west>east",
            "s3:east > s4:west",
            "s4: west>east",
        ]
    );
    assert_eq!([&hops[4]["lost"], &hops[6]["packets"]], [1, 100]);
    assert_eq!(hops[6]["mean_ns"], 4_000.0);
    assert_eq!(flow["is_ordered"], true);
    let slowest = flow["slowest"].as_u64().unwrap();
    assert_eq!(slowest % 2, 1, "a wire: {flow}");
}
