//! A network between two ends, for tests: frames under way arrive in the order of time, whichever fault delayed them.

use std::collections::BTreeMap;

/// Items under way, each to one of two ends.
#[derive(Debug)]
pub struct Network<T> {
    /// By time of arrival, then in the order of sending.
    under_way: BTreeMap<(u64, u64), (usize, T)>,
    sent: u64,
    /// When the last item arrives at each end that overtakes none.
    last_ns: [u64; 2],
}

impl<T> Default for Network<T> {
    fn default() -> Self {
        Self {
            under_way: BTreeMap::new(),
            sent: 0,
            last_ns: [0; 2],
        }
    }
}

impl<T> Network<T> {
    /// Sends an item to an end, where it arrives at `at_ns`.
    pub fn send(&mut self, to: usize, at_ns: u64, item: T) {
        self.sent += 1;
        self.under_way.insert((at_ns, self.sent), (to, item));
    }

    /// When an item arrives at an end that would do so at `at_ns`, but overtakes none before it and follows it by `gap_ns`.
    pub fn in_order(&mut self, to: usize, at_ns: u64, gap_ns: u64) -> u64 {
        let last_ns = &mut self.last_ns[to];
        *last_ns = at_ns.max(*last_ns + gap_ns);
        *last_ns
    }

    /// The next item that arrives, no later than `until_ns`: when, at which end, and what.
    pub fn arrive(&mut self, until_ns: u64) -> Option<(u64, usize, T)> {
        let next = self.under_way.first_entry();
        let next = next.filter(|next| next.key().0 <= until_ns)?;
        let ((at_ns, _), (to, item)) = next.remove_entry();
        Some((at_ns, to, item))
    }

    /// Items under way to an end.
    pub fn number(&self, to: usize) -> usize {
        let ends = self.under_way.values();
        ends.filter(|(end, _)| *end == to).count()
    }

    /// Takes one of the items under way to an end out, by its place among them modulo their number.
    pub fn take(&mut self, to: usize, place: usize) -> Option<T> {
        let place = place.checked_rem(self.number(to))?;
        let mut items = self.under_way.iter().filter(|(_, (end, _))| *end == to);
        let key = *items.nth(place)?.0;
        self.under_way.remove(&key).map(|(_, item)| item)
    }
}
