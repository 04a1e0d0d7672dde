//! Several switches in one live table: one is shown, or the list of all.

use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind};

use super::app::{App, KeyEffect};
use super::draw;

/// The switches, at least one.
#[derive(Debug)]
pub(super) struct Fleet {
    apps: Vec<App>,
    /// Index of the one that is shown, and selected in the list.
    current: usize,
    /// Whether the list is shown.
    pub is_listed: bool,
}

impl Fleet {
    pub(super) fn new(apps: Vec<App>) -> Self {
        let is_listed = apps.len() > 1;
        Self {
            apps,
            current: 0,
            is_listed,
        }
    }

    pub(super) fn draw(&self, frame: &mut Frame) {
        draw::draw(frame, &self.apps, self.current, self.is_listed);
    }

    pub(super) fn app(&mut self, index: usize) -> &mut App {
        &mut self.apps[index]
    }

    pub(super) fn current(&self) -> usize {
        self.current
    }

    pub(super) fn shown(&self) -> &App {
        &self.apps[self.current]
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> KeyEffect {
        if key.kind == KeyEventKind::Release {
            return KeyEffect::Stay;
        }
        let last = self.apps.len() - 1;
        let app = &mut self.apps[self.current];
        if app.is_typing || last == 0 {
            return app.press(key);
        }
        match key.code {
            KeyCode::Char('0') => self.is_listed = true,
            KeyCode::Left => self.go(self.current.saturating_sub(1)),
            KeyCode::Right => self.go((self.current + 1).min(last)),
            KeyCode::Up | KeyCode::Char('k') if self.is_listed => {
                self.go(self.current.saturating_sub(1));
            }
            KeyCode::Down | KeyCode::Char('j') if self.is_listed => {
                self.go((self.current + 1).min(last));
            }
            KeyCode::Home | KeyCode::Char('g') if self.is_listed => self.go(0),
            KeyCode::End | KeyCode::Char('G') if self.is_listed => self.go(last),
            KeyCode::Enter if self.is_listed => self.is_listed = false,
            KeyCode::Esc if !self.is_listed && app.is_at_top() => self.is_listed = true,
            code => {
                self.is_listed &= !matches!(code, KeyCode::Char('1'..='5' | '/' | '?'));
                return app.press(key);
            }
        }
        KeyEffect::Stay
    }

    /// Shows another switch, by the same tab.
    fn go(&mut self, index: usize) {
        let App {
            tab, width, filter, ..
        } = self.shown();
        let (tab, width, filter) = (*tab, *width, filter.clone());
        self.current = index;
        let app = self.app(index);
        (app.tab, app.width, app.filter) = (tab, width, filter);
    }
}
