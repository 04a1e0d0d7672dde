//! A VLAN-aware learning bridge (IEEE 802.1Q clause 8) without hairpin forwarding.

use std::time::Duration;

use contract::counters::DropReason;
use contract::fdb::{FdbDelta, Limits, ReplicaEnd, StationKey};
use contract::ids::PortIndex;
use measure::packet::header::ethernet;
use measure::time::{TickRate, Ticks};

use super::MacAddress;
use super::StormLimit;
use super::fdb::{Fdb, Fresh};
use super::vlan::Lan;
use super::{PortSet, Verdict};

/// Most ports.
const PORTS: usize = contract::config::PORTS_MAX;

/// Layout of a bridge.
#[derive(Debug)]
pub struct BridgeLayout {
    /// Its ports and their VLANs.
    pub lan: Lan,
    /// Most learnt stations.
    pub stations_max: usize,
    /// Time without a frame after which a station is forgotten.
    pub ageing: Duration,
    /// Stations that never age and never move.
    pub statics: Vec<(StationKey, PortIndex)>,
    /// Most stations learnt at each port.
    pub limits: Limits,
    /// Most frames of one ingress port that this worker floods in a second.
    pub flood_limit_pps: u32,
    /// Keys the buckets of stations, so that no sender can aim at one.
    pub seed: u64,
}

impl BridgeLayout {
    /// `ports` ports without VLANs, with the default limits.
    pub fn plain(ports: u8) -> Self {
        Self {
            lan: Lan::of_plain(ports),
            stations_max: 65_536,
            ageing: Duration::from_mins(5),
            statics: Vec::new(),
            limits: [u32::MAX; PORTS],
            flood_limit_pps: 100_000,
            seed: 0x9e37_79b9_7f4a_7c15,
        }
    }
}

/// The bridge of one worker.
#[derive(Debug)]
pub struct Bridge {
    lan: Lan,
    fdb: Fdb,
    storms: [StormLimit; PORTS],
    statics: Vec<(StationKey, PortIndex)>,
    /// Whether link-local frames were seen, which may be LLDP.
    pub(super) saw_lldp: bool,
}

impl Bridge {
    /// A bridge that only knows static stations.
    pub fn new(layout: BridgeLayout, rate: TickRate) -> Self {
        let mut fdb = Fdb::new(layout.stations_max, layout.ageing, rate, layout.seed)
            .with_limits(layout.limits);
        for &(station, port) in &layout.statics {
            fdb.insert_static(station, port);
        }
        Self {
            lan: layout.lan,
            fdb,
            storms: [StormLimit::new(layout.flood_limit_pps, rate); PORTS],
            statics: layout.statics,
            saw_lldp: false,
        }
    }

    /// The port by which all frames of a burst leave, if no port has VLANs and nothing is learnt from any
    /// frame, because their stations are known and were seen recently. `None` decides nothing.
    #[inline]
    pub(super) fn one_way<'h>(
        &self,
        from: &Ingress,
        mut heads: impl Iterator<Item = &'h [u8]>,
    ) -> Option<PortIndex> {
        let to = self.known_way(from, heads.next()?)?;
        let there = self.fdb.fresh(to, from.now);
        let goes_there = |head: &[u8]| {
            head.first_chunk().is_some_and(|header| {
                let (destination, source) = MacAddress::both(header);
                self.fdb.is_seen(source.in_vlan(0), from.fresh)
                    && self.fdb.is_behind(destination.in_vlan(0), there)
            })
        };
        heads.all(goes_there).then_some(to)
    }

    /// The decision about a frame if no port has VLANs.
    #[inline]
    pub(super) fn decide_plain(
        &mut self,
        from: &Ingress,
        head: &[u8],
        end: &mut Option<ReplicaEnd>,
    ) -> Verdict {
        match self.known_way(from, head) {
            Some(to) => Verdict::Forward(to),
            None => self.decide_unusual(from, head, end),
        }
    }

    /// Where [`decide`](Self::decide) forwards a frame from which nothing is learnt.
    #[expect(clippy::inline_always, reason = "once a packet, from two loops")]
    #[inline(always)]
    fn known_way(&self, from: &Ingress, head: &[u8]) -> Option<PortIndex> {
        let (destination, source) = MacAddress::both(head.first_chunk()?);
        if !self.fdb.is_seen(source.in_vlan(0), from.fresh) {
            return None;
        }
        let to = self.fdb.look_up(destination.in_vlan(0), from.fresh)?;
        from.open.contains(to).then_some(to)
    }

    #[cold]
    fn decide_unusual(
        &mut self,
        from: &Ingress,
        head: &[u8],
        end: &mut Option<ReplicaEnd>,
    ) -> Verdict {
        self.decide::<false>(from, head, end)
    }

    /// The decision about a frame; `VLANS`: whether any port has VLANs, determined once for each burst.
    #[inline]
    pub(super) fn decide<const VLANS: bool>(
        &mut self,
        from: &Ingress,
        head: &[u8],
        end: &mut Option<ReplicaEnd>,
    ) -> Verdict {
        let Some(header) = head.first_chunk::<{ ethernet::BYTES }>() else {
            return Verdict::Drop(DropReason::Runt);
        };
        let (destination, source) = MacAddress::both(header);
        let is_group = destination.is_group();
        if is_group && destination.is_link_local() {
            self.saw_lldp = true;
            return Verdict::Drop(DropReason::LinkLocal);
        }
        if !source.is_station() {
            return Verdict::Drop(DropReason::BadSource);
        }
        let (vlan, members) = if VLANS {
            match self.lan.admit(from.port, head) {
                Ok(admitted) => admitted,
                Err(reason) => return Verdict::Drop(reason),
            }
        } else {
            (0, from.plain)
        };
        if from.learns {
            self.fdb.learn(source.in_vlan(vlan), from.fresh, end);
        }
        if !is_group && let Some(to) = self.fdb.look_up(destination.in_vlan(vlan), from.fresh) {
            return from.forward(to, members);
        }
        self.flood(from, members)
    }

    #[cold]
    fn flood(&mut self, from: &Ingress, members: PortSet) -> Verdict {
        let others = members.without(from.port);
        let to = others.and(from.up);
        if to.is_empty() {
            let is_alone = others.is_empty();
            return Verdict::Drop(if is_alone {
                DropReason::NoDestination
            } else {
                DropReason::LinkDown
            });
        }
        if self.storms[from.port.index() % PORTS].takes(from.now) {
            Verdict::Flood(to)
        } else {
            Verdict::Drop(DropReason::Storm)
        }
    }

    /// The state for frames received on `port` at `now`, while the ports in `up` have a link.
    #[inline]
    pub(super) fn ingress(&self, port: PortIndex, up: PortSet, now: Ticks) -> Ingress {
        Ingress {
            port,
            up,
            now,
            plain: self.lan.plain(),
            open: self.lan.plain().and(up).without(port),
            learns: up.contains(port),
            fresh: self.fdb.fresh(port, now),
        }
    }

    /// Applies a change from the control core at `now`.
    pub(super) fn apply(&mut self, delta: FdbDelta, now: Ticks) {
        match delta {
            FdbDelta::Learn { station, port } => self.fdb.insert_learnt(station, port, now),
            FdbDelta::Forget(station) => self.fdb.forget(station),
            FdbDelta::Flush(port) | FdbDelta::Link { port, is_up: false } => {
                self.fdb.flush(port);
            }
            FdbDelta::Restart => self.fdb.flush_all(),
            FdbDelta::Link { is_up: true, .. } => {}
        }
    }

    /// Takes over the stations of `old`; returns false if tables differ in size, limits or static stations.
    pub(super) fn adopt(&mut self, old: &mut Self) -> bool {
        for (new, old) in self.storms.iter_mut().zip(&old.storms) {
            new.adopt(old);
        }
        self.statics == old.statics && self.fdb.adopt(&mut old.fdb)
    }

    /// Ports and VLANs.
    pub(super) fn lan(&self) -> &Lan {
        &self.lan
    }

    /// The stations it remembers.
    pub fn fdb(&self) -> &Fdb {
        &self.fdb
    }

    pub(super) fn fdb_mut(&mut self) -> &mut Fdb {
        &mut self.fdb
    }
}

/// Values shared by the frames of a burst.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ingress {
    port: PortIndex,
    up: PortSet,
    now: Ticks,
    /// Members of the LAN of ports without VLANs.
    plain: PortSet,
    /// Those of them that frames can leave by.
    open: PortSet,
    /// Whether stations are learnt; not from queued frames of a port that has lost its link.
    learns: bool,
    fresh: Fresh,
}

impl Ingress {
    #[inline]
    fn forward(&self, to: PortIndex, members: PortSet) -> Verdict {
        if members.and(self.up).contains(to) && to != self.port {
            return Verdict::Forward(to);
        }
        self.drop(to, members)
    }

    #[cold]
    fn drop(&self, to: PortIndex, members: PortSet) -> Verdict {
        Verdict::Drop(if to == self.port {
            DropReason::Hairpin
        } else if !members.contains(to) {
            DropReason::Vlan
        } else {
            DropReason::LinkDown
        })
    }
}
