//! Where a frame goes: a transparent patch panel, or a learning bridge.

use control::counters::DropReason;

use crate::packet_io::{BURST, PortIndex, Tag};
use fdb::{Fdb, MacAddress};

pub mod fdb;

/// Length of an Ethernet header without tags, in bytes (IEEE 802.3 clause 3.1.1).
pub const ETHERNET_HEADER_BYTES: usize = 14;

/// MAC control frames (IEEE 802.3 annex 31A), PAUSE among them: they end at the link.
const ETHERTYPE_MAC_CONTROL: [u8; 2] = [0x88, 0x08];

/// Verdicts on a burst, in its order.
pub type Decisions = arrayvec::ArrayVec<Verdict, BURST>;

/// What is to become of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It leaves by this port.
    Forward(PortIndex),
    /// It leaves by all of these ports.
    Flood(PortSet),
    /// It goes no further.
    Drop(DropReason),
}

/// A set of ports, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortSet(pub u64);

impl PortSet {
    /// The ports, ascending.
    pub fn ports(self) -> impl Iterator<Item = PortIndex> {
        (0..64)
            .filter(move |bit| self.0 >> bit & 1 != 0)
            .map(PortIndex)
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
}

/// The forwarding of one worker.
#[derive(Debug)]
pub enum Decide {
    /// All that enters one port of a pair leaves by the other.
    Patch(PatchPanel),
    /// One learning bridge over all ports.
    Bridge(Bridge),
}

impl Decide {
    /// The verdict on the frame that begins with `head` and came in by `from` at `now` (ticks).
    #[inline]
    pub fn decide(&mut self, from: PortIndex, head: &[u8], now: u64) -> Verdict {
        let Some(header) = head.first_chunk::<ETHERNET_HEADER_BYTES>() else {
            return Verdict::Drop(DropReason::Runt);
        };
        match self {
            Self::Patch(panel) => panel.decide(from, header),
            Self::Bridge(bridge) => bridge.decide(from, header, now),
        }
    }

    /// Verdicts on a burst that came in by `from`; if all of it leaves by one port, as it is: that
    /// port.
    #[inline]
    pub fn decide_burst<'h>(
        &mut self,
        from: PortIndex,
        heads: impl Iterator<Item = &'h [u8]>,
        _tags: &mut [Tag],
        now: u64,
        decisions: &mut Decisions,
    ) -> Option<PortIndex> {
        decisions.extend(heads.map(|head| self.decide(from, head, now)));
        let first = *decisions.first()?;
        match first {
            Verdict::Forward(to) if decisions.iter().all(|&other| other == first) => Some(to),
            _ => None,
        }
    }

    /// Whether frames gain or lose VLAN tags on their way.
    #[inline]
    pub fn retags(&self) -> bool {
        false
    }

    /// What becomes of the VLAN tag of a frame between two ports.
    pub fn rewrite(&self, _from: PortIndex, _to: PortIndex, _head: &[u8]) -> Rewrite {
        Rewrite::None
    }

    /// Takes over what the forwarding that it replaces has learnt.
    pub fn adopt(&mut self, old: &mut Self) {
        if let (Self::Bridge(new), Self::Bridge(old)) = (self, old) {
            std::mem::swap(&mut new.fdb, &mut old.fdb);
        }
    }

    /// What is to be done once a pass.
    #[inline]
    pub fn tick(&mut self, _now: u64) {}
}

/// A patch panel is transparent: LACP, LLDP, STP and 802.1X pass, only MAC control does not.
#[derive(Debug)]
pub struct PatchPanel {
    partner: Vec<Option<PortIndex>>,
}

impl PatchPanel {
    /// A panel over `ports` ports in which each pair is joined both ways. Pairs that name a port
    /// out of range are ignored.
    pub fn new(ports: usize, pairs: &[(PortIndex, PortIndex)]) -> Self {
        let mut partner = vec![None; ports];
        for &(a, b) in pairs {
            for (from, to) in [(a, b), (b, a)] {
                if let Some(slot) = partner.get_mut(usize::from(from.0)) {
                    *slot = Some(to);
                }
            }
        }
        Self { partner }
    }

    #[inline]
    fn decide(&self, from: PortIndex, header: &[u8; ETHERNET_HEADER_BYTES]) -> Verdict {
        if header[12..14] == ETHERTYPE_MAC_CONTROL {
            return Verdict::Drop(DropReason::Pause);
        }
        match self.partner.get(usize::from(from.0)) {
            Some(&Some(to)) => Verdict::Forward(to),
            _ => Verdict::Drop(DropReason::NoDestination),
        }
    }
}

/// A learning bridge (IEEE 802.1D clause 7) with no hairpin.
#[derive(Debug)]
pub struct Bridge {
    fdb: Fdb,
    ports: usize,
}

impl Bridge {
    /// A bridge over `ports` ports that remembers addresses in `fdb`.
    pub fn new(ports: usize, fdb: Fdb) -> Self {
        Self { fdb, ports }
    }

    #[inline]
    fn decide(
        &mut self,
        from: PortIndex,
        header: &[u8; ETHERNET_HEADER_BYTES],
        now: u64,
    ) -> Verdict {
        let destination = MacAddress::at(header, 0);
        let source = MacAddress::at(header, 6);
        if destination.is_link_local() {
            return Verdict::Drop(DropReason::LinkLocal);
        }
        if !source.is_station() {
            return Verdict::Drop(DropReason::BadSource);
        }
        self.fdb.learn(source, from, now);
        let known = if destination.is_group() {
            None
        } else {
            self.fdb.look_up(destination, now)
        };
        match known {
            Some(to) if to == from => Verdict::Drop(DropReason::Hairpin),
            Some(to) => Verdict::Forward(to),
            None if self.ports < 2 => Verdict::Drop(DropReason::NoDestination),
            None => Verdict::Flood(PortSet(
                (u64::MAX >> (64 - self.ports.min(64))) & !(1 << from.0),
            )),
        }
    }

    /// The addresses it remembers.
    pub fn fdb(&self) -> &Fdb {
        &self.fdb
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::time::TickRate;
    use std::time::Duration;

    const EAST: PortIndex = PortIndex(0);
    const WEST: PortIndex = PortIndex(1);
    const NORTH: PortIndex = PortIndex(2);

    fn frame(destination: [u8; 6], source: [u8; 6], ethertype: u16) -> Vec<u8> {
        [
            &destination[..],
            &source,
            &ethertype.to_be_bytes(),
            &[0; 46],
        ]
        .concat()
    }

    fn bridge() -> Decide {
        let fdb = Fdb::new(
            1024,
            Duration::from_mins(5),
            TickRate::from_hz(1_000_000_000),
            7,
        );
        Decide::Bridge(Bridge::new(3, fdb))
    }

    #[test]
    fn a_patch_panel_passes_everything_but_mac_control() {
        let mut panel = Decide::Patch(PatchPanel::new(3, &[(EAST, WEST)]));
        let lldp = frame([0x01, 0x80, 0xc2, 0, 0, 0x0e], [2, 0, 0, 0, 0, 1], 0x88cc);
        assert_eq!(panel.decide(EAST, &lldp, 0), Verdict::Forward(WEST));
        assert_eq!(panel.decide(WEST, &lldp, 0), Verdict::Forward(EAST));
        assert_eq!(
            panel.decide(NORTH, &lldp, 0),
            Verdict::Drop(DropReason::NoDestination)
        );
        let pause = frame([0x01, 0x80, 0xc2, 0, 0, 1], [2, 0, 0, 0, 0, 1], 0x8808);
        assert_eq!(
            panel.decide(EAST, &pause, 0),
            Verdict::Drop(DropReason::Pause)
        );
        assert_eq!(
            panel.decide(EAST, &pause[..13], 0),
            Verdict::Drop(DropReason::Runt)
        );
    }

    #[test]
    fn a_bridge_floods_learns_forwards_and_never_hairpins() {
        let (a, b, c) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 3]);
        let mut bridge = bridge();
        assert_eq!(
            bridge.decide(EAST, &frame(b, a, 0x0800), 0),
            Verdict::Flood(PortSet(0b110))
        );
        assert_eq!(
            bridge.decide(WEST, &frame(a, b, 0x0800), 1),
            Verdict::Forward(EAST)
        );
        assert_eq!(
            bridge.decide(EAST, &frame(b, a, 0x0800), 2),
            Verdict::Forward(WEST)
        );
        assert_eq!(
            bridge.decide(EAST, &frame(a, c, 0x0800), 3),
            Verdict::Drop(DropReason::Hairpin)
        );
        // The station moved: the newest sight counts.
        assert_eq!(
            bridge.decide(NORTH, &frame([0xff; 6], a, 0x0806), 4),
            Verdict::Flood(PortSet(0b011))
        );
        assert_eq!(
            bridge.decide(WEST, &frame(a, b, 0x0800), 5),
            Verdict::Forward(NORTH)
        );
    }

    #[test]
    fn a_bridge_drops_what_no_bridge_forwards() {
        let station = [2, 0, 0, 0, 0, 1];
        for last in 0..16 {
            let reserved = frame([0x01, 0x80, 0xc2, 0, 0, last], station, 0x88cc);
            assert_eq!(
                bridge().decide(EAST, &reserved, 0),
                Verdict::Drop(DropReason::LinkLocal)
            );
        }
        let beyond = frame([0x01, 0x80, 0xc2, 0, 0, 0x10], station, 0x0800);
        assert_eq!(
            bridge().decide(EAST, &beyond, 0),
            Verdict::Flood(PortSet(0b110))
        );
        for source in [[0xff; 6], [0; 6], [1, 0, 0, 0, 0, 0]] {
            let frame = frame(station, source, 0x0800);
            assert_eq!(
                bridge().decide(EAST, &frame, 0),
                Verdict::Drop(DropReason::BadSource)
            );
        }
    }
}
