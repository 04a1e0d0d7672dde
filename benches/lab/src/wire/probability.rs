//! Expectations for an epoch whose packets, control frames included, are lost each with the same
//! probability, independently.

use wire::frame::Marker;

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
    pub fn usable_cells(self, packets: f64, loss: f64) -> f64 {
        f64::from(self.rows) * self.clean(packets, loss)
    }

    /// Packets in such cells, on average: what the mean is taken of.
    pub fn effective_samples(self, packets: f64, loss: f64) -> f64 {
        let arrived = packets * self.share * (1.0 - loss);
        arrived * self.clean((packets - 1.0).max(0.0), loss)
    }
}

/// The probability that a rollover is seen: not every copy of its marker is lost.
fn rollover_seen(loss: f64) -> f64 {
    1.0 - loss.powi(i32::from(Marker::COPIES))
}

/// The probability that both rollovers of an epoch are seen.
pub fn epoch_seen(loss: f64) -> f64 {
    rollover_seen(loss).powi(2)
}

/// The probability that a range of cells arrives: at once, or in the one round of retransmission,
/// which takes a request the other way (lost with probability `back`) and the fragment once more.
pub fn range_arrives(loss: f64, back: f64) -> f64 {
    1.0 - loss * (1.0 - (1.0 - back) * (1.0 - loss))
}

/// The standard error of a mean of `samples` out of `packets`, drawn without replacement from delays with a
/// standard deviation of `deviation_ns`.
pub fn standard_error_ns(deviation_ns: f64, samples: f64, packets: f64) -> f64 {
    if samples < 1.0 {
        return f64::INFINITY;
    }
    let left_out = (1.0 - samples / packets).max(0.0);
    deviation_ns * (left_out / samples).sqrt()
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    #[test]
    fn usable_cells_are_as_many_as_in_a_simulation() {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let (packets, loss) = (5_000_u32, 0.02);
        let bank = Bank {
            rows: 50,
            share: 0.5,
        };
        let runs = 200;
        let (mut usable, mut samples) = (0.0, 0.0);
        for _ in 0..runs {
            let mut cells = [(0_u32, true); 50];
            for _ in 0..packets {
                if !random.random_bool(bank.share) {
                    continue;
                }
                let (count, clean) = &mut cells[random.random_range(0..50)];
                if random.random_bool(loss) {
                    *clean = false;
                } else {
                    *count += 1;
                }
            }
            let clean = cells.iter().filter(|(_, clean)| *clean);
            usable += clean.clone().count() as f64;
            samples += clean.map(|(count, _)| f64::from(*count)).sum::<f64>();
        }
        let (n, runs) = (f64::from(packets), f64::from(runs));
        let expected = bank.usable_cells(n, loss);
        // As if cells were independent, which they nearly are.
        let clean = expected / f64::from(bank.rows);
        let error = (expected * (1.0 - clean) / runs).sqrt();
        assert!((usable / runs - expected).abs() < 4.0 * error, "{usable}");
        let expected = bank.effective_samples(n, loss);
        assert!((samples / runs / expected - 1.0).abs() < 0.03, "{samples}");
    }

    #[test]
    fn markers_and_ranges_arrive_with_the_probability_of_their_copies() {
        let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(close(rollover_seen(0.0), 1.0) && close(rollover_seen(0.2), 0.992));
        assert!(close(epoch_seen(0.2), 0.992 * 0.992));
        // Sent, lost (.2); asked for and sent again: both must arrive (.64).
        assert!(close(range_arrives(0.2, 0.2), 1.0 - 0.2 * 0.36));
        assert!(close(range_arrives(0.0, 0.5), 1.0));
        let bank = Bank {
            rows: 1,
            share: 1.0,
        };
        assert!(close(bank.usable_cells(0.0, 0.5), 1.0));
        assert!(close(bank.effective_samples(2.0, 0.5), 0.5));
    }

    #[test]
    fn a_mean_of_all_packets_has_no_error() {
        assert!(standard_error_ns(5.0, 100.0, 100.0).abs() < 1e-9);
        assert!((standard_error_ns(5.0, 100.0, 1e12) - 0.5).abs() < 1e-6);
        assert!(standard_error_ns(5.0, 0.0, 100.0).is_infinite());
    }
}
