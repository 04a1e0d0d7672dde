//! Synchronisation primitives: atomics, the lock of the published snapshot, and rings with one writer and one
//! reader.
//!
//! They come from the standard library, `parking_lot` and `rtrb`. With the feature `loom` (`make loom`) they are
//! models: loom runs `tests/orderings.rs` in every order in which threads can interleave and see each other's
//! writes, up to a number of preemptions. The rings are then our own safe Rust (`ring.rs`), and promise no more
//! than `rtrb` documents, so the tests check our use of them. `rtrb` itself is tested by its authors.

#[cfg(not(feature = "loom"))]
mod real {
    pub use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

    pub use parking_lot::RwLock;
    pub use rtrb::{Consumer, Producer, PushError, RingBuffer};
}

#[cfg(not(feature = "loom"))]
pub use real::*;

#[cfg(feature = "loom")]
mod ring;

#[cfg(feature = "loom")]
#[expect(missing_docs, reason = "the calls are those of parking_lot")]
mod modelled {
    pub use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

    pub use super::ring::{Consumer, Producer, RingBuffer};
    pub use rtrb::PushError;

    /// loom's lock, with the interface of `parking_lot`'s.
    #[derive(Debug)]
    pub struct RwLock<T>(loom::sync::RwLock<T>);

    impl<T> RwLock<T> {
        pub fn new(value: T) -> Self {
            Self(loom::sync::RwLock::new(value))
        }

        pub fn read(&self) -> loom::sync::RwLockReadGuard<'_, T> {
            self.0
                .read()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
        }

        pub fn write(&self) -> loom::sync::RwLockWriteGuard<'_, T> {
            self.0
                .write()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }
}

#[cfg(feature = "loom")]
pub use modelled::*;

/// The end of a circulation that takes empty items and returns full ones.
#[derive(Debug)]
pub(crate) struct Filler<F, E> {
    pub full: Producer<F>,
    pub empty: Consumer<E>,
}

/// The end of a circulation that takes full items and returns empty ones.
#[derive(Debug)]
pub(crate) struct Emptier<F, E> {
    pub full: Consumer<F>,
    pub empty: Producer<E>,
}

/// Makes both ends of a circulation of `number` items, which all start at the filler.
pub(crate) fn circulate<F, E>(
    number: usize,
    make: impl FnMut() -> E,
) -> (Filler<F, E>, Emptier<F, E>) {
    let (full_in, full_out) = RingBuffer::new(number);
    let (mut empty_in, empty_out) = RingBuffer::new(number);
    for item in std::iter::repeat_with(make).take(number) {
        put(&mut empty_in, item);
    }
    let filler = Filler {
        full: full_in,
        empty: empty_out,
    };
    let emptier = Emptier {
        full: full_out,
        empty: empty_in,
    };
    (filler, emptier)
}

/// Puts an item into a ring with room for all circulating items.
pub(crate) fn put<T>(ring: &mut Producer<T>, item: T) {
    let is_put = ring.push(item).is_ok();
    debug_assert!(is_put, "the ring has room for all that circulate");
}
