//! Which node monitors which segments: m-sets (MPLANE, section VI).
//!
//! Each m-router and m-server takes the tree of shortest paths from itself, with all equal-cost alternatives, and
//! cuts it at the first m-router on each branch: that m-router monitors what lies behind. Before the cut, the node
//! monitors the path to every m-server, and to the m-router at the cut. An m-server does not end a branch: it stands
//! at a router that does not measure, and nobody sees the packets that pass through that router until the next
//! m-router. So the m-sets of all nodes together are the segments that [`crate::paths`] counts.
//!
//! The exception is two m-routers, as in the paper's figure 8: C lists F, F does not list C. They measure the link
//! between them in both directions at once, and only the first by name lists it. The other lists it, too, if some
//! path does not lead back the same way because weights differ by direction.

use crate::paths::{Paths, Way};
use crate::topology::{Role, Router, Topology};

/// What each node of a network can measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployment {
    roles: Vec<Role>,
    is_m_router: Vec<bool>,
}

impl Deployment {
    /// Creates a deployment with these m-routers, and with m-servers at these routers or, without a list, at all
    /// others. An m-router does not need a server: it stays an m-router.
    pub fn new(topology: &Topology, m_routers: &[Router], m_servers: Option<&[Router]>) -> Self {
        let role = |router| match m_servers {
            _ if m_routers.contains(&router) => Role::MRouter,
            Some(servers) if !servers.contains(&router) => Role::Plain,
            _ => Role::MServer,
        };
        let roles: Vec<_> = topology.routers().map(role).collect();
        Self {
            is_m_router: roles.iter().map(|role| *role == Role::MRouter).collect(),
            roles,
        }
    }

    /// What this node can measure.
    pub fn role(&self, router: Router) -> Role {
        self.roles[router.index()]
    }

    /// By router, whether it is an m-router.
    pub fn m_routers(&self) -> &[bool] {
        &self.is_m_router
    }

    pub(crate) fn measures(&self, router: Router) -> bool {
        self.role(router) != Role::Plain
    }
}

/// A node of an m-set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The node's router.
    pub router: Router,
    /// Number of equal-cost paths to it, monitored or not.
    pub alternatives: u64,
    /// Number of paths without an m-router inside, which are monitored.
    pub monitored: u64,
    /// The first [`crate::paths::WAYS_MAX`] of the monitored paths. One hop is a link, more are a virtual
    /// link.
    pub ways: Vec<Way>,
}

impl Member {
    /// The paper's notation: `D`, or `D_2` for the second of several equal-cost paths.
    pub fn labels<'a>(&'a self, topology: &'a Topology) -> impl Iterator<Item = String> + 'a {
        let name = topology.name(self.router);
        self.ways.iter().map(move |way| match self.alternatives {
            1 => name.to_owned(),
            _ => format!("{name}_{}", way.number),
        })
    }
}

/// The m-set of one node, in the order of the members' names; empty for a plain router.
///
/// # Panics
/// The deployment belongs to another network than the paths.
pub fn mset(paths: &Paths, deployment: &Deployment, of: Router) -> Vec<Member> {
    let blocked = deployment.m_routers();
    assert_eq!(blocked.len(), paths.routers(), "of another network");
    if !deployment.measures(of) {
        return Vec::new();
    }
    let routers = (0..).map(Router).take(paths.routers());
    let others = routers.filter(|&other| other != of && deployment.measures(other));
    let member = |router: Router| {
        let listed = paths.list(of, router, blocked);
        let is_listed_there = router < of
            && blocked[of.index()]
            && blocked[router.index()]
            && paths.lead_back(of, router, blocked);
        (listed.count > 0 && !is_listed_there).then_some(Member {
            router,
            alternatives: listed.alternatives,
            monitored: listed.count,
            ways: listed.ways,
        })
    };
    others.filter_map(member).collect()
}
