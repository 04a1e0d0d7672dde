//! Reports as if from many switches: each sends one a second, at its own time within the second.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use anyhow::{Result, anyhow};
use async_nats::jetstream::{self, message::PublishMessage};
use contract::config::Nats;
use prost::Message;
use report::connection::Connection;
use report::msp::{self, Health, Quantiles, Report};
use report::subject;
use testkit::process::Background;

use crate::PROGRAM;
use crate::ports::nanoseconds;

/// Offset of class and method in the names, after the ports.
const CLASS: &str = "all";

/// The switches, and counts of their reports.
#[derive(Debug)]
pub struct Switches {
    /// Reports that JetStream has stored.
    pub stored: AtomicU64,
    /// Reports that JetStream has not stored.
    pub failed: AtomicU64,
    /// When the first epoch of switch 0 ended.
    origin: Instant,
    pub count: u32,
    ports: u32,
}

/// The thread that sends.
#[derive(Debug)]
pub struct Generator {
    pub switches: Arc<Switches>,
    sending: Background<Result<()>>,
}

/// A switch's name.
pub fn name(switch: u32) -> String {
    format!("switch-{switch:06}")
}

/// The report of a switch with this number of ports, patched in pairs, whose epoch ends now.
pub fn report(switch: u32, ports: u32, epoch: u64) -> Report {
    let names = (0..ports).map(|port| format!("port{port:02}"));
    let segment = |port: u32| msp::Segment {
        from: port,
        to: port ^ 1,
        class: ports,
        method: ports + 1,
        packets: 1_000_000 + u64::from(switch % 1_000),
        bytes: 700_000_000,
        lost: i64::from(port % 3),
        samples: 999_990,
        mean_ns: 2_000.0 + switch as f32,
        bound_ns: Some(0.0),
        stddev_ns: Some(310.0),
        quantiles: Some(Quantiles {
            min_ns: 700.0,
            max_ns: 90_000.0,
            p50_ns: 1_900.0,
            p99_ns: 4_000.0,
            p999_ns: 9_000.0,
        }),
        ..msp::Segment::default()
    };
    Report {
        version_major: msp::VERSION_MAJOR,
        version_minor: msp::VERSION_MINOR,
        switch: name(switch),
        incarnation: u64::from(switch) + 1,
        epoch,
        epochs: 1,
        start_unix_ns: nanoseconds(UNIX_EPOCH.elapsed().unwrap_or_default()) - 1_000_000_000,
        length_ns: 1_000_000_000,
        health: Some(Health::default()),
        names: names
            .chain([CLASS.to_owned(), "stamped".to_owned()])
            .collect(),
        segments: (0..ports).map(segment).collect(),
        ..Report::default()
    }
}

impl Generator {
    /// Starts sending; the streams must exist.
    pub fn start(url: &str, count: u32, ports: u32) -> Result<Self> {
        let switches = Arc::new(Switches {
            stored: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            origin: Instant::now() + Duration::from_secs(1),
            count,
            ports,
        });
        let connection = Connection::of(&Nats::to(url))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let sender = Arc::clone(&switches);
        let sending =
            Background::start(move |stopped| runtime.block_on(sender.send(&connection, stopped)));
        Ok(Self { switches, sending })
    }

    /// Stops sending, and waits for reports in flight.
    pub fn stop(self) -> Result<()> {
        self.sending.end()?
    }
}

impl Switches {
    /// When an epoch of a switch ends: each has its own time within the second.
    pub fn end_of(&self, switch: u32, epoch: u64) -> Instant {
        let offset = Duration::from_secs(1) * switch / self.count;
        self.origin + Duration::from_secs(epoch) + offset
    }

    /// The first epoch of a switch that has not ended yet.
    pub fn next_of(&self, switch: u32) -> u64 {
        let since = Instant::now().saturating_duration_since(self.end_of(switch, 0));
        since.as_secs() + 1
    }

    async fn send(self: Arc<Self>, connection: &Connection, stopped: &AtomicBool) -> Result<()> {
        let client = connection
            .connect(PROGRAM, |_| ())
            .await
            .map_err(|error| anyhow!(error))?;
        let context = jetstream::new(client);
        let mut answers = tokio::task::JoinSet::new();
        'epochs: for epoch in 0.. {
            for switch in 0..self.count {
                tokio::time::sleep_until(self.end_of(switch, epoch).into()).await;
                if stopped.load(Ordering::Relaxed) {
                    break 'epochs;
                }
                let report = report(switch, self.ports, epoch);
                let message = PublishMessage::build()
                    .message_id(report.message_id())
                    .payload(report.encode_to_vec().into());
                let sent = context
                    .send_publish(subject::of_switch(&report.switch), message)
                    .await;
                let counts = Arc::clone(&self);
                answers.spawn(async move {
                    let is_stored = async { sent.ok()?.await.ok() }.await.is_some();
                    let count = if is_stored {
                        &counts.stored
                    } else {
                        &counts.failed
                    };
                    count.fetch_add(1, Ordering::Relaxed);
                });
                while answers.try_join_next().is_some() {}
            }
        }
        while answers.join_next().await.is_some() {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_by_the_codec_and_as_small_as_a_switchs() {
        let bytes = report(7, 16, 3).encode_to_vec();
        assert_eq!(
            Report::read(&bytes)
                .map(|report| report.segments.len())
                .ok(),
            Some(16)
        );
        assert!((1_000..2_000).contains(&bytes.len()), "{}", bytes.len());
    }

    #[test]
    fn switches_share_the_second() {
        let switches = Switches {
            stored: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            origin: Instant::now(),
            count: 1_000,
            ports: 16,
        };
        let end = switches.end_of(500, 2) - switches.origin;
        assert_eq!(end, Duration::from_millis(2_500));
    }
}
