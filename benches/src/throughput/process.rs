//! Processes that do not outlive their owner, and waiting that the user can end.

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// How long a contender may take beyond its measurement before it is given up.
pub const PATIENCE: Duration = Duration::from_mins(1);
/// How often it is looked whether something has come, or the user has had enough.
pub const LOOK: Duration = Duration::from_millis(20);

/// A process that does not outlive its owner.
#[derive(Debug)]
pub struct Owned(pub Child);

impl Owned {
    /// Starts it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(command: &mut Command) -> Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {program}"))?;
        Ok(Self(child))
    }

    /// Asks it to end (SIGTERM).
    ///
    /// # Errors
    /// When there is no shell to ask.
    pub fn terminate(&self) -> Result<()> {
        let id = self.0.id().to_string();
        Command::new("sh")
            .args(["-c", "kill -TERM \"$0\"", &id])
            .stderr(Stdio::null())
            .status()
            .context("cannot start sh")?;
        Ok(())
    }

    /// Waits for it to end well.
    ///
    /// # Errors
    /// When it fails, takes longer, or the user interrupts.
    pub fn wait(&mut self, patience: Duration, stop: &AtomicBool) -> Result<()> {
        until(patience, stop, "it did not end", || {
            let Some(status) = self.0.try_wait()? else {
                return Ok(None);
            };
            ensure!(status.success(), "it ended with {status}");
            Ok(Some(()))
        })
    }

    /// Fails if it has ended.
    ///
    /// # Errors
    /// When it has.
    pub fn is_alive(&mut self) -> Result<()> {
        match self.0.try_wait()? {
            Some(status) => Err(anyhow::anyhow!("it ended early, with {status}")),
            None => Ok(()),
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // It has ended already, or nothing better can be done.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Asks again and again until there is an answer.
///
/// # Errors
/// Those of `ask`; `complaint` when there is no answer in time; or the user interrupts.
pub fn until<T>(
    patience: Duration,
    stop: &AtomicBool,
    complaint: &str,
    mut ask: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        ensure!(
            Instant::now() < deadline,
            "{complaint} within {} s",
            patience.as_secs()
        );
        wait(LOOK, stop)?;
    }
}

/// Sleeps, unless the user has had enough.
///
/// # Errors
/// When the user has.
pub fn wait(duration: Duration, stop: &AtomicBool) -> Result<()> {
    let end = Instant::now() + duration;
    loop {
        ensure!(!stop.load(Ordering::Relaxed), "interrupted");
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(LOOK));
    }
}

/// What a program writes to standard output.
///
/// # Errors
/// When it cannot be started or fails: with what it wrote to standard error.
pub fn output(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {program}"))?;
    ensure!(
        output.status.success(),
        "{program} ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_fails_is_told() {
        let mut failing = Owned::start(&mut Command::new("false")).unwrap();
        let error = failing.wait(PATIENCE, &AtomicBool::new(false)).unwrap_err();
        assert!(error.to_string().contains("exit status: 1"), "{error}");
    }

    #[test]
    fn the_user_can_interrupt() {
        let mut sleeping = Owned::start(Command::new("sleep").arg("60")).unwrap();
        let started = Instant::now();
        let error = sleeping.wait(PATIENCE, &AtomicBool::new(true)).unwrap_err();
        assert_eq!(error.to_string(), "interrupted");
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_process_ends_when_asked() {
        let mut sleeping = Owned::start(Command::new("sleep").arg("60")).unwrap();
        sleeping.is_alive().unwrap();
        sleeping.terminate().unwrap();
        let error = sleeping
            .wait(PATIENCE, &AtomicBool::new(false))
            .unwrap_err();
        assert!(error.to_string().contains("signal: 15"), "{error}");
        assert!(sleeping.is_alive().is_err());
    }

    #[test]
    fn output_is_that_of_success() {
        assert_eq!(output(Command::new("echo").arg("word")).unwrap(), "word\n");
        let error = output(Command::new("sh").args(["-c", "echo why >&2; exit 3"])).unwrap_err();
        let error = error.to_string();
        assert!(error.contains('3') && error.ends_with("why"), "{error}");
    }
}
