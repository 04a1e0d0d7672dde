//! Device strings: where a port's packets come from and go to.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

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
    /// Anything else: a DPDK device string (`0000:03:00.0`, `net_af_packet0,iface=veth0`, ...).
    Dpdk(String),
    /// No device any more: the place of a port that was taken away while the switch runs
    /// ([`Config::in_place_of`](super::Config::in_place_of)). No text means this.
    Absent,
}

/// A capture to be received.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
pub struct Replay {
    /// A pcap or pcapng file of Ethernet frames.
    pub file: PathBuf,
    /// `speed`: times the capture's own pace, over 0 to 1,000,000; default 1.
    pub speed: f64,
    /// `loop`: how often it is played, 0 for ever; default 1.
    #[schemars(rename = "loop")]
    pub loops: u64,
}

/// Seeded traffic.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
pub struct Generate {
    /// `flows`: how many, 1 to 10,000,000; default 1,000.
    pub flows: u32,
    /// `size`: frame sizes; default `imix`.
    #[schemars(with = "String")]
    pub size: FrameSize,
    /// `rate`: mean packets a second, over 0 to 100,000,000; default 100,000.
    #[schemars(rename = "rate")]
    pub rate_pps: f64,
    /// `burst`: mean packets that come back to back (geometric), 1 to 1,000; default 1 (Poisson).
    pub burst: f64,
    /// `pareto`: shape of the heavy-tailed (Pareto) flow sizes, over 0 to 10; default 1.2;
    /// smaller is more uneven.
    pub pareto: f64,
    /// `seed`: the same seed gives the same packets; default 1.
    pub seed: u64,
    /// `macs`: source and destination addresses on each side, 1 to 65,536; default 16.
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

/// A device string that means nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// There is nothing in it.
    #[error(
        "the device is empty; write sink, replay:FILE, generate:KEY=VALUE,... or a DPDK device"
    )]
    Empty,
    /// `replay` names no capture.
    #[error("replay names no capture; write replay:FILE[?speed=X&loop=N]")]
    NoFile,
    /// A part is not `KEY=VALUE`.
    #[error("{device}: `{part}` is not KEY=VALUE; keys are {keys}")]
    NotKeyValue {
        /// `replay` or `generate`.
        device: &'static str,
        /// The part.
        part: String,
        /// Keys there are.
        keys: &'static str,
    },
    /// A key that there is not.
    #[error("{device}: unknown key `{key}`; keys are {keys}")]
    UnknownKey {
        /// `replay` or `generate`.
        device: &'static str,
        /// The key.
        key: String,
        /// Keys there are.
        keys: &'static str,
    },
    /// A key given twice.
    #[error("{device}: `{key}` is given twice")]
    Twice {
        /// `replay` or `generate`.
        device: &'static str,
        /// The key.
        key: String,
    },
    /// A value out of its range.
    #[error("{device}: `{key}={value}`: expected {expected}")]
    Value {
        /// `replay` or `generate`.
        device: &'static str,
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
}

const REPLAY_KEYS: &str = "speed, loop";
const GENERATE_KEYS: &str = "flows, size, rate, burst, pareto, seed, macs, side";

impl Device {
    /// Whether it is on the PCI bus, as NICs are; all others come and go as the switch likes.
    pub fn is_pci(&self) -> bool {
        let Self::Dpdk(device) = self else {
            return false;
        };
        // Domain, bus, device and function in hexadecimal; the domain may be left out.
        device.starts_with(|first: char| first.is_ascii_hexdigit()) && device.contains(':')
    }
}

impl Replay {
    /// `file` once, at its own pace.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Self {
            file: file.into(),
            speed: 1.0,
            loops: 1,
        }
    }
}

impl Default for Generate {
    fn default() -> Self {
        Self {
            flows: 1_000,
            size: FrameSize::Imix,
            rate_pps: 100_000.0,
            burst: 1.0,
            pareto: 1.2,
            seed: 1,
            macs: 16,
            side: 0,
        }
    }
}

impl FromStr for Device {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        let (scheme, rest) = text.split_once(':').unwrap_or((text, ""));
        match scheme {
            "" if rest.is_empty() => Err(DeviceError::Empty),
            "sink" if rest.is_empty() => Ok(Self::Sink),
            "replay" => replay(rest).map(Self::Replay),
            "generate" => generate(rest).map(Self::Generate),
            _ => Ok(Self::Dpdk(text.to_owned())),
        }
    }
}

fn replay(text: &str) -> Result<Replay, DeviceError> {
    // The last question mark, so that a file name may hold others.
    let (file, query) = text.rsplit_once('?').unwrap_or((text, ""));
    if file.is_empty() {
        return Err(DeviceError::NoFile);
    }
    let mut replay = Replay::new(file);
    for option in options("replay", query, '&', REPLAY_KEYS)? {
        match option.key {
            "speed" => {
                replay.speed = option.number("a number over 0, up to 1000000", |&x: &f64| {
                    x > 0.0 && x <= 1e6
                })?;
            }
            "loop" => replay.loops = option.number("a whole number, 0 for ever", |_| true)?,
            _ => return Err(option.unknown()),
        }
    }
    Ok(replay)
}

fn generate(text: &str) -> Result<Generate, DeviceError> {
    let mut traffic = Generate::default();
    for option in options("generate", text, ',', GENERATE_KEYS)? {
        match option.key {
            "flows" => {
                traffic.flows = option.number("a whole number from 1 to 10000000", |n| {
                    (1..=10_000_000).contains(n)
                })?;
            }
            "size" if option.value == "imix" => traffic.size = FrameSize::Imix,
            "size" => {
                let bytes = option.number("imix or a whole number from 60 to 9014", |n| {
                    (60..=9_014).contains(n)
                })?;
                traffic.size = FrameSize::Fixed(bytes);
            }
            "rate" => {
                traffic.rate_pps = option
                    .number("packets a second over 0, up to 100000000", |&x: &f64| {
                        x > 0.0 && x <= 1e8
                    })?;
            }
            "burst" => {
                traffic.burst =
                    option.number("a number from 1 to 1000", |x: &f64| (1.0..=1e3).contains(x))?;
            }
            "pareto" => {
                traffic.pareto =
                    option.number("a number over 0, up to 10", |&x: &f64| x > 0.0 && x <= 10.0)?;
            }
            "seed" => traffic.seed = option.number("a whole number under 2^64", |_| true)?,
            "macs" => {
                traffic.macs = option.number("a whole number from 1 to 65536", |n| {
                    (1..=65_536).contains(n)
                })?;
            }
            "side" => traffic.side = option.number("0 or 1", |&n| n <= 1)?,
            _ => return Err(option.unknown()),
        }
    }
    Ok(traffic)
}

/// One `KEY=VALUE` of a device string.
struct KeyValue<'t> {
    device: &'static str,
    keys: &'static str,
    key: &'t str,
    value: &'t str,
}

impl KeyValue<'_> {
    fn number<T: FromStr>(
        &self,
        expected: &'static str,
        is_allowed: impl Fn(&T) -> bool,
    ) -> Result<T, DeviceError> {
        let value = self.value.parse().ok().filter(is_allowed);
        value.ok_or_else(|| DeviceError::Value {
            device: self.device,
            key: self.key.to_owned(),
            value: self.value.to_owned(),
            expected,
        })
    }

    fn unknown(&self) -> DeviceError {
        DeviceError::UnknownKey {
            device: self.device,
            key: self.key.to_owned(),
            keys: self.keys,
        }
    }
}

fn options<'t>(
    device: &'static str,
    text: &'t str,
    separator: char,
    keys: &'static str,
) -> Result<Vec<KeyValue<'t>>, DeviceError> {
    let mut options: Vec<KeyValue<'t>> = Vec::new();
    for part in text.split(separator).filter(|_| !text.is_empty()) {
        let Some((key, value)) = part.split_once('=') else {
            let part = part.to_owned();
            return Err(DeviceError::NotKeyValue { device, part, keys });
        };
        if options.iter().any(|option| option.key == key) {
            let key = key.to_owned();
            return Err(DeviceError::Twice { device, key });
        }
        options.push(KeyValue {
            device,
            keys,
            key,
            value,
        });
    }
    Ok(options)
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
    /// Of the keys only those that differ from the default.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = |r: &Self| {
            [
                ("speed", r.speed.to_string()),
                ("loop", r.loops.to_string()),
            ]
        };
        let file = self.file.display().to_string();
        let mut query = changed(&keys(self), &keys(&Self::new(""))).join("&");
        if query.is_empty() && file.contains('?') {
            // Or the end of the name would be taken for keys.
            query = format!("loop={}", self.loops);
        }
        let mark = if query.is_empty() { "" } else { "?" };
        write!(f, "replay:{file}{mark}{query}")
    }
}

impl fmt::Display for Generate {
    /// Of the keys only those that differ from the default.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = |t: &Self| {
            [
                ("flows", t.flows.to_string()),
                ("size", t.size.to_string()),
                ("rate", t.rate_pps.to_string()),
                ("burst", t.burst.to_string()),
                ("pareto", t.pareto.to_string()),
                ("seed", t.seed.to_string()),
                ("macs", t.macs.to_string()),
                ("side", t.side.to_string()),
            ]
        };
        let list = changed(&keys(self), &keys(&Self::default())).join(",");
        let colon = if list.is_empty() { "" } else { ":" };
        write!(f, "generate{colon}{list}")
    }
}

/// `KEY=VALUE` of the keys whose value is not the default.
fn changed(keys: &[(&str, String)], defaults: &[(&str, String)]) -> Vec<String> {
    let differ = keys
        .iter()
        .zip(defaults)
        .filter(|(now, default)| now != default);
    differ
        .map(|((key, value), _)| format!("{key}={value}"))
        .collect()
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

    /// One string; `x-options` says what the keys of our own kinds mean.
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

impl TryFrom<String> for Device {
    type Error = DeviceError;

    fn try_from(text: String) -> Result<Self, DeviceError> {
        text.parse()
    }
}

impl From<Device> for String {
    fn from(device: Device) -> Self {
        device.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn error(text: &str) -> String {
        text.parse::<Device>().unwrap_err().to_string()
    }

    #[test]
    fn each_kind_is_told_from_the_others() {
        assert_eq!("sink".parse(), Ok(Device::Sink));
        let nic = "0000:03:00.0";
        assert_eq!(nic.parse(), Ok(Device::Dpdk(nic.to_owned())));
        let vdev = "net_pcap0,rx_pcap=a?b.pcap,infinite_rx=1";
        assert_eq!(vdev.parse(), Ok(Device::Dpdk(vdev.to_owned())));
        assert_eq!(
            "replay:/a b/c?d.pcap?speed=2.5&loop=0".parse(),
            Ok(Device::Replay(Replay {
                file: "/a b/c?d.pcap".into(),
                speed: 2.5,
                loops: 0,
            }))
        );
        assert_eq!(
            "generate".parse(),
            Ok(Device::Generate(Generate::default()))
        );
        assert_eq!(
            "generate:flows=7,size=128,rate=2e3,side=1".parse(),
            Ok(Device::Generate(Generate {
                flows: 7,
                size: FrameSize::Fixed(128),
                rate_pps: 2_000.0,
                side: 1,
                ..Generate::default()
            }))
        );
    }

    #[test]
    fn errors_name_key_value_and_what_is_allowed() {
        assert_eq!(
            error("generate:flows=0"),
            "generate: `flows=0`: expected a whole number from 1 to 10000000"
        );
        assert_eq!(
            error("generate:sise=64"),
            "generate: unknown key `sise`; keys are flows, size, rate, burst, pareto, seed, macs, \
             side"
        );
        assert_eq!(
            error("generate:rate=nan"),
            "generate: `rate=nan`: expected packets a second over 0, up to 100000000"
        );
        assert_eq!(
            error("generate:seed=1,seed=2"),
            "generate: `seed` is given twice"
        );
        assert_eq!(
            error("replay:a.pcap?fast"),
            "replay: `fast` is not KEY=VALUE; keys are speed, loop"
        );
        assert_eq!(
            error("replay:a.pcap?speed=0"),
            "replay: `speed=0`: expected a number over 0, up to 1000000"
        );
        assert!(error("replay:").contains("names no capture"));
        assert!(error("replay:?loop=0").contains("names no capture"));
        assert!(error("").contains("the device is empty"));
    }

    fn any_device() -> impl Strategy<Value = Device> {
        let size = prop_oneof![
            Just(FrameSize::Imix),
            (60..=9_014_u16).prop_map(FrameSize::Fixed)
        ];
        let numbers = (1.0..1e3_f64, 0.01..10.0_f64, any::<u64>());
        let counts = (1..=10_000_000_u32, 1..=65_536_u32, 0..=1_u8);
        let generate = (counts, size, 0.001..1e8_f64, numbers).prop_map(
            |((flows, macs, side), size, rate_pps, (burst, pareto, seed))| {
                Device::Generate(Generate {
                    flows,
                    size,
                    rate_pps,
                    burst,
                    pareto,
                    seed,
                    macs,
                    side,
                })
            },
        );
        let replay =
            ("[a-z?:/=&]{1,12}", 0.001..1e6_f64, 0..3_u64).prop_map(|(file, speed, loops)| {
                Device::Replay(Replay {
                    file: file.into(),
                    speed,
                    loops,
                })
            });
        let once = "[a-z?]{1,12}".prop_map(|file: String| Device::Replay(Replay::new(file)));
        prop_oneof![Just(Device::Sink), generate, replay, once]
    }

    proptest! {
        #[test]
        fn display_and_parse_round_trip(device in any_device()) {
            prop_assert_eq!(device.to_string().parse(), Ok(device));
        }

        #[test]
        fn no_string_panics(text in "(replay|generate|sink)?[:?=&,a-z0-9.]*") {
            let _ = text.parse::<Device>();
        }
    }
}
