//! The slow way, for tests: paths as lists of routers, split as the paper says. Real networks, where there are some.

use std::collections::BTreeSet;
use std::path::PathBuf;

use petgraph::visit::EdgeRef;
use proptest::prelude::*;

use crate::topology::{Router, Topology, Weight};

type Path = Vec<Router>;

/// `../shared/topologies`, where other people's networks are; `None`, said aloud, where it is not. CI has it.
pub fn shared(file: &str) -> Option<PathBuf> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/topologies")
        .join(file);
    if path.exists() {
        return Some(path);
    }
    testkit::skip(&format!("{} is not there", path.display()));
    None
}

/// Figure 7: the text gives m-sets (figure 8), not links. These are links under which they come out.
pub const TOY: &[(&str, &str, f64)] = &[
    ("A", "B", 1.0),
    ("A", "F", 1.0),
    ("B", "F", 1.0),
    ("C", "D", 1.0),
    ("C", "F", 2.0),
    ("D", "E", 1.0),
    ("E", "F", 2.0),
];

/// A network of links in both directions.
pub fn network(links: &[(&str, &str, f64)]) -> Topology {
    let names: BTreeSet<_> = links.iter().flat_map(|link| [link.0, link.1]).collect();
    let names: Vec<_> = names.into_iter().map(str::to_owned).collect();
    let index = |name| u32::try_from(names.iter().position(|known| known == name).unwrap());
    let both = links.iter().flat_map(|&(from, to, weight)| {
        let (from, to) = (index(from).unwrap(), index(to).unwrap());
        let weight = Weight::new(weight).unwrap();
        [(from, to, weight), (to, from, weight)]
    });
    Topology::new(&names, &both.collect::<Vec<_>>())
}

/// Up to nine routers, links of few different weights (many ways of equal cost), some of them one way.
pub fn any_network() -> impl Strategy<Value = Topology> {
    let link = |routers: u32| (0..routers, 0..routers, 1_u8..4, any::<bool>());
    let links = (2_u32..9).prop_flat_map(move |routers| {
        let links = prop::collection::vec(link(routers), 1..24);
        links.prop_map(move |links| (routers, links))
    });
    links.prop_map(|(routers, links)| {
        let names: Vec<_> = (0..routers).map(|at| format!("r{at}")).collect();
        let links = links.into_iter().flat_map(|(from, to, weight, both)| {
            let weight = Weight::new(f64::from(weight) / 2.0).unwrap();
            let back = both.then_some((to, from, weight));
            [(from, to, weight)].into_iter().chain(back)
        });
        Topology::new(&names, &links.collect::<Vec<_>>())
    })
}

pub fn upgraded_network() -> impl Strategy<Value = (Topology, Vec<bool>)> {
    any_network().prop_flat_map(|topology| {
        let routers = topology.routers().len();
        (
            Just(topology),
            prop::collection::vec(any::<bool>(), routers),
        )
    })
}

/// All shortest paths between all routers: of all paths without circles the cheapest.
pub fn shortest(topology: &Topology) -> BTreeSet<Path> {
    let mut shortest = BTreeSet::new();
    for from in topology.routers() {
        let mut all = Vec::new();
        extend(topology, vec![from], 0, &mut all);
        for to in topology.routers().filter(|to| *to != from) {
            let there = || all.iter().filter(|(path, _)| path.last() == Some(&to));
            let least = there().map(|(_, cost)| *cost).min();
            let best = there().filter(|(_, cost)| Some(*cost) == least);
            shortest.extend(best.map(|(path, _)| path.clone()));
        }
    }
    shortest
}

fn extend(topology: &Topology, path: Path, cost: u64, all: &mut Vec<(Path, u64)>) {
    let last = petgraph::graph::NodeIndex::new(path.last().unwrap().index());
    for link in topology.graph().edges(last) {
        let next = Router(u32::try_from(link.target().index()).unwrap());
        if !path.contains(&next) {
            let mut longer = path.clone();
            longer.push(next);
            extend(topology, longer, cost + link.weight().millionths(), all);
        }
    }
    all.push((path, cost));
}

/// Lines 12 to 19 of Algorithm 1, for one router after another; equal segments are one.
pub fn split(mut paths: BTreeSet<Path>, upgraded: &[bool]) -> BTreeSet<Path> {
    for router in (0..).map(Router).take(upgraded.len()) {
        if upgraded[router.index()] {
            for path in through(&paths, router) {
                paths.remove(&path);
                let at = path.iter().position(|other| *other == router).unwrap();
                paths.insert(path[..=at].to_vec());
                paths.insert(path[at..].to_vec());
            }
        }
    }
    paths
}

/// Paths with this router between their ends.
pub fn through(paths: &BTreeSet<Path>, router: Router) -> BTreeSet<Path> {
    let inside = |path: &&Path| path[1..path.len() - 1].contains(&router);
    paths.iter().filter(inside).cloned().collect()
}

pub fn hops(paths: &BTreeSet<Path>) -> u64 {
    paths.iter().map(|path| path.len() as u64 - 1).sum()
}
