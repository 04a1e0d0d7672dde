use std::fs;

use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
enum Only {
    Mset(Mset),
    Paths(Chains),
}

/// The paper's example, as in the documents.
const TOY: &str = "\
A B 1\nB A 1\nA F 1\nF A 1\nB F 1\nF B 1\nC D 1\nD C 1\nC F 2\nF C 2\nD E 1\nE D 1\nE F 2\nF E 2\n";

fn parsed(arguments: &[&str]) -> (tempfile::TempDir, Only) {
    parsed_with(TOY, arguments)
}

fn parsed_with(network: &str, arguments: &[&str]) -> (tempfile::TempDir, Only) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("toy.intra");
    fs::write(&file, network).unwrap();
    let network = ["--topology", file.to_str().unwrap()];
    let all = ["vernier", arguments[0]].into_iter().chain(network);
    let only = Only::parse_from(all.chain(arguments[1..].iter().copied()));
    (folder, only)
}

/// As it is printed without shortening.
fn text(write: impl FnOnce(&mut Page)) -> String {
    Page::plain(false, write)
}

fn sets(arguments: &[&str]) -> Result<Sets, Correctable> {
    let (_folder, only) = parsed(arguments);
    let Only::Mset(mset) = only else {
        panic!("{only:?}")
    };
    Sets::of(&mset)
}

fn ways(arguments: &[&str]) -> Result<Answer, Correctable> {
    let (_folder, only) = parsed(arguments);
    let Only::Paths(chains) = only else {
        panic!("{only:?}")
    };
    Answer::of(&chains)
}

#[test]
fn the_table_has_a_row_for_each_way() {
    let sets = |arguments: &[&str]| sets(arguments).unwrap();
    let text = |sets: &Sets| text(|page| sets.write(page));
    let shown = text(&sets(&["mset", "--routers", "C,F", "F"]));
    let expected = "\
node      role  member  hops  by
F     m-router       A     1  F A
                     B     1  F B
                   D_2     2  F E D
                     E     1  F E
";
    let columns = |text: &str| -> Vec<Vec<String>> {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
        text.lines().map(words).collect()
    };
    assert_eq!(columns(&shown), columns(expected), "{shown}");
    let all = sets(&["mset", "--routers", "C,F", "--servers", ""]);
    assert_eq!(all.nodes.len(), 6);
    assert_eq!(all.nodes[0].role, "plain");
    let shown = text(&all);
    assert!(shown.contains("A        plain       -"), "{shown}");
}

#[test]
fn json_has_every_way() {
    let sets = sets(&["mset", "--routers", "C,F", "F"]).unwrap();
    let json = serde_json::to_value(&sets).unwrap();
    let expected = serde_json::json!({
        "name": "D", "role": "m-server", "alternatives": 2, "monitored": 1,
        "ways": [{ "label": "D_2", "number": 2, "hops": 2, "routers": ["F", "E", "D"] }],
    });
    assert_eq!(json["nodes"][0]["members"][2], expected);
}

#[test]
fn paths_are_chains_of_segments() {
    let ways = ways(&["paths", "--routers", "C,F", "A", "D"]).unwrap();
    let text = text(|page| ways.write(page));
    assert!(text.contains("2 paths of equal cost from A to D"), "{text}");
    assert!(text.contains("finer: F E, E D"), "{text}");
    let json = serde_json::to_value(&ways).unwrap();
    assert_eq!(
        json["ways"][0]["segments"][1],
        serde_json::json!({ "kind": "router", "router": "F", "from": "A", "to": "C" })
    );
    assert_eq!(json["ways"][1]["segments"][2]["kind"], "virtual_link");
    let ways = self::ways(&["paths", "--servers", "", "A", "B"]).unwrap();
    let text = self::text(|page| ways.write(page));
    assert!(
        text.contains("m-server or upgrade needed at A and B"),
        "{text}"
    );
}

#[test]
fn names_that_the_network_lacks_are_refused() {
    let error = sets(&["mset", "--routers", "C,X"]).unwrap_err().to_string();
    assert!(
        error.starts_with("--routers: ") && error.ends_with("has no router \"X\""),
        "{error}"
    );
    let error = ways(&["paths", "A", "Y"]).unwrap_err().to_string();
    assert!(error.starts_with("TO: "), "{error}");
}

#[test]
fn names_may_have_commas() {
    // As Rocketfuel writes them; A and B are names, and so is A,B.
    let network = "London,+UK209 Oslo 1\nOslo London,+UK209 1\nOslo A 1\nA Oslo 1\nA B 1\nB A 1\nB A,B 1\nA,B B 1\n";
    let m_routers = |arguments: &[&str]| -> Result<Vec<String>, Correctable> {
        let (_folder, only) = parsed_with(network, arguments);
        let Only::Mset(mset) = only else {
            panic!("{only:?}")
        };
        let sets = Sets::of(&mset)?;
        let routers = sets
            .nodes
            .into_iter()
            .filter(|node| node.role == "m-router");
        Ok(routers.map(|node| node.name).collect())
    };
    for (arguments, expected) in [
        (
            &["mset", "--routers", "London,+UK209"][..],
            &["London,+UK209"][..],
        ),
        (
            &["mset", "--routers", "Oslo,London,+UK209,B"],
            &["B", "London,+UK209", "Oslo"],
        ),
        (
            &["mset", "--routers", "London,+UK209", "--routers", "Oslo"],
            &["London,+UK209", "Oslo"],
        ),
        (&["mset", "--routers", "A,B"], &["A,B"]),
        (&["mset", "--routers", "A", "--routers", "B"], &["A", "B"]),
    ] {
        assert_eq!(m_routers(arguments).unwrap(), expected, "{arguments:?}");
    }
    let error = m_routers(&["mset", "--routers", "Oslo,London,+FR1"]).unwrap_err();
    assert!(
        error.to_string().ends_with("has no router \"London\""),
        "{error}"
    );
}
