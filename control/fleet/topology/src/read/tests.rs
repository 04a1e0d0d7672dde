use proptest::prelude::*;

use super::*;

fn refused(text: &str, format: Format) -> String {
    let (place, problem) = parse(text.as_bytes(), format).unwrap_err();
    format!("{place}: {problem}")
}

fn check_refusals(cases: &[(Format, &str, &str)]) {
    for (format, text, expected) in cases {
        let found = refused(text, *format);
        assert!(found.contains(expected), "{text}: {found}");
    }
}

fn links(text: &str, format: Format) -> Vec<(String, String, u64)> {
    let topology = parse(text.as_bytes(), format).unwrap();
    let graph = topology.graph();
    let links = graph.edge_indices().map(|link| {
        let (from, to) = graph.edge_endpoints(link).unwrap();
        let (from, to) = (graph[from].clone(), graph[to].clone());
        (from, to, graph[link].millionths())
    });
    links.collect()
}

fn link(from: &str, to: &str, millionths: u64) -> (String, String, u64) {
    (from.to_owned(), to.to_owned(), millionths)
}

#[test]
fn rocketfuel_has_a_line_for_each_direction() {
    let text = "San+Jose,+CA1 Oslo 2.5\nOslo San+Jose,+CA1 3\n\n";
    let expected = [
        link("Oslo", "San+Jose,+CA1", 3_000_000),
        link("San+Jose,+CA1", "Oslo", 2_500_000),
    ];
    assert_eq!(links(text, Format::Rocketfuel), expected);
}

#[test]
fn of_parallel_links_the_cheapest_counts_and_loops_do_not() {
    let text = "a b 3\na b 2\na b 4\na a 1\n";
    assert_eq!(links(text, Format::Rocketfuel), [link("a", "b", 2_000_000)]);
}

#[test]
fn json_links_lead_both_ways_unless_said_otherwise() {
    let text = r#"{
        "nodes": [{ "name": "b" }, { "name": "a" }],
        "links": [
            { "from": "a", "to": "b", "weight": 0.5, "both_directions": false },
            { "from": "b", "to": "a" }
        ]
    }"#;
    // The cheaper one from a to b.
    let expected = [link("a", "b", 500_000), link("b", "a", 1_000_000)];
    assert_eq!(links(text, Format::Json), expected);
}

#[test]
fn gml_labels_that_are_shared_get_their_ids() {
    let text = r#"# A comment
        Creator "any [tool]"
        graph [ directed 0
          node [ id 0 label "x" graphics [ w 2 type "line
        break" ] ]
          node [ id 1 label "x" ] node [ id 2 label "y z" ] node[id 3]
          edge [ source 0 target 1 weight 2.5 ] edge [source 2 target 3 LinkLabel "1 Gb/s"]
        ]"#;
    let expected = [
        link("#3", "y z", 1_000_000),
        link("x #0", "x #1", 2_500_000),
        link("x #1", "x #0", 2_500_000),
        link("y z", "#3", 1_000_000),
    ];
    assert_eq!(links(text, Format::Gml), expected);
    let directed = "graph [ directed 1 node [ id 0 ] node [ id 1 ] edge [ source 0 target 1 ] ]";
    assert_eq!(links(directed, Format::Gml).len(), 1);
}

/// Names of the routers, in their order.
fn names(text: &str, format: Format) -> Vec<String> {
    let topology = parse(text.as_bytes(), format).unwrap();
    let names = topology
        .routers()
        .map(|router| topology.name(router).to_owned());
    names.collect()
}

/// A line of nodes with these labels, whose ids are 1 and so on.
fn labelled(labels: &[&str]) -> String {
    let nodes = (1..)
        .zip(labels)
        .map(|(id, label)| format!("node [ id {id} label \"{label}\" ] "));
    let edges = (2..=labels.len()).map(|id| format!("edge [ source 1 target {id} ] "));
    format!("graph [ {} ]", nodes.chain(edges).collect::<String>())
}

#[test]
fn gml_labels_may_look_like_those_of_other_nodes() {
    for (labels, expected) in [
        (&["A", "A", "A #1"][..], &["A #1", "A #1 #1", "A #2"][..]),
        (&["A #2", "A", "A"], &["A #2", "A #2 #2", "A #3"]),
        (
            &["A", "A", "A #1", "A #1 #1"],
            &["A #1", "A #1 #1", "A #1 #1 #1", "A #2"],
        ),
        (&["B", "#1"], &["#1", "B"]),
    ] {
        let mut found = names(&labelled(labels), Format::Gml);
        found.sort();
        assert_eq!(found, expected, "{labels:?}");
    }
    // No label, and the label of another that looks like its id; all of them are there.
    let text = "graph [ node [ id 1 ] node [ id 2 label \"#1\" ] edge [ source 1 target 2 ] ]";
    assert_eq!(names(text, Format::Gml), ["#1", "#1 #1"]);
}

#[test]
fn gml_labels_have_entities() {
    let text = labelled(&[
        "M&#252;nchen",
        "S&atilde;o Paulo",
        "R&amp;D",
        "&quot;x&quot;",
        "K&#xf8;ge",
        "A & B",
        "&nosuch;",
    ]);
    let expected = [
        "\"x\"",
        "&nosuch;",
        "A & B",
        "K\u{f8}ge",
        "M\u{fc}nchen",
        "R&D",
        "S\u{e3}o Paulo",
    ];
    assert_eq!(names(&text, Format::Gml), expected);
    // The same label, written in two ways.
    assert_eq!(
        names(&labelled(&["&#65;", "A"]), Format::Gml),
        ["A #1", "A #2"]
    );
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_name() {
    let rocketfuel = "a b 1\nb c 1\nc a 1\n";
    let json =
        r#"{ "nodes": [{ "name": "a" }, { "name": "b" }], "links": [{ "from": "a", "to": "b" }] }"#;
    for (text, format) in [
        (rocketfuel, Format::Rocketfuel),
        (json, Format::Json),
        (&labelled(&["a", "b"]), Format::Gml),
    ] {
        let with_mark = format!("\u{feff}{text}");
        assert_eq!(names(&with_mark, format), names(text, format));
    }
    let joined = format!("\u{feff}{rocketfuel}\u{feff}{rocketfuel}");
    assert_eq!(names(&joined, Format::Rocketfuel), ["a", "b", "c"]);
    let (place, problem) = parse(b"\xff\xfea\0", Format::Gml).unwrap_err();
    assert_eq!(
        (place, problem.as_str()),
        (Place::File, "expected UTF-8, not UTF-16; save it as UTF-8")
    );
}

#[test]
fn names_can_be_shown() {
    let expected = ["Frankfurt am Main", "b\u{fffd}[31m\u{fffd}", "x\u{fffd}"];
    let text = labelled(&["Frankfurt\nam\tMain", "b\x1b[31m\x07", "x\u{202e}"]);
    assert_eq!(names(&text, Format::Gml), expected);
    let text = r#"{ "nodes": [{ "name": "Frankfurt\nam\tMain" }, { "name": "b\u001b[31m\u0007" }, { "name": "x\u202e", "role": "m-router" }],
        "links": [{ "from": "Frankfurt\nam\tMain", "to": "b\u001b[31m\u0007" }, { "from": "x\u202e", "to": "b\u001b[31m\u0007" }] }"#;
    assert_eq!(names(text, Format::Json), expected);
    let topology = parse(text.as_bytes(), Format::Json).unwrap();
    assert_eq!(topology.with_role(Role::MRouter).unwrap().len(), 1);
    assert_eq!(
        names("a\x01 b\x02 1", Format::Rocketfuel),
        ["a\u{fffd}", "b\u{fffd}"]
    );
    let twice = r#"{ "nodes": [{ "name": "a\u0001" }, { "name": "a\u0002" }], "links": [] }"#;
    assert!(
        refused(twice, Format::Json)
            .contains("nodes[1].name: expected a name that no other node has")
    );
}

#[test]
fn gml_of_other_programs_is_read() {
    let weighted = |weight: &str| {
        format!(
            "graph [\n node [ id -1 label \"a\" ]\n node [\tid\t-2 label \"b\" ]\n edge [ source -1 target -2 weight {weight} ]\n]\n"
        )
    };
    for text in [
        weighted("2.5"),
        weighted("\"2.5\""),
        weighted("25e-1"),
        weighted("2.5").replace('\n', "\r\n"),
        weighted("2.5").replace('\n', "\r"),
        // Edges first, a loop, and a dearer edge beside.
        "graph [ edge [ source 1 target 2 weight 2.5 ] edge [ source 1 target 1 ] edge [ source 2 target 1 weight 9 ] node [ id 1 label \"a\" ] node [ id 2 label \"b\" ] ]".to_owned(),
    ] {
        let expected = [link("a", "b", 2_500_000), link("b", "a", 2_500_000)];
        assert_eq!(links(&text, Format::Gml), expected, "{text}");
    }
    // A router without a visible name has its id.
    assert_eq!(names(&labelled(&["", "b"]), Format::Gml), ["#1", "b"]);
    assert_eq!(names(&labelled(&["", "  "]), Format::Gml), ["#1", "#2"]);
}

/// What is read of the Topology Zoo.
#[test]
fn the_topology_zoo_is_read() {
    let Some(archive) = testkit::shared("topologies/topology-zoo-gml.tar.gz") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let tar = std::process::Command::new("tar")
        .arg("-xzf")
        .arg(&archive)
        .arg("-C")
        .arg(folder.path())
        .status();
    assert!(tar.unwrap().success());
    let files = std::fs::read_dir(folder.path().join("gml")).unwrap();
    let files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 276);
    for path in &files {
        let topology = file(path).unwrap_or_else(|error| panic!("{error}"));
        if path.ends_with("Abilene.gml") {
            assert_eq!((topology.routers().len(), topology.links()), (11, 28));
        }
    }
}

#[test]
fn what_is_wrong_in_lines_or_json_is_said_with_its_place() {
    use Format::{Json, Rocketfuel};
    check_refusals(&[
        (Rocketfuel, "a b 1\na b\n", ":2: expected three fields"),
        (
            Rocketfuel,
            "a b -1",
            ":1: expected a weight of 0.000001 to 1000000000, not \"-1\"",
        ),
        (Rocketfuel, "a b NaN", ":1: expected a weight"),
        (Rocketfuel, "a b 1e300", ":1: expected a weight"),
        (Rocketfuel, "", ": expected at least one link"),
        (Rocketfuel, "a a 1", ": expected at least one link"),
        (Json, "{", "EOF while parsing an object at line 1"),
        (
            Json,
            r#"{ "nodes": [], "links": [] } x"#,
            ":1: trailing characters",
        ),
        (Json, r#"{ "nodes": [], }"#, ": trailing comma at line 1"),
        (
            Json,
            r#"{ "nodes": [{ "name": "a" }, { "name": " " }], "links": [] }"#,
            ": nodes[1].name: expected a name, not blanks",
        ),
        (
            Json,
            r#"{ "nodes": [{ "nam": "a" }] }"#,
            ": nodes[0].nam: unknown field `nam`",
        ),
        (
            Json,
            r#"{ "nodes": [{ "name": "a" }, { "name": "a" }], "links": [] }"#,
            ": nodes[1].name: expected a name that no other node has, not \"a\"",
        ),
        (
            Json,
            r#"{ "nodes": [{ "name": "a" }], "links": [{ "from": "a", "to": "b" }] }"#,
            ": links[0].to: expected the name of a node, not \"b\"",
        ),
        (
            Json,
            r#"{ "nodes": [{ "name": "a" }], "links": [{ "from": "a", "to": "a", "weight": 0 }] }"#,
            ": links[0].weight: expected 0.000001 to 1000000000",
        ),
    ]);
}

#[test]
fn what_is_wrong_in_gml_is_said_with_its_place() {
    use Format::Gml;
    check_refusals(&[
        (Gml, "", ": expected one `graph [ ... ]`, not 0"),
        (Gml, "graph [\n node [ id 0 ]\n", ":3: expected `]`"),
        (Gml, "graph [\n ]\n]", ":3: expected a key"),
        (Gml, "graph [ node ]", ":1: expected a value of `node`"),
        (Gml, "graph [\n label \"x ]", ":2: expected a second `\"`"),
        (
            Gml,
            "graph [\n node [ label \"x\" ] ]",
            ":2: expected an `id`",
        ),
        (
            Gml,
            "graph [ node [ id 0 ]\n node [ id 0 ] ]",
            ":2: expected an id that no other node has, not 0",
        ),
        (
            Gml,
            "graph [ node [ id 0 ]\n edge [ source 0 target 9 ] ]",
            ":2: expected the id of a node as `target`, not 9",
        ),
        (
            Gml,
            "graph [ node [ id 0 ]\n edge [ target 0 ] ]",
            ":2: expected a `source`",
        ),
        (
            Gml,
            "graph [ node [ id 0 ] node [ id 1 ]\nedge [ source 0 target 1 weight x ] ]",
            ":2: expected a weight",
        ),
        // Read on as it comes, each of these gives a name or a weight that is not the file's.
        (
            Gml,
            "graph [\n node [ id 0 label \"a \\\"x\\\"\" ] ]",
            ":2: expected a key, which has letters, digits and `_`, not x\\; in texts a quotation mark is `&quot;`",
        ),
        (
            Gml,
            "graph [ node [ id 0 ] node [ id 1 ]\nedge [ source 0 target 1 weight 2\nweight 3 ] ]",
            ":3: expected one `weight`, not several",
        ),
        (
            Gml,
            "graph [ node [ id 0 ] node [ id 1 ]\nedge [ source 0 target 1 weight [ x 1 ] ] ]",
            ":2: expected a number or a text as `weight`, not a list",
        ),
        (
            Gml,
            "graph [ node [ id 0 ]\nedge [ source 0 target \"\u{1b}[31m\" ] ]",
            "not \u{fffd}[31m",
        ),
    ]);
}

#[test]
fn there_are_limits() {
    use Format::{Gml, Rocketfuel};
    let deep = format!("graph [ {}", "a [ ".repeat(100_000));
    assert!(refused(&deep, Gml).contains("expected at most 16 nested lists"));
    let many: String = (0..3_000).fold(String::new(), |text, at| text + &format!("a {at} 1\n"));
    assert_eq!(
        refused(&many, Rocketfuel),
        ":2048: expected at most 2048 routers"
    );
    let dense = (0..200).flat_map(|from| (0..200).map(move |to| format!("{from} {to} 1\n")));
    assert!(
        refused(&dense.collect::<String>(), Rocketfuel).contains("expected at most 32768 links")
    );
    let long = format!("{} b 1", "a".repeat(70_000));
    assert_eq!(
        refused(&long, Rocketfuel),
        ":1: expected a name of at most 256 bytes, not 70000"
    );
    let (place, _) = parse(b"a b 1\n\xff", Rocketfuel).unwrap_err();
    assert_eq!(place, Place::Line(2));
}

#[test]
fn the_end_of_the_name_says_the_format() {
    assert_eq!(
        file("network.txt".as_ref()).unwrap_err().to_string(),
        "network.txt: expected a name that ends in .json, .intra (Rocketfuel) or .gml, or - for JSON from standard input"
    );
    assert_eq!(Format::of("NETWORK.GML".as_ref()), Some(Format::Gml));
    let missing = file("nowhere.gml".as_ref()).unwrap_err().to_string();
    assert!(
        missing.starts_with("nowhere.gml: cannot be read: "),
        "{missing}"
    );
}

proptest! {
    #[test]
    fn no_input_panics(text in "[a-b0-9 \\[\\]\"#\n.{}:,-]{0,200}", words in prop::collection::vec(
        prop::sample::select(vec!["graph", "node", "edge", "[", "]", "id", "0", "1", "source", "target", "weight", "\"", "\n"]), 0..60)) {
        for format in [Format::Json, Format::Rocketfuel, Format::Gml] {
            let _ = parse(text.as_bytes(), format);
            let _ = parse(words.join(" ").as_bytes(), format);
        }
    }
}
