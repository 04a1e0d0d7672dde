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

mod search;

pub use search::search;

#[cfg(test)]
mod tests;

/// Orders that [`random`] makes: an odd number, so that one is the median.
pub const RANDOM_RUNS: u64 = 11;

/// A set of upgraded routers as [`Paths`] takes it.
#[derive(Debug, Clone)]
struct Upgraded(Vec<bool>);

impl Upgraded {
    fn of(paths: &Paths, routers: &[Router]) -> Self {
        let mut set = Self(vec![false; paths.routers()]);
        for router in routers {
            set.0[router.index()] = true;
        }
        set
    }
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
    let mut set = Upgraded::of(paths, &[]);
    let mut order = Vec::new();
    while order.len() < upgrades
        && let Some(router) = greatest(&paths.through(&set.0).count)
    {
        set.0[router.index()] = true;
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
    paths.segments(&Upgraded::of(paths, upgraded).0)
}
