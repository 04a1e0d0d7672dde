//! Vhost-user devices that a program serves itself (`rte_vhost_dequeue_burst`), as Open vSwitch does: ports for us, but
//! not for ethdev. The preloaded object (`libvernier_vhost.so`, `dpdk-bindings/vhost`) calls the functions of this
//! module, on the program's threads:
//!
//! | when | what |
//! |---|---|
//! | within `new_device` | the device is added; packets of its number are no longer shown to the taps |
//! | after a burst | the tap of the queue sees the packets, once the control core has [enabled](show) the device |
//! | after `destroy_device` | the device is removed |
//!
//! `librte_vhost` reuses the number of a removed device for the next one. So a number keeps its taps for the life of
//! the process, like a port number of ethdev, and they see no packets until each has been assigned its new port.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs;
use std::mem::transmute;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU16, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dpdk_sys::vhost::{ATTACH, Attach, Hooks};

use crate::error::Errno;
use crate::host::{PassingMbuf, Tap};
use crate::plugin::{self, Level, guarded};
use crate::tsc;

use super::{HostPort, PORTS};

/// End of the device numbers that are measured; those of `librte_vhost` end at 1,024.
const DEVICES: usize = 256;

/// Largest number of queues of a device in each direction (`VHOST_MAX_QUEUE_PAIRS`).
const QUEUES: usize = 128;

/// Names of the thread with which `librte_vhost` serves its sockets, up to DPDK 23.07 and since. It exists once the
/// program has a socket.
const EVENTS: [&str; 2] = ["vhost-events", "dpdk-vhost-evt"];

/// Direction of a queue's packets, from the program's point of view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the guest.
    Received,
    /// To the guest.
    Sent,
}

/// State of a device.
#[derive(Debug)]
struct Device {
    /// Incremented whenever a device gets or loses this number.
    lives: u32,
    is_there: bool,
    socket: String,
}

/// State of a device that the program's threads read, by its number.
struct Signs {
    /// Whether its taps have been assigned their port.
    is_shown: AtomicBool,
    /// Queues in each direction.
    queues: AtomicU16,
    /// A pointer to the queue's tap, NULL if there is none.
    taps: [[AtomicPtr<&'static dyn Tap>; QUEUES]; 2],
}

static KNOWN: Mutex<[Device; DEVICES]> = Mutex::new([const { Device::NONE }; DEVICES]);
static SIGNS: [Signs; DEVICES] = [const { Signs::new() }; DEVICES];
static IS_USED: AtomicBool = AtomicBool::new(false);
static IS_ATTACHED: AtomicBool = AtomicBool::new(false);
/// Whether devices with greater numbers have been logged.
static IS_FULL: AtomicBool = AtomicBool::new(false);

static HOOKS: Hooks = Hooks {
    came,
    went,
    dequeued,
    now,
    enqueued,
};

impl Device {
    const NONE: Self = Self {
        lives: 0,
        is_there: false,
        socket: String::new(),
    };

    fn is(&self, port: &HostPort) -> bool {
        self.is_there && self.lives == port.life
    }
}

impl Signs {
    const fn new() -> Self {
        Self {
            is_shown: AtomicBool::new(false),
            queues: AtomicU16::new(0),
            taps: [const { [const { AtomicPtr::new(ptr::null_mut()) }; QUEUES] }; 2],
        }
    }

    /// Returns the tap of a ring if its packets are shown.
    #[inline]
    fn tap(&self, direction: Direction, ring: u16) -> Option<&'static dyn Tap> {
        if !self.is_shown.load(Ordering::Acquire) {
            return None;
        }
        let queue = ring / 2;
        let tap = self.taps[direction as usize].get(usize::from(queue))?;
        // SAFETY: NULL, or leaked by tap().
        let tap = unsafe { tap.load(Ordering::Acquire).as_ref() };
        if tap.is_none() {
            // The guest has enabled more queues since the device was added.
            self.queues.fetch_max(queue + 1, Ordering::Relaxed);
        }
        tap.copied()
    }
}

/// Registers this module with the preloaded object, if there is one. [`plugin!`](crate::plugin!) calls this when the
/// plugin is loaded.
pub fn attach() {
    // SAFETY: the name is NUL-terminated.
    let attach = unsafe { dpdk_sys::vernier_host_symbol(ATTACH.as_ptr()) };
    if !attach.is_null() {
        // SAFETY: the function of that name has this type; the hooks are static, and this object is never unloaded.
        let is_attached = unsafe { transmute::<*mut c_void, Attach>(attach)(&raw const HOOKS) };
        IS_ATTACHED.store(is_attached != 0, Ordering::Relaxed);
    }
}

/// Whether the program has served a device.
pub(super) fn is_used() -> bool {
    IS_USED.load(Ordering::Relaxed)
}

/// Whether the program serves devices whose packets are not visible.
pub(super) fn is_missed() -> bool {
    if IS_ATTACHED.load(Ordering::Relaxed) {
        return false;
    }
    // SAFETY: the name is NUL-terminated. If only a driver uses librte_vhost, the program has no such function.
    let dequeue = unsafe { dpdk_sys::vernier_host_symbol(c"rte_vhost_dequeue_burst".as_ptr()) };
    !dequeue.is_null()
        && fs::read_dir("/proc/self/task").is_ok_and(|mut threads| {
            threads.any(|thread| {
                let name = thread.and_then(|thread| fs::read_to_string(thread.path().join("comm")));
                name.is_ok_and(|name| EVENTS.contains(&name.trim_end()))
            })
        })
}

/// The existing devices.
pub(super) fn ports() -> impl Iterator<Item = HostPort> {
    let known = known();
    let there = known.iter().zip(&SIGNS).zip(PORTS..);
    let there = there.filter(|((device, _), _)| device.is_there);
    let ports: Vec<_> = there
        .map(|((device, signs), id)| {
            let queues = signs.queues.load(Ordering::Relaxed);
            HostPort {
                id,
                life: device.lives,
                name: device.socket.clone(),
                rx_queues: queues,
                tx_queues: queues,
            }
        })
        .collect();
    ports.into_iter()
}

/// Whether a number still belongs to the same device.
pub(super) fn is_there(port: &HostPort) -> bool {
    number(port).is_some_and(|number| known()[number].is(port))
}

/// Shows all packets of a queue of the device with this number to `tap`, for as long as the process lives, while the
/// device is [enabled](show).
pub(super) fn tap<T: Tap>(
    port: &HostPort,
    direction: Direction,
    queue: u16,
    tap: &'static T,
) -> Result<(), Errno> {
    let number = number(port).filter(|&number| known()[number].is(port));
    let taps = &SIGNS[number.ok_or(Errno::ENODEV)?].taps[direction as usize];
    let slot = taps.get(usize::from(queue)).ok_or(Errno::EINVAL)?;
    let tap: &'static dyn Tap = tap;
    slot.store(Box::into_raw(Box::new(tap)), Ordering::Release);
    Ok(())
}

/// Starts to show packets of a device to the taps of its number, if the number still belongs to it.
pub(super) fn show(port: &HostPort) {
    if let Some(number) = number(port) {
        let known = known();
        if known[number].is(port) {
            // With the lock held, no other device is added meanwhile.
            SIGNS[number].is_shown.store(true, Ordering::Release);
        }
    }
}

/// vhost's number of a port.
fn number(port: &HostPort) -> Option<usize> {
    port.id.checked_sub(PORTS).map(usize::from)
}

fn known() -> MutexGuard<'static, [Device; DEVICES]> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn index(device: c_int) -> Option<usize> {
    let index = usize::try_from(device).ok();
    index.filter(|&index| index < DEVICES)
}

/// Notes that a number now belongs to another device, or to none.
fn changed(device: c_int, socket: Option<String>, queues: u16) {
    let Some(index) = index(device) else {
        if socket.is_some() && !IS_FULL.swap(true, Ordering::Relaxed) {
            let why = format!("vhost-user devices with numbers from {DEVICES} on are not measured");
            plugin::log(Level::Warning, &why);
        }
        return;
    };
    let mut known = known();
    let signs = &SIGNS[index];
    signs.is_shown.store(false, Ordering::Relaxed);
    signs.queues.store(queues, Ordering::Relaxed);
    known[index] = Device {
        lives: known[index].lives.wrapping_add(1),
        is_there: socket.is_some(),
        socket: socket.unwrap_or_default(),
    };
    IS_USED.store(true, Ordering::Relaxed);
}

/// # Safety
/// `socket` is NUL-terminated.
unsafe extern "C" fn came(device: c_int, socket: *const c_char, rings: u16) {
    // SAFETY: the caller's word.
    let socket = unsafe { CStr::from_ptr(socket) };
    guarded(|| {
        changed(
            device,
            Some(socket.to_string_lossy().into_owned()),
            rings / 2,
        );
    });
}

extern "C" fn went(device: c_int) {
    guarded(|| changed(device, None, 0));
}

extern "C" fn now() -> u64 {
    tsc::now()
}

/// # Safety
/// `packets` are `count` mbufs that the calling thread owns.
unsafe extern "C" fn dequeued(device: c_int, ring: u16, packets: *mut *mut c_void, count: u16) {
    if let Some(tap) = tap_of(device, Direction::Received, ring) {
        // SAFETY: the caller's word; PassingMbuf is a transparent pointer, and what is borrowed here is not dropped.
        let burst = unsafe {
            slice::from_raw_parts_mut(packets.cast::<PassingMbuf<'_>>(), usize::from(count))
        };
        guarded(|| tap.pass(burst));
    }
}

/// # Safety
/// As of [`dequeued`].
unsafe extern "C" fn enqueued(
    device: c_int,
    ring: u16,
    packets: *mut *mut c_void,
    count: u16,
    refused: u16,
    now: u64,
) {
    if let Some(tap) = tap_of(device, Direction::Sent, ring) {
        // SAFETY: as above.
        let burst = unsafe {
            slice::from_raw_parts_mut(packets.cast::<PassingMbuf<'_>>(), usize::from(count))
        };
        guarded(|| tap.taken(burst, usize::from(refused), now));
    }
}

#[inline]
fn tap_of(device: c_int, direction: Direction, ring: u16) -> Option<&'static dyn Tap> {
    SIGNS[index(device)?].tap(direction, ring)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Counts packets, and those that were refused.
    #[derive(Debug, Default)]
    struct Count(AtomicUsize, AtomicUsize);

    impl Tap for Count {
        fn pass(&self, burst: &mut [PassingMbuf<'_>]) {
            self.0.fetch_add(burst.len(), Ordering::Relaxed);
        }

        fn taken(&self, burst: &mut [PassingMbuf<'_>], refused: usize, _: u64) {
            self.pass(burst);
            self.1.fetch_add(refused, Ordering::Relaxed);
        }
    }

    fn port(number: u16) -> Option<HostPort> {
        ports().find(|port| port.id == PORTS + number)
    }

    #[test]
    fn a_number_that_another_device_has_now_shows_nothing_before_it_is_said_to_whom() {
        static COUNT: Count = Count(AtomicUsize::new(0), AtomicUsize::new(0));
        let mut mbuf = ptr::NonNull::<c_void>::dangling().as_ptr();
        let burst = &raw mut mbuf;
        // SAFETY: the sockets are NUL-terminated; the tap counts mbufs and does not look at them.
        unsafe {
            came(3, c"/run/a".as_ptr(), 2);
            let first = port(3).unwrap();
            let known = (first.name.as_str(), first.rx_queues, first.tx_queues);
            assert_eq!(known, ("/run/a", 1, 1));
            tap(&first, Direction::Received, 0, &COUNT).unwrap();
            tap(&first, Direction::Sent, 0, &COUNT).unwrap();
            dequeued(3, 1, burst, 1);
            assert_eq!(COUNT.0.load(Ordering::Relaxed), 0, "not shown yet");
            show(&first);
            dequeued(3, 1, burst, 1);
            enqueued(3, 0, burst, 1, 4, 0);
            assert_eq!(COUNT.0.load(Ordering::Relaxed), 2);
            assert_eq!(COUNT.1.load(Ordering::Relaxed), 4);
            // More queues than at first.
            dequeued(3, 5, burst, 1);
            assert_eq!(port(3).unwrap().rx_queues, 3);

            went(3);
            assert!(port(3).is_none() && !is_there(&first));
            came(3, c"/run/b".as_ptr(), 2);
            show(&first);
            dequeued(3, 1, burst, 1);
            assert_eq!(COUNT.0.load(Ordering::Relaxed), 2, "of another device");
            let second = port(3).unwrap();
            assert_eq!((second.name.as_str(), second.rx_queues), ("/run/b", 1));
            show(&second);
            dequeued(3, 1, burst, 1);
            assert_eq!(COUNT.0.load(Ordering::Relaxed), 3);
            assert_eq!(tap(&first, Direction::Sent, 1, &COUNT), Err(Errno::ENODEV));
            assert_eq!(
                tap(&second, Direction::Sent, 128, &COUNT),
                Err(Errno::EINVAL)
            );
            // Beyond what there is room for.
            came(1_000, c"/run/c".as_ptr(), 2);
            dequeued(1_000, 1, burst, 1);
            went(-1);
        }
    }
}
