//! Faults: kinds, places and sizes, and their injection.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use reporting::statistics::whole;
use testkit::frr::{Link, TOY};
use testkit::namespace::inside;
use testkit::process::{output, wait};

use crate::mplane::cable::{Cable, clear_box, nft, start_impair, tc_by};
use crate::mplane::network::{M_ROUTERS, Network, neighbours};
use crate::mplane::traffic::TRAFFIC_PORTS;

/// How long traffic is counted before its rate is limited.
const COUNTED: Duration = Duration::from_secs(2);
/// Least traffic, in bits per second, whose rate can be limited.
const TRAFFIC_MIN_BPS: f64 = 100_000.0;
/// Links that are cut, each for a fifth of the faults, after those of the whole network.
const CUTS: [Link<'static>; 2] = [("E", "F", 2), ("A", "F", 1)];

/// Place of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The link between two routers.
    Link(&'static str, &'static str),
    /// Inside an m-router, where packets leave to a neighbour.
    Port(&'static str, &'static str),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(from, to) => write!(f, "link {from}-{to}"),
            Self::Port(router, to) => write!(f, "router {router}, port to {to}"),
        }
    }
}

/// Kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Packets take this much longer, with up to a tenth of it more or less.
    Delay {
        /// Milliseconds.
        ms: f64,
    },
    /// A share of packets is lost.
    Loss {
        /// Per cent.
        percent: f64,
    },
    /// The rate is limited to a part of the traffic there.
    Rate {
        /// Per cent of the traffic.
        percent: f64,
        /// Delay of a full queue in milliseconds.
        queue_ms: f64,
    },
}

impl Kind {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Delay { .. } => "delay",
            Self::Loss { .. } => "loss",
            Self::Rate { .. } => "rate limit",
        }
    }
}

/// Its size.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delay { ms } => write!(f, "{ms:.0} ms"),
            Self::Loss { percent } => write!(f, "{percent:.0} %"),
            Self::Rate { percent, queue_ms } => {
                write!(
                    f,
                    "{percent:.0} % of the traffic, queue of {queue_ms:.0} ms"
                )
            }
        }
    }
}

/// A planned fault.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fault {
    pub number: u32,
    pub kind: Kind,
    pub place: Place,
    /// The link that is cut during the fault.
    pub cut: Option<(&'static str, &'static str)>,
    seed: u64,
}

/// The faults of a seed: each place comes once before any comes again. Three fifths are in the whole network, the others
/// after a link was cut.
pub fn faults(seed: u64, count: u32) -> Vec<Fault> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut deck = Vec::new();
    let mut previous = None;
    let fault = |number: u32| {
        let cut = match 5 * number / count.max(1) {
            0..3 => None,
            fifth => CUTS.get(usize::from(fifth > 3)).copied(),
        };
        if deck.is_empty() || cut != previous {
            deck = places(cut);
            deck.shuffle(&mut random);
        }
        previous = cut;
        let place = deck.pop().unwrap_or(Place::Link("A", "B"));
        Fault {
            number: number + 1,
            kind: kind(place, &mut random),
            place,
            cut: cut.map(|(from, to, _)| (from, to)),
            seed: random.random(),
        }
    };
    (0..count).map(fault).collect()
}

fn places(cut: Option<Link<'static>>) -> Vec<Place> {
    let ends = cut.map(|(from, to, _)| [(from, to), (to, from)]);
    let links = TOY.iter().filter(|link| Some(**link) != cut);
    let links = links.map(|&(from, to, _)| Place::Link(from, to));
    let ports = M_ROUTERS.iter().flat_map(|&router| {
        let ports = neighbours(router).into_iter();
        ports.map(move |to| (router, to))
    });
    let ports = ports.filter(|port| !ends.is_some_and(|ends| ends.contains(port)));
    links
        .chain(ports.map(|(router, to)| Place::Port(router, to)))
        .collect()
}

fn kind(place: Place, random: &mut Pcg64Mcg) -> Kind {
    // In a device with more than two ports, it is unknown through which port a lost packet would have left.
    let has_losses = !matches!(place, Place::Port(router, _) if neighbours(router).len() > 2);
    match random.random_range(0..if has_losses { 3 } else { 2 }) {
        0 => Kind::Delay {
            ms: random.random_range(5.0_f64..50.0).round(),
        },
        1 => Kind::Rate {
            percent: random.random_range(40.0_f64..70.0).round(),
            queue_ms: random.random_range(20.0_f64..50.0).round(),
        },
        _ => Kind::Loss {
            percent: random.random_range(2.0_f64..20.0).round(),
        },
    }
}

/// Removes a fault.
pub type Removal<'n> = Box<dyn FnOnce() -> Result<()> + 'n>;

impl Fault {
    /// Injects the fault, with everything prepared beforehand. Returns its removal.
    pub fn insert<'n>(&self, network: &'n Network, folder: &Path) -> Result<Removal<'n>> {
        match (self.kind, self.place) {
            (Kind::Loss { percent }, Place::Port(router, to)) => drops(router, to, percent),
            (Kind::Rate { percent, queue_ms }, Place::Port(router, to)) => {
                let rate_bps = limit(transit_bps(router, to)?, percent)?;
                queue(router, to, rate_bps, queue_ms)
            }
            (Kind::Rate { percent, queue_ms }, Place::Link(from, to)) => {
                let cable = network.link(from, to)?;
                let [back_bps, there_bps] = traffic_bps(cable)?;
                let end = usize::from(there_bps >= back_bps);
                let rate_bps = limit(there_bps.max(back_bps), percent)?;
                cable.limit(end, rate_bps, queue_bytes(rate_bps, queue_ms))?;
                Ok(Box::new(move || cable.unlimit(end)))
            }
            (Kind::Loss { percent }, Place::Link(from, to)) => {
                let rule = format!("loss={}", percent / 100.0);
                self.boxed(rule, network.link(from, to)?, folder)
            }
            (Kind::Delay { ms }, place) => {
                let us = 1e3 * ms;
                let rule = format!("delay_us={us:.0},jitter_us={:.0}", us / 10.0);
                let cable = match place {
                    Place::Link(from, to) => network.link(from, to),
                    Place::Port(router, to) => network.port(router, to),
                };
                self.boxed(rule, cable?, folder)
            }
        }
    }

    fn boxed<'n>(&self, rule: String, cable: &'n Cable, folder: &Path) -> Result<Removal<'n>> {
        // For a port, the direction in which packets leave the router; for a link one direction, the other, or both.
        let to: &[usize] = match (self.place, self.seed % 3) {
            (Place::Link(..), 0) => &[1],
            (Place::Link(..), 1) | (Place::Port(..), _) => &[0],
            _ => &[0, 1],
        };
        let process = start_impair(folder, &["--both".to_owned(), rule], self.seed)?;
        cable.insert(to)?;
        Ok(Box::new(move || {
            cable.remove(to)?;
            // The packets still inside leave.
            wait(Duration::from_millis(200))?;
            process.end()?;
            clear_box(to)
        }))
    }
}

/// Bits per second that leave through both ends of a cable.
fn traffic_bps(cable: &Cable) -> Result<[f64; 2]> {
    let bytes = || Ok::<_, anyhow::Error>([cable.bytes(0)?, cable.bytes(1)?]);
    let before = bytes()?;
    wait(COUNTED)?;
    let after = bytes()?;
    let bps = |end: usize| (after[end] - before[end]) as f64 * 8.0 / COUNTED.as_secs_f64();
    Ok([bps(0), bps(1)])
}

/// Bits a second of the transit traffic that a router forwards to a neighbour.
fn transit_bps(router: &str, to: &str) -> Result<f64> {
    for_transit(router, to, "counter")?;
    wait(COUNTED)?;
    let rules = output(inside(router, "nft").args(["list", "table", "inet", "fault"]))?;
    unhook(router)?;
    let words: Vec<_> = rules.split_whitespace().collect();
    let counts = words.windows(2).filter(|pair| pair[0] == "bytes");
    let bytes: f64 = counts.filter_map(|pair| pair[1].parse::<f64>().ok()).sum();
    Ok(8.0 * bytes / COUNTED.as_secs_f64())
}

fn limit(traffic_bps: f64, percent: f64) -> Result<u64> {
    ensure!(
        traffic_bps > TRAFFIC_MIN_BPS,
        "there is too little traffic for a limit: {traffic_bps:.0} bit/s"
    );
    Ok(whole(traffic_bps * percent / 100.0) as u64)
}

/// Bytes that take this time at a rate; at least two packets.
fn queue_bytes(rate_bps: u64, queue_ms: f64) -> u64 {
    (whole(rate_bps as f64 / 8.0 * queue_ms / 1e3) as u64).max(3_200)
}

/// Drops packets of the transit traffic where the router forwards them.
fn drops(router: &'static str, to: &str, percent: f64) -> Result<Removal<'static>> {
    hook(router)?;
    let random = format!("numgen random mod 1000 < {:.0} drop", 10.0 * percent);
    nft(
        router,
        &format!("add rule inet fault hop oifname {router}{to} {random}"),
    )?;
    Ok(Box::new(move || unhook(router)))
}

/// Puts forwarded packets into a slow queue, which the router's own packets bypass.
fn queue(router: &'static str, to: &str, rate_bps: u64, queue_ms: f64) -> Result<Removal<'static>> {
    let own = format!("{router}{to}");
    let bytes = queue_bytes(rate_bps, queue_ms);
    let tc = move |commands: &[String]| tc_by(&mut inside(router, "sh"), commands);
    tc(&[
        format!("qdisc add dev {own} root handle 1: htb default 2"),
        format!("class add dev {own} parent 1: classid 1:2 htb rate 1gbit quantum 6000"),
        format!("class add dev {own} parent 1: classid 1:10 htb rate {rate_bps}bit burst 1600 cburst 1600 quantum 1600"),
        format!("qdisc add dev {own} parent 1:10 bfifo limit {bytes}"),
    ])
    .context("cannot make a queue")?;
    for_transit(router, to, "meta priority set 1:10")?;
    Ok(Box::new(move || {
        unhook(router)?;
        tc(&[format!("qdisc del dev {own} root")])
    }))
}

/// Adds a rule for the transit traffic to a neighbour.
fn for_transit(router: &str, to: &str, what: &str) -> Result<()> {
    hook(router)?;
    let [first, last] = TRAFFIC_PORTS;
    for ports in ["sport", "dport"] {
        let packets = format!("oifname {router}{to} udp {ports} {first}-{last}");
        nft(router, &format!("add rule inet fault hop {packets} {what}"))?;
    }
    Ok(())
}

fn hook(router: &str) -> Result<()> {
    nft(router, "add table inet fault")?;
    nft(
        router,
        "add chain inet fault hop { type filter hook forward priority 0 ; }",
    )
}

fn unhook(router: &str) -> Result<()> {
    nft(router, "delete table inet fault")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_same_seed_has_the_same_faults() {
        assert_eq!(faults(7, 30), faults(7, 30));
        assert_ne!(faults(7, 30), faults(8, 30));
    }

    #[test]
    fn every_place_comes_before_any_comes_again() {
        for seed in 0..50 {
            let all = faults(seed, 30);
            let (whole, cut): (Vec<&Fault>, Vec<&Fault>) =
                all.iter().partition(|fault| fault.cut.is_none());
            assert_eq!((whole.len(), cut.len()), (18, 12));
            let first: BTreeSet<_> = whole[..13]
                .iter()
                .map(|fault| fault.place.to_string())
                .collect();
            assert_eq!(first.len(), places(None).len());
            for fault in cut {
                let (from, to) = fault.cut.unwrap();
                assert_ne!(fault.place, Place::Link(from, to));
                assert!(![Place::Port(from, to), Place::Port(to, from)].contains(&fault.place));
            }
        }
    }

    #[test]
    fn sizes_are_as_documented() {
        for fault in (0..50).flat_map(|seed| faults(seed, 30)) {
            match fault.kind {
                Kind::Delay { ms } => assert!((5.0..=50.0).contains(&ms)),
                Kind::Loss { percent } => {
                    assert!((2.0..=20.0).contains(&percent));
                    assert!(!matches!(fault.place, Place::Port("F", _)));
                }
                Kind::Rate { percent, queue_ms } => {
                    assert!((40.0..=70.0).contains(&percent));
                    assert!((20.0..=50.0).contains(&queue_ms));
                }
            }
        }
        assert_eq!(queue_bytes(8_000_000, 20.0), 20_000);
        assert_eq!(queue_bytes(8_000, 20.0), 3_200);
    }
}
