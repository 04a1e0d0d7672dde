//! What is done to which packets.

use std::fs;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Result, ensure};
use contract::address::MacAddress;
use serde::Deserialize;
use serde_json::{Map, Value};
use testkit::frames::{Class, KINDS, MARKER};

/// Which packets a rule is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "String")]
pub enum Only {
    #[default]
    All,
    Data,
    /// Control frames of any kind.
    Control,
    /// Control frames of this kind.
    Kind(u8),
    /// This copy of each marker.
    Marker(u8),
}

impl Only {
    /// Whether a packet is one of them.
    pub fn takes(self, class: Class) -> bool {
        match self {
            Self::All => true,
            Self::Data => !class.is_control(),
            Self::Control => class.is_control(),
            Self::Kind(kind) => class.kind == kind,
            Self::Marker(copy) => class.kind == MARKER && class.copy == copy,
        }
    }
}

impl TryFrom<String> for Only {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "all" => return Ok(Self::All),
            "data" => return Ok(Self::Data),
            "control" => return Ok(Self::Control),
            _ => {}
        }
        if let Some(copy) = text.strip_prefix("marker:") {
            let copy = copy.parse().ok().filter(|copy| *copy < 3_u8);
            return copy
                .map(Self::Marker)
                .ok_or("copies of a marker are 0 to 2".to_owned());
        }
        let kind = (0..).zip(KINDS).find(|(_, name)| *name == text);
        kind.map(|(kind, _)| Self::Kind(kind)).ok_or_else(|| {
            let kinds = KINDS.join(", ");
            format!("only={text}: expected all, control, marker:COPY or one of {kinds}")
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JitterShape {
    /// Evenly, so much to either side.
    #[default]
    Uniform,
    /// By a bell curve with that standard deviation.
    Normal,
}

/// A rule: what is done to packets, and to which. Shares are probabilities, 0 to 1.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Impairment {
    pub only: Only,
    /// Delay of all, microseconds.
    pub delay_us: f64,
    /// Further delay by chance, which may be negative; no packet leaves before it came.
    pub jitter_us: f64,
    pub jitter_shape: JitterShape,
    /// Whether packets of this rule stay in order nevertheless.
    pub keep_order: bool,
    /// Rate of the link behind, Mbit/s of frames without preamble and gap; none: no limit.
    pub rate_mbps: Option<f64>,
    /// Bytes that may wait for it; more are dropped.
    pub queue_bytes: u64,
    pub loss: f64,
    /// Losses come in bad times of this many packets on average (Gilbert); 0: each by itself.
    pub burst_packets: f64,
    /// Share that is lost in bad times (Elliott).
    pub burst_loss: f64,
    pub duplicate: f64,
    /// Share that is held back.
    pub reorder: f64,
    /// It is held back until this many of the rule's packets have overtaken it (or
    /// `reorder_us` are over) ...
    pub reorder_packets: u32,
    /// ... or, where that is 0, for this long. Microseconds.
    pub reorder_us: f64,
    /// Share with a bit behind the Ethernet header inverted.
    pub corrupt: f64,
    /// Take one off the time to live, as a router does.
    pub hop: bool,
    pub source_mac: Option<MacAddress>,
    pub destination_mac: Option<MacAddress>,
    pub dscp: Option<u8>,
    /// Take the outer VLAN tag off.
    pub vlan_pop: bool,
    /// Put a VLAN tag on, with this tag control information.
    pub vlan_push: Option<u16>,
}

impl Default for Impairment {
    /// Nothing is done.
    fn default() -> Self {
        Self {
            only: Only::All,
            delay_us: 0.0,
            jitter_us: 0.0,
            jitter_shape: JitterShape::Uniform,
            keep_order: true,
            rate_mbps: None,
            queue_bytes: 1_500_000,
            loss: 0.0,
            burst_packets: 0.0,
            burst_loss: 1.0,
            duplicate: 0.0,
            reorder: 0.0,
            reorder_packets: 0,
            reorder_us: 1_000.0,
            corrupt: 0.0,
            hop: false,
            source_mac: None,
            destination_mac: None,
            dscp: None,
            vlan_pop: false,
            vlan_push: None,
        }
    }
}

impl Impairment {
    /// Fails at the first number that makes no sense.
    pub fn check(&self) -> Result<()> {
        for (key, share) in [
            ("loss", self.loss),
            ("burst_loss", self.burst_loss),
            ("duplicate", self.duplicate),
            ("reorder", self.reorder),
            ("corrupt", self.corrupt),
        ] {
            let holds = (0.0..=1.0).contains(&share);
            ensure!(holds, "{key}={share}: expected a share from 0 to 1");
        }
        for (key, time) in [
            ("delay_us", self.delay_us),
            ("jitter_us", self.jitter_us),
            ("reorder_us", self.reorder_us),
        ] {
            let holds = (0.0..=60e6).contains(&time);
            ensure!(holds, "{key}={time}: expected 0 to 60000000 microseconds");
        }
        if let Some(rate) = self.rate_mbps {
            let holds = rate.is_finite() && rate > 0.0;
            ensure!(holds, "rate_mbps={rate}: expected a rate over 0");
        }
        let bursts = self.burst_packets;
        let holds = bursts == 0.0 || (1.0..=1e9).contains(&bursts);
        ensure!(
            holds,
            "burst_packets={bursts}: expected 0, or 1 or more packets"
        );
        if bursts > 0.0 {
            let bad = self.loss / self.burst_loss;
            let holds = bad < 1.0 && bad / (1.0 - bad) <= bursts;
            ensure!(
                holds,
                "loss={}: expected less, or longer bursts, or more lost in them (burst_loss)",
                self.loss
            );
        }
        let dscp = self.dscp.unwrap_or(0);
        ensure!(dscp < 64, "dscp={dscp}: expected 0 to 63");
        Ok(())
    }
}

/// `KEY=VALUE,...` with the same keys as in a file: `loss=0.01,delay_us=500,only=data`.
impl FromStr for Impairment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut keys = Map::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            // A switch is turned on by its name alone.
            let (key, value) = part.split_once('=').unwrap_or((part, "true"));
            let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
            if keys.insert(key.to_owned(), value).is_some() {
                return Err(format!("{key} is given twice"));
            }
        }
        let rule = serde_json::from_value(keys.into());
        let rule: Self = rule.map_err(|error| error.to_string())?;
        rule.check().map_err(|error| error.to_string())?;
        Ok(rule)
    }
}

/// One direction.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Direction {
    /// The first that takes a packet is applied to it; a packet that none takes just passes.
    pub rules: Vec<Impairment>,
    pub made_up: MadeUp,
    /// A hello that is recorded and sent again; none: none is.
    pub replay: Option<Replay>,
}

/// The first hello that passes, sent again as fast as the port takes it beside what is due.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// From so long after it passed, in seconds.
    pub after_s: f64,
    /// For so long, in seconds.
    pub for_s: f64,
}

/// Control frames that the box makes up.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MadeUp {
    pub pps: f64,
    /// From so long after the first control frame that passed, in seconds.
    pub after_s: f64,
    /// For so long, in seconds; for ever without.
    pub for_s: Option<f64>,
}

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Plan {
    pub seed: u64,
    /// From the left port to the right one.
    pub to_right: Direction,
    /// From the right port to the left one.
    pub to_left: Direction,
}

impl Plan {
    pub fn load(file: &Path) -> Result<Self> {
        let name = || file.display().to_string();
        let text = fs::read_to_string(file).with_context(name)?;
        let plan: Self = serde_json::from_str(&text).with_context(name)?;
        let mut rules = plan.to_right.rules.iter().chain(&plan.to_left.rules);
        rules.try_for_each(Impairment::check).with_context(name)?;
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_from_the_command_line() {
        let rule: Impairment = "only=marker:1,loss=0.05,burst_packets=10,hop,dscp=46,\
                                source_mac=02:00:00:00:00:01,jitter_shape=normal,keep_order=false"
            .parse()
            .unwrap();
        assert_eq!(rule.only, Only::Marker(1));
        assert_eq!(rule.dscp, Some(46));
        assert!(rule.hop && !rule.keep_order);
        assert_eq!(rule.source_mac, Some(MacAddress([2, 0, 0, 0, 0, 1])));
        assert_eq!(rule.jitter_shape, JitterShape::Normal);
        assert_eq!("".parse(), Ok(Impairment::default()));
        for (text, complaint) in [
            ("loss=1.5", "loss=1.5: expected a share"),
            ("loss=0.1,loss=0.2", "loss is given twice"),
            ("los=0.1", "unknown field `los`"),
            ("only=nothing", "expected all, control"),
            ("only=marker:3", "0 to 2"),
            ("delay_us=-1", "delay_us=-1"),
            ("rate_mbps=0", "a rate over 0"),
            ("burst_packets=0.5", "0, or 1 or more"),
            ("loss=0.9,burst_packets=2", "longer bursts"),
            ("dscp=64", "0 to 63"),
            ("source_mac=02:00", "Ethernet address"),
        ] {
            let error = text.parse::<Impairment>().unwrap_err();
            assert!(error.contains(complaint), "{text}: {error}");
        }
    }

    #[test]
    fn plans_are_read_from_files() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plan.json");
        let plan = r#"{"seed": 7, "to_left": {"made_up": {"pps": 100}, "rules": [
            {"only": "control"}, {"loss": 0.2, "vlan_push": 5}]}}"#;
        fs::write(&file, plan).unwrap();
        let plan = Plan::load(&file).unwrap();
        assert_eq!((plan.seed, plan.to_right), (7, Direction::default()));
        assert_eq!(plan.to_left.rules[1].vlan_push, Some(5));
        fs::write(&file, r#"{"to_right": {"rules": [{"loss": 2}]}}"#).unwrap();
        let error = format!("{:#}", Plan::load(&file).unwrap_err());
        assert!(
            error.contains("plan.json") && error.contains("loss=2"),
            "{error}"
        );
    }

    #[test]
    fn rules_take_what_they_are_for() {
        let marker = Class {
            kind: MARKER,
            copy: 1,
        };
        let takes = |only: &str| {
            let only = Only::try_from(only.to_owned()).unwrap();
            [Class::DATA, marker].map(|class| only.takes(class))
        };
        assert_eq!(takes("all"), [true, true]);
        assert_eq!(takes("data"), [true, false]);
        assert_eq!(takes("control"), [false, true]);
        assert_eq!(takes("marker"), [false, true]);
        assert_eq!(takes("marker:1"), [false, true]);
        assert_eq!(takes("marker:0"), [false, false]);
        assert_eq!(takes("hello"), [false, false]);
    }
}
