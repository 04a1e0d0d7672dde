//! What the station says.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use records::blame::{Blame, Risen};
use records::station::{Paths, StationSegments};
use serde::de::DeserializeOwned;

/// No answer takes so long.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How often it is asked before that is an error.
const ATTEMPTS: usize = 3;

/// Where the station answers.
#[derive(Debug)]
pub struct Station {
    pub address: SocketAddr,
}

/// Seconds since 1970.
pub fn now_unix_s() -> f64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default().as_secs_f64()
}

/// What distinguishes a rise from others.
pub type Key = (String, String, String);

/// The segment and the signal.
pub fn key(risen: &Risen) -> Key {
    let segment = format!("{} {}>{} {}", risen.kind, risen.from, risen.to, risen.class);
    (risen.switch.clone(), segment, risen.signal.clone())
}

impl Station {
    /// The answer at a path; a busy machine may keep it waiting, and then it is asked again.
    fn ask<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let again = (1..ATTEMPTS).find_map(|_| self.ask_once(path).ok());
        again.map_or_else(|| self.ask_once(path), Ok)
    }

    fn ask_once<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let url = format!("http://{}{path}", self.address);
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .build();
        let mut answer = agent
            .new_agent()
            .get(&url)
            .call()
            .with_context(|| url.clone())?;
        let text = answer.body_mut().read_to_string()?;
        serde_json::from_str(&text).with_context(|| format!("{url}: {text}"))
    }

    /// Segments of all paths that are not measured; at least one path there is.
    pub fn uncovered(&self, from: &str, to: &str) -> Result<Vec<String>> {
        let paths: Paths = self.ask(&format!("/api/v1/path?from={from}&to={to}"))?;
        ensure!(!paths.paths.is_empty(), "no path leads from {from} to {to}");
        let hops = paths.paths.into_iter().flat_map(|path| path.chain);
        let uncovered = hops.filter(|hop| hop.figures.is_none());
        Ok(uncovered.map(|hop| hop.title).collect())
    }

    /// What is risen in all of the network.
    pub fn blame(&self) -> Result<Blame> {
        self.ask("/api/v1/blame?limit=1000")
    }

    /// When the last interval of a segment ended, in seconds since 1970.
    pub fn last_end_unix_s(&self, risen: &Risen) -> Result<f64> {
        let url = format!("/api/v1/segments?switch={}&limit=1000", risen.switch);
        let answer: StationSegments = self.ask(&url)?;
        let now = now_unix_s();
        let is_it = |segment: &&records::station::StationSegment| {
            let ends = segment.from == risen.from && segment.to == risen.to;
            ends && segment.kind == risen.kind && segment.class == risen.class
        };
        let segment = answer.segments.iter().find(is_it);
        let segment =
            segment.with_context(|| format!("the station does not know {}", risen.title))?;
        Ok(now - segment.age_s)
    }
}
