use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Only {
    #[command(flatten)]
    size: Size,
}

fn size(arguments: &[&str]) -> Size {
    let program = ["size", "--packets-per-second", "1e5"];
    Only::parse_from(program.iter().chain(arguments)).size
}

#[test]
fn a_plan_keeps_its_promise_and_pastes_into_a_configuration() {
    let size = size(&["--flows", "20000", "--loss", "0.1%", "--worst-loss", "1%"]);
    let plan = Plan::of(&size).unwrap();
    assert!(plan.lda.usual.mean_error_ratio <= 0.01);
    assert!(plan.lda.worst.is_some());
    let lds = plan.lds.as_ref().unwrap();
    assert!(lds.error_ratio <= 0.1 && lds.miss_share <= 0.05);
    assert_eq!(lds.cells, u64::from(lds.columns) * lds.rows.len() as u64);
    let text = plan.text(&size).unwrap();
    let (_, fragment) = text.split_once("configuration:\n\n").unwrap();
    let whole = format!(
        r#"{{ "ports": [{{ "name": "a", "device": "sink" }}, {{ "name": "b", "device": "sink" }}],
           "forwarding": {{ "mode": "bridge" }}, {fragment} }}"#
    );
    let config = Config::parse(&whole, "v.json").unwrap();
    let cells = config.measurement.lds.unwrap().cells;
    assert_eq!(u64::from(cells), lds.cells);
    assert!(text.lines().all(|line| line.len() < 110), "{text}");
}

#[test]
fn without_flows_there_is_no_sketch() {
    let plan = Plan::of(&size(&[])).unwrap();
    assert!(plan.lds.is_none() && plan.lda.worst.is_none());
    assert_eq!(plan.lda.banks.len(), 1);
    assert!(plan.configuration["measurement"]["lds"].is_null());
}

#[test]
fn what_cannot_be_had_says_which_part_and_what_to_do() {
    let words = |arguments: &[&str]| Plan::of(&size(arguments)).unwrap_err().to_string();
    let lda = words(&["--loss", "50%", "--error", "1e-9"]);
    assert!(
        lda.starts_with("LDA: an error of") && lda.contains("allow that much"),
        "{lda}"
    );
    let lds = words(&["--flows", "0"]);
    assert!(lds.starts_with("LDS: the number of flows"), "{lds}");
    let epoch = words(&["--interval-ms", "1"]);
    assert!(
        epoch.contains("measurement.interval_ms: expected 10 to 60000"),
        "{epoch}"
    );
}

#[test]
fn flow_sizes_add_up_to_the_packets() {
    for (packets, flows) in [(1e5, 20_000), (1e6, 1), (100.0, 1_000)] {
        let sizes = sizes(1.1, packets, flows).unwrap();
        let sum = sizes.mean_up_to(f64::INFINITY) * flows as f64;
        assert!(
            (sum / packets - 1.0).abs() < 1e-6,
            "{packets} {flows}: {sum}"
        );
    }
}

#[test]
fn shares_are_numbers_or_percentages() {
    assert_eq!(share("0.5"), Ok(0.5));
    assert_eq!(share("5%"), Ok(0.05));
    assert!(share("x%").is_err() && number("nan").is_err());
    assert_eq!(percent(0.01), "1%");
    assert_eq!(percent(0.012_34), "1.23%");
    assert_eq!(percent(0.5), "50%");
    assert_eq!(percent(1.0), "100%");
}

#[test]
fn rounding_leaves_no_probability_at_nothing() {
    assert!((rounded(1e-9) - 1e-9).abs() < 1e-18);
    assert!(rounded(0.123_456_789) <= 0.123_456_789);
}
