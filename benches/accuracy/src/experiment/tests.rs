use reporting::Limit;

use super::*;
use crate::report::Row;
use crate::rli::exchange::REFERENCE_BYTES;

/// Seed 0 gives 1 and 4, seed 1 gives 3 and 2: means of 2 and 3.
const PAIR: Experiment = Experiment {
    name: "pair",
    title: "Two seeds",
    plan: |_, plan| {
        plan.table("Pairs", "Two seeds.");
        plan.case(2, |seed, found| {
            let (one, two) = if seed == 0 { (1.0, 4.0) } else { (3.0, 2.0) };
            let row = found.row(0, "one", "%", one);
            row.limit(Limit::AtMost(1.5)).other("two", two);
            found.ratio(0, "two / the least", two, [one, 100.0]);
            Ok(())
        });
    },
};

fn setting(seeds: Option<u32>, scale: f64) -> Setting {
    Setting {
        capture: None,
        seeds,
        scale,
    }
}

fn run(experiment: &Experiment, setting: &Setting) -> Vec<Table> {
    let supply = Supply::new(setting).unwrap();
    let mut plan = Plan::default();
    (experiment.plan)(&supply, &mut plan);
    let steps = plan.steps();
    let taken = std::sync::atomic::AtomicU64::new(0);
    let step = || {
        taken.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    };
    let tables = plan.run(setting, &step).unwrap();
    assert_eq!(taken.into_inner(), steps);
    tables
}

/// A quick look at an experiment: every figure is a number, and the same again.
fn looked_at(name: &str, seeds: u32, scale: f64) -> Vec<Table> {
    let found = crate::EXPERIMENTS.iter().find(|each| each.name == name);
    let [one, other] = [(); 2].map(|()| run(found.unwrap(), &setting(Some(seeds), scale)));
    for row in one.iter().flat_map(|table| &table.rows) {
        assert!(row.ours.is_finite(), "{row:?}");
    }
    // Compared as text, because a group without flows has no median, and NaN does not equal itself.
    assert!(format!("{one:?}") == format!("{other:?}"), "figures differ");
    one
}

/// The first row whose check begins so.
fn row<'a>(tables: &'a [Table], check: &str) -> &'a Row {
    let mut rows = tables.iter().flat_map(|table| &table.rows);
    rows.find(|row| row.check.starts_with(check)).unwrap()
}

/// Another method's figure.
fn other(row: &Row, method: &str) -> f64 {
    let found = row.others.iter().find(|other| other.method == method);
    found.unwrap().figure
}

#[test]
fn rows_are_means_over_seeds() {
    let tables = run(&PAIR, &setting(None, 1.0));
    let [one, ratio] = &tables[0].rows[..] else {
        panic!("{tables:?}");
    };
    assert_eq!((one.ours, one.others[0].figure), (2.0, 3.0));
    assert_eq!(one.pass, Some(false));
    assert_eq!((ratio.ours, ratio.pass), (1.5, None));
}

#[test]
fn a_quick_look_is_not_judged() {
    let row = &run(&PAIR, &setting(None, 0.5))[0].rows[0];
    assert_eq!((row.limit, row.pass), (None, None));
}

#[test]
fn captures_have_one_seed_unless_more_are_asked_for() {
    let mut setting = setting(None, 1.0);
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

#[test]
fn lda() {
    let tables = looked_at("lda", 4, 0.01);
    let row = |check| row(&tables, check);
    // More loss leaves fewer samples; the better deviation is better.
    let few = row("error of the mean at 20 % loss");
    let many = row("error of the mean at 0.1 % loss");
    assert!(few.ours > many.ours, "{few:?} {many:?}");
    let covered = row("runs whose interval holds the mean");
    assert!(covered.ours >= 75.0, "{covered:?}");
    let width = row("width of the interval");
    assert!(width.ours < 1.0, "{width:?}");

    // Lists repair packets within their reach; without them nothing is gained.
    let alone = |row| other(row, "LDA alone");
    let near = row("usable cells: 100 % overtaken by up to 100, 0 % loss");
    assert!((near.ours - 100.0).abs() < 1e-9, "{near:?}");
    assert!(alone(near) < 95.0, "{near:?}");
    let error = row("error of the mean: 100 % overtaken by up to 100, 0 % loss");
    assert!(error.ours < 1e-6 && alone(error) > 1e-3, "{error:?}");
    let far = row("usable cells: 100 % overtaken by up to 1000, 0 % loss");
    assert!(far.ours < near.ours && far.ours >= alone(far), "{far:?}");
}

#[test]
fn lds() {
    let tables = looked_at("lds", 1, 0.02);
    let row = |check| row(&tables, check);
    let of_multibank = "k = 5, rows .01/.1/.5/1, K = 1, 1 % loss: >= 1000";
    for check in [
        "joint K = 1, 17500 x 4: >= 100",
        "joint K = 2, 1750 x 4: >= 100",
        "10 % of flows missing",
        of_multibank,
    ] {
        let row = row(check);
        assert!(row.ours < other(row, "paper's decoder"), "{row:?}");
    }
    let beside = row("joint / the better of RLI and MPE");
    assert!(beside.ours < 0.5, "{beside:?}");
    let exact = row("R = 3, flows / cells 0.75");
    assert!(exact.ours < 1e-3, "{exact:?}");
    // Sampling by all rows must be seen to fail.
    let full = row("one bank, p = 1, 1 % loss: >= 1000");
    assert!(full.ours > 3.0 * row(of_multibank).ours, "{full:?}");
}

#[test]
fn hybrid() {
    let tables = looked_at("hybrid", 1, 0.02);
    for row in tables.iter().flat_map(|table| &table.rows) {
        let is_ratio = row.check.contains("the better of");
        assert!(!is_ratio || row.ours < 1.5, "{row:?}");
    }
    // In one queue references see the delays of the packets: both together are far better than either.
    let fifo = &tables[0].rows[1];
    for other in &fifo.others {
        assert!(fifo.ours < 0.7 * other.figure, "{fifo:?}");
    }
}

#[test]
fn rli() {
    let tables = looked_at("rli", 1, 0.02);
    let rows = || tables.iter().flat_map(|table| &table.rows);
    for row in rows() {
        let mut others = row.others.iter();
        assert!(others.all(|other| other.figure.is_finite()), "{row:?}");
    }
    let ratios = rows().filter(|row| row.check.starts_with("RLI-AS / RLI, median"));
    let ratios: Vec<f64> = ratios.map(|row| row.ours).collect();
    assert!(
        ratios.len() == 8 && ratios.iter().all(|ratio| *ratio < 1.0),
        "{ratios:?}"
    );
    // With Algorithm 1, most packets are in long gaps; with a steady rate it is almost as good as a fixed one.
    let adaptive = row(&tables, "RLI, adaptive: 93 %, heavy");
    let steady = row(&tables, "RLI, adaptive, smoothing 0.02: 93 %, heavy");
    assert!(adaptive.ours > 1.5, "{adaptive:?}");
    assert!(steady.ours < adaptive.ours, "{steady:?}");
    let sent = other(adaptive, "packets a reference");
    let seen = other(adaptive, "as packets see it");
    assert!(seen > 3.0 * sent, "{adaptive:?}");
}

#[test]
fn every_baseline_is_in_the_table_and_rli_leads() {
    let rows = &looked_at("baselines", 1, 0.1)[0].rows;
    assert_eq!(rows.len(), 4 * 11);
    for row in rows {
        let worse = !row.check.starts_with("RLI") && row.check.ends_with("93 %, heavy");
        assert!(!worse || row.ours > 5.0, "{row:?}");
    }
}

#[test]
fn references_cost_the_bandwidth_that_they_take() {
    let tables = looked_at("interference", 2, 0.05);
    let row = |check| row(&tables, check);
    let delay = row("delay added: 1-in-10, heavy, tail drop").ours;
    let less = row("delay added: 1-in-100, heavy, tail drop").ours;
    assert!(delay > less && less > 0.0, "{delay} {less}");
    // 80 % of the link, of that a third of the packets, a tenth of them; of 740.8 bytes each.
    let percent = 80.0 * 0.33 * 0.1 * f64::from(REFERENCE_BYTES) / 740.8;
    let took = row("loss added: 1-in-10, heavy, tail drop");
    let took = other(took, "references, % of the link");
    assert!((took / percent - 1.0).abs() < 0.05, "{took}");
}

#[test]
fn a_queue_is_local_and_independent_delays_are_not() {
    let rows = &looked_at("locality", 1, 0.05)[0].rows;
    assert_eq!(rows.len(), 4 + 3);
    for row in rows {
        let long = other(row, "1 s");
        assert!(long.is_finite(), "{row:?}");
        let local = row.ours < 0.5 * long;
        let expected = row.check.starts_with("one FIFO");
        assert!(local == expected || row.check.contains("two"), "{row:?}");
    }
}
