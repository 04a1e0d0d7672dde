//! `vernier-station`: joins the reports of many switches, and answers for segments, paths and what is missing.
//!
//! ```text
//!  switches --reports--> JetStream --partition's consumer--> owner --states, minutes--> JetStream
//!                                                                                          |
//!            Prometheus, JSON, `vernier --station` <-- answers <-- fleet (every station) <-+
//! ```
//!
//! Stations share the partitions among those that live ([`members`]); one that dies loses no report ([`owner`]); every
//! station answers from what is in JetStream ([`fleet`]), so that all give the same answer.
//!
//! What it is not: it measures nothing, and keeps nothing that is not in JetStream.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use async_nats::{Client, Event};
use futures_util::{FutureExt, StreamExt};
use parking_lot::{Mutex, RwLock};
use report::connection::{Connection, backoff};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use topology::Topology;
use topology::ospf::database::Addresses;
use topology::source::{Counts, Source};

pub mod answers;
pub mod blame;
pub mod bus;
pub mod cli;
pub mod clock;
pub mod fleet;
pub mod flow;
pub mod found;
pub mod known;
pub mod learn;
pub mod members;
pub mod memory;
pub mod owner;
pub mod page;
pub mod path;
pub mod progress;
pub mod settings;
#[cfg(any(test, feature = "simulated"))]
pub mod simulated;
pub mod state;
pub mod store;
pub mod summary;
pub mod values;

use clock::Clock;
use fleet::Fleet;
use learn::Room;
use members::{ALIVE, BEAT, GONE, Members};
use owner::Work;
use progress::Progress;
use settings::{Ends, Settings};
use store::{Store, StoreError, failed};

/// Between two looks at the topology's source.
const LOOK: Duration = Duration::from_millis(500);

/// How often the lag, the server's clock and what it has evicted are asked for.
const LAG_EVERY: Duration = Duration::from_secs(5);

/// A station.
#[derive(Debug)]
pub struct Station {
    /// What it answers from.
    pub fleet: Fleet,
    /// What bounds the answers.
    answering: answers::Answering,
    /// The clock of the NATS server.
    pub clock: Arc<Clock>,
    /// The topology, where it is not what switches report.
    topology: RwLock<Option<Arc<Topology>>>,
    /// What of OSPF could not be taken up.
    ospf: Arc<Counts>,
    /// Paths with series of their own.
    pub paths: Vec<Ends>,
    /// What it has counted as an owner.
    pub work: Arc<Work>,
    /// Segments whose histories it has as an owner.
    pub room: Arc<Room>,
    /// Whether it is connected to NATS.
    pub is_connected: AtomicBool,
    /// Rises with every connection: what was asked of the server before is asked anew.
    connections: watch::Sender<u64>,
    /// Stations that live.
    pub alive: AtomicU64,
    /// Partitions that it owns.
    pub owned: AtomicU64,
    /// Reports that wait in all partitions.
    pub lag: AtomicU64,
    /// Whether each partition makes progress.
    pub progress: Mutex<Progress>,
    /// Where partitions are worked at.
    workers: Workers,
}

/// A thread that works at the partitions. Whatever it takes, the connection and the heartbeats of the station go on.
#[derive(Debug)]
struct Workers {
    handle: Handle,
    /// It ends when this is dropped.
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

/// Nanoseconds since 1970 (UTC) by this machine's clock; [`Clock`] has the server's.
pub fn now_unix_ns() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

impl Station {
    /// A station that does nothing yet, but that follows the topology.
    ///
    /// # Errors
    /// Where the topology's file has none, or the system gives no thread.
    pub fn new(settings: &Settings) -> anyhow::Result<Arc<Self>> {
        let source = settings.source();
        let station = Arc::new(Self {
            ospf: source.as_ref().map(Source::counts).unwrap_or_default(),
            fleet: Fleet::new((settings.memory_mib as usize) << 20),
            answering: answers::Answering::default(),
            clock: Arc::default(),
            topology: RwLock::default(),
            paths: settings.paths.clone(),
            work: Arc::default(),
            room: Arc::new(Room::new(settings.located_segments.into())),
            is_connected: AtomicBool::new(false),
            connections: watch::Sender::new(0),
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

    /// Takes up the topology, and its changes on a thread of its own for as long as the station is there.
    fn follow(self: &Arc<Self>, mut source: Source) -> anyhow::Result<()> {
        // Of a file the first look reads it: better none than a wrong one.
        if let Source::File { .. } = source {
            let read = source.next(Duration::ZERO).map_err(anyhow::Error::msg);
            self.take_topology(read.context("topology")?);
        }
        let station = Arc::downgrade(self);
        let run = move || {
            let mut complaints = Complaints::default();
            while let Some(station) = station.upgrade() {
                match source.next(LOOK) {
                    Ok(read) => station.take_topology(read),
                    Err(problem) => {
                        complaints.say(&format!("topology: {problem}; it stays as it is"));
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("vernier-topology".to_owned());
        thread.spawn(run)?;
        Ok(())
    }

    fn take_topology(&self, read: Option<(Topology, Addresses)>) {
        if let Some((topology, _)) = read {
            let (routers, links) = (topology.routers().count(), topology.links());
            tracing::info!("topology: {routers} routers, {links} links, each direction for itself");
            *self.topology.write() = Some(Arc::new(topology));
        }
    }

    /// The topology, where it is not what switches report.
    pub fn topology(&self) -> Option<Arc<Topology>> {
        self.topology.read().clone()
    }

    /// Works until it is to stop. Whatever fails is logged and tried again.
    pub async fn run(
        self: &Arc<Self>,
        connection: &Connection,
        settings: &Settings,
        mut stopped: watch::Receiver<bool>,
    ) {
        let mut complaints = Complaints::default();
        let sharing = stopped.clone();
        tokio::select! {
            () = async {
                let client = self.connect(connection, &mut complaints).await;
                let store = loop {
                    match Store::open(client.clone(), settings).await {
                        Ok(mut store) => {
                            store.clock = Arc::clone(&self.clock);
                            break store;
                        }
                        Err(error) => complaints.say(&error.to_string()),
                    }
                    sleep(backoff(3)).await;
                };
                tokio::join!(
                    self.share(&client, &store, sharing),
                    self.watch_states(&store),
                    self.watch_minutes(&store, settings.history.hours),
                    self.watch_lag(&store),
                );
            } => {}
            () = async { stopped.wait_for(|&stopped| stopped).await.ok(); sleep(Duration::from_secs(1)).await } => {}
        }
    }

    async fn connect(
        self: &Arc<Self>,
        connection: &Connection,
        complaints: &mut Complaints,
    ) -> Client {
        let mut attempts = 0;
        loop {
            let station = Arc::clone(self);
            let event = move |event: Event| {
                let is_connected = match event {
                    Event::Connected => {
                        station.connections.send_modify(|number| *number += 1);
                        true
                    }
                    Event::Disconnected => false,
                    _ => return,
                };
                if station.is_connected.swap(is_connected, Ordering::Relaxed) != is_connected {
                    let now = if is_connected {
                        "connected to NATS"
                    } else {
                        "the connection to NATS is lost"
                    };
                    tracing::info!("{now}");
                }
            };
            match connection.connect("vernier-station", event).await {
                Ok(client) => return client,
                Err(error) => complaints.say(&error),
            }
            attempts += 1;
            sleep(backoff(attempts)).await;
        }
    }

    /// Takes up partitions and leaves them, as stations come and go.
    async fn share(
        self: &Arc<Self>,
        client: &Client,
        store: &Store,
        mut stopped: watch::Receiver<bool>,
    ) {
        let mut random = [0; 8];
        if getrandom::fill(&mut random).is_err() {
            random = now_unix_ns().to_le_bytes();
        }
        let mut members = Members::new(format!("{:016x}", u64::from_le_bytes(random)));
        let began = Instant::now();
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
            // Others are heard first.
            if began.elapsed() < 2 * BEAT {
                continue;
            }
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
                }
            }
        }
        for owner in owners.into_iter().flatten() {
            owner.abort();
        }
        let _ = client.publish(GONE, members.own().to_owned().into()).await;
        let _ = client.flush().await;
    }

    /// Does it until there is another connection: after a restart the server knows of no request that came before.
    async fn until_reconnected(
        &self,
        work: impl Future<Output = Result<(), StoreError>>,
    ) -> Result<(), StoreError> {
        let mut connections = self.connections.subscribe();
        tokio::select! {
            done = work => done,
            _ = connections.changed() => Ok(()),
        }
    }

    async fn watch_states(&self, store: &Store) {
        let mut complaints = Complaints::default();
        loop {
            let watched = async {
                store.read_clock().await?;
                let (mut messages, mut pending) = store.watch_states().await?;
                self.fleet.is_complete[0].store(pending == 0, Ordering::Relaxed);
                while let Some(message) = messages.next().await {
                    let message = message.map_err(failed("cannot read states"))?;
                    self.fleet.take_state(&message);
                    pending = pending.saturating_sub(1);
                    if pending == 0 {
                        self.fleet.is_complete[0].store(true, Ordering::Relaxed);
                    }
                }
                Ok::<(), StoreError>(())
            };
            complaints.note(self.until_reconnected(watched).await);
            sleep(backoff(1)).await;
        }
    }

    async fn watch_minutes(&self, store: &Store, hours: u32) {
        let mut complaints = Complaints::default();
        loop {
            let watched = async {
                self.fleet.forget_minutes();
                let (mut messages, mut pending) = store.watch_minutes(hours).await?;
                self.fleet.is_complete[1].store(pending == 0, Ordering::Relaxed);
                while let Some(message) = messages.next().await {
                    let message = message.map_err(failed("cannot read minutes"))?;
                    self.fleet.take_minute(&message);
                    pending = pending.saturating_sub(1);
                    if pending == 0 {
                        self.fleet.is_complete[1].store(true, Ordering::Relaxed);
                    }
                }
                Ok::<(), StoreError>(())
            };
            complaints.note(self.until_reconnected(watched).await);
            sleep(backoff(1)).await;
        }
    }

    async fn watch_lag(&self, store: &Store) {
        loop {
            sleep(LAG_EVERY).await;
            // What fails here fails elsewhere, too, and is logged there.
            let _ = store.read_clock().await;
            let newest = self.fleet.newest();
            if let Some(kept) = store.revisions().await {
                self.fleet.evict(&kept, newest);
            }
            if let Some(waiting) = store.waiting().await {
                let lag = waiting.values().map(|waiting| waiting.reports).sum();
                self.lag.store(lag, Ordering::Relaxed);
                self.progress.lock().see(&waiting, Instant::now());
            }
        }
    }
}

/// Owns a partition again and again, until it is aborted.
async fn keep(station: Arc<Station>, store: Store, partition: u16) {
    let mut complaints = Complaints::default();
    loop {
        let owned =
            station.until_reconnected(owner::own(&store, partition, &station.work, &station.room));
        // A panic is a fault of this program: it costs this attempt.
        if let Ok(owned) = std::panic::AssertUnwindSafe(owned).catch_unwind().await {
            complaints.note(owned);
        }
        sleep(backoff(1)).await;
    }
}

/// Logs each complaint once, until there is another one.
#[derive(Debug, Default)]
struct Complaints(String);

impl Complaints {
    fn say(&mut self, complaint: &str) {
        if self.0 != complaint {
            tracing::warn!("{complaint}");
            complaint.clone_into(&mut self.0);
        }
    }

    fn note(&mut self, outcome: Result<(), StoreError>) {
        match outcome {
            Ok(()) => self.0.clear(),
            Err(error) => self.say(&error.to_string()),
        }
    }
}
