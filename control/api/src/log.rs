//! The log, written by a separate thread, so that no logging thread ever blocks.
//!
//! ```text
//!  any thread ── Lines ──> queued lines ─────> thread vernier-log ──> standard error
//!                    │ no room                     │ takes nothing (disk full, no reader)
//!                    └──────> counted as lost <────┘
//! ```
//!
//! A full disk, or a pipe without a reader, costs lines and nothing else. Lost lines are counted in
//! `vernier_log_lost_lines_total`; when writing works again, a line reports their number.

use std::error::Error;
use std::io::{self, IsTerminal, Write, stderr};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use contract::text::with_causes;
use crossbeam::channel::{Receiver, Sender, unbounded};
use tracing_subscriber::EnvFilter;

use crate::process;

/// Most bytes of queued lines: several thousand lines.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// Memory of a queued line in addition to its text.
const LINE_OVERHEAD_BYTES: usize = 64;

/// How long the end of the process waits for the last lines.
const LAST_LINES_MAX: Duration = Duration::from_secs(2);

/// The log's thread. Dropping it waits until everything logged is written, at most two seconds.
#[derive(Debug)]
pub struct Log {
    lines: Lines,
}

/// A writer of lines: queues each at once, or counts it as lost.
#[derive(Debug, Clone)]
pub struct Lines {
    entries: Sender<Entry>,
    level: Arc<Level>,
}

/// How full the log is.
#[derive(Debug, Default)]
struct Level {
    waiting_bytes: AtomicUsize,
    lost: AtomicU64,
}

impl Level {
    fn lose(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
        process::count_lost_log_lines(1);
    }
}

enum Entry {
    Line(Vec<u8>),
    /// To run between two lines.
    Task(Box<dyn FnOnce() + Send>),
    /// To answer when everything before is written.
    End(Sender<()>),
}

impl Log {
    /// Starts the thread, which runs `begin` and then writes to `out`.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub fn start(
        out: impl Write + Send + 'static,
        begin: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let (entries, to_write) = unbounded();
        let level = Arc::<Level>::default();
        let writer = LineWriter {
            to_write,
            level: Arc::clone(&level),
            reported: 0,
            out,
            is_torn: false,
        };
        thread::Builder::new()
            .name("vernier-log".to_owned())
            .spawn(move || {
                begin();
                writer.work();
            })?;
        Ok(Self {
            lines: Lines { entries, level },
        })
    }

    /// A writer of lines.
    pub fn lines(&self) -> Lines {
        self.lines.clone()
    }
}

/// Runs a program whose log goes to standard error; the log's thread runs `begin` first. If the program fails, its
/// log says why, and it exits with the code beside the error.
pub fn run<E: AsRef<dyn Error>>(
    program: &str,
    begin: impl FnOnce() + Send + 'static,
    is_json: bool,
    run: impl FnOnce(Lines) -> Result<(), (E, u8)>,
) -> ExitCode {
    let log = match Log::start(stderr(), begin) {
        Ok(log) => log,
        Err(error) => {
            eprintln!("{program}: cannot start the log's thread: {error}");
            return ExitCode::FAILURE;
        }
    };
    log.lines().install("info,async_nats=warn", is_json);
    match run(log.lines()) {
        Ok(()) => ExitCode::SUCCESS,
        Err((error, code)) => {
            log.lines().fail(program, error.as_ref());
            ExitCode::from(code)
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let (answer, answered) = unbounded();
        if self.lines.entries.send(Entry::End(answer)).is_ok() {
            // Times out if the lines find no room; they are lost with the process.
            let _ = answered.recv_timeout(LAST_LINES_MAX);
        }
    }
}

impl Lines {
    /// Runs `task` on the log's thread, for example to keep it off the workers' CPUs.
    pub fn run(&self, task: impl FnOnce() + Send + 'static) {
        // Fails only at the very end.
        let _ = self.entries.send(Entry::Task(Box::new(task)));
    }

    /// Makes this the log of the process, used by `tracing` and panics. `VERNIER_LOG` sets the level; the default is
    /// `default`.
    pub fn install(&self, default: &str, is_json: bool) {
        let filter = EnvFilter::try_from_env("VERNIER_LOG");
        let lines = self.clone();
        let log = tracing_subscriber::fmt()
            .with_env_filter(filter.unwrap_or_else(|_| EnvFilter::new(default)))
            .with_writer(move || lines.clone())
            .with_target(false);
        if is_json {
            log.json().init();
        } else {
            log.with_ansi(stderr().is_terminal()).init();
        }
        // The default hook would block on standard error.
        std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    }

    /// Logs why `program` ends, each line with its name: the message, which may have several lines, and each cause
    /// that is not contained in it.
    pub fn fail(&mut self, program: &str, error: &(dyn Error + 'static)) {
        // Never fails: a line without room is counted.
        for line in with_causes(error).lines() {
            let _ = self.write_all(format!("{program}: {line}\n").as_bytes());
        }
    }

    /// Lines lost since the log began.
    pub fn lost(&self) -> u64 {
        self.level.lost.load(Ordering::Relaxed)
    }
}

/// Each write is one line. It neither fails nor blocks.
impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let bytes = line.len() + LINE_OVERHEAD_BYTES;
        let waiting = &self.level.waiting_bytes;
        let before = waiting.fetch_add(bytes, Ordering::Relaxed);
        let has_room = before.saturating_add(bytes) <= WAITING_BYTES_MAX;
        if !has_room || self.entries.send(Entry::Line(line.to_vec())).is_err() {
            waiting.fetch_sub(bytes, Ordering::Relaxed);
            self.level.lose();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The writing thread.
struct LineWriter<W> {
    to_write: Receiver<Entry>,
    level: Arc<Level>,
    /// Lost lines reported so far.
    reported: u64,
    out: W,
    /// Whether only the beginning of the last line was written.
    is_torn: bool,
}

impl<W: Write> LineWriter<W> {
    fn work(mut self) {
        while let Ok(entry) = self.to_write.recv() {
            match entry {
                Entry::Line(line) => self.take_line(&line),
                Entry::Task(task) => task(),
                Entry::End(answer) => {
                    self.report_lost();
                    while let Ok(Entry::Line(line)) = self.to_write.try_recv() {
                        self.take_line(&line);
                    }
                    // The waiting thread may have given up.
                    let _ = answer.send(());
                }
            }
        }
    }

    fn take_line(&mut self, line: &[u8]) {
        let written = self.write(line);
        let bytes = line.len() + LINE_OVERHEAD_BYTES;
        let before = self.level.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        match written {
            // The report needs room, too.
            Ok(()) if before <= WAITING_BYTES_MAX / 2 => self.report_lost(),
            Ok(()) => (),
            Err(_) => self.level.lose(),
        }
    }

    /// Reports how many lines were lost since the last report. The report can be lost like any other line;
    /// then the next one includes it.
    fn report_lost(&mut self) {
        let lost = self.level.lost.load(Ordering::Relaxed);
        if lost > self.reported {
            let lines = lost - self.reported;
            self.reported = lost;
            tracing::error!(
                lines,
                since_start = lost,
                "lines of this log were lost: they could not be written"
            );
        }
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.is_torn {
            self.out.write_all(b"\n")?;
            self.is_torn = false;
        }
        let mut rest = line;
        while !rest.is_empty() {
            match self.out.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(taken) => {
                    rest = rest.get(taken..).unwrap_or_default();
                    self.is_torn = !rest.is_empty();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, PoisonError};

    /// A disk with so many bytes left.
    #[derive(Clone, Default)]
    struct Disk(Arc<Mutex<(usize, Vec<u8>)>>);

    impl Disk {
        fn give(&self, bytes: usize) {
            self.0.lock().unwrap().0 = bytes;
        }

        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().1.clone()).unwrap()
        }
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut disk = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let taken = bytes.len().min(disk.0);
            if taken == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            disk.0 -= taken;
            disk.1.extend(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Waits until all that was logged has been dealt with.
    fn settle(lines: &Lines) {
        let (done, when_done) = unbounded();
        lines.run(move || done.send(()).unwrap());
        when_done.recv_timeout(Duration::from_secs(30)).unwrap();
    }

    #[test]
    fn lines_come_out_in_order_and_the_last_before_the_end() {
        let disk = Disk::default();
        disk.give(usize::MAX);
        let log = Log::start(disk.clone(), || ()).unwrap();
        let expected = "a line\nanother\n".repeat(500);
        for line in expected.split_inclusive('\n') {
            log.lines().write_all(line.as_bytes()).unwrap();
        }
        drop(log);
        assert_eq!(disk.text(), expected);
    }

    #[test]
    fn a_full_disk_costs_lines_and_only_lines() {
        let disk = Disk::default();
        let log = Log::start(disk.clone(), || ()).unwrap();
        let mut lines = log.lines();
        disk.give("first\nsec".len());
        for line in ["first\n", "second\n", "third\n"] {
            lines.write_all(line.as_bytes()).unwrap();
        }
        settle(&lines);
        assert_eq!(lines.lost(), 2);
        disk.give(usize::MAX);
        lines.write_all(b"fourth\n").unwrap();
        settle(&lines);
        assert_eq!(disk.text(), "first\nsec\nfourth\n");
        assert_eq!(
            (
                lines.lost(),
                lines.level.waiting_bytes.load(Ordering::Relaxed)
            ),
            (2, 0)
        );
    }

    #[test]
    fn a_reader_that_does_not_read_blocks_nobody_and_the_rest_is_bounded() {
        let (mut reader, writer) = io::pipe().unwrap();
        let log = Log::start(writer, || ()).unwrap();
        let mut lines = log.lines();
        let line = [b'x'; 1_000];
        let count = 4 * WAITING_BYTES_MAX / line.len();
        for _ in 0..count {
            lines.write_all(&line).unwrap();
        }
        let lost = lines.lost();
        assert!(lost > 0 && lost < count as u64, "{lost} of {count}");
        let waiting = lines.level.waiting_bytes.load(Ordering::Relaxed);
        assert!(waiting <= WAITING_BYTES_MAX, "{waiting} bytes wait");
        // What was not lost is still there when somebody comes.
        let reading = thread::spawn(move || io::copy(&mut reader, &mut io::sink()).unwrap());
        settle(&lines);
        assert_eq!(lines.lost(), lost);
        drop((log, lines));
        let read = reading.join().unwrap();
        assert_eq!(read, (count as u64 - lost) * line.len() as u64);
    }
}
