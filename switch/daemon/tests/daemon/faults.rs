//! Faults around a switch must not affect it: a log that cannot be written, a clock that is set. The real daemon, under
//! generated traffic.
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{Daemon, assert_conserved, is_root, skip};
use serde_json::{Value, json};

const LOST_LINES: &str = "vernier_log_lost_lines_total";

fn config() -> Value {
    let port = |name: &str, side: u8| {
        let device = format!("generate:flows=200,rate=10000,side={side}");
        json!({ "name": name, "device": device })
    };
    json!({
        "ports": [port("east", 0), port("west", 1)],
        "forwarding": { "mode": "bridge" },
        "workers": [{ "idle": "sleep" }, { "idle": "sleep" }],
    })
}

/// What may not stand still, and what may not grow.
#[derive(Debug)]
struct Pulse {
    received: u64,
    epoch: u64,
    missed_epochs: u64,
}

impl Pulse {
    fn of(switch: &Daemon) -> Option<Self> {
        let snapshot = switch.snapshot()?;
        let sum = |list: &str, field: &str| -> Option<u64> {
            let each = snapshot[list].as_array()?.iter();
            each.map(|one| one[field].as_u64()).sum()
        };
        Some(Self {
            received: sum("ports", "rx_packets")?,
            epoch: snapshot["epoch"].as_u64()?,
            missed_epochs: sum("workers", "missed_epochs")?,
        })
    }

    /// Waits for the first epoch's end.
    fn begin(switch: &mut Daemon) -> Self {
        switch.wait_for(|switch| Self::of(switch).is_some_and(|pulse| pulse.received > 0));
        Self::of(switch).unwrap()
    }

    /// Waits for 20 epochs more, in which packets came and, but for what a busy machine does, every
    /// epoch was measured.
    fn goes_on(&self, switch: &mut Daemon) {
        let epoch = self.epoch + 20;
        switch.wait_for(|switch| Self::of(switch).is_some_and(|pulse| pulse.epoch >= epoch));
        let now = Self::of(switch).unwrap();
        assert!(now.received > self.received + 2_000, "{self:?}, {now:?}");
        let (missed, epochs) = (
            now.missed_epochs - self.missed_epochs,
            now.epoch - self.epoch,
        );
        assert!(missed <= epochs / 5, "{self:?}, {now:?}");
    }
}

fn lost_lines(switch: &Daemon) -> u64 {
    switch.metric(LOST_LINES).expect("the count is exported")
}

/// The number of lost lines since the start, from a line of the log.
fn reported_lost(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("lines of this log were lost")?;
    let (_, number) = rest.split_once("since_start=")?;
    number.split_whitespace().next()?.parse().ok()
}

#[test]
fn a_log_that_fails_costs_lines_and_nothing_else() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut switch = Daemon::start_as(config(), |command| {
        command.env("VERNIER_LOG", "trace").stderr(full);
    });
    let pulse = Pulse::begin(&mut switch);
    let lost = lost_lines(&switch);
    assert!(lost > 0, "all that was logged was lost");
    switch.hang_up();
    pulse.goes_on(&mut switch);
    switch.wait_for(|switch| lost_lines(switch) > lost);
    assert_conserved(&switch.stop()["snapshot"]);
}

/// Starts a daemon that logs into a tiny disk of its own, in a mount namespace that ends with it.
fn start_on_tiny_disk(script: &str, disk: &Path) -> (Daemon, PathBuf) {
    let daemon = Daemon::start_as(config(), |command| {
        let program = command.get_program().to_owned();
        let arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        let mut inside = Command::new("unshare");
        inside
            .args(["--mount", "sh", "-ec", script, "sh"])
            .arg(disk)
            .arg(program)
            .args(arguments)
            .env("VERNIER_LOG", "info")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        *command = inside;
    });
    let seen = format!("/proc/{}/root{}", daemon.id(), disk.display());
    (daemon, PathBuf::from(seen))
}

#[test]
fn a_full_disk_loses_the_log_until_there_is_space_again() {
    if !is_root("a disk of one's own") {
        return;
    }
    // The shell becomes the daemon.
    let script = "mount -t tmpfs -o size=64k none \"$1\"; cd \"$1\"; shift; : >log; \
                  dd if=/dev/zero of=filler bs=4k 2>/dev/null || true; exec \"$@\" 2>>log";
    let place = tempfile::tempdir().unwrap();
    let (mut switch, disk) = start_on_tiny_disk(script, place.path());
    let pulse = Pulse::begin(&mut switch);
    let log = || std::fs::read_to_string(disk.join("log")).unwrap();
    switch.hang_up();
    switch.wait_for(|switch| lost_lines(switch) > 1);
    assert_eq!(log(), "", "the disk is full");
    pulse.goes_on(&mut switch);
    std::fs::remove_file(disk.join("filler")).unwrap();
    let lost = lost_lines(&switch);
    switch.hang_up();
    switch.wait_for(|_| log().lines().any(|line| reported_lost(line) == Some(lost)));
    assert_eq!(lost_lines(&switch), lost);
    assert_conserved(&switch.stop()["snapshot"]);
}

/// Lets it log until the pipe is full, then the room of its own, and lines are lost: about a mebibyte
/// of complaints about a long key that means nothing.
fn fill(switch: &mut Daemon) {
    let mut nonsense = config();
    nonsense["x".repeat(60_000)] = json!(1);
    switch.wait_for(|switch| {
        switch.reload(nonsense.clone());
        lost_lines(switch) > 0
    });
}

#[test]
fn a_log_that_nobody_reads_blocks_nobody() {
    let mut switch = Daemon::start_logging(config(), "trace");
    let mut log = BufReader::new(switch.take_log());
    let pulse = Pulse::begin(&mut switch);
    fill(&mut switch);
    pulse.goes_on(&mut switch);
    let reading = std::thread::spawn(move || {
        let mut line = String::new();
        while log.read_line(&mut line).unwrap() > 0 {
            if let Some(lost) = reported_lost(&line) {
                // The rest is read so that the log can continue.
                std::io::copy(&mut log, &mut std::io::sink()).unwrap();
                return Some(lost);
            }
            line.clear();
        }
        None
    });
    let pulse = Pulse::begin(&mut switch);
    pulse.goes_on(&mut switch);
    let lost = lost_lines(&switch);
    assert_conserved(&switch.stop()["snapshot"]);
    let said = reading.join().unwrap();
    assert!(
        said.is_some_and(|said| said > 0 && said <= lost),
        "{said:?} of {lost}"
    );
}

#[test]
fn an_end_waits_for_no_reader() {
    let mut switch = Daemon::start_logging(config(), "trace");
    let log = switch.take_log();
    fill(&mut switch);
    assert_conserved(&switch.stop()["snapshot"]);
    drop(log);
}

/// The library that fakes the system's clock (Debian package faketime).
fn faketime() -> Option<PathBuf> {
    let places = std::fs::read_dir("/usr/lib").unwrap().flatten();
    let mut libraries = places.map(|place| place.path().join("faketime/libfaketimeMT.so.1"));
    let library = libraries.find(|library| library.exists());
    if library.is_none() {
        skip("there is no libfaketime (Debian package faketime)");
    }
    library
}

/// Sets the daemon's clock so many seconds off the machine's.
fn set_clock(file: &Path, offset_s: i32) {
    let new = file.with_extension("new");
    std::fs::write(&new, format!("{offset_s:+}\n")).unwrap();
    std::fs::rename(new, file).unwrap();
}

/// The longest delay in the last epoch, by stamps.
fn delay_max_ns(switch: &Daemon) -> f64 {
    let segments = switch.json("/api/v1/segments").unwrap();
    let segments = segments["segments"].as_array().unwrap().iter();
    let delays = segments.filter_map(|segment| segment["last"]["stamped"]["max_ns"].as_f64());
    delays.fold(0.0, f64::max)
}

#[test]
fn a_clock_that_is_set_is_counted_and_disturbs_nothing_measured() {
    let Some(library) = faketime() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let offset = folder.path().join("offset");
    set_clock(&offset, 0);
    let mut switch = Daemon::start_as(config(), |command| {
        command
            .env("LD_PRELOAD", library)
            .env("FAKETIME_TIMESTAMP_FILE", &offset)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    });
    let started: f64 = switch.metric("process_start_time_seconds").unwrap();
    for (steps, offset_s) in (1_u64..).zip([3_600, -7_200, 0]) {
        let pulse = Pulse::begin(&mut switch);
        set_clock(&offset, offset_s);
        pulse.goes_on(&mut switch);
        assert_eq!(switch.metric("vernier_clock_steps_total"), Some(steps));
        let end: f64 = switch
            .metric("vernier_epoch_end_timestamp_seconds")
            .unwrap();
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs_f64() + f64::from(offset_s);
        assert!(
            (end - now).abs() < 60.0,
            "{end} follows the new clock, {now}"
        );
        // The least step is an hour.
        let delay_ns = delay_max_ns(&switch);
        assert!(delay_ns > 0.0 && delay_ns < 60e9, "{delay_ns} ns");
    }
    assert_eq!(switch.metric("process_start_time_seconds"), Some(started));
    let snapshot = &switch.snapshot().unwrap();
    let step_s = snapshot["clock"]["last_step_s"].as_f64().unwrap();
    assert!((step_s - 7_200.0).abs() < 1.0, "{step_s}");
    let summary = switch.stop();
    assert_conserved(&summary["snapshot"]);
    let elapsed_s = summary["elapsed_s"].as_f64().unwrap();
    assert!(elapsed_s > 0.0 && elapsed_s < 600.0, "{elapsed_s}");
}
