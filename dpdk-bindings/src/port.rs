//! Started ports: queues, statistics, link.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrayvec::ArrayVec;

use crate::attach::{AttachedPort, PortInfo, hint, text};
use crate::error::{DpdkLog, Errno, logged};
use crate::mbuf::{Mbuf, free_bulk};
use crate::mempool::Mempool;
use crate::queue::{self, RxQueue, TxQueue};

/// Most packets that are fetched from each queue of a port that ends.
const DRAIN_PACKETS_MAX: usize = 4096;

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

/// Why an MTU was not taken.
#[derive(Debug, thiserror::Error)]
pub enum MtuError {
    /// Outside what the device does.
    #[error("MTU {mtu} is outside the device's {mtu_min} to {mtu_max} bytes")]
    Range {
        /// The MTU asked for.
        mtu: u16,
        /// Least.
        mtu_min: u16,
        /// Largest.
        mtu_max: u16,
    },
    /// The driver refused.
    #[error(
        "the driver does not take MTU {mtu} while the port runs: {errno}{log}; set it at start"
    )]
    Driver {
        /// The MTU asked for.
        mtu: u16,
        /// DPDK's error.
        errno: Errno,
        /// DPDK's words.
        log: DpdkLog,
    },
}

/// A port's counters since it was started, as its driver counts; zero where it does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Packets transmitted.
    pub tx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes transmitted.
    pub tx_bytes: u64,
    /// Packets dropped by the device because nobody fetched them in time.
    pub rx_missed: u64,
    /// Packets received with an error.
    pub rx_errors: u64,
    /// Packets that were handed to the driver and not transmitted.
    pub tx_errors: u64,
    /// Packets dropped by the driver because the pool was empty.
    pub rx_no_mbuf: u64,
}

/// A link's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Link {
    /// Whether there is a link.
    pub up: bool,
    /// Speed in Mbit/s, if known; virtual devices make theirs up.
    pub speed_mbps: Option<u32>,
    /// Full duplex.
    pub full_duplex: bool,
    /// Speed and duplex were negotiated, not set.
    pub autoneg: bool,
}

/// A started port. Dropping it stops it and detaches the device; the packets that its driver holds
/// go back to their pools.
///
/// It is invariant in `'pool`: what is transmitted here may stay with the driver until the port ends,
/// so it must come from a pool that outlives the port:
///
/// ```compile_fail,E0597
/// # use dpdk_bindings::{ArrayVec, Mbuf, Mempool, Port};
/// fn lend<'pool>(port: &Port<'pool>, short_lived: Mempool<'pool>) {
///     let Some(mut tx) = port.tx_queue(0) else { return };
///     let mut burst: ArrayVec<Mbuf, 1> = short_lived.alloc_frame(&[], 60).into_iter().collect();
///     tx.transmit(&mut burst);
/// }
/// ```
#[derive(Debug)]
pub struct Port<'pool> {
    attached: AttachedPort<'pool>,
    rx_taken: Box<[AtomicBool]>,
    tx_taken: Box<[AtomicBool]>,
    chains: bool,
    /// Chains that were to be transmitted where there are none.
    tx_chains: AtomicU64,
    _pool: PhantomData<(&'pool Mempool<'pool>, Invariant<'pool>)>,
}

/// Neither grows nor shrinks, and is Send and Sync.
type Invariant<'a> = fn(Cell<&'a ()>) -> Cell<&'a ()>;

impl<'eal> AttachedPort<'eal> {
    /// Sets up the queues, which take their mbufs from `pool`, and starts the port.
    ///
    /// # Errors
    /// See [`StartError`]; the device is then detached.
    pub fn start<'pool>(
        self,
        config: &PortConfig,
        pool: &'pool Mempool<'eal>,
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
        // SAFETY: the port is attached and not started; the pool outlives it.
        let chains = logged(|| unsafe {
            Errno::check(dpdk_sys::vernier_port_start(
                self.id(),
                &raw const raw,
                pool.as_ptr(),
            ))
        })
        .map_err(|(errno, log)| StartError::Driver {
            port: self.name().to_owned(),
            driver: info.driver.clone(),
            errno,
            log,
        })?;
        let marks = |queues: u16| (0..queues).map(|_| AtomicBool::new(false)).collect();
        Ok(Port {
            rx_taken: marks(config.rx_queues),
            tx_taken: marks(config.tx_queues),
            chains: chains != 0,
            tx_chains: AtomicU64::new(0),
            attached: self,
            _pool: PhantomData,
        })
    }
}

impl<'pool> Port<'pool> {
    /// DPDK's number for the port; what [`Mbuf::port`] says of packets received here.
    pub fn id(&self) -> u16 {
        self.attached.id()
    }

    /// The device's name (`net_pcap0`, `0000:03:00.0`).
    pub fn name(&self) -> &str {
        self.attached.name()
    }

    /// What the device is and can do.
    pub fn info(&self) -> &PortInfo {
        self.attached.info()
    }

    /// Whether frames longer than a data room can be transmitted, as chains of segments: where the
    /// MTU calls for them and the device can.
    pub fn transmits_chains(&self) -> bool {
        self.chains
    }

    pub(crate) fn count_chain(&self) {
        self.tx_chains.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes receive queue `number`, from 0; `None` if there is none or it is taken.
    pub fn rx_queue(&self, number: u16) -> Option<RxQueue<'_, 'pool>> {
        RxQueue::take(self, &self.rx_taken, number)
    }

    /// Takes transmit queue `number`, from 0; `None` if there is none or it is taken.
    pub fn tx_queue(&self, number: u16) -> Option<TxQueue<'_, 'pool>> {
        TxQueue::take(self, &self.tx_taken, number)
    }

    /// The port's counters.
    pub fn stats(&self) -> PortStats {
        let mut stats = dpdk_sys::PortStats::default();
        // SAFETY: the port is attached. A driver that does not count leaves the zeros.
        unsafe { dpdk_sys::vernier_port_stats(self.id(), &raw mut stats) };
        PortStats {
            rx_packets: stats.rx_packets,
            tx_packets: stats.tx_packets,
            rx_bytes: stats.rx_bytes,
            tx_bytes: stats.tx_bytes,
            rx_missed: stats.rx_missed,
            rx_errors: stats.rx_errors,
            tx_errors: stats.tx_errors + self.tx_chains.load(Ordering::Relaxed),
            rx_no_mbuf: stats.rx_no_mbuf,
        }
    }

    /// The driver's own counters, name and value; not for the fast path.
    pub fn xstats(&self) -> Vec<(String, u64)> {
        // SAFETY: the port is attached, and a capacity of 0 asks how many there are.
        let count = unsafe { dpdk_sys::vernier_port_xstats(self.id(), std::ptr::null_mut(), 0) };
        let Ok(count) = Errno::check(count) else {
            return Vec::new();
        };
        let empty = dpdk_sys::Xstat {
            name: [0; dpdk_sys::NAME_BYTES],
            value: 0,
        };
        let mut xstats = vec![empty; count as usize];
        // SAFETY: there is room for count of them, and no more are written.
        let filled =
            unsafe { dpdk_sys::vernier_port_xstats(self.id(), xstats.as_mut_ptr(), count) };
        match Errno::check(filled) {
            Ok(filled) if filled <= count => xstats
                .iter()
                .take(filled as usize)
                .map(|x| (text(&x.name), x.value))
                .collect(),
            // The set changed meanwhile, or the driver failed.
            _ => Vec::new(),
        }
    }

    /// The link's state, without waiting for one that is being negotiated; down where unknown.
    pub fn link(&self) -> Link {
        let mut link = dpdk_sys::Link::default();
        // SAFETY: the port is attached. On error the default stays.
        unsafe { dpdk_sys::vernier_port_link(self.id(), &raw mut link) };
        Link {
            up: link.up != 0,
            speed_mbps: (link.speed_mbps != u32::MAX).then_some(link.speed_mbps),
            full_duplex: link.full_duplex != 0,
            autoneg: link.autoneg != 0,
        }
    }

    /// The MTU in bytes.
    pub fn mtu(&self) -> u16 {
        let mut mtu = 0;
        // SAFETY: the port is attached; rte_eth_dev_get_mtu fails only where there is none.
        unsafe { dpdk_sys::vernier_port_mtu(self.id(), &raw mut mtu) };
        mtu
    }

    /// Changes the MTU while no queue is taken. An MTU above the pool's data room must be set at
    /// start.
    ///
    /// # Errors
    /// See [`MtuError`].
    pub fn set_mtu(&mut self, mtu: u16) -> Result<(), MtuError> {
        check_mtu(self.info(), mtu)?;
        // SAFETY: the port is attached, and borrowed mutably, so no queue is in use.
        logged(|| Errno::check(unsafe { dpdk_sys::vernier_port_set_mtu(self.id(), mtu) }))
            .map(drop)
            .map_err(|(errno, log)| MtuError::Driver { mtu, errno, log })
    }
}

impl Drop for Port<'_> {
    fn drop(&mut self) {
        // A software ring (net_ring) that closes forgets what waits in it; fetch that first.
        let mut burst: ArrayVec<Mbuf<'_>, 64> = ArrayVec::new();
        for number in (0_u16..).take(self.rx_taken.len()) {
            for _ in 0..DRAIN_PACKETS_MAX / burst.capacity() {
                // SAFETY: the port is started, has the queue, and no RxQueue that borrows it is left.
                if unsafe { queue::receive(self.id(), number, &mut burst) } == 0 {
                    break;
                }
                free_bulk(&mut burst);
            }
        }
    }
}

fn check_mtu(info: &PortInfo, mtu: u16) -> Result<(), MtuError> {
    let PortInfo {
        mtu_min, mtu_max, ..
    } = *info;
    if (mtu_min..=mtu_max).contains(&mtu) {
        Ok(())
    } else {
        Err(MtuError::Range {
            mtu,
            mtu_min,
            mtu_max,
        })
    }
}
