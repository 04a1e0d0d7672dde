//! Turns results into reports: one for each interval, with the segments from this prober's node to others and
//! back.
//!
//! ```text
//!  measuring thread: results --Collector--> (shared, by interval) --Composer--> report::sender, a thread of its own
//! ```
//!
//! Sessions to the same node in the same class are one segment.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use report::msp::{self, Health, Kind, Quantiles, Report};
use report::sender::Reporter;
use report::{Names, float};

use crate::clock::ClockState;
use crate::config::Clock;
use crate::result::{Delays, OneWay, SessionResult};
use crate::session::Intervals;

/// Limit of queued results, about 800 bytes each. Beyond it, whole intervals are left out.
const WAITING_MAX: usize = 1 << 17;

/// Queued results, and the number of the first interval that is not closed.
#[derive(Debug, Default)]
struct Waiting {
    /// By interval.
    results: BTreeMap<u64, Vec<SessionResult>>,
    /// Results added since the reports' thread last looked.
    new: usize,
    closed: u64,
    /// Intervals before this one miss results, and are not reported.
    lost_before: u64,
}

/// Collects the results on the measuring thread.
#[derive(Debug)]
pub struct Collector(Arc<Mutex<Waiting>>);

/// Composes the reports on the sending thread.
#[derive(Debug)]
pub struct Composer {
    shared: Arc<Mutex<Waiting>>,
    prober: Prober,
    /// The next interval to report, and the first that the last report does not cover.
    next: u64,
    uncovered: u64,
    left_out: u64,
}

/// The reporting prober.
#[derive(Debug, Clone)]
pub struct Prober {
    /// Random number of this run.
    pub incarnation: u64,
    /// The name in reports.
    pub name: String,
    /// Its node.
    pub node: String,
    /// The clock of this machine.
    pub clock: Clock,
    /// When intervals begin.
    pub intervals: Intervals,
}

/// Both ends of the queue from results to reports.
pub fn pair(prober: Prober) -> (Collector, Composer) {
    let shared = Arc::<Mutex<Waiting>>::default();
    let collector = Collector(Arc::clone(&shared));
    let composer = Composer {
        shared,
        prober,
        next: 0,
        uncovered: 0,
        left_out: 0,
    };
    (collector, composer)
}

impl Collector {
    /// Adds a session's interval.
    pub fn result(&mut self, result: SessionResult) {
        let mut waiting = self.0.lock();
        waiting.new += 1;
        let of_interval = waiting.results.entry(result.interval).or_default();
        of_interval.push(result);
    }

    /// Releases the intervals before this one for reporting: all their results are here.
    pub fn closed(&mut self, before: u64) {
        let mut waiting = self.0.lock();
        waiting.closed = waiting.closed.max(before);
        if waiting.new > WAITING_MAX {
            // Some belong to intervals that are not closed yet.
            let newest = std::mem::take(&mut waiting.results).pop_last();
            let newest = newest.map_or(0, |(interval, _)| interval + 1);
            waiting.lost_before = waiting.lost_before.max(newest);
            waiting.new = 0;
        }
    }
}

impl Reporter for Composer {
    fn next(&mut self, dropped_reports: u64) -> Option<Report> {
        let mut waiting = self.shared.lock();
        waiting.new = 0;
        self.uncovered = self.uncovered.max(waiting.lost_before);
        let first = waiting.closed.min(waiting.lost_before).max(self.next);
        self.left_out += first - self.next;
        self.next = first;
        waiting.results = waiting.results.split_off(&first);
        let is_closed = first < waiting.closed;
        let results = is_closed.then(|| waiting.results.remove(&first).unwrap_or_default());
        drop(waiting);
        let mut report = self.prober.report(first, &results?);
        self.next += 1;
        report.epochs = self.next - self.uncovered;
        report.dropped_reports = dropped_reports + self.left_out;
        self.uncovered = self.next;
        Some(report)
    }

    fn interval_ms(&self) -> u32 {
        u32::try_from(self.prober.intervals.length.as_millis()).unwrap_or(u32::MAX)
    }

    fn name(&self) -> String {
        self.prober.name.clone()
    }
}

impl Prober {
    /// The report of a single interval.
    fn report(&self, interval: u64, results: &[SessionResult]) -> Report {
        let mut names = Names::default();
        let mut ways: BTreeMap<(&str, &str), Vec<&SessionResult>> = BTreeMap::new();
        for result in results {
            let way = (result.id.node.as_str(), result.id.class.as_str());
            ways.entry(way).or_default().push(result);
        }
        let mut segments = Vec::with_capacity(3 * ways.len());
        for ((node, class), results) in ways {
            segments.extend(self.segments([node, class], &results, &mut names));
        }
        let length_ns = u64::try_from(self.intervals.length.as_nanos()).unwrap_or(u64::MAX);
        Report {
            version_major: msp::VERSION_MAJOR,
            version_minor: msp::VERSION_MINOR,
            switch: self.name.clone(),
            incarnation: self.incarnation,
            epoch: interval,
            epochs: 1,
            start_unix_ns: self
                .intervals
                .start_unix_ms(interval)
                .saturating_mul(1_000_000),
            length_ns,
            health: Some(self.health(results)),
            segments,
            names: names.all(),
            node: Some(self.node.clone()),
            ..Report::default()
        }
    }

    /// Forward, backward, and round trip.
    fn segments(
        &self,
        [node, class]: [&str; 2],
        results: &[&SessionResult],
        names: &mut Names,
    ) -> Vec<msp::Segment> {
        let mut sums = [Sums::default(); 3];
        for result in results {
            let [forward, backward, round_trip] = &mut sums;
            // Either clock may add its error.
            let error_ns = result.sender_clock.error_ns
                + result.reflector_clock.map_or(0.0, |clock| clock.error_ns);
            let is_one_way =
                result.one_way == OneWay::Absolute && !result.clocks.state.has_stepped();
            for (sums, delays) in [(forward, result.forward), (backward, result.backward)] {
                sums.count(result);
                sums.add(delays.filter(|_| is_one_way), error_ns);
            }
            round_trip.count(result);
            round_trip.add(result.round_trip, 0.0);
        }
        let ends = [
            (Kind::Probe, &*self.node, node, "one-way"),
            (Kind::Probe, node, &*self.node, "one-way"),
            (Kind::RoundTrip, &*self.node, node, "round-trip"),
        ];
        let class = names.index(class);
        let segments = ends.into_iter().zip(sums);
        let known = segments.filter(|(_, sums)| sums.packets > 0);
        known
            .map(|((kind, from, to, method), sums)| msp::Segment {
                kind: kind.into(),
                from: names.index(from),
                to: names.index(to),
                class,
                method: names.index(method),
                ..sums.segment()
            })
            .collect()
    }

    fn health(&self, results: &[SessionResult]) -> Health {
        let states = [
            (ClockState::SenderStepped, "sender_stepped"),
            (ClockState::ReflectorStepped, "reflector_stepped"),
        ];
        let has = |state| results.iter().any(|result| result.clocks.state == state);
        let stepped = states.into_iter().filter(|(state, _)| has(*state));
        let is_synchronised = self.clock.error_ns.is_some();
        Health {
            unusable: stepped.map(|(_, name)| name.to_owned()).collect(),
            clock: if is_synchronised { "locked" } else { "free" }.to_owned(),
            clock_error_ns: float(self.clock.estimate().error_ns()),
            ..Health::default()
        }
    }
}

/// Half-width of the nominal 98 % interval in standard deviations, as for other segments.
const WIDTH: f64 = 2.326;

/// Statistics of several sessions in one direction.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    packets: u64,
    lost: u64,
    samples: u64,
    sum_ns: f64,
    squares_ns2: f64,
    /// The greatest error of clocks.
    error_ns: f64,
    medians_ns: f64,
    /// Everything but the median.
    quantiles: Option<Quantiles>,
}

impl Sums {
    fn count(&mut self, result: &SessionResult) {
        self.packets += result.counts.sent;
        self.lost += result.counts.lost;
    }

    /// Adds delays, to which the clocks may contribute an error of `error_ns`.
    fn add(&mut self, delays: Option<Delays>, error_ns: f64) {
        let Some(delays) = delays else { return };
        let n = delays.samples as f64;
        self.samples += delays.samples;
        self.sum_ns += n * delays.mean_ns;
        self.squares_ns2 += n * (delays.deviation_ns.powi(2) + delays.mean_ns.powi(2));
        self.error_ns = self.error_ns.max(error_ns);
        self.medians_ns += n * delays.p50_ns;
        let ones = Quantiles {
            min_ns: float(delays.min_ns as f64),
            max_ns: float(delays.max_ns as f64),
            p50_ns: 0.0,
            p99_ns: float(delays.p99_ns),
            p999_ns: float(delays.p999_ns),
        };
        let all = self.quantiles.get_or_insert(ones);
        all.min_ns = all.min_ns.min(ones.min_ns);
        all.max_ns = all.max_ns.max(ones.max_ns);
        all.p99_ns = all.p99_ns.max(ones.p99_ns);
        all.p999_ns = all.p999_ns.max(ones.p999_ns);
    }

    /// A segment without names. The median is the mean of the sessions' medians; other percentiles are the greatest.
    fn segment(&self) -> msp::Segment {
        let counted = msp::Segment {
            packets: self.packets,
            lost: i64::try_from(self.lost).unwrap_or(i64::MAX),
            ..msp::Segment::default()
        };
        let Some(quantiles) = self.quantiles else {
            return counted;
        };
        let n = self.samples as f64;
        let mean_ns = self.sum_ns / n;
        let deviation_ns = (self.squares_ns2 / n - mean_ns.powi(2)).max(0.0).sqrt();
        // With one packet there is no deviation.
        let bound_ns = (self.samples > 1).then(|| self.error_ns + WIDTH * deviation_ns / n.sqrt());
        msp::Segment {
            samples: self.samples,
            mean_ns: float(mean_ns),
            bound_ns: bound_ns.map(float),
            stddev_ns: Some(float(deviation_ns)),
            quantiles: Some(Quantiles {
                p50_ns: float(self.medians_ns / n),
                ..quantiles
            }),
            ..counted
        }
    }
}

#[cfg(test)]
mod tests;
