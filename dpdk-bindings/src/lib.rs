//! Safe, small bindings to the parts of [DPDK](https://www.dpdk.org) 22.11 and later that Vernier uses.
//!
//! ```text
//!   switch              #![forbid(unsafe_code)]
//!     |
//!   dpdk-bindings       ownership, lifetimes, typed errors      Eal -> Mempool -> Mbuf
//!     |                                                          |        |
//!     |                                                          '-> AttachedPort -> Port <-> RxQueue
//!   dpdk-sys            declarations, mbuf view, shim.c                                 <-> TxQueue
//!     |
//!   librte_*.so         EAL, mempool, mbuf, ethdev; drivers come from EAL's plugin folder
//! ```
//!
//! - Lifetimes enforce the order of shutdown: [`Eal`] outlives [`Mempool`]s, and a pool outlives its [`Mbuf`]s and the started [`Port`]s that hold some.
//! - A port is closed when the last of its handles is dropped: [`Port`]s, [`RxQueue`]s and [`TxQueue`]s, which are counted when they are created and dropped, not when they are used. So queues can move to workers and back, and ports can be added and removed, while others run.
//! - A packet has one owner. [`TxQueue::transmit`] passes mbufs to the driver, dropping one frees it,
//!   and nothing shares a buffer: [`Mbuf::copy`] copies.
//! - The fast path ([`RxQueue::receive`], [`TxQueue::transmit`], [`StampField`], [`tsc::now`],
//!   [`Mbuf::head`]) allocates nothing, takes no lock, and calls into C once per burst at most.
//! - Errors carry DPDK's own messages ([`Errno`], [`DpdkLog`]) and a hint.
//!
//! It does not bind all of DPDK (there are no offloads, flow rules or multi-process support), and it is not a
//! framework: it has no poll loop.
//!
//! ```no_run
//! use dpdk_bindings::{ArrayVec, Eal, EalOptions, Mbuf, PortConfig};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let eal = Eal::init("example", &EalOptions::default())?;
//! let pool = eal.mempool("packets", 8191, 256, 2048)?;
//! let port = eal.attach("net_null0")?.start(&PortConfig::default(), &pool)?;
//! let (Some(mut rx), Some(mut tx)) = (port.rx_queue(0), port.tx_queue(0)) else { return Ok(()) };
//! let mut burst: ArrayVec<Mbuf, 32> = ArrayVec::new();
//! rx.receive(&mut burst);
//! tx.transmit(&mut burst);
//! # Ok(())
//! # }
//! ```

pub use arrayvec::ArrayVec;

pub use attach::{AttachError, AttachedPort, PortInfo, interface_index};
pub use clock::{KernelClock, kernel_clock};
pub use cpus::{allowed_cpus, keep_to_cpus, numa_socket_of};
pub use eal::{Eal, EalError, EalOptions};
pub use error::{DpdkLog, Errno, lost_log_messages};
pub use host::{
    Host, HostDevice, HostError, HostPort, PassingMbuf, Tap, attach_vhost, misses_vhost,
};
pub use huge::HugePages;
pub use lcore::{LcoreError, LcoreRegistration};
pub use mbuf::{Mbuf, NoRoom, free_bulk};
pub use mempool::{Mempool, MempoolError};
pub use port::{LinkError, Port, PortConfig, PortStats, StartError};
pub use queue::{RxQueue, TxQueue};
pub use stamp::{SharedStamp, StampError, StampField, Stampable};

mod attach;
mod clock;
mod cpus;
mod eal;
mod error;
mod host;
mod huge;
mod lcore;
mod mbuf;
mod mempool;
pub mod plugin;
mod port;
mod queue;
mod stamp;
pub mod telemetry;
pub mod tsc;
