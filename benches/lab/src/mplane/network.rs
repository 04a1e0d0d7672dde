//! The network: routers, cables, and a path to NATS for every router.
//!
//! ```text
//!  plain router X            cable              m-router Y's switch           cable          m-router Y
//!    [XY] ======= c-XY [redirect] c-YX ======= p-YX [vernierd] q-YX ======= k-YX [redirect] r-YX ======= [YX]
//! ```
//!
//! Between two plain routers there is the first cable only.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::frr::{Frr, Link, Routers, STEADY_HELLOS, TOY, link_address, router_id};
use testkit::namespace::{inside, ip, prepare, switch_offloads_off, veth};
use testkit::process::{output, until};
use topology::Topology;
use topology::mset::{Deployment, Member, mset};
use topology::paths::Paths;
use topology::read::{self, Format};

use crate::mplane::cable::{Cable, prepare_box};

/// The m-routers of the figures.
pub const M_ROUTERS: [&str; 2] = ["C", "F"];

/// How long OSPF may take to converge.
const CONVERGENCE: Duration = Duration::from_secs(90);

/// The network.
#[derive(Debug)]
pub struct Network {
    routers: Routers,
    /// By the names of their first ends.
    cables: BTreeMap<String, Cable>,
    cut: Option<Link<'static>>,
}

pub fn is_m_router(name: &str) -> bool {
    M_ROUTERS.contains(&name)
}

/// The neighbours of a router, by name.
pub fn neighbours(router: &str) -> Vec<&'static str> {
    let ends = TOY.iter().flat_map(|&(a, b, _)| [(a, b), (b, a)]);
    let neighbours = ends
        .filter(|(end, _)| *end == router)
        .map(|(_, other)| other);
    let mut all: Vec<_> = neighbours.collect();
    all.sort_unstable();
    all
}

/// A router's own address.
pub fn address_of(router: &str) -> Ipv4Addr {
    router_id(usize::from(router.as_bytes()[0] - b'A'))
}

/// The address of a router's end of the link to a neighbour.
pub fn address_towards(router: &str, neighbour: &str) -> Option<Ipv4Addr> {
    TOY.iter().zip(0..).find_map(|(&(a, b, _), index)| {
        let ends = [((a, b), 0), ((b, a), 1)];
        let at = ends.iter().find(|(ends, _)| *ends == (router, neighbour));
        at.map(|&(_, at)| link_address(index, at))
    })
}

/// Addresses of the testbed's own namespace and of a router on the link between them.
pub fn management(router: &str) -> [Ipv4Addr; 2] {
    let base = 4 * (router.as_bytes()[0] - b'A');
    [1, 2].map(|last| Ipv4Addr::new(10, 250, 0, base + last))
}

impl Network {
    /// Makes it and starts the routers.
    pub fn build(frr: &Frr, folder: &Path) -> Result<Self> {
        prepare()?;
        ip("link set lo up")?;
        prepare_box()?;
        let mut cables = BTreeMap::new();
        let routers = Routers::start_with(frr, TOY, folder, STEADY_HELLOS, |&(from, to, _)| {
            for (end, other) in [(from, to), (to, from)] {
                if connect(end, other)? {
                    let name = format!("k-{end}{other}");
                    let cable = Cable::join(&name, &format!("r-{end}{other}"))?;
                    cables.insert(name, cable);
                }
            }
            let name = format!("c-{from}{to}");
            let cable = Cable::join(&name, &format!("c-{to}{from}"))?;
            cables.insert(name, cable);
            Ok(())
        })?;
        let network = Self {
            routers,
            cables,
            cut: None,
        };
        for name in network.names() {
            manage(name)?;
            // Choose among ways of equal cost by ports, too.
            let by_ports = "net.ipv4.fib_multipath_hash_policy=1";
            output(inside(name, "sysctl").args(["-qw", by_ports]))?;
        }
        Ok(network)
    }

    /// The routers' names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.routers.names()
    }

    /// The cable of a link of [`TOY`].
    pub fn link(&self, from: &str, to: &str) -> Result<&Cable> {
        let cable = self.cables.get(&format!("c-{from}{to}"));
        cable.with_context(|| format!("there is no link {from}-{to}"))
    }

    /// The cable between an m-router and its switch, on the side of a neighbour.
    pub fn port(&self, router: &str, neighbour: &str) -> Result<&Cable> {
        let cable = self.cables.get(&format!("k-{router}{neighbour}"));
        cable.with_context(|| format!("{router} has no port to {neighbour}"))
    }

    /// Cuts a link at both ends, or restores the one that is cut.
    pub fn set_cut(&mut self, cut: Option<Link<'static>>) -> Result<()> {
        for (link, is_up) in [(self.cut, true), (cut, false)] {
            if let Some((from, to, _)) = link {
                self.routers.set_link(from, to, is_up)?;
                self.routers.set_link(to, from, is_up)?;
            }
        }
        self.cut = cut;
        Ok(())
    }

    /// The link that is cut.
    pub fn cut(&self) -> Option<Link<'static>> {
        self.cut
    }

    /// Links that are not cut.
    pub fn open_links(&self) -> impl Iterator<Item = Link<'static>> + use<> {
        let cut = self.cut;
        TOY.iter().copied().filter(move |link| Some(*link) != cut)
    }

    /// Waits until every router sends packets to every other by shortest paths only.
    pub fn wait_for_routes(&mut self) -> Result<()> {
        let plan = self.plan()?;
        let names: Vec<String> = self.names().map(str::to_owned).collect();
        until(CONVERGENCE, "OSPF has not converged", || {
            self.routers.check_alive()?;
            for from in &names {
                for to in names.iter().filter(|to| *to != from) {
                    let (hops, planned) = (hops(from, to)?, plan.first_hops(from, to));
                    if hops.is_empty() || hops.iter().any(|hop| !planned.contains(&&**hop)) {
                        return Ok(None);
                    }
                }
            }
            Ok(Some(()))
        })
    }

    /// Fails if a router has ended.
    pub fn check(&mut self) -> Result<()> {
        self.routers.check_alive()
    }

    /// The topology as it is now.
    pub fn plan(&self) -> Result<Plan> {
        Plan::of(self.open_links())
    }
}

/// Neighbours through which a router reaches another router's own address, according to the kernel.
fn hops(from: &str, to: &str) -> Result<Vec<String>> {
    let route =
        output(inside(from, "ip").args(["route", "show", &format!("{}/32", address_of(to))]))?;
    let words: Vec<_> = route.split_whitespace().collect();
    let devices = words.windows(2).filter(|pair| pair[0] == "dev");
    let hops = devices.filter_map(|pair| pair[1].strip_prefix(from).map(str::to_owned));
    Ok(hops.collect())
}

/// Creates the interfaces at one end of a link; returns whether its router has a switch, and so needs a cable to it.
fn connect(end: &str, other: &str) -> Result<bool> {
    let own = format!("{end}{other}");
    let has_switch = is_m_router(end);
    if has_switch {
        veth(&format!("p-{own}"), &format!("c-{own}"))?;
        veth(&format!("q-{own}"), &format!("k-{own}"))?;
    }
    let outer = if has_switch { "r" } else { "c" };
    ip(&format!(
        "link add {own} netns {end} type veth peer name {outer}-{own}"
    ))?;
    switch_offloads_off(&mut inside(end, "ethtool"), &own)?;
    Ok(has_switch)
}

/// Gives a router a link to the testbed's own namespace, unknown to other routers.
fn manage(router: &str) -> Result<()> {
    let [here, there] = management(router);
    ip(&format!(
        "link add m-{router} type veth peer name mgmt netns {router}"
    ))?;
    ip(&format!("addr add {here}/30 dev m-{router}"))?;
    ip(&format!("link set m-{router} up"))?;
    ip(&format!("-n {router} addr add {there}/30 dev mgmt"))?;
    ip(&format!("-n {router} link set mgmt up"))
}

/// Shortest paths and m-sets of the network.
#[derive(Debug)]
pub struct Plan {
    topology: Topology,
    paths: Paths,
    deployment: Deployment,
}

impl Plan {
    pub(crate) fn of(links: impl Iterator<Item = Link<'static>>) -> Result<Self> {
        let topology = read::bytes(json(links).to_string().as_bytes(), "the toy", Format::Json)?;
        let paths = Paths::new(&topology)?;
        let upgraded = M_ROUTERS.iter().filter_map(|name| topology.find(name));
        let upgraded: Vec<_> = upgraded.collect();
        let deployment = Deployment::new(&topology, &upgraded, None);
        Ok(Self {
            topology,
            paths,
            deployment,
        })
    }

    /// The ways of a node's m-set, each as the names of its routers.
    pub fn ways(&self, of: &str) -> Vec<Vec<String>> {
        let Some(router) = self.topology.find(of) else {
            return Vec::new();
        };
        let members = mset(&self.paths, &self.deployment, router);
        let ways = members.iter().flat_map(|member: &Member| &member.ways);
        let name = |router: &topology::Router| self.topology.name(*router).to_owned();
        ways.map(|way| way.routers.iter().map(name).collect())
            .collect()
    }

    /// The neighbours through which the shortest paths leave, by name.
    fn first_hops(&self, from: &str, to: &str) -> Vec<&str> {
        let find = |name| self.topology.find(name);
        let Some((from, to)) = find(from).zip(find(to)) else {
            return Vec::new();
        };
        let none = vec![false; self.paths.routers()];
        let listed = self.paths.list(from, to, &none);
        let second = listed.ways.iter().filter_map(|way| way.routers.get(1));
        second.map(|router| self.topology.name(*router)).collect()
    }
}

/// The network in the format of `vernier plan` and the station.
pub fn json(links: impl Iterator<Item = Link<'static>>) -> Value {
    let link = |(from, to, cost)| json!({ "from": from, "to": to, "weight": cost });
    let links: Vec<_> = links.map(link).collect();
    let role = |name: &str| ["m-server", "m-router"][usize::from(is_m_router(name))];
    let nodes: Vec<_> = ["A", "B", "C", "D", "E", "F"]
        .map(|name| json!({ "name": name, "role": role(name), "id": address_of(name) }))
        .into();
    json!({ "nodes": nodes, "links": links })
}
