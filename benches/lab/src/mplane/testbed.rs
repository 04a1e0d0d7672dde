//! Everything that runs, in starting order.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use console::client::Client;
use records::station::{Blame, Paths, Risen, StationSegment, StationSegments};
use serde::de::DeserializeOwned;
use serde_json::json;
use testkit::frr::{Frr, TOY};
use testkit::nats::NatsServer;
use testkit::process::{Process, beside_this_program, until};

use crate::mplane::network::{self, Network};
use crate::mplane::switches::{NATS_PORT, start_probers, start_switches};
use crate::mplane::traffic::Traffic;

/// Time limit for the first reports.
const PATIENCE: Duration = Duration::from_mins(2);

/// When the traffic is restarted meanwhile.
const ANOTHER_TRY: Duration = Duration::from_secs(30);

/// More than the number of segments; it determines the probability of false alarms.
const SEGMENTS: u32 = 256;

/// The network and all programs.
#[derive(Debug)]
pub struct Testbed<'a> {
    // Ended in this order.
    traffic: Traffic,
    probers: Vec<Process>,
    switches: Vec<Process>,
    station: Process,
    _nats: NatsServer,
    pub network: Network,
    interval_ms: u32,
    pub folder: &'a Path,
    pub answers: Station,
}

impl<'a> Testbed<'a> {
    /// Starts everything, and waits until the path from A to D is measured from end to end.
    pub fn start(folder: &'a Path, interval_ms: u32) -> Result<Self> {
        let frr = Frr::find().context("FRR is missing: make setup-test unpacks it")?;
        let mut network = Network::build(&frr, folder).context("cannot build the network")?;
        let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, NATS_PORT));
        let nats = NatsServer::start_at(everywhere, folder, "")?;
        let (station, answers) = start_station(folder)?;
        let switches = start_switches(folder, interval_ms)?;
        network.wait_for_routes()?;
        let mut testbed = Self {
            switches,
            probers: Vec::new(),
            traffic: Traffic::start(folder)?,
            station,
            _nats: nats,
            network,
            interval_ms,
            folder,
            answers,
        };
        testbed.renew_probers()?;
        let mut last = None;
        let mut begun = Instant::now();
        let complaint = "the path from A to D is not covered";
        let covered = until(PATIENCE, complaint, || {
            testbed.check()?;
            // All streams may have taken the same of two ways of equal cost; new streams may take others.
            if begun.elapsed() > ANOTHER_TRY {
                testbed.traffic.renew()?;
                begun = Instant::now();
            }
            // The station may not have been asked for its first report yet.
            let answer = last.insert(testbed.answers.uncovered("A", "D"));
            let is_covered = answer.as_ref().is_ok_and(Vec::is_empty);
            Ok(is_covered.then_some(()))
        });
        covered.with_context(|| format!("last answer of the station: {last:?}"))?;
        Ok(testbed)
    }

    pub fn interval(&self) -> Duration {
        Duration::from_millis(self.interval_ms.into())
    }

    /// Restarts the probers with the m-sets of the present network.
    pub fn renew_probers(&mut self) -> Result<()> {
        self.probers.clear();
        let names: Vec<_> = self.network.names().map(str::to_owned).collect();
        let plan = self.network.plan()?;
        self.probers = start_probers(self.folder, &names, &plan, self.interval_ms)?;
        Ok(())
    }

    /// Fails if anything that must run has ended; traffic is started again.
    pub fn check(&mut self) -> Result<()> {
        self.traffic.keep()?;
        self.network.check()?;
        self.station.check_alive()?;
        let all = self.switches.iter_mut().chain(&mut self.probers);
        all.into_iter().try_for_each(Process::check_alive)
    }
}

fn start_station(folder: &Path) -> Result<(Process, Station)> {
    let topology = folder.join("topology.json");
    let network = network::json(TOY.iter().copied());
    fs::write(&topology, format!("{network:#}")).context("cannot write the topology")?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 9_465));
    let config = json!({
        "nats": { "servers": [format!("nats://127.0.0.1:{NATS_PORT}")] },
        "http": { "listen": address },
        "topology": topology,
        "located_segments": SEGMENTS,
    });
    let mut command = Command::new(beside_this_program("vernier-station")?);
    let process = Process::start_vernierd(&mut command, folder, "station", &config)?;
    let client = Client::new(&address.to_string(), None).of_station();
    Ok((process, Station { client }))
}

/// How often it is asked before that is an error.
const ATTEMPTS: usize = 3;

/// Answers of the station.
#[derive(Debug)]
pub struct Station {
    client: Client,
}

/// Seconds since 1970.
pub fn now_unix_s() -> f64 {
    UNIX_EPOCH.elapsed().unwrap_or_default().as_secs_f64()
}

/// What distinguishes a rise from others.
pub type Key = (String, String, String);

/// The segment and the signal.
pub fn key(risen: &Risen) -> Key {
    let segment = format!("{} {}>{} {}", risen.kind, risen.from, risen.to, risen.class);
    (risen.switch.clone(), segment, risen.signal.clone())
}

impl Station {
    /// The answer at a path; on a busy machine it may take long, and then it is requested again.
    fn ask<T: DeserializeOwned>(&self, path: &str, query: &[(&str, &str)]) -> Result<T> {
        let query = query.iter().map(|(key, of)| (*key, (*of).to_owned()));
        let query: Vec<_> = query.collect();
        let once = || self.client.get(path, &query);
        let again = (1..ATTEMPTS).find_map(|_| once().ok());
        Ok(again.map_or_else(once, Ok)?)
    }

    /// Segments of all paths that are not measured; at least one path there is.
    pub fn uncovered(&self, from: &str, to: &str) -> Result<Vec<String>> {
        let paths: Paths = self.ask("/api/v1/path", &[("from", from), ("to", to)])?;
        ensure!(!paths.paths.is_empty(), "no path leads from {from} to {to}");
        let hops = paths.paths.into_iter().flat_map(|path| path.chain);
        let uncovered = hops.filter(|hop| hop.figures.is_none());
        Ok(uncovered.map(|hop| hop.title).collect())
    }

    /// The rises in the whole network.
    pub fn blame(&self) -> Result<Blame> {
        self.ask("/api/v1/blame", &[("limit", "1000")])
    }

    /// When the last interval of a segment ended, in seconds since 1970.
    pub fn last_end_unix_s(&self, risen: &Risen) -> Result<f64> {
        let query = [("switch", &*risen.switch), ("limit", "1000")];
        let answer: StationSegments = self.ask("/api/v1/segments", &query)?;
        let now = now_unix_s();
        let is_it = |segment: &&StationSegment| {
            let ends = segment.from == risen.from && segment.to == risen.to;
            ends && segment.kind == risen.kind && segment.class == risen.class
        };
        let segment = answer.segments.iter().find(is_it);
        let unknown = || format!("the station does not know {}", risen.title);
        Ok(now - segment.with_context(unknown)?.age_s)
    }
}
