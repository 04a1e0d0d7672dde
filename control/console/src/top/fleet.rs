//! The switches that the live table shows, keys and mouse, and the question before one of them is stopped.

use ratatui::Frame;
use ratatui::crossterm::event::{
    KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::layout::Position;

use super::app::{App, Paused, View};
use super::draw::{self, Spots};

/// Rows that a step of the wheel moves by.
const WHEEL: usize = 3;

/// Effect of a key press on the program.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeyEffect {
    Stay,
    Quit,
}

/// The switches, at least one.
#[derive(Debug)]
pub(super) struct Fleet {
    pub apps: Vec<App>,
    /// Index of the switch that is shown, and selected in the list.
    pub current: usize,
    /// Whether the list is shown.
    pub is_listed: bool,
    /// Whether the user is being asked if the switch should stop.
    pub is_asking: bool,
    /// Whether the table uses the mouse; if not, the terminal selects text with it.
    pub has_mouse: bool,
    /// The last screen.
    spots: Spots,
}

pub(super) fn is_control_c(key: KeyEvent) -> bool {
    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL)
}

impl Fleet {
    pub(super) fn new(apps: Vec<App>) -> Self {
        let is_listed = apps.len() > 1;
        Self {
            apps,
            current: 0,
            is_listed,
            is_asking: false,
            has_mouse: true,
            spots: Spots::default(),
        }
    }

    pub(super) fn draw(&mut self, frame: &mut Frame) {
        self.spots = draw::draw(frame, &self.apps, self.current, self.is_listed);
        let app = &mut self.apps[self.current];
        if let (false, Some(rows)) = (self.is_listed, &self.spots.rows) {
            app.keep_first_row(rows.first);
        }
        if let View::Flow(open) = &mut app.view {
            open.scroll = open.scroll.min(self.spots.scroll_max);
        }
        if self.is_asking {
            draw::question(frame, app);
        }
    }

    pub(super) fn shown(&self) -> &App {
        &self.apps[self.current]
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> KeyEffect {
        if key.kind == KeyEventKind::Release {
            return KeyEffect::Stay;
        }
        if self.is_asking {
            return self.answer(key);
        }
        let effect = self.direct(key);
        if effect == KeyEffect::Quit && self.apps.iter().any(App::is_forwarding_here) {
            self.is_asking = true;
            return KeyEffect::Stay;
        }
        effect
    }

    /// The switch stops after `y` or a second Ctrl-C only; keys that may be pressed in haste keep it running.
    fn answer(&mut self, key: KeyEvent) -> KeyEffect {
        match key.code {
            KeyCode::Char('y' | 'Y') => return KeyEffect::Quit,
            _ if is_control_c(key) => return KeyEffect::Quit,
            KeyCode::Char('n' | 'N' | 'q') | KeyCode::Esc | KeyCode::Enter => {
                self.is_asking = false;
            }
            _ => {}
        }
        KeyEffect::Stay
    }

    /// Keys for the fleet, or else for the switch that is shown.
    fn direct(&mut self, key: KeyEvent) -> KeyEffect {
        let last = self.apps.len() - 1;
        let (before, after) = (self.current.saturating_sub(1), (self.current + 1).min(last));
        let app = &mut self.apps[self.current];
        if app.is_typing || is_control_c(key) {
            return app.press(key);
        }
        match key.code {
            KeyCode::Char('p') => self.pause(),
            KeyCode::Char('m') => self.has_mouse = !self.has_mouse,
            _ if last == 0 => return app.press(key),
            KeyCode::Char('0') => self.is_listed = true,
            KeyCode::Left => self.go(before),
            KeyCode::Right => self.go(after),
            KeyCode::Up | KeyCode::Char('k') if self.is_listed => self.go(before),
            KeyCode::Down | KeyCode::Char('j') if self.is_listed => self.go(after),
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

    /// Pauses or resumes the display of all switches.
    fn pause(&mut self) {
        let paused = self.shown().paused.is_none().then(Paused::now);
        for app in &mut self.apps {
            app.paused = paused;
        }
    }

    /// Shows another switch in the same tab.
    fn go(&mut self, index: usize) {
        let shown = self.shown();
        let (tab, width, filter) = (shown.tab, shown.width, shown.filter.clone());
        let chosen = shown.chosen;
        self.current = index;
        let app = &mut self.apps[index];
        (app.tab, app.width, app.filter, app.chosen) = (tab, width, filter, chosen);
    }

    pub(super) fn point(&mut self, mouse: MouseEvent) {
        if self.is_asking {
            return;
        }
        match mouse.kind {
            MouseEventKind::ScrollUp => self.press_often(KeyCode::Up, WHEEL),
            MouseEventKind::ScrollDown => self.press_often(KeyCode::Down, WHEEL),
            MouseEventKind::Down(MouseButton::Left) => {
                self.click(Position::new(mouse.column, mouse.row));
            }
            _ => {}
        }
    }

    /// Shows a tab, or selects a row; a click on the selected row opens it.
    fn click(&mut self, at: Position) {
        self.apps[self.current].is_typing = false;
        if let Some(key) = self.spots.tab_at(at) {
            return self.press_often(key, 1);
        }
        let Some(rows) = self.spots.rows else {
            return;
        };
        match rows.index_at(at) {
            Some(index) if rows.selected == Some(index) => self.press_often(KeyCode::Enter, 1),
            Some(index) if self.is_listed => self.go(index),
            Some(index) => self.apps[self.current].select_row(index),
            None => {}
        }
    }

    /// Presses a key that does not quit.
    fn press_often(&mut self, code: KeyCode, times: usize) {
        for _ in 0..times {
            self.press(KeyEvent::new(code, KeyModifiers::NONE));
        }
    }
}
