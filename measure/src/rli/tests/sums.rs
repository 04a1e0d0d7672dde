//! Sums at both ends of a stream.

use proptest::prelude::*;

use crate::packet::PacketHash;
use crate::rli::StreamSums;

fn sums_of(start: StreamSums, times_ns: &[u64]) -> StreamSums {
    let mut sums = start;
    for (hash, &time_ns) in (1..).zip(times_ns) {
        sums.add(PacketHash(hash), time_ns);
    }
    sums
}

#[test]
fn ranks_count_from_the_interval_on() {
    let sums = sums_of(StreamSums::default(), &[10, 20, 40]);
    assert_eq!(
        (sums.count, sums.time_ns, sums.ranked_time_ns),
        (3, 70, 100)
    );
    assert_eq!(sums.digest, 1 ^ 2 ^ 3);
}

proptest! {
    #[test]
    fn differences_forget_what_came_before(
        before in any::<[u64; 4]>(),
        times_ns in proptest::collection::vec(any::<u64>(), 0..20),
    ) {
        let [count, time_ns, ranked_time_ns, digest] = before;
        let before = StreamSums { count, time_ns, ranked_time_ns, digest };
        prop_assert_eq!(
            sums_of(before, &times_ns).since(&before),
            sums_of(StreamSums::default(), &times_ns)
        );
    }
}
