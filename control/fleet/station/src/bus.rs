//! The part of JetStream that owners need: reports in, values and minutes out. [`Store`](crate::store::Store)
//! implements it with JetStream; simulations implement it in memory.
#![expect(
    async_fn_in_trait,
    reason = "whether a future can move between threads follows from the implementation"
)]

use std::time::SystemTime;

use axum::body::Bytes;
use futures_util::stream::BoxStream;

/// An operation on the server failed; it is retried.
#[derive(Debug, thiserror::Error)]
#[error("{doing}: {why}")]
pub struct StoreError {
    doing: &'static str,
    why: String,
}

/// Returns a closure that wraps an error with the operation that failed.
pub fn failed<E: std::fmt::Display>(doing: &'static str) -> impl FnOnce(E) -> StoreError {
    move |error| StoreError {
        doing,
        why: error.to_string(),
    }
}

/// Where reading again starts at a takeover, if that is before the first unacknowledged report.
#[derive(Debug, Clone, Copy)]
pub enum Again {
    /// After this sequence.
    Behind(u64),
    /// From this time on.
    Since(SystemTime),
}

/// A report's message.
#[derive(Debug)]
pub struct Delivered<M> {
    /// Sequence in the stream.
    pub sequence: u64,
    /// When the server stored the message, in nanoseconds since 1970.
    pub published_unix_ns: u64,
    /// Subject of the message.
    pub subject: String,
    /// The encoded report.
    pub payload: Bytes,
    /// Handle for the acknowledgement.
    pub message: M,
}

/// Reports of a partition, in order.
#[expect(missing_debug_implementations, reason = "streams have none")]
pub struct Reports<M> {
    /// Stream of the reports.
    pub messages: BoxStream<'static, Result<Delivered<M>, StoreError>>,
    /// Last sequence of the stream.
    pub last: u64,
    /// Last sequence that an earlier owner counted. Reports up to it update only the histories.
    pub counted: u64,
    /// When the stream was created, in nanoseconds since 1970.
    pub created_unix_ns: u64,
}

/// A value of a bucket.
#[derive(Debug, Clone)]
pub struct Value {
    /// Subject of the key.
    pub subject: String,
    /// Revision of the value.
    pub revision: u64,
    /// Bytes of the value.
    pub bytes: Bytes,
}

/// The condition of a write.
#[derive(Debug, Clone)]
pub enum Put {
    /// Write unconditionally.
    Anyway,
    /// Replace this revision; 0 if there is no value.
    Over(u64),
    /// Write unless a message with this id was written in the last two minutes.
    Once(String),
}

/// Why a write failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PutError {
    /// Another station has written in the meantime.
    #[error("another station has written it: {0}")]
    Overtaken(String),
    /// The server refuses these bytes; other writes are not affected.
    #[error("the server refuses it: {0}")]
    Refused(String),
    /// The server does not answer, or the stream is missing.
    #[error("{0}")]
    Unreachable(String),
}

/// The operations of JetStream that owners use.
pub trait Bus {
    /// Handle for acknowledging a report.
    type Message: Send;

    /// Returns the largest size of a message in bytes.
    fn bytes_max(&self) -> usize;

    /// Returns the nanoseconds since 1970, by the clock of the messages' timestamps.
    fn now_unix_ns(&self) -> u64;

    /// Returns the first revision of a state that the server keeps; earlier ones have been evicted.
    fn first_state(&self) -> u64;

    /// Writes a message. Returns its sequence, which is also the revision of a value.
    async fn put(&self, subject: String, bytes: Vec<u8>, on: Put) -> Result<u64, PutError>;

    /// Returns the last values of a bucket's keys, in the order of their revisions. Deleted keys have none.
    async fn last(&self, stream: &str, keys: String) -> Result<Vec<Value>, StoreError>;

    /// Reads the reports of a partition from the first unacknowledged one, or from an earlier one. Ends the consumer of
    /// any other station.
    async fn take_over(
        &self,
        partition: u16,
        again: Again,
    ) -> Result<Reports<Self::Message>, StoreError>;

    /// Acknowledges a report and all earlier ones.
    async fn acknowledge(&self, message: &Self::Message) -> Result<(), StoreError>;
}
