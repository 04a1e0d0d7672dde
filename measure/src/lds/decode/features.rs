//! `z_f`: the constant and what else is known of each flow.

use std::ops::RangeInclusive;

use super::system::Scale;
use super::{FEATURES_MAX, FlowTable};

/// Most terms of a regression: the constant and all features.
pub(super) const TERMS_MAX: usize = FEATURES_MAX + 1;
/// Coefficients, or one flow's z; entries beyond the terms in use are 0.
pub(super) type Terms = [f64; TERMS_MAX];
/// A square of terms.
pub(super) type Square = [Terms; TERMS_MAX];

/// No clock counts further: means that are known lie within, and their variances within its square.
const TICKS_MAX: f64 = u64::MAX as f64;
const TICKS2_MAX: f64 = TICKS_MAX * TICKS_MAX;
/// Errors of known means in the system's units are this large at least.
const ERROR_MIN: f64 = 1e-12;

/// Means known from elsewhere, as terms of the regression.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownTerms {
    /// The constant by which they would be taken as they are; their coefficient is 1 then.
    pub constant: f64,
    /// How sure both are.
    pub precisions: [f64; 2],
}

/// What is known of all flows in decoding order: the means known from elsewhere first, in the system's
/// units, then features, standardised (variance 1). All have mean 0, so that what a flow lacks is 0.
#[derive(Debug, Default)]
pub(super) struct Features {
    count: usize,
    /// `count` entries a flow.
    values: Vec<f64>,
    /// Variance of what each may be off by, `count` entries a flow; empty where none may.
    errors: Vec<f64>,
    /// How packets vary of flows whose means are known, one entry a flow, NaN for other flows; empty
    /// where no means are known.
    within: Vec<f64>,
    /// How known means enter.
    pub known: Option<KnownTerms>,
    /// z-bar: packet-weighted means, the constant's 1 first.
    pub mean: Terms,
    covariance: Square,
    centres: [f64; FEATURES_MAX],
    units: [f64; FEATURES_MAX],
}

impl Features {
    /// None but the constant.
    pub fn constant() -> Self {
        let mut features = Self::default();
        features.mean[0] = 1.0;
        features
    }

    /// From the lists in the flows' own order; `order` tells which flow comes when, `packets` (in the
    /// flows' own order) weigh the means.
    pub fn new(table: &FlowTable<'_>, scale: Scale, order: &[u32], packets: &[f64]) -> Self {
        let mut features = Self::constant();
        let each = table.features_per_flow;
        let known = usize::from(table.known.is_some());
        features.count = known + each;
        features.values = vec![0.0; order.len() * features.count];
        features.errors = vec![0.0; order.len() * features.count];
        if let Some(known) = table.known {
            let within = |value: f64, limits: RangeInclusive<f64>| {
                if limits.contains(&value) {
                    value
                } else {
                    f64::NAN
                }
            };
            let mean_of = |flow| within(known.mean_ticks[flow], -TICKS_MAX..=TICKS_MAX);
            let error_of = |flow| within(known.error_ticks2[flow], 0.0..=TICKS2_MAX);
            features.fill(0, Some(scale.unit), order, mean_of, error_of);
            let within = order.iter().map(|&flow| {
                let flow = flow as usize;
                let variance = within(known.packets_ticks2[flow], 0.0..=TICKS2_MAX);
                match mean_of(flow) + error_of(flow) {
                    known if known.is_nan() => f64::NAN,
                    _ if variance.is_nan() => 0.0,
                    _ => variance / scale.unit / scale.unit,
                }
            });
            features.within = within.collect();
        }
        for feature in 0..each {
            let value_of = |flow| table.features[flow * each + feature];
            features.fill(known + feature, None, order, value_of, |_| 0.0);
        }
        if features.errors.iter().all(|&error| error == 0.0) {
            features.errors = Vec::new();
        }
        features.summarise(order, packets);
        features.known = table.known.map(|known| {
            let mut terms = KnownTerms {
                constant: (features.centres[0] - scale.centre) / scale.unit,
                // Where flows do not differ, none tells of the coefficient.
                precisions: [0.0, 1.0],
            };
            for (position, &flow) in order.iter().enumerate() {
                let error = known.error_ticks2[flow as usize] / scale.unit / scale.unit;
                if features.within(position).is_some() {
                    let precision = error.max(ERROR_MIN).recip();
                    terms.precisions[0] += precision;
                    terms.precisions[1] += precision * features.of(position)[1].powi(2);
                }
            }
            terms
        });
        features
    }

    /// Sets one entry of each flow, in units of its deviation where no other is given. What is not
    /// known, or known with no finite error, may be off by as much as flows differ.
    fn fill(
        &mut self,
        feature: usize,
        unit: Option<f64>,
        order: &[u32],
        value_of: impl Fn(usize) -> f64,
        error_of: impl Fn(usize) -> f64,
    ) {
        let known = |&flow: &u32| {
            let (value, error) = (value_of(flow as usize), error_of(flow as usize));
            (value.is_finite() && error.is_finite()).then_some((value, error))
        };
        let values = || order.iter().filter_map(known).map(|(value, _)| value);
        let (centre, deviation) = standard(values);
        let unit = unit.unwrap_or(deviation);
        (self.centres[feature], self.units[feature]) = (centre, unit);
        let spread = if deviation.is_finite() {
            deviation / unit
        } else {
            0.0
        };
        for (flow, index) in order.iter().zip((feature..).step_by(self.count)) {
            (self.values[index], self.errors[index]) = match known(flow) {
                Some((value, error)) => (value / unit - centre / unit, error / unit / unit),
                None => (0.0, spread * spread),
            };
        }
    }

    fn summarise(&mut self, order: &[u32], packets: &[f64]) {
        let mut weights = 0.0;
        for (position, &flow) in order.iter().enumerate() {
            let z = self.of(position);
            let weight = packets[flow as usize];
            weights += weight;
            for i in 1..=self.count {
                self.mean[i] += weight * z[i];
                for j in 1..=self.count {
                    self.covariance[i][j] += z[i] * z[j] / order.len() as f64;
                }
            }
        }
        for mean in &mut self.mean[1..] {
            *mean = if weights > 0.0 { *mean / weights } else { 0.0 };
        }
    }

    /// Terms in use: the constant and the features.
    pub fn terms(&self) -> usize {
        self.count + 1
    }

    /// Terms that only cells tell: all but known means and their constant.
    pub fn learnt(&self) -> usize {
        self.terms() - self.known.map_or(0, |_| 2)
    }

    /// z of a flow.
    pub fn of(&self, flow: usize) -> Terms {
        let mut z = Terms::default();
        z[0] = 1.0;
        let values = &self.values[flow * self.count..][..self.count];
        z[1..=self.count].copy_from_slice(values);
        z
    }

    /// z' beta of a flow.
    #[inline]
    pub fn predict(&self, flow: usize, beta: &Terms) -> f64 {
        let values = &self.values[flow * self.count..][..self.count];
        let products = values.iter().zip(&beta[1..]).map(|(z, b)| z * b);
        beta[0] + products.sum::<f64>()
    }

    /// Whether some flow's feature may be off.
    pub fn any_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Variances of what the flow's features may be off by: one entry each, or none.
    #[inline]
    pub fn errors(&self, flow: usize) -> &[f64] {
        let errors = self.errors.get(flow * self.count..).unwrap_or(&[]);
        &errors[..errors.len().min(self.count)]
    }

    /// Variance that a flow's unknown features, and the errors of others, add to its prior.
    #[inline]
    pub fn blur(&self, flow: usize, beta: &Terms) -> f64 {
        let errors = self.errors(flow).iter();
        errors.zip(&beta[1..]).map(|(error, b)| error * b * b).sum()
    }

    /// How the flow's packets vary; `None` where its mean is not known.
    #[inline]
    pub fn within(&self, flow: usize) -> Option<f64> {
        self.within
            .get(flow)
            .copied()
            .filter(|within| !within.is_nan())
    }

    /// Variance of z' beta over the flows.
    pub fn spread(&self, beta: &Terms) -> f64 {
        let terms = 1..self.terms();
        let products = terms.clone().flat_map(|i| {
            let row = &self.covariance[i];
            terms.clone().map(move |j| beta[i] * row[j] * beta[j])
        });
        products.sum::<f64>().max(0.0)
    }
}

/// Mean and standard deviation, safe for the largest numbers; the deviation of what does not vary
/// is infinite, so that the feature becomes 0.
fn standard<I: Iterator<Item = f64>>(values: impl Fn() -> I) -> (f64, f64) {
    let largest = values().fold(0.0, |largest: f64, value| largest.max(value.abs()));
    let count = values().count() as f64;
    if largest == 0.0 {
        return (0.0, f64::INFINITY);
    }
    let mean = values().map(|value| value / largest).sum::<f64>() / count;
    let square = |value: f64| (value / largest - mean).powi(2);
    let deviation = (values().map(square).sum::<f64>() / count).sqrt();
    // What rounding alone explains is no variation.
    let unit = if deviation > 1e-12 {
        deviation * largest
    } else {
        f64::INFINITY
    };
    (mean * largest, unit)
}
