//! Why a station is not ready: the last logged problem of each part, listed by `/readyz` until the part works again.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use report::subject::PARTITIONS;

use crate::Station;

/// A part of a station that can fail separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The connection to NATS.
    Connection,
    /// The streams and their limits.
    Streams,
    /// Heartbeats of stations.
    Heartbeats,
    /// Reading the states of all switches.
    States,
    /// Reading the minutes of all switches.
    Minutes,
    /// Counting the reports of one partition.
    Partition(u16),
}

/// The present problems.
#[derive(Debug, Default)]
pub struct Problems(Mutex<BTreeMap<Part, String>>);

impl Problems {
    /// Notes a problem of a part. Logs it unless this part, or another partition, already has the same problem.
    pub fn say(&self, part: Part, problem: &str) {
        let mut problems = self.0.lock();
        let is_known = problems.iter().any(|(of, known)| {
            let is_like = matches!((of, part), (Part::Partition(_), Part::Partition(_)));
            (*of == part || is_like) && known == problem
        });
        problems.insert(part, problem.to_owned());
        drop(problems);
        if !is_known {
            if let Part::Partition(partition) = part {
                tracing::warn!("partition {partition}: {problem}");
            } else {
                tracing::warn!("{problem}");
            }
        }
    }

    /// Notes that a part works.
    pub fn clear(&self, part: Part) {
        self.0.lock().remove(&part);
    }

    /// Returns one line for each problem. Partitions with the same problem share a line, which names the first.
    pub fn list(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut partitions = BTreeMap::<String, Vec<u16>>::new();
        for (part, problem) in &*self.0.lock() {
            match part {
                Part::Partition(partition) => {
                    let of = partitions.entry(problem.clone()).or_default();
                    of.push(*partition);
                }
                _ => lines.push(problem.clone()),
            }
        }
        lines.extend(partitions.into_iter().map(|(problem, of)| {
            let others = match of.len() - 1 {
                0 => String::new(),
                others => format!(" and {others} others"),
            };
            format!("partition {}{others}: {problem}", of[0])
        }));
        lines
    }
}

impl Station {
    /// Returns the reasons why the station is not ready; empty if it is ready.
    pub fn unready(&self, now: Instant) -> Vec<String> {
        let mut reasons = self.problems.list();
        if reasons.is_empty() && !self.is_connected.load(Ordering::Relaxed) {
            reasons.push("not connected to NATS yet".to_owned());
        }
        if !self.fleet.is_ready() {
            reasons.push("the states and minutes in JetStream are being read".to_owned());
        }
        // Any of these reasons can also stall partitions.
        if reasons.is_empty() {
            reasons.extend(self.progress.lock().standing_still(now));
        }
        reasons
    }
}

/// How long reports may wait in a partition without any acknowledgement before the partition counts as stuck.
const STILL_AFTER: Duration = Duration::from_secs(20);

/// The backlog of a partition, according to its consumer at the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// Number of waiting reports, delivered or not.
    pub reports: u64,
    /// Last acknowledged sequence.
    pub acknowledged: u64,
}

/// How long a reading of the backlog is valid.
const LOOK_MAX: Duration = Duration::from_secs(15);

/// Since when partitions have made no progress.
#[derive(Debug, Default)]
pub struct Progress {
    partitions: BTreeMap<u16, Standing>,
    looked: Option<Instant>,
}

#[derive(Debug)]
struct Standing {
    acknowledged: u64,
    since: Instant,
    reports: Option<u64>,
}

impl Progress {
    /// Notes the backlog of the partitions. A partition that is missing has no consumer, and so no owner.
    pub fn see(&mut self, waiting: &BTreeMap<u16, Waiting>, now: Instant) {
        self.looked = Some(now);
        for partition in 0..PARTITIONS {
            let seen = waiting.get(&partition);
            let standing = self.partitions.entry(partition).or_insert(Standing {
                acknowledged: u64::MAX,
                since: now,
                reports: None,
            });
            standing.reports = seen.map(|seen| seen.reports);
            let Some(seen) = seen else { continue };
            if seen.reports == 0 || seen.acknowledged > standing.acknowledged {
                standing.since = now;
            }
            standing.acknowledged = seen.acknowledged;
        }
    }

    /// Returns whether no report of a partition was waiting at the last reading, which must be recent.
    pub fn is_read(&self, partition: u16, now: Instant) -> bool {
        let standing = self.partitions.get(&partition);
        let is_valid = |looked| now.saturating_duration_since(looked) < LOOK_MAX;
        self.looked.is_some_and(is_valid)
            && standing.is_some_and(|standing| standing.reports == Some(0))
    }

    /// Returns the partitions that stand still, with the reasons.
    pub fn standing_still(&self, now: Instant) -> Vec<String> {
        let partitions = self.partitions.iter().filter_map(|(partition, standing)| {
            let seconds = now.saturating_duration_since(standing.since);
            let why = match standing.reports {
                Some(reports) => format!("{reports} reports wait, and none is acknowledged"),
                None => "no station has taken it up".to_owned(),
            };
            (seconds >= STILL_AFTER).then(|| {
                let seconds = seconds.as_secs();
                format!("partition {partition} stands still for {seconds} s: {why}")
            })
        });
        partitions.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_listed_until_their_part_works() {
        let problems = Problems::default();
        problems.say(Part::Streams, "no room");
        for partition in [3, 5, 7] {
            problems.say(Part::Partition(partition), "gone");
        }
        problems.say(Part::Partition(9), "another");
        assert_eq!(
            problems.list(),
            [
                "no room",
                "partition 9: another",
                "partition 3 and 2 others: gone"
            ]
        );
        problems.clear(Part::Streams);
        problems.clear(Part::Partition(3));
        problems.say(Part::Partition(9), "gone");
        assert_eq!(problems.list(), ["partition 5 and 2 others: gone"]);
    }

    #[test]
    fn a_partition_stands_still_where_reports_wait_and_none_is_acknowledged() {
        let mut progress = Progress::default();
        let began = Instant::now();
        let all = |of: fn(u64) -> Waiting, step: u64| (0..PARTITIONS).map(move |n| (n, of(step)));
        // An idle fleet, then a busy one.
        let idle = |_| Waiting {
            reports: 0,
            acknowledged: 5,
        };
        let busy = |step| Waiting {
            reports: 1_000,
            acknowledged: 5 + step,
        };
        for step in 0..100 {
            let now = began + Duration::from_secs(5 * step);
            let of = if step < 50 { idle } else { busy };
            progress.see(&all(of, step).collect(), now);
            assert!(progress.standing_still(now).is_empty());
            assert_eq!(progress.is_read(0, now), step < 50);
            assert!(!progress.is_read(0, now + LOOK_MAX));
        }
        // One partition is taken over again and again, and acknowledges nothing; another has no consumer.
        for step in 100..105 {
            let now = began + Duration::from_secs(5 * step);
            let mut seen: BTreeMap<u16, Waiting> = all(busy, step).collect();
            let back = Waiting {
                reports: 7,
                acknowledged: 50,
            };
            seen.insert(3, back);
            seen.remove(&9);
            progress.see(&seen, now);
        }
        let now = began + Duration::from_secs(5 * 104);
        assert!([0, 3, 9].iter().all(|of| !progress.is_read(*of, now)));
        let still = progress.standing_still(now);
        assert_eq!(
            still,
            [
                "partition 3 stands still for 25 s: 7 reports wait, and none is acknowledged",
                "partition 9 stands still for 25 s: no station has taken it up",
            ]
        );
        progress.see(&all(busy, 105).collect(), now);
        assert!(progress.standing_still(now).is_empty());
    }
}
