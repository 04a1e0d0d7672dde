//! One recorded hello, replayed over shared memory as fast as a core can copy it, between two measuring switches. Box,
//! workers and control cores share the CPUs, so other work on the machine may also cost epochs.
//!
//! ```text
//!  [switch 1] ---- memif ---- [box] ---- memif ---- [switch 2]
//!   200,000 packets/s          + the first hello of switch 1, over and over
//! ```

use std::mem;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use records::snapshot::WireTotals;
use reporting::Table;
use reporting::statistics::median;
use testkit::process::{Background, PATIENCE, until, wait};

use crate::frames::HELLO;
use crate::wire::attack::Refused;
use crate::wire::report::{EPOCHS_MIN, Report, list, whole};
use crate::wire::scenario::lost;
use crate::wire::switch::{Setting, Switch, both, memif_config, with_box};
use crate::wire::watch::{self, Counts, Seen, since};

/// Packets a second from switch 1 to switch 2.
const RATE_PPS: f64 = 200e3;

/// Capacity of the path, as far as control frames are concerned.
const CAPACITY_BPS: u64 = 1_000_000_000;

/// Seconds from the first hello to the flood: a session begins in them, and [`QUIET`] passes.
const BEFORE_S: u64 = 9;

/// Seconds that the flood lasts.
const FLOOD_S: u64 = 15;

/// Time watched before the flood.
const QUIET: Duration = Duration::from_secs(4);

/// Time watched in the flood: 120 epochs.
const WATCHED: Duration = Duration::from_secs(12);

/// The flood has begun when this number of hellos was refused.
const FLOOD_MIN: u64 = 1_000;

/// Results.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Copies of the hello that went to switch 2.
    pub replayed: u64,
    /// Hellos a second that switch 2 refused while it was watched.
    pub replayed_pps: f64,
    /// Hellos that switch 2 accepted, genuine and replayed ones, since its start.
    pub accepted: u64,
    /// Control frames that switch 2 refused, since its start.
    pub refused: Refused,
    /// Genuine hellos that the box forwarded.
    pub hellos: u64,
    /// Switch 2 before the flood.
    pub quiet: Phase,
    /// Switch 2 from just before the flood on.
    pub flooded: Phase,
    /// Packets lost between the switches, over the usable epochs watched in the flood.
    pub lost_packets: i64,
    /// Whether both switches kept their session.
    pub is_session_kept: bool,
}

/// Reports of a switch over some time.
#[derive(Debug, Clone, Default)]
pub struct Phase {
    pub fates: Counts,
    /// Median number of packets in an epoch.
    pub packets: f64,
}

impl Phase {
    fn of(seen: &Seen) -> Self {
        Self {
            fates: seen.fates(),
            packets: median(seen.received_packets()),
        }
    }
}

pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let traffic = format!("flows=1000,size=imix,burst=8,rate={RATE_PPS:.0}");
    let config = |at, socket: &Path| memif_config(at, socket, "server", CAPACITY_BPS, &traffic);
    let replay = [
        format!("--replay-right={FLOOD_S}"),
        format!("--replay-after={BEFORE_S}"),
    ];
    let (switches, impair) = with_box(&setting.folder, config, false, &replay)?;
    // The first epochs of a session are incomplete.
    wait(Duration::from_secs(1))?;

    let total = || Ok::<_, anyhow::Error>(watch::ask(&switches[1].client)?.total);
    let refused = || Ok::<_, anyhow::Error>(refused_by(&total()?).frames());
    let watch = || switches.each_ref().map(|one| watch::begin(&one.client));
    let watches = watch();
    wait(QUIET)?;
    let quiet = both(watches, Background::end)?;
    let watches = watch();
    until(PATIENCE, "there is no flood", || {
        Ok((refused()? >= FLOOD_MIN).then_some(()))
    })?;
    let (at_first, began) = (refused()?, Instant::now());
    wait(WATCHED)?;
    let replayed_pps = (refused()? - at_first) as f64 / began.elapsed().as_secs_f64();
    let flooded = both(watches, Background::end)?;
    let mut counted = 0;
    until(PATIENCE, "the flood does not end", || {
        wait(Duration::from_secs(1))?;
        let earlier = mem::replace(&mut counted, refused()?);
        Ok((earlier == counted).then_some(()))
    })?;
    let (_, summary) = impair.end()?;
    let total = total()?;
    both(switches, Switch::end)?;

    let accepted = total.believed_frames.iter();
    let mut accepted = accepted.filter(|kind| kind.label == "hello");
    let [to_right, _] = &summary.ways;
    let lost = flooded[1].epochs.values();
    let outcome = Outcome {
        replayed: to_right.replayed,
        replayed_pps,
        accepted: accepted.next().map_or(0, |hellos| hellos.packets),
        refused: refused_by(&total),
        hellos: to_right.passed_by_kind[usize::from(HELLO)],
        quiet: Phase::of(&quiet[1]),
        flooded: Phase::of(&flooded[1]),
        lost_packets: lost.filter_map(|epoch| epoch.lost_packets).sum(),
        is_session_kept: quiet.iter().zip(&flooded).all(is_kept),
    };
    outcome.add_to(report);
    Ok(())
}

impl Outcome {
    /// Adds the section and the checks.
    pub fn add_to(&self, report: &mut Report) {
        let (quiet, flooded) = (&self.quiet, &self.flooded);
        let checks = &mut report.checks;
        let busy = flooded.fates.iter().filter(|(fate, _)| fate != "idle");
        let epochs: u64 = busy.map(|(_, count)| count).sum();
        let missed: u64 = lost(&flooded.fates).iter().map(|(_, count)| count).sum();
        checks.add(
            format!("flood: epochs missed, of {EPOCHS_MIN} at least"),
            format!("{missed} of {epochs}"),
            missed == 0 && epochs >= EPOCHS_MIN as u64,
        );
        let kept = if self.is_session_kept { "yes" } else { "no" };
        checks.add("flood: sessions kept", kept, self.is_session_kept);
        let lost = self.lost_packets;
        checks.add("flood: packets lost beside it", lost, lost == 0);
        let counted = self.accepted + self.refused.frames();
        let sent = self.replayed + self.hellos;
        checks.add(
            "flood: hellos, all counted as accepted or refused",
            format!("{counted} of {sent}"),
            counted == sent && self.replayed > 0,
        );

        let mut table = Table::default()
            .words([""])
            .figures(["before", "in the flood"]);
        let pps = whole(self.replayed_pps);
        table.row(&[&"replayed hellos a second", &0, &pps]);
        let fates = [quiet, flooded].map(|phase| list(&phase.fates));
        table.row(&[&"epochs by fate", &fates[0], &fates[1]]);
        let packets = [quiet, flooded].map(|phase| whole(phase.packets));
        table.row(&[&"packets of an epoch", &packets[0], &packets[1]]);
        report.sections.push(format!(
            "## Under a replayed hello\n\n\
             Two switches and the box between them, `net_memif` on both sides. The box records the first hello of switch 1 and sends it to \
             switch 2 over and over, as fast as it makes copies; what is genuine goes first, as on a link that is not full. No program has \
             a CPU of its own.\n\n\
             {}\n{} copies of the hello in all; refused: {}.",
            table.markdown(),
            self.replayed,
            list(&self.refused.by_reason),
        ));
    }
}

/// Hellos that a switch has refused since its start.
fn refused_by(total: &WireTotals) -> Refused {
    Refused::since(&WireTotals::default(), total)
}

/// Whether the session of a switch has neither begun nor ended since.
fn is_kept((before, during): (&Seen, &Seen)) -> bool {
    let (Ok(before), Ok(during)) = (before.last(), during.last()) else {
        return false;
    };
    let mut events = since(&before.total.events, &during.total.events).into_iter();
    during.session == "established" && !events.any(|(event, _)| event.starts_with("session_"))
}
