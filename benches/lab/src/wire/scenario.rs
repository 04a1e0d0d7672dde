//! Runs over veth: two hosts, two switches, and the box between them.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use reporting::statistics::mean;
use serde_json::json;
use testkit::process::wait;

use crate::frames::{ETHERTYPE, REFERENCE};
use crate::transits::{self, Fate, Transit};
use crate::wire::attack::{self, Attacker, Refused};
use crate::wire::capture::{Capture, Comparison, compare};
use crate::wire::namespaces::{HOSTS, Host, WIRES};
use crate::wire::switch::{
    BANKS, FLOW_SLOTS, INTERVAL_MS, Impair, Plan, Setting, Switch, TRUNK, both, hasher,
};
use crate::wire::traffic::{Load, Traffic};
use crate::wire::truth::{Joined, Stamp, Truth};
use crate::wire::verdict::{Verdict, judge};
use crate::wire::watch::{self, Counts, Seen, Watch};

/// Frames made up by the box stop this long before the traffic beside them.
const ATTACK_MARGIN: Duration = Duration::from_secs(13);

/// Port that control frames of virtual segments are sent to.
const UDP_PORT: u16 = 34_997;

/// Capacity of veth wires, as far as control frames are concerned.
const VETH_BPS: u64 = 1_000_000_000;

/// Preamble, frame check sequence and gap of an Ethernet frame.
const LINK_OVERHEAD_BYTES: u64 = 24;

/// A run over veth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scenario {
    /// Name on the command line.
    pub name: &'static str,
    /// Name in tables.
    pub words: &'static str,
    /// The switches' driver.
    driver: &'static str,
    /// Whether a router is between the switches: control frames are UDP instead of an `EtherType` of their own.
    is_routed: bool,
    /// What the box does, both ways.
    rule: &'static str,
    /// The probability with which it loses a frame.
    loss: f64,
    load: Load,
    /// Whether the box makes up control frames from genuine ones, and scapy sends hand-made ones.
    is_attacked: bool,
    /// Whether hosts capture everything, to be compared byte for byte; else control frames only, and there must be none:
    /// where packets are rewritten on purpose, or are too many for tcpdump.
    is_compared: bool,
}

const PLAIN: Scenario = Scenario {
    name: "af_packet",
    words: "no impairment, net_af_packet",
    driver: "net_af_packet",
    is_routed: false,
    rule: "",
    loss: 0.0,
    load: Load::Mix,
    is_attacked: false,
    is_compared: true,
};

/// All runs over veth.
pub const SCENARIOS: [Scenario; 10] = [
    PLAIN,
    Scenario {
        name: "af_xdp",
        words: "no impairment, net_af_xdp",
        driver: "net_af_xdp",
        ..PLAIN
    },
    Scenario {
        name: "jitter",
        words: "1 ms and 100 us of jitter, in order",
        rule: "delay_us=1000,jitter_us=100",
        ..PLAIN
    },
    Scenario {
        name: "reordering",
        words: "1 ms, 5 % overtaken by 3 packets",
        rule: "delay_us=1000,reorder=0.05,reorder_packets=3",
        ..PLAIN
    },
    Scenario {
        name: "loss-1",
        words: "1 ms, 1 % loss",
        rule: "delay_us=1000,loss=0.01",
        loss: 0.01,
        ..PLAIN
    },
    Scenario {
        name: "loss-5",
        words: "1 ms, 5 % loss",
        rule: "delay_us=1000,loss=0.05",
        loss: 0.05,
        ..PLAIN
    },
    Scenario {
        name: "loss-20",
        words: "1 ms, 20 % loss",
        rule: "delay_us=1000,loss=0.2",
        loss: 0.2,
        ..PLAIN
    },
    Scenario {
        name: "routed",
        words: "a router in the path, virtual segment",
        is_routed: true,
        rule: "hop,dscp=10",
        is_compared: false,
        ..PLAIN
    },
    Scenario {
        name: "idle",
        words: "no attack, TCP at full speed",
        load: Load::Tcp,
        is_compared: false,
        ..PLAIN
    },
    Scenario {
        name: "attack",
        words: "fuzzer and attacker, TCP at full speed",
        load: Load::Tcp,
        is_attacked: true,
        is_compared: false,
        ..PLAIN
    },
];

/// What came of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub name: &'static str,
    pub words: &'static str,
    /// To the right (from a to b), and to the left.
    pub ways: [Way; 2],
    /// Bits a second that TCP carried.
    pub tcp_bps: Option<f64>,
    /// What the attackers did, and what the switches made of it.
    pub attack: Option<attack::Outcome>,
}

/// One direction of a run.
#[derive(Debug, Clone, Default)]
pub struct Way {
    /// What the receiver reported, compared with what happened.
    pub verdict: Verdict,
    /// Epochs of the receiver by fate, while traffic flowed.
    pub fates: Counts,
    /// What hosts saw, where everything was captured.
    pub compared: Option<Comparison>,
    /// Control frames that reached the receiving host.
    pub leaked: u64,
    /// How the box's record and the switches' agree.
    pub check: CrossCheck,
    /// Control frames on the wire.
    pub overhead: Overhead,
}

/// How two independent records agree.
#[derive(Debug, Clone, Copy, Default)]
pub struct CrossCheck {
    /// Data packets that the box lost on purpose.
    pub box_lost: u64,
    /// Data packets that the first switch sent and the second never saw.
    pub switches_lost: u64,
    /// Data packets that left the box behind one that had come later.
    pub box_reordered: u64,
    /// Data packets that came to the second switch behind one that the first sent later.
    pub switches_reordered: u64,
    /// Mean delay in the box, ns.
    pub box_delay_ns: f64,
    /// Mean delay between the switches, ns; the difference is the cost of interfaces.
    pub switches_delay_ns: f64,
}

/// Traffic on the wire in bits a second with all that Ethernet adds, counted by the box.
#[derive(Debug, Clone, Default)]
pub struct Overhead {
    pub control_bps: f64,
    /// References among them.
    pub reference_bps: f64,
    pub data_bps: f64,
    /// What control frames may take.
    pub share_bps: f64,
    /// Control frames by the switch's own count.
    pub exported_bps: f64,
    /// References that the switch withheld.
    pub withheld: u64,
}

/// Epochs that had packets and are not usable.
pub fn lost(fates: &Counts) -> Counts {
    let is_lost = |(fate, _): &&(String, u64)| fate != "usable" && fate != "idle";
    fates.iter().filter(is_lost).cloned().collect()
}

/// All records of a run; the first of two is a's or switch 1's.
struct Records {
    stamps: [Vec<Stamp>; 2],
    transits: Vec<Transit>,
    box_counts: [transits::Counts; 2],
    seen: [Seen; 2],
    captures: [Vec<u8>; 2],
    /// How long the box was there.
    seconds: f64,
}

pub fn run(scenario: &Scenario, setting: &Setting<'_>) -> Result<Outcome> {
    let folder = setting.folder_of(scenario.name)?;
    let stop = setting.stop;
    let duration = match scenario.load {
        Load::Mix => setting.flow_duration,
        Load::Tcp => setting.attack_duration,
    };
    let impair = start_box(scenario, setting, &folder)?;
    let began = Instant::now();
    let plans = [0, 1].map(|index| plan(scenario, index));
    let mut switches = Switch::start_both(setting, &folder, &plans)?;
    Switch::wait_for_sessions(&mut switches, stop)?;
    // The first epochs of a session are not whole.
    wait(Duration::from_secs(1), stop)?;
    let filter = if scenario.is_compared {
        String::new()
    } else {
        format!("ether proto {ETHERTYPE} or udp port {UDP_PORT}")
    };
    let captures = both(HOSTS, |host| Capture::begin(&host, &filter, &folder, stop))?;
    let watches = switches.each_ref().map(|one| Watch::begin(&one.client));
    let traffic = Traffic::begin(scenario.load, duration, stop)?;
    let attacker = scenario
        .is_attacked
        .then(|| Attacker::begin(&folder, duration));
    let attacker = attacker.transpose()?;
    let tcp_bps = traffic.end(duration, stop)?;
    let sent = attacker.map(|attacker| attacker.end(stop)).transpose()?;
    // The last epochs' fragments are still on their way.
    wait(Duration::from_millis(500), stop)?;
    let seen = both(watches, Watch::end)?;
    let stamps = both(switches, |switch| {
        let stamps = switch.end(stop)?;
        stamps.context("a switch's record is not complete")
    })?;
    // No packet passes any more: the second capture to end has all that the first has.
    let captures = both(captures, |capture| capture.end(stop))?;
    let seconds = began.elapsed().as_secs_f64();
    let (transits, summary) = impair.end(stop)?;
    let records = Records {
        stamps,
        transits,
        box_counts: summary.ways,
        seen,
        captures,
        seconds,
    };
    let ways = both([0, 1], |from| way(scenario, &records, from))?;
    let attack = sent.map(|sent| attack::Outcome {
        made_up: records.box_counts[0].made_up_passed,
        sent,
        at: records.seen.each_ref().map(Refused::during),
        epochs_lost: ways.each_ref().map(|way| lost(&way.fates)),
    });
    Ok(Outcome {
        name: scenario.name,
        words: scenario.words,
        ways,
        tcp_bps,
        attack,
    })
}

fn start_box(scenario: &Scenario, setting: &Setting<'_>, folder: &Path) -> Result<Impair> {
    let mut arguments = Vec::new();
    if scenario.is_routed {
        // Each host's frames come out with the router's address, and go to the other host.
        for (way, to) in [("--to-right", 1), ("--to-left", 0)] {
            let (rule, from, to) = (scenario.rule, router_mac(to), HOSTS[to].mac()?);
            arguments.push(format!(
                "{way}={rule},source_mac={from},destination_mac={to}"
            ));
        }
    } else if !scenario.rule.is_empty() {
        arguments.push(format!("--both={}", scenario.rule));
    }
    if scenario.is_attacked {
        // After the session has begun and the attacker has heard genuine frames alone, and not to the very
        // end, so that each is counted.
        let seconds = setting.attack_duration.saturating_sub(ATTACK_MARGIN);
        let seconds = seconds.as_secs();
        arguments.extend([
            "--made-up-right=1000".to_owned(),
            "--made-up-after=10".to_owned(),
            format!("--made-up-for={seconds}"),
        ]);
    }
    let devices = WIRES.map(|(_, of_box)| format!("af_packet:{of_box}"));
    Impair::start(setting, folder, devices, &arguments)
}

/// The router's address towards switch 1 (index 0) or 2.
fn router_mac(index: usize) -> String {
    format!("02:00:00:00:0{}:fe", index + 1)
}

/// The plan of switch 1 (index 0) or 2.
fn plan(scenario: &Scenario, index: usize) -> Plan {
    let host: &Host = &HOSTS[index];
    let (wire, _) = WIRES[index];
    let driver = scenario.driver;
    let keys = match driver {
        "net_af_packet" => "framecnt=2048",
        _ => "start_queue=0,queue_count=1",
    };
    let device = |name, interface| format!("{driver}_{name},iface={interface},{keys}");
    let mut wire_keys = json!({ "capacity_bps": VETH_BPS });
    if scenario.is_routed {
        wire_keys["peer"] = json!({
            "local": format!("10.9.1.{}", index + 1),
            "remote": format!("10.9.1.{}", 2 - index),
            "gateway": router_mac(index),
        });
    }
    Plan {
        lan: device("lan", host.lan),
        wire: device("trunk", wire),
        wire_keys,
        interval_ms: INTERVAL_MS,
        flow_slots: FLOW_SLOTS,
        core: None,
        is_recorded: true,
    }
}

/// What came of the direction from switch 1 (`from` is 0) or 2.
fn way(scenario: &Scenario, records: &Records, from: usize) -> Result<Way> {
    let Records {
        stamps,
        seen,
        captures,
        ..
    } = records;
    let to = 1 - from;
    let joined = Joined::new(&stamps[from], TRUNK, &stamps[to], TRUNK);
    let incoming = watch::incoming(seen[to].last()?);
    let class = incoming.map_or("all", |segment| &segment.class);
    let verdict = judge(
        &joined,
        (0, class),
        &seen[to],
        &BANKS,
        scenario.loss,
        &hasher(),
    );
    let compared = compare(&captures[from], &captures[to], &HOSTS[from].mac()?)?;
    Ok(Way {
        verdict,
        fates: seen[to].fates(),
        compared: scenario.is_compared.then_some(compared),
        leaked: compared.control,
        check: cross_check(&joined, &records.transits, from),
        overhead: overhead(records, from)?,
    })
}

fn cross_check(joined: &Joined, transits: &[Transit], from: usize) -> CrossCheck {
    let data = || {
        let of_way = transits.iter();
        let of_way = of_way.filter(move |transit| usize::from(transit.direction) == from);
        of_way.filter(|transit| transit.kind == 0)
    };
    let epochs = || joined.epochs.values();
    let sum_ns: i128 = epochs().map(|truth| truth.delays.sum_ns).sum();
    let count: u64 = epochs().map(|truth| truth.delays.count).sum();
    CrossCheck {
        box_lost: data().filter(|transit| transit.fate == Fate::Lost).count() as u64,
        switches_lost: epochs().map(Truth::lost).sum(),
        box_reordered: overtaken(data()),
        switches_reordered: epochs().map(|truth| truth.reordered).sum(),
        box_delay_ns: mean(data().filter_map(Transit::delay_ns).map(|ns| ns as f64)),
        switches_delay_ns: sum_ns as f64 / count.max(1) as f64,
    }
}

/// Packets that left behind one that had come later.
fn overtaken<'t>(transits: impl Iterator<Item = &'t Transit>) -> u64 {
    let passed = transits.filter(|transit| transit.fate == Fate::Passed);
    let mut order: Vec<_> = passed.map(|one| (one.left, one.arrived)).collect();
    order.sort_unstable();
    let mut latest = 0;
    let mut count = 0;
    for (_, arrived) in order {
        count += u64::from(arrived < latest);
        latest = latest.max(arrived);
    }
    count
}

fn overhead(records: &Records, from: usize) -> Result<Overhead> {
    let counts = &records.box_counts[from];
    let by_kind = counts.passed_by_kind.iter();
    let by_kind = by_kind.zip(&counts.passed_bytes_by_kind);
    let bps = |bytes: u64| bytes as f64 * 8.0 / records.seconds;
    let kinds = by_kind.map(|(frames, bytes)| bps(bytes + frames * LINK_OVERHEAD_BYTES));
    let kinds: Vec<_> = kinds.collect();
    let wire = records.seen[from].last()?;
    Ok(Overhead {
        control_bps: kinds.iter().skip(1).sum(),
        reference_bps: kinds[usize::from(REFERENCE)],
        data_bps: kinds[0],
        share_bps: wire.share_bps,
        exported_bps: bps(wire.total.sent_bytes),
        withheld: wire.total.references_withheld,
    })
}
