//! Adaptive injection beside fixed rates that send as many references.

use std::num::{NonZeroU32, NonZeroU64};

use anyhow::Result;
use measure::rli::{Adaptive, Method, Policy};
use reporting::Limit;
use reporting::statistics::{median, whole};

use super::exchange::Exchange;
use super::{BANDWIDTH, Scenario, name_of, one_in};
use crate::experiment::{Found, Plan, Row};
use crate::queue::{Crossing, cross};
use crate::traffic::supply::Supply;
use crate::traffic::{Kind, PS_PER_NS, Traffic};
use crate::truth::Truth;

/// Algorithm 1 with a utilisation that single bursts do not move.
const STEADY: Adaptive = Adaptive {
    window_ns: 0,
    smoothing: 0.02,
    utilisation_min: 0.6,
    utilisation_max: 0.85,
    rate_min: 1.0 / 300.0,
    rate_max: 0.1,
};
/// How much worse than the better fixed rate it may be. A fixed rate sends as many references but for the
/// rounding of n, at 1-in-10 up to 5 %.
const STEADY_LIMIT: Limit = Limit::AtMost(1.1);
/// Where delays are as long as this, the rule that knows them sends 2^(1/3) times fewer references.
const KNOWN_NS: f64 = 10_000.0;
/// Packets a reference of that rule where nothing waits.
const KNOWN_PACKETS: f64 = 20.0;

pub(super) fn table(seeds: &str, plan: &mut Plan) {
    plan.table(
        "RLI: adaptive against fixed rates of equal bandwidth",
        format!(
            "Median error of flows' mean delays (RLI's, and RLI-AS's) under a rule for injecting references, \
             divided by that of the better of 1-in-n and 1-in-tau with as many references; tail drop; means \
             of {seeds}. Paper: adaptive is the better one. It is not: the more references there are, the less one \
             more helps, so that a rate which changes costs more where it is low than it saves where it is \
             high. Algorithm 1 as it is goes by two intervals of a few packets, takes a burst for a busy link, and \
             leaves most packets to its longest gaps (as packets see it: the mean over packets of the \
             length of their gap). On generated traffic smoothing 0.02 instead of 0.5 makes it 1-in-10, as good as \
             fixed and no better, for three to four times the bandwidth. Known delays: a rule that no sender has, \
             n = {KNOWN_PACKETS} (1 + delay / {:.0} us)^(1/3); even so a fixed rate is better. What adapting is for \
             is fewer references on a busy link.",
            KNOWN_NS / 1_000.0
        ),
    );
}

/// Each rule, beside the fixed rates.
pub(super) fn compare(
    supply: &Supply,
    scenario: Scenario,
    seed: u64,
    found: &mut Found,
) -> Result<()> {
    let traffic = supply.traffic(scenario.utilisation, scenario.wander, seed);
    let under = |policy| Exchange::send(&traffic, &scenario.link(), policy, seed);
    let paper = under(Policy::Adaptive(Adaptive::default()))?;
    let steady = under(Policy::Adaptive(STEADY))?;
    let known = knowing_delays(&traffic, scenario, seed)?;
    for (name, limit, exchange) in [
        ("adaptive", None, paper),
        ("adaptive, smoothing 0.02", Some(STEADY_LIMIT), steady),
        ("known delays", None, known),
    ] {
        let packets = Gaps::of(&exchange.crossings).packets;
        let references = exchange.references().max(1) as f64;
        let n = u32::try_from(whole((packets / references).round()))?;
        let interval_ns = traffic.duration_ps as f64 / references / PS_PER_NS as f64;
        let interval_ns = NonZeroU64::new(whole(interval_ns) as u64).unwrap_or(NonZeroU64::MIN);
        let count = under(one_in(n.max(NonZeroU32::MIN.get())))?;
        let time = under(Policy::Time { interval_ns })?;
        for method in [Method::Linear, Method::AnchoredSums] {
            let error = |exchange: &Exchange| {
                let truth = Truth::of(&exchange.crossings, traffic.flows);
                let received = exchange.receive(method)?;
                anyhow::Ok(median(truth.mean_errors(received.means_ns())))
            };
            let [ours, count_error, time_error] =
                [error(&exchange)?, error(&count)?, error(&time)?];
            let check = format!("{}, {name}: {}", name_of(method), scenario.label());
            let row = Row::ratio(check, ours, [count_error, time_error]).limit(limit);
            let gaps = Gaps::of(&exchange.crossings);
            found.row(
                BANDWIDTH,
                row.others([
                    ("median, %", ours),
                    ("1-in-n", count_error),
                    ("1-in-tau", time_error),
                    ("packets a reference", packets / references),
                    ("as packets see it", gaps.seen_by_packets()),
                    ("of 1-in-n", f64::from(n)),
                    ("of 1-in-tau", packets / time.references() as f64),
                    ("% of the link", exchange.bandwidth_percent()),
                ]),
            );
        }
    }
    Ok(())
}

/// References by a rule that knows how long each packet will wait.
fn knowing_delays(traffic: &Traffic, scenario: Scenario, seed: u64) -> Result<Exchange> {
    let alone = cross(traffic, &scenario.link(), seed, |_| None);
    let regular = |crossing: &&Crossing| crossing.kind == Kind::Regular;
    let mut delays = alone.iter().filter(regular).map(Crossing::delay_ns);
    let mut due = 0.0;
    Exchange::send_by(traffic, &scenario.link(), seed, move |_, _| {
        // A packet that a full queue drops waits for nothing.
        let delay_ns = delays.next().flatten().unwrap_or(0.0);
        due += (1.0 + delay_ns / KNOWN_NS).cbrt().recip() / KNOWN_PACKETS;
        let is_due = due >= 1.0;
        due -= f64::from(u8::from(is_due));
        is_due
    })
}

/// Regular packets from one reference to the next.
struct Gaps {
    packets: f64,
    squares: f64,
}

impl Gaps {
    fn of(crossings: &[Crossing]) -> Self {
        let gaps = crossings.split(|crossing| crossing.kind == Kind::Reference);
        let (mut packets, mut squares) = (0.0, 0.0);
        for gap in gaps {
            let regular = gap.iter().filter(|crossing| crossing.kind == Kind::Regular);
            let regular = regular.count() as f64;
            packets += regular;
            squares += regular * regular;
        }
        Self { packets, squares }
    }

    /// The length of the gap that a packet is in, on average over packets.
    fn seen_by_packets(&self) -> f64 {
        self.squares / self.packets
    }
}
