use super::*;
use crate::contain::inject;

#[test]
fn a_job_is_done_and_its_result_waits_to_be_taken() {
    let work = |job: u32, _: &AtomicBool| Some(job * 2);
    let mode = ResultMode::Awaited;
    let mut background = Background::start(Part::Decode, "test", mode, work).unwrap();
    assert!(background.give(21));
    assert!(!background.give(22), "one at a time");
    assert_eq!(background.take(), Some(Ok(42)));
    assert_eq!(background.take(), None);
}

#[test]
fn a_job_that_panics_gives_nothing_and_the_next_one_is_done() {
    let work = |job: u32, _: &AtomicBool| {
        if job == 13 {
            inject::panic();
        }
        Some(job * 2)
    };
    let mode = ResultMode::Awaited;
    let mut background = Background::start(Part::WireDecode, "test", mode, work).unwrap();
    for (job, result) in [(13, Err(NoResult)), (13, Err(NoResult)), (21, Ok(42))] {
        assert!(background.give(job));
        assert_eq!(background.take(), Some(result));
    }
}

#[test]
fn its_end_stops_the_job_that_is_under_way_and_needs_no_taker() {
    let work = |(): (), stop: &AtomicBool| {
        while !stop.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        Some(())
    };
    let mode = ResultMode::Polled;
    let mut background = Background::start(Part::Decode, "test", mode, work).unwrap();
    assert!(background.give(()));
    assert_eq!(background.take(), None);
    drop(background);
}
