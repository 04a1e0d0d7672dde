//! After a change of topology a node monitors its old m-set beside the new one, until the network has converged.

use std::collections::BTreeMap;
use std::time::Duration;

/// Limit of paths of former m-sets; beyond it, those that would expire first are dropped.
pub const FORMER_MAX: usize = 65_536;

/// A path as the names of its routers, since indices change with the topology.
pub type NamedWay = Vec<String>;

/// The paths that one node monitors, now and for a while after a change. It has no clock: every call passes the time
/// since any origin, which must not go back.
#[derive(Debug)]
pub struct Transition {
    hold: Duration,
    /// When a path expires; `None` if it is in the present m-set.
    ways: BTreeMap<NamedWay, Option<Duration>>,
}

impl Transition {
    /// Creates an empty set; former m-sets are monitored for `hold` after a change.
    pub const fn new(hold: Duration) -> Self {
        Self {
            hold,
            ways: BTreeMap::new(),
        }
    }

    /// Replaces the present m-set.
    pub fn change(&mut self, now: Duration, mset: impl IntoIterator<Item = NamedWay>) {
        self.expire(now);
        let until = now.saturating_add(self.hold);
        for end in self.ways.values_mut() {
            end.get_or_insert(until);
        }
        for way in mset {
            self.ways.insert(way, None);
        }
        // Drops those that expire at once (`hold` is 0), and any beyond the limit.
        self.expire(now);
        self.limit();
    }

    /// The paths to monitor: those of the present m-set, and former ones that have not expired.
    pub fn monitored(&mut self, now: Duration) -> impl Iterator<Item = &NamedWay> {
        self.expire(now);
        self.ways.keys()
    }

    fn expire(&mut self, now: Duration) {
        self.ways.retain(|_, end| end.is_none_or(|end| end > now));
    }

    fn limit(&mut self) {
        let mut ends: Vec<_> = self.ways.values().flatten().copied().collect();
        let Some(excess) = ends.len().checked_sub(FORMER_MAX).filter(|&more| more > 0) else {
            return;
        };
        ends.sort_unstable();
        let last = ends[excess - 1];
        let mut left = excess;
        self.ways.retain(|_, end| {
            let goes = left > 0 && end.is_some_and(|end| end <= last);
            left -= usize::from(goes);
            !goes
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ways(names: &[&str]) -> Vec<NamedWay> {
        let way = |name: &&str| vec!["C".to_owned(), (*name).to_owned()];
        names.iter().map(way).collect()
    }

    fn monitored(transition: &mut Transition, second: u64) -> Vec<NamedWay> {
        let now = Duration::from_secs(second);
        transition.monitored(now).cloned().collect()
    }

    #[test]
    fn old_and_new_are_monitored_for_the_time_configured() {
        let mut transition = Transition::new(Duration::from_secs(10));
        transition.change(Duration::from_secs(0), ways(&["D", "E", "F"]));
        transition.change(Duration::from_secs(100), ways(&["D", "G"]));
        assert_eq!(monitored(&mut transition, 104), ways(&["D", "E", "F", "G"]));
        // Another change in the meantime does not prolong former paths; a path can come back.
        transition.change(Duration::from_secs(105), ways(&["E", "G"]));
        assert_eq!(monitored(&mut transition, 109), ways(&["D", "E", "F", "G"]));
        assert_eq!(monitored(&mut transition, 110), ways(&["D", "E", "G"]));
        assert_eq!(monitored(&mut transition, 115), ways(&["E", "G"]));
    }

    #[test]
    fn a_flapping_network_fills_no_memory() {
        let mut transition = Transition::new(Duration::from_secs(1_000_000));
        let wave = |wave: usize| (0..FORMER_MAX / 2).map(move |at| vec![format!("{wave}-{at}")]);
        for second in 0..4 {
            transition.change(Duration::from_secs(second as u64), wave(second));
        }
        // The present set, and the last two of the three former ones.
        assert_eq!(monitored(&mut transition, 4).len(), FORMER_MAX * 3 / 2);
        assert!(!monitored(&mut transition, 4).contains(&vec!["0-0".to_owned()]));
    }

    proptest! {
        /// Compared with a list of all changes: a path is monitored if it was in a set within the last
        /// `hold`.
        #[test]
        fn it_is_the_union_of_the_sets_of_the_last_while(
            hold in 0_u64..6,
            changes in prop::collection::vec((0_u64..4, prop::collection::btree_set(0_u8..5, 0..4)), 1..12),
            later in 0_u64..8,
        ) {
            let mut transition = Transition::new(Duration::from_secs(hold));
            let (mut now, mut list) = (0, Vec::new());
            for (pause, set) in changes {
                now += pause;
                let ways = set.iter().map(|name| vec![name.to_string()]);
                transition.change(Duration::from_secs(now), ways);
                list.push((now, set));
            }
            let at = now + later;
            let mut expected = list.last().unwrap().1.clone();
            for pair in list.windows(2) {
                // Replaced at the time of the second.
                if pair[1].0 + hold > at {
                    expected.extend(&pair[0].1);
                }
            }
            let expected: Vec<_> = expected.iter().map(|name| vec![name.to_string()]).collect();
            prop_assert_eq!(monitored(&mut transition, at), expected);
        }
    }
}
