//! `vernier-station`: joins the reports of many switches, and answers queries about segments, paths and missing
//! reports.
//!
//! ```text
//!  switches --reports--> JetStream --partition's consumer--> owner --states, minutes--> JetStream
//!                                                                                          |
//!            Prometheus, JSON, `vernier --station` <-- answers <-- fleet (every station) <-+
//! ```
//!
//! Live stations share the partitions ([`members`]). A station that dies loses no report ([`owner`]). Every station
//! answers from the data in JetStream ([`fleet`]), so that all give the same answer.
//!
//! A station measures nothing, and stores nothing outside JetStream.
#![forbid(unsafe_code)]

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use anyhow::Context;
use api::http::InFlight;
use async_nats::{Client, Event};
use futures_util::{FutureExt, StreamExt, TryStreamExt};
use parking_lot::{Mutex, RwLock};
use report::connection::{Connection, backoff};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use topology::Topology;
use topology::source::{Counts, Found, Source};

pub mod answers;
pub mod blame;
pub mod bus;
pub mod cli;
pub mod clock;
pub mod fleet;
pub mod flow;
pub mod histories;
pub mod members;
pub mod owner;
pub mod page;
pub mod path;
pub mod place;
pub mod problems;
pub mod settings;
#[cfg(any(test, feature = "simulated"))]
pub mod simulated;
pub mod state;
pub mod store;
mod summary;
pub mod values;

use bus::{StoreError, Value, failed};
use clock::Clock;
use fleet::Fleet;
use histories::Room;
use members::{ALIVE, BEAT, GONE, Members, SILENCE_MAX};
use owner::Work;
use problems::{Part, Problems, Progress};
use settings::{Ends, Settings};
use store::Store;

/// How often the server is queried for its lag, its clock, evicted values and missing streams.
const LAG_EVERY: Duration = Duration::from_secs(5);

/// How long a part must work before its problem is cleared.
const SETTLED: Duration = Duration::from_secs(2);

/// A station.
#[derive(Debug)]
pub struct Station {
    /// The data from which queries are answered.
    pub fleet: Fleet,
    /// Answers that clients have not received completely.
    in_flight: InFlight,
    /// Permit to make an answer, one at a time.
    turn: Arc<Semaphore>,
    /// The clock of the NATS server.
    pub clock: Arc<Clock>,
    /// The topology, unless it follows from the reports.
    topology: RwLock<Option<Arc<Topology>>>,
    /// Counts of OSPF data that could not be used.
    ospf: Arc<Counts>,
    /// Paths with their own time series.
    pub paths: Vec<Ends>,
    /// Counts of the work as an owner.
    pub work: Arc<Work>,
    /// Room for segments with histories, as an owner.
    pub room: Arc<Room>,
    /// Whether the station is connected to NATS.
    pub is_connected: AtomicBool,
    /// Reasons why the station is not ready, worded as in the log.
    pub problems: Problems,
    /// Incremented on every connection, and when a stream is recreated; all consumers are then recreated.
    connections: watch::Sender<u64>,
    /// Wakes [`Station::tend`] after a failure that a lost stream could explain.
    doubts: Notify,
    /// Number of live stations.
    pub alive: AtomicU64,
    /// Number of partitions that this station owns.
    pub owned: AtomicU64,
    /// Number of unacknowledged reports in all partitions.
    pub lag: AtomicU64,
    /// Whether each partition makes progress.
    pub progress: Mutex<Progress>,
    /// The thread that works on the partitions.
    workers: Workers,
}

/// A thread that works on the partitions, so that slow work does not delay the connection and the heartbeats of the
/// station.
#[derive(Debug)]
struct Workers {
    handle: Handle,
    /// Ends the thread when dropped.
    _end: oneshot::Sender<()>,
}

impl Workers {
    fn start() -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        let thread = std::thread::Builder::new().name("vernier-owners".to_owned());
        thread.spawn(move || runtime.block_on(ended))?;
        Ok(Self { handle, _end: end })
    }
}

/// Returns the nanoseconds since 1970 (UTC) by this machine's clock; [`Clock`] has the server's.
pub fn now_unix_ns() -> u64 {
    let now = UNIX_EPOCH.elapsed().unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

impl Station {
    /// Creates a station that follows the topology, but does nothing else yet.
    ///
    /// # Errors
    /// If the topology's file is invalid, or no thread can be started.
    pub fn new(settings: &Settings) -> anyhow::Result<Arc<Self>> {
        let source = settings.source();
        let station = Arc::new(Self {
            ospf: source.as_ref().map(Source::counts).unwrap_or_default(),
            fleet: Fleet::new((settings.memory_mib as usize) << 20),
            in_flight: InFlight::default(),
            turn: Arc::new(Semaphore::new(1)),
            clock: Arc::default(),
            topology: RwLock::default(),
            paths: settings.paths.clone(),
            work: Arc::default(),
            room: Arc::new(Room::new(settings.located_segments.into())),
            is_connected: AtomicBool::new(false),
            problems: Problems::default(),
            connections: watch::Sender::new(0),
            doubts: Notify::new(),
            alive: AtomicU64::new(1),
            owned: AtomicU64::new(0),
            lag: AtomicU64::new(0),
            progress: Mutex::default(),
            workers: Workers::start()?,
        });
        if let Some(source) = source {
            station.follow(source)?;
        }
        Ok(station)
    }

    /// Reads the topology, and follows its changes on a separate thread for the lifetime of the station.
    fn follow(self: &Arc<Self>, mut source: Source) -> anyhow::Result<()> {
        // A file is read by the first call, and an invalid file prevents the start.
        if let Source::File { .. } = source {
            let read = source.next(Duration::ZERO).map_err(anyhow::Error::msg);
            self.take_topology(read.context("topology")?);
        }
        let station = Arc::downgrade(self);
        let mut last = String::new();
        source.follow("vernier-topology", move |read| {
            let station = station.upgrade();
            match (&station, read) {
                (Some(station), Ok(read)) => station.take_topology(read),
                (Some(_), Err(problem)) if problem != last => {
                    tracing::warn!("topology: {problem}; keeping the present topology");
                    last = problem;
                }
                _ => {}
            }
            station.is_some()
        })?;
        Ok(())
    }

    fn take_topology(&self, read: Option<Found>) {
        if let Some((topology, _)) = read {
            let (routers, links) = (topology.routers().count(), topology.links());
            tracing::info!("topology: {routers} routers, {links} directed links");
            *self.topology.write() = Some(Arc::new(topology));
        }
    }

    /// Returns the topology, unless it follows from the reports.
    pub fn topology(&self) -> Option<Arc<Topology>> {
        self.topology.read().clone()
    }

    /// Runs until stopped. Failures are logged and retried.
    pub async fn run(
        self: &Arc<Self>,
        connection: &Connection,
        settings: &Settings,
        mut stopped: watch::Receiver<bool>,
    ) {
        let sharing = stopped.clone();
        tokio::select! {
            () = async {
                let client = self.connect(connection).await;
                let store = Store::new(client.clone(), settings, Arc::clone(&self.clock));
                while let Err(error) = store.ensure().await {
                    self.problems.say(Part::Streams, &error.to_string());
                    sleep(backoff(3)).await;
                }
                tokio::join!(
                    self.tend(&store),
                    self.share(&client, &store, sharing),
                    self.watch_states(&store),
                    self.watch_minutes(&store, settings.history.hours),
                    self.watch_lag(&store),
                );
            } => {}
            () = async { stopped.wait_for(|&stopped| stopped).await.ok(); sleep(Duration::from_secs(1)).await } => {}
        }
    }

    /// Keeps the streams in place: checks them after every connection and every failure, and every few seconds.
    async fn tend(&self, store: &Store) {
        let mut connections = self.connections.subscribe();
        loop {
            let is_new = connections.has_changed().unwrap_or_default();
            connections.mark_unchanged();
            let looked = if is_new {
                store.ensure().await
            } else {
                store.look().await
            };
            match looked {
                Ok(has_begun) => {
                    self.problems.clear(Part::Streams);
                    if has_begun {
                        tracing::warn!(
                            "a stream was recreated: NATS lost its store, or the stream was deleted. Earlier counts are lost"
                        );
                        self.connections.send_modify(|number| *number += 1);
                        connections.mark_unchanged();
                    }
                }
                Err(error) => self.problems.say(Part::Streams, &error.to_string()),
            }
            sleep(backoff(1)).await;
            tokio::select! {
                _ = connections.changed() => connections.mark_changed(),
                () = self.doubts.notified() => {}
                () = sleep(LAG_EVERY) => {}
            }
        }
    }

    async fn connect(self: &Arc<Self>, connection: &Connection) -> Client {
        let mut attempts = 0;
        loop {
            let (station, faults) = (Arc::clone(self), Arc::new(AtomicU64::new(0)));
            let event = move |event: Event| match event {
                Event::Connected => {
                    station.connections.send_modify(|number| *number += 1);
                    station.problems.clear(Part::Connection);
                    if !station.is_connected.swap(true, Ordering::Relaxed) {
                        tracing::info!("connected to NATS");
                    }
                }
                Event::Disconnected => {
                    station.is_connected.store(false, Ordering::Relaxed);
                    let words = "the connection to NATS is lost; answers may be old";
                    station.problems.say(Part::Connection, words);
                }
                // For example a missing permission, which also shows in the part that fails.
                Event::ServerError(error) => {
                    let faults = faults.fetch_add(1, Ordering::Relaxed) + 1;
                    if faults.is_power_of_two() {
                        tracing::warn!("error from NATS: {error} ({faults} so far)");
                    }
                }
                _ => {}
            };
            match connection.connect("vernier-station", event).await {
                Ok(client) => return client,
                Err(error) => self.problems.say(Part::Connection, &error),
            }
            attempts += 1;
            sleep(backoff(attempts)).await;
        }
    }

    /// Starts and stops owning partitions as stations come and go.
    async fn share(
        self: &Arc<Self>,
        client: &Client,
        store: &Store,
        mut stopped: watch::Receiver<bool>,
    ) {
        let random = getrandom::u64().unwrap_or_else(|_| now_unix_ns());
        let mut members = Members::new(format!("{random:016x}"));
        let began = Instant::now();
        let mut listening = began;
        let mut owners: Vec<Option<JoinHandle<()>>> = Vec::new();
        owners.resize_with(report::subject::PARTITIONS.into(), || None);
        let mut heard = loop {
            let (alive, gone) = tokio::join!(client.subscribe(ALIVE), client.subscribe(GONE));
            if let (Ok(alive), Ok(gone)) = (alive, gone) {
                break futures_util::stream::select(alive, gone);
            }
            sleep(BEAT).await;
        };
        let mut beat = tokio::time::interval(BEAT);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = beat.tick() => {
                    let _ = client.publish(ALIVE, members.own().to_owned().into()).await;
                }
                Some(message) = heard.next() => {
                    let name = String::from_utf8_lossy(&message.payload).into_owned();
                    if *message.subject == *ALIVE {
                        members.hear(&name, Instant::now());
                    } else {
                        members.forget(&name);
                    }
                }
                _ = stopped.wait_for(|&stopped| stopped) => break,
            }
            // Hear the other stations first.
            if began.elapsed() < 2 * BEAT {
                continue;
            }
            self.note_heartbeats(&members, &mut listening);
            let alive = members.alive(Instant::now());
            let owned = members::owned(members.own(), &alive);
            self.alive.store(alive.len() as u64, Ordering::Relaxed);
            self.owned.store(owned.len() as u64, Ordering::Relaxed);
            for (partition, owner) in (0..).zip(&mut owners) {
                let is_owned = owned.contains(&partition);
                if is_owned && owner.is_none() {
                    let work = keep(Arc::clone(self), store.clone(), partition);
                    *owner = Some(self.workers.handle.spawn(work));
                } else if !is_owned && let Some(task) = owner.take() {
                    task.abort();
                    self.problems.clear(Part::Partition(partition));
                }
            }
        }
        for owner in owners.into_iter().flatten() {
            owner.abort();
        }
        let _ = client.publish(GONE, members.own().to_owned().into()).await;
        let _ = client.flush().await;
    }

    /// Notes a problem if this station has not received its own heartbeats, once it has been `listening` long enough.
    fn note_heartbeats(&self, members: &Members, listening: &mut Instant) {
        if members.hears_itself(Instant::now()) {
            self.problems.clear(Part::Heartbeats);
        } else if !self.is_connected.load(Ordering::Relaxed) {
            *listening = Instant::now();
        } else if listening.elapsed() > SILENCE_MAX {
            let words = "this station does not receive its own heartbeats; check that its NATS user may publish and \
                         subscribe to `vernier.station.*`";
            self.problems.say(Part::Heartbeats, words);
        }
    }

    /// Runs a part again whenever it fails or NATS is reconnected, because a restarted server knows no earlier
    /// requests.
    async fn again_and_again<F>(&self, part: Part, work: impl Fn() -> F)
    where
        F: Future<Output = Result<(), StoreError>>,
    {
        let mut connections = self.connections.subscribe();
        loop {
            let settled = async {
                sleep(SETTLED).await;
                self.problems.clear(part);
                std::future::pending::<()>().await;
            };
            // A panic is a bug; it costs only this attempt.
            let done = tokio::select! {
                done = std::panic::AssertUnwindSafe(work()).catch_unwind() => {
                    done.unwrap_or_else(|_| Err(failed("internal error")("panicked; please report the log")))
                }
                _ = connections.changed() => Ok(()),
                () = settled => Ok(()),
            };
            if let Err(error) = done {
                self.problems.say(part, &error.to_string());
                self.doubts.notify_one();
            }
            sleep(backoff(1)).await;
        }
    }

    async fn watch_states(&self, store: &Store) {
        let watch = || async {
            store.read_clock().await?;
            let put = |of: &Value| self.fleet.put_state(&of.subject, of.revision, &of.bytes);
            let (mut values, mut left) = store.watch_states().await?;
            let mut seen = HashSet::new();
            while left > 0 {
                let Some((value, behind)) = values.try_next().await? else {
                    return Ok(());
                };
                put(&value);
                seen.insert(value.subject);
                left = behind;
            }
            self.fleet.has_all_states(&seen);
            drop(seen);
            while let Some((value, _)) = values.try_next().await? {
                put(&value);
            }
            Ok(())
        };
        self.again_and_again(Part::States, watch).await;
    }

    async fn watch_minutes(&self, store: &Store, hours: u32) {
        let watch = || async {
            self.fleet.forget_minutes();
            let (mut values, left) = store.watch_minutes(hours).await?;
            let is_complete = &self.fleet.is_complete[1];
            is_complete.store(left == 0, Ordering::Relaxed);
            while let Some((value, left)) = values.try_next().await? {
                self.fleet.put_minute(value.subject, &value.bytes);
                is_complete.fetch_or(left == 0, Ordering::Relaxed);
            }
            Ok(())
        };
        self.again_and_again(Part::Minutes, watch).await;
    }

    async fn watch_lag(&self, store: &Store) {
        loop {
            sleep(LAG_EVERY).await;
            // Failures here also occur, and are logged, in other parts.
            let _ = store.read_clock().await;
            if let Some(kept) = store.revisions().await {
                self.fleet.evict(kept);
            }
            if let Some(waiting) = store.waiting().await {
                let lag = waiting.values().map(|waiting| waiting.reports).sum();
                self.lag.store(lag, Ordering::Relaxed);
                self.progress.lock().see(&waiting, Instant::now());
            }
        }
    }
}

/// Owns a partition again and again, until aborted.
async fn keep(station: Arc<Station>, store: Store, partition: u16) {
    let own = || owner::own(&store, partition, &station.work, &station.room);
    let part = Part::Partition(partition);
    station.again_and_again(part, own).await;
}
