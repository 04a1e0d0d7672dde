//! The segments of a path: the parts of its delay, and who measures each part.

use crate::mset::Deployment;
use crate::paths::{Listed, Paths};
use crate::topology::{Role, Router};

/// A part of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Inside an m-router, from one link's port to another's. An end of the path has `None`: packets come from or go
    /// to a host.
    Inside {
        /// The m-router.
        at: Router,
        /// The router before it.
        from: Option<Router>,
        /// The router after it.
        to: Option<Router>,
    },
    /// From one measuring node to another without m-routers between them: the last is in the m-set of the first, or
    /// vice versa.
    Between {
        /// All its routers; two are a link, more a virtual link.
        routers: Vec<Router>,
    },
    /// Nobody measures this.
    Uncovered {
        /// All its routers.
        routers: Vec<Router>,
        /// An m-server at each of these, or an upgrade of it, would cover the part.
        missing: Vec<Router>,
    },
}

/// One path from end to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// Counts all equal-cost paths, from 1.
    pub number: u64,
    /// From end to end.
    pub parts: Vec<Part>,
}

/// The paths between two routers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chains {
    /// How many there are.
    pub alternatives: u64,
    /// The first [`crate::paths::WAYS_MAX`].
    pub chains: Vec<Chain>,
}

/// The segments of all equal-cost paths from one router to another. The deployment must belong to the network of
/// `paths`.
pub fn chains(paths: &Paths, deployment: &Deployment, from: Router, to: Router) -> Chains {
    let Listed {
        alternatives, ways, ..
    } = paths.list(from, to, &vec![false; paths.routers()]);
    let chains = ways.into_iter().map(|way| Chain {
        number: way.number,
        parts: parts(&way.routers, deployment),
    });
    Chains {
        alternatives,
        chains: chains.collect(),
    }
}

/// The parts of one path, given as its routers. (If one router is both ends, only its upgrade measures.)
pub fn parts(path: &[Router], deployment: &Deployment) -> Vec<Part> {
    let mut parts = Vec::new();
    if let &[only] = path
        && deployment.role(only) != Role::MRouter
    {
        parts.push(Part::Uncovered {
            routers: vec![only],
            missing: vec![only],
        });
    }
    let mut begin = 0;
    for (at, &router) in path.iter().enumerate() {
        let is_end = at + 1 == path.len();
        let is_m_router = deployment.role(router) == Role::MRouter;
        if is_m_router || is_end {
            stretch(&path[begin..=at], deployment, &mut parts);
            begin = at;
        }
        if is_m_router {
            parts.push(Part::Inside {
                at: router,
                from: at.checked_sub(1).map(|before| path[before]),
                to: path.get(at + 1).copied(),
            });
        }
    }
    parts
}

/// A stretch with m-routers only at its ends, from its first measuring node to its last; the parts before and after
/// are not covered.
fn stretch(path: &[Router], deployment: &Deployment, parts: &mut Vec<Part>) {
    let measures = |router: &Router| deployment.measures(*router);
    let uncovered = |routers: &[Router]| {
        let ends = [routers.first(), routers.last()].into_iter().flatten();
        Part::Uncovered {
            routers: routers.to_vec(),
            missing: ends.copied().filter(|end| !measures(end)).collect(),
        }
    };
    if path.len() < 2 {
        return;
    }
    let (Some(first), Some(last)) = (
        path.iter().position(measures),
        path.iter().rposition(measures),
    ) else {
        parts.push(uncovered(path));
        return;
    };
    if first > 0 {
        parts.push(uncovered(&path[..=first]));
    }
    if first < last {
        parts.push(Part::Between {
            routers: path[first..=last].to_vec(),
        });
    }
    if last + 1 < path.len() {
        parts.push(uncovered(&path[last..]));
    }
}

impl Part {
    /// The finer segments that m-servers inside a virtual link measure: from each server to the next. Their sum is
    /// not exactly the whole, since probes end at a server while packets pass through its router.
    pub fn finer(&self, deployment: &Deployment) -> Vec<Vec<Router>> {
        let Self::Between { routers } = self else {
            return Vec::new();
        };
        let measuring = |at: &usize| deployment.measures(routers[*at]);
        let at: Vec<_> = (0..routers.len()).filter(measuring).collect();
        if at.len() < 3 {
            return Vec::new();
        }
        let pairs = at.windows(2);
        pairs
            .map(|pair| routers[pair[0]..=pair[1]].to_vec())
            .collect()
    }
}
