//! Tables on a terminal: aligned, wrapped, in colour where that is wanted.

use super::{Kind, Row, Table};

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Characters on a line.
    pub width: usize,
    /// Whether colours are used.
    pub colour: Colour,
}

/// Whether a terminal shows colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// As ANSI terminals have them.
    Ansi,
    /// None.
    None,
}

/// Blanks between columns.
const GAP: usize = 2;
/// The first column is not made narrower than this to make room for other methods.
const FIRST_WIDTH_MIN: usize = 30;
/// Headings are not broken into lines shorter than this.
const HEADING_WIDTH: usize = 6;

const BOLD: &str = "1";
const DIM: &str = "2";
const GREEN: &str = "32";
const RED: &str = "1;31";

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        match self.colour {
            Colour::Ansi if !text.is_empty() => format!("\x1b[{code}m{text}\x1b[0m"),
            _ => text.to_owned(),
        }
    }

    fn paragraph(self, code: &str, indent: usize, text: &str) -> String {
        let lines = wrap(text, self.width.saturating_sub(indent)).into_iter();
        let lines = lines.map(|line| format!("{:indent$}{}\n", "", self.paint(code, &line)));
        lines.collect()
    }
}

impl Table {
    /// A title, what the table is about, the table, and a blank line.
    pub fn text(&self, title: &str, about: &str, style: Style) -> String {
        let layout = Layout::of(self, style);
        let mut text = style.paragraph(BOLD, 0, title) + &style.paragraph(DIM, 0, about);
        let heading = layout.heading().into_iter();
        text.extend(heading.map(|line| style.paint(DIM, &line) + "\n"));
        text.extend(self.rows.iter().map(|row| layout.row(row)));
        text + "\n"
    }
}

/// Widths of columns.
struct Layout<'t> {
    table: &'t Table,
    style: Style,
    /// Of the columns that are shown; others may be left out.
    widths: Vec<usize>,
}

impl<'t> Layout<'t> {
    fn of(table: &'t Table, style: Style) -> Self {
        let field = |column: usize| {
            let fields = table.rows.iter().map(move |row| row.fields.get(column));
            fields.map(|field| field.map_or(0, |field| length(field)))
        };
        let columns = table.columns.iter().enumerate();
        let widths = columns.map(|(index, column)| {
            let longest_word = column.heading.split_whitespace().map(length);
            let least = length(&column.heading).min(HEADING_WIDTH);
            longest_word.chain(field(index)).fold(least, usize::max)
        });
        let mut widths: Vec<_> = widths.collect();
        let wanted = widths.first().copied().unwrap_or(0);
        let verdict = GAP
            + table
                .rows
                .iter()
                .map(|row| verdict(row).len())
                .max()
                .unwrap_or(0);
        let used = |widths: &[usize]| {
            let others = widths.iter().skip(1).map(|width| GAP + width);
            others.sum::<usize>() + verdict
        };
        if wanted.min(FIRST_WIDTH_MIN) + used(&widths) > style.width {
            let others = table.count_of(Kind::Others);
            widths.truncate(widths.len() - others);
        }
        let room = style
            .width
            .saturating_sub(used(&widths))
            .max(FIRST_WIDTH_MIN);
        if let Some(first) = widths.first_mut() {
            *first = wanted.min(room);
        }
        Self {
            table,
            style,
            widths,
        }
    }

    /// Lines over the rows; headings of fewer lines than others are at the bottom.
    fn heading(&self) -> Vec<String> {
        let columns = self.table.columns.iter().zip(&self.widths);
        let headings = columns.map(|(column, &width)| wrap(&column.heading, width));
        let headings: Vec<_> = headings.collect();
        let count = headings.iter().map(Vec::len).max().unwrap_or(0);
        let word = |heading: &'_ Vec<String>, line: usize| {
            let line = (line + heading.len()).checked_sub(count);
            let word = line.and_then(|line| heading.get(line));
            word.cloned().unwrap_or_default()
        };
        let lines = (0..count).map(|line| {
            let words: Vec<_> = headings.iter().map(|heading| word(heading, line)).collect();
            self.line(&words).trim_end().to_owned()
        });
        lines.collect()
    }

    fn row(&self, row: &Row) -> String {
        let first = row.fields.first().map_or("", String::as_str);
        let width = self.widths.first().copied().unwrap_or(0);
        let mut first = wrap(first, width).into_iter();
        let mut fields = row.fields.clone();
        if let Some(field) = fields.first_mut() {
            *field = first.next().unwrap_or_default();
        }
        let code = if row.kept == Some(false) { RED } else { GREEN };
        let verdict = self.style.paint(code, verdict(row));
        let line = format!("{}{:GAP$}{verdict}", self.line(&fields), "");
        let mut text = format!("{}\n", line.trim_end());
        text.extend(first.map(|more| format!("  {more}\n")));
        if self.widths.len() < self.table.columns.len() {
            text += &self.style.paragraph(DIM, 4, &self.table.others_of(row));
        }
        text
    }

    fn line(&self, fields: &[String]) -> String {
        let columns = self.table.columns.iter().zip(&self.widths);
        let fields = columns
            .zip(fields)
            .map(|((column, &width), field)| match column.kind {
                Kind::Words => format!("{field:width$}"),
                Kind::Figures | Kind::Others => format!("{field:>width$}"),
            });
        fields.collect::<Vec<_>>().join("  ")
    }
}

fn verdict(row: &Row) -> &'static str {
    match row.kept {
        None => "",
        Some(true) => "kept",
        Some(false) => "MISSED",
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// Lines of at most `width` characters, broken between words; a longer word has its own line.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
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
