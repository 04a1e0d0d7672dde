//! What a configuration would use, said before anything is started.

use std::fmt::Write;

use measure::cell::CellPair;
use measure::shard::SegmentSynopsis;

use crate::config::{Config, Device, Forwarding, Idle, Port, Worker};
use crate::handover::SHARDS_PER_WORKER;
use crate::units::{bytes, rate};

/// Segments that are named one by one; of more only the number is given.
const NAMED_MAX: usize = 8;

/// A report for people: ports, forwarding, segments, memory of synopses, workers, addresses.
pub fn report(config: &Config) -> String {
    let mut text = format!("switch      {}\n", config.name);
    for (index, port) in config.ports.iter().enumerate() {
        line(
            &mut text,
            if index == 0 { "ports" } else { "" },
            &describe_port(port),
        );
    }
    line(
        &mut text,
        "forwarding",
        &describe_forwarding(&config.forwarding),
    );
    describe_measurement(&mut text, config);
    for worker in &config.workers {
        line(&mut text, "worker", &describe_worker(worker));
    }
    let memory = format!(
        "{} packet buffers in {} MiB of {}",
        config.dpdk.mbufs,
        config.dpdk.memory_mib,
        if config.dpdk.hugepages {
            "hugepages"
        } else {
            "ordinary memory (no hugepages)"
        }
    );
    line(&mut text, "packets", &memory);
    let http = match config.http.listen {
        Some(address) => format!("http://{address}/metrics"),
        None => "no server".to_owned(),
    };
    line(&mut text, "http", &http);
    text
}

fn line(text: &mut String, head: &str, rest: &str) {
    let _ = writeln!(text, "{head:<11} {rest}");
}

fn describe_port(port: &Port) -> String {
    let what = match &port.device {
        Device::Sink => "swallows all".to_owned(),
        device => device.to_string(),
    };
    let capacity = match port.egress.capacity_bps {
        Some(bps) => format!("sends {}bit/s", rate(bps as f64)),
        None => "sends unshaped".to_owned(),
    };
    let Port {
        name, mtu, egress, ..
    } = port;
    format!(
        "{name}: {what}; MTU {mtu}, {capacity}, queue of {} packets",
        egress.queue_packets
    )
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
            ..
        } => {
            format!("bridge, {fdb_entries} addresses, forgotten after {ageing_s} s")
        }
    }
}

fn describe_worker(worker: &Worker) -> String {
    let core = match worker.core {
        Some(core) => format!("CPU {core}"),
        None => "the last CPU this process may use".to_owned(),
    };
    let idle = match worker.idle {
        Idle::Spin => "polls without rest",
        Idle::Pause => "pauses between empty polls",
        Idle::Sleep => "sleeps when idle",
    };
    format!("{core}, {idle}")
}

fn describe_measurement(text: &mut String, config: &Config) {
    let measurement = &config.measurement;
    if !measurement.enabled {
        return line(text, "measurement", "off");
    }
    let segments = config.segments();
    let name = |port: usize| config.ports.get(port).map_or("", |port| &port.name);
    let some: Vec<String> = segments
        .iter()
        .take(NAMED_MAX + 1)
        .map(|segment| format!("{}>{}", name(segment.ingress), name(segment.egress)))
        .collect();
    let named = if some.len() > NAMED_MAX {
        String::new()
    } else {
        format!(": {}", some.join(", "))
    };
    let (interval, grace) = (measurement.interval(), measurement.grace());
    line(text, "segments", &format!("{}{named}", segments.len()));
    line(
        text,
        "epochs",
        &format!(
            "{} ms, grace {} ms",
            interval.as_millis(),
            grace.as_millis()
        ),
    );
    let banks: Vec<String> = measurement
        .lda
        .iter()
        .flat_map(|lda| &lda.banks)
        .map(|bank| format!("{} rows sampling {}", bank.rows, bank.probability))
        .collect();
    line(text, "LDA", &banks.join(", "));
    let segment = segment_bytes(config);
    let shards = config.workers.len() * SHARDS_PER_WORKER + CORE_SHARDS;
    let memory = format!(
        "{} a segment, {shards} copies of each: {}",
        bytes(segment),
        bytes(segment * segments.len() * shards)
    );
    line(text, "synopses", &memory);
}

/// Shards that the control core keeps: a blank one, and one to add up in (more only while a worker
/// hangs).
const CORE_SHARDS: usize = 2;

/// Memory of one segment's synopsis.
fn segment_bytes(config: &Config) -> usize {
    let rows: usize = config
        .measurement
        .lda
        .iter()
        .flat_map(|lda| &lda.banks)
        .map(|bank| bank.rows as usize)
        .sum();
    size_of::<SegmentSynopsis>() + rows * size_of::<CellPair>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PORTS_MAX;

    #[test]
    fn the_demo_says_all_it_would_use() {
        let report = report(&Config::demo().unwrap());
        for expected in [
            "switch      demo\n",
            "ports       east: generate:flows=2000,",
            "\n            west: generate:flows=500,",
            "forwarding  patch east <> west\n",
            "segments    2: east>west, west>east\n",
            "epochs      250 ms, grace 100 ms\n",
            "LDA         512 rows sampling 0.5, 512 rows sampling 0.05\n",
            "a segment, 5 copies of each: ",
            "worker      the last CPU this process may use, sleeps when idle\n",
            "of ordinary memory (no hugepages)\n",
            "http        http://127.0.0.1:9464/metrics\n",
        ] {
            assert!(report.contains(expected), "{expected:?} in\n{report}");
        }
    }

    #[test]
    fn memory_grows_with_the_square_of_a_bridge() {
        let mut config = Config::demo().unwrap();
        config.forwarding = Forwarding::Bridge {
            ageing_s: 300,
            fdb_entries: 1024,
            stations: Vec::new(),
            flood_limit_pps: 1,
        };
        config.ports = vec![config.ports[0].clone(); PORTS_MAX];
        let report = report(&config);
        assert!(report.contains("segments    4032\n"), "{report}");
        let total = bytes(segment_bytes(&config) * 4_032 * 5);
        assert!(
            report.contains(&total) && total.ends_with("MiB"),
            "{report}"
        );
    }
}
