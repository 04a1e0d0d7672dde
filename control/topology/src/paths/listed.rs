//! Shortest paths between two routers, one by one.

use super::{Paths, Reach};
use crate::topology::Router;

/// Most ways between two routers that are listed; their number is counted all the same. FRR installs at most 64, too.
pub const WAYS_MAX: usize = 64;

/// One shortest path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Way {
    /// From 1, of all ways of equal cost between its ends in the order of their routers' names: the paper's `D_2` is the
    /// second way to D.
    pub number: u64,
    /// From end to end, both included.
    pub routers: Vec<Router>,
}

impl Way {
    /// Its length.
    pub fn hops(&self) -> usize {
        self.routers.len().saturating_sub(1)
    }
}

/// Shortest paths between two routers, or those of them that were asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    /// All ways of equal cost between the two routers.
    pub alternatives: u64,
    /// Those asked for.
    pub count: u64,
    /// These, by their numbers; the first [`WAYS_MAX`].
    pub ways: Vec<Way>,
}

/// Numbers of ways from each router to one target, by router.
struct Onward {
    /// All shortest paths of the source that end there.
    all: Vec<u64>,
    /// Without a blocked router from here on; the target may be blocked.
    free: Vec<u64>,
}

impl Paths {
    /// The shortest paths from one router to another that have no `blocked` router inside (an entry for each router).
    pub fn list(&self, from: Router, to: Router, blocked: &[bool]) -> Listed {
        let reach = &self.from[from.index()];
        let position = reach.positions(self.routers());
        let onward = reach.onward(to, &position, blocked);
        let mut listed = Listed {
            alternatives: onward.all[from.index()],
            count: onward.free[from.index()],
            ways: Vec::new(),
        };
        let list = List {
            reach,
            position: &position,
            onward: &onward,
            to,
        };
        if listed.count > 0 {
            list.extend(&mut vec![from], 1, &mut listed.ways);
        }
        listed
    }

    /// Whether every way between the two without a `blocked` router inside is a shortest path back, too.
    pub(crate) fn lead_back(&self, from: Router, to: Router, blocked: &[bool]) -> bool {
        let (there, back) = (&self.from[from.index()], &self.from[to.index()]);
        let position = there.positions(self.routers());
        let back_position = back.positions(self.routers());
        let onward = there.onward(to, &position, blocked);
        let mut arrived = vec![false; self.routers()];
        arrived[from.index()] = true;
        for (index, &router) in there.order.iter().enumerate() {
            let ends_here = router != from.0 && blocked[router as usize];
            if !arrived[router as usize] || ends_here || router == to.0 {
                continue;
            }
            let next = there.next(index).iter();
            for &next in next.filter(|&&next| onward.free[next as usize] > 0) {
                let at = back_position[next as usize];
                if at.is_none_or(|at| !back.next(at).contains(&router)) {
                    return false;
                }
                arrived[next as usize] = true;
            }
        }
        true
    }
}

impl Reach {
    /// Where each router is in the order, if it is reached.
    fn positions(&self, routers: usize) -> Vec<Option<usize>> {
        let mut positions = vec![None; routers];
        for (index, &router) in self.order.iter().enumerate() {
            positions[router as usize] = Some(index);
        }
        positions
    }

    /// No sum overflows: [`Paths::new`] has counted more.
    fn onward(&self, to: Router, position: &[Option<usize>], blocked: &[bool]) -> Onward {
        let mut onward = Onward {
            all: vec![0; position.len()],
            free: vec![0; position.len()],
        };
        let Some(end) = position[to.index()] else {
            return onward;
        };
        (onward.all[to.index()], onward.free[to.index()]) = (1, 1);
        for index in (0..end).rev() {
            let router = self.order[index] as usize;
            let is_inside = index > 0;
            for &next in self.next(index) {
                onward.all[router] += onward.all[next as usize];
                if !(is_inside && blocked[router]) {
                    onward.free[router] += onward.free[next as usize];
                }
            }
        }
        onward
    }
}

/// A list while it is made.
struct List<'a> {
    reach: &'a Reach,
    position: &'a [Option<usize>],
    onward: &'a Onward,
    to: Router,
}

impl List<'_> {
    /// Adds the ways that begin as `way`; `number` is that of the first of all that do. It only goes where a free way
    /// leads, so that it takes no more steps than it lists routers. Not deeper than a shortest path is long.
    fn extend(&self, way: &mut Vec<Router>, mut number: u64, ways: &mut Vec<Way>) {
        let Some(&last) = way.last() else { return };
        if last == self.to {
            ways.push(Way {
                number,
                routers: way.clone(),
            });
            return;
        }
        let next = self.position[last.index()].map_or(&[] as &[u32], |at| self.reach.next(at));
        let mut next = next.to_vec();
        next.sort_unstable();
        for next in next {
            if ways.len() == WAYS_MAX {
                return;
            }
            if self.onward.free[next as usize] > 0 {
                way.push(Router(next));
                self.extend(way, number, ways);
                way.pop();
            }
            number += self.onward.all[next as usize];
        }
    }
}
