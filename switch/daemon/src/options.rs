//! How a switch is run, and what is asked of it while it runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use api::log::Lines;

/// How a switch is run.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// End after this long.
    pub duration: Option<Duration>,
    /// Show a live table, and a summary at the end.
    pub live: bool,
    /// Where the configuration came from, to be read again.
    pub file: Option<PathBuf>,
    /// The log, whose thread is to keep off the workers' CPUs.
    pub log: Option<Lines>,
    /// Take down every packet of every wire in this file, for tests.
    pub wire_record: Option<PathBuf>,
}

/// What somebody outside wants of a running switch.
#[derive(Debug, Clone, Default)]
pub struct Signals {
    /// End: SIGINT, SIGTERM.
    pub stop: Arc<AtomicBool>,
    /// Read the configuration again: SIGHUP.
    pub reload: Arc<AtomicBool>,
}
