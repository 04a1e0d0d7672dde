//! Two DPDK ports, for the box and the packet generator.

use std::time::{Duration, Instant, UNIX_EPOCH};

use anyhow::{Context, Result};
use dpdk_bindings::{Eal, EalOptions, Mempool, Port, PortConfig, RxQueue, TxQueue, keep_to_cpus};
use testkit::process::until;

use crate::PROGRAM;

/// Packets received or sent at a time.
pub const BURST: usize = 32;

/// Packet buffers, for packets in flight in both directions and the queues of both ports.
const MBUFS: u32 = 65_535;

/// How long the links of both ports may take to come up.
const LINK_PATIENCE: Duration = Duration::from_secs(15);

/// Starts both devices, keeps this thread to `cpus`, waits for links, and does some work with both.
pub fn with_ports<T>(
    devices: &[String; 2],
    options: &EalOptions,
    cpus: &[usize],
    work: impl for<'p> FnOnce([Queues<'p>; 2], &'p Mempool<'p>) -> Result<T>,
) -> Result<T> {
    let eal = Eal::init(PROGRAM, options)?;
    keep_to_cpus(cpus).with_context(|| format!("cannot keep to CPUs {cpus:?}"))?;
    let pool = eal.mempool("lab", MBUFS, 512, 2_048)?;
    let start = |device: &String| -> Result<_> {
        Ok(eal.attach(device)?.start(&PortConfig::default(), &pool)?)
    };
    let (left, right) = (start(&devices[0])?, start(&devices[1])?);
    let no_link = "a port has no link; is there a program at the other end?";
    until(LINK_PATIENCE, no_link, || {
        Ok((left.is_up() && right.is_up()).then_some(()))
    })?;
    work([queues(&left)?, queues(&right)?], &pool)
}

/// The receive queue of a port, and the transmit queue.
pub type Queues<'p> = (RxQueue<'p>, TxQueue<'p>);

/// Takes the first queues of a port, which must be free.
pub fn queues<'p>(port: &Port<'p>) -> Result<Queues<'p>> {
    let queues = port.rx_queue(0).zip(port.tx_queue(0));
    queues.context("queues are taken")
}

/// Nanoseconds since 1970, from the system's clock at the start and monotonic from then on.
#[derive(Debug)]
pub struct Clock {
    started: Instant,
    started_ns: u64,
}

impl Default for Clock {
    fn default() -> Self {
        // A clock before 1970 reads 0.
        let started_ns = nanoseconds(UNIX_EPOCH.elapsed().unwrap_or_default());
        Self {
            started: Instant::now(),
            started_ns,
        }
    }
}

impl Clock {
    pub fn now_ns(&self) -> u64 {
        self.started_ns + nanoseconds(self.started.elapsed())
    }
}

/// 584 years are enough.
pub fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
