//! How a switch is run, and what is asked of it while it runs.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use api::log::Lines;

use crate::cli::Arguments;

/// The options of a run, and the flags by which signals end or reload it.
#[derive(Debug)]
pub struct RunOptions<'a> {
    /// The command line.
    pub arguments: &'a Arguments,
    /// The log, whose thread keeps off the workers' CPUs.
    pub log: Lines,
    /// Set when the switch must end: SIGINT, SIGTERM.
    pub stop: Arc<AtomicBool>,
    /// Set when the configuration must be read again: SIGHUP.
    pub reload: Arc<AtomicBool>,
}
