//! What a switch said of a wire, held against what happened.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use measure::packet::{FlowKey, Hasher};
use serde::Serialize;

use super::views::{Estimate, Figures, Flow, Seen};
use crate::wire::chance::{Bank, epoch_seen, range_arrives, standard_error_ns};
use crate::wire::truth::{Delays, FlowTruth, Joined, Truth};
use reporting::statistics::quantile;

/// Epochs at either end of a run that do not count: a session begins in them, or ends.
const MARGIN: usize = 2;

/// Of a bell curve's deviations, half are under this share of the standard deviation.
const MEDIAN_OF_BELL: f64 = 0.6745;

/// Flows that are judged together, by their packets in an epoch, and last all of these. Under TCP at full
/// speed half of them are one great flow with errors of tenths of a percent and half are small ones with
/// several percent: a median over both lies where there are none, and jumps.
const SIZES: [RangeInclusive<u64>; 3] = [10..=99, 100..=u64::MAX, 10..=u64::MAX];

/// One direction of a wire, over all its epochs.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Verdict {
    /// Epochs in which packets were sent.
    pub epochs: usize,
    /// Epochs of these that were seen to be usable: one that is followed by another before the switch
    /// next publishes is never seen.
    pub usable: usize,
    /// Packets sent, on average.
    pub packets: f64,
    /// Share of packets that never arrived.
    pub loss: f64,
    /// Share of packets that arrived out of order.
    pub reordered: f64,
    /// Mean and standard deviation of single delays, on average over epochs, ns.
    pub mean_ns: f64,
    /// See [`mean_ns`](Self::mean_ns).
    pub deviation_ns: f64,
    /// Usable epochs in which the sender's counts were known,
    pub counted: usize,
    /// and of these those in which packets sent, received and lost were reported exactly.
    pub counts_exact: usize,
    /// By method, and last by the one that was chosen each time.
    pub means: Vec<Means>,
    /// Share of the LDA's cells that was usable, on average over usable epochs.
    pub cells: f64,
    /// Packets in these.
    pub samples: f64,
    /// The same by probability.
    pub expected: Expected,
    /// Flows of at least ten packets in an epoch, by their size, and last all of them.
    pub flows: Vec<FlowClass>,
    /// Packets moved over turns.
    pub moved: u64,
}

/// What probability says.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Expected {
    /// Share of epochs that are seen from turn to turn.
    pub usable: f64,
    /// Share of these in which the sender's counts arrive.
    pub counted: f64,
    /// Share of cells, in these.
    pub cells: f64,
    /// Packets in them.
    pub samples: f64,
    /// Median error of the LDA's mean, ns.
    pub error_ns: f64,
}

/// How a method's means of the segment did.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Means {
    /// The method.
    pub method: String,
    /// Epochs for which it had a mean and a bound.
    pub epochs: usize,
    /// Epochs of these in which the truth was within the bound.
    pub within: usize,
    /// Median error, ns.
    pub error_ns: f64,
    /// Median bound, ns.
    pub bound_ns: f64,
}

impl Means {
    /// Share within the bound.
    pub fn within_share(&self) -> f64 {
        self.within as f64 / self.epochs as f64
    }
}

/// Flows of like size.
#[derive(Debug, Clone, Serialize)]
pub struct FlowClass {
    /// Packets in an epoch.
    pub packets: RangeInclusive<u64>,
    /// By method, and last by the one that was chosen each time.
    pub errors: Vec<FlowErrors>,
}

impl FlowClass {
    /// Whether every flow that is judged at all is in it.
    pub fn is_all(&self) -> bool {
        Some(&self.packets) == SIZES.last()
    }

    /// Errors of what was chosen, and of the best single method among those that speak for nearly as
    /// many flows: RLI is silent where packets overtake each other, and what it says of a few is no
    /// measure for the others.
    pub fn chosen_and_best(&self) -> Option<(&FlowErrors, &FlowErrors)> {
        let chosen = self.errors.iter().find(|of| of.method == CHOSEN)?;
        let speaks = |of: &&FlowErrors| of.flows * 10 >= chosen.flows * 9;
        let single = self.errors.iter().filter(|of| of.method != CHOSEN);
        let single = single.filter(speaks);
        let best = single.min_by(|a, b| a.error.total_cmp(&b.error))?;
        Some((chosen, best))
    }
}

/// How a method's means of flows did.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FlowErrors {
    /// The method.
    pub method: String,
    /// Flows in epochs.
    pub flows: usize,
    /// Median relative error.
    pub error: f64,
    /// Lower end of its 95 % confidence interval.
    pub error_at_least: f64,
}

/// The name that stands for whatever was chosen.
pub const CHOSEN: &str = "chosen";

/// Judges one segment of one direction. `loss` is what every frame is lost with, either way.
pub fn judge(
    joined: &Joined,
    segment: (u8, &str),
    seen: &Seen,
    banks: &[Bank],
    loss: f64,
    hasher: &Hasher,
) -> Verdict {
    let (segment, class) = segment;
    let truths = joined.epochs.iter();
    let truths = truths.filter(|((_, of), _)| *of == segment);
    let truths: Vec<_> = truths.map(|((epoch, _), truth)| (*epoch, truth)).collect();
    let count = truths.len().saturating_sub(MARGIN);
    let truths = truths.get(MARGIN..count).unwrap_or_default();
    let figures: HashMap<u32, &Figures> = seen
        .epochs
        .iter()
        .filter(|((of, _), _)| of == class)
        .map(|((_, epoch), figures)| (low(*epoch), figures))
        .collect();
    let pairs: Vec<_> = truths
        .iter()
        .filter_map(|(epoch, truth)| Some((*truth, *figures.get(epoch)?)))
        .collect();
    let all = || truths.iter().map(|(_, truth)| *truth);
    let sum = |of: fn(&Truth) -> u64| all().map(of).sum::<u64>() as f64;
    let sent = sum(|truth| truth.sent);
    let is_exact = |(truth, figures): &&(&Truth, &Figures)| {
        figures.sent_packets == Some(truth.sent)
            && figures.received_packets == Some(truth.received)
            && figures.lost_packets.map(u64::try_from) == Some(Ok(truth.lost()))
    };
    let samples = |figures: &Figures| {
        let lda = figures.estimates.iter().find(|one| one.method == "lda");
        lda.and_then(|lda| lda.effective_samples).unwrap_or(0) as f64
    };
    Verdict {
        epochs: truths.len(),
        usable: pairs.len(),
        packets: sent / truths.len().max(1) as f64,
        loss: sum(Truth::lost) / sent,
        reordered: sum(|truth| truth.reordered) / sent,
        mean_ns: mean(all().filter_map(|truth| truth.delays.mean_ns())),
        deviation_ns: mean(all().filter_map(|truth| truth.delays.deviation_ns())),
        counted: pairs
            .iter()
            .filter(|(_, figures)| figures.lost_packets.is_some())
            .count(),
        counts_exact: pairs.iter().filter(is_exact).count(),
        means: means(&pairs),
        cells: mean(pairs.iter().map(|(_, figures)| figures.usable_cells_ratio)),
        samples: mean(pairs.iter().map(|(_, figures)| samples(figures))),
        expected: expected(&pairs, banks, loss),
        flows: flows(truths, seen, hasher),
        moved: pairs.iter().map(|(_, figures)| figures.moved_packets).sum(),
    }
}

/// What travels of an epoch's number in records.
#[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
fn low(epoch: u64) -> u32 {
    epoch as u32
}

fn means(pairs: &[(&Truth, &Figures)]) -> Vec<Means> {
    let mut methods: Vec<(&str, Vec<(f64, f64)>)> = Vec::new();
    let mut add = |method, estimate: &Estimate, truth_ns: f64| {
        let Some(bound_ns) = estimate.bound_ns else {
            return;
        };
        let error = ((estimate.mean_ns - truth_ns).abs(), bound_ns);
        match methods.iter_mut().find(|(name, _)| *name == method) {
            Some((_, errors)) => errors.push(error),
            None => methods.push((method, vec![error])),
        }
    };
    for (truth, figures) in pairs {
        let Some(truth_ns) = truth.delays.mean_ns() else {
            continue;
        };
        for estimate in &figures.estimates {
            add(&estimate.method, estimate, truth_ns);
        }
    }
    for (truth, figures) in pairs {
        if let (Some(truth_ns), Some(chosen)) = (truth.delays.mean_ns(), &figures.chosen) {
            add(CHOSEN, chosen, truth_ns);
        }
    }
    let means = methods.into_iter().map(|(method, errors)| Means {
        method: method.to_owned(),
        epochs: errors.len(),
        // Times are whole nanoseconds.
        within: errors
            .iter()
            .filter(|(error, bound)| *error <= bound + 0.5)
            .count(),
        error_ns: median(errors.iter().map(|(error, _)| *error)),
        bound_ns: median(errors.iter().map(|(_, bound)| *bound)),
    });
    means.collect()
}

fn expected(pairs: &[(&Truth, &Figures)], banks: &[Bank], loss: f64) -> Expected {
    let arrives = range_arrives(loss, loss);
    let rows: f64 = banks.iter().map(|bank| f64::from(bank.rows)).sum();
    let over_banks = |truth: &Truth, of: fn(&Bank, f64, f64) -> f64| {
        let banks = banks.iter().map(|bank| of(bank, truth.sent as f64, loss));
        arrives * banks.sum::<f64>()
    };
    let samples = |truth: &Truth| over_banks(truth, |bank, n, p| bank.effective_samples(n, p));
    let error = |truth: &Truth| {
        let deviation = truth.delays.deviation_ns()?;
        let received = truth.received as f64;
        let error = standard_error_ns(deviation, samples(truth), received);
        error.is_finite().then_some(MEDIAN_OF_BELL * error)
    };
    let truths = || pairs.iter().map(|(truth, _)| *truth);
    Expected {
        usable: epoch_seen(loss),
        counted: arrives,
        cells: mean(truths().map(|truth| over_banks(truth, |b, n, p| b.usable_cells(n, p)) / rows)),
        samples: mean(truths().map(samples)),
        error_ns: median(truths().filter_map(error)),
    }
}

fn flows(truths: &[(u32, &Truth)], seen: &Seen, hasher: &Hasher) -> Vec<FlowClass> {
    let truths: HashMap<u32, &Truth> = truths.iter().copied().collect();
    let in_epoch = |(epoch, flows): (&u64, _)| Some((*truths.get(&low(*epoch))?, flows));
    let of_epochs = seen.flows.iter().filter_map(in_epoch);
    let judged: Vec<_> = of_epochs
        .flat_map(|(truth, flows): (_, &Vec<Flow>)| flows.iter().map(move |flow| (flow, truth)))
        .filter_map(|(flow, truth)| Some((flow, truth_of(flow, truth, hasher)?)))
        .collect();
    let classes = SIZES.into_iter().map(|packets| {
        let of_class = judged
            .iter()
            .filter(|(_, delays)| packets.contains(&delays.count));
        let errors = flow_errors(of_class.copied());
        FlowClass { packets, errors }
    });
    classes.filter(|class| !class.errors.is_empty()).collect()
}

fn flow_errors<'f>(judged: impl Iterator<Item = (&'f Flow, &'f Delays)>) -> Vec<FlowErrors> {
    let mut methods: Vec<(String, Vec<f64>)> = Vec::new();
    let mut add = |method: &str, error: f64| match methods.iter_mut().find(|(m, _)| m == method) {
        Some((_, errors)) => errors.push(error),
        None => methods.push((method.to_owned(), vec![error])),
    };
    let mut chosen = Vec::new();
    for (flow, delays) in judged {
        let Some(mean_ns) = delays.mean_ns().filter(|mean_ns| *mean_ns > 0.0) else {
            continue;
        };
        let error = |estimate: &Estimate| ((estimate.mean_ns - mean_ns) / mean_ns).abs();
        for estimate in &flow.estimates {
            add(&estimate.method, error(estimate));
        }
        chosen.extend(flow.estimate.as_ref().map(error));
    }
    if !chosen.is_empty() {
        methods.push((CHOSEN.to_owned(), chosen));
    }
    let errors = methods.into_iter().map(|(method, errors)| FlowErrors {
        method,
        flows: errors.len(),
        error: median(errors.iter().copied()),
        error_at_least: median_at_least(errors),
    });
    errors.collect()
}

/// The true delays of a flow in an epoch.
fn truth_of<'t>(flow: &Flow, truth: &'t Truth, hasher: &Hasher) -> Option<&'t Delays> {
    let key: FlowKey = flow.flow.parse().ok()?;
    let FlowTruth { delays, .. } = truth.flows.get(&hasher.flow_hash(&key).0)?;
    Some(delays)
}

/// The mean; 0 of none.
pub fn mean(numbers: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = numbers.fold((0.0, 0.0), |(count, sum), x| (count + 1.0, sum + x));
    if count > 0.0 { sum / count } else { 0.0 }
}

/// The median; 0 of none.
pub fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<_> = numbers.collect();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.get(sorted.len() / 2);
    let lower = sorted.get(sorted.len().saturating_sub(1) / 2);
    match (lower, upper) {
        (Some(lower), Some(upper)) => f64::midpoint(*lower, *upper),
        _ => 0.0,
    }
}

/// Lower end of the 95 % confidence interval of the median that `numbers` are drawn from, by order
/// statistics: how many of them lie below it is binomial, n/2 with a deviation of sqrt(n)/2.
fn median_at_least(numbers: Vec<f64>) -> f64 {
    let deviation = 0.5 / (numbers.len() as f64).sqrt();
    quantile(numbers, 0.5 - 1.96 * deviation)
}

#[cfg(test)]
mod tests {
    use measure::observation::End;

    use super::*;
    use crate::wire::stamps::Stamp;

    /// Ten epochs of so many packets, the last of each lost; delays from 100 ns, each 1 ns longer.
    fn joined(flow: u64, packets: u64) -> Joined {
        let stamp = |end, epoch: u32, i: u64, tai_ns| Stamp {
            packet: u64::from(epoch) * 1_000 + i,
            flow,
            tai_ns,
            epoch,
            end,
            port: 1,
            segment: 0,
        };
        let places = || (0..10_u32).flat_map(|epoch| (0..packets).map(move |i| (epoch, i)));
        let at = |epoch: u32, i: u64| u64::from(epoch) * 100_000 + i * 10;
        let sent: Vec<_> = places()
            .map(|(epoch, i)| stamp(End::Sender, epoch, i, at(epoch, i)))
            .collect();
        let received: Vec<_> = places()
            .filter(|(_, i)| *i < packets - 1)
            .map(|(epoch, i)| stamp(End::Receiver, epoch, i, at(epoch, i) + 100 + i))
            .collect();
        Joined::new(&sent, 1, &received, 1)
    }

    fn estimate(method: &str, mean_ns: f64) -> Estimate {
        Estimate {
            method: method.to_owned(),
            mean_ns,
            bound_ns: Some(2.0),
            effective_samples: Some(5),
        }
    }

    #[test]
    fn what_was_said_is_held_against_what_happened() {
        let hasher = Hasher::new([1; 16]);
        let name = "10.0.0.1:5>10.0.0.2:6/udp";
        let flow = hasher.flow_hash(&name.parse().unwrap()).0;
        let mut seen = Seen::default();
        for epoch in 0..10 {
            // Of the six that count one is missing, one is wrong, one lost too few, one has no counts.
            let mean_ns = if epoch == 3 { 107.0 } else { 105.0 };
            let figures = Figures {
                epoch,
                sent_packets: Some(10),
                received_packets: Some(9),
                lost_packets: (epoch != 6).then_some(i64::from(epoch != 4)),
                usable_cells_ratio: 0.5,
                estimates: vec![estimate("lda", mean_ns)],
                chosen: Some(estimate("lda", 104.0)),
                ..Figures::default()
            };
            if epoch != 5 {
                seen.epochs.insert(("all".to_owned(), epoch), figures);
            }
            let flow = Flow {
                flow: name.to_owned(),
                packets: 9,
                estimate: Some(estimate("joint", 104.0)),
                estimates: vec![estimate("joint", 104.0), estimate("rli", 114.4)],
            };
            seen.flows.insert(epoch, vec![flow]);
        }
        let joined = joined(flow, 10);
        let verdict = judge(&joined, (0, "all"), &seen, &[], 0.0, &hasher);
        assert_eq!((verdict.epochs, verdict.usable), (6, 5));
        assert_eq!((verdict.counted, verdict.counts_exact), (4, 3));
        assert!((verdict.mean_ns - 104.0).abs() < 1e-9 && (verdict.loss - 0.1).abs() < 1e-9);
        let [lda, chosen] = verdict.means.as_slice() else {
            panic!("{:?}", verdict.means);
        };
        assert_eq!((lda.epochs, lda.within), (5, 4));
        assert!((lda.error_ns - 1.0).abs() < 1e-9);
        assert_eq!(
            (chosen.method.as_str(), chosen.within_share()),
            (CHOSEN, 1.0)
        );
        // Nine packets are too few.
        assert!(verdict.flows.is_empty());
        let nobody = judge(&joined, (1, "all"), &seen, &[], 0.0, &hasher);
        assert_eq!(nobody.epochs, 0);
    }

    #[test]
    fn flows_are_judged_beside_flows_of_their_size() {
        let hasher = Hasher::new([1; 16]);
        let name = "10.0.0.1:5>10.0.0.2:6/udp";
        let flow = hasher.flow_hash(&name.parse().unwrap()).0;
        let mut seen = Seen::default();
        for epoch in 0..10 {
            let flow = Flow {
                flow: name.to_owned(),
                packets: 11,
                estimate: Some(estimate("joint", 106.05)),
                estimates: vec![estimate("joint", 106.05), estimate("rli", 115.5)],
            };
            seen.flows.insert(epoch, vec![flow]);
        }
        // Eleven arrive after 105 ns on average; 101 after 150.
        let small = judge(&joined(flow, 12), (0, "all"), &seen, &[], 0.0, &hasher);
        let great = judge(&joined(flow, 102), (0, "all"), &seen, &[], 0.0, &hasher);
        let sizes = |verdict: &Verdict| {
            let classes = verdict.flows.iter();
            let packets = classes.map(|class| (*class.packets.start(), class.is_all()));
            packets.collect::<Vec<_>>()
        };
        assert_eq!(sizes(&small), [(10, false), (10, true)]);
        assert_eq!(sizes(&great), [(100, false), (10, true)]);
        let (chosen, best) = small.flows[0].chosen_and_best().unwrap();
        assert_eq!((chosen.flows, best.method.as_str()), (6, "joint"));
        assert!((chosen.error - 0.01).abs() < 1e-9 && (best.error - 0.01).abs() < 1e-9);
        let (chosen, best) = great.flows[0].chosen_and_best().unwrap();
        assert_eq!(best.method, "rli");
        assert!((chosen.error - 0.293).abs() < 1e-9 && (best.error - 0.23).abs() < 1e-9);
    }

    #[test]
    fn a_method_that_speaks_for_few_flows_is_no_measure() {
        let of = |method: &str, flows, error| FlowErrors {
            method: method.to_owned(),
            flows,
            error,
            error_at_least: error,
        };
        let class = FlowClass {
            packets: 10..=99,
            errors: vec![
                of("hybrid", 95, 0.02),
                of("rli-s", 89, 0.01),
                of(CHOSEN, 100, 0.02),
            ],
        };
        let (_, best) = class.chosen_and_best().unwrap();
        assert_eq!(best.method, "hybrid");
    }

    #[test]
    fn medians_are_in_the_middle() {
        assert!((median([3.0, 1.0, 2.0].into_iter()) - 2.0).abs() < 1e-12);
        assert!((median([3.0, 1.0].into_iter()) - 2.0).abs() < 1e-12);
        assert!(median(std::iter::empty()).abs() < 1e-12);
    }

    #[test]
    fn a_median_is_known_to_what_so_many_numbers_tell() {
        // Between the 40th and the 41st of 100.
        let least = |count: u32| median_at_least((1..=count).rev().map(f64::from).collect());
        assert!((40.0..41.0).contains(&least(100)));
        assert!((4_902.0..4_903.0).contains(&least(10_000)));
        assert!((least(1) - 1.0).abs() < 1e-12);
    }
}
