use super::*;

fn quick() -> Setting {
    Setting {
        source: Source::Generated,
        seeds: Some(1),
        scale: 0.02,
    }
}

#[test]
fn the_hybrid_is_no_worse_than_what_it_is_made_of() {
    let findings = run(&quick(), &|| ()).unwrap();
    assert_eq!(findings.figures.len(), Scenario::ALL.len());
    for row in findings.tables.iter().flat_map(|table| &table.rows) {
        assert!(row.ours.is_finite(), "{row:?}");
        assert_eq!(row.limit, None, "a quick look is not judged");
        if row.check.contains("the better of") {
            assert!(row.ours < 1.5, "{row:?}");
        }
    }
    // In one queue references know what happens: both together beat either by far.
    let fifo = &findings.tables[0].rows[1];
    for (name, error) in &fifo.others {
        assert!(fifo.ours < 0.7 * error, "{name}: {fifo:?}");
    }
}

#[test]
fn a_seed_gives_the_same_figures_again() {
    let [one, other] = [(); 2].map(|()| run(&quick(), &|| ()).unwrap());
    // In print: a group without flows has no median, and not a number is unlike itself.
    let print = |findings: &Findings| format!("{:?}", (&findings.tables, &findings.figures));
    assert!(print(&one) == print(&other), "figures differ");
}
