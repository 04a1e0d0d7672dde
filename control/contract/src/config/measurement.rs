//! What is measured, and how.

use std::collections::HashSet;
use std::time::Duration;

use measure::InvalidArgument;
use measure::digest::DEVICE_PORTS_MAX;
use measure::lda::{Bank, LdaLayout};
use measure::shard::SegmentLayout;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use super::class::flow_rules;
use super::document::{Check, KeyPath, all, each, ensure, known, laid_out, unique};
use super::resolve::LayoutError;
use super::validate::port_names;
use super::{CLASSES_MAX, Config, FlowRule, Forwarding, PORTS_MAX, number};

/// What is measured.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Measurement {
    /// If false, packets are forwarded, but nothing is hashed, stamped or recorded.
    #[default = true]
    pub enabled: bool,
    /// Length of an epoch, 10 to 60,000 ms.
    #[schemars(range(min = 10, max = 60_000))]
    #[default = 1_000]
    pub interval_ms: u32,
    /// How long an epoch waits for packets still queued at its end, under half of `interval_ms`.
    /// Default: 100 ms or two fifths of the interval, whichever is less.
    pub grace_ms: Option<u32>,
    /// Seed of the packet and flow hashes, as 32 hexadecimal digits. If omitted, random at every
    /// start.
    #[schemars(regex(pattern = "^[0-9A-Fa-f]{32}$"))]
    pub hash_seed: Option<String>,
    /// How often the clock is read.
    pub stamps: Stamps,
    /// The measured segments, each in every class. If omitted, all that packets can take.
    #[schemars(length(min = 1))]
    pub segments: Option<Vec<SegmentPorts>>,
    /// Other devices around which packets leave this switch and come back to it, at most 16. Default: none.
    #[schemars(length(max = 16))]
    pub around: Vec<Around>,
    /// The estimator at both ends of every segment; `null` disables it.
    #[default(Some(Lda::default()))]
    pub lda: Option<Lda>,
    /// The sketch of per-flow delays at every egress port. Default: none.
    pub lds: Option<Lds>,
    /// Reference packets inside the switch. Default: none.
    pub rli: Option<Rli>,
    /// Flows with counters of their own. Default: none.
    pub flows: Option<Flows>,
}

/// How often the clock is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stamps {
    /// Once for every burst received and every burst sent; all packets of a burst share the time.
    #[default]
    Burst,
    /// Once for every packet, at both ends.
    Packet,
}

/// The ports of a segment, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SegmentPorts {
    /// The port where its packets arrive.
    pub from: String,
    /// The port where they leave.
    pub to: String,
}

/// Another device (a firewall, a router, a cable) between ports of this switch: a packet that leaves by one
/// of the ports is expected at the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Around {
    /// Its name, with the characters of a port's name and different from all of them; its segments
    /// lead from `name:port` to `name:port`.
    #[schemars(regex(pattern = "^[A-Za-z0-9._-]{1,64}$"))]
    pub name: String,
    /// The ports of this switch that lead to it, 2 to 16. A port leads to one device only, and has no `wire`.
    #[schemars(length(min = 2, max = DEVICE_PORTS_MAX))]
    pub ports: Vec<String>,
    /// How long a packet may take, 1 to 10,000 ms, default 1,000; after that it counts as lost.
    #[serde(default = "number::<u32, 1_000>")]
    #[schemars(range(min = 1, max = 10_000))]
    pub timeout_ms: u32,
    /// Packets inside the device at a time, including lost ones until they time out, 64 to 67,108,864,
    /// default 262,144; 8 bytes each. When the table is full, the oldest are evicted, counted neither as
    /// measured nor as lost.
    #[serde(default = "number::<u32, 262_144>")]
    #[schemars(range(min = 64, max = 67_108_864))]
    pub packets: u32,
}

/// A Lossy Difference Aggregator.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Lda {
    /// One bank for each loss rate to prepare for, 1 to 16.
    #[schemars(length(min = 1, max = 16))]
    #[default(vec![LdaBank { rows: 1_024, probability: 1.0 }])]
    pub banks: Vec<LdaBank>,
}

/// A bank of an LDA.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LdaBank {
    /// Rows, 1 to 65,536.
    #[schemars(range(min = 1, max = 65_536))]
    pub rows: u32,
    /// Share of packets sampled into this bank, over 0 to 1. Samples are disjoint, so the
    /// probabilities of all banks add up to at most 1.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub probability: f64,
}

/// A Lossy Difference Sketch.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Lds {
    /// Cells of all rows together, 16 to 16,777,216, default 70,000. About one cell for every two
    /// flows active in an epoch is enough.
    #[schemars(range(min = 16, max = 16_777_216))]
    #[default = 70_000]
    pub cells: u32,
    /// Share of packets that each row samples, over 0 to 1 each; 1 to 4 rows. Default: 3 rows that
    /// sample all.
    #[schemars(length(min = 1, max = 4))]
    #[schemars(extend("items" = { "type": "number", "exclusiveMinimum": 0, "maximum": 1 }))]
    #[default(vec![1.0; 3])]
    pub rows: Vec<f64>,
    /// Cells of a flow in each row (k), 1 to 1,024, default 1; a greater number survives more
    /// losses.
    #[schemars(range(min = 1, max = 1_024))]
    #[default = 1]
    pub virtual_cells: u32,
    /// Joint estimates of all tracked flows from all cells; `null` estimates only flows that a
    /// client asks for.
    #[default(Some(Decode::default()))]
    pub decode: Option<Decode>,
}

/// When and how a sketch is decoded.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Decode {
    /// Components of the prior (K), 1 to 3, default 1; more if flows take paths of different delay.
    #[schemars(range(min = 1, max = 3))]
    #[default = 1]
    pub components: u8,
    /// If decoding an epoch takes longer than four fifths of an epoch, the sum of the last epochs is
    /// decoded instead, once in this many seconds; 1 to 3,600, default 10.
    #[schemars(range(min = 1, max = 3_600))]
    #[default = 10]
    pub interval_s: u32,
}

/// Reference Latency Interpolation inside the switch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rli {
    /// When references are injected into each stream, which is the packets that one worker sends on a
    /// segment.
    pub policy: RliPolicy,
    /// How delays between references are estimated.
    #[serde(default)]
    pub method: RliMethod,
}

/// When references are injected.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum RliPolicy {
    /// After every `packets` regular packets, 1 to 1,000,000.
    Count {
        /// n of 1-in-n.
        #[schemars(range(min = 1, max = 1_000_000))]
        packets: u32,
    },
    /// `interval_us` after the last reference, 1 to 10,000,000.
    Time {
        /// tau of 1-in-tau.
        #[schemars(range(min = 1, max = 10_000_000))]
        interval_us: u32,
    },
    /// At the earlier of the two.
    Either {
        /// n.
        #[schemars(range(min = 1, max = 1_000_000))]
        packets: u32,
        /// tau.
        #[schemars(range(min = 1, max = 10_000_000))]
        interval_us: u32,
    },
    /// By the link's utilisation (Lee et al. 2010, Algorithm 1), 1-in-10 to 1-in-300; needs the
    /// egress port's `capacity_bps`.
    Adaptive,
}

/// How delays between references are estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RliMethod {
    /// RLI-AS if the egress point sees the whole port and stamps are per packet, else RLI-S.
    #[default]
    Auto,
    /// RLI-L: the left reference's delay.
    Left,
    /// RLI: linear between references.
    Linear,
    /// RLI-S: linear, scaled to the sums that references carry.
    Sums,
    /// RLI-AS: the wait curve, anchored at busy periods.
    AnchoredSums,
}

/// Flows with counters of their own.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Flows {
    /// Flows that each worker can track at a time, 16 to 16,777,216, default 65,536; packets of
    /// further flows are counted together.
    #[schemars(range(min = 16, max = 16_777_216))]
    #[default = 65_536]
    pub slots: u32,
    /// Which flows get counters.
    pub select: FlowSelection,
    /// Seconds without a packet after which a flow returns its slot, 1 to 86,400, default 30.
    #[schemars(range(min = 1, max = 86_400))]
    #[default = 30]
    pub idle_s: u32,
}

/// Which flows get counters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlowSelection {
    /// Every flow, as long as slots are free.
    #[default]
    All,
    /// A share of flows by hash, 0 to 1, the same flows at every point.
    Sampled(#[schemars(range(min = 0, max = 1))] f64),
    /// Flows that match one of at most 256 rules.
    Rules(#[schemars(length(min = 1, max = 256))] Vec<FlowRule>),
    /// The flows with the most packets; smaller ones are evicted when slots run out.
    Top,
}

impl FlowSelection {
    /// A sampled share selects flows whose hash has an upper half below this.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "0 to 2^32"
    )]
    pub fn sampled_below(&self) -> u64 {
        match self {
            Self::Sampled(share) => (share * 2_f64.powi(32)).round() as u64,
            Self::All | Self::Top | Self::Rules(_) => 1 << 32,
        }
    }
}

impl Lda {
    /// The layout of its banks.
    ///
    /// # Errors
    /// [`InvalidArgument`] for sizes out of range.
    pub fn layout(&self) -> Result<LdaLayout, InvalidArgument> {
        let bank = |bank: &LdaBank| Bank {
            rows: bank.rows,
            probability: bank.probability,
        };
        LdaLayout::new(&self.banks.iter().map(bank).collect::<Vec<_>>())
    }
}

impl Measurement {
    /// The layout of the synopses of each segment.
    ///
    /// # Errors
    /// [`LayoutError`] for sizes out of range.
    pub fn segment_layout(&self) -> Result<SegmentLayout, LayoutError> {
        let lda = self.lda.as_ref().map(Lda::layout).transpose();
        Ok(SegmentLayout {
            lda: lda.map_err(LayoutError::of("measurement.lda.banks"))?,
        })
    }

    /// Length of an epoch.
    pub fn interval(&self) -> Duration {
        Duration::from_millis(self.interval_ms.into())
    }

    /// Epochs without a packet after which a flow is forgotten, inside the switch and on wires.
    pub fn idle_epochs(&self) -> u64 {
        let unset = Flows::default();
        let seconds = self.flows.as_ref().unwrap_or(&unset).idle_s;
        (u64::from(seconds) * 1_000).div_ceil(u64::from(self.interval_ms.max(1)))
    }

    /// How long an epoch waits for packets still queued at its end.
    pub fn grace(&self) -> Duration {
        let usual_ms = 100.min(self.interval_ms * 2 / 5);
        Duration::from_millis(self.grace_ms.unwrap_or(usual_ms).into())
    }

    /// The configured seed of the hashes; `None` if a seed is drawn at start.
    pub fn hash_key(&self) -> Option<[u8; 16]> {
        let digits = self.hash_seed.as_deref()?;
        u128::from_str_radix(digits, 16).ok().map(u128::to_be_bytes)
    }
}

// A segment's number has 16 bits, and the last one means "none".
const _: () = assert!(PORTS_MAX * (PORTS_MAX + DEVICE_PORTS_MAX) * CLASSES_MAX < u16::MAX as usize);

pub(super) fn measurement(path: &KeyPath, config: &Config) -> Check {
    let measurement = &config.measurement;
    let interval_ms = measurement.interval_ms;
    let grace = measurement.grace();
    let short_grace = ensure(
        grace * 2 < measurement.interval(),
        path.key("grace_ms"),
        format!("less than half of interval_ms ({interval_ms})"),
        grace.as_millis(),
    );
    let rules = match measurement.flows.as_ref().map(|flows| &flows.select) {
        Some(FlowSelection::Rules(rules)) => &rules[..],
        _ => &[],
    };
    let seed = measurement.hash_seed.as_deref().map(|seed| {
        let holds = seed.len() == 32 && seed.chars().all(|c| c.is_ascii_hexdigit());
        // The seed is a secret, so its characters are counted, not quoted.
        let got = format!("{} characters, or others", seed.chars().count());
        ensure(holds, path.key("hash_seed"), "32 hexadecimal digits", got)
    });
    let of = |key: &'static str| path.key(key);
    let pairs = measurement.segments.as_ref();
    let (lda, lds, rli) = (&measurement.lda, &measurement.lds, &measurement.rli);
    let checks = [
        Some(short_grace),
        seed,
        pairs.map(|pairs| segments(&of("segments"), pairs, config)),
        Some(around(&of("around"), config)),
        lda.as_ref().map(|lda| self::lda(&of("lda"), lda)),
        lds.as_ref().map(|lds| self::lds(&of("lds"), lds)),
        rli.as_ref().map(|rli| self::rli(&of("rli"), rli, config)),
        Some(flow_rules(&of("flows").key("select").key("rules"), rules)),
    ];
    all(checks.into_iter().flatten())
}

/// Checks that packets can take these segments.
fn segments(path: &KeyPath, segments: &[SegmentPorts], config: &Config) -> Check {
    let expected = "at least one segment (or omit the key for all)";
    ensure(!segments.is_empty(), path.clone(), expected, "none")?;
    let names = port_names(config);
    let mut seen = HashSet::new();
    each(path, segments, |path, SegmentPorts { from, to }| {
        known(path.key("from"), from, "port", &names)?;
        known(path.key("to"), to, "port", &names)?;
        let (exists, expected) = match &config.forwarding {
            Forwarding::Bridge { .. } => (from != to, format!("a port other than {from}")),
            Forwarding::Patch { pairs, .. } => {
                let ends = |(a, b): &(String, String)| (a == from && b == to, a == to && b == from);
                let is_patched = pairs.iter().map(ends).any(|(there, back)| there || back);
                (is_patched, format!("the port that {from} is patched to"))
            }
            Forwarding::Host => (true, String::new()),
        };
        ensure(exists, path.key("to"), expected, format!("{to:?}"))?;
        unique(&mut seen, (from, to), path, "a segment once")
    })
}

/// Checks the devices that packets come back from.
fn around(path: &KeyPath, config: &Config) -> Check {
    let names = port_names(config);
    let (mut devices, mut taken) = (HashSet::new(), HashSet::new());
    each(path, &config.measurement.around, |path, around| {
        let (key, device) = (path.key("name"), around.name.as_str());
        let (is_free, got) = (!names.contains(&device), format!("{device:?}"));
        ensure(is_free, key.clone(), "a name that no port has", got)?;
        unique(&mut devices, device, key, "a unique name")?;
        for (index, port) in around.ports.iter().enumerate() {
            let path = path.key("ports").index(index);
            known(path.clone(), port, "port", &names)?;
            let what = "a port that leads to no other device";
            unique(&mut taken, port.as_str(), path.clone(), what)?;
            let mut ports = config.ports.iter();
            let has_wire = ports.any(|of| of.name == *port && of.wire.is_some());
            let expected = "a port without a `wire`: the other switch is at the end of the device's segment, not this one";
            ensure(!has_wire, path, expected, format!("{port:?}"))?;
        }
        Ok(())
    })
}

pub(super) fn lda(path: &KeyPath, lda: &Lda) -> Check {
    let path = path.key("banks");
    let sum: f64 = lda.banks.iter().map(|bank| bank.probability).sum();
    // Decimal fractions do not add up exactly in binary.
    let expected = "probabilities that add up to 1 at most (samples are disjoint)";
    ensure(sum <= 1.0 + 1e-9, path.clone(), expected, sum)?;
    laid_out(path, lda.layout(), "banks that can be laid out").map(drop)
}

fn lds(path: &KeyPath, lds: &Lds) -> Check {
    row_holds(path, lds.virtual_cells, lds.cells, lds.rows.len())?;
    laid_out(path.clone(), lds.layout(), "rows that can be laid out").map(drop)
}

/// Checks that a row of a sketch has as many cells as a flow has in it.
pub(super) fn row_holds(path: &KeyPath, virtual_cells: u32, cells: u32, rows: usize) -> Check {
    let row = cells as usize / rows;
    let expected = format!("no more than a row has ({row} cells)");
    let path = path.key("virtual_cells");
    ensure(virtual_cells as usize <= row, path, expected, virtual_cells)
}

fn rli(path: &KeyPath, rli: &Rli, config: &Config) -> Check {
    if rli.policy == RliPolicy::Adaptive {
        capacities(path.key("policy").key("kind"), "adaptive", config)?;
    }
    let method = path.key("method");
    if rli.method == RliMethod::AnchoredSums {
        let is_exact = config.measurement.stamps == Stamps::Packet;
        let expected = "`measurement.stamps` to be `packet` with anchored_sums";
        ensure(is_exact, method.clone(), expected, "`burst`")?;
        capacities(method, "anchored_sums", config)?;
    }
    Ok(())
}

/// Checks that every port by which measured packets leave has a capacity.
fn capacities(path: KeyPath, what: &str, config: &Config) -> Check {
    let ports = config.resolve().sketch_ports;
    let mut ports = ports.into_iter().filter_map(|port| config.ports.get(port));
    let without = ports.find(|port| port.egress.capacity_bps.is_none());
    let name = without.map_or("", |port| &port.name);
    let expected = format!("`egress.capacity_bps` on every egress port, which {what} needs");
    ensure(without.is_none(), path, expected, format!("none on {name}"))
}
