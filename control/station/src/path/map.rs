//! The network as a whole.

use std::collections::BTreeSet;

use records::station::{MapLink, MapRouter, NetworkMap};

use super::Network;

impl Network<'_> {
    /// Its routers and links.
    pub fn map(&self) -> NetworkMap {
        let topology = &self.topology;
        let routers = topology.routers().map(|router| {
            let name = topology.name(router);
            MapRouter {
                name: name.to_owned(),
                reports: self.states.contains_key(name) || self.probes.is_node(name),
            }
        });
        let links = topology.all_links().map(|(a, b, _)| {
            let [from, to] = [a.min(b), a.max(b)].map(|router| topology.name(router).to_owned());
            MapLink { from, to }
        });
        NetworkMap {
            routers: routers.collect(),
            links: links.collect::<BTreeSet<_>>().into_iter().collect(),
            left_out: self.left_out,
        }
    }
}
