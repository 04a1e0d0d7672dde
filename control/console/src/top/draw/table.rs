//! Tables with columns of minimal width; if the table does not fit, whole columns are left out.

use ratatui::layout::{Constraint, Rect};
use ratatui::style::Style;
use ratatui::text::Text;
use ratatui::widgets::{Cell, Row, Table};

use super::DIM;
use crate::view::{columns, fit, shortened};

/// Columns between two others.
const SPACING: u16 = 2;

/// A table, column by column. A row has its cells, and `S` gives each its style by its column's heading.
pub(super) struct Columns<S, const N: usize> {
    headings: [&'static str; N],
    rows: Vec<([String; N], S)>,
    /// 0 is the width of a column that is not shown.
    widths: [usize; N],
    /// Columns that rows are ordered by, and the arrow that says which way.
    sorted: (&'static [&'static str], &'static str),
}

impl<S: Fn(&str) -> Style, const N: usize> Columns<S, N> {
    pub(super) fn new(headings: &'static str, rows: Vec<([String; N], S)>) -> Self {
        let headings: [&str; N] = columns(headings);
        let widths = std::array::from_fn(|column| {
            let cells = rows.iter().map(|(row, _)| row[column].chars().count());
            cells.max().unwrap_or(0).max(headings[column].len())
        });
        Self {
            headings,
            rows,
            widths,
            sorted: (&[], ""),
        }
    }

    /// Marks the columns that rows are ordered by, the greatest or the least first.
    pub(super) fn sorted_by(
        mut self,
        headings: &'static [&'static str],
        is_reversed: bool,
    ) -> Self {
        self.sorted = (headings, if is_reversed { "\u{25b2}" } else { "\u{25bc}" });
        for column in 0..N {
            let heading = self.heading(column).chars().count();
            self.widths[column] = self.widths[column].max(heading);
        }
        self
    }

    fn heading(&self, column: usize) -> String {
        let (sorted, arrow) = self.sorted;
        let heading = self.headings[column];
        let arrow = if sorted.contains(&heading) { arrow } else { "" };
        format!("{heading}{arrow}")
    }

    /// Leaves out columns, in the order given, and shortens the widest until the rest fits into a framed area; the columns of
    /// one entry, with `, ` between them, go together.
    pub(super) fn fit(mut self, area: Rect, expendable: &[&str]) -> Self {
        let room = usize::from(area.width.saturating_sub(2));
        self.widths = fit(&self.headings, self.widths, room, expendable);
        self
    }

    fn shown(&self) -> impl Iterator<Item = usize> {
        (0..N).filter(|&column| self.widths[column] > 0)
    }

    /// The first column to the left, the others to the right.
    pub(super) fn widget(&self) -> Table<'static> {
        let aligned = |column: usize, text: String| {
            let text = Text::from(text);
            Cell::from(if column == 0 {
                text
            } else {
                text.right_aligned()
            })
        };
        let heading = |column: usize| aligned(column, self.heading(column));
        let rows = self.rows.iter().map(|(texts, styles)| {
            let cell = |column: usize| {
                let text = shortened(&texts[column], self.widths[column], false);
                aligned(column, text).style(styles(self.headings[column]))
            };
            Row::new(self.shown().map(cell))
        });
        let widths = self.shown().map(|column| {
            Constraint::Length(u16::try_from(self.widths[column]).unwrap_or(u16::MAX))
        });
        Table::new(rows, widths)
            .header(Row::new(self.shown().map(heading)).style(DIM))
            .column_spacing(SPACING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Columns<fn(&str) -> Style, 3> {
        let row = [
            "east>west".to_owned(),
            "12".to_owned(),
            "7.40 us".to_owned(),
        ];
        Columns::new("segment | lost | mean", vec![(row, |_| Style::new())])
    }

    #[test]
    fn columns_go_in_their_order_until_the_rest_fits() {
        for (width, shown) in [
            (26, [true, true, true]),
            (25, [true, false, true]),
            (19, [true, false, false]),
            (3, [true, false, false]),
        ] {
            let area = Rect::new(0, 0, width, 9);
            let columns = columns().fit(area, &["lost", "mean"]);
            assert_eq!(columns.widths.map(|width| width > 0), shown, "{width}");
        }
        let columns = columns().fit(Rect::new(0, 0, 25, 9), &["lost, mean"]);
        assert_eq!(columns.widths, [9, 0, 0]);
    }

    #[test]
    fn the_column_that_rows_are_ordered_by_has_room_for_its_arrow() {
        let columns = columns().sorted_by(&["lost"], true);
        assert_eq!(columns.heading(1), "lost\u{25b2}");
        assert_eq!((columns.widths[0], columns.widths[1]), (9, 5));
    }
}
