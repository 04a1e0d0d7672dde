//! What a person sees while the switch runs: the live table in a terminal, a plain one elsewhere.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use control::snapshot::{Published, Snapshot};
use control::{top, view};

use crate::wiring::RunOptions;

/// How often a plain table is written.
const REFRESH: Duration = Duration::from_secs(1);

/// How soon a signal is noticed.
const NAP: Duration = Duration::from_millis(20);

/// Waits until `is_over`, the duration's end, or the user's wish, and shows what was asked for
/// meanwhile.
///
/// # Errors
/// When the terminal or standard output fails.
pub fn attend(
    options: &RunOptions,
    published: &Arc<Published>,
    is_over: impl Fn() -> bool,
) -> Result<()> {
    let end = options
        .duration
        .and_then(|duration| Instant::now().checked_add(duration));
    let is_over = || is_over() || end.is_some_and(|end| Instant::now() >= end);
    if options.live && io::stdout().is_terminal() && io::stdin().is_terminal() {
        return top::run(Arc::clone(published), is_over).context("cannot show the live table");
    }
    let mut next_table = Instant::now() + REFRESH;
    while !is_over() {
        thread::sleep(NAP);
        if options.live && Instant::now() >= next_table {
            next_table += REFRESH;
            writeln!(io::stdout(), "{}", view::live(&published.read()))
                .context("cannot write the table")?;
        }
    }
    Ok(())
}

/// Writes the final figures to standard output, unless nobody reads it any more.
pub fn summarise(snapshot: &Snapshot) {
    let _ = writeln!(io::stdout(), "{}", view::summary(snapshot));
}
