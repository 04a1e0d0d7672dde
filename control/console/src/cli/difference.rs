//! One difference between two configurations, as text: on one line where both values fit there, else the lines of JSON
//! that differ, each with one line around it.

use std::fmt::Write as _;

use contract::config::Change;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

/// Characters of a value up to which it stands on the line of its key.
const INLINE_CHARS_MAX: usize = 60;

/// `measurement.lds.cells: 70000 -> 4000 (live)`, or why it needs a restart.
pub fn text(change: &Change) -> String {
    let how = match change.fixed {
        Some(why) => format!(" (needs a restart: {why})"),
        None => " (live)".to_owned(),
    };
    let mut text = String::new();
    write(&mut text, change, "", &how);
    text
}

/// Appends both values of a change, indented, with `how` behind the key's line.
pub fn write(text: &mut String, change: &Change, indent: &str, how: &str) {
    let path = &change.path;
    let (old, new) = (change.old.to_string(), change.new.to_string());
    let fits = |value: &str| value.chars().count() <= INLINE_CHARS_MAX;
    if fits(&old) && fits(&new) {
        let _ = writeln!(text, "{indent}{path}: {old} -> {new}{how}");
        return;
    }
    let _ = writeln!(text, "{indent}{path}:{how}");
    let (old, new) = (lines(&change.old), lines(&change.new));
    let diff = TextDiff::from_lines(&old, &new);
    for (number, group) in diff.grouped_ops(1).iter().enumerate() {
        if number > 0 {
            let _ = writeln!(text, "{indent}    ...");
        }
        for line in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match line.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            let _ = writeln!(text, "{indent}  {sign} {}", line.value().trim_end());
        }
    }
}

/// A value over several lines; what is not there has none.
fn lines(value: &Value) -> String {
    if value.is_null() {
        String::new()
    } else {
        format!("{value:#}\n")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn between(old: Value, new: Value) -> String {
        text(&Change {
            path: "a.b".to_owned(),
            old,
            new,
            fixed: None,
        })
    }

    #[test]
    fn what_fits_stands_on_one_line() {
        assert_eq!(between(json!(1), json!([2])), "a.b: 1 -> [2] (live)\n");
    }

    #[test]
    fn of_what_does_not_fit_the_lines_that_differ_are_shown() {
        let rules = |ports: u16| {
            let voice = json!({ "class": "voice", "ports": ports, "protocol": "udp" });
            json!([voice, { "class": "bulk", "ports": 80 }])
        };
        let expected = [
            "a.b: (live)",
            "        \"class\": \"voice\",",
            "  -     \"ports\": 5004,",
            "  +     \"ports\": 5006,",
            "        \"protocol\": \"udp\"",
        ];
        let said = between(rules(5004), rules(5006));
        assert_eq!(said.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_is_new_is_shown_whole() {
        let long = "x".repeat(100);
        assert_eq!(
            between(Value::Null, json!(long)),
            format!("a.b: (live)\n  + \"{long}\"\n")
        );
    }
}
