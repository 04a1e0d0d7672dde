//! Tables in Markdown.

use std::fmt::Display;

/// Columns of other methods, beyond which they are all in one.
const OTHER_COLUMNS_MAX: usize = 6;

/// A table: columns of words (to the left) and of figures (to the right), then rows.
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
    columns: Vec<Column>,
    rows: Vec<Row>,
}

#[derive(Debug, Clone, PartialEq)]
struct Column {
    heading: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Words,
    Figures,
    /// Figures for which there may be no room.
    Others,
}

/// One row: a field for each column.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    fields: Vec<String>,
    kept: Option<bool>,
}

impl Row {
    /// Whether the row's limit is kept, if it has one. A last column shows it.
    pub fn judge(&mut self, kept: Option<bool>) {
        self.kept = kept;
    }
}

impl Table {
    fn columns<S: Into<String>>(
        mut self,
        headings: impl IntoIterator<Item = S>,
        kind: Kind,
    ) -> Self {
        let columns = headings.into_iter().map(|heading| Column {
            heading: heading.into(),
            kind,
        });
        self.columns.extend(columns);
        self
    }

    /// With further columns of words.
    #[must_use]
    pub fn words<S: Into<String>>(self, headings: impl IntoIterator<Item = S>) -> Self {
        self.columns(headings, Kind::Words)
    }

    /// With further columns of figures.
    #[must_use]
    pub fn figures<S: Into<String>>(self, headings: impl IntoIterator<Item = S>) -> Self {
        self.columns(headings, Kind::Figures)
    }

    /// With last columns of figures that are in one column where they are too many.
    #[must_use]
    pub fn others<S: Into<String>>(self, headings: impl IntoIterator<Item = S>) -> Self {
        self.columns(headings, Kind::Others)
    }

    /// Adds a row; `fields` are as many as columns.
    pub fn row(&mut self, fields: &[&dyn Display]) -> &mut Row {
        self.push(fields.iter().map(ToString::to_string).collect())
    }

    /// Adds a row of fields in a vector.
    pub fn push(&mut self, fields: Vec<String>) -> &mut Row {
        debug_assert_eq!(fields.len(), self.columns.len());
        self.rows.push_mut(Row { fields, kept: None })
    }

    fn count_of(&self, kind: Kind) -> usize {
        self.columns
            .iter()
            .filter(|column| column.kind == kind)
            .count()
    }

    /// The table with its other methods in one column, each with its name.
    fn collapsed(&self) -> Self {
        let own = self.columns.len() - self.count_of(Kind::Others);
        let (columns, _) = self.columns.split_at(own);
        let rows = self.rows.iter().map(|row| {
            let mut fields = row.fields.get(..own).unwrap_or_default().to_vec();
            fields.push(self.others_of(row));
            Row {
                fields,
                kept: row.kept,
            }
        });
        Self {
            columns: columns.to_vec(),
            rows: rows.collect(),
        }
        .figures(["others"])
    }

    /// Other methods of a row with their names: `overall mean 14.2, median 9.1`.
    fn others_of(&self, row: &Row) -> String {
        let pairs = self.columns.iter().zip(&row.fields);
        let others =
            pairs.filter(|(column, field)| column.kind == Kind::Others && !field.is_empty());
        let others: Vec<_> = others
            .map(|(column, field)| format!("{} {field}", column.heading))
            .collect();
        others.join(", ")
    }

    /// As GitHub reads it, ending in a line break.
    pub fn markdown(&self) -> String {
        if self.count_of(Kind::Others) > OTHER_COLUMNS_MAX {
            return self.collapsed().markdown();
        }
        let verdict = |kept: Option<bool>| match kept {
            None => "",
            Some(true) => "kept",
            Some(false) => "**missed**",
        };
        let mut kinds: Vec<Kind> = self.columns.iter().map(|column| column.kind).collect();
        let headings = self.columns.iter().map(|column| escaped(&column.heading));
        let mut lines: Vec<Vec<String>> = vec![headings.collect()];
        let rows = self.rows.iter();
        lines.extend(rows.map(|row| row.fields.iter().map(|field| escaped(field)).collect()));
        if self.rows.iter().any(|row| row.kept.is_some()) {
            kinds.push(Kind::Words);
            let verdicts = self.rows.iter().map(|row| verdict(row.kept));
            for (line, verdict) in lines.iter_mut().zip(std::iter::once("").chain(verdicts)) {
                line.push(verdict.to_owned());
            }
        }
        let widths = (0..kinds.len()).map(|n| {
            let fields = lines.iter().filter_map(|line| line.get(n));
            fields
                .map(|field| field.chars().count())
                .fold(3, usize::max)
        });
        let columns: Vec<(Kind, usize)> = kinds.iter().copied().zip(widths).collect();
        let rule = columns.iter().map(|&(kind, width)| match kind {
            Kind::Words => "-".repeat(width),
            Kind::Figures | Kind::Others => "-".repeat(width - 1) + ":",
        });
        lines.insert(1, rule.collect());
        lines.iter().map(|line| aligned(line, &columns)).collect()
    }
}

/// A field's text, so that it does not end the field.
fn escaped(field: &str) -> String {
    field.replace('|', "\\|").replace('\n', " ")
}

/// A line with its fields as wide as their columns, which a terminal shows as a table, too.
fn aligned(fields: &[String], columns: &[(Kind, usize)]) -> String {
    let fields = fields.iter().zip(columns);
    let fields = fields.map(|(field, &(kind, width))| match kind {
        Kind::Words => format!(" {field:<width$} |"),
        Kind::Figures | Kind::Others => format!(" {field:>width$} |"),
    });
    format!("|{}\n", fields.collect::<String>())
}

#[cfg(test)]
mod tests;
