//! Two switches over shared memory (`net_memif`), as fast as this machine goes, with nothing between
//! them: the first generates IMIX, the second swallows it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::json;

use super::nodes::{BANKS, INTERVAL_MS, Plan, Switch};
use super::scenario::{Setting, hasher};
use super::verdict::{Verdict, judge, median};
use super::views::{Seen, Watch, Wire};
use crate::throughput::process::wait;
use crate::wire::stamps;
use crate::wire::truth::Joined;

/// More packets a second than any CPU makes.
const RATE_MAX_PPS: f64 = 50e6;

/// The next rate to try, where the record cannot keep up.
const LESS: f64 = 0.7;

/// Rates to try at most.
const TRIES: u32 = 8;

/// Capacity of the path at most, as far as control frames and references are concerned.
const CAPACITY_MAX_BPS: u64 = 10_000_000_000;

/// What came of it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Outcome {
    /// Capacity of the path in bits a second: what it was seen to carry.
    pub capacity_bps: u64,
    /// Packets a second that crossed with no record kept.
    pub full_pps: f64,
    /// With every packet recorded at both ends.
    pub recorded_pps: f64,
    /// What the receiver said at that rate, held against what happened.
    pub verdict: Verdict,
    /// At full rate, by the sender's own count: bytes of control frames over bytes of data.
    pub control_of_data: f64,
    /// Those of references.
    pub references_of_data: f64,
    /// Bits a second of control frames, of the bits that they may take.
    pub control_of_share: f64,
    /// Bits a second of data at full rate.
    pub data_bps: f64,
    /// Epochs of the receiver by fate at full rate.
    pub fates: Vec<(String, u64)>,
    /// And where all is recorded.
    pub recorded_fates: Vec<(String, u64)>,
}

struct Run {
    seen: [Seen; 2],
    joined: Option<Joined>,
    lasted: Duration,
}

/// Runs it: at full rate to learn what the path carries, which is its capacity, once more at full rate,
/// and with a record at the highest rate at which that is complete.
///
/// # Errors
/// When something does not start, or fails.
pub fn run(setting: &Setting<'_>) -> Result<Outcome> {
    let folder = setting.folder.join("memif");
    fs::create_dir_all(&folder).context("no folder for its files")?;
    let once = |capacity_bps, rate_pps, is_recorded| {
        once(setting, &folder, capacity_bps, rate_pps, is_recorded)
    };
    let first = once(CAPACITY_MAX_BPS, RATE_MAX_PPS, false)?;
    let capacity_bps = first.data_bps().min(CAPACITY_MAX_BPS);
    let full = once(capacity_bps, RATE_MAX_PPS, false)?;
    let [_, receiver] = &full.seen;
    let wire = full.sent();
    let total = &wire.total;
    let data = total.data_bytes.max(1) as f64;
    let mut outcome = Outcome {
        capacity_bps,
        full_pps: rate_pps(receiver),
        control_of_data: total.sent_bytes as f64 / data,
        references_of_data: total.reference_bytes as f64 / data,
        control_of_share: total.sent_bytes as f64 * 8.0
            / full.lasted.as_secs_f64()
            / wire.share_bps,
        data_bps: full.data_bps() as f64,
        fates: receiver.fates(),
        ..Outcome::default()
    };
    let mut rate_pps_max = outcome.full_pps;
    for _ in 0..TRIES {
        let recorded = once(capacity_bps, rate_pps_max, true)?;
        let [_, receiver] = &recorded.seen;
        if let Some(joined) = &recorded.joined {
            outcome.recorded_pps = rate_pps(receiver);
            outcome.recorded_fates = receiver.fates();
            outcome.verdict = judge(joined, (0, "all"), receiver, &BANKS, 0.0, &hasher());
            return Ok(outcome);
        }
        rate_pps_max *= LESS;
    }
    anyhow::bail!("the record could not keep up at any rate")
}

/// The rate at which packets cross, in the middle of all epochs seen.
fn rate_pps(receiver: &Seen) -> f64 {
    let epochs = receiver.epochs.values();
    let packets = epochs.filter_map(|figures| figures.received_packets);
    let packets = median(packets.map(|packets| packets as f64));
    packets * 1e3 / f64::from(INTERVAL_MS)
}

impl Run {
    /// The wire, by its sender.
    fn sent(&self) -> Wire {
        let [sender, _] = &self.seen;
        sender.last.wires.first().cloned().unwrap_or_default()
    }

    /// Bits a second of data.
    fn data_bps(&self) -> u64 {
        let bits = u128::from(self.sent().total.data_bytes) * 8_000;
        u64::try_from(bits / self.lasted.as_millis().max(1)).unwrap_or(u64::MAX)
    }
}

fn once(
    setting: &Setting<'_>,
    folder: &Path,
    capacity_bps: u64,
    rate_pps: f64,
    is_recorded: bool,
) -> Result<Run> {
    let socket = folder.join("wire.sock");
    // One that a process left behind cannot be listened at.
    let _ = fs::remove_file(&socket);
    let memif = |role: &str| {
        format!(
            "net_memif0,role={role},id=0,socket={},socket-abstract=no,rsize=14",
            socket.display()
        )
    };
    let plan = |number, lan, role| Plan {
        number,
        lan,
        wire: memif(role),
        extra: json!({ "capacity_bps": capacity_bps }),
        core: Some(usize::from(number) - 1),
        sleeps: true,
        is_recorded,
    };
    let traffic = format!("generate:flows=1000,size=imix,burst=8,rate={rate_pps:.0}");
    let plans = [
        plan(1, traffic, "server"),
        plan(2, "sink".to_owned(), "client"),
    ];
    let mut switches = Vec::new();
    for plan in &plans {
        switches.push(Switch::start(setting.vernierd, folder, plan, setting.stop)?);
    }
    for switch in &mut switches {
        switch.wait_for_session(setting.stop)?;
    }
    let watches: Vec<_> = switches
        .iter()
        .map(|one| Watch::begin(one.address))
        .collect();
    let began = std::time::Instant::now();
    wait(setting.duration, setting.stop)?;
    let lasted = began.elapsed();
    let mut seen = watches.into_iter().map(Watch::end);
    let seen = [
        seen.next().unwrap_or_default(),
        seen.next().unwrap_or_default(),
    ];
    let mut ended = Vec::new();
    for switch in switches {
        ended.push(switch.end(setting.stop)?);
    }
    let joined = if is_recorded && ended.iter().all(|ended| ended.is_complete) {
        let [sender, receiver] = [&ended[0], &ended[1]].map(|ended| stamps::read(&ended.stamps));
        Some(Joined::new(&sender?, 1, &receiver?, 1))
    } else {
        None
    };
    for ended in ended.iter().filter(|_| is_recorded) {
        fs::remove_file(&ended.stamps)?;
    }
    Ok(Run {
        seen,
        joined,
        lasted: lasted + Duration::from_millis(500),
    })
}
