//! The live table: segments, the course of the selected one, and ports, in a terminal.

use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::snapshot::{Segment, Snapshot};
use crate::view::packets_per_s;

mod draw;
mod source;

pub use source::{Remote, SnapshotSource, SourceError};

/// How often a new snapshot is asked for.
const FETCH: Duration = Duration::from_millis(250);

/// How long a key may wait to be seen.
const KEYS: Duration = Duration::from_millis(50);

/// What the chart reaches back.
const HISTORY_S: f64 = 60.0;

/// Why the live table ended.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// Standard output is a file or a pipe.
    #[error("the live table needs a terminal; `vernier segments` prints a table to a file or pipe")]
    NoTerminal,
    /// The terminal failed.
    #[error("the terminal cannot be used")]
    Terminal(#[from] io::Error),
    /// There was not even a first snapshot.
    #[error(transparent)]
    Source(#[from] SourceError),
}

/// Shows what `source` has until the user quits (`q`, Escape, Ctrl-C) or `is_over` says so. The
/// terminal is put back as it was, whatever happens.
///
/// # Errors
/// [`TopError`]. A source that stops answering later is shown, not returned.
pub fn run(mut source: impl SnapshotSource, is_over: impl Fn() -> bool) -> Result<(), TopError> {
    if !io::stdout().is_terminal() {
        return Err(TopError::NoTerminal);
    }
    let app = App::new(source.latest()?);
    let mut terminal = ratatui::try_init()?;
    let outcome = converse(&mut terminal, app, &mut source, is_over);
    ratatui::try_restore()?;
    Ok(outcome?)
}

fn converse(
    terminal: &mut ratatui::DefaultTerminal,
    mut app: App,
    source: &mut impl SnapshotSource,
    is_over: impl Fn() -> bool,
) -> io::Result<()> {
    let mut fetched_at = Instant::now();
    terminal.draw(|frame| draw::draw(frame, &app))?;
    while !is_over() {
        let is_due = fetched_at.elapsed() >= FETCH;
        if is_due {
            app.take(source.latest());
            fetched_at = Instant::now();
        }
        let mut is_changed = is_due;
        if event::poll(KEYS)? {
            is_changed = true;
            if let Event::Key(key) = event::read()?
                && app.press(key) == Answer::Quit
            {
                break;
            }
        }
        if is_changed {
            terminal.draw(|frame| draw::draw(frame, &app))?;
        }
    }
    Ok(())
}

/// What a key press comes to.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Stay,
    Quit,
}

/// By what segments are ordered, greatest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Configuration,
    Packets,
    Lost,
    Mean,
    P99,
}

impl Sort {
    fn next(self) -> Self {
        match self {
            Self::Configuration => Self::Packets,
            Self::Packets => Self::Lost,
            Self::Lost => Self::Mean,
            Self::Mean => Self::P99,
            Self::P99 => Self::Configuration,
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Configuration => "as configured",
            Self::Packets => "by packets/s",
            Self::Lost => "by lost packets",
            Self::Mean => "by mean",
            Self::P99 => "by p99",
        }
    }

    fn key(self, snapshot: &Snapshot, segment: &Segment) -> f64 {
        let stamped = snapshot.fresh(segment).and_then(|last| last.stamped);
        match self {
            Self::Configuration => 0.0,
            Self::Packets => packets_per_s(snapshot, segment),
            Self::Lost => segment.total.counts.dropped_packets as f64,
            Self::Mean => stamped.map_or(-1.0, |stamped| stamped.mean_ns),
            Self::P99 => stamped.map_or(-1.0, |stamped| stamped.p99_ns),
        }
    }
}

/// The mean of one epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Point {
    epoch: u64,
    stamped_ns: f64,
    lda_ns: Option<f64>,
}

/// All that the table shows, and what the user chose.
#[derive(Debug)]
struct App {
    snapshot: Arc<Snapshot>,
    /// Why the snapshot is not the latest.
    trouble: Option<String>,
    sort: Sort,
    /// Index of a segment in the snapshot.
    selected: usize,
    /// For each segment its means of the last minute.
    history: Vec<VecDeque<Point>>,
}

impl App {
    fn new(snapshot: Arc<Snapshot>) -> Self {
        let mut app = Self {
            snapshot: Arc::default(),
            trouble: None,
            sort: Sort::Configuration,
            selected: 0,
            history: Vec::new(),
        };
        app.take(Ok(snapshot));
        app
    }

    fn take(&mut self, latest: Result<Arc<Snapshot>, SourceError>) {
        match latest {
            Ok(snapshot) => {
                let is_another = snapshot.segments.len() != self.history.len()
                    || snapshot.uptime_s < self.snapshot.uptime_s;
                if is_another {
                    self.history = vec![VecDeque::new(); snapshot.segments.len()];
                    self.selected = 0;
                }
                self.snapshot = snapshot;
                self.trouble = None;
                self.remember();
            }
            Err(error) => self.trouble = Some(error.to_string()),
        }
    }

    fn remember(&mut self) {
        let epochs = (HISTORY_S * 1e3 / f64::from(self.snapshot.interval_ms.max(1))).ceil();
        let newest = self.snapshot.epoch.unwrap_or(0);
        for (points, segment) in self.history.iter_mut().zip(&self.snapshot.segments) {
            while points
                .front()
                .is_some_and(|point| newest.saturating_sub(point.epoch) as f64 > epochs)
            {
                points.pop_front();
            }
            let Some(last) = &segment.last else { continue };
            let is_new = points.back().is_none_or(|point| point.epoch < last.epoch);
            if let Some(stamped) = last.stamped.filter(|_| is_new) {
                let lda_ns = last.lda.map(|lda| lda.mean_ns);
                points.push_back(Point {
                    epoch: last.epoch,
                    stamped_ns: stamped.mean_ns,
                    lda_ns,
                });
            }
        }
    }

    /// Indices of the segments in the order in which they are shown.
    fn order(&self) -> Vec<usize> {
        let segments = &self.snapshot.segments;
        let mut order: Vec<usize> = (0..segments.len()).collect();
        let key = |index: usize| self.sort.key(&self.snapshot, &segments[index]);
        order.sort_by(|&a, &b| key(b).total_cmp(&key(a)));
        order
    }

    fn press(&mut self, key: KeyEvent) -> Answer {
        if key.kind == KeyEventKind::Release {
            return Answer::Stay;
        }
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return Answer::Quit;
            }
            KeyCode::Char('q') | KeyCode::Esc => return Answer::Quit,
            KeyCode::Up | KeyCode::Char('k') => self.step(|place| place.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.step(|place| place + 1),
            KeyCode::Home => self.step(|_| 0),
            KeyCode::End => self.step(|_| usize::MAX),
            KeyCode::Char('s') => self.sort = self.sort.next(),
            _ => {}
        }
        Answer::Stay
    }

    /// Moves the selection within the order shown.
    fn step(&mut self, to: impl Fn(usize) -> usize) {
        let order = self.order();
        let place = order
            .iter()
            .position(|&index| index == self.selected)
            .unwrap_or(0);
        let last = order.len().saturating_sub(1);
        self.selected = order.get(to(place).min(last)).copied().unwrap_or(0);
    }
}

#[cfg(test)]
mod tests;
