//! Shortest paths between all routers, including all equal-cost alternatives, and the segments into which m-routers
//! cut them.
//!
//! Paths are counted, not listed, since their number can grow exponentially with the size of a network. Counting
//! suffices: a part of a shortest path is itself a shortest path, and the shortest paths between all routers are in
//! the set from the start. So once a set U of routers is upgraded, the remaining segments, each counted once, are
//! exactly the shortest paths with no router of U inside.

use petgraph::algo::dijkstra;
use petgraph::graph::NodeIndex;
use petgraph::visit::EdgeRef;

use crate::topology::{Router, Topology};

/// The network has more paths than can be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the shortest paths have more than 2^64 hops in all: too many links of equal weight")]
pub struct TooManyPaths;

/// All shortest paths from one router: an acyclic graph.
#[derive(Debug)]
pub(crate) struct Reach {
    /// The reachable routers, the nearest (the source itself) first.
    order: Vec<u32>,
    /// For each router of `order`, where its next hops end in `next`; they begin where those of its
    /// predecessor end.
    ends: Vec<u32>,
    next: Vec<u32>,
}

/// Shortest paths between all routers.
#[derive(Debug)]
pub struct Paths {
    from: Vec<Reach>,
}

/// The segments between measurement points.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Segments {
    /// Their number.
    pub count: u64,
    /// Sum of their lengths: the probe hop count.
    pub hops: u64,
    /// Length of the longest.
    pub greatest_hops: u32,
}

impl Segments {
    /// Localisation granularity: mean hops of a segment; 0 without segments.
    pub fn mean_hops(&self) -> f64 {
        self.hops as f64 / self.count.max(1) as f64
    }

    /// Length of the shortest: the first hop of a shortest path is also a segment.
    pub fn least_hops(&self) -> u32 {
        u32::from(self.count > 0)
    }
}

/// Limit of paths listed between two routers; all are counted. FRR also installs at most 64.
pub const WAYS_MAX: usize = 64;

/// One shortest path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Way {
    /// Counts all equal-cost paths between its ends from 1, in the order of their routers' names: the paper's `D_2`
    /// is the second path to D.
    pub number: u64,
    /// From end to end, including both ends.
    pub routers: Vec<Router>,
}

impl Way {
    /// Its length.
    pub fn hops(&self) -> usize {
        self.routers.len().saturating_sub(1)
    }
}

/// The shortest paths between two routers, or a selection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    /// Number of all equal-cost paths between the two routers.
    pub alternatives: u64,
    /// Number of selected ones.
    pub count: u64,
    /// The selected ones with their numbers; only the first [`WAYS_MAX`].
    pub ways: Vec<Way>,
}

/// Numbers of paths from each router to one target, by router.
struct Onward {
    /// All shortest paths of the source that end at the target.
    all: Vec<u64>,
    /// Those without a blocked router from here on; the target may be blocked.
    free: Vec<u64>,
}

/// Segments by router: that end at it, continue from it, or pass through it.
#[derive(Debug)]
pub struct ByRouter {
    /// Their number.
    pub count: Vec<u64>,
    /// Their hops.
    pub hops: Vec<u64>,
}

impl ByRouter {
    fn none(routers: usize) -> Self {
        Self {
            count: vec![0; routers],
            hops: vec![0; routers],
        }
    }

    fn reset(&mut self) {
        self.count.fill(0);
        self.hops.fill(0);
    }
}

impl Paths {
    /// Computes the shortest paths.
    ///
    /// # Errors
    /// There are too many to count.
    pub fn new(topology: &Topology) -> Result<Self, TooManyPaths> {
        let from = topology
            .routers()
            .map(|source| Reach::new(topology, source));
        let paths = Self {
            from: from.collect(),
        };
        paths.check().map(|()| paths)
    }

    /// The number of routers.
    pub fn routers(&self) -> usize {
        self.from.len()
    }

    /// Checks that no later sum can overflow: upgrades reduce the number of paths, and those through a router are
    /// part of all.
    fn check(&self) -> Result<(), TooManyPaths> {
        let mut total: u64 = 0;
        for reach in &self.from {
            let mut count = vec![0_u64; self.routers()];
            let mut hops = vec![0_u64; self.routers()];
            count[reach.order[0] as usize] = 1;
            for (index, &router) in reach.order.iter().enumerate() {
                let (paths, so_far) = (count[router as usize], hops[router as usize]);
                total = total.checked_add(so_far).ok_or(TooManyPaths)?;
                for &next in reach.next(index) {
                    let (count, hops) = (&mut count[next as usize], &mut hops[next as usize]);
                    *count = count.checked_add(paths).ok_or(TooManyPaths)?;
                    let more = so_far.checked_add(paths).ok_or(TooManyPaths)?;
                    *hops = hops.checked_add(more).ok_or(TooManyPaths)?;
                }
            }
        }
        Ok(())
    }

    /// The segments that remain if these routers are upgraded (`upgraded` has an entry for each router).
    pub fn segments(&self, upgraded: &[bool]) -> Segments {
        let mut segments = Segments::default();
        let mut ends = ByRouter::none(self.routers());
        let mut greatest = Vec::new();
        for reach in &self.from {
            ends.reset();
            reach.arrive(upgraded, &mut ends);
            segments.count += ends.count.iter().sum::<u64>() - 1;
            segments.hops += ends.hops.iter().sum::<u64>();
            let longest = reach.longest(upgraded, &mut greatest);
            segments.greatest_hops = segments.greatest_hops.max(longest);
        }
        segments
    }

    /// Only the probe hop count, in half the time.
    pub fn hops(&self, upgraded: &[bool]) -> u64 {
        let mut ends = ByRouter::none(self.routers());
        let hops = self.from.iter().map(|reach| {
            ends.reset();
            reach.arrive(upgraded, &mut ends);
            ends.hops.iter().sum::<u64>()
        });
        hops.sum()
    }

    /// For each router that is not upgraded, the segments that pass through it; 0 for upgraded ones. Upgrading the
    /// router ends all of them, and reduces the probe hop count by their hops: the set already has the parts into
    /// which they are split.
    pub fn through(&self, upgraded: &[bool]) -> ByRouter {
        let [mut through, mut before, mut after] = [(); 3].map(|()| ByRouter::none(self.routers()));
        for reach in &self.from {
            before.reset();
            after.reset();
            reach.arrive(upgraded, &mut before);
            reach.depart(upgraded, &before, &mut after, &mut through);
        }
        through
    }

    /// The shortest paths between two routers with no `blocked` router inside (an entry for each router).
    pub fn list(&self, from: Router, to: Router, blocked: &[bool]) -> Listed {
        self.from[from.index()].list(to, blocked)
    }

    /// Whether every path between the two without a `blocked` router inside is also a shortest path back.
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

impl Topology {
    /// The shortest paths from one router to another, at most `paths_max` (and [`WAYS_MAX`]), in the order of names.
    /// Each begins and ends with these two. Empty if no path leads there.
    pub fn between(&self, from: Router, to: Router, paths_max: usize) -> Vec<Vec<Router>> {
        let none = vec![false; self.routers().len()];
        let ways = Reach::new(self, from).list(to, &none).ways.into_iter();
        ways.take(paths_max).map(|way| way.routers).collect()
    }
}

impl Reach {
    pub(crate) fn new(topology: &Topology, source: Router) -> Self {
        let graph = topology.graph();
        let distances = dijkstra(graph, NodeIndex::new(source.index()), None, |link| {
            link.weight().millionths()
        });
        let mut order: Vec<_> = distances
            .iter()
            .map(|(&node, &distance)| (distance, node))
            .collect();
        // Weights are positive: every router comes after all that lead to it.
        order.sort_unstable();
        let mut reach = Self {
            order: Vec::with_capacity(order.len()),
            ends: Vec::with_capacity(order.len()),
            next: Vec::new(),
        };
        let index = |node: NodeIndex| u32::try_from(node.index()).unwrap_or(u32::MAX);
        for (distance, node) in order {
            let next = graph.edges(node).filter(|link| {
                let through_here = distance + link.weight().millionths();
                distances.get(&link.target()) == Some(&through_here)
            });
            reach.next.extend(next.map(|link| index(link.target())));
            reach.order.push(index(node));
            reach
                .ends
                .push(u32::try_from(reach.next.len()).unwrap_or(u32::MAX));
        }
        reach
    }

    /// The next hops of a router, by its index in the order.
    fn next(&self, index: usize) -> &[u32] {
        let begin = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.next[begin as usize..self.ends[index] as usize]
    }

    /// The shortest paths from the source to a router with no `blocked` router inside.
    pub(crate) fn list(&self, to: Router, blocked: &[bool]) -> Listed {
        let position = self.positions(blocked.len());
        let onward = self.onward(to, &position, blocked);
        let from = Router(self.order[0]);
        let mut listed = Listed {
            alternatives: onward.all[from.index()],
            count: onward.free[from.index()],
            ways: Vec::new(),
        };
        let list = List {
            reach: self,
            position: &position,
            onward: &onward,
            to,
        };
        if listed.count > 0 {
            list.extend(&mut vec![from], 1, &mut listed.ways);
        }
        listed
    }

    /// The index of each router in the order, if it is reachable.
    fn positions(&self, routers: usize) -> Vec<Option<usize>> {
        let mut positions = vec![None; routers];
        for (index, &router) in self.order.iter().enumerate() {
            positions[router as usize] = Some(index);
        }
        positions
    }

    /// No sum overflows, since [`Paths::new`] has counted more.
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
                onward.all[router] = onward.all[router].saturating_add(onward.all[next as usize]);
                if !(is_inside && blocked[router]) {
                    onward.free[router] =
                        onward.free[router].saturating_add(onward.free[next as usize]);
                }
            }
        }
        onward
    }

    /// Routers with their next hops, except those at which segments end; the nearest first.
    fn inner<'a>(
        &'a self,
        upgraded: &'a [bool],
    ) -> impl DoubleEndedIterator<Item = (usize, &'a [u32])> {
        (self.order.iter().enumerate())
            .filter(|&(index, &router)| index == 0 || !upgraded[router as usize])
            .map(|(index, &router)| (router as usize, self.next(index)))
    }

    /// Segments that end at each router; at the source, one of no hops.
    fn arrive(&self, upgraded: &[bool], ends: &mut ByRouter) {
        ends.count[self.order[0] as usize] = 1;
        for (router, next) in self.inner(upgraded) {
            let (count, hops) = (ends.count[router], ends.hops[router]);
            for &next in next {
                ends.count[next as usize] += count;
                ends.hops[next as usize] += hops + count;
            }
        }
    }

    /// Continuations of segments from each router (`after`); combined with those that arrive there (`before`), the
    /// segments through it.
    fn depart(
        &self,
        upgraded: &[bool],
        before: &ByRouter,
        after: &mut ByRouter,
        through: &mut ByRouter,
    ) {
        let source = self.order[0] as usize;
        for (router, next) in self.inner(upgraded).rev().filter(|&(at, _)| at != source) {
            let (mut count, mut hops) = (0, 0);
            for &next in next {
                // A segment may end there or continue.
                let onward = 1 + after.count[next as usize];
                count += onward;
                hops += onward + after.hops[next as usize];
            }
            (after.count[router], after.hops[router]) = (count, hops);
            through.count[router] += before.count[router] * count;
            through.hops[router] += before.hops[router] * count + before.count[router] * hops;
        }
    }

    /// Hops of the longest segment from here.
    fn longest(&self, upgraded: &[bool], hops: &mut Vec<u32>) -> u32 {
        hops.clear();
        hops.resize(upgraded.len(), 0);
        let mut longest = 0;
        for (router, next) in self.inner(upgraded) {
            // A router that lies only behind upgraded ones is not reached from here.
            if router != self.order[0] as usize && hops[router] == 0 {
                continue;
            }
            for &next in next {
                let here = hops[router] + 1;
                hops[next as usize] = hops[next as usize].max(here);
                longest = longest.max(here);
            }
        }
        longest
    }
}

/// A list under construction.
struct List<'a> {
    reach: &'a Reach,
    position: &'a [Option<usize>],
    onward: &'a Onward,
    to: Router,
}

impl List<'_> {
    /// Adds the paths that begin with `way`; `number` is that of the first of them. Follows only hops from which a
    /// free path leads on, so that it takes no more steps than it lists routers. The depth is limited by the length
    /// of a shortest path.
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
            number = number.saturating_add(self.onward.all[next as usize]);
        }
    }
}
