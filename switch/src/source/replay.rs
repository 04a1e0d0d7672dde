//! A capture, replayed with its own timing.
//!
//! The file itself is the store: it is read once, and each packet is an index into it.

use std::fs::File;
use std::io::Read;

use contract::config::device;

use super::{Frame, SourceError, Warning};
use index::{Index, Record, is_pcapng, may_be_capture};

mod index;
mod pcap;

/// The longest file that is held in memory: positions in it are 32 bits.
const FILE_BYTES_MAX: u64 = u32::MAX as u64;
/// Bytes that say whether a file is a capture.
const FIRST_BYTES: u64 = 4;
/// How long one loop lasts over a capture that has no span, as one of a single packet.
const SPANLESS_LOOP_NS: u64 = 1_000_000;
/// The longest time between two packets that is nobody's mistake: one hour.
const GAP_NS_MAX: u64 = 3_600_000_000_000;

/// A capture in memory, and the packet that is due next.
#[derive(Debug)]
pub struct Replay {
    file_bytes: Vec<u8>,
    records: Vec<Record>,
    warnings: Vec<Warning>,
    /// Loops still to be played after the present one; `None` for ever.
    loops_left: Option<u64>,
    loop_ns: u64,
    loop_start_ns: u64,
    /// The record due next; one past the last when exhausted.
    next: usize,
}

impl Replay {
    /// Reads the capture whole.
    ///
    /// Frames captured short are padded to their wire length; those longer than the port carries
    /// (MTU, Ethernet header and two VLAN tags) are cut to that. A packet stamped earlier than
    /// the one before it is due together with that one. Frame check sequences are removed where the
    /// file says that there are some. One loop lasts the capture's span and its
    /// mean gap.
    ///
    /// # Errors
    /// [`SourceError`] when the file cannot be read, is longer than 4 GiB, is neither pcap nor
    /// pcapng, is not of Ethernet frames, or holds no packet. One that is damaged further on is
    /// replayed up to there, with a [`Warning`].
    pub fn open(spec: &device::Replay, mtu_bytes: u16) -> Result<Self, SourceError> {
        let file = || spec.file.clone();
        let mut file_bytes = Vec::new();
        let read = |error| SourceError::Read {
            file: file(),
            error,
        };
        let mut opened = File::open(&spec.file).map_err(read)?;
        // Its first bytes alone, so that gigabytes of something else are not read; a device may have no end.
        opened
            .by_ref()
            .take(FIRST_BYTES)
            .read_to_end(&mut file_bytes)
            .map_err(read)?;
        if !file_bytes.is_empty() && !may_be_capture(&file_bytes) {
            return Err(SourceError::NotACapture { file: file() });
        }
        // Bounded here and not by the file's size: a pipe has none.
        opened
            .take(FILE_BYTES_MAX)
            .read_to_end(&mut file_bytes)
            .map_err(read)?;
        if file_bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(SourceError::TooLarge {
                file: file(),
                limit_bytes: FILE_BYTES_MAX,
            });
        }
        Self::from_bytes(file_bytes, spec, mtu_bytes)
    }

    /// The same with a file that is in memory already; `spec` names it in errors.
    ///
    /// # Errors
    /// As [`open`](Self::open), but for reading.
    pub fn from_bytes(
        file_bytes: Vec<u8>,
        spec: &device::Replay,
        mtu_bytes: u16,
    ) -> Result<Self, SourceError> {
        let file = || spec.file.clone();
        if file_bytes.is_empty() {
            return Err(SourceError::NoBytes { file: file() });
        }
        let mut index = Index::new(mtu_bytes);
        let understood_bytes = if is_pcapng(&file_bytes) {
            index.add_pcapng(&file_bytes)
        } else {
            index.add_pcap(&file_bytes)
        };
        let understood_bytes = understood_bytes.map_err(|reason| reason.at(file()))?;
        let Index {
            mut records,
            limit_bytes,
            cut,
            ..
        } = index;
        let (Some(first), Some(last)) = (records.first(), records.last()) else {
            let file = file();
            return Err(if understood_bytes < file_bytes.len() {
                SourceError::Unreadable {
                    file,
                    from_byte: understood_bytes,
                }
            } else {
                SourceError::Empty { file }
            });
        };
        let span_ns = last.due_ns - first.due_ns;
        let loop_ns = match span_ns {
            0 => SPANLESS_LOOP_NS,
            // There are two packets at least, or there were no span.
            _ => span_ns + span_ns / (records.len() as u64 - 1),
        };
        for record in &mut records {
            record.due_ns = scaled(record.due_ns, spec.speed);
        }
        let damaged = (understood_bytes < file_bytes.len()).then(|| Warning::Damaged {
            file: file(),
            from_byte: understood_bytes,
            packets: records.len(),
        });
        let cut = (cut > 0).then(|| Warning::Cut {
            file: file(),
            packets: cut,
            limit_bytes,
        });
        let gap = gap(&records).map(|(late, gap_ns)| Warning::Gap {
            file: file(),
            packets: records.len(),
            late,
            gap_ns,
        });
        Ok(Self {
            file_bytes,
            records,
            warnings: damaged.into_iter().chain(cut).chain(gap).collect(),
            loops_left: spec.loops.checked_sub(1),
            loop_ns: scaled(loop_ns, spec.speed).max(1),
            loop_start_ns: 0,
            next: 0,
        })
    }

    /// See [`super::Source::poll`].
    #[inline]
    pub fn poll(
        &mut self,
        elapsed_ns: u64,
        room: usize,
        mut emit: impl FnMut(Frame<'_>) -> bool,
    ) -> usize {
        let mut emitted = 0;
        while emitted < room
            && let Some(record) = self.records.get(self.next)
            && self.loop_start_ns.saturating_add(record.due_ns) <= elapsed_ns
        {
            let start = record.start as usize;
            let head = &self.file_bytes[start..start + usize::from(record.captured_bytes)];
            if !emit(Frame {
                head,
                len_bytes: record.wire_bytes.into(),
            }) {
                break;
            }
            emitted += 1;
            self.advance();
        }
        emitted
    }

    fn advance(&mut self) {
        self.next += 1;
        if self.next == self.records.len() && self.loops_left != Some(0) {
            self.loops_left = self.loops_left.map(|left| left - 1);
            self.loop_start_ns = self.loop_start_ns.saturating_add(self.loop_ns);
            self.next = 0;
        }
    }

    /// Whether the last loop is over.
    #[inline]
    pub fn exhausted(&self) -> bool {
        self.next == self.records.len()
    }

    /// Packets that are played in all; of a capture that is played for ever those of one loop.
    pub fn planned_packets(&self) -> u64 {
        let more = self.loops_left.unwrap_or(0);
        (self.records.len() as u64).saturating_mul(more.saturating_add(1))
    }

    /// Packets in the capture.
    pub fn packets(&self) -> usize {
        self.records.len()
    }

    /// What was found amiss in the file.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

/// The first time between two packets that is longer than [`GAP_NS_MAX`], and how many packets come after it.
fn gap(records: &[Record]) -> Option<(usize, u64)> {
    let between = records
        .windows(2)
        .map(|pair| pair[1].due_ns - pair[0].due_ns);
    let (before, gap_ns) = between
        .enumerate()
        .find(|&(_, gap_ns)| gap_ns > GAP_NS_MAX)?;
    Some((records.len() - before - 1, gap_ns))
}

/// `time_ns` at `speed` times the capture's own pace.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates: never due at all is what a speed of nearly nothing means"
)]
fn scaled(time_ns: u64, speed: f64) -> u64 {
    (time_ns as f64 / speed) as u64
}

#[cfg(test)]
mod tests;
