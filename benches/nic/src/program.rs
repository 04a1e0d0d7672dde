//! A program in the guest that answers over HTTP: `vernierd`, or testpmd with the plugin in it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::guest::Guest;

/// How long it may take to start, to end, or to come to what it is waited for.
const PATIENCE: Duration = Duration::from_secs(40);

/// How often it is asked.
const LOOK: Duration = Duration::from_millis(200);

/// The program in the guest that runs, if any. Its log is `/tmp/log`, its exit code `/tmp/code`.
#[derive(Debug)]
pub struct Program<'g> {
    /// The guest.
    pub guest: &'g mut Guest,
    /// From its start to its readiness.
    pub start: Duration,
}

impl<'g> Program<'g> {
    /// Starts it, and waits until it is ready.
    ///
    /// # Errors
    /// When it does not become ready.
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
            let (code, _) = program
                .guest
                .try_run("wget -qO- http://127.0.0.1:9464/readyz")?;
            Ok((code == 0).then_some(()))
        })?;
        program.start = began.elapsed();
        Ok(program)
    }

    /// Asks again and again until there is an answer.
    ///
    /// # Errors
    /// Those of `ask`; or when the program ends, or there is no answer in time.
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

    /// What it has said.
    ///
    /// # Errors
    /// When the guest does not answer.
    pub fn log(&mut self) -> Result<String> {
        self.guest.run("cat /tmp/log")
    }

    /// An answer of its API.
    ///
    /// # Errors
    /// When there is none.
    pub fn get(&mut self, what: &str) -> Result<Value> {
        let get = format!("wget -qO- http://127.0.0.1:9464/api/v1/{what}");
        let answer = self.guest.run(&get)?;
        serde_json::from_str(&answer).with_context(|| format!("{what}: {answer}"))
    }

    /// One port of its answer.
    ///
    /// # Errors
    /// When it has no such port.
    pub fn port(&mut self, name: &str) -> Result<Value> {
        let mut answer = self.get("ports")?;
        let ports = answer["ports"].as_array_mut();
        let port = ports.and_then(|ports| ports.iter_mut().find(|port| port["name"] == name));
        Ok(port.with_context(|| format!("no port {name}"))?.take())
    }

    /// Waits until the counters of a port are exactly these: received, transmitted.
    ///
    /// # Errors
    /// When they are not in time.
    pub fn counts(&mut self, name: &str, rx: usize, tx: usize) -> Result<()> {
        let mut last = Value::Null;
        let counted = self.until("", |program| {
            last = program.port(name)?;
            Ok((last["rx_packets"] == rx && last["tx_packets"] == tx).then_some(()))
        });
        counted
            .with_context(|| format!("port {name} should have received {rx} and sent {tx}: {last}"))
    }

    /// Packets of a segment: sent, received; and the least and the mean delay in nanoseconds.
    ///
    /// # Errors
    /// When there is none.
    pub fn segment(&mut self, from: &str, to: &str) -> Result<(u64, u64, f64)> {
        let answer = self.get("segments")?;
        let segments = answer["segments"].as_array().context("no segments")?;
        let segment = segments
            .iter()
            .find(|segment| segment["ingress"] == from && segment["egress"] == to);
        let total = &segment.context("no such segment")?["total"];
        let count = |what: &str| total["counts"][what].as_u64().context("no count");
        let delays_s = total["delay_sum_s"].as_f64().context("no delays")?;
        Ok((
            count("sent_packets")?,
            count("received_packets")?,
            delays_s * 1e9,
        ))
    }

    /// Waits until a segment has counted so many packets at both ends; their mean delay in
    /// microseconds, which must be plausible: more than nothing, less than a second.
    ///
    /// # Errors
    /// When it has not.
    pub fn segment_counts(&mut self, from: &str, to: &str, packets: u64) -> Result<f64> {
        let mut last = (0, 0, 0.0);
        let counted = self.until("", |program| {
            last = program.segment(from, to)?;
            Ok((last.0 == packets && last.1 == packets).then_some(()))
        });
        counted.with_context(|| format!("{from} to {to}: {packets} packets, counted {last:?}"))?;
        let mean_us = last.2 / 1e3 / packets as f64;
        ensure!(
            mean_us > 0.0 && mean_us < 1e6,
            "{from} to {to}: a mean delay of {mean_us} us"
        );
        Ok(mean_us)
    }

    /// Waits until the log says something; all of it from then on.
    ///
    /// # Errors
    /// When it does not.
    pub fn says(&mut self, words: &str) -> Result<String> {
        self.until(&format!("it does not say {words:?}"), |program| {
            let log = program.log()?;
            Ok(log.contains(words).then_some(log))
        })
    }

    /// Ends it by SIGTERM; it must end with 0. How long that took, and what it has said in all.
    ///
    /// # Errors
    /// When it does not end, or not well.
    pub fn end(self) -> Result<(Duration, String)> {
        let began = Instant::now();
        self.guest.run("kill $(cat /tmp/pid)")?;
        let mut code = String::new();
        while began.elapsed() < PATIENCE && code.is_empty() {
            std::thread::sleep(LOOK);
            code = self.guest.try_run("cat /tmp/code 2>/dev/null")?.1;
        }
        let log = self.guest.run("cat /tmp/log")?;
        ensure!(code.trim() == "0", "it ended with {code:?}: {log}");
        Ok((began.elapsed(), log))
    }
}
