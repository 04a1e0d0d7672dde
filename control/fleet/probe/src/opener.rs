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
    /// By the names of their files; each is read once.
    keys: HashMap<PathBuf, Key>,
    random: Pcg64Mcg,
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
        keys: HashMap::new(),
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
        let key = self.key(session.key_file.as_deref(), path, "key_file")?;
        let tlv_key = self.key(session.tlv_key_file.as_deref(), path, "tlv_key_file")?;
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
            tlv_key: tlv_key.or_else(|| key.clone()),
            key,
            count: self.count,
            error: self.error,
        };
        let (now, seed) = (engine.now(), self.random.next_u64());
        let session = Session::new(settings, engine.intervals(), now, seed);
        Ok(engine.add(session, sender))
    }

    fn reflector(&mut self, config: &Config, reflector: &ReflectorConfig) -> Result<Settings> {
        let key = self.key(reflector.key_file.as_deref(), "reflector", "key_file")?;
        let tlv_key = reflector.tlv_key_file.as_deref();
        let tlv_key = self.key(tlv_key, "reflector", "tlv_key_file")?;
        Ok(Settings {
            config: reflector.clone(),
            tlv_key: tlv_key.or_else(|| key.clone()),
            key,
            error: self.error,
            clock: config.clock.source,
        })
    }

    /// The key in a file, if there is one; `path` and `name` locate the file's name in the configuration.
    fn key(&mut self, file: Option<&Path>, path: &str, name: &str) -> Result<Option<Key>> {
        let Some(file) = file else { return Ok(None) };
        if let Some(key) = self.keys.get(file) {
            return Ok(Some(key.clone()));
        }
        let key = Key::load(file)
            .map_err(|error| anyhow!("{path}.{name}: {}: {error}", file.display()))?;
        self.keys.insert(file.to_owned(), key.clone());
        Ok(Some(key))
    }
}

fn any(to: SocketAddr) -> SocketAddr {
    match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}
