//! Compares a switch's reports on a wire with the truth.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use ::wire::frame::Marker;
use measure::lda::Bank;
use measure::packet::FlowKey;
use records::snapshot::{WireFigures, WireFlow};
use reporting::statistics::{mean, median, quantile};

use crate::wire::report::{Row, list, percent, whole};
use crate::wire::switch::{BANKS, hasher};
use crate::wire::truth::{Epochs, FlowTruth, Packets, Truth};
use crate::wire::watch::{Counts, Seen};

/// Epochs at either end of a run that do not count: a session begins in them, or ends.
const MARGIN: usize = 2;

/// Times are whole nanoseconds.
pub const ROUNDING_NS: f64 = 0.5;

/// Half of a normal distribution's deviations are under this share of the standard deviation.
const MEDIAN_OF_NORMAL: f64 = 0.6745;

/// Flows judged together, by their packets in an epoch, and last all of these. Under TCP at full speed half of them are
/// one large flow with errors of tenths of a percent, and half are small flows with several percent, so a median over
/// both is a value that no flow has, and varies widely.
const SIZES: [RangeInclusive<u64>; 3] = [10..=99, 100..=u64::MAX, 10..=u64::MAX];

/// Least number of a flow's packets in an epoch for its 99th percentile to be judged.
pub const TAIL_PACKETS_MIN: u64 = 1_000;

/// Name for the method that the switch chose.
pub const CHOSEN: &str = "chosen";

/// One direction of a wire, over all its epochs in which packets were sent.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    pub epochs: usize,
    /// Epochs reported as usable. An epoch that is followed by another before the switch next publishes is never seen.
    pub usable: usize,
    /// Usable epochs with the sender's counts,
    pub counted: usize,
    /// and those of them with exact numbers of packets sent, received and lost.
    pub counts_exact: usize,
    /// Packets of an epoch.
    pub packets: f64,
    /// Packets in usable cells of the LDA.
    pub samples: f64,
    /// Mean and standard deviation of delays in an epoch, ns.
    pub mean_ns: f64,
    pub deviation_ns: f64,
    /// Means of the segment in epochs with a bound, ns.
    pub means: Vec<Errors>,
    /// Median error of the LDA's mean as predicted by probability, ns.
    pub expected_error_ns: f64,
    /// Flows of at least ten packets in an epoch, by their size, and last all of them.
    pub flows: Vec<FlowClass>,
    /// Their 99th percentiles, flows of [`TAIL_PACKETS_MIN`] packets and more.
    pub tails: Judged,
    /// Usable data, compared with predictions from probability.
    pub usability: Row,
}

/// Errors of means by one method, of epochs in ns, of flows as shares of the true mean.
#[derive(Debug, Clone, Default)]
pub struct Errors {
    pub method: String,
    /// Epochs, or flows in epochs.
    pub count: usize,
    /// The median error.
    pub error: f64,
    /// Lower end of its 95 % confidence interval.
    pub error_min: f64,
    /// The median bound, ns.
    pub bound_ns: f64,
    /// Means with a bound,
    pub bounded: usize,
    /// and means among these whose bound holds the truth.
    pub within: usize,
}

/// A mean by a method, its bound, and the truth, in ns.
type Estimate<'m> = (&'m str, f64, Option<f64>, f64);

impl Errors {
    /// By method, in the order in which methods first appear, but with the chosen estimate last.
    fn by_method<'m>(
        estimates: impl Iterator<Item = Estimate<'m>>,
        unit_ns: impl Fn(f64) -> f64,
    ) -> Vec<Self> {
        let mut methods: Vec<(&str, Vec<_>)> = Vec::new();
        for (method, mean_ns, bound_ns, truth_ns) in estimates {
            let error_ns = (mean_ns - truth_ns).abs();
            let error = (
                error_ns / unit_ns(truth_ns),
                bound_ns.map(|ns| (error_ns, ns)),
            );
            match methods.iter_mut().find(|(known, _)| *known == method) {
                Some((_, errors)) => errors.push(error),
                None => methods.push((method, vec![error])),
            }
        }
        methods.sort_by_key(|(method, _)| *method == CHOSEN);
        let methods = methods.into_iter().map(|(method, of_method)| {
            let errors: Vec<f64> = of_method.iter().map(|(error, _)| *error).collect();
            let bounds = of_method.iter().filter_map(|(_, bound)| *bound);
            Self {
                method: method.to_owned(),
                count: errors.len(),
                error_min: median_min(&errors),
                error: median(errors),
                bound_ns: median(bounds.clone().map(|(_, bound_ns)| bound_ns)),
                bounded: bounds.clone().count(),
                within: bounds
                    .filter(|(error_ns, bound_ns)| *error_ns <= bound_ns + ROUNDING_NS)
                    .count(),
            }
        });
        methods.collect()
    }

    /// The share of bounds that hold.
    pub fn within_share(&self) -> f64 {
        self.within as f64 / self.bounded as f64
    }
}

/// Flows of similar size.
#[derive(Debug, Clone)]
pub struct FlowClass {
    /// Packets in an epoch.
    pub packets: RangeInclusive<u64>,
    pub errors: Vec<Errors>,
}

impl FlowClass {
    /// Whether it has flows of every size.
    pub fn is_all(&self) -> bool {
        Some(&self.packets) == SIZES.last()
    }

    /// Errors of the chosen estimate, and of the best single method among those with almost as many flows. RLI has no
    /// mean if packets overtake each other, and the few flows that it then has are not representative.
    pub fn chosen_and_best(&self) -> Option<(&Errors, &Errors)> {
        let chosen = self.errors.iter().find(|of| of.method == CHOSEN)?;
        let single = self.errors.iter().filter(|of| of.method != CHOSEN);
        let single = single.filter(|of| of.count * 10 >= chosen.count * 9);
        let best = single.min_by(|a, b| a.error.total_cmp(&b.error))?;
        Some((chosen, best))
    }
}

/// A figure of flows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Judged {
    /// Flows, or flows in epochs,
    pub flows: usize,
    /// and flows among these that have the figure.
    pub known: usize,
    /// Median of its relative errors.
    pub error: f64,
}

impl Judged {
    /// From pairs of known figures and the truth.
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

    /// Of 99th percentiles of flows of [`TAIL_PACKETS_MIN`] packets and more.
    pub fn tails<'f>(flows: impl Iterator<Item = (&'f WireFlow, &'f FlowTruth)>) -> Self {
        let large = flows.filter(|(_, truth)| truth.packets.received >= TAIL_PACKETS_MIN);
        Self::of(large.map(|(flow, truth)| {
            let figure = flow.flow.quantiles.map(|of| of.p99_ns);
            (figure, truth.p99_ns())
        }))
    }
}

/// The truth and the report of the same epoch.
type Pair<'a> = (&'a Truth, &'a WireFigures);

/// Judges one direction. `loss` is the probability of loss for every frame, in either direction.
pub fn judge(epochs: &Epochs, seen: &Seen, loss: f64) -> Verdict {
    let inner = epochs.len().saturating_sub(2 * MARGIN);
    let truths = epochs.iter().skip(MARGIN).take(inner);
    let truths: BTreeMap<u32, &Truth> = truths.map(|(epoch, truth)| (*epoch, truth)).collect();
    let figures = seen.epochs.values();
    let pairs: Vec<Pair> = figures
        .filter_map(|figures| Some((*truths.get(&low(figures.epoch))?, figures)))
        .collect();
    let flows = reported(&truths, seen);
    let is_exact = |(truth, figures): &&Pair| {
        let packets = &truth.packets;
        figures.sent_packets == Some(packets.sent)
            && figures.received_packets == Some(packets.received)
            && figures.lost_packets.map(u64::try_from) == Some(Ok(packets.lost()))
    };
    let is_counted = |(_, figures): &&Pair| figures.lost_packets.is_some();
    let samples = |figures: &WireFigures| {
        let lda = figures.estimates.iter().find(|one| one.method == "lda");
        lda.and_then(|lda| lda.effective_samples).unwrap_or(0) as f64
    };
    let all = || truths.values().map(|truth| &truth.packets);
    let packets =
        all().map(|packets| packets.sent).sum::<u64>() as f64 / truths.len().max(1) as f64;
    let verdict = Verdict {
        epochs: truths.len(),
        usable: pairs.len(),
        counted: pairs.iter().filter(is_counted).count(),
        counts_exact: pairs.iter().filter(is_exact).count(),
        packets,
        samples: mean(pairs.iter().map(|(_, figures)| samples(figures))),
        mean_ns: mean(all().filter_map(Packets::mean_ns)),
        deviation_ns: mean(all().filter_map(Packets::deviation_ns)),
        means: means(&pairs),
        expected_error_ns: expected_error_ns(&pairs, loss),
        flows: flow_classes(&flows),
        tails: Judged::tails(flows.iter().copied()),
        usability: Row::new(),
    };
    Verdict {
        usability: usability(&verdict, &truths, &pairs, &seen.fates(), loss),
        ..verdict
    }
}

/// The low bits of an epoch's number, as records have them.
#[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
pub fn low(epoch: u64) -> u32 {
    epoch as u32
}

fn usability(
    verdict: &Verdict,
    truths: &BTreeMap<u32, &Truth>,
    pairs: &[Pair],
    fates: &Counts,
    loss: f64,
) -> Row {
    let epochs = |of: fn(&str) -> bool| {
        let counts = fates.iter().filter(|(fate, _)| of(fate));
        counts.map(|(_, count)| count).sum::<u64>() as f64
    };
    // Of the epochs with packets.
    let usable = epochs(|fate| fate == "usable") / epochs(|fate| fate != "idle").max(1.0);
    let counted = verdict.counted as f64 / verdict.usable.max(1) as f64;
    let sum = |of: fn(&Truth) -> u64| truths.values().map(|truth| of(truth)).sum::<u64>() as f64;
    let of_sent = |count| percent(count / sum(|truth| truth.packets.sent));
    let cells = mean(pairs.iter().map(|(_, figures)| figures.usable_cells_ratio));
    let moved: u64 = pairs.iter().map(|(_, figures)| figures.moved_packets).sum();
    let expected = |of| {
        mean(
            pairs
                .iter()
                .map(|(truth, _)| over_banks(&truth.packets, loss, of)),
        )
    };
    let rows: f64 = BANKS.iter().map(|bank| f64::from(bank.rows)).sum();
    vec![
        ("epochs", verdict.epochs.to_string()),
        ("compared", verdict.usable.to_string()),
        ("usable", percent(usable)),
        ("should be", percent(epoch_seen(loss))),
        ("counts known", percent(counted)),
        ("should be", percent(range_arrives(loss, loss))),
        ("packets", whole(verdict.packets)),
        ("lost", of_sent(sum(|truth| truth.packets.lost()))),
        ("reordered", of_sent(sum(|truth| truth.reordered))),
        ("cells", percent(cells)),
        ("should be", percent(expected(usable_cells) / rows)),
        ("samples", whole(verdict.samples)),
        ("should be", whole(expected(effective_samples))),
        ("moved", moved.to_string()),
        ("fates", list(fates)),
    ]
}

fn means(pairs: &[Pair]) -> Vec<Errors> {
    let estimates = pairs.iter().filter_map(|(truth, figures)| {
        let truth_ns = truth.packets.mean_ns()?;
        let by_name = figures.estimates.iter();
        let by_name = by_name.map(|one| (one.method.as_str(), one));
        let all = by_name.chain(figures.chosen.iter().map(|one| (CHOSEN, one)));
        let bounded = all.filter(|(_, one)| one.bound_ns.is_some());
        Some(bounded.map(move |(method, one)| (method, one.mean_ns, one.bound_ns, truth_ns)))
    });
    Errors::by_method(estimates.flatten(), |_| 1.0)
}

/// Expected values over all banks, for the LDA cells that arrive.
fn over_banks(packets: &Packets, loss: f64, of: fn(&Bank, f64, f64) -> f64) -> f64 {
    let banks = BANKS.iter().map(|bank| of(bank, packets.sent as f64, loss));
    range_arrives(loss, loss) * banks.sum::<f64>()
}

fn expected_error_ns(pairs: &[Pair], loss: f64) -> f64 {
    let errors = pairs.iter().filter_map(|(Truth { packets, .. }, _)| {
        let samples = over_banks(packets, loss, effective_samples);
        let received = packets.received as f64;
        let error_ns = standard_error_ns(packets.deviation_ns()?, samples, received);
        error_ns.is_finite().then_some(MEDIAN_OF_NORMAL * error_ns)
    });
    median(errors)
}

/// The reported flows, with the fates of their packets in the epoch.
fn reported<'s>(
    truths: &BTreeMap<u32, &'s Truth>,
    seen: &'s Seen,
) -> Vec<(&'s WireFlow, &'s FlowTruth)> {
    let hasher = hasher();
    let of_epochs = seen.flows.iter().filter_map(|(epoch, flows)| {
        let truth = *truths.get(&low(*epoch))?;
        Some(flows.iter().map(move |flow| (flow, truth)))
    });
    let known = of_epochs.flatten().filter_map(|(flow, truth)| {
        let key: FlowKey = flow.flow.flow.parse().ok()?;
        Some((flow, truth.flows.get(&hasher.flow_hash(&key).0)?))
    });
    known.collect()
}

fn flow_classes(flows: &[(&WireFlow, &FlowTruth)]) -> Vec<FlowClass> {
    let classes = SIZES.into_iter().map(|size| {
        let of_size = flows.iter();
        let of_size = of_size.filter(|(_, truth)| size.contains(&truth.packets.received));
        let estimates = of_size.filter_map(|(WireFlow { flow, .. }, truth)| {
            let truth_ns = truth.packets.mean_ns().filter(|ns| *ns > 0.0)?;
            let by_name = flow.estimates.iter();
            let by_name = by_name.map(|one| (one.method.label(), one));
            let all = by_name.chain(flow.estimate.iter().map(|one| (CHOSEN, one)));
            Some(all.map(move |(method, one)| (method, one.mean_ns, one.bound_ns, truth_ns)))
        });
        FlowClass {
            errors: Errors::by_method(estimates.flatten(), |truth_ns| truth_ns),
            packets: size,
        }
    });
    classes.filter(|class| !class.errors.is_empty()).collect()
}

/// Lower end of the 95 % confidence interval of the median of the distribution of `numbers`, by order statistics: the
/// number of values below the median is binomial, n/2 with a deviation of sqrt(n)/2.
fn median_min(numbers: &[f64]) -> f64 {
    let deviation = 0.5 / (numbers.len() as f64).sqrt();
    quantile(numbers.iter().copied(), 0.5 - 1.96 * deviation)
}

// Expected values of an epoch whose packets, including control frames, are lost independently with the same
// probability.

/// The probability that a given cell of a bank lost none of an epoch's `packets`.
fn clean(bank: &Bank, packets: f64, loss: f64) -> f64 {
    let lost_here = bank.probability * loss / f64::from(bank.rows);
    (packets * (-lost_here).ln_1p()).exp()
}

/// Cells of a bank that lost none of an epoch's packets, on average.
fn usable_cells(bank: &Bank, packets: f64, loss: f64) -> f64 {
    f64::from(bank.rows) * clean(bank, packets, loss)
}

/// Average number of packets in such cells, the sample of the mean.
fn effective_samples(bank: &Bank, packets: f64, loss: f64) -> f64 {
    let arrived = packets * bank.probability * (1.0 - loss);
    arrived * clean(bank, (packets - 1.0).max(0.0), loss)
}

/// The probability that a rollover is seen: not every copy of its marker is lost.
fn rollover_seen(loss: f64) -> f64 {
    1.0 - loss.powi(i32::from(Marker::COPIES))
}

/// The probability that both rollovers of an epoch are seen.
fn epoch_seen(loss: f64) -> f64 {
    rollover_seen(loss).powi(2)
}

/// The probability that a range of cells arrives: at once, or in the only round of retransmission, which needs a
/// request in the other direction (lost with probability `back`) and the fragment again.
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
