use super::*;
use records::answers::{FlowScope, FlowState};
use records::history::{History, Sample};
use records::snapshot::{AnsweredFlow, SegmentName, Snapshot};

fn example() -> Flow {
    Snapshot::example().flows.unwrap().top[0].flow.clone()
}

fn answer() -> FlowAnswer {
    FlowAnswer {
        flow: example().flow,
        epoch: Some(85),
        epoch_end_unix_s: Some(1_700_000_001.25),
        ..FlowAnswer::default()
    }
}

/// Everything about a flow.
fn everything(answer: &FlowAnswer, unknown: &str) -> String {
    Page::plain(true, |page| flow(page, answer, 10, unknown))
}

#[test]
fn a_page_says_which_part_it_is() {
    let mut page = FlowPage {
        epoch: Some(85),
        epoch_end_unix_s: Some(1_700_000_001.25),
        scope: FlowScope::All,
        state: FlowState::Active,
        matching: 50_000,
        offset: 20,
        flows: vec![example()],
    };
    let text = |part: &FlowPage, is_wide| Page::plain(is_wide, |page| flows(page, part));
    let expected = "\
flow                             segment  packets  lost    mean  stddev      p99  estimate    +-98%      by  ago
10.0.0.1:1024>10.0.0.2:80/tcp  east>west      900     0  401 us  300 us  1.28 ms    401 us  1.25 us  hybrid   1s
21 to 21 of 50000 flows
";
    assert_eq!(text(&page, true), expected);
    // Beside an exact mean the estimate is not shown, otherwise in its place.
    let expected = "\
flow                             segment  packets  lost    mean  stddev      p99  ago
10.0.0.1:1024>10.0.0.2:80/tcp  east>west      900     0  401 us  300 us  1.28 ms   1s
21 to 21 of 50000 flows
";
    assert_eq!(text(&page, false), expected);
    page.flows[0].last.mean_ns = None;
    assert!(text(&page, false).contains(" 401 us +-1.25 us "));
    page.flows[0].estimate.as_mut().unwrap().bound_ns = None;
    assert!(text(&page, false).contains(" ~401 us "));
    page.flows.clear();
    assert!(text(&page, false).ends_with("50000 flows, none from 20 on\n"));
    page.matching = 0;
    assert!(text(&page, false).ends_with("\nno flow\n"));
}

#[test]
fn a_tracked_flow_has_exact_figures_an_estimate_and_a_history() {
    let mut history = History::default();
    for epoch in 0..400 {
        let sample = Sample {
            packets: 10,
            sum_ns: 4_000.0,
            max_ns: 700.0,
            p99_ns: 600.0,
            estimate_ns: Some((400.0, 5.0)),
            ..Sample::default()
        };
        history.add(epoch, 1_000, &sample);
    }
    let tracked = AnsweredFlow {
        flow: example(),
        courses: history.courses(1_700_000_000.0),
    };
    let answer = FlowAnswer {
        tracked: vec![tracked],
        ..answer()
    };
    let text = everything(&answer, "UNKNOWN");
    for expected in [
        "10.0.0.1:1024>10.0.0.2:80/tcp  epoch 85\n\neast>west: tracked, its last packet 1s ago\n",
        "  exact, by stamps:\n",
        "    epoch 81           900   439 KiB     0  401 us  300 us\n",
        "    since epoch 2   70.0 k  33.4 MiB     7  411 us  300 us\n",
        "    epoch 81: p50 320 us, p90 896 us, p99 1.28 ms, max 1.40 ms\n",
        "  estimated: mean 401 us +- 1.25 us (98 %), jointly with all flows and references (hybrid); \
             epoch 81, 900 packets; the exact mean is within\n",
        "       also: mean 402 us +- 3.40 us (98 %) (lds-joint); the exact mean is within\n",
        "       also: mean 400 us +- 5.10 us (98 %) (rli-as); the exact mean is within\n",
        "  by references (rli-as):\n                   packets    mean    +-98%  stddev\n",
        "    since epoch 2   69.9 k  410 us   610 ns  301 us\n",
        "  by 10 s:\n    from (UTC)  packets  lost    mean  stddev  p99 max     max  estimate    +-98%\n",
        "    22:19:50        100     0  400 ns",
    ] {
        assert!(text.contains(expected), "{expected:?} in\n{text}");
    }
    assert!(!text.contains("UNKNOWN"), "{text}");
    let rows = text
        .lines()
        .filter(|line| line.trim_start().starts_with("22:"));
    assert_eq!(rows.count(), BUCKETS_MAX);
}

#[test]
fn a_flow_that_is_not_tracked_is_labelled_so() {
    let mut estimate = example().estimate.unwrap();
    estimate.bound_ns = None;
    estimate.is_within_bound = None;
    estimate.method = FlowMethod::LdsPrior;
    let sketched = SketchedFlow {
        segment: SegmentName {
            ingress: "east".to_owned(),
            egress: "west".to_owned(),
            class: "gold".to_owned(),
        },
        packets_max: 17,
        lost_packets_max: 2,
        estimate: Some(estimate),
    };
    let known = FlowAnswer {
        sketched: vec![sketched],
        ended: vec![example()],
        ..answer()
    };
    let text = everything(&known, "UNKNOWN");
    for expected in [
        "east>west: no longer tracked; it ended 1s ago, with\n",
        "east>west gold: not tracked; by the sketch\n  packets: at most 17, lost: at most 2\n",
        "  estimated: mean 401 us of unknown error, from the other flows",
    ] {
        assert!(text.contains(expected), "{expected:?} in\n{text}");
    }
    assert!(!text.contains("UNKNOWN"), "{text}");
    assert!(everything(&answer(), "nothing is known").ends_with("\nnothing is known\n"));
}

#[test]
fn a_flow_on_a_wire_is_told_by_every_method() {
    let counted = Snapshot::example().wires[0].flows.as_ref().unwrap().top[0].clone();
    let mut sketched = counted.clone();
    sketched.is_counted = false;
    sketched.flow.class = "gold".to_owned();
    sketched.flow.running = None;
    sketched.flow.last.lost_packets = None;
    sketched.flow.last.stddev_ns = None;
    sketched.flow.estimates.clear();
    let estimate = sketched.flow.estimate.as_mut().unwrap();
    (estimate.method, estimate.bound_ns) = (FlowMethod::LdsPaper, None);
    let known = FlowAnswer {
        wires: vec![counted, sketched],
        ..answer()
    };
    let text = everything(&known, "not tracked");
    let expected = "
west:peer>west: on the wire, its last packet 1s ago
  counted; deviation and percentiles by references:
                      packets     bytes  lost at most  mean   stddev
    epoch 5080         2.50 k  1.19 MiB             3     -  21.0 us
    since epoch 5002    190 k  90.6 MiB           250     -        -
    epoch 5080: p50 48.0 us, p90 72.0 us, p99 112 us
  estimated: mean 51.9 us +- 2.70 us (98 %), jointly with all flows and references (hybrid); epoch 5080, 2.50 k packets
  since epoch 5002: mean 52.1 us +- 2.90 us (98 %); 78 epochs, 188 k packets
       also: mean 52.3 us +- 4.10 us (98 %) (lds-joint)

west:peer>west gold: on the wire, from the sketch: an upper limit of packets
";
    assert!(text.contains(expected), "{text}");
    let expected =
        "estimated: mean 51.9 us of unknown error, by the LDS paper's estimator (lds-paper)";
    assert!(text.contains(expected), "{text}");
}
