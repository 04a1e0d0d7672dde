//! The data in JetStream, and how to read and write it.
//!
//! | stream | subjects | contents |
//! |---|---|---|
//! | `VERNIER_REPORTS` | `vernier.report.PARTITION.SWITCH` | reports, as sent by switches |
//! | `KV_vernier_switches` | key `PARTITION.SWITCH` | the [`State`](crate::state::State) of each switch, in a key-value bucket; a large state is split into a head, and parts under `PARTITION.SWITCH.S.N`: [`crate::values`] |
//! | `VERNIER_HISTORY` | `vernier.history.PARTITION.SWITCH` | closed [`Minute`](crate::state::Minute)s |
//! | `KV_vernier_located` | key `PARTITION.SWITCH.N` | histories of a switch's segments: [`crate::histories`] |

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use async_nats::Client;
use async_nats::datetime::DateTime;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, ReplayPolicy, pull};
use async_nats::jetstream::context::{CreateStreamErrorKind, GetStreamErrorKind, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::{self, AckKind, Context, ErrorCode, Message, stream};
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use report::subject;

use crate::bus::{Again, Bus, Delivered, Put, PutError, Reports, StoreError, Value, failed};
use crate::clock::Clock;
use crate::problems::Waiting;
use crate::settings::Settings;
use crate::values::{KEY, MINUTES};

/// Name of the stream of reports.
pub const REPORTS: &str = "VERNIER_REPORTS";

/// Name of the stream of minutes.
pub const HISTORY: &str = "VERNIER_HISTORY";

/// Name of the stream of states.
pub const STATES: &str = "KV_vernier_switches";

/// Name of the stream of histories.
pub const MEMORIES: &str = "KV_vernier_located";

/// Prefix of the subjects of that bucket.
pub const MEMORY_KEY: &str = "$KV.vernier_located.";

/// Number of reports that a consumer delivers before it waits for acknowledgements: a second or two of a partition's
/// switches.
const UNACKNOWLEDGED_MAX: i64 = 20_000;

/// Time in which a server deletes a stream's files after it has reported the stream as deleted. If the stream is
/// recreated earlier, nats-server 2.9 deletes the new files, too, and the stream stores nothing.
const DELETION: Duration = Duration::from_secs(2);

/// Interval of a consumer's heartbeats while there are no reports; the consumer is abandoned after two missed
/// heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(3);

/// Prefix of the description of a partition's consumer, followed by the last sequence that had been counted when the
/// consumer was created.
const COUNTED: &str = "counted up to ";

/// Returns the error for a server with less space than a stream reserves, with advice; `key` configures the stream.
fn no_room(key: &str, mib: i64) -> StoreError {
    let why = format!(
        "JetStream has less than {mib} MiB left; lower `{key}`, or raise `max_file_store` of nats-server (default: three \
         quarters of what its disk had free)"
    );
    failed("cannot make a stream")(why)
}

/// Values of a stream, each with the number of values after it.
pub type Watched = BoxStream<'static, Result<(Value, u64), StoreError>>;

/// Bytes of a message in addition to its payload: subject and headers.
const HEADERS_BYTES_MAX: usize = 1 << 10;

/// The streams.
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) context: Context,
    /// Configurations of the streams, each with the key that limits it.
    streams: Arc<Vec<(stream::Config, &'static str)>>,
    /// When each stream was created; a different time means that it was recreated.
    made: Arc<Mutex<HashMap<String, DateTime>>>,
    /// The server's clock.
    pub(crate) clock: Arc<Clock>,
    /// First revision of a state that the server keeps; earlier ones have been evicted.
    pub(crate) first_state: Arc<AtomicU64>,
}

impl Store {
    /// Prepares the configured streams, without any request yet.
    pub fn new(client: Client, settings: &Settings, clock: Arc<Clock>) -> Self {
        let of = |name: &str, subjects: &str, kept: &crate::settings::Kept| stream::Config {
            name: name.to_owned(),
            subjects: vec![subjects.to_owned()],
            max_age: Duration::from_secs(u64::from(kept.hours) * 3_600),
            max_bytes: i64::from(kept.mib) << 20,
            duplicate_window: Duration::from_mins(2),
            num_replicas: settings.replicas as usize,
            allow_direct: true,
            ..stream::Config::default()
        };
        let reports = stream::Config {
            max_messages_per_subject: settings.messages_per_switch.into(),
            ..of(REPORTS, subject::REPORTS, &settings.reports)
        };
        let history = of(HISTORY, &format!("{MINUTES}>"), &settings.history);
        // Like a NATS key-value bucket (ADR-8), but when it is full, the value that was written longest ago is evicted.
        let bucket = |name: &str, key: &str, mib: u32, max_messages: i64| stream::Config {
            max_bytes: i64::from(mib) << 20,
            max_messages,
            max_messages_per_subject: 1,
            discard: stream::DiscardPolicy::Old,
            allow_rollup: true,
            deny_delete: true,
            ..of(name, &format!("{key}>"), &settings.history)
        };
        let switches_max = i64::from(settings.switches_max);
        let states = bucket(STATES, KEY, settings.states_mib(), switches_max);
        let memories = bucket(MEMORIES, MEMORY_KEY, settings.located_mib, -1);
        let streams = vec![
            (reports, "reports.mib"),
            (history, "history.mib"),
            (states, "switches_max"),
            (memories, "located_mib"),
        ];
        Self {
            context: jetstream::new(client),
            streams: Arc::new(streams),
            made: Arc::default(),
            clock,
            first_state: Arc::default(),
        }
    }

    /// Creates missing streams, and updates streams that differ from the configuration. Returns whether a stream was
    /// recreated since the last call; earlier consumers are then gone.
    ///
    /// # Errors
    /// The server's error.
    pub async fn ensure(&self) -> Result<bool, StoreError> {
        let mut has_begun = false;
        for (config, key) in &*self.streams {
            let mib = config.max_bytes >> 20;
            let made = self.context.create_or_update_stream(config.clone()).await;
            let info = made.map_err(|error| match error.kind() {
                CreateStreamErrorKind::JetStream(fault)
                    if fault.error_code() == ErrorCode::STORAGE_RESOURCES_EXCEEDED =>
                {
                    no_room(key, mib)
                }
                _ => failed("cannot make a stream")(error),
            })?;
            has_begun |= self.has_begun_anew(&config.name, info.created);
        }
        Ok(has_begun)
    }

    /// Like [`Store::ensure`], but changes nothing if all streams exist.
    ///
    /// # Errors
    /// The server's error.
    pub async fn look(&self) -> Result<bool, StoreError> {
        let mut has_begun = false;
        for (config, _) in &*self.streams {
            match self.context.get_stream(&config.name).await {
                Ok(stream) => {
                    let created = stream.cached_info().created;
                    has_begun |= self.has_begun_anew(&config.name, created);
                }
                Err(error) => match error.kind() {
                    GetStreamErrorKind::JetStream(fault)
                        if fault.error_code() == ErrorCode::STREAM_NOT_FOUND =>
                    {
                        let name = &config.name;
                        tracing::warn!("the stream {name} is gone; recreating it empty");
                        tokio::time::sleep(DELETION).await;
                        return self.ensure().await;
                    }
                    _ => return Err(failed("cannot look at a stream")(error)),
                },
            }
        }
        Ok(has_begun)
    }

    fn has_begun_anew(&self, stream: &str, created: DateTime) -> bool {
        let before = self.made.lock().insert(stream.to_owned(), created);
        let has_begun = before.is_some_and(|before| before != created);
        if has_begun {
            // Revisions restart at 1.
            self.first_state.store(0, Ordering::Relaxed);
        }
        has_begun
    }

    /// Streams all states, then every change, in order, until the server fails.
    ///
    /// # Errors
    /// The server's error.
    pub async fn watch_states(&self) -> Result<(Watched, u64), StoreError> {
        let policy = DeliverPolicy::LastPerSubject;
        let reading = "cannot read states";
        self.watch(reading, STATES, format!("{KEY}>"), policy).await
    }

    /// Streams the minutes of the last `hours`, then every newly closed minute.
    ///
    /// # Errors
    /// The server's error.
    pub async fn watch_minutes(&self, hours: u32) -> Result<(Watched, u64), StoreError> {
        let age = Duration::from_secs(u64::from(hours) * 3_600);
        let now = UNIX_EPOCH + Duration::from_nanos(self.clock.now_unix_ns());
        let start_time = now.checked_sub(age).unwrap_or(UNIX_EPOCH).into();
        let policy = DeliverPolicy::ByStartTime { start_time };
        let reading = "cannot read minutes";
        self.watch(reading, HISTORY, format!("{MINUTES}>"), policy)
            .await
    }

    /// Streams the messages of a stream. Returns their present number, too.
    async fn watch(
        &self,
        reading: &'static str,
        stream: &str,
        filter_subject: String,
        deliver_policy: DeliverPolicy,
    ) -> Result<(Watched, u64), StoreError> {
        let config = pull::OrderedConfig {
            filter_subject,
            deliver_policy,
            replay_policy: ReplayPolicy::Instant,
            ..pull::OrderedConfig::default()
        };
        let opened = async {
            let stream = self.context.get_stream(stream).await?;
            let mut consumer = stream.create_consumer(config).await?;
            let pending = consumer.info().await?.num_pending;
            Ok::<_, async_nats::Error>((consumer.messages().await?, pending))
        };
        let (messages, pending) = opened.await.map_err(failed("cannot watch a stream"))?;
        let values = messages.map(move |message| {
            let message = message.map_err(failed(reading))?;
            let info = message.info().map_err(failed(reading))?;
            let (revision, left) = (info.stream_sequence, info.pending);
            let subject = message.subject.to_string();
            let bytes = message.message.payload;
            let value = Value {
                subject,
                revision,
                bytes,
            };
            Ok((value, left))
        });
        Ok((values.boxed(), pending))
    }

    /// Reads the server's clock from the creation time of a temporary consumer.
    ///
    /// # Errors
    /// The server's error.
    pub async fn read_clock(&self) -> Result<(), StoreError> {
        let config = pull::Config {
            deliver_policy: DeliverPolicy::New,
            inactive_threshold: Duration::from_secs(5),
            memory_storage: true,
            num_replicas: 1,
            ..pull::Config::default()
        };
        let read = async {
            let stream = self.context.get_stream_no_info(HISTORY).await?;
            let consumer = stream.create_consumer(config).await?;
            let info = consumer.cached_info();
            let created = info.created.unix_timestamp_nanos();
            self.clock.set(u64::try_from(created).unwrap_or_default());
            stream.delete_consumer(&info.name).await?;
            Ok::<_, async_nats::Error>(())
        };
        read.await
            .map_err(failed("cannot read the clock of the server"))
    }

    /// Returns the revisions of the states that the server keeps; the first ones are evicted.
    pub async fn revisions(&self) -> Option<RangeInclusive<u64>> {
        let stream = self.context.get_stream(STATES).await.ok()?;
        let state = &stream.cached_info().state;
        self.first_state
            .store(state.first_sequence, Ordering::Relaxed);
        Some(state.first_sequence..=state.last_sequence)
    }

    /// Returns the backlog of every partition that has a consumer.
    pub async fn waiting(&self) -> Option<BTreeMap<u16, Waiting>> {
        let stream = self.context.get_stream_no_info(REPORTS).await.ok()?;
        let mut consumers = stream.consumers();
        let mut waiting = BTreeMap::new();
        while let Some(consumer) = consumers.next().await {
            let consumer = consumer.ok()?;
            let number = consumer.name.strip_prefix("partition-");
            let Some(partition) = number.and_then(|number| number.parse().ok()) else {
                continue;
            };
            let delivered = u64::try_from(consumer.num_ack_pending).unwrap_or_default();
            let of_partition = Waiting {
                reports: consumer.num_pending.saturating_add(delivered),
                acknowledged: consumer.ack_floor.stream_sequence,
            };
            waiting.insert(partition, of_partition);
        }
        Some(waiting)
    }
}

impl Bus for Store {
    type Message = Message;

    fn bytes_max(&self) -> usize {
        let most = self.context.client().max_payload();
        most.saturating_sub(HEADERS_BYTES_MAX)
            .max(HEADERS_BYTES_MAX)
    }

    fn now_unix_ns(&self) -> u64 {
        self.clock.now_unix_ns()
    }

    fn first_state(&self) -> u64 {
        self.first_state.load(Ordering::Relaxed)
    }

    async fn put(&self, subject: String, bytes: Vec<u8>, on: Put) -> Result<u64, PutError> {
        let message = PublishMessage::build().payload(bytes.into());
        let message = match on {
            Put::Anyway => message,
            Put::Over(revision) => message.expected_last_subject_sequence(revision),
            Put::Once(id) => message.message_id(id),
        };
        let written = async { self.context.send_publish(subject, message).await?.await };
        let written = written.await.map_err(|error| {
            let words = error.to_string();
            match error.kind() {
                PublishErrorKind::WrongLastSequence => PutError::Overtaken(words),
                PublishErrorKind::MaxPayloadExceeded | PublishErrorKind::Other => {
                    PutError::Refused(words)
                }
                _ => PutError::Unreachable(words),
            }
        })?;
        Ok(written.sequence)
    }

    async fn last(&self, stream: &str, keys: String) -> Result<Vec<Value>, StoreError> {
        let (policy, reading) = (DeliverPolicy::LastPerSubject, "cannot read a bucket");
        let (mut messages, mut left) = self.watch(reading, stream, keys, policy).await?;
        let mut values = Vec::new();
        while left > 0 {
            let message = messages.try_next().await?;
            let message = message.ok_or("the stream has ended");
            let (value, behind) = message.map_err(failed(reading))?;
            left = behind;
            if !value.bytes.is_empty() {
                values.push(value);
            }
        }
        Ok(values)
    }

    async fn take_over(
        &self,
        partition: u16,
        again: Again,
    ) -> Result<Reports<Message>, StoreError> {
        let name = format!("partition-{partition}");
        let filter_subject = subject::of_partition(partition);
        let taken = async {
            let stream = self.context.get_stream(REPORTS).await?;
            let info = stream.cached_info();
            let created = info.created.unix_timestamp_nanos();
            let (mut deliver_policy, mut counted) = (DeliverPolicy::All, 0);
            // Messages that were delivered to the last owner but not acknowledged would arrive later, out of order:
            // recreate the consumer.
            if let Ok(mut earlier) = stream.get_consumer::<pull::Config>(&name).await {
                let earlier = earlier.info().await?;
                let acknowledged = earlier.ack_floor.stream_sequence;
                let next = acknowledged.saturating_add(1);
                // An owner that ended while it read reports again has acknowledged fewer reports than were counted.
                let described = earlier.config.description.as_deref();
                let described =
                    described.and_then(|words| words.strip_prefix(COUNTED)?.parse().ok());
                counted = acknowledged.max(described.unwrap_or_default());
                deliver_policy = match again {
                    Again::Behind(sequence) => DeliverPolicy::ByStartSequence {
                        start_sequence: next.min(sequence.saturating_add(1)),
                    },
                    Again::Since(since) => {
                        let waiting = stream
                            .direct_get_next_for_subject(&*filter_subject, Some(next))
                            .await;
                        let since = DateTime::from(since);
                        let start_time = waiting.map_or(since, |first| first.time.min(since));
                        DeliverPolicy::ByStartTime { start_time }
                    }
                };
                stream.delete_consumer(&name).await?;
            }
            let config = pull::Config {
                durable_name: Some(name),
                description: Some(format!("{COUNTED}{counted}")),
                filter_subject,
                deliver_policy,
                ack_policy: AckPolicy::All,
                ack_wait: Duration::from_hours(1),
                max_ack_pending: UNACKNOWLEDGED_MAX,
                ..pull::Config::default()
            };
            let consumer = stream.create_consumer(config).await?;
            // A lost consumer is detected by its silence.
            let messages = consumer.stream().max_messages_per_batch(1_000);
            let messages = messages.heartbeat(HEARTBEAT).messages().await?;
            let messages = messages.map(|message| delivered(message.map_err(failed(READING))?));
            Ok::<_, async_nats::Error>(Reports {
                messages: messages.boxed(),
                last: info.state.last_sequence,
                counted,
                created_unix_ns: u64::try_from(created).unwrap_or_default(),
            })
        };
        taken.await.map_err(failed("cannot take over a partition"))
    }

    async fn acknowledge(&self, message: &Message) -> Result<(), StoreError> {
        let acknowledged = message.ack_with(AckKind::Ack).await;
        acknowledged.map_err(failed("cannot acknowledge reports"))
    }
}

const READING: &str = "cannot read reports";

fn delivered(message: Message) -> Result<Delivered<Message>, StoreError> {
    let info = message.info().map_err(failed(READING))?;
    let published = info.published.unix_timestamp_nanos();
    Ok(Delivered {
        sequence: info.stream_sequence,
        published_unix_ns: u64::try_from(published).unwrap_or_default(),
        subject: message.subject.to_string(),
        payload: message.payload.clone(),
        message,
    })
}
