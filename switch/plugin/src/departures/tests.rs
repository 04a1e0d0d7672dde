use contract::config::PORTS_MAX;
use dpdk_bindings::{Eal, EalOptions, Mbuf};
use measure::packet::Hasher;
use measure::time::EpochSchedule;

use super::*;
use crate::stamp::last_word;

#[test]
fn a_thread_that_finds_the_point_taken_counts_all_the_same() {
    let options = EalOptions {
        memory_mib: 64,
        ..EalOptions::default()
    };
    let eal = Eal::init("test", &options).unwrap();
    let pool = eal.mempool("test", 127, 0, 2048).unwrap();
    let stamps = Stamps {
        field: StampField::register(&eal).unwrap(),
        ids: Arc::new(PortIds::new()),
        has_classes: true,
        hashing: Hashing::Packet,
    };
    let field = stamps.field;
    let schedule = EpochSchedule::new(Ticks(0), 1_000, 100);
    let meter = Meter::new(Hasher::new([0; 16]), schedule, None, Ticks(0));
    let counters = Arc::new(WorkerCounters::new(PORTS_MAX));
    let (departures, _plans) = Departures::new(stamps, meter, Arc::clone(&counters));
    departures.home.move_to(Some(PortIndex(2)));

    let frames = (60..63).map(|len| pool.alloc_frame(&[0; 60], len).unwrap());
    let mut burst: Vec<Mbuf<'_>> = frames.collect();
    let word = last_word(PortIndex(1), ClassIndex(5), Ticks(tsc::now()));
    field.set_last_of(&mut burst[1..], word);
    let taken = departures.point.try_lock().unwrap();
    departures.pass(PassingMbuf::of(&mut burst));
    drop(taken);

    let port = &counters.ports[2];
    let all = (port.tx_packets.get(), port.tx_bytes.get());
    let class = &port.classes[5];
    assert_eq!(all, (3, 60 + 61 + 62));
    assert_eq!((class.tx_packets.get(), class.tx_bytes.get()), (2, 61 + 62));
    assert_eq!(departures.unmeasured(), 3);
    assert!(burst.iter().all(|mbuf| field.get(mbuf).is_none()));
    departures.pass(PassingMbuf::of(&mut burst));
    assert_eq!((port.tx_packets.get(), departures.unmeasured()), (6, 3));
    // A guest that is offered three packets accepts one, then none.
    departures.taken(PassingMbuf::of(&mut burst[..1]), 2, tsc::now());
    departures.taken(&mut [], 2, tsc::now());
    let counts = (port.tx_packets.get(), port.refused_packets.get());
    assert_eq!(counts, (7, 4));
}
