//! What the plugin costs programs that are not ours.

use super::super::contender::{
    LATENCYSTATS, MACSWAP, OVS, OVS_PLUGIN, PLUGIN_EVERYTHING, PLUGIN_LDA,
};
use super::{Claim, Comparison, Suite, at_least, small, told};

/// Programs with the plugin beside the same without.
pub const PLUGIN: Comparison = Comparison {
    target: "bench-plugin",
    name: "plugin",
    heading: "What the plugin costs",
    suites: &[Suite {
        runs: &[
            small(MACSWAP),
            small(LATENCYSTATS),
            small(PLUGIN_LDA),
            small(PLUGIN_EVERYTHING),
            small(OVS),
            small(OVS_PLUGIN),
        ],
        rounds_max: usize::MAX,
        warms_up: true,
        passes: 2,
    }],
    claims: CLAIMS,
};

const CLAIMS: &[Claim] = &[
    Claim {
        label: "testpmd macswap with the plugin (LDA + moments + histogram), by latencystats",
        over: &[small(PLUGIN_LDA)],
        under: &[small(LATENCYSTATS)],
        goal: at_least(1.0, 1.0),
    },
    Claim {
        label: "testpmd macswap with the plugin (LDA + moments + histogram), by without",
        over: &[small(PLUGIN_LDA)],
        under: &[small(MACSWAP)],
        goal: at_least(0.65, 0.65),
    },
    Claim {
        label: "testpmd macswap with the plugin (everything on), by without",
        over: &[small(PLUGIN_EVERYTHING)],
        under: &[small(MACSWAP)],
        goal: at_least(0.35, 0.35),
    },
    told(
        "OVS-DPDK with the plugin (LDA + moments + histogram), by without",
        &[small(OVS_PLUGIN)],
        &[small(OVS)],
    ),
];
