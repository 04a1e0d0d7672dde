use std::fmt::Write;
use std::path::Path;

use proptest::prelude::*;

use super::*;

#[path = "../../../api/tests/documents/kept.rs"]
mod kept;

mod golden;

fn report() -> Report {
    Report {
        version_major: VERSION_MAJOR,
        version_minor: VERSION_MINOR,
        switch: "edge-1".to_owned(),
        incarnation: 7,
        epoch: 9,
        names: vec!["p0".to_owned(), "p1".to_owned(), "all".to_owned()],
        ..Report::default()
    }
}

#[test]
fn a_greater_major_version_is_refused_in_words_and_a_minor_one_is_read() {
    let mut newer = report();
    newer.version_minor = 9;
    let mut bytes = newer.encode_to_vec();
    // A field that this version does not know: number 1,000, a varint.
    bytes.extend([0xc0, 0x3e, 0x05]);
    assert_eq!(Report::read(&bytes).unwrap(), newer);
    newer.version_major = 2;
    let error = Report::read(&newer.encode_to_vec())
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "the report has version 2.9, this program reads up to 1.x: update it before the switches"
    );
}

#[test]
fn what_is_inconsistent_is_refused() {
    let mut nameless = report();
    nameless.switch = "a b".to_owned();
    assert!(Report::read(&nameless.encode_to_vec()).is_err());
    let mut dangling = report();
    dangling.segments = vec![Segment {
        to: 3,
        ..Segment::default()
    }];
    assert!(Report::read(&dangling.encode_to_vec()).is_err());
    assert_eq!(report().message_id(), "edge-1.0000000000000007.9");
}

/// Elements are counted before they are allocated: a segment may take only two bytes, and the server's limits do not
/// protect us.
#[test]
fn more_than_any_switch_reports_is_refused_before_it_takes_memory() {
    let refused = |bytes: &[u8]| Report::read(bytes).unwrap_err().to_string();
    // Empty segments, names, flows and neighbours of two bytes each.
    for (field, most, what) in [
        (10, NAMES_MAX, "names"),
        (11, SEGMENTS_MAX, "segments"),
        (12, FLOWS_MAX, "flows"),
        (13, NEIGHBOURS_MAX, "neighbours"),
    ] {
        let mut bytes = report().encode_to_vec();
        bytes.extend([field << 3 | 2, 0].repeat(most - report().names.len()));
        Report::read(&bytes).unwrap();
        bytes.extend([field << 3 | 2, 0].repeat(4));
        let error = refused(&bytes);
        assert!(
            error.contains(&format!(" {what}, expected at most {most}")),
            "{error}"
        );
    }
    let long = Report {
        names: vec!["x".repeat(NAME_BYTES_MAX + 1)],
        ..report()
    };
    let error = refused(&long.encode_to_vec());
    assert_eq!(
        error,
        "the report has 257 bytes in a name, expected at most 256"
    );
    assert!(refused(&vec![0; BYTES_MAX + 1]).contains("bytes, expected at most"));
}

#[test]
fn texts_that_control_terminals_and_figures_that_are_no_numbers_do_not_get_in() {
    let escape = "\u{1b}]0;x\u{7}\r\np\u{202e}0".to_owned();
    let hostile = Report {
        names: vec![escape.clone()],
        node: Some(escape.clone()),
        health: Some(Health {
            unusable: vec![escape.clone(); 100],
            unready: vec![escape.repeat(100)],
            clock: escape.clone(),
            ..Health::default()
        }),
        flows: vec![Flow {
            flow: escape.clone(),
            mean_ns: Some(f32::NAN),
            ..Flow::default()
        }],
        neighbours: vec![Neighbour {
            session: escape.clone(),
            system: Some(escape),
            ..Neighbour::default()
        }],
        segments: vec![Segment {
            samples: 5,
            mean_ns: f32::NAN,
            bound_ns: Some(f32::INFINITY),
            stddev_ns: Some(f32::NAN),
            quantiles: Some(Quantiles {
                p99_ns: f32::NEG_INFINITY,
                ..Quantiles::default()
            }),
            ..Segment::default()
        }],
        ..report()
    };
    let read = Report::read(&hostile.encode_to_vec()).unwrap();
    let shown = format!("{read:?}");
    assert!(!shown.contains("\\u{") && !shown.contains("\\r"), "{shown}");
    assert!(!shown.contains("NaN") && !shown.contains("inf"), "{shown}");
    assert_eq!(read.names, ["]0;xp0"]);
    assert_eq!((read.segments[0].samples, read.flows[0].mean_ns), (0, None));
    let health = read.health.unwrap();
    assert!(health.unusable.len() == 16 && health.unready[0].len() <= NAME_BYTES_MAX);
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Report::read(&bytes);
    }

    #[test]
    fn what_is_written_is_read(
        packets in any::<u64>(), lost in any::<i64>(), mean in -1e9_f32..1e9, bound in prop::option::of(0.0_f32..1e9),
        cut in 0_usize..80,
    ) {
        let segment = Segment {
            kind: Kind::Wire.into(), to: 1, class: 2, packets, lost, samples: packets, mean_ns: mean, bound_ns: bound,
            ..Segment::default()
        };
        let written = Report { segments: vec![segment], ..report() };
        let bytes = written.encode_to_vec();
        prop_assert_eq!(Report::read(&bytes).unwrap(), written);
        let _ = Report::read(&bytes[..cut.min(bytes.len())]);
    }
}

/// The messages of this module, as a `.proto` has them: every field is declared once, in Rust.
fn proto() -> String {
    let source = include_str!("../msp.rs");
    let source = source
        .split("/// Why bytes are not a report.")
        .next()
        .unwrap();
    let mut proto = "syntax = \"proto3\";\n\npackage vernier.report;\n".to_owned();
    let (mut words, mut attribute, mut is_inside) = (String::new(), None, false);
    for line in source.lines() {
        let indent = if is_inside { "  " } else { "" };
        let text = line.trim();
        if let Some(doc) = text.strip_prefix("/// ") {
            let _ = writeln!(words, "{indent}// {doc}");
        } else if let Some(of) = text.strip_prefix("#[prost(") {
            attribute = of.strip_suffix(")]");
        } else if let Some(name) = text
            .strip_prefix("pub struct ")
            .and_then(|text| text.strip_suffix(" {"))
        {
            let _ = write!(proto, "\n{}message {name} {{\n", std::mem::take(&mut words));
            is_inside = true;
        } else if let Some(name) = text
            .strip_prefix("pub enum ")
            .and_then(|text| text.strip_suffix(" {"))
        {
            let _ = write!(proto, "\n{}enum {name} {{\n", std::mem::take(&mut words));
            is_inside = true;
        } else if text == "}" && is_inside {
            proto += "}\n";
            is_inside = false;
        } else if let (Some(of), Some(field)) = (attribute.take(), text.strip_prefix("pub ")) {
            proto += &std::mem::take(&mut words);
            let _ = writeln!(proto, "  {};", field_of(of, field));
        } else if is_inside
            && let Some((name, number)) = text.trim_end_matches(',').split_once(" = ")
        {
            proto += &std::mem::take(&mut words);
            let _ = writeln!(proto, "  {} = {number};", name.to_uppercase());
        } else if text.starts_with("pub const") || text.is_empty() {
            words.clear();
        }
    }
    proto
}

/// `optional float bound_ns = 9` from `float, optional, tag = "9"` and `bound_ns: Option<f32>,`.
fn field_of(attribute: &str, field: &str) -> String {
    let (name, rust) = field.trim_end_matches(',').split_once(": ").unwrap();
    let parts: Vec<&str> = attribute.split(", ").collect();
    let tag = parts
        .last()
        .unwrap()
        .trim_start_matches("tag = ")
        .trim_matches('"');
    let kind = match parts[0].split_once(" = ") {
        Some((_, of)) => of.trim_matches('"'),
        None if parts[0] == "message" => rust.split_once('<').unwrap().1.trim_end_matches('>'),
        None => parts[0],
    };
    // A message may be absent without a word.
    let label = match parts[1] {
        "repeated" => "repeated ",
        "optional" if parts[0] != "message" => "optional ",
        _ => "",
    };
    format!("{label}{kind} {name} = {tag}")
}

/// `docs/report.md` ends with the `.proto`; the text before it is written by hand.
#[test]
fn the_packet_reference_is_current() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/report.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (words, _) = page.split_once("```proto\n").unwrap();
    kept::keep(
        "docs/report.md",
        &format!("{words}```proto\n{}```\n", proto()),
    );
}
