//! QEMU's monitor, in JSON.

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

/// Time limit for QEMU's response.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection to the monitor.
#[derive(Debug)]
pub struct Qmp {
    lines: BufReader<UnixStream>,
    /// The part of an incomplete line that was already read.
    partial: String,
    /// Names of events and their devices, oldest first.
    events: Vec<(String, String)>,
}

impl Qmp {
    /// Greets it.
    pub fn new(stream: UnixStream) -> Result<Self> {
        let lines = BufReader::new(stream);
        let mut qmp = Self {
            lines,
            partial: String::new(),
            events: Vec::new(),
        };
        qmp.next(PATIENCE)?.context("QEMU does not greet")?;
        qmp.execute("qmp_capabilities", &json!({}))?;
        Ok(qmp)
    }

    pub fn execute(&mut self, command: &str, arguments: &Value) -> Result<Value> {
        let line = json!({ "execute": command, "arguments": arguments });
        writeln!(self.lines.get_mut(), "{line}")?;
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let mut answer = self.next(PATIENCE)?.unwrap_or_default();
            if let Some(error) = answer.get("error") {
                bail!("{command} {arguments}: {error}");
            }
            if let Some(value) = answer.get_mut("return") {
                return Ok(value.take());
            }
        }
        bail!("{command}: QEMU does not answer")
    }

    /// Whether there was an event for a device; waits a moment.
    pub fn has_event(&mut self, name: &str, device: &str) -> Result<bool> {
        while self.next(Duration::from_millis(1))?.is_some() {}
        let is_it = |(event, about): &(String, String)| event == name && about == device;
        Ok(self.events.iter().any(is_it))
    }

    /// The next message that comes within `patience`; events are noted as well.
    fn next(&mut self, patience: Duration) -> Result<Option<Value>> {
        let is_late =
            |error: &io::Error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
        self.lines.get_ref().set_read_timeout(Some(patience))?;
        match self.lines.read_line(&mut self.partial) {
            Ok(0) => bail!("QEMU has ended"),
            Ok(_) => {}
            Err(error) if is_late(&error) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let line = std::mem::take(&mut self.partial);
        ensure!(line.ends_with('\n'), "QEMU has ended");
        let message: Value = serde_json::from_str(&line)?;
        if let Some(event) = message["event"].as_str() {
            let device = message["data"]["device"].as_str().unwrap_or_default();
            self.events.push((event.to_owned(), device.to_owned()));
        }
        Ok(Some(message))
    }
}
