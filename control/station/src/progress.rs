//! Whether every partition makes progress, whichever station owns it: if reports wait, some are acknowledged.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use report::subject::PARTITIONS;

/// How long reports may wait in a partition without one being acknowledged before the partition counts as stuck.
const STILL_AFTER: Duration = Duration::from_secs(20);

/// The backlog of a partition, as the server has it of the partition's consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// Reports that wait, delivered or not.
    pub reports: u64,
    /// Sequence up to which they are acknowledged.
    pub acknowledged: u64,
}

/// Since when partitions make no progress.
#[derive(Debug, Default)]
pub struct Progress {
    partitions: BTreeMap<u16, Standing>,
}

#[derive(Debug)]
struct Standing {
    acknowledged: u64,
    since: Instant,
    reports: Option<u64>,
}

impl Progress {
    /// Notes the backlog of the partitions. A partition that is not in it has no consumer, and so no owner.
    pub fn see(&mut self, waiting: &BTreeMap<u16, Waiting>, now: Instant) {
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

    /// Partitions that stand still, and why, in words.
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
    fn a_partition_stands_still_where_reports_wait_and_none_is_acknowledged() {
        let mut progress = Progress::default();
        let began = Instant::now();
        let all = |of: fn(u64) -> Waiting, step: u64| (0..PARTITIONS).map(move |n| (n, of(step)));
        // An idle fleet, then one at work.
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
        }
        // One is taken up again and again, and acknowledges nothing; one has no consumer.
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
