//! How a port is started.

use std::ptr;

use crate::attach::{AttachedPort, hint};
use crate::error::{DpdkLog, Errno, logged};
use crate::mempool::Mempool;
use crate::port::{MtuError, Port, check_mtu};

/// How a port is started. No offload that merges, strips or rewrites is ever asked for; that a frame
/// may be a chain of segments only where `mtu` exceeds the pool's data room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortConfig {
    /// Receive queues, 1 or more.
    pub rx_queues: u16,
    /// Transmit queues, 1 or more.
    pub tx_queues: u16,
    /// Packets that each receive queue can hold; rounded to what the device allows.
    pub rx_descriptors: u16,
    /// Packets that each transmit queue can hold; rounded to what the device allows.
    pub tx_descriptors: u16,
    /// Largest layer-3 packet in bytes.
    pub mtu: u16,
    /// Receive frames to any address, as a switch must.
    pub promiscuous: bool,
    /// Spread flows over several receive queues by addresses and layer-4 ports, as far as the device
    /// can.
    pub rss: bool,
}

impl Default for PortConfig {
    /// One queue each way, 1,024 descriptors, MTU 1500, promiscuous, RSS.
    fn default() -> Self {
        Self {
            rx_queues: 1,
            tx_queues: 1,
            rx_descriptors: 1024,
            tx_descriptors: 1024,
            mtu: 1500,
            promiscuous: true,
            rss: true,
        }
    }
}

/// Why a port did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// More queues than there are, or none.
    #[error(
        "port {port}: {queues} {direction} queues asked for, {driver} offers 1 to {queues_max} here; \
         change the number of workers or the device's arguments"
    )]
    Queues {
        /// The port's device.
        port: String,
        /// Its driver.
        driver: String,
        /// `receive` or `transmit`.
        direction: &'static str,
        /// Queues asked for.
        queues: u16,
        /// Most that there are.
        queues_max: u16,
    },
    /// Another number of pools than of receive queues.
    #[error("port {port}: {pools} pools for {queues} receive queues; give each queue one")]
    Pools {
        /// The port's device.
        port: String,
        /// Receive queues asked for.
        queues: u16,
        /// Pools given.
        pools: usize,
    },
    /// An MTU that the device does not do.
    #[error("port {port}: {0}", source)]
    Mtu {
        /// The port's device.
        port: String,
        /// What is wrong with it.
        source: MtuError,
    },
    /// DPDK or the driver refused.
    #[error("port {port} ({driver}) did not start: {errno}{log}; {}", hint(port))]
    Driver {
        /// The port's device.
        port: String,
        /// Its driver.
        driver: String,
        /// DPDK's error.
        errno: Errno,
        /// DPDK's words.
        log: DpdkLog,
    },
}

impl<'eal> AttachedPort<'eal> {
    /// Sets up the queues, which all take their mbufs from `pool`, and starts the port.
    ///
    /// # Errors
    /// See [`StartError`]; the device is then detached.
    pub fn start<'pool>(
        self,
        config: &PortConfig,
        pool: &'pool Mempool<'eal>,
    ) -> Result<Port<'pool>, StartError> {
        let pools = vec![pool; usize::from(config.rx_queues)];
        self.start_with(config, &pools)
    }

    /// Sets up the queues, each with mbufs from the pool of the same index, and starts
    /// the port: so every queue has buffers near the worker that polls it.
    ///
    /// # Errors
    /// See [`StartError`]; the device is then detached.
    pub fn start_with<'pool>(
        self,
        config: &PortConfig,
        pools: &[&'pool Mempool<'eal>],
    ) -> Result<Port<'pool>, StartError> {
        let info = self.info();
        let directions = [
            ("receive", config.rx_queues, info.rx_queues_max),
            ("transmit", config.tx_queues, info.tx_queues_max),
        ];
        for (direction, queues, queues_max) in directions {
            if !(1..=queues_max).contains(&queues) {
                return Err(StartError::Queues {
                    port: self.name().to_owned(),
                    driver: info.driver.clone(),
                    direction,
                    queues,
                    queues_max,
                });
            }
        }
        if pools.len() != usize::from(config.rx_queues) {
            return Err(StartError::Pools {
                port: self.name().to_owned(),
                queues: config.rx_queues,
                pools: pools.len(),
            });
        }
        check_mtu(info, config.mtu).map_err(|source| StartError::Mtu {
            port: self.name().to_owned(),
            source,
        })?;
        let raw = dpdk_sys::PortConfig {
            rx_queues: config.rx_queues,
            tx_queues: config.tx_queues,
            rx_descriptors: config.rx_descriptors,
            tx_descriptors: config.tx_descriptors,
            mtu: config.mtu,
            promiscuous: config.promiscuous.into(),
            rss: config.rss.into(),
        };
        let raw_pools: Vec<_> = pools.iter().map(|pool| pool.as_ptr()).collect();
        // SAFETY: the port is attached and not started; there is a pool for each receive queue, and
        // the pools outlive the port.
        let chains = logged(|| unsafe {
            Errno::check(dpdk_sys::vernier_port_start(
                self.id(),
                ptr::from_ref(&raw),
                raw_pools.as_ptr(),
            ))
        })
        .map_err(|(errno, log)| StartError::Driver {
            port: self.name().to_owned(),
            driver: info.driver.clone(),
            errno,
            log,
        })?;
        Ok(Port::new(self, &raw, chains != 0))
    }
}
