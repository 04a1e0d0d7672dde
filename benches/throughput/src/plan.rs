//! Which contenders run in turn, and the limits on their ratios.

use crate::contender::{
    Contender, EVERYTHING, EVERYTHING_TWO, FIVE_TUPLE_SWAP, FLOWS, IO, IO_TWO, LATENCYSTATS, LDA,
    LDA_PATCH, LDS, MACSWAP, OFF, OFF_PATCH, OVS, OVS_PLUGIN, OVS_SIMPLE, PLUGIN_EVERYTHING,
    PLUGIN_LDA, STAMPS,
};
use crate::load::Load;

/// What one target of `make` compares.
#[derive(Debug, Clone, Copy)]
pub struct Comparison {
    pub target: &'static str,
    /// The name of its results' files, without an ending.
    pub name: &'static str,
    pub heading: &'static str,
    pub suites: &'static [Suite],
    /// Ratios of rates and their limits.
    pub claims: &'static [Claim],
}

/// vernierd beside others.
pub const THROUGHPUT: Comparison = Comparison {
    target: "bench",
    name: "throughput",
    heading: "Throughput",
    suites: &[SMALL, GROWTH, SIZES],
    claims: CLAIMS,
};

/// What the plugin costs programs: with the plugin and without.
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
        passes: 2,
        ..PLAIN
    }],
    claims: PLUGIN_CLAIMS,
};

/// A contender under a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    pub contender: Contender,
    pub load: Load,
}

/// Runs that alternate.
#[derive(Debug, Clone, Copy)]
pub struct Suite {
    /// Runs of one round.
    pub runs: &'static [Run],
    /// Most rounds that count.
    pub rounds_max: usize,
    /// Whether a round comes before them.
    pub warms_up: bool,
    /// How often each runs in a round: once, or there and back.
    pub passes: usize,
}

const fn small(contender: Contender) -> Run {
    on(contender, Load::Small)
}

const fn on(contender: Contender, load: Load) -> Run {
    Run { contender, load }
}

/// Every round counts, after one that does not, and every run is once in it.
const PLAIN: Suite = Suite {
    runs: &[],
    rounds_max: usize::MAX,
    warms_up: true,
    passes: 1,
};

/// All contenders on 64-byte frames.
const SMALL: Suite = Suite {
    runs: &[
        small(IO),
        small(MACSWAP),
        small(FIVE_TUPLE_SWAP),
        small(OFF),
        small(OFF_PATCH),
        small(LATENCYSTATS),
        small(LDA),
        small(LDA_PATCH),
        small(OVS),
        small(OVS_SIMPLE),
        small(EVERYTHING),
        small(EVERYTHING_TWO),
        small(IO_TWO),
    ],
    ..PLAIN
};

/// Everything on, as flows grow in number, and as workers do, each with a capture of the same size.
const GROWTH: Suite = Suite {
    runs: &[
        on(EVERYTHING, Load::FewFlows),
        on(EVERYTHING, Load::ManyFlows),
        on(EVERYTHING_TWO, Load::FewFlows),
        on(IO, Load::FewFlows),
        on(IO_TWO, Load::FewFlows),
    ],
    warms_up: false,
    ..PLAIN
};

/// What sizes of frames change.
const SIZES: Suite = Suite {
    runs: &[
        on(IO, Load::Imix),
        on(LATENCYSTATS, Load::Imix),
        on(OFF, Load::Imix),
        on(LDA, Load::Imix),
        on(EVERYTHING, Load::Imix),
        on(IO, Load::Large),
        on(LATENCYSTATS, Load::Large),
        on(OFF, Load::Large),
        on(LDA, Load::Large),
        on(EVERYTHING, Load::Large),
    ],
    rounds_max: 3,
    warms_up: false,
    ..PLAIN
};

/// One step of the fast path after another.
pub const STEPS: Suite = Suite {
    runs: &[
        small(IO),
        small(OFF_PATCH),
        small(OFF),
        small(STAMPS),
        small(LDA),
        small(LDS),
        small(FLOWS),
        small(EVERYTHING),
    ],
    ..PLAIN
};

/// The limit on a ratio, below or above which the benchmark fails, and the better one that is aimed at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// None: it is shown.
    Shown,
    AtLeast {
        must: f64,
        aim: f64,
    },
    AtMost {
        must: f64,
        aim: f64,
    },
}

/// A ratio of rates: the product of those of `over` by the product of those of `under`.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// Its name in the table.
    pub label: &'static str,
    pub over: &'static [Run],
    pub under: &'static [Run],
    pub goal: Goal,
}

const fn at_least(must: f64, aim: f64) -> Goal {
    Goal::AtLeast { must, aim }
}

/// The claims of [`THROUGHPUT`], in the order of the table.
const CLAIMS: &[Claim] = &[
    Claim {
        label: "measurement off, learning bridge, by testpmd 5tswap",
        over: &[small(OFF)],
        under: &[small(FIVE_TUPLE_SWAP)],
        goal: at_least(1.0, 1.15),
    },
    Claim {
        label: "LDA + moments + histogram, learning bridge, by testpmd macswap + latencystats",
        over: &[small(LDA)],
        under: &[small(LATENCYSTATS)],
        goal: at_least(1.05, 1.2),
    },
    Claim {
        label: "everything on, learning bridge, by testpmd io",
        over: &[small(EVERYTHING)],
        under: &[small(IO)],
        goal: at_least(0.37, 0.45),
    },
    Claim {
        label: "everything on, learning bridge, by OVS-DPDK with two in_port rules",
        over: &[small(EVERYTHING)],
        under: &[small(OVS)],
        goal: at_least(1.7, 2.1),
    },
    Claim {
        label: "two workers by one (everything on), as a share of testpmd io's two CPUs by one",
        over: &[small(EVERYTHING_TWO), small(IO)],
        under: &[small(EVERYTHING), small(IO_TWO)],
        goal: at_least(0.95, 1.0),
    },
    Claim {
        label: "ns per packet, everything on: 1,000,000 flows by 10,000 (less is better)",
        over: &[on(EVERYTHING, Load::FewFlows)],
        under: &[on(EVERYTHING, Load::ManyFlows)],
        goal: Goal::AtMost {
            must: 2.0,
            aim: 1.6,
        },
    },
    shown(
        "two workers by one, as above, on captures of one size (10,000 flows)",
        &[on(EVERYTHING_TWO, Load::FewFlows), on(IO, Load::FewFlows)],
        &[on(EVERYTHING, Load::FewFlows), on(IO_TWO, Load::FewFlows)],
    ),
    shown(
        "LDA + moments + histogram, patch, by testpmd macswap + latencystats",
        &[small(LDA_PATCH)],
        &[small(LATENCYSTATS)],
    ),
    shown(
        "measurement off, patch, by testpmd macswap",
        &[small(OFF_PATCH)],
        &[small(MACSWAP)],
    ),
    shown(
        "everything on, learning bridge, by OVS-DPDK with the rules before its ports (simple match)",
        &[small(EVERYTHING)],
        &[small(OVS_SIMPLE)],
    ),
    shown(
        "everything on by measurement off",
        &[small(EVERYTHING)],
        &[small(OFF)],
    ),
    shown(
        "IMIX: LDA + moments + histogram, by testpmd macswap + latencystats",
        &[on(LDA, Load::Imix)],
        &[on(LATENCYSTATS, Load::Imix)],
    ),
    shown(
        "IMIX: everything on, by testpmd io",
        &[on(EVERYTHING, Load::Imix)],
        &[on(IO, Load::Imix)],
    ),
    shown(
        "1,518 bytes: LDA + moments + histogram, by testpmd macswap + latencystats",
        &[on(LDA, Load::Large)],
        &[on(LATENCYSTATS, Load::Large)],
    ),
    shown(
        "1,518 bytes: everything on, by testpmd io",
        &[on(EVERYTHING, Load::Large)],
        &[on(IO, Load::Large)],
    ),
];

/// The claims of [`PLUGIN`].
const PLUGIN_CLAIMS: &[Claim] = &[
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
    shown(
        "OVS-DPDK with the plugin (LDA + moments + histogram), by without",
        &[small(OVS_PLUGIN)],
        &[small(OVS)],
    ),
];

const fn shown(label: &'static str, over: &'static [Run], under: &'static [Run]) -> Claim {
    Claim {
        label,
        over,
        under,
        goal: Goal::Shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_runs_that_alternate() {
        for comparison in [THROUGHPUT, PLUGIN] {
            for claim in comparison.claims {
                let runs: Vec<Run> = claim.over.iter().chain(claim.under).copied().collect();
                let together = |suite: &Suite| runs.iter().all(|run| suite.runs.contains(run));
                assert!(comparison.suites.iter().any(together), "{}", claim.label);
                assert_eq!(claim.over.len(), claim.under.len());
            }
        }
    }

    #[test]
    fn a_run_is_in_one_suite_only() {
        for comparison in [THROUGHPUT, PLUGIN] {
            let suites = comparison.suites.iter();
            let runs: Vec<&Run> = suites.flat_map(|suite| suite.runs).collect();
            for (index, run) in runs.iter().enumerate() {
                assert!(!runs[..index].contains(run), "{run:?}");
            }
        }
    }

    #[test]
    fn ids_are_distinct() {
        let comparisons = [THROUGHPUT, PLUGIN];
        let suites = comparisons.iter().flat_map(|comparison| comparison.suites);
        let all: Vec<Contender> = suites
            .chain([&STEPS])
            .flat_map(|suite| suite.runs)
            .map(|run| run.contender)
            .collect();
        for a in &all {
            for b in &all {
                assert_eq!(a.id == b.id, a == b);
                assert_eq!(a.label == b.label, a == b);
            }
        }
    }
}
