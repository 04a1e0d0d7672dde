//! Where the topology comes from: a file that is read again when it changes, or OSPF.

use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use topology::ospf::client::Client;
use topology::ospf::database::{Database, Names};
use topology::ospf::presence::Presence;
use topology::read;

use super::{Network, reflector};
use crate::config::MsetConfig;

/// Longest wait for an answer of ospfd.
const PATIENCE: Duration = Duration::from_secs(5);

/// Between two attempts to connect.
const AGAIN: Duration = Duration::from_secs(2);

/// Longest time for which changes wait for others.
const SETTLE_MAX: Duration = Duration::from_secs(3);

/// What is known of a file's content without reading it.
type Stamp = Option<(SystemTime, u64)>;

/// A source of topologies.
pub(super) enum Source {
    File {
        file: PathBuf,
        /// Of the file as it was read last.
        read: Option<Stamp>,
    },
    Ospf(Box<Ospf>),
    /// What the configuration's check refuses.
    None,
}

pub(super) struct Ospf {
    server: SocketAddrV4,
    names: Names,
    presence: Option<Presence>,
    connected: Option<(Client, Database)>,
    /// Since when there are changes that were not published.
    changed: Option<Instant>,
    again: Instant,
}

impl Source {
    pub fn of(config: &MsetConfig, node: &str) -> Self {
        let presence = config.advertise.map(|role| Presence {
            role,
            name: Some(node.to_owned()),
        });
        if let Some(server) = config.ospf {
            return Self::Ospf(Box::new(Ospf {
                server,
                names: config.names.clone(),
                presence,
                connected: None,
                changed: None,
                again: Instant::now(),
            }));
        }
        match config.topology.clone() {
            Some(file) => Self::File { file, read: None },
            None => Self::None,
        }
    }

    /// Waits about so long; the topology, if it may have changed.
    ///
    /// # Errors
    /// Why it is not known, in words.
    pub fn next(&mut self, wait: Duration) -> Result<Option<Network>, String> {
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
                Ok(Some(Network {
                    topology,
                    addresses: [].into(),
                }))
            }
            Self::None => {
                std::thread::sleep(wait);
                Ok(None)
            }
        }
    }
}

impl Ospf {
    fn next(&mut self, wait: Duration) -> Result<Option<Network>, String> {
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
        // Changes that follow each other at once are taken up together, but not for ever.
        match client.next(Instant::now() + wait) {
            Ok(Some(change)) => {
                if database.apply(change) {
                    self.changed.get_or_insert_with(Instant::now);
                }
            }
            Ok(None) if self.changed.is_some() => return self.publish(),
            Ok(None) => {}
            Err(error) => {
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

    /// The network as it is now.
    fn publish(&mut self) -> Result<Option<Network>, String> {
        self.changed = None;
        let Some((_, database)) = &self.connected else {
            return Ok(None);
        };
        let view = database
            .view(&self.names)
            .map_err(|error| error.to_string())?;
        let routers = view.topology.routers();
        let addresses = routers.filter_map(|router| {
            let own = view.addresses.of(router).find(|(_, length)| *length == 32);
            let (ip, _) = own?;
            Some((view.topology.name(router).to_owned(), reflector(ip)))
        });
        Ok(Some(Network {
            addresses: addresses.collect(),
            topology: view.topology,
        }))
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
        connected().map_err(|error: topology::ospf::client::ClientError| error.to_string())
    }
}
