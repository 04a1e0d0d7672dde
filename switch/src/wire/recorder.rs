//! The exact truth for tests: a record of every packet at both ends of a wire, in a file.
//!
//! | bytes | field (little-endian) |
//! |---|---|
//! | 0..8 | packet hash |
//! | 8..16 | flow hash |
//! | 16..24 | time: ns of TAI |
//! | 24..28 | epoch of the sender's, low 32 bits |
//! | 28 | 0 sent, 1 received |
//! | 29 | port |
//! | 30 | segment of the wire |
//! | 31 | 0 |

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use contract::ids::PortIndex;
use measure::observation::{End, Observation};
use rtrb::{Consumer, Producer, RingBuffer};

/// Bytes of a record.
pub const RECORD_BYTES: usize = 32;

/// Most records queued for each wire; further ones are counted.
const WAITING_MAX: usize = 1 << 20;

/// Interval of the writer.
const REST: Duration = Duration::from_millis(5);

type Record = [u8; RECORD_BYTES];

/// A worker's end.
#[derive(Debug)]
pub struct Recorder {
    port: PortIndex,
    records: Producer<Record>,
    lost: Arc<AtomicU64>,
}

impl Recorder {
    /// Records packets of an epoch of the sender; their times are TAI.
    #[cold]
    pub fn record(&mut self, end: End, epoch: u64, observations: &[Observation]) {
        #[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
        let epoch = epoch as u32;
        let mut left = observations.len();
        for observation in observations {
            let mut record = [0; RECORD_BYTES];
            record[..8].copy_from_slice(&observation.packet.0.to_le_bytes());
            record[8..16].copy_from_slice(&observation.flow.0.to_le_bytes());
            record[16..24].copy_from_slice(&observation.time.to_le_bytes());
            record[24..28].copy_from_slice(&epoch.to_le_bytes());
            record[28] = u8::from(end == End::Receiver);
            record[29] = self.port.0;
            record[30] = observation.segment.0.to_le_bytes()[0];
            if self.records.push(record).is_err() {
                break;
            }
            left -= 1;
        }
        self.lost.fetch_add(left as u64, Ordering::Relaxed);
    }
}

/// The file, and the thread that writes it until it is dropped.
#[derive(Debug)]
pub struct Recording {
    sources: Arc<Mutex<Vec<Consumer<Record>>>>,
    lost: Arc<AtomicU64>,
    stop: Arc<AtomicU64>,
    writer: Option<thread::JoinHandle<std::io::Result<()>>>,
}

impl Recording {
    /// Starts a file; overwrites an existing one.
    ///
    /// # Errors
    /// If the file cannot be created, or no thread be started.
    pub fn begin(file: &Path) -> std::io::Result<Self> {
        let mut file = BufWriter::with_capacity(1 << 20, File::create(file)?);
        let sources: Arc<Mutex<Vec<Consumer<Record>>>> = Arc::default();
        let stop = Arc::new(AtomicU64::new(0));
        let (theirs, is_over) = (Arc::clone(&sources), Arc::clone(&stop));
        let writer = thread::Builder::new()
            .name("vernier-truth".to_owned())
            .spawn(move || {
                loop {
                    let last = is_over.load(Ordering::Acquire) != 0;
                    let mut sources = theirs.lock().unwrap_or_else(PoisonError::into_inner);
                    for source in sources.iter_mut() {
                        while let Ok(record) = source.pop() {
                            file.write_all(&record)?;
                        }
                    }
                    sources.retain(|source| !source.is_abandoned() || !source.is_empty());
                    drop(sources);
                    file.flush()?;
                    if last {
                        return Ok(());
                    }
                    thread::sleep(REST);
                }
            })?;
        Ok(Self {
            sources,
            lost: Arc::default(),
            stop,
            writer: Some(writer),
        })
    }

    /// A recorder for the wire of a port.
    pub fn recorder(&self, port: PortIndex) -> Recorder {
        let (records, source) = RingBuffer::new(WAITING_MAX);
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.push(source);
        Recorder {
            port,
            records,
            lost: Arc::clone(&self.lost),
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.stop.store(1, Ordering::Release);
        let written = self.writer.take().map(thread::JoinHandle::join);
        let lost = self.lost.load(Ordering::Relaxed);
        if lost > 0 {
            tracing::warn!("{lost} records of the wire were lost: the disk was too slow");
        }
        if !matches!(written, Some(Ok(Ok(())))) {
            tracing::error!("the record of the wire is incomplete: it could not be written");
        }
    }
}
