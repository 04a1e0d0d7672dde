//! The live stations, and the owner of each partition.
//!
//! Every station sends a heartbeat twice a second. The owner of a partition follows from the live stations (rendezvous
//! hashing), so that no lease is needed. If two stations briefly disagree, the revisions of the states' keys let only
//! one of them write.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use report::subject::PARTITIONS;
use siphasher::sip::SipHasher24;
use std::hash::Hasher;

/// Subject of the stations' heartbeats.
pub const ALIVE: &str = "vernier.station.alive";

/// Subject on which stations announce that they stop.
pub const GONE: &str = "vernier.station.gone";

/// Interval of the heartbeats.
pub const BEAT: Duration = Duration::from_millis(500);

/// Silence after which a station counts as dead.
pub const SILENCE_MAX: Duration = Duration::from_secs(3);

/// The stations heard recently.
#[derive(Debug)]
pub struct Members {
    own: String,
    heard: HashMap<String, Instant>,
}

impl Members {
    /// Creates the list with this station alone.
    pub fn new(own: String) -> Self {
        Self {
            own,
            heard: HashMap::new(),
        }
    }

    /// Returns the name of this station.
    pub fn own(&self) -> &str {
        &self.own
    }

    /// Notes a heartbeat.
    pub fn hear(&mut self, station: &str, now: Instant) {
        // Limits the names and the list, although nothing else should write to these subjects.
        if station.len() <= 64 && (self.heard.len() < 1_000 || self.heard.contains_key(station)) {
            self.heard.insert(station.to_owned(), now);
        }
    }

    /// Returns whether the station receives its own heartbeats, and so other stations can receive them, too.
    pub fn hears_itself(&self, now: Instant) -> bool {
        let heard = self.heard.get(&self.own);
        heard.is_some_and(|heard| now.duration_since(*heard) < SILENCE_MAX)
    }

    /// Removes a station that stops.
    pub fn forget(&mut self, station: &str) {
        self.heard.remove(station);
    }

    /// Returns the names of the live stations, including this one.
    pub fn alive(&mut self, now: Instant) -> Vec<String> {
        self.heard
            .retain(|_, heard| now.duration_since(*heard) < SILENCE_MAX);
        let others = self.heard.keys().filter(|station| **station != self.own);
        let mut alive: Vec<String> = others.chain([&self.own]).cloned().collect();
        alive.sort();
        alive
    }
}

/// Returns the partitions that a station owns among the live ones.
pub fn owned(own: &str, alive: &[String]) -> Vec<u16> {
    let owns = |partition: &u16| {
        let most = alive
            .iter()
            .max_by_key(|station| weight(station, *partition));
        most.is_some_and(|most| most == own)
    };
    (0..PARTITIONS).filter(owns).collect()
}

fn weight(station: &str, partition: u16) -> u64 {
    let mut hasher = SipHasher24::new();
    hasher.write(station.as_bytes());
    hasher.write_u16(partition);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stations(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn every_partition_has_one_owner_and_few_move() {
        let before = stations(&["a", "b", "c"]);
        let after = stations(&["a", "b", "c", "d"]);
        let mut partitions: Vec<u16> = before.iter().flat_map(|own| owned(own, &before)).collect();
        partitions.sort_unstable();
        assert!(partitions.into_iter().eq(0..PARTITIONS));
        let mut moved = 0;
        for own in &before {
            let (old, new) = (owned(own, &before), owned(own, &after));
            assert!(
                new.iter().all(|partition| old.contains(partition)),
                "only to the new one"
            );
            moved += old.len() - new.len();
        }
        assert_eq!(moved, owned("d", &after).len());
        assert!((4..=28).contains(&moved), "{moved}");
    }

    #[test]
    fn a_station_that_is_not_heard_is_dead() {
        let now = Instant::now();
        let mut members = Members::new("b".to_owned());
        members.hear("a", now);
        members.hear("c", now);
        assert_eq!(members.alive(now), ["a", "b", "c"]);
        assert!(!members.hears_itself(now));
        members.hear("b", now);
        assert!(members.hears_itself(now) && !members.hears_itself(now + SILENCE_MAX));
        members.forget("c");
        assert_eq!(members.alive(now + SILENCE_MAX / 2), ["a", "b"]);
        assert_eq!(members.alive(now + SILENCE_MAX), ["b"]);
    }
}
