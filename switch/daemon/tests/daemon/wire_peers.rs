//! Two daemons and a wire between them, set up as by an operator: figures about the other's packets from the API are
//! compared with both switches' own stamps, packet by packet.
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{Daemon, key_file, memif};
use measure::packet::{FlowKey, Hasher};
use serde_json::{Value, json};

/// Epochs that are compared, of 100 ms each.
const EPOCHS: usize = 60;

/// By what packets and flows are hashed.
const SEED: u128 = 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff;

/// Length of every packet.
const BYTES: u64 = 256;

/// Bytes of a record of `--wire-record`.
const RECORD_BYTES: usize = 32;

fn config(number: u32, role: &str, folder: &Path) -> Value {
    let (socket, key) = (folder.join("memif.sock"), folder.join("wire.key"));
    let host = format!(
        "generate:flows=200,rate=5000,size={BYTES},seed={number},side={}",
        number % 2
    );
    json!({
        "name": format!("switch-{number}"),
        "ports": [
            { "name": "host", "device": host },
            { "name": "trunk", "device": memif(role, &socket),
              "wire": { "capacity_bps": 1_000_000_000, "share": 0.02 } },
        ],
        "forwarding": { "mode": "patch", "pairs": [["host", "trunk"]] },
        "measurement": {
            "interval_ms": 100,
            "hash_seed": format!("{SEED:032x}"),
            "flows": { "slots": 1_024 },
        },
        // One machine, one clock.
        "wire": {
            "switch": number,
            "keys": [{ "id": 1, "file": key }],
            "clock": { "error_ns": 500 },
        },
        "dpdk": { "memory_mib": 128, "mbufs": 16_384 },
    })
}

fn start(number: u32, role: &str, folder: &Path) -> Daemon {
    let truth = folder.join(format!("truth-{number}"));
    Daemon::start_as(config(number, role, folder), |command| {
        command.arg("--wire-record").arg(truth);
    })
}

fn wire(switch: &Daemon) -> Option<Value> {
    Some(switch.json("/api/v1/wires")?["wires"][0].clone())
}

/// The direction that arrives.
fn incoming(wire: &Value) -> &Value {
    let segments = wire["segments"].as_array().unwrap();
    segments
        .iter()
        .find(|segment| segment["is_incoming"] == true)
        .unwrap()
}

#[derive(Debug)]
struct Record {
    packet: u64,
    flow: u64,
    tai_ns: u64,
    epoch: u64,
    is_received: bool,
}

fn records(file: &Path) -> Vec<Record> {
    let bytes = std::fs::read(file).unwrap();
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let (records, rest) = bytes.as_chunks::<RECORD_BYTES>();
    assert!(rest.is_empty());
    let record = |bytes: &[u8; RECORD_BYTES]| Record {
        packet: number(&bytes[..8]),
        flow: number(&bytes[8..16]),
        tai_ns: number(&bytes[16..24]),
        epoch: u32::from_le_bytes(bytes[24..28].try_into().unwrap()).into(),
        is_received: bytes[28] == 1,
    };
    records.iter().map(record).collect()
}

#[derive(Debug, Default)]
struct Truth {
    sent: u64,
    arrived: u64,
    delay_sum_ns: i64,
}

/// By the sender's epoch and the `key` of a record, from the files of sender and receiver.
fn truth<K: Ord>(sender: &Path, receiver: &Path, key: impl Fn(&Record) -> K) -> BTreeMap<K, Truth> {
    let mut epochs: BTreeMap<K, Truth> = BTreeMap::new();
    let mut sent: HashMap<u64, Vec<Record>> = HashMap::new();
    for record in records(sender) {
        if !record.is_received {
            epochs.entry(key(&record)).or_default().sent += 1;
            sent.entry(record.packet).or_default().push(record);
        }
    }
    for record in records(receiver) {
        if record.is_received
            && let Some(same) = sent.get_mut(&record.packet)
            && !same.is_empty()
        {
            let first = same.remove(0);
            let truth = epochs.entry(key(&first)).or_default();
            truth.arrived += 1;
            truth.delay_sum_ns += record.tai_ns.cast_signed() - first.tai_ns.cast_signed();
        }
    }
    epochs
}

#[test]
fn two_daemons_measure_the_wire_between_them_in_both_directions() {
    let folder = tempfile::tempdir().unwrap();
    key_file(folder.path());
    let mut switches = [
        start(1, "server", folder.path()),
        start(2, "client", folder.path()),
    ];
    for switch in &mut switches {
        switch.wait_for(|switch| {
            wire(switch).is_some_and(|wire| {
                wire["session"] == "established" && !incoming(&wire)["last"].is_null()
            })
        });
    }
    let said = listen(&switches);
    let flows = ask_flows(&switches[0]);
    let listed = list_flows(&switches[0]);
    // Figures measured by one are shown by the other.
    let [one, other] = &switches;
    let reported = wire(one).unwrap();
    let outgoing = &reported["segments"][0];
    assert_eq!(outgoing["is_incoming"], false);
    assert!(!outgoing["last"]["chosen"].is_null(), "{outgoing}");
    let page = other.get("/metrics").unwrap();
    assert!(page.contains("segment=\"trunk:peer>trunk\""), "{page}");
    let control = reported["control_bps"].as_f64().unwrap();
    assert!(control <= reported["share_bps"].as_f64().unwrap() * 1.05);
    for counter in reported["total"]["disbelieved_frames"].as_array().unwrap() {
        // When a session begins, one end may send a frame in it before the other's worker knows the session.
        let is_beginning = counter["label"] == "session";
        assert!(is_beginning || counter["packets"] == 0, "{counter}");
    }

    let truths = switches.map(Daemon::stop);
    drop(truths);
    let file = |number: u32| folder.path().join(format!("truth-{number}"));
    let epoch = |record: &Record| record.epoch;
    compare(&said[0], &truth(&file(2), &file(1), epoch));
    compare(&said[1], &truth(&file(1), &file(2), epoch));
    let flow = |record: &Record| (record.epoch, record.flow);
    let truths = truth(&file(2), &file(1), flow);
    compare_flows(&flows, &truths);
    compare_list(&listed, &truths);
}

/// Every flow that arrived by the wire: its hash and record.
fn ask_flows(switch: &Daemon) -> Vec<(u64, Value)> {
    let hasher = Hasher::new(SEED.to_be_bytes());
    let page = switch.json("/api/v1/flows?ingress=trunk&limit=1000");
    let page = page.unwrap();
    let mut answers = Vec::new();
    for flow in page["flows"].as_array().unwrap() {
        let name = flow["flow"].as_str().unwrap();
        let key: FlowKey = name.parse().unwrap();
        let answer = switch.json(&format!("/api/v1/flow?flow={}", name.replace('>', "%3E")));
        let answer = answer.unwrap();
        let hash = hasher.flow_hash(&key).0;
        let wires = answer["wires"].as_array().unwrap();
        answers.extend(wires.iter().map(|wire| (hash, wire.clone())));
    }
    answers
}

/// The flows that came by the wire, in one list.
fn list_flows(switch: &Daemon) -> Vec<Value> {
    let page = switch.json("/api/v1/flows?scope=wires&limit=1000").unwrap();
    assert_eq!(page["matching"], page["flows"].as_array().unwrap().len());
    page["flows"].as_array().unwrap().clone()
}

/// All flows of an epoch are listed, by the names that the switch knows, with exact counts.
fn compare_list(listed: &[Value], truths: &BTreeMap<(u64, u64), Truth>) {
    let hasher = Hasher::new(SEED.to_be_bytes());
    let epoch = listed[0]["last_epoch"].as_u64().unwrap();
    let arrived = truths
        .iter()
        .filter(|((of, _), truth)| *of == epoch && truth.arrived > 0);
    assert_eq!(listed.len(), arrived.count());
    for flow in listed {
        assert_eq!(
            (&flow["ingress"], &flow["egress"]),
            (&json!("trunk:peer"), &json!("trunk"))
        );
        let key: FlowKey = flow["flow"].as_str().unwrap().parse().unwrap();
        let truth = &truths[&(epoch, hasher.flow_hash(&key).0)];
        let last = &flow["last"];
        assert_eq!(last["packets"], truth.arrived, "{flow}");
        assert_eq!(last["bytes"], truth.arrived * BYTES, "{flow}");
    }
}

/// Packets that are published are exact, losses are not less than there were, and means nearly all within
/// their bounds.
fn compare_flows(said: &[(u64, Value)], truths: &BTreeMap<(u64, u64), Truth>) {
    let (mut bounded, mut covered) = (0, 0);
    for (hash, asked) in said {
        assert_eq!(asked["egress"], "trunk");
        let truth = truths.get(&(asked["last_epoch"].as_u64().unwrap(), *hash));
        if asked["is_counted"] == false {
            // Every flow has a slot: this one had no packets, and its cells hold only others.
            assert!(truth.is_none_or(|truth| truth.arrived == 0), "{asked}");
            continue;
        }
        let truth = truth.unwrap();
        let figures = &asked["last"];
        assert_eq!(figures["packets"], truth.arrived, "{asked}");
        let lost = figures["lost_packets"].as_u64().unwrap();
        assert!(lost >= truth.sent - truth.arrived, "{asked}");
        let estimate = &asked["estimate"];
        if let Some(bound_ns) = estimate["bound_ns"].as_f64() {
            let mean_ns = truth.delay_sum_ns as f64 / truth.arrived as f64;
            let off_ns = (estimate["mean_ns"].as_f64().unwrap() - mean_ns).abs();
            bounded += 1;
            covered += usize::from(off_ns <= bound_ns);
        }
    }
    println!("{covered} of {bounded} means of flows within their bounds");
    assert!(bounded >= 100, "{bounded} of {}", said.len());
    // All of one epoch, so that delays which jump where processes share CPUs spoil many at once.
    assert!(covered * 100 >= bounded * 88, "{covered} of {bounded}");
}

/// Reports of each, epoch by epoch.
fn listen(switches: &[Daemon; 2]) -> [BTreeMap<u64, Value>; 2] {
    let mut said: [BTreeMap<u64, Value>; 2] = Default::default();
    let began = Instant::now();
    while said.iter().any(|said| said.len() < EPOCHS) {
        assert!(
            began.elapsed() < Duration::from_secs(90),
            "{}",
            said[0].len()
        );
        for (switch, said) in switches.iter().zip(&mut said) {
            let last = wire(switch).map(|wire| incoming(&wire)["last"].clone());
            if let Some(last) = last.filter(|last| !last.is_null()) {
                said.insert(last["epoch"].as_u64().unwrap(), last);
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    said
}

/// Counts that are published are exact, and means nearly all within their bounds.
fn compare(said: &BTreeMap<u64, Value>, truth: &BTreeMap<u64, Truth>) {
    let (mut covered, mut counted) = (0, 0);
    for (epoch, last) in said {
        let truth = &truth[epoch];
        // Counts that are not proven are not published.
        if let Some(sent) = last["sent_packets"].as_u64() {
            assert_eq!(sent, truth.sent);
            assert_eq!(last["received_packets"].as_u64(), Some(truth.arrived));
            counted += 1;
        }
        let mean_ns = truth.delay_sum_ns as f64 / truth.arrived as f64;
        let chosen = &last["chosen"];
        let off_ns = (chosen["mean_ns"].as_f64().unwrap() - mean_ns).abs();
        covered += usize::from(off_ns <= chosen["bound_ns"].as_f64().unwrap());
    }
    let epochs = said.len();
    assert!(covered * 100 >= epochs * 93, "{covered} of {epochs}");
    assert!(
        counted * 10 >= epochs * 9,
        "counts of {counted} of {epochs}"
    );
}
