//! What the two ports receive, without end.

use std::io;
use std::path::{Path, PathBuf};

use crate::bench::setting::Memory;
use lab::capture::{FEW_FLOWS, MANY_FLOWS, STATIONS, Sizes, Traffic};

/// Packet buffers beside those that hold the captures.
const IN_FLIGHT: u32 = 16_383;
/// Least memory of every contender's EAL, in MiB.
const MEMORY_MIN_MIB: u64 = 512;

/// What both ports of every contender receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// 64-byte frames of 50,000 flows one way, of 1,000 the other.
    Small,
    /// The same flows in an Internet mix of sizes.
    Imix,
    /// The same flows in frames of 1,518 bytes.
    Large,
    /// 64-byte frames of 10,000 flows, half of them each way ...
    FewFlows,
    /// ... and as many frames of 1,000,000 flows: the source costs the same.
    ManyFlows,
    /// The same flows of ten times as many stations.
    ManyStations,
    /// 64-byte frames for callgrind, under which a switch is hundreds of times slower: the bridge, which writes down
    /// ten times a second that a station was seen, would do it for every packet of 1,000 stations. Few flows are
    /// all known soon.
    Counted,
}

impl Load {
    /// Its name in JSON and on the command line.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Imix => "imix",
            Self::Large => "large",
            Self::FewFlows => "few_flows",
            Self::ManyFlows => "many_flows",
            Self::ManyStations => "many_stations",
            Self::Counted => "counted",
        }
    }

    /// Its name in tables.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Small => "64 bytes",
            Self::Imix => "IMIX",
            Self::Large => "1,518 bytes",
            Self::FewFlows => "10,000 flows",
            Self::ManyFlows => "1,000,000 flows",
            Self::ManyStations => "1,000,000 flows, 10,000 stations",
            Self::Counted => "64 bytes, 16 stations",
        }
    }

    /// What each port receives.
    pub fn traffic(self) -> [Traffic; 2] {
        // Twice as many as flows, so that packets do not come in the order in which flows got their slots.
        let halves = |flows, stations| {
            [0, 1].map(|side| Traffic {
                flows,
                packets: 1_000_000,
                stations,
                side,
            })
        };
        match self {
            Self::Small | Self::Imix | Self::Large => [MANY_FLOWS, FEW_FLOWS],
            Self::FewFlows => halves(5_000, STATIONS),
            Self::ManyFlows => halves(500_000, STATIONS),
            Self::ManyStations => halves(500_000, 10 * STATIONS),
            Self::Counted => [(6_000, 0), (1_000, 1)].map(|(flows, side)| Traffic {
                flows,
                packets: 16_384,
                stations: 16,
                side,
            }),
        }
    }

    /// Flows of both ways together.
    pub fn flows(self) -> u32 {
        self.traffic().iter().map(|traffic| traffic.flows).sum()
    }

    const fn sizes(self) -> Sizes {
        match self {
            Self::Imix => Sizes::Imix,
            Self::Large => Sizes::Max,
            _ => Sizes::Min,
        }
    }

    /// Packet buffers that every contender has: the driver keeps each frame of both captures in
    /// one for good, and others are in flight.
    pub fn mbufs(self) -> u32 {
        let kept: u32 = self.traffic().iter().map(|traffic| traffic.packets).sum();
        kept + IN_FLIGHT
    }

    /// Memory of every contender's EAL in MiB.
    pub fn memory_mib(self, memory: Memory) -> u64 {
        // Rounded up. No buffer crosses a page, and an ordinary one has 4,096 bytes.
        let buffer_bytes = match memory {
            Memory::Hugepages => 2_560,
            Memory::OrdinaryPages => 4_096,
        };
        let needed = (u64::from(self.mbufs()) * buffer_bytes) >> 20;
        needed.next_multiple_of(MEMORY_MIN_MIB)
    }

    /// The captures in `folder`, written if they are not there yet.
    pub fn captures(self, folder: &Path) -> io::Result<[PathBuf; 2]> {
        let files = [0, 1].map(|port| folder.join(format!("{}-{port}.pcap", self.id())));
        for (traffic, file) in self.traffic().iter().zip(&files) {
            if !file.exists() {
                traffic.write(file, self.sizes())?;
            }
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
        let files = Load::Small.captures(folder.path()).unwrap();
        assert!(files.iter().all(|file| file.metadata().unwrap().len() > 0));
        std::fs::write(&files[0], "kept").unwrap();
        Load::Small.captures(folder.path()).unwrap();
        assert_eq!(std::fs::read(&files[0]).unwrap(), b"kept");
    }

    #[test]
    fn both_sides_of_cost_growth_read_as_many_frames() {
        let [few, many] = [Load::FewFlows, Load::ManyFlows];
        assert_eq!((few.flows(), many.flows()), (10_000, 1_000_000));
        assert_eq!(few.mbufs(), many.mbufs());
        let memory_mib = |load: Load| load.memory_mib(Memory::Hugepages);
        assert_eq!((memory_mib(Load::Small), memory_mib(many)), (512, 5_120));
        assert_eq!(many.memory_mib(Memory::OrdinaryPages), 8_192);
    }
}
