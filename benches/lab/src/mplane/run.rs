//! One fault after the other, and minutes without one.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use records::station::Risen;
use reporting::write_page;
use testkit::frr::{Link, TOY};
use testkit::process::{check_wanted, wait};

use crate::mplane::Arguments;
use crate::mplane::fault::{Fault, faults};
use crate::mplane::network::Plan;
use crate::mplane::report::{Report, line};
use crate::mplane::testbed::{Key, Testbed, key, now_unix_s};
use crate::mplane::truth::{Blamed, Relation, Verdict, judge, relation};

/// Reports within which a fault must be named.
pub const REPORTS_MAX: f64 = 3.0;
/// Reports until localisation begins, plus a few.
const LEARNING_REPORTS: u32 = 200;
/// Reports to wait after a link was cut, because new segments then have the names, and the histories, of former ones.
const SETTLING_REPORTS: u32 = 40;
/// Duration of a fault in reports; anything shorter than ten counts as a burst.
const HELD_REPORTS: u32 = 13;
/// Reports between the end of a fault's rises and the next.
const PAUSE_REPORTS: u32 = 4;
/// How long rises may last after their fault, in reports.
const OVER_REPORTS: u32 = 90;
const LOOK: Duration = Duration::from_millis(100);

/// A fault, and the station's answers about it.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub fault: Fault,
    pub verdict: Verdict,
    /// In the order in which the station named them.
    pub blamed: Vec<Blamed>,
    /// What went wrong in the self.
    pub error: Option<String>,
}

impl Outcome {
    /// The narrowest segment of those named first.
    pub fn first(&self) -> Option<&Blamed> {
        let blamed = self.blamed.iter();
        let narrow = blamed.filter(|blamed| blamed.relation == Relation::Narrowest);
        let first = narrow.min_by(|one, other| one.reports.total_cmp(&other.reports));
        first.or(self.blamed.first())
    }
}

/// The whole run; whether all limits are kept.
pub fn run(arguments: &Arguments, folder: &Path) -> Result<bool> {
    eprintln!("six routers, switches, probers, NATS and a station are starting ...");
    let mut testbed = Testbed::start(folder, arguments.interval_ms)?;
    if arguments.check {
        println!("The path from A to D is covered.");
        return Ok(true);
    }
    eprintln!("learning what is usual: {LEARNING_REPORTS} reports ...");
    testbed.pass(LEARNING_REPORTS)?;
    let mut report = Report {
        arguments,
        outcomes: Vec::new(),
        alarms: None,
    };
    let write = |folder: &Path, report: &Report<'_>| write_page(folder, "mplane", &report.page());
    for fault in faults(arguments.seed, arguments.faults) {
        let outcome = testbed.one(&fault)?;
        eprintln!("{}", line(&outcome));
        report.outcomes.push(outcome);
        write(folder, &report)?;
    }
    if arguments.quiet_minutes > 0 {
        testbed.cut(None)?;
        testbed.wait_until_over(&BTreeSet::new())?;
        report.alarms = Some(testbed.quiet(Duration::from_mins(arguments.quiet_minutes))?);
        write(folder, &report)?;
    }
    drop(testbed);
    print!("{}", report.page());
    let checks = report.checks();
    for line in checks.verdict() {
        eprintln!("{line}");
    }
    write(&arguments.results, &report)?;
    Ok(checks.hold())
}

impl Testbed<'_> {
    /// Lets reports come.
    fn pass(&mut self, reports: u32) -> Result<()> {
        let until = Instant::now() + self.interval() * reports;
        while Instant::now() < until {
            self.check()?;
            wait(LOOK.min(self.interval()))?;
        }
        Ok(())
    }

    /// Returns everything that is blamed in this time.
    fn quiet(&mut self, duration: Duration) -> Result<Vec<(f64, Risen)>> {
        eprintln!("{} minutes without a fault ...", duration.as_secs() / 60);
        let began = Instant::now();
        let mut alarms = Vec::new();
        let mut present = BTreeSet::<Key>::new();
        while began.elapsed() < duration {
            self.check()?;
            let blame = self.answers.blame()?;
            let failed = &blame.failed;
            ensure!(failed.is_empty(), "failed without a fault: {failed:?}");
            for risen in &blame.risen {
                if present.contains(&key(risen)) {
                    continue;
                }
                eprintln!("blamed without a fault: {risen:?}");
                alarms.push((began.elapsed().as_secs_f64(), risen.clone()));
            }
            present = blame.risen.iter().map(key).collect();
            wait(self.interval() / 2)?;
        }
        Ok(alarms)
    }

    /// Injects a fault, and removes it when its time is over.
    fn one(&mut self, fault: &Fault) -> Result<Outcome> {
        self.cut(fault.cut)?;
        let before: BTreeSet<Key> = self.risen()?;
        let plan = self.network.plan()?;
        let mut outcome = Outcome {
            fault: *fault,
            verdict: Verdict::Missed,
            blamed: Vec::new(),
            error: None,
        };
        match self.watch(fault, &before, &plan) {
            Ok(blamed) => outcome.blamed = blamed,
            Err(error) => {
                check_wanted()?;
                outcome.error = Some(format!("{error:#}"));
            }
        }
        outcome.verdict = judge(&outcome.blamed, REPORTS_MAX);
        self.wait_until_over(&before)?;
        Ok(outcome)
    }

    /// Cuts a link and restores the one that was cut, and waits until routers and reports have settled.
    fn cut(&mut self, wanted: Option<(&str, &str)>) -> Result<()> {
        let ends = |link: Link<'static>| (link.0, link.1);
        if self.network.cut().map(ends) == wanted {
            return Ok(());
        }
        let cut = TOY.iter().copied().find(|link| Some(ends(*link)) == wanted);
        eprintln!("cut: {wanted:?}; OSPF converges, and reports settle ...");
        self.network.set_cut(cut)?;
        self.network.wait_for_routes()?;
        self.renew_probers()?;
        self.pass(SETTLING_REPORTS)
    }

    fn watch(&self, fault: &Fault, before: &BTreeSet<Key>, plan: &Plan) -> Result<Vec<Blamed>> {
        let remove = fault.insert(&self.network, self.folder);
        let remove = remove.context("the fault cannot be injected")?;
        let (since, since_unix_s) = (Instant::now(), now_unix_s());
        let (mut known, mut blamed) = (before.clone(), Vec::new());
        let mut look = || -> Result<()> {
            for risen in &self.answers.blame()?.risen {
                let of = key(risen);
                if known.contains(&of) {
                    continue;
                }
                let end_unix_s = self.answers.last_end_unix_s(risen)?;
                let passed = (end_unix_s - since_unix_s) / self.interval().as_secs_f64();
                let named = Blamed {
                    risen: risen.clone(),
                    relation: relation(risen, fault.place, plan),
                    reports: passed.floor().max(0.0),
                };
                known.insert(of);
                blamed.push(named);
            }
            Ok(())
        };
        let mut seen = Ok(());
        while since.elapsed() < self.interval() * HELD_REPORTS && seen.is_ok() {
            seen = look().and_then(|()| wait(LOOK));
        }
        remove().context("the fault cannot be removed")?;
        seen?;
        Ok(blamed)
    }

    /// Waits until there is no new rise.
    fn wait_until_over(&mut self, before: &BTreeSet<Key>) -> Result<()> {
        for _ in 0..OVER_REPORTS {
            self.pass(1)?;
            if self.risen()?.is_subset(before) {
                return self.pass(PAUSE_REPORTS);
            }
        }
        Ok(())
    }

    /// The present rises.
    fn risen(&self) -> Result<BTreeSet<Key>> {
        Ok(self.answers.blame()?.risen.iter().map(key).collect())
    }
}
