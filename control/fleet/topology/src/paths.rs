//! Shortest paths between all routers with all alternatives of equal cost, and the segments that m-routers cut them into.
//!
//! Paths are counted, not listed: their number can grow exponentially with the size of a network. It works because of
//! this: a part of a shortest path is a shortest path itself, and the shortest paths between all routers are in the set
//! from the start. So the segments that remain once a set U of routers is upgraded, the same ones counted once, are
//! exactly the shortest paths with no router of U inside.

use petgraph::algo::dijkstra;
use petgraph::graph::NodeIndex;
use petgraph::visit::EdgeRef;

use crate::topology::{Router, Topology};

/// A network with more paths than can be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the shortest paths have more than 2^64 hops in all: too many links of equal weight")]
pub struct TooManyPaths;

/// Shortest paths from one router, all alternatives: a graph without circles.
#[derive(Debug)]
pub(crate) struct Reach {
    /// Routers that can be reached, the nearest (the source itself) first.
    order: Vec<u32>,
    /// Where the next hops of each router of `order` end in `next`; they begin where those before it end.
    ends: Vec<u32>,
    next: Vec<u32>,
}

/// Shortest paths between all routers.
#[derive(Debug)]
pub struct Paths {
    from: Vec<Reach>,
}

/// The segments between measuring points.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Segments {
    /// How many there are.
    pub count: u64,
    /// Sum of their lengths: the probe hop count.
    pub hops: u64,
    /// Hops of the longest.
    pub greatest_hops: u32,
}

impl Segments {
    /// Localisation granularity: hops of a segment on average, 0 without any.
    pub fn mean_hops(&self) -> f64 {
        self.hops as f64 / self.count.max(1) as f64
    }

    /// Hops of the shortest: the first hop of a shortest path is a segment, too.
    pub fn least_hops(&self) -> u32 {
        u32::from(self.count > 0)
    }
}

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

/// Segments by router: those that end there, continue from there, or pass through.
#[derive(Debug)]
pub struct ByRouter {
    /// How many.
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
    /// Finds the shortest paths.
    ///
    /// # Errors
    /// If there are too many to be counted.
    pub fn new(topology: &Topology) -> Result<Self, TooManyPaths> {
        let from = topology
            .routers()
            .map(|source| Reach::new(topology, source));
        let paths = Self {
            from: from.collect(),
        };
        paths.check().map(|()| paths)
    }

    /// Number of routers.
    pub fn routers(&self) -> usize {
        self.from.len()
    }

    /// That no sum which is made later can overflow: with upgrades there are fewer paths, and those through a router
    /// are part of all.
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

    /// The segments that remain with these routers upgraded (`upgraded` has an entry for each router).
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

    /// The probe hop count alone, in half the time.
    pub fn hops(&self, upgraded: &[bool]) -> u64 {
        let mut ends = ByRouter::none(self.routers());
        let hops = self.from.iter().map(|reach| {
            ends.reset();
            reach.arrive(upgraded, &mut ends);
            ends.hops.iter().sum::<u64>()
        });
        hops.sum()
    }

    /// Segments that pass through each router that is not upgraded, between their ends; 0 for those that are. All of them end
    /// when the router is upgraded, and the probe hop count falls by their hops: what they are split into is in the set already.
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

    /// The shortest paths from one router to another that have no `blocked` router inside (an entry for each router).
    pub fn list(&self, from: Router, to: Router, blocked: &[bool]) -> Listed {
        self.from[from.index()].list(to, blocked)
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

impl Topology {
    /// The shortest paths from one router to another, all alternatives but at most `paths_max` (and [`WAYS_MAX`]), the first
    /// by name first; each begins and ends with these two. None where no path leads there.
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
        // Weights are above 0: every router comes after all that lead to it.
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

    /// The next hops of a router by its place in the order.
    fn next(&self, index: usize) -> &[u32] {
        let begin = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.next[begin as usize..self.ends[index] as usize]
    }

    /// The shortest paths from the source to a router that have no `blocked` router inside.
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

    /// Where each router is in the order, if it is reached.
    fn positions(&self, routers: usize) -> Vec<Option<usize>> {
        let mut positions = vec![None; routers];
        for (index, &router) in self.order.iter().enumerate() {
            positions[router as usize] = Some(index);
        }
        positions
    }

    /// No sum overflows where [`Paths::new`] has counted more.
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

    /// Routers with their next hops, but for those at which segments end; the nearest first.
    fn inner<'a>(
        &'a self,
        upgraded: &'a [bool],
    ) -> impl DoubleEndedIterator<Item = (usize, &'a [u32])> {
        (self.order.iter().enumerate())
            .filter(|&(index, &router)| index == 0 || !upgraded[router as usize])
            .map(|(index, &router)| (router as usize, self.next(index)))
    }

    /// Segments that end at each router; one of no hops at the source.
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

    /// Continuations of segments from each router (`after`), and with what arrives there (`before`) those through it.
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
                // To end there, or to go on.
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
            // A router behind an upgraded one only is not reached from here.
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
            number = number.saturating_add(self.onward.all[next as usize]);
        }
    }
}
