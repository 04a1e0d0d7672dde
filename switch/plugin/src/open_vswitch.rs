//! Reads Open vSwitch's names of its ports and bridges.
//!
//! `ovs-vswitchd` does not pass its names on to DPDK, but its configuration database has them:
//!
//! | table | columns |
//! |---|---|
//! | `Interface` | `name`; of `options` the device (`dpdk-devargs`) or the socket (`vhost-server-path`) |
//! | `Port`, `Bridge` | to which bridge the interface belongs |
//!
//! A separate thread requests these columns and all changes to them (`monitor`, RFC 7047, section 4.1.5). It only
//! reads. If the database is restarted, it reconnects; until then, ports keep their names.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::{BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{env, ffi::OsStr, fs, io, thread};

use anyhow::{Context, Result, bail};
use serde_json::{Deserializer, Value, json};

/// Largest message in bytes, enough for some ten thousand interfaces.
const MESSAGE_BYTES_MAX: u64 = 8 << 20;

/// Longest name in bytes.
const NAME_BYTES_MAX: usize = 64;

/// How long the start, and each new port, waits for names.
const PATIENCE: Duration = Duration::from_secs(2);

/// Pause before reconnecting to the database.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The database's entry for the port of a device.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Named {
    pub name: String,
    pub bridge: String,
}

/// By device or by socket. An interface without either is listed by its own name, because the socket of a
/// `dpdkvhostuser` port has that name.
type Ports = BTreeMap<String, Named>;

/// The database's last response; `None` before the first.
type Answer = Arc<Mutex<Option<Arc<Ports>>>>;

/// The names in the database.
#[derive(Debug)]
pub struct OpenVSwitch {
    answer: Answer,
    /// New devices that the database does not name, and since when.
    unnamed: BTreeMap<String, Instant>,
}

impl OpenVSwitch {
    /// Returns the names of this program if it is Open vSwitch. Waits a short time for the first response.
    pub fn of_host() -> Option<Self> {
        let program = fs::read_link("/proc/self/exe").ok()?;
        let is_switch = program.file_name()?.as_bytes().starts_with(b"ovs-vswitchd");
        let arguments = fs::read("/proc/self/cmdline").unwrap_or_default();
        let folder = env::var_os("OVS_RUNDIR").unwrap_or_else(|| "/var/run/openvswitch".into());
        is_switch.then(|| Self::at(socket(&arguments, Path::new(&folder))))
    }

    /// Returns the names in the database at a socket.
    fn at(socket: PathBuf) -> Self {
        let answer = Answer::default();
        let (answered, first) = mpsc::channel();
        let follower = Arc::clone(&answer);
        let thread = thread::Builder::new().name("vernier-ovsdb".to_owned());
        let follow = move || {
            let mut is_said = false;
            loop {
                let Err(error) = follow(&socket, &follower, &answered);
                if !is_said && answer_of(&follower).is_none() {
                    tracing::warn!(
                        "ports have DPDK's names: Open vSwitch's database at {}: {error:#}",
                        socket.display()
                    );
                    is_said = true;
                }
                thread::sleep(RETRY_AFTER);
            }
        };
        match thread.spawn(follow) {
            // Until there is a response, ports have DPDK's names.
            Ok(_) => drop(first.recv_timeout(PATIENCE)),
            Err(error) => tracing::warn!("ports have DPDK's names: no thread: {error}"),
        }
        Self {
            answer,
            unnamed: BTreeMap::new(),
        }
    }

    /// The current names.
    pub fn names(&self) -> Option<Arc<Ports>> {
        answer_of(&self.answer)
    }

    /// Whether the name of a device is known, or the wait for it is over.
    pub fn is_settled(&mut self, device: &str) -> bool {
        let is_known = |names: Arc<Ports>| named(&names, device).is_some();
        if self.names().is_none_or(is_known) {
            return true;
        }
        self.unnamed
            .retain(|_, since| since.elapsed() < 2 * PATIENCE);
        let since = self.unnamed.entry(device.to_owned());
        since.or_insert_with(Instant::now).elapsed() >= PATIENCE
    }
}

/// Returns the database's entry for the port of a device or socket.
pub fn named<'n>(names: &'n Ports, device: &str) -> Option<&'n Named> {
    let file = || Path::new(device).file_name()?.to_str();
    names.get(device).or_else(|| names.get(file()?))
}

fn answer_of(answer: &Answer) -> Option<Arc<Ports>> {
    let answer = answer.lock().unwrap_or_else(PoisonError::into_inner);
    answer.clone()
}

/// The socket of the database according to the arguments of `ovs-vswitchd`.
fn socket(arguments: &[u8], folder: &Path) -> PathBuf {
    let mut arguments = arguments.split(|byte| *byte == 0);
    let named = arguments.find_map(|argument| argument.strip_prefix(b"unix:"));
    folder.join(OsStr::from_bytes(named.unwrap_or(b"db.sock")))
}

/// Follows the database until the connection is lost.
fn follow(socket: &Path, answer: &Answer, answered: &Sender<()>) -> Result<Infallible> {
    let mut stream = UnixStream::connect(socket)?;
    let columns = json!({
        "Interface": { "columns": ["name", "options"] },
        "Port": { "columns": ["interfaces"] },
        "Bridge": { "columns": ["name", "ports"] },
    });
    let params = json!(["Open_vSwitch", null, columns]);
    let monitor = json!({ "id": 0, "method": "monitor", "params": params });
    send(&mut stream, &monitor)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut rows = Rows::default();
    loop {
        let text = reader.by_ref().take(MESSAGE_BYTES_MAX);
        let mut messages = Deserializer::from_reader(text).into_iter::<Value>();
        let message = messages.next().context("the connection was closed")??;
        match message["method"].as_str() {
            Some("echo") => {
                let (id, params) = (&message["id"], &message["params"]);
                let reply = json!({ "id": id, "result": params, "error": null });
                send(&mut stream, &reply)?;
                continue;
            }
            Some("update") => rows.update(&message["params"][1]),
            _ if message["result"].is_object() => rows.update(&message["result"]),
            _ => bail!("it refuses: {}", message["error"]),
        }
        let ports = Some(Arc::new(rows.ports()));
        *answer.lock().unwrap_or_else(PoisonError::into_inner) = ports;
        // Nobody waits for any but the first.
        let _ = answered.send(());
    }
}

fn send(stream: &mut UnixStream, message: &Value) -> io::Result<()> {
    stream.write_all(message.to_string().as_bytes())
}

/// Rows of the database, by table and UUID.
#[derive(Debug, Default)]
struct Rows(BTreeMap<String, BTreeMap<String, Value>>);

impl Rows {
    /// Applies changes; a deleted row has no `new`.
    fn update(&mut self, tables: &Value) {
        for (table, changes) in tables.as_object().into_iter().flatten() {
            let rows = self.0.entry(table.clone()).or_default();
            for (id, change) in changes.as_object().into_iter().flatten() {
                match change.get("new") {
                    Some(row) => rows.insert(id.clone(), row.clone()),
                    None => rows.remove(id),
                };
            }
        }
    }

    fn table(&self, name: &str) -> impl Iterator<Item = (&String, &Value)> {
        self.0.get(name).into_iter().flatten()
    }

    fn ports(&self) -> Ports {
        let mut bridges = BTreeMap::new();
        for (_, bridge) in self.table("Bridge") {
            bridges.extend(members(&bridge["ports"]).map(|port| (port, name(bridge))));
        }
        let mut bridge_of = BTreeMap::new();
        for (id, port) in self.table("Port") {
            let bridge = bridges.get(id.as_str()).copied().flatten();
            bridge_of.extend(members(&port["interfaces"]).map(|interface| (interface, bridge)));
        }
        let interfaces = self.table("Interface").filter_map(|(id, interface)| {
            let name = name(interface)?;
            let bridge = bridge_of.get(id.as_str()).copied().flatten();
            let port = Named {
                name: name.to_owned(),
                bridge: bridge.unwrap_or_default().to_owned(),
            };
            Some((
                device(&interface["options"]).unwrap_or(name).to_owned(),
                port,
            ))
        });
        interfaces.collect()
    }
}

/// The name of a row, unless it cannot be used as a label or in a line of text.
fn name(row: &Value) -> Option<&str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-+@:/".contains(c);
    let name = row["name"].as_str()?;
    let is_good = (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(is_plain);
    is_good.then_some(name)
}

/// DPDK's name of the device, or the path of the socket. The arguments do not contain DPDK's name of a device that is
/// found by its address (`class=eth,mac=`), or of a representor.
fn device(options: &Value) -> Option<&str> {
    let option = |key: &str| {
        let mut pairs = options[1].as_array()?.iter();
        pairs.find(|pair| pair[0] == key)?[1].as_str()
    };
    let device = || {
        let arguments = option("dpdk-devargs")?;
        let device = arguments.split(',').next()?;
        (!arguments.contains("representor=") && !device.contains('=')).then_some(device)
    };
    option("vhost-server-path").or_else(device)
}

/// The UUIDs of a set; a set of one is written as its member.
fn members(set: &Value) -> impl Iterator<Item = &str> {
    let of_many = set[1].as_array().map(Vec::as_slice);
    let members = of_many.unwrap_or(std::slice::from_ref(set)).iter();
    members.filter_map(|member| member[1].as_str())
}

#[cfg(test)]
mod tests;
