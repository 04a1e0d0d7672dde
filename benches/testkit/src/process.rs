//! Child processes that end when they are dropped, and waiting that the user can interrupt.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{self as unix, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Time limit for a process to start, answer or end.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Time between two checks while waiting for a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A child process. It is killed when this is dropped.
#[derive(Debug)]
pub struct Process {
    /// The child.
    pub child: Child,
    /// File of its standard error, if any.
    log: Option<PathBuf>,
}

impl Process {
    /// Starts a process without input.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(command: &mut Command) -> Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {program}"))?;
        Ok(Self { child, log: None })
    }

    /// Starts a process whose standard error goes to the file `log`; errors about it quote that file.
    ///
    /// # Errors
    /// When the program cannot be started or the file cannot be created.
    pub fn start_logged(command: &mut Command, log: PathBuf) -> Result<Self> {
        let file = File::create(&log)
            .with_context(|| format!("cannot write the log {}", log.display()))?;
        let mut process = Self::start(command.stderr(file))?;
        process.log = Some(log);
        Ok(process)
    }

    /// As [`Process::start_logged`], without input and with standard output discarded.
    ///
    /// # Errors
    /// As there.
    pub fn start_quiet(command: &mut Command, log: PathBuf) -> Result<Self> {
        Self::start_logged(command.stdin(Stdio::null()).stdout(Stdio::null()), log)
    }

    /// Starts a `vernierd` with `config`. Its files are `NAME.json` and `NAME.log` in `folder`. `command` is the
    /// program, perhaps run by a tool.
    ///
    /// # Errors
    /// As [`Process::start_logged`].
    pub fn start_vernierd(
        command: &mut Command,
        folder: &Path,
        name: &str,
        config: &Value,
    ) -> Result<Self> {
        let file = folder.join(format!("{name}.json"));
        fs::write(&file, format!("{config:#}")).context("cannot write a configuration")?;
        command.arg("--config").arg(&file);
        Self::start_quiet(command, folder.join(format!("{name}.log")))
    }

    /// The contents of its log; empty without one.
    pub fn log(&self) -> String {
        let log = self.log.as_ref().map(fs::read_to_string);
        // An unreadable log must not hide the error that it should explain.
        log.and_then(io::Result::ok).unwrap_or_default()
    }

    /// An error about this process, with its log.
    fn error(&self, what: &str) -> anyhow::Error {
        match self.log().trim_end() {
            "" => anyhow::anyhow!("{what}"),
            log => anyhow::anyhow!("{log}: {what}"),
        }
    }

    /// Asks it to end (SIGTERM).
    pub fn terminate(&self) {
        // It has ended already, or will be killed.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
    }

    /// Waits until it has exited successfully.
    ///
    /// # Errors
    /// When it fails, takes longer than [`PATIENCE`], or the user interrupts.
    pub fn wait(&mut self) -> Result<()> {
        until(PATIENCE, "it did not end", || {
            match self.child.try_wait()? {
                Some(status) if status.success() => Ok(Some(())),
                Some(status) => Err(self.error(&format!("it ended with {status}"))),
                None => Ok(None),
            }
        })
    }

    /// Asks it to end and waits; returns its log.
    ///
    /// # Errors
    /// As [`Process::wait`].
    pub fn end(mut self) -> Result<String> {
        self.terminate();
        self.wait()?;
        Ok(self.log())
    }

    /// Fails if it has ended.
    ///
    /// # Errors
    /// With its exit status and its log.
    pub fn check_alive(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => Err(self.error(&format!("it ended early, with {status}"))),
            None => Ok(()),
        }
    }

    /// Calls `ask` until it returns a value, as long as the process runs.
    ///
    /// # Errors
    /// As [`until`] with [`PATIENCE`], and when the process ends.
    pub fn until<T>(
        &mut self,
        complaint: &str,
        mut ask: impl FnMut(&Self) -> Result<Option<T>>,
    ) -> Result<T> {
        let answer = until(PATIENCE, complaint, || {
            self.check_alive()?;
            ask(self)
        });
        answer.map_err(|error| match self.child.try_wait() {
            Ok(None) => self.error(&format!("{error:#}")),
            _ => error,
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has already ended, or nothing else can be done.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Calls `ask` until it returns a value.
///
/// # Errors
/// Those of `ask`; `complaint` if there is no value within `patience`; or if the user interrupts.
pub fn until<T>(
    patience: Duration,
    complaint: &str,
    mut ask: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        if Instant::now() >= deadline {
            bail!("{complaint} within {} s", patience.as_secs());
        }
        wait(POLL_INTERVAL)?;
    }
}

/// Work on a separate thread, which must end when its flag is set, by `end` or when this value is dropped.
#[derive(Debug)]
pub struct Background<T = ()> {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<T>>,
}

impl<T: Send + 'static> Background<T> {
    /// Starts it.
    pub fn start(work: impl FnOnce(&Arc<AtomicBool>) -> T + Send + 'static) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let thread = Some(thread::spawn(move || work(&stopped)));
        Self { stop, thread }
    }

    /// Ends the thread and returns its result.
    ///
    /// # Errors
    /// When it panicked.
    pub fn end(mut self) -> Result<T> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        ended.and_then(Result::ok).context("a thread panicked")
    }
}

impl<T> Drop for Background<T> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Its thread has already reported the panic.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Waits until a condition holds, even on a slow machine; the limit only guards against hanging.
///
/// # Panics
/// If it does not hold in the end.
pub fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let held = until(4 * PATIENCE, what, || Ok(condition().then_some(())));
    assert!(held.is_ok(), "waited in vain: {what}");
}

/// Sleeps, unless the user interrupts.
///
/// # Errors
/// When the user does.
pub fn wait(duration: Duration) -> Result<()> {
    let end = Instant::now() + duration;
    loop {
        check_wanted()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(POLL_INTERVAL));
    }
}

/// The standard output of a program.
///
/// # Errors
/// When it cannot be started or fails: with its standard error.
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

/// Whether the user has interrupted this process.
static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Keeps SIGINT and SIGTERM from ending this process; instead, all waiting fails once one has been received.
///
/// # Errors
/// When no handler can be installed.
pub fn stop_on_signals() -> Result<()> {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&INTERRUPTED))
            .context("cannot handle SIGINT and SIGTERM")?;
    }
    Ok(())
}

/// Whether the user has interrupted ([`stop_on_signals`]).
pub fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Fails once the user has interrupted.
///
/// # Errors
/// "interrupted".
pub fn check_wanted() -> Result<()> {
    ensure!(!is_interrupted(), "interrupted");
    Ok(())
}

/// Exit code of `program`: 0 if all limits were kept, otherwise 1, with the error on standard error.
pub fn exit_code(program: &str, is_kept: Result<bool>) -> ExitCode {
    let is_kept = is_kept.unwrap_or_else(|error| {
        eprintln!("{program}: {error:#}");
        false
    });
    ExitCode::from(u8::from(!is_kept))
}

/// A file in the folder of the running program.
///
/// # Errors
/// When that folder is not known.
pub fn beside_this_program(name: &str) -> Result<PathBuf> {
    let program = std::env::current_exe().context("the path of this program is not known")?;
    Ok(program.with_file_name(name))
}

/// DPDK's device for one end of shared memory with another process. `role` is `server` or `client`; both ends have the
/// same `id` and `socket`. Its rings have the maximum length, 2^14 frames.
pub fn memif(name: &str, role: &str, id: usize, socket: &Path) -> String {
    let socket = socket.display();
    format!("net_memif{name},role={role},id={id},socket={socket},socket-abstract=no,rsize=14")
}

/// A process's memory in use, in KiB.
///
/// # Errors
/// When there is no such process.
pub fn resident_kib(id: u32) -> Result<u64> {
    memory_kib(id, "VmRSS:")
}

/// The peak memory of a process, in KiB.
///
/// # Errors
/// When there is no such process.
pub fn peak_kib(id: u32) -> Result<u64> {
    memory_kib(id, "VmHWM:")
}

fn memory_kib(id: u32, which: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(which));
    let kib = line.context("it has ended")?.trim_end_matches(" kB");
    Ok(kib.trim().parse()?)
}

/// An unused address on loopback, for a program that does not choose its port itself. It stays reserved, like the ports
/// of [`free_ports`].
///
/// # Errors
/// When there is none.
pub fn free_address() -> Result<SocketAddr> {
    Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, free_ports(1)?)))
}

/// Names that reserve ports for this process.
static RESERVED: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());

/// Returns the first of `count` (1 or more) consecutive ports on 127.0.0.1 that no process uses for TCP or UDP. They
/// stay reserved until this process ends: no other call returns them, and they are below the ephemeral ports that Linux
/// chooses from.
///
/// # Errors
/// When there are none.
pub fn free_ports(count: u16) -> Result<u16> {
    let reserve_from = |first: u16| -> Option<(u16, Vec<UnixListener>)> {
        let reserved = (first..first + count).map(reserve);
        Some((first, reserved.collect::<Option<_>>()?))
    };
    let mut places = (10_000..30_000).step_by(count.into());
    let found = places.find_map(reserve_from);
    let (first, reserved) = found.context("no free ports on 127.0.0.1")?;
    let mut all = RESERVED.lock().map_err(|_| anyhow!("a thread panicked"))?;
    all.extend(reserved);
    Ok(first)
}

/// Reserves a port, unless it is reserved or in use, by a name in the network namespace that is released when this
/// process ends.
fn reserve(port: u16) -> Option<UnixListener> {
    let name = unix::SocketAddr::from_abstract_name(format!("vernier-port-{port}")).ok()?;
    let reserved = UnixListener::bind_addr(&name).ok()?;
    let address = (Ipv4Addr::LOCALHOST, port);
    let is_free = TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok();
    is_free.then_some(reserved)
}

/// Whether a program of this thread's network namespace has a UDP socket at this port, whatever its address.
pub fn has_udp_socket(port: u16) -> bool {
    let end = format!(":{port:04X}");
    let is_there = |table: &str| {
        // Without IPv6 there is one table.
        let sockets = fs::read_to_string(format!("/proc/thread-self/net/{table}"));
        let sockets = sockets.unwrap_or_default();
        let mut local = sockets
            .lines()
            .filter_map(|line| line.split_whitespace().nth(1));
        local.any(|address| address.ends_with(&end))
    };
    ["udp", "udp6"].iter().any(|table| is_there(table))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeping() -> Process {
        Process::start(Command::new("sleep").arg("60")).unwrap()
    }

    #[test]
    fn a_failure_is_reported_with_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let mut script = Command::new("sh");
        script.args(["-c", "echo why >&2; exit 3"]);
        let mut failing = Process::start_logged(&mut script, folder.path().join("log")).unwrap();
        let error = failing.wait().unwrap_err().to_string();
        assert_eq!(error, "why: it ended with exit status: 3");
        let error = failing.until("silence", |_| Ok(None::<()>));
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("why: it ended early"), "{error}");
        let error = output(script.stderr(Stdio::piped())).unwrap_err();
        let error = error.to_string();
        assert!(error.contains('3') && error.ends_with("why"), "{error}");
        assert_eq!(output(Command::new("echo").arg("word")).unwrap(), "word\n");
    }

    #[test]
    fn a_port_is_reserved_once_and_is_not_ephemeral() {
        let mut ports: Vec<u16> = (0..50).map(|_| free_address().unwrap().port()).collect();
        for _ in 0..4 {
            let first = free_ports(4).unwrap();
            ports.extend(first..first + 4);
        }
        let count = ports.len();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), count, "a port was reserved twice");

        let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
        let first_ephemeral = range.split_whitespace().next().unwrap().parse().unwrap();
        assert!(ports[count - 1] < first_ephemeral, "{ports:?}, {range}");
    }

    #[test]
    fn sockets_of_udp_are_known_by_their_ports() {
        let port = free_ports(1).unwrap();
        assert!(!has_udp_socket(port));
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert!(has_udp_socket(port));
        drop(socket);
        let socket = UdpSocket::bind((std::net::Ipv6Addr::LOCALHOST, port));
        assert_eq!(has_udp_socket(port), socket.is_ok());
    }

    #[test]
    fn the_user_can_interrupt() {
        let started = Instant::now();
        stop_on_signals().unwrap();
        let own = Pid::from_raw(std::process::id().cast_signed()).unwrap();
        kill_process(own, Signal::TERM).unwrap();
        let error = sleeping().wait().unwrap_err();
        INTERRUPTED.store(false, Ordering::Relaxed);
        assert_eq!(error.to_string(), "interrupted");
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_process_ends_when_asked() {
        let mut sleeping = sleeping();
        sleeping.check_alive().unwrap();
        sleeping.terminate();
        let error = sleeping.wait().unwrap_err().to_string();
        assert!(error.contains("signal: 15"), "{error}");
        assert!(sleeping.check_alive().is_err());
    }
}
