use proptest::prelude::*;

use super::*;
use crate::brute::{self, network, shared};
use crate::topology::Topology;
use crate::{read, topology};

fn rocketfuel(number: u32) -> Option<Topology> {
    let path = shared(&format!("rocketfuel/{number}.weights.intra"))?;
    Some(read::file(&path).unwrap())
}

fn names<'a>(topology: &'a Topology, order: &[Router]) -> Vec<&'a str> {
    order.iter().map(|router| topology.name(*router)).collect()
}

/// Figures of an independent program, which listed the paths.
#[test]
fn algorithm_1_on_as1239_has_the_figures_of_another_program() {
    let Some(topology) = rocketfuel(1239) else {
        return;
    };
    assert_eq!((topology.routers().len(), topology.links()), (315, 1944));
    let paths = Paths::new(&topology).unwrap();
    let course = course(&paths, &greedy(&paths, 50));
    let hops = [0, 10, 20, 45].map(|upgrades| course[upgrades].hops);
    assert_eq!(hops, [965_384, 159_794, 29_454, 5_662]);
    let mean = [0, 50].map(|upgrades| (course[upgrades].mean_hops() * 100.0).round());
    assert_eq!(mean.map(f64::to_bits), [466.0, 149.0].map(f64::to_bits));
    assert_eq!(course[0].greatest_hops, 13);
}

/// An integer program says that no 45 routers leave fewer, and no 44 fewer than 5,878.
#[test]
fn the_search_on_as1239_finds_the_best_set() {
    let Some(topology) = rocketfuel(1239) else {
        return;
    };
    let paths = Paths::new(&topology).unwrap();
    assert_eq!(segments(&paths, &search(&paths, 45)).hops, 5_628);
}

#[test]
fn routers_of_equal_count_are_upgraded_by_name() {
    // Both b and c are between three others.
    let topology = network(&[("a", "b", 1.0), ("b", "c", 1.0), ("c", "d", 1.0)]);
    let paths = Paths::new(&topology).unwrap();
    assert_eq!(names(&topology, &greedy(&paths, 9)), ["b", "c"]);
    assert_eq!(names(&topology, &search(&paths, 9)), ["b", "c"]);
    assert_eq!(course(&paths, &greedy(&paths, 0)).len(), 1);
}

/// A topology with the properties that the paper names of its figures 7 and 8 (their links cannot be read from the
/// text): six routers, C and F upgraded; A measures to B and F, C to F, D, E, and D is reached
/// from F by two ways. (The paper leaves C out of F's set.)
#[test]
fn the_toy_topology_has_the_m_sets_of_the_paper() {
    let topology = network(&[
        ("A", "B", 1.0),
        ("A", "F", 1.0),
        ("B", "F", 1.0),
        ("C", "F", 1.0),
        ("C", "D", 1.0),
        ("C", "E", 1.0),
        ("E", "F", 1.0),
        ("D", "E", 1.0),
    ]);
    let upgraded: Vec<_> = topology
        .routers()
        .map(|router| ["C", "F"].contains(&topology.name(router)))
        .collect();
    let segments = brute::split(brute::shortest(&topology), &upgraded);
    let m_set = |of: &str| {
        let from = segments.iter().filter(|path| topology.name(path[0]) == of);
        let ends = from.map(|path| topology.name(path[path.len() - 1]));
        ends.collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(m_set("A"), ["B", "F"].into());
    assert_eq!(m_set("C"), ["D", "E", "F"].into());
    assert_eq!(m_set("F"), ["A", "B", "C", "D", "E"].into());
    let d_from_f = segments.iter().filter(|path| {
        names(&topology, path)[0] == "F" && topology.name(path[path.len() - 1]) == "D"
    });
    // The way by C is C's to measure.
    let d_from_f: Vec<_> = d_from_f.map(|path| names(&topology, path)).collect();
    assert_eq!(d_from_f, [["F", "E", "D"]]);
    let counted = Paths::new(&topology).unwrap().segments(&upgraded);
    assert_eq!(counted.hops, brute::hops(&segments));
}

#[test]
fn random_orders_are_those_of_the_seed() {
    let topology = network(&[("a", "b", 1.0), ("b", "c", 1.0), ("c", "d", 1.0)]);
    let paths = Paths::new(&topology).unwrap();
    let runs = random(&paths, 3, 7);
    assert_eq!(runs, random(&paths, 3, 7));
    assert_ne!(runs, random(&paths, 3, 8));
    assert_eq!(runs.len() as u64, RANDOM_RUNS);
    assert!(runs.iter().all(|order| order.len() == 3));
}

/// Algorithm 1 as printed, on lists of paths.
fn algorithm_1(topology: &topology::Topology, upgrades: usize) -> Vec<Router> {
    let mut paths = brute::shortest(topology);
    let mut order = Vec::new();
    while order.len() < upgrades {
        let counts: Vec<_> = topology
            .routers()
            .map(|router| brute::through(&paths, router).len() as u64)
            .collect();
        let Some(router) = greatest(&counts) else {
            break;
        };
        order.push(router);
        let mut only = vec![false; counts.len()];
        only[router.index()] = true;
        paths = brute::split(paths, &only);
    }
    order
}

proptest! {
    #[test]
    fn greedy_is_algorithm_1(topology in brute::any_network(), upgrades in 0_usize..6) {
        let paths = Paths::new(&topology).unwrap();
        prop_assert_eq!(greedy(&paths, upgrades), algorithm_1(&topology, upgrades));
    }

    #[test]
    fn search_is_never_worse_than_greedy(topology in brute::any_network(), upgrades in 0_usize..6) {
        let paths = Paths::new(&topology).unwrap();
        let (greedy, search) = (greedy(&paths, upgrades), search(&paths, upgrades));
        prop_assert!(search.len() <= upgrades);
        prop_assert!(segments(&paths, &search).hops <= segments(&paths, &greedy).hops);
        // Each upgrade of a plan reduces the count.
        let course = course(&paths, &search);
        prop_assert!(course.windows(2).all(|pair| pair[1].hops < pair[0].hops));
    }
}
