use std::fs;

use super::*;

fn report(capture: Option<&str>) -> Report {
    let mut good = Row::new("joint K = 1: >= 100 packets", "%", 0.301);
    good.at_most((2.0, 0.32)).other("paper's decoder", 2.013);
    let mut bad = Row::new("joint K = 1 | a pipe", "%", 0.04);
    bad.limit(Limit::AtMost(0.035)).other("overall mean", 14.2);
    let setting = Setting {
        capture: capture.map(Into::into),
        seeds: None,
        scale: 1.0,
    };
    let table = Table {
        title: "Median error of flow means".into(),
        about: "17,500 x 4 cells, 146,000 flows, mean of 5 seeds.".into(),
        rows: vec![
            good.judged(&setting),
            bad.judged(&setting),
            Row::new("for information", "ratio", f64::NAN),
        ],
    };
    let section = Section {
        name: "lds",
        title: "Lossy Difference Sketch",
        seconds: 12.3,
        tables: vec![table],
    };
    Report::new(setting, vec![section])
}

/// Without the spaces that align columns.
fn squeezed(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

#[test]
fn a_report_is_a_page_and_json() {
    let folder = tempfile::tempdir().unwrap();
    report(None).write(folder.path()).unwrap();
    let page = fs::read_to_string(folder.path().join("accuracy.md")).unwrap();
    let text = squeezed(&page);
    for expected in [
        "with generated traffic; seeds as each limit asks; scale 1.\n",
        "**1 of 2 limits are missed:**\n\n- Median error of flow means: joint K = 1 | a pipe: \
         0.0400 %, limit <= 0.035\n\n## Lossy",
        "| joint K = 1: >= 100 packets | % | 2 | <= 0.32 | 0.301 | 2.01 |  | kept |",
        "| joint K = 1 \\| a pipe | % |  | <= 0.035 | 0.0400 |  | 14.2 | **missed** |",
    ] {
        assert!(text.contains(&squeezed(expected)), "{expected} in {text}");
    }

    let json = fs::read(folder.path().join("accuracy.json")).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!((&json["limits"], &json["missed"]), (&2.into(), &1.into()));
    assert_eq!(json["settings"]["scale"], 1.0);
    let rows = &json["experiments"][0]["tables"][0]["rows"];
    assert_eq!(rows[0]["pass"], true);
    assert_eq!(rows[0]["limit"]["at_most"], 0.32);
    assert_eq!(rows[0]["others"][0]["figure"], 2.013);
    assert_eq!(rows[2]["ours"], serde_json::Value::Null);
    assert_eq!(rows[2]["pass"], serde_json::Value::Null);
}

#[test]
fn many_other_methods_are_in_one_column() {
    let figures = (0..9_u8).map(|n| (format!("method number {n}"), f64::from(n) + 0.5));
    let mut table = Table {
        title: String::new(),
        about: String::new(),
        rows: vec![Row::new("check", "%", 1.0)],
    };
    table.rows[0].others(figures);
    let text = printed(&table).markdown();
    let others = "| method number 0 0.500, method number 1 1.50, ";
    assert!(text.contains(others), "{text}");
}

#[test]
fn a_capture_gives_the_files_its_name() {
    let folder = tempfile::tempdir().unwrap();
    report(Some("/data/mix-dev-60s.pcap"))
        .write(folder.path())
        .unwrap();
    let page = folder.path().join("accuracy-mix-dev-60s.md");
    let text = fs::read_to_string(page).unwrap();
    assert!(
        text.contains("packets of mix-dev-60s.pcap through"),
        "{text}"
    );
}
