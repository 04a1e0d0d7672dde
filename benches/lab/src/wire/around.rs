//! One switch with the box between two of its ports, as somebody else's device: what it says of the box
//! (`measurement.around`) is held against the box's own record.
//!
//! ```text
//!  host a ---- l1 [switch] ---- memif ---- [box] ---- memif ---- [switch] l2 ---- host b
//!                       inside      a hop, DSCP, 1 % loss      outside
//! ```

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use records::snapshot::Snapshot;
use reporting::Table;
use reporting::statistics::mean;
use serde_json::{Value, json};
use testkit::process::wait;

use crate::transits::{Fate, Transit};
use crate::wire::namespaces::HOSTS;
use crate::wire::report::{ARROWS, Report};
use crate::wire::switch::{self, INTERVAL_MS, Impair, Setting, Switch, both, memif_device};
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
    /// Packets that entered, that came back, and that were lost.
    pub packets: [u64; 3],
    pub mean_ns: f64,
    pub deviation_ns: f64,
}

pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let folder = &setting.folder;
    let sockets = PORTS.map(|port| folder.join(format!("{port}.sock")));
    let switch = Switch::start(folder, 0, config(&sockets), false)?;
    let rule = ["--both".to_owned(), RULE.to_owned()];
    let impair = Impair::over_memif(folder, &sockets, &rule)?;
    let duration = setting.flow_duration;
    Traffic::begin(Load::Mix, duration, folder)?.end(duration)?;
    // What is lost is known by then, and published an epoch later.
    let rest = 2 * TIMEOUT_MS + 10 * INTERVAL_MS;
    wait(Duration::from_millis(rest.into()))?;
    let snapshot = switch.client.get("/api/v1/snapshot", &[])?;
    switch.end()?;
    let (transits, _) = impair.end()?;
    let ways = both([0, 1], |from| {
        Ok(Way {
            truth: truth(&transits, from),
            ..seen(&snapshot, from)?
        })
    })?;
    add(&ways, report);
    Ok(())
}

fn config(sockets: &[PathBuf; 2]) -> Value {
    let [inside, outside] = PORTS;
    let lan = |host: usize| {
        let interface = HOSTS[host].lan;
        format!("net_af_packet_{interface},iface={interface},framecnt=2048")
    };
    let inner = [0, 1].map(|index| memif_device(index, &sockets[index], "server"));
    let ports = json!([
        { "name": "a", "device": lan(0) },
        { "name": inside, "device": inner[0] },
        { "name": outside, "device": inner[1] },
        { "name": "b", "device": lan(1) },
    ]);
    let mut config = switch::config(&ports, &json!([["a", inside], [outside, "b"]]));
    let around = json!([{ "name": "box", "ports": PORTS, "timeout_ms": TIMEOUT_MS }]);
    config["measurement"]["around"] = around;
    config
}

/// Adds the section about both directions, and what had to hold.
pub fn add(ways: &[Way; 2], report: &mut Report) {
    let mut table = Table::default()
        .words(["way"])
        .figures(["entered", "came back", "lost", "unknown"])
        .figures(["mean, ms", "of the box", "deviation, ms", "of the box"]);
    for (
        arrow,
        Way {
            seen,
            truth,
            unknown,
        },
    ) in ARROWS.into_iter().zip(ways)
    {
        let [entered, returned, lost] = seen.packets;
        report.checks.add(
            format!("around the box, {arrow}: packets that entered, came back, were lost and were not known, exactly"),
            format!("{entered}, {returned}, {lost}, {unknown}"),
            seen.packets == truth.packets && lost > 0 && *unknown == 0,
        );
        report.checks.add(
            format!("around the box, {arrow}: mean by the mean of the box, 1 at least"),
            format!("{:.4}", seen.mean_ns / truth.mean_ns),
            seen.mean_ns >= truth.mean_ns,
        );
        let both = |of: usize| match (seen.packets[of], truth.packets[of]) {
            (seen, truth) if seen == truth => seen.to_string(),
            (seen, truth) => format!("{seen} of {truth}"),
        };
        let ms = |ns: f64| format!("{:.3}", ns / 1e6);
        table.row(&[
            &arrow,
            &both(0),
            &both(1),
            &both(2),
            unknown,
            &ms(seen.mean_ns),
            &ms(truth.mean_ns),
            &ms(seen.deviation_ns),
            &ms(truth.deviation_ns),
        ]);
    }
    report.sections.push(format!(
        "## Around a device\n\n\
         One switch with the box between two of its ports (`measurement.around`): it delays by 5 ms with jitter, drops one packet in a hundred, takes a hop \
         and sets DSCP. Counts are the switch's; where the box has another, it is behind \"of\". The switch's delays contain its own \
         drivers and what both programs wait for the CPU.\n\n{}",
        table.markdown(),
    ));
}

/// What the switch says of packets that entered by one of [`PORTS`].
fn seen(snapshot: &Snapshot, from: usize) -> Result<Way> {
    let around = |name: &str| {
        let mut ports = snapshot.ports.iter();
        let port = ports.find(|port| port.name == name);
        let around = port.and_then(|port| port.around.as_ref());
        around.map(|around| around.counts).context("no such port")
    };
    let (there, back) = (around(PORTS[from])?, around(PORTS[1 - from])?);
    let begins = format!("box:{}", PORTS[from]);
    let mut segments = snapshot.segments.iter();
    let segment = segments.find(|segment| segment.ingress == begins);
    let total = &segment.context("no such segment")?.total;
    let packets = total.counts.received_packets.max(1) as f64;
    let mean_s = total.delay_sum_s / packets;
    let variance_s2 = total.delay_squared_sum_s2 / packets - mean_s.powi(2);
    Ok(Way {
        seen: Figures {
            packets: [
                there.entered_packets,
                back.returned_packets,
                there.lost_packets,
            ],
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
        let transits = transits.iter();
        transits.filter(|transit| usize::from(transit.direction) == from)
    };
    let count = |fate: Fate| of_way().filter(|transit| transit.fate == fate).count() as u64;
    let delays = || of_way().filter_map(Transit::delay_ns).map(|ns| ns as f64);
    let mean_ns = mean(delays());
    Figures {
        packets: [
            of_way().count() as u64,
            count(Fate::Passed),
            count(Fate::Lost),
        ],
        mean_ns,
        deviation_ns: mean(delays().map(|ns| (ns - mean_ns).powi(2))).sqrt(),
    }
}
