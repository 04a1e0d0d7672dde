//! The live table: segments with the course of the selected one, flows, and classes, in a terminal.
//!
//! ```text
//!  keys -> App -> draw                      this thread: never waits for a switch
//!           |  ^
//!   Request v  | Update                     one at a time
//!          Feed -> SnapshotSource           a thread that asks: in this process, or over HTTP
//! ```

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event};

use crate::client::ClientError;

mod app;
mod classes;
mod draw;
mod feed;
mod source;

use app::{App, KeyEffect, Tab};
use feed::Feed;

pub use source::{InProcess, SnapshotSource};

/// How often the switch is asked.
const FETCH: Duration = Duration::from_millis(250);

/// How long a key may wait to be seen.
const KEYS: Duration = Duration::from_millis(50);

/// Why the live table ended.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// Standard output is a file or a pipe.
    #[error("the live table needs a terminal; `vernier segments` prints a table to a file or pipe")]
    NoTerminal,
    /// The terminal failed, or the system gives no thread.
    #[error("the terminal cannot be used: {0}")]
    Terminal(#[from] io::Error),
    /// There was no first snapshot.
    #[error(transparent)]
    Source(#[from] ClientError),
}

/// Shows the data of `source` until the user quits (`q`, Escape, Ctrl-C) or `is_over` is true. The
/// terminal is always restored.
///
/// # Errors
/// [`TopError`]. A source that stops answering later is shown, not returned.
pub fn run(
    mut source: impl SnapshotSource + Send + 'static,
    is_over: impl Fn() -> bool,
) -> Result<(), TopError> {
    if !io::stdout().is_terminal() {
        return Err(TopError::NoTerminal);
    }
    let app = App::new(source.latest()?);
    let feed = Feed::start(source)?;
    let mut terminal = ratatui::try_init()?;
    let outcome = interact(&mut terminal, app, feed, is_over);
    ratatui::try_restore()?;
    Ok(outcome?)
}

/// What the live table shows of `source` on a screen of this size, by tab, as text.
///
/// # Errors
/// [`TopError`] when the source does not answer.
pub fn screens(
    source: &mut impl SnapshotSource,
    columns: u16,
    rows: u16,
) -> Result<Vec<(&'static str, String)>, TopError> {
    let mut app = App::new(source.latest()?);
    let mut screens = Vec::new();
    for tab in Tab::ALL {
        app.tab = tab;
        app.take(Ok(feed::fetch(source, app.request())?));
        let Ok(mut terminal) = Terminal::new(TestBackend::new(columns, rows));
        let Ok(_) = terminal.draw(|frame| draw::draw(frame, &app));
        screens.push((tab.label(), terminal.backend().to_string()));
    }
    Ok(screens)
}

fn interact(
    terminal: &mut ratatui::DefaultTerminal,
    mut app: App,
    mut feed: Feed,
    is_over: impl Fn() -> bool,
) -> io::Result<()> {
    let mut asked: Option<(Instant, feed::Request)> = None;
    let mut is_changed = true;
    while !is_over() {
        if is_changed {
            terminal.draw(|frame| draw::draw(frame, &app))?;
        }
        let request = app.request();
        let is_due = asked
            .as_ref()
            .is_none_or(|(at, last)| at.elapsed() >= FETCH || *last != request);
        if is_due && feed.ask(&request) {
            asked = Some((Instant::now(), request));
        }
        is_changed = false;
        if event::poll(KEYS)? {
            is_changed = true;
            if let Event::Key(key) = event::read()?
                && app.press(key) == KeyEffect::Quit
            {
                break;
            }
        }
        if let Some(update) = feed.take() {
            is_changed = true;
            app.take(update);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
