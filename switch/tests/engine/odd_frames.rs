//! Unusual, malformed and deeply encapsulated frames, through the real `net_pcap` device: every
//! capture is hot-plugged, switched, and accounted for to the last packet.
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use contract::config::{Config, FlowSelection};
use contract::counters::{DropReason, PortCounters, WorkerCounters};
use contract::handover::{ControlEnd, SealedShard, handover};
use contract::ids::{GenerationId, PortIndex, WorkerIndex};
use dpdk_bindings::{Eal, EalOptions, Mempool, Port, PortConfig};
use measure::packet::{Hasher, Hashing};
use measure::shard::SegmentSynopsis;
use measure::time::{EpochSchedule, TickRate, Ticks};
use serde_json::{Value, json};
use switch::decide::Decide;
use switch::egress::EgressLayout;
use switch::egress::Lane;
use switch::flows::Flows;
use switch::generation::generations;
use switch::meter::{Meter, Plan, SegmentMap};
use switch::packet_io::ClassIndex;
use switch::packet_io::dpdk::{DpdkIo, Handles, Inlet};
use switch::references::{References, ReferencesLayout};
use switch::worker::Worker;

const MTU: u16 = 9000;
const MBUFS: u32 = 8191;
const PORTS: [PortIndex; 2] = [PortIndex(0), PortIndex(1)];

/// Passes without a packet after which a capture is played out.
const IDLE_PASSES: u32 = 3;

/// What became of a capture's frames.
#[derive(Default)]
struct Account {
    received: u64,
    transmitted: u64,
    dropped: [u64; DropReason::ALL.len()],
}

impl Account {
    fn dropped(&self) -> u64 {
        self.dropped.iter().sum()
    }

    fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.transmitted += other.transmitted;
        for (sum, drops) in self.dropped.iter_mut().zip(other.dropped) {
            *sum += drops;
        }
    }
}

struct Testbed<'p> {
    pool: &'p Mempool<'p>,
    rate: TickRate,
}

impl<'p> Testbed<'p> {
    fn start(&self, eal: &'p Eal, device: &str) -> Result<Port<'p>, String> {
        let config = PortConfig {
            mtu: MTU,
            ..PortConfig::default()
        };
        let attached = eal.attach(device).map_err(|error| error.to_string())?;
        attached
            .start(&config, self.pool)
            .map_err(|error| error.to_string())
    }

    /// Plays what `from` receives to `to`, with everything on that the configuration names.
    fn switch(&self, from: &Port<'p>, to: &Port<'p>, config: &Config) -> Account {
        let decide = Decide::from_config(config, self.rate, 3, None);
        let (meter, mut control) = self.meter(config);
        let ports = [(PORTS[0], from), (PORTS[1], to)]
            .map(|(place, port)| Handles {
                port: place,
                inlets: vec![Inlet::Queue(port.rx_queue(0).unwrap())],
                outlet: port.tx_queue(0),
            })
            .into_iter()
            .collect();
        let io = DpdkIo::new(ports, self.pool, self.rate);
        let egress = &config.ports[1].egress;
        let layout = EgressLayout::from_config(egress, MTU, &config.classes);
        let lanes = (0..2)
            .map(|port| Lane::own(&layout, MTU, self.rate, port, Vec::new()))
            .collect();
        let counters = Arc::new(WorkerCounters::new(2));
        let (_generations, worker_generations) = generations();
        let mut worker = Worker::new(
            io,
            lanes,
            Box::new(decide),
            meter,
            Arc::clone(&counters),
            worker_generations,
            Arc::new(AtomicUsize::new(1)),
            self.rate.hz(),
        );
        let mut idle = 0;
        while idle < IDLE_PASSES {
            idle = if worker.pass() == 0 { idle + 1 } else { 0 };
        }
        drop(worker.finish(0));
        let sum = |f: fn(&PortCounters) -> u64| counters.ports.iter().map(f).sum();
        let account = Account {
            received: sum(|port| port.rx_packets.get() + port.copies.get()),
            transmitted: sum(|port| port.tx_packets.get()),
            dropped: DropReason::ALL.map(|reason| {
                counters
                    .ports
                    .iter()
                    .map(|p| p.drops[reason as usize].get())
                    .sum()
            }),
        };
        let shard = control.take_sealed();
        assert_measured(
            &shard.expect("the epoch is sealed at the end"),
            account.transmitted,
        );
        account
    }

    /// What measures, with all of `config`, and the control core's end of it.
    fn meter(&self, config: &Config) -> (Meter, ControlEnd) {
        let (worker_end, control) = handover(&config.shard_layout(self.rate).unwrap());
        let second = self.rate.hz();
        let segments = config.segments();
        let places = segments.iter().map(|segment| {
            let class = ClassIndex(u8::try_from(segment.class).unwrap());
            (PORTS[segment.ingress], PORTS[segment.egress], class)
        });
        let references =
            ReferencesLayout::from_config(config, WorkerIndex(0), self.rate, GenerationId(0))
                .unwrap();
        let plan = Plan {
            handover: worker_end,
            segments: SegmentMap::new(2, places),
            hashing: Hashing::Packet,
            flows: Some(Flows::new(512, FlowSelection::All)),
            stamps_packets: true,
            arounds: None,
            references: Some(Box::new(References::new(&references).unwrap())),
        };
        let now = Ticks(dpdk_bindings::tsc::now());
        let schedule = EpochSchedule::new(now, 3600 * second, second);
        (
            Meter::new(Hasher::new([1; 16]), schedule, Some(Box::new(plan)), now),
            control,
        )
    }
}

/// Each packet that was sent is in the shard once.
fn assert_measured(shard: &SealedShard, transmitted: u64) {
    let sum = |f: fn(&SegmentSynopsis) -> u64| -> u64 { shard.segments().iter().map(f).sum() };
    assert_eq!(sum(|segment| segment.tally.received), transmitted);
    assert_eq!(
        sum(|segment| segment.tally.sent),
        transmitted + sum(|segment| segment.tally.dropped)
    );
    assert_eq!(sum(|segment| segment.moments.count()), transmitted);
}

/// Two ports with classes, rules, queues, and every method of measurement.
fn everything(forwarding: &Value, vlans: Option<[Value; 2]>) -> Config {
    let egress = json!({ "queues": [
        { "classes": ["voice"], "service": "strict", "packets": 64 },
        { "classes": ["rest"], "packets": 64 },
    ] });
    let mut ports = [
        json!({ "name": "east", "device": "sink", "mtu": MTU }),
        json!({ "name": "west", "device": "sink", "mtu": MTU, "egress": egress }),
    ];
    for (port, vlan) in ports.iter_mut().zip(vlans.into_iter().flatten()) {
        port["vlan"] = vlan;
    }
    let config = json!({
        "ports": ports,
        "forwarding": forwarding,
        "classes": [{ "name": "voice" }, { "name": "rest" }],
        "rules": [
            { "class": "voice", "dscp": [46], "protocol": "udp" },
            { "class": "voice", "source": "10.0.0.0/8", "destination_ports": [0, 5000] },
            { "class": "voice", "source": "fe80::/10" },
            { "class": "voice", "pcp": [5, 6, 7] },
        ],
        "measurement": {
            "lda": { "banks": [{ "rows": 64, "probability": 1.0 }] },
            "lds": { "cells": 512, "rows": [1, 1, 1] },
            "flows": { "slots": 512, "select": "all" },
            "rli": { "policy": { "kind": "count", "packets": 3 } },
        },
        "workers": [{ "idle": "sleep" }],
    });
    Config::parse(&config.to_string(), "everything.json").unwrap()
}

/// A patch panel, a bridge, and one between an access port and a trunk.
fn configurations() -> [Config; 3] {
    let bridge = json!({ "mode": "bridge" });
    let vlans = [
        json!({ "mode": "trunk", "native": 7 }),
        json!({ "mode": "trunk", "native": 8 }),
    ];
    [
        everything(
            &json!({ "mode": "patch", "pairs": [["east", "west"]] }),
            None,
        ),
        everything(&bridge, None),
        everything(&bridge, Some(vlans)),
    ]
}

fn captures(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(captures(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn report(captures: usize, refused: &[String], silent: &[String], totals: &Account) {
    println!(
        "refused by libpcap when opened:\n  {}",
        refused.join("\n  ")
    );
    println!(
        "without a frame that libpcap could read:\n  {}",
        silent.join("\n  ")
    );
    println!(
        "{} captures switched by patch panel, by bridge and between trunks: {} frames = {} transmitted + {} dropped",
        captures - refused.len(),
        totals.received,
        totals.transmitted,
        totals.dropped()
    );
    for (reason, drops) in DropReason::ALL.iter().zip(totals.dropped) {
        println!("  {drops:6} {}", reason.label());
    }
}

#[test]
fn every_odd_frame_is_switched_or_dropped_for_a_reason() {
    let Some(folder) = testkit::shared("odd-frames") else {
        return;
    };
    let captures = captures(&folder);
    assert!(captures.len() >= 1000, "{} captures", captures.len());
    let eal = Eal::init(
        "odd_frames",
        &EalOptions {
            memory_mib: 256,
            ..EalOptions::default()
        },
    );
    let eal = eal.unwrap();
    let rate = TickRate::from_hz(eal.tsc_hz());
    let pool = eal.mempool("odd_frames", MBUFS, 256, 2048).unwrap();
    let testbed = Testbed { pool: &pool, rate };
    let sink = testbed.start(&eal, "net_null0,no-rx=1").unwrap();

    let configurations = configurations();
    let (mut refused, mut silent, mut totals) = (Vec::new(), Vec::new(), Account::default());
    // Since DPDK 24.11, the arguments of a device have at most 128 characters.
    let short = tempfile::tempdir().unwrap();
    for (n, capture) in captures.iter().enumerate() {
        let link = short.path().join(n.to_string());
        std::os::unix::fs::symlink(capture, &link).unwrap();
        let device = format!("net_pcap{n},rx_pcap={}", link.display());
        for (round, config) in configurations.iter().enumerate() {
            let port = match testbed.start(&eal, &device) {
                Ok(port) => port,
                Err(why) => {
                    refused.push(format!("{}: {why}", capture.display()));
                    break;
                }
            };
            let account = testbed.switch(&port, &sink, config);
            let name = capture.display();
            assert_eq!(
                account.received,
                port.stats().rx_packets,
                "{name}: as the device counts"
            );
            assert_eq!(
                account.received,
                account.transmitted + account.dropped(),
                "{name}"
            );
            if account.received == 0 && round == 0 {
                silent.push(name.to_string());
            }
            totals.add(&account);
        }
    }
    report(captures.len(), &refused, &silent, &totals);
    let unread = refused.len() + silent.len();
    assert!(
        unread <= 40,
        "libpcap refuses about 17 captures or all of their frames, not {unread}"
    );
    assert!(totals.transmitted > 10_000);
    drop(sink);
    assert_eq!(pool.available(), pool.capacity(), "every buffer came back");
}
