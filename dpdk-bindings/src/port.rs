//! Ports: their start, queues, statistics and link.

use std::cell::Cell;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrayvec::ArrayVec;
pub use dpdk_sys::{PortConfig, PortStats};

use crate::attach::{AttachedPort, PortInfo, hint};
use crate::error::{DpdkLog, Errno, logged};
use crate::mbuf::{Mbuf, free_bulk};
use crate::mempool::Mempool;

/// Most packets fetched from each queue of a port that is closed.
const DRAIN_PACKETS_MAX: usize = 4096;

/// Why a port did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// More queues than the device has, or none.
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
        /// Queues requested.
        queues: u16,
        /// Most possible.
        queues_max: u16,
    },
    /// The numbers of pools and receive queues differ.
    #[error("port {port}: {pools} pools for {queues} receive queues; give each queue one")]
    Pools {
        /// The port's device.
        port: String,
        /// Receive queues requested.
        queues: u16,
        /// Pools given.
        pools: usize,
    },
    /// An MTU that the device does not support.
    #[error("port {port}: MTU {mtu} is outside the device's {mtu_min} to {mtu_max} bytes")]
    Mtu {
        /// The port's device.
        port: String,
        /// The MTU requested.
        mtu: u16,
        /// Least.
        mtu_min: u16,
        /// Largest.
        mtu_max: u16,
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
        /// DPDK's log lines.
        log: DpdkLog,
    },
}

impl<'eal> AttachedPort<'eal> {
    /// Sets up the queues, all with mbufs from `pool`, and starts the port.
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

    /// Sets up the queues, each with mbufs from the pool of the same index, and starts the port, so that
    /// every queue has buffers near the worker that polls it.
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
        if !(info.mtu_min..=info.mtu_max).contains(&config.mtu) {
            return Err(StartError::Mtu {
                port: self.name().to_owned(),
                mtu: config.mtu,
                mtu_min: info.mtu_min,
                mtu_max: info.mtu_max,
            });
        }
        let raw_pools: Vec<_> = pools.iter().map(|pool| pool.as_ptr()).collect();
        // SAFETY: the port is attached and not started; there is a pool for each receive queue, and
        // the pools outlive the port.
        let chains = logged(|| unsafe {
            Errno::check(dpdk_sys::vernier_port_start(
                self.id(),
                ptr::from_ref(config),
                raw_pools.as_ptr(),
            ))
        })
        .map_err(|(errno, log)| StartError::Driver {
            port: self.name().to_owned(),
            driver: info.driver.clone(),
            errno,
            log,
        })?;
        Ok(Port::new(self, config, chains != 0))
    }
}

/// Why a link was not set up or down.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The driver does not support it.
    #[error("the driver {driver} cannot set its link up or down")]
    Unsupported {
        /// The driver.
        driver: String,
    },
    /// The driver tried and failed.
    #[error("the driver {driver} did not set its link: {errno}{log}")]
    Driver {
        /// The driver.
        driver: String,
        /// DPDK's error.
        errno: Errno,
        /// DPDK's log lines.
        log: DpdkLog,
    },
}

/// A started port, as one of any number of handles: clones, and the queues taken from it. When the last one
/// is dropped, the packets that its driver holds return to their pools, it stops, and its device is
/// detached. That takes a driver's time (milliseconds and more), so drop the last handle where that does no
/// harm: a worker returns its queues instead of dropping them.
///
/// Queues may move to other threads and back while the port runs, and ports may be added and removed while
/// others run:
///
/// ```no_run
/// # use dpdk_bindings::{Eal, Mempool, PortConfig};
/// # fn run(eal: &Eal, pool: &Mempool<'_>) -> Option<()> {
/// # let port = eal.attach("net_null0").ok()?.start(&PortConfig::default(), pool).ok()?;
/// let mut rx = port.rx_queue(0)?;
/// std::thread::scope(|scope| {
///     scope.spawn(move || rx.receive::<32>(&mut Default::default()));
/// });
/// # Some(())
/// # }
/// ```
///
/// It is invariant in `'pool`: transmitted packets may stay with the driver until the port is closed, so
/// they must come from a pool that outlives the port:
///
/// ```compile_fail,E0597
/// # use dpdk_bindings::{ArrayVec, Mbuf, Mempool, Port};
/// fn lend<'pool>(port: &Port<'pool>, short_lived: Mempool<'pool>) {
///     let Some(mut tx) = port.tx_queue(0) else { return };
///     let mut burst: ArrayVec<Mbuf, 1> = short_lived.alloc_frame(&[], 60).into_iter().collect();
///     tx.transmit(&mut burst);
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Port<'pool> {
    started: Arc<Started<'pool>>,
}

/// State shared by the handles of a port.
#[derive(Debug)]
struct Started<'pool> {
    attached: AttachedPort<'pool>,
    rx_taken: Box<[AtomicBool]>,
    tx_taken: Box<[AtomicBool]>,
    chains: bool,
    /// Serialises calls to the driver other than those for queues, as DPDK requires (`rte_ethdev.h`).
    driver: Mutex<()>,
    /// Chained packets passed for transmission to a device that does not support them.
    tx_chains: AtomicU64,
    _pool: PhantomData<(&'pool Mempool<'pool>, Invariant<'pool>)>,
}

/// Invariant, Send and Sync.
type Invariant<'a> = fn(Cell<&'a ()>) -> Cell<&'a ()>;

/// Direction of packets.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Direction {
    Receive,
    Transmit,
}

impl<'pool> Port<'pool> {
    pub(crate) fn new(attached: AttachedPort<'pool>, config: &PortConfig, chains: bool) -> Self {
        let marks = |queues: u16| (0..queues).map(|_| AtomicBool::new(false)).collect();
        Self {
            started: Arc::new(Started {
                attached,
                rx_taken: marks(config.rx_queues),
                tx_taken: marks(config.tx_queues),
                chains,
                driver: Mutex::new(()),
                tx_chains: AtomicU64::new(0),
                _pool: PhantomData,
            }),
        }
    }

    /// DPDK's number of the port, as in [`Mbuf::port`] of packets received here.
    pub fn id(&self) -> u16 {
        self.started.attached.id()
    }

    /// The device's name (`net_pcap0`, `0000:03:00.0`).
    pub fn name(&self) -> &str {
        self.started.attached.name()
    }

    /// Properties of the device.
    pub fn info(&self) -> &PortInfo {
        self.started.attached.info()
    }

    /// Whether frames longer than a data room can be transmitted, as chains of segments: if the MTU
    /// requires them and the device supports them.
    pub fn transmits_chains(&self) -> bool {
        self.started.chains
    }

    pub(crate) fn count_chain(&self) {
        self.started.tx_chains.fetch_add(1, Ordering::Relaxed);
    }

    /// Receive queues.
    pub fn rx_queues(&self) -> u16 {
        count(&self.started.rx_taken)
    }

    /// Flags of owned queues of a direction.
    pub(crate) fn marks(&self, direction: Direction) -> &[AtomicBool] {
        match direction {
            Direction::Receive => &self.started.rx_taken,
            Direction::Transmit => &self.started.tx_taken,
        }
    }

    fn driver(&self) -> MutexGuard<'_, ()> {
        let driver = self.started.driver.lock();
        driver.unwrap_or_else(PoisonError::into_inner)
    }

    /// The port's counters since it was started, from its driver; zero if it does not count.
    pub fn stats(&self) -> PortStats {
        let _alone = self.driver();
        let mut stats = PortStats::default();
        // SAFETY: the port is attached. A driver that does not count leaves the zeros.
        unsafe { dpdk_sys::vernier_port_stats(self.id(), &raw mut stats) };
        stats.tx_errors += self.started.tx_chains.load(Ordering::Relaxed);
        stats
    }

    /// Whether there is a link, without waiting for negotiation; `false` if unknown. If there is a kernel
    /// interface behind the device, it must be running, too, because not every driver asks the kernel. Not for
    /// the fast path: this may make system calls.
    pub fn is_up(&self) -> bool {
        let _alone = self.driver();
        // SAFETY: the port is attached.
        let is_up = unsafe { dpdk_sys::vernier_port_link(self.id()) } == 1;
        let runs = |index: NonZeroU32| dpdk_sys::vernier_interface_link(index.get()) == 1;
        is_up && self.info().interface.is_none_or(runs)
    }

    /// Whether the device is being pulled: with `vfio-pci` the kernel requests it, and waits until it is
    /// released, when the last handle is dropped. The device works until then.
    pub fn is_pulled(&self) -> bool {
        dpdk_sys::vernier_port_is_pulled(self.id()) != 0
    }

    /// Whether the port has lost its device, and gets it back only by attaching it again: the kernel interface behind
    /// it was deleted or moved to another network namespace, or it is a `net_memif` client without a connection.
    pub fn is_lost(&self) -> bool {
        let _alone = self.driver();
        // SAFETY: the port is attached.
        unsafe { dpdk_sys::vernier_port_is_lost(self.id()) != 0 }
    }

    /// Sets the link up or down, like an administrator: the far end, if any, sees it, too. Among virtual
    /// devices `net_ring` and `net_tap` support it; for others the interface behind the device, if any, is
    /// set (`net_af_packet`), which needs root.
    ///
    /// # Errors
    /// See [`LinkError`].
    pub fn set_link(&self, up: bool) -> Result<(), LinkError> {
        let _alone = self.driver();
        let driver = || self.info().driver.clone();
        let set = || {
            // SAFETY: the port is started; rte_ethdev.h lets this be done while queues are in use.
            let set = unsafe { dpdk_sys::vernier_port_set_link(self.id(), up.into()) };
            match (Errno::check(set), self.info().interface) {
                (Err(Errno::ENOTSUP), Some(index)) => {
                    Errno::check(dpdk_sys::vernier_interface_set_link(index.get(), up.into()))
                }
                (set, _) => set,
            }
        };
        match logged(set) {
            Ok(_) => Ok(()),
            Err((Errno::ENOTSUP, _)) => Err(LinkError::Unsupported { driver: driver() }),
            Err((errno, log)) => Err(LinkError::Driver {
                driver: driver(),
                errno,
                log,
            }),
        }
    }
}

impl Drop for Started<'_> {
    fn drop(&mut self) {
        // A software ring (net_ring) forgets its packets when closed, so fetch them first.
        let mut burst: ArrayVec<Mbuf<'_>, 64> = ArrayVec::new();
        for number in 0..count(&self.rx_taken) {
            for _ in 0..DRAIN_PACKETS_MAX / burst.capacity() {
                // SAFETY: the port is started, has the queue, and no RxQueue, which would be a handle,
                // is left.
                if unsafe { receive(self.attached.id(), number, &mut burst) } == 0 {
                    break;
                }
                free_bulk(&mut burst);
            }
        }
    }
}

/// Appends packets from a queue.
///
/// # Safety
/// The port is started, has the queue, no other thread polls it, and the pools of received packets outlive
/// the packets' lifetime.
#[inline]
pub(crate) unsafe fn receive<const N: usize>(
    port_id: u16,
    queue: u16,
    burst: &mut ArrayVec<Mbuf<'_>, N>,
) -> usize {
    const { assert!(N <= u16::MAX as usize, "DPDK counts a burst in 16 bits") };
    let len = burst.len();
    #[expect(clippy::cast_possible_truncation, reason = "asserted above")]
    let room = (N - len) as u16;
    // SAFETY: the caller vouches for the queue. Mbuf is a transparent pointer, room of them fit
    // behind the first len, and the driver writes the received first ones of these, giving up
    // ownership (rte_ethdev.h, rte_eth_rx_burst).
    unsafe {
        let free = burst.as_mut_ptr().add(len).cast();
        let received = usize::from(dpdk_sys::vernier_rx_burst(port_id, queue, free, room));
        burst.set_len(len + received);
        received
    }
}

/// Number of queues.
#[expect(
    clippy::cast_possible_truncation,
    reason = "it was made of a number of 16 bits"
)]
fn count(marks: &[AtomicBool]) -> u16 {
    marks.len() as u16
}
