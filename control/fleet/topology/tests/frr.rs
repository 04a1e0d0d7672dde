//! Real routers: FRR in namespaces, the toy of MPLANE's figures 7 and 8, its topology, m-routers and m-sets live.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lints treat as ordinary functions"
)]

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use testkit::frr::{API_PORT, Frr, Routers, TOY, router_id};
use testkit::namespace::within;
use testkit::process::{PATIENCE, until};
use topology::mset::{Deployment, mset};
use topology::ospf::client::{Client, Problem};
use topology::ospf::database::{Database, Names, View};
use topology::ospf::presence::Presence;
use topology::paths::Paths;
use topology::source::Source;
use topology::{Role, Topology};

const AREA: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
/// The m-sets of A to F.
const SETS: [&[&str]; 6] = [
    &["B", "F"],
    &["A", "F"],
    &["D", "E", "F"],
    &["C", "E", "F_2"],
    &["C", "D", "F"],
    &["A", "B", "D_2", "E"],
];

/// A client in the namespace of a router, and its view. A socket stays in the namespace in which it was made.
struct Node {
    name: String,
    client: Client,
    database: Database,
}

impl Node {
    fn connect(name: &str, index: usize) -> Self {
        let server = SocketAddrV4::new(Ipv4Addr::LOCALHOST, API_PORT);
        let connect = || {
            until(PATIENCE, "ospfd's API is not there", || {
                Ok(Client::connect(server, Duration::from_secs(5)).ok())
            })
        };
        let mut client = within(name, connect).unwrap().unwrap();
        let (database, id) = client.synchronise().unwrap();
        assert_eq!(id, router_id(index));
        Self {
            name: name.to_owned(),
            client,
            database,
        }
    }

    /// Applies changes until the network is as expected, within the time limit.
    fn wait(&mut self, names: &Names, what: &str, is_there: impl Fn(&View) -> bool) -> View {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Ok(view) = self.database.view(names)
                && is_there(&view)
            {
                assert_eq!(self.client.unreadable(), 0);
                return view;
            }
            let change = self.client.next(deadline).unwrap();
            assert!(change.is_some(), "{}: {what}: not in time", self.name);
            self.database.apply(change.unwrap());
        }
    }
}

/// ospfd 8.4 ends by a segmentation fault when it is asked then.
#[test]
fn an_ospfd_without_ospf_is_left_alone() {
    let Some(frr) = Frr::for_test().unwrap() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut router = Routers::start_one(&frr, "R", "hostname R\n", folder.path()).unwrap();
    let server = SocketAddrV4::new(Ipv4Addr::LOCALHOST, API_PORT);
    let ask = || {
        until(PATIENCE, "ospfd's API is not there", || {
            Ok(match Client::connect(server, Duration::from_secs(5)) {
                Err(error) => matches!(error.problem, Problem::NoInstance).then_some(()),
                Ok(_) => panic!("a connection to an ospfd that runs nothing"),
            })
        })
        .unwrap();
        // As station and probe follow it.
        let mut source = Source::ospf(server, Names::new(), None);
        let error = source.next(Duration::ZERO).unwrap_err();
        assert!(error.contains("no `router ospf`"), "{error}");
        assert!(source.next(Duration::ZERO).unwrap().is_none());
    };
    within("R", ask).unwrap();
    router.check_alive().unwrap();
}

fn links(topology: &Topology) -> BTreeSet<(String, String, u64)> {
    let name = |router| topology.name(router).to_owned();
    let links = topology.all_links();
    links
        .map(|(from, to, weight)| (name(from), name(to), weight.millionths() / 1_000_000))
        .collect()
}

fn expected(without: &[(&str, &str)]) -> BTreeSet<(String, String, u64)> {
    let kept = TOY
        .iter()
        .filter(|link| !without.contains(&(link.0, link.1)));
    let both = kept.flat_map(|&(a, b, cost)| [(a, b, cost), (b, a, cost)]);
    both.map(|(a, b, cost)| (a.to_owned(), b.to_owned(), u64::from(cost)))
        .collect()
}

/// The m-set of a node as it sees the network, m-servers where there are no m-routers.
fn labels(view: &View, of: &str) -> Vec<String> {
    let topology = &view.topology;
    let paths = Paths::new(topology).unwrap();
    let deployment = Deployment::new(
        topology,
        &topology.with_role(Role::MRouter).unwrap_or_default(),
        None,
    );
    let set = mset(&paths, &deployment, topology.find(of).unwrap());
    set.iter()
        .flat_map(|member| member.labels(topology).collect::<Vec<_>>())
        .collect()
}

#[test]
fn m_sets_are_made_from_live_ospf() {
    let Some(frr) = Frr::for_test().unwrap() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut routers = Routers::start(&frr, TOY, folder.path()).unwrap();
    let all: Vec<_> = routers.names().map(str::to_owned).collect();
    let names: Names = routers.by_id();
    let mut nodes: Vec<_> = (0..)
        .zip(&all)
        .map(|(index, name)| Node::connect(name, index))
        .collect();
    for node in &mut nodes {
        let view = node.wait(&names, "the network", |view| {
            links(&view.topology) == expected(&[])
        });
        let c = view.addresses.find(router_id(2));
        assert_eq!(view.topology.name(c[0]), "C");
    }

    // C and F say that they are m-routers; a node gives itself a name that the operator's overrides.
    for index in [2, 5] {
        let presence = Presence {
            role: Role::MRouter,
            name: Some(format!("m{index}")),
        };
        nodes[index].client.advertise(AREA, &presence).unwrap();
    }
    for (node, set) in nodes.iter_mut().zip(SETS) {
        let view = node.wait(&names, "two m-routers", |view| {
            view.topology
                .with_role(Role::MRouter)
                .is_some_and(|routers| routers.len() == 2)
        });
        assert_eq!(labels(&view, &node.name), set, "{}", node.name);
    }
    let own_names = nodes[0].database.view(&Names::new()).unwrap();
    assert!(own_names.topology.find("m5").is_some());

    // A link is cut: F reaches D through C only, and E, through C as well, is no more in its set.
    routers.set_link("E", "F", false).unwrap();
    for node in &mut nodes {
        let view = node.wait(&names, "a link less", |view| {
            links(&view.topology) == expected(&[("E", "F")])
        });
        if node.name == "F" {
            assert_eq!(labels(&view, "F"), ["A", "B"]);
        }
        if node.name == "E" {
            assert_eq!(labels(&view, "E"), ["C", "D"]);
        }
    }

    // Both end without a word.
    nodes.remove(5);
    nodes.remove(2);
    for node in &mut nodes {
        node.wait(&names, "no m-router", |view| {
            view.topology.with_role(Role::MRouter).is_none()
        });
    }
    routers.check_alive().unwrap();
}
