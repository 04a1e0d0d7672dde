//! Sources of a topology: a file that is read again when it changes, or OSPF.

use std::io;
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::ospf::client::{Client, ClientError};
use crate::ospf::database::{Addresses, Database, Names};
use crate::ospf::presence::Presence;
use crate::{Topology, read};

/// How long to wait for an answer of ospfd.
const PATIENCE: Duration = Duration::from_secs(5);

/// Interval between checks of the source.
const LOOK: Duration = Duration::from_millis(500);

/// A topology, and the prefixes that OSPF has.
pub type Found = (Topology, Addresses);

/// Interval between attempts to connect.
const AGAIN: Duration = Duration::from_secs(2);

/// Limit of the time for which changes wait for further ones.
const SETTLE_MAX: Duration = Duration::from_secs(3);

/// A file's modification time and size, to detect changes without reading it.
pub type Stamp = Option<(SystemTime, u64)>;

/// A source of topologies.
#[derive(Debug)]
pub enum Source {
    /// A file.
    File {
        /// Path of the file.
        file: PathBuf,
        /// Its stamp when it was last read.
        read: Option<Stamp>,
    },
    /// A router running OSPF.
    Ospf(Box<Ospf>),
}

/// FRR's ospfd; lost connections are made again.
#[derive(Debug)]
pub struct Ospf {
    server: SocketAddrV4,
    names: Names,
    presence: Option<Presence>,
    connected: Option<(Client, Database)>,
    /// Since when changes have been waiting to be published.
    changed: Option<Instant>,
    again: Instant,
    counts: Arc<Counts>,
    /// Counts of earlier connections.
    before: [u64; 2],
}

/// OSPF messages and LSAs that could not be used, in total.
#[derive(Debug, Default)]
pub struct Counts {
    /// Messages of ospfd that could not be parsed.
    pub unreadable_messages: AtomicU64,
    /// LSAs refused because the database was full.
    pub refused_lsas: AtomicU64,
}

impl Source {
    /// A file that [`read::file`] reads.
    pub fn file(file: PathBuf) -> Self {
        Self::File { file, read: None }
    }

    /// OSPF, through the API of ospfd. With `presence`, the router advertises it as long as the source
    /// exists.
    pub fn ospf(server: SocketAddrV4, names: Names, presence: Option<Presence>) -> Self {
        Self::Ospf(Box::new(Ospf {
            server,
            names,
            presence,
            connected: None,
            changed: None,
            again: Instant::now(),
            counts: Arc::default(),
            before: [0; 2],
        }))
    }

    /// The counts, for other threads; all 0 for a file.
    pub fn counts(&self) -> Arc<Counts> {
        match self {
            Self::Ospf(ospf) => Arc::clone(&ospf.counts),
            Self::File { .. } => Arc::default(),
        }
    }

    /// Follows the source on a thread of its own until `take` returns `false`. A file or a router is checked twice a
    /// second.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn follow(
        mut self,
        thread: &str,
        mut take: impl FnMut(Result<Option<Found>, String>) -> bool + Send + 'static,
    ) -> io::Result<()> {
        let thread = std::thread::Builder::new().name(thread.to_owned());
        let run = move || while take(self.next(LOOK)) {};
        thread.spawn(run).map(drop)
    }

    /// Waits about `wait`; returns the topology, if it may have changed, and the prefixes in OSPF.
    ///
    /// # Errors
    /// A description of why the topology is unknown.
    pub fn next(&mut self, wait: Duration) -> Result<Option<Found>, String> {
        match self {
            Self::Ospf(ospf) => ospf.next(wait),
            Self::File { file, read } => {
                let stamp = || {
                    let data = std::fs::metadata(&*file).ok()?;
                    Some((data.modified().ok()?, data.len()))
                };
                let now = stamp();
                if *read == Some(now) {
                    std::thread::sleep(wait);
                    return Ok(None);
                }
                *read = Some(now);
                let topology = read::file(file).map_err(|error| error.to_string())?;
                Ok(Some((topology, Addresses::default())))
            }
        }
    }
}

impl Ospf {
    fn next(&mut self, wait: Duration) -> Result<Option<Found>, String> {
        let found = self.look(wait);
        self.count();
        found
    }

    /// Publishes the counts for other threads. Those of lost connections have been added to `before`.
    fn count(&mut self) {
        let [mut unreadable, mut refused] = self.before;
        if let Some((client, database)) = &self.connected {
            unreadable += client.unreadable();
            refused += database.refused();
        }
        let counts = &self.counts;
        counts
            .unreadable_messages
            .store(unreadable, Ordering::Relaxed);
        counts.refused_lsas.store(refused, Ordering::Relaxed);
    }

    fn look(&mut self, wait: Duration) -> Result<Option<Found>, String> {
        let Some((client, database)) = &mut self.connected else {
            if Instant::now() < self.again {
                std::thread::sleep(wait);
                return Ok(None);
            }
            self.again = Instant::now() + AGAIN;
            self.connected = Some(self.connect()?);
            self.changed = Some(Instant::now());
            return Ok(None);
        };
        // Changes in quick succession are applied together, within a limit.
        match client.next(Instant::now() + wait) {
            Ok(Some(change)) => {
                if database.apply(change) {
                    self.changed.get_or_insert_with(Instant::now);
                }
            }
            Ok(None) if self.changed.is_some() => return self.publish(),
            Ok(None) => {}
            Err(error) => {
                self.before[0] += client.unreadable();
                self.before[1] += database.refused();
                self.connected = None;
                return Err(error.to_string());
            }
        }
        if self
            .changed
            .is_some_and(|since| since.elapsed() > SETTLE_MAX)
        {
            return self.publish();
        }
        Ok(None)
    }

    /// The present network.
    fn publish(&mut self) -> Result<Option<Found>, String> {
        self.changed = None;
        let Some((_, database)) = &self.connected else {
            return Ok(None);
        };
        let view = database.view(&self.names);
        let view = view.map_err(|error| error.to_string())?;
        Ok(Some((view.topology, view.addresses)))
    }

    fn connect(&self) -> Result<(Client, Database), String> {
        let connected = || {
            let mut client = Client::connect(self.server, PATIENCE)?;
            let (database, _) = client.synchronise()?;
            if let Some(presence) = &self.presence {
                client.advertise(std::net::Ipv4Addr::UNSPECIFIED, presence)?;
            }
            Ok((client, database))
        };
        connected().map_err(|error: ClientError| error.to_string())
    }
}
