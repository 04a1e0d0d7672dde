//! Tables on a terminal: aligned, wrapped, in colour where that is wanted.

use std::fmt::Write as _;

use super::figure::{given, limit, measured, verdict};
use crate::table::{Row, Table};

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Characters on a line.
    pub width: usize,
    /// Colours, as ANSI terminals have them.
    pub colour: bool,
}

/// Blanks between columns.
const GAP: usize = 2;
/// The column of checks is not made narrower than this to make room for other methods.
const CHECK_WIDTH_MIN: usize = 30;

/// Headings are not broken into lines shorter than this.
const HEADING_WIDTH: usize = 6;

const BOLD: &str = "1";
const DIM: &str = "2";
const GREEN: &str = "32";
const RED: &str = "1;31";

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        if self.colour && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// A column of figures: its heading, broken into lines, and one field a row.
struct Column {
    heading: Vec<String>,
    fields: Vec<String>,
    width: usize,
}

impl Column {
    fn new(heading: &str, fields: Vec<String>) -> Self {
        let longest = |words: &mut dyn Iterator<Item = &str>| words.map(length).max().unwrap_or(0);
        let width = longest(&mut heading.split_whitespace())
            .max(longest(&mut fields.iter().map(String::as_str)))
            .max(length(heading).min(HEADING_WIDTH));
        Self {
            heading: wrap(heading, width),
            fields,
            width,
        }
    }
}

/// The table, ending in a blank line.
pub fn table(table: &Table, style: Style) -> String {
    let mut text = String::new();
    for (paragraph, code) in [(&table.title, BOLD), (&table.about, DIM)] {
        for line in wrap(paragraph, style.width) {
            text += &style.paint(code, &line);
            text.push('\n');
        }
    }
    let layout = Layout::of(table, style);
    for line in layout.heading() {
        text += &style.paint(DIM, &line);
        text.push('\n');
    }
    for (index, row) in table.rows.iter().enumerate() {
        layout.row(&mut text, index, row);
    }
    text.push('\n');
    text
}

/// Where everything of a table stands.
struct Layout {
    style: Style,
    check_width: usize,
    unit_width: usize,
    /// Paper, limit, ours; then the other methods, where there is room.
    figures: Vec<Column>,
    /// Other methods have columns of their own; else they stand below their row.
    others_in_columns: bool,
}

impl Layout {
    fn of(table: &Table, style: Style) -> Self {
        let rows = &table.rows;
        let column = |heading: &str, field: &dyn Fn(&Row) -> String| {
            Column::new(heading, rows.iter().map(field).collect())
        };
        let unit_width = column("unit", &|row| row.unit.to_owned()).width;
        let verdict_width = column("", &|row| verdict(row.pass()).to_owned()).width;
        let mut figures = vec![
            column("paper", &|row| row.paper.map(given).unwrap_or_default()),
            column("limit", &|row| row.limit.map(limit).unwrap_or_default()),
            column("ours", &|row| measured(row.ours)),
        ];
        let others = other_methods(table).into_iter();
        let others: Vec<_> = others
            .map(|name| column(name, &|row| other(row, name)))
            .collect();

        let width = |columns: &[Column]| columns.iter().map(|each| GAP + each.width).sum::<usize>();
        let ends = 2 * GAP + unit_width + verdict_width;
        let room = style.width.saturating_sub(ends + width(&figures));
        let longest_check = column("check", &|row| row.check.clone()).fields;
        let longest_check = longest_check.iter().map(|check| length(check)).max();
        let wanted = longest_check.unwrap_or(0).max(length("check"));
        let others_in_columns = width(&others) + wanted.min(CHECK_WIDTH_MIN) <= room;
        let room = if others_in_columns {
            room - width(&others)
        } else {
            room
        };
        if others_in_columns {
            figures.extend(others);
        }
        Self {
            style,
            check_width: wanted.min(room.max(CHECK_WIDTH_MIN)),
            unit_width,
            figures,
            others_in_columns,
        }
    }

    /// Lines over the rows; headings of fewer lines than others stand at the bottom.
    fn heading(&self) -> Vec<String> {
        let count = self.figures.iter().map(|each| each.heading.len()).max();
        let count = count.unwrap_or(1);
        let line = |index: usize| {
            let last = index + 1 == count;
            let (check, unit) = if last { ("check", "unit") } else { ("", "") };
            let words = self.figures.iter().map(|column| {
                let place = (index + column.heading.len()).checked_sub(count);
                let word = place.and_then(|place| column.heading.get(place));
                word.map_or("", String::as_str)
            });
            self.line(check, unit, words).trim_end().to_owned()
        };
        (0..count).map(line).collect()
    }

    fn row(&self, text: &mut String, index: usize, row: &Row) {
        let mut checks = wrap(&row.check, self.check_width).into_iter();
        let fields = self.figures.iter();
        let fields = fields.map(|column| column.fields.get(index).map_or("", String::as_str));
        let line = self.line(&checks.next().unwrap_or_default(), row.unit, fields);
        let code = if row.pass() == Some(false) {
            RED
        } else {
            GREEN
        };
        let line = format!("{line}  {}", self.style.paint(code, verdict(row.pass())));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", line.trim_end());
        for more in checks {
            let _ = writeln!(text, "  {more}");
        }
        if self.others_in_columns {
            return;
        }
        let beside = row.others.iter();
        let beside = beside.map(|(name, figure)| format!("{name} {}", measured(*figure)));
        let beside = beside.collect::<Vec<_>>().join(", ");
        for line in wrap(&beside, self.style.width.saturating_sub(4)) {
            let _ = writeln!(text, "    {}", self.style.paint(DIM, &line));
        }
    }

    fn line<'a>(&self, check: &str, unit: &str, fields: impl Iterator<Item = &'a str>) -> String {
        let (check_width, unit_width) = (self.check_width, self.unit_width);
        let mut line = format!("{check:check_width$}  {unit:unit_width$}");
        for (field, column) in fields.zip(&self.figures) {
            let _ = write!(line, "  {field:>width$}", width = column.width);
        }
        line
    }
}

/// Names of all other methods of a table, in the order of their first appearance.
pub(super) fn other_methods(table: &Table) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in table.rows.iter().flat_map(|row| &row.others) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

/// Another method's figure in a row, or nothing.
pub(super) fn other(row: &Row, name: &str) -> String {
    row.others
        .iter()
        .find(|(other, _)| other == name)
        .map(|(_, figure)| measured(*figure))
        .unwrap_or_default()
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// Lines of at most `width` characters, broken between words; words that are longer stand out.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if length(line) + 1 + length(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
