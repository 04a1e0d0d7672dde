use super::*;

fn table() -> Table {
    let mut table = Table::default()
        .words(["check", "unit"])
        .figures(["paper", "limit", "ours"])
        .figures(["paper's decoder", "overall mean"]);
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
fn markdown_has_verdicts_and_escapes_pipes() {
    assert_eq!(
        table().markdown(),
        "\
| check                                  | unit  | paper |    limit |   ours | paper's decoder | overall mean |            |
| -------------------------------------- | ----- | ----: | -------: | -----: | --------------: | -----------: | ---------- |
| joint K = 1: >= 100 packets            | %     |     2 |  <= 0.32 |  0.301 |            2.01 |              | kept       |
| joint K = 1: >= 1000 packets \\| a pipe | %     |       | <= 0.035 | 0.0400 |                 |         14.2 | **missed** |
| for information                        | ratio |       |          |      - |                 |              |            |
"
    );
}
