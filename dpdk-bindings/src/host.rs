//! The ports of a program that is not ours, and its packets on their way.
//!
//! Ports are the program's: it configures, starts, stops and closes them on threads of its own, at any
//! time. DPDK tells when one goes (`RTE_ETH_EVENT_DESTROY`) before it does; until then, and under one
//! lock, it may be asked. Callbacks belong to the place that a port has, not to the port: they outlive
//! it, and serve whatever device gets the place next. So each queue of each place is tapped once.
//!
//! A port is seen from its first start on. Before that its device may be half made: DPDK shows a port
//! before the device has its driver, and reads through that when it is asked.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::num::NonZeroU32;
use std::ptr;
use std::slice;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dpdk_sys::rte_mbuf;

use crate::attach::text;
use crate::error::Errno;
use crate::mbuf::Mbuf;
use crate::plugin::{guarded, is_at_work};
use crate::port::{Link, PortStats};

/// Places for ports in a process (`RTE_MAX_ETHPORTS` is 32 in Debian's DPDK).
const PLACES: usize = 256;

/// Most CPUs of a set (`CPU_SETSIZE`).
const CPUS_MAX: usize = 1024;

/// Sees packets that pass a queue, on the thread that moves them, and only one burst of a queue at a
/// time. It must neither wait nor panic: a panic is caught, and turns the plugin off.
pub trait Tap: Sync {
    /// Packets that a receive queue has given, or that a transmit queue is offered.
    fn pass(&self, burst: &mut [Mbuf<'_>]);
}

/// What is known of the places for ports.
static PLACES_KNOWN: Mutex<[Place; PLACES]> = Mutex::new(
    [Place {
        lives: 0,
        was_started: false,
    }; PLACES],
);

#[derive(Debug, Clone, Copy)]
struct Place {
    /// How often a port has come to this place.
    lives: u32,
    /// The port that is here has been started, and is not going.
    was_started: bool,
}

/// A program that has initialised EAL and has started some port.
#[derive(Debug)]
pub struct Host {
    // Made only by find.
    _found: PhantomData<()>,
}

/// A port of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    /// DPDK's number: its place.
    pub id: u16,
    /// How often a port has come to this place: with the number, what tells two ports apart.
    pub life: u32,
    /// The device's name (`net_pcap0`, `0000:03:00.0`).
    pub name: String,
    /// Its driver.
    pub driver: String,
    /// Receive queues.
    pub rx_queues: u16,
    /// Transmit queues.
    pub tx_queues: u16,
    /// The kernel's index of the network interface behind the device, if there is one.
    pub interface: Option<NonZeroU32>,
}

impl Host {
    /// The program, once it has started a port; `None` before that.
    ///
    /// # Errors
    /// DPDK's, when the program cannot be watched.
    pub fn find() -> Result<Option<Self>, Errno> {
        let host = Self {
            _found: PhantomData,
        };
        if host.ports().is_empty() {
            return Ok(None);
        }
        // SAFETY: a port is there, so EAL is initialised; the function lives as long as the
        // process.
        Errno::check(unsafe { dpdk_sys::vernier_host_watch(changed) })?;
        Ok(Some(host))
    }

    /// Whether this is a secondary process (`rte_eal_process_type`), whose ports are another's.
    pub fn is_secondary(&self) -> bool {
        dpdk_sys::vernier_host_is_secondary() != 0
    }

    /// Ticks of the time stamp counter in a second.
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

    /// The ports that have been started, whether they are now or not.
    pub fn ports(&self) -> Vec<HostPort> {
        let places = 0..u16::try_from(PLACES).unwrap_or(u16::MAX);
        places.filter_map(|id| self.port(id)).collect()
    }

    /// A port, if it is there and has been started.
    pub fn port(&self, id: u16) -> Option<HostPort> {
        let places = place_of(id)?;
        let mut port = MaybeUninit::uninit();
        // SAFETY: the port is there, and stays while the lock is held; on success all is written.
        let port = unsafe {
            Errno::check(dpdk_sys::vernier_host_port(id, port.as_mut_ptr())).ok()?;
            port.assume_init()
        };
        Some(HostPort {
            id,
            life: places[usize::from(id)].lives,
            name: text(&port.device),
            driver: text(&port.driver),
            rx_queues: port.rx_queues,
            tx_queues: port.tx_queues,
            interface: NonZeroU32::new(port.interface),
        })
    }

    /// A port's counters; `None` if it has gone, or does not count.
    pub fn stats(&self, port: &HostPort) -> Option<PortStats> {
        let _there = still(port)?;
        PortStats::read(port.id)
    }

    /// A port's link, as [`Port::link`](crate::Port::link) has it; `None` if it has gone, or is stopped.
    pub fn link(&self, port: &HostPort) -> Option<Link> {
        let _there = still(port)?;
        let is_started = dpdk_sys::vernier_host_is_started(port.id) != 0;
        is_started.then(|| Link::read(port.id, port.interface))
    }

    /// Shows `tap` all that receive queue `queue` gives from now on, for as long as the process lives
    /// (`rte_eth_add_rx_callback`).
    ///
    /// # Errors
    /// DPDK's: no such queue, no memory; [`Errno::ENODEV`] if the port has gone.
    pub fn tap_received<T: Tap>(
        &self,
        port: &HostPort,
        queue: u16,
        tap: &'static T,
    ) -> Result<(), Errno> {
        let _there = still(port).ok_or(Errno::ENODEV)?;
        let param = ptr::from_ref(tap).cast_mut().cast();
        // SAFETY: the port is there; the tap is never dropped, and received::<T> takes it for what it
        // is. It is only ever shared.
        let rc = unsafe { dpdk_sys::vernier_host_tap_rx(port.id, queue, received::<T>, param) };
        Errno::check(rc).map(drop)
    }

    /// Shows `tap` all that transmit queue `queue` is offered from now on, for as long as the process
    /// lives (`rte_eth_add_tx_callback`).
    ///
    /// # Errors
    /// As for [`tap_received`](Self::tap_received).
    pub fn tap_sent<T: Tap>(
        &self,
        port: &HostPort,
        queue: u16,
        tap: &'static T,
    ) -> Result<(), Errno> {
        let _there = still(port).ok_or(Errno::ENODEV)?;
        let param = ptr::from_ref(tap).cast_mut().cast();
        // SAFETY: as in tap_received.
        let rc = unsafe { dpdk_sys::vernier_host_tap_tx(port.id, queue, offered::<T>, param) };
        Errno::check(rc).map(drop)
    }
}

type Places = MutexGuard<'static, [Place; PLACES]>;

fn places() -> Places {
    PLACES_KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lock under which the port in place `id` stays, if there is one.
fn place_of(id: u16) -> Option<Places> {
    let mut places = places();
    let place = places.get_mut(usize::from(id))?;
    place.was_started |= dpdk_sys::vernier_host_is_started(id) != 0;
    let is_there = place.was_started && dpdk_sys::vernier_host_is_valid(id) != 0;
    is_there.then_some(places)
}

/// The lock under which `port` stays, if it is still the same.
fn still(port: &HostPort) -> Option<Places> {
    place_of(port.id).filter(|places| places[usize::from(port.id)].lives == port.life)
}

/// DPDK tells of a port that has come, or that is stopped and about to go, on the program's own thread.
/// That waits at most for the calls that one look at a port takes.
extern "C" fn changed(id: u16, _is_new: c_int) {
    // In a child of fork nobody would ever open the lock.
    if !is_at_work() {
        return;
    }
    if let Some(place) = places().get_mut(usize::from(id)) {
        place.was_started = false;
        place.lives = place.lives.wrapping_add(1);
    }
}

extern "C" fn received<T: Tap>(
    _port: u16,
    _queue: u16,
    mbufs: *mut *mut rte_mbuf,
    count: u16,
    _room: u16,
    tap: *mut c_void,
) -> u16 {
    // SAFETY: DPDK hands on what it got in tap_received.
    unsafe { pass::<T>(mbufs, count, tap) };
    count
}

extern "C" fn offered<T: Tap>(
    _port: u16,
    _queue: u16,
    mbufs: *mut *mut rte_mbuf,
    count: u16,
    tap: *mut c_void,
) -> u16 {
    // SAFETY: DPDK hands on what it got in tap_sent.
    unsafe { pass::<T>(mbufs, count, tap) };
    count
}

/// # Safety
/// `tap` is a `T` that lives for ever; `mbufs` are `count` packets that the calling thread owns.
#[inline]
unsafe fn pass<T: Tap>(mbufs: *mut *mut rte_mbuf, count: u16, tap: *mut c_void) {
    // DPDK calls for empty bursts, too.
    if count == 0 {
        return;
    }
    // SAFETY: the caller's word. Mbuf is a transparent pointer to a packet, and none of them is NULL
    // (rte_ethdev.h); what is borrowed here is not dropped.
    let (tap, burst) = unsafe {
        let burst = slice::from_raw_parts_mut(mbufs.cast::<Mbuf<'_>>(), usize::from(count));
        (&*tap.cast::<T>(), burst)
    };
    guarded(|| tap.pass(burst));
}
