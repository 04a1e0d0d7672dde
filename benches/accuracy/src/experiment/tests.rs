use reporting::Limit;

use super::*;

/// Seed 0 gives 1 and 4, seed 1 gives 3 and 2: means of 2 and 3.
const PAIR: Experiment = Experiment {
    name: "pair",
    title: "Two seeds",
    plan: |_| {
        let mut plan = Plan::default();
        plan.table("Pairs", "Two seeds.");
        plan.case(2, |seed, found| {
            let (one, two) = if seed == 0 { (1.0, 4.0) } else { (3.0, 2.0) };
            let row = Row::new("one", "%", one).limit(Limit::AtMost(1.5));
            found.row(0, row.other("two", two));
            found.row(0, Row::ratio("two / the least", two, [one, 100.0]));
            Ok(())
        });
        Ok(plan)
    },
};

fn setting(scale: f64) -> Setting {
    Setting {
        capture: None,
        seeds: None,
        scale,
    }
}

#[test]
fn rows_are_means_over_seeds() {
    let Findings { tables } = run(&PAIR, &setting(1.0));
    let [one, ratio] = &tables[0].rows[..] else {
        panic!("{tables:?}");
    };
    assert_eq!((one.ours, one.others[0].figure), (2.0, 3.0));
    assert_eq!(one.pass, Some(false));
    assert_eq!((ratio.ours, ratio.pass), (1.5, None));
}

#[test]
fn a_quick_look_is_not_judged() {
    let row = &run(&PAIR, &setting(0.5)).tables[0].rows[0];
    assert_eq!((row.limit, row.pass), (None, None));
}

#[test]
fn captures_have_one_seed_unless_more_are_asked_for() {
    let mut setting = setting(1.0);
    assert_eq!((setting.seeds(5), setting.traffic_seeds(5)), (5, 5));
    setting.capture = Some("x.pcap".into());
    assert_eq!((setting.seeds(5), setting.traffic_seeds(5)), (5, 1));
    setting.seeds = Some(3);
    assert_eq!((setting.seeds(5), setting.traffic_seeds(5)), (3, 3));
}

#[test]
fn names_are_unique() {
    let names: std::collections::HashSet<_> = crate::EXPERIMENTS.iter().map(|e| e.name).collect();
    assert_eq!(names.len(), crate::EXPERIMENTS.len());
}
