//! What owners need of JetStream: reports in, values and minutes out. [`Store`](crate::store::Store) is JetStream; simulations
//! have one in memory.
#![expect(
    async_fn_in_trait,
    reason = "whether a future can move between threads follows from the implementation"
)]

use std::time::SystemTime;

use axum::body::Bytes;
use futures_util::stream::BoxStream;

/// Something failed between here and the server; it is tried again.
#[derive(Debug, thiserror::Error)]
#[error("{doing}: {why}")]
pub struct StoreError {
    doing: &'static str,
    why: String,
}

/// Makes an error of what was being done.
pub fn failed<E: std::fmt::Display>(doing: &'static str) -> impl FnOnce(E) -> StoreError {
    move |error| StoreError {
        doing,
        why: error.to_string(),
    }
}

/// From where reports are read again at a takeover, if that is earlier than the first that is not acknowledged.
#[derive(Debug, Clone, Copy)]
pub enum Again {
    /// Behind this sequence.
    Behind(u64),
    /// From this time on.
    Since(SystemTime),
}

/// A report's message.
#[derive(Debug)]
pub struct Delivered<M> {
    /// Its sequence in the stream.
    pub sequence: u64,
    /// When the server stored it, in nanoseconds since 1970.
    pub published_unix_ns: u64,
    /// Its subject.
    pub subject: String,
    /// The report.
    pub payload: Bytes,
    /// By which it is acknowledged.
    pub message: M,
}

/// Reports of a partition, in order.
#[expect(missing_debug_implementations, reason = "streams have none")]
pub struct Reports<M> {
    /// The reports.
    pub messages: BoxStream<'static, Result<Delivered<M>, StoreError>>,
    /// The last sequence of the stream.
    pub last: u64,
    /// The last sequence that an earlier owner counted: what is read again up to it is only learnt from.
    pub counted: u64,
    /// When the stream was made, in nanoseconds since 1970.
    pub created_unix_ns: u64,
}

/// A value of a bucket.
#[derive(Debug, Clone)]
pub struct Value {
    /// Its subject.
    pub subject: String,
    /// Its revision.
    pub revision: u64,
    /// Its bytes.
    pub bytes: Bytes,
}

/// On which condition something is written.
#[derive(Debug, Clone)]
pub enum Put {
    /// Whatever is there.
    Anyway,
    /// Over this revision; 0 where there is no value.
    Over(u64),
    /// Unless something was written under this id within two minutes.
    Once(String),
}

/// Why something was not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PutError {
    /// Another station has written meanwhile.
    #[error("another station has written it: {0}")]
    Overtaken(String),
    /// The server refuses these bytes: what else is written is not concerned.
    #[error("the server refuses it: {0}")]
    Refused(String),
    /// There is no answer, or no stream.
    #[error("{0}")]
    Unreachable(String),
}

/// JetStream, as owners see it.
pub trait Bus {
    /// A report's message, to be acknowledged.
    type Message: Send;

    /// Most bytes of one message.
    fn bytes_max(&self) -> usize;

    /// Nanoseconds since 1970, by the clock that the times of messages are of.
    fn now_unix_ns(&self) -> u64;

    /// The first revision of a state that the server keeps: it has evicted the earlier ones.
    fn first_state(&self) -> u64;

    /// Writes a message; its sequence, which of a value is the revision.
    async fn put(&self, subject: String, bytes: Vec<u8>, on: Put) -> Result<u64, PutError>;

    /// The last values of a bucket's keys, in the order of their revisions. A key that was deleted has no value.
    async fn last(&self, stream: &str, keys: String) -> Result<Vec<Value>, StoreError>;

    /// Reports of a partition from the first that is not acknowledged, or from an earlier one. A consumer that another station
    /// has of it ends.
    async fn take_over(
        &self,
        partition: u16,
        again: Again,
    ) -> Result<Reports<Self::Message>, StoreError>;

    /// Acknowledges a report, and all before it.
    async fn acknowledge(&self, message: &Self::Message) -> Result<(), StoreError>;
}
