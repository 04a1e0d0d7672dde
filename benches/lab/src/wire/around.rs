//! One switch with the box between two of its ports, as somebody else's device: what it says of the box
//! (`measurement.around`) is held against the box's own record.
//!
//! ```text
//!  host a ---- l1 [switch] ---- memif ---- [box] ---- memif ---- [switch] l2 ---- host b
//!                       inside      a hop, DSCP, 1 % loss      outside
//! ```

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use console::client::Client;
use records::snapshot::{Port, Segment, Snapshot};
use reporting::statistics::mean;
use serde_json::{Value, json};
use testkit::namespace::skip_process_ids;
use testkit::process::{Process, memif, wait};

use crate::transits::{Fate, Transit};
use crate::wire::namespaces::HOSTS;
use crate::wire::switch::{HASH_SEED, INTERVAL_MS, Impair, Setting, both};
use crate::wire::traffic::{Load, Traffic};

/// What the box does both ways.
const RULE: &str = "delay_us=5000,jitter_us=2000,loss=0.01,hop=true,dscp=46";

const TIMEOUT_MS: u32 = 500;

/// The switch's ports that lead to the box.
const PORTS: [&str; 2] = ["inside", "outside"];

/// One direction.
#[derive(Debug, Clone, Copy, Default)]
pub struct Way {
    /// By the switch.
    pub seen: Figures,
    /// By the box.
    pub truth: Figures,
    /// Packets that came back and had not entered, or were displaced.
    pub unknown: u64,
}

/// What became of packets.
#[derive(Debug, Clone, Copy, Default)]
pub struct Figures {
    pub entered: u64,
    pub returned: u64,
    pub lost: u64,
    pub mean_ns: f64,
    pub deviation_ns: f64,
}

/// Both directions.
pub type Outcome = [Way; 2];

pub fn run(setting: &Setting<'_>) -> Result<Outcome> {
    let stop = setting.stop;
    let folder = setting.folder_of("around")?;
    let sockets = PORTS.map(|port| folder.join(format!("{port}.sock")));
    for socket in &sockets {
        // One that an earlier process left behind cannot be listened at; mostly there is none.
        let _ = fs::remove_file(socket);
    }
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 9_461));
    let inner = [0, 1].map(|n| memif(&n.to_string(), "server", 0, &sockets[n]));
    let client = Client::new(&address.to_string(), None);
    skip_process_ids()?;
    let mut command = Command::new(&setting.vernierd);
    let config = config(address, &inner);
    let mut switch = Process::start_vernierd(&mut command, &folder, "switch", &config)?;
    let ask = || client.get::<Snapshot>("/api/v1/snapshot", &[]);
    switch.until(stop, "the switch does not answer", |_| Ok(ask().ok()))?;
    let devices = sockets.map(|socket| format!("memif:{}", socket.display()));
    let rule = ["--both".to_owned(), RULE.to_owned()];
    let impair = Impair::start(setting, &folder, devices, &rule)?;
    Traffic::begin(Load::Mix, setting.flow_duration, stop)?.end(setting.flow_duration, stop)?;
    // What is lost is known by then, and published an epoch later.
    let rest = 2 * TIMEOUT_MS + 10 * INTERVAL_MS;
    wait(Duration::from_millis(rest.into()), stop)?;
    let snapshot = ask()?;
    switch.end(stop)?;
    let (transits, _) = impair.end(stop)?;
    both([0, 1], |from| {
        Ok(Way {
            truth: truth(&transits, from),
            ..seen(&snapshot, from)?
        })
    })
}

fn config(address: SocketAddr, inner: &[String; 2]) -> Value {
    let [inside, outside] = PORTS;
    let lan = |host: usize| {
        let interface = HOSTS[host].lan;
        format!("net_af_packet_{interface},iface={interface},framecnt=2048")
    };
    json!({
        "ports": [
            { "name": "a", "device": lan(0) },
            { "name": inside, "device": inner[0] },
            { "name": outside, "device": inner[1] },
            { "name": "b", "device": lan(1) },
        ],
        "forwarding": { "mode": "patch", "pairs": [["a", inside], [outside, "b"]] },
        "measurement": {
            "interval_ms": INTERVAL_MS,
            "hash_seed": format!("{HASH_SEED:032x}"),
            "around": [{ "name": "box", "ports": PORTS, "timeout_ms": TIMEOUT_MS }],
        },
        "http": { "listen": address },
        "workers": [{ "idle": "sleep" }],
        "dpdk": { "hugepages": false, "memory_mib": 512, "mbufs": 65_535 },
    })
}

/// What the switch says of packets that entered by one of [`PORTS`].
fn seen(snapshot: &Snapshot, from: usize) -> Result<Way> {
    let around = |name: &str| {
        let port = |port: &&Port| port.name == name;
        let around = snapshot
            .ports
            .iter()
            .find(port)
            .and_then(|port| port.around.as_ref());
        around.map(|around| around.counts).context("no such port")
    };
    let (there, back) = (around(PORTS[from])?, around(PORTS[1 - from])?);
    let begins = format!("box:{}", PORTS[from]);
    let segment = |segment: &&Segment| segment.ingress == begins;
    let segment = snapshot
        .segments
        .iter()
        .find(segment)
        .context("no such segment")?;
    let total = &segment.total;
    let packets = total.counts.received_packets.max(1) as f64;
    let mean_s = total.delay_sum_s / packets;
    let variance_s2 = total.delay_squared_sum_s2 / packets - mean_s.powi(2);
    Ok(Way {
        seen: Figures {
            entered: there.entered_packets,
            returned: back.returned_packets,
            lost: there.lost_packets,
            mean_ns: mean_s * 1e9,
            deviation_ns: variance_s2.max(0.0).sqrt() * 1e9,
        },
        unknown: back.unknown_packets + there.displaced_packets,
        ..Way::default()
    })
}

/// What the box did to packets of one direction.
fn truth(transits: &[Transit], from: usize) -> Figures {
    let of_way = || {
        transits
            .iter()
            .filter(|transit| usize::from(transit.direction) == from)
    };
    let count = |fate: Fate| of_way().filter(|transit| transit.fate == fate).count() as u64;
    let delays = || of_way().filter_map(Transit::delay_ns).map(|ns| ns as f64);
    let mean_ns = mean(delays());
    Figures {
        entered: of_way().count() as u64,
        returned: count(Fate::Passed),
        lost: count(Fate::Lost),
        mean_ns,
        deviation_ns: mean(delays().map(|ns| (ns - mean_ns).powi(2))).sqrt(),
    }
}
