//! JetStream in memory, with a clock set by hand, for simulations and tests (feature `simulated`). It implements what
//! owners rely on (sequences, revisions, one consumer for each partition, a limit of bytes), and faults.
#![allow(
    clippy::missing_panics_doc,
    missing_debug_implementations,
    reason = "it is for simulations and tests"
)]

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Bytes;
use futures_util::{Stream, StreamExt};
use parking_lot::{Mutex, MutexGuard};
use report::subject;

use crate::bus::{Again, Bus, Delivered, Put, PutError, Reports, StoreError, Value, failed};

/// A fault of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The message is not stored, and there is no answer.
    Lost,
    /// The message is stored, but the answer is lost.
    Unanswered,
}

/// The contents of a server.
#[derive(Debug, Default)]
pub struct Inner {
    /// The present time, in nanoseconds since 1970.
    pub now_unix_ns: u64,
    /// Largest size of a message in bytes.
    pub bytes_max: usize,
    /// Faults of future writes, each with the number of writes until it happens. The last is counted down first.
    pub faults: Vec<(u64, Fault)>,
    /// Messages refused as too large.
    pub refused: u64,
    created_unix_ns: u64,
    reports: Vec<Report>,
    last: u64,
    consumers: HashMap<u16, Consumer>,
    /// Values of all buckets by subject.
    values: BTreeMap<String, Value>,
    /// Writes to buckets and to the history, in order, for watchers.
    written: Vec<(String, Bytes)>,
    ids: HashMap<String, u64>,
}

/// A report, with its partition.
type Report = Delivered<u16>;

#[derive(Debug, Default)]
struct Consumer {
    /// Incremented by every takeover; streams of an earlier generation end.
    generation: u64,
    acknowledged: u64,
    /// The highest sequence ever acknowledged.
    counted: u64,
}

/// A simulated server.
#[derive(Debug, Clone, Default)]
pub struct Server(Arc<Mutex<Inner>>);

/// The position of a report, by which it is acknowledged.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    partition: u16,
    generation: u64,
    sequence: u64,
}

impl Server {
    /// Creates a server whose messages have at most `bytes_max` bytes.
    pub fn new(bytes_max: usize, now_unix_ns: u64) -> Self {
        let server = Self::default();
        let mut inner = server.lock();
        (inner.bytes_max, inner.now_unix_ns) = (bytes_max, now_unix_ns);
        inner.created_unix_ns = now_unix_ns;
        drop(inner);
        server
    }

    /// Locks the contents.
    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock()
    }

    /// Stores a message under a subject of reports; returns `false` if it is too large.
    pub fn publish(&self, subject: String, payload: Vec<u8>) -> bool {
        let mut inner = self.lock();
        let token = subject.strip_prefix("vernier.report.");
        let partition = token.and_then(|rest| rest.split('.').next()?.parse().ok());
        let Some(partition) = partition.filter(|_| payload.len() <= inner.bytes_max) else {
            return false;
        };
        inner.last += 1;
        let report = Report {
            sequence: inner.last,
            published_unix_ns: inner.now_unix_ns,
            subject,
            payload: payload.into(),
            message: partition,
        };
        inner.reports.push(report);
        true
    }

    /// Replaces a value unconditionally, as any admitted user can.
    pub fn poke(&self, subject: String, payload: Vec<u8>) {
        self.lock().store(subject, payload.into());
    }

    /// Evicts a value, like a server whose bucket is full.
    pub fn evict(&self, subject: &str) {
        self.lock().values.remove(subject);
    }

    /// Loses everything, like a server that lost its store.
    pub fn lose_store(&self) {
        let mut inner = self.lock();
        inner.created_unix_ns = inner.now_unix_ns;
        inner.reports.clear();
        inner.values.clear();
        inner.written.clear();
        inner.ids.clear();
        inner.last = 0;
        for consumer in inner.consumers.values_mut() {
            consumer.generation += 1;
            (consumer.acknowledged, consumer.counted) = (0, 0);
        }
    }

    /// Returns the writes to buckets and the history since a position, and the next position.
    pub fn written(&self, from: usize) -> (Vec<(String, Bytes)>, usize) {
        let inner = self.lock();
        let written = inner.written.get(from..).unwrap_or_default().to_vec();
        (written, inner.written.len())
    }

    /// Returns the number of unacknowledged reports.
    pub fn waiting(&self) -> usize {
        let inner = self.lock();
        let acknowledged = |partition| {
            let consumer = inner.consumers.get(&partition);
            consumer.map_or(0, |consumer| consumer.acknowledged)
        };
        let waiting = inner.reports.iter();
        waiting
            .filter(|report| report.sequence > acknowledged(report.message))
            .count()
    }

    /// Drops acknowledged reports.
    pub fn tidy(&self) {
        let mut inner = self.lock();
        let acknowledged: HashMap<u16, u64> = (inner.consumers.iter())
            .map(|(partition, consumer)| (*partition, consumer.acknowledged))
            .collect();
        inner
            .reports
            .retain(|report| Some(&report.sequence) > acknowledged.get(&report.message));
    }
}

impl Inner {
    fn store(&mut self, subject: String, bytes: Bytes) -> u64 {
        self.last += 1;
        let revision = self.last;
        self.written.push((subject.clone(), bytes.clone()));
        if subject.starts_with("$KV.") {
            let value = Value {
                subject: subject.clone(),
                revision,
                bytes,
            };
            self.values.insert(subject, value);
        }
        revision
    }

    fn fault(&mut self) -> Option<Fault> {
        let (left, fault) = self.faults.last_mut()?;
        *left = left.saturating_sub(1);
        let fault = (*left == 0).then_some(*fault)?;
        self.faults.pop();
        Some(fault)
    }
}

impl Bus for Server {
    type Message = Place;

    fn bytes_max(&self) -> usize {
        // Room for the fields around a part's bytes.
        self.lock().bytes_max.saturating_sub(512)
    }

    fn now_unix_ns(&self) -> u64 {
        self.lock().now_unix_ns
    }

    fn first_state(&self) -> u64 {
        0
    }

    async fn put(&self, subject: String, bytes: Vec<u8>, on: Put) -> Result<u64, PutError> {
        let mut inner = self.lock();
        if bytes.len() > inner.bytes_max {
            inner.refused += 1;
            let words = format!("{} bytes of {}", bytes.len(), inner.bytes_max);
            return Err(PutError::Refused(words));
        }
        let fault = inner.fault();
        let no_answer = || PutError::Unreachable("there is no answer".to_owned());
        if fault == Some(Fault::Lost) {
            return Err(no_answer());
        }
        match on {
            Put::Anyway => {}
            Put::Over(expected) => {
                let value = inner.values.get(&subject);
                let revision = value.map_or(0, |value| value.revision);
                if revision != expected {
                    let words = format!("revision {revision}, not {expected}");
                    return Err(PutError::Overtaken(words));
                }
            }
            Put::Once(id) => {
                if let Some(&sequence) = inner.ids.get(&id) {
                    return Ok(sequence);
                }
                let next = inner.last + 1;
                inner.ids.insert(id, next);
            }
        }
        let sequence = inner.store(subject, bytes.into());
        match fault {
            Some(Fault::Unanswered) => Err(no_answer()),
            _ => Ok(sequence),
        }
    }

    async fn last(&self, _: &str, keys: String) -> Result<Vec<Value>, StoreError> {
        let begin = keys.trim_end_matches(['>', '*']);
        let inner = self.lock();
        let values = inner.values.values();
        let found = values.filter(|value| value.subject.starts_with(begin));
        let found = found.filter(|value| !value.bytes.is_empty());
        let mut found: Vec<Value> = found.cloned().collect();
        found.sort_by_key(|value| value.revision);
        Ok(found)
    }

    async fn take_over(&self, partition: u16, again: Again) -> Result<Reports<Place>, StoreError> {
        let mut inner = self.lock();
        let consumer = inner.consumers.entry(partition).or_default();
        consumer.generation += 1;
        consumer.counted = consumer.counted.max(consumer.acknowledged);
        let begin = match again {
            Again::Behind(sequence) => consumer.acknowledged.min(sequence),
            Again::Since(_) => 0,
        };
        consumer.acknowledged = begin;
        let messages = Messages {
            server: self.clone(),
            place: Place {
                partition,
                generation: consumer.generation,
                sequence: begin,
            },
        };
        Ok(Reports {
            counted: consumer.counted,
            messages: messages.boxed(),
            last: inner.last,
            created_unix_ns: inner.created_unix_ns,
        })
    }

    async fn acknowledge(&self, message: &Place) -> Result<(), StoreError> {
        let mut inner = self.lock();
        let consumer = inner.consumers.entry(message.partition).or_default();
        if consumer.generation != message.generation {
            return Err(failed("cannot acknowledge reports")("another consumer"));
        }
        consumer.acknowledged = consumer.acknowledged.max(message.sequence);
        Ok(())
    }
}

/// Reports of a partition after a position; pending if there are none, without waking anyone.
struct Messages {
    server: Server,
    place: Place,
}

impl Stream for Messages {
    type Item = Result<Delivered<Place>, StoreError>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let server = self.server.clone();
        let inner = server.lock();
        let place = self.place;
        let consumer = inner.consumers.get(&place.partition);
        if consumer.is_none_or(|consumer| consumer.generation != place.generation) {
            return Poll::Ready(None);
        }
        let first = inner
            .reports
            .partition_point(|report| report.sequence <= place.sequence);
        let mut behind = inner.reports[first..].iter();
        let Some(report) = behind.find(|report| report.message == place.partition) else {
            return Poll::Pending;
        };
        self.place.sequence = report.sequence;
        Poll::Ready(Some(Ok(Delivered {
            sequence: report.sequence,
            published_unix_ns: report.published_unix_ns,
            subject: report.subject.clone(),
            payload: report.payload.clone(),
            message: self.place,
        })))
    }
}

/// Returns the subject of a switch's reports in another partition, which belongs to no switch but can be tried by a
/// sender.
pub fn misplaced(switch: &str) -> String {
    let other = (subject::partition(switch) + 1) % subject::PARTITIONS;
    format!("vernier.report.{other}.{}", subject::token(switch))
}
