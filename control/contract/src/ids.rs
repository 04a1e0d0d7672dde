//! Distinct types for the numbers of ports, workers and generations.

use std::fmt;

use crate::limits::PORTS_MAX;

/// A port, by its index in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct PortIndex(pub u8);

impl PortIndex {
    /// The port at `index`, below [`PORTS_MAX`] as in every valid configuration.
    ///
    /// # Panics
    /// For a higher index.
    #[expect(clippy::cast_possible_truncation, reason = "asserted")]
    pub const fn new(index: usize) -> Self {
        assert!(index < PORTS_MAX, "no configuration has that many ports");
        Self(index as u8)
    }

    /// The index, for lists with one element for each port.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A worker, by its index in the configuration; in a host program, a queue in the order of discovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct WorkerIndex(pub u16);

impl WorkerIndex {
    /// The worker at `index`, below 65,536; DPDK has fewer ports and queues.
    ///
    /// # Panics
    /// For a higher index.
    #[expect(clippy::cast_possible_truncation, reason = "asserted")]
    pub const fn new(index: usize) -> Self {
        assert!(
            index <= u16::MAX as usize,
            "no switch has that many workers"
        );
        Self(index as u16)
    }

    /// The index, for lists with one element for each worker.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A generation of the configuration: 0 at start, incremented with each change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct GenerationId(pub u32);

impl GenerationId {
    /// The next generation.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for GenerationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
