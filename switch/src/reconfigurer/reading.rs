//! Settings, and the files that they name, read again while packets flow: by a thread of its own, which is not waited for. A
//! file system that hangs holds up neither later reloads nor the end of the switch.

use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

/// How long reading may take: captures of gigabytes take their time.
pub const READING_MAX: Duration = Duration::from_mins(1);

/// Work on another thread that gives one result.
#[derive(Debug)]
pub struct Job<T> {
    result: Receiver<Result<T>>,
    /// What it is called when it panics.
    name: &'static str,
}

impl<T> Job<T> {
    /// A job, and where its thread puts the result.
    pub fn new(name: &'static str) -> (Sender<Result<T>>, Self) {
        let (sender, result) = mpsc::channel();
        (sender, Self { result, name })
    }

    /// A job that was done at once.
    pub fn done(result: Result<T>) -> Self {
        let (sender, job) = Self::new("it");
        // The other end is here.
        let _ = sender.send(result);
        job
    }

    /// The result, once; `None` while there is none.
    ///
    /// # Errors
    /// The job's, and a panic of its thread.
    pub fn poll(&self) -> Option<Result<T>> {
        match self.result.try_recv() {
            Ok(result) => Some(result),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(anyhow!("{} panicked", self.name))),
        }
    }
}

/// Reads one thing at a time, by a thread that may outlive its owner.
#[derive(Debug)]
pub(super) struct Reader<T> {
    reading: Option<Reading<T>>,
}

#[derive(Debug)]
struct Reading<T> {
    job: Job<T>,
    since: Instant,
    /// It took too long, and may still be at it: its result is no longer wanted.
    is_abandoned: bool,
}

impl<T: Send + 'static> Reader<T> {
    /// A reader without anything to read.
    pub fn new() -> Self {
        Self { reading: None }
    }

    /// Begins to read.
    ///
    /// # Errors
    /// While the thread before has not ended, and when the system gives no thread.
    pub fn begin(
        &mut self,
        read: impl FnOnce() -> Result<T> + Send + 'static,
        now: Instant,
    ) -> Result<()> {
        if self
            .reading
            .as_ref()
            .is_some_and(|earlier| earlier.job.poll().is_none())
        {
            return Err(overdue());
        }
        let (result, job) = Job::new("reading it");
        let work = move || {
            // Nobody takes it when the switch has ended, or has waited for too long.
            let _ = result.send(read());
        };
        Builder::new()
            .name("vernier-reload".to_owned())
            .spawn(work)
            .context("cannot start a thread to read it")?;
        self.follow(job, now);
        Ok(())
    }

    /// Waits for the result of `job`.
    pub fn follow(&mut self, job: Job<T>, now: Instant) {
        self.reading = Some(Reading {
            job,
            since: now,
            is_abandoned: false,
        });
    }

    /// What was read, once; `None` while it is being read, and if nothing was begun.
    ///
    /// # Errors
    /// Those of reading, a panic there, and a read that takes longer than [`READING_MAX`].
    pub fn take(&mut self, now: Instant) -> Option<Result<T>> {
        let reading = self
            .reading
            .as_mut()
            .filter(|reading| !reading.is_abandoned)?;
        let result = reading.job.poll();
        if result.is_some() {
            self.reading = None;
        } else if now.saturating_duration_since(reading.since) >= READING_MAX {
            reading.is_abandoned = true;
            return Some(Err(overdue()));
        }
        result
    }
}

fn overdue() -> anyhow::Error {
    let limit_s = READING_MAX.as_secs();
    anyhow!(
        "it, or a file that it names, is not read within {limit_s} s; see whether its file system answers"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits for what was read.
    fn taken<T: Send + 'static>(reader: &mut Reader<T>, now: Instant) -> Result<T> {
        std::iter::from_fn(|| Some(reader.take(now)))
            .flatten()
            .next()
            .unwrap()
    }

    #[test]
    fn what_hangs_is_given_up_and_what_panics_has_ended() {
        let now = Instant::now();
        let mut reader = Reader::new();
        assert!(reader.take(now).is_none());
        let (release, released) = mpsc::channel();
        reader.begin(move || Ok(released.recv()?), now).unwrap();
        assert!(reader.take(now).is_none());
        release.send(7).unwrap();
        assert_eq!(taken(&mut reader, now).unwrap(), 7);

        let (release, released) = mpsc::channel::<()>();
        let hangs = move || {
            let _ = released.recv();
            Ok(8)
        };
        reader.begin(hangs, now).unwrap();
        let late = now + READING_MAX;
        let error = reader.take(late).unwrap().unwrap_err().to_string();
        assert!(error.contains("60 s"), "{error}");
        assert!(reader.take(late).is_none());
        // One thread at a time hangs.
        assert!(reader.begin(|| Ok(9), late).is_err());
        drop(release);
        while reader.begin(|| Ok(9), late).is_err() {
            std::thread::yield_now();
        }
        assert_eq!(taken(&mut reader, late).unwrap(), 9);

        reader.begin(|| panic!("as it is meant to"), late).unwrap();
        assert!(taken(&mut reader, late).is_err());
    }
}
