//! Captures of both hosts, compared byte for byte.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use contract::address::MacAddress;
use testkit::pcap;
use testkit::process::Process;

use crate::frames::control;
use crate::wire::namespaces::Host;

/// A tcpdump at a host's `eth0`.
#[derive(Debug)]
pub struct Capture {
    process: Process,
    file: PathBuf,
}

impl Capture {
    /// Starts capturing all frames that pass `filter`.
    pub fn begin(host: &Host, filter: &str, folder: &Path) -> Result<Self> {
        let file = folder.join(format!("{}.pcap", host.name));
        let mut command = host.command("tcpdump");
        command.args(["-i", "eth0", "-n", "-s", "0", "-B", "65536", "-w"]);
        command.arg(&file).arg(filter);
        let log = folder.join(format!("{}.tcpdump", host.name));
        let mut process = Process::start_quiet(&mut command, log)?;
        process.until("tcpdump does not listen", |tcpdump| {
            Ok(tcpdump.log().contains("listening on").then_some(()))
        })?;
        Ok(Self { process, file })
    }

    /// Stops and returns the capture. Fails if the kernel dropped packets before tcpdump saw them.
    pub fn end(self) -> Result<Vec<u8>> {
        // Wait for its buffers.
        std::thread::sleep(Duration::from_millis(500));
        let log = self.process.end().context("tcpdump")?;
        let has_all = log.contains("\n0 packets dropped by kernel\n");
        ensure!(has_all, "tcpdump missed packets: {log}");
        fs::read(&self.file).context("tcpdump left no capture")
    }
}

/// Comparison of two captures of the same path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Frames that one host sent.
    pub sent: u64,
    /// Frames among these that the other received.
    pub received: u64,
    /// Frames that the other received from there but that were never sent in this form: changed or forged.
    pub changed: u64,
    /// Control frames that the other received, which no switch may forward.
    pub control: u64,
}

/// Compares the frames that left the host with the MAC address `from` with those received by another.
pub fn compare(at_sender: &[u8], at_receiver: &[u8], from: MacAddress) -> Result<Comparison> {
    let is_ours = |frame: &&[u8]| frame.get(6..12) == Some(&from.0);
    let mut comparison = Comparison::default();
    let mut open: HashMap<&[u8], u64> = HashMap::new();
    for frame in pcap::frames(at_sender)?.into_iter().filter(is_ours) {
        *open.entry(frame).or_default() += 1;
        comparison.sent += 1;
    }
    for frame in pcap::frames(at_receiver)? {
        comparison.control += u64::from(control(frame).is_some());
        if is_ours(&frame) {
            match open.get_mut(frame) {
                Some(left) if *left > 0 => {
                    *left -= 1;
                    comparison.received += 1;
                }
                _ => comparison.changed += 1,
            }
        }
    }
    Ok(comparison)
}

#[cfg(test)]
mod tests {
    use crate::frames::ETHERTYPE;

    use super::*;

    fn capture(frames: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = pcap::Writer::new(&mut bytes).unwrap();
        for frame in frames {
            writer.write(frame).unwrap();
        }
        bytes
    }

    fn frame(from: u8, payload: &[u8]) -> Vec<u8> {
        [&[9; 6], &[2, 0, 0, 0, 0, from][..], payload].concat()
    }

    #[test]
    fn one_changed_bit_is_found() {
        let (once, twice) = (frame(1, b"\x08\x00once"), frame(1, b"\x08\x00twice"));
        let sender = capture(&[&once, &twice, &twice, &frame(2, b"\x08\x00back")]);
        let compared = |at_receiver: &[u8]| {
            let from = MacAddress([2, 0, 0, 0, 0, 1]);
            let of = compare(&sender, at_receiver, from).unwrap();
            (of.sent, of.received, of.changed, of.control)
        };
        let same = capture(&[&twice, &once, &frame(3, b"\x08\x00else")]);
        assert_eq!(compared(&same), (3, 2, 0, 0));
        let mut changed = once.clone();
        changed[15] ^= 1;
        let mut leaked = frame(7, &ETHERTYPE.to_be_bytes());
        leaked.extend(b"VRNR");
        let other = capture(&[&changed, &twice, &twice, &twice, &leaked]);
        assert_eq!(compared(&other), (3, 2, 2, 1));
    }
}
