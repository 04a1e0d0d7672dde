//! Time stamp counters of two cores that are some ticks apart: no delay is less than nothing.
use measure::time::Ticks;
use simulate::rack::{INTERVAL, Rack, config, port, udp};

/// Two workers; the first owns `b`, the second receives from `a`.
fn rack(stamps: &str) -> Rack {
    let ports = [port("a", ""), port("b", r#""egress": {"owner": 0},"#)].join(", ");
    let rest = format!(
        r#""forwarding": {{"mode": "patch", "pairs": [["a", "b"]]}},
        "measurement": {{"stamps": "{stamps}"}}"#
    );
    Rack::new(&config(2, &ports, &rest))
}

#[test]
fn a_counter_that_is_behind_makes_a_delay_of_nothing() {
    for stamps in ["burst", "packet"] {
        let mut rack = rack(stamps);
        let (mut now, ahead) = (INTERVAL / 2, 3);
        for number in 0..100 {
            now += INTERVAL / 1_000;
            rack.arrive_at(1, 0, udp(7, number, 100));
            for (rack_worker, ahead) in [(1, ahead), (0, 0)] {
                let worker = &mut rack.workers[rack_worker].worker;
                worker.io_mut().set_now(Ticks(now + ahead));
                worker.pass();
            }
        }
        assert_eq!(rack.departed(1).len(), 100);
        for _ in 0..20 {
            rack.pass_at(rack.now.max(now) + INTERVAL);
        }
        let epochs = rack.take_epochs();
        let segments = || epochs.iter().flat_map(|(_, shard)| shard.segments());
        assert_eq!(
            segments().map(|s| s.tally.sent).sum::<u64>(),
            100,
            "{stamps}"
        );
        let longest = segments().filter_map(|s| s.moments.max_ticks()).max();
        assert_eq!(longest, Some(0), "{stamps}");
        assert_eq!(segments().map(|s| s.moments.sum_ticks()).sum::<u128>(), 0);
        let late: u64 = segments().map(|s| s.tally.late).sum();
        let backward = rack.workers[0].counters.exceptions.backward_packets.get();
        assert_eq!((backward, late), (100, 0), "{stamps}");
    }
}
