//! Output while the switch runs: the live table in a terminal, a plain one elsewhere.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use api::log::Lines;
use clap::ColorChoice;
use console::top::{self, Ended};
use console::view::{self, Look, Page};
use control::published::Published;
use records::answers::FlowQuery;
use records::snapshot::Snapshot;

use crate::options::RunOptions;

/// Interval of a plain table.
const REFRESH: Duration = Duration::from_secs(1);

/// Longest time to wait for earlier log lines.
const LOG_MAX: Duration = Duration::from_secs(1);

/// Longest time until a signal is noticed.
const NAP: Duration = Duration::from_millis(20);

/// Waits until `is_over`, the end of the duration, or the user quits, and shows the requested output meanwhile. A
/// switch that forwards packets of others continues when its terminal is closed.
///
/// # Errors
/// If the terminal or standard output fails.
pub fn attend(
    options: &RunOptions<'_>,
    published: &Arc<Published>,
    is_over: impl Fn() -> bool,
) -> Result<()> {
    let (arguments, log) = (options.arguments, &options.log);
    let end = (arguments.duration).and_then(|duration| Instant::now().checked_add(duration));
    let is_over = || is_over() || end.is_some_and(|end| Instant::now() >= end);
    let mut is_written = arguments.live;
    if arguments.live && io::stdout().is_terminal() && io::stdin().is_terminal() {
        let held = io::stderr().is_terminal().then(|| hold(log));
        let [latest, flows, flow] = [0; 3].map(|_| Arc::clone(published));
        let source = top::InProcess {
            latest: move || latest.read(),
            flows: move |query: &FlowQuery| flows.flows(query),
            flow: move |name| flow.flow(name),
        };
        let ended = top::run(vec![source], is_over).context("cannot show the live table")?;
        drop(held);
        let config = published.read().config.clone();
        if ended == Ended::Left || !config.is_some_and(|config| config.has_devices()) {
            return Ok(());
        }
        // A lost terminal session must not cut other connections.
        tracing::warn!(
            "the terminal of the live table was closed: the switch runs on until SIGTERM"
        );
        is_written = false;
    }
    let mut next_table = Instant::now() + REFRESH;
    while !is_over() {
        thread::sleep(NAP);
        if is_written && Instant::now() >= next_table {
            next_table += REFRESH;
            match write(|page| view::live(page, &published.read())) {
                // The reader closed the pipe (`| head`).
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                written => written.context("cannot write the table")?,
            }
        }
    }
    Ok(())
}

/// Holds the log back until the result is dropped: its lines would be written over the live table, and
/// disappear with it.
fn hold(log: &Lines) -> Sender<()> {
    let (held, released) = channel();
    let (begun, has_begun) = channel();
    log.run(move || {
        // The waiting thread may have given up.
        let _ = begun.send(());
        let _ = released.recv();
    });
    let _ = has_begun.recv_timeout(LOG_MAX);
    held
}

/// Writes the final figures to standard output, unless it is closed.
pub fn summarise(snapshot: &Snapshot) {
    let _ = write(|page| view::summary(page, snapshot));
}

/// Writes a page and an empty line to standard output.
fn write(fill: impl FnOnce(&mut Page)) -> io::Result<()> {
    let mut page = Page::new(Look::of_stdout(false, ColorChoice::Auto));
    fill(&mut page);
    writeln!(io::stdout(), "{}", page.finish())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use api::log::Log;

    /// What was written.
    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_log_waits_while_the_table_has_the_terminal_and_loses_nothing() {
        let paper = Paper::default();
        let log = Log::start(paper.clone(), || ()).unwrap();
        log.lines().write_all(b"before\n").unwrap();
        let held = hold(&log.lines());
        log.lines().write_all(b"during\n").unwrap();
        assert_eq!(*paper.0.lock().unwrap(), b"before\n");
        drop(held);
        drop(log);
        assert_eq!(*paper.0.lock().unwrap(), b"before\nduring\n");
    }
}
