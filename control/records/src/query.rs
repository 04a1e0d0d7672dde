//! Parameters of the HTTP paths that list segments and flows. They are parsed strictly: a misspelt parameter
//! is an error instead of another query.

use contract::address::Prefix;
use contract::labelled_enum;
use measure::packet::FiveTuple;
use schemars::JsonSchema;
use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer, Serialize};
use smart_default::SmartDefault;

/// Flows in an answer, unless `limit` is given.
pub const FLOWS_DEFAULT: usize = 100;

/// Most flows in an answer.
pub const FLOWS_MAX: usize = 10_000;

/// Flows with fewer packets in their last epoch come last in an order by delay.
pub const FEW_PACKETS: u64 = 10;

/// Segments with courses of an answer, unless `limit` is given.
pub const COURSES_DEFAULT: usize = 100;

/// Most segments with courses in an answer.
pub const COURSES_MAX: usize = 500;

/// Which segments to list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SegmentFilter {
    /// Only of this ingress port.
    pub ingress: Option<String>,
    /// Only of this egress port.
    pub egress: Option<String>,
    /// Only of this class.
    pub class: Option<String>,
}

/// Whether a segment's ingress, egress and class are the wanted ones; `None` matches any.
pub(crate) fn selects(wanted: [&Option<String>; 3], names: [&str; 3]) -> bool {
    let mut pairs = wanted.into_iter().zip(names);
    pairs.all(|(wanted, name)| wanted.as_ref().is_none_or(|wanted| wanted == name))
}

/// Which courses to list, as a page of the segments.
#[derive(Debug, Clone, PartialEq, Eq, SmartDefault, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CourseQuery {
    /// Only of this ingress port.
    pub ingress: Option<String>,
    /// Only of this egress port.
    pub egress: Option<String>,
    /// Only of this class.
    pub class: Option<String>,
    /// Only buckets of this many seconds: 1 (the last minute), 10 (ten minutes) or 60 (an hour).
    pub width_s: Option<Width>,
    /// How many segments to skip at the beginning.
    #[serde(deserialize_with = "number::<_, { usize::MAX }>")]
    pub offset: usize,
    /// Most segments to list.
    #[serde(deserialize_with = "number::<_, COURSES_MAX>")]
    #[schemars(range(max = 500))]
    #[default(COURSES_DEFAULT)]
    pub limit: usize,
}

/// A width of buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Width {
    /// One second.
    #[serde(rename = "1")]
    Second,
    /// Ten seconds.
    #[serde(rename = "10")]
    TenSeconds,
    /// A minute.
    #[serde(rename = "60")]
    Minute,
}

impl Width {
    /// Every width, ascending.
    pub const ALL: [Self; 3] = [Self::Second, Self::TenSeconds, Self::Minute];

    /// The width in seconds.
    pub const fn seconds(self) -> u32 {
        match self {
            Self::Second => 1,
            Self::TenSeconds => 10,
            Self::Minute => 60,
        }
    }
}

/// Which flows to list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlowState {
    /// Flows that have a slot, and those in a wire's last epoch.
    #[default]
    Active,
    /// Recently evicted or expired flows, with their final figures.
    Ended,
}

labelled_enum! {
    /// Where to list flows.
    #[derive(Default, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum FlowScope {
        /// Inside the switch, and on wires that arrive here; a flow on both is listed for each segment.
        #[default]
        All = "all",
        /// Inside the switch.
        Switch = "switch",
        /// On wires that arrive here: the flows of each wire's last decoded epoch.
        Wires = "wires",
    }
}

labelled_enum! {
    /// By what flows are ordered, the greatest first. In an order by delay (`mean`, `stddev`, `p99`, `estimate`), flows with
    /// fewer than 10 packets in their last epoch come after all others: a single late packet does not make a flow slow.
    #[derive(Default, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum FlowOrder {
        /// Packets in its last epoch.
        #[default]
        Packets = "packets",
        /// Bytes in its last epoch.
        Bytes = "bytes",
        /// Mean delay in its last epoch; on wires, the estimate.
        Mean = "mean",
        /// Standard deviation in its last epoch.
        Stddev = "stddev",
        /// 99th percentile of its last epoch.
        P99 = "p99",
        /// Packets lost in its last epoch.
        Lost = "lost",
        /// Packets since it was first seen.
        TotalPackets = "total_packets",
        /// Packets lost since it was first seen.
        TotalLost = "total_lost",
        /// The estimate's mean.
        Estimate = "estimate",
        /// Half-width of the estimate's interval.
        Bound = "bound",
        /// The epoch in which it was first seen.
        First = "first",
        /// The last epoch in which it had packets.
        Last = "last",
    }
}

impl FlowOrder {
    /// Whether flows with few packets come last.
    pub(crate) fn is_by_delay(self) -> bool {
        matches!(self, Self::Mean | Self::Stddev | Self::P99 | Self::Estimate)
    }
}

/// Which flows are selected, and in which order.
#[derive(Debug, Clone, PartialEq, Eq, SmartDefault, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FlowQuery {
    /// Inside the switch, on wires, or both.
    pub scope: FlowScope,
    /// Flows with a slot, or those that recently lost it; only the switch remembers the latter.
    pub state: FlowState,
    /// The figure to sort by, descending.
    pub sort: FlowOrder,
    /// Sort ascending.
    #[serde(deserialize_with = "yes_or_no")]
    pub ascending: bool,
    /// How many flows to skip at the beginning.
    #[serde(deserialize_with = "number::<_, { usize::MAX }>")]
    pub offset: usize,
    /// Most flows to list.
    #[serde(deserialize_with = "number::<_, FLOWS_MAX>")]
    #[schemars(range(max = 10_000))]
    #[default(FLOWS_DEFAULT)]
    pub limit: usize,
    /// Only of this ingress port.
    pub ingress: Option<String>,
    /// Only of this egress port.
    pub egress: Option<String>,
    /// Only of this class.
    pub class: Option<String>,
    /// Only flows whose name contains this text.
    pub contains: Option<String>,
    /// Only flows whose source or destination is in this prefix.
    pub prefix: Option<Prefix>,
    /// Only flows whose source or destination has this port.
    pub port: Option<u16>,
}

impl FlowQuery {
    /// Whether it selects flows with these addresses and ports; `None` for flows without any.
    pub(crate) fn selects_ends(&self, flow: impl FnOnce() -> Option<FiveTuple>) -> bool {
        if self.prefix.is_none() && self.port.is_none() {
            return true;
        }
        flow().is_some_and(|flow| {
            let is_in =
                |prefix: Prefix| prefix.contains(flow.source) || prefix.contains(flow.destination);
            let is_at = |port| flow.source_port == port || flow.destination_port == port;
            self.prefix.is_none_or(is_in) && self.port.is_none_or(is_at)
        })
    }

    /// Whether flows of wires are listed.
    pub fn lists_wires(&self) -> bool {
        self.scope != FlowScope::Switch && self.state == FlowState::Active
    }
}

/// A number up to `MAX`, digits only.
fn number<'de, D: Deserializer<'de>, const MAX: usize>(text: D) -> Result<usize, D::Error> {
    let text = String::deserialize(text)?;
    let number = text.parse().ok().filter(|&number| number <= MAX);
    number.ok_or_else(|| {
        let expected = match MAX {
            usize::MAX => "a number".to_owned(),
            most => format!("a number from 0 to {most}"),
        };
        D::Error::invalid_value(Unexpected::Str(&text), &expected.as_str())
    })
}

fn yes_or_no<'de, D: Deserializer<'de>>(text: D) -> Result<bool, D::Error> {
    let text = String::deserialize(text)?;
    let wrong = |_| D::Error::invalid_value(Unexpected::Str(&text), &"`true` or `false`");
    text.parse().map_err(wrong)
}
