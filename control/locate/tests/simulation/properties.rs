//! What holds of any reports.

use locate::{Explanation, Locator, Report, explain};
use proptest::prelude::*;

use super::measured;

/// Figures as they should not be, too.
fn figure() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => 1e3..1e7_f64,
        1 => any::<f64>(),
        1 => Just(0.0),
        1 => -1e9..1e9_f64,
    ]
}

fn report() -> impl Strategy<Value = Report> {
    let figures = (figure(), prop::option::of(figure()));
    let counts = (0_u64..100, prop::option::of(any::<u64>()), any::<u64>());
    (figures, counts, 0_u64..5_000, 0_u32..2_000, any::<bool>()).prop_map(
        |((mean_ns, bound_ns), (packets, sent, lost), time_ms, interval_ms, is_off)| Report {
            time_ms,
            interval_ms,
            packets,
            mean_ns,
            bound_ns,
            deviation_ns: None,
            p99_ns: None,
            sent,
            lost,
            clock_unsynchronised: is_off,
        },
    )
}

proptest! {
    #[test]
    fn any_reports_are_taken_or_ignored(
        reports in prop::collection::vec((0_usize..4, report()), 0..300),
        is_in_order in any::<bool>(),
    ) {
        let mut locator = Locator::new(3);
        let mut time_ms = 0;
        for (segment, mut report) in reports {
            if is_in_order {
                time_ms += report.time_ms;
                report.time_ms = time_ms;
            }
            locator.report(&segment.to_string(), &report);
            locator.pair("0", "1");
        }
        for now_ms in [0, time_ms, u64::MAX] {
            let hops = (0..5).map(|segment| measured(&locator, &segment.to_string(), now_ms));
            let hops: Vec<_> = hops.collect();
            let whole = locator.finding("2", now_ms);
            let explanation = explain(&hops, whole.as_ref(), now_ms);
            for cause in &explanation.causes {
                prop_assert!((0.0..=1.0 + 1e-9).contains(&cause.share), "{:?}", cause);
                prop_assert!((0.0..=1.0).contains(&cause.confidence), "{:?}", cause);
            }
            let json = serde_json::to_string(&explanation).unwrap();
            let back: Result<Explanation, _> = serde_json::from_str(&json);
            prop_assert!(back.is_ok(), "{}", json);
            let back = back.unwrap();
            prop_assert_eq!(back.causes.len(), explanation.causes.len());
            prop_assert_eq!(back.faults.len(), explanation.faults.len());
        }
        locator.faults(time_ms);
    }

    #[test]
    fn what_is_old_or_too_much_is_ignored(times in prop::collection::vec(0_u64..20, 1..40)) {
        let mut locator = Locator::new(1);
        let mut newest = None;
        for time_ms in times {
            let report = Report {
                time_ms,
                interval_ms: 1_000,
                packets: 10,
                mean_ns: 1e5,
                bound_ns: None,
                deviation_ns: None,
                p99_ns: None,
                sent: None,
                lost: 0,
                clock_unsynchronised: false,
            };
            newest = newest.max(Some(time_ms));
            locator.report("s", &report);
            locator.report("one too many", &report);
            prop_assert_eq!(Some(locator.last_ms()), newest);
            prop_assert_eq!(locator.names().collect::<Vec<_>>(), ["s"]);
        }
    }
}
