//! One fault after the other, and minutes without one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use testkit::frr::{Link, TOY};
use testkit::process::wait;

use crate::mplane::Arguments;
use crate::mplane::fault::{Fault, faults};
use crate::mplane::network::Plan;
use crate::mplane::report::{Report, line};
use crate::mplane::testbed::Testbed;
use crate::mplane::truth::{Blamed, Relation, Verdict, judge, relation, weight_ns};
use crate::mplane::watch::{Key, key, now_unix_s};

/// A fault is to be named within so many reports.
pub const REPORTS_MAX: f64 = 3.0;
/// Reports until localisation begins, and a few more.
const LEARNING_REPORTS: u32 = 200;
/// Reports after a link was cut: the segments that are new then have the names, and the histories, of others that are gone.
const SETTLING_REPORTS: u32 = 40;
/// A fault stays for so many reports: what is shorter than ten counts as a burst.
const HELD_REPORTS: u32 = 13;
/// Reports between the end of a fault's rises and the next.
const PAUSE_REPORTS: u32 = 4;
/// How long rises may stay after their fault, in reports.
const OVER_REPORTS: u32 = 90;
const LOOK: Duration = Duration::from_millis(100);

/// A fault, and what was said of it.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    pub fault: Fault,
    pub verdict: Verdict,
    /// In the order in which the station named them.
    pub blamed: Vec<Blamed>,
    /// What went wrong in the testbed.
    pub error: Option<String>,
}

impl Outcome {
    /// The narrowest segment that was named first.
    pub fn first(&self) -> Option<&Blamed> {
        let narrow = self
            .blamed
            .iter()
            .filter(|blamed| blamed.relation == Relation::Narrowest);
        narrow
            .min_by(|one, other| one.reports.total_cmp(&other.reports))
            .or(self.blamed.first())
    }
}

/// Something that was blamed without a fault.
#[derive(Debug, Clone, Serialize)]
pub struct Alarm {
    /// Seconds after the beginning of the quiet part.
    pub after_s: f64,
    pub title: String,
    pub signal: String,
    pub now: f64,
    pub usual: f64,
}

/// The whole run; whether all limits are kept.
pub fn run(arguments: &Arguments, folder: &Path, stop: &AtomicBool) -> Result<bool> {
    eprintln!("six routers, switches, probers, NATS and a station are starting ...");
    let mut testbed = Testbed::start(folder, arguments.interval_ms, stop)?;
    if arguments.check {
        println!("The path from A to D is covered.");
        return Ok(true);
    }
    let run = Run {
        interval: Duration::from_millis(arguments.interval_ms.into()),
        folder,
        stop,
    };
    eprintln!("learning what is usual: {LEARNING_REPORTS} reports ...");
    run.pass(&mut testbed, LEARNING_REPORTS)?;
    let mut report = Report::new(arguments);
    for fault in faults(arguments.seed, arguments.faults) {
        let outcome = run.one(&mut testbed, &fault)?;
        eprintln!("{}", line(&outcome));
        report.outcomes.push(outcome);
        report.write_to(folder)?;
    }
    if arguments.quiet_minutes > 0 {
        run.restore(&mut testbed)?;
        let duration = Duration::from_mins(arguments.quiet_minutes);
        report.alarms = Some(run.quiet(&mut testbed, duration)?);
        report.write_to(folder)?;
    }
    drop(testbed);
    print!("{}", report.page());
    let checks = report.checks();
    for line in checks.verdict() {
        eprintln!("{line}");
    }
    report.write_to(&arguments.results)?;
    Ok(checks.hold())
}

struct Run<'a> {
    interval: Duration,
    folder: &'a Path,
    stop: &'a AtomicBool,
}

impl Run<'_> {
    /// Lets reports come.
    fn pass(&self, testbed: &mut Testbed, reports: u32) -> Result<()> {
        let until = Instant::now() + self.interval * reports;
        while Instant::now() < until {
            testbed.check()?;
            testbed.traffic.keep()?;
            wait(LOOK.min(self.interval), self.stop)?;
        }
        Ok(())
    }

    /// Restores the whole network, and waits until nothing is risen.
    fn restore(&self, testbed: &mut Testbed) -> Result<()> {
        self.cut(testbed, None)?;
        self.wait_until_over(testbed, &BTreeSet::new())
    }

    /// Everything that is blamed in this time.
    fn quiet(&self, testbed: &mut Testbed, duration: Duration) -> Result<Vec<Alarm>> {
        eprintln!("{} minutes without a fault ...", duration.as_secs() / 60);
        let began = Instant::now();
        let mut alarms = Vec::new();
        let mut present = BTreeSet::<Key>::new();
        while began.elapsed() < duration {
            testbed.check()?;
            testbed.traffic.keep()?;
            let blame = testbed.answers.blame()?;
            for risen in &blame.risen {
                if present.contains(&key(risen)) {
                    continue;
                }
                let alarm = Alarm {
                    after_s: began.elapsed().as_secs_f64(),
                    title: risen.title.clone(),
                    signal: risen.signal.clone(),
                    now: risen.now,
                    usual: risen.usual,
                };
                eprintln!("blamed without a fault: {alarm:?}");
                alarms.push(alarm);
            }
            present = blame.risen.iter().map(key).collect();
            wait(self.interval / 2, self.stop)?;
        }
        Ok(alarms)
    }

    /// Puts a fault in, and takes it out when its time is over.
    fn one(&self, testbed: &mut Testbed, fault: &Fault) -> Result<Outcome> {
        self.cut(testbed, fault.cut)?;
        let before: BTreeSet<Key> = risen(testbed)?;
        let plan = testbed.network.plan()?;
        let mut outcome = Outcome {
            fault: *fault,
            verdict: Verdict::Missed,
            blamed: Vec::new(),
            error: None,
        };
        match self.watch(testbed, fault, &before, &plan) {
            Ok(blamed) => outcome.blamed = blamed,
            Err(error) => {
                ensure!(!self.stop.load(Ordering::Relaxed), "interrupted");
                outcome.error = Some(format!("{error:#}"));
            }
        }
        outcome.verdict = judge(&outcome.blamed, REPORTS_MAX);
        self.wait_until_over(testbed, &before)?;
        Ok(outcome)
    }

    /// Cuts a link and restores the one that was cut, and waits until routers and reports have settled.
    fn cut(&self, testbed: &mut Testbed, wanted: Option<(&str, &str)>) -> Result<()> {
        let ends = |link: Link<'static>| (link.0, link.1);
        if testbed.network.cut().map(ends) == wanted {
            return Ok(());
        }
        let cut = TOY.iter().copied().find(|link| Some(ends(*link)) == wanted);
        eprintln!("cut: {wanted:?}; OSPF converges, and reports settle ...");
        testbed.network.set_cut(cut)?;
        testbed.network.wait_for_routes(self.stop)?;
        testbed.renew_probers(self.folder)?;
        self.pass(testbed, SETTLING_REPORTS)
    }

    fn watch(
        &self,
        testbed: &mut Testbed,
        fault: &Fault,
        before: &BTreeSet<Key>,
        plan: &Plan,
    ) -> Result<Vec<Blamed>> {
        let inserted = fault.insert(&testbed.network, self.folder, self.stop);
        let inserted = inserted.context("the fault cannot be put in")?;
        let (since, since_unix_s) = (Instant::now(), now_unix_s());
        let mut blamed = BTreeMap::<Key, Blamed>::new();
        let mut order = Vec::new();
        let look = |blamed: &mut BTreeMap<Key, Blamed>, order: &mut Vec<Key>| -> Result<()> {
            for risen in &testbed.answers.blame()?.risen {
                let of = key(risen);
                if before.contains(&of) || blamed.contains_key(&of) {
                    continue;
                }
                let end_unix_s = testbed.answers.last_end_unix_s(risen)?;
                let passed = (end_unix_s - since_unix_s) / self.interval.as_secs_f64();
                let named = Blamed {
                    title: risen.title.clone(),
                    kind: risen.kind.clone(),
                    signal: risen.signal.clone(),
                    relation: relation(risen, fault.place, plan),
                    reports: passed.floor().max(0.0),
                    now: risen.now,
                    usual: risen.usual,
                    weight_ns: weight_ns(risen),
                };
                blamed.insert(of.clone(), named);
                order.push(of);
            }
            Ok(())
        };
        let mut seen = Ok(());
        while since.elapsed() < self.interval * HELD_REPORTS && seen.is_ok() {
            seen = look(&mut blamed, &mut order).and_then(|()| wait(LOOK, self.stop));
        }
        inserted
            .remove(self.stop)
            .context("the fault cannot be taken out")?;
        seen?;
        Ok(order.iter().filter_map(|of| blamed.remove(of)).collect())
    }

    /// Waits until what is risen now was risen before.
    fn wait_until_over(&self, testbed: &mut Testbed, before: &BTreeSet<Key>) -> Result<()> {
        for _ in 0..OVER_REPORTS {
            self.pass(testbed, 1)?;
            if risen(testbed)?.is_subset(before) {
                return self.pass(testbed, PAUSE_REPORTS);
            }
        }
        Ok(())
    }
}

/// What is risen now.
fn risen(testbed: &Testbed) -> Result<BTreeSet<Key>> {
    Ok(testbed.answers.blame()?.risen.iter().map(key).collect())
}
