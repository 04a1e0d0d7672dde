//! What a configuration would use, said before anything is started.

use std::fmt::Write;

use crate::config::memory::{self, Held, Memory};
use crate::config::{Config, Device, Forwarding, Idle, Port, Resolved, Segment, Worker};
use crate::units::{bytes, rate};

pub mod cost;

/// Segments that are named one by one; of more only the number is given.
const NAMED_MAX: usize = 8;

/// A report for people: ports, forwarding, segments, methods, workers, memory, cost, addresses.
pub fn report(config: &Config) -> String {
    let mut text = format!("switch      {}\n", config.name);
    let ports = config.ports.iter().enumerate();
    let present = ports.filter(|(_, port)| port.is_present());
    let Resolved {
        segments,
        assignment,
        owners,
        ..
    } = config.resolve();
    let ports = present.map(|(index, port)| describe_port(owners[index], port));
    lines(&mut text, "ports", ports);
    line(
        &mut text,
        "forwarding",
        &describe_forwarding(&config.forwarding),
    );
    if !config.classes.is_empty() {
        let names: Vec<&str> = config
            .classes
            .iter()
            .map(|class| class.name.as_str())
            .collect();
        let rules = config.rules.len();
        line(
            &mut text,
            "classes",
            &format!("{} by {rules} rules", names.join(", ")),
        );
    }
    describe_measurement(&mut text, config, &segments);
    let workers = config.workers.iter().zip(&assignment);
    let workers = workers.map(|(worker, queues)| describe_worker(config, worker, queues));
    lines(&mut text, "workers", workers);
    describe_wires(&mut text, config);
    describe_memory(&mut text, config);
    describe_cost(&mut text, config);
    let http = match config.http.listen {
        Some(address) => format!("http://{address}/metrics"),
        None => "no server".to_owned(),
    };
    line(&mut text, "http", &http);
    let segments = segments.len();
    if config.http.listen.is_some() && segments > 0 {
        let each = config.prometheus.series_per_histogram();
        let all = segments * each;
        let rest = format!(
            "{all} series of delay histograms at most, {each} for each of {segments} segments ({segments} as native \
             histograms)"
        );
        line(&mut text, "prometheus", &rest);
    }
    text
}

fn line(text: &mut String, head: &str, rest: &str) {
    let _ = writeln!(text, "{head:<11} {rest}");
}

fn lines(text: &mut String, head: &str, rest: impl Iterator<Item = String>) {
    for (index, rest) in rest.enumerate() {
        line(text, if index == 0 { head } else { "" }, &rest);
    }
}

fn describe_port(owner: Option<usize>, port: &Port) -> String {
    let what = match &port.device {
        Device::Sink => "swallows all".to_owned(),
        device => device.to_string(),
    };
    let Port {
        name, mtu, egress, ..
    } = port;
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
        Some(worker) => format!(", worker {worker} sends for all"),
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
        Forwarding::Host => "as the host decides".to_owned(),
    }
}

fn describe_worker(config: &Config, worker: &Worker, queues: &[(usize, u16)]) -> String {
    let core = match worker.core {
        Some(core) => format!("CPU {core}"),
        None => "a CPU of those this process may use".to_owned(),
    };
    let idle = match worker.idle {
        Idle::Spin => "polls without rest",
        Idle::Pause => "pauses between empty polls",
        Idle::Sleep => "sleeps when idle",
    };
    let queues: Vec<_> = queues
        .iter()
        .map(|&(port, queue)| format!("{}/{queue}", config.port_name(port)))
        .collect();
    let queues = if queues.is_empty() {
        "nothing".to_owned()
    } else {
        queues.join(", ")
    };
    format!("{core}, {idle}; serves {queues}")
}

fn describe_measurement(text: &mut String, config: &Config, segments: &[Segment]) {
    let measurement = &config.measurement;
    if !measurement.enabled {
        return line(text, "measurement", "off");
    }
    let some: Vec<String> = segments
        .iter()
        .take(NAMED_MAX + 1)
        .map(|segment| {
            let class = if config.classes.is_empty() {
                String::new()
            } else {
                format!("/{}", config.class_name(segment.class))
            };
            let (from, to) = (config.segment_from(segment), config.segment_to(segment));
            format!("{from}>{to}{class}")
        })
        .collect();
    let named = if some.len() > NAMED_MAX {
        String::new()
    } else {
        format!(": {}", some.join(", "))
    };
    line(text, "segments", &format!("{}{named}", segments.len()));
    let (interval, grace) = (measurement.interval(), measurement.grace());
    let (interval, grace) = (interval.as_millis(), grace.as_millis());
    line(text, "epochs", &format!("{interval} ms, grace {grace} ms"));
    if let Some(lda) = &measurement.lda {
        let banks = lda.banks.iter();
        let banks = banks.map(|bank| format!("{} rows sampling {}", bank.rows, bank.probability));
        line(text, "LDA", &banks.collect::<Vec<_>>().join(", "));
    }
    if let Some(lds) = &measurement.lds {
        let rows: Vec<_> = lds.rows.iter().map(ToString::to_string).collect();
        let words = format!(
            "{} cells in {} rows sampling {}, for each egress port",
            lds.cells,
            lds.rows.len(),
            rows.join(", ")
        );
        line(text, "LDS", &words);
    }
    if let Some(flows) = &measurement.flows {
        line(text, "flows", &format!("{} for each worker", flows.slots));
    }
}

/// Each segment on the wire: where it leads, what is kept, what that takes of the link.
fn describe_wires(text: &mut String, config: &Config) {
    let described = config.wires().flat_map(|(port, wire)| {
        let name = config.port_name(port);
        // Sizes that cannot be laid out are refused before.
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
                format!(
                    " for losses as they are, up to {} %",
                    lda.worst_loss * 100.0
                )
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
    lines(text, "wires", described);
}

fn describe_memory(text: &mut String, config: &Config) {
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
        None => "half of what is free at start".to_owned(),
    };
    let total = format!(
        "all but packets: {}; budget {budget}",
        bytes(memory.total_bytes() as u64)
    );
    let held = Held::of(config);
    let held = format!(
        "at most {} buffers are held at once: {} in descriptors, {} in queues, {} by workers",
        held.total(),
        held.descriptors,
        held.queues + held.rings,
        held.workers
    );
    let all = [packets, held].into_iter().chain(items).chain([total]);
    lines(text, "memory", all);
}

fn describe_cost(text: &mut String, config: &Config) {
    let steps = cost::steps(config);
    let each = steps
        .iter()
        .map(|step| format!("{:.1} ns {}", step.ns, step.name));
    let sum: f64 = steps.iter().map(|step| step.ns).sum();
    let total = format!(
        "{sum:.0} ns a packet in all, {:.1} million a second by one worker",
        cost::rate_mpps(&steps)
    );
    let cpu = format!("for: {}", cost::CPU);
    let source = format!("these are {}", cost::SOURCE);
    lines(text, "cost", each.chain([total, cpu, source]));
}

#[cfg(test)]
mod tests;
