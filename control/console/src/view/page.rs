//! Text and tables, laid out for a terminal, a file or a pipe.

use std::env;
use std::fmt::{self, Write};
use std::io::{self, IsTerminal};
use std::iter;

use clap::ColorChoice;
use clap::builder::styling::{AnsiColor, Style};
use contract::text::is_shown;
use ratatui::text::Span;

/// Columns of a terminal that does not tell its size.
const COLUMNS: usize = 80;
/// Blanks between two columns of a table.
const SPACING: usize = 2;
/// Least width to which a column is shortened.
const NARROWEST: usize = 12;
/// A sentence continues under its first word if the word before it and the blanks between them are no longer than this.
const HANGING_MAX: usize = 16;

const HEADING: Style = Style::new().bold();
const BAD: Style = AnsiColor::Red.on_default();
const ESTIMATE: Style = AnsiColor::Yellow.on_default();

/// How pages look.
#[derive(Debug, Clone, Copy, Default)]
pub struct Look {
    /// The width to fit into; `None` for a pipe or a file, where nothing is shortened.
    pub columns: Option<usize>,
    /// Whether tables show all their columns.
    pub is_wide: bool,
    /// Whether losses and estimates are coloured.
    pub is_coloured: bool,
}

impl Look {
    /// Look for standard output. A wide page is not fitted into the terminal.
    pub fn of_stdout(is_wide: bool, color: ColorChoice) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            columns: (is_terminal && !is_wide).then(terminal_columns),
            is_wide,
            is_coloured: match color {
                ColorChoice::Auto => is_terminal && !is_dumb && !is_set("NO_COLOR"),
                ColorChoice::Always => true,
                ColorChoice::Never => false,
            },
        }
    }
}

fn terminal_columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stdout());
    match size.map(|size| usize::from(size.ws_col)) {
        Ok(columns) if columns > 0 => columns,
        _ => COLUMNS,
    }
}

/// The columns of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table {
    /// Their headings, with `|` between them.
    pub headings: &'static str,
    /// Columns that only a wide page shows.
    pub wide: &'static [&'static str],
    /// Columns to leave out, in this order, if the width is not enough.
    pub expendable: &'static [&'static str],
}

impl Table {
    /// A table that shows all its columns as long as they fit.
    pub(crate) const fn new(headings: &'static str, expendable: &'static [&'static str]) -> Self {
        Self {
            headings,
            wide: &[],
            expendable,
        }
    }
}

/// Text and tables. Control characters are removed from everything written to it.
#[derive(Debug)]
pub struct Page {
    look: Look,
    text: String,
    /// Start of the text that has not been broken into lines yet.
    unbroken: usize,
}

impl Write for Page {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.say(text);
        Ok(())
    }
}

impl Page {
    /// An empty page.
    pub fn new(look: Look) -> Self {
        Self {
            look,
            text: String::new(),
            unbroken: 0,
        }
    }

    /// Returns the output of `write` on a page without colours and limits.
    pub fn plain(is_wide: bool, write: impl FnOnce(&mut Self)) -> String {
        let look = Look {
            is_wide,
            ..Look::default()
        };
        let mut page = Self::new(look);
        write(&mut page);
        page.finish()
    }

    /// Whether tables show all their columns.
    pub(crate) fn is_wide(&self) -> bool {
        self.look.is_wide
    }

    /// Appends text.
    pub fn say(&mut self, text: &str) {
        let is_kept = |c: &char| *c == '\n' || is_shown(*c);
        self.text.extend(text.chars().filter(is_kept));
    }

    /// Appends an aligned table: the first column to the left, a text in the last one, too, numbers to the right.
    pub(crate) fn table<const N: usize>(
        &mut self,
        table: &Table,
        rows: impl IntoIterator<Item = [String; N]>,
    ) {
        self.indented_table(0, table, rows);
    }

    /// Appends a table whose lines are indented by this number of blanks.
    pub(crate) fn indented_table<const N: usize>(
        &mut self,
        indent: usize,
        table: &Table,
        rows: impl IntoIterator<Item = [String; N]>,
    ) {
        self.break_lines();
        let headings: [&str; N] = columns(table.headings);
        let clean = |cell: String| cell.chars().filter(|&c| is_shown(c)).collect();
        let mut lines = vec![headings.map(str::to_owned)];
        lines.extend(rows.into_iter().map(|row| row.map(clean)));
        let mut widths: [usize; N] = std::array::from_fn(|column| {
            let is_left_out = !self.look.is_wide && table.wide.contains(&headings[column]);
            let cells = lines.iter().filter(|_| !is_left_out);
            cells.map(|line| width(&line[column])).max().unwrap_or(0)
        });
        if let Some(room) = self.look.columns {
            let room = room.saturating_sub(indent);
            widths = fit(&headings, widths, room, table.expendable);
        }
        for (number, line) in lines.iter().enumerate() {
            self.row(indent, &headings, &widths, line, number == 0);
        }
        self.unbroken = self.text.len();
    }

    fn row<const N: usize>(
        &mut self,
        indent: usize,
        headings: &[&str; N],
        widths: &[usize; N],
        cells: &[String; N],
        is_heading: bool,
    ) {
        // Written before the next cell only, so that no line ends with blanks.
        let mut blanks = indent;
        for (column, cell) in cells.iter().enumerate().filter(|(n, _)| widths[*n] > 0) {
            let (room, is_last) = (widths[column], column == N - 1);
            let cell = shortened(cell, room, is_last);
            let rest = room - width(&cell);
            let is_text = is_last && cell.contains(' ') && room > 16;
            let is_left = column == 0 || is_text;
            blanks += if is_left { 0 } else { rest };
            if !cell.is_empty() {
                self.text.push_str(&" ".repeat(blanks));
                blanks = 0;
                let style = if is_heading {
                    HEADING
                } else {
                    tint(headings[column], &cell)
                };
                self.styled(style, &cell);
            }
            blanks += SPACING + if is_left { rest } else { 0 };
        }
        self.text.push('\n');
    }

    fn styled(&mut self, style: Style, text: &str) {
        if self.look.is_coloured && !style.is_plain() {
            let _ = write!(self.text, "{style}{text}{style:#}");
        } else {
            self.text.push_str(text);
        }
    }

    /// The page as text.
    pub fn finish(mut self) -> String {
        self.break_lines();
        self.text
    }

    /// Breaks long sentences between words. Rows of tables fit already, and stay on one line.
    fn break_lines(&mut self) {
        let Some(columns) = self.look.columns else {
            return;
        };
        let text = self.text.split_off(self.unbroken);
        for line in text.lines() {
            let indent = " ".repeat(hanging(line).min(columns / 2));
            let options = textwrap::Options::new(columns)
                .subsequent_indent(&indent)
                .word_splitter(textwrap::WordSplitter::NoHyphenation);
            for line in textwrap::wrap(line, options) {
                self.text.push_str(&line);
                self.text.push('\n');
            }
        }
        self.unbroken = self.text.len();
    }
}

/// Indentation of the continuation of a line: below its second column, or slightly to the right of its start.
fn hanging(line: &str) -> usize {
    let begin = line.len() - line.trim_start().len();
    let second = line[begin..].find("  ").map(|gap| {
        let rest = &line[begin + gap..];
        begin + gap + rest.len() - rest.trim_start().len()
    });
    let second = second.filter(|&second| second <= begin + HANGING_MAX);
    second.unwrap_or(begin + 2)
}

/// Losses in red, estimates in yellow, as in the live table.
fn tint(heading: &str, cell: &str) -> Style {
    let is_some = cell.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    match heading {
        "lost" | "loss" | "lost at most" | "lost in all" | "dropped" | "silent" if is_some => BAD,
        "port" if cell.ends_with(')') => BAD,
        "LDA mean" | "+-98%" | "estimate" => ESTIMATE,
        _ if cell.contains("+-") => ESTIMATE,
        _ => Style::new(),
    }
}

/// Columns of the terminal that a text takes: characters are none to two wide.
pub(crate) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// The headings of columns, as a line with `|` between them spells them.
pub(crate) fn columns<const N: usize>(headings: &str) -> [&str; N] {
    debug_assert_eq!(headings.split('|').count(), N, "{headings}");
    let mut headings = headings.split('|').map(str::trim);
    std::array::from_fn(|_| headings.next().unwrap_or_default())
}

/// Fits columns of these widths into `room`; 0 is the width of a column that is not shown.
///
/// Columns are left out in the order of `expendable`, those of one entry, with `, ` between them, together. For this a
/// column counts with at most two fifths of the room, so that one long name does not remove all other columns. Finally
/// the widest columns are shortened.
pub(crate) fn fit<const N: usize>(
    headings: &[&str; N],
    mut widths: [usize; N],
    room: usize,
    expendable: &[&str],
) -> [usize; N] {
    let name_max = (room * 2 / 5).max(NARROWEST);
    let total = |widths: &[usize; N], most: usize| {
        let shown = widths.iter().filter(|&&width| width > 0);
        let sum: usize = shown.map(|&width| width.min(most) + SPACING).sum();
        sum.saturating_sub(SPACING)
    };
    for names in expendable {
        if total(&widths, name_max) <= room {
            break;
        }
        for (heading, width) in iter::zip(headings, &mut widths) {
            if names.split(", ").any(|name| name == *heading) {
                *width = 0;
            }
        }
    }
    while total(&widths, usize::MAX) > room {
        match widths.iter_mut().max() {
            Some(widest) if *widest > NARROWEST => *widest -= 1,
            _ => break,
        }
    }
    widths
}

/// A text that takes at most `room` columns: without its middle, or without its end.
pub(crate) fn shortened(text: &str, room: usize, is_end_cut: bool) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let room = room.saturating_sub(1);
    let tail = if is_end_cut { 0 } else { room / 2 };
    let start: String = taken(text.chars(), room - tail);
    let end: String = taken(text.chars().rev(), tail);
    let end: String = end.chars().rev().collect();
    format!("{start}\u{2026}{end}")
}

/// The first characters that take no more than `room` columns.
fn taken(characters: impl Iterator<Item = char>, room: usize) -> String {
    let mut used = 0;
    let fits = |c: &char| {
        used += width(c.encode_utf8(&mut [0; 4]));
        used <= room
    };
    characters.take_while(fits).collect()
}
