//! What references say of flows.

use proptest::prelude::*;

use super::*;
use crate::rli::{Estimate, Estimates, FlowDelay, Method};
use crate::time::EpochTag;

/// Of an interval whose exact sum a packet has that share of; 0: the sum is not known.
fn estimate(delay_ns: f64, squared_error_ns2: f64, interval: u32, share_of_sum: f64) -> Estimate {
    Estimate {
        epoch: EpochTag(0),
        received_ns: 0,
        delay_ns,
        squared_error_ns2,
        share_of_sum,
        interval,
    }
}

#[test]
fn estimates_are_signed_and_exact() {
    let record = |slots: &mut FlowSlots, flows: &[Slot], delay_ns| {
        let estimate = estimate(delay_ns, 1.0, 1, 0.0);
        slots.record_estimates(&Estimates { flows, estimate });
    };
    let mut slots = FlowSlots::new(1).with_estimates();
    record(&mut slots, &[Slot(0)], -3.0);
    record(&mut slots, &[Slot(0)], 5.0);
    record(&mut slots, &[Slot(1), Slot(0)], 1.0);
    let sums = slots.estimates(Slot(0)).unwrap().delay();
    assert_eq!(
        (sums.packets(), sums.sum_ns(), sums.sum_of_squares_ns2()),
        (3, 3.0, 35.0)
    );
    assert_eq!(sums.mean_ns(), Some(1.0));
    let stddev = (35.0 / 3.0 - 1.0_f64).sqrt();
    assert!((sums.stddev_ns().unwrap() - stddev).abs() < 1e-12);
    let other = slots.estimates(Slot::OTHER).unwrap().delay();
    assert_eq!((other.packets(), other.mean_ns()), (1, Some(1.0)));

    let mut without = FlowSlots::new(1);
    record(&mut without, &[Slot(0)], 3.0);
    assert_eq!(without, FlowSlots::new(1));
    assert_eq!(without.estimates(Slot(0)), None);
}

proptest! {
    /// 32 bytes say what 48 do: the bound to seven digits.
    #[test]
    fn few_bytes_say_what_many_do(
        packets in proptest::collection::vec((-1e7..1e7_f64, 0.0..1e12_f64, 1_u32..65_536, 1_u32..40), 1..300)
    ) {
        let mut slots = FlowSlots::new(1).with_estimates();
        let mut whole = FlowDelay::default();
        for (delay_ns, squared_error_ns2, interval, packets) in packets {
            // As many as an interval has, or more: what errors add up to never falls below 0.
            let estimate = estimate(delay_ns, squared_error_ns2, interval, 1.0 / f64::from(1_000 * packets));
            slots.record_estimates(&Estimates { flows: &[Slot(0)], estimate });
            whole.add(&estimate);
        }
        let few = slots.estimates(Slot(0)).unwrap().delay();
        prop_assert_eq!(few.mean_ns(), whole.mean_ns());
        prop_assert_eq!(few.variance_ns2(), whole.variance_ns2());
        for method in Method::ALL {
            let [few, many] = [few, whole].map(|delay| delay.bound_ns(method).unwrap());
            prop_assert!((few - many).abs() <= 1e-4 * many, "{} for {}", few, many);
        }
    }
}
