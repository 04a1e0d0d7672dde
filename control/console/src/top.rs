//! The live table of one switch or several, in a terminal: segments, flows, all figures of one flow, classes, ports and
//! wires, each with a chart of the selected row.
//!
//! ```text
//!  keys, mouse -> Fleet -> App -> draw      this thread: never waits for a switch
//!                   |  ^    \-- Memory     of what the switch keeps no history of
//!           Request v  | Update             of each switch, one at a time
//!                  Feed -> SnapshotSource   a thread that asks: in this process, or over HTTP
//! ```

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{
    self, DisableMouseCapture, EnableMouseCapture, Event, MouseEventKind,
};
use ratatui::crossterm::execute;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::client::ClientError;

mod app;
mod choice;
mod draw;
mod drops;
mod fleet;
mod memory;
mod source;

use app::App;
use choice::Tab;
use fleet::{Fleet, KeyEffect};
use source::{Feed, Request};

pub use source::{InProcess, SnapshotSource};

/// How often the switch on the screen is queried.
const FETCH: Duration = Duration::from_millis(250);

/// How often other switches are queried, and a single flow, which may have to be decoded.
const FETCH_OTHERS: Duration = Duration::from_secs(1);

/// Longest time until a key is handled.
const KEYS: Duration = Duration::from_millis(50);

/// Longest time between two redraws, because the screen shows for how long a switch has been silent.
const REDRAW: Duration = Duration::from_secs(1);

/// Why the live table ended.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// Standard output is a file or a pipe.
    #[error("the live table needs a terminal; `vernier segments` prints a table to a file or pipe")]
    NoTerminal,
    /// The terminal failed, or the system could not start a thread.
    #[error("the terminal cannot be used: {0}")]
    Terminal(#[from] io::Error),
    /// There was no first snapshot.
    #[error(transparent)]
    Source(#[from] ClientError),
}

/// How the live table ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The user quit, or the time was over.
    Left,
    /// The terminal was closed.
    TerminalClosed,
}

/// Shows the data of these sources until the user quits (`q`, Ctrl-C), the terminal is closed, or `is_over` is true. If a
/// switch of this process forwards packets, the user is asked before quitting. The terminal is always restored.
///
/// # Errors
/// [`TopError`]. A source that stops answering later is shown, not returned; of several sources also one that never
/// answered.
pub fn run(
    sources: Vec<impl SnapshotSource + Send + 'static>,
    is_over: impl Fn() -> bool,
) -> Result<Ended, TopError> {
    if !io::stdout().is_terminal() {
        return Err(TopError::NoTerminal);
    }
    let is_only = sources.len() == 1;
    let (mut apps, mut feeds) = (Vec::new(), Vec::new());
    for mut source in sources {
        let snapshot = if is_only {
            source.latest()?
        } else {
            Arc::default()
        };
        apps.push(App::new(source.address(), snapshot));
        feeds.push(Feed::start(source)?);
    }
    let keyboard = keyboard()?;
    let mut terminal = ratatui::try_init()?;
    let ended = interact(&mut terminal, &keyboard, Fleet::new(apps), feeds, is_over);
    let restored = ratatui::try_restore();
    // A closed terminal may be noticed by a failure first, and cannot be restored.
    match ended {
        Ok(Ended::Left) => restored?,
        Err(error) if wait_for_key(&keyboard)? => return Err(error.into()),
        Ok(Ended::TerminalClosed) | Err(_) => return Ok(Ended::TerminalClosed),
    }
    Ok(Ended::Left)
}

/// Returns the live table of `source` on a screen of this size as text, by tab.
///
/// # Errors
/// [`TopError`] when the source does not answer.
pub fn screens(
    source: &mut impl SnapshotSource,
    columns: u16,
    rows: u16,
) -> Result<Vec<(&'static str, String)>, TopError> {
    let mut fleet = Fleet::new(vec![App::new(source.address(), source.latest()?)]);
    let mut screens = Vec::new();
    for tab in Tab::ALL {
        let app = &mut fleet.apps[0];
        app.tab = tab;
        app.take(Ok(source::fetch(source, app.request())?));
        let Ok(mut terminal) = Terminal::new(TestBackend::new(columns, rows));
        let Ok(_) = terminal.draw(|frame| fleet.draw(frame));
        screens.push((tab.label(), terminal.backend().to_string()));
    }
    Ok(screens)
}

/// The file descriptor from which crossterm reads keys.
fn keyboard() -> io::Result<OwnedFd> {
    if io::stdin().is_terminal() {
        return io::stdin().as_fd().try_clone_to_owned();
    }
    Ok(File::open("/dev/tty")?.into())
}

/// Waits for a key for [`KEYS`]; `false` when the terminal is closed. crossterm would read a closed one for ever.
fn wait_for_key(keyboard: &OwnedFd) -> io::Result<bool> {
    let wait = Timespec::try_from(KEYS).map_err(io::Error::other)?;
    let mut polled = [PollFd::new(keyboard, PollFlags::IN)];
    match poll(&mut polled, Some(&wait)) {
        // A signal, such as that of a changed size.
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let closed = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    Ok(polled
        .iter()
        .all(|polled| !polled.revents().intersects(closed)))
}

fn interact(
    terminal: &mut ratatui::DefaultTerminal,
    keyboard: &OwnedFd,
    mut fleet: Fleet,
    mut feeds: Vec<Feed>,
    is_over: impl Fn() -> bool,
) -> io::Result<Ended> {
    let mut mouse = Mouse { is_captured: false };
    let mut drawn: Option<Instant> = None;
    while !is_over() {
        if drawn.is_none_or(|at| at.elapsed() >= REDRAW) {
            terminal.draw(|frame| fleet.draw(frame))?;
            drawn = Some(Instant::now());
        }
        for (index, feed) in feeds.iter_mut().enumerate() {
            let is_shown = index == fleet.current && !fleet.is_listed;
            let (request, often) = match is_shown.then(|| fleet.shown().request()) {
                None => (Request::default(), FETCH_OTHERS),
                Some(request) if request.flow.is_some() => (request, FETCH_OTHERS),
                Some(request) => (request, FETCH),
            };
            feed.ask(request, often);
        }
        mouse.capture(fleet.has_mouse)?;
        if !wait_for_key(keyboard)? {
            return Ok(Ended::TerminalClosed);
        }
        // Handle all events that were read at once: a burst of keys, or a paste.
        while event::poll(Duration::ZERO)? {
            let event = event::read()?;
            if matches!(&event, Event::Mouse(mouse) if mouse.kind == MouseEventKind::Moved) {
                continue;
            }
            drawn = None;
            match event {
                Event::Key(key) if fleet.press(key) == KeyEffect::Quit => return Ok(Ended::Left),
                Event::Mouse(mouse) => fleet.point(mouse),
                _ => {}
            }
        }
        for (index, feed) in feeds.iter_mut().enumerate() {
            if let Some(update) = feed.take() {
                drawn = None;
                fleet.apps[index].take(update);
            }
        }
    }
    Ok(Ended::Left)
}

/// Whether the terminal reports the mouse. It no longer does once this is dropped.
struct Mouse {
    is_captured: bool,
}

impl Mouse {
    fn capture(&mut self, is_captured: bool) -> io::Result<()> {
        if self.is_captured == is_captured {
            return Ok(());
        }
        self.is_captured = is_captured;
        if is_captured {
            execute!(io::stdout(), EnableMouseCapture)
        } else {
            execute!(io::stdout(), DisableMouseCapture)
        }
    }
}

impl Drop for Mouse {
    fn drop(&mut self) {
        let _ = self.capture(false);
    }
}

#[cfg(test)]
mod tests;
