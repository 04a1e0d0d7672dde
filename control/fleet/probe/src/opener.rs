//! Opens the sockets and reads the keys of a configuration.

use crate::config::{Address, Config, PORT, ReflectorConfig, SessionConfig};
use crate::engine::{Engine, SenderKey, SessionKey};
use crate::reflector::{Reflector, Settings};
use crate::result::SessionId;
use crate::session::{Intervals, Session, SessionSettings};
use crate::wire::{ErrorEstimate, Key, UnixNs};
use anyhow::{Context, Result, anyhow};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Opens sessions.
#[derive(Debug)]
pub struct Opener {
    error: ErrorEstimate,
    count: Option<u64>,
    keys: Keys,
    random: Pcg64Mcg,
}

/// The keys that have been read, by file; each file is read once.
#[derive(Debug, Default)]
struct Keys(HashMap<PathBuf, Key>);

/// Reads all key files of a configuration.
///
/// # Errors
/// A file failed, with the JSON path of its key.
pub fn check_keys(config: &Config) -> Result<()> {
    let mut keys = Keys::default();
    if let Some(ReflectorConfig {
        key_file,
        tlv_key_file,
        ..
    }) = &config.reflector
    {
        keys.both("reflector", key_file.as_deref(), tlv_key_file.as_deref())?;
    }
    for (index, session) in config.sessions.iter().enumerate() {
        let (key, tlv_key) = (session.key_file.as_deref(), session.tlv_key_file.as_deref());
        keys.both(&format!("sessions[{index}]"), key, tlv_key)?;
    }
    Ok(())
}

/// Opens all sockets and reads all keys. `interval` overrides the configured length, `count` limits the packets of
/// each session.
///
/// # Errors
/// A socket or key failed, with the JSON path of its key. Nothing stays open.
pub fn ready(
    config: &Config,
    interval: Option<Duration>,
    count: Option<u64>,
) -> Result<(Engine, Opener)> {
    let seed = getrandom::u64();
    let seed = seed.map_err(|error| anyhow!("no random numbers from the system: {error}"))?;
    let intervals = Intervals {
        length: interval.unwrap_or(Duration::from_millis(config.interval_ms)),
        start: UnixNs::now(),
    };
    let mut engine = Engine::new(intervals, config.timestamps)
        .context("the system provides no descriptor to wait for packets")?;
    let mut opener = Opener {
        error: config.clock.estimate(),
        count,
        keys: Keys::default(),
        random: Pcg64Mcg::seed_from_u64(seed),
    };
    if let Some(reflector) = &config.reflector {
        let settings = opener.reflector(config, reflector)?;
        let listen = reflector.listen.iter();
        let listen = listen.map(|address| address.with_port(PORT));
        let listening = engine.reflect(Reflector::new(settings), listen);
        listening.map_err(|error| anyhow!("reflector.listen: {error}"))?;
    }
    for (index, session) in config.sessions.iter().enumerate() {
        opener.open(&mut engine, session, 0, &format!("sessions[{index}]"))?;
    }
    Ok((engine, opener))
}

impl Opener {
    /// Adds a session on a socket of this lane; `path` names it in errors.
    ///
    /// # Errors
    /// A socket or key failed, with the JSON path of its key.
    pub fn open(
        &mut self,
        engine: &mut Engine,
        session: &SessionConfig,
        lane: usize,
        path: &str,
    ) -> Result<SessionKey> {
        let to = session.to.with_port(PORT);
        let from = session
            .from
            .map_or_else(|| any(to), |from: Address| from.with_port(0));
        let key = SenderKey {
            from,
            traffic_class: session.dscp << 2,
            lane,
        };
        let opened = engine.sender(key, to);
        let (sender, from, ssid) = opened.map_err(|error| anyhow!("{path}.from: {error}"))?;
        let ssid = ssid.with_context(|| {
            format!("{path}: this reflector has 65,535 sessions already; give some of them another `from` or `dscp`")
        })?;
        let (key, tlv_key) = (session.key_file.as_deref(), session.tlv_key_file.as_deref());
        let (key, tlv_key) = self.keys.both(path, key, tlv_key)?;
        let settings = SessionSettings {
            id: SessionId {
                name: session.name.clone(),
                node: session.node.clone().unwrap_or_else(|| session.name.clone()),
                class: session.class.clone(),
                from,
                to,
                ssid,
                dscp: session.dscp,
            },
            config: session.clone(),
            tlv_key,
            key,
            count: self.count,
            error: self.error,
        };
        let (now, seed) = (engine.now(), self.random.next_u64());
        let session = Session::new(settings, engine.intervals(), now, seed);
        Ok(engine.add(session, sender))
    }

    fn reflector(&mut self, config: &Config, reflector: &ReflectorConfig) -> Result<Settings> {
        let (key, tlv_key) = (
            reflector.key_file.as_deref(),
            reflector.tlv_key_file.as_deref(),
        );
        let (key, tlv_key) = self.keys.both("reflector", key, tlv_key)?;
        Ok(Settings {
            config: reflector.clone(),
            tlv_key,
            key,
            error: self.error,
            clock: config.clock.source,
        })
    }
}

impl Keys {
    /// The key of base packets and that of TLVs, which defaults to the former; `path` locates them in the configuration.
    fn both(
        &mut self,
        path: &str,
        key_file: Option<&Path>,
        tlv_key_file: Option<&Path>,
    ) -> Result<(Option<Key>, Option<Key>)> {
        let mut read = |file: Option<&Path>, name| {
            file.map(|file| {
                self.read(file)
                    .map_err(|error| anyhow!("{path}.{name}: {}: {error}", file.display()))
            })
            .transpose()
        };
        let key = read(key_file, "key_file")?;
        let tlv_key = read(tlv_key_file, "tlv_key_file")?.or_else(|| key.clone());
        Ok((key, tlv_key))
    }

    fn read(&mut self, file: &Path) -> Result<Key> {
        if let Some(key) = self.0.get(file) {
            return Ok(key.clone());
        }
        let key = Key::load(file)?;
        self.0.insert(file.to_owned(), key.clone());
        Ok(key)
    }
}

fn any(to: SocketAddr) -> SocketAddr {
    match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}
