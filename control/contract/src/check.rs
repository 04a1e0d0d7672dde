//! Describes the resources that a configuration would use, before anything is started.

use crate::config::memory::{self, Held, Memory};
use crate::config::{Config, Device, Forwarding, Idle, Port, Resolved, Segment, Worker};
use crate::units::{bytes, counted, rate};

pub mod cost;

/// Most segments that are named; of further ones only the number is given.
const NAMED_MAX: usize = 8;

/// A section of the report: its name, before the first of its lines.
type Section = (&'static str, Vec<String>);

/// A valid configuration in a line: `valid: 4 ports, 2 workers, 312 MiB`, of packets and of tables together.
pub fn verdict(config: &Config) -> String {
    let ports = config.ports.iter().filter(|port| port.is_present());
    let (ports, workers) = (ports.count(), config.workers.len());
    let memory_bytes = memory::packet_bytes(config) + Memory::of(config).total_bytes();
    format!(
        "valid: {}, {}, {}\n",
        counted(ports, "port"),
        counted(workers, "worker"),
        bytes(memory_bytes as u64)
    )
}

/// A report for people: ports, forwarding, segments, methods, workers, memory, cost, addresses.
pub fn report(config: &Config) -> String {
    let ports = config.ports.iter().enumerate();
    let present = ports.filter(|(_, port)| port.is_present());
    let Resolved {
        segments,
        assignment,
        owners,
        ..
    } = config.resolve();
    let ports = present.map(|(index, port)| describe_port(owners[index], port));
    let workers = config.workers.iter().zip(&assignment);
    let workers = workers.map(|(worker, queues)| describe_worker(config, worker, queues));
    let mut sections: Vec<Section> = vec![
        ("switch", vec![config.name.clone()]),
        ("ports", ports.collect()),
        ("forwarding", vec![describe_forwarding(&config.forwarding)]),
    ];
    if !config.classes.is_empty() {
        let names = config.classes.iter().map(|class| class.name.as_str());
        let (names, rules) = (names.collect::<Vec<_>>().join(", "), config.rules.len());
        sections.push(("classes", vec![format!("{names} by {rules} rules")]));
    }
    let http = (config.http.listen).map(|address| format!("http://{address}/metrics"));
    let http = http.unwrap_or_else(|| "no server".to_owned());
    sections.extend(describe_measurement(config, &segments));
    sections.extend([
        ("workers", workers.collect()),
        ("wires", describe_wires(config)),
        ("memory", describe_memory(config)),
        ("cost", describe_cost(config)),
        ("http", vec![http]),
    ]);
    let segments = segments.len();
    if config.http.listen.is_some() && segments > 0 {
        let each = config.prometheus.series_per_histogram();
        let all = segments * each;
        let rest = format!(
            "{all} series of delay histograms at most, {each} for each of {segments} segments ({segments} as native \
             histograms)"
        );
        sections.push(("prometheus", vec![rest]));
    }
    let mut text = String::new();
    for (name, lines) in sections {
        let heads = std::iter::once(name).chain(std::iter::repeat(""));
        for (head, line) in heads.zip(lines) {
            text += &row(head, &line);
        }
    }
    text
}

/// A line of the report, under the name of its section; further lines of a section have no name.
pub fn row(section: &str, line: &str) -> String {
    format!("{section:<11} {line}\n")
}

fn describe_port(owner: Option<usize>, port: &Port) -> String {
    let what = match &port.device {
        Device::Sink => "swallows all".to_owned(),
        device => device.to_string(),
    };
    let (name, mtu, egress) = (&port.name, port.mtu, &port.egress);
    let capacity = match egress.capacity_bps {
        Some(bps) => format!("sends {}bit/s", rate(bps as f64)),
        None => "sends unshaped".to_owned(),
    };
    let queues = match egress.queues.len() {
        0 => format!("queue of {} packets", egress.queue_packets),
        number => {
            let packets: u32 = egress.queues.iter().map(|queue| queue.packets).sum();
            format!("{number} queues of {packets} packets")
        }
    };
    let owner = match owner {
        Some(worker) => format!(", worker {worker} transmits for all"),
        None => String::new(),
    };
    format!("{name}: {what}; MTU {mtu}, {capacity}, {queues}{owner}")
}

fn describe_forwarding(forwarding: &Forwarding) -> String {
    match forwarding {
        Forwarding::Patch { pairs, .. } => {
            let pairs: Vec<String> = pairs.iter().map(|(a, b)| format!("{a} <> {b}")).collect();
            format!("patch {}", pairs.join(", "))
        }
        Forwarding::Bridge {
            ageing_s,
            fdb_entries,
            stations,
            ..
        } => {
            let fixed = match stations.len() {
                0 => String::new(),
                number => format!(", {number} of them static"),
            };
            format!("bridge, {fdb_entries} addresses{fixed}, forgotten after {ageing_s} s")
        }
        Forwarding::Host => "by the host program".to_owned(),
    }
}

fn describe_worker(config: &Config, worker: &Worker, queues: &[(usize, u16)]) -> String {
    let core = match worker.core {
        Some(core) => format!("CPU {core}"),
        None => "any CPU that this process may use".to_owned(),
    };
    let idle = match worker.idle {
        Idle::Spin => "polls continuously",
        Idle::Pause => "pauses between empty polls",
        Idle::Sleep => "sleeps when idle",
    };
    let queues = queues
        .iter()
        .map(|&(port, queue)| format!("{}/{queue}", config.port_name(port)));
    let queues = match queues.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "nothing".to_owned(),
        queues => queues,
    };
    format!("{core}, {idle}; serves {queues}")
}

fn describe_measurement(config: &Config, segments: &[Segment]) -> Vec<Section> {
    let measurement = &config.measurement;
    if !measurement.enabled {
        return vec![("measurement", vec!["off".to_owned()])];
    }
    let named = segments.iter().map(|segment| {
        let class = match config.classes.get(segment.class) {
            Some(class) => format!("/{}", class.name),
            None => String::new(),
        };
        let [from, to] = config.segment_ends(segment);
        format!("{from}>{to}{class}")
    });
    let named = if segments.len() > NAMED_MAX {
        String::new()
    } else {
        format!(": {}", named.collect::<Vec<_>>().join(", "))
    };
    let (interval, grace) = (measurement.interval(), measurement.grace());
    let (interval, grace) = (interval.as_millis(), grace.as_millis());
    let lda = measurement.lda.as_ref().map(|lda| {
        let banks = lda.banks.iter();
        let banks = banks.map(|bank| format!("{} rows sampling {}", bank.rows, bank.probability));
        banks.collect::<Vec<_>>().join(", ")
    });
    let lds = measurement.lds.as_ref().map(|lds| {
        let rows: Vec<_> = lds.rows.iter().map(ToString::to_string).collect();
        format!(
            "{} cells in {} rows sampling {}, for each egress port",
            lds.cells,
            rows.len(),
            rows.join(", ")
        )
    });
    let flows = measurement.flows.as_ref();
    let sections = [
        ("segments", Some(format!("{}{named}", segments.len()))),
        ("epochs", Some(format!("{interval} ms, grace {grace} ms"))),
        ("LDA", lda),
        ("LDS", lds),
        (
            "flows",
            flows.map(|flows| format!("{} for each worker", flows.slots)),
        ),
    ];
    let sections = sections.into_iter();
    sections
        .filter_map(|(name, line)| Some((name, vec![line?])))
        .collect()
}

/// Each segment on the wire: where it leads, its sizes, and its use of the link.
fn describe_wires(config: &Config) -> Vec<String> {
    let described = config.wires().flat_map(|(port, wire)| {
        let name = config.port_name(port);
        // Invalid sizes were rejected before.
        let (layout, sent) = (config.wire_layout(port).ok(), config.wire_bytes(port).ok());
        let to = match &wire.peer {
            None => "a direct link".to_owned(),
            Some(peer) => format!("to {} in UDP", peer.remote),
        };
        let segments = config.wire_segments(port).join(", ");
        let sizes = layout.map_or_else(String::new, |layout| {
            let rows: Vec<String> = (layout.lda.banks())
                .map(|bank| bank.rows.to_string())
                .collect();
            let lds = match &layout.lds {
                Some(lds) => format!(
                    "LDS {} x {}, k = {}",
                    lds.rows(),
                    lds.columns(),
                    lds.virtual_cells()
                ),
                None => "no LDS".to_owned(),
            };
            let (rows, stash) = (rows.join(" + "), layout.stash_packets);
            let adaptive = config.wire_adaptive_lda(port);
            let losses = adaptive.map_or_else(String::new, |lda| {
                format!(" that adapt to losses up to {} %", lda.worst_loss * 100.0)
            });
            format!("{name}: LDA {rows} rows{losses}, {lds}, stash of {stash} packets")
        });
        let share = sent.map_or_else(String::new, |sent| {
            let capacity = rate(config.wire_capacity_bps(port) as f64);
            let taken = bytes(sent.total());
            let most = bytes(sent.share);
            let share = wire.share * 100.0;
            format!("{name}: sends {taken} of {most} an epoch ({share} % of {capacity}bit/s)")
        });
        [format!("{name}: {to}, {segments}"), sizes, share]
    });
    described.collect()
}

fn describe_memory(config: &Config) -> Vec<String> {
    let packets = format!(
        "packets: {} buffers, {} of {} MiB of {}",
        config.dpdk.mbufs,
        bytes(memory::packet_bytes(config) as u64),
        config.dpdk.memory_mib,
        if config.dpdk.hugepages {
            "hugepages"
        } else {
            "ordinary memory (no hugepages)"
        }
    );
    let memory = Memory::of(config);
    let items = memory.items().iter().map(|item| {
        let total = bytes(item.total_bytes() as u64);
        let of = match item.copies {
            1 => item.of.clone(),
            copies => format!(
                "{copies} copies of {}, {}",
                bytes(item.bytes as u64),
                item.of
            ),
        };
        format!("{}: {total} ({of})", item.purpose)
    });
    let budget = match config.memory_budget_mib {
        Some(mib) => format!("{mib} MiB"),
        None => "half of the memory free at start".to_owned(),
    };
    let total = format!(
        "everything but packets: {}; budget {budget}",
        bytes(memory.total_bytes() as u64)
    );
    let held = Held::of(config);
    let held = format!(
        "at most {} buffers are in use at once: {} in descriptors, {} in queues, {} by workers",
        held.total(),
        held.descriptors,
        held.queues + held.rings,
        held.workers
    );
    [packets, held]
        .into_iter()
        .chain(items)
        .chain([total])
        .collect()
}

fn describe_cost(config: &Config) -> Vec<String> {
    let steps = cost::steps(config);
    let each = steps
        .iter()
        .map(|step| format!("{:.1} ns {}", step.ns, step.name));
    let sum: f64 = steps.iter().map(|step| step.ns).sum();
    let total = format!(
        "{sum:.0} ns a packet in total, {:.1} million a second per worker",
        cost::rate_mpps(&steps)
    );
    let cpu = format!("for: {}", cost::CPU);
    let source = format!("these are {}", cost::SOURCE);
    each.chain([total, cpu, source]).collect()
}

#[cfg(test)]
mod tests;
