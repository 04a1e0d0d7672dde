//! Paths, m-sets, segments of paths and plans compared with a slow method: paths as lists of routers, split as the paper says. Real
//! networks, where there are some.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use petgraph::visit::EdgeRef;
use proptest::prelude::*;

use crate::chain::{Part, chains, parts};
use crate::mset::{Deployment, mset};
use crate::paths::{Paths, Segments, TooManyPaths};
use crate::topology::{Role, Router, Topology, Weight};
use crate::{plan, read};

type Path = Vec<Router>;

/// Figure 7: the text gives m-sets (figure 8), not links. These are links under which they come out.
const TOY: &[(&str, &str, f64)] = &[
    ("A", "B", 1.0),
    ("A", "F", 1.0),
    ("B", "F", 1.0),
    ("C", "D", 1.0),
    ("C", "F", 2.0),
    ("D", "E", 1.0),
    ("E", "F", 2.0),
];

/// A network of links in both directions.
fn network(links: &[(&str, &str, f64)]) -> Topology {
    let links = links.iter();
    let weighted = links.map(|&(a, b, weight)| (a, b, Weight::new(weight).unwrap()));
    Topology::of_weighted_links(weighted)
}

/// Up to nine routers, links of few different weights (many ways of equal cost), some of them one way.
fn any_network() -> impl Strategy<Value = Topology> {
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

fn upgraded_network() -> impl Strategy<Value = (Topology, Vec<bool>)> {
    any_network().prop_flat_map(|topology| {
        let routers = topology.routers().len();
        (
            Just(topology),
            prop::collection::vec(any::<bool>(), routers),
        )
    })
}

/// All shortest paths between all routers: of all paths without circles the cheapest.
fn shortest(topology: &Topology) -> BTreeSet<Path> {
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
fn split(mut paths: BTreeSet<Path>, upgraded: &[bool]) -> BTreeSet<Path> {
    for router in (0..).map(Router).take(upgraded.len()) {
        if upgraded[router.index()] {
            for path in paths_through(&paths, router) {
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
fn paths_through(paths: &BTreeSet<Path>, router: Router) -> BTreeSet<Path> {
    let inside = |path: &&Path| path[1..path.len() - 1].contains(&router);
    paths.iter().filter(inside).cloned().collect()
}

fn hops(paths: &BTreeSet<Path>) -> u64 {
    paths.iter().map(|path| path.len() as u64 - 1).sum()
}

fn named(topology: &Topology, names: &[&str]) -> Vec<Router> {
    let find = |name: &&str| topology.find(name).unwrap();
    names.iter().map(find).collect()
}

fn names<'a>(topology: &'a Topology, routers: &[Router]) -> Vec<&'a str> {
    let name = |router: &Router| topology.name(*router);
    routers.iter().map(name).collect()
}

fn chosen(topology: &Topology, which: &[bool]) -> Vec<Router> {
    let routers = topology.routers();
    routers.filter(|router| which[router.index()]).collect()
}

/// Squares in a row: two ways over each from end to end.
fn squares(count: u32) -> Topology {
    let name = |at: u32, row: &str| format!("{at}{row}");
    let links = (0..count).flat_map(|at| {
        ["a", "b"].into_iter().flat_map(move |row| {
            [
                (name(at, ""), name(at, row)),
                (name(at, row), name(at + 1, "")),
            ]
        })
    });
    let links: Vec<_> = links.collect();
    Topology::of_links(links.iter().map(|(from, to)| (from.as_str(), to.as_str())))
}

/// Two ways of equal cost from a to d, and a tail.
const DIAMOND: &[(&str, &str, f64)] = &[
    ("a", "b", 1.0),
    ("b", "d", 2.0),
    ("a", "c", 1.5),
    ("c", "d", 1.5),
    ("d", "e", 1.0),
];

fn segments_of(links: &[(&str, &str, f64)], upgraded: &[&str]) -> Segments {
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
    let ends = named(&topology, &["a", "e"]);
    let ways = paths.list(ends[0], ends[1], &[false; 5]).ways;
    let ways: Vec<_> = ways
        .iter()
        .map(|way| names(&topology, &way.routers))
        .collect();
    assert_eq!(ways, [["a", "b", "d", "e"], ["a", "c", "d", "e"]]);
}

#[test]
fn segments_are_counted_with_their_hops() {
    // 5 links; b-a-c, b-d-e and c-d-e; a to d two ways; a to e two ways; both directions.
    let found = segments_of(DIAMOND, &[]);
    let expected = Segments {
        count: 2 * (5 + 3 + 2 + 2),
        hops: 2 * (5 + 3 * 2 + 2 * 2 + 2 * 3),
        greatest_hops: 3,
    };
    assert_eq!(found, expected);
    // With d only a's two ways to d, and b-a-c, are longer than a link.
    let found = segments_of(DIAMOND, &["d"]);
    assert_eq!((found.count, found.hops, found.greatest_hops), (16, 22, 2));
    assert_eq!(found.least_hops(), 1);
    assert!((found.mean_hops() - 22.0 / 16.0).abs() < 1e-12);
    // Only links are left.
    let found = segments_of(DIAMOND, &["a", "b", "c", "d"]);
    assert_eq!((found.count, found.hops, found.greatest_hops), (10, 10, 1));
}

#[test]
fn costs_are_equal_where_decimals_add_up() {
    // 0.1 + 0.2 is not 0.3 in binary.
    let links = [("a", "b", 0.1), ("b", "c", 0.2), ("a", "c", 0.3)];
    assert_eq!(segments_of(&links, &[]).count, 8);
}

#[test]
fn parts_that_are_not_connected_have_paths_within() {
    let found = segments_of(&[("a", "b", 1.0), ("c", "d", 1.0)], &[]);
    assert_eq!((found.count, found.hops), (4, 4));
}

#[test]
fn too_many_paths_are_an_error() {
    assert_eq!(Paths::new(&squares(66)).unwrap_err(), TooManyPaths);
}

proptest! {
    #[test]
    fn counts_are_those_of_listed_paths((topology, upgraded) in upgraded_network()) {
        let paths = Paths::new(&topology).unwrap();
        let listed = split(shortest(&topology), &upgraded);
        let found = paths.segments(&upgraded);
        prop_assert_eq!(found.count, listed.len() as u64);
        prop_assert_eq!(found.hops, hops(&listed));
        prop_assert_eq!(found.hops, paths.hops(&upgraded));
        let longest = listed.iter().map(|path| path.len() - 1).max().unwrap_or(0);
        prop_assert_eq!(found.greatest_hops as usize, longest);
        let shortest = listed.iter().map(|path| path.len() - 1).min().unwrap_or(0);
        prop_assert_eq!(found.least_hops() as usize, shortest);
        let through = paths.through(&upgraded);
        for router in topology.routers() {
            let inside = paths_through(&listed, router);
            prop_assert_eq!(through.count[router.index()], inside.len() as u64);
            prop_assert_eq!(through.hops[router.index()], hops(&inside));
        }
    }
}

/// Labels of an m-set, m-servers at all other routers.
fn labels(links: &[(&str, &str, f64)], m_routers: &[&str], of: &str) -> Vec<String> {
    let topology = network(links);
    let paths = Paths::new(&topology).unwrap();
    let deployment = Deployment::new(&topology, &named(&topology, m_routers), None);
    let set = mset(&paths, &deployment, topology.find(of).unwrap());
    set.iter()
        .flat_map(|member| member.labels(&topology).collect::<Vec<_>>())
        .collect()
}

#[test]
fn the_papers_toy() {
    let toy = |of| labels(TOY, &["C", "F"], of);
    assert_eq!(toy("A"), ["B", "F"]);
    assert_eq!(toy("C"), ["D", "E", "F"]);
    assert_eq!(toy("F"), ["A", "B", "D_2", "E"]);
    // The other three, which the text does not give.
    assert_eq!(toy("B"), ["A", "F"]);
    assert_eq!(toy("D"), ["C", "E", "F_2"]);
    assert_eq!(toy("E"), ["C", "D", "F"]);
}

#[test]
fn the_second_way_to_d_leads_through_e() {
    let topology = network(TOY);
    let paths = Paths::new(&topology).unwrap();
    let deployment = Deployment::new(&topology, &named(&topology, &["C", "F"]), None);
    let set = mset(&paths, &deployment, topology.find("F").unwrap());
    let d = topology.find("D").unwrap();
    let member = set.iter().find(|member| member.router == d).unwrap();
    assert_eq!((member.alternatives, member.monitored), (2, 1));
    assert_eq!(member.ways[0].routers, named(&topology, &["F", "E", "D"]));
    assert_eq!((member.ways[0].number, member.ways[0].hops()), (2, 2));
}

#[test]
fn a_pair_of_m_routers_is_listed_twice_where_ways_differ() {
    // F to C by itself, C to F through D.
    let text = r#"{"nodes": [{"name": "C"}, {"name": "D"}, {"name": "F"}],
        "links": [{"from": "C", "to": "D"}, {"from": "D", "to": "F"},
                  {"from": "F", "to": "C", "weight": 1.5, "both_directions": false}]}"#;
    let topology = read::bytes(text.as_bytes(), "ways.json", read::Format::Json).unwrap();
    let paths = Paths::new(&topology).unwrap();
    let deployment = Deployment::new(&topology, &named(&topology, &["C", "F"]), Some(&[]));
    for (of, way) in [("C", ["C", "D", "F"].as_slice()), ("F", &["F", "C"])] {
        let set = mset(&paths, &deployment, topology.find(of).unwrap());
        assert_eq!(set.len(), 1);
        assert_eq!(set[0].ways[0].routers, named(&topology, way));
    }
    assert_eq!(deployment.role(topology.find("D").unwrap()), Role::Plain);
    assert!(mset(&paths, &deployment, topology.find("D").unwrap()).is_empty());
}

#[test]
fn many_ways_are_counted_and_some_listed() {
    let topology = squares(8);
    let paths = Paths::new(&topology).unwrap();
    let ends = named(&topology, &["0", "8"]);
    let listed = paths.list(ends[0], ends[1], &vec![false; topology.routers().len()]);
    assert_eq!((listed.alternatives, listed.count), (256, 256));
    let numbers: Vec<_> = listed.ways.iter().map(|way| way.number).collect();
    assert_eq!(numbers, (1..=64).collect::<Vec<_>>());
}

/// Routers with roles: every second one may have a server, or be upgraded.
fn deployed() -> impl Strategy<Value = (Topology, Vec<bool>, Vec<bool>)> {
    upgraded_network().prop_flat_map(|(topology, upgraded)| {
        let servers = prop::collection::vec(any::<bool>(), upgraded.len());
        (Just(topology), Just(upgraded), servers)
    })
}

proptest! {
    /// Against all shortest paths, listed: those from a measuring node to another, without an m-router inside.
    #[test]
    fn sets_are_those_of_listed_paths((topology, upgraded, servers) in deployed()) {
        let paths = Paths::new(&topology).unwrap();
        let m_servers = chosen(&topology, &servers);
        let deployment = Deployment::new(&topology, &chosen(&topology, &upgraded), Some(&m_servers));
        let all = shortest(&topology);
        let measures = |router: &Router| upgraded[router.index()] || servers[router.index()];
        let is_segment = |path: &&Vec<Router>| {
            let inside = &path[1..path.len() - 1];
            [path.first(), path.last()].into_iter().flatten().all(measures)
                && !inside.iter().any(|router| upgraded[router.index()])
        };
        let expected: BTreeSet<_> = all.iter().filter(is_segment).cloned().collect();
        let mut found = BTreeSet::new();
        for of in topology.routers() {
            for member in mset(&paths, &deployment, of) {
                let same: Vec<_> = all.iter()
                    .filter(|path| path[0] == of && path.last() == Some(&member.router))
                    .collect();
                prop_assert_eq!(member.alternatives, same.len() as u64);
                prop_assert_eq!(member.monitored, member.ways.len() as u64);
                for way in member.ways {
                    // Numbered by the names of the routers.
                    let place = usize::try_from(way.number).unwrap() - 1;
                    prop_assert_eq!(same[place], &way.routers);
                    prop_assert!(found.insert(way.routers));
                }
            }
        }
        // What is not listed is a pair of m-routers whose first has every way of it, reversed.
        prop_assert!(found.is_subset(&expected));
        for path in &expected {
            let mut back = path.clone();
            back.reverse();
            let (from, to) = (path[0], back[0]);
            let both = upgraded[from.index()] && upgraded[to.index()];
            prop_assert!(found.contains(path) || (both && to < from && found.contains(&back)));
        }
    }

    /// With m-servers at all other routers these are the segments that the planner counts.
    #[test]
    fn all_sets_together_are_the_planners_segments((topology, upgraded) in upgraded_network()) {
        let paths = Paths::new(&topology).unwrap();
        let deployment = Deployment::new(&topology, &chosen(&topology, &upgraded), None);
        let mut all = BTreeSet::new();
        for of in topology.routers() {
            for member in mset(&paths, &deployment, of) {
                for way in member.ways {
                    let mut back = way.routers.clone();
                    back.reverse();
                    let ends = [way.routers[0], back[0]];
                    let is_pair = ends.iter().all(|end| upgraded[end.index()]);
                    if is_pair && paths.list(ends[1], ends[0], &upgraded).ways.iter().any(|other| other.routers == back) {
                        all.insert(back);
                    }
                    all.insert(way.routers);
                }
            }
        }
        let segments = paths.segments(&upgraded);
        prop_assert_eq!(all.len() as u64, segments.count);
        prop_assert_eq!(hops(&all), segments.hops);
    }
}

fn deployment(topology: &Topology, m_routers: &str, m_servers: Option<&str>) -> Deployment {
    let find = |names: &str| -> Vec<_> {
        let names = names.chars().map(|name| name.to_string());
        names.map(|name| topology.find(&name).unwrap()).collect()
    };
    Deployment::new(topology, &find(m_routers), m_servers.map(find).as_deref())
}

/// `A-F` and `C-D-E`: measured; `.F.`: inside F; `?A-B(A)`: not covered, A measures nothing.
fn text(topology: &Topology, parts: &[Part]) -> Vec<String> {
    let part = |part: &Part| match part {
        Part::Inside { at, from, to } => {
            let ends = [from, to].map(|end| end.map_or("", |end| topology.name(end)));
            format!("{}.{}.{}", ends[0], topology.name(*at), ends[1])
        }
        Part::Between { routers } => names(topology, routers).concat(),
        Part::Uncovered { routers, missing } => {
            let (routers, missing) = (
                names(topology, routers).concat(),
                names(topology, missing).concat(),
            );
            format!("?{routers}({missing})")
        }
    };
    parts.iter().map(part).collect()
}

fn toy(m_routers: &str, m_servers: Option<&str>, ends: [&str; 2]) -> Vec<Vec<String>> {
    let topology = network(TOY);
    let paths = Paths::new(&topology).unwrap();
    let deployment = deployment(&topology, m_routers, m_servers);
    let [from, to] = ends.map(|end| topology.find(end).unwrap());
    let found = chains(&paths, &deployment, from, to);
    assert_eq!(found.alternatives, found.chains.len() as u64);
    let chains = found.chains.iter();
    chains.map(|chain| text(&topology, &chain.parts)).collect()
}

#[test]
fn the_papers_toy_in_segments() {
    // Both ways from A to D, by C and by E.
    assert_eq!(
        toy("CF", None, ["A", "D"]),
        [
            vec!["AF", "A.F.C", "FC", "F.C.D", "CD"],
            vec!["AF", "A.F.E", "FED"]
        ]
    );
    // From m-router to m-router: a host is at each end.
    assert_eq!(toy("CF", None, ["C", "F"]), [[".C.F", "CF", "C.F."]]);
    assert_eq!(toy("CF", None, ["C", "C"]), [[".C."]]);
    assert_eq!(toy("CF", None, ["D", "D"]), [["?D(D)"]]);
}

#[test]
fn what_nobody_measures_is_named() {
    // No m-server at all: from A to F, and from F to D by E.
    let all = toy("CF", Some(""), ["A", "D"]);
    assert_eq!(all[1], ["?AF(A)", "A.F.E", "?FED(D)"]);
    // An m-server on the way does what it can.
    let all = toy("CF", Some("E"), ["A", "D"]);
    assert_eq!(all[1], ["?AF(A)", "A.F.E", "FE", "?ED(D)"]);
    assert_eq!(toy("", Some("D"), ["C", "E"]), [["?CD(C)", "?DE(E)"]]);
    assert_eq!(toy("", Some(""), ["C", "E"]), [["?CDE(CE)"]]);
    assert_eq!(toy("", Some("CE"), ["C", "E"]), [["CDE"]]);
}

#[test]
fn m_servers_divide_a_virtual_link_further() {
    let topology = network(TOY);
    let all = deployment(&topology, "CF", None);
    let routers = |names: &[&str]| named(&topology, names);
    let part = Part::Between {
        routers: routers(&["F", "E", "D"]),
    };
    let finer = part.finer(&all);
    assert_eq!(finer, [routers(&["F", "E"]), routers(&["E", "D"])]);
    let none = deployment(&topology, "CF", Some("D"));
    assert_eq!(part.finer(&none), Vec::<Vec<Router>>::new());
}

proptest! {
    /// The parts are the whole path, every measured one is in an m-set, and every m-router on the way has its own.
    #[test]
    fn parts_add_up_to_the_path(
        (topology, upgraded) in upgraded_network(),
        servers in prop::collection::vec(any::<bool>(), 9),
    ) {
        let servers = chosen(&topology, &servers[..upgraded.len()]);
        let deployment = Deployment::new(&topology, &chosen(&topology, &upgraded), Some(&servers));
        let paths = Paths::new(&topology).unwrap();
        let monitored: Vec<_> = topology.routers()
            .flat_map(|of| mset(&paths, &deployment, of))
            .flat_map(|member| member.ways)
            .map(|way| way.routers)
            .collect();
        for path in shortest(&topology) {
            let mut at = vec![path[0]];
            for part in parts(&path, &deployment) {
                let routers = match part {
                    Part::Inside { at: router, from, to } => {
                        prop_assert_eq!(at.last(), Some(&router));
                        let index = at.len() - 1;
                        prop_assert_eq!(from, index.checked_sub(1).map(|before| path[before]));
                        prop_assert_eq!(to, path.get(index + 1).copied());
                        continue;
                    }
                    Part::Between { routers } => {
                        let mut back = routers.clone();
                        back.reverse();
                        prop_assert!(monitored.contains(&routers) || monitored.contains(&back));
                        routers
                    }
                    Part::Uncovered { routers, missing } => {
                        prop_assert!(!missing.is_empty());
                        prop_assert!(missing.iter().all(|router| !deployment.measures(*router)));
                        routers
                    }
                };
                prop_assert_eq!(at.last(), routers.first());
                at.extend(&routers[1..]);
            }
            prop_assert_eq!(&at, &path);
            let inside = parts(&path, &deployment).into_iter()
                .filter(|part| matches!(part, Part::Inside { .. })).count();
            prop_assert_eq!(inside, path.iter().filter(|router| upgraded[router.index()]).count());
        }
    }
}

fn rocketfuel(number: u32) -> Option<Topology> {
    let path = testkit::shared(&format!("topologies/rocketfuel/{number}.weights.intra"))?;
    Some(read::file(&path).unwrap())
}

/// Figures of an independent program, which listed the paths.
#[test]
fn algorithm_1_on_as1239_has_the_figures_of_another_program() {
    let Some(topology) = rocketfuel(1239) else {
        return;
    };
    assert_eq!((topology.routers().len(), topology.links()), (315, 1944));
    let paths = Paths::new(&topology).unwrap();
    let course = plan::course(&paths, &plan::greedy(&paths, 50));
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
    assert_eq!(
        plan::segments(&paths, &plan::search(&paths, 45)).hops,
        5_628
    );
}

#[test]
fn routers_of_equal_count_are_upgraded_by_name() {
    // Both b and c are between three others.
    let topology = network(&[("a", "b", 1.0), ("b", "c", 1.0), ("c", "d", 1.0)]);
    let paths = Paths::new(&topology).unwrap();
    assert_eq!(names(&topology, &plan::greedy(&paths, 9)), ["b", "c"]);
    assert_eq!(names(&topology, &plan::search(&paths, 9)), ["b", "c"]);
    assert_eq!(plan::course(&paths, &plan::greedy(&paths, 0)).len(), 1);
}

#[test]
fn random_orders_are_those_of_the_seed() {
    let topology = network(&[("a", "b", 1.0), ("b", "c", 1.0), ("c", "d", 1.0)]);
    let paths = Paths::new(&topology).unwrap();
    let runs = plan::random(&paths, 3, 7);
    assert_eq!(runs, plan::random(&paths, 3, 7));
    assert_ne!(runs, plan::random(&paths, 3, 8));
    assert_eq!(runs.len() as u64, plan::RANDOM_RUNS);
    assert!(runs.iter().all(|order| order.len() == 3));
}

/// Algorithm 1 as printed, on lists of paths.
fn algorithm_1(topology: &Topology, upgrades: usize) -> Vec<Router> {
    let mut paths = shortest(topology);
    let mut order = Vec::new();
    while order.len() < upgrades {
        let count = |router: &Router| (paths_through(&paths, *router).len(), Reverse(*router));
        let router = topology.routers().max_by_key(count);
        let Some(router) = router.filter(|router| count(router).0 > 0) else {
            break;
        };
        order.push(router);
        let mut only = vec![false; topology.routers().len()];
        only[router.index()] = true;
        paths = split(paths, &only);
    }
    order
}

proptest! {
    #[test]
    fn greedy_is_algorithm_1(topology in any_network(), upgrades in 0_usize..6) {
        let paths = Paths::new(&topology).unwrap();
        prop_assert_eq!(plan::greedy(&paths, upgrades), algorithm_1(&topology, upgrades));
    }

    #[test]
    fn search_is_never_worse_than_greedy(topology in any_network(), upgrades in 0_usize..6) {
        let paths = Paths::new(&topology).unwrap();
        let (greedy, search) = (plan::greedy(&paths, upgrades), plan::search(&paths, upgrades));
        prop_assert!(search.len() <= upgrades);
        prop_assert!(plan::segments(&paths, &search).hops <= plan::segments(&paths, &greedy).hops);
        // Each upgrade of a plan reduces the count.
        let course = plan::course(&paths, &search);
        prop_assert!(course.windows(2).all(|pair| pair[1].hops < pair[0].hops));
    }
}
