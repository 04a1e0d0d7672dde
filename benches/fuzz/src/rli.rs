//! RLI's receiver, fed by a sender that may lie.
//!
//! Oracle: every packet behind the first reference is estimated exactly once, at the latest when the
//! receiver is flushed; what waits fits the two buffers; estimates are finite, squared errors not negative,
//! shares within 0 and 1; means, deviations and bounds of flows and of the segment likewise.

use arbitrary::{Arbitrary, Unstructured};
use measure::observation::SegmentIndex;
use measure::packet::PacketHash;
use measure::rli::{
    Estimates, FlowDelays, Link, Method, Receiver, ReceiverConfig, Reference, ReferenceSender, Run,
    StreamId, StreamSums,
};
use measure::time::EpochTag;

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
    idle_tolerance_ns: u16,
    idle_is_told: bool,
    base_delay_ns: Option<i64>,
    actions: Vec<Action>,
}

/// How far a clock goes on.
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
enum Action {
    /// Packets that were sent, and came at once or not at all.
    Run {
        packets: u8,
        digest: u64,
        bytes: u32,
        sent: Step,
        received: Step,
        is_lost: bool,
        epoch: u8,
    },
    /// A packet of another stream.
    Cross {
        bytes: u32,
        received: Step,
    },
    /// The queue says when it was idle.
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
    Forged {
        stream: u8,
        ahead: u32,
        sent: Step,
        received: Step,
        sums: [u64; 4],
        bytes: u32,
    },
    Flush,
    FlushEpoch(u8),
    Restart,
}

/// The bytes are actions.
pub fn rli(bytes: &[u8]) {
    let Ok(input) = Input::arbitrary_take_rest(Unstructured::new(bytes)) else {
        return;
    };
    let method = Method::ALL[usize::from(input.method) % Method::ALL.len()];
    let Ok(link) = Link::new(input.capacity_bps, Link::ETHERNET_OVERHEAD_BYTES) else {
        return;
    };
    let config = ReceiverConfig {
        buffer_packets: usize::from(input.buffer_packets),
        idle_tolerance_ns: input.idle_tolerance_ns.into(),
        idle_is_told: input.idle_is_told,
        base_delay_ns: input.base_delay_ns,
        ..ReceiverConfig::new(STREAM, method, link)
    };
    let Ok(receiver) = Receiver::new(config) else {
        return;
    };
    let mut bench = Bench {
        method,
        receiver,
        sender: ReferenceSender::new(STREAM),
        believed: Believed {
            flows: FlowDelays::new(FLOWS as usize),
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
struct Believed {
    flows: FlowDelays,
    packets: u64,
}

impl Believed {
    fn take(&mut self, estimates: &Estimates<'_, u32>) {
        let estimate = &estimates.estimate;
        assert!(estimate.delay_ns.is_finite(), "{estimate:?}");
        let error_ns2 = estimate.squared_error_ns2;
        assert!(error_ns2.is_finite() && error_ns2 >= 0.0, "{estimate:?}");
        assert!((0.0..=1.0).contains(&estimate.share_of_sum), "{estimate:?}");
        self.packets += estimates.flows.len() as u64;
        self.flows.add(estimates);
    }
}

struct Bench {
    method: Method,
    receiver: Receiver<u32>,
    sender: ReferenceSender,
    believed: Believed,
    sent_ns: u64,
    received_ns: u64,
    sequence: u32,
    buffer_packets: u64,
}

impl Bench {
    fn act(&mut self, action: &Action) {
        let believed = &mut self.believed;
        let mut sink = |estimates: Estimates<'_, u32>| believed.take(&estimates);
        match *action {
            Action::Run {
                packets,
                digest,
                bytes,
                sent,
                received,
                is_lost,
                epoch,
            } => {
                self.sent_ns = sent.from(self.sent_ns);
                self.sender.record_run(packets.into(), digest, self.sent_ns);
                if is_lost {
                    return;
                }
                self.received_ns = received.from(self.received_ns);
                let flows: Vec<u32> = (0..packets).map(|n| u32::from(n) % FLOWS).collect();
                if let [flow] = flows[..] {
                    let packet = PacketHash(digest);
                    let at_ns = self.received_ns;
                    return self.receiver.regular(flow, packet, bytes, at_ns, &mut sink);
                }
                let run = Run {
                    flows: &flows,
                    digest,
                    bytes,
                    received_ns: self.received_ns,
                    epoch: EpochTag(epoch),
                };
                self.receiver.regular_run(&run, &mut sink);
            }
            Action::Cross { bytes, received } => {
                self.received_ns = received.from(self.received_ns);
                self.receiver.cross(bytes, self.received_ns);
            }
            Action::Idle { from, to } => {
                let from_ns = from.from(self.received_ns);
                self.receiver.idle(from_ns, to.from(from_ns));
            }
            Action::Reference {
                bytes,
                sent,
                received,
            } => {
                self.sent_ns = sent.from(self.sent_ns);
                self.received_ns = received.from(self.received_ns);
                let reference = self.sender.reference(self.sent_ns);
                self.sequence = reference.sequence;
                self.receiver
                    .reference(&reference, bytes, self.received_ns, &mut sink);
            }
            Action::Forged {
                stream,
                ahead,
                sent,
                received,
                sums: [count, time_ns, ranked_time_ns, digest],
                bytes,
            } => {
                self.received_ns = received.from(self.received_ns);
                let forged = Reference {
                    stream: StreamId {
                        worker: stream / 128,
                        ..STREAM
                    },
                    sequence: self.sequence.wrapping_add(ahead),
                    sent_ns: sent.from(self.sent_ns),
                    sums: StreamSums {
                        count,
                        time_ns,
                        ranked_time_ns,
                        digest,
                    },
                };
                self.receiver
                    .reference(&forged, bytes, self.received_ns, &mut sink);
            }
            Action::Flush => self.receiver.flush(&mut sink),
            Action::FlushEpoch(epoch) => self.receiver.flush_epoch(EpochTag(epoch), &mut sink),
            Action::Restart => self.receiver.restart(&mut sink),
        }
    }

    /// Packets that were received, and for which there is no estimate yet.
    fn waiting(&self) -> u64 {
        let counters = self.receiver.counters();
        let due = counters.packets - counters.early_packets;
        assert!(self.believed.packets <= due, "estimated twice");
        due - self.believed.packets
    }

    fn check_waiting(&self) {
        let room = match self.method {
            Method::Left => 0,
            Method::Linear | Method::Sums | Method::AnchoredSums => 2 * self.buffer_packets,
        };
        assert!(self.waiting() <= room, "more waits than there is room for");
    }

    fn end(mut self) {
        self.act(&Action::Flush);
        assert_eq!(self.waiting(), 0, "packets without an estimate");
        let segment = self.receiver.take_segment();
        assert!(segment.sum_ns().is_finite(), "{segment:?}");
        assert!(segment.mean_ns().is_none_or(f64::is_finite), "{segment:?}");
        for flow in self.believed.flows.slots() {
            let (mean, deviation) = (flow.mean_ns(), flow.stddev_ns());
            assert!(mean.is_none_or(f64::is_finite), "{flow:?}");
            let is_good = |number: f64| number.is_finite() && number >= 0.0;
            assert!(deviation.is_none_or(is_good), "{flow:?}");
            assert!(flow.bound_ns(self.method).is_none_or(is_good), "{flow:?}");
            assert!(flow.effective_intervals() >= 1.0, "{flow:?}");
        }
    }
}
