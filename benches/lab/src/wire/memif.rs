//! Two switches over shared memory (`net_memif`), at this machine's full speed, with nothing between them: the
//! first generates IMIX, the second discards it.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use reporting::statistics::{median, whole};
use testkit::process::wait;

use crate::wire::switch::{BANKS, INTERVAL_MS, Plan, Setting, Switch, TRUNK, both, hasher};
use crate::wire::truth::Joined;
use crate::wire::verdict::{Verdict, judge};
use crate::wire::watch::{Counts, Seen, Watch};

/// More packets a second than any CPU generates.
const RATE_MAX_PPS: f64 = 50e6;

/// Share of the rate that is tried next, where the record cannot keep up.
const SLOWER: f64 = 0.7;

/// Rates to try at most.
const TRIES: u32 = 8;

/// Capacity of the path at most, as far as control frames and references are concerned.
const CAPACITY_MAX_BPS: u64 = 10_000_000_000;

/// What came of it.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// At full speed, without a record.
    pub full: FullSpeed,
    /// Packets a second with every packet recorded at both ends.
    pub recorded_pps: f64,
    /// What the receiver reported then, compared with what happened.
    pub verdict: Verdict,
    /// Epochs of the receiver by fate then.
    pub recorded_fates: Counts,
}

/// What came of the run at full speed. Bytes of control frames are by the sender's own count.
#[derive(Debug, Clone, Default)]
pub struct FullSpeed {
    /// Capacity of the path in bits a second: what it was seen to carry before.
    pub capacity_bps: u64,
    /// Packets a second that crossed.
    pub pps: f64,
    /// Bits a second of data.
    pub data_bps: f64,
    /// Bytes of control frames by bytes of data.
    pub control_of_data: f64,
    /// Bytes of references by bytes of data.
    pub references_of_data: f64,
    /// Bits a second of control frames by those that they may take.
    pub control_of_share: f64,
    /// Epochs of the receiver by fate.
    pub fates: Counts,
}

struct Run {
    /// What the sender and the receiver reported.
    seen: [Seen; 2],
    /// What happened; `None` without a complete record.
    joined: Option<Joined>,
    seconds: f64,
}

/// Runs at full speed to learn what the path carries, which is its capacity; once more at full speed; and with
/// a record at the highest rate at which that is complete.
pub fn run(setting: &Setting<'_>) -> Result<Outcome> {
    let folder = setting.folder_of("memif")?;
    let once =
        |capacity_bps, pps, is_recorded| once(setting, &folder, capacity_bps, pps, is_recorded);
    let first = once(CAPACITY_MAX_BPS, RATE_MAX_PPS, false)?;
    let capacity_bps = first.data_bps()?.min(CAPACITY_MAX_BPS);
    let full = once(capacity_bps, RATE_MAX_PPS, false)?;
    let full = full.at_full_speed(capacity_bps)?;
    let mut pps = full.pps;
    for _ in 0..TRIES {
        let recorded = once(capacity_bps, pps, true)?;
        let [_, receiver] = &recorded.seen;
        if let Some(joined) = &recorded.joined {
            return Ok(Outcome {
                full,
                recorded_pps: rate_pps(receiver),
                verdict: judge(joined, (0, "all"), receiver, &BANKS, 0.0, &hasher()),
                recorded_fates: receiver.fates(),
            });
        }
        pps *= SLOWER;
    }
    bail!("the record could not keep up at any rate")
}

/// Packets a second that cross: the median over epochs.
fn rate_pps(receiver: &Seen) -> f64 {
    median(receiver.received_packets()) * 1e3 / f64::from(INTERVAL_MS)
}

impl Run {
    /// Bits a second of data.
    fn data_bps(&self) -> Result<u64> {
        let bytes = self.seen[0].last()?.total.data_bytes;
        Ok(whole(bytes as f64 * 8.0 / self.seconds) as u64)
    }

    fn at_full_speed(&self, capacity_bps: u64) -> Result<FullSpeed> {
        let [sender, receiver] = &self.seen;
        let wire = sender.last()?;
        let data = wire.total.data_bytes.max(1) as f64;
        let control = wire.total.sent_bytes as f64;
        Ok(FullSpeed {
            capacity_bps,
            pps: rate_pps(receiver),
            data_bps: self.data_bps()? as f64,
            control_of_data: control / data,
            references_of_data: wire.total.reference_bytes as f64 / data,
            control_of_share: control * 8.0 / self.seconds / wire.share_bps,
            fates: receiver.fates(),
        })
    }
}

fn once(
    setting: &Setting<'_>,
    folder: &Path,
    capacity_bps: u64,
    pps: f64,
    is_recorded: bool,
) -> Result<Run> {
    let socket = folder.join("wire.sock");
    let plans = [(0, "server"), (1, "client")].map(|(index, role)| Plan {
        core: Some(index),
        is_recorded,
        ..Plan::memif(index, &socket, role, capacity_bps, pps)
    });
    let mut switches = Switch::start_both(setting, folder, &plans)?;
    Switch::wait_for_sessions(&mut switches, setting.stop)?;
    let watches = switches.each_ref().map(|one| Watch::begin(&one.client));
    let began = Instant::now();
    wait(setting.flow_duration, setting.stop)?;
    // The last epochs' fragments come half a second later.
    let seconds = (began.elapsed() + Duration::from_millis(500)).as_secs_f64();
    let seen = both(watches, Watch::end)?;
    let [sent, received] = both(switches, |switch| switch.end(setting.stop))?;
    let joined = sent.zip(received);
    let joined = joined.map(|(sent, received)| Joined::new(&sent, TRUNK, &received, TRUNK));
    Ok(Run {
        seen,
        joined,
        seconds,
    })
}
