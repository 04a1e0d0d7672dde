use super::*;
use crate::bench::contender::{BASE_EVERYTHING, EVERYTHING, EVERYTHING_TWO, IO, IO_TWO, OFF};
use crate::bench::load::SMALL;

const fn small(contender: crate::bench::contender::Contender) -> Run {
    Run {
        contender,
        load: SMALL,
    }
}

fn series(run: Run, rates_pps: &[f64]) -> Series {
    Series {
        run,
        rates_pps: Ok(rates_pps.to_vec()),
    }
}

const SCALING: Claim = Claim {
    label: "two by one as a share of two by one",
    runs: &[(SMALL, &[EVERYTHING_TWO, IO, EVERYTHING, IO_TWO])],
    goal: None,
};

#[test]
fn ratios_are_taken_within_rounds() {
    // The machine is twice as fast in the second round: no ratio shows it.
    let all = [
        series(small(IO), &[40.0, 80.0, 40.0]),
        series(small(IO_TWO), &[80.0, 160.0, 80.0]),
        series(small(EVERYTHING), &[20.0, 40.0, 20.0]),
        series(small(EVERYTHING_TWO), &[38.0, 76.0, 36.0]),
    ];
    let of_all = ratio(&SCALING, &all).unwrap().unwrap();
    assert!((of_all.median - 0.95).abs() < 1e-12, "{of_all:?}");
    assert!((of_all.min - 0.9).abs() < 1e-12, "{of_all:?}");
    assert!((of_all.max - 0.95).abs() < 1e-12, "{of_all:?}");
}

#[test]
fn own_nanoseconds_are_what_is_more_than_the_source_takes() {
    // 40 and 70 ns, including 10 for the source; then 60 and 90, including 40.
    let all = [
        series(small(IO), &[1e9 / 10.0, 1e9 / 40.0]),
        series(small(EVERYTHING), &[1e9 / 40.0, 1e9 / 60.0]),
        series(small(BASE_EVERYTHING), &[1e9 / 70.0, 1e9 / 90.0]),
    ];
    let claim = Claim {
        runs: const { &[(SMALL, &[EVERYTHING, BASE_EVERYTHING, IO])] },
        ..SCALING
    };
    let ratio = ratio(&claim, &all).unwrap().unwrap();
    assert!((ratio.max - 0.5).abs() < 1e-12, "{ratio:?}");
    assert!((ratio.min - 0.4).abs() < 1e-12, "{ratio:?}");
}

#[test]
fn a_round_there_and_back_has_one_rate() {
    // 25 and 75 ns are 50 ns on average.
    let mut one = series(small(IO), &[10e6, 40e6, 40e6 / 3.0]);
    one.end_round(2);
    let rates: Vec<String> = one
        .rates_pps
        .unwrap()
        .iter()
        .map(|rate| format!("{rate:.0}"))
        .collect();
    assert_eq!(rates, ["10000000", "20000000"]);
}

#[test]
fn what_did_not_run_has_no_ratio() {
    let skipped = Absence::Skipped("it takes 2 CPUs".to_owned());
    let mut all = vec![
        series(small(IO), &[40.0]),
        series(small(EVERYTHING), &[20.0]),
        series(small(EVERYTHING_TWO), &[38.0]),
    ];
    assert_eq!(ratio(&SCALING, &all), None);
    all.push(Series {
        run: small(IO_TWO),
        rates_pps: Err(skipped.clone()),
    });
    assert_eq!(ratio(&SCALING, &all), Some(Err(skipped)));
}

#[test]
fn a_contender_that_fails_twice_is_out() {
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench::for_tests(folder.path());
    let suite = Suite {
        runs: &[(SMALL, &[OFF, IO])],
        rounds_max: 1,
        warms_up: false,
        passes: 1,
    };
    // This folder has no vernierd.
    let all = run(&bench, &suite, 5, |run| run.contender == OFF).unwrap();
    assert_eq!(all.len(), 1);
    assert!(matches!(&all[0].rates_pps, Err(Absence::Failed(why)) if why.contains("vernierd")));
}
