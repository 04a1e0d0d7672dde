//! Which routers to upgrade to m-routers, and in which order.
//!
//! Three methods: Algorithm 1 of MPLANE (ToN 2012, VI-A), a search for the least probe hop count, and random upgrades
//! for comparison. All stop early once every segment is a single link.

use std::cmp::Reverse;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;

use crate::paths::{Paths, Segments};
use crate::topology::Router;

/// Number of orders from [`random`]: odd, so that one of them is the median.
pub const RANDOM_RUNS: u64 = 11;

/// Limit of routers that a detour adds or removes.
const DETOUR_MAX: usize = 6;

/// A set of upgraded routers in the form that [`Paths`] takes.
fn set_of(paths: &Paths, routers: &[Router]) -> Vec<bool> {
    let mut set = vec![false; paths.routers()];
    for router in routers {
        set[router.index()] = true;
    }
    set
}

/// The first of the greatest counts, unless it is 0.
fn greatest(counts: &[u64]) -> Option<Router> {
    let counts = (0..).map(Router).zip(counts);
    let (router, count) = counts.max_by_key(|&(router, count)| (count, Reverse(router)))?;
    (*count > 0).then_some(router)
}

/// Algorithm 1: repeatedly upgrades the router inside most of the present segments; on a tie, the first by name.
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

/// Upgrades in [`RANDOM_RUNS`] random orders.
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

/// The segments if these routers are upgraded.
pub fn segments(paths: &Paths, upgraded: &[Router]) -> Segments {
    paths.segments(&set_of(paths, upgraded))
}

/// Searches for the least probe hop count.
///
/// A set of upgrades reduces the count by the sum of hops of all shortest paths that it meets: weighted coverage. So
/// greedy upgrades by hops are within 1 - 1/e of the best set. They are improved by exchanges of single routers, and
/// by detours: to a few routers more or fewer than requested, and back.
///
/// Returns the best set found, never worse than Algorithm 1's, in the order in which each upgrade reduces the probe
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
        // The count falls with each iteration, so that this terminates.
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

    /// The one with fewer hops; on a tie, the first.
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

    /// Changes the number of upgrades: adds those that reduce the count the most, or removes those that matter least.
    /// Stops early once every segment is a single link.
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

    /// Exchanges single routers for better ones until there are none.
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
