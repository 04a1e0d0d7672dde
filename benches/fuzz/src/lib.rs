//! Fuzz targets: every parser of bytes from outside, and the state that what comes from outside drives.
//!
//! A target is a function of bytes that panics where something that must hold does not; its oracle is
//! at the head of its file. Parsers take the bytes as they are. Those of state read them as a sequence of
//! actions ([`arbitrary`]), so that every input means something. libFuzzer calls a target with what it makes
//! up (`make fuzz`); the test suite calls it with its seeds and the committed corpus (`tests/corpus.rs`).
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
    reason = "a panic is how a target tells libFuzzer what it found"
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

/// The bytes as an input of a target's own; `None` where they are too few.
fn read<'b, I: Arbitrary<'b>>(bytes: &'b [u8]) -> Option<I> {
    I::arbitrary_take_rest(Unstructured::new(bytes)).ok()
}

/// The bytes as a text; `None` where they are none, or too many: larger texts find nothing that smaller ones do not.
fn text(bytes: &[u8], bytes_max: usize) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok();
    text.filter(|text| text.len() <= bytes_max)
}

/// A target by its name, which is that of its corpus; and seeds that are made, to begin with beside the corpus.
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
/// Where they cannot be written.
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
