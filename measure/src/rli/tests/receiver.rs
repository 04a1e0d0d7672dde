//! The receiver: figures that it recovers exactly, and events that must not disturb it.

use proptest::prelude::*;

use super::{STREAM, byte_a_ns};
use crate::packet::PacketHash;
use crate::rli::{
    Estimate, Estimates, FlowDelay, Method, Receiver, ReceiverConfig, Reference, ReferenceSender,
    StreamId, StreamSums,
};
use crate::time::EpochTag;

/// The estimate for a packet.
#[derive(Debug, Clone, Copy)]
struct Estimated {
    flow: u32,
    estimate: Estimate,
}

impl std::ops::Deref for Estimated {
    type Target = Estimate;

    fn deref(&self) -> &Estimate {
        &self.estimate
    }
}

/// Puts the packets of a run into `estimated`, one by one.
fn into(estimated: &mut Vec<Estimated>) -> impl FnMut(Estimates<'_, u32>) {
    |Estimates { flows, estimate }| {
        estimated.extend(flows.iter().map(|&flow| Estimated { flow, estimate }));
    }
}

/// Of one packet, whose reference lies 3 ns from its neighbours' line.
fn estimate(delay_ns: f64, share_of_sum: f64, interval: u32) -> Estimate {
    Estimate {
        epoch: EpochTag(0),
        received_ns: 0,
        delay_ns,
        squared_error_ns2: 9.0,
        share_of_sum,
        interval,
    }
}

/// Both ends of a stream. Sizes are in bytes and nanoseconds alike: a byte takes one.
struct Wire {
    sender: ReferenceSender,
    receiver: Receiver<u32>,
    estimates: Vec<Estimated>,
    hash: u64,
}

impl Wire {
    fn with(change: impl FnOnce(&mut ReceiverConfig), method: Method) -> Self {
        let mut config = ReceiverConfig::new(STREAM, method, byte_a_ns());
        change(&mut config);
        Self {
            sender: ReferenceSender::new(STREAM),
            receiver: Receiver::new(config).unwrap(),
            estimates: Vec::new(),
            hash: 0,
        }
    }

    fn new(method: Method) -> Self {
        Self::with(|_| (), method)
    }

    fn send(&mut self, sent_ns: u64) -> PacketHash {
        self.hash = self.hash.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.sender.record(PacketHash(self.hash), sent_ns);
        PacketHash(self.hash)
    }

    fn regular(&mut self, flow: u32, bytes: u32, received_ns: u64, delay_ns: i64) {
        let hash = self.send(received_ns.wrapping_add_signed(-delay_ns));
        let Self {
            receiver,
            estimates,
            ..
        } = self;
        receiver.regular(flow, hash, bytes, received_ns, &mut into(estimates));
    }

    fn reference(&mut self, received_ns: u64, delay_ns: i64) {
        let reference = self
            .sender
            .reference(received_ns.wrapping_add_signed(-delay_ns));
        self.deliver(&reference, received_ns);
    }

    fn deliver(&mut self, reference: &Reference, received_ns: u64) {
        let Self {
            receiver,
            estimates,
            ..
        } = self;
        receiver.reference(reference, 100, received_ns, &mut into(estimates));
    }

    fn finish(mut self) -> Vec<Estimated> {
        self.receiver.flush(&mut into(&mut self.estimates));
        self.estimates
    }
}

fn assert_close(ours: f64, exact: f64, tolerance: f64) {
    assert!((ours - exact).abs() <= tolerance, "{ours} for {exact}");
}

#[test]
fn the_left_reference_speaks_at_once() {
    let mut wire = Wire::new(Method::Left);
    wire.regular(0, 100, 500, 300);
    assert_eq!(wire.receiver.counters().early_packets, 1);
    wire.reference(1_000, 400);
    wire.regular(1, 250, 2_000, 999);
    // 400 + (250 - 100) bytes.
    assert_close(wire.estimates[0].delay_ns, 550.0, 0.0);
    assert_eq!(wire.estimates[0].received_ns, 2_000);
}

#[test]
fn a_ramp_is_recovered_by_the_line() {
    let mut wire = Wire::new(Method::Linear);
    let delay_ns =
        |received_ns: u64, bytes: u32| i64::try_from(received_ns / 4).unwrap() + i64::from(bytes);
    for i in 0..50_u64 {
        let received_ns = i * 400;
        if i % 7 == 0 {
            wire.reference(received_ns, delay_ns(received_ns, 100));
        } else {
            let bytes = 64 + 100 * (i as u32 % 3);
            wire.regular(bytes, bytes, received_ns, delay_ns(received_ns, bytes));
        }
    }
    wire.reference(20_000, delay_ns(20_000, 100));
    let estimates = wire.finish();
    assert_eq!(estimates.len(), 42);
    for estimate in estimates {
        let exact = delay_ns(estimate.received_ns, estimate.flow) as f64;
        assert_close(estimate.delay_ns, exact, 1e-6);
        assert_close(estimate.squared_error_ns2, 0.0, 1e-6);
    }
}

/// Between two references of the same service time and no idle time, waits on a curve.
#[test]
fn curves_are_recovered_from_sums() {
    let (c, twist) = (0.25, -0.15);
    let wait_ns = |x: f64| {
        let bulge = 1e5 * x * (1.0 - x);
        (5e4 + 2e4 * x + (c + twist * (1.0 - 2.0 * x)) * bulge).round() as i64
    };
    for (method, tolerance) in [
        (Method::Sums, 2.0),
        (Method::AnchoredSums, 2.0),
        (Method::Linear, 1e9),
    ] {
        let mut wire = Wire::new(method);
        wire.reference(100, 100 + wait_ns(0.0));
        for i in 1..100_u32 {
            let start_ns = u64::from(i) * 1_000;
            wire.regular(
                i,
                1_000,
                start_ns + 1_000,
                1_000 + wait_ns(f64::from(i) / 100.0),
            );
        }
        wire.reference(100_100, 100 + wait_ns(1.0));
        let estimates = wire.finish();
        assert_eq!(estimates.len(), 99);
        let mut worst = 0.0_f64;
        for estimate in estimates {
            let exact = 1_000 + wait_ns(f64::from(estimate.flow) / 100.0);
            worst = worst.max((estimate.delay_ns - exact as f64).abs());
        }
        assert!(worst <= tolerance, "{method:?}: {worst}");
        assert!(method != Method::Linear || worst > 5_000.0);
    }
}

#[test]
fn a_lost_reference_lengthens_the_interval() {
    let mut wire = Wire::new(Method::Sums);
    let delays = [700, 900, 1_200, 1_000, 800];
    wire.reference(0, 600);
    for (i, delay_ns) in (1_u64..).zip(delays) {
        wire.regular(0, 100, i * 1_000, delay_ns);
        let reference = wire.sender.reference(i * 1_000 + 500 - 600);
        if i == 5 {
            wire.deliver(&reference, i * 1_000 + 500);
        }
    }
    let counters = *wire.receiver.counters();
    assert_eq!((counters.references, counters.lost_references), (2, 4));
    assert_eq!((counters.intervals, counters.exact_intervals), (1, 1));
    let segment = wire.receiver.take_segment();
    assert_eq!((segment.packets(), segment.exact_packets()), (5, 5));
    assert_close(segment.mean_ns().unwrap(), 920.0, 1e-9);
    let sum_ns: f64 = wire.finish().iter().map(|estimate| estimate.delay_ns).sum();
    assert_close(sum_ns, 4_600.0, 1e-6);
}

#[test]
fn references_twice_overtaken_or_of_others_are_stale() {
    let mut wire = Wire::new(Method::Linear);
    let first = wire.sender.reference(0);
    let second = wire.sender.reference(900);
    wire.deliver(&first, 100);
    wire.regular(0, 100, 600, 100);
    let other = StreamId { queue: 1, ..STREAM };
    wire.deliver(
        &Reference {
            stream: other,
            ..second
        },
        700,
    );
    wire.deliver(&second, 1_000);
    wire.deliver(&second, 1_100);
    wire.deliver(&first, 1_200);
    let counters = *wire.receiver.counters();
    assert_eq!((counters.references, counters.stale_references), (2, 3));
    assert_eq!(wire.finish().len(), 1);
}

#[test]
fn what_does_not_fit_is_estimated_by_the_left_reference() {
    let mut wire = Wire::with(|config| config.buffer_packets = 4, Method::Sums);
    wire.reference(0, 500);
    for i in 1..=10 {
        wire.regular(i, 100, u64::from(i) * 1_000, 500 + i64::from(i) * 10);
    }
    let at_once: Vec<_> = wire
        .estimates
        .iter()
        .map(|estimate| estimate.flow)
        .collect();
    assert_eq!(at_once, [5, 6, 7, 8, 9, 10]);
    assert!(
        wire.estimates
            .iter()
            .all(|estimate| estimate.delay_ns.total_cmp(&500.0).is_eq())
    );
    assert_eq!(wire.receiver.counters().overflowed_packets, 6);
    wire.reference(11_000, 610);
    let estimates = wire.finish();
    assert_eq!(estimates.len(), 10);
    // The sum of all ten cannot bend the curve of the four.
    for estimate in &estimates[6..] {
        assert_close(
            estimate.delay_ns,
            500.0 + f64::from(estimate.flow) * 10.0,
            1e-6,
        );
    }
}

#[test]
fn bounds_are_how_far_references_lie_from_their_neighbours_line() {
    let mut wire = Wire::new(Method::Linear);
    // At 1 and 2 the line gives 20 and 25: errors -10 and 5.
    for (i, delay_ns) in [0, 10, 40, 40].into_iter().enumerate() {
        let received_ns = 1_000 * i as u64;
        wire.reference(received_ns, delay_ns);
        wire.regular(7, 100, received_ns + 300, 0);
        if i == 1 {
            wire.regular(7, 100, received_ns + 600, 0);
        }
    }
    let estimates = wire.finish();
    let errors: Vec<_> = estimates
        .iter()
        .map(|estimate| estimate.squared_error_ns2)
        .collect();
    assert_eq!(errors[..4], [100.0, 225.0, 225.0, 225.0]);
    let mut flow = FlowDelay::default();
    for estimate in &estimates[..4] {
        flow.add(estimate);
    }
    // Intervals of one, two and one packet.
    let expected = 2.0 * (100.0_f64 + 4.0 * 225.0 + 225.0).sqrt() / 4.0;
    assert_close(flow.raw_bound_ns().unwrap(), expected, 1e-9);
    let calibrated = Method::Linear.bound_calibration(1.0) * expected;
    assert_close(flow.bound_ns(Method::Linear).unwrap(), calibrated, 1e-9);
}

#[test]
fn a_flow_is_off_by_no_more_than_the_rest_of_its_interval() {
    let estimate = |interval, packets: u32| estimate(50.0, f64::from(packets).recip(), interval);
    let bound = |mine: u32, all: u32| {
        let mut flow = FlowDelay::default();
        (0..mine).for_each(|_| flow.add(&estimate(1, all)));
        flow.raw_bound_ns().unwrap() * f64::from(mine)
    };
    // n (1 - n / N) errors of 3, twice: the same of the other packets as of these, and nothing of all.
    assert_close(bound(1, 5), 2.0 * 3.0 * 0.8, 1e-9);
    assert_close(bound(4, 5), 2.0 * 3.0 * 0.8, 1e-9);
    assert_close(bound(5, 5), 0.0, 1e-6);
    let mut flow = FlowDelay::default();
    (0..8).for_each(|interval| flow.add(&estimate(interval + 1, 5)));
    assert_close(flow.effective_intervals(), 8.0, 1e-9);
    // One packet in each of eight intervals, and 99 of 100 in another: those weigh as much as one.
    (0..99).for_each(|_| flow.add(&estimate(9, 100)));
    assert_close(flow.effective_intervals(), 9.0, 0.4);
    let at = |intervals| Method::Sums.bound_calibration(intervals);
    assert!(at(1.0) > at(2.0) && at(2.0) > at(f64::INFINITY));
}

#[test]
fn exact_sums_leave_only_what_delays_differ_by() {
    let mut wire = Wire::new(Method::Sums);
    // The references are far off their neighbours' line; the packets are on it, except in the middle.
    for (i, delay_ns) in [300, 900, 300, 900].into_iter().enumerate() {
        let received_ns = 10_000 * i as u64;
        wire.reference(received_ns, delay_ns);
        for place in 1..=4 {
            wire.regular(place, 100, received_ns + 2_000 * u64::from(place), 600);
        }
    }
    let estimates = wire.finish();
    let inner: Vec<_> = estimates.iter().filter(|e| e.interval == 2).collect();
    assert_eq!(inner.len(), 4);
    for estimate in inner {
        assert_close(estimate.share_of_sum, 0.25, 1e-12);
        // Three hundredths of 600^2, and the line's own variance at most beside it.
        assert!(estimate.squared_error_ns2 >= 0.03 * 600.0 * 600.0 - 1.0);
        assert!(
            estimate.squared_error_ns2 < 2.0 * 300.0 * 300.0,
            "{estimate:?}"
        );
    }
}

#[test]
fn a_new_session_begins_anew() {
    let mut wire = Wire::new(Method::Sums);
    for i in 0..4 {
        wire.reference(10_000 * i, 300);
        wire.regular(0, 100, 10_000 * i + 500, 300);
    }
    wire.sender = ReferenceSender::new(STREAM);
    wire.receiver.restart(&mut into(&mut wire.estimates));
    assert_eq!(wire.estimates.len(), 4);
    wire.reference(50_000, 200);
    wire.regular(0, 100, 50_500, 200);
    wire.reference(51_000, 200);
    let counters = wire.receiver.counters();
    assert_eq!(
        (counters.stale_references, counters.lost_references),
        (0, 0)
    );
    assert_eq!((counters.references, counters.exact_intervals), (6, 4));
    assert_close(wire.finish()[4].delay_ns, 200.0, 1e-9);
}

#[test]
fn sizes_out_of_range_are_refused() {
    for packets in [0, usize::MAX] {
        let config = ReceiverConfig {
            buffer_packets: packets,
            ..ReceiverConfig::new(STREAM, Method::Sums, byte_a_ns())
        };
        let error = Receiver::<u32>::new(config).unwrap_err().to_string();
        let text = format!("an interpolation buffer of {packets} packets; give it 1 to 1048576");
        assert_eq!(error, text);
    }
}

#[test]
fn sums_merge_like_their_union() {
    let mut all = FlowDelay::default();
    let mut halves = [FlowDelay::default(); 2];
    for (i, delay_ns) in [3.0, 5.0, -2.0, 8.0].into_iter().enumerate() {
        let estimate = estimate(delay_ns, 0.0, i as u32 + 1);
        all.add(&estimate);
        halves[i % 2].add(&estimate);
    }
    let [mut merged, other] = halves;
    merged.merge(&other);
    assert_eq!(merged.mean_ns(), Some(3.5));
    // (9 + 25 + 4 + 64) / 4 - 3.5^2.
    assert_eq!(merged.variance_ns2(), Some(13.25));
    assert_eq!(merged.raw_bound_ns(), all.raw_bound_ns());
    assert_eq!(merged.raw_bound_ns(), Some(3.0));
    let none = FlowDelay::default();
    assert_eq!(
        (none.mean_ns(), none.bound_ns(Method::Linear)),
        (None, None)
    );
}

/// Events on a link, with increasing times.
#[derive(Debug, Clone, Copy)]
enum Step {
    Regular {
        bytes: u32,
        delay_ns: i64,
        lost: bool,
    },
    Reference {
        delay_ns: i64,
        lost: bool,
    },
    Cross {
        bytes: u32,
    },
}

fn step(delays: impl Strategy<Value = i64> + Clone, losses: f64) -> impl Strategy<Value = Step> {
    let lost = || proptest::bool::weighted(losses);
    prop_oneof![
        6 => (64_u32..1_500, delays.clone(), lost())
            .prop_map(|(bytes, delay_ns, lost)| Step::Regular { bytes, delay_ns, lost }),
        1 => (delays, lost()).prop_map(|(delay_ns, lost)| Step::Reference { delay_ns, lost }),
        2 => (64_u32..1_500).prop_map(|bytes| Step::Cross { bytes }),
    ]
}

fn steps(
    delays: impl Strategy<Value = i64> + Clone,
    losses: f64,
) -> impl Strategy<Value = Vec<(u64, Step)>> {
    proptest::collection::vec((1_500_u64..4_000, step(delays, losses)), 1..150)
}

/// Runs the steps between two references that arrive and waited `wait_ns`; flows are numbered by packet. Gives the
/// delays of the packets received, too.
fn run(mut wire: Wire, steps: &[(u64, Step)], wait_ns: i64) -> (Wire, Vec<i64>) {
    let mut now_ns = 1 << 40;
    let mut truth = Vec::new();
    wire.reference(now_ns, wait_ns + 100);
    for &(gap_ns, step) in steps {
        now_ns += gap_ns;
        match step {
            Step::Regular {
                delay_ns,
                lost: true,
                ..
            } => {
                wire.send(now_ns.wrapping_add_signed(-delay_ns));
            }
            Step::Regular {
                bytes, delay_ns, ..
            } => {
                wire.regular(
                    truth.len() as u32,
                    bytes,
                    now_ns,
                    delay_ns + i64::from(bytes),
                );
                truth.push(delay_ns + i64::from(bytes));
            }
            Step::Reference {
                delay_ns,
                lost: true,
            } => {
                wire.sender.reference(now_ns.wrapping_add_signed(-delay_ns));
            }
            Step::Reference { delay_ns, .. } => wire.reference(now_ns, delay_ns + 100),
            Step::Cross { bytes } => wire.receiver.cross(bytes, now_ns),
        }
    }
    wire.reference(now_ns + 4_000, wait_ns + 100);
    (wire, truth)
}

proptest! {
    #[test]
    fn a_constant_wait_is_recovered_by_all(
        method in proptest::sample::select(Method::ALL.to_vec()),
        wait_ns in -1_000_000_i64..1_000_000,
        steps in steps(Just(0_i64), 0.1),
    ) {
        let mut shifted = steps;
        for (_, step) in &mut shifted {
            if let Step::Regular { delay_ns, .. } | Step::Reference { delay_ns, .. } = step {
                *delay_ns = wait_ns;
            }
        }
        let (mut wire, truth) = run(Wire::new(method), &shifted, wait_ns);
        let mean_ns = truth.iter().sum::<i64>() as f64 / truth.len() as f64;
        let segment = wire.receiver.take_segment();
        prop_assert_eq!(segment.packets(), truth.len() as u64);
        if segment.exact_packets() == segment.packets() && !truth.is_empty() {
            prop_assert!((segment.mean_ns().unwrap() - mean_ns).abs() < 1e-6);
        }
        for estimate in wire.finish() {
            let exact = truth[estimate.flow as usize] as f64;
            prop_assert!((estimate.delay_ns - exact).abs() < 1e-3, "{estimate:?} for {exact}");
        }
    }

    #[test]
    fn sums_of_delays_are_exact_where_nothing_was_lost(
        steps in steps(0_i64..200_000, 0.0),
    ) {
        let (mut wire, truth) = run(Wire::new(Method::Sums), &steps, 0);
        let sum_ns = truth.iter().sum::<i64>() as f64;
        let segment = wire.receiver.take_segment();
        prop_assert_eq!(segment.exact_packets(), truth.len() as u64);
        prop_assert!((segment.sum_ns() - sum_ns).abs() < 1e-9);
        let estimates = wire.finish();
        let intervals = estimates.iter().map(|estimate| estimate.interval).max().unwrap_or(0);
        for interval in 1..=intervals {
            let (ours, exact) = estimates
                .iter()
                .filter(|estimate| estimate.interval == interval)
                .fold((0.0, 0.0), |(ours, exact), estimate| {
                    (ours + estimate.delay_ns, exact + truth[estimate.flow as usize] as f64)
                });
            prop_assert!((ours - exact).abs() < 1e-3, "{ours} for {exact}");
        }
    }

    #[test]
    fn every_packet_gets_one_estimate(
        method in proptest::sample::select(Method::ALL.to_vec()),
        buffer_packets in 1_usize..20,
        steps in steps(-50_000_i64..200_000, 0.1),
    ) {
        let wire = Wire::with(|config| config.buffer_packets = buffer_packets, method);
        let (wire, truth) = run(wire, &steps, 0);
        let counters = *wire.receiver.counters();
        prop_assert_eq!(counters.packets, truth.len() as u64);
        let mut flows: Vec<_> = wire.finish().iter().map(|estimate| estimate.flow).collect();
        flows.sort_unstable();
        prop_assert!(flows.into_iter().eq(0..truth.len() as u32));
    }

    #[test]
    fn nothing_depends_on_where_clocks_and_counts_begin(
        method in proptest::sample::select(Method::ALL.to_vec()),
        origin_ns in any::<u64>(),
        sequence in any::<u32>(),
        sums in any::<[u64; 4]>(),
        steps in steps(0_i64..200_000, 0.05),
    ) {
        let shifted = |offset_ns: u64, sequence: u32, mut sums: StreamSums| {
            let config = ReceiverConfig::new(STREAM, method, byte_a_ns());
            let mut receiver = Receiver::new(config).unwrap();
            let mut delays = Vec::new();
            let mut sink = |Estimates { flows, estimate }: Estimates<'_, u32>| {
                delays.extend(flows.iter().map(|&flow| (flow, estimate.delay_ns)));
            };
            let (mut now_ns, mut sequence) = (offset_ns, sequence);
            for (i, &(gap_ns, step)) in (0..).zip(&steps) {
                now_ns = now_ns.wrapping_add(gap_ns);
                match step {
                    Step::Regular { bytes, delay_ns, lost } => {
                        let hash = PacketHash(u64::from(i) << 7);
                        sums.add(hash, now_ns.wrapping_add_signed(-delay_ns));
                        if !lost {
                            receiver.regular(i, hash, bytes, now_ns, &mut sink);
                        }
                    }
                    Step::Reference { delay_ns, .. } => {
                        let sent_ns = now_ns.wrapping_add_signed(-delay_ns);
                        let reference = Reference { stream: STREAM, sequence, sent_ns, sums };
                        sequence = sequence.wrapping_add(1);
                        receiver.reference(&reference, 100, now_ns, &mut sink);
                    }
                    Step::Cross { bytes } => receiver.cross(bytes, now_ns),
                }
            }
            receiver.flush(&mut sink);
            delays
        };
        let [count, time_ns, ranked_time_ns, digest] = sums;
        let sums = StreamSums { count, time_ns, ranked_time_ns, digest };
        let plain = shifted(1 << 40, 0, StreamSums::default());
        prop_assert_eq!(plain, shifted(origin_ns, sequence, sums));
    }
}
