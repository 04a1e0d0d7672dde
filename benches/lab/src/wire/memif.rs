//! Two switches over shared memory (`net_memif`), at this machine's full speed, with nothing between them: the
//! first generates IMIX, the second discards it.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use reporting::Table;
use reporting::statistics::{self, median};
use testkit::process::{Background, wait};

use crate::wire::report::{
    REFERENCES_MAX, Report, flow_errors, list, packets_between, percent, us, whole,
};
use crate::wire::switch::{INTERVAL_MS, Setting, Switch, both, memif_config};
use crate::wire::truth::Epochs;
use crate::wire::verdict::{FlowClass, Verdict, judge};
use crate::wire::watch::{self, Seen};

/// More packets per second than any CPU can generate.
const RATE_MAX_PPS: f64 = 50e6;

/// Factor for the next rate if the record cannot keep up.
const SLOWER: f64 = 0.7;

/// Maximum number of rates to try.
const TRIES: u32 = 8;

/// Maximum capacity of the path, as far as control frames and references are concerned.
const CAPACITY_MAX_BPS: u64 = 10_000_000_000;

/// Results of a run.
struct Run {
    /// Reports of the sender and the receiver.
    seen: [Seen; 2],
    /// The truth; `None` without a complete record.
    truths: Option<[Epochs; 2]>,
    seconds: f64,
}

/// Runs at full speed to measure the capacity of the path, then again at full speed, and with a record at the highest
/// rate at which it is complete.
pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let once = |capacity_bps, pps, is_recorded| once(setting, capacity_bps, pps, is_recorded);
    let first = once(CAPACITY_MAX_BPS, RATE_MAX_PPS, false)?;
    let capacity_bps = first.data_bps()?.min(CAPACITY_MAX_BPS);
    let full = once(capacity_bps, RATE_MAX_PPS, false)?;
    let mut pps = full.pps();
    for _ in 0..TRIES {
        let recorded = once(capacity_bps, pps, true)?;
        if let Some([truth, _]) = &recorded.truths {
            let verdict = judge(truth, &recorded.seen[1], 0.0);
            return add(report, capacity_bps, &full, &recorded, &verdict);
        }
        pps *= SLOWER;
    }
    bail!("the record could not keep up at any rate")
}

/// Adds the section and the checks. Bytes of control frames are the sender's own count.
fn add(
    report: &mut Report,
    capacity_bps: u64,
    full: &Run,
    recorded: &Run,
    verdict: &Verdict,
) -> Result<()> {
    let wire = full.seen[0].last()?;
    let of_data = |bytes: u64| bytes as f64 / wire.total.data_bytes.max(1) as f64;
    let (control, references) = (wire.total.sent_bytes, wire.total.reference_bytes);
    report.check_verdict("memif", verdict);
    let control_bps = control as f64 * 8.0 / full.seconds;
    report.check_share("memif", control_bps / wire.share_bps);
    report.checks.add(
        "memif: references at the highest rate with IMIX, of the data's bytes, 0.2 % at most",
        percent(of_data(references)),
        of_data(references) < REFERENCES_MAX,
    );

    let mut table = Table::default().words([""]).figures([""]);
    let mut row = |what: &str, figure: String| {
        table.row(&[&what, &figure]);
    };
    row("capacity, Mbit/s", whole(capacity_bps as f64 / 1e6));
    row("packets a second, no record kept", whole(full.pps()));
    row("data, Mbit/s", whole(full.data_bps()? as f64 / 1e6));
    row(
        "control frames, of the data's bytes",
        percent(of_data(control)),
    );
    row(
        "references, of the data's bytes",
        percent(of_data(references)),
    );
    row("epochs by fate", list(&full.seen[1].fates()));
    row(
        "packets a second, every packet recorded at both ends",
        whole(recorded.pps()),
    );
    let fates = list(&recorded.seen[1].fates());
    row(
        "epochs, compared; by fate",
        format!("{}, {}; {fates}", verdict.epochs, verdict.usable),
    );
    let samples = format!("{}, {}", whole(verdict.packets), whole(verdict.samples));
    row("packets of an epoch, samples of the LDA", samples);
    let truth = format!("{}, {}", us(verdict.mean_ns), us(verdict.deviation_ns));
    row("true mean and deviation, us", truth);
    for of in &verdict.means {
        let (error, bound) = (us(of.error), us(of.bound_ns));
        row(
            &format!("{}: median error and bound, us; truth within", of.method),
            format!("{error}, {bound}; {}", percent(of.within_share())),
        );
    }
    for FlowClass { packets, errors } in &verdict.flows {
        let what = format!("flows of {} packets", packets_between(packets));
        row(&what, flow_errors(errors));
    }
    report.sections.push(format!(
        "## Over shared memory, at full speed\n\n\
         Two switches, a CPU each, `net_memif` between them, IMIX of 1,000 flows from a generator inside the first.\n\
         Shared memory has no rate of its own: what it carried at first is taken for its capacity, 10 Gbit/s at most.\n\n{}",
        table.markdown()
    ));
    Ok(())
}

impl Run {
    /// Packets a second that cross: the median over epochs.
    fn pps(&self) -> f64 {
        median(self.seen[1].received_packets()) * 1e3 / f64::from(INTERVAL_MS)
    }

    /// Bits a second of data.
    fn data_bps(&self) -> Result<u64> {
        let bytes = self.seen[0].last()?.total.data_bytes;
        Ok(statistics::whole(bytes as f64 * 8.0 / self.seconds) as u64)
    }
}

fn once(setting: &Setting, capacity_bps: u64, pps: f64, is_recorded: bool) -> Result<Run> {
    let socket = setting.folder.join("wire.sock");
    let traffic = format!("flows=1000,size=imix,burst=8,rate={pps:.0}");
    let configs = [(0, "server"), (1, "client")].map(|(index, role)| {
        let mut config = memif_config(index, &socket, role, capacity_bps, &traffic);
        config["workers"][0]["core"] = index.into();
        config
    });
    let mut switches = Switch::start_both(&setting.folder, configs, is_recorded)?;
    Switch::wait_for_sessions(&mut switches)?;
    let watches = switches.each_ref().map(|one| watch::begin(&one.client));
    let began = Instant::now();
    wait(setting.flow_duration)?;
    // The last epochs' fragments come half a second later.
    let seconds = (began.elapsed() + Duration::from_millis(500)).as_secs_f64();
    Ok(Run {
        seen: both(watches, Background::end)?,
        truths: Switch::join(switches)?,
        seconds,
    })
}
