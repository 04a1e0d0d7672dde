use proptest::prelude::*;

use super::*;
use crate::brute::{self, TOY, network};
use crate::mset::mset;
use crate::topology::Topology;

fn deployment(topology: &Topology, m_routers: &str, m_servers: Option<&str>) -> Deployment {
    let find = |names: &str| -> Vec<_> {
        let names = names.chars().map(|name| name.to_string());
        names.map(|name| topology.find(&name).unwrap()).collect()
    };
    Deployment::new(topology, &find(m_routers), m_servers.map(find).as_deref())
}

fn letters(topology: &Topology, routers: &[Router]) -> String {
    routers
        .iter()
        .map(|&router| topology.name(router))
        .collect()
}

/// `A-F` and `C-D-E`: measured; `.F.`: inside F; `?A-B(A)`: not covered, A measures nothing.
fn text(topology: &Topology, parts: &[Part]) -> Vec<String> {
    let part = |part: &Part| match part {
        Part::Inside { at, from, to } => {
            let ends = [from, to].map(|end| end.map_or("", |end| topology.name(end)));
            format!("{}.{}.{}", ends[0], topology.name(*at), ends[1])
        }
        Part::Between { routers } => letters(topology, routers),
        Part::Uncovered { routers, missing } => {
            let (routers, missing) = (letters(topology, routers), letters(topology, missing));
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
    let routers = |names: &[&str]| -> Vec<_> {
        let names = names.iter();
        names.map(|name| topology.find(name).unwrap()).collect()
    };
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
        (topology, upgraded) in brute::upgraded_network(),
        servers in prop::collection::vec(any::<bool>(), 9),
    ) {
        let chosen = |which: &[bool]| -> Vec<_> {
            topology.routers().filter(|router| which[router.index()]).collect()
        };
        let deployment = Deployment::new(&topology, &chosen(&upgraded), Some(&chosen(&servers)));
        let paths = Paths::new(&topology).unwrap();
        let monitored: Vec<_> = topology.routers()
            .flat_map(|of| mset(&paths, &deployment, of))
            .flat_map(|member| member.ways)
            .map(|way| way.routers)
            .collect();
        for path in brute::shortest(&topology) {
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
