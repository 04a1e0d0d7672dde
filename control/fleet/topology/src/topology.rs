//! The network itself.

use std::collections::{BTreeMap, HashMap};

use petgraph::graph::DiGraph;
use petgraph::visit::EdgeRef;
use serde::{Deserialize, Serialize};

/// Limit of routers.
pub const ROUTERS_MAX: usize = 2_048;
/// Limit of links, counting each direction. With [`ROUTERS_MAX`] it bounds the memory for all shortest paths to a
/// quarter of a GiB.
pub const LINKS_MAX: usize = 32_768;

/// Units of a weight of 1.
const PARTS: f64 = 1e6;

/// Cost of a link in millionths, 1 to 10^15. An integer, since equal-cost paths must have equal sums, which
/// decimal fractions as `f64` do not guarantee.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u64);

impl Weight {
    /// The default weight.
    pub const ONE: Self = Self(1_000_000);

    /// The smallest weight.
    pub const LEAST: Self = Self(1);

    /// The range that [`Weight::new`] accepts.
    pub const RANGE: &str = "0.000001 to 1000000000";

    /// `None` unless the value is within [`Weight::RANGE`].
    pub fn new(weight: f64) -> Option<Self> {
        let parts = (weight * PARTS).round();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "used within the range only"
        )]
        let whole = parts as u64;
        (1.0..=1e15).contains(&parts).then_some(Self(whole))
    }

    /// The weight in millionths.
    pub const fn millionths(self) -> u64 {
        self.0
    }

    /// The value for [`Weight::new`].
    pub fn value(self) -> f64 {
        self.0 as f64 / PARTS
    }
}

/// Index of a router in the order of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Router(pub(crate) u32);

impl Router {
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The role of a node in measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A router that measures nothing.
    Plain,
    /// A plain router with a measurement server, which exchanges probes with other nodes.
    MServer,
    /// A router that measures between its ports, and on the links to other m-routers.
    MRouter,
}

impl Role {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::MServer => "m-server",
            Self::MRouter => "m-router",
        }
    }
}

/// Routers and the links between them. At most one link leads from one router to another.
#[derive(Debug, Clone)]
pub struct Topology {
    graph: DiGraph<String, Weight>,
    roles: BTreeMap<Router, Role>,
}

impl Topology {
    /// Creates a network from unique names and links between their indices. Of parallel links, the one of least
    /// weight remains; links of a router to itself are dropped, since no shortest path uses them.
    pub(crate) fn new(names: &[String], links: &[(u32, u32, Weight)]) -> Self {
        let mut by_name: Vec<u32> = (0..).take(names.len()).collect();
        by_name.sort_by_key(|&old| &names[old as usize]);
        let mut graph = DiGraph::new();
        let mut index = vec![petgraph::graph::NodeIndex::default(); names.len()];
        for &old in &by_name {
            index[old as usize] = graph.add_node(names[old as usize].clone());
        }
        let mut least = BTreeMap::new();
        for &(from, to, weight) in links.iter().filter(|(from, to, _)| from != to) {
            let known = least.entry((index[from as usize], index[to as usize]));
            let known: &mut Weight = known.or_insert(weight);
            *known = weight.min(*known);
        }
        for ((from, to), weight) in least {
            graph.add_edge(from, to, weight);
        }
        let roles = BTreeMap::new();
        Self { graph, roles }
    }

    /// Creates a network from links of weight 1 in both directions, by routers' names.
    pub fn of_links<'n>(links: impl IntoIterator<Item = (&'n str, &'n str)>) -> Self {
        Self::of_weighted_links(links.into_iter().map(|(a, b)| (a, b, Weight::ONE)))
    }

    /// Creates a network from links with the same weight in both directions.
    pub fn of_weighted_links<'n>(
        links: impl IntoIterator<Item = (&'n str, &'n str, Weight)>,
    ) -> Self {
        let mut names: Vec<String> = Vec::new();
        let mut indices = HashMap::new();
        let mut index = |name: &'n str| {
            *indices.entry(name).or_insert_with(|| {
                names.push(name.to_owned());
                u32::try_from(names.len() - 1).unwrap_or(u32::MAX)
            })
        };
        let links = links
            .into_iter()
            .map(|(a, b, weight)| (index(a), index(b), weight));
        let links = links.flat_map(|(a, b, weight)| [(a, b, weight), (b, a, weight)]);
        let links: Vec<_> = links.collect();
        Self::new(&names, &links)
    }

    pub(crate) const fn graph(&self) -> &DiGraph<String, Weight> {
        &self.graph
    }

    /// All routers, by name.
    pub fn routers(&self) -> impl ExactSizeIterator<Item = Router> + use<> {
        (0..u32::try_from(self.graph.node_count()).unwrap_or(u32::MAX)).map(Router)
    }

    /// Number of links, counting each direction.
    pub fn links(&self) -> usize {
        self.graph.edge_count()
    }

    /// Every link with its weight.
    pub fn all_links(&self) -> impl Iterator<Item = (Router, Router, Weight)> {
        let router = |node: petgraph::graph::NodeIndex| {
            u32::try_from(node.index()).map_or(Router(u32::MAX), Router)
        };
        let links = self.graph.edge_references();
        links.map(move |link| (router(link.source()), router(link.target()), *link.weight()))
    }

    /// The roles that routers declare, in a file or in OSPF.
    pub const fn roles(&self) -> &BTreeMap<Router, Role> {
        &self.roles
    }

    /// Sets the role of a router; an unknown name is ignored.
    pub fn set_role(&mut self, name: &str, role: Role) {
        if let Some(router) = self.find(name) {
            self.roles.insert(router, role);
        }
    }

    /// The routers with a role; `None` if there are none.
    pub fn with_role(&self, role: Role) -> Option<Vec<Router>> {
        let roles = self.roles.iter().filter(|(_, has)| **has == role);
        let routers: Vec<_> = roles.map(|(router, _)| *router).collect();
        (!routers.is_empty()).then_some(routers)
    }

    /// The router with this name.
    pub fn find(&self, name: &str) -> Option<Router> {
        let routers: Vec<_> = self.routers().collect();
        let at = routers.binary_search_by(|&router| self.name(router).cmp(name));
        at.ok().map(|at| routers[at])
    }

    /// A router's name in its file.
    pub fn name(&self, router: Router) -> &str {
        &self.graph[petgraph::graph::NodeIndex::new(router.index())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_alternatives_are_found_and_no_detour() {
        // Two diamonds in a row, and a detour.
        let links = [
            ("a", "b"),
            ("a", "c"),
            ("b", "d"),
            ("c", "d"),
            ("d", "e"),
            ("d", "f"),
            ("e", "g"),
            ("f", "g"),
            ("a", "x"),
            ("x", "y"),
            ("y", "g"),
            ("y", "z"),
            ("z", "g"),
            ("q", "r"),
        ];
        let topology = Topology::of_links(links);
        let router = |name| topology.find(name).unwrap();
        let named = |from, to, max| -> Vec<String> {
            let paths = topology.between(router(from), router(to), max);
            let name =
                |path: Vec<Router>| path.iter().map(|&router| topology.name(router)).collect();
            paths.into_iter().map(name).collect()
        };
        assert_eq!(named("a", "d", 9), ["abd", "acd"]);
        // Over d there are four hops, over x three.
        assert_eq!(named("a", "g", 9), ["axyg"]);
        assert_eq!(named("b", "g", 9), ["bdeg", "bdfg"]);
        assert_eq!(named("b", "g", 1), ["bdeg"]);
        assert_eq!(named("a", "a", 9), ["a"]);
        assert!(named("a", "q", 9).is_empty());
        assert_eq!(topology.find("nobody"), None);
    }
}
