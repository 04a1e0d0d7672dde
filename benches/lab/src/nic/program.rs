//! A program in the guest that answers over HTTP: `vernierd`, or testpmd with the plugin in it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use records::snapshot::{Port, PortReading, Snapshot, Totals};

use crate::nic::guest::Guest;

/// Time limit for its start, its end, and every condition waited for.
const PATIENCE: Duration = Duration::from_mins(2);

/// How often it is asked.
const LOOK: Duration = Duration::from_millis(200);

/// Maximum number of tries if epochs go unmeasured.
const TRIES_MAX: usize = 4;

/// How long a segment must count nothing before it is considered complete: several epochs.
const QUIET: Duration = Duration::from_secs(3);

/// Packets that were all measured.
#[derive(Debug, Default)]
pub struct Measured {
    /// Number of tries; in all but the last, an epoch went unmeasured.
    pub tries: usize,
    /// Mean delay by segment, in microseconds.
    pub mean_us: Vec<f64>,
}

impl Measured {
    /// A note for the table if it took several tries.
    pub fn note(&self) -> String {
        match self.tries {
            1 => String::new(),
            tries => format!(" (in try {tries}: epochs went unmeasured before)"),
        }
    }
}

/// The program in the guest that runs, if any. Its log is `/tmp/log`, its exit code `/tmp/code`.
#[derive(Debug)]
pub struct Program<'g> {
    pub guest: &'g mut Guest,
    /// From its start to its readiness.
    pub start: Duration,
}

impl<'g> Program<'g> {
    /// Starts it, and waits until it is ready.
    pub fn start(guest: &'g mut Guest, command: &str) -> Result<Self> {
        guest.run("rm -f /tmp/code /tmp/pid")?;
        let began = Instant::now();
        guest.run(&format!(
            "({command} >/tmp/log 2>&1 & echo $! >/tmp/pid; wait $!; echo $? >/tmp/code) >/dev/null 2>&1 &"
        ))?;
        let mut program = Self {
            guest,
            start: Duration::ZERO,
        };
        program.until("it is not ready", |program| {
            let ready = "wget -qO- http://127.0.0.1:9464/readyz";
            let (code, _) = program.guest.try_run(ready)?;
            Ok((code == 0).then_some(()))
        })?;
        program.start = began.elapsed();
        Ok(program)
    }

    /// Repeats a request until there is an answer.
    pub fn until<T>(
        &mut self,
        complaint: &str,
        mut ask: impl FnMut(&mut Self) -> Result<Option<T>>,
    ) -> Result<T> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(answer) = ask(self)? {
                return Ok(answer);
            }
            let has_ended = self.guest.try_run("test -e /tmp/code")?.0 == 0;
            ensure!(
                !has_ended && Instant::now() < deadline,
                "{complaint}: {}",
                self.log()?
            );
            std::thread::sleep(LOOK);
        }
    }

    pub fn log(&mut self) -> Result<String> {
        self.guest.run("cat /tmp/log")
    }

    /// The snapshot that it has published last.
    pub fn snapshot(&mut self) -> Result<Snapshot> {
        let answer = (self.guest).run("wget -qO- http://127.0.0.1:9464/api/v1/snapshot")?;
        serde_json::from_str(&answer).with_context(|| format!("no snapshot: {answer}"))
    }

    /// One of its ports.
    pub fn port(&mut self, name: &str) -> Result<Port> {
        let mut ports = self.snapshot()?.ports.into_iter();
        let port = ports.find(|port| port.name == name);
        port.with_context(|| format!("no port {name}"))
    }

    /// Waits until the counters of a port are exactly these: received, transmitted.
    pub fn counts(&mut self, name: &str, rx: usize, tx: usize) -> Result<()> {
        let mut last = PortReading::default();
        let counted = self.until("", |program| {
            last = program.port(name)?.counts;
            let is_counted = (last.rx_packets, last.tx_packets) == (rx as u64, tx as u64);
            Ok(is_counted.then_some(()))
        });
        counted.with_context(|| {
            format!("port {name} should have received {rx} and sent {tx}: {last:?}")
        })
    }

    /// Counts of a segment, zero if it does not exist yet, and the number of epochs that a worker did not measure
    /// completely.
    fn total(&mut self, (from, to): (&str, &str)) -> Result<(Totals, u64)> {
        let Snapshot {
            status, segments, ..
        } = self.snapshot()?;
        let mut segments = segments.into_iter();
        let segment = segments.find(|segment| segment.ingress == from && segment.egress == to);
        let total = segment.unwrap_or_default().total;
        let missed: u64 = status.workers.iter().map(|of| of.missed_epochs).sum();
        // The plugin also marks an epoch as `link` if the control core held a queue's shard while packets left.
        let unusable = total.unusable_epochs.missed_shard + total.unusable_epochs.link;
        Ok((total, missed + unusable))
    }

    /// Lets `send` send `packets` over each of these segments, and waits until they have counted exactly these at both
    /// ends. If fewer are counted and an epoch went unmeasured meanwhile (the guest's CPUs are emulated, and others use
    /// the machine), everything is sent again, up to [`TRIES_MAX`] times.
    ///
    /// The mean delays must be plausible: over zero and under a second.
    pub fn measure(
        &mut self,
        segments: &[(&str, &str)],
        packets: usize,
        mut send: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<Measured> {
        let mut measured = Measured::default();
        let packets = packets as u64;
        while measured.tries < TRIES_MAX {
            measured.tries += 1;
            measured.mean_us.clear();
            let before = segments.iter().map(|&segment| self.total(segment));
            let before: Vec<(Totals, u64)> = before.collect::<Result<_>>()?;
            send(self)?;
            let mut unmeasured = 0;
            for (&segment, before) in segments.iter().zip(&before) {
                let (delay_sum_s, missed) = self.settled(segment, before, packets)?;
                unmeasured += missed;
                let mean_us = delay_sum_s * 1e6 / packets as f64;
                ensure!(
                    missed > 0 || (mean_us > 0.0 && mean_us < 1e6),
                    "{segment:?}: a mean delay of {mean_us} us"
                );
                measured.mean_us.push(mean_us);
            }
            if unmeasured == 0 {
                return Ok(measured);
            }
            let tries = measured.tries;
            eprintln!(
                "{segments:?}: {unmeasured} epochs went unmeasured in try {tries} of {TRIES_MAX}"
            );
        }
        bail!("{segments:?}: an epoch went unmeasured in each of {TRIES_MAX} tries")
    }

    /// Waits until a segment has counted `packets` at both ends since `before`, or counts nothing more because epochs
    /// went unmeasured. Returns the sum of delays, and the number of unmeasured epochs.
    fn settled(
        &mut self,
        segment: (&str, &str),
        (before, missed_before): &(Totals, u64),
        packets: u64,
    ) -> Result<(f64, u64)> {
        let (mut last, mut since) = ([0; 2], Instant::now());
        let settled = self.until("", |program| {
            let (total, missed) = program.total(segment)?;
            let (now, then) = (total.counts, before.counts);
            let counted = [
                now.sent_packets - then.sent_packets,
                now.received_packets - then.received_packets,
            ];
            if counted != last {
                (last, since) = (counted, Instant::now());
            }
            let missed = if counted == [packets; 2] {
                0
            } else {
                missed - missed_before
            };
            let is_less = counted.iter().all(|&counted| counted <= packets);
            let is_cut = is_less && missed > 0 && since.elapsed() > QUIET;
            let delay_sum_s = total.delay_sum_s - before.delay_sum_s;
            Ok((counted == [packets; 2] || is_cut).then_some((delay_sum_s, missed)))
        });
        settled.with_context(|| format!("{segment:?}: {packets} packets, counted {last:?}"))
    }

    /// Waits until the log contains a text; returns the log.
    pub fn says(&mut self, words: &str) -> Result<String> {
        self.until(&format!("its log lacks {words:?}"), |program| {
            let log = program.log()?;
            Ok(log.contains(words).then_some(log))
        })
    }

    /// Stops it by SIGTERM; it must exit with 0. Returns how long that took, and its complete output.
    pub fn end(mut self) -> Result<(Duration, String)> {
        let began = Instant::now();
        self.guest.run("kill $(cat /tmp/pid)")?;
        let mut code = String::new();
        while began.elapsed() < PATIENCE && code.is_empty() {
            std::thread::sleep(LOOK);
            code = self.guest.try_run("cat /tmp/code 2>/dev/null")?.1;
        }
        let log = self.log()?;
        ensure!(code.trim() == "0", "it ended with {code:?}: {log}");
        Ok((began.elapsed(), log))
    }
}
