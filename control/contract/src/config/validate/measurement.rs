//! What is measured: epochs, segments, the sizes of every method.

use std::collections::HashSet;

use measure::digest::DEVICE_PORTS_MAX;

use super::classes::flow_rules;
use super::{Check, KeyPath, all, ensure, known, laid_out, name, port_names, unique};
use crate::config::{CLASSES_MAX, Config, FlowSelection, Forwarding, Lda, Lds};
use crate::config::{Measurement, PORTS_MAX, Rli, RliMethod, RliPolicy, SegmentPorts, Stamps};

// A segment's number has 16 bits, and the last is "none".
const _: () = assert!(PORTS_MAX * (PORTS_MAX + DEVICE_PORTS_MAX) * CLASSES_MAX < u16::MAX as usize);

pub(super) fn measurement(path: &KeyPath, config: &Config) -> Check {
    let measurement = &config.measurement;
    let interval_ms = measurement.interval_ms;
    let grace = measurement.grace();
    let short_grace = ensure(
        grace * 2 < measurement.interval(),
        path.key("grace_ms"),
        format!("less than half of interval_ms ({interval_ms})"),
        grace.as_millis(),
    );
    let rules = match measurement.flows.as_ref().map(|flows| &flows.select) {
        Some(FlowSelection::Rules(rules)) => &rules[..],
        _ => &[],
    };
    let (seed, pairs) = (&measurement.hash_seed, &measurement.segments);
    let seed = seed.as_deref().map(|seed| {
        let holds = seed.len() == 32 && seed.chars().all(|c| c.is_ascii_hexdigit());
        // It is a secret: it is counted, not quoted.
        let got = format!("{} characters, or others", seed.chars().count());
        ensure(holds, path.key("hash_seed"), "32 hexadecimal digits", got)
    });
    let pairs = pairs.as_ref();
    let (lda, lds, rli) = (&measurement.lda, &measurement.lds, &measurement.rli);
    let checks = [
        Some(short_grace),
        seed,
        pairs.map(|pairs| segments(&path.key("segments"), pairs, config)),
        Some(around(&path.key("around"), config)),
        lda.as_ref().map(|lda| self::lda(&path.key("lda"), lda)),
        lds.as_ref().map(|lds| self::lds(&path.key("lds"), lds)),
        rli.as_ref()
            .map(|rli| self::rli(&path.key("rli"), rli, config)),
        Some(flow_rules(
            &path.key("flows").key("select").key("rules"),
            rules,
        )),
    ];
    all(checks.into_iter().flatten())
}

/// Pairs that packets can take.
fn segments(path: &KeyPath, segments: &[SegmentPorts], config: &Config) -> Check {
    let expected = "one segment at least, or no such key for all";
    ensure(!segments.is_empty(), path.clone(), expected, "none")?;
    let names = port_names(config);
    let mut seen = HashSet::new();
    all(segments.iter().enumerate().map(|(index, segment)| {
        let path = path.index(index);
        let SegmentPorts { from, to } = segment;
        known(path.key("from"), from, "port", &names)?;
        known(path.key("to"), to, "port", &names)?;
        let (exists, expected) = match &config.forwarding {
            Forwarding::Bridge { .. } => (from != to, format!("another port than {from}")),
            Forwarding::Patch { pairs, .. } => {
                let ends = |(a, b): &(String, String)| (a == from && b == to, a == to && b == from);
                let is_patched = pairs.iter().map(ends).any(|(there, back)| there || back);
                (is_patched, format!("the port that {from} is patched to"))
            }
            Forwarding::Host => (true, String::new()),
        };
        ensure(exists, path.key("to"), expected, format!("{to:?}"))?;
        unique(&mut seen, (from, to), path, "a segment once")
    }))
}

/// Devices that packets come back from.
fn around(path: &KeyPath, config: &Config) -> Check {
    let names = port_names(config);
    let (mut devices, mut taken) = (HashSet::new(), HashSet::new());
    let devices_around = config.measurement.around.iter().enumerate();
    all(devices_around.map(|(index, around)| {
        let path = path.index(index);
        let (key, device) = (path.key("name"), around.name.as_str());
        name(key.clone(), device)?;
        let is_free = !names.contains(&device);
        ensure(
            is_free,
            key.clone(),
            "a name that no port has",
            format!("{device:?}"),
        )?;
        unique(&mut devices, device, key, "a name of its own")?;
        for (index, port) in around.ports.iter().enumerate() {
            let path = path.key("ports").index(index);
            known(path.clone(), port, "port", &names)?;
            unique(
                &mut taken,
                port.as_str(),
                path.clone(),
                "a port that leads to no other device",
            )?;
            let wire = config
                .ports
                .iter()
                .find(|of| of.name == *port && of.wire.is_some());
            let expected = "a port without a `wire`: the other switch is at the end of the device's segment, not this one";
            ensure(wire.is_none(), path, expected, format!("{port:?}"))?;
        }
        Ok(())
    }))
}

pub(super) fn lda(path: &KeyPath, lda: &Lda) -> Check {
    let path = path.key("banks");
    let sum: f64 = lda.banks.iter().map(|bank| bank.probability).sum();
    // Decimal fractions do not add up exactly in binary.
    let expected = "probabilities that add up to 1 at most (samples are disjoint)";
    ensure(sum <= 1.0 + 1e-9, path.clone(), expected, sum)?;
    laid_out(path, lda.layout(), "banks that can be laid out").map(drop)
}

fn lds(path: &KeyPath, lds: &Lds) -> Check {
    row_holds(path, lds.virtual_cells, lds.cells, lds.rows.len())?;
    laid_out(path.clone(), lds.layout(), "rows that can be laid out").map(drop)
}

/// A row of a sketch has the cells that a flow has in it.
pub(super) fn row_holds(path: &KeyPath, virtual_cells: u32, cells: u32, rows: usize) -> Check {
    let row = cells as usize / rows;
    let expected = format!("no more than a row has ({row} cells)");
    let path = path.key("virtual_cells");
    ensure(virtual_cells as usize <= row, path, expected, virtual_cells)
}

fn rli(path: &KeyPath, rli: &Rli, config: &Config) -> Check {
    if rli.policy == RliPolicy::Adaptive {
        capacities(path.key("policy").key("kind"), "adaptive", config)?;
    }
    let method = path.key("method");
    if rli.method == RliMethod::AnchoredSums {
        let Measurement { stamps, .. } = config.measurement;
        ensure(
            stamps == Stamps::Packet,
            method.clone(),
            "`measurement.stamps` to be `packet` with anchored_sums",
            "`burst`",
        )?;
        capacities(method, "anchored_sums", config)?;
    }
    Ok(())
}

/// Every port by which measured packets leave says how fast it sends.
fn capacities(path: KeyPath, what: &str, config: &Config) -> Check {
    let ports = config.sketch_ports();
    let mut ports = ports.into_iter().filter_map(|port| config.ports.get(port));
    let without = ports.find(|port| port.egress.capacity_bps.is_none());
    let name = without.map_or("", |port| &port.name);
    let expected = format!("`egress.capacity_bps` on every egress port, which {what} goes by");
    ensure(without.is_none(), path, expected, format!("none on {name}"))
}
