//! VLANs of the bridge's ports (IEEE 802.1Q): the VLAN of a frame, its members, and what to do with the
//! tag.

use contract::config;
use contract::counters::DropReason;
use contract::ids::PortIndex;
use measure::packet::header::vlan::{self, Control, OUTER_AT};
use measure::packet::header::{ethernet, ethertype};

use super::{PortSet, Rewrite};

/// VLAN ids, including one for the LAN of ports without VLANs.
const VLANS: usize = 4096;

/// Most ports.
const PORTS: usize = config::PORTS_MAX;

/// The relation between the bridge's ports.
#[derive(Debug)]
pub struct Lan {
    /// Ports without VLANs: all in one LAN, number 0.
    plain: PortSet,
    /// The other ports.
    vlans: Option<Box<Vlans>>,
}

#[derive(Debug)]
struct Vlans {
    /// Members of each VLAN, including 0.
    members: Box<[PortSet]>,
    ports: [PortVlan; PORTS],
}

/// How a port treats tags.
#[derive(Debug, Clone, Copy, Default)]
struct PortVlan {
    /// VLAN of untagged frames, which are also sent without a tag; 0 for none.
    untagged: u16,
    /// Whether it accepts tags: a trunk.
    takes_tags: bool,
    /// Whether it has VLANs at all.
    has_vlans: bool,
}

/// Whether a frame begins with an 802.1Q tag; with any other tag, such as a service tag, it counts as
/// untagged.
#[inline]
fn is_tagged(head: &[u8]) -> bool {
    ethernet::Header::of(head).is_some_and(|header| header.ethertype() == ethertype::VLAN)
}

/// The outer tag of the frame that begins with `head`; `None` without one, or if the frame ends within it.
#[inline]
fn tag_of(head: &[u8]) -> Option<Control> {
    let control = Control::at(head, OUTER_AT)?;
    is_tagged(head).then_some(control)
}

/// Whether another tag follows the outer one. If the outer one were removed, the inner one would name the
/// VLAN: anyone who can send a priority tag could reach any VLAN beyond a trunk.
#[inline]
fn is_stacked(head: &[u8]) -> bool {
    // All types of tags from which a device may read a VLAN, if they come first.
    vlan::Header::at(head, OUTER_AT).is_some_and(|outer| vlan::is_tag(outer.ethertype()))
}

impl Lan {
    /// This many ports without VLANs.
    pub fn of_plain(ports: u8) -> Self {
        Self::of((0..ports.min(64)).map(|n| (PortIndex(n), None)))
    }

    /// These ports with their VLANs.
    pub fn of<'c>(ports: impl IntoIterator<Item = (PortIndex, Option<&'c config::Vlan>)>) -> Self {
        let mut lan = Self {
            plain: PortSet::EMPTY,
            vlans: None,
        };
        for (port, vlan) in ports {
            match vlan {
                None => lan.plain.insert(port),
                Some(vlan) => lan.vlans.get_or_insert_with(Vlans::none).add(port, vlan),
            }
        }
        if let Some(vlans) = &mut lan.vlans {
            vlans.members[0] = lan.plain;
        }
        lan
    }

    /// Ports without VLANs.
    #[inline]
    pub fn plain(&self) -> PortSet {
        self.plain
    }

    /// Whether any port has VLANs.
    #[inline]
    pub fn has_vlans(&self) -> bool {
        self.vlans.is_some()
    }

    /// The VLAN of a frame received on `from`, 0 on ports without VLANs, and its members.
    ///
    /// # Errors
    /// Why it is dropped: the port does not accept tagged (or untagged) frames, or is no member of the
    /// VLAN.
    #[inline]
    pub fn admit(&self, from: PortIndex, head: &[u8]) -> Result<(u16, PortSet), DropReason> {
        match &self.vlans {
            None => Ok((0, self.plain)),
            Some(vlans) => vlans.admit(from, head),
        }
    }

    /// Members of a VLAN; for 0, the ports without VLANs.
    #[cfg(test)]
    pub fn members(&self, vlan: u16) -> PortSet {
        match &self.vlans {
            Some(vlans) => vlans.members[usize::from(Control(vlan).vlan())],
            None if vlan == 0 => self.plain,
            None => PortSet::EMPTY,
        }
    }

    /// What to do with the tag of the frame that begins with `head`, was admitted at `from`, and leaves by
    /// `to`.
    #[inline]
    pub fn rewrite(&self, from: PortIndex, to: PortIndex, head: &[u8]) -> Rewrite {
        match &self.vlans {
            None => Rewrite::None,
            Some(vlans) => vlans.rewrite(from, to, head),
        }
    }
}

impl Vlans {
    fn none() -> Box<Self> {
        Box::new(Self {
            members: vec![PortSet::EMPTY; VLANS].into_boxed_slice(),
            ports: [PortVlan::default(); PORTS],
        })
    }

    fn add(&mut self, port: PortIndex, vlan: &config::Vlan) {
        let (untagged, tagged, takes_tags) = match vlan {
            config::Vlan::Access { vlan } => (*vlan, Vec::new(), false),
            config::Vlan::Trunk { vlans, native } => {
                let tagged = match vlans {
                    config::VlanIds::All => (1..=4094).collect(),
                    config::VlanIds::Listed(vlans) => vlans.clone(),
                };
                (native.unwrap_or(0), tagged, true)
            }
        };
        let native = Some(untagged).filter(|&untagged| untagged != 0);
        for vlan in tagged.into_iter().chain(native) {
            // 0 and 4095 are not VLANs (802.1Q table 9-2).
            if (1..=4094).contains(&vlan) {
                self.members[usize::from(vlan)].insert(port);
            }
        }
        if let Some(slot) = self.ports.get_mut(port.index()) {
            *slot = PortVlan {
                untagged,
                takes_tags,
                has_vlans: true,
            };
        }
    }

    #[inline]
    fn port(&self, port: PortIndex) -> PortVlan {
        self.ports[port.index() % PORTS]
    }

    #[inline]
    fn admit(&self, from: PortIndex, head: &[u8]) -> Result<(u16, PortSet), DropReason> {
        let port = self.port(from);
        if !port.has_vlans {
            return Ok((0, self.members[0]));
        }
        let is_cut = is_tagged(head) && vlan::Header::at(head, OUTER_AT).is_none();
        if is_cut {
            return Err(DropReason::Runt);
        }
        let vlan = match tag_of(head) {
            Some(tag) if tag.vlan() != 0 && !port.takes_tags => return Err(DropReason::Vlan),
            Some(tag) if tag.vlan() != 0 => tag.vlan(),
            _ => port.untagged,
        };
        let members = self.members[usize::from(Control(vlan).vlan())];
        // VLAN 0 here is an untagged frame on a trunk without a native VLAN.
        if vlan == 0 || !members.contains(from) {
            return Err(DropReason::Vlan);
        }
        Ok((vlan, members))
    }

    #[inline]
    fn rewrite(&self, from: PortIndex, to: PortIndex, head: &[u8]) -> Rewrite {
        let (from, to) = (self.port(from), self.port(to));
        if !from.has_vlans {
            return Rewrite::None;
        }
        let tag = tag_of(head);
        let vlan = tag.map_or(0, Control::vlan);
        let vlan = if vlan == 0 { from.untagged } else { vlan };
        match (tag, to.untagged == vlan) {
            (None, false) => Rewrite::Push(vlan),
            (Some(_), true) if !is_stacked(head) => Rewrite::Pop,
            (Some(_), true) if !to.takes_tags => Rewrite::Drop,
            (Some(tag), _) if tag.vlan() == 0 => Rewrite::Replace(tag.with_vlan(vlan).0),
            (None, true) | (Some(_), _) => Rewrite::None,
        }
    }
}

#[cfg(test)]
mod tests;
