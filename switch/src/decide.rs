//! Decides where a frame is forwarded, and its class: a transparent patch panel or a learning bridge, and a
//! classifier.
//!
//! ```text
//!            patch:  the partner of the port
//!  burst --> bridge: VLAN --> learn source --> look up destination --> one port, or all of the VLAN
//!            classes: the first matching rule
//! ```
//!
//! Each worker has a copy of its own. It reports what it learns to the control core, and receives from it
//! what other workers learnt and which ports have a link (`contract::fdb`): a few deltas in each pass.

use std::fmt;

use contract::config::{Config, Device, Forwarding as ForwardingConfig, Vlan};
use contract::counters::DropReason;
use contract::fdb::{FdbDelta, ReplicaEnd, StationKey};
use contract::ids::PortIndex;
use measure::packet::header::{ethernet, ethertype};
use measure::time::{TickRate, Ticks};

use crate::classify::Classifier;
use crate::packet_io::{BURST, ClassIndex};

mod bridge;
pub mod fdb;
mod vlan;

pub use bridge::{Bridge, BridgeLayout};
pub use vlan::Lan;

/// Deltas from the control core processed in one pass.
const DELTAS_PER_TICK: usize = 32;

/// Decisions about a burst, in its order.
pub type Decisions = arrayvec::ArrayVec<Decision, BURST>;

/// Where a frame is forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// To this port.
    Forward(PortIndex),
    /// To all of these ports: at least one, without its ingress port.
    Flood(PortSet),
    /// Nowhere.
    Drop(DropReason),
}

/// A decision with a class in compact form: two words, written and read as a whole. The enum would be
/// stored byte by byte and copied by words, which prevents store forwarding and costs 10 ns a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// Bits 0 to 15: the port; [`Self::FLOOD`]; or [`Self::DROP`] plus the reason. Bits 16 to 23: the
    /// class.
    word: u64,
    /// The ports to flood.
    ports: PortSet,
}

impl Decision {
    const FLOOD: u64 = 1 << 8;
    const DROP: u64 = 1 << 9;
    const WAY: u64 = 0xffff;
    const CLASS_SHIFT: u32 = 16;

    /// A decision about a frame of this class.
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

    /// The decision.
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

/// What to do with a frame's VLAN tag on egress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rewrite {
    /// Nothing.
    None,
    /// Add a tag with this control information.
    Push(u16),
    /// Remove the outer tag.
    Pop,
    /// Give the outer tag, a priority tag or one that must not be removed, this control information.
    Replace(u16),
    /// Drop the frame: without its outer tag, the next one would name its VLAN.
    Drop,
}

/// How frames are forwarded.
#[derive(Debug)]
pub enum Forwarding {
    /// Every frame received on one port of a pair leaves by the other.
    Patch(PatchPanel),
    /// One learning bridge over all ports.
    Bridge(Box<Bridge>),
}

/// The forwarding and the classes of one worker.
#[derive(Debug)]
pub struct Decide {
    forwarding: Forwarding,
    classifier: Classifier,
    /// Ports with a link: all, unless the control core reported otherwise.
    up: PortSet,
    end: Option<ReplicaEnd>,
}

impl Decide {
    /// Forwarding without a connection to a control core: it learns by itself, and all ports have a link.
    pub fn new(forwarding: Forwarding, classifier: Classifier) -> Self {
        Self {
            forwarding,
            classifier,
            up: PortSet::ALL,
            end: None,
        }
    }

    /// A patch panel over `ports` ports with these pairs, in both directions; one class.
    pub fn patch(ports: usize, pairs: &[(PortIndex, PortIndex)]) -> Self {
        let panel = PatchPanel::new(ports, pairs);
        Self::new(Forwarding::Patch(panel), Classifier::trivial())
    }

    /// A learning bridge; one class.
    pub fn bridge(layout: BridgeLayout, rate: TickRate) -> Self {
        let bridge = Bridge::new(layout, rate);
        Self::new(Forwarding::Bridge(Box::new(bridge)), Classifier::trivial())
    }

    /// The forwarding of one worker for a valid configuration, connected to the control core by `end`;
    /// without `end`, that of a later generation, which must [`adopt`](Self::adopt) its predecessor's.
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
                    // A port's frames may reach any of the workers.
                    flood_limit_pps: flood_limit_pps.div_ceil(workers),
                    seed,
                };
                Forwarding::Bridge(Box::new(Bridge::new(layout, rate)))
            }
            // A host's frames are not forwarded by our workers.
            ForwardingConfig::Host => Forwarding::Patch(PatchPanel::new(config.ports.len(), &[])),
        };
        Self {
            end,
            ..Self::new(forwarding, Classifier::from_config(config))
        }
    }

    /// Connects it to the control core.
    pub fn connect(&mut self, end: ReplicaEnd) {
        self.end = Some(end);
    }

    /// Decides about a burst received on `from` at `now`, in its order. If all of the burst leaves
    /// unchanged by one port, returns that port; `decisions` may then be left [empty](Self::complete).
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

    /// Whether LLDP frames may be among those decided about since the last call.
    #[inline]
    pub fn take_lldp(&mut self) -> bool {
        std::mem::take(match &mut self.forwarding {
            Forwarding::Patch(panel) => &mut panel.saw_lldp,
            Forwarding::Bridge(bridge) => &mut bridge.saw_lldp,
        })
    }

    /// Fills in omitted decisions about a burst of this many frames.
    pub fn complete(&self, decisions: &mut Decisions, all_to: Option<PortIndex>, frames: usize) {
        if let Some(to) = all_to
            && decisions.is_empty()
        {
            let decision = Decision::new(Verdict::Forward(to), self.classifier.default_class());
            decisions.extend(std::iter::repeat_n(decision, frames));
        }
    }

    /// Whether all packets have the default class.
    #[inline]
    pub fn has_one_class(&self) -> bool {
        self.classifier.is_trivial()
    }

    /// The class of packets without decisions.
    #[inline]
    pub fn default_class(&self) -> ClassIndex {
        self.classifier.default_class()
    }

    /// Whether a port has a link.
    #[inline]
    pub fn is_up(&self, port: PortIndex) -> bool {
        self.up.contains(port)
    }

    /// Whether frames gain or lose VLAN tags.
    #[inline]
    pub fn retags(&self) -> bool {
        matches!(&self.forwarding, Forwarding::Bridge(bridge) if bridge.lan().has_vlans())
    }

    /// What to do with the VLAN tag of the frame that begins with `head`, was not dropped, and leaves by
    /// `to`.
    #[inline]
    pub fn rewrite(&self, from: PortIndex, to: PortIndex, head: &[u8]) -> Rewrite {
        match &self.forwarding {
            Forwarding::Bridge(bridge) => bridge.lan().rewrite(from, to, head),
            Forwarding::Patch(_) => Rewrite::None,
        }
    }

    /// Called once in each pass: does little, and nothing without news.
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

    /// Applies a change from the control core at `now`.
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

    /// Takes over from the forwarding that it replaces: the connection to the control core, the state of
    /// links, and learnt stations. If a table of another size, or other static stations, prevent that, it
    /// asks the control core for everything.
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

    /// How frames are forwarded.
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
    // Gathered without a branch for each frame.
    let differences = (decisions.iter()).fold(0, |all, other| all | (other.word ^ first.word));
    (differences & Decision::WAY == 0).then_some(to)
}

/// Present ports, with their VLANs.
fn ports(config: &Config) -> impl Iterator<Item = (PortIndex, Option<&Vlan>)> {
    let all = (0..).map(PortIndex).zip(&config.ports);
    let present = all.filter(|(_, port)| port.device != Device::Absent);
    present.map(|(index, port)| (index, port.vlan.as_ref()))
}

// Sets of ports.

/// A set of ports, with a bit for each.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct PortSet(pub u64);

impl PortSet {
    /// No port.
    pub const EMPTY: Self = Self(0);

    /// All possible ports.
    pub const ALL: Self = Self(u64::MAX);

    #[inline]
    fn bit(port: PortIndex) -> u64 {
        1 << (port.0 & 63)
    }

    /// The ports, ascending.
    pub fn ports(self) -> impl Iterator<Item = PortIndex> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let port = u8::try_from(left.trailing_zeros())
                .ok()
                .filter(|_| left != 0)?;
            left &= left - 1;
            Some(PortIndex(port))
        })
    }

    /// Whether it is empty.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether it contains `port`.
    #[inline]
    pub fn contains(self, port: PortIndex) -> bool {
        self.0 & Self::bit(port) != 0
    }

    /// Adds `port`.
    pub fn insert(&mut self, port: PortIndex) {
        self.0 |= Self::bit(port);
    }

    /// The set without `port`.
    #[inline]
    #[must_use]
    pub fn without(self, port: PortIndex) -> Self {
        Self(self.0 & !Self::bit(port))
    }

    /// The intersection with `other`.
    #[inline]
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl FromIterator<PortIndex> for PortSet {
    fn from_iter<I: IntoIterator<Item = PortIndex>>(ports: I) -> Self {
        let mut set = Self::EMPTY;
        ports.into_iter().for_each(|port| set.insert(port));
        set
    }
}

impl fmt::Debug for PortSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.ports().map(|port| port.0))
            .finish()
    }
}

// A transparent patch panel.

/// Every frame received on one port of a pair leaves by the other: LACP, LLDP, STP and 802.1X pass, only
/// MAC control does not.
#[derive(Debug)]
pub struct PatchPanel {
    partner: Vec<Option<PortIndex>>,
    /// Whether LLDP frames were seen.
    saw_lldp: bool,
}

impl PatchPanel {
    /// A panel over `ports` ports with these pairs, in both directions. Pairs with a port out of range are
    /// ignored.
    pub fn new(ports: usize, pairs: &[(PortIndex, PortIndex)]) -> Self {
        let mut partner = vec![None; ports];
        for &(a, b) in pairs {
            for (from, to) in [(a, b), (b, a)] {
                if let Some(slot) = partner.get_mut(from.index()) {
                    *slot = Some(to);
                }
            }
        }
        Self {
            partner,
            saw_lldp: false,
        }
    }

    /// The decision about all frames received on `from`, except those that end at the link.
    #[inline]
    fn way(&self, from: PortIndex, up: PortSet) -> Verdict {
        match self.partner.get(from.index()) {
            Some(&Some(to)) if up.contains(to) => Verdict::Forward(to),
            Some(Some(_)) => Verdict::Drop(DropReason::LinkDown),
            _ => Verdict::Drop(DropReason::NoDestination),
        }
    }

    /// Whether all of these frames pass, and none is LLDP.
    #[inline]
    fn passes_all<'h>(mut heads: impl Iterator<Item = &'h [u8]>) -> bool {
        heads.all(|head| {
            let header = ethernet::Header::of(head);
            header.is_some_and(|header| !is_of_link(header.ethertype()))
        })
    }

    /// The decision about a frame, given that about all.
    #[inline]
    fn decide(&mut self, way: Verdict, head: &[u8]) -> Verdict {
        match ethernet::Header::of(head) {
            None => Verdict::Drop(DropReason::Runt),
            Some(header) if is_of_link(header.ethertype()) => {
                // MAC control frames (IEEE 802.3 annex 31A), PAUSE among them, end at the link.
                if header.ethertype() == ethertype::MAC_CONTROL {
                    return Verdict::Drop(DropReason::Pause);
                }
                self.saw_lldp = true;
                way
            }
            Some(_) => way,
        }
    }
}

/// Whether a frame of this type is MAC control or LLDP. One comparison excludes most types.
#[inline]
fn is_of_link(ethertype: u16) -> bool {
    ethertype >> 8 == ethertype::LLDP >> 8
        && matches!(ethertype, ethertype::MAC_CONTROL | ethertype::LLDP)
}

// MAC addresses (IEEE 802, 8.2), as the bridge compares them.

/// An address as a number: the first octet on the wire is the most significant of 48 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MacAddress(u64);

impl MacAddress {
    /// Destination and source of a frame, each in the upper six octets of one load of eight.
    #[inline]
    fn both(header: &[u8; ethernet::BYTES]) -> (Self, Self) {
        let address = |octets: Option<&[u8; 8]>| {
            Self(octets.map_or(0, |octets| u64::from_be_bytes(*octets) >> 16))
        };
        (address(header.first_chunk()), address(header.last_chunk()))
    }

    /// A group (multicast or broadcast) address: the low bit of the first octet is set.
    #[inline]
    pub fn is_group(self) -> bool {
        self.0 & (1 << 40) != 0
    }

    /// A unicast address other than zero.
    #[inline]
    pub fn is_station(self) -> bool {
        self.0 != 0 && !self.is_group()
    }

    /// 01:80:C2:00:00:00 to 0F, which bridges do not forward (IEEE 802.1Q table 8-1).
    #[inline]
    pub fn is_link_local(self) -> bool {
        self.0 >> 4 == 0x0180_c200_0000 >> 4
    }

    /// The station with this address in a VLAN.
    #[inline]
    pub fn in_vlan(self, vlan: u16) -> StationKey {
        StationKey::new(vlan, self.0)
    }
}

// The storm limit: how many frames of a port may be flooded.

/// Units in a frame: counts are in 2^-32 of a frame.
const FRAME: u64 = 1 << 32;

/// Least number of frames that may be flooded at once after a quiet time, so that a burst of broadcasts
/// passes.
const BURST_FRAMES_MIN: u64 = 64;

/// Frames that may be flooded at once, as a share of those in a second: a hundredth.
const BURST_SHARE: u64 = 100;

/// A token bucket.
#[derive(Debug, Clone, Copy)]
pub struct StormLimit {
    /// In units of [`FRAME`].
    level: u64,
    level_max: u64,
    per_tick: u64,
    filled_at: Ticks,
}

impl StormLimit {
    /// Limits to `frames_per_s` a second, and to 64 or a hundredth of that, whichever is greater, at once.
    pub fn new(frames_per_s: u32, rate: TickRate) -> Self {
        let burst = (u64::from(frames_per_s) / BURST_SHARE).max(BURST_FRAMES_MIN);
        Self {
            level: burst * FRAME,
            level_max: burst * FRAME,
            per_tick: ((u64::from(frames_per_s) << 32) / rate.hz()).max(1),
            filled_at: Ticks(0),
        }
    }

    /// Whether another frame may be flooded at `now`.
    #[inline]
    pub fn takes(&mut self, now: Ticks) -> bool {
        let ticks = now.saturating_since(self.filled_at);
        self.filled_at = now;
        let gain = ticks.saturating_mul(self.per_tick);
        self.level = self.level.saturating_add(gain).min(self.level_max);
        let is_free = self.level >= FRAME;
        if is_free {
            self.level -= FRAME;
        }
        is_free
    }

    /// Takes over the state of `old`.
    pub fn adopt(&mut self, old: &Self) {
        self.level = old.level.min(self.level_max);
        self.filled_at = old.filled_at;
    }
}

#[cfg(test)]
mod tests;
