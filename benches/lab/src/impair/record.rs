//! Writes transits on a separate thread, so that the loop never waits for a disk.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use rtrb::{Consumer, Producer, RingBuffer};

use crate::transits::{MAGIC, Transit};

/// Maximum number of transits queued for writing.
const ROOM: usize = 1 << 18;

/// How often the writer checks for transits.
const LOOK: Duration = Duration::from_millis(1);

/// The loop's end of the record.
#[derive(Debug)]
pub struct Recorder {
    to_write: Producer<Transit>,
    writer: JoinHandle<io::Result<()>>,
    unwritten: u64,
}

impl Recorder {
    pub fn create(file: &Path) -> io::Result<Self> {
        let mut out = BufWriter::with_capacity(1 << 20, File::create(file)?);
        out.write_all(&MAGIC)?;
        let (to_write, written) = RingBuffer::new(ROOM);
        let writer = std::thread::Builder::new()
            .name("record".to_owned())
            .spawn(|| write(written, out))?;
        Ok(Self {
            to_write,
            writer,
            unwritten: 0,
        })
    }

    /// Passes a transit on; if the writer lags behind, only counts it.
    pub fn put(&mut self, transit: Transit) {
        self.unwritten += u64::from(self.to_write.push(transit).is_err());
    }

    /// Transits that were not written.
    pub fn unwritten(&self) -> u64 {
        self.unwritten
    }

    /// Waits until all is written.
    pub fn end(self) -> io::Result<()> {
        drop(self.to_write);
        let ended = self.writer.join();
        ended.unwrap_or_else(|_| Err(io::Error::other("the writer panicked")))
    }
}

fn write(mut written: Consumer<Transit>, mut out: impl Write) -> io::Result<()> {
    let mut record = Vec::new();
    loop {
        // Read before the last transits are taken.
        let is_over = written.is_abandoned();
        while let Ok(transit) = written.pop() {
            record.clear();
            record = postcard::to_extend(&transit, record).map_err(io::Error::other)?;
            out.write_all(&record)?;
        }
        if is_over {
            return out.flush();
        }
        std::thread::sleep(LOOK);
    }
}
