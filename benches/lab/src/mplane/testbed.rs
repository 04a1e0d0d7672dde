//! Everything that runs, in the order in which it is started.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::json;
use testkit::frr::{Frr, TOY};
use testkit::nats::NatsServer;
use testkit::process::{Process, beside_this_program, until};

use crate::mplane::network::{self, Network};
use crate::mplane::switches::{NATS_PORT, start_probers, start_switches};
use crate::mplane::traffic::Traffic;
use crate::mplane::watch::Station;

/// How long the first reports of all may take.
const PATIENCE: Duration = Duration::from_mins(2);

/// When the traffic is started anew meanwhile.
const ANOTHER_TRY: Duration = Duration::from_secs(30);

/// More than there are segments: what is improbable enough follows from it.
const SEGMENTS: u32 = 256;

/// The network and all programs.
#[derive(Debug)]
pub struct Testbed {
    // Ended in this order.
    pub traffic: Traffic,
    probers: Vec<Process>,
    switches: Vec<Process>,
    station: Process,
    _nats: NatsServer,
    pub network: Network,
    interval_ms: u32,
    pub answers: Station,
}

impl Testbed {
    /// Starts everything, and waits until the path from A to D is measured from end to end.
    pub fn start(folder: &Path, interval_ms: u32, stop: &AtomicBool) -> Result<Self> {
        let frr = Frr::find().context("FRR is missing: make setup-test unpacks it")?;
        let mut network = Network::build(&frr, folder).context("cannot build the network")?;
        let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, NATS_PORT));
        let nats = NatsServer::start_at(everywhere, folder, "")?;
        let (station, answers) = start_station(folder)?;
        let plan = network.plan()?;
        let names: Vec<_> = network.names().map(str::to_owned).collect();
        let switches = start_switches(folder, interval_ms)?;
        network.wait_for_routes(stop)?;
        let mut testbed = Self {
            switches,
            probers: start_probers(folder, &names, &plan, interval_ms)?,
            traffic: Traffic::start(folder)?,
            station,
            _nats: nats,
            network,
            interval_ms,
            answers,
        };
        let mut last = None;
        let mut begun = Instant::now();
        let complaint = "the path from A to D is not covered";
        let covered = until(PATIENCE, stop, complaint, || {
            testbed.check()?;
            testbed.traffic.keep()?;
            // All streams may have taken one of two ways of equal cost: others take others.
            if begun.elapsed() > ANOTHER_TRY {
                testbed.traffic.renew()?;
                begun = Instant::now();
            }
            // The station may not have been asked for its first report yet.
            let answer = last.insert(testbed.answers.uncovered("A", "D"));
            let is_covered = answer.as_ref().is_ok_and(Vec::is_empty);
            Ok(is_covered.then_some(()))
        });
        covered.with_context(|| format!("what the station said last: {last:?}"))?;
        Ok(testbed)
    }

    /// Starts the probers anew, with the m-sets of the network as it is now.
    pub fn renew_probers(&mut self, folder: &Path) -> Result<()> {
        self.probers.clear();
        let names: Vec<_> = self.network.names().map(str::to_owned).collect();
        let plan = self.network.plan()?;
        self.probers = start_probers(folder, &names, &plan, self.interval_ms)?;
        Ok(())
    }

    /// Fails if anything that must run has ended.
    pub fn check(&mut self) -> Result<()> {
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
    let file = folder.join("station.json");
    fs::write(&file, format!("{config:#}")).context("cannot write a configuration")?;
    let mut command = Command::new(beside_this_program("vernier-station")?);
    command.arg("--config").arg(&file);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let process = Process::start_logged(&mut command, folder.join("station.log"))?;
    Ok((process, Station { address }))
}
