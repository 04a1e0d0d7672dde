//! RLI's receiver, fed by a sender whose references may be false.
//!
//! Oracle: every packet after the first reference is estimated exactly once, at the latest when the receiver is
//! flushed; waiting packets fit the two buffers; estimates are finite, squared errors not negative, shares within 0 and
//! 1; means, deviations and bounds of flows and of the segment likewise.

use arbitrary::Arbitrary;
use measure::observation::SegmentIndex;
use measure::packet::PacketHash;
use measure::rli::{
    Estimates, FlowDelay, Link, Method, Receiver, ReceiverConfig, Reference, ReferenceSender, Run,
    StreamId, StreamSums,
};
use measure::time::EpochTag;

use crate::read;

/// Flows of the stream.
const FLOWS: u32 = 4;

const STREAM: StreamId = StreamId {
    worker: 0,
    segment: SegmentIndex(0),
    queue: 0,
};

#[derive(Debug, Arbitrary)]
struct Input {
    method: u8,
    capacity_bps: u64,
    buffer_packets: u8,
    idle_is_told: bool,
    actions: Vec<Action>,
}

/// By how much a clock advances.
#[derive(Debug, Clone, Copy, Arbitrary)]
enum Step {
    Near(u16),
    Back(u16),
    To(u64),
}

impl Step {
    fn from(self, now: u64) -> u64 {
        match self {
            Self::Near(ns) => now.wrapping_add(ns.into()),
            Self::Back(ns) => now.wrapping_sub(ns.into()),
            Self::To(ns) => ns,
        }
    }
}

#[derive(Debug, Arbitrary)]
struct Passing {
    packets: u8,
    digest: u64,
    bytes: u32,
    sent: Step,
    received: Step,
    is_lost: bool,
    epoch: u8,
}

#[derive(Debug, Arbitrary)]
struct Forged {
    stream: u8,
    ahead: u32,
    sent: Step,
    received: Step,
    sums: [u64; 4],
    bytes: u32,
}

#[derive(Debug, Arbitrary)]
enum Action {
    /// Packets that were sent, and came at once or not at all.
    Run(Passing),
    /// A packet of another stream.
    Cross {
        bytes: u32,
        received: Step,
    },
    /// The queue reports when it was idle.
    Idle {
        from: Step,
        to: Step,
    },
    /// The sender's own reference.
    Reference {
        bytes: u32,
        sent: Step,
        received: Step,
    },
    /// Somebody else's.
    Forged(Forged),
    Flush,
    FlushEpoch(u8),
    Restart,
}

/// The bytes are actions.
pub fn rli(bytes: &[u8]) {
    let Some(input) = read::<Input>(bytes) else {
        return;
    };
    let method = Method::ALL[usize::from(input.method) % Method::ALL.len()];
    let Ok(link) = Link::new(input.capacity_bps, Link::ETHERNET_OVERHEAD_BYTES) else {
        return;
    };
    let config = ReceiverConfig {
        buffer_packets: usize::from(input.buffer_packets),
        idle_is_told: input.idle_is_told,
        ..ReceiverConfig::new(STREAM, method, link)
    };
    let Ok(receiver) = Receiver::new(config) else {
        return;
    };
    let mut bench = Bench {
        method,
        receiver,
        sender: ReferenceSender::new(STREAM),
        estimated: Estimated {
            flows: vec![FlowDelay::default(); FLOWS as usize],
            packets: 0,
        },
        sent_ns: 1_000_000,
        received_ns: 1_000_000,
        sequence: 0,
        buffer_packets: config.buffer_packets as u64,
    };
    for action in &input.actions {
        bench.act(action);
        bench.check_waiting();
    }
    bench.end();
}

/// What was estimated.
struct Estimated {
    flows: Vec<FlowDelay>,
    packets: u64,
}

impl Estimated {
    fn take(&mut self, estimates: &Estimates<'_, u32>) {
        let estimate = &estimates.estimate;
        assert!(estimate.delay_ns.is_finite(), "{estimate:?}");
        let error_ns2 = estimate.squared_error_ns2;
        assert!(error_ns2.is_finite() && error_ns2 >= 0.0, "{estimate:?}");
        assert!((0.0..=1.0).contains(&estimate.share_of_sum), "{estimate:?}");
        self.packets += estimates.flows.len() as u64;
        for &flow in estimates.flows {
            self.flows[flow as usize].add(estimate);
        }
    }
}

struct Bench {
    method: Method,
    receiver: Receiver<u32>,
    sender: ReferenceSender,
    estimated: Estimated,
    sent_ns: u64,
    received_ns: u64,
    sequence: u32,
    buffer_packets: u64,
}

impl Bench {
    fn act(&mut self, action: &Action) {
        let estimated = &mut self.estimated;
        let mut sink = |estimates: Estimates<'_, u32>| estimated.take(&estimates);
        match action {
            Action::Run(run) => self.run(run),
            &Action::Cross { bytes, received } => {
                self.received_ns = received.from(self.received_ns);
                self.receiver.cross(bytes, self.received_ns);
            }
            &Action::Idle { from, to } => {
                let from_ns = from.from(self.received_ns);
                self.receiver.idle(from_ns, to.from(from_ns));
            }
            &Action::Reference {
                bytes,
                sent,
                received,
            } => {
                self.sent_ns = sent.from(self.sent_ns);
                let reference = self.sender.reference(self.sent_ns);
                self.sequence = reference.sequence;
                self.refer(&reference, bytes, received);
            }
            Action::Forged(forged) => self.forge(forged),
            Action::Flush => self.receiver.flush(&mut sink),
            Action::FlushEpoch(epoch) => self.receiver.flush_epoch(EpochTag(*epoch), &mut sink),
            Action::Restart => self.receiver.restart(&mut sink),
        }
    }

    fn run(&mut self, run: &Passing) {
        let estimated = &mut self.estimated;
        let mut sink = |estimates: Estimates<'_, u32>| estimated.take(&estimates);
        self.sent_ns = run.sent.from(self.sent_ns);
        self.sender
            .record_run(run.packets.into(), run.digest, self.sent_ns);
        if run.is_lost {
            return;
        }
        self.received_ns = run.received.from(self.received_ns);
        let flows: Vec<u32> = (0..run.packets).map(|n| u32::from(n) % FLOWS).collect();
        if let [flow] = flows[..] {
            let (packet, at_ns) = (PacketHash(run.digest), self.received_ns);
            return self
                .receiver
                .regular(flow, packet, run.bytes, at_ns, &mut sink);
        }
        let run = Run {
            flows: &flows,
            digest: run.digest,
            bytes: run.bytes,
            received_ns: self.received_ns,
            epoch: EpochTag(run.epoch),
        };
        self.receiver.regular_run(&run, &mut sink);
    }

    fn refer(&mut self, reference: &Reference, bytes: u32, received: Step) {
        let estimated = &mut self.estimated;
        let mut sink = |estimates: Estimates<'_, u32>| estimated.take(&estimates);
        self.received_ns = received.from(self.received_ns);
        self.receiver
            .reference(reference, bytes, self.received_ns, &mut sink);
    }

    fn forge(&mut self, forged: &Forged) {
        let [count, time_ns, ranked_time_ns, digest] = forged.sums;
        let reference = Reference {
            stream: StreamId {
                worker: forged.stream / 128,
                ..STREAM
            },
            sequence: self.sequence.wrapping_add(forged.ahead),
            sent_ns: forged.sent.from(self.sent_ns),
            sums: StreamSums {
                count,
                time_ns,
                ranked_time_ns,
                digest,
            },
        };
        self.refer(&reference, forged.bytes, forged.received);
    }

    /// Received packets without an estimate.
    fn waiting(&self) -> u64 {
        let counters = self.receiver.counters();
        let due = counters.packets - counters.early_packets;
        assert!(self.estimated.packets <= due, "estimated twice");
        due - self.estimated.packets
    }

    fn check_waiting(&self) {
        let room = match self.method {
            Method::Left => 0,
            Method::Linear | Method::Sums | Method::AnchoredSums => 2 * self.buffer_packets,
        };
        assert!(
            self.waiting() <= room,
            "more packets wait than there is room for"
        );
    }

    fn end(mut self) {
        self.act(&Action::Flush);
        assert_eq!(self.waiting(), 0, "packets without an estimate");
        let segment = self.receiver.take_segment();
        assert!(segment.sum_ns().is_finite(), "{segment:?}");
        assert!(segment.mean_ns().is_none_or(f64::is_finite), "{segment:?}");
        for flow in &self.estimated.flows {
            let (mean, deviation) = (flow.mean_ns(), flow.stddev_ns());
            assert!(mean.is_none_or(f64::is_finite), "{flow:?}");
            let is_good = |number: f64| number.is_finite() && number >= 0.0;
            assert!(deviation.is_none_or(is_good), "{flow:?}");
            assert!(flow.bound_ns(self.method).is_none_or(is_good), "{flow:?}");
            assert!(flow.effective_intervals() >= 1.0, "{flow:?}");
        }
    }
}
