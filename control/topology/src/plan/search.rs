//! A search on the probe hop count itself.
//!
//! By how much a set of upgrades reduces the count is the sum of hops of all shortest paths that it meets: weighted
//! coverage. For that, greedy upgrades by hops are within 1 - 1/e of the best set. Exchanges of single routers improve on
//! them, and so does a detour: to some routers more or fewer than asked for, and back.

use std::cmp::Reverse;

use super::{Upgraded, greatest, greedy};
use crate::paths::Paths;
use crate::topology::Router;

/// Routers more or fewer in a detour, at most.
const DETOUR_MAX: usize = 6;

/// The best set found of so many upgrades, never worse than Algorithm 1's; in the order in which each reduces the probe
/// hop count the most.
pub fn search(paths: &Paths, upgrades: usize) -> Vec<Router> {
    let by_hops = Set::of(paths, &[]).resized(upgrades);
    let by_count = Set::of(paths, &greedy(paths, upgrades));
    let mut best = Set::better(by_hops.exchanged(), by_count.exchanged());
    let mut detour = 1;
    while detour <= DETOUR_MAX {
        let before = best.hops;
        for by_way_of in [upgrades + detour, upgrades.saturating_sub(detour)] {
            let there = best.clone().resized(by_way_of).exchanged();
            best = Set::better(best, there.resized(upgrades).exchanged());
        }
        // Each time the count falls, so that this ends.
        detour = if best.hops < before { 1 } else { detour + 1 };
    }
    best.order()
}

#[derive(Clone)]
struct Set<'a> {
    paths: &'a Paths,
    upgraded: Upgraded,
    /// Probe hop count.
    hops: u64,
}

impl<'a> Set<'a> {
    fn of(paths: &'a Paths, routers: &[Router]) -> Self {
        let upgraded = Upgraded::of(paths, routers);
        Self {
            paths,
            hops: paths.hops(&upgraded.0),
            upgraded,
        }
    }

    /// The one of fewer hops; the first if they are alike.
    fn better(first: Self, second: Self) -> Self {
        if second.hops < first.hops {
            second
        } else {
            first
        }
    }

    fn routers(&self) -> Vec<Router> {
        let all = (0..).map(Router).zip(&self.upgraded.0);
        all.filter_map(|(router, is)| is.then_some(router))
            .collect()
    }

    /// Of so many routers: upgrades those that reduce the count the most, or leaves out those that matter least. Fewer if
    /// nothing is left to divide.
    fn resized(mut self, upgrades: usize) -> Self {
        for _ in upgrades..self.routers().len() {
            self.remove_least();
        }
        for _ in self.routers().len()..upgrades {
            let gains = self.paths.through(&self.upgraded.0).hops;
            let Some(router) = greatest(&gains) else {
                break;
            };
            self.add(router, &gains);
        }
        self
    }

    fn add(&mut self, router: Router, gains: &[u64]) {
        self.upgraded.0[router.index()] = true;
        self.hops -= gains[router.index()];
    }

    /// One router after another exchanged for a better one, until none can be.
    fn exchanged(mut self) -> Self {
        loop {
            let before = self.hops;
            for router in self.routers() {
                self.upgraded.0[router.index()] = false;
                let gains = self.paths.through(&self.upgraded.0).hops;
                self.hops += gains[router.index()];
                let other = greatest(&gains);
                let is_better = |other: &Router| gains[other.index()] > gains[router.index()];
                self.add(other.filter(is_better).unwrap_or(router), &gains);
            }
            if self.hops == before {
                return self;
            }
        }
    }

    fn remove_least(&mut self) {
        let without = self.routers().into_iter().map(|router| {
            self.upgraded.0[router.index()] = false;
            let hops = self.paths.hops(&self.upgraded.0);
            self.upgraded.0[router.index()] = true;
            (hops, router)
        });
        if let Some((hops, router)) = without.min() {
            self.hops = hops;
            self.upgraded.0[router.index()] = false;
        }
    }

    fn order(&self) -> Vec<Router> {
        let mut left = self.routers();
        let mut upgraded = Upgraded::of(self.paths, &[]);
        let mut order = Vec::with_capacity(left.len());
        while !left.is_empty() {
            let gains = self.paths.through(&upgraded.0).hops;
            left.sort_by_key(|router| (Reverse(gains[router.index()]), *router));
            let next = left.remove(0);
            upgraded.0[next.index()] = true;
            order.push(next);
        }
        order
    }
}
