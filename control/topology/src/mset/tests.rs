use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::brute::{self, TOY, network};
use crate::read;

fn named(topology: &Topology, names: &[&str]) -> Vec<Router> {
    let find = |name: &&str| topology.find(name).unwrap();
    names.iter().map(find).collect()
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
    // Eight squares in a row: 2^8 ways from end to end.
    let name = |at: u32, row: &str| format!("{at}{row}");
    let mut links = Vec::new();
    for at in 0..8 {
        for row in ["a", "b"] {
            links.push((name(at, ""), name(at, row), 1.0));
            links.push((name(at, row), name(at + 1, ""), 1.0));
        }
    }
    let links: Vec<_> = links
        .iter()
        .map(|(from, to, weight)| (from.as_str(), to.as_str(), *weight))
        .collect();
    let topology = network(&links);
    let paths = Paths::new(&topology).unwrap();
    let ends = named(&topology, &["0", "8"]);
    let listed = paths.list(ends[0], ends[1], &vec![false; topology.routers().len()]);
    assert_eq!((listed.alternatives, listed.count), (256, 256));
    let numbers: Vec<_> = listed.ways.iter().map(|way| way.number).collect();
    assert_eq!(numbers, (1..=64).collect::<Vec<_>>());
}

/// Routers with roles: every second one may have a server, or be upgraded.
fn deployed() -> impl Strategy<Value = (Topology, Vec<bool>, Vec<bool>)> {
    brute::upgraded_network().prop_flat_map(|(topology, upgraded)| {
        let servers = prop::collection::vec(any::<bool>(), upgraded.len());
        (Just(topology), Just(upgraded), servers)
    })
}

fn chosen(topology: &Topology, which: &[bool]) -> Vec<Router> {
    let routers = topology.routers();
    routers.filter(|router| which[router.index()]).collect()
}

proptest! {
    /// Against all shortest paths, listed: those from a measuring node to another, without an m-router inside.
    #[test]
    fn sets_are_those_of_listed_paths((topology, upgraded, servers) in deployed()) {
        let paths = Paths::new(&topology).unwrap();
        let m_servers = chosen(&topology, &servers);
        let deployment = Deployment::new(&topology, &chosen(&topology, &upgraded), Some(&m_servers));
        let all = brute::shortest(&topology);
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
    fn all_sets_together_are_the_planners_segments((topology, upgraded) in brute::upgraded_network()) {
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
        prop_assert_eq!(brute::hops(&all), segments.hops);
    }
}
