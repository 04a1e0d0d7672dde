//! Effects of clicks on a screen.

use ratatui::crossterm::event::KeyCode;
use ratatui::layout::{Position, Rect};

/// Areas that react to the mouse, and how far the text can be scrolled.
#[derive(Debug, Default)]
pub(in crate::top) struct Spots {
    /// Tabs, and the keys that show them.
    pub tabs: Vec<(Rect, KeyCode)>,
    /// The table that has a selection.
    pub rows: Option<Rows>,
    /// The last line that a text can begin with.
    pub scroll_max: u16,
}

impl Spots {
    /// The key of the tab there.
    pub(in crate::top) fn tab_at(&self, at: Position) -> Option<KeyCode> {
        let mut tabs = self.tabs.iter();
        tabs.find_map(|(area, key)| area.contains(at).then_some(*key))
    }
}

/// The rows of a table on the screen.
#[derive(Debug, Clone, Copy)]
pub(in crate::top) struct Rows {
    pub area: Rect,
    /// Index of the first row on the screen.
    pub first: usize,
    /// How many rows the table has.
    pub count: usize,
    pub selected: Option<usize>,
}

impl Rows {
    /// The row there.
    pub(in crate::top) fn index_at(&self, at: Position) -> Option<usize> {
        let index = self.first + usize::from(at.y.saturating_sub(self.area.y));
        (self.area.contains(at) && index < self.count).then_some(index)
    }
}
