//! A transparent patch panel.

use contract::counters::DropReason;
use contract::ids::PortIndex;
use measure::packet::header::{ethernet, ethertype};

use super::{PortSet, Verdict};

/// All that enters one port of a pair leaves by the other: LACP, LLDP, STP and 802.1X pass, only MAC
/// control does not.
#[derive(Debug)]
pub struct PatchPanel {
    partner: Vec<Option<PortIndex>>,
    /// Whether frames of LLDP came.
    pub(super) saw_lldp: bool,
}

impl PatchPanel {
    /// A panel over `ports` ports in which each pair is joined both ways. Pairs that name a port
    /// out of range are ignored.
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

    /// The verdict on all that comes in by `from`, but for frames that end at the link.
    #[inline]
    pub(super) fn way(&self, from: PortIndex, up: PortSet) -> Verdict {
        match self.partner.get(from.index()) {
            Some(&Some(to)) if up.contains(to) => Verdict::Forward(to),
            Some(Some(_)) => Verdict::Drop(DropReason::LinkDown),
            _ => Verdict::Drop(DropReason::NoDestination),
        }
    }

    /// Whether all of these frames pass, and none is of LLDP.
    #[inline]
    pub(super) fn passes_all<'h>(mut heads: impl Iterator<Item = &'h [u8]>) -> bool {
        heads.all(|head| {
            let header = ethernet::Header::of(head);
            header.is_some_and(|header| !is_of_link(header.ethertype()))
        })
    }

    /// The verdict on a frame, given that on all.
    #[inline]
    pub(super) fn decide(&mut self, way: Verdict, head: &[u8]) -> Verdict {
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

/// Whether a frame of this type is one of MAC control or LLDP. One comparison tells that of most.
#[inline]
fn is_of_link(ethertype: u16) -> bool {
    ethertype >> 8 == ethertype::LLDP >> 8
        && matches!(ethertype, ethertype::MAC_CONTROL | ethertype::LLDP)
}
