//! Settings that are read again while the program runs: refused whole, or taken up whole with the next plan.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use contract::config::HostConfig;
use measure::packet::Hashing;
use measure::time::{Epoch, TickRate};
use records::snapshot::{self, ReloadOutcome};

use crate::ports::PortTable;

/// Settings that cannot change while the program runs, with all below them, besides those of `vernierd`, and why.
const FIXED: [(&str, &str); 3] = [
    ("classes", CLASSES),
    ("rules", CLASSES),
    ("measurement.stamps", "packets under way have their stamps"),
];

const CLASSES: &str = "packets under way have their classes";

const HASHES: &str = "packets carry no hashes of this kind since the start";

/// The last reload that somebody asked for, and how it continues.
#[derive(Debug)]
pub struct Reload {
    /// Set by a request.
    wanted: Arc<AtomicBool>,
    /// Where the settings are; none: they are the defaults.
    file: Option<PathBuf>,
    last: Option<snapshot::Reload>,
    /// What is to be taken up with the next plan.
    coming: Option<HostConfig>,
    /// The epoch from which it is in use.
    until: Option<Epoch>,
}

/// What the program measures by now.
pub struct Present<'p> {
    pub settings: &'p HostConfig,
    pub ports: &'p PortTable,
    pub rate: TickRate,
    /// What each packet carries.
    pub hashing: Hashing,
}

impl Reload {
    pub fn new(wanted: Arc<AtomicBool>, file: Option<PathBuf>) -> Self {
        Self {
            wanted,
            file,
            last: None,
            coming: None,
            until: None,
        }
    }

    pub fn last(&self) -> Option<snapshot::Reload> {
        self.last.clone()
    }

    /// Reads the settings, if somebody asks for that and the reload before is over; whether another plan is needed.
    pub fn read(&mut self, present: &Present<'_>) -> bool {
        if self.is_open() || !self.wanted.swap(false, Ordering::Relaxed) {
            return false;
        }
        let number = self.last.as_ref().map_or(1, |last| last.number + 1);
        let (outcome, message) = match self.compare(present) {
            Err(error) => (ReloadOutcome::Refused, format!("{error:#}")),
            Ok(None) => (ReloadOutcome::Unchanged, String::new()),
            Ok(Some((settings, keys))) => {
                self.coming = Some(settings);
                (ReloadOutcome::UnderWay, keys.join(", "))
            }
        };
        match outcome {
            ReloadOutcome::Refused => say_refused(&message),
            ReloadOutcome::UnderWay => tracing::info!("settings: changed: {message}"),
            _ => {}
        }
        self.last = Some(snapshot::Reload {
            number,
            outcome,
            message,
        });
        self.coming.is_some()
    }

    fn is_open(&self) -> bool {
        self.coming.is_some() || self.until.is_some()
    }

    /// What the file says, and the keys that it changes; none, if it changes nothing.
    fn compare(&self, present: &Present<'_>) -> Result<Option<(HostConfig, Vec<String>)>> {
        let Some(file) = &self.file else {
            bail!("VERNIER_CONFIG names no file");
        };
        let new = HostConfig::load(file)?;
        let (names, old) = (present.ports.names(), present.settings);
        let (mut keys, mut fixed) = (Vec::new(), Vec::new());
        let mut changed = |key: String, why: Option<&str>| {
            fixed.extend(why.map(|why| format!("{key}: {why}; restart the program to change it")));
            keys.push(key);
        };
        let config = new.config(&names);
        for change in old.config(&names).diff(&config) {
            let why = change.fixed.or_else(|| why_fixed(&change.path));
            changed(change.path, why);
        }
        if old.port_names != new.port_names {
            match present.ports.renamed(&old.port_names, &new.port_names) {
                Some(port) => changed(format!("port_names.{port}"), Some("the port has its name")),
                None => changed("port_names".to_owned(), None),
            }
        }
        if config.shard_layout(present.rate)?.hashing() > present.hashing {
            changed("measurement".to_owned(), Some(HASHES));
        }
        if !fixed.is_empty() {
            bail!("{}", fixed.join("; "));
        }
        Ok((!keys.is_empty()).then_some((new, keys)))
    }

    /// The settings that the next plan is made by, if they are others than those in use.
    pub fn coming(&self) -> Option<&HostConfig> {
        self.coming.as_ref()
    }

    /// The plan made by them is in use from an epoch on: the settings that hold from now on.
    pub fn take_up(&mut self, from: Epoch) -> Option<HostConfig> {
        let coming = self.coming.take()?;
        self.until = Some(from);
        Some(coming)
    }

    /// No plan can be made by them.
    pub fn refuse(&mut self, error: &anyhow::Error) {
        let message = format!("{error:#}");
        say_refused(&message);
        self.coming = None;
        self.end(ReloadOutcome::Refused, Some(message));
    }

    /// The present epoch.
    pub fn tick(&mut self, present: Epoch) {
        if self.until.is_some_and(|until| present >= until) {
            self.until = None;
            self.end(ReloadOutcome::Done, None);
        }
    }

    fn end(&mut self, outcome: ReloadOutcome, message: Option<String>) {
        if let Some(last) = &mut self.last {
            last.outcome = outcome;
            last.message = message.unwrap_or_else(|| std::mem::take(&mut last.message));
        }
    }
}

fn say_refused(message: &str) {
    tracing::warn!("settings: not taken up: {message}");
}

fn why_fixed(path: &str) -> Option<&'static str> {
    let is_under = |(key, _): &&(&str, &str)| {
        let rest = path.strip_prefix(*key);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    FIXED.iter().find(is_under).map(|(_, why)| *why)
}
