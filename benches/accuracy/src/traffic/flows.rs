//! Which flow each measured packet belongs to.
//!
//! The RLI paper runs on backbone traces of 28.8 and 43.9 packets a flow (its table 2), with many
//! flows of one packet and few that hold most of the traffic. So do we: the packets of a flow are
//! a Pareto draw of shape 0.84 cut at 100,000, rounded up, 28.4 on average; half of the flows have
//! two packets or less. A flow of n packets lasts `50 ms sqrt(n) exp N(0, 1.2)`, at most 98 % of
//! the run (the law of the LDS acceptance trace, ten times faster since the run is shorter). Its
//! packets are in it uniformly, in trains as a sender's window lets them out: a geometric number of them
//! that nothing else of the measured traffic interrupts, four on average. So a small flow sees one
//! moment of the queue or two, and a large one the whole of it.
//!
//! The times so drawn only give an order: the i-th measured packet of the traffic belongs to the
//! flow whose draw comes i-th. When a packet arrives is left to the traffic.

use rand::RngExt;
use rand_distr::{Distribution, Geometric, LogNormal};
use rand_pcg::Pcg64;
use reporting::statistics::whole;

/// Shape of the number of packets of a flow.
const SHAPE: f64 = 0.84;
/// The most packets of a flow.
const PACKETS_MAX: f64 = 1e5;
/// How long a flow of one packet would last, but for its spread.
const DURATION_PS: f64 = 50e9;
/// Deviation of the logarithm of its duration.
const DURATION_SPREAD: f64 = 1.2;
/// Packets of a train, on average.
const TRAIN_PACKETS_MEAN: f64 = 4.0;
/// The longest part of the run that a flow lasts.
const DURATION_SHARE_MAX: f64 = 0.98;

/// Flows of `packets` packets in all, as a flow for each packet in order of time; flows are
/// numbered from 0 without gaps.
pub fn draw(packets: usize, duration_ps: u64, rng: &mut Pcg64) -> Vec<u32> {
    let (Ok(stretch), Ok(followers)) = (
        LogNormal::new(0.0, DURATION_SPREAD),
        Geometric::new(1.0 / TRAIN_PACKETS_MEAN),
    ) else {
        return vec![0; packets];
    };
    let run_ps = duration_ps as f64;
    let mut draws: Vec<(f64, u32)> = Vec::with_capacity(packets);
    let mut flow = 0;
    while draws.len() < packets {
        let count = packets_of_a_flow(rng.random()).min(packets - draws.len());
        let lasts_ps = (DURATION_PS * (count as f64).sqrt() * stretch.sample(rng))
            .min(DURATION_SHARE_MAX * run_ps);
        let start_ps = rng.random::<f64>() * (run_ps - lasts_ps);
        let mut left = count;
        while left > 0 {
            let at_ps = start_ps + rng.random::<f64>() * lasts_ps;
            let train = usize::try_from(followers.sample(rng)).map_or(left, |n| left.min(n + 1));
            draws.extend(std::iter::repeat_n((at_ps, flow), train));
            left -= train;
        }
        flow += 1;
    }
    draws.sort_by(|a, b| a.0.total_cmp(&b.0));
    draws.into_iter().map(|(_, flow)| flow).collect()
}

/// The quantile of the truncated Pareto distribution, rounded up.
fn packets_of_a_flow(quantile: f64) -> usize {
    let below_max = 1.0 - PACKETS_MAX.powf(-SHAPE);
    let packets = (1.0 - quantile * below_max).powf(-1.0 / SHAPE);
    whole(packets.ceil().clamp(1.0, PACKETS_MAX))
}
