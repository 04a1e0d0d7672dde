use proptest::prelude::*;

use super::*;
use crate::brute::{self, network};

/// Two ways of equal cost from a to d, and a tail.
const DIAMOND: &[(&str, &str, f64)] = &[
    ("a", "b", 1.0),
    ("b", "d", 2.0),
    ("a", "c", 1.5),
    ("c", "d", 1.5),
    ("d", "e", 1.0),
];

fn segments(links: &[(&str, &str, f64)], upgraded: &[&str]) -> Segments {
    let topology = network(links);
    let is_upgraded: Vec<_> = topology
        .routers()
        .map(|router| upgraded.contains(&topology.name(router)))
        .collect();
    Paths::new(&topology).unwrap().segments(&is_upgraded)
}

#[test]
fn all_ways_of_equal_cost_are_paths() {
    let topology = network(DIAMOND);
    let paths = Paths::new(&topology).unwrap();
    let [start, one, other, join, end] = topology.routers().collect::<Vec<_>>()[..] else {
        panic!("five routers");
    };
    let reach = &paths.from[start.index()];
    let next = |at: Router| {
        let index = reach.order.iter().position(|&router| router == at.0);
        let next = reach.next(index.unwrap()).iter().copied().map(Router);
        next.collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(next(start), [one, other].into());
    assert_eq!(next(one), [join].into());
    assert_eq!(next(join), [end].into());
    assert_eq!(next(end), [].into());
}

#[test]
fn segments_are_counted_with_their_hops() {
    // 5 links; b-a-c, b-d-e and c-d-e; a to d two ways; a to e two ways; both directions.
    let found = segments(DIAMOND, &[]);
    let expected = Segments {
        count: 2 * (5 + 3 + 2 + 2),
        hops: 2 * (5 + 3 * 2 + 2 * 2 + 2 * 3),
        greatest_hops: 3,
    };
    assert_eq!(found, expected);
    // With d only a's two ways to d, and b-a-c, are longer than a link.
    let found = segments(DIAMOND, &["d"]);
    assert_eq!((found.count, found.hops, found.greatest_hops), (16, 22, 2));
    assert_eq!(found.least_hops(), 1);
    assert!((found.mean_hops() - 22.0 / 16.0).abs() < 1e-12);
    // Only links are left.
    let found = segments(DIAMOND, &["a", "b", "c", "d"]);
    assert_eq!((found.count, found.hops, found.greatest_hops), (10, 10, 1));
}

#[test]
fn costs_are_equal_where_decimals_add_up() {
    // 0.1 + 0.2 is not 0.3 in binary.
    let links = [("a", "b", 0.1), ("b", "c", 0.2), ("a", "c", 0.3)];
    assert_eq!(segments(&links, &[]).count, 8);
}

#[test]
fn parts_that_are_not_connected_have_paths_within() {
    let found = segments(&[("a", "b", 1.0), ("c", "d", 1.0)], &[]);
    assert_eq!((found.count, found.hops), (4, 4));
}

/// Sixty-six squares in a row: 2^66 ways from end to end.
#[test]
fn too_many_paths_are_an_error() {
    let name = |at: u32, row: &str| format!("{at}{row}");
    let mut links = Vec::new();
    for at in 0..66 {
        for row in ["upper", "lower"] {
            links.push((name(at, ""), name(at, row), 1.0));
            links.push((name(at, row), name(at + 1, ""), 1.0));
        }
    }
    let links: Vec<_> = links
        .iter()
        .map(|(from, to, weight)| (from.as_str(), to.as_str(), *weight))
        .collect();
    assert_eq!(Paths::new(&network(&links)).unwrap_err(), TooManyPaths);
}

proptest! {
    #[test]
    fn counts_are_those_of_listed_paths((topology, upgraded) in brute::upgraded_network()) {
        let paths = Paths::new(&topology).unwrap();
        let listed = brute::split(brute::shortest(&topology), &upgraded);
        let found = paths.segments(&upgraded);
        prop_assert_eq!(found.count, listed.len() as u64);
        prop_assert_eq!(found.hops, brute::hops(&listed));
        prop_assert_eq!(found.hops, paths.hops(&upgraded));
        let longest = listed.iter().map(|path| path.len() - 1).max().unwrap_or(0);
        prop_assert_eq!(found.greatest_hops as usize, longest);
        let shortest = listed.iter().map(|path| path.len() - 1).min().unwrap_or(0);
        prop_assert_eq!(found.least_hops() as usize, shortest);
        let through = paths.through(&upgraded);
        for router in topology.routers() {
            let inside = brute::through(&listed, router);
            prop_assert_eq!(through.count[router.index()], inside.len() as u64);
            prop_assert_eq!(through.hops[router.index()], brute::hops(&inside));
        }
    }
}
