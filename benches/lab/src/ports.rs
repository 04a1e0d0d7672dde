//! Two DPDK ports, as the box and the packet generator drive them.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result};
use dpdk_bindings::{Eal, EalOptions, Mempool, Port, PortConfig, keep_to_cpus, tsc};
use measure::time::TickRate;
use testkit::process::until;

use crate::PROGRAM;

/// Packets received or sent at a time.
pub const BURST: usize = 32;

/// Packet buffers: for what is under way both ways, and the queues of both ports.
const MBUFS: u32 = 65_535;

/// How long the links of both ports may take to come up.
const LINK_PATIENCE: Duration = Duration::from_secs(15);

/// Starts both devices, keeps this thread to `cpus`, waits for links, and does some work with both.
pub fn with_ports<T>(
    devices: &[String; 2],
    options: &EalOptions,
    cpus: &[usize],
    stop: &AtomicBool,
    work: impl for<'p> FnOnce([&Port<'p>; 2], &'p Mempool<'p>, TickRate) -> Result<T>,
) -> Result<T> {
    let eal = Eal::init(PROGRAM, options)?;
    keep_to_cpus(cpus).with_context(|| format!("cannot keep to CPUs {cpus:?}"))?;
    let pool = eal.mempool("lab", MBUFS, 512, 2_048)?;
    let start = |device: &String| -> Result<_> {
        Ok(eal.attach(device)?.start(&PortConfig::default(), &pool)?)
    };
    let (left, right) = (start(&devices[0])?, start(&devices[1])?);
    let no_link = "a port has no link; is there a program at the other end?";
    until(LINK_PATIENCE, stop, no_link, || {
        Ok((left.link().up && right.link().up).then_some(()))
    })?;
    work([&left, &right], &pool, TickRate::from_hz(eal.tsc_hz()))
}

/// Nanoseconds by the time stamp counter since the start. They only rise.
#[derive(Debug)]
pub struct Clock {
    rate: TickRate,
    started: u64,
}

impl Clock {
    pub fn new(rate: TickRate) -> Self {
        let started = tsc::now();
        Self { rate, started }
    }

    pub fn now_ns(&self) -> u64 {
        let elapsed = tsc::now().wrapping_sub(self.started);
        self.rate.ticks_to_ns(elapsed)
    }
}
