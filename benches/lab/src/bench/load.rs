//! The endless traffic that the two ports receive.

use std::io;
use std::path::{Path, PathBuf};

use crate::bench::capture::{STATIONS, Sizes, Traffic};

/// Packet buffers in addition to those that hold the captures.
const IN_FLIGHT: u32 = 16_383;
/// Least memory of every contender's EAL, in MiB.
const MEMORY_MIN_MIB: u64 = 512;

/// The traffic of both ports of every contender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Its name on the command line.
    pub id: &'static str,
    /// Its name in tables.
    pub label: &'static str,
    /// Flows and packets of each port.
    flows: [u32; 2],
    packets: [u32; 2],
    /// MAC addresses on each side.
    stations: u32,
    sizes: Sizes,
}

/// Number of packets of both captures for loads with many or few flows, so that the source costs the same. There are
/// twice as many packets as flows, so that packets do not come in the order in which flows got their slots.
const MILLIONS: [u32; 2] = [1_000_000; 2];

/// 64-byte frames of 50,000 flows in one direction and 1,000 in the other.
pub const SMALL: Load = load("small", "64 bytes", [50_000, 1_000], [65_536, 16_384]);
/// The same flows in an Internet mix of sizes.
pub const IMIX: Load = SMALL.of_sizes("imix", "IMIX", Sizes::Imix);
/// The same flows in frames of 1,518 bytes.
pub const LARGE: Load = SMALL.of_sizes("large", "1,518 bytes", Sizes::Max);
/// 64-byte frames of 10,000 flows, half of them each way ...
pub const FEW_FLOWS: Load = load("few_flows", "10,000 flows", [5_000; 2], MILLIONS);
/// ... and as many frames of 1,000,000 flows.
pub const MANY_FLOWS: Load = load("many_flows", "1,000,000 flows", [500_000; 2], MILLIONS);
/// The same flows of ten times as many stations.
pub const MANY_STATIONS: Load = Load {
    id: "many_stations",
    label: "1,000,000 flows, 10,000 stations",
    stations: 10 * STATIONS,
    ..MANY_FLOWS
};
/// 64-byte frames for callgrind, under which a switch is hundreds of times slower. The bridge notes ten times a second
/// that a station was seen; with 1,000 stations it would do so for every packet. A small number of flows is soon known.
pub const COUNTED: Load = Load {
    stations: 16,
    ..load(
        "counted",
        "64 bytes, 16 stations",
        [6_000, 1_000],
        [16_384; 2],
    )
};

const fn load(id: &'static str, label: &'static str, flows: [u32; 2], packets: [u32; 2]) -> Load {
    Load {
        id,
        label,
        flows,
        packets,
        stations: STATIONS,
        sizes: Sizes::Min,
    }
}

impl Load {
    const fn of_sizes(self, id: &'static str, label: &'static str, sizes: Sizes) -> Self {
        Self {
            id,
            label,
            sizes,
            ..self
        }
    }

    /// Flows of both directions together.
    pub fn flows(self) -> u32 {
        self.flows.iter().sum()
    }

    /// Packet buffers of every contender: the driver keeps each frame of both captures in a buffer permanently, and
    /// others are in flight.
    pub fn mbufs(self) -> u32 {
        self.packets.iter().sum::<u32>() + IN_FLIGHT
    }

    /// Memory of every contender's EAL in MiB, from hugepages or from ordinary pages.
    pub fn memory_mib(self, hugepages: bool) -> u64 {
        // Rounded up. No buffer crosses a page, and an ordinary one has 4,096 bytes.
        let buffer_bytes = if hugepages { 2_560 } else { 4_096 };
        let needed = (u64::from(self.mbufs()) * buffer_bytes) >> 20;
        needed.next_multiple_of(MEMORY_MIN_MIB)
    }

    /// The captures in `folder`, written if they are not there yet.
    pub fn captures(self, folder: &Path) -> io::Result<[PathBuf; 2]> {
        let files = [0, 1].map(|port| folder.join(format!("{}-{port}.pcap", self.id)));
        for (side, file) in (0..).zip(&files).filter(|(_, file)| !file.exists()) {
            let traffic = Traffic {
                flows: self.flows[usize::from(side)],
                packets: self.packets[usize::from(side)],
                stations: self.stations,
                side,
            };
            traffic.write(file, self.sizes)?;
        }
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_are_written_once() {
        let folder = tempfile::tempdir().unwrap();
        let files = SMALL.captures(folder.path()).unwrap();
        assert!(files.iter().all(|file| file.metadata().unwrap().len() > 0));
        std::fs::write(&files[0], "kept").unwrap();
        SMALL.captures(folder.path()).unwrap();
        assert_eq!(std::fs::read(&files[0]).unwrap(), b"kept");
    }

    #[test]
    fn both_sides_of_cost_growth_read_as_many_frames() {
        let [few, many] = [FEW_FLOWS, MANY_FLOWS];
        assert_eq!((few.flows(), many.flows()), (10_000, 1_000_000));
        assert_eq!(few.mbufs(), many.mbufs());
        assert_eq!(
            (SMALL.memory_mib(true), many.memory_mib(true)),
            (512, 5_120)
        );
        assert_eq!(many.memory_mib(false), 8_192);
    }
}
