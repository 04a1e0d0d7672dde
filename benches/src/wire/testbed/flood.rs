//! One recorded hello, replayed over shared memory as fast as a core makes copies, between two switches
//! that measure. Box, workers and control cores share the CPUs: other work on the machine costs epochs, too.
//!
//! ```text
//!  [switch 1] ---- memif ---- [box] ---- memif ---- [switch 2]
//!   200,000 packets/s          + the first hello of switch 1, over and over
//! ```

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::json;

use super::nodes::{Impair, Plan, Switch};
use super::outcome::Refused;
use super::scenario::{Setting, lost};
use super::verdict::median;
use super::views::{self, Seen, Totals, Watch, since};
use crate::throughput::process::{PATIENCE, until, wait};

/// Packets a second from switch 1 to switch 2.
const RATE_PPS: f64 = 200e3;

/// Capacity of the path, as far as control frames are concerned.
const CAPACITY_BPS: u64 = 1_000_000_000;

/// Time from the first hello to the flood: a session begins in it, and [`QUIET`] passes.
const BEFORE: Duration = Duration::from_secs(9);

/// Time watched before the flood.
const QUIET: Duration = Duration::from_secs(4);

/// Time watched in the flood: 120 epochs.
const WATCHED: Duration = Duration::from_secs(12);

/// Duration of the flood.
const FLOOD: Duration = Duration::from_secs(15);

/// The flood has begun when so many hellos were refused.
const FLOOD_MIN: u64 = 1_000;

/// What came of it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Outcome {
    /// Copies of the hello that went to switch 2.
    pub replayed: u64,
    /// Hellos a second that switch 2 refused while it was watched.
    pub replayed_pps: f64,
    /// Hellos that switch 2 accepted, genuine and replayed ones, since its start.
    pub believed: u64,
    /// Control frames that switch 2 rejected, since its start.
    pub refused: Refused,
    /// Genuine hellos that the box let pass.
    pub hellos: u64,
    /// Epochs of switch 2 by fate, before the flood.
    pub quiet_fates: Vec<(String, u64)>,
    /// Epochs of switch 2 by fate, from just before the flood on.
    pub fates: Vec<(String, u64)>,
    /// Median number of packets in an epoch, before the flood.
    pub quiet_packets: f64,
    /// Median number of packets in an epoch, in the flood.
    pub packets: f64,
    /// Packets lost between the switches, over the usable epochs watched in the flood.
    pub lost_packets: i64,
    /// Whether both switches kept the session that they had.
    pub is_session_kept: bool,
}

impl Outcome {
    /// Epochs with packets in the flood, and how many of them came to nothing.
    pub fn epochs(&self) -> (u64, u64) {
        let count = |fates: &[(String, u64)]| fates.iter().map(|(_, count)| count).sum::<u64>();
        let busy = self.fates.iter().filter(|(fate, _)| fate != "idle");
        (
            busy.map(|(_, count)| count).sum(),
            count(&lost(&self.fates)),
        )
    }
}

/// Runs it.
///
/// # Errors
/// When something does not start, or fails.
pub fn run(setting: &Setting<'_>) -> Result<Outcome> {
    let Setting { stop, .. } = *setting;
    let folder = setting.folder.join("flood");
    fs::create_dir_all(&folder).context("no folder for its files")?;
    let sockets = [1, 2].map(|number| folder.join(format!("wire-{number}.sock")));
    let plan = |number: u16, lan: String| Plan {
        number,
        lan,
        wire: format!(
            "net_memif0,role=server,id=0,socket={},socket-abstract=no,rsize=14",
            sockets[usize::from(number) - 1].display()
        ),
        extra: json!({ "capacity_bps": CAPACITY_BPS }),
        core: None,
        sleeps: true,
        is_recorded: false,
    };
    let traffic = format!("generate:flows=1000,size=imix,burst=8,rate={RATE_PPS:.0}");
    let plans = [plan(1, traffic), plan(2, "sink".to_owned())];
    let mut switches = Vec::new();
    for (plan, socket) in plans.iter().zip(&sockets) {
        // One that a process left behind cannot be listened at.
        let _ = fs::remove_file(socket);
        switches.push(Switch::start(setting.vernierd, &folder, plan, stop)?);
    }
    let sides = sockets
        .each_ref()
        .map(|socket| format!("memif:{}", socket.display()));
    let seconds = |duration: Duration| duration.as_secs().to_string();
    let arguments = [
        ["--replay-right", &seconds(FLOOD)],
        ["--replay-after", &seconds(BEFORE)],
    ];
    let arguments = arguments.as_flattened().iter().map(ToString::to_string);
    let arguments: Vec<_> = arguments.collect();
    let impair = Impair::start(
        setting.impair,
        &folder,
        [&sides[0], &sides[1]],
        &arguments,
        stop,
    )?;
    for switch in &mut switches {
        switch.wait_for_session(stop)?;
    }
    // The first epochs of a session are not whole.
    wait(Duration::from_secs(1), stop)?;
    let addresses = [0, 1].map(|at: usize| switches[at].address);
    let total = || -> Result<Totals> {
        let wires = views::ask(addresses[1])?.wires;
        Ok(wires.into_iter().next().unwrap_or_default().total)
    };
    let refused = || Ok::<_, anyhow::Error>(Refused::at_all(&total()?).frames());
    let watches = addresses.map(Watch::begin);
    wait(QUIET, stop)?;
    let before = watches.map(Watch::end);
    let watches = addresses.map(Watch::begin);
    until(PATIENCE, stop, "nobody floods", || {
        Ok((refused()? >= FLOOD_MIN).then_some(()))
    })?;
    let (at_first, began) = (refused()?, Instant::now());
    wait(WATCHED, stop)?;
    let replayed_pps = (refused()? - at_first) as f64 / began.elapsed().as_secs_f64();
    let during = watches.map(Watch::end);
    let mut counted = 0;
    until(PATIENCE, stop, "the flood does not end", || {
        wait(Duration::from_secs(1), stop)?;
        let earlier = std::mem::replace(&mut counted, refused()?);
        Ok((earlier == counted).then_some(()))
    })?;
    let (_, summary) = impair.end(stop)?;
    let total = total()?;
    for switch in switches {
        switch.end(stop)?;
    }
    let believed = total
        .believed_frames
        .iter()
        .find(|kind| kind.label == "hello");
    let [to_right, _] = &summary.ways;
    let [_, quiet] = &before;
    let [_, flooded] = &during;
    Ok(Outcome {
        replayed: to_right.replayed,
        replayed_pps,
        believed: believed.map_or(0, |hellos| hellos.packets),
        refused: Refused::at_all(&total),
        hellos: to_right.passed_by_kind.get(1).copied().unwrap_or(0),
        quiet_fates: quiet.fates(),
        fates: flooded.fates(),
        quiet_packets: packets(quiet),
        packets: packets(flooded),
        lost_packets: flooded
            .epochs
            .values()
            .filter_map(|epoch| epoch.lost_packets)
            .sum(),
        is_session_kept: before
            .iter()
            .zip(&during)
            .all(|(before, during)| is_kept(before, during)),
    })
}

/// Packets of an epoch, in the middle.
fn packets(seen: &Seen) -> f64 {
    let epochs = seen.epochs.values();
    median(
        epochs
            .filter_map(|epoch| epoch.received_packets)
            .map(|packets| packets as f64),
    )
}

/// Whether nothing began and nothing ended since.
fn is_kept(before: &Seen, during: &Seen) -> bool {
    let wires = [before, during].map(|seen| seen.last.wires.first());
    let [Some(before), Some(during)] = wires else {
        return false;
    };
    let mut events = since(&before.total.events, &during.total.events).into_iter();
    during.session == "established" && !events.any(|(event, _)| event.starts_with("session_"))
}
