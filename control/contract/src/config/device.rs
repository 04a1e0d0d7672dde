//! Device strings: where a port's packets come from and go to.

use std::borrow::Cow;
use std::fmt;
use std::num::ParseIntError;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::address::as_text;

/// A port's device. In JSON it is one string ([`fmt::Display`] and [`FromStr`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Device {
    /// `sink`: receives nothing, swallows what it is sent.
    Sink,
    /// `replay:FILE[?speed=X&loop=N]`: receives a capture with its own timing.
    Replay(Replay),
    /// `generate[:KEY=VALUE,...]`: receives seeded traffic.
    Generate(Generate),
    /// Any other DPDK device string (`0000:03:00.0`, `net_af_packet0,iface=veth0`, ...).
    Dpdk(String),
    /// `absent`: the device of a port that was removed while the switch runs
    /// ([`Config::in_place_of`](super::Config::in_place_of)); never in a checked configuration.
    Absent,
}

/// A capture to replay.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
pub struct Replay {
    /// A pcap or pcapng file of Ethernet frames.
    pub file: PathBuf,
    /// `speed`: factor on the capture's own pace, over 0 to 1,000,000; default 1.
    pub speed: f64,
    /// `loop`: how often it is played, 0 for ever; default 1.
    #[schemars(rename = "loop")]
    pub loops: u64,
}

/// Seeded traffic.
#[derive(Debug, Clone, PartialEq, SmartDefault, JsonSchema)]
pub struct Generate {
    /// `flows`: number of flows, 1 to 10,000,000; default 1,000.
    #[default = 1_000]
    pub flows: u32,
    /// `size`: bytes of a frame, 60 to 9,014; default `imix`: 60, 590 and 1,514 as 7 : 4 : 1.
    #[schemars(with = "String")]
    #[default(FrameSize::Imix)]
    pub size: FrameSize,
    /// `rate`: mean packets a second, over 0 to 100,000,000; default 100,000.
    #[schemars(rename = "rate")]
    #[default = 100_000.0]
    pub rate_pps: f64,
    /// `burst`: mean number of packets back to back (geometric), 1 to 1,000; default 1 (Poisson).
    #[default = 1.0]
    pub burst: f64,
    /// `pareto`: shape of the heavy-tailed (Pareto) flow sizes, over 0 to 10; default 1.2;
    /// smaller is more uneven.
    #[default = 1.2]
    pub pareto: f64,
    /// `seed`: the same seed gives the same packets; default 1.
    #[default = 1]
    pub seed: u64,
    /// `macs`: source and destination addresses on each side, 1 to 65,536; default 16.
    #[default = 16]
    pub macs: u32,
    /// `side`: 0 or 1; side 1 answers side 0 (addresses swapped); default 0.
    pub side: u8,
}

/// Frame sizes in bytes on the wire, without the frame check sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameSize {
    /// 60, 590 and 1514 bytes in the ratio 7 : 4 : 1 (64, 594 and 1518 with FCS).
    Imix,
    /// Always this many bytes, 60 to 9,014.
    Fixed(u16),
}

/// An invalid device string, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DeviceError(String);

/// The value of an option.
trait OptionValue: fmt::Display {
    /// Sets the value; returns whether the text is valid.
    fn set(&mut self, text: &str) -> bool;
}

impl<T: FromStr + fmt::Display> OptionValue for T {
    fn set(&mut self, text: &str) -> bool {
        text.parse().map(|value| *self = value).is_ok()
    }
}

/// An option of a device: its key, its valid values in words, the range of numbers, and its value.
type DeviceOption<'d> = (
    &'static str,
    &'static str,
    RangeInclusive<f64>,
    &'d mut dyn OptionValue,
);

/// The least number above 0.
const OVER_0: f64 = f64::from_bits(1);
/// The range of an option without limits.
const ANY: RangeInclusive<f64> = 0.0..=f64::MAX;

impl Replay {
    #[rustfmt::skip]
    fn options(&mut self) -> [DeviceOption<'_>; 2] {
        [
            ("speed", "a number over 0, up to 1000000", OVER_0..=1e6, &mut self.speed),
            ("loop", "a whole number, 0 for ever", ANY, &mut self.loops),
        ]
    }
}

impl Generate {
    #[rustfmt::skip]
    fn options(&mut self) -> [DeviceOption<'_>; 8] {
        [
            ("flows", "a whole number from 1 to 10000000", 1.0..=1e7, &mut self.flows),
            ("size", "imix or a whole number from 60 to 9014", 60.0..=9_014.0, &mut self.size),
            ("rate", "packets a second over 0, up to 100000000", OVER_0..=1e8, &mut self.rate_pps),
            ("burst", "a number from 1 to 1000", 1.0..=1e3, &mut self.burst),
            ("pareto", "a number over 0, up to 10", OVER_0..=10.0, &mut self.pareto),
            ("seed", "a whole number under 2^64", ANY, &mut self.seed),
            ("macs", "a whole number from 1 to 65536", 1.0..=65_536.0, &mut self.macs),
            ("side", "0 or 1", 0.0..=1.0, &mut self.side),
        ]
    }
}

impl Device {
    /// Whether the device is on the PCI bus, like a NIC; the switch creates and removes all others
    /// itself.
    pub fn is_pci(&self) -> bool {
        let Self::Dpdk(device) = self else {
            return false;
        };
        pci_address(device).is_some()
    }
}

/// Buses of DPDK 22.11 on which devices may be named as `BUS:NAME`.
const BUSES: [&str; 8] = [
    "pci",
    "vdev",
    "auxiliary",
    "vmbus",
    "dpaa_bus",
    "fslmc",
    "ifpga",
    "cdx",
];

/// Whether DPDK names devices like this: a PCI address, `net_...` (formerly also `eth_...`) for a virtual
/// device, or `BUS:NAME`.
pub(super) fn is_of_dpdk(name: &str) -> bool {
    let is_virtual = |name: &str| {
        ["net_", "eth_", "virtio_user"]
            .iter()
            .any(|start| name.starts_with(start))
    };
    let on_bus = name.split_once(':').filter(|(bus, _)| BUSES.contains(bus));
    on_bus.is_some() || is_virtual(name) || pci_address(name).is_some()
}

/// The PCI address at the start of a DPDK device string, as the kernel writes it (`0000:03:00.0`).
pub fn pci_address(device: &str) -> Option<String> {
    let name = device.split(',').next().unwrap_or_default();
    let (rest, function) = name.strip_prefix("pci:").unwrap_or(name).rsplit_once('.')?;
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    let parts: Vec<u32> = rest.split(':').map(number).collect::<Option<_>>()?;
    let (domain, bus, device) = match parts[..] {
        [bus, device] => (0, bus, device),
        [domain, bus, device] => (domain, bus, device),
        _ => return None,
    };
    let function = number(function)?;
    Some(format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}"))
}

/// The arguments of a DPDK device string: `iface` and `veth0` of `net_af_packet0,iface=veth0`. As in DPDK,
/// blanks are part of them.
pub fn arguments(device: &str) -> impl Iterator<Item = (&str, &str)> {
    let arguments = device.split(',').skip(1);
    arguments.filter_map(|argument| argument.split_once('='))
}

/// The value of one of these [`arguments`]: the last, if it is given more than once, as in DPDK's drivers.
pub fn argument<'d>(device: &'d str, key: &str) -> Option<&'d str> {
    let values = arguments(device).filter(|(name, _)| *name == key);
    values.last().map(|(_, value)| value)
}

impl Replay {
    /// Plays `file` once, at its own pace.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Self {
            file: file.into(),
            speed: 1.0,
            loops: 1,
        }
    }
}

impl FromStr for Device {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        const EMPTY: &str =
            "the device is empty; write sink, replay:FILE, generate:KEY=VALUE,... or a DPDK device";
        let (scheme, rest) = text.split_once(':').unwrap_or((text, ""));
        match scheme {
            "" if rest.is_empty() => Err(DeviceError(EMPTY.to_owned())),
            "sink" if rest.is_empty() => Ok(Self::Sink),
            "absent" if rest.is_empty() => Ok(Self::Absent),
            "replay" => replay(rest).map(Self::Replay),
            "generate" => generate(rest).map(Self::Generate),
            _ => Ok(Self::Dpdk(text.to_owned())),
        }
    }
}

fn replay(text: &str) -> Result<Replay, DeviceError> {
    // The last question mark, because the file name may contain others.
    let (file, query) = text.rsplit_once('?').unwrap_or((text, ""));
    if file.is_empty() {
        let words = "replay names no capture; write replay:FILE[?speed=X&loop=N]";
        return Err(DeviceError(words.to_owned()));
    }
    let mut replay = Replay::new(file);
    set("replay", &mut replay.options(), query, '&')?;
    Ok(replay)
}

fn generate(text: &str) -> Result<Generate, DeviceError> {
    let mut traffic = Generate::default();
    set("generate", &mut traffic.options(), text, ',')?;
    Ok(traffic)
}

/// Sets a device's options from text.
fn set(
    device: &str,
    options: &mut [DeviceOption<'_>],
    text: &str,
    separator: char,
) -> Result<(), DeviceError> {
    let keys: Vec<&str> = options.iter().map(|(key, ..)| *key).collect();
    let keys = keys.join(", ");
    let mut given = Vec::new();
    for part in text.split(separator).filter(|_| !text.is_empty()) {
        let error = |fault| Err(DeviceError(format!("{device}: {fault}")));
        let Some((key, text)) = part.split_once('=') else {
            return error(format!("`{part}` is not KEY=VALUE; keys are {keys}"));
        };
        if given.contains(&key) {
            return error(format!("`{key}` is given twice"));
        }
        let Some((_, expected, range, value)) = options.iter_mut().find(|(name, ..)| *name == key)
        else {
            return error(format!("unknown key `{key}`; keys are {keys}"));
        };
        let is_beyond = text
            .parse()
            .is_ok_and(|number: f64| !range.contains(&number));
        if is_beyond || !value.set(text) {
            return error(format!("`{key}={text}`: expected {expected}"));
        }
        given.push(key);
    }
    Ok(())
}

/// `KEY=VALUE` of the options that differ from their default.
fn changed(options: &[DeviceOption<'_>], defaults: &[DeviceOption<'_>]) -> Vec<String> {
    let texts = options.iter().zip(defaults);
    let texts = texts
        .map(|((key, .., value), (.., default))| (key, value.to_string(), default.to_string()));
    let differ = texts.filter(|(_, value, default)| value != default);
    differ
        .map(|(key, value, _)| format!("{key}={value}"))
        .collect()
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sink => f.write_str("sink"),
            Self::Replay(replay) => replay.fmt(f),
            Self::Generate(generate) => generate.fmt(f),
            Self::Dpdk(device) => f.write_str(device),
            Self::Absent => f.write_str("absent"),
        }
    }
}

impl fmt::Display for Replay {
    /// Writes only options that differ from their default.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display().to_string();
        let mut query = changed(&self.clone().options(), &Self::new("").options()).join("&");
        if query.is_empty() && file.contains('?') {
            // Otherwise the end of the name would be read as options.
            query = format!("loop={}", self.loops);
        }
        let mark = if query.is_empty() { "" } else { "?" };
        write!(f, "replay:{file}{mark}{query}")
    }
}

impl fmt::Display for Generate {
    /// Writes only options that differ from their default.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = changed(&self.clone().options(), &Self::default().options()).join(",");
        let colon = if list.is_empty() { "" } else { ":" };
        write!(f, "generate{colon}{list}")
    }
}

impl FromStr for FrameSize {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        match text {
            "imix" => Ok(Self::Imix),
            bytes => bytes.parse().map(Self::Fixed),
        }
    }
}

impl fmt::Display for FrameSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Imix => f.write_str("imix"),
            Self::Fixed(bytes) => bytes.fmt(f),
        }
    }
}

impl JsonSchema for Device {
    fn schema_name() -> Cow<'static, str> {
        "Device".into()
    }

    /// A string; `x-options` describes the options of `replay` and `generate`.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let options = |schema: Schema| schema.get("properties").cloned();
        let replay = options(Replay::json_schema(generator));
        let generate = options(Generate::json_schema(generator));
        json_schema!({
            "type": "string",
            "description": "A port's device: where its packets come from and go to.",
            "anyOf": [
                { "const": "sink", "description": "Receives nothing, swallows what it is sent." },
                {
                    "pattern": "^replay:.",
                    "description": "`replay:FILE[?speed=X&loop=N]`: receives a capture (pcap or \
                                    pcapng) with its own timing.",
                    "x-options": replay,
                },
                {
                    "pattern": "^generate(:|$)",
                    "description": "`generate[:KEY=VALUE,...]`: receives seeded traffic.",
                    "x-options": generate,
                },
                {
                    "pattern": "^(?!sink$|replay:|generate(:|$)).",
                    "description": "Any DPDK device: `0000:03:00.0`, \
                                    `net_af_packet0,iface=eth1`, `net_af_xdp0,iface=eth1`, ...",
                },
            ],
        })
    }
}

as_text!(Device);

#[cfg(test)]
mod tests;
