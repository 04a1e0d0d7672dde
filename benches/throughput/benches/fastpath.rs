//! What measuring costs on the fast path, in nanoseconds per packet: one criterion iteration a
//! packet. The pieces are in `throughput::fastpath`, baselines among them.

use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use throughput::fastpath::{BURST, cases};

fn fastpath(criterion: &mut Criterion) {
    for case in cases() {
        // Prepared only if it is asked for.
        let mut work = None;
        criterion.bench_function(&case.name, |bencher| {
            let work = work.get_or_insert_with(&case.prepare);
            bencher.iter_custom(|wanted| {
                let bursts = wanted.div_ceil(BURST as u64);
                let start = Instant::now();
                for _ in 0..bursts {
                    work();
                }
                let per_packet_s = start.elapsed().as_secs_f64() / (bursts * BURST as u64) as f64;
                Duration::from_secs_f64(per_packet_s * wanted as f64)
            });
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    targets = fastpath
}
criterion_main!(benches);
