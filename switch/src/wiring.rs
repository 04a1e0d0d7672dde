//! From a configuration to devices, and to what each worker works with.
//!
//! ```text
//!  devices (EAL, pools, ports) -> cpus -> workers (plans, lanes, queues, wires)
//!                                           |  rings: shards, FDB, generations
//!                                         links: who is up, what is lowered
//! ```
//!
//! What can fail fails here, before the first packet: capture files, EAL, memory, devices.

use std::time::Duration;

use anyhow::{Result, anyhow};

pub mod budget;
pub mod cpus;
pub mod devices;
pub mod generations;
pub mod lanes;
pub mod links;
pub mod memif;
pub mod plans;
pub mod platform;
pub mod wires;
pub mod workers;

/// How long a stopping worker sends what waits.
const DRAIN: Duration = Duration::from_millis(200);

/// For what must not be guessed.
///
/// # Errors
/// When the system gives no randomness.
pub fn random_seed() -> Result<[u8; 16]> {
    let mut seed = [0; 16];
    getrandom::fill(&mut seed)
        .map_err(|error| anyhow!("the system gives no random seed for the hash: {error}"))?;
    Ok(seed)
}
