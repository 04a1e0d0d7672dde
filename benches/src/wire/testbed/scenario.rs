//! One run of the testbed.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use measure::packet::Hasher;
use serde::Deserialize;
use serde_json::{Value, json};

use super::captures::{self, Capture};
use super::nodes::{BANKS, BoxSummary, HASH_SEED, Impair, Plan, Switch};
use super::outcome::{AttackOutcome, CrossCheck, Outcome, Overhead, Refused, Way};
use super::spaces::{HOSTS, Host, WIRES};
use super::verdict::{judge, mean};
use super::views::{Seen, Watch};
use crate::throughput::process::{Owned, PATIENCE, until, wait};
use crate::wire::frames::ETHERTYPE;
use crate::wire::passages::{self, Fate, Passage};
use crate::wire::stamps;
use crate::wire::truth::{Joined, Truth};

/// Index of the wire port of each switch.
const TRUNK: u8 = 1;

/// Attacks last so much less than the traffic beside them.
const ATTACK_MARGIN: Duration = Duration::from_secs(13);

/// Where control frames of virtual segments go.
const UDP_PORT: u16 = 34_997;

/// Capacity of veth wires, as far as control frames are concerned.
const VETH_BPS: u64 = 1_000_000_000;

/// Preamble, frame check sequence and gap of an Ethernet frame.
const LINK_OVERHEAD_BYTES: u64 = 24;

/// How switches are attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attached {
    /// `net_af_packet` over veth.
    AfPacket,
    /// `net_af_xdp` over veth.
    AfXdp,
}

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// A mix of UDP flows both ways, some TCP, and ping.
    Mix,
    /// As much TCP as goes, beside a thin mix.
    Tcp,
}

/// Who attacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attack {
    /// Nobody.
    None,
    /// The box makes up control frames from true ones, and scapy throws hand-made ones.
    Both,
}

/// What hosts capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Captured {
    /// Everything, to be compared byte for byte.
    All,
    /// Control frames only; there should be none: where packets are rewritten on purpose, or
    /// are more than tcpdump can take.
    Control,
}

/// A run over veth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// In words.
    pub words: &'static str,
    /// How switches are attached.
    pub attached: Attached,
    /// A router in the path, and UDP instead of an `EtherType` of their own.
    pub is_routed: bool,
    /// What the box does, both ways.
    pub rule: &'static str,
    /// What it loses of every frame.
    pub loss: f64,
    /// What is sent.
    pub load: Load,
    /// Who attacks.
    pub attack: Attack,
    /// What hosts capture, to be compared.
    pub captured: Captured,
}

const PLAIN: Scenario = Scenario {
    name: "af_packet",
    words: "no impairment, net_af_packet",
    attached: Attached::AfPacket,
    is_routed: false,
    rule: "",
    loss: 0.0,
    load: Load::Mix,
    attack: Attack::None,
    captured: Captured::All,
};

/// All runs over veth.
pub const SCENARIOS: [Scenario; 10] = [
    PLAIN,
    Scenario {
        name: "af_xdp",
        words: "no impairment, net_af_xdp",
        attached: Attached::AfXdp,
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
        captured: Captured::Control,
        ..PLAIN
    },
    Scenario {
        name: "idle",
        words: "nobody attacks, TCP at full speed",
        load: Load::Tcp,
        captured: Captured::Control,
        ..PLAIN
    },
    Scenario {
        name: "attack",
        words: "fuzzer and attacker, TCP at full speed",
        load: Load::Tcp,
        attack: Attack::Both,
        captured: Captured::Control,
        ..PLAIN
    },
];

/// What runs have in common.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'a> {
    /// The switch.
    pub vernierd: &'a Path,
    /// The box.
    pub impair: &'a Path,
    /// The attacker's script.
    pub attacker: &'a Path,
    /// How long traffic flows.
    pub duration: Duration,
    /// How long attacks go on, and the run beside them.
    pub attack_duration: Duration,
    /// Where files of failed runs are left; none: nowhere.
    pub folder: &'a Path,
    /// Set when the user has had enough.
    pub stop: &'a AtomicBool,
}

/// Epochs that packets were in and that came to nothing.
pub(super) fn lost(fates: &[(String, u64)]) -> Vec<(String, u64)> {
    let harmless = ["usable", "idle"];
    let lost = fates
        .iter()
        .filter(|(fate, _)| !harmless.contains(&fate.as_str()));
    lost.cloned().collect()
}

/// Runs a scenario.
///
/// # Errors
/// When something does not start, or fails.
pub fn run(scenario: &Scenario, setting: &Setting<'_>) -> Result<Outcome> {
    let folder = setting.folder.join(scenario.name);
    fs::create_dir_all(&folder).context("no folder for its files")?;
    let stop = setting.stop;
    let duration = match scenario.load {
        Load::Mix => setting.duration,
        Load::Tcp => setting.attack_duration,
    };
    let impair = start_box(scenario, setting, &folder)?;
    let began = Instant::now();
    let mut switches = Vec::new();
    for number in [1, 2] {
        let plan = plan(scenario, number);
        switches.push(Switch::start(setting.vernierd, &folder, &plan, stop)?);
    }
    for switch in &mut switches {
        switch.wait_for_session(stop)?;
    }
    // The first epochs of a session are not whole.
    wait(Duration::from_secs(1), stop)?;
    let filter = match scenario.captured {
        Captured::All => String::new(),
        Captured::Control => format!("ether proto {ETHERTYPE} or udp port {UDP_PORT}"),
    };
    let captures = HOSTS
        .iter()
        .map(|host| Capture::begin(host, &filter, &folder, stop));
    let captures: Vec<_> = captures.collect::<Result<_>>()?;
    let watches: Vec<_> = switches
        .iter()
        .map(|one| Watch::begin(one.address))
        .collect();
    let traffic = Traffic::begin(scenario.load, duration, stop)?;
    let attacker = match scenario.attack {
        Attack::None => None,
        Attack::Both => Some(Attacker::begin(setting, &folder, duration)?),
    };
    let tcp_bps = traffic.end(duration, stop)?;
    let thrown = attacker.map(|attacker| attacker.end(stop)).transpose()?;
    // The last epochs' fragments are still on their way.
    wait(Duration::from_millis(500), stop)?;
    let seen: Vec<_> = watches.into_iter().map(Watch::end).collect();
    let mut ended = Vec::new();
    for switch in switches {
        ended.push(switch.end(stop)?);
    }
    // Nothing passes any more: what comes to the host that is captured last was captured at the other one.
    let frames = captures.into_iter().map(|capture| capture.end(stop));
    let frames: Vec<_> = frames.collect::<Result<_>>()?;
    let seconds = began.elapsed().as_secs_f64();
    let (passages, summary) = impair.end(stop)?;
    ensure!(
        ended.iter().all(|ended| ended.is_complete),
        "a switch's record is not complete"
    );
    let stamps: Vec<_> = ended
        .iter()
        .map(|ended| stamps::read(&ended.stamps).context("no stamps"))
        .collect::<Result<_>>()?;
    let passages = passages::read(&passages).context("no passages")?;
    let hasher = hasher();
    let mut ways: [Way; 2] = Default::default();
    for (way, number) in ways.iter_mut().zip(0_u8..) {
        let from = usize::from(number);
        let to = 1 - from;
        let joined = Joined::new(&stamps[from], TRUNK, &stamps[to], TRUNK);
        let wire = seen[to].last.wires.first().cloned().unwrap_or_default();
        let incoming = wire.segments.iter().find(|segment| segment.is_incoming);
        let class = incoming.map_or("all", |segment| segment.class.as_str());
        way.verdict = judge(
            &joined,
            (0, class),
            &seen[to],
            &BANKS,
            scenario.loss,
            &hasher,
        );
        way.fates = seen[to].fates();
        way.cross_check = cross_check(&joined, &passages, number);
        way.overhead = overhead(&summary, from, seconds, &seen[from]);
        if let [a, b] = frames.as_slice() {
            let (sender, receiver) = if from == 0 { (a, b) } else { (b, a) };
            let compared = captures::compare(sender, receiver, &HOSTS[from].mac()?)?;
            way.leaked = compared.control;
            way.compared = (scenario.captured == Captured::All).then(|| compared.into());
        }
    }
    let attack = thrown.map(|thrown| {
        let [at_1, at_2] = [0, 1].map(|switch| Refused::by(&seen[switch]));
        AttackOutcome {
            made_up: summary.ways[0].made_up_passed,
            thrown,
            at_1,
            at_2,
            epochs_lost: ways.each_ref().map(|way| lost(&way.fates)),
        }
    });
    Ok(Outcome {
        name: scenario.name.to_owned(),
        words: scenario.words.to_owned(),
        ways,
        tcp_bps,
        attack,
    })
}

/// The hash of all nodes here.
pub fn hasher() -> Hasher {
    let seed = u128::from_str_radix(HASH_SEED, 16).unwrap_or_default();
    Hasher::new(seed.to_be_bytes())
}

fn start_box(scenario: &Scenario, setting: &Setting<'_>, folder: &Path) -> Result<Impair> {
    let mut arguments: Vec<String> = Vec::new();
    if scenario.is_routed {
        // Each host's frames come out with the router's address, and go to the other host.
        for (way, to) in ["--to-right", "--to-left"].into_iter().zip([1, 0]) {
            let host: &Host = &HOSTS[to];
            let rule = format!(
                "{},source_mac={},destination_mac={}",
                scenario.rule,
                router_mac(to),
                host.mac()?
            );
            arguments.extend([way.to_owned(), rule]);
        }
    } else if !scenario.rule.is_empty() {
        arguments.extend(["--both".to_owned(), scenario.rule.to_owned()]);
    }
    if scenario.attack == Attack::Both {
        // After the session has begun and the attacker has heard true frames alone, and not to the very
        // end, so that each is counted.
        let seconds = setting.attack_duration.saturating_sub(ATTACK_MARGIN);
        let seconds = seconds.as_secs().to_string();
        let made_up = [
            "--made-up-right",
            "1000",
            "--made-up-after",
            "10",
            "--made-up-for",
            &seconds,
        ];
        arguments.extend(made_up.map(str::to_owned));
    }
    let [left, right] = WIRES.map(|(_, of_box)| format!("af_packet:{of_box}"));
    Impair::start(
        setting.impair,
        folder,
        [&left, &right],
        &arguments,
        setting.stop,
    )
}

/// The router's address towards switch 1 or 2.
fn router_mac(side: usize) -> String {
    format!("02:00:00:00:0{}:fe", side + 1)
}

fn plan(scenario: &Scenario, number: u16) -> Plan {
    let at = usize::from(number) - 1;
    let host: &Host = &HOSTS[at];
    let (wire, _) = WIRES[at];
    let device = |name: &str, interface: &str| match scenario.attached {
        Attached::AfPacket => format!("net_af_packet_{name},iface={interface},framecnt=2048"),
        Attached::AfXdp => {
            format!("net_af_xdp_{name},iface={interface},start_queue=0,queue_count=1")
        }
    };
    let mut extra = json!({ "capacity_bps": VETH_BPS });
    if scenario.is_routed {
        let address = |number: usize| format!("10.9.1.{number}");
        extra["peer"] = json!({
            "local": address(at + 1),
            "remote": address(2 - at),
            "gateway": router_mac(at),
        });
    }
    Plan {
        number,
        lan: device("lan", host.lan),
        wire: device("trunk", wire),
        extra,
        core: None,
        sleeps: true,
        is_recorded: true,
    }
}

/// Processes that send and receive.
struct Traffic {
    sinks: Vec<Owned>,
    senders: Vec<Owned>,
    iperf: Owned,
}

impl Traffic {
    fn begin(load: Load, duration: Duration, stop: &AtomicBool) -> Result<Self> {
        let own = std::env::current_exe().context("cannot tell where this program is")?;
        let own = own.to_string_lossy();
        let quiet = |command: &mut Command| {
            Owned::start(command.stdin(Stdio::null()).stdout(Stdio::null()))
        };
        let [a, b] = &HOSTS;
        let mut sinks = Vec::new();
        for host in &HOSTS {
            sinks.push(quiet(host.command(&own).args(["wire-sink", host.address]))?);
        }
        sinks.push(quiet(b.command("iperf3").args(["-s", "-B", b.address]))?);
        until(PATIENCE, stop, "iperf3 does not listen", || {
            let sockets = b.command("ss").arg("-ltn").output()?;
            let sockets = String::from_utf8_lossy(&sockets.stdout).contains(":5201");
            Ok(sockets.then_some(()))
        })?;
        let seconds = duration.as_secs().to_string();
        let [pps, tcp] = match load {
            Load::Mix => [["8000", "4000"], ["-b", "40M"]],
            Load::Tcp => [["1000", "1000"], ["-b", "0"]],
        };
        let mut senders = Vec::new();
        for ((host, to), pps) in [(a, b), (b, a)].into_iter().zip(pps) {
            let mix = [
                "wire-mix",
                host.address,
                to.address,
                "--for-seconds",
                &seconds,
                "--pps",
                pps,
            ];
            senders.push(quiet(host.command(&own).args(mix))?);
        }
        let ping = ["-q", "-i", "0.02", "-w", &seconds, b.address];
        senders.push(quiet(a.command("ping").args(ping))?);
        let iperf = [
            "-c",
            b.address,
            "-J",
            "--connect-timeout",
            "5000",
            "-t",
            &seconds,
        ];
        let iperf = Owned::start(
            a.command("iperf3")
                .args(iperf)
                .args(tcp)
                .stdin(Stdio::null())
                .stdout(Stdio::piped()),
        )?;
        Ok(Self {
            sinks,
            senders,
            iperf,
        })
    }

    /// Waits for its end; what TCP brought over, if it did not give up.
    fn end(mut self, duration: Duration, stop: &AtomicBool) -> Result<Option<f64>> {
        wait(duration, stop)?;
        let mut said = String::new();
        if let Some(mut out) = self.iperf.0.stdout.take() {
            // It ends by itself, or gives up.
            let reader = std::thread::spawn(move || {
                let mut text = String::new();
                std::io::Read::read_to_string(&mut out, &mut text).map(|_| text)
            });
            let patience = Instant::now() + Duration::from_secs(15);
            while !reader.is_finished() && Instant::now() < patience {
                wait(Duration::from_millis(50), stop)?;
            }
            if reader.is_finished() {
                said = reader.join().ok().and_then(Result::ok).unwrap_or_default();
            }
        }
        drop((self.senders, self.sinks, self.iperf));
        let said: Value = serde_json::from_str(&said).unwrap_or_default();
        Ok(said["end"]["sum_received"]["bits_per_second"].as_f64())
    }
}

/// The hand-made attacker.
struct Attacker {
    process: Owned,
    counts: PathBuf,
    log: PathBuf,
}

/// What its script says at the end.
#[derive(Debug, Deserialize)]
struct Thrown {
    thrown: HashMap<String, u64>,
}

impl Attacker {
    fn begin(setting: &Setting<'_>, folder: &Path, duration: Duration) -> Result<Self> {
        let (counts, log) = (folder.join("attack.json"), folder.join("attack.log"));
        let (victim, thrower) = WIRES[1];
        // Debian's own Python has Debian's scapy.
        let mut command = Command::new("/usr/bin/python3");
        command
            .arg(setting.attacker)
            .args(["--interface", thrower, "--victim", victim])
            .args([
                "--seconds",
                &duration.as_secs().saturating_sub(3).to_string(),
            ])
            .arg("--counts")
            .arg(&counts)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log)?);
        Ok(Self {
            process: Owned::start(&mut command)?,
            counts,
            log,
        })
    }

    fn end(mut self, stop: &AtomicBool) -> Result<HashMap<String, u64>> {
        let ended = self.process.wait(PATIENCE, stop).context("the attacker");
        ended.with_context(|| fs::read_to_string(&self.log).unwrap_or_default())?;
        let counts = fs::read_to_string(&self.counts).context("the attacker says nothing")?;
        let counts: Thrown = serde_json::from_str(&counts)?;
        Ok(counts.thrown)
    }
}

fn cross_check(joined: &Joined, passages: &[Passage], direction: u8) -> CrossCheck {
    let data = || {
        let of_way = passages.iter().filter(move |p| p.direction == direction);
        of_way.filter(|passage| !passage.class.is_control())
    };
    let epochs = joined.epochs.values();
    let (sum, count) = epochs.clone().fold((0_i128, 0_u64), |(sum, count), truth| {
        (sum + truth.delays.sum_ns, count + truth.delays.count)
    });
    CrossCheck {
        box_lost: data().filter(|passage| passage.fate == Fate::Lost).count() as u64,
        switches_lost: epochs.clone().map(Truth::lost).sum(),
        box_reordered: overtaken(data()),
        switches_reordered: epochs.map(|truth| truth.reordered).sum(),
        box_added_ns: mean(data().filter_map(Passage::delay_ns).map(|ns| ns as f64)),
        switches_saw_ns: sum as f64 / count.max(1) as f64,
    }
}

/// Packets that left behind one that had come later.
fn overtaken<'p>(passages: impl Iterator<Item = &'p Passage>) -> u64 {
    let passed = passages.filter(|passage| passage.fate == Fate::Passed);
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

fn overhead(summary: &BoxSummary, way: usize, seconds: f64, sender: &Seen) -> Overhead {
    let counts = &summary.ways[way];
    let by_kind = counts
        .passed_by_kind
        .iter()
        .zip(&counts.passed_bytes_by_kind);
    let bps: Vec<_> = by_kind
        .map(|(frames, bytes)| (bytes + frames * LINK_OVERHEAD_BYTES) as f64 * 8.0 / seconds)
        .collect();
    let wire = sender.last.wires.first();
    let total = wire.map(|wire| wire.total.clone()).unwrap_or_default();
    let of_kind = |kind: usize| bps.get(kind).copied().unwrap_or(0.0);
    Overhead {
        seconds,
        control_bps: bps.iter().skip(1).sum(),
        reference_bps: of_kind(5),
        data_bps: of_kind(0),
        share_bps: wire.map_or(0.0, |wire| wire.share_bps),
        exported_bps: total.sent_bytes as f64 * 8.0 / seconds,
        withheld: total.references_withheld,
    }
}
