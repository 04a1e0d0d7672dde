//! Segments on the wire: this switch's identity towards others, and the ports that measure the path
//! to another switch.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::path::PathBuf;

use measure::packet::header::ethertype::{ARP, IPV4, IPV6, MAC_CONTROL, QINQ, VLAN};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use wire::session::{Key, KeyId, KeyRing};

use super::document::{
    self, Check, Invalid, KeyPath, all, each, ensure, known, laid_out, name, unique, within,
};
use super::measurement::{self, row_holds};
use super::validate::class_names;
use super::{CLASSES_MAX, Config, Device, LdaBank, MacAddress, Port, RliMethod, RliPolicy, number};
use crate::secret::{self, SecretFault};
use crate::units::rate;

mod sizes;

pub use sizes::{REFERENCES as REFERENCES_OF_SHARE, WireBytes};

/// Settings that all segments on the wire of this switch share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WireSwitch {
    /// This switch's number, 0 to 4,294,967,295, different on every switch: two with the same
    /// number would mistake each other's hellos for their own, returned by a loop.
    #[schemars(range(max = 4_294_967_295_u64))]
    pub switch: u32,
    /// Keys of all wires without keys of their own, at most 16. Configure two while you change keys
    /// on one switch after the other.
    #[serde(default)]
    #[schemars(length(max = KeyRing::KEYS_MAX))]
    pub keys: Vec<WireKey>,
    /// The `id` of the key that control frames are sent under. If omitted, the first of `keys`.
    #[serde(default)]
    #[schemars(range(min = 1, max = 65_535))]
    pub key: Option<u16>,
    /// The clock that one-way delays are measured by.
    #[serde(default)]
    pub clock: WireClock,
}

/// A key of 128 bits that both ends of a wire share. Session keys are derived from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WireKey {
    /// Its number, the same on all switches, 1 to 65,535. Give a changed key another number.
    #[schemars(range(min = 1, max = 65_535))]
    pub id: u16,
    /// File with the key, 32 hexadecimal digits in one line (`openssl rand -hex 16`), which other
    /// users can neither read nor change. Read at start and at each reload.
    pub file: PathBuf,
}

/// The clock of a switch that measures segments on the wire: the system's clock, synchronised by
/// PTP (linuxptp) or NTP (chrony).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WireClock {
    /// Greatest error of the clock in nanoseconds, 0 to 1,000,000,000, that you vouch for. If
    /// omitted, the kernel's estimate is used (`adjtimex`), and an unsynchronised clock gives no
    /// figures.
    #[schemars(range(max = 1_000_000_000))]
    pub error_ns: Option<u32>,
    /// PTP domain of the clock, 0 to 255, default 0; the same at both ends.
    #[schemars(range(max = 255))]
    pub ptp_domain: u8,
}

/// A segment on the wire: the path from this port to a port of another switch, and back. Both ends
/// need the same `hash_seed`, `interval_ms` and sizes. The port has one receive queue and an owner.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Wire {
    /// Addresses of both ends, for a virtual segment across routers. If omitted, a direct link.
    pub peer: Option<WirePeer>,
    /// The number of the switch at the other end, 0 to 4,294,967,295; any other is rejected. If
    /// omitted, any switch that has a key.
    #[schemars(range(max = 4_294_967_295_u64))]
    pub peer_switch: Option<u32>,
    /// The name of the port at the other end; any other is rejected. If omitted, any port.
    pub peer_port: Option<String>,
    /// Keys of this wire, at most 16, instead of `wire.keys` beside `ports`. Two wires with different
    /// keys cannot be joined, by mistake or on purpose. If empty, `wire.keys`.
    #[schemars(length(max = KeyRing::KEYS_MAX))]
    pub keys: Vec<WireKey>,
    /// The `id` of the key that control frames of this wire are sent under. If omitted, the first of
    /// `keys`, or without `keys`, `wire.key`.
    #[schemars(range(min = 1, max = 65_535))]
    pub key: Option<u16>,
    /// Classes that a virtual segment measures, each separately. If empty, all. A direct link
    /// measures all classes together.
    #[schemars(length(max = CLASSES_MAX))]
    pub classes: Vec<String>,
    /// Bit rate of the path, 1,000 to 1,000,000,000,000. If omitted, `egress.capacity_bps`, or else
    /// 10 Gbit/s.
    #[schemars(range(min = 1_000, max = 1_000_000_000_000_u64))]
    pub capacity_bps: Option<u64>,
    /// Largest share of `capacity_bps` for control frames, over 0 to 1; default 0.005.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    #[default = 0.005]
    pub share: f64,
    /// Least possible delay of the path in nanoseconds, 0 to 1,000,000,000 (4,900 for each kilometre of
    /// fibre); default 0. An epoch with delays that are smaller by more than both clocks' claimed errors is
    /// marked, because at least one clock is wrong.
    #[schemars(range(max = 1_000_000_000))]
    pub delay_min_ns: u32,
    /// Ethernet type of control frames on a direct link, 1,536 to 65,535; default 34,997 (0x88B5, for
    /// local experiments).
    #[schemars(range(min = 1_536, max = 65_535))]
    #[default = 0x88B5]
    pub ethertype: u16,
    /// Accept and send control frames without a key. Anyone who reaches the port can then forge
    /// figures.
    pub trusted: bool,
    /// Packets on each side of a rollover that are listed one by one, 16 to 4,096: as far as packets may
    /// overtake each other. If omitted, 256, or fewer if the share is small.
    #[schemars(range(min = 16, max = 4_096))]
    pub stash_packets: Option<u16>,
    /// The estimator of each segment: either `adaptive` or `banks`. If omitted, `adaptive`.
    pub lda: Option<WireLda>,
    /// The sketch of per-flow delays; `null` disables it.
    #[default(Some(WireLds::default()))]
    pub lds: Option<WireLds>,
    /// References among the packets; `null` disables them.
    #[default(Some(WireRli::default()))]
    pub rli: Option<WireRli>,
    /// Flows that the receiving end counts individually in an epoch, 16 to 1,048,576, default
    /// 16,384; further flows are counted together.
    #[schemars(range(min = 16, max = 1_048_576))]
    #[default = 16_384]
    pub flows: u32,
}

/// The other end of a virtual segment, to which control frames are sent by UDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WirePeer {
    /// This end's address; no other host may use it.
    pub local: IpAddr,
    /// The other end's address, of the same family.
    pub remote: IpAddr,
    /// MAC address of the next hop towards it.
    pub gateway: MacAddress,
    /// Source MAC address of control frames. If omitted, a locally administered one made from the
    /// numbers of switch and port.
    #[serde(default)]
    pub source_mac: Option<MacAddress>,
    /// UDP port at both ends, 1 to 65,535; default 34,997.
    #[serde(default = "number::<u16, 34_997>")]
    #[schemars(range(min = 1, max = 65_535))]
    pub udp_port: u16,
}

/// The LDA of each segment on the wire.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WireLda {
    /// Banks whose shares of packets adapt to the losses; markers announce them, epoch by epoch.
    pub adaptive: Option<WireAdaptiveLda>,
    /// One fixed bank for each loss rate to prepare for, 1 to 16.
    #[schemars(length(max = 16))]
    pub banks: Vec<LdaBank>,
}

/// Banks that adapt to the losses. Thirteen of sixteen rows serve the losses of the last epochs, the others
/// heavier losses up to `worst_loss`.
#[derive(Debug, Clone, Copy, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WireAdaptiveLda {
    /// Rows of all banks together, 32 to 65,536. If omitted, 1,024, or fewer if the share is small.
    #[schemars(range(min = 32, max = 65_536))]
    pub rows: Option<u32>,
    /// Share of lost packets that the last bank is always prepared for, over 0 to 1; default 0.2.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    #[default = 0.2]
    pub worst_loss: f64,
}

/// The sketch of a segment on the wire.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WireLds {
    /// Cells of all rows together, 16 to 4,194,304. If omitted, as many as fit the remaining share,
    /// 16 to 65,536 for each row.
    #[schemars(range(min = 16, max = 4_194_304))]
    pub cells: Option<u32>,
    /// Share of packets that each row samples, over 0 to 1 each; 1 to 4 rows. Default 0.01, 0.1, 0.5
    /// and 1: rows that sample few packets survive losses.
    #[schemars(length(min = 1, max = 4))]
    #[schemars(extend("items" = { "type": "number", "exclusiveMinimum": 0, "maximum": 1 }))]
    #[default(vec![0.01, 0.1, 0.5, 1.0])]
    pub rows: Vec<f64>,
    /// Cells of a flow in each row (k), 1 to 1,024, default 5.
    #[schemars(range(min = 1, max = 1_024))]
    #[default = 5]
    pub virtual_cells: u32,
    /// Components of the prior (K) for the joint estimate of flows, 1 to 3, default 1.
    #[schemars(range(min = 1, max = 3))]
    #[default = 1]
    pub components: u8,
}

/// Reference Latency Interpolation on the wire: one stream of references for each segment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WireRli {
    /// When references are sent; they never take more than two fifths of the share. If omitted,
    /// `adaptive`, by the utilisation of `capacity_bps`.
    pub policy: Option<RliPolicy>,
    /// How delays between references are estimated. `auto` means `sums`; `anchored_sums` is for
    /// queues inside the switch only.
    pub method: RliMethod,
}

/// The keys from a configuration's files, each read once. Its `Debug` output hides them.
#[derive(Debug, Clone, Default)]
pub struct WireKeys(BTreeMap<PathBuf, Key>);

impl WireSwitch {
    /// Whether wires stay up when the configuration becomes `other`; changed keys do not interrupt
    /// them.
    pub fn is_same_but_for_keys(&self, other: &Self) -> bool {
        let (keys, key) = (self.keys.clone(), self.key);
        let rest = other.clone();
        *self == Self { keys, key, ..rest }
    }
}

impl Wire {
    /// Whether the wire stays up when the configuration becomes `other`; changed keys do not
    /// interrupt it.
    pub fn is_same_but_for_keys(&self, other: &Self) -> bool {
        let (keys, key) = (self.keys.clone(), self.key);
        let rest = other.clone();
        *self == Self { keys, key, ..rest }
    }
}

/// A key is missing, or the keys are inconsistent.
#[derive(Debug, thiserror::Error)]
pub enum WireKeyError {
    /// A file was not read.
    #[error("{of}.keys[{index}].file {} was not read with the others", file.display())]
    Unread {
        /// Whose list the key is in.
        of: String,
        /// Index of the key, from 0.
        index: usize,
        /// Its file.
        file: PathBuf,
    },
    /// Inconsistent keys; a parsed configuration has none.
    #[error("keys of a wire: {0}")]
    Ring(#[from] wire::session::KeyRingError),
}

impl Config {
    /// The segment on the wire of a port, if it has one.
    pub fn wire(&self, port: usize) -> Option<&Wire> {
        self.ports.get(port)?.wire.as_ref()
    }

    /// Ports that have a segment on the wire, with the segment.
    pub fn wires(&self) -> impl Iterator<Item = (usize, &Wire)> {
        let ports = self.ports.iter().enumerate();
        ports.filter_map(|(index, port)| Some((index, port.wire.as_ref()?)))
    }

    /// This switch's number; 0 if none is configured.
    pub fn wire_switch(&self) -> u32 {
        self.wire.as_ref().map_or(0, |wire| wire.switch)
    }

    /// The configured clock.
    pub fn wire_clock(&self) -> WireClock {
        self.wire
            .as_ref()
            .map_or_else(WireClock::default, |w| w.clock)
    }

    /// Names of the segments of a wire, in order: `all` for a direct link, else the classes. Empty
    /// if the port has no wire.
    pub fn wire_segments(&self, port: usize) -> Vec<String> {
        match self.wire(port) {
            None => Vec::new(),
            Some(Wire { peer: None, .. }) => vec!["all".to_owned()],
            Some(Wire { classes, .. }) if classes.is_empty() => (0..self.class_count())
                .map(|class| self.class_name(class).to_owned())
                .collect(),
            Some(Wire { classes, .. }) => classes.clone(),
        }
    }

    /// The wire's segment that counts packets of each class; `None` for classes that are not
    /// measured.
    pub fn wire_segment_of_class(&self, port: usize) -> [Option<u16>; CLASSES_MAX] {
        let names = self.wire_segments(port);
        std::array::from_fn(|class| match self.wire(port)?.peer {
            None => Some(0),
            Some(_) if class < self.class_count() => {
                let name = self.class_name(class);
                let position = names.iter().position(|segment| segment == name)?;
                u16::try_from(position).ok()
            }
            Some(_) => None,
        })
    }

    /// DSCP of the control frames of each segment: the first that a rule names for its class, else
    /// 0.
    pub fn wire_dscps(&self, port: usize) -> Vec<u8> {
        let dscp = |name: &String| {
            let rules = self.rules.iter().filter(|rule| rule.class == *name);
            let mut marked = rules.filter_map(|rule| rule.dscp.as_ref()?.first().copied());
            marked.next().unwrap_or_default()
        };
        self.wire_segments(port).iter().map(dscp).collect()
    }

    /// Reads the keys of all wires, each file once for a start or a reload.
    ///
    /// # Errors
    /// Every file that cannot be read, that others can read or change, or that contains no key.
    pub fn read_wire_keys(&self) -> Check<WireKeys> {
        let root = KeyPath::default();
        let ports = self.wires().map(|(port, wire)| {
            let path = root.key("ports").index(port).key("wire");
            (path, &wire.keys)
        });
        let all = self.wire.iter().map(|wire| (root.key("wire"), &wire.keys));
        let mut keys = WireKeys::default();
        let mut checks = Vec::new();
        for (of, list) in all.chain(ports) {
            for (index, WireKey { file, .. }) in list.iter().enumerate() {
                if keys.0.contains_key(file) {
                    continue;
                }
                let checked = read_key(file).map(|key| keys.0.insert(file.clone(), key));
                checks.push(checked.map(drop).map_err(|fault| {
                    let path = of.key("keys").index(index).key("file");
                    let file = file.display();
                    let words = format!("{file}: {fault}; make it with `openssl rand -hex 16`");
                    Invalid::said(path, words).into()
                }));
            }
        }
        document::all(checks).map(|()| keys)
    }

    /// Returns the keys that a wire accepts, and the one to send under.
    ///
    /// # Errors
    /// [`WireKeyError`] for a key that was not read, or for inconsistent keys.
    pub fn wire_keys(
        &self,
        port: usize,
        keys: &WireKeys,
    ) -> Result<(KeyRing, KeyId), WireKeyError> {
        let mut ring = KeyRing::new();
        if self.wire(port).is_some_and(|wire| wire.trusted) {
            ring = ring.trusting();
        }
        let (of, list, key) = self.key_list(port);
        for (index, WireKey { id, file }) in list.iter().enumerate() {
            let key = keys.0.get(file).ok_or_else(|| WireKeyError::Unread {
                of: of.clone(),
                index,
                file: file.clone(),
            })?;
            ring = ring.with(KeyId(*id), key.clone())?;
        }
        Ok((ring, key.map_or(KeyId::NONE, KeyId)))
    }

    /// The keys of a port's wire: where they are configured, the keys, and the `id` to send under.
    fn key_list(&self, port: usize) -> (String, &[WireKey], Option<u16>) {
        let (own, all) = (self.wire(port), self.wire.as_ref());
        let own_key = own.and_then(|own| own.key);
        let (of, keys, key) = match own {
            Some(own) if !own.keys.is_empty() => {
                (format!("ports[{port}].wire"), &own.keys[..], own_key)
            }
            _ => {
                let keys = all.map_or(&[][..], |all| &all.keys);
                let key = own_key.or(all.and_then(|all| all.key));
                ("wire".to_owned(), keys, key)
            }
        };
        let first = keys.first().map(|key| key.id);
        (of, keys, key.or(first))
    }
}

/// Reads a key from its file.
fn read_key(file: &std::path::Path) -> Result<Key, String> {
    const DIGITS: usize = 32;
    let text = secret::read_line(file, DIGITS).map_err(|fault: SecretFault| fault.to_string())?;
    let digits = std::str::from_utf8(&text).unwrap_or_default();
    let is_key = digits.len() == DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = u128::from_str_radix(digits, 16).ok().filter(|_| is_key);
    let number = number.ok_or_else(|| {
        let got = text.len();
        format!("expected {DIGITS} hexadecimal digits in one line, got {got} bytes or others")
    })?;
    Ok(Key::new(number.to_be_bytes()))
}

/// Least MTU of a port with a wire: every IPv4 router passes packets of this size whole.
const MTU_MIN: u16 = 576;

pub(super) fn switch(path: &KeyPath, config: &Config) -> Check {
    let Some(wire) = &config.wire else {
        return Ok(());
    };
    all([keys(path, &wire.keys), key(path, wire.key, &wire.keys)])
}

fn keys(path: &KeyPath, keys: &[WireKey]) -> Check {
    let path = path.key("keys");
    let mut ids = HashSet::new();
    each(&path, keys, |path, key| {
        unique(&mut ids, key.id, path.key("id"), "a unique number")?;
        let is_named = !key.file.as_os_str().is_empty();
        ensure(is_named, path.key("file"), "a file's name", "none")?;
        let text = key.file.as_os_str().as_encoded_bytes();
        let is_key = text.len() == 32 && text.iter().all(u8::is_ascii_hexdigit);
        let expected = "the name of the file that holds the key";
        ensure(!is_key, path.key("file"), expected, "what looks like a key")
    })
}

/// Checks that the key to send under is one of `keys`.
fn key(path: &KeyPath, key: Option<u16>, keys: &[WireKey]) -> Check {
    let Some(key) = key else { return Ok(()) };
    let is_known = keys.iter().any(|known| known.id == key);
    ensure(is_known, path.key("key"), "the `id` of one of `keys`", key)
}

pub(super) fn wires(path: &KeyPath, config: &Config) -> Check {
    let mut peers = HashSet::new();
    all(config.ports.iter().enumerate().map(|(index, port)| {
        let Some(wire) = &port.wire else {
            return Ok(());
        };
        let path = path.index(index);
        around(&path, index, port, config)?;
        let path = path.key("wire");
        self::wire(&path, wire, config)?;
        if let Some(peer) = &wire.peer {
            let ends = (peer.local, peer.remote, peer.udp_port);
            let expected = "unique addresses";
            unique(&mut peers, ends, path.key("peer"), expected)?;
        }
        sizes(&path, index, wire, config)
    }))
}

/// Checks the settings that a wire depends on.
fn around(path: &KeyPath, index: usize, port: &Port, config: &Config) -> Check {
    let wire = path.key("wire");
    let is_real = matches!(port.device, Device::Dpdk(_));
    let expected = "no such key: only a DPDK device has another end";
    ensure(is_real, wire.clone(), expected, &port.device)?;
    let measurement = &config.measurement;
    let expected = "`measurement.enabled` with a segment on the wire";
    ensure(measurement.enabled, wire.clone(), expected, "false")?;
    let is_seeded = measurement.hash_seed.is_some();
    let expected = "`measurement.hash_seed`, the same at both ends of a segment on the wire";
    ensure(is_seeded, wire.clone(), expected, "none")?;
    let expected = "`wire.switch`, this switch's number, beside `ports`";
    ensure(config.wire.is_some(), wire.clone(), expected, "none")?;
    within(path.key("mtu"), port.mtu, MTU_MIN..=9_000)?;
    let rx_queues = port.rx_queues.unwrap_or(1);
    let expected = "1, or no such key, where there is a segment on the wire: packets are counted in \
                    their order";
    ensure(rx_queues == 1, path.key("rx_queues"), expected, rx_queues)?;
    let assignment = config.assignment();
    let server = assignment.iter().position(|of| of.contains(&(index, 0)));
    let owner = config.owner(index);
    let expected = format!(
        "{}, the worker that serves the port: a segment on the wire has one for both directions",
        server.unwrap_or_default()
    );
    let got = owner.unwrap_or_default();
    let is_served = owner.is_none() || owner == server;
    ensure(is_served, path.key("egress").key("owner"), expected, got)
}

fn wire(path: &KeyPath, wire: &Wire, config: &Config) -> Check {
    if let Some(peer) = &wire.peer {
        self::peer(&path.key("peer"), peer)?;
    }
    classes(&path.key("classes"), wire, config)?;
    // Ethernet types with another meaning in this switch.
    let is_free = !matches!(
        wire.ethertype,
        IPV4 | ARP | VLAN | IPV6 | MAC_CONTROL | QINQ
    );
    let expected = "a type that no other protocol has, such as 34997";
    ensure(is_free, path.key("ethertype"), expected, wire.ethertype)?;
    keys(path, &wire.keys)?;
    let of_all = config.wire.as_ref().map_or(&[][..], |all| &all.keys);
    let in_force = match &wire.keys[..] {
        [] => of_all,
        own => own,
    };
    key(path, wire.key, in_force)?;
    if let Some(port) = &wire.peer_port {
        name(path.key("peer_port"), port)?;
    }
    let own = config.wire_switch();
    let expected = "a number other than `wire.switch`";
    let is_other = wire.peer_switch != Some(own);
    ensure(is_other, path.key("peer_switch"), expected, own)?;
    let expected = "`keys` here, or `wire.keys` beside `ports`, or true";
    let is_safe = !in_force.is_empty() || wire.trusted;
    ensure(is_safe, path.key("trusted"), expected, "false")?;
    if let Some(lda) = &wire.lda {
        let path = path.key("lda");
        let (is_adaptive, has_banks) = (lda.adaptive.is_some(), !lda.banks.is_empty());
        let expected = "either `adaptive` (`{}` for its defaults) or `banks`";
        let got = if has_banks { "both" } else { "neither" };
        ensure(is_adaptive != has_banks, path.clone(), expected, got)?;
        if has_banks {
            measurement::lda(&path, &lda.fixed())?;
        }
    }
    if let Some(lds) = &wire.lds
        && let Some(cells) = lds.cells
    {
        row_holds(&path.key("lds"), lds.virtual_cells, cells, lds.rows.len())?;
    }
    let method = wire.rli.as_ref().map(|rli| rli.method);
    let is_for_wires = method != Some(RliMethod::AnchoredSums);
    let expected = "auto, sums, linear or left: anchored_sums is for queues inside the switch";
    let path = path.key("rli").key("method");
    ensure(is_for_wires, path, expected, "anchored_sums")
}

fn peer(path: &KeyPath, peer: &WirePeer) -> Check {
    let expected = "a unicast address";
    for (key, address) in [("local", peer.local), ("remote", peer.remote)] {
        let is_usable =
            !address.is_unspecified() && !address.is_multicast() && !address.is_loopback();
        ensure(is_usable, path.key(key), expected, address)?;
    }
    let is_alike = peer.local.is_ipv4() == peer.remote.is_ipv4();
    let expected = "an address of the family of `local`";
    ensure(is_alike, path.key("remote"), expected, peer.remote)?;
    let is_other = peer.local != peer.remote;
    let expected = "an address other than `local`";
    ensure(is_other, path.key("remote"), expected, peer.remote)?;
    let expected = "a unicast MAC address";
    let mut addresses = vec![("gateway", peer.gateway)];
    addresses.extend(peer.source_mac.map(|mac| ("source_mac", mac)));
    for (key, mac) in addresses {
        ensure(mac.is_individual(), path.key(key), expected, mac)?;
    }
    Ok(())
}

fn classes(path: &KeyPath, wire: &Wire, config: &Config) -> Check {
    let is_direct = wire.peer.is_none();
    let expected = "no such key on a direct link, where all classes are measured together";
    let none = wire.classes.is_empty();
    ensure(none || !is_direct, path.clone(), expected, "some")?;
    let names = class_names(config);
    let mut seen = HashSet::new();
    for (index, name) in wire.classes.iter().enumerate() {
        let path = path.index(index);
        known(path.clone(), name, "class", &names)?;
        unique(&mut seen, name, path, "a class once")?;
    }
    Ok(())
}

/// Checks that all control frames of an epoch fit the share.
fn sizes(path: &KeyPath, index: usize, wire: &Wire, config: &Config) -> Check {
    let bytes = config.wire_bytes(index);
    let bytes = laid_out(path.clone(), bytes, "sizes that can be laid out")?;
    let capacity_bps = config.wire_capacity_bps(index);
    ensure(
        bytes.excess() == 0,
        path.key("share"),
        format!(
            "at most {} bytes of control frames an epoch ({} of {}bit/s for {} ms)",
            bytes.share,
            wire.share,
            rate(capacity_bps as f64),
            config.measurement.interval_ms,
        ),
        format!(
            "{} bytes too many: markers and the like {}, stash {}, LDA {}, LDS {}, references {}; \
             allow a larger share, longer epochs or smaller sizes",
            bytes.excess(),
            bytes.signals,
            bytes.stash,
            bytes.lda,
            bytes.lds,
            bytes.references,
        ),
    )
}

#[cfg(test)]
mod tests;
