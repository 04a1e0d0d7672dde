//! Sends reports from a separate thread, which asks a [`Reporter`] for them and blocks nobody.
//!
//! ```text
//!  every look: reporter -> report -> spool           connect, with retries after pauses that double
//!                                      |                       |
//!                                      +--> first packet --> publish --> acknowledged: next packet
//! ```
//!
//! One packet is in flight at a time, so that packets arrive in order. A packet that is sent again has the same id,
//! by which the server or the station drops duplicates. A panic of the thread is contained: the reports in the spool
//! count as dropped, and the thread continues.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use contract::config::Report as Settings;
use control::contain::{Part, contain};
use control::published::Published;
pub use control::published::ReportCounters;
use control::running::{FAREWELL, backoff, look_every};
use prost::Message;
use records::snapshot::Reports;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use crate::client::{Answer, Client, ClientFault};
use crate::compose::Composer;
use crate::connection::{Connection, ConnectionError};
use crate::msp::Report;
use crate::subject;

/// Pause before the thread continues after a panic.
const PAUSE: Duration = Duration::from_millis(500);

/// A configured sender that does not send yet.
#[derive(Debug)]
pub struct Sender {
    settings: Settings,
    connection: Connection,
}

/// A running sender; stopped when dropped.
pub type Running = control::running::Running<watch::Sender<()>>;

impl Sender {
    /// Reads secrets without connecting; returns `None` if no reports are configured.
    ///
    /// # Errors
    /// [`ConnectionError`] if the configured connection is impossible.
    pub fn of(settings: Option<&Settings>) -> Result<Option<Self>, ConnectionError> {
        let sender = |settings: &Settings| {
            Ok(Self {
                settings: settings.clone(),
                connection: Connection::of(&settings.nats)?,
            })
        };
        settings.map(sender).transpose()
    }

    /// Reports new epochs in `published`, under a random number for this run.
    ///
    /// # Errors
    /// If the system cannot provide a random number, a thread or an event queue.
    pub fn start(self, published: Arc<Published>) -> std::io::Result<Running> {
        let counters = Arc::new(ReportCounters::default());
        let _ = published.reports.set(Arc::clone(&counters));
        let top_flows = self.settings.top_flows as usize;
        let epochs = Epochs {
            composer: Composer::new(getrandom::u64()?, top_flows),
            published,
        };
        self.start_with(epochs, counters)
    }

    /// Sends the reports of this reporter.
    ///
    /// # Errors
    /// If the system cannot start a thread or an event queue.
    pub fn start_with<R: Reporter>(
        self,
        reporter: R,
        counters: Arc<ReportCounters>,
    ) -> std::io::Result<Running> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .thread_name("vernier-report")
            .max_blocking_threads(2)
            .build()?;
        let (stop, mut stopped) = watch::channel(());
        let sending = Sending {
            token: subject::token(&reporter.name()),
            reporter: RefCell::new(reporter),
            spool: RefCell::new(Spool::new(self.settings.spool_kib as usize * 1_024)),
            run: getrandom::u64()?,
            settings: self.settings,
            connection: self.connection,
            news: Notify::new(),
            counters,
        };
        let run = move || {
            let mut is_over = false;
            while !is_over {
                let ran = contain(Part::Report, || {
                    runtime.block_on(sending.run(stopped.clone()));
                });
                is_over = ran.is_some();
                if !is_over {
                    sending.reset();
                    let pause = async { timeout(PAUSE, stopped.changed()).await.is_ok() };
                    is_over = runtime.block_on(pause);
                }
            }
        };
        Running::start("vernier-report", stop, run)
    }
}

/// Shared state of the thread's two tasks.
struct Sending<R> {
    settings: Settings,
    reporter: RefCell<R>,
    spool: RefCell<Spool>,
    connection: Connection,
    /// The reporter's name as a token in subjects.
    token: String,
    /// Random part of the messages' ids, so that nobody else can send a message that the server would take for a
    /// duplicate of a report of this run.
    run: u64,
    /// Notified when there is something to send.
    news: Notify,
    counters: Arc<ReportCounters>,
}

impl<R: Reporter> Sending<R> {
    async fn run(&self, mut stopped: watch::Receiver<()>) {
        tokio::select! {
            () = self.look_again_and_again() => {}
            () = self.send_again_and_again() => {}
            _ = stopped.changed() => {}
        }
        self.look();
        let _ = timeout(FAREWELL, async {
            let Ok(mut client) = self.connect(0).await else {
                return;
            };
            while self.spool.borrow().first().is_some()
                && matches!(self.send_first(&mut client).await, Ok(true))
            {}
        })
        .await;
        let unsent = self.spool.borrow().bytes;
        if unsent > 0 {
            tracing::warn!("{unsent} bytes of reports were not sent before the end");
        }
    }

    /// After a panic: a report that was half made or half stored is not sent.
    fn reset(&self) {
        let empty = Spool::new(self.settings.spool_kib as usize * 1_024);
        let spool = self.spool.replace(empty);
        let dropped = spool.packets.len() as u64;
        self.counters.count(|now| {
            now.dropped += dropped;
            now.spooled_bytes = 0;
            now.is_connected = false;
        });
    }

    async fn look_again_and_again(&self) {
        loop {
            self.look();
            let interval_ms = self.reporter.borrow().interval_ms();
            sleep(look_every(interval_ms)).await;
        }
    }

    /// Moves new reports to the spool.
    fn look(&self) {
        let dropped = || self.counters.read().dropped;
        while let Some(report) = self.reporter.borrow_mut().next(dropped()) {
            let packet = Packet {
                id: format!("{}.{:016x}", report.message_id(), self.run),
                subject: subject::of_switch(&report.switch),
                bytes: report.encode_to_vec(),
            };
            let mut spool = self.spool.borrow_mut();
            let dropped = spool.push(packet);
            self.counters.count(|now| now.dropped += dropped);
            self.note_size(&spool);
            self.news.notify_one();
        }
    }

    fn note_size(&self, spool: &Spool) {
        let bytes = spool.bytes as u64;
        self.counters.count(|now| now.spooled_bytes = bytes);
    }

    /// Connects with retries; the pause doubles until a report is stored.
    async fn send_again_and_again(&self) {
        let (mut attempt, mut failures) = (0, 0);
        loop {
            match self.connect(attempt).await {
                Ok(mut client) => {
                    self.counters.count(|now| now.is_connected = true);
                    tracing::info!("reports: connected to NATS");
                    let fault = self.send_over(&mut client, &mut failures).await;
                    self.counters.count(|now| now.is_connected = false);
                    let lost = format!("the connection to NATS is lost: {fault}");
                    self.complain(&format!("{lost}; they wait in the spool"));
                }
                Err(error) => self.complain(&error),
            }
            attempt += 1;
            failures += 1;
            sleep(backoff(failures)).await;
        }
    }

    async fn connect(&self, attempt: usize) -> Result<Client, String> {
        let name = format!("vernier {}", self.reporter.borrow().name());
        let inbox = format!("_INBOX.{}.{:016x}", self.token, self.run);
        self.connection.open(&name, &inbox, attempt).await
    }

    /// Sends while the connection is up.
    async fn send_over(&self, client: &mut Client, failures: &mut usize) -> ClientFault {
        loop {
            let has_news = self.spool.borrow().first().is_some();
            let sent = if has_news {
                self.send_first(client).await
            } else {
                tokio::select! {
                    () = self.news.notified() => continue,
                    fault = client.idle() => Err(fault),
                }
            };
            match sent {
                Ok(true) => *failures = 0,
                Ok(false) => {
                    *failures += 1;
                    tokio::select! {
                        () = sleep(backoff(*failures)) => {}
                        fault = client.idle() => return fault,
                    }
                }
                Err(fault) => return fault,
            }
        }
    }

    /// Sends the oldest packet; returns whether it was stored. It stays in the spool until then.
    async fn send_first(&self, client: &mut Client) -> Result<bool, ClientFault> {
        let Some(packet) = self.spool.borrow().first().cloned() else {
            return Ok(true);
        };
        self.counters.count(|now| now.sent += 1);
        let published = client.publish(&packet.subject, &packet.id, &packet.bytes);
        let count: fn(&mut Reports) = match published.await? {
            Answer::Stored => {
                self.counters.clear_complaint();
                |now: &mut Reports| now.acknowledged += 1
            }
            Answer::TooGreat(max_payload) => {
                let bytes = packet.bytes.len();
                self.complain(&format!(
                    "a report of {bytes} bytes is dropped: the server takes {max_payload}; raise its max_payload"
                ));
                |now: &mut Reports| now.dropped += 1
            }
            Answer::NoStream => {
                self.complain(&self.no_stream(client));
                return Ok(false);
            }
            Answer::Refused(words) => {
                self.complain(&format!(
                    "the server stores no reports: {words}; see the log of the server"
                ));
                return Ok(false);
            }
        };
        let mut spool = self.spool.borrow_mut();
        spool.take(&packet.id);
        self.note_size(&spool);
        self.counters.count(count);
        Ok(true)
    }

    /// Why no stream receives reports, as far as a sender can tell, and what to do.
    fn no_stream(&self, client: &Client) -> String {
        let why = if !client.info.jetstream {
            "the server has no JetStream (nats-server --jetstream)"
        } else if self.counters.read().acknowledged > 0 {
            "the stream of reports is gone: the server lost its store, or the stream was deleted. Connected stations create it again within seconds"
        } else {
            "there is none yet, or the server lost its store. Connected stations create it within seconds: see /readyz of vernier-station"
        };
        format!("no stream takes reports: {why}; they wait in the spool")
    }

    /// Logs a complaint, unless it repeats the previous one.
    fn complain(&self, complaint: &str) {
        if self.counters.complain(complaint) {
            tracing::warn!("reports: {complaint}");
        }
    }
}

/// An encoded report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packet {
    pub id: String,
    pub subject: String,
    pub bytes: Vec<u8>,
}

impl Packet {
    fn size(&self) -> usize {
        size_of::<Self>() + self.id.len() + self.subject.len() + self.bytes.len()
    }
}

/// Packets in order, limited in total size. The oldest is dropped first.
#[derive(Debug)]
pub(crate) struct Spool {
    packets: VecDeque<Packet>,
    bytes: usize,
    bytes_max: usize,
}

impl Spool {
    pub fn new(bytes_max: usize) -> Self {
        Self {
            packets: VecDeque::new(),
            bytes: 0,
            bytes_max,
        }
    }

    /// Adds a packet; returns how many were dropped for it. A packet larger than the spool is itself
    /// dropped.
    pub fn push(&mut self, packet: Packet) -> u64 {
        self.bytes += packet.size();
        self.packets.push_back(packet);
        let mut dropped = 0;
        while self.bytes > self.bytes_max && self.pop().is_some() {
            dropped += 1;
        }
        dropped
    }

    /// The oldest packet.
    pub fn first(&self) -> Option<&Packet> {
        self.packets.front()
    }

    fn pop(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.size();
        Some(packet)
    }

    /// Removes the packet of this id after a server stored it. Does nothing if it was dropped meanwhile.
    pub fn take(&mut self, id: &str) -> bool {
        let is_first = self.first().is_some_and(|first| first.id == id);
        is_first && self.pop().is_some()
    }
}

/// Makes reports, once each, in the order of their epochs.
pub trait Reporter: Send + 'static {
    /// The next report; `None` until another epoch has closed. `dropped_reports` comes from the spool.
    fn next(&mut self, dropped_reports: u64) -> Option<Report>;

    /// Length of an epoch in ms.
    fn interval_ms(&self) -> u32;

    /// The name in reports.
    fn name(&self) -> String;
}

/// Reports the epochs that a switch publishes.
#[derive(Debug)]
pub(crate) struct Epochs {
    composer: Composer,
    published: Arc<Published>,
}

impl Reporter for Epochs {
    fn next(&mut self, dropped_reports: u64) -> Option<Report> {
        self.composer
            .report(&self.published.read(), dropped_reports)
    }

    fn interval_ms(&self) -> u32 {
        self.published.read().interval_ms
    }

    fn name(&self) -> String {
        self.published.read().switch.clone()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Bytes stay within the limit; what is neither dropped nor taken is there, in order.
        #[test]
        fn all_are_accounted_for(sizes in prop::collection::vec(0_usize..400, 0..60), take in 0_usize..7) {
            let mut spool = Spool::new(1_000);
            let (mut dropped, mut taken) = (0, 0);
            for (n, &size) in sizes.iter().enumerate() {
                let packet = Packet { id: n.to_string(), subject: String::new(), bytes: vec![0; size] };
                dropped += spool.push(packet);
                prop_assert!(spool.bytes <= 1_000);
                if take > 0 && n % take == 0 && let Some(id) = spool.first().map(|first| first.id.clone()) {
                    prop_assert!(!spool.take("another"));
                    prop_assert!(spool.take(&id));
                    taken += 1;
                }
            }
            let left: Vec<usize> = spool.packets.iter().map(|packet| packet.id.parse().unwrap()).collect();
            prop_assert_eq!(left.len() as u64 + dropped + taken, sizes.len() as u64);
            prop_assert!(left.iter().copied().eq(sizes.len() - left.len()..sizes.len()));
            let bytes: usize = spool.packets.iter().map(Packet::size).sum();
            prop_assert_eq!(bytes, spool.bytes);
        }
    }
}
