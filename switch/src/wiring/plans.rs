//! What each worker is made of. All of it is made on the worker's NUMA node, from the configuration
//! alone: at the start, and again for every generation.

use std::sync::Arc;

use anyhow::{Context, Result};
use contract::config::{self, Config, Device};
use contract::fdb::ReplicaEnd;
use contract::handover::{ControlEnd, handover};
use contract::ids::{GenerationId, PortIndex, WorkerIndex};
use contract::wire::clock::SharedLine;
use dpdk_bindings::{Eal, Port};
use measure::packet::Hashing;
use measure::shard::ShardLayout;
use measure::time::{EpochSchedule, TickRate};

use super::cpus::Cpu;
use super::devices::Pools;
use crate::decide::Decide;
use crate::flows::Flows;
use crate::meter::{Arounds, Devices, Plan, SegmentMap};
use crate::packet_io::PortHandles;
use crate::packet_io::dpdk::{Handles, Inlet};
use crate::references::{References, ReferencesLayout};
use crate::source::Source;
use crate::wire::Recording;

/// Where the workers are, and what does not change while they run.
#[derive(Debug, Clone, Copy)]
pub struct Site<'s> {
    /// The workers' CPUs.
    pub cpus: &'s [usize],
    /// The CPUs there are.
    pub usable: &'s [Cpu],
    /// Rate of the counter.
    pub rate: TickRate,
    /// When epochs begin.
    pub schedule: EpochSchedule,
    /// TAI, as the control core has it.
    pub line: &'s Arc<SharedLine>,
    /// Devices of others that packets are measured around.
    pub devices: &'s Devices,
    /// Where every packet of every wire is taken down, for tests.
    pub recording: Option<&'s Recording>,
    /// For all that is random but the packet hash.
    pub seed: u64,
}

/// A site whose packets are DPDK's.
#[derive(Debug, Clone, Copy)]
pub struct DpdkSite<'s> {
    /// The site.
    pub site: Site<'s>,
    /// DPDK.
    pub eal: &'s Eal,
    /// Packet buffers.
    pub pools: &'s Pools<'s>,
}

impl Site<'_> {
    /// A worker's replica of the forwarding, joined to its master by `end`; without one, that of a later
    /// generation, which takes over from its predecessor.
    pub fn replica(&self, config: &Config, end: Option<ReplicaEnd>) -> Box<Decide> {
        Box::new(Decide::from_config(config, self.rate, self.seed, end))
    }
}

/// How a worker measures in a generation, and the other end of its shards.
///
/// # Errors
/// Sizes that make no synopsis, flows or references that cannot be.
pub fn plan(
    config: &Config,
    worker: WorkerIndex,
    generation: GenerationId,
    layout: &ShardLayout,
    arounds: Option<Box<Arounds>>,
) -> Result<(Plan, ControlEnd)> {
    let (worker_end, control_end) = handover(layout);
    let flows = config.measurement.flows.as_ref();
    let flows = flows.map(|flows| Flows::new(flows.slots as usize, flows.select.clone()));
    let references = ReferencesLayout::from_config(config, worker, layout.rate, generation);
    let references = references.map(|layout| References::new(&layout));
    let references = references.transpose().context("measurement.rli")?;
    let plan = Plan {
        handover: worker_end,
        segments: SegmentMap::inside(config),
        hashing: if config.wires().next().is_some() || arounds.is_some() {
            Hashing::Packet
        } else {
            layout.hashing()
        },
        flows,
        stamps_packets: config.measurement.stamps == config::Stamps::Packet,
        arounds,
        references: references.map(Box::new),
    };
    Ok((plan, control_end))
}

/// What each worker has of a started port: the queues that it is assigned, or the source, and a way
/// out of its own where it needs one.
///
/// # Errors
/// When a queue is missing or taken, which no configuration that was settled leads to.
pub fn handles<'pool>(
    config: &Config,
    index: usize,
    port: &Port<'pool>,
    mut source: Option<Source>,
) -> Result<Vec<Handles<'pool>>> {
    let name = &config.ports[index].name;
    let owner = config.owner(index);
    let mut workers = Vec::new();
    for (worker, queues) in config.assignment().into_iter().enumerate() {
        let mut handles = Handles::room(PortIndex::new(index), queues.len());
        for (_, queue) in queues.into_iter().filter(|(of, _)| *of == index) {
            let rx = port.rx_queue(queue);
            let rx = rx.with_context(|| format!("port {name}: no receive queue {queue}"))?;
            handles.inlets.push(match source.take() {
                Some(source) => Inlet::from(source),
                None => Inlet::Queue(rx),
            });
        }
        if owner.is_none_or(|owner| owner == worker) {
            let queue = if owner.is_some() {
                0
            } else {
                u16::try_from(worker)?
            };
            let tx = port.tx_queue(queue);
            let tx = tx.with_context(|| format!("port {name}: no transmit queue {queue}"))?;
            handles.outlet = Some(tx);
        }
        workers.push(handles);
    }
    Ok(workers)
}

/// Opens the source of a port, if it has one.
///
/// # Errors
/// A capture that cannot be read.
pub fn open_source(port: &config::Port) -> Result<Option<Source>> {
    let source =
        Source::open(&port.device, port.mtu).with_context(|| format!("port {}", port.name))?;
    for warning in source.iter().flat_map(Source::warnings) {
        tracing::warn!("port {}: {warning}", port.name);
    }
    Ok(source)
}

/// Whether `config` has a port at `place`.
pub fn is_present(config: &Config, place: usize) -> bool {
    present(config).any(|present| present == place)
}

/// Places of ports that are there.
pub fn present(config: &Config) -> impl Iterator<Item = usize> {
    let is_present =
        |(place, port): (usize, &config::Port)| (port.device != Device::Absent).then_some(place);
    config.ports.iter().enumerate().filter_map(is_present)
}
