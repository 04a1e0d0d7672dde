use super::*;

#[test]
fn bursts_are_counted_by_powers_of_two() {
    let counters = WorkerCounters::new(0);
    let by_bucket: [&[usize]; BURST_BUCKETS] = [
        &[1],
        &[2],
        &[3, 4],
        &[5, 8],
        &[9, 16],
        &[17, 32],
        &[33, 64],
        &[65, 10_000],
    ];
    counters.burst(0);
    for sizes in by_bucket {
        for &packets in sizes {
            counters.burst(packets);
        }
    }
    let counted = counters.bursts.each_ref().map(Counter::get);
    assert_eq!(counted, by_bucket.map(|sizes| sizes.len() as u64));
}

#[test]
fn a_reason_has_its_own_counter() {
    let port = PortCounters::default();
    for (n, reason) in DropReason::ALL.into_iter().enumerate() {
        assert_eq!(
            reason as usize, n,
            "the order of ALL is that of the counters"
        );
        port.dropped(reason, n as u64 + 1);
    }
    assert_eq!(port.drops[DropReason::Red as usize].get(), 15);
    assert_eq!(port.dropped_total(), 19 * 20 / 2);
}
