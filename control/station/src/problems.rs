//! Why a station is not ready: the problem that each part logged last, listed by `/readyz` until the part works again.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Instant;

use parking_lot::Mutex;

use crate::Station;

/// A part of a station that can fail by itself.
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

/// The problems there are now.
#[derive(Debug, Default)]
pub struct Problems(Mutex<BTreeMap<Part, String>>);

impl Problems {
    /// Notes a problem of a part, and logs it unless this part, or another partition, has the same.
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
    /// Returns why the station is not ready; nothing if it is.
    pub fn unready(&self, now: Instant) -> Vec<String> {
        let mut reasons = self.problems.list();
        if reasons.is_empty() && !self.is_connected.load(Ordering::Relaxed) {
            reasons.push("not connected to NATS yet".to_owned());
        }
        if !self.fleet.is_ready() {
            reasons.push("the states and minutes in JetStream are being read".to_owned());
        }
        // Partitions stand still for any of these reasons, too.
        if reasons.is_empty() {
            reasons.extend(self.progress.lock().standing_still(now));
        }
        reasons
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
}
