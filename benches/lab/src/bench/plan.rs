//! Which contenders run in turn, and the limits on their ratios.

use crate::bench::contender::{
    AROUND, BASE_EVERYTHING, BASE_LDA, BASE_OFF, BASE_OFF_PATCH, Contender, EVERYTHING,
    EVERYTHING_TWO, FIVE_TUPLE_SWAP, FLOWS, IO, IO_TWO, LATENCYSTATS, LDA, LDA_PATCH, LDS, MACHINE,
    MACHINE_PLUGIN, MACSWAP, OFF, OFF_PATCH, OVS, OVS_PLUGIN, OVS_SIMPLE, PLUGIN_EVERYTHING,
    PLUGIN_LDA, Program, STAMPS,
};
use crate::bench::load::{self, Load};
use crate::bench::vernierd::Vernierd;

/// The comparison of one `make` target.
#[derive(Debug, Clone, Copy)]
pub struct Comparison {
    pub target: &'static str,
    /// The name of its result files, without extension.
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

/// The cost of the plugin: programs with the plugin and without.
pub const PLUGIN: Comparison = Comparison {
    target: "bench-plugin",
    name: "plugin",
    heading: "What the plugin costs",
    suites: &[Suite {
        runs: &[
            (load::SMALL, &[MACSWAP, LATENCYSTATS]),
            (load::SMALL, &[PLUGIN_LDA, PLUGIN_EVERYTHING]),
            (load::SMALL, &[OVS, OVS_PLUGIN, MACHINE, MACHINE_PLUGIN]),
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

/// Contenders by the load that they run under.
pub type Runs = &'static [(Load, &'static [Contender])];

/// Each run of several.
pub fn each(runs: Runs) -> impl Iterator<Item = Run> {
    let of_load = |&(load, contenders): &(Load, &'static [Contender])| {
        let runs = contenders.iter();
        runs.map(move |&contender| Run { contender, load })
    };
    runs.iter().flat_map(of_load)
}

/// Runs that alternate.
#[derive(Debug, Clone, Copy)]
pub struct Suite {
    /// Runs of one round.
    pub runs: Runs,
    /// Maximum number of rounds that count.
    pub rounds_max: usize,
    /// Whether a round comes before them.
    pub warms_up: bool,
    /// How often each runs in a round: once, or forwards and backwards.
    pub passes: usize,
}

/// One round of warm-up, then rounds that count, with every run once in each.
const PLAIN: Suite = Suite {
    runs: &[],
    rounds_max: usize::MAX,
    warms_up: true,
    passes: 1,
};

/// All contenders on 64-byte frames, including those of the base, if any.
const SMALL: Suite = Suite {
    runs: &[
        (load::SMALL, &[IO, MACSWAP, FIVE_TUPLE_SWAP]),
        (load::SMALL, &[OFF, BASE_OFF, OFF_PATCH, BASE_OFF_PATCH]),
        (load::SMALL, &[LATENCYSTATS, LDA, BASE_LDA, LDA_PATCH]),
        (load::SMALL, &[OVS, OVS_SIMPLE]),
        (load::SMALL, &[EVERYTHING, BASE_EVERYTHING]),
        (load::SMALL, &[EVERYTHING_TWO, IO_TWO]),
    ],
    ..PLAIN
};

/// Everything on, with growing numbers of flows, stations and workers, each with a capture of the same size.
const GROWTH: Suite = Suite {
    runs: &[
        (load::FEW_FLOWS, &[EVERYTHING]),
        (load::MANY_FLOWS, &[EVERYTHING]),
        (load::MANY_STATIONS, &[EVERYTHING]),
        (load::FEW_FLOWS, &[EVERYTHING_TWO, IO, IO_TWO]),
    ],
    warms_up: false,
    ..PLAIN
};

/// The effect of frame sizes.
const SIZES: Suite = Suite {
    runs: &[
        (load::IMIX, &[IO, LATENCYSTATS, OFF, LDA, EVERYTHING]),
        (load::LARGE, &[IO, LATENCYSTATS, OFF, LDA, EVERYTHING]),
    ],
    rounds_max: 3,
    warms_up: false,
    ..PLAIN
};

/// The steps of the fast path one after another, then some of the base.
pub const STEPS: Suite = Suite {
    runs: &[
        (load::SMALL, &[IO, OFF_PATCH, OFF, STAMPS, LDA, LDS, FLOWS]),
        (load::SMALL, &[EVERYTHING, AROUND]),
        (load::SMALL, &[BASE_OFF_PATCH, BASE_OFF, BASE_LDA]),
        (load::SMALL, &[BASE_EVERYTHING]),
    ],
    ..PLAIN
};

/// The steps of this vernierd.
pub fn steps() -> impl Iterator<Item = (Contender, Vernierd)> {
    each(STEPS.runs).filter_map(|run| match run.contender.program {
        Program::Vernierd(vernierd) if !vernierd.is_base => Some((run.contender, vernierd)),
        _ => None,
    })
}

/// The limits on instructions per packet, of steps with a limit.
const INSTRUCTIONS: &[(Contender, Goal)] = &[
    (OFF_PATCH, goal(245.0, 225.0)),
    (OFF, goal(295.0, 270.0)),
    (LDA, goal(350.0, 310.0)),
    (EVERYTHING, goal(520.0, 430.0)),
];

/// The limit on a step's instructions per packet, if it has one.
pub fn instructions(step: &Contender) -> Option<Goal> {
    let mut limits = INSTRUCTIONS.iter();
    let limit = limits.find(|(limited, _)| limited == step);
    limit.map(|(_, goal)| *goal)
}

/// The limit on a figure, and the better value aimed at. If the aim is greater, both are lower limits, otherwise upper
/// limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    pub must: f64,
    pub aim: f64,
}

const fn goal(must: f64, aim: f64) -> Goal {
    Goal { must, aim }
}

impl Goal {
    /// Whether a figure is at least as good as a bound.
    pub fn is_reached(&self, figure: f64, bound: f64) -> bool {
        if self.aim > self.must {
            figure >= bound
        } else {
            figure <= bound
        }
    }
}

/// A ratio within a round, and the limit on it.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// Its name in the table.
    pub label: &'static str,
    /// For two runs, the ratio of their rates. For three, the nanoseconds of the first in excess of the third, divided
    /// by those of the second in excess of the third. For four, the ratio of the first two divided by that of the last
    /// two.
    pub runs: Runs,
    /// Without a limit, the ratio is only shown.
    pub goal: Option<Goal>,
}

/// The base commit for which the limit applies; with any other base, the ratio is only shown.
pub const BASE_OF_LIMIT: &str = "515a7f0";

impl Claim {
    /// The claim's limit if `base` is the base's commit.
    pub fn goal(&self, base: Option<&str>) -> Option<Goal> {
        let is_other = base.is_none_or(|base| !base.starts_with(BASE_OF_LIMIT));
        let is_to_base = each(self.runs).any(|run| run.contender.is_base());
        self.goal.filter(|_| !(is_other && is_to_base))
    }

    /// The ratio in a round in which the runs of a claim had these rates.
    pub fn ratio(rates_pps: &[f64]) -> f64 {
        if let [of, by, source] = rates_pps.iter().map(|rate| 1e9 / rate).collect::<Vec<_>>()[..] {
            return (of - source) / (by - source);
        }
        let (over, under) = rates_pps.split_at(rates_pps.len() / 2);
        over.iter().product::<f64>() / under.iter().product::<f64>()
    }
}

/// The claims of [`THROUGHPUT`], in the order of the table.
const CLAIMS: &[Claim] = &[
    claim(
        "measurement off, learning bridge, by testpmd 5tswap",
        &[(load::SMALL, &[OFF, FIVE_TUPLE_SWAP])],
        goal(1.0, 1.15),
    ),
    claim(
        "LDA + moments + histogram, learning bridge, by testpmd macswap + latencystats",
        &[(load::SMALL, &[LDA, LATENCYSTATS])],
        goal(1.05, 1.2),
    ),
    claim(
        "LDA + moments + histogram, patch, by testpmd macswap + latencystats",
        &[(load::SMALL, &[LDA_PATCH, LATENCYSTATS])],
        goal(1.25, 1.4),
    ),
    claim(
        "everything on, learning bridge, by testpmd io",
        &[(load::SMALL, &[EVERYTHING, IO])],
        goal(0.37, 0.45),
    ),
    claim(
        "everything on, learning bridge, by OVS-DPDK with two in_port rules",
        &[(load::SMALL, &[EVERYTHING, OVS])],
        goal(3.2, 4.0),
    ),
    claim(
        "everything on, learning bridge, by OVS-DPDK with the rules before its ports (simple match)",
        &[(load::SMALL, &[EVERYTHING, OVS_SIMPLE])],
        goal(1.0, 1.2),
    ),
    claim(
        "two workers by one (everything on), on captures of one size (10,000 flows)",
        &[(load::FEW_FLOWS, &[EVERYTHING_TWO, EVERYTHING])],
        goal(1.95, 2.0),
    ),
    claim(
        "ns per packet, everything on: 1,000,000 flows by 10,000 (less is better)",
        &[
            (load::FEW_FLOWS, &[EVERYTHING]),
            (load::MANY_FLOWS, &[EVERYTHING]),
        ],
        goal(1.3, 1.15),
    ),
    claim(
        "own ns with everything on (less testpmd io's), by those of the base (less is better)",
        &[(load::SMALL, &[EVERYTHING, BASE_EVERYTHING, IO])],
        goal(0.68, 0.55),
    ),
    shown(
        "ns per packet, everything on, 1,000,000 flows: 10,000 stations a side by 1,000 (less is better)",
        &[
            (load::MANY_FLOWS, &[EVERYTHING]),
            (load::MANY_STATIONS, &[EVERYTHING]),
        ],
    ),
    shown(
        "two workers by one (everything on), as a share of testpmd io's two CPUs by one",
        &[(load::SMALL, &[EVERYTHING_TWO, IO, EVERYTHING, IO_TWO])],
    ),
    shown(
        "the same, on captures of one size (10,000 flows)",
        &[(load::FEW_FLOWS, &[EVERYTHING_TWO, IO, EVERYTHING, IO_TWO])],
    ),
    shown(
        "measurement off, patch, by testpmd macswap",
        &[(load::SMALL, &[OFF_PATCH, MACSWAP])],
    ),
    shown(
        "everything on by measurement off",
        &[(load::SMALL, &[EVERYTHING, OFF])],
    ),
    shown(
        "IMIX: LDA + moments + histogram, by testpmd macswap + latencystats",
        &[(load::IMIX, &[LDA, LATENCYSTATS])],
    ),
    shown(
        "IMIX: everything on, by testpmd io",
        &[(load::IMIX, &[EVERYTHING, IO])],
    ),
    shown(
        "1,518 bytes: LDA + moments + histogram, by testpmd macswap + latencystats",
        &[(load::LARGE, &[LDA, LATENCYSTATS])],
    ),
    shown(
        "1,518 bytes: everything on, by testpmd io",
        &[(load::LARGE, &[EVERYTHING, IO])],
    ),
];

/// The claims of [`PLUGIN`].
const PLUGIN_CLAIMS: &[Claim] = &[
    claim(
        "testpmd macswap with the plugin (LDA + moments + histogram), by latencystats",
        &[(load::SMALL, &[PLUGIN_LDA, LATENCYSTATS])],
        goal(1.2, 1.4),
    ),
    claim(
        "testpmd macswap with the plugin (LDA + moments + histogram), by without",
        &[(load::SMALL, &[PLUGIN_LDA, MACSWAP])],
        goal(0.78, 0.85),
    ),
    claim(
        "testpmd macswap with the plugin (everything on), by without",
        &[(load::SMALL, &[PLUGIN_EVERYTHING, MACSWAP])],
        goal(0.5, 0.6),
    ),
    shown(
        "OVS-DPDK with the plugin (LDA + moments + histogram), by without",
        &[(load::SMALL, &[OVS_PLUGIN, OVS])],
    ),
    shown(
        "OVS-DPDK with a virtual machine, with the plugin (LDA + moments + histogram), by without",
        &[(load::SMALL, &[MACHINE_PLUGIN, MACHINE])],
    ),
];

const fn claim(label: &'static str, runs: Runs, goal: Goal) -> Claim {
    let goal = Some(goal);
    Claim { label, runs, goal }
}

const fn shown(label: &'static str, runs: Runs) -> Claim {
    let goal = None;
    Claim { label, runs, goal }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_runs_that_alternate() {
        for comparison in [THROUGHPUT, PLUGIN] {
            for claim in comparison.claims {
                let is_in = |suite: &Suite, run: Run| each(suite.runs).any(|other| other == run);
                let together = |suite: &Suite| each(claim.runs).all(|run| is_in(suite, run));
                assert!(comparison.suites.iter().any(together), "{}", claim.label);
            }
        }
    }

    #[test]
    fn a_run_is_in_one_suite_only() {
        for comparison in [THROUGHPUT, PLUGIN] {
            let suites = comparison.suites.iter();
            let runs: Vec<Run> = suites.flat_map(|suite| each(suite.runs)).collect();
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
            .flat_map(|suite| each(suite.runs))
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
