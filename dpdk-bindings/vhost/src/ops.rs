//! The program's callbacks for added and removed devices, with ours around them.
//!
//! `librte_vhost` passes the device's number to a callback, but not the table that the callback belongs to. So each
//! table of a program gets functions of its own; programs have one, or few.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::{came, went};

/// `struct rte_vhost_device_ops` (`rte_vhost.h`). Fields after the first two are only copied.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct DeviceOps {
    new_device: Option<unsafe extern "C" fn(c_int) -> c_int>,
    destroy_device: Option<unsafe extern "C" fn(c_int)>,
    others: [*mut c_void; 6],
}

/// Most tables of callbacks of a program; devices of further tables are not measured.
const TABLES: usize = 4;

/// The program's tables.
static THEIRS: [AtomicPtr<DeviceOps>; TABLES] = [const { AtomicPtr::new(ptr::null_mut()) }; TABLES];

/// Our tables, which `librte_vhost` gets in their place.
static MADE: [AtomicPtr<DeviceOps>; TABLES] = [const { AtomicPtr::new(ptr::null_mut()) }; TABLES];

/// Held while a table is added.
static ADDING: Mutex<()> = Mutex::new(());

type Functions = (
    unsafe extern "C" fn(c_int) -> c_int,
    unsafe extern "C" fn(c_int),
);

const OURS: [Functions; TABLES] = [
    (new_device::<0>, destroy_device::<0>),
    (new_device::<1>, destroy_device::<1>),
    (new_device::<2>, destroy_device::<2>),
    (new_device::<3>, destroy_device::<3>),
];

/// Returns a table that calls the program's functions, and ours around them; or the program's own table if there is
/// no room, or it has no such functions.
///
/// # Safety
/// `theirs` is NULL, or a table that stays as long as it is registered for some socket.
pub unsafe fn ours(theirs: *const DeviceOps) -> *const DeviceOps {
    // SAFETY: the caller's word.
    let Some(&table) = (unsafe { theirs.as_ref() }) else {
        return theirs;
    };
    if table.new_device.is_none() || table.destroy_device.is_none() {
        return theirs;
    }
    let _adding = ADDING.lock();
    let same_or_free = |known: &AtomicPtr<DeviceOps>| {
        let known = known.load(Ordering::Relaxed);
        known.is_null() || ptr::eq(known, theirs)
    };
    let Some(n) = THEIRS.iter().position(same_or_free) else {
        return theirs;
    };
    THEIRS[n].store(theirs.cast_mut(), Ordering::Release);
    let made = MADE[n].load(Ordering::Relaxed);
    // SAFETY: made below, and never freed: librte_vhost keeps pointers to it.
    if unsafe { made.as_ref() }.is_some_and(|made| made.others == table.others) {
        return made;
    }
    let made = Box::into_raw(Box::new(DeviceOps {
        new_device: Some(OURS[n].0),
        destroy_device: Some(OURS[n].1),
        others: table.others,
    }));
    MADE[n].store(made, Ordering::Relaxed);
    made
}

/// A registered table of the program.
fn theirs<const TABLE: usize>() -> Option<DeviceOps> {
    let table = THEIRS[TABLE].load(Ordering::Acquire);
    // SAFETY: librte_vhost calls back for a socket for which this table is registered: it is there.
    unsafe { table.as_ref() }.copied()
}

unsafe extern "C" fn new_device<const TABLE: usize>(device: c_int) -> c_int {
    came(device);
    let theirs = theirs::<TABLE>().and_then(|theirs| theirs.new_device);
    // SAFETY: the program's function, called as librte_vhost would call it.
    let taken = theirs.map_or(-1, |new_device| unsafe { new_device(device) });
    if taken != 0 {
        went(device);
    }
    taken
}

unsafe extern "C" fn destroy_device<const TABLE: usize>(device: c_int) {
    if let Some(destroy_device) = theirs::<TABLE>().and_then(|theirs| theirs.destroy_device) {
        // SAFETY: as above.
        unsafe { destroy_device(device) };
    }
    went(device);
}
