//! What measuring costs on the fast path, in nanoseconds per packet.
//!
//! Packets come in bursts of 32 as a worker takes them, from the same 50,000 flows as the
//! throughput benchmark, warm in the second-level cache. The baseline, in the same run, is a plain
//! copy of each frame: what it costs to touch the bytes at all.

use std::hint::black_box;
use std::time::{Duration, Instant};

use benches::capture::{FRAME_BYTES, MANY_FLOWS};
use criterion::{Criterion, criterion_group, criterion_main};
use measure::histogram::Histogram;
use measure::lda::{Bank, LdaLayout, LdaPair};
use measure::moments::Moments;
use measure::packet::Hasher;
use measure::shard::Shard;
use measure::sight::{End, SegmentIndex, Sight};
use measure::synopsis::Synopsis;
use measure::time::{EpochTag, TickRate};

const BURST: usize = 32;
const PACKETS: u32 = 4_096;
const LEN_BYTES: u32 = 60;

const _: () = assert!(LEN_BYTES as usize == FRAME_BYTES);

type Frame = [u8; FRAME_BYTES];

/// Times `work` over bursts, one criterion iteration a packet.
fn per_packet<T>(criterion: &mut Criterion, name: &str, packets: &[T], mut work: impl FnMut(&[T])) {
    criterion.bench_function(name, |bencher| {
        bencher.iter_custom(|wanted| {
            let bursts = wanted.div_ceil(BURST as u64);
            let mut source = packets.chunks_exact(BURST).cycle();
            let start = Instant::now();
            for _ in 0..bursts {
                if let Some(burst) = source.next() {
                    work(black_box(burst));
                }
            }
            let per_packet_s = start.elapsed().as_secs_f64() / (bursts * BURST as u64) as f64;
            Duration::from_secs_f64(per_packet_s * wanted as f64)
        });
    });
}

fn hasher() -> Hasher {
    Hasher::new(*b"fastpath-of-4096")
}

/// The sight of a frame: packet `number`, delayed by 2 to 8 us at 2.7 GHz.
fn sight(hasher: &Hasher, frame: &Frame, number: u64) -> Sight {
    let parsed = hasher.parse(frame, LEN_BYTES);
    Sight {
        flow: parsed.flow,
        packet: parsed.packet,
        time: number * 100,
        delay: 5_400 + (number.wrapping_mul(7_919) & 0x3fff),
        bytes: LEN_BYTES,
        segment: SegmentIndex(0),
        epoch: EpochTag(0),
    }
}

#[expect(
    clippy::expect_used,
    reason = "a benchmark of nothing must not look like one"
)]
fn fastpath(criterion: &mut Criterion) {
    let hasher = hasher();
    let rate = TickRate::from_hz(2_700_000_000);
    // What vernierd measures with unless told otherwise.
    let bank = Bank {
        rows: 1_024,
        probability: 1.0,
    };
    let layout = LdaLayout::new(&[bank]).expect("one bank of 1,024 rows is a layout");
    let frames: Vec<Frame> = (0..PACKETS).map(|n| MANY_FLOWS.frame(n * 12, n)).collect();
    let sights: Vec<Sight> = (0..)
        .zip(&frames)
        .map(|(number, frame)| sight(&hasher, frame, number))
        .collect();

    let mut copy = [[0; FRAME_BYTES]; BURST];
    per_packet(criterion, "baseline: copy of the frame", &frames, |burst| {
        copy.copy_from_slice(burst);
        black_box(&copy);
    });
    per_packet(criterion, "parse and hash", &frames, |burst| {
        for frame in burst {
            black_box(hasher.parse(frame, LEN_BYTES));
        }
    });

    let mut lda = LdaPair::new(&layout);
    per_packet(criterion, "LDA, both ends", &sights, |burst| {
        lda.record(End::Sender, burst);
        lda.record(End::Receiver, burst);
    });
    let (mut moments, mut histogram) = (Moments::default(), Histogram::new(rate));
    per_packet(criterion, "moments and histogram", &sights, |burst| {
        moments.record(End::Receiver, burst);
        histogram.record(End::Receiver, burst);
    });

    let mut shard = Shard::new(1, &layout, rate);
    let mut number = 0;
    let mut seen = Vec::with_capacity(BURST);
    per_packet(criterion, "everything", &frames, |burst| {
        seen.clear();
        for frame in burst {
            number += 1;
            seen.push(sight(&hasher, frame, number));
        }
        shard.record(End::Sender, &seen);
        shard.record(End::Receiver, &seen);
    });
    black_box((lda, moments, histogram, shard));
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    targets = fastpath
}
criterion_main!(benches);
