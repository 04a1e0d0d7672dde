//! Functions that the preloaded object calls and the plugin provides. Both compile this file.

use std::ffi::{c_char, c_int, c_void};

/// Registers the [`Hooks`] with the preloaded object, for the life of the process; returns whether it accepted them,
/// 0 or 1. Its name ends in a number that changes with [`Hooks`].
pub type Attach = unsafe extern "C" fn(hooks: *const Hooks) -> c_int;

/// The name of [`Attach`].
pub const ATTACH: &std::ffi::CStr = c"vernier_vhost_attach_1";

/// Events of the program's vhost-user devices, on the program's threads. `ring` is vhost's number of a queue: 2n + 1
/// for packets that the guest sends by its queue n, 2n for those it receives.
#[derive(Debug)]
#[repr(C)]
pub struct Hooks {
    /// A device is about to be passed to the program (`new_device`): its number, its socket, its rings.
    pub came: unsafe extern "C" fn(device: c_int, socket: *const c_char, rings: u16),
    /// The program has released a device (`destroy_device`).
    pub went: extern "C" fn(device: c_int),
    /// `count` packets were taken from a ring.
    pub dequeued:
        unsafe extern "C" fn(device: c_int, ring: u16, packets: *mut *mut c_void, count: u16),
    /// The time stamp counter.
    pub now: extern "C" fn() -> u64,
    /// A ring that was offered packets at `now` accepted `count`, and refused this many behind them.
    pub enqueued: unsafe extern "C" fn(
        device: c_int,
        ring: u16,
        packets: *mut *mut c_void,
        count: u16,
        refused: u16,
        now: u64,
    ),
}
