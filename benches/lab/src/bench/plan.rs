//! Which contenders run in turn, and the limits on their ratios.

use crate::bench::contender::{
    AROUND, BASE_EVERYTHING, BASE_LDA, BASE_OFF, BASE_OFF_PATCH, Contender, EVERYTHING,
    EVERYTHING_TWO, FIVE_TUPLE_SWAP, FLOWS, IO, IO_TWO, LATENCYSTATS, LDA, LDA_PATCH, LDS, MACHINE,
    MACHINE_PLUGIN, MACSWAP, OFF, OFF_PATCH, OVS, OVS_PLUGIN, OVS_SIMPLE, PLUGIN_EVERYTHING,
    PLUGIN_LDA, Program, STAMPS,
};
use crate::bench::load::Load;
use crate::bench::setting::Build;
use crate::bench::vernierd::Vernierd;

/// What one target of `make` compares.
#[derive(Debug, Clone, Copy)]
pub struct Comparison {
    pub target: &'static str,
    /// The name of its results' files, without an ending.
    pub name: &'static str,
    pub heading: &'static str,
    pub suites: &'static [Suite],
    /// Ratios and their limits.
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
            small(MACHINE),
            small(MACHINE_PLUGIN),
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

/// All contenders on 64-byte frames; those of the base where there is one.
const SMALL: Suite = Suite {
    runs: &[
        small(IO),
        small(MACSWAP),
        small(FIVE_TUPLE_SWAP),
        small(OFF),
        small(BASE_OFF),
        small(OFF_PATCH),
        small(BASE_OFF_PATCH),
        small(LATENCYSTATS),
        small(LDA),
        small(BASE_LDA),
        small(LDA_PATCH),
        small(OVS),
        small(OVS_SIMPLE),
        small(EVERYTHING),
        small(BASE_EVERYTHING),
        small(EVERYTHING_TWO),
        small(IO_TWO),
    ],
    ..PLAIN
};

/// Everything on, as flows and stations grow in number, and as workers do, each with a capture of the same size.
const GROWTH: Suite = Suite {
    runs: &[
        on(EVERYTHING, Load::FewFlows),
        on(EVERYTHING, Load::ManyFlows),
        on(EVERYTHING, Load::ManyStations),
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

/// One step of the fast path after another, then some of the base.
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
        small(AROUND),
        small(BASE_OFF_PATCH),
        small(BASE_OFF),
        small(BASE_LDA),
        small(BASE_EVERYTHING),
    ],
    ..PLAIN
};

/// The steps of this vernierd.
pub fn steps() -> impl Iterator<Item = (Contender, Vernierd)> {
    STEPS
        .runs
        .iter()
        .filter_map(|run| match run.contender.program {
            Program::Vernierd(vernierd) if vernierd.build == Build::This => {
                Some((run.contender, vernierd))
            }
            _ => None,
        })
}

/// The limits on instructions a packet of the steps that have one.
const INSTRUCTIONS: &[(Contender, Goal)] = &[
    (OFF_PATCH, at_most(245.0, 225.0)),
    (OFF, at_most(295.0, 270.0)),
    (LDA, at_most(350.0, 310.0)),
    (EVERYTHING, at_most(520.0, 430.0)),
];

/// The limit on the instructions that a step takes a packet, if it has one.
pub fn instructions(step: &Contender) -> Option<Goal> {
    let mut limits = INSTRUCTIONS.iter();
    let limit = limits.find(|(limited, _)| limited == step);
    limit.map(|(_, goal)| *goal)
}

/// The limit on a figure, and the better one that is aimed at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    pub must: f64,
    pub aim: f64,
    is_least: bool,
}

impl Goal {
    /// Whether a figure is as good as a bound.
    pub fn is_reached(&self, figure: f64, bound: f64) -> bool {
        if self.is_least {
            figure >= bound
        } else {
            figure <= bound
        }
    }
}

/// A ratio, and the limit on it.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// Its name in the table.
    pub label: &'static str,
    pub ratio: Ratio,
    /// Without one it is shown.
    pub goal: Option<Goal>,
}

/// A ratio within a round.
#[derive(Debug, Clone, Copy)]
pub enum Ratio {
    /// The product of the rates of the first by the product of those of the second.
    Rates(&'static [Run], &'static [Run]),
    /// The nanoseconds that `of` takes more than `source`, by those that `by` takes more.
    OwnNs { of: Run, by: Run, source: Run },
}

impl Ratio {
    /// Its runs: those of rates in their order, or `of`, `by`, `source`.
    pub fn runs(&self) -> Vec<Run> {
        match *self {
            Self::Rates(over, under) => [over, under].concat(),
            Self::OwnNs { of, by, source } => vec![of, by, source],
        }
    }

    /// The ratio in a round in which its runs, in that order, had these rates.
    pub fn of(&self, rates_pps: &[f64]) -> f64 {
        match self {
            Self::Rates(over, _) => {
                let (over, under) = rates_pps.split_at(over.len());
                over.iter().product::<f64>() / under.iter().product::<f64>()
            }
            Self::OwnNs { .. } => {
                let ns = |run: usize| 1e9 / rates_pps[run];
                (ns(0) - ns(2)) / (ns(1) - ns(2))
            }
        }
    }
}

/// The commit that the limit on a ratio to the base is for; beside any other base it is shown.
pub const BASE_OF_LIMIT: &str = "515a7f0";

impl Claim {
    /// What the claim asks for where `base` is the base's commit.
    pub fn goal(&self, base: Option<&str>) -> Option<Goal> {
        let is_other = base.is_none_or(|base| !base.starts_with(BASE_OF_LIMIT));
        self.goal
            .filter(|_| !(is_other && matches!(self.ratio, Ratio::OwnNs { .. })))
    }
}

const fn at_least(must: f64, aim: f64) -> Goal {
    let is_least = true;
    Goal {
        must,
        aim,
        is_least,
    }
}

const fn at_most(must: f64, aim: f64) -> Goal {
    let is_least = false;
    Goal {
        must,
        aim,
        is_least,
    }
}

/// The claims of [`THROUGHPUT`], in the order of the table.
const CLAIMS: &[Claim] = &[
    claim(
        "measurement off, learning bridge, by testpmd 5tswap",
        &[small(OFF)],
        &[small(FIVE_TUPLE_SWAP)],
        at_least(1.0, 1.15),
    ),
    claim(
        "LDA + moments + histogram, learning bridge, by testpmd macswap + latencystats",
        &[small(LDA)],
        &[small(LATENCYSTATS)],
        at_least(1.05, 1.2),
    ),
    claim(
        "LDA + moments + histogram, patch, by testpmd macswap + latencystats",
        &[small(LDA_PATCH)],
        &[small(LATENCYSTATS)],
        at_least(1.25, 1.4),
    ),
    claim(
        "everything on, learning bridge, by testpmd io",
        &[small(EVERYTHING)],
        &[small(IO)],
        at_least(0.37, 0.45),
    ),
    claim(
        "everything on, learning bridge, by OVS-DPDK with two in_port rules",
        &[small(EVERYTHING)],
        &[small(OVS)],
        at_least(3.2, 4.0),
    ),
    claim(
        "everything on, learning bridge, by OVS-DPDK with the rules before its ports (simple match)",
        &[small(EVERYTHING)],
        &[small(OVS_SIMPLE)],
        at_least(1.0, 1.2),
    ),
    claim(
        "two workers by one (everything on), on captures of one size (10,000 flows)",
        &[on(EVERYTHING_TWO, Load::FewFlows)],
        &[on(EVERYTHING, Load::FewFlows)],
        at_least(1.95, 2.0),
    ),
    claim(
        "ns per packet, everything on: 1,000,000 flows by 10,000 (less is better)",
        &[on(EVERYTHING, Load::FewFlows)],
        &[on(EVERYTHING, Load::ManyFlows)],
        at_most(1.3, 1.15),
    ),
    Claim {
        label: "own ns with everything on (less testpmd io's), by those of the base (less is better)",
        ratio: Ratio::OwnNs {
            of: small(EVERYTHING),
            by: small(BASE_EVERYTHING),
            source: small(IO),
        },
        goal: Some(at_most(0.68, 0.55)),
    },
    shown(
        "ns per packet, everything on, 1,000,000 flows: 10,000 stations a side by 1,000 (less is better)",
        &[on(EVERYTHING, Load::ManyFlows)],
        &[on(EVERYTHING, Load::ManyStations)],
    ),
    shown(
        "two workers by one (everything on), as a share of testpmd io's two CPUs by one",
        &[small(EVERYTHING_TWO), small(IO)],
        &[small(EVERYTHING), small(IO_TWO)],
    ),
    shown(
        "the same, on captures of one size (10,000 flows)",
        &[on(EVERYTHING_TWO, Load::FewFlows), on(IO, Load::FewFlows)],
        &[on(EVERYTHING, Load::FewFlows), on(IO_TWO, Load::FewFlows)],
    ),
    shown(
        "measurement off, patch, by testpmd macswap",
        &[small(OFF_PATCH)],
        &[small(MACSWAP)],
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
    claim(
        "testpmd macswap with the plugin (LDA + moments + histogram), by latencystats",
        &[small(PLUGIN_LDA)],
        &[small(LATENCYSTATS)],
        at_least(1.2, 1.4),
    ),
    claim(
        "testpmd macswap with the plugin (LDA + moments + histogram), by without",
        &[small(PLUGIN_LDA)],
        &[small(MACSWAP)],
        at_least(0.78, 0.85),
    ),
    claim(
        "testpmd macswap with the plugin (everything on), by without",
        &[small(PLUGIN_EVERYTHING)],
        &[small(MACSWAP)],
        at_least(0.5, 0.6),
    ),
    shown(
        "OVS-DPDK with the plugin (LDA + moments + histogram), by without",
        &[small(OVS_PLUGIN)],
        &[small(OVS)],
    ),
    shown(
        "OVS-DPDK with a virtual machine, with the plugin (LDA + moments + histogram), by without",
        &[small(MACHINE_PLUGIN)],
        &[small(MACHINE)],
    ),
];

const fn claim(
    label: &'static str,
    over: &'static [Run],
    under: &'static [Run],
    goal: Goal,
) -> Claim {
    Claim {
        goal: Some(goal),
        ..shown(label, over, under)
    }
}

const fn shown(label: &'static str, over: &'static [Run], under: &'static [Run]) -> Claim {
    Claim {
        label,
        ratio: Ratio::Rates(over, under),
        goal: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_runs_that_alternate() {
        for comparison in [THROUGHPUT, PLUGIN] {
            for claim in comparison.claims {
                let runs = claim.ratio.runs();
                let together = |suite: &Suite| runs.iter().all(|run| suite.runs.contains(run));
                assert!(comparison.suites.iter().any(together), "{}", claim.label);
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
                assert_eq!(a.label() == b.label(), a == b);
            }
        }
    }
}
