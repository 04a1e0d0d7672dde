//! What is measured: epochs, segments, the sizes of every method.

use std::collections::HashSet;

use super::classes::flow_rules;
use super::{Check, KeyPath, count_within, ensure, known, port_names, share, unique, within};
use crate::config::{CLASSES_MAX, Config, FlowSelection, Flows, Forwarding, Lda, Lds};
use crate::config::{Measurement, PORTS_MAX, Rli, RliMethod, RliPolicy, SegmentPorts, Stamps};

// A segment's number has 16 bits, and the last is "none".
const _: () = assert!(PORTS_MAX * PORTS_MAX * CLASSES_MAX < u16::MAX as usize);

pub(super) fn measurement(path: &KeyPath, config: &Config) -> Check {
    let measurement = &config.measurement;
    let interval_ms = measurement.interval_ms;
    within(path.key("interval_ms"), interval_ms, 10..=60_000)?;
    let grace = measurement.grace();
    ensure(
        grace * 2 < measurement.interval(),
        path.key("grace_ms"),
        format!("less than half of interval_ms ({interval_ms})"),
        grace.as_millis(),
    )?;
    if let Some(seed) = &measurement.hash_seed {
        let holds = seed.len() == 32 && seed.chars().all(|c| c.is_ascii_hexdigit());
        // It is a secret: it is counted, not quoted.
        let got = format!("{} characters, or others", seed.chars().count());
        ensure(holds, path.key("hash_seed"), "32 hexadecimal digits", got)?;
    }
    if let Some(pairs) = &measurement.segments {
        segments(&path.key("segments"), pairs, config)?;
    }
    if let Some(lda) = &measurement.lda {
        self::lda(&path.key("lda"), lda)?;
    }
    if let Some(lds) = &measurement.lds {
        self::lds(&path.key("lds"), lds)?;
    }
    if let Some(rli) = &measurement.rli {
        self::rli(&path.key("rli"), rli, config)?;
    }
    match &measurement.flows {
        Some(flows) => self::flows(&path.key("flows"), flows),
        None => Ok(()),
    }
}

/// Pairs that packets can take.
fn segments(path: &KeyPath, segments: &[SegmentPorts], config: &Config) -> Check {
    let expected = "one segment at least, or no such key for all";
    ensure(!segments.is_empty(), path.clone(), expected, "none")?;
    let names = port_names(config);
    let mut seen = HashSet::new();
    for (index, segment) in segments.iter().enumerate() {
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
        unique(&mut seen, (from, to), path, "a segment once")?;
    }
    Ok(())
}

pub(super) fn lda(path: &KeyPath, lda: &Lda) -> Check {
    let path = path.key("banks");
    count_within(path.clone(), lda.banks.len(), 1..=16, "banks")?;
    for (index, bank) in lda.banks.iter().enumerate() {
        let path = path.index(index);
        within(path.key("rows"), bank.rows, 1..=65_536)?;
        share(path.key("probability"), bank.probability)?;
    }
    let sum: f64 = lda.banks.iter().map(|bank| bank.probability).sum();
    // Decimal fractions do not add up exactly in binary.
    let expected = "probabilities that add up to 1 at most (samples are disjoint)";
    ensure(sum <= 1.0 + 1e-9, path.clone(), expected, sum)?;
    let layout = lda.layout();
    let got = layout.as_ref().err().map(ToString::to_string);
    ensure(
        layout.is_ok(),
        path,
        "banks that can be laid out",
        got.unwrap_or_default(),
    )
}

fn lds(path: &KeyPath, lds: &Lds) -> Check {
    within(path.key("cells"), lds.cells, 16..=16_777_216)?;
    let rows = path.key("rows");
    count_within(rows.clone(), lds.rows.len(), 1..=4, "rows")?;
    for (index, &probability) in lds.rows.iter().enumerate() {
        share(rows.index(index), probability)?;
    }
    if let Some(decode) = &lds.decode {
        let path = path.key("decode");
        within(path.key("components"), decode.components, 1..=3)?;
        within(path.key("interval_s"), decode.interval_s, 1..=3_600)?;
    }
    within(path.key("virtual_cells"), lds.virtual_cells, 1..=1_024)?;
    let row = lds.cells as usize / lds.rows.len();
    ensure(
        lds.virtual_cells as usize <= row,
        path.key("virtual_cells"),
        format!("no more than a row has ({row} cells)"),
        lds.virtual_cells,
    )?;
    let layout = lds.layout();
    let got = layout.as_ref().err().map(ToString::to_string);
    ensure(
        layout.is_ok(),
        path.clone(),
        "rows that can be laid out",
        got.unwrap_or_default(),
    )
}

/// When references are sent, without what else it needs.
pub(super) fn policy(path: &KeyPath, policy: &RliPolicy) -> Check {
    let (packets, interval_us) = match *policy {
        RliPolicy::Count { packets } => (Some(packets), None),
        RliPolicy::Time { interval_us } => (None, Some(interval_us)),
        RliPolicy::Either {
            packets,
            interval_us,
        } => (Some(packets), Some(interval_us)),
        RliPolicy::Adaptive => (None, None),
    };
    if let Some(packets) = packets {
        within(path.key("packets"), packets, 1..=1_000_000)?;
    }
    if let Some(interval_us) = interval_us {
        within(path.key("interval_us"), interval_us, 1..=10_000_000)?;
    }
    Ok(())
}

fn rli(path: &KeyPath, rli: &Rli, config: &Config) -> Check {
    let policy = path.key("policy");
    self::policy(&policy, &rli.policy)?;
    if rli.policy == RliPolicy::Adaptive {
        capacities(policy.key("kind"), "adaptive", config)?;
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

fn flows(path: &KeyPath, flows: &Flows) -> Check {
    within(path.key("slots"), flows.slots, 16..=16_777_216)?;
    within(path.key("idle_s"), flows.idle_s, 1..=86_400)?;
    let select = path.key("select");
    match &flows.select {
        FlowSelection::All | FlowSelection::Top => Ok(()),
        FlowSelection::Sampled(share) => within(select.key("sampled"), *share, 0.0..=1.0),
        FlowSelection::Rules(rules) => {
            let path = select.key("rules");
            ensure(!rules.is_empty(), path.clone(), "1 to 256 rules", 0)?;
            flow_rules(&path, rules)
        }
    }
}
