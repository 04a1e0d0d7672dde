//! The switch's devices: attaches them, counts their queues, and starts them.

use anyhow::{Context, Result};
use contract::config::device::argument;
use contract::config::memory::{DESCRIPTORS, POOL_CACHE};
use contract::config::{Config, Device};
use dpdk_bindings::{AttachedPort, Eal, EalOptions, Mempool, Port, PortConfig, interface_index};

use super::DpdkSite;
use super::cpus::{Cpu, node_of};
use super::memif;
use crate::preflight::kernel_interface;

/// Room for data in a packet buffer, in addition to DPDK's headroom of 128 bytes; longer frames are
/// chained.
const DATA_ROOM_BYTES: u16 = 2048;

/// Options for starting EAL.
pub fn eal_options(config: &Config) -> EalOptions {
    EalOptions {
        hugepages: config.dpdk.hugepages,
        memory_mib: config.dpdk.memory_mib,
        pci: config.ports.iter().any(|port| port.device.is_pci()),
        extra: config.dpdk.eal_args.clone(),
    }
}

/// Pools of packet buffers: one on each NUMA node that has workers.
#[derive(Debug)]
pub struct Pools<'eal> {
    pools: Vec<(Option<u16>, Mempool<'eal>)>,
}

impl<'eal> Pools<'eal> {
    /// `mbufs` buffers, in equal parts on the nodes of the workers' `cpus`.
    ///
    /// # Errors
    /// DPDK's, usually for lack of memory.
    pub fn new(eal: &'eal Eal, mbufs: u32, cpus: &[usize], usable: &[Cpu]) -> Result<Self> {
        let mut nodes: Vec<Option<u16>> = cpus.iter().map(|&cpu| node_of(cpu, usable)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let share = mbufs / u32::try_from(nodes.len().max(1))?;
        let make = |(n, node): (usize, &Option<u16>)| {
            let name = format!("vernier-{n}");
            let pool = eal.mempool_near(*node, &name, share, POOL_CACHE, DATA_ROOM_BYTES)?;
            Ok((*node, pool))
        };
        let pools = nodes.iter().enumerate().map(make).collect::<Result<_>>()?;
        Ok(Self { pools })
    }

    /// The pool for a worker on `cpu`.
    ///
    /// # Errors
    /// None, for the CPUs that the pools were made for.
    pub fn near(&self, cpu: usize, usable: &[Cpu]) -> Result<&Mempool<'eal>> {
        let node = node_of(cpu, usable);
        let near = self.pools.iter().find(|(of, _)| *of == node);
        let (_, pool) = near.or(self.pools.first()).context("no packet buffers")?;
        Ok(pool)
    }

    /// Each pool with its node.
    pub fn iter(&self) -> impl Iterator<Item = (Option<u16>, &Mempool<'eal>)> {
        self.pools.iter().map(|(node, pool)| (*node, pool))
    }
}

/// Attaches the device of the port at `index`. A port with one of our own sources, and a sink, is a
/// `net_null` that receives nothing.
///
/// # Errors
/// DPDK's, with the port's name.
pub fn attach<'eal>(config: &Config, index: usize, eal: &'eal Eal) -> Result<AttachedPort<'eal>> {
    let port = &config.ports[index];
    let device = match &port.device {
        Device::Dpdk(device) => with_queues(device, config.rx_queues(index)),
        _ => format!("net_null_{index},no-rx=1"),
    };
    memif::remove_orphan(&device).with_context(|| {
        let name = &port.name;
        format!("port {name}: the socket that an earlier server left cannot be removed")
    })?;
    eal.attach(&device)
        .with_context(|| format!("port {}", port.name))
}

/// Whether attaching the device again may succeed, because its interface or server exists.
pub fn is_back(device: &Device) -> bool {
    let Device::Dpdk(device) = device else {
        return false;
    };
    let interface = kernel_interface(device);
    interface.is_none_or(|name| interface_index(name).is_some()) && memif::has_server(device)
}

/// A `net_af_packet` has as many queues as its arguments say, and the kernel spreads flows over all of them.
fn with_queues(device: &str, rx_queues: u16) -> String {
    let is_given = argument(device, "qpairs").is_some();
    if device.starts_with("net_af_packet") && !is_given && rx_queues > 1 {
        format!("{device},qpairs={rx_queues}")
    } else {
        device.to_owned()
    }
}

/// Corrects `config` by the device of the port at `index`: fewer receive queues than wished, unless the
/// user configured them; and a worker that transmits for all, if there are fewer transmit queues than
/// workers.
pub fn settle(config: &mut Config, index: usize, attached: &AttachedPort<'_>) {
    let info = attached.info();
    let is_left_open = config.ports[index].rx_queues.is_none()
        && config.workers.iter().all(|worker| worker.queues.is_none());
    if is_left_open && info.rx_queues_max < config.rx_queues(index) {
        config.ports[index].rx_queues = Some(info.rx_queues_max.max(1));
    }
    if usize::from(info.tx_queues_max) < config.workers.len() && config.owner(index).is_none() {
        let serves = |queues: &Vec<(usize, u16)>| queues.contains(&(index, 0));
        let owner = config.assignment().iter().position(serves).unwrap_or(0);
        config.ports[index].egress.owner = Some(owner);
    }
}

/// Starts the port at `index`, each of its receive queues with buffers near the worker that serves it.
///
/// # Errors
/// DPDK's, with the port's name.
pub fn start<'pool>(
    config: &Config,
    index: usize,
    attached: AttachedPort<'pool>,
    dpdk: DpdkSite<'pool>,
) -> Result<Port<'pool>> {
    let port = &config.ports[index];
    let rx_queues = config.rx_queues(index);
    let tx_queues = match config.owner(index) {
        Some(_) => 1,
        None => u16::try_from(config.workers.len())?,
    };
    let assignment = config.assignment();
    let pool_of = |queue| {
        let serves = |queues: &Vec<(usize, u16)>| queues.contains(&(index, queue));
        let worker = assignment.iter().position(serves).unwrap_or(0);
        dpdk.pools.near(dpdk.site.cpus[worker], dpdk.site.usable)
    };
    let pools: Vec<&Mempool<'pool>> = (0..rx_queues).map(pool_of).collect::<Result<_>>()?;
    let port_config = PortConfig {
        rx_queues,
        tx_queues,
        rx_descriptors: DESCRIPTORS,
        tx_descriptors: DESCRIPTORS,
        mtu: port.mtu,
        ..PortConfig::default()
    };
    attached
        .start_with(&port_config, &pools)
        .with_context(|| format!("port {}", port.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn af_packet_is_told_its_queues() {
        assert_eq!(
            with_queues("net_af_packet0,iface=x", 2),
            "net_af_packet0,iface=x,qpairs=2"
        );
        assert_eq!(
            with_queues("net_af_packet0,iface=x", 1),
            "net_af_packet0,iface=x"
        );
        let given = "net_af_packet0,iface=x,qpairs=4";
        assert_eq!(with_queues(given, 2), given);
        assert_eq!(with_queues("net_ring0", 2), "net_ring0");
    }
}
