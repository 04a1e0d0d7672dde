//! The plugin's log: lines where the program's DPDK logs.

use std::io::{self, Write};

use dpdk_bindings::plugin::{self, Level};
use tracing::Metadata;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Sends what is traced to DPDK's log, and panics, too.
pub fn start() {
    let filter = EnvFilter::try_from_env("VERNIER_LOG")
        .unwrap_or_else(|_| EnvFilter::new("info,async_nats=warn"));
    // In vain only where it was done before.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(DpdkLog)
        .with_ansi(false)
        .with_level(false)
        .with_target(false)
        .without_time()
        .try_init();
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
}

struct DpdkLog;

/// One line, written when it is complete.
struct Line {
    level: Level,
    text: Vec<u8>,
}

impl<'w> MakeWriter<'w> for DpdkLog {
    type Writer = Line;

    fn make_writer(&'w self) -> Line {
        Line {
            level: Level::Info,
            text: Vec::new(),
        }
    }

    fn make_writer_for(&'w self, meta: &Metadata<'_>) -> Line {
        let level = match *meta.level() {
            tracing::Level::ERROR => Level::Error,
            tracing::Level::WARN => Level::Warning,
            tracing::Level::INFO => Level::Info,
            _ => Level::Debug,
        };
        Line {
            level,
            text: Vec::new(),
        }
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        plugin::log(self.level, &String::from_utf8_lossy(&self.text));
    }
}
