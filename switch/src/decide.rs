//! Where a frame goes, and which class it has: a transparent patch panel or a learning bridge,
//! and a classifier.
//!
//! ```text
//!            patch:  the partner of the port
//!  burst --> bridge: VLAN --> learn source --> look up destination --> one port, or all of the VLAN
//!            classes: the first rule that matches
//! ```
//!
//! Each worker has a copy of its own. What it learns it tells the control core, and hears from it
//! what the others learnt and which ports have a link (`contract::fdb`): a few deltas a pass.

use contract::config::{Config, Device, Forwarding as ForwardingConfig, Vlan};
use contract::counters::DropReason;
use contract::fdb::{FdbDelta, ReplicaEnd, StationKey};
use contract::ids::PortIndex;
use measure::time::{TickRate, Ticks};

use crate::classify::Classifier;
use crate::packet_io::{BURST, ClassIndex};

pub use bridge::{Bridge, BridgeLayout};
pub use patch::PatchPanel;
pub use ports::PortSet;
pub use vlan::Lan;

mod bridge;
pub mod fdb;
mod mac;
mod patch;
mod ports;
mod storm;
mod vlan;

/// Deltas from the control core that one pass takes.
const DELTAS_PER_TICK: usize = 32;

/// Verdicts on a burst, in its order.
pub type Decisions = arrayvec::ArrayVec<Decision, BURST>;

/// What is to become of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It leaves by this port.
    Forward(PortIndex),
    /// It leaves by all of these ports: one or more, without the one that it came in by.
    Flood(PortSet),
    /// It goes no further.
    Drop(DropReason),
}

/// A verdict and a class as they are kept in a list: two words, written and read whole. The enum is
/// stored byte by byte and copied by words, which no processor forwards from store to load: 10 ns a
/// frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// Bits 0 to 15 the port; [`Self::FLOOD`]; or [`Self::DROP`] and more: the reason. Bits 16 to 23
    /// the class.
    word: u64,
    /// Where a flood goes.
    ports: PortSet,
}

impl Decision {
    const FLOOD: u64 = 1 << 8;
    const DROP: u64 = 1 << 9;
    const WAY: u64 = 0xffff;
    const CLASS_SHIFT: u32 = 16;

    /// A verdict on a frame of this class.
    #[inline]
    pub fn new(verdict: Verdict, ClassIndex(class): ClassIndex) -> Self {
        let (way, ports) = match verdict {
            Verdict::Forward(PortIndex(port)) => (u64::from(port), PortSet::EMPTY),
            Verdict::Flood(ports) => (Self::FLOOD, ports),
            Verdict::Drop(reason) => (Self::DROP + reason as u64, PortSet::EMPTY),
        };
        let word = way | u64::from(class) << Self::CLASS_SHIFT;
        Self { word, ports }
    }

    /// The class of the frame.
    #[inline]
    pub fn class(self) -> ClassIndex {
        #[expect(clippy::cast_possible_truncation, reason = "8 bits are meant")]
        ClassIndex((self.word >> Self::CLASS_SHIFT) as u8)
    }

    /// The verdict.
    #[inline]
    pub fn verdict(self) -> Verdict {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a port's number, under 2^8"
        )]
        match self.word & Self::WAY {
            port @ ..Self::FLOOD => Verdict::Forward(PortIndex(port as u8)),
            Self::FLOOD => Verdict::Flood(self.ports),
            drop => {
                let reason = DropReason::ALL.get((drop - Self::DROP) as usize);
                Verdict::Drop(reason.copied().unwrap_or(DropReason::NoDestination))
            }
        }
    }
}

/// What becomes of a frame's VLAN tag as it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rewrite {
    /// Nothing.
    None,
    /// It gets a tag with this control information.
    Push(u16),
    /// It loses its outer tag.
    Pop,
    /// Its outer tag, a priority tag or one that must not be popped, gets this control information.
    Replace(u16),
    /// It must not leave: without its outer tag, the next one would name its VLAN.
    Drop,
}

/// How frames find their way.
#[derive(Debug)]
pub enum Forwarding {
    /// All that enters one port of a pair leaves by the other.
    Patch(PatchPanel),
    /// One learning bridge over all ports.
    Bridge(Box<Bridge>),
}

/// The forwarding and the classes of one worker.
#[derive(Debug)]
pub struct Decide {
    forwarding: Forwarding,
    classifier: Classifier,
    /// Ports with a link, as far as the control core said otherwise: all.
    up: PortSet,
    end: Option<ReplicaEnd>,
}

impl Decide {
    /// Forwarding with no link to a control core: it learns for itself alone, and all ports have a
    /// link.
    pub fn new(forwarding: Forwarding, classifier: Classifier) -> Self {
        Self {
            forwarding,
            classifier,
            up: PortSet::ALL,
            end: None,
        }
    }

    /// A patch panel over `ports` ports in which each pair is joined both ways; one class.
    pub fn patch(ports: usize, pairs: &[(PortIndex, PortIndex)]) -> Self {
        let panel = PatchPanel::new(ports, pairs);
        Self::new(Forwarding::Patch(panel), Classifier::trivial())
    }

    /// A learning bridge; one class.
    pub fn bridge(layout: BridgeLayout, rate: TickRate) -> Self {
        let bridge = Bridge::new(layout, rate);
        Self::new(Forwarding::Bridge(Box::new(bridge)), Classifier::trivial())
    }

    /// That of one worker by a valid configuration, joined to the control core by `end`; without
    /// one, that of a later generation, which is to [`adopt`](Self::adopt) its predecessor's.
    /// `seed` keys the buckets of stations.
    pub fn from_config(
        config: &Config,
        rate: TickRate,
        seed: u64,
        end: Option<ReplicaEnd>,
    ) -> Self {
        let index = |name: &str| config.port_index(name).map(PortIndex::new);
        let forwarding = match &config.forwarding {
            ForwardingConfig::Patch { pairs, .. } => {
                let ends = |(a, b): &(String, String)| index(a).zip(index(b));
                let pairs: Vec<_> = pairs.iter().filter_map(ends).collect();
                Forwarding::Patch(PatchPanel::new(config.ports.len(), &pairs))
            }
            ForwardingConfig::Bridge {
                ageing_s,
                fdb_entries,
                stations,
                flood_limit_pps,
            } => {
                let workers = u32::try_from(config.workers.len())
                    .unwrap_or(u32::MAX)
                    .max(1);
                let fixed = |station: &contract::config::Station| {
                    Some((
                        StationKey::of(station.vlan, station.address),
                        index(&station.port)?,
                    ))
                };
                let layout = BridgeLayout {
                    lan: Lan::of(ports(config)),
                    stations_max: *fdb_entries as usize,
                    ageing: std::time::Duration::from_secs(u64::from(*ageing_s)),
                    statics: stations.iter().filter_map(fixed).collect(),
                    limits: config.station_limits(),
                    // A port's frames may come to any of them.
                    flood_limit_pps: flood_limit_pps.div_ceil(workers),
                    seed,
                };
                Forwarding::Bridge(Box::new(Bridge::new(layout, rate)))
            }
            // No worker of ours forwards for a host.
            ForwardingConfig::Host => Forwarding::Patch(PatchPanel::new(config.ports.len(), &[])),
        };
        Self {
            end,
            ..Self::new(forwarding, Classifier::from_config(config))
        }
    }

    /// Joins it to the control core.
    pub fn connect(&mut self, end: ReplicaEnd) {
        self.end = Some(end);
    }

    /// Verdicts on a burst that came in by `from` at `now`, and classes, in its order. If all
    /// of the burst leaves by one port, as it is: that port; `decisions` may then be left
    /// [out](Self::complete).
    #[inline]
    pub fn decide_burst<'h>(
        &mut self,
        from: PortIndex,
        heads: impl Iterator<Item = &'h [u8]> + Clone,
        now: Ticks,
        decisions: &mut Decisions,
    ) -> Option<PortIndex> {
        let Self {
            forwarding,
            classifier,
            up,
            end,
        } = self;
        let class = |head| classifier.classify(from, head);
        match forwarding {
            Forwarding::Patch(panel) => {
                let way = panel.way(from, *up);
                if let Verdict::Forward(to) = way
                    && classifier.is_trivial()
                    && PatchPanel::passes_all(heads.clone())
                {
                    return Some(to);
                }
                let decide = |head| Decision::new(panel.decide(way, head), class(head));
                decisions.extend(heads.map(decide));
            }
            Forwarding::Bridge(bridge) if bridge.lan().has_vlans() => {
                let ingress = bridge.ingress(from, *up, now);
                let verdict = |head| bridge.decide::<true>(&ingress, head, end);
                let verdicts = heads.clone().map(verdict);
                let both = verdicts.zip(heads.clone());
                decisions.extend(both.map(|(verdict, head)| Decision::new(verdict, class(head))));
                let rewrites = |to| heads.map(move |head| bridge.lan().rewrite(from, to, head));
                return one_port(decisions)
                    .filter(|&to| rewrites(to).all(|rewrite| rewrite == Rewrite::None));
            }
            Forwarding::Bridge(bridge) => {
                let ingress = bridge.ingress(from, *up, now);
                if classifier.is_trivial()
                    && let Some(to) = bridge.one_way(&ingress, heads.clone())
                {
                    return Some(to);
                }
                let mut verdict = |head| bridge.decide_plain(&ingress, head, end);
                let decide = |head| Decision::new(verdict(head), class(head));
                decisions.extend(heads.map(decide));
            }
        }
        one_port(decisions)
    }

    /// Whether frames that were decided about since this was asked may be of LLDP.
    #[inline]
    pub fn take_lldp(&mut self) -> bool {
        std::mem::take(match &mut self.forwarding {
            Forwarding::Patch(panel) => &mut panel.saw_lldp,
            Forwarding::Bridge(bridge) => &mut bridge.saw_lldp,
        })
    }

    /// Puts in the decisions that were left out about a burst of so many frames.
    pub fn complete(&self, decisions: &mut Decisions, all_to: Option<PortIndex>, frames: usize) {
        if let Some(to) = all_to
            && decisions.is_empty()
        {
            let decision = Decision::new(Verdict::Forward(to), self.classifier.default_class());
            decisions.extend(std::iter::repeat_n(decision, frames));
        }
    }

    /// Whether all packets are of the default class.
    #[inline]
    pub fn has_one_class(&self) -> bool {
        self.classifier.is_trivial()
    }

    /// The class of packets about which decisions were left out.
    #[inline]
    pub fn default_class(&self) -> ClassIndex {
        self.classifier.default_class()
    }

    /// Whether a port has its link.
    #[inline]
    pub fn is_up(&self, port: PortIndex) -> bool {
        self.up.contains(port)
    }

    /// Whether frames gain or lose VLAN tags on their way.
    #[inline]
    pub fn retags(&self) -> bool {
        matches!(&self.forwarding, Forwarding::Bridge(bridge) if bridge.lan().has_vlans())
    }

    /// What becomes of the VLAN tag of the frame that begins with `head`, was not dropped, and
    /// leaves by `to`.
    #[inline]
    pub fn rewrite(&self, from: PortIndex, to: PortIndex, head: &[u8]) -> Rewrite {
        match &self.forwarding {
            Forwarding::Bridge(bridge) => bridge.lan().rewrite(from, to, head),
            Forwarding::Patch(_) => Rewrite::None,
        }
    }

    /// What is to be done once a pass: little, and nothing where there is no news.
    #[inline]
    pub fn tick(&mut self, now: Ticks) {
        if self.end.as_ref().is_some_and(ReplicaEnd::has_news) {
            self.take_deltas(now);
        }
        if let Forwarding::Bridge(bridge) = &mut self.forwarding {
            bridge.fdb_mut().tick(now);
        }
    }

    #[cold]
    fn take_deltas(&mut self, now: Ticks) {
        for _ in 0..DELTAS_PER_TICK {
            let Some(delta) = self.end.as_mut().and_then(ReplicaEnd::next_delta) else {
                return;
            };
            self.apply(delta, now);
        }
    }

    /// Does as the control core says at `now`.
    pub fn apply(&mut self, delta: FdbDelta, now: Ticks) {
        match delta {
            FdbDelta::Link { port, is_up: true } => self.up.insert(port),
            FdbDelta::Link { port, is_up: false } => self.up = self.up.without(port),
            FdbDelta::Restart => self.up = PortSet::ALL,
            _ => {}
        }
        if let Forwarding::Bridge(bridge) = &mut self.forwarding {
            bridge.apply(delta, now);
        }
    }

    /// Takes over from the forwarding that it replaces: the link to the control core, which ports
    /// have a link, and what was learnt. Where a table of another size, or other static stations,
    /// forbid that, it asks the control core for everything.
    pub fn adopt(&mut self, old: &mut Self) {
        self.up = old.up;
        if self.end.is_none() {
            self.end = old.end.take();
        }
        let is_taken_over = match (&mut self.forwarding, &mut old.forwarding) {
            (Forwarding::Bridge(new), Forwarding::Bridge(old)) => new.adopt(old),
            (Forwarding::Bridge(_), Forwarding::Patch(_)) => false,
            (Forwarding::Patch(_), _) => true,
        };
        if let (false, Some(end)) = (is_taken_over, &self.end) {
            end.ask_for_all();
        }
    }

    /// How frames find their way.
    pub fn forwarding(&self) -> &Forwarding {
        &self.forwarding
    }
}

/// The port by which all of a burst leaves.
#[inline]
fn one_port(decisions: &[Decision]) -> Option<PortIndex> {
    let &first = decisions.first()?;
    let Verdict::Forward(to) = first.verdict() else {
        return None;
    };
    // Gathered, not looked for: without a branch a frame.
    let differences = (decisions.iter()).fold(0, |all, other| all | (other.word ^ first.word));
    (differences & Decision::WAY == 0).then_some(to)
}

/// Ports that are there, with their VLANs.
fn ports(config: &Config) -> impl Iterator<Item = (PortIndex, Option<&Vlan>)> {
    let all = (0..).map(PortIndex).zip(&config.ports);
    let present = all.filter(|(_, port)| port.device != Device::Absent);
    present.map(|(index, port)| (index, port.vlan.as_ref()))
}

#[cfg(test)]
mod tests;
