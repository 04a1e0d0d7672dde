use super::*;

#[test]
fn a_worker_is_stalled_after_a_second_without_a_pass_and_until_the_next() {
    let counters = [(); 2].map(|()| Arc::new(WorkerCounters::new(0)));
    let mut now = Instant::now();
    let mut workers = Workers::new(counters.to_vec(), now);
    let mut look = |times| {
        for _ in 0..times {
            now += Duration::from_millis(90);
            workers.look(now);
            counters[0].passes.add(1);
        }
        let are_stalled = workers.all.iter().map(Worker::is_stalled);
        are_stalled.collect::<Vec<_>>()
    };
    assert_eq!(
        look(20),
        [false; 2],
        "neither has begun, or both make passes"
    );
    counters[1].passes.add(1);
    assert_eq!(look(12), [false; 2]);
    assert_eq!(look(1), [false, true]);
    counters[1].passes.add(1);
    assert_eq!(look(1), [false; 2]);
}

#[test]
fn after_a_pause_of_the_control_core_no_worker_counts_as_stalled() {
    let counters = Arc::new(WorkerCounters::new(0));
    counters.passes.add(1);
    let now = Instant::now();
    let mut workers = Workers::new(vec![counters], now);
    workers.look(now);
    workers.look(now + Duration::from_hours(1));
    assert_eq!(workers.stalled(), 0);
}
