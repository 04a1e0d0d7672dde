//! Tables in Markdown.

use std::fmt::Display;

/// A table: columns of words (left-aligned) and of figures (right-aligned), then rows.
///
/// ```
/// use reporting::Table;
///
/// let mut table = Table::default().words(["path"]).figures(["epochs", "loss, %"]);
/// table.row(&[&"veth", &100, &0.5]);
/// assert_eq!(
///     table.markdown(),
///     "| path | epochs | loss, % |\n| ---- | -----: | ------: |\n| veth |    100 |     0.5 |\n"
/// );
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// Columns with their headings, and whether they have figures.
    columns: Vec<(String, bool)>,
    rows: Vec<Row>,
}

/// One row: a field for each column.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    fields: Vec<String>,
    kept: Option<bool>,
}

impl Row {
    /// Whether the row's limit is kept, if it has one, for the last column.
    pub fn judge(&mut self, kept: Option<bool>) {
        self.kept = kept;
    }
}

impl Table {
    fn columns<S: Into<String>>(
        mut self,
        headings: impl IntoIterator<Item = S>,
        are_figures: bool,
    ) -> Self {
        let headings = headings.into_iter();
        let columns = headings.map(|heading| (heading.into(), are_figures));
        self.columns.extend(columns);
        self
    }

    /// Adds columns of words.
    #[must_use]
    pub fn words<S: Into<String>>(self, headings: impl IntoIterator<Item = S>) -> Self {
        self.columns(headings, false)
    }

    /// Adds columns of figures.
    #[must_use]
    pub fn figures<S: Into<String>>(self, headings: impl IntoIterator<Item = S>) -> Self {
        self.columns(headings, true)
    }

    /// Adds a row with a field for each column.
    pub fn row(&mut self, fields: &[&dyn Display]) -> &mut Row {
        self.push(fields.iter().map(ToString::to_string).collect())
    }

    /// Adds a row of fields in a vector.
    pub fn push(&mut self, fields: Vec<String>) -> &mut Row {
        debug_assert_eq!(fields.len(), self.columns.len());
        self.rows.push_mut(Row { fields, kept: None })
    }

    /// The table in GitHub's Markdown, ending in a line break.
    pub fn markdown(&self) -> String {
        let escape = |field: &String| field.replace('|', "\\|").replace('\n', " ");
        let headings = self.columns.iter().map(|(heading, _)| escape(heading));
        let mut lines: Vec<Vec<String>> = vec![headings.collect()];
        let rows = self.rows.iter();
        lines.extend(rows.map(|row| row.fields.iter().map(escape).collect()));
        let mut are_figures: Vec<bool> = self.columns.iter().map(|(_, is)| *is).collect();
        if self.rows.iter().any(|row| row.kept.is_some()) {
            are_figures.push(false);
            let verdicts = self.rows.iter().map(|row| match row.kept {
                None => "",
                Some(true) => "kept",
                Some(false) => "**missed**",
            });
            for (line, verdict) in lines.iter_mut().zip(std::iter::once("").chain(verdicts)) {
                line.push(verdict.to_owned());
            }
        }
        let columns = are_figures.iter().enumerate().map(|(n, &is_figure)| {
            let widths = lines.iter().map(|line| line[n].chars().count());
            (is_figure, widths.fold(3, usize::max))
        });
        let columns: Vec<(bool, usize)> = columns.collect();
        let rule = columns.iter().map(|&(is_figure, width)| {
            let end = if is_figure { ":" } else { "-" };
            "-".repeat(width - 1) + end
        });
        lines.insert(1, rule.collect());
        lines.iter().map(|line| aligned(line, &columns)).collect()
    }
}

/// A line with fields padded to the width of their columns, so that it is also a table in a terminal.
fn aligned(fields: &[String], columns: &[(bool, usize)]) -> String {
    let fields = fields.iter().zip(columns);
    let fields = fields.map(|(field, &(is_figure, width))| {
        if is_figure {
            format!(" {field:>width$} |")
        } else {
            format!(" {field:<width$} |")
        }
    });
    format!("|{}\n", fields.collect::<String>())
}

#[cfg(test)]
mod tests;
