//! Which flows are measured (Lee et al. 2010, section 3.2.2: "any flow sampling scheme").

use std::net::IpAddr;

use crate::argument::{InvalidArgument, ensure};
use crate::packet::{FlowHash, FlowKey};

/// A policy: which flows get accumulators.
#[derive(Debug, Clone, PartialEq)]
pub enum FlowSelection {
    /// Every flow.
    All,
    /// A share of flows, by hash: the same flows at every point.
    Sampled(FlowSample),
    /// Flows that one of these rules names.
    Rules(Vec<FlowRule>),
}

impl FlowSelection {
    /// Whether the flow is measured. `hash` is the hash of `key`.
    pub fn selects(&self, hash: FlowHash, key: &FlowKey) -> bool {
        match self {
            Self::All => true,
            Self::Sampled(sample) => sample.selects(hash),
            Self::Rules(rules) => rules.iter().any(|rule| rule.selects(key)),
        }
    }
}

/// A share of flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowSample {
    /// Flows whose upper half of the hash is under it.
    threshold: u64,
}

impl FlowSample {
    /// `share` of all flows, 0 to 1.
    ///
    /// # Errors
    /// Where it is not a share.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "0 to 2^32"
    )]
    pub fn new(share: f64) -> Result<Self, InvalidArgument> {
        ensure((0.0..=1.0).contains(&share), || {
            format!("a share of {share} of all flows; give a number from 0 to 1")
        })?;
        Ok(Self {
            threshold: (share * 2_f64.powi(32)).round() as u64,
        })
    }

    /// Whether the flow is one of them.
    pub fn selects(&self, FlowHash(hash): FlowHash) -> bool {
        hash >> 32 < self.threshold
    }
}

/// Names flows by what is in their keys; what is left out matches anything. A flow of another kind
/// (Ethernet) matches only a rule that says nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowRule {
    /// Where they come from.
    pub source: Option<Prefix>,
    /// Where they go.
    pub destination: Option<Prefix>,
    /// Protocol number (IANA).
    pub protocol: Option<u8>,
    /// First and last source port.
    pub source_ports: Option<(u16, u16)>,
    /// First and last destination port.
    pub destination_ports: Option<(u16, u16)>,
}

impl FlowRule {
    /// Whether the rule names the flow.
    pub fn selects(&self, key: &FlowKey) -> bool {
        let Some(ip) = key.five_tuple() else {
            return *self == Self::default();
        };
        let within = |ports: Option<(u16, u16)>, port: u16| {
            ports.is_none_or(|(first, last)| (first..=last).contains(&port))
        };
        let is_in =
            |prefix: Option<Prefix>, address| prefix.is_none_or(|prefix| prefix.contains(address));
        is_in(self.source, ip.source)
            && is_in(self.destination, ip.destination)
            && self.protocol.is_none_or(|wanted| wanted == ip.protocol)
            && within(self.source_ports, ip.source_port)
            && within(self.destination_ports, ip.destination_port)
    }
}

/// Addresses that begin alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
}

impl Prefix {
    /// The addresses that agree with `address` in their first `bits` bits.
    ///
    /// # Errors
    /// Where an address has fewer bits.
    pub fn new(address: IpAddr, bits: u8) -> Result<Self, InvalidArgument> {
        let most = if address.is_ipv4() { 32 } else { 128 };
        ensure(bits <= most, || {
            format!("{address}/{bits}: an address of this family has {most} bits")
        })?;
        Ok(Self { address, bits })
    }

    /// Whether `address` is of the same family and begins alike.
    pub fn contains(&self, address: IpAddr) -> bool {
        let differ = match (self.address, address) {
            (IpAddr::V4(mine), IpAddr::V4(theirs)) => {
                u128::from(mine.to_bits() ^ theirs.to_bits()) << 96
            }
            (IpAddr::V6(mine), IpAddr::V6(theirs)) => mine.to_bits() ^ theirs.to_bits(),
            _ => return false,
        };
        differ.leading_zeros() >= u32::from(self.bits)
    }
}
