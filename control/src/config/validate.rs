//! What no type can say: ranges, and names that refer to each other.

use std::collections::HashSet;
use std::fmt;
use std::ops::RangeInclusive;

use super::{Config, Device, Dpdk, Forwarding, Lda, Measurement, PORTS_MAX, Port, WORKERS_MAX};

/// One step into a JSON document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step<'k> {
    Key(&'k str),
    Index(usize),
}

/// A place in a JSON document, displayed as `ports[1].egress.queue_packets`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct KeyPath(pub(super) Vec<Step<'static>>);

impl KeyPath {
    fn key(&self, key: &'static str) -> Self {
        Self([&self.0[..], &[Step::Key(key)]].concat())
    }

    fn index(&self, index: usize) -> Self {
        Self([&self.0[..], &[Step::Index(index)]].concat())
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if depth == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// A value that means nothing.
#[derive(Debug)]
pub(super) struct Invalid {
    pub(super) path: KeyPath,
    pub(super) expected: String,
    pub(super) got: String,
}

type Check = Result<(), Invalid>;

fn ensure(
    holds: bool,
    path: KeyPath,
    expected: impl fmt::Display,
    got: impl fmt::Display,
) -> Check {
    if holds {
        return Ok(());
    }
    Err(Invalid {
        path,
        expected: expected.to_string(),
        got: got.to_string(),
    })
}

fn within<T: PartialOrd + fmt::Display>(
    path: KeyPath,
    value: T,
    range: RangeInclusive<T>,
) -> Check {
    let expected = format!("{} to {}", range.start(), range.end());
    ensure(range.contains(&value), path, expected, value)
}

/// Lists are counted, not quoted.
fn count_within(path: KeyPath, count: usize, range: RangeInclusive<usize>, what: &str) -> Check {
    let expected = format!("{} to {} {what}", range.start(), range.end());
    ensure(range.contains(&count), path, expected, count)
}

fn name(path: KeyPath, name: &str) -> Check {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let holds = (1..=64).contains(&name.len()) && name.chars().all(is_plain);
    ensure(
        holds,
        path,
        "1 to 64 letters, digits, `.`, `_` or `-`",
        format!("{name:?}"),
    )
}

/// Checks every range and reference; the first that does not hold is the error.
pub(super) fn validate(config: &Config) -> Check {
    let root = KeyPath::default();
    name(root.key("name"), &config.name)?;
    ports(&root.key("ports"), &config.ports)?;
    forwarding(&root.key("forwarding"), &config.forwarding, &config.ports)?;
    measurement(&root.key("measurement"), &config.measurement)?;
    count_within(
        root.key("workers"),
        config.workers.len(),
        1..=WORKERS_MAX,
        "workers",
    )?;
    dpdk(&root.key("dpdk"), &config.dpdk)
}

fn ports(path: &KeyPath, ports: &[Port]) -> Check {
    count_within(path.clone(), ports.len(), 1..=PORTS_MAX, "ports")?;
    let (mut names, mut devices) = (HashSet::new(), HashSet::new());
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        name(path.key("name"), &port.name)?;
        let got = format!("{:?} again", port.name);
        ensure(
            names.insert(&port.name),
            path.key("name"),
            "a name of its own",
            got,
        )?;
        if let Device::Dpdk(device) = &port.device {
            let got = format!("{device:?} again");
            ensure(
                devices.insert(device),
                path.key("device"),
                "a device of its own",
                got,
            )?;
        }
        within(path.key("mtu"), port.mtu, 68..=9_000)?;
        let egress = path.key("egress");
        within(
            egress.key("queue_packets"),
            port.egress.queue_packets,
            1..=65_536,
        )?;
        if let Some(capacity_bps) = port.egress.capacity_bps {
            within(
                egress.key("capacity_bps"),
                capacity_bps,
                1_000..=1_000_000_000_000,
            )?;
        }
    }
    Ok(())
}

fn forwarding(path: &KeyPath, forwarding: &Forwarding, ports: &[Port]) -> Check {
    match forwarding {
        Forwarding::Patch { pairs, .. } => self::pairs(&path.key("pairs"), pairs, ports),
        Forwarding::Bridge {
            ageing_s,
            fdb_entries,
            ..
        } => {
            let two = ports.len() >= 2;
            ensure(
                two,
                path.key("mode"),
                "at least 2 ports to bridge",
                ports.len(),
            )?;
            within(path.key("ageing_s"), *ageing_s, 1..=1_000_000)?;
            within(path.key("fdb_entries"), *fdb_entries, 1..=1_048_576)
        }
    }
}

fn pairs(path: &KeyPath, pairs: &[(String, String)], ports: &[Port]) -> Check {
    count_within(path.clone(), pairs.len(), 1..=PORTS_MAX / 2, "pairs")?;
    let known: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
    let mut taken = HashSet::new();
    for (index, (a, b)) in pairs.iter().enumerate() {
        for (end, name) in [a, b].into_iter().enumerate() {
            let path = path.index(index).index(end);
            let expected = format!("the name of a port ({})", known.join(", "));
            let got = format!("{name:?}");
            ensure(known.contains(&name.as_str()), path.clone(), expected, &got)?;
            let expected = "a port that is in no pair yet";
            ensure(taken.insert(name), path, expected, got)?;
        }
    }
    Ok(())
}

fn measurement(path: &KeyPath, measurement: &Measurement) -> Check {
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
        let got = format!("{seed:?}");
        ensure(holds, path.key("hash_seed"), "32 hexadecimal digits", got)?;
    }
    match &measurement.lda {
        Some(banks) => lda(&path.key("lda"), banks),
        None => Ok(()),
    }
}

fn lda(path: &KeyPath, lda: &Lda) -> Check {
    let path = path.key("banks");
    count_within(path.clone(), lda.banks.len(), 1..=16, "banks")?;
    for (index, bank) in lda.banks.iter().enumerate() {
        let path = path.index(index);
        within(path.key("rows"), bank.rows, 1..=65_536)?;
        let p = bank.probability;
        ensure(
            p > 0.0 && p <= 1.0,
            path.key("probability"),
            "over 0, up to 1",
            p,
        )?;
    }
    let sum: f64 = lda.banks.iter().map(|bank| bank.probability).sum();
    // Decimal fractions do not add up exactly in binary.
    let expected = "probabilities that add up to 1 at most (samples are disjoint)";
    ensure(sum <= 1.0 + 1e-9, path, expected, sum)
}

fn dpdk(path: &KeyPath, dpdk: &Dpdk) -> Check {
    within(path.key("memory_mib"), dpdk.memory_mib, 16..=1_048_576)?;
    within(path.key("mbufs"), dpdk.mbufs, 1_024..=4_194_304)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{LdaBank, Segment};

    fn error(change: impl FnOnce(&mut Config)) -> String {
        let mut config = Config::demo().unwrap();
        validate(&config).unwrap();
        change(&mut config);
        let Invalid {
            path,
            expected,
            got,
        } = validate(&config).unwrap_err();
        format!("{path}: expected {expected}, got {got}")
    }

    fn lda(config: &mut Config) -> &mut Lda {
        config.measurement.lda.as_mut().unwrap()
    }

    fn segment(ingress: usize, egress: usize) -> Segment {
        Segment {
            ingress,
            egress,
            class: 0,
        }
    }

    fn pair(a: &str, b: &str) -> Forwarding {
        Forwarding::Patch {
            pairs: vec![(a.to_owned(), b.to_owned())],
            link_loss_forwarding: false,
        }
    }

    fn bridge(ageing_s: u32) -> Forwarding {
        Forwarding::Bridge {
            ageing_s,
            fdb_entries: 1,
            stations: Vec::new(),
            flood_limit_pps: 1,
        }
    }

    #[test]
    fn names_ports_and_forwarding_are_checked() {
        let cases = [
            (
                error(|c| c.name = "a b".to_owned()),
                "name: expected 1 to 64 letters, digits, `.`, `_` or `-`, got \"a b\"",
            ),
            (
                error(|c| c.ports.clear()),
                "ports: expected 1 to 64 ports, got 0",
            ),
            (
                error(|c| c.ports = vec![c.ports[0].clone(); 65]),
                "ports: expected 1 to 64 ports, got 65",
            ),
            (
                error(|c| c.ports[1].name = "east".to_owned()),
                "ports[1].name: expected a name of its own, got \"east\" again",
            ),
            (
                error(|c| {
                    for port in &mut c.ports {
                        port.device = Device::Dpdk("net_null0".to_owned());
                    }
                }),
                "ports[1].device: expected a device of its own, got \"net_null0\" again",
            ),
            (
                error(|c| c.ports[0].mtu = 67),
                "ports[0].mtu: expected 68 to 9000, got 67",
            ),
            (
                error(|c| c.ports[1].egress.queue_packets = 65_537),
                "ports[1].egress.queue_packets: expected 1 to 65536, got 65537",
            ),
            (
                error(|c| c.ports[1].egress.capacity_bps = Some(0)),
                "ports[1].egress.capacity_bps: expected 1000 to 1000000000000, got 0",
            ),
            (
                error(|c| c.forwarding = pair("east", "north")),
                "forwarding.pairs[0][1]: expected the name of a port (east, west), got \"north\"",
            ),
            (
                error(|c| c.forwarding = pair("east", "east")),
                "forwarding.pairs[0][1]: expected a port that is in no pair yet, got \"east\"",
            ),
            (
                error(|c| {
                    c.ports.truncate(1);
                    c.forwarding = bridge(300);
                }),
                "forwarding.mode: expected at least 2 ports to bridge, got 1",
            ),
            (
                error(|c| c.forwarding = bridge(0)),
                "forwarding.ageing_s: expected 1 to 1000000, got 0",
            ),
        ];
        for (got, expected) in cases {
            assert_eq!(got, expected);
        }
    }

    #[test]
    fn measurement_and_memory_are_checked() {
        let cases = [
            (
                error(|c| c.measurement.interval_ms = 9),
                "measurement.interval_ms: expected 10 to 60000, got 9",
            ),
            (
                error(|c| c.measurement.grace_ms = Some(125)),
                "measurement.grace_ms: expected less than half of interval_ms (250), got 125",
            ),
            (
                error(|c| c.measurement.hash_seed = Some("12".to_owned())),
                "measurement.hash_seed: expected 32 hexadecimal digits, got \"12\"",
            ),
            (
                error(|c| lda(c).banks.clear()),
                "measurement.lda.banks: expected 1 to 16 banks, got 0",
            ),
            (
                error(|c| lda(c).banks[1].rows = 0),
                "measurement.lda.banks[1].rows: expected 1 to 65536, got 0",
            ),
            (
                error(|c| lda(c).banks[0].probability = f64::NAN),
                "measurement.lda.banks[0].probability: expected over 0, up to 1, got NaN",
            ),
            (
                error(|c| {
                    lda(c).banks = vec![
                        LdaBank {
                            rows: 1,
                            probability: 0.75
                        };
                        2
                    ];
                }),
                "measurement.lda.banks: expected probabilities that add up to 1 at most (samples \
                 are disjoint), got 1.5",
            ),
            (
                error(|c| c.workers.clear()),
                "workers: expected 1 to 64 workers, got 0",
            ),
            (
                error(|c| c.dpdk.mbufs = 0),
                "dpdk.mbufs: expected 1024 to 4194304, got 0",
            ),
        ];
        for (got, expected) in cases {
            assert_eq!(got, expected);
        }
    }

    #[test]
    fn a_bridge_measures_every_ordered_pair() {
        let mut config = Config::demo().unwrap();
        config.forwarding = Forwarding::Bridge {
            ageing_s: 300,
            fdb_entries: 1024,
            stations: Vec::new(),
            flood_limit_pps: 1,
        };
        config.ports = (0..PORTS_MAX)
            .map(|n| Port {
                name: format!("p{n}"),
                ..config.ports[0].clone()
            })
            .collect();
        validate(&config).unwrap();
        let segments = config.segments();
        assert_eq!(segments.len(), 4_032);
        assert_eq!(segments[..2], [segment(0, 1), segment(0, 2)]);
        assert_eq!(segments[4_031], segment(63, 62));
        config.measurement.enabled = false;
        assert_eq!(config.segments(), Vec::new());
    }
}
