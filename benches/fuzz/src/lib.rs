//! Fuzz targets: every parser of untrusted bytes, and all state that untrusted input drives.
//!
//! A target is a function of bytes that panics if an invariant does not hold; the header of its file describes its
//! oracle. Targets for parsers use the bytes as they are. Targets for state read them as a sequence of actions
//! ([`arbitrary`]), so that every input is meaningful. libFuzzer calls a target with generated inputs (`make fuzz`);
//! the test suite calls it with its seeds and the committed corpus (`tests/corpus.rs`).
//!
//! - `frame`: Ethernet frames to flow and packet hashes.
//! - `codec`: control frames, and synopses put together from fragments.
//! - `csv`: files of other programs.
//! - `rli`: a receiver of false references.
//! - `lds`: joint decoding of hostile cells, alone and with references.
//! - `config`: configurations, from text to memory.
//! - `http`: requests to the HTTP server's router.
//! - `pairing`: epochs of a wire, reconciled by lists and paired with false cells.
//! - `exchange`: two ends of a wire and a hostile network between them.
//! - `capture`: captures that are replayed.
//! - `stamp`: STAMP's requests to a reflector, and replies to a session.
//! - `reflection`: STAMP's reflectors against each other, with a session and forged packets.
//! - `probe_config`: configurations of `vernier-probe`.
//! - `topology`: files of topologies, and LSAs by the OSPF API.
//! - `report`: reports of switches, and the state and histories that a station makes of them.
//! - `station`: values of the key-value store, and a station's routes over them.
//! - `locator`: histories of localisation.
//! - `lldp`: LLDP frames.
//! - `settings`: settings of the station and of the plugin.
#![forbid(unsafe_code)]
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a target reports its findings to libFuzzer by a panic"
)]

use std::path::Path;
use std::{fs, io};

use arbitrary::{Arbitrary, Unstructured};

mod capture;
mod codec;
mod config;
mod csv;
mod exchange;
mod frame;
mod http;
mod lds;
mod lldp;
mod locator;
mod pairing;
mod probe_config;
mod reflection;
mod report;
mod rli;
mod settings;
mod stamp;
mod station;
mod topology;
mod web;

/// The bytes as a structured input; `None` if there are too few.
fn read<'b, I: Arbitrary<'b>>(bytes: &'b [u8]) -> Option<I> {
    I::arbitrary_take_rest(Unstructured::new(bytes)).ok()
}

/// The bytes as text; `None` if they are not UTF-8 or too long, because longer texts find nothing more.
fn text(bytes: &[u8], bytes_max: usize) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok();
    text.filter(|text| text.len() <= bytes_max)
}

/// A target with its name, which is also the name of its corpus, and its generated seeds, which are used in addition to
/// the corpus.
pub type Target = (&'static str, fn(&[u8]), fn() -> Vec<Vec<u8>>);

/// Every target.
pub const TARGETS: [Target; 19] = [
    ("frame", frame::frame, Vec::new),
    ("codec", codec::codec, Vec::new),
    ("csv", csv::csv, Vec::new),
    ("rli", rli::rli, Vec::new),
    ("lds", lds::lds, Vec::new),
    ("config", config::config, config::examples),
    ("capture", capture::capture, Vec::new),
    ("http", http::http, Vec::new),
    ("pairing", pairing::pairing, Vec::new),
    ("exchange", exchange::exchange, Vec::new),
    ("stamp", stamp::stamp, stamp::exchanges),
    ("reflection", reflection::reflection, reflection::sequences),
    (
        "probe_config",
        probe_config::probe_config,
        probe_config::examples,
    ),
    ("topology", topology::topology, Vec::new),
    ("report", report::report, Vec::new),
    ("station", station::station, Vec::new),
    ("locator", locator::locator, locator::examples),
    ("lldp", lldp::lldp, lldp::examples),
    ("settings", settings::settings, settings::examples),
];

/// Writes the seeds of every target into `folder/target`, and a dictionary.
///
/// # Errors
/// If they cannot be written.
pub fn write_seeds(folder: &Path) -> io::Result<()> {
    for (name, _, seeds) in TARGETS {
        let folder = folder.join(name);
        fs::create_dir_all(&folder)?;
        for (number, seed) in seeds().iter().enumerate() {
            fs::write(folder.join(format!("seed-{number}")), seed)?;
        }
    }
    fs::write(folder.join("config.dict"), config::dictionary())
}
