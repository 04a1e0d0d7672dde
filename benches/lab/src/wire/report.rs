//! The page of all runs, and the checks.

use std::ops::RangeInclusive;

use reporting::statistics::mean;
use reporting::{BUILD, Checks, Machine, Table};

use crate::wire::scenario::{Outcome, Way};
use crate::wire::verdict::{CHOSEN, Errors, FlowClass, Judged, Verdict};

/// Names of the directions.
pub const ARROWS: [&str; 2] = ["a > b", "b > a"];

/// Least share of epochs in which the truth is within a bound of nominal 98 %.
const WITHIN_MIN: f64 = 0.93;
/// Least number of epochs for such a share.
pub const EPOCHS_MIN: usize = 100;
/// Least number of flows, each in an epoch, for a median.
const FLOWS_MIN: usize = 100;
/// Largest ratio of the chooser's error to that of the best single method, for flows of one size in one run.
const CHOOSER_MAX: f64 = 1.1;
/// Largest geometric mean of this ratio over all sizes and runs, which is known far better.
const CHOOSER_MEAN_MAX: f64 = 1.03;
/// Least number of sizes of flows, over all runs, for this mean.
const CLASSES_MIN: usize = 20;
/// Largest median error of a flow's 99th percentile.
pub const TAIL_ERROR_MAX: f64 = 0.3;
/// Largest share of references in the data's bytes at high load.
pub const REFERENCES_MAX: f64 = 0.002;

/// Fields of a row of a table, each with its heading.
pub type Row = Vec<(&'static str, String)>;

/// Results of all runs so far.
#[derive(Debug, Default)]
pub struct Report {
    /// Over veth.
    pub runs: Vec<Outcome>,
    /// Sections about other runs.
    pub sections: Vec<String>,
    pub checks: Checks,
    /// Logarithms of the ratio of the chooser's error to that of the best single method, by size of flows and run.
    chooser: Vec<f64>,
}

pub fn percent(share: f64) -> String {
    match share.abs() {
        magnitude if magnitude.is_nan() => "-".to_owned(),
        magnitude if magnitude < 1e-4 => format!("{:.5} %", share * 100.0),
        magnitude if magnitude < 0.01 => format!("{:.3} %", share * 100.0),
        _ => format!("{:.1} %", share * 100.0),
    }
}

pub fn list(counts: &[(String, u64)]) -> String {
    let counts = counts.iter().map(|(name, count)| format!("{name} {count}"));
    let counts: Vec<_> = counts.collect();
    if counts.is_empty() {
        return "none".to_owned();
    }
    counts.join(", ")
}

pub fn packets_between(packets: &RangeInclusive<u64>) -> String {
    match (packets.start(), packets.end()) {
        (0, &u64::MAX) => "all".to_owned(),
        (min, &u64::MAX) => format!("{min} and more"),
        (min, max) => format!("{min} to {max}"),
    }
}

pub fn us(ns: f64) -> String {
    if ns.is_nan() {
        return "-".to_owned();
    }
    format!("{:.2}", ns / 1e3)
}

pub fn mbps(bps: f64) -> String {
    format!("{:.3}", bps / 1e6)
}

pub fn whole(figure: f64) -> String {
    format!("{figure:.0}")
}

pub fn judged(of: &Judged) -> String {
    format!("{} ({} of {})", percent(of.error), of.known, of.flows)
}

pub fn flow_errors(flows: &[Errors]) -> String {
    let errors = flows.iter().map(|of| {
        let (error, within) = (percent(of.error), percent(of.within_share()));
        format!("{} {error} ({}, {within})", of.method, of.count)
    });
    errors.collect::<Vec<_>>().join(", ")
}

impl Report {
    /// Adds a run over veth.
    pub fn add(&mut self, run: Outcome) {
        for (arrow, way) in ARROWS.into_iter().zip(&run.ways) {
            let name = format!("{}, {arrow}", run.name);
            self.check_verdict(&name, &way.verdict);
            if let Some(compared) = way.compared {
                self.checks.add(
                    format!("{name}: data packets changed"),
                    format!("{} of {}", compared.changed, compared.received),
                    compared.changed == 0 && compared.received > 0,
                );
            }
            let what = format!("{name}: control frames that got out of a switch");
            self.checks.add(what, way.leaked, way.leaked == 0);
            self.check_share(&name, way.control_of_share);
        }
        self.runs.push(run);
    }

    pub fn check_share(&mut self, name: &str, share: f64) {
        let what = format!("{name}: control frames, of the bits that they may take");
        self.checks.add(what, percent(share), share <= 1.0);
    }

    pub fn check_verdict(&mut self, name: &str, verdict: &Verdict) {
        let checks = &mut self.checks;
        let usable = verdict.usable;
        checks.add(
            format!("{name}: usable epochs, {EPOCHS_MIN} at least"),
            format!("{usable} of {}", verdict.epochs),
            usable >= EPOCHS_MIN,
        );
        if let Some(chosen) = verdict.means.iter().find(|of| of.method == CHOSEN) {
            let share = chosen.within_share();
            let what = format!("{name}: truth within the bound of the mean, 93 % at least");
            checks.add(what, percent(share), share >= WITHIN_MIN);
        }
        let (exact, counted) = (verdict.counts_exact, verdict.counted);
        checks.add(
            format!("{name}: sent, received and lost packets exact wherever they are known"),
            format!("{exact} of {counted}"),
            exact == counted && counted > 0,
        );
        let tails = verdict.tails;
        if tails.known >= FLOWS_MIN {
            checks.add(
                format!(
                    "{name}: median error of p99 over flows of 1000 packets and more, 30 % at most"
                ),
                format!("{} of {} flows", percent(tails.error), tails.known),
                tails.error <= TAIL_ERROR_MAX,
            );
        }
        let classes = verdict.flows.iter().filter(|class| !class.is_all());
        let judged = classes.filter_map(|class| Some((class, class.chosen_and_best()?)));
        let judged = judged.filter(|(_, (chosen, _))| chosen.count >= FLOWS_MIN);
        let judged: Vec<_> = judged.collect();
        checks.add(
            format!("{name}: sizes of flows with enough flows to judge the chooser"),
            judged.len(),
            !judged.is_empty(),
        );
        for (FlowClass { packets, .. }, (chosen, best)) in judged {
            let what = format!(
                "{name}: median error over flows of {} packets by the chooser, as far as so many flows tell, \
                 the best method's + 10 % at most",
                packets_between(packets)
            );
            let got = format!(
                "{}, {} at least ({} {})",
                percent(chosen.error),
                percent(chosen.error_min),
                best.method,
                percent(best.error)
            );
            checks.add(what, got, chosen.error_min <= best.error * CHOOSER_MAX);
            self.chooser.push((chosen.error / best.error).ln());
        }
    }

    /// Checks the chooser over all sizes and runs, if there are enough.
    pub fn check_chooser(&mut self) {
        let count = self.chooser.len();
        if count >= CLASSES_MIN {
            let excess = mean(self.chooser.iter().copied()).exp();
            self.checks.add(
                "error of the chooser by the best method's, geometric mean over all sizes of flows judged, 1.03 at most",
                format!("{excess:.3} ({count} sizes)"),
                excess <= CHOOSER_MEAN_MAX,
            );
        }
    }

    /// Both directions of all runs over veth.
    fn ways(&self) -> impl Iterator<Item = (&'static str, &'static str, &Way)> {
        self.runs.iter().flat_map(|run| {
            let ways = ARROWS.into_iter().zip(&run.ways);
            ways.map(move |(arrow, way)| (run.words, arrow, way))
        })
    }

    pub fn markdown(&self) -> String {
        let machine = Machine::of_this_run();
        let commit = &machine.commit;
        let mut parts = vec![format!("{PREFACE}{machine}; {BUILD} build of {commit}.")];
        if !self.runs.is_empty() {
            parts.extend([
                "## Usable data, compared with predictions from probability".to_owned(),
                self.table(|way| way.verdict.usability.clone()),
                "## Mean delays of epochs".to_owned(),
                self.means().markdown(),
                "## Mean delays of flows".to_owned(),
                "Median relative error over flows in epochs, by their packets in the epoch; p99, the 99th percentile, \
                 known of so many of the flows. Bounds are nominal 98 % intervals."
                    .to_owned(),
                self.flows().markdown(),
                "## Independent records".to_owned(),
                self.table(|way| way.records.clone()),
                "## Control frames on the wire".to_owned(),
                "Bits per second, including Ethernet's overhead, counted by the box over the whole run."
                    .to_owned(),
                self.table(|way| way.overhead.clone()),
            ]);
        }
        parts.extend_from_slice(&self.sections);
        parts.push("## What had to hold".to_owned());
        parts.push(self.checks.table().markdown());
        let parts: Vec<_> = parts.iter().map(|part| part.trim_end()).collect();
        parts.join("\n\n") + "\n"
    }

    /// A table of both directions of all runs.
    fn table(&self, row: fn(&Way) -> Row) -> String {
        let mut table = Table::default().words(["path", "way"]);
        for (number, (path, arrow, way)) in self.ways().enumerate() {
            let (headings, fields): (Vec<_>, Vec<_>) = row(way).into_iter().unzip();
            if number == 0 {
                table = table.figures(headings);
            }
            let names = [path, arrow].map(str::to_owned).into_iter();
            table.push(names.chain(fields).collect());
        }
        table.markdown()
    }

    fn means(&self) -> Table {
        let mut table = Table::default()
            .words(["path", "way"])
            .figures(["true mean, us", "deviation, us"])
            .words(["method"])
            .figures(["epochs", "median error, us", "should be"])
            .figures(["median bound, us", "truth within"]);
        for (name, arrow, Way { verdict, .. }) in self.ways() {
            for of in &verdict.means {
                let expected = match of.method.as_str() {
                    "lda" => us(verdict.expected_error_ns),
                    _ => String::new(),
                };
                table.row(&[
                    &name,
                    &arrow,
                    &us(verdict.mean_ns),
                    &us(verdict.deviation_ns),
                    &of.method,
                    &of.count,
                    &us(of.error),
                    &expected,
                    &us(of.bound_ns),
                    &percent(of.within_share()),
                ]);
            }
        }
        table
    }

    fn flows(&self) -> Table {
        let mut table = Table::default()
            .words(["path", "way"])
            .figures(["packets"])
            .words(["errors by method (flows, of those with a bound within it)"]);
        for (name, arrow, Way { verdict, .. }) in self.ways() {
            for FlowClass { packets, errors } in &verdict.flows {
                let errors = flow_errors(errors);
                table.row(&[&name, &arrow, &packets_between(packets), &errors]);
            }
            if verdict.tails.known > 0 {
                let error = format!("p99: {}", judged(&verdict.tails));
                table.row(&[&name, &arrow, &"1000 and more", &error]);
            }
        }
        table
    }
}

/// The text above the tables.
const PREFACE: &str = "# Segments on the wire

Two switches report on the path between them, and their reports are compared with the fate of each packet: `make wire`.

Two hosts are in separate namespaces, each with a switch next to it, and `vernier-lab impair` is between the switches; all are joined by veth.
The hosts send each other a mix of UDP flows (200 in each direction, IMIX, bursts of 6, shares by Zipf's law), TCP (iperf3) and pings. Both
switches record when they saw each packet; joined by packet hash, these records are the truth. There are two independent records: the box
records what it did to each packet, and tcpdump at both hosts records the packets there. Epochs are 100 ms. The LDA has two banks of 256 rows (80 % and
20 % of packets); sketch and references are as large as the share of the link allows (0.5 % of 1 Gbit/s). Switches, box, hosts and
their senders share the machine's CPUs, so delays include waiting for a CPU.

The columns *should be* are computed from probability alone, with independent loss of frames at the box's rate. A rollover is seen unless
all three copies of its marker are lost, and an epoch is usable if both its rollovers are seen. The sender's counts and each range of cells
arrive at once or in one round of retransmission. A cell is usable if none of its packets was lost. If samples are drawn without replacement from delays with
the observed deviation, the error of their mean is under 0.67 standard errors half the time.

Flows are compared with flows of similar size, 10 to 99 packets in an epoch and 100 or more. TCP at full speed has one large flow with
errors of tenths of a percent and many small ones with several percent, so a median over both is a value that no flow has; the table shows
it anyway. A median over a hundred flows is only exact to about a fifth. So the chooser misses its limit for
one size in one run only if the lower end of its median's 95 % confidence interval (order statistics) exceeds it. Over all of them together,
where chance evens out, it must be within 3 % of the best.

";

#[cfg(test)]
mod tests;
