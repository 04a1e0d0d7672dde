use std::path::PathBuf;

use super::*;
use crate::table::Curve;

fn report() -> Report {
    let rows = vec![
        Row::new("joint K = 1: >= 100 packets", "%", 0.301)
            .paper(2.0)
            .limit(Limit::AtMost(0.32))
            .other("paper's decoder", 2.013),
        Row::new("joint K = 1: >= 1000 packets | a pipe", "%", 0.04)
            .limit(Limit::AtMost(0.035))
            .other("overall mean", 14.2),
        Row::new("for information", "ratio", f64::NAN),
    ];
    let mut report = Report::new(Setting {
        source: Source::Generated,
        seeds: None,
        scale: 1.0,
    });
    report.sections.push(Section {
        name: "lds",
        title: "Lossy Difference Sketch",
        seconds: 12.3,
        tables: vec![Table {
            title: "Median error of flow means".into(),
            about: "17,500 x 4 cells, 146,000 flows, mean of 5 seeds.".into(),
            rows,
        }],
        figures: vec![Figure {
            name: "lds-fig10".into(),
            title: "Errors by size".into(),
            x_label: "relative error, %".into(),
            y_label: "share of flows".into(),
            x_log: true,
            curves: vec![Curve::cdf("joint", vec![0.1, 1.0, 3.0])],
        }],
    });
    report
}

#[test]
fn the_verdict_names_what_is_missed() {
    let mut report = report();
    assert!(!report.holds());
    assert_eq!(
        report.verdict(),
        [
            "1 of 2 limits are missed:",
            "Median error of flow means: joint K = 1: >= 1000 packets | a pipe: 0.0400 %, limit \
             <= 0.035",
        ]
    );
    report.sections[0].tables[0].rows.remove(1);
    assert!(report.holds());
    assert_eq!(report.verdict(), ["All 1 limits are kept."]);
    report.sections.clear();
    assert_eq!(
        report.verdict(),
        ["No limit applies to this setting: figures for information."]
    );
}

#[test]
fn columns_are_aligned() {
    let style = Style {
        width: 100,
        colour: false,
    };
    let text = table_as_text(&report().sections[0].tables[0], style);
    assert_eq!(
        text,
        "\
Median error of flow means
17,500 x 4 cells, 146,000 flows, mean of 5 seeds.
                                                                       paper's  overall
check                                  unit   paper     limit    ours  decoder     mean
joint K = 1: >= 100 packets            %          2   <= 0.32   0.301     2.01           kept
joint K = 1: >= 1000 packets | a pipe  %             <= 0.035  0.0400              14.2  MISSED
for information                        ratio                        -

"
    );
}

#[test]
fn lines_stay_within_the_width() {
    let style = Style {
        width: 70,
        colour: false,
    };
    let mut table = report().sections[0].tables[0].clone();
    table.rows[0].check = "a rather long description of what was measured, and how".into();
    table.rows[0] = (0..9).fold(table.rows[0].clone(), |row, n| {
        row.other(format!("method number {n}"), f64::from(n) + 0.5)
    });
    let text = table_as_text(&table, style);
    assert!(
        text.lines().all(|line| line.chars().count() <= 70),
        "{text}"
    );
    assert!(text.contains("method number 8 8.50"), "{text}");
    assert!(text.contains("\n  "), "{text}");
}

#[test]
fn colours_only_where_wanted() {
    let report = report();
    let paint = |colour| table_as_text(&report.sections[0].tables[0], Style { width: 100, colour });
    assert!(paint(true).contains("\x1b[1;31mMISSED\x1b[0m"));
    assert!(!paint(false).contains('\x1b'));
}

#[test]
fn a_report_is_three_files() {
    let folder = tempfile::tempdir().unwrap();
    let stale = folder.path().join("accuracy/stale.svg");
    fs::create_dir_all(stale.parent().unwrap()).unwrap();
    fs::write(&stale, "").unwrap();
    report().write(folder.path()).unwrap();
    assert!(!stale.exists());
    assert!(folder.path().join("accuracy/lds-fig10.svg").exists());

    let text = fs::read_to_string(folder.path().join("accuracy.md")).unwrap();
    for expected in [
        "**1 of 2 limits are missed:**",
        "| joint K = 1: >= 100 packets | % | 2 | <= 0.32 | 0.301 | 2.01 |  | kept |",
        "| joint K = 1: >= 1000 packets \\| a pipe | % |  | <= 0.035 | 0.0400 |  | 14.2 | **missed** |",
        "![Errors by size](accuracy/lds-fig10.svg)",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
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
fn a_capture_gives_the_files_its_name() {
    let mut report = report();
    report.setting.source = Source::Capture(PathBuf::from("/data/mix-dev-60s.pcap"));
    assert_eq!(report.stem(), "accuracy-mix-dev-60s");
}
