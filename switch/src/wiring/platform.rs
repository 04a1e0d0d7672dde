//! What differs between a switch on DPDK and one in memory.

use anyhow::Result;
use contract::config::Config;
use measure::time::Ticks;

use super::plans::Site;
use crate::packet_io::PacketIo;
use crate::source::Source;

/// What a switch runs on: DPDK, or the memory of a simulation.
pub trait Platform: Clone {
    /// Its packets.
    type Io: PacketIo<Packet: Send>;

    /// A started port, which closes when it is dropped.
    type Port;

    /// Where the workers are.
    fn site(&self) -> Site<'_>;

    /// The counter, now.
    fn now(&self) -> Ticks;

    /// Starts the new port at `place`, and settles what the configuration leaves to its device.
    ///
    /// # Errors
    /// Why it cannot be used, with its name.
    fn start(&self, config: &mut Config, place: usize) -> Result<Self::Port>;

    /// What each worker gets of a started port.
    ///
    /// # Errors
    /// When a queue is missing or taken, which no configuration that was settled leads to.
    fn handles(
        &self,
        config: &Config,
        place: usize,
        port: &Self::Port,
        source: Option<Source>,
    ) -> Result<Vec<<Self::Io as PacketIo>::Handles>>;
}
