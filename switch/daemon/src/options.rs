//! Options of a run.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use api::log::Lines;

use crate::cli::Arguments;

/// The options of a run, and the flags by which signals end or reload it.
#[derive(Debug)]
pub struct RunOptions<'a> {
    /// The command line.
    pub arguments: &'a Arguments,
    /// The log, whose thread stays off the workers' CPUs.
    pub log: Lines,
    /// Set when the switch must stop: SIGINT, SIGTERM.
    pub stop: Arc<AtomicBool>,
    /// Set when the configuration must be reloaded: SIGHUP.
    pub reload: Arc<AtomicBool>,
}
