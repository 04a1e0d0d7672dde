//! How answers are served.

use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::FlowRule;
use crate::address::deserialize_listen;

/// The HTTP server: Prometheus and JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// Address and port; `:9464` is that port on all addresses. Keep it on loopback unless you need remote access. `null`
    /// disables the server.
    #[serde(deserialize_with = "deserialize_listen")]
    pub listen: Option<SocketAddr>,
    /// File with the token (one line, 16 characters at least) that clients have to show as
    /// `Authorization: Bearer <token>`. An address that is not loopback needs one.
    pub token_file: Option<PathBuf>,
    /// Serve anyone who can reach the address, without a token.
    pub insecure: bool,
    /// Names by which clients without a token may ask (the header `Host`), besides addresses and
    /// `localhost`: at most 64. Prometheus asks by the name in its `targets`.
    #[schemars(length(max = 64), inner(regex(pattern = "^[A-Za-z0-9._-]+$")))]
    pub hosts: Vec<String>,
}

/// What is written for Prometheus.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Prometheus {
    /// Most flows with series of their own, 0 to 1,000, default 50; all others are folded into one
    /// series of each segment, `flow="other"`.
    #[schemars(range(max = 1_000))]
    pub top_flows: u32,
    /// Seconds for which a flow keeps its series at least, 1 to 86,400, default 120.
    #[schemars(range(min = 1, max = 86_400))]
    pub top_hold_s: u32,
    /// Flows that have series of their own before others, at most 256 rules.
    #[schemars(length(max = 256))]
    pub pinned: Vec<FlowRule>,
    /// Buckets of an octave (a factor of 2) in the histogram of each segment's delay: 1, 2, 4 or 8, default 4.
    /// `histogram_quantile` is off by at most the part of an octave: 25 % with 4, 12.5 % with 8. Each segment with packets
    /// has 26 times as many series, and 4 more.
    #[schemars(range(min = 1, max = 8))]
    pub buckets_per_octave: u32,
    /// Names of the metrics that are written, with `*` for any characters; none: all. At most 64.
    #[schemars(length(max = 64), inner(regex(pattern = "^[A-Za-z0-9_:*]+$")))]
    pub include: Vec<String>,
    /// Names of metrics that are not written, likewise.
    #[schemars(length(max = 64), inner(regex(pattern = "^[A-Za-z0-9_:*]+$")))]
    pub exclude: Vec<String>,
}

impl Prometheus {
    /// Octaves of the histogram of a segment's delay: from 2^7 ns (128 ns) to 2^33 ns (8.6 s). Fixed, so that histograms of
    /// all hosts and releases can be added.
    const OCTAVES: std::ops::Range<u32> = 7..33;

    /// Bounds of the buckets in ns, least first; `+Inf` is beyond them. Each is also a bound of
    /// [`measure::histogram::Histogram`]'s, so that counts are exact, and one with any more buckets an octave.
    pub fn bounds_ns(&self) -> impl Iterator<Item = u64> + Clone + use<> {
        let buckets = u64::from(self.buckets_per_octave);
        let of_octave = move |octave: u32| {
            let least_ns = 1_u64 << octave;
            (0..buckets).map(move |n| least_ns + n * least_ns / buckets)
        };
        Self::OCTAVES
            .flat_map(of_octave)
            .chain([1 << Self::OCTAVES.end])
    }

    /// Series of the histogram of one segment: its bounds, `+Inf`, sum and count.
    pub fn series_per_histogram(&self) -> usize {
        self.bounds_ns().count() + 3
    }
}

impl Default for Http {
    fn default() -> Self {
        Self {
            listen: Some(SocketAddr::from(([127, 0, 0, 1], 9464))),
            token_file: None,
            insecure: false,
            hosts: Vec::new(),
        }
    }
}

impl Default for Prometheus {
    fn default() -> Self {
        Self {
            top_flows: 50,
            top_hold_s: 120,
            pinned: Vec::new(),
            buckets_per_octave: 4,
            include: Vec::new(),
            exclude: Vec::new(),
        }
    }
}
