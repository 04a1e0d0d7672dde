//! The valid LSAs, and the network that they describe (RFC 2328, section 16.1, first stage).

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::Ipv4Addr;

use super::api::Change;
use super::lsa::{Body, Header, Link, LinkKind, Lsa};
use super::presence::{OPAQUE_TYPE, Presence};
use crate::read::{Record, clean};
use crate::topology::{LINKS_MAX, ROUTERS_MAX, Router, Topology, Weight};

#[cfg(test)]
mod tests;

/// Types of LSAs in the database.
pub const TYPES: &[u8] = &[
    super::lsa::ROUTER,
    super::lsa::NETWORK,
    super::lsa::OPAQUE_AREA,
];
/// Limit of LSAs in the database; further ones are counted.
pub const LSAS_MAX: usize = 16_384;
/// Limit of prefixes in a view.
pub const PREFIXES_MAX: usize = 65_536;

/// Area, type, link state ID, advertising router.
type Key = (Ipv4Addr, u8, Ipv4Addr, Ipv4Addr);

/// Area, router, and the link's target.
type Held = (Ipv4Addr, Ipv4Addr, LinkKind, Ipv4Addr);

/// The operator's names of routers, by router ID.
pub type Names = BTreeMap<Ipv4Addr, String>;

/// The LSAs of one router's areas.
#[derive(Debug, Default)]
pub struct Database {
    lsas: BTreeMap<Key, Lsa>,
    refused: u64,
}

/// Why LSAs do not form a topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// There is no link between two routers.
    #[error("OSPF knows no link between two routers yet: expected an adjacency in the state Full")]
    NoLinks,
    /// Too many routers.
    #[error("{0} routers, expected at most {ROUTERS_MAX}")]
    Routers(usize),
    /// Too many links.
    #[error("more than {LINKS_MAX} links, counting each direction")]
    Links,
}

/// A network at a point in time.
#[derive(Debug, Clone)]
pub struct View {
    /// Routers, links and roles.
    pub topology: Topology,
    /// Router ids, by router.
    pub ids: Vec<Ipv4Addr>,
    /// Prefixes and their routers.
    pub addresses: Addresses,
}

/// The routers of each prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Addresses {
    /// By length and network.
    prefixes: BTreeMap<(u32, u32), BTreeSet<Router>>,
}

impl Database {
    /// Applies a change; returns whether it made a difference (a refresh does not).
    pub fn apply(&mut self, change: Change) -> bool {
        match change {
            Change::Gone { area, header } => self.lsas.remove(&key(area, &header)).is_some(),
            Change::Valid { lsa, .. } if !is_ours(&lsa) => false,
            Change::Valid { area, lsa } => {
                let key = key(area, &lsa.header);
                let known = self.lsas.get(&key);
                let is_new = known.is_none_or(|known| known.body != lsa.body);
                if known.is_none() && self.lsas.len() == LSAS_MAX {
                    self.refused += 1;
                    return false;
                }
                self.lsas.insert(key, lsa);
                is_new
            }
        }
    }

    /// LSAs beyond [`LSAS_MAX`], in total.
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// Builds the network. A link counts if both of its ends list it, since otherwise no router uses it. A transit
    /// network is a link between each pair of its routers.
    ///
    /// # Errors
    /// There are no links, or too many routers or links.
    pub fn view(&self, names: &Names) -> Result<View, ViewError> {
        let held = self.held();
        let mut links = BTreeMap::new();
        for (&(area, kind, _, from), lsa) in &self.lsas {
            let Body::Router(of_router) = &lsa.body else {
                continue;
            };
            debug_assert_eq!(kind, super::lsa::ROUTER);
            for link in of_router {
                for to in self.ends(&held, (area, from, link.kind, link.id)) {
                    let cost = links.entry((from, to)).or_insert(link.cost);
                    *cost = link.cost.min(*cost);
                }
                if links.len() > LINKS_MAX {
                    return Err(ViewError::Links);
                }
            }
        }
        if links.is_empty() {
            return Err(ViewError::NoLinks);
        }
        let ids: BTreeSet<_> = links.keys().flat_map(|&(from, to)| [from, to]).collect();
        if ids.len() > ROUTERS_MAX {
            return Err(ViewError::Routers(ids.len()));
        }
        let presences = self.presences();
        let names = name_all(&ids, names, &presences);
        Ok(self.assemble(&names, &links, &presences))
    }

    fn assemble(
        &self,
        names: &BTreeMap<Ipv4Addr, String>,
        links: &BTreeMap<(Ipv4Addr, Ipv4Addr), u16>,
        presences: &BTreeMap<Ipv4Addr, Presence>,
    ) -> View {
        let index: BTreeMap<_, _> = names.keys().copied().zip(0_u32..).collect();
        let all: Vec<_> = names.values().cloned().collect();
        let links = links.iter().map(|(&(from, to), &cost)| {
            // A weight of 0 is invalid between routers; the smallest valid one is the nearest.
            let weight = Weight::new(f64::from(cost)).unwrap_or(Weight::LEAST);
            (index[&from], index[&to], weight)
        });
        let mut topology = Topology::new(&all, &links.collect::<Vec<_>>());
        for (id, presence) in presences {
            if let Some(name) = names.get(id) {
                topology.set_role(name, presence.role);
            }
        }
        let router = |id: &Ipv4Addr| topology.find(names.get(id)?);
        let addresses = self.addresses(router);
        let mut ids = vec![Ipv4Addr::UNSPECIFIED; all.len()];
        for id in names.keys() {
            if let Some(router) = router(id) {
                ids[router.index()] = *id;
            }
        }
        View {
            topology,
            ids,
            addresses,
        }
    }

    /// Every link between routers: area, router, kind, id.
    fn held(&self) -> HashSet<Held> {
        let routers = self.lsas.iter().filter_map(|(key, lsa)| match &lsa.body {
            Body::Router(links) => Some((key, links)),
            _ => None,
        });
        let held = routers.flat_map(|(key, links)| {
            let held = |link: &Link| (key.0, key.3, link.kind, link.id);
            links.iter().map(held)
        });
        held.collect()
    }

    /// The routers that a link of `from` leads to and that list it, too.
    fn ends(&self, held: &HashSet<Held>, (area, from, kind, id): Held) -> Vec<Ipv4Addr> {
        match kind {
            LinkKind::PointToPoint => {
                let is_link = id != from && held.contains(&(area, id, kind, from));
                if is_link { vec![id] } else { Vec::new() }
            }
            LinkKind::Transit => {
                let attached = self.attached(area, id);
                if !attached.contains(&from) {
                    return Vec::new();
                }
                let others = attached.iter().copied();
                let others = others
                    .filter(|other| *other != from && held.contains(&(area, *other, kind, id)));
                others.collect()
            }
            // The path of a virtual link is in the area that it crosses.
            LinkKind::Stub | LinkKind::Virtual => Vec::new(),
        }
    }

    /// The routers of a transit network, by the address of its designated router.
    fn attached(&self, area: Ipv4Addr, id: Ipv4Addr) -> &[Ipv4Addr] {
        let (low, high) = (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST);
        let kind = super::lsa::NETWORK;
        let mut of_network = self
            .lsas
            .range((area, kind, id, low)..=(area, kind, id, high));
        match of_network.next().map(|(_, lsa)| &lsa.body) {
            Some(Body::Network { attached, .. }) => attached,
            _ => &[],
        }
    }

    /// The roles that nodes advertise; unreadable ones are ignored.
    fn presences(&self) -> BTreeMap<Ipv4Addr, Presence> {
        let opaque = self.lsas.iter().filter_map(|(key, lsa)| match &lsa.body {
            Body::Opaque(body) => Some((key.3, body)),
            _ => None,
        });
        opaque
            .filter_map(|(id, body)| Some((id, Presence::parse(body).ok().flatten()?)))
            .collect()
    }

    fn addresses(&self, router: impl Fn(&Ipv4Addr) -> Option<Router>) -> Addresses {
        let mut addresses = Addresses::default();
        for (key, lsa) in &self.lsas {
            match &lsa.body {
                Body::Router(links) => {
                    let Some(router) = router(&key.3) else {
                        continue;
                    };
                    for link in links {
                        match link.kind {
                            LinkKind::Stub => addresses.add(link.id, link.data, router),
                            // 0.x.x.x is the index of an interface without an address.
                            _ if link.data.octets()[0] != 0 => {
                                addresses.add(link.data, Ipv4Addr::BROADCAST, router);
                            }
                            _ => {}
                        }
                    }
                }
                Body::Network { mask, attached } => {
                    for router in attached.iter().filter_map(&router) {
                        addresses.add(key.2, *mask, router);
                    }
                }
                _ => {}
            }
        }
        addresses
    }
}

fn key(area: Ipv4Addr, header: &Header) -> Key {
    (area, header.kind, header.id, header.advertiser)
}

/// Whether its type is one of [`TYPES`].
fn is_ours(lsa: &Lsa) -> bool {
    match lsa.body {
        // Its ID is its router's (A.4.2).
        Body::Router(_) => lsa.header.id == lsa.header.advertiser,
        Body::Network { .. } => true,
        Body::Opaque(_) => lsa.header.id.octets() == [OPAQUE_TYPE, 0, 0, 0],
        Body::Other => false,
    }
}

/// Names each router: the operator's name, its own, or its ID. Routers that share a name both get their
/// IDs.
fn name_all(
    ids: &BTreeSet<Ipv4Addr>,
    names: &Names,
    presences: &BTreeMap<Ipv4Addr, Presence>,
) -> BTreeMap<Ipv4Addr, String> {
    let wanted = |id: &Ipv4Addr| {
        let own = || presences.get(id)?.name.clone();
        let given = names.get(id).map(|name| clean(name));
        given.or_else(own)
    };
    let mut times = BTreeMap::<String, usize>::new();
    for id in ids {
        for name in [Some(id.to_string()), wanted(id)].into_iter().flatten() {
            *times.entry(name).or_default() += 1;
        }
    }
    let name = |id: &Ipv4Addr| {
        let name = wanted(id).filter(|name| times.get(name) == Some(&1));
        (*id, name.unwrap_or_else(|| id.to_string()))
    };
    ids.iter().map(name).collect()
}

impl View {
    /// Converts the view to the planner's format, with IDs, roles and prefixes.
    pub fn record(&self) -> Record {
        let mut record = Record::of(&self.topology);
        let nodes = record.nodes.iter_mut().zip(self.topology.routers());
        for (node, router) in nodes {
            node.id = Some(self.ids[router.index()].to_string());
            let of_router = self.addresses.of(router);
            node.prefixes = of_router
                .map(|(network, length)| format!("{network}/{length}"))
                .collect();
        }
        record
    }
}

impl Addresses {
    /// Adds a prefix, unless its mask is invalid or there are [`PREFIXES_MAX`] already.
    fn add(&mut self, network: Ipv4Addr, mask: Ipv4Addr, router: Router) {
        let mask = u32::from(mask);
        let length = mask.leading_ones();
        if mask.count_ones() != length || self.prefixes.len() == PREFIXES_MAX {
            return;
        }
        let network = u32::from(network) & mask;
        self.prefixes
            .entry((length, network))
            .or_default()
            .insert(router);
    }

    /// The routers of an address's longest prefix: one, all of a transit network, or none.
    pub fn find(&self, address: Ipv4Addr) -> Vec<Router> {
        let address = u32::from(address);
        let found = (0..=32_u32).rev().find_map(|length| {
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            self.prefixes.get(&(length, address & mask))
        });
        found.into_iter().flatten().copied().collect()
    }

    /// The prefixes of a router, with their lengths.
    pub fn of(&self, router: Router) -> impl Iterator<Item = (Ipv4Addr, u32)> {
        let of_router = self
            .prefixes
            .iter()
            .filter(move |(_, routers)| routers.contains(&router));
        of_router.map(|(&(length, network), _)| (Ipv4Addr::from(network), length))
    }
}
