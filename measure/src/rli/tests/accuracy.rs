//! Accuracy of the methods on small runs; large runs are in the accuracy tables of `benches`.

use std::num::NonZeroU32;

use super::STREAM;
use super::fifo::{self, Arrival, Event, Traffic};
use crate::rli::{Estimates, FlowDelay, Method, Policy, Receiver, ReceiverConfig, SegmentDelay};

/// Relative errors of one method, over flows.
#[derive(Debug)]
struct Outcome {
    median: f64,
    p95: f64,
    median_stddev: f64,
    /// Share of flows within the raw bound, and within the nominal 98 %.
    covered: f64,
    covered_98: f64,
}

fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len() - 1;
    values[(last as f64 * share) as usize]
}

/// Exact delays of a flow.
#[derive(Debug, Clone, Copy, Default)]
struct Truth {
    packets: u64,
    sum_ns: f64,
    squares_ns2: f64,
}

impl Truth {
    fn add(&mut self, delay_ns: f64) {
        self.packets += 1;
        self.sum_ns += delay_ns;
        self.squares_ns2 += delay_ns * delay_ns;
    }

    fn mean_ns(&self) -> f64 {
        self.sum_ns / self.packets as f64
    }

    fn stddev_ns(&self) -> f64 {
        let mean_ns = self.mean_ns();
        (self.squares_ns2 / self.packets as f64 - mean_ns * mean_ns).sqrt()
    }
}

/// All events through a receiver; truth from the first reference on, and of the segment as far as
/// the last one.
fn receive(events: &[Event], method: Method) -> (Vec<FlowDelay>, Vec<Truth>, SegmentDelay, Truth) {
    let flows = events.iter().filter_map(|event| match event.arrival {
        Arrival::Regular { flow, .. } => Some(flow as usize + 1),
        _ => None,
    });
    let flows = flows.max().unwrap();
    let mut truth = vec![Truth::default(); flows];
    let mut delays = vec![FlowDelay::default(); flows];
    let mut receiver = Receiver::new(ReceiverConfig::new(STREAM, method, fifo::link())).unwrap();
    let mut sink = |estimates: Estimates<'_, u32>| {
        for &flow in estimates.flows {
            delays[flow as usize].add(&estimates.estimate);
        }
    };
    let (mut segment, mut referenced) = (Truth::default(), Truth::default());
    for &Event {
        received_ns,
        bytes,
        arrival,
    } in events
    {
        match arrival {
            Arrival::Regular {
                flow,
                hash,
                delay_ns,
            } => {
                receiver.regular(flow, hash, bytes, received_ns, &mut sink);
                if receiver.counters().references > 0 {
                    truth[flow as usize].add(delay_ns);
                    segment.add(delay_ns);
                }
            }
            Arrival::Reference(reference) => {
                receiver.reference(&reference, bytes, received_ns, &mut sink);
                referenced = segment;
            }
            Arrival::Cross => receiver.cross(bytes, received_ns),
        }
    }
    receiver.flush(&mut sink);
    (delays, truth, receiver.take_segment(), referenced)
}

fn evaluate(events: &[Event], method: Method) -> Outcome {
    let (delays, truth, ..) = receive(events, method);
    let (mut errors, mut stddevs) = (Vec::new(), Vec::new());
    let (mut covered, mut covered_98) = (0, 0);
    for (flow, truth) in delays.iter().zip(truth) {
        assert_eq!(flow.packets(), truth.packets);
        let Some(mean_ns) = flow.mean_ns() else {
            continue;
        };
        let error_ns = (mean_ns - truth.mean_ns()).abs();
        let raw_ns = flow.raw_bound_ns().unwrap();
        errors.push(error_ns / truth.mean_ns());
        covered += usize::from(error_ns <= raw_ns);
        covered_98 += usize::from(error_ns <= flow.bound_ns(method).unwrap());
        if truth.packets >= 2 && truth.stddev_ns() > 1.0 {
            stddevs.push((flow.stddev_ns().unwrap() / truth.stddev_ns() - 1.0).abs());
        }
    }
    let flows = errors.len() as f64;
    let outcome = Outcome {
        median: quantile(&mut errors, 0.5),
        p95: quantile(&mut errors, 0.95),
        median_stddev: quantile(&mut stddevs, 0.5),
        covered: covered as f64 / flows,
        covered_98: covered_98 as f64 / flows,
    };
    println!("{:7} {outcome:.4?}", method.label());
    outcome
}

fn traffic() -> Traffic {
    Traffic {
        seed: 1,
        packets: PACKETS,
        utilisation: 0.93,
        modulation: 0.05,
        buffer_bytes: 1.5e6,
        red: false,
        policy: Policy::Count {
            packets: NonZeroU32::new(100).unwrap(),
        },
        loss: 0.0,
    }
}

const PACKETS: usize = 300_000;

#[test]
fn sums_and_anchors_beat_the_line() {
    for modulation in [0.05, 0.25] {
        let events = fifo::run(Traffic {
            modulation,
            ..traffic()
        });
        let left = evaluate(&events, Method::Left);
        let line = evaluate(&events, Method::Linear);
        let sums = evaluate(&events, Method::Sums);
        let anchored = evaluate(&events, Method::AnchoredSums);
        assert!(line.median < 0.25 && line.median < left.median);
        assert!(sums.median < 0.60 * line.median);
        assert!(anchored.median < 0.55 * line.median);
        assert!(anchored.median < sums.median && anchored.p95 < sums.p95);
        assert!(anchored.p95 < 0.50 * line.p95);
        assert!(anchored.median_stddev < 0.75 * line.median_stddev);
        assert!(line.covered > 0.95 && line.covered_98 > 0.97);
        assert!(anchored.covered_98 > 0.98);
    }
}

#[test]
fn lossy_queues_bend_curves_too() {
    let events = fifo::run(Traffic {
        modulation: 0.25,
        red: true,
        ..traffic()
    });
    let line = evaluate(&events, Method::Linear);
    let anchored = evaluate(&events, Method::AnchoredSums);
    assert!(anchored.median < 0.60 * line.median);
    assert!(anchored.median_stddev < 0.75 * line.median_stddev);
    assert!(anchored.covered_98 > 0.98);
}

#[test]
fn the_segment_mean_withstands_loss() {
    for (loss, most) in [(0.0, 1e-4), (0.001, 2e-4), (0.2, 3e-3)] {
        let events = fifo::run(Traffic { loss, ..traffic() });
        let (_, _, segment, truth) = receive(&events, Method::Sums);
        assert_eq!(segment.packets(), truth.packets);
        let error = (segment.mean_ns().unwrap() / truth.mean_ns() - 1.0).abs();
        println!("loss {loss}: segment mean off by {:.5} %", error * 100.0);
        assert!(error < most, "{error} at a loss of {loss}");
        let lost = 1.0 - segment.packets() as f64 / segment.sent() as f64;
        assert!((lost - loss).abs() < 0.01);
    }
}
