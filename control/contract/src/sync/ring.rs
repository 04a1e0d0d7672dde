//! A ring with one writer and one reader, as loom sees it.
//!
//! The model does not include where an item is stored: items are behind plain locks, which loom does not see
//! and which order nothing for it. `tail` publishes an item, `head` a free slot, and `is_abandoned` the end of
//! the other side; these are loom's. Reading `is_abandoned` orders nothing by itself, because `rtrb` does not
//! document that it does.
#![expect(missing_docs, reason = "the calls are those of rtrb")]

use std::cell::OnceCell;
use std::sync::{Arc, Mutex, PoisonError};

use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use rtrb::PushError;

/// Makes rings.
pub struct RingBuffer<T>(std::marker::PhantomData<T>);

#[derive(Debug)]
struct Shared<T> {
    slots: Vec<Mutex<Option<T>>>,
    head: AtomicUsize,
    tail: AtomicUsize,
    is_abandoned: AtomicBool,
}

/// The writer's end.
#[derive(Debug)]
pub struct Producer<T>(Arc<Shared<T>>);

/// The reader's end.
#[derive(Debug)]
pub struct Consumer<T> {
    shared: Arc<Shared<T>>,
    /// An item that was peeked at and not taken yet.
    front: OnceCell<T>,
}

/// The ring is empty, or full.
#[derive(Debug)]
pub struct Unready;

impl<T> RingBuffer<T> {
    pub fn new(capacity: usize) -> (Producer<T>, Consumer<T>) {
        let shared = Arc::new(Shared {
            slots: (0..capacity).map(|_| Mutex::new(None)).collect(),
            head: AtomicUsize::new(0),
            tail: AtomicUsize::new(0),
            is_abandoned: AtomicBool::new(false),
        });
        let consumer = Consumer {
            shared: Arc::clone(&shared),
            front: OnceCell::new(),
        };
        (Producer(shared), consumer)
    }
}

impl<T> Shared<T> {
    /// The item's slot; none in a ring without room.
    fn slot(&self, number: usize) -> Option<std::sync::MutexGuard<'_, Option<T>>> {
        let index = number.checked_rem(self.slots.len())?;
        let slot = self.slots.get(index)?;
        Some(slot.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T> Producer<T> {
    pub fn push(&mut self, item: T) -> Result<(), PushError<T>> {
        let shared = &self.0;
        let tail = shared.tail.load(Ordering::Relaxed);
        let free = (self.slots() > 0).then(|| shared.slot(tail)).flatten();
        let Some(mut slot) = free else {
            return Err(PushError::Full(item));
        };
        *slot = Some(item);
        shared.tail.store(tail + 1, Ordering::Release);
        Ok(())
    }
}

impl<T> Producer<T> {
    fn slots(&self) -> usize {
        let shared = &self.0;
        let used = shared.tail.load(Ordering::Relaxed) - shared.head.load(Ordering::Acquire);
        shared.slots.len() - used
    }
}

impl<T> Consumer<T> {
    pub fn slots(&self) -> usize {
        self.shared.tail.load(Ordering::Acquire) - self.shared.head.load(Ordering::Relaxed)
    }

    pub fn is_empty(&self) -> bool {
        self.slots() == 0
    }

    pub fn is_abandoned(&self) -> bool {
        self.shared.is_abandoned.load(Ordering::Relaxed)
    }

    fn take(&self) -> Result<T, Unready> {
        if self.is_empty() {
            return Err(Unready);
        }
        let head = self.shared.head.load(Ordering::Relaxed);
        let mut slot = self.shared.slot(head).ok_or(Unready)?;
        slot.take().ok_or(Unready)
    }

    pub fn pop(&mut self) -> Result<T, Unready> {
        let item = match self.front.take() {
            Some(item) => item,
            None => self.take()?,
        };
        let head = self.shared.head.load(Ordering::Relaxed);
        self.shared.head.store(head + 1, Ordering::Release);
        Ok(item)
    }

    pub fn peek(&self) -> Result<&T, Unready> {
        if self.front.get().is_none() {
            // It was empty, so nothing is returned.
            let _ = self.front.set(self.take()?);
        }
        self.front.get().ok_or(Unready)
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        self.0.is_abandoned.store(true, Ordering::Release);
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        self.shared.is_abandoned.store(true, Ordering::Release);
    }
}
