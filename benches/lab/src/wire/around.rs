//! One switch with the box between two of its ports, as a device to measure: the switch's figures
//! (`measurement.around`) are compared with the box's own record.
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
use reporting::statistics::whole;
use serde_json::{Value, json};
use testkit::process::wait;

use crate::transits::Transit;
use crate::wire::namespaces::HOSTS;
use crate::wire::report::{ARROWS, Report};
use crate::wire::switch::{self, INTERVAL_MS, Impair, Setting, Switch, both, memif_device};
use crate::wire::traffic::{Load, Traffic};
use crate::wire::truth::Packets;

/// The box's rule for both directions.
const RULE: &str = "delay_us=5000,jitter_us=2000,loss=0.01,hop=true,dscp=46";

const TIMEOUT_MS: u32 = 500;

/// The switch's ports that lead to the box.
const PORTS: [&str; 2] = ["inside", "outside"];

/// One direction.
#[derive(Debug, Clone, Copy, Default)]
pub struct Way {
    /// Packets that entered, came back and were lost, according to the switch.
    pub packets: [u64; 3],
    /// Measurement of its segment.
    pub measured: Packets,
    /// Record of the box.
    pub truth: Packets,
    /// Packets that came back and had not entered, or were displaced.
    pub unknown: u64,
}

pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let folder = &setting.folder;
    let sockets = PORTS.map(|port| folder.join(format!("{port}.sock")));
    let switch = Switch::start(folder, 0, config(&sockets), false)?;
    let rule = ["--both".to_owned(), RULE.to_owned()];
    let impair = Impair::over_memif(folder, &sockets, &rule)?;
    let duration = setting.flow_duration;
    Traffic::begin(Load::Mix, duration, folder)?.end(duration)?;
    // Losses are known by then, and published an epoch later.
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

/// Adds the section about both directions, and the checks.
pub fn add(ways: &[Way; 2], report: &mut Report) {
    let mut table = Table::default()
        .words(["way"])
        .figures(["entered", "came back", "lost", "unknown"])
        .figures(["mean, ms", "of the box", "deviation, ms", "of the box"]);
    for (arrow, way) in ARROWS.into_iter().zip(ways) {
        let (measured, truth, unknown) = (&way.measured, &way.truth, way.unknown);
        let [entered, returned, lost] = way.packets;
        let of_box = [truth.sent, truth.received, truth.lost()];
        report.checks.add(
            format!("around the box, {arrow}: packets that entered, came back, were lost and were unknown, exactly"),
            format!("{entered}, {returned}, {lost}, {unknown}"),
            way.packets == of_box && lost > 0 && unknown == 0,
        );
        let [mean_ns, true_ns] = [measured, truth].map(|of| of.mean_ns().unwrap_or(f64::NAN));
        report.checks.add(
            format!("around the box, {arrow}: mean by the mean of the box, 1 at least"),
            format!("{:.4}", mean_ns / true_ns),
            mean_ns >= true_ns,
        );
        let both = |of: usize| match (way.packets[of], of_box[of]) {
            (seen, truth) if seen == truth => seen.to_string(),
            (seen, truth) => format!("{seen} of {truth}"),
        };
        let ms = |ns: f64| format!("{:.3}", ns / 1e6);
        let deviation = |of: &Packets| ms(of.deviation_ns().unwrap_or(f64::NAN));
        table.row(&[
            &arrow,
            &both(0),
            &both(1),
            &both(2),
            &unknown,
            &ms(mean_ns),
            &ms(true_ns),
            &deviation(measured),
            &deviation(truth),
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

/// The switch's figures for packets that entered through one of [`PORTS`].
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
    Ok(Way {
        packets: [
            there.entered_packets,
            back.returned_packets,
            there.lost_packets,
        ],
        measured: Packets {
            sent: total.counts.sent_packets,
            received: total.counts.received_packets,
            sum_ns: whole(total.delay_sum_s * 1e9) as i128,
            squares: total.delay_squared_sum_s2 * 1e18,
        },
        unknown: back.unknown_packets + there.displaced_packets,
        ..Way::default()
    })
}

/// The box's figures for packets of one direction.
fn truth(transits: &[Transit], from: usize) -> Packets {
    let mut packets = Packets::default();
    let of_way = |transit: &&Transit| usize::from(transit.direction) == from;
    for transit in transits.iter().filter(of_way) {
        packets.add(transit.delay_ns().map(u64::cast_signed));
    }
    packets
}
