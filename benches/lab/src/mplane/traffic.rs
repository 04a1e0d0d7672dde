//! Traffic between routers in both directions at a bounded rate: iperf3 over UDP, and ping.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use testkit::namespace::inside;
use testkit::process::Process;

use crate::mplane::network::address_of;

/// First and last port of iperf3's servers.
pub const TRAFFIC_PORTS: [u16; 2] = [5_201, 5_299];

/// From, to, streams in each direction, and bits per second of each. The probability that all of 16 streams take the
/// same of two ways is 1 in 32,000.
const FLOWS: [(&str, &str, u16, &str); 5] = [
    ("A", "D", 16, "100K"),
    ("B", "D", 16, "100K"),
    ("B", "E", 2, "500K"),
    ("A", "B", 2, "500K"),
    ("D", "E", 2, "500K"),
];
/// Bytes of a datagram.
const LENGTH: &str = "500";
const PINGS: [(&str, &str); 2] = [("A", "D"), ("E", "B")];

/// Senders and receivers.
#[derive(Debug)]
pub struct Traffic {
    folder: PathBuf,
    servers: Vec<Process>,
    clients: Vec<Process>,
}

impl Traffic {
    /// Starts all of it.
    pub fn start(folder: &Path) -> Result<Self> {
        let mut traffic = Self {
            folder: folder.to_owned(),
            servers: Vec::new(),
            clients: Vec::new(),
        };
        for ((_, to, _, _), port) in FLOWS.iter().zip(TRAFFIC_PORTS[0]..) {
            let mut server = inside(to, "iperf3");
            // Otherwise it answers from the address of an interface.
            server.args(["-s", "-p", &port.to_string()]);
            server.args(["-B", &address_of(to).to_string()]);
            let name = format!("iperf3-{port}");
            traffic.servers.push(traffic.run(&mut server, &name)?);
        }
        std::thread::sleep(std::time::Duration::from_millis(500));
        for index in 0..FLOWS.len() + PINGS.len() {
            traffic.clients.push(traffic.client(index)?);
        }
        Ok(traffic)
    }

    /// Restarts all of it with other client ports.
    pub fn renew(&mut self) -> Result<()> {
        self.clients.clear();
        self.servers.clear();
        let folder = self.folder.clone();
        *self = Self::start(&folder)?;
        Ok(())
    }

    /// Restarts programs that have ended: iperf3 does so if there is no route for long.
    pub fn keep(&mut self) -> Result<()> {
        for index in 0..self.clients.len() {
            if self.clients[index].check_alive().is_err() {
                self.clients[index] = self.client(index)?;
            }
        }
        Ok(())
    }

    fn client(&self, index: usize) -> Result<Process> {
        let Some(&(from, to, streams, rate)) = FLOWS.get(index) else {
            let (from, to) = PINGS[index - FLOWS.len()];
            let mut ping = inside(from, "ping");
            let own = address_of(from).to_string();
            ping.args(["-q", "-i", "0.2", "-I", &own, &address_of(to).to_string()]);
            return self.run(&mut ping, &format!("ping-{from}{to}"));
        };
        let port = usize::from(TRAFFIC_PORTS[0]) + index;
        let mut client = inside(from, "iperf3");
        client.args(["-c", &address_of(to).to_string(), "-p", &port.to_string()]);
        client.args(["-B", &address_of(from).to_string()]);
        client.args(["--udp", "--bidir", "--time", "0", "--interval", "0"]);
        client.args(["--parallel", &streams.to_string(), "--bitrate", rate]);
        client.args(["--length", LENGTH]);
        self.run(&mut client, &format!("iperf3-{from}{to}"))
    }

    fn run(&self, command: &mut Command, name: &str) -> Result<Process> {
        Process::start_quiet(command, self.folder.join(format!("{name}.log")))
    }
}
