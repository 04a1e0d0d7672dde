//! Opens and ends sessions, on the thread that measures.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::time::Duration;

use super::Target;
use crate::config::{MsetConfig, PORT};
use crate::engine::{Engine, SessionKey};
use crate::setup::Opener;

/// When what could not be opened is tried again.
const AGAIN: Duration = Duration::from_secs(10);

/// A session: node, reflector, lane.
type Wanted = (String, SocketAddr, usize);

/// The sessions of an m-set.
#[derive(Debug)]
pub struct MsetSessions {
    config: MsetConfig,
    /// Most sessions.
    room: usize,
    wanted: Vec<Wanted>,
    open: HashMap<Wanted, SessionKey>,
    again: Option<Duration>,
    complaint: String,
}

impl MsetSessions {
    /// None yet, and at most `room`.
    pub fn new(config: MsetConfig, room: usize) -> Self {
        Self {
            config,
            room,
            wanted: Vec::new(),
            open: HashMap::new(),
            again: None,
            complaint: String::new(),
        }
    }

    /// Makes sessions as they are wanted now, where `targets` are other ones than before; tries again what failed.
    pub fn follow(&mut self, targets: Option<&[Target]>, engine: &mut Engine, opener: &mut Opener) {
        if let Some(targets) = targets {
            self.change(targets, engine);
            self.again = Some(Duration::ZERO);
        }
        if self.again.is_some_and(|again| again <= engine.now()) {
            self.again = None;
            self.open(engine, opener);
        }
    }

    fn change(&mut self, targets: &[Target], engine: &mut Engine) {
        let wanted = targets.iter().filter_map(|target| {
            let to = target.to?.with_port(PORT);
            Some((0..target.lanes()).map(move |lane| (target.node.clone(), to, lane)))
        });
        self.wanted = wanted.flatten().collect();
        if self.wanted.len() > self.room {
            tracing::warn!(
                "mset: {} sessions are wanted, {} are made: give `session` a longer interval_ms",
                self.wanted.len(),
                self.room
            );
            self.wanted.truncate(self.room);
        }
        let wanted: HashSet<&Wanted> = self.wanted.iter().collect();
        self.open.retain(|session, &mut key| {
            let stays = wanted.contains(session);
            if !stays {
                engine.end(key);
            }
            stays
        });
    }

    fn open(&mut self, engine: &mut Engine, opener: &mut Opener) {
        for wanted in &self.wanted {
            if self.open.contains_key(wanted) {
                continue;
            }
            let (node, to, lane) = wanted;
            let session = self.config.session(node, (*to).into(), *lane);
            match opener.open(engine, &session, *lane, "mset.session") {
                Ok(key) => {
                    self.open.insert(wanted.clone(), key);
                }
                Err(error) => {
                    self.again = Some(engine.now() + AGAIN);
                    let complaint = format!("mset: {node} is not probed: {error}");
                    if self.complaint != complaint {
                        tracing::warn!("{complaint}; tried again every {} s", AGAIN.as_secs());
                        self.complaint = complaint;
                    }
                }
            }
        }
    }
}
