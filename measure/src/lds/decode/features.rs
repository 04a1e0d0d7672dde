//! `z_f`: the constant and what else is known of each flow.

use super::FEATURES_MAX;

/// Most terms of a regression: the constant and all features.
pub(super) const TERMS_MAX: usize = FEATURES_MAX + 1;
/// Coefficients, or one flow's z; entries beyond the terms in use are 0.
pub(super) type Terms = [f64; TERMS_MAX];
/// A square of terms.
pub(super) type Square = [Terms; TERMS_MAX];

/// Features of all flows in decoding order, standardised (mean 0, variance 1), so that a flow's
/// unknown feature is 0 +- 1.
#[derive(Debug, Default)]
pub(super) struct Features {
    count: usize,
    /// `count` entries a flow.
    values: Vec<f64>,
    /// One bit a feature that the flow lacks; empty where no flow lacks any.
    unknown: Vec<u8>,
    /// z-bar: packet-weighted means, the constant's 1 first.
    pub mean: Terms,
    covariance: Square,
    centres: [f64; FEATURES_MAX],
    units: [f64; FEATURES_MAX],
}

const _: () = assert!(FEATURES_MAX <= u8::BITS as usize, "one bit each");

impl Features {
    /// None but the constant.
    pub fn constant() -> Self {
        let mut features = Self::default();
        features.mean[0] = 1.0;
        features
    }

    /// From the list in the flows' own order; `order` tells which flow comes when, `packets` (in the
    /// flows' own order) weigh the means.
    pub fn new(raw: &[f64], count: usize, order: &[u32], packets: &[f64]) -> Self {
        let mut features = Self::constant();
        if count == 0 {
            return features;
        }
        features.count = count;
        let mut unknown = vec![0_u8; order.len()];
        features.values = vec![0.0; order.len() * count];
        for feature in 0..count {
            let value_of = |flow: u32| raw[flow as usize * count + feature];
            let known = || order.iter().map(|&f| value_of(f)).filter(|z| z.is_finite());
            let (centre, unit) = standard(known);
            features.centres[feature] = centre;
            features.units[feature] = unit;
            for (place, &flow) in order.iter().enumerate() {
                let value = value_of(flow);
                if value.is_finite() {
                    features.values[place * count + feature] = (value / unit) - (centre / unit);
                } else {
                    unknown[place] |= 1 << feature;
                }
            }
        }
        if unknown.iter().any(|&bits| bits != 0) {
            features.unknown = unknown;
        }
        features.summarise(order, packets);
        features
    }

    fn summarise(&mut self, order: &[u32], packets: &[f64]) {
        let mut weights = 0.0;
        for (place, &flow) in order.iter().enumerate() {
            let z = self.of(place);
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

    /// Whether some flow lacks some feature.
    pub fn any_unknown(&self) -> bool {
        !self.unknown.is_empty()
    }

    /// Which features the flow lacks, one bit each.
    #[inline]
    pub fn unknown(&self, flow: usize) -> u8 {
        self.unknown.get(flow).copied().unwrap_or(0)
    }

    /// Variance that a flow's unknown features add to its prior.
    #[inline]
    pub fn blur(&self, flow: usize, beta: &Terms) -> f64 {
        let bits = self.unknown(flow);
        if bits == 0 {
            return 0.0;
        }
        let unknown = (0..self.count).filter(|feature| bits >> feature & 1 == 1);
        unknown.map(|feature| beta[feature + 1].powi(2)).sum()
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

    /// Coefficients for features as they were given, still of scaled delays: the constant first.
    pub fn unstandardised(&self, beta: &Terms) -> Vec<f64> {
        let mut coefficients = vec![beta[0]];
        for feature in 0..self.count {
            let coefficient = beta[feature + 1] / self.units[feature];
            coefficients[0] -= coefficient * self.centres[feature];
            coefficients.push(coefficient);
        }
        coefficients
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
