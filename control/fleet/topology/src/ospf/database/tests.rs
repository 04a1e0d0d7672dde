use proptest::prelude::*;

use super::super::lsa::{NETWORK, OPAQUE_AREA, ROUTER, tests::lsa, tests::router_body};
use super::*;
use crate::mset::{Deployment, mset};
use crate::paths::Paths;
use crate::read;
use crate::topology::Role;

const AREA: Ipv4Addr = Ipv4Addr::UNSPECIFIED;

fn id(router: u8) -> [u8; 4] {
    [10, 255, 0, router]
}

fn valid(kind: u8, of: [u8; 4], advertiser: [u8; 4], body: &[u8]) -> Change {
    let lsa = Lsa::parse(&lsa(kind, of, advertiser, body)).unwrap();
    Change::Valid { area: AREA, lsa }
}

type Links = [(u8, [u8; 4], [u8; 4], u16)];

fn router(of: u8, links: &Links) -> Change {
    valid(ROUTER, id(of), id(of), &router_body(links))
}

fn link(to: u8, cost: u16) -> (u8, [u8; 4], [u8; 4], u16) {
    (1, id(to), [10, 9, to, 1], cost)
}

fn database(changes: impl IntoIterator<Item = Change>) -> Database {
    let mut database = Database::default();
    for change in changes {
        database.apply(change);
    }
    database
}

fn lines(view: &View) -> Vec<String> {
    let name = |router| view.topology.name(router);
    let links = view.topology.all_links();
    links
        .map(|(from, to, weight)| format!("{} {} {}", name(from), name(to), weight.value()))
        .collect()
}

fn names(of: &[(u8, &str)]) -> Names {
    of.iter()
        .map(|(router, name)| (id(*router).into(), (*name).to_owned()))
        .collect()
}

#[test]
fn a_link_counts_if_both_ends_have_it() {
    let mut database = database([
        router(1, &[link(2, 5), link(3, 1)]),
        router(2, &[link(1, 7)]),
        router(3, &[]),
    ]);
    let view = database.view(&names(&[(1, "a"), (2, "b")])).unwrap();
    assert_eq!(lines(&view), ["a b 5", "b a 7"]);
    assert!(database.apply(router(2, &[])));
    assert_eq!(
        database.view(&Names::new()).unwrap_err(),
        ViewError::NoLinks
    );
    // A refresh is no change.
    assert!(!database.apply(router(2, &[])));
}

#[test]
fn a_transit_network_links_all_its_routers() {
    let dr = [192, 0, 2, 1];
    let at = |of: u8, cost| {
        router(
            of,
            &[
                (2, dr, [192, 0, 2, of], cost),
                (3, [10, 1, of, 0], [255, 255, 255, 0], 1),
            ],
        )
    };
    let attached = [[255, 255, 255, 0], id(1), id(2), id(3)].concat();
    let database = database([
        at(1, 4),
        at(2, 5),
        at(3, 6),
        at(4, 9),
        valid(NETWORK, dr, id(1), &attached),
    ]);
    let view = database
        .view(&names(&[(1, "a"), (2, "b"), (3, "c")]))
        .unwrap();
    // The fourth is not attached. Costs are those of leaving.
    assert_eq!(
        lines(&view),
        ["a b 4", "a c 4", "b a 5", "b c 5", "c a 6", "c b 6"]
    );
    let find = |address: [u8; 4]| -> Vec<_> {
        let found = view.addresses.find(address.into()).into_iter();
        found.map(|router| view.topology.name(router)).collect()
    };
    assert_eq!(find([10, 1, 2, 77]), ["b"]);
    assert_eq!(find([192, 0, 2, 3]), ["c"]);
    assert_eq!(find([192, 0, 2, 99]), ["a", "b", "c"]);
    assert_eq!(find([8, 8, 8, 8]), Vec::<&str>::new());
    assert_eq!(
        view.record().nodes[1].prefixes,
        ["10.1.2.0/24", "192.0.2.0/24", "192.0.2.2/32"]
    );
}

#[test]
fn nodes_say_what_they_are() {
    let presence = |role, name: &str| {
        let name = Some(name.to_owned());
        Presence { role, name }.emit()
    };
    let opaque = |of: u8, kind: u8, body: &[u8]| valid(OPAQUE_AREA, [kind, 0, 0, 0], id(of), body);
    let mut database = database([
        router(1, &[link(2, 1)]),
        router(2, &[link(1, 1), link(3, 1)]),
        router(3, &[link(2, 1)]),
        opaque(1, OPAQUE_TYPE, &presence(Role::MRouter, "core")),
        opaque(2, OPAQUE_TYPE, b"others"),
        opaque(3, 4, &presence(Role::MRouter, "not our type")),
    ]);
    let view = database.view(&names(&[(1, "operator's")])).unwrap();
    let name = view
        .topology
        .name(view.topology.with_role(Role::MRouter).unwrap()[0]);
    assert_eq!(
        (
            name,
            view.topology
                .with_role(Role::MServer)
                .unwrap_or_default()
                .len()
        ),
        ("operator's", 0)
    );
    // Two of one name have their ids.
    database.apply(opaque(3, OPAQUE_TYPE, &presence(Role::MServer, "core")));
    let view = database.view(&Names::new()).unwrap();
    let names: Vec<_> = view
        .topology
        .routers()
        .map(|router| view.topology.name(router))
        .collect();
    assert_eq!(names, ["10.255.0.1", "10.255.0.2", "10.255.0.3"]);
    // The link is gone, and the planner can read the rest.
    let header = Lsa::parse(&lsa(OPAQUE_AREA, [OPAQUE_TYPE, 0, 0, 0], id(3), &[]))
        .unwrap()
        .header;
    assert!(database.apply(Change::Gone { area: AREA, header }));
    let view = database.view(&Names::new()).unwrap();
    let json = serde_json::to_vec(&view.record()).unwrap();
    let read = read::bytes(&json, "live", read::Format::Json).unwrap();
    assert_eq!(read.roles(), view.topology.roles());
    assert_eq!(read.find("core"), view.topology.find("core"));
    assert_eq!(read.links(), 4);
}

#[test]
fn a_database_has_a_limit() {
    let mut database = Database::default();
    for at in 0..LSAS_MAX + 2 {
        let [high, low] = u16::try_from(at).unwrap().to_be_bytes();
        let of = [10, 0, high, low];
        database.apply(valid(ROUTER, of, of, &router_body(&[])));
    }
    assert_eq!(database.refused(), 2);
}

/// A random network with costs by direction, in LSAs, some lost.
fn random() -> impl Strategy<Value = Vec<(u8, u8, u16)>> {
    prop::collection::vec((1_u8..7, 1_u8..7, 0_u16..4), 1..20)
}

proptest! {
    /// A file's network and its LSAs give the same view, and m-sets can be made of any.
    #[test]
    fn links_of_both_ends_are_the_network(links in random(), lost in prop::option::of(1_u8..7)) {
        let of = |from: u8| -> Vec<_> {
            let own = links.iter().filter(|link| link.0 == from);
            own.map(|&(_, to, cost)| link(to, cost)).collect()
        };
        let routers = (1..7).filter(|router| Some(*router) != lost);
        let database = database(routers.map(|from| router(from, &of(from))));
        let has = |from: u8, to: u8| from != to && Some(from) != lost && links.iter().any(|link| (link.0, link.1) == (from, to));
        let mut expected = Vec::new();
        for from in 1..7 {
            for to in 1..7 {
                if has(from, to) && has(to, from) {
                    let costs = links.iter().filter(|link| (link.0, link.1) == (from, to));
                    let cost = f64::from(costs.map(|link| link.2).min().unwrap()).max(1e-6);
                    expected.push(format!("10.255.0.{from} 10.255.0.{to} {cost}"));
                }
            }
        }
        match database.view(&Names::new()) {
            Err(ViewError::NoLinks) => prop_assert!(expected.is_empty()),
            Err(other) => prop_assert!(false, "{other}"),
            Ok(view) => {
                prop_assert_eq!(lines(&view), expected);
                let paths = Paths::new(&view.topology).unwrap();
                let deployment = Deployment::new(&view.topology, &[], None);
                for of in view.topology.routers() {
                    mset(&paths, &deployment, of);
                }
            }
        }
    }
}
