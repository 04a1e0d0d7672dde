//! The measuring programs: `vernierd` on every side of an m-router, `vernier-probe` at every router.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};
use testkit::process::{Process, beside_this_program};

use crate::mplane::network::{
    M_ROUTERS, Plan, address_towards, is_m_router, management, neighbours,
};
use crate::mplane::traffic::TRAFFIC_PORTS;
use crate::mplane::{favoured, favoured_inside};
use crate::testbed::write_key;

/// Address of NATS in the testbed's own namespace.
pub const NATS_PORT: u16 = 4_222;
/// Between probes of a session, in milliseconds.
const PROBE_INTERVAL_MS: f64 = 4.0;
/// Time after which a probe, or a packet inside a router, is lost.
const TIMEOUT_MS: u32 = 300;
/// The rate of the links as far as control frames of the wire are concerned: they take 0.5 % of it.
const WIRE_BPS: u64 = 100_000_000;
/// The class of the traffic that routers forward.
pub const TRANSIT: &str = "transit";
/// Seed of all hashes.
const HASH_SEED: &str = "6d1f3a52c98e07b4f0527d9ae13c6b88";

/// The port of an m-router's switch on the side of the router: `A.router`, where `A` is the one on the side of the link to A.
pub fn inner_port(neighbour: &str) -> String {
    format!("{neighbour}.router")
}

/// Starts the `vernierd` of each m-router.
pub fn start_switches(folder: &Path, interval_ms: u32) -> Result<Vec<Process>> {
    let key = write_key(folder)?;
    let vernierd = beside_this_program("vernierd")?;
    let start = |(router, number): (&&str, u16)| {
        let config = switch(router, number, interval_ms, &key);
        let mut command = favoured(&vernierd);
        command.env("VERNIER_LOG", "info");
        Process::start_vernierd(&mut command, folder, router, &config)
    };
    M_ROUTERS.iter().zip(1..).map(start).collect()
}

fn switch(router: &str, number: u16, interval_ms: u32, key: &Path) -> Value {
    let neighbours = neighbours(router);
    let device = |index: usize, interface: String| {
        format!("net_af_packet{index},iface={interface},framecnt=1024")
    };
    let mut ports = Vec::new();
    for (index, neighbour) in neighbours.iter().enumerate() {
        let mut outer = json!({
            "name": neighbour,
            "device": device(2 * index, format!("p-{router}{neighbour}")),
        });
        if is_m_router(neighbour) {
            outer["rx_queues"] = 1.into();
            outer["wire"] = json!({ "capacity_bps": WIRE_BPS, "peer_port": router });
        }
        ports.push(outer);
        ports.push(json!({
            "name": inner_port(neighbour),
            "device": device(2 * index + 1, format!("q-{router}{neighbour}")),
        }));
    }
    let pairs: Vec<_> = (neighbours.iter())
        .map(|neighbour| json!([neighbour, inner_port(neighbour)]))
        .collect();
    let inner: Vec<_> = neighbours.iter().map(|name| inner_port(name)).collect();
    // Each on a CPU of its own; by default all would use the last one.
    let mut worker = json!({ "idle": "sleep" });
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if cpus >= M_ROUTERS.len() {
        worker["core"] = (number - 1).into();
    }
    let rules = ["source_ports", "destination_ports"]
        .map(|ports| json!({ "class": TRANSIT, "protocol": "udp", ports: TRAFFIC_PORTS }));
    json!({
        "name": router,
        "ports": ports,
        "forwarding": { "mode": "patch", "pairs": pairs },
        // Packets to the router itself count as lost around it, so losses of transit packets are measured by class.
        "classes": [{ "name": TRANSIT }, { "name": "other" }],
        "rules": rules,
        "measurement": {
            "interval_ms": interval_ms,
            "hash_seed": HASH_SEED,
            "flows": { "slots": 1_024 },
            "around": [{ "name": "router", "ports": inner, "timeout_ms": TIMEOUT_MS }],
        },
        "wire": {
            "switch": number,
            "keys": [{ "id": 1, "file": key }],
            // All clocks are this machine's.
            "clock": { "error_ns": 0 },
        },
        "workers": [worker],
        "http": { "listen": SocketAddr::from((Ipv4Addr::LOCALHOST, 9_470 + number)) },
        "report": { "nats": { "servers": [format!("nats://127.0.0.1:{NATS_PORT}")] } },
        "dpdk": { "hugepages": false, "memory_mib": 256, "mbufs": 32_767 },
    })
}

/// Starts the `vernier-probe` of each router. The m-router at the other end of a wire is not probed.
pub fn start_probers(
    folder: &Path,
    names: &[String],
    plan: &Plan,
    interval_ms: u32,
) -> Result<Vec<Process>> {
    let probe = beside_this_program("vernier-probe")?;
    let start = |name: &String| {
        let config = prober(name, plan, interval_ms);
        let mut command = favoured_inside(name, &probe);
        Process::start_vernierd(&mut command, folder, &format!("{name}.probe"), &config)
    };
    names.iter().map(start).collect()
}

fn prober(name: &str, plan: &Plan, interval_ms: u32) -> Value {
    let ways = plan.ways(name);
    let probed = ways.iter().filter(|way| !is_wire(way));
    let sessions: Vec<_> = probed.filter_map(|way| session(way)).collect();
    json!({
        "interval_ms": interval_ms,
        "reflector": { "listen": ["0.0.0.0"] },
        "sessions": sessions,
        "clock": { "error_ns": 0 },
        "http": { "listen": null },
        "report": {
            "node": name,
            "nats": { "servers": [format!("nats://{}:{NATS_PORT}", management(name)[0])] },
        },
    })
}

/// Whether a way is the link between the m-routers, which a wire measures.
pub fn is_wire(way: &[String]) -> bool {
    way.len() == 2 && way.iter().all(|name| is_m_router(name))
}

/// A session along a way. Its addresses select among ways of equal cost: a link's own addresses are reached over this
/// link by the shortest path, and no other way is as short.
fn session(way: &[String]) -> Option<Value> {
    let ([first, second, ..], [.., before, last]) = (way, way) else {
        return None;
    };
    let from = address_towards(first, second)?;
    let to = address_towards(last, before)?;
    Some(json!({
        "name": format!("{}-{}", first, last),
        "node": last,
        "from": from,
        "to": to,
        "interval_ms": PROBE_INTERVAL_MS,
        "schedule": "poisson",
        "timeout_ms": TIMEOUT_MS,
    }))
}
