//! What a switch reported of a wire, compared with what happened.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use ::wire::frame::Marker;
use measure::packet::{FlowKey, Hasher};
use records::snapshot::{FlowEstimate, WireEstimate, WireFigures, WireFlow};
use reporting::statistics::{mean, median, quantile};

use crate::wire::truth::{Delays, Joined, Truth};
use crate::wire::watch::Seen;

/// Epochs at either end of a run that do not count: a session begins in them, or ends.
const MARGIN: usize = 2;

/// Times are whole nanoseconds.
pub const ROUNDING_NS: f64 = 0.5;

/// Half of a normal distribution's deviations are under this share of the standard deviation.
const MEDIAN_OF_NORMAL: f64 = 0.6745;

/// Flows that are judged together, by their packets in an epoch, and last all of these. Under TCP at full
/// speed half of them are one large flow with errors of tenths of a percent and half are small ones with
/// several percent: a median over both is where there are none, and jumps.
const SIZES: [RangeInclusive<u64>; 3] = [10..=99, 100..=u64::MAX, 10..=u64::MAX];

/// Least number of a flow's packets in an epoch for its 99th percentile to be judged.
pub const TAIL_PACKETS_MIN: u64 = 1_000;

/// The name of whichever method the switch chose.
pub const CHOSEN: &str = "chosen";

/// One direction of a wire, over all its epochs.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    pub path: Path,
    /// Epochs that were reported as usable: one that is followed by another before the switch next publishes
    /// is never seen.
    pub usable: usize,
    /// Usable epochs with the sender's counts,
    pub counted: usize,
    /// and those of them with exact numbers of packets sent, received and lost.
    pub counts_exact: usize,
    /// By method, and last by the one that was chosen each time.
    pub means: Vec<Means>,
    /// Share of the LDA's cells that was usable, on average over usable epochs.
    pub cells: f64,
    /// Packets in these.
    pub samples: f64,
    /// What probability predicts.
    pub expected: Expected,
    /// Flows of at least ten packets in an epoch, by their size, and last all of them.
    pub flows: Vec<FlowClass>,
    /// Their 99th percentiles, flows of [`TAIL_PACKETS_MIN`] packets and more.
    pub tails: Judged,
    /// Packets moved over rollovers.
    pub moved: u64,
}

/// What happened in one direction: averages over epochs in which packets were sent.
#[derive(Debug, Clone, Default)]
pub struct Path {
    pub epochs: usize,
    pub packets: f64,
    /// Share of packets that never arrived.
    pub loss: f64,
    /// Share of packets that arrived out of order.
    pub reordered: f64,
    pub mean_ns: f64,
    /// Standard deviation of delays, ns.
    pub deviation_ns: f64,
}

/// What probability predicts.
#[derive(Debug, Clone, Copy, Default)]
pub struct Expected {
    /// Share of epochs with both rollovers seen.
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

/// Means of the segment by one method.
#[derive(Debug, Clone, Default)]
pub struct Means {
    pub method: String,
    /// Epochs for which it had a mean and a bound.
    pub epochs: usize,
    /// Epochs of these in which the truth was within the bound.
    pub within: usize,
    pub error_ns: f64,
    pub bound_ns: f64,
}

impl Means {
    pub fn within_share(&self) -> f64 {
        self.within as f64 / self.epochs as f64
    }
}

/// Flows of like size.
#[derive(Debug, Clone)]
pub struct FlowClass {
    /// Packets in an epoch.
    pub packets: RangeInclusive<u64>,
    /// By method, and last by the one that was chosen each time.
    pub errors: Vec<FlowErrors>,
}

/// A figure of flows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Judged {
    /// Flows, or flows in epochs,
    pub flows: usize,
    /// and flows of these that have the figure.
    pub known: usize,
    /// Median of its relative errors.
    pub error: f64,
}

impl Judged {
    /// Of figures, where they are known, and the truth.
    pub fn of(pairs: impl Iterator<Item = (Option<f64>, f64)>) -> Self {
        let mut flows = 0;
        let errors = pairs.filter_map(|(figure, truth)| {
            flows += 1;
            Some((figure? / truth - 1.0).abs())
        });
        let errors: Vec<f64> = errors.collect();
        Self {
            flows,
            known: errors.len(),
            error: median(errors),
        }
    }
}

/// Means of flows by one method.
#[derive(Debug, Clone, Default)]
pub struct FlowErrors {
    pub method: String,
    /// Flows in epochs.
    pub flows: usize,
    /// Median relative error.
    pub error: f64,
    /// Lower end of its 95 % confidence interval.
    pub error_min: f64,
    /// Flows with a bound,
    pub bounded: usize,
    /// and flows of these whose mean is within it.
    pub within: usize,
}

impl FlowClass {
    /// Whether it has flows of every size.
    pub fn is_all(&self) -> bool {
        Some(&self.packets) == SIZES.last()
    }

    /// Errors of what was chosen, and of the best single method among those with nearly as many flows: RLI
    /// has no mean where packets overtake each other, and the few flows that it has are no measure for others.
    pub fn chosen_and_best(&self) -> Option<(&FlowErrors, &FlowErrors)> {
        let chosen = self.errors.iter().find(|of| of.method == CHOSEN)?;
        let single = self.errors.iter().filter(|of| of.method != CHOSEN);
        let single = single.filter(|of| of.flows * 10 >= chosen.flows * 9);
        let best = single.min_by(|a, b| a.error.total_cmp(&b.error))?;
        Some((chosen, best))
    }
}

/// Values by method, in the order in which methods first appear, but what was chosen last.
fn by_method<'m, T>(values: impl Iterator<Item = (&'m str, T)>) -> Vec<(String, Vec<T>)> {
    let mut methods: Vec<(String, Vec<T>)> = Vec::new();
    for (method, value) in values {
        match methods.iter_mut().find(|(known, _)| known == method) {
            Some((_, values)) => values.push(value),
            None => methods.push((method.to_owned(), vec![value])),
        }
    }
    methods.sort_by_key(|(method, _)| method == CHOSEN);
    methods
}

/// A truth and what was reported of the same epoch.
type Pair<'a> = (&'a Truth, &'a WireFigures);

/// Judges one class, which is a segment, of one direction. `loss` is what every frame is lost with, either way.
pub fn judge(
    joined: &Joined,
    (segment, class): (u8, &str),
    seen: &Seen,
    banks: &[Bank],
    loss: f64,
    hasher: &Hasher,
) -> Verdict {
    let truths = joined.epochs.iter();
    let truths = truths.filter(|((_, of), _)| *of == segment);
    let truths: Vec<_> = truths.map(|((epoch, _), truth)| (*epoch, truth)).collect();
    let end = truths.len().saturating_sub(MARGIN);
    let truths = truths.get(MARGIN..end).unwrap_or_default();
    let figures = seen.epochs.iter().filter(|((of, _), _)| of == class);
    let figures: HashMap<u32, &WireFigures> = figures
        .map(|((_, epoch), figures)| (low(*epoch), figures))
        .collect();
    let pairs: Vec<Pair> = truths
        .iter()
        .filter_map(|(epoch, truth)| Some((*truth, *figures.get(epoch)?)))
        .collect();
    let is_exact = |(truth, figures): &&Pair| {
        figures.sent_packets == Some(truth.sent)
            && figures.received_packets == Some(truth.received)
            && figures.lost_packets.map(u64::try_from) == Some(Ok(truth.lost()))
    };
    let is_counted = |(_, figures): &&Pair| figures.lost_packets.is_some();
    let samples = |figures: &WireFigures| {
        let lda = figures.estimates.iter().find(|one| one.method == "lda");
        lda.and_then(|lda| lda.effective_samples).unwrap_or(0) as f64
    };
    Verdict {
        path: path(truths),
        usable: pairs.len(),
        counted: pairs.iter().filter(is_counted).count(),
        counts_exact: pairs.iter().filter(is_exact).count(),
        means: means(&pairs),
        cells: mean(pairs.iter().map(|(_, figures)| figures.usable_cells_ratio)),
        samples: mean(pairs.iter().map(|(_, figures)| samples(figures))),
        expected: expected(&pairs, banks, loss),
        flows: flows(truths, seen, hasher),
        tails: tails(truths, seen, hasher),
        moved: pairs.iter().map(|(_, figures)| figures.moved_packets).sum(),
    }
}

/// The low bits of an epoch's number, as records have them.
#[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
pub fn low(epoch: u64) -> u32 {
    epoch as u32
}

fn path(truths: &[(u32, &Truth)]) -> Path {
    let all = || truths.iter().map(|(_, truth)| *truth);
    let sum = |of: fn(&Truth) -> u64| all().map(of).sum::<u64>() as f64;
    let sent = sum(|truth| truth.sent);
    Path {
        epochs: truths.len(),
        packets: sent / truths.len().max(1) as f64,
        loss: sum(Truth::lost) / sent,
        reordered: sum(|truth| truth.reordered) / sent,
        mean_ns: mean(all().filter_map(|truth| truth.delays.mean_ns())),
        deviation_ns: mean(all().filter_map(|truth| truth.delays.deviation_ns())),
    }
}

fn means(pairs: &[Pair]) -> Vec<Means> {
    let errors = pairs.iter().filter_map(|(truth, figures)| {
        let truth_ns = truth.delays.mean_ns()?;
        let error = move |method, estimate: &WireEstimate| {
            let error_ns = (estimate.mean_ns - truth_ns).abs();
            Some((method, (error_ns, estimate.bound_ns?)))
        };
        let estimates = figures.estimates.iter();
        let by_name = estimates.filter_map(move |one| error(one.method.as_str(), one));
        let chosen = figures.chosen.iter();
        Some(by_name.chain(chosen.filter_map(move |one| error(CHOSEN, one))))
    });
    let methods = by_method(errors.flatten()).into_iter();
    let means = methods.map(|(method, errors)| Means {
        method,
        epochs: errors.len(),
        within: errors
            .iter()
            .filter(|(error, bound)| *error <= bound + ROUNDING_NS)
            .count(),
        error_ns: median(errors.iter().map(|(error, _)| *error)),
        bound_ns: median(errors.iter().map(|(_, bound)| *bound)),
    });
    means.collect()
}

fn expected(pairs: &[Pair], banks: &[Bank], loss: f64) -> Expected {
    let arrives = range_arrives(loss, loss);
    let rows: f64 = banks.iter().map(|bank| f64::from(bank.rows)).sum();
    let over_banks = |truth: &Truth, of: fn(Bank, f64, f64) -> f64| {
        let banks = banks.iter().map(|bank| of(*bank, truth.sent as f64, loss));
        arrives * banks.sum::<f64>()
    };
    let samples = |truth: &Truth| over_banks(truth, Bank::effective_samples);
    let error = |truth: &Truth| {
        let deviation_ns = truth.delays.deviation_ns()?;
        let error_ns = standard_error_ns(deviation_ns, samples(truth), truth.received as f64);
        error_ns.is_finite().then_some(MEDIAN_OF_NORMAL * error_ns)
    };
    let truths = || pairs.iter().map(|(truth, _)| *truth);
    Expected {
        usable: epoch_seen(loss),
        counted: arrives,
        cells: mean(truths().map(|truth| over_banks(truth, Bank::usable_cells) / rows)),
        samples: mean(truths().map(samples)),
        error_ns: median(truths().filter_map(error)),
    }
}

/// The flows that were reported, by hash, with the truth of their epoch.
fn reported<'s>(
    truths: &[(u32, &'s Truth)],
    seen: &'s Seen,
    hasher: &Hasher,
) -> Vec<(&'s WireFlow, u64, &'s Truth)> {
    let truths: HashMap<u32, &Truth> = truths.iter().copied().collect();
    let of_epochs = seen.flows.iter().filter_map(|(epoch, flows)| {
        let truth = *truths.get(&low(*epoch))?;
        Some(flows.iter().map(move |flow| (flow, truth)))
    });
    let known = of_epochs.flatten().filter_map(|(flow, truth)| {
        let key: FlowKey = flow.flow.flow.parse().ok()?;
        Some((flow, hasher.flow_hash(&key).0, truth))
    });
    known.collect()
}

fn tails(truths: &[(u32, &Truth)], seen: &Seen, hasher: &Hasher) -> Judged {
    let reported = reported(truths, seen, hasher).into_iter();
    Judged::of(reported.filter_map(|(flow, hash, truth)| {
        let truth = truth.flows.get(&hash)?;
        let figure = flow.flow.quantiles.map(|of| of.p99_ns);
        (truth.delays.count >= TAIL_PACKETS_MIN).then(|| (figure, truth.p99_ns()))
    }))
}

fn flows(truths: &[(u32, &Truth)], seen: &Seen, hasher: &Hasher) -> Vec<FlowClass> {
    let judged: Vec<_> = reported(truths, seen, hasher)
        .into_iter()
        .filter_map(|(flow, hash, truth)| Some((flow, &truth.flows.get(&hash)?.delays)))
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

fn flow_errors<'f>(judged: impl Iterator<Item = (&'f WireFlow, &'f Delays)>) -> Vec<FlowErrors> {
    let judged = judged.filter_map(|(flow, delays)| {
        let mean_ns = delays.mean_ns().filter(|mean_ns| *mean_ns > 0.0)?;
        let judge = move |method, one: &FlowEstimate| {
            let error_ns = (one.mean_ns - mean_ns).abs();
            let is_within = one
                .bound_ns
                .map(|bound_ns| error_ns <= bound_ns + ROUNDING_NS);
            (method, (error_ns / mean_ns, is_within))
        };
        let estimates = flow.flow.estimates.iter();
        let by_name = estimates.map(move |one| judge(one.method.label(), one));
        let chosen = flow.flow.estimate.iter();
        Some(by_name.chain(chosen.map(move |one| judge(CHOSEN, one))))
    });
    let methods = by_method(judged.flatten()).into_iter();
    let errors = methods.map(|(method, judged)| {
        let errors: Vec<f64> = judged.iter().map(|(error, _)| *error).collect();
        let bounded = judged.iter().filter_map(|(_, is_within)| *is_within);
        FlowErrors {
            method,
            flows: errors.len(),
            error_min: median_min(&errors),
            error: median(errors),
            bounded: bounded.clone().count(),
            within: bounded.filter(|is_within| *is_within).count(),
        }
    });
    errors.collect()
}

/// Lower end of the 95 % confidence interval of the median that `numbers` are drawn from, by order
/// statistics: how many of them are below it is binomial, n/2 with a deviation of sqrt(n)/2.
fn median_min(numbers: &[f64]) -> f64 {
    let deviation = 0.5 / (numbers.len() as f64).sqrt();
    quantile(numbers.iter().copied(), 0.5 - 1.96 * deviation)
}

// What is expected of an epoch whose packets, control frames included, are lost each with the same probability,
// independently.

/// One bank of an LDA: cells, and the share of packets that it takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bank {
    pub rows: u32,
    /// The share of packets that it takes, 0 to 1.
    pub share: f64,
}

impl Bank {
    /// The probability that a given cell lost none of an epoch's `packets`.
    fn clean(self, packets: f64, loss: f64) -> f64 {
        let lost_here = self.share * loss / f64::from(self.rows);
        (packets * (-lost_here).ln_1p()).exp()
    }

    /// Cells that lost none of an epoch's packets, on average.
    fn usable_cells(self, packets: f64, loss: f64) -> f64 {
        f64::from(self.rows) * self.clean(packets, loss)
    }

    /// Packets in such cells, on average: what the mean is taken of.
    fn effective_samples(self, packets: f64, loss: f64) -> f64 {
        let arrived = packets * self.share * (1.0 - loss);
        arrived * self.clean((packets - 1.0).max(0.0), loss)
    }
}

/// The probability that a rollover is seen: not every copy of its marker is lost.
fn rollover_seen(loss: f64) -> f64 {
    1.0 - loss.powi(i32::from(Marker::COPIES))
}

/// The probability that both rollovers of an epoch are seen.
fn epoch_seen(loss: f64) -> f64 {
    rollover_seen(loss).powi(2)
}

/// The probability that a range of cells arrives: at once, or in the one round of retransmission,
/// which takes a request the other way (lost with probability `back`) and the fragment once more.
fn range_arrives(loss: f64, back: f64) -> f64 {
    1.0 - loss * (1.0 - (1.0 - back) * (1.0 - loss))
}

/// The standard error of a mean of `samples` out of `packets`, drawn without replacement from delays with a
/// standard deviation of `deviation_ns`.
fn standard_error_ns(deviation_ns: f64, samples: f64, packets: f64) -> f64 {
    if samples < 1.0 {
        return f64::INFINITY;
    }
    let left_out = (1.0 - samples / packets).max(0.0);
    deviation_ns * (left_out / samples).sqrt()
}

#[cfg(test)]
mod tests;
