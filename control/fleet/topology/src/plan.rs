//! Which routers to upgrade to m-routers, and in which order.
//!
//! Three methods: Algorithm 1 of MPLANE (ToN 2012, VI-A), a search for the least probe hop count, and random upgrades
//! to compare with. All end early when nothing is left to divide: then each segment is a link.

use std::cmp::Reverse;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;

use crate::paths::{Paths, Segments};
use crate::topology::Router;

/// Orders that [`random`] makes: an odd number, so that one is the median.
pub const RANDOM_RUNS: u64 = 11;

/// Routers more or fewer in a detour, at most.
const DETOUR_MAX: usize = 6;

/// A set of upgraded routers as [`Paths`] takes it.
fn set_of(paths: &Paths, routers: &[Router]) -> Vec<bool> {
    let mut set = vec![false; paths.routers()];
    for router in routers {
        set[router.index()] = true;
    }
    set
}

/// The first of the greatest, unless it is 0.
fn greatest(counts: &[u64]) -> Option<Router> {
    let counts = (0..).map(Router).zip(counts);
    let (router, count) = counts.max_by_key(|&(router, count)| (count, Reverse(router)))?;
    (*count > 0).then_some(router)
}

/// Algorithm 1: upgrades the router that most of the present segments pass through, again and again. Of routers with
/// equal counts the first by name.
pub fn greedy(paths: &Paths, upgrades: usize) -> Vec<Router> {
    let mut set = set_of(paths, &[]);
    let mut order = Vec::new();
    while order.len() < upgrades
        && let Some(router) = greatest(&paths.through(&set).count)
    {
        set[router.index()] = true;
        order.push(router);
    }
    order
}

/// Upgrades in random order, [`RANDOM_RUNS`] times.
pub fn random(paths: &Paths, upgrades: usize, seed: u64) -> Vec<Vec<Router>> {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut routers: Vec<_> = (0..).take(paths.routers()).map(Router).collect();
    let runs = (0..RANDOM_RUNS).map(|_| {
        routers.shuffle(&mut random);
        routers[..upgrades.min(routers.len())].to_vec()
    });
    runs.collect()
}

/// The segments before the first upgrade and after each.
pub fn course(paths: &Paths, order: &[Router]) -> Vec<Segments> {
    let prefixes = (0..=order.len()).map(|upgrades| &order[..upgrades]);
    prefixes.map(|prefix| segments(paths, prefix)).collect()
}

/// The segments with these routers upgraded.
pub fn segments(paths: &Paths, upgraded: &[Router]) -> Segments {
    paths.segments(&set_of(paths, upgraded))
}

/// A search on the probe hop count itself.
///
/// By how much a set of upgrades reduces the count is the sum of hops of all shortest paths that it meets: weighted
/// coverage. For that, greedy upgrades by hops are within 1 - 1/e of the best set. Exchanges of single routers improve on
/// them, and so does a detour: to some routers more or fewer than asked for, and back.
///
/// Returns the best set found of so many upgrades, never worse than Algorithm 1's; in the order in which each reduces the probe
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
    upgraded: Vec<bool>,
    /// Probe hop count.
    hops: u64,
}

impl<'a> Set<'a> {
    fn of(paths: &'a Paths, routers: &[Router]) -> Self {
        let upgraded = set_of(paths, routers);
        Self {
            paths,
            hops: paths.hops(&upgraded),
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
        let all = (0..).map(Router).zip(&self.upgraded);
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
            let gains = self.paths.through(&self.upgraded).hops;
            let Some(router) = greatest(&gains) else {
                break;
            };
            self.add(router, &gains);
        }
        self
    }

    fn add(&mut self, router: Router, gains: &[u64]) {
        self.upgraded[router.index()] = true;
        self.hops -= gains[router.index()];
    }

    /// One router after another exchanged for a better one, until none can be.
    fn exchanged(mut self) -> Self {
        loop {
            let before = self.hops;
            for router in self.routers() {
                self.upgraded[router.index()] = false;
                let gains = self.paths.through(&self.upgraded).hops;
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
            self.upgraded[router.index()] = false;
            let hops = self.paths.hops(&self.upgraded);
            self.upgraded[router.index()] = true;
            (hops, router)
        });
        if let Some((hops, router)) = without.min() {
            self.hops = hops;
            self.upgraded[router.index()] = false;
        }
    }

    fn order(&self) -> Vec<Router> {
        let mut left = self.routers();
        let mut upgraded = set_of(self.paths, &[]);
        let mut order = Vec::with_capacity(left.len());
        while !left.is_empty() {
            let gains = self.paths.through(&upgraded).hops;
            left.sort_by_key(|router| (Reverse(gains[router.index()]), *router));
            let next = left.remove(0);
            upgraded[next.index()] = true;
            order.push(next);
        }
        order
    }
}
