//! Runs over veth: two hosts, two switches, and the box between them.

use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result};
use reporting::statistics::mean;
use serde_json::{Value, json};
use testkit::process::{Background, wait};

use crate::frames::{ETHERTYPE, REFERENCE};
use crate::impair::Rule;
use crate::transits::{self, Fate, Transit};
use crate::wire::attack::{self, Attacker, Refused};
use crate::wire::capture::{Capture, Comparison, compare};
use crate::wire::namespaces::{HOSTS, WIRES};
use crate::wire::report::{Report, Row, mbps, us};
use crate::wire::switch::{Impair, Setting, Switch, both, wire_config};
use crate::wire::traffic::{Load, Traffic};
use crate::wire::truth::{Epochs, Packets};
use crate::wire::verdict::{Verdict, judge};
use crate::wire::watch::{self, Counts, Seen};

/// The box stops forging frames this long before the traffic ends.
const ATTACK_MARGIN: Duration = Duration::from_secs(13);

/// Destination port of control frames of virtual segments.
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
    /// The box's rule for both directions.
    rule: &'static str,
    load: Load,
    /// Whether the box forges control frames from genuine ones, and scapy sends crafted ones.
    is_attacked: bool,
}

const PLAIN: Scenario = impaired("af_packet", "no impairment, net_af_packet", "");

/// A run of the mix over `net_af_packet` through a box with this rule.
const fn impaired(name: &'static str, words: &'static str, rule: &'static str) -> Scenario {
    Scenario {
        name,
        words,
        driver: "net_af_packet",
        is_routed: false,
        rule,
        load: Load::Mix,
        is_attacked: false,
    }
}

/// All runs over veth.
pub const SCENARIOS: [Scenario; 10] = [
    PLAIN,
    Scenario {
        name: "af_xdp",
        words: "no impairment, net_af_xdp",
        driver: "net_af_xdp",
        ..PLAIN
    },
    impaired(
        "jitter",
        "1 ms and 100 us of jitter, in order",
        "delay_us=1000,jitter_us=100",
    ),
    impaired(
        "reordering",
        "1 ms, 5 % overtaken by 3 packets",
        "delay_us=1000,reorder=0.05,reorder_packets=3",
    ),
    impaired("loss-1", "1 ms, 1 % loss", "delay_us=1000,loss=0.01"),
    impaired("loss-5", "1 ms, 5 % loss", "delay_us=1000,loss=0.05"),
    impaired("loss-20", "1 ms, 20 % loss", "delay_us=1000,loss=0.2"),
    Scenario {
        name: "routed",
        words: "a router in the path, virtual segment",
        is_routed: true,
        rule: "hop,dscp=10",
        ..PLAIN
    },
    Scenario {
        name: "idle",
        words: "no attack, TCP at full speed",
        load: Load::Tcp,
        ..PLAIN
    },
    Scenario {
        name: "attack",
        words: "fuzzer and attacker, TCP at full speed",
        load: Load::Tcp,
        is_attacked: true,
        ..PLAIN
    },
];

/// Results of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub name: &'static str,
    pub words: &'static str,
    /// To the right (from a to b), and to the left.
    pub ways: [Way; 2],
    /// Bits per second of TCP.
    pub tcp_bps: Option<f64>,
}

/// One direction of a run.
#[derive(Debug, Clone, Default)]
pub struct Way {
    /// The receiver's reports, compared with the truth.
    pub verdict: Verdict,
    /// Epochs of the receiver by fate, while traffic flowed.
    pub fates: Counts,
    /// Comparison of the hosts' captures, if everything was captured.
    pub compared: Option<Comparison>,
    /// Control frames that reached the receiving host.
    pub leaked: u64,
    /// Comparison of the records of box, switches and hosts.
    pub records: Row,
    /// Traffic on the wire in bits per second, including Ethernet's overhead, counted by the box.
    pub overhead: Row,
    /// Bits of control frames divided by their limit.
    pub control_of_share: f64,
}

/// Unusable epochs with packets.
pub fn lost(fates: &Counts) -> Counts {
    let is_lost = |(fate, _): &&(String, u64)| fate != "usable" && fate != "idle";
    fates.iter().filter(is_lost).cloned().collect()
}

/// All records of a run; the first of two is a's or switch 1's.
struct Records {
    truths: [Epochs; 2],
    transits: Vec<Transit>,
    box_counts: [transits::Counts; 2],
    seen: [Seen; 2],
    captures: [Vec<u8>; 2],
    /// How long the box ran.
    seconds: f64,
}

impl Scenario {
    /// Whether hosts capture everything for a comparison byte for byte. If packets are rewritten, or too many for
    /// tcpdump, they capture only control frames, and there must be none.
    fn is_compared(&self) -> bool {
        !self.is_routed && self.load == Load::Mix
    }

    pub fn run(&self, setting: &Setting, report: &mut Report) -> Result<()> {
        let folder = &setting.folder;
        let duration = match self.load {
            Load::Mix => setting.flow_duration,
            Load::Tcp => setting.attack_duration,
        };
        let impair = self.start_box(setting)?;
        let began = Instant::now();
        let configs = [0, 1].map(|index| self.config(index));
        let mut switches = Switch::start_both(folder, configs, true)?;
        Switch::wait_for_sessions(&mut switches)?;
        // The first epochs of a session are incomplete.
        wait(Duration::from_secs(1))?;
        let filter = if self.is_compared() {
            String::new()
        } else {
            format!("ether proto {ETHERTYPE} or udp port {UDP_PORT}")
        };
        let captures = both(HOSTS, |host| Capture::begin(&host, &filter, folder))?;
        let watches = switches.each_ref().map(|one| watch::begin(&one.client));
        let traffic = Traffic::begin(self.load, duration, folder)?;
        let attacker = self.is_attacked.then(|| Attacker::begin(folder, duration));
        let attacker = attacker.transpose()?;
        let tcp_bps = traffic.end(duration)?;
        let sent = attacker.map(Attacker::end).transpose()?;
        // The last epochs' fragments are still on their way.
        wait(Duration::from_millis(500))?;
        let seen = both(watches, Background::end)?;
        let truths = Switch::join(switches)?;
        let truths = truths.context("a switch's record is not complete")?;
        // No more packets pass, so the second capture has everything that the first has.
        let captures = both(captures, Capture::end)?;
        let seconds = began.elapsed().as_secs_f64();
        let (transits, summary) = impair.end()?;
        let records = Records {
            truths,
            transits,
            box_counts: summary.ways,
            seen,
            captures,
            seconds,
        };
        let ways = both([0, 1], |from| self.way(&records, from))?;
        let attack = sent.map(|sent| attack::Outcome {
            made_up: records.box_counts[0].made_up_passed,
            sent,
            at: records.seen.each_ref().map(Refused::during),
            epochs_lost: ways.each_ref().map(|way| lost(&way.fates)),
        });
        report.add(Outcome {
            name: self.name,
            words: self.words,
            ways,
            tcp_bps,
        });
        if let Some(attack) = attack {
            attack.add_to(report);
        }
        Ok(())
    }

    fn start_box(&self, setting: &Setting) -> Result<Impair> {
        let mut arguments = Vec::new();
        if self.is_routed {
            // Each host's frames leave with the router's address, and go to the other host.
            for (way, to) in [("--to-right", 1), ("--to-left", 0)] {
                let (rule, from, to) = (self.rule, router_mac(to), HOSTS[to].mac()?);
                arguments.push(format!(
                    "{way}={rule},source_mac={from},destination_mac={to}"
                ));
            }
        } else {
            arguments.push(format!("--both={}", self.rule));
        }
        if self.is_attacked {
            // After the session has begun and the attacker has received only genuine frames, and ending early enough
            // for each to be counted.
            let seconds = setting.attack_duration.saturating_sub(ATTACK_MARGIN);
            let seconds = seconds.as_secs();
            arguments.extend([
                "--made-up-right=1000".to_owned(),
                "--made-up-after=10".to_owned(),
                format!("--made-up-for={seconds}"),
            ]);
        }
        let devices = WIRES.map(|(_, of_box)| format!("af_packet:{of_box}"));
        Impair::start(&setting.folder, devices, &arguments)
    }

    /// The configuration of switch 1 (index 0) or 2.
    fn config(&self, index: usize) -> Value {
        let driver = self.driver;
        let keys = match driver {
            "net_af_packet" => "framecnt=2048",
            _ => "start_queue=0,queue_count=1",
        };
        let device = |name, interface| format!("{driver}_{name},iface={interface},{keys}");
        let mut wire = json!({ "capacity_bps": VETH_BPS });
        if self.is_routed {
            wire["peer"] = json!({
                "local": format!("10.9.1.{}", index + 1),
                "remote": format!("10.9.1.{}", 2 - index),
                "gateway": router_mac(index),
            });
        }
        let (lan, trunk) = (HOSTS[index].lan, WIRES[index].0);
        wire_config(index, &device("lan", lan), &device("trunk", trunk), wire)
    }

    /// Results of the direction from switch 1 (`from` is 0) or 2.
    fn way(&self, records: &Records, from: usize) -> Result<Way> {
        let (captures, seen) = (&records.captures, &records.seen[1 - from]);
        let epochs = &records.truths[from];
        let loss = self.rule.parse::<Rule>().map_err(Error::msg)?.loss;
        let compared = compare(&captures[from], &captures[1 - from], HOSTS[from].mac()?)?;
        let of_all = self.is_compared().then_some(compared);
        let (overhead, control_of_share) = overhead(records, from)?;
        Ok(Way {
            verdict: judge(epochs, seen, loss),
            fates: seen.fates(),
            compared: of_all,
            leaked: compared.control,
            records: agreement(epochs, &records.transits, from, of_all),
            overhead,
            control_of_share,
        })
    }
}

/// The router's address towards switch 1 (index 0) or 2.
fn router_mac(index: usize) -> String {
    format!("02:00:00:00:0{}:fe", index + 1)
}

/// Data packets according to the box and to the switches; the difference of delays is due to the interfaces.
fn agreement(epochs: &Epochs, transits: &[Transit], from: usize, hosts: Option<Comparison>) -> Row {
    let data = || {
        let of_way = transits.iter();
        of_way.filter(move |one| usize::from(one.direction) == from && one.kind == 0)
    };
    let packets = || epochs.values().map(|truth| &truth.packets);
    let box_lost = data().filter(|transit| transit.fate == Fate::Lost).count();
    let switches_lost: u64 = packets().map(Packets::lost).sum();
    let switches_reordered: u64 = epochs.values().map(|truth| truth.reordered).sum();
    let sum_ns: i128 = packets().map(|packets| packets.sum_ns).sum();
    let count: u64 = packets().map(|packets| packets.received).sum();
    let of_hosts = |count: fn(Comparison) -> u64| {
        let count = hosts.map(|compared| count(compared).to_string());
        count.unwrap_or_default()
    };
    vec![
        ("lost by the box", box_lost.to_string()),
        ("missed by switch", switches_lost.to_string()),
        ("reordered by the box", overtaken(data()).to_string()),
        ("seen by switches", switches_reordered.to_string()),
        (
            "delay in the box, us",
            us(mean(
                data().filter_map(Transit::delay_ns).map(|ns| ns as f64),
            )),
        ),
        (
            "between switches, us",
            us(sum_ns as f64 / count.max(1) as f64),
        ),
        ("frames sent by the host", of_hosts(|of| of.sent)),
        ("received", of_hosts(|of| of.received)),
        ("changed", of_hosts(|of| of.changed)),
    ]
}

/// Packets that left after a packet that had arrived later.
fn overtaken<'t>(transits: impl Iterator<Item = &'t Transit>) -> usize {
    let passed = transits.filter(|transit| transit.fate == Fate::Passed);
    let mut order: Vec<_> = passed.map(|one| (one.left, one.arrived)).collect();
    order.sort_unstable();
    let mut latest = 0;
    let is_late = |(_, arrived): &&(u32, u32)| {
        latest = latest.max(*arrived);
        latest > *arrived
    };
    order.iter().filter(is_late).count()
}

/// Traffic on the wire, and bits of control frames divided by their limit.
fn overhead(records: &Records, from: usize) -> Result<(Row, f64)> {
    let counts = &records.box_counts[from];
    let bps = |bytes: u64| bytes as f64 * 8.0 / records.seconds;
    let frames = counts.passed_by_kind.iter();
    let kinds = frames.zip(&counts.passed_bytes_by_kind);
    let kinds = kinds.map(|(frames, bytes)| bps(bytes + frames * LINK_OVERHEAD_BYTES));
    let kinds: Vec<_> = kinds.collect();
    let control_bps: f64 = kinds.iter().skip(1).sum();
    let wire = records.seen[from].last()?;
    let row = vec![
        ("data, Mbit/s", mbps(kinds[0])),
        ("control, Mbit/s", mbps(control_bps)),
        ("references, Mbit/s", mbps(kinds[usize::from(REFERENCE)])),
        ("may take, Mbit/s", mbps(wire.share_bps)),
        (
            "by the switch's count, Mbit/s",
            mbps(bps(wire.total.sent_bytes)),
        ),
        (
            "references withheld",
            wire.total.references_withheld.to_string(),
        ),
    ];
    Ok((row, control_bps / wire.share_bps))
}
