use records::snapshot::FlowMethod;

use super::*;
use crate::wire::truth::tests::{estimate, flow, ten_epochs};

fn answer(epoch: u64, packets: u64, mean_ns: f64, lost_packets: u64) -> WireFlow {
    let last = FlowFigures {
        packets,
        lost_packets: Some(lost_packets),
        stddev_ns: Some(35.0),
        ..FlowFigures::default()
    };
    let mut answer = flow(last, estimate(FlowMethod::Hybrid, mean_ns, 10.0), 220.0);
    answer.flow.last_epoch = epoch;
    answer
}

#[test]
fn answers_are_held_against_the_epoch_that_they_are_of() {
    // The mean of 1,000 delays is 599.5 ns.
    let right = answer(3, 1_000, 605.0, 1);
    let wrong = answer(4, 999, 620.0, 0);
    let questions = [(7, Some(right)), (7, Some(wrong))];
    let outcome = judge(&questions, &ten_epochs(7, 1_001));
    assert_eq!((outcome.asked, outcome.answered, outcome.missed), (2, 2, 0));
    assert!((outcome.loss - 1.0 / 1_001.0).abs() < 1e-12);
    let [small, .., large, all] = outcome.sizes.as_slice() else {
        panic!("{outcome:?}");
    };
    assert_eq!(
        (small.mean.flows, large.mean.flows, all.mean.flows),
        (0, 2, 2)
    );
    assert_eq!((all.within, all.bounded), (1, 2));
    assert_eq!(
        (all.received_exact, all.lost_exact, all.lost_more),
        (1, 1, 1)
    );
    let error = f64::midpoint(605.0, 620.0) / 599.5 - 1.0;
    assert!((all.mean.error - error).abs() < 1e-9);
    assert_eq!((outcome.p99.flows, outcome.p99.known), (2, 2));
    assert_eq!((outcome.deviation.flows, outcome.deviation.known), (2, 2));
    // Of a hundred packets there is a deviation, but no tail to judge.
    let few = judge(&[(7, Some(answer(3, 100, 149.5, 1)))], &ten_epochs(7, 101));
    assert_eq!((few.deviation.flows, few.p99.flows), (1, 0));
    // 100 whole delays, one more each, spread by 28.9 ns.
    assert!((few.deviation.error - (35.0 / 28.866 - 1.0)).abs() < 1e-3);
}

#[test]
fn a_flow_without_an_answer_is_missed_where_it_had_packets_in_all_epochs_that_may_have_been_asked()
{
    let known = |epoch| (7, Some(answer(epoch, 10, 105.0, 1)));
    let missed = |questions: &[Question]| judge(questions, &ten_epochs(7, 11)).missed;
    assert_eq!(missed(&[known(3), (7, None), known(4)]), 1);
    assert_eq!(missed(&[(7, None), known(4), (7, None)]), 2);
    // Another flow, which sent nothing; and the end of the record.
    assert_eq!(missed(&[known(3), (8, None), known(4)]), 0);
    assert_eq!(missed(&[known(9), (7, None), known(10)]), 0);
    assert_eq!(missed(&[(7, None)]), 1, "nobody had an answer");
}
