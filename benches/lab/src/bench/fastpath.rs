//! The parts of the fast path, one at a time, which microbenchmarks time and count ([`micro`](super::micro)).
//!
//! Packets come in bursts of 64, as in a worker. Each case prepares its packets before it starts, and repeats them;
//! flows are equally frequent, in random order. With 100,000 flows neither the observations nor the cells fit the
//! second-level cache.

use std::hint::black_box;
use std::num::NonZeroU32;

use measure::batch::{Batch, Member, Members};
use measure::cell::PassedCell;
use measure::flows::{FlowId, FlowSlots, FlowTable, Slot};
use measure::histogram::Histogram;
use measure::lda::{Bank, LdaLayout, LdaPair};
use measure::lds::{LdsLayout, LdsPair};
use measure::moments::Moments;
use measure::observation::{End, Observation, SegmentIndex};
use measure::packet::{FlowHash, Hasher, Hashing, PacketHash, RandomHashes};
use measure::rli::{
    Estimates, Injector, Link, Method, Policy, Receiver, ReceiverConfig, ReferenceSender, Run,
    StreamId,
};
use measure::shard::{SegmentLayout, Shard, ShardLayout};
use measure::time::{EpochTag, TickRate, Ticks};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::bench::capture::{FRAME_BYTES, STATIONS, Traffic};

/// Packets of a burst.
pub const BURST: usize = 64;

/// Cells of a sketch, all rows together.
const LDS_CELLS: u32 = 70_000;
/// Minimum number of packets of a case.
const PACKETS_MIN: u32 = 4_096;

/// Numbers of flows, and their form in the names of cases.
type Flows = (&'static str, u32);

const FEW: Flows = ("1,000 flows", 1_000);
const SOME: Flows = ("10,000 flows", 10_000);
const MANY: Flows = ("100,000 flows", 100_000);
const MILLION: Flows = ("1,000,000 flows", 1_000_000);

#[expect(clippy::cast_possible_truncation, reason = "60")]
const LEN_BYTES: u32 = FRAME_BYTES as u32;

/// Work on the next burst.
pub type Work = Box<dyn FnMut()>;

/// A piece of the fast path.
pub struct Case {
    /// In words.
    pub name: String,
    /// Expected cost in nanoseconds per packet on a current core; for orientation, not a limit.
    pub guide_ns: Option<f64>,
    /// Prepares the packets and the data structures into which they are recorded.
    pub prepare: Box<dyn Fn() -> Work>,
}

impl Case {
    fn new(
        name: impl Into<String>,
        guide_ns: Option<f64>,
        prepare: impl Fn() -> Work + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            guide_ns,
            prepare: Box::new(prepare),
        }
    }
}

/// All pieces, those that do not depend on the number of flows first.
pub fn cases() -> Vec<Case> {
    let one_end = "LDS, one end, k = 5, rows .01/.1/.5/1, 100,000 flows";
    let mut all = vec![
        Case::new("baseline: copy of the frame", None, copy),
        Case::new("parse and hash", Some(4.0), parse),
        Case::new("LDA, both ends at once", Some(2.0), lda),
        Case::new("moments and histogram, one delay a burst", None, moments),
        Case::new(one_end, None, wire),
        Case::new(
            "LDA, moments and histogram, from the frame on",
            None,
            lda_alone,
        ),
    ];
    let mut with = |what: &str, flows: &[Flows], guide_ns, prepare: fn(u32) -> Work| {
        let cases = flows.iter().map(|&(name, flows)| {
            Case::new(format!("{what}, {name}"), guide_ns, move || prepare(flows))
        });
        all.extend(cases);
    };
    let few_and_many = &[FEW, MANY];
    with("baseline: reading observations", few_and_many, None, read);
    let lds = "LDS, both ends at once";
    with(
        &format!("{lds}, 3 rows"),
        few_and_many,
        Some(15.0),
        |flows| passed(3, flows),
    );
    with(
        &format!("{lds}, 4 rows"),
        few_and_many,
        Some(20.0),
        |flows| passed(4, flows),
    );
    with("flow slots", few_and_many, Some(13.0), slots);
    with("flow slots", &[MILLION], None, slots);
    with("RLI 1-in-100, both ends", few_and_many, Some(6.0), rli);
    with("everything", &[FEW, SOME, MANY, MILLION], None, everything);
    all
}

fn hasher() -> Hasher {
    Hasher::new(*b"fastpath-of-4096")
}

/// Work on bursts of `items`, round and round.
fn cycle<T: 'static>(items: Vec<T>, mut work: impl FnMut(&[T]) + 'static) -> Work {
    let mut next = 0;
    Box::new(move || {
        if next + BURST > items.len() {
            next = 0;
        }
        work(black_box(&items[next..next + BURST]));
        next += BURST;
    })
}

/// At least two packets of each flow, in random order.
fn order(flows: u32) -> Vec<u32> {
    let mut order: Vec<u32> = (0..flows.max(PACKETS_MIN)).map(|n| n % flows).collect();
    order.shuffle(&mut Pcg64Mcg::seed_from_u64(1));
    order
}

fn frames(flows: u32) -> Vec<[u8; FRAME_BYTES]> {
    let traffic = Traffic {
        flows,
        packets: 0,
        stations: STATIONS,
        side: 0,
    };
    let numbered = order(flows).into_iter().zip(0..);
    let frames = numbered.map(|(flow, number)| traffic.frame(flow, number, FRAME_BYTES));
    let bytes: Vec<u8> = frames.flatten().collect();
    bytes.as_chunks().0.to_vec()
}

/// The observation of packet `number`, delayed by 2 to 8 us at 2.7 GHz as all of its burst.
fn observation(flow: FlowHash, packet: PacketHash, number: u64) -> Observation {
    Observation {
        flow,
        packet,
        time: number * 100,
        delay: 5_400 + ((number / BURST as u64).wrapping_mul(7_919) & 0x3fff),
        bytes: LEN_BYTES,
        segment: SegmentIndex(0),
        epoch: EpochTag(0),
    }
}

fn observations(flows: u32) -> Vec<Observation> {
    let mut rng = Pcg64Mcg::seed_from_u64(2);
    let hashes: Vec<u64> = (0..flows).map(|_| rng.random()).collect();
    (order(flows).into_iter().zip(0..))
        .map(|(flow, number)| {
            let packet = PacketHash(rng.random());
            observation(FlowHash(hashes[flow as usize]), packet, number)
        })
        .collect()
}

fn rate() -> TickRate {
    TickRate::from_hz(2_700_000_000)
}

/// The default measurement of vernierd.
#[expect(clippy::expect_used, reason = "sizes are constants")]
fn lda_layout() -> LdaLayout {
    let bank = Bank {
        rows: 1_024,
        probability: 1.0,
    };
    LdaLayout::new(&[bank]).expect("one bank of 1,024 rows is a layout")
}

#[expect(clippy::expect_used, reason = "sizes are constants")]
fn lds_layout(virtual_cells: u32, probabilities: &[f64]) -> LdsLayout {
    #[expect(clippy::cast_possible_truncation, reason = "4 rows at most")]
    let columns = LDS_CELLS / probabilities.len() as u32;
    LdsLayout::new(columns, virtual_cells, probabilities).expect("a layout within its limits")
}

fn copy() -> Work {
    let mut copy = [[0; FRAME_BYTES]; BURST];
    cycle(frames(FEW.1), move |burst| {
        copy.copy_from_slice(burst);
        black_box(&copy);
    })
}

fn read(flows: u32) -> Work {
    cycle(observations(flows), |burst| {
        for observation in burst {
            black_box((observation.flow, observation.packet, observation.time));
        }
    })
}

fn parse() -> Work {
    let hasher = hasher();
    cycle(frames(FEW.1), move |burst| {
        for frame in burst {
            black_box(hasher.parse(frame, LEN_BYTES));
        }
    })
}

fn lda() -> Work {
    let mut lda = LdaPair::<PassedCell>::empty(&lda_layout());
    let mut spread = RandomHashes::default();
    cycle(observations(FEW.1), move |burst| {
        for observation in burst {
            let batch = Batch {
                packets: 1,
                bytes: observation.bytes.into(),
                arrived: Ticks(0),
                delay: observation.delay,
                segment: observation.segment,
                epoch: observation.epoch,
            };
            lda.pass(&batch, &[observation.packet], &mut spread);
        }
    })
}

fn moments() -> Work {
    let (mut moments, mut histogram) = (Moments::default(), Histogram::new(rate()));
    cycle(observations(FEW.1), move |burst| {
        for run in burst.chunk_by(|a, b| a.delay == b.delay) {
            moments.add_delays(run[0].delay, run.len() as u64);
            histogram.add_delays(run[0].delay, run.len() as u64);
        }
    })
}

fn passed(rows: usize, flows: u32) -> Work {
    let mut lds = LdsPair::<PassedCell>::empty(&lds_layout(1, &vec![1.0; rows]));
    cycle(observations(flows), move |burst| lds.record_passed(burst))
}

fn wire() -> Work {
    let mut lds = LdsPair::new(&lds_layout(5, &[0.01, 0.1, 0.5, 1.0]));
    cycle(observations(MANY.1), move |burst| {
        lds.record(End::Sender, burst);
    })
}

fn slots(flows: u32) -> Work {
    let mut table = FlowTable::new(flows as usize);
    let mut slots = FlowSlots::new(flows as usize);
    cycle(observations(flows), move |burst| {
        let mut found = [Slot::OTHER; BURST];
        for observation in burst {
            table.prefetch(FlowId::of(observation));
        }
        let flows = burst.iter().map(FlowId::of);
        table.look_up(flows, &mut found, |_| true, |_| true);
        for (observation, slot) in burst.iter().zip(found) {
            slots.add(observation.delay, &[slot], &[observation.bytes]);
        }
    })
}

/// Runs of 32 packets at both ends of a stream with varying delay: RLI-S, with its estimates added to the flows.
#[expect(
    clippy::cast_possible_truncation,
    clippy::expect_used,
    reason = "runs of 32, delays of microseconds, and constants that are in range"
)]
fn rli(flows: u32) -> Work {
    const RUN: usize = 32;
    let stream = StreamId {
        worker: 0,
        segment: SegmentIndex(0),
        queue: 0,
    };
    let link = Link::new(10_000_000_000, 0).expect("10 Gb/s is a link");
    let packets = NonZeroU32::new(100).expect("100 is not 0");
    let mut injector = Injector::new(Policy::Count { packets }, link).expect("a constant rate");
    let mut sender = ReferenceSender::new(stream);
    let mut receiver = Receiver::new(ReceiverConfig::new(stream, Method::Sums, link))
        .expect("a buffer of the usual size");
    let mut flow_slots = FlowSlots::new(flows as usize).with_estimates();
    let mut sent_ns = 0_u64;
    let mut sink = move |estimates: Estimates<'_, Slot>| {
        flow_slots.record_estimates(&estimates);
    };
    let packets: Vec<_> = (order(flows).into_iter().map(Slot))
        .zip(observations(flows))
        .collect();
    cycle(packets, move |burst| {
        for run in burst.chunks(RUN) {
            sent_ns += 3_200;
            let received_ns = sent_ns + 2_000 + (sent_ns >> 4) % 5_000;
            let mut rest = run;
            while !rest.is_empty() {
                let to_go = usize::try_from(injector.packets_to_go(sent_ns)).unwrap_or(RUN);
                let (part, behind) = rest.split_at(rest.len().min(to_go));
                rest = behind;
                let mut flows = [Slot::OTHER; RUN];
                let mut digest = 0;
                for (flow, (slot, observation)) in flows.iter_mut().zip(part) {
                    *flow = *slot;
                    digest ^= observation.packet.0;
                }
                sender.record_run(part.len() as u32, digest, sent_ns);
                let run = Run {
                    flows: &flows[..part.len()],
                    digest,
                    bytes: 0,
                    received_ns,
                    epoch: EpochTag(0),
                };
                receiver.regular_run(&run, &mut sink);
                if injector.run(part.len() as u32, 0, sent_ns) {
                    injector.injected(sent_ns);
                    let reference = sender.reference(sent_ns);
                    receiver.reference(&reference, 0, received_ns, &mut sink);
                }
            }
        }
    })
}

/// From the frame to all records: LDA, moments, histogram, three rows of LDS, and flow slots for all flows.
fn everything(flows: u32) -> Work {
    let layout = ShardLayout {
        sketches: 1,
        lds: Some(lds_layout(1, &[1.0; 3])),
        flow_slots: flows as usize,
        ..lda_shard()
    };
    recording(&layout, Some(FlowTable::new(flows as usize)), flows)
}

/// The same for the default measurement.
fn lda_alone() -> Work {
    recording(&lda_shard(), None, FEW.1)
}

fn lda_shard() -> ShardLayout {
    ShardLayout {
        segment: SegmentLayout {
            lda: Some(lda_layout()),
        },
        ..ShardLayout::new(rate(), 1)
    }
}

fn recording(layout: &ShardLayout, mut table: Option<FlowTable>, flows: u32) -> Work {
    let hasher = hasher();
    let mut shard = Shard::new(layout);
    let hashing = layout.hashing();
    let (mut number, mut members) = (0, Members::new());
    let mut spread = RandomHashes::default();
    cycle(frames(flows), move |burst| {
        let model = observation(FlowHash(0), PacketHash(0), number);
        number += burst.len() as u64;
        let batch = Batch {
            packets: burst.len(),
            bytes: u64::from(LEN_BYTES) * burst.len() as u64,
            arrived: Ticks(model.time),
            delay: model.delay,
            segment: model.segment,
            epoch: model.epoch,
        };
        members.begin(hashing);
        if hashing > Hashing::None {
            members.fill::<false>(burst.iter().map(|frame| {
                let parsed = hasher.parse_as::<false>(frame, LEN_BYTES);
                if let Some(table) = &table {
                    table.prefetch(FlowId::new(parsed.flow, batch.segment));
                }
                Member {
                    flow: parsed.flow,
                    packet: parsed.packet,
                    bytes: LEN_BYTES,
                }
            }));
        }
        if let Some(table) = &mut table {
            let (flows, slots) = members.slots_mut(0..burst.len());
            let ids = flows.iter().map(|&flow| FlowId::new(flow, batch.segment));
            table.look_up(ids, slots, |_| true, |_| true);
            shard.prefetch(slots);
        }
        shard.passed(&batch, members.part(0..burst.len()), &mut spread);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_works_on_bursts_for_ever() {
        for case in cases() {
            let mut work = (case.prepare)();
            // More packets than the cases with few flows have.
            for _ in 0..100 {
                work();
            }
        }
    }

    #[test]
    fn names_tell_cases_apart() {
        let names: std::collections::HashSet<_> =
            cases().into_iter().map(|case| case.name).collect();
        assert_eq!(names.len(), cases().len());
    }

    #[test]
    fn every_flow_has_a_packet() {
        let flows: std::collections::HashSet<_> = observations(MANY.1)
            .into_iter()
            .map(|observation| observation.flow)
            .collect();
        assert_eq!(flows.len(), MANY.1 as usize);
    }
}
