//! Settings that are read again while the program runs: refused whole, or taken up whole with the next plan.
//!
//! ```text
//!  wanted -> a thread reads the file -> compared with the settings in use -> coming: the next plan is made by it
//!         -> the control core takes that plan -> in use from its epoch on
//!  any error on the way -> refused; the settings in use stay, and so do the plans made by them
//! ```

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use contract::config::HostConfig;
use measure::packet::Hashing;
use measure::time::{Epoch, TickRate};
use records::snapshot::{self, ReloadOutcome};
use switch::wiring::reading::Reader;

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
    reader: Reader<HostConfig>,
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
            reader: Reader::new(),
            last: None,
            coming: None,
            until: None,
        }
    }

    pub fn last(&self) -> Option<snapshot::Reload> {
        self.last.clone()
    }

    /// Begins to read the settings, if somebody asks for that and the reload before is over, and compares what was read
    /// with those in use. Never waits for a file.
    pub fn step(&mut self, present: &Present<'_>, now: Instant) {
        if let Some(read) = self.reader.take(now) {
            self.compare(read, present);
        }
        if self.is_open() || !self.wanted.swap(false, Ordering::Relaxed) {
            return;
        }
        let file = self.file.clone();
        self.begin(
            move || {
                Ok(HostConfig::load(
                    file.context("VERNIER_CONFIG names no file")?,
                )?)
            },
            now,
        );
    }

    fn begin(&mut self, read: impl FnOnce() -> Result<HostConfig> + Send + 'static, now: Instant) {
        self.last = Some(snapshot::Reload {
            number: self.last.as_ref().map_or(1, |last| last.number + 1),
            outcome: ReloadOutcome::Reading,
            message: String::new(),
        });
        if let Err(error) = self.reader.begin(read, now) {
            self.refuse(&error);
        }
    }

    fn is_open(&self) -> bool {
        self.reader.is_at_work() || self.coming.is_some() || self.until.is_some()
    }

    fn compare(&mut self, read: Result<HostConfig>, present: &Present<'_>) {
        match read.and_then(|new| changes(new, present)) {
            Err(error) => self.refuse(&error),
            Ok(None) => self.end(ReloadOutcome::Unchanged, None),
            Ok(Some((settings, keys))) => {
                let keys = keys.join(", ");
                tracing::info!("settings: changed: {keys}");
                self.coming = Some(settings);
                self.end(ReloadOutcome::UnderWay, Some(keys));
            }
        }
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

    /// They cannot be read or taken up: those in use stay.
    pub fn refuse(&mut self, error: &anyhow::Error) {
        let message = format!("{error:#}");
        tracing::warn!("settings: not taken up: {message}");
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

/// New settings, and the keys in which they differ from those in use; `None` if they do not.
fn changes(new: HostConfig, present: &Present<'_>) -> Result<Option<(HostConfig, Vec<String>)>> {
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

fn why_fixed(path: &str) -> Option<&'static str> {
    let is_under = |(key, _): &&(&str, &str)| {
        let rest = path.strip_prefix(*key);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    FIXED.iter().find(is_under).map(|(_, why)| *why)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use switch::wiring::reading::READING_MAX;

    use super::*;

    #[test]
    fn a_file_that_hangs_holds_up_nobody() {
        let (settings, ports) = (HostConfig::default(), PortTable::default());
        let rate = TickRate::from_hz(1_000_000_000);
        let present = Present {
            settings: &settings,
            ports: &ports,
            rate,
            hashing: settings.config(&[]).shard_layout(rate).unwrap().hashing(),
        };
        let wanted = Arc::new(AtomicBool::new(false));
        let mut reload = Reload::new(Arc::clone(&wanted), None);
        let outcome = |reload: &Reload| {
            let last = reload.last().unwrap();
            (last.number, last.outcome, last.message)
        };
        let (release, released) = mpsc::channel::<()>();
        let now = Instant::now();
        let hangs = move || {
            let _ = released.recv();
            Ok(HostConfig::default())
        };
        reload.begin(hangs, now);
        // Nobody releases it: a step that waited for it would never return.
        wanted.store(true, Ordering::Relaxed);
        reload.step(&present, now);
        assert_eq!(outcome(&reload), (1, ReloadOutcome::Reading, String::new()));
        let late = now + READING_MAX;
        reload.step(&present, late);
        // The first is given up, and the second does not begin beside it.
        let (number, refused, message) = outcome(&reload);
        assert_eq!((number, refused), (2, ReloadOutcome::Refused));
        assert!(message.contains("file system"), "{message}");
        assert!(reload.coming().is_none());
        drop(release);
        // Once its thread has ended, another one finds that there is no file.
        while !outcome(&reload).2.contains("VERNIER_CONFIG") {
            let is_refused = outcome(&reload).1 == ReloadOutcome::Refused;
            wanted.store(is_refused, Ordering::Relaxed);
            reload.step(&present, late);
            std::thread::yield_now();
        }
    }
}
