//! Sets of ports.

use contract::ids::PortIndex;
use std::fmt;

/// A set of ports, a bit each.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct PortSet(pub u64);

impl PortSet {
    /// No port.
    pub const EMPTY: Self = Self(0);

    /// All ports there can be.
    pub const ALL: Self = Self(u64::MAX);

    #[inline]
    fn bit(port: PortIndex) -> u64 {
        1 << (port.0 & 63)
    }

    /// The ports, ascending.
    pub fn ports(self) -> impl Iterator<Item = PortIndex> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let port = u8::try_from(left.trailing_zeros())
                .ok()
                .filter(|_| left != 0)?;
            left &= left - 1;
            Some(PortIndex(port))
        })
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `port` is among them.
    #[inline]
    pub fn contains(self, port: PortIndex) -> bool {
        self.0 & Self::bit(port) != 0
    }

    /// Adds `port`.
    pub fn insert(&mut self, port: PortIndex) {
        self.0 |= Self::bit(port);
    }

    /// All but `port`.
    #[inline]
    #[must_use]
    pub fn without(self, port: PortIndex) -> Self {
        Self(self.0 & !Self::bit(port))
    }

    /// Those that are in `other`, too.
    #[inline]
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl FromIterator<PortIndex> for PortSet {
    fn from_iter<I: IntoIterator<Item = PortIndex>>(ports: I) -> Self {
        let mut set = Self::EMPTY;
        ports.into_iter().for_each(|port| set.insert(port));
        set
    }
}

impl fmt::Debug for PortSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.ports().map(|port| port.0))
            .finish()
    }
}
