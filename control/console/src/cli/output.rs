//! Prints answers as tables, JSON or CSV, once or repeatedly.

use std::io::{self, IsTerminal};
use std::thread::sleep;
use std::time::Duration;

use clap::{Args, ColorChoice, ValueEnum};
use contract::text::{is_shown, say};
use ratatui::crossterm::cursor::MoveTo;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{Clear, ClearType};
use serde::Serialize;
use serde_json::Value;

use super::DONE;
use crate::view::{Look, Page};

/// How an answer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Shape {
    /// The most important columns, as many as fit into the terminal
    #[default]
    Table,
    /// All columns, including estimates next to exact figures
    Wide,
    /// Every field
    Json,
    /// A line for each row, with all its fields
    Csv,
}

/// How an answer with tables is printed.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct Form {
    /// How to print the answer
    #[arg(short, long, value_enum, value_name = "FORM", default_value_t)]
    output: Shape,
    /// The same as `-o json`
    #[arg(long, conflicts_with = "output")]
    json: bool,
}

/// How an answer that has no rows is printed.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct Json {
    /// Print JSON, with every field
    #[arg(long)]
    pub json: bool,
}

/// How the live answer of a program is printed.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct Question {
    #[command(flatten)]
    form: Form,
    /// Repeat every 2 seconds, or at the given interval, until interrupted
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", value_parser = seconds)]
    watch: Option<Duration>,
}

impl Form {
    /// Whether JSON is wanted.
    pub fn is_json(self) -> bool {
        self.json || self.output == Shape::Json
    }

    /// Prints an answer. Its rows are the list under the key. Of several keys, each is a list in the rows of the
    /// previous key.
    pub fn show<T: Serialize>(
        self,
        color: ColorChoice,
        keys: &[&str],
        answer: &T,
        view: impl FnOnce(&mut Page, &T),
    ) -> anyhow::Result<u8> {
        match self.output {
            _ if self.is_json() => print_json(answer),
            Shape::Csv => print(&csv(&serde_json::to_value(answer)?, keys)?),
            output => {
                let look = Look::of_stdout(output == Shape::Wide, color);
                print_page(look, |page| view(page, answer))
            }
        }
    }
}

impl Question {
    /// Requests an answer and prints it as in [`Form::show`]; with `--watch` until it is interrupted, even if requests
    /// after the first fail.
    pub fn show<T: Serialize>(
        &self,
        color: ColorChoice,
        keys: &[&str],
        mut ask: impl FnMut() -> anyhow::Result<T>,
        view: impl Fn(&mut Page, &T),
    ) -> anyhow::Result<u8> {
        let mut answer = ask()?;
        let Some(pause) = self.watch else {
            return self.form.show(color, keys, &answer, view);
        };
        loop {
            if io::stdout().is_terminal() {
                execute!(io::stdout(), Clear(ClearType::All), MoveTo(0, 0))?;
            }
            self.form.show(color, keys, &answer, &view)?;
            answer = loop {
                sleep(pause);
                match ask() {
                    Ok(answer) => break answer,
                    Err(error) => super::complain(&error),
                }
            };
        }
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok();
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let duration = duration.filter(|duration| !duration.is_zero());
    duration.ok_or_else(|| "expected a number of seconds over 0, such as 5 or 0.5".to_owned())
}

/// Prints the output of `fill`.
pub(super) fn print_page(look: Look, fill: impl FnOnce(&mut Page)) -> anyhow::Result<u8> {
    let mut page = Page::new(look);
    fill(&mut page);
    say(&page.finish())?;
    Ok(DONE)
}

/// Writes to standard output; a reader that stops early (`| head`) is no error. Names may come from anywhere, so
/// control characters are removed.
pub(super) fn print(text: &str) -> anyhow::Result<u8> {
    say(&shown(text))?;
    Ok(DONE)
}

fn shown(text: &str) -> String {
    let shown = text.chars();
    shown
        .filter(|&c| matches!(c, '\n' | '\t') || is_shown(c))
        .collect()
}

pub(super) fn print_json(value: &impl Serialize) -> anyhow::Result<u8> {
    print(&(serde_json::to_string_pretty(value)? + "\n"))
}

/// Names and values of a row's fields.
type Fields = Vec<(String, String)>;

/// The rows of an answer as CSV. Names of nested fields have dots; a field without a value in any row has no column.
fn csv(answer: &Value, keys: &[&str]) -> anyhow::Result<String> {
    let mut rows = Vec::new();
    collect(answer, keys, &Fields::new(), &mut rows);
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flatten() {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut writer = csv::Writer::from_writer(Vec::new());
    if !names.is_empty() {
        writer.write_record(&names)?;
    }
    for row in &rows {
        writer.write_record(names.iter().map(|name| {
            let field = row.iter().find(|(field, _)| field == name);
            field.map_or("", |(_, value)| value.as_str())
        }))?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

/// Appends the rows below `keys`; each begins with the fields of the rows that it lies in.
fn collect(value: &Value, keys: &[&str], outer: &Fields, rows: &mut Vec<Fields>) {
    let Some((key, rest)) = keys.split_first() else {
        let mut row = outer.clone();
        flatten("", value, true, &mut row);
        return rows.push(row);
    };
    for item in value[key].as_array().into_iter().flatten() {
        let mut outer = outer.clone();
        if !rest.is_empty() {
            flatten(&format!("{key}."), item, false, &mut outer);
        }
        collect(item, rest, &outer, rows);
    }
}

/// Appends the fields of an object; those of objects in it last, if `is_deep`.
fn flatten(prefix: &str, value: &Value, is_deep: bool, row: &mut Fields) {
    let fields = value.as_object().into_iter().flatten();
    let (objects, plain): (Vec<_>, Vec<_>) = fields.partition(|(_, value)| value.is_object());
    for (name, value) in plain {
        if let Some(text) = plain_text(value) {
            row.push((format!("{prefix}{name}"), text));
        }
    }
    for (name, value) in objects.into_iter().filter(|_| is_deep) {
        flatten(&format!("{prefix}{name}."), value, true, row);
    }
}

/// A value as a cell; the items of a list are separated by blanks. `None` for null and lists of objects.
fn plain_text(value: &Value) -> Option<String> {
    match value {
        Value::Null | Value::Object(_) => None,
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => {
            let items: Option<Vec<String>> = items.iter().map(plain_text).collect();
            Some(items?.join(" "))
        }
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_name_controls_the_terminal() {
        let text = "a\u{1b}[2J b\u{9b}31m\r\nc\td\u{202e}e\n";
        assert_eq!(shown(text), "a[2J b31m\nc\tde\n");
    }

    #[test]
    fn rows_are_lines_with_the_fields_of_what_they_lie_in() {
        let answer = json!({ "epoch": 7, "wires": [
            { "port": "west, 1", "peers": ["a", "b"], "clock": { "state": "locked" }, "segments": [
                { "name": "x", "last": { "mean_ns": 1.5, "deep": { "n": 1 } }, "rows": [{}] },
                { "name": "y", "last": null, "lost": 3 },
            ] },
            { "port": "east", "segments": [] },
        ] });
        let expected = "\
wires.peers,wires.port,name,last.mean_ns,last.deep.n,lost
a b,\"west, 1\",x,1.5,1,
a b,\"west, 1\",y,,,3
";
        assert_eq!(csv(&answer, &["wires", "segments"]).unwrap(), expected);
        assert_eq!(csv(&answer, &[]).unwrap(), "epoch\n7\n");
        assert_eq!(csv(&answer, &["ports"]).unwrap(), "");
    }
}
