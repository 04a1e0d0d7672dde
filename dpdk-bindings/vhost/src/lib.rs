//! `libvernier_vhost.so`: shows the plugin the packets of vhost-user ports that a program serves itself.
//!
//! Open vSwitch moves the packets of its virtual machines by `rte_vhost_dequeue_burst` and `rte_vhost_enqueue_burst`.
//! These ports are not ethdevs, so DPDK has no callbacks for them. Therefore this object is preloaded (`LD_PRELOAD`),
//! and its functions take the place of DPDK's:
//!
//! ```text
//!  program ── rte_vhost_dequeue_burst ──► here ──► librte_vhost, then dequeued ──► the plugin
//!          ── rte_vhost_enqueue_burst ──► here ──► librte_vhost, then enqueued ──► the plugin
//!  librte_vhost ── new_device, destroy_device ──► here: came, went; and the program's own callback
//! ```
//!
//! Without the plugin, a burst costs a load and a branch more, and the callbacks a call. The object needs no library
//! of DPDK, and runs nothing when loaded: a shell script with the same environment is not disturbed.
//!
//! It is not for DPDK drivers that use `librte_vhost` (`net_vhost`), whose ports DPDK itself shows to the plugin: if
//! only such a driver has loaded that library, nothing is shown.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use hooks::Hooks;
use ops::DeviceOps;

pub mod hooks;
mod ops;

// dlfcn.h of Linux's C libraries.
unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
}
const RTLD_NEXT: *mut c_void = ptr::without_provenance_mut(usize::MAX);
const RTLD_LAZY: c_int = 1;
const RTLD_NOLOAD: c_int = 4;

/// The library's names, by release of DPDK: 22.11, 23.11, 24.11, 25.11.
const LIBRARIES: [&CStr; 4] = [
    c"librte_vhost.so.23",
    c"librte_vhost.so.24",
    c"librte_vhost.so.25",
    c"librte_vhost.so.26",
];

/// Bytes of a socket's path with its NUL: `sizeof(sockaddr_un::sun_path)` and more.
const PATH_BYTES: usize = 128;

/// The plugin, once it is loaded.
static HOOKS: AtomicPtr<Hooks> = AtomicPtr::new(ptr::null_mut());

/// A function of `librte_vhost`, resolved when first called.
struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            found: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Its address, NULL if there is none.
    #[inline]
    fn get(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Relaxed);
        if found.is_null() { self.find() } else { found }
    }

    #[cold]
    fn find(&self) -> *mut c_void {
        let found = match self.of_program() {
            next if next.is_null() => self.of_driver(),
            next => next,
        };
        self.found.store(found, Ordering::Relaxed);
        found
    }

    /// The address in the library that the program is linked with.
    fn of_program(&self) -> *mut c_void {
        // SAFETY: the name is NUL-terminated.
        unsafe { dlsym(RTLD_NEXT, self.name.as_ptr()) }
    }

    /// The address in a library that a driver has loaded.
    fn of_driver(&self) -> *mut c_void {
        let loaded = |library: &CStr| {
            // SAFETY: the name is NUL-terminated; nothing is loaded that is not there, and what is there stays.
            let library = unsafe { dlopen(library.as_ptr(), RTLD_LAZY | RTLD_NOLOAD) };
            (!library.is_null()).then_some(library)
        };
        let library = LIBRARIES.iter().find_map(|library| loaded(library));
        library.map_or(ptr::null_mut(), |library| {
            // SAFETY: the handle is open, the name NUL-terminated.
            unsafe { dlsym(library, self.name.as_ptr()) }
        })
    }
}

// The types are those of rte_vhost.h, in every release since 20.11.
type Dequeue = unsafe extern "C" fn(c_int, u16, *mut c_void, *mut *mut c_void, u16) -> u16;
type Enqueue = unsafe extern "C" fn(c_int, u16, *mut *mut c_void, u16) -> u16;
type Register = unsafe extern "C" fn(*const c_char, *const DeviceOps) -> c_int;
type SocketName = unsafe extern "C" fn(c_int, *mut c_char, usize) -> c_int;
type RingCount = unsafe extern "C" fn(c_int) -> u16;

static DEQUEUE: Next = Next::new(c"rte_vhost_dequeue_burst");
static ENQUEUE: Next = Next::new(c"rte_vhost_enqueue_burst");
static REGISTER: Next = Next::new(c"rte_vhost_driver_callback_register");
static SOCKET_NAME: Next = Next::new(c"rte_vhost_get_ifname");
static RING_COUNT: Next = Next::new(c"rte_vhost_get_vring_num");

#[inline]
fn hooks() -> Option<&'static Hooks> {
    let hooks = HOOKS.load(Ordering::Acquire);
    // SAFETY: who attached them keeps them for as long as the process lives.
    unsafe { hooks.as_ref() }
}

/// See [`hooks::Attach`], whose name this has.
///
/// # Safety
/// The hooks live as long as the process, and keep what [`Hooks`] says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vernier_vhost_attach_1(hooks: *const Hooks) -> c_int {
    let is_programs = !DEQUEUE.of_program().is_null();
    if is_programs {
        HOOKS.store(hooks.cast_mut(), Ordering::Release);
    }
    c_int::from(is_programs)
}

/// Replaces the function of `librte_vhost`.
///
/// # Safety
/// As of `librte_vhost`'s (`rte_vhost.h`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rte_vhost_dequeue_burst(
    device: c_int,
    ring: u16,
    pool: *mut c_void,
    packets: *mut *mut c_void,
    room: u16,
) -> u16 {
    let next = DEQUEUE.get();
    if next.is_null() {
        return 0;
    }
    // SAFETY: the function of that name has this type; the arguments are the caller's, and so is its word for them. It has
    // written `count` packets.
    unsafe {
        let count = transmute::<*mut c_void, Dequeue>(next)(device, ring, pool, packets, room);
        if count > 0
            && let Some(hooks) = hooks()
        {
            (hooks.dequeued)(device, ring, packets, count);
        }
        count
    }
}

/// Replaces the function of `librte_vhost`.
///
/// # Safety
/// As of `librte_vhost`'s (`rte_vhost.h`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rte_vhost_enqueue_burst(
    device: c_int,
    ring: u16,
    packets: *mut *mut c_void,
    offered: u16,
) -> u16 {
    let next = ENQUEUE.get();
    if next.is_null() {
        return 0;
    }
    // SAFETY: as above. The packets are copied to the guest, and stay the caller's.
    unsafe {
        let next = transmute::<*mut c_void, Enqueue>(next);
        let Some(hooks) = hooks() else {
            return next(device, ring, packets, offered);
        };
        let now = (hooks.now)();
        let count = next(device, ring, packets, offered);
        if offered > 0 {
            let refused = offered.saturating_sub(count);
            (hooks.enqueued)(device, ring, packets, count, refused, now);
        }
        count
    }
}

/// Replaces the function of `librte_vhost`, so that the plugin is notified of devices, too.
///
/// # Safety
/// As of `librte_vhost`'s (`rte_vhost.h`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rte_vhost_driver_callback_register(
    socket: *const c_char,
    theirs: *const DeviceOps,
) -> c_int {
    let next = REGISTER.get();
    if next.is_null() {
        return -1;
    }
    // SAFETY: the function of that name has this type; the callbacks are the caller's for as long as it has that socket, or
    // ours, which call the caller's.
    unsafe { transmute::<*mut c_void, Register>(next)(socket, ops::ours(theirs)) }
}

/// A device is about to be passed to the program.
fn came(device: c_int) {
    let (name, rings) = (SOCKET_NAME.get(), RING_COUNT.get());
    let Some(hooks) = hooks().filter(|_| !name.is_null() && !rings.is_null()) else {
        return;
    };
    let mut path = [0; PATH_BYTES];
    // SAFETY: functions of these names have these types; the device is there, since this is within its new_device; the path
    // is written with its NUL, and read before this returns.
    unsafe {
        if transmute::<*mut c_void, SocketName>(name)(device, path.as_mut_ptr(), PATH_BYTES - 1)
            == 0
        {
            let rings = transmute::<*mut c_void, RingCount>(rings)(device);
            (hooks.came)(device, path.as_ptr(), rings);
        }
    }
}

/// The program has released a device.
fn went(device: c_int) {
    if let Some(hooks) = hooks() {
        (hooks.went)(device);
    }
}
