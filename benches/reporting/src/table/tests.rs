use super::text::Colour;
use super::*;

const PLAIN: Style = Style {
    width: 100,
    colour: Colour::None,
};

fn table() -> Table {
    let mut table = Table::default()
        .words(["check", "unit"])
        .figures(["paper", "limit", "ours"])
        .others(["paper's decoder", "overall mean"]);
    let check = "joint K = 1: >= 100 packets";
    let fields: [&dyn Display; 7] = [&check, &"%", &2, &"<= 0.32", &0.301, &"2.01", &""];
    table.row(&fields).judge(Some(true));
    let check = "joint K = 1: >= 1000 packets | a pipe";
    let fields: [&dyn Display; 7] = [&check, &"%", &"", &"<= 0.035", &"0.0400", &"", &14.2];
    table.row(&fields).judge(Some(false));
    table.row(&[&"for information", &"ratio", &"", &"", &"-", &"", &""]);
    table
}

#[test]
fn columns_are_aligned() {
    assert_eq!(
        table().text("Median error of flow means", "Mean of 5 seeds.", PLAIN),
        "\
Median error of flow means
Mean of 5 seeds.
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
    let long = "a rather long description of what was measured, and how";
    let methods: Vec<_> = (0..9).map(|n| format!("method number {n}")).collect();
    let mut table = Table::default().words(["check"]).others(methods);
    table.push(
        [long.to_owned()]
            .into_iter()
            .chain((0..9).map(|n| format!("{n}.50")))
            .collect(),
    );
    let text = table.text("Title", "", Style { width: 40, ..PLAIN });
    assert!(
        text.lines().all(|line| line.chars().count() <= 40),
        "{text}"
    );
    assert!(text.contains("8 8.50"), "{text}");
    assert!(text.contains("\n  "), "{text}");
    let others = "| method number 0 0.50, method number 1 1.50, ";
    assert!(table.markdown().contains(others), "{}", table.markdown());
}

#[test]
fn colours_only_where_wanted() {
    let paint = |colour| table().text("Title", "", Style { colour, ..PLAIN });
    assert!(paint(Colour::Ansi).contains("\x1b[1;31mMISSED\x1b[0m"));
    assert!(!paint(Colour::None).contains('\x1b'));
}

#[test]
fn markdown_has_verdicts_and_escapes_pipes() {
    assert_eq!(
        table().markdown(),
        "\
| check | unit | paper | limit | ours | paper's decoder | overall mean |  |
|---|---|---:|---:|---:|---:|---:|---|
| joint K = 1: >= 100 packets | % | 2 | <= 0.32 | 0.301 | 2.01 |  | kept |
| joint K = 1: >= 1000 packets \\| a pipe | % |  | <= 0.035 | 0.0400 |  | 14.2 | **missed** |
| for information | ratio |  |  | - |  |  |  |
"
    );
}
