//! The ports of a host program, and its packets in transit.
//!
//! The program configures, starts, stops and closes its ports on its own threads, at any time. DPDK has no
//! lock that would keep a driver alive meanwhile: it announces that a port is removed
//! (`RTE_ETH_EVENT_DESTROY`) only after the driver has freed its queues, and two threads must not call one
//! driver at the same time anyway. So drivers are not called, with two exceptions:
//!
//! | property | source |
//! |---|---|
//! | name, whether it is started, queues | DPDK's own tables, which are valid until our callback for DESTROY returns, or are read by the kernel |
//! | driver, kernel interface | read once in a port's life on the thread that polls one of its queues: a program must not close a port during its own poll |
//! | link | the kernel interface, or else the driver's last report (`RTE_ETH_EVENT_INTR_LSC`), read within that report |
//! | counters of the driver | not read |
//!
//! Callbacks belong to a port's number, not to the port: they outlive it, and serve whatever device gets the
//! number next. So each queue of each number is tapped once.
//!
//! A port becomes visible when it is first started: before that it has no queues.
//!
//! Vhost-user ports that the program serves itself are not ethdevs; they have numbers after those, and are
//! reported by the preloaded object (`host/vhost.rs`).

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::num::NonZeroU32;
use std::ops::Deref;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use dpdk_sys::{NAME_BYTES, rte_mbuf};

use crate::attach::text;
use crate::eal::{self, Eal};
use crate::error::Errno;
use crate::mbuf::Mbuf;
use crate::plugin::{guarded, is_at_work};

mod vhost;

use vhost::Direction;
pub use vhost::attach as attach_vhost;

/// End of the port numbers of a process (`RTE_MAX_ETHPORTS` is 32 in Debian's DPDK).
const PORTS: u16 = 256;

/// Largest number of CPUs in a set (`CPU_SETSIZE`).
const CPUS_MAX: usize = 1024;

/// A port of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    /// DPDK's number.
    pub id: u16,
    /// Incremented whenever a port gets or loses this number. Number and generation together identify a port.
    pub life: u32,
    /// The device's name (`net_pcap0`, `0000:03:00.0`); for a vhost-user device the path of its socket.
    pub name: String,
    /// Receive queues.
    pub rx_queues: u16,
    /// Transmit queues.
    pub tx_queues: u16,
}

/// The device behind a port of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostDevice {
    /// Its driver.
    pub driver: String,
    /// The kernel's index of the network interface behind the device, if any.
    pub interface: Option<NonZeroU32>,
}

impl HostPort {
    /// Whether it is a vhost-user device that the program serves itself.
    pub fn is_vhost(&self) -> bool {
        self.id >= PORTS
    }
}

impl HostDevice {
    fn vhost() -> Self {
        Self {
            driver: "vhost-user".to_owned(),
            interface: None,
        }
    }
}

/// Sees packets that pass a queue, on the thread that moves them, one burst of a queue at a time. It must
/// neither block nor panic: a panic is caught, and disables the plugin.
pub trait Tap: Sync {
    /// Packets received from a receive queue, or offered to a transmit queue.
    fn pass(&self, burst: &mut [PassingMbuf<'_>]);

    /// Packets accepted by a vhost-user device. They were offered when the time stamp counter was at `offered_tsc`,
    /// followed by `refused` packets for which it had no room.
    fn taken(&self, burst: &mut [PassingMbuf<'_>], refused: usize, offered_tsc: u64) {
        let _ = (refused, offered_tsc);
        self.pass(burst);
    }
}

/// A packet of the program that passes a [`Tap`], which may read and stamp it. Its frame must not be changed, because
/// the program may share its buffer with other mbufs (`rte_pktmbuf_clone`), or the mbuf itself.
///
/// ```compile_fail,E0596
/// # fn pass(burst: &mut [dpdk_bindings::PassingMbuf<'_>]) {
/// burst[0].head_mut()[0] = 0;
/// # }
/// ```
#[derive(Debug)]
#[repr(transparent)]
pub struct PassingMbuf<'pool>(Mbuf<'pool>);

impl<'pool> PassingMbuf<'pool> {
    /// Shows the caller's own packets as a tap sees those of a program; for tests.
    pub fn of<'b>(burst: &'b mut [Mbuf<'pool>]) -> &'b mut [Self] {
        // SAFETY: the type is transparent, and the borrowed packets are not dropped.
        unsafe { slice::from_raw_parts_mut(burst.as_mut_ptr().cast(), burst.len()) }
    }
}

impl<'pool> Deref for PassingMbuf<'pool> {
    type Target = Mbuf<'pool>;

    #[inline]
    fn deref(&self) -> &Mbuf<'pool> {
        &self.0
    }
}

type Slots = [Slot; PORTS as usize];

/// State of ports by number.
static SLOTS: Mutex<Slots> = Mutex::new([Slot::EMPTY; PORTS as usize]);

/// State of ports by number that is read without the lock.
static SIGNS: [Signs; PORTS as usize] = [const { Signs::new() }; PORTS as usize];

#[derive(Debug, Clone, Copy)]
struct Slot {
    /// Incremented whenever a port gets or loses this number.
    lives: u32,
    /// DPDK has announced the port's removal; its remains must no longer be read.
    is_gone: bool,
    /// The port as of its last observed start.
    seen: Option<Seen>,
    device: Option<dpdk_sys::HostDevice>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    name: [u8; NAME_BYTES],
    rx_queues: u16,
    tx_queues: u16,
}

impl Slot {
    const EMPTY: Self = Self {
        lives: 0,
        is_gone: false,
        seen: None,
        device: None,
    };
}

#[derive(Debug)]
struct Signs {
    /// The device has been requested: the next thread that polls a queue reads it.
    is_device_wanted: AtomicBool,
    /// The link as reported by the driver.
    link: AtomicU8,
}

impl Signs {
    const LINK_UNKNOWN: u8 = 0;
    const LINK_UP: u8 = 1;
    const LINK_DOWN: u8 = 2;

    const fn new() -> Self {
        Self {
            is_device_wanted: AtomicBool::new(false),
            link: AtomicU8::new(Self::LINK_UNKNOWN),
        }
    }
}

/// A program that has initialised EAL and started at least one port.
#[derive(Debug, Clone)]
pub struct Host<'eal> {
    // Constructed only by find and Eal::host.
    _eal: PhantomData<&'eal Eal>,
}

/// Why a program cannot be observed.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// This crate initialised EAL itself, and EAL ends with its [`Eal`].
    #[error("EAL was initialised by Eal::init in this process; use Eal::host")]
    Own,
    /// The kernel refuses to read this process's memory.
    #[error(
        "process_vm_readv: {0}; allow this call, at least on the program itself (seccomp, SystemCallFilter=)"
    )]
    Memory(Errno),
    /// DPDK does not report added and removed ports.
    #[error("DPDK does not report added and removed ports: {0}")]
    Watch(Errno),
}

impl Host<'static> {
    /// Returns the program once it has started a port, before that `None`.
    ///
    /// # Errors
    /// See [`HostError`].
    pub fn find() -> Result<Option<Self>, HostError> {
        if eal::is_own() {
            return Err(HostError::Own);
        }
        Self::found()
    }
}

impl Eal {
    /// Observes this process itself, as [`Host::find`] does in a plugin; for tests.
    ///
    /// The host cannot outlive EAL:
    ///
    /// ```compile_fail,E0505
    /// # fn run(eal: dpdk_bindings::Eal) {
    /// let host = eal.host();
    /// drop(eal);
    /// drop(host);
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`HostError`].
    pub fn host(&self) -> Result<Option<Host<'_>>, HostError> {
        Host::found()
    }
}

impl Host<'_> {
    /// Call this only while EAL belongs to the caller for `'eal`, or to the program.
    fn found() -> Result<Option<Self>, HostError> {
        // This can be read even before EAL is initialised.
        let Some(id) = (0..PORTS)
            .find(|&id| is_started(id))
            .or_else(|| vhost::is_used().then_some(0))
        else {
            return Ok(None);
        };
        let (mut rx, mut tx) = (0, 0);
        // SAFETY: less than RTE_MAX_ETHPORTS; two counts are written. A port that is not started has dummy queues of
        // ethdev, which are also readable.
        let read = unsafe { dpdk_sys::vernier_host_queues(id, &raw mut rx, &raw mut tx) };
        match Errno::check(read) {
            Err(errno @ (Errno::ENOSYS | Errno::EPERM)) => return Err(HostError::Memory(errno)),
            // The port was stopped in the meantime.
            Err(_) => return Ok(None),
            Ok(_) => {}
        }
        // SAFETY: EAL is initialised, because a port is started or a vhost-user device was served; the function lives
        // as long as the process.
        Errno::check(unsafe { dpdk_sys::vernier_host_watch(changed) }).map_err(HostError::Watch)?;
        Ok(Some(Self { _eal: PhantomData }))
    }

    /// Whether this is a secondary process (`rte_eal_process_type`), whose ports belong to another process.
    pub fn is_secondary(&self) -> bool {
        dpdk_sys::vernier_host_is_secondary() != 0
    }

    /// Frequency of the time stamp counter in Hz.
    pub fn tsc_hz(&self) -> u64 {
        dpdk_sys::vernier_tsc_hz()
    }

    /// The CPUs of all lcores, ascending.
    pub fn cpus(&self) -> Vec<usize> {
        let mut cpus = [0; CPUS_MAX];
        // SAFETY: at most CPUS_MAX entries are written.
        let count = unsafe { dpdk_sys::vernier_host_cpus(cpus.as_mut_ptr(), CPUS_MAX) };
        let cpus = cpus.iter().take(count);
        cpus.map(|cpu| usize::from(*cpu)).collect()
    }

    /// Ports that have been started, even if they are stopped now.
    pub fn ports(&self) -> Vec<HostPort> {
        let ports = (0..PORTS).filter_map(|id| self.port(id));
        ports.chain(vhost::ports()).collect()
    }

    /// Returns a port if it exists and has been started. Its queues are those of its last observed start.
    pub fn port(&self, id: u16) -> Option<HostPort> {
        let mut slots = there(id)?;
        let slot = &mut slots[usize::from(id)];
        if is_started(id) {
            // If it cannot be read, it has been stopped since; return its last state.
            slot.seen = Seen::look(id, slot.seen).or(slot.seen);
        }
        let seen = slot.seen?;
        Some(HostPort {
            id,
            life: slot.lives,
            name: text(&seen.name),
            rx_queues: seen.rx_queues,
            tx_queues: seen.tx_queues,
        })
    }

    /// Returns the device behind a port; `None` if the port is gone. It is also `None` until the program has polled a
    /// tapped queue of the port, because the polling thread reads the device.
    pub fn device(&self, port: &HostPort) -> Option<HostDevice> {
        if port.is_vhost() {
            return vhost::is_there(port).then(HostDevice::vhost);
        }
        let slots = still(port)?;
        let index = usize::from(port.id);
        let Some(device) = slots[index].device else {
            SIGNS[index].is_device_wanted.store(true, Ordering::Relaxed);
            return None;
        };
        Some(HostDevice {
            driver: text(&device.driver),
            interface: NonZeroU32::new(device.interface),
        })
    }

    /// Whether a port's link is up, according to the kernel interface behind the device or, if there is none, to the
    /// driver's last report. Without either it is considered up. `None` if the port is gone or stopped.
    pub fn is_up(&self, port: &HostPort) -> Option<bool> {
        if port.is_vhost() {
            return vhost::is_there(port).then_some(true);
        }
        let device = self.device(port);
        if still(port).is_none() || !is_started(port.id) {
            return None;
        }
        let signs = SIGNS.get(usize::from(port.id))?;
        let runs = |index: NonZeroU32| dpdk_sys::vernier_interface_link(index.get()) == 1;
        let reported = signs.link.load(Ordering::Relaxed);
        let interface = device.and_then(|device| device.interface);
        Some(interface.map_or(reported != Signs::LINK_DOWN, runs))
    }

    /// Starts to show packets of a vhost-user device to the taps of its queues. Its number, and so its taps, may have
    /// belonged to another device before; does nothing if the number has changed owner since. Packets of other ports
    /// are shown as soon as the ports are tapped.
    pub fn show(&self, port: &HostPort) {
        if port.is_vhost() {
            vhost::show(port);
        }
    }

    /// Shows all packets of receive queue `queue` to `tap`, for as long as the process lives
    /// (`rte_eth_add_rx_callback`).
    ///
    /// # Errors
    /// DPDK's error if the queue does not exist or memory is exhausted; [`Errno::ENODEV`] if the port is gone.
    pub fn tap_received<T: Tap>(
        &self,
        port: &HostPort,
        queue: u16,
        tap: &'static T,
    ) -> Result<(), Errno> {
        if port.is_vhost() {
            return vhost::tap(port, Direction::Received, queue, tap);
        }
        let _there = still(port).ok_or(Errno::ENODEV)?;
        let param = ptr::from_ref(tap).cast_mut().cast();
        // SAFETY: the port exists; the tap is never dropped, received::<T> gives it its type, and it is only ever
        // shared.
        let rc = unsafe { dpdk_sys::vernier_host_tap_rx(port.id, queue, received::<T>, param) };
        Errno::check(rc).map(drop)
    }

    /// Shows all packets offered to transmit queue `queue` to `tap`, for as long as the process lives
    /// (`rte_eth_add_tx_callback`).
    ///
    /// # Errors
    /// As for [`tap_received`](Self::tap_received).
    pub fn tap_sent<T: Tap>(
        &self,
        port: &HostPort,
        queue: u16,
        tap: &'static T,
    ) -> Result<(), Errno> {
        if port.is_vhost() {
            return vhost::tap(port, Direction::Sent, queue, tap);
        }
        let _there = still(port).ok_or(Errno::ENODEV)?;
        let param = ptr::from_ref(tap).cast_mut().cast();
        // SAFETY: as in tap_received.
        let rc = unsafe { dpdk_sys::vernier_host_tap_tx(port.id, queue, offered::<T>, param) };
        Errno::check(rc).map(drop)
    }
}

/// Whether the program serves vhost-user devices itself, but their packets are not visible because
/// `libvernier_vhost.so` is not preloaded. If so, EAL is initialised.
pub fn misses_vhost() -> bool {
    vhost::is_missed()
}

fn slots() -> MutexGuard<'static, Slots> {
    SLOTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks port `id`, if it exists: while the lock is held, DPDK's tables of the port stay valid.
fn there(id: u16) -> Option<MutexGuard<'static, Slots>> {
    let slots = slots();
    let is_gone = slots.get(usize::from(id))?.is_gone;
    (!is_gone && dpdk_sys::vernier_host_is_valid(id) != 0).then_some(slots)
}

/// Locks `port`, if the number still belongs to it.
fn still(port: &HostPort) -> Option<MutexGuard<'static, Slots>> {
    there(port.id).filter(|slots| slots[usize::from(port.id)].lives == port.life)
}

fn is_started(id: u16) -> bool {
    dpdk_sys::vernier_host_is_started(id) != 0
}

impl Seen {
    /// Reads a started port; `None` if it is stopped meanwhile. Call this with the lock held.
    fn look(id: u16, before: Option<Self>) -> Option<Self> {
        let mut seen = before.unwrap_or(Self {
            name: [0; NAME_BYTES],
            rx_queues: 0,
            tx_queues: 0,
        });
        let (rx, tx) = (&raw mut seen.rx_queues, &raw mut seen.tx_queues);
        // SAFETY: the port is valid, hence below RTE_MAX_ETHPORTS, and its name is in DPDK's table until
        // the callback for DESTROY returns, which waits for the lock; there is room for a name.
        unsafe {
            if before.is_none() {
                Errno::check(dpdk_sys::vernier_host_name(id, seen.name.as_mut_ptr())).ok()?;
            }
            Errno::check(dpdk_sys::vernier_host_queues(id, rx, tx)).ok()?;
        }
        // The values read may be those of a stopped port, which has no queues.
        is_started(id).then_some(seen)
    }
}

/// Called by DPDK on changes of a port, on a thread of the program. It waits at most for one reading of a port; reports
/// of links never wait.
extern "C" fn changed(id: u16, change: c_int) {
    let index = usize::from(id);
    // In a forked child the lock may stay locked for ever.
    let (true, Some(signs)) = (is_at_work(), SIGNS.get(index)) else {
        return;
    };
    let link = match change {
        dpdk_sys::HOST_LINK_UP => Signs::LINK_UP,
        dpdk_sys::HOST_LINK_DOWN => Signs::LINK_DOWN,
        _ => Signs::LINK_UNKNOWN,
    };
    signs.link.store(link, Ordering::Relaxed);
    if link == Signs::LINK_UNKNOWN {
        let slot = &mut slots()[index];
        *slot = Slot {
            lives: slot.lives.wrapping_add(1),
            is_gone: change == dpdk_sys::HOST_GOES,
            ..Slot::EMPTY
        };
    }
}

/// Reads the device behind a port; the calling thread must be polling one of its queues.
#[cold]
fn ask(id: u16, signs: &Signs) {
    let mut slots = match SLOTS.try_lock() {
        Ok(slots) => slots,
        Err(TryLockError::Poisoned(error)) => error.into_inner(),
        // The program must not wait; try again at the next poll.
        Err(TryLockError::WouldBlock) => return,
    };
    signs.is_device_wanted.store(false, Ordering::Relaxed);
    let mut device = MaybeUninit::uninit();
    // SAFETY: a callback of this port runs in the calling thread, within rte_eth_rx_burst or rte_eth_tx_burst: the
    // program must not stop or close the port before they return (rte_ethdev.h), so its driver exists; on success all
    // fields are written.
    let device = unsafe {
        let rc = dpdk_sys::vernier_host_device(id, device.as_mut_ptr());
        Errno::check(rc).is_ok().then(|| device.assume_init())
    };
    if let Some(slot) = slots.get_mut(usize::from(id)) {
        // A driver that fails to answer is not asked again.
        slot.device = device.or(Some(dpdk_sys::HostDevice {
            driver: [0; NAME_BYTES],
            interface: 0,
        }));
    }
}

extern "C" fn received<T: Tap>(
    port: u16,
    _queue: u16,
    mbufs: *mut *mut rte_mbuf,
    count: u16,
    _room: u16,
    tap: *mut c_void,
) -> u16 {
    // SAFETY: DPDK passes the pointer given to it in tap_received.
    unsafe { pass::<T>(port, mbufs, count, tap) };
    count
}

extern "C" fn offered<T: Tap>(
    port: u16,
    _queue: u16,
    mbufs: *mut *mut rte_mbuf,
    count: u16,
    tap: *mut c_void,
) -> u16 {
    // SAFETY: DPDK passes the pointer given to it in tap_sent.
    unsafe { pass::<T>(port, mbufs, count, tap) };
    count
}

/// # Safety
/// `tap` is a `T` that lives for ever, `mbufs` are `count` packets owned by the calling thread, and the thread is
/// within a burst of `port`.
#[inline]
unsafe fn pass<T: Tap>(port: u16, mbufs: *mut *mut rte_mbuf, count: u16, tap: *mut c_void) {
    if let Some(signs) = SIGNS.get(usize::from(port))
        && signs.is_device_wanted.load(Ordering::Relaxed)
    {
        guarded(|| ask(port, signs));
    }
    // DPDK also calls back for empty bursts.
    if count == 0 {
        return;
    }
    // SAFETY: guaranteed by the caller. PassingMbuf is a transparent pointer to a packet, none of the pointers is NULL
    // (rte_ethdev.h), and the borrowed packets are not dropped.
    let (tap, burst) = unsafe {
        let burst = slice::from_raw_parts_mut(mbufs.cast::<PassingMbuf<'_>>(), usize::from(count));
        (&*tap.cast::<T>(), burst)
    };
    guarded(|| tap.pass(burst));
}
