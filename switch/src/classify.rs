//! Determines the class of a packet: the first matching rule decides, without testing each rule.
//!
//! For each field of a packet there is a table of bit sets with a bit for each rule: the rules that match
//! this value of the field. The rules that match a packet are the intersection of eight sets, one for each
//! field, and the first bit is the first matching rule (Lakshman and Stiliadis, SIGCOMM 1998, section 4).
//! Small fields index their table; addresses and ports are looked up among the bounds at which the result
//! changes: n rules have at most 2n.

use std::net::IpAddr;

use contract::config::{self, Config, PORTS_MAX, Prefix, Rule};
use contract::ids::PortIndex;
use measure::packet::header::{ethernet, ethertype, ipv6, protocol, udp, vlan};
use measure::packet::walk::{self, Content, EXTENSION_HEADERS_MAX, Link, Upper};

use crate::packet_io::ClassIndex;

/// Looks up packets' classes; immutable.
#[derive(Debug)]
pub struct Classifier {
    default: ClassIndex,
    tables: Tables,
}

/// Sets of the smallest width with a bit for each rule.
#[derive(Debug)]
enum Tables {
    None,
    /// Up to 64 rules.
    One(Box<Lookup<1>>),
    /// Up to 128.
    Two(Box<Lookup<2>>),
    /// Up to 256.
    Four(Box<Lookup<4>>),
}

impl Classifier {
    /// A classifier for the rules and classes of a valid configuration.
    pub fn from_config(config: &Config) -> Self {
        Self::compile(&config.rules, &config.ports, &config.classes)
    }

    /// A classifier for these rules; only the first 256 count. A rule with an unknown class is ignored;
    /// packets that match no rule belong to the last class.
    pub fn compile(rules: &[Rule], ports: &[config::Port], classes: &[config::Class]) -> Self {
        let index = |name: &str| classes.iter().position(|class| class.name == name);
        let rules: Vec<_> = rules
            .iter()
            .filter_map(|rule| Some((rule, class_index(index(&rule.class)?))))
            .take(256)
            .collect();
        let tables = match rules.len() {
            0 => Tables::None,
            1..=64 => Tables::One(Box::new(Lookup::new(&rules, ports))),
            65..=128 => Tables::Two(Box::new(Lookup::new(&rules, ports))),
            _ => Tables::Four(Box::new(Lookup::new(&rules, ports))),
        };
        Self {
            default: class_index(classes.len().saturating_sub(1)),
            tables,
        }
    }

    /// Without rules: all packets belong to class 0.
    pub fn trivial() -> Self {
        Self::compile(&[], &[], &[])
    }

    /// Whether all packets belong to one class.
    #[inline]
    pub fn is_trivial(&self) -> bool {
        matches!(self.tables, Tables::None)
    }

    /// The class of packets that match no rule.
    #[inline]
    pub fn default_class(&self) -> ClassIndex {
        self.default
    }

    /// The class of a packet received on `from` that begins with `head`.
    #[inline]
    pub fn classify(&self, from: PortIndex, head: &[u8]) -> ClassIndex {
        if self.is_trivial() {
            return self.default;
        }
        self.classify_by_rules(from, head)
    }

    #[inline(never)]
    fn classify_by_rules(&self, from: PortIndex, head: &[u8]) -> ClassIndex {
        let class = match &self.tables {
            Tables::None => None,
            Tables::One(lookup) => lookup.first_match(from, &Fields::of(head)),
            Tables::Two(lookup) => lookup.first_match(from, &Fields::of(head)),
            Tables::Four(lookup) => lookup.first_match(from, &Fields::of(head)),
        };
        class.unwrap_or(self.default)
    }

    /// Bytes of its tables: up to 180 KiB, for 256 rules with prefixes and ports.
    pub fn size_bytes(&self) -> usize {
        match &self.tables {
            Tables::None => 0,
            Tables::One(lookup) => lookup.size_bytes(),
            Tables::Two(lookup) => lookup.size_bytes(),
            Tables::Four(lookup) => lookup.size_bytes(),
        }
    }
}

/// A set of rules, with a bit for each.
type Set<const W: usize> = [u64; W];

/// For each value of each field, the matching rules.
#[derive(Debug)]
struct Lookup<const W: usize> {
    ingress: [Set<W>; PORTS_MAX],
    pcp: [Set<W>; NO_PCP + 1],
    dscp: [Set<W>; NO_DSCP + 1],
    protocol: [Set<W>; NO_PROTOCOL + 1],
    v4: Ends<u32, W>,
    v6: Ends<u128, W>,
    ports: Ends<u32, W>,
    /// Rules that match frames without IP in all IP fields.
    not_ip: Set<W>,
    /// By rule.
    classes: Vec<ClassIndex>,
}

/// Source and destination.
#[derive(Debug)]
struct Ends<K, const W: usize> {
    source: RangeMap<K, W>,
    destination: RangeMap<K, W>,
}

impl<K: Word, const W: usize> Ends<K, W> {
    /// By the source and destination ranges of each rule.
    fn new(rules: &[(&Rule, ClassIndex)], ranges: impl Fn(&Rule) -> [Option<(K, K)>; 2]) -> Self {
        let map = |end: usize| RangeMap::new(rules.iter().map(|(rule, _)| ranges(rule)[end]));
        Self {
            source: map(0),
            destination: map(1),
        }
    }

    #[inline]
    fn get(&self, source: K, destination: K) -> Set<W> {
        intersection(self.source.get(source), self.destination.get(destination))
    }

    fn size_bytes(&self) -> usize {
        self.source.size_bytes() + self.destination.size_bytes()
    }
}

impl<const W: usize> Lookup<W> {
    fn new(rules: &[(&Rule, ClassIndex)], ports: &[config::Port]) -> Self {
        let set = |agrees: &dyn Fn(&Rule) -> bool| {
            let mut set = [0; W];
            for (n, (rule, _)) in rules.iter().enumerate() {
                if agrees(rule) {
                    insert(&mut set, n);
                }
            }
            set
        };
        let lists = |list: &Option<Vec<u8>>, value: usize| {
            list.as_ref()
                .is_none_or(|list| list.iter().any(|&one| usize::from(one) == value))
        };
        let comes_by = |rule: &Rule, port: usize| {
            let names = rule.ingress.as_ref();
            let name = ports.get(port).map(|port| &port.name);
            names.is_none_or(|names| name.is_some_and(|name| names.contains(name)))
        };
        let is_of = |rule: &Rule, protocol: usize| {
            rule.protocol
                .is_none_or(|one| usize::from(one.number()) == protocol)
        };
        let addresses = |rule: &Rule| [rule.source, rule.destination];
        let is_anywhere = |rule: &Rule| addresses(rule) == [None, None];
        let has_no_ports =
            |rule: &Rule| rule.source_ports.is_none() && rule.destination_ports.is_none();
        let range = |pair: Option<(u16, u16)>| {
            Some(pair.map_or((0_u32, u32::MAX), |(first, last)| {
                (first.into(), last.into())
            }))
        };
        Self {
            ingress: std::array::from_fn(|port| set(&|rule| comes_by(rule, port))),
            pcp: std::array::from_fn(|pcp| set(&|rule| lists(&rule.pcp, pcp))),
            dscp: std::array::from_fn(|dscp| set(&|rule| lists(&rule.dscp, dscp))),
            protocol: std::array::from_fn(|protocol| set(&|rule| is_of(rule, protocol))),
            v4: Ends::new(rules, |rule| addresses(rule).map(Word::range)),
            v6: Ends::new(rules, |rule| addresses(rule).map(Word::range)),
            ports: Ends::new(rules, |rule| {
                [rule.source_ports, rule.destination_ports].map(range)
            }),
            not_ip: set(&|rule| {
                let is_of_any = rule.protocol.is_none() && rule.dscp.is_none();
                is_of_any && is_anywhere(rule) && has_no_ports(rule)
            }),
            classes: rules.iter().map(|&(_, class)| class).collect(),
        }
    }

    /// The class of the first rule that matches all fields.
    #[inline]
    fn first_match(&self, from: PortIndex, fields: &Fields) -> Option<ClassIndex> {
        let ingress = self.ingress.get(from.index())?;
        let link = intersection(ingress, self.pcp.get(fields.pcp)?);
        let Some(ip) = &fields.ip else {
            return self.class_of_first(&intersection(&link, &self.not_ip));
        };
        let service = intersection(self.dscp.get(ip.dscp)?, self.protocol.get(ip.protocol)?);
        let addresses = match ip.addresses {
            Addresses::V4 {
                source,
                destination,
            } => self.v4.get(source, destination),
            Addresses::V6 {
                source,
                destination,
            } => self.v6.get(source, destination),
        };
        let ports = self.ports.get(ip.source_port, ip.destination_port);
        let packet = intersection(
            &intersection(&link, &service),
            &intersection(&addresses, &ports),
        );
        self.class_of_first(&packet)
    }

    #[inline]
    fn class_of_first(&self, rules: &Set<W>) -> Option<ClassIndex> {
        let (word, bits) = rules.iter().enumerate().find(|&(_, &bits)| bits != 0)?;
        self.classes
            .get(word * 64 + bits.trailing_zeros() as usize)
            .copied()
    }

    fn size_bytes(&self) -> usize {
        size_of::<Self>()
            + self.v4.size_bytes()
            + self.v6.size_bytes()
            + self.ports.size_bytes()
            + self.classes.len()
    }
}

#[inline]
fn intersection<const W: usize>(a: &Set<W>, b: &Set<W>) -> Set<W> {
    std::array::from_fn(|word| a[word] & b[word])
}

fn insert<const W: usize>(set: &mut Set<W>, rule: usize) {
    if let Some(word) = set.get_mut(rule / 64) {
        *word |= 1 << (rule % 64);
    }
}

#[expect(clippy::cast_possible_truncation, reason = "8 classes at most")]
fn class_index(index: usize) -> ClassIndex {
    ClassIndex(index.min(config::CLASSES_MAX - 1) as u8)
}

// The fields of a packet that rules test.

/// Priority code point of a frame without a tag.
const NO_PCP: usize = 8;
/// DSCP of a frame without IP.
const NO_DSCP: usize = 64;
/// Protocol of a frame without IP.
const NO_PROTOCOL: usize = 256;
/// Port of a packet without ports.
const NO_PORT: u32 = 0x1_0000;

/// The fields of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fields {
    /// PCP of the outer tag, or [`NO_PCP`].
    pub pcp: usize,
    pub ip: Option<Ip>,
}

/// The fields of an IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ip {
    pub dscp: usize,
    /// The protocol above IP, behind the extension headers of IPv6.
    pub protocol: usize,
    pub addresses: Addresses,
    /// [`NO_PORT`] if there is none: not TCP, UDP or SCTP, a later fragment, or truncated.
    pub source_port: u32,
    pub destination_port: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Addresses {
    V4 { source: u32, destination: u32 },
    V6 { source: u128, destination: u128 },
}

impl Fields {
    /// Parses a frame, as far as its first segment goes. IP that is truncated within its header or
    /// contradicts itself counts as no IP.
    #[inline]
    pub fn of(head: &[u8]) -> Self {
        let ethertype = ethernet::Header::of(head).map(ethernet::Header::ethertype);
        if ethertype == Some(ethertype::IPV4) {
            return Self {
                pcp: NO_PCP,
                ip: ipv4(head, ethernet::BYTES),
            };
        }
        Self::of_any(head)
    }

    fn of_any(head: &[u8]) -> Self {
        let link = Link::of(head);
        let priority = link.tag.map(vlan::Control::priority);
        Self {
            pcp: priority.map_or(NO_PCP, usize::from),
            ip: match link.content {
                Content::Ipv4 => ipv4(head, link.at),
                Content::Ipv6 => ipv6(head, link.at),
                Content::Other(_) => None,
            },
        }
    }
}

#[inline]
fn ipv4(head: &[u8], at: usize) -> Option<Ip> {
    let (header, upper) = walk::ipv4(head, at).ok()?;
    let ports = ports(&upper, header.protocol(), header.is_later_fragment());
    Some(Ip {
        dscp: header.dscp().into(),
        protocol: header.protocol().into(),
        addresses: Addresses::V4 {
            source: header.source().to_bits(),
            destination: header.destination().to_bits(),
        },
        source_port: ports.0,
        destination_port: ports.1,
    })
}

fn ipv6(head: &[u8], at: usize) -> Option<Ip> {
    let (header, mut upper) = walk::ipv6(head, at).ok()?;
    let (protocol, is_later_fragment) = step_over_extensions(&mut upper, header.next());
    let ports = ports(&upper, protocol, is_later_fragment);
    Some(Ip {
        dscp: header.dscp().into(),
        protocol: protocol.into(),
        addresses: Addresses::V6 {
            source: header.source().to_bits(),
            destination: header.destination().to_bits(),
        },
        source_port: ports.0,
        destination_port: ports.1,
    })
}

/// Skips extension headers, as far as they are complete; returns the protocol behind them, and whether this
/// is a fragment other than the first.
fn step_over_extensions(upper: &mut Upper<'_>, mut protocol: u8) -> (u8, bool) {
    for _ in 0..EXTENSION_HEADERS_MAX {
        let Ok(Some(extension)) = upper.step(protocol) else {
            break;
        };
        let fragment = (protocol == protocol::FRAGMENT).then(|| extension.as_fragment());
        protocol = extension.next();
        if fragment.is_some_and(ipv6::Fragment::is_later_fragment) {
            return (protocol, true);
        }
    }
    (protocol, false)
}

/// Source and destination port; TCP and SCTP have them at the same place as UDP.
#[inline]
fn ports(upper: &Upper<'_>, protocol: u8, is_later_fragment: bool) -> (u32, u32) {
    let has_ports = matches!(protocol, protocol::TCP | protocol::UDP | protocol::SCTP);
    match upper.next_bytes::<{ udp::field::DESTINATION_PORT.end }>() {
        Some(&[a, b, c, d]) if has_ports && !is_later_fragment => {
            let port = |bytes| u32::from(u16::from_be_bytes(bytes));
            (port([a, b]), port([c, d]))
        }
        _ => (NO_PORT, NO_PORT),
    }
}

// The rules whose ranges contain a number.

/// A number in ranges.
trait Word: Copy + Ord {
    /// The least.
    const ZERO: Self;

    /// The next number, if there is one.
    fn next(self) -> Option<Self>;

    /// First and last address of a prefix; all addresses without a prefix, none for a prefix of the other IP
    /// version.
    fn range(prefix: Option<Prefix>) -> Option<(Self, Self)>;
}

macro_rules! word {
    ($word:ty, $ip:ident) => {
        impl Word for $word {
            const ZERO: Self = 0;

            fn next(self) -> Option<Self> {
                self.checked_add(1)
            }

            fn range(prefix: Option<Prefix>) -> Option<(Self, Self)> {
                let Some(prefix) = prefix else {
                    return Some((0, Self::MAX));
                };
                let IpAddr::$ip(address) = prefix.address else {
                    return None;
                };
                let host = Self::MAX.checked_shr(prefix.bits.into()).unwrap_or(0);
                Some((address.to_bits() & !host, address.to_bits() | host))
            }
        }
    };
}

word!(u32, V4);
word!(u128, V6);

/// Maps numbers to the sets of rules whose range contains them.
#[derive(Debug)]
struct RangeMap<K, const W: usize> {
    /// Numbers at which the set changes, ascending.
    bounds: Box<[K]>,
    /// The set from each bound on, preceded by the set from zero on.
    sets: Box<[[u64; W]]>,
}

impl<K: Word, const W: usize> RangeMap<K, W> {
    /// From these ranges, first and last number of each, in the order of rules; `None` contains no number.
    pub fn new(ranges: impl Iterator<Item = Option<(K, K)>>) -> Self {
        let ranges: Vec<_> = ranges.collect();
        let given = ranges.iter().flatten();
        let mut bounds: Vec<K> = given
            .flat_map(|&(first, last)| [Some(first), last.next()])
            .flatten()
            .filter(|&bound| bound > K::ZERO)
            .collect();
        bounds.sort_unstable();
        bounds.dedup();
        let set_at = |number: K| {
            let mut set = [0; W];
            for (rule, range) in ranges.iter().enumerate() {
                if range.is_some_and(|(first, last)| first <= number && number <= last) {
                    insert(&mut set, rule);
                }
            }
            set
        };
        let sets = std::iter::once(K::ZERO)
            .chain(bounds.iter().copied())
            .map(set_at)
            .collect();
        Self {
            bounds: bounds.into_boxed_slice(),
            sets,
        }
    }

    /// The rules that match `number`.
    #[inline]
    pub fn get(&self, number: K) -> &[u64; W] {
        // The standard library's binary search has no data-dependent branch.
        let index = self.bounds.partition_point(|&bound| bound <= number);
        self.sets.get(index).unwrap_or(&[0; W])
    }

    pub fn size_bytes(&self) -> usize {
        size_of_val(&*self.bounds) + size_of_val(&*self.sets)
    }
}

#[cfg(test)]
mod tests;
