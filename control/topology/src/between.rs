//! The shortest paths between two routers, one by one.

use crate::paths::Reach;
use crate::topology::{Router, Topology, Weight};

impl Topology {
    /// Routers joined by links of weight 1, in both directions, by their names.
    pub fn of_links<'n>(links: impl IntoIterator<Item = (&'n str, &'n str)>) -> Self {
        Self::of_weighted_links(links.into_iter().map(|(a, b)| (a, b, Weight::ONE)))
    }

    /// Routers joined by links of these weights, the same in both directions.
    pub fn of_weighted_links<'n>(
        links: impl IntoIterator<Item = (&'n str, &'n str, Weight)>,
    ) -> Self {
        let mut names: Vec<String> = Vec::new();
        let mut indices = std::collections::HashMap::new();
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

    /// The shortest paths from one router to another, all alternatives but at most `paths_max`; each begins and ends with these
    /// two. None where no path leads there.
    pub fn between(&self, from: Router, to: Router, paths_max: usize) -> Vec<Vec<Router>> {
        let reach = Reach::new(self, from);
        // From behind: which routers lead to the last one.
        let mut leads = vec![false; self.routers().len()];
        leads[to.index()] = true;
        for (index, &router) in reach.order().iter().enumerate().rev() {
            let next = reach.next(index);
            leads[router as usize] |= next.iter().any(|&next| leads[next as usize]);
        }
        let mut paths = Vec::new();
        let mut open = vec![vec![from]];
        while let Some(path) = open.pop() {
            let Some(&last) = path.last() else { continue };
            if last == to {
                paths.push(path);
                if paths.len() == paths_max {
                    break;
                }
                continue;
            }
            let place = reach
                .order()
                .iter()
                .position(|&router| Router(router) == last);
            let next = place.map_or(&[] as &[u32], |place| reach.next(place));
            let mut next: Vec<u32> = next.to_vec();
            next.retain(|&next| leads[next as usize]);
            // The first by name comes first.
            next.sort_unstable_by(|a, b| b.cmp(a));
            for next in next {
                open.push([&path[..], &[Router(next)]].concat());
            }
        }
        paths
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
