//! Fuzz targets: every parser of bytes from outside, and the state that what comes from outside drives.
//!
//! A target is a function of bytes that panics where something that must hold does not; its oracle is
//! at the head of its file. Parsers take the bytes as they are. Those of state read them as a sequence of
//! actions ([`arbitrary`]), so that every input means something. libFuzzer calls a target with what it makes
//! up (`make fuzz`); the test suite calls it with its seeds and the committed corpus (`tests/corpus.rs`).
//!
//! - [`frame`]: Ethernet frames to flow and packet hashes.
//! - [`codec`]: control frames, and synopses put together from fragments.
//! - [`csv`]: files of other programs.
//! - [`session`]: handshakes between recordings, and replay windows.
//! - [`rli`]: a receiver of false references.
//! - [`lds`]: joint decoding of hostile cells, alone and with references.
//! - [`config`]: configurations, from text to memory.
//! - [`http`]: requests to the HTTP server's router.
//! - [`pairing`]: epochs of a wire, reconciled by lists and paired with false cells.
//! - [`exchange`]: two ends of a wire and a hostile network between them.
//! - [`capture`]: captures that are replayed.
//! - [`stamp`]: STAMP's requests to a reflector, and replies to a session.
//! - [`reflection`]: STAMP's reflectors against each other, with a session and forged packets.
//! - [`probe_config`]: configurations of `vernier-probe`.
//! - [`topology`]: files of topologies, and LSAs by the OSPF API.
//! - [`report`]: reports of switches, and the state and histories that a station makes of them.
//! - [`station`]: values of the key-value store, and a station's routes over them.
//! - [`locator`]: histories of localisation.
//! - [`lldp`]: LLDP frames.
//! - [`settings`]: settings of the station and of the plugin.
#![forbid(unsafe_code)]
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a panic is how a target tells libFuzzer what it found"
)]

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
mod session;
mod settings;
mod stamp;
mod station;
mod topology;

pub use capture::capture;
pub use codec::codec;
pub use config::{config, config_dictionary};
pub use csv::csv;
pub use exchange::exchange;
pub use frame::frame;
pub use http::http;
pub use lds::lds;
pub use lldp::lldp;
pub use locator::locator;
pub use pairing::pairing;
pub use probe_config::probe_config;
pub use reflection::reflection;
pub use report::report;
pub use rli::rli;
pub use session::session;
pub use settings::settings;
pub use stamp::stamp;
pub use station::station;
pub use topology::topology;

/// The bytes as an input of a target's own; `None` where they are too few.
fn read<'b, I: Arbitrary<'b>>(bytes: &'b [u8]) -> Option<I> {
    I::arbitrary_take_rest(Unstructured::new(bytes)).ok()
}

/// A target by name.
pub type Target = (&'static str, fn(&[u8]));

/// Every target, by the name of its corpus.
pub const TARGETS: [Target; 20] = [
    ("frame", frame),
    ("codec", codec),
    ("csv", csv),
    ("session", session),
    ("rli", rli),
    ("lds", lds),
    ("config", config),
    ("capture", capture),
    ("http", http),
    ("pairing", pairing),
    ("exchange", exchange),
    ("stamp", stamp),
    ("reflection", reflection),
    ("probe_config", probe_config),
    ("topology", topology),
    ("report", report),
    ("station", station),
    ("locator", locator),
    ("lldp", lldp),
    ("settings", settings),
];

/// Inputs that are elsewhere in the repository, to begin with beside the corpus.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    match target {
        "config" => config::examples(),
        "stamp" => stamp::exchanges(),
        "reflection" => reflection::sequences(),
        "probe_config" => probe_config::examples(),
        "lldp" => lldp::examples(),
        "locator" => locator::examples(),
        "settings" => settings::examples(),
        _ => Vec::new(),
    }
}
