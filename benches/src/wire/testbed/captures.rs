//! What both hosts saw, byte for byte.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::spaces::Host;
use crate::throughput::process::{Owned, PATIENCE, until};
use crate::wire::frames::{ETHERTYPE, control};

/// Header of a capture, and of a packet in it.
const FILE_HEADER_BYTES: usize = 24;
const PACKET_HEADER_BYTES: usize = 16;
/// Microseconds or nanoseconds, in this machine's order of bytes.
const MAGICS: [u32; 2] = [0xa1b2_c3d4, 0xa1b2_3c4d];

/// A tcpdump at a host's `eth0`.
#[derive(Debug)]
pub struct Capture {
    process: Owned,
    file: PathBuf,
    log: PathBuf,
}

impl Capture {
    /// Begins, with all frames that pass `filter`.
    ///
    /// # Errors
    /// When it does not start.
    pub fn begin(host: &Host, filter: &str, folder: &Path, stop: &AtomicBool) -> Result<Self> {
        let file = folder.join(format!("{}.pcap", host.name));
        let log = folder.join(format!("{}.tcpdump", host.name));
        let mut process = Owned::start(
            host.command("tcpdump")
                .args(["-i", "eth0", "-n", "-s", "0", "-B", "65536", "-w"])
                .arg(&file)
                .arg(filter)
                .stdin(Stdio::null())
                .stderr(fs::File::create(&log)?),
        )?;
        until(PATIENCE, stop, "tcpdump does not listen", || {
            process.is_alive().context("tcpdump")?;
            let said = fs::read_to_string(&log).unwrap_or_default();
            Ok(said.contains("listening on").then_some(()))
        })?;
        Ok(Self { process, file, log })
    }

    /// Ends; what was captured.
    ///
    /// # Errors
    /// When it fails, or the kernel dropped packets before it saw them.
    pub fn end(mut self, stop: &AtomicBool) -> Result<Frames> {
        // What it still buffers.
        std::thread::sleep(Duration::from_millis(500));
        self.process.terminate()?;
        self.process.wait(PATIENCE, stop).context("tcpdump")?;
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        let dropped = said
            .lines()
            .find(|line| line.ends_with("dropped by kernel"));
        let dropped = dropped.and_then(|line| line.split(' ').next()?.parse::<u64>().ok());
        ensure!(dropped == Some(0), "tcpdump missed packets: {said}");
        let bytes = fs::read(&self.file).context("no capture")?;
        Ok(Frames { bytes })
    }
}

/// A capture in memory.
#[derive(Debug, Clone, Default)]
pub struct Frames {
    bytes: Vec<u8>,
}

impl Frames {
    /// Its frames.
    ///
    /// # Errors
    /// When it is no capture.
    pub fn all(&self) -> Result<Vec<&[u8]>> {
        let Some((header, mut rest)) = self.bytes.split_at_checked(FILE_HEADER_BYTES) else {
            bail!("a capture of {} bytes", self.bytes.len());
        };
        let magic = header.first_chunk().map(|magic| u32::from_ne_bytes(*magic));
        ensure!(
            magic.is_some_and(|magic| MAGICS.contains(&magic)),
            "no capture"
        );
        let mut frames = Vec::new();
        while let Some((header, behind)) = rest.split_first_chunk::<PACKET_HEADER_BYTES>() {
            let &[.., a, b, c, d, _, _, _, _] = header;
            let length = u32::from_ne_bytes([a, b, c, d]) as usize;
            let Some((frame, next)) = behind.split_at_checked(length) else {
                break;
            };
            frames.push(frame);
            rest = next;
        }
        Ok(frames)
    }
}

/// How two captures of the same path compare.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Frames that one host sent.
    pub sent: u64,
    /// Frames of these that the other received.
    pub received: u64,
    /// Frames that the other received from there and that were never sent so: changed, or made up.
    pub changed: u64,
    /// Control frames among what the other received: none should get out of a switch.
    pub control: u64,
}

/// Compares what left a host with the Ethernet address `from` with what came to another.
///
/// # Errors
/// When one is no capture.
pub fn compare(at_sender: &Frames, at_receiver: &Frames, from: &str) -> Result<Comparison> {
    let from: Option<Vec<u8>> = from
        .split(':')
        .map(|octet| u8::from_str_radix(octet, 16).ok())
        .collect();
    let from = from
        .filter(|from| from.len() == 6)
        .context("an Ethernet address")?;
    let is_ours = |frame: &&[u8]| frame.get(6..12) == Some(from.as_slice());
    let mut comparison = Comparison::default();
    let mut open: HashMap<&[u8], u64> = HashMap::new();
    for frame in at_sender.all()?.into_iter().filter(is_ours) {
        *open.entry(frame).or_default() += 1;
        comparison.sent += 1;
    }
    let received = at_receiver.all()?;
    comparison.control = received
        .iter()
        .filter(|frame| control(frame, ETHERTYPE).is_some())
        .count() as u64;
    for frame in received.into_iter().filter(is_ours) {
        match open.get_mut(frame) {
            Some(left) if *left > 0 => {
                *left -= 1;
                comparison.received += 1;
            }
            _ => comparison.changed += 1,
        }
    }
    Ok(comparison)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(frames: &[&[u8]]) -> Frames {
        let mut bytes = vec![0; FILE_HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGICS[0].to_ne_bytes());
        for frame in frames {
            let length = u32::try_from(frame.len()).unwrap().to_ne_bytes();
            bytes.extend([[0; 4], [0; 4], length, length].concat());
            bytes.extend(*frame);
        }
        Frames { bytes }
    }

    fn frame(from: u8, payload: &[u8]) -> Vec<u8> {
        [&[9; 6], &[2, 0, 0, 0, 0, from][..], payload].concat()
    }

    #[test]
    fn one_changed_bit_is_found() {
        let from = "02:00:00:00:00:01";
        let (once, twice) = (frame(1, b"\x08\x00once"), frame(1, b"\x08\x00twice"));
        let sender = capture(&[&once, &twice, &twice, &frame(2, b"\x08\x00back")]);
        let same = capture(&[&twice, &once, &frame(3, b"\x08\x00else")]);
        let comparison = compare(&sender, &same, from).unwrap();
        assert_eq!(
            (comparison.sent, comparison.received, comparison.changed),
            (3, 2, 0)
        );
        let mut changed = once.clone();
        changed[15] ^= 1;
        let mut leaked = frame(7, &ETHERTYPE.to_be_bytes());
        leaked.extend(b"VRNR");
        let other = capture(&[&changed, &twice, &twice, &twice, &leaked]);
        let comparison = compare(&sender, &other, from).unwrap();
        assert_eq!(
            (comparison.received, comparison.changed, comparison.control),
            (2, 2, 1)
        );
        assert!(Frames::default().all().is_err());
        assert!(Frames { bytes: vec![1; 30] }.all().is_err());
    }
}
