//! From a configuration to an engine.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::config::{Address, Config, PORT, ReflectorConfig, SessionConfig};
use crate::engine::{Engine, SenderKey, SessionKey, SocketError};
use crate::reflector::{Reflector, Settings};
use crate::session::{Intervals, LengthError, Session, SessionSettings};
use crate::wire::key::{Key, KeyError};
use crate::wire::time::{ErrorEstimate, UnixNs};

/// Why what is configured cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A key.
    #[error("{path}: {error}")]
    Key {
        /// The JSON path of the file's name.
        path: String,
        /// What is wrong.
        error: KeyError,
    },
    /// A socket.
    #[error("{path}: {error}")]
    Socket {
        /// The JSON path of the address.
        path: String,
        /// What is wrong.
        error: SocketError,
    },
    /// A length, which the configuration's check would have refused.
    #[error("{path}: {error}")]
    Length {
        /// The JSON path.
        path: String,
        /// What is wrong.
        error: LengthError,
    },
    /// No more identifiers for sessions between the same addresses.
    #[error(
        "{path}: there are 65,535 sessions to this reflector; give some another `from` or `dscp`"
    )]
    Identifiers {
        /// The JSON path of the session.
        path: String,
    },
    /// The system has no random numbers.
    #[error("no random numbers from the system: {0}")]
    Random(getrandom::Error),
}

/// Keys by the names of their files, each read once.
#[derive(Debug, Default)]
struct Keys(HashMap<PathBuf, Key>);

impl Keys {
    fn load(
        &mut self,
        file: Option<&Path>,
        path: impl FnOnce() -> String,
    ) -> Result<Option<Key>, SetupError> {
        let Some(file) = file else {
            return Ok(None);
        };
        if let Some(key) = self.0.get(file) {
            return Ok(Some(key.clone()));
        }
        let key = Key::load(file).map_err(|error| SetupError::Key {
            path: path(),
            error,
        })?;
        self.0.insert(file.to_owned(), key.clone());
        Ok(Some(key))
    }
}

/// What was started.
#[derive(Debug)]
pub struct Ready {
    /// The engine, to be run.
    pub engine: Engine,
    /// Where the reflector listens.
    pub listening: Vec<SocketAddr>,
    /// Opens further sessions.
    pub opener: Opener,
}

/// Opens sessions.
#[derive(Debug)]
pub struct Opener {
    error: ErrorEstimate,
    count: Option<u64>,
    keys: Keys,
    random: Pcg64Mcg,
}

/// Opens all sockets and reads all keys. `interval` overrides the configuration's length, `count` limits the packets of each
/// session.
///
/// # Errors
/// [`SetupError`]; nothing is left behind then.
pub fn ready(
    config: &Config,
    interval: Option<Duration>,
    count: Option<u64>,
) -> Result<Ready, SetupError> {
    let seed = getrandom::u64().map_err(SetupError::Random)?;
    let intervals = Intervals {
        length: interval.unwrap_or(Duration::from_millis(config.interval_ms)),
        start: UnixNs::now(),
    };
    let mut engine = Engine::new(Instant::now(), intervals, config.timestamps);
    let mut opener = Opener {
        error: config.clock.estimate(),
        count,
        keys: Keys::default(),
        random: Pcg64Mcg::seed_from_u64(seed),
    };
    let mut listening = Vec::new();
    if let Some(reflector) = &config.reflector {
        let settings = reflector_settings(config, reflector, &mut opener.keys)?;
        let listen: Vec<_> = reflector
            .listen
            .iter()
            .map(|address| address.with_port(PORT))
            .collect();
        listening = engine
            .reflect(Reflector::new(settings), &listen)
            .map_err(|error| {
                let path = "reflector.listen".to_owned();
                SetupError::Socket { path, error }
            })?;
    }
    for (index, session) in config.sessions.iter().enumerate() {
        opener.open(&mut engine, session, 0, &format!("sessions[{index}]"))?;
    }
    Ok(Ready {
        engine,
        listening,
        opener,
    })
}

impl Opener {
    /// Adds a session, by a socket of this lane; `path` names it in errors.
    ///
    /// # Errors
    /// [`SetupError`]
    pub fn open(
        &mut self,
        engine: &mut Engine,
        session: &SessionConfig,
        lane: usize,
        path: &str,
    ) -> Result<SessionKey, SetupError> {
        let at = |key: &str| format!("{path}{key}");
        let to = session.to.with_port(PORT);
        let from = session
            .from
            .map_or_else(|| any(to), |from: Address| from.with_port(0));
        let key = SenderKey {
            from,
            traffic_class: session.dscp << 2,
            lane,
        };
        let opened = engine.sender(key, to).map_err(|error| {
            let path = at(".from");
            SetupError::Socket { path, error }
        });
        let (sender, from, ssid) = opened?;
        let ssid = ssid.ok_or_else(|| SetupError::Identifiers { path: at("") })?;
        let mut load = |file: &Option<PathBuf>, key| self.keys.load(file.as_deref(), || at(key));
        let key = load(&session.key_file, ".key_file")?;
        let tlv_key = load(&session.tlv_key_file, ".tlv_key_file")?;
        let settings = SessionSettings {
            name: session.name.clone(),
            node: session.node.clone().unwrap_or_else(|| session.name.clone()),
            class: session.class.clone(),
            from,
            to,
            ssid,
            dscp: session.dscp,
            tlv_key: tlv_key.or_else(|| key.clone()),
            key,
            length: session.bytes(),
            extensions: session.kinds(),
            spacing: session.schedule,
            gap: session.gap(),
            count: self.count,
            timeout: Duration::from_millis(session.timeout_ms),
            error: self.error,
        };
        let (now, seed) = (engine.now(), self.random.next_u64());
        let session = Session::new(settings, engine.intervals(), now, seed).map_err(|error| {
            let path = at(".length");
            SetupError::Length { path, error }
        })?;
        Ok(engine.add(session, sender))
    }
}

fn any(to: SocketAddr) -> SocketAddr {
    match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

fn reflector_settings(
    config: &Config,
    reflector: &ReflectorConfig,
    keys: &mut Keys,
) -> Result<Settings, SetupError> {
    let path = |key: &str| format!("reflector.{key}");
    let key = keys.load(reflector.key_file.as_deref(), || path("key_file"))?;
    let tlv_key = keys.load(reflector.tlv_key_file.as_deref(), || path("tlv_key_file"))?;
    let allowed = reflector.allowed_dscp.as_ref().map(|allowed| {
        let bits = allowed.iter().map(|dscp| 1_u64 << (dscp & 63));
        bits.fold(0, |all, bit| all | bit)
    });
    Ok(Settings {
        tlv_key: tlv_key.or_else(|| key.clone()),
        key,
        error: config.clock.estimate(),
        clock: config.clock.source,
        sessions: reflector.sessions_max,
        idle: Duration::from_secs(reflector.idle_s),
        limit_pps: reflector.limit_pps,
        dscp_allowed: allowed.unwrap_or(u64::MAX),
    })
}
