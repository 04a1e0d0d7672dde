//! Heavy hitters, from packets that the cells tell (section 4.3).

use reporting::Limit;
use reporting::statistics::{median, percent_of};

use super::super::{HEAVY, Tried};
use crate::experiment::{Found, Row};
use crate::sketched::errors;

/// A heavy hitter has at least this share of all packets.
const SHARES: [f64; 3] = [0.0001, 0.001, 0.01];

pub(super) fn run(tried: &Tried<'_>, decoded: &[f64], count_min: &[f64], found: &mut Found) {
    let exact = &tried.truth.received;
    let all: f64 = exact.iter().sum();
    for share in SHARES {
        let at = share * all;
        let label = format!("{} % of packets", 100.0 * share);
        let is_heavy = |flow: usize| exact.get(flow).is_some_and(|&size| size >= at);
        let precision = |named: &[f64]| {
            let named = named.iter().enumerate().filter(|(_, size)| **size >= at);
            percent_of(named.map(|(flow, _)| is_heavy(flow)))
        };
        let recall = |named: &[f64]| {
            let heavy = named.iter().enumerate().filter(|(flow, _)| is_heavy(*flow));
            percent_of(heavy.map(|(_, size)| *size >= at))
        };
        let check = format!("heavy hitters that are, flows of {label}");
        let row = Row::new(check, "% of flows", precision(decoded));
        found.row(HEAVY, row.other("count-min", precision(count_min)));
        let check = format!("heavy hitters found, flows of {label}");
        let row = Row::new(check, "% of flows", recall(count_min)).limit(Limit::AtLeast(100.0));
        found.row(HEAVY, row.other("decoded", recall(decoded)));
        let heavy = || (0..exact.len()).filter(|flow| is_heavy(*flow));
        let check = format!("size of heavy hitters, flows of {label}");
        let error = |of: &[f64]| median(errors(of, exact, heavy()));
        let row = Row::new(check, "%", error(decoded));
        found.row(HEAVY, row.other("count-min", error(count_min)));
    }
}
