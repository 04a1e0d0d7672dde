//! One worker's view of other devices around which packets are measured: a packet that leaves for a device
//! is noted, and found again when it comes back.
//!
//! ```text
//!  transmit ── entered: noted by its hash ──> device ──> receive: found, a packet of the segment
//!                                               \-- swept after a timeout: lost
//! ```

use std::sync::{Arc, Mutex, PoisonError, Weak};

use contract::config::{Around, Config};
use contract::ids::{PortIndex, WorkerIndex};
use measure::digest::{DigestTable, Entered, Sweep};
use measure::observation::SegmentIndex;
use measure::time::{TickRate, Ticks};

use super::{SegmentMap, Segments};
use crate::decide::PortSet;
use crate::packet_io::NO_SEGMENT;

/// The packets inside each device, for all workers and all generations, so that neither an accepted nor a
/// rejected change of the configuration loses packets.
#[derive(Debug, Default)]
pub struct Devices(Mutex<Vec<(Around, Weak<DigestTable>)>>);

impl Devices {
    /// The devices of a configuration as seen by each worker; `None` if there are none. The packets inside a
    /// device that is the same in both configurations are kept.
    pub fn of(&self, config: &Config, rate: TickRate) -> Vec<Option<Box<Arounds>>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tables = Vec::new();
        let is_on = |_: &&Around| config.measurement.enabled;
        for around in config.measurement.around.iter().filter(is_on) {
            let mut same = known.iter().filter(|(old, _)| old == around);
            let in_use = same.find_map(|(_, table)| table.upgrade());
            let table = in_use.unwrap_or_else(|| {
                let table = Arc::new(table(around, rate));
                known.push((around.clone(), Arc::downgrade(&table)));
                table
            });
            tables.push((around.clone(), table));
        }
        known.retain(|(_, table)| table.strong_count() > 0);
        let workers = (0..config.workers.len()).map(WorkerIndex::new);
        let arounds = workers.map(|worker| {
            (!tables.is_empty()).then(|| Box::new(Arounds::new(config, worker, &tables)))
        });
        arounds.collect()
    }
}

fn table(around: &Around, rate: TickRate) -> DigestTable {
    let timeout = std::time::Duration::from_millis(around.timeout_ms.into());
    DigestTable::new(around.packets, rate.ticks_in(timeout))
}

/// One worker's view of the devices.
#[derive(Debug)]
pub struct Arounds {
    /// Ports that lead to a device.
    at: PortSet,
    devices: Vec<Device>,
}

/// A device.
#[derive(Debug)]
pub struct Device {
    /// The packets inside.
    pub table: Arc<DigestTable>,
    /// The ports of the switch that lead to it, by the device's port index.
    ports: Vec<PortIndex>,
    /// From each of its ports to each other.
    paths: Vec<Path>,
    /// At one worker only.
    sweep: Option<Sweep>,
}

/// The path from one port of a device to another.
#[derive(Debug)]
struct Path {
    segments: Segments,
    /// When the latest packet entered that has come back to this worker. Workers keep this separately, because they
    /// see their receive queues in no common order, so that they cannot tell which packet came back first.
    latest: Ticks,
}

impl Arounds {
    fn new(config: &Config, worker: WorkerIndex, tables: &[(Around, Arc<DigestTable>)]) -> Self {
        let segments = SegmentMap::around(config);
        let assignment = config.assignment();
        let device = |(around, table): &(Around, Arc<DigestTable>)| {
            let ports = around
                .ports
                .iter()
                .filter_map(|name| config.port_index(name));
            let ports: Vec<PortIndex> = ports.map(PortIndex::new).collect();
            // The first worker that receives from it.
            let serves = |queues: &Vec<(usize, u16)>| {
                queues
                    .iter()
                    .any(|&(port, _)| ports.contains(&PortIndex::new(port)))
            };
            let sweeper = assignment.iter().position(serves).unwrap_or(0);
            let pairs = ports
                .iter()
                .flat_map(|&from| ports.iter().map(move |&to| (from, to)));
            let path = |(from, to)| Path {
                segments: segments.between(from, to),
                latest: Ticks(0),
            };
            Device {
                table: Arc::clone(table),
                paths: pairs.map(path).collect(),
                sweep: (sweeper == worker.index()).then(|| Sweep::new(Ticks(0))),
                ports,
            }
        };
        let devices: Vec<Device> = tables.iter().map(device).collect();
        let mut at = PortSet::EMPTY;
        devices
            .iter()
            .flat_map(|device| &device.ports)
            .for_each(|&port| at.insert(port));
        Self { at, devices }
    }

    /// Whether a port leads to a device.
    #[inline]
    pub fn is_at(&self, port: PortIndex) -> bool {
        self.at.contains(port)
    }

    /// The device that a port leads to, and the port's index at the device.
    #[inline]
    pub fn at(&mut self, port: PortIndex) -> Option<(&mut Device, u8)> {
        self.devices.iter_mut().find_map(|device| {
            let place = device.ports.iter().position(|&of| of == port)?;
            Some((device, u8::try_from(place).ok()?))
        })
    }

    /// Searches for packets that did not come back: `lost` is called with the port of the switch by which one
    /// entered, and its segment if the device has two ports. Called once in each pass.
    #[inline]
    pub fn sweep(&mut self, now: Ticks, lost: &mut impl FnMut(PortIndex, Option<SegmentIndex>)) {
        for device in &mut self.devices {
            let Some(mut sweep) = device.sweep.take() else {
                continue;
            };
            sweep.tick(&device.table, now, &mut |entered| {
                if let Some(from) = device.port(entered.port) {
                    let other = (device.ports.len() == 2).then_some(1 - (entered.port & 1));
                    lost(from, other.map(|to| device.segment(&entered, to)));
                }
            });
            device.sweep = Some(sweep);
        }
    }
}

impl Device {
    /// The port of the switch that leads to one of its ports.
    #[inline]
    pub fn port(&self, place: u8) -> Option<PortIndex> {
        self.ports.get(usize::from(place)).copied()
    }

    /// The segment of a packet that comes back by the device's port `back`.
    #[inline]
    pub fn segment(&self, entered: &Entered, back: u8) -> SegmentIndex {
        let path = self.paths.get(self.path(entered, back));
        path.map_or(NO_SEGMENT, |path| {
            path.segments[usize::from(entered.class & 7)]
        })
    }

    #[inline]
    fn path(&self, entered: &Entered, back: u8) -> usize {
        usize::from(entered.port) * self.ports.len() + usize::from(back)
    }

    /// Whether a packet comes back after one that entered later by the same port and came back to the same worker
    /// (RFC 4737, section 3).
    #[inline]
    pub fn is_reordered(&mut self, entered: &Entered, back: u8) -> bool {
        let path = self.path(entered, back);
        let Some(Path { latest, .. }) = self.paths.get_mut(path) else {
            return false;
        };
        let is_reordered = entered.at < *latest;
        *latest = entered.at.max(*latest);
        is_reordered
    }
}

#[cfg(test)]
mod tests {
    use contract::counters::AroundReading;

    use super::*;

    #[test]
    fn order_is_compared_within_a_worker_and_the_metric_says_so() {
        let config = Config::parse(
            r#"{
                "ports": [
                    { "name": "a", "device": "net_null0", "rx_queues": 2 },
                    { "name": "b", "device": "net_null1", "rx_queues": 2 }
                ],
                "workers": [{}, {}],
                "forwarding": { "mode": "patch", "pairs": [["a", "b"]] },
                "measurement": { "around": [{ "name": "fw", "ports": ["a", "b"], "packets": 4096 }] }
            }"#,
            "test.json",
        )
        .unwrap();
        let mut workers = Devices::default().of(&config, TickRate::from_hz(1_000_000_000));
        let mut is_reordered = |worker: usize, at: u64| {
            let entered = Entered {
                at: Ticks(at),
                port: 0,
                class: 0,
            };
            let around = workers[worker].as_mut().unwrap();
            around.devices[0].is_reordered(&entered, 1)
        };
        assert!(!is_reordered(0, 20));
        assert!(!is_reordered(1, 10), "received by another worker");
        assert!(is_reordered(0, 10));
        assert!(!is_reordered(1, 11));
        let mut metrics = AroundReading::metrics();
        let reordered = metrics
            .find(|metric| metric.declaration.name == "vernier_around_reordered_packets_total");
        let help = reordered.unwrap().declaration.help;
        assert!(help.contains("same worker"), "{help}");
    }

    #[test]
    fn a_change_that_is_refused_leaves_what_is_inside() {
        let around = |timeout_ms: u32| {
            let text = format!(
                r#"{{
                    "ports": [{{"name": "a", "device": "net_null0"}}, {{"name": "b", "device": "net_null1"}}],
                    "forwarding": {{"mode": "patch", "pairs": [["a", "b"]]}},
                    "measurement": {{"around": [
                        {{"name": "fw", "ports": ["a", "b"], "timeout_ms": {timeout_ms}, "packets": 4096}}
                    ]}}
                }}"#
            );
            Config::parse(&text, "test.json").unwrap()
        };
        let devices = Devices::default();
        let make = |config: &Config| devices.of(config, TickRate::from_hz(1_000_000_000));
        let table = |arounds: &[Option<Box<Arounds>>]| {
            let around = arounds[0].as_ref().unwrap();
            Arc::as_ptr(&around.devices[0].table)
        };
        let at_work = make(&around(100));
        let refused = make(&around(200));
        assert_ne!(table(&refused), table(&at_work));
        drop(refused);
        assert_eq!(table(&make(&around(100))), table(&at_work));
        drop(at_work);
        let mut off = around(100);
        off.measurement.enabled = false;
        assert!(make(&off)[0].is_none());
        assert_eq!(devices.0.lock().unwrap().len(), 0);
    }
}
