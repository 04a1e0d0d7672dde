//! Sends reports: a thread of its own, which asks a [`Reporter`] for them and waits for nobody.
//!
//! ```text
//!  every look: reporter -> report -> spool           connect, again and again, with a pause that doubles
//!                                      |                       |
//!                                      +--> first packet --> publish --> acknowledged: the next
//! ```
//!
//! One packet is under way at a time, so that they arrive in order. What is sent again has the same id, by which the server,
//! or the station, drops it.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::{self, context::PublishErrorKind, message::PublishMessage};
use async_nats::{Client, Event};
use contract::config::Report as Settings;
use control::published::Published;
pub use control::reports::ReportCounters;
use prost::Message;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use crate::connection::{ANSWER_MAX, Connection, ConnectionError, backoff};
use crate::reporter::{Epochs, Reporter};
use crate::spool::{Packet, Spool};
use crate::subject;

/// Shortest and longest time between two looks at what is published: a quarter of an epoch within these.
const LOOK_MS: (u32, u32) = (5, 100);

/// How long the last reports may take when the switch ends.
const FAREWELL: Duration = Duration::from_secs(1);

/// A sender that is configured, but does not send yet.
#[derive(Debug)]
pub struct Sender {
    settings: Settings,
    connection: Connection,
}

/// A sender at work, until it is dropped.
#[derive(Debug)]
pub struct Running {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Sender {
    /// Reads secrets; connects to nothing. `None` where no reports are configured.
    ///
    /// # Errors
    /// [`ConnectionError`] where no connection as configured can be.
    pub fn of(settings: Option<&Settings>) -> Result<Option<Self>, ConnectionError> {
        let sender = settings.map(|settings| {
            Ok(Self {
                settings: settings.clone(),
                connection: Connection::of(&settings.nats)?,
            })
        });
        sender.transpose()
    }

    /// Reports what appears in `published`, under a random number of this run.
    ///
    /// # Errors
    /// When the system gives no random number, no thread or no event queue.
    pub fn start(self, published: Arc<Published>) -> std::io::Result<Running> {
        let counters = Arc::new(ReportCounters::default());
        published.count_reports(Arc::clone(&counters));
        let top_flows = self.settings.top_flows as usize;
        self.start_with(
            Epochs::new(getrandom::u64()?, top_flows, published),
            counters,
        )
    }

    /// Sends what this reporter gives.
    ///
    /// # Errors
    /// When the system gives no thread or no event queue.
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
        let (stop, stopped) = watch::channel(false);
        let sending = Sending {
            reporter: RefCell::new(reporter),
            spool: RefCell::new(Spool::new(self.settings.spool_kib as usize * 1_024)),
            connection: self.connection,
            complaint: Cell::default(),
            news: Notify::new(),
            counters,
        };
        let thread = std::thread::Builder::new()
            .name("vernier-report".to_owned())
            .spawn(move || runtime.block_on(sending.run(stopped)))?;
        Ok(Running {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that sends reports panicked");
        }
    }
}

/// What the two tasks of the thread share.
struct Sending<R> {
    reporter: RefCell<R>,
    spool: RefCell<Spool>,
    connection: Connection,
    /// What was logged last: each complaint once, until something works.
    complaint: Cell<String>,
    /// There is something to send.
    news: Notify,
    counters: Arc<ReportCounters>,
}

impl<R: Reporter> Sending<R> {
    async fn run(self, mut stopped: watch::Receiver<bool>) {
        tokio::select! {
            () = self.look_again_and_again() => {}
            () = self.send_again_and_again() => {}
            _ = stopped.wait_for(|&stopped| stopped) => {}
        }
        self.look();
        let _ = timeout(FAREWELL, async {
            let Ok(client) = self.connect().await else {
                return;
            };
            let jetstream = jetstream::new(client);
            while self.spool.borrow().first().is_some() && self.send_first(&jetstream).await {}
        })
        .await;
        let unsent = self.spool.borrow().bytes();
        if unsent > 0 {
            tracing::warn!("{unsent} bytes of reports were not sent before the end");
        }
    }

    async fn look_again_and_again(&self) {
        loop {
            self.look();
            let interval_ms = self.reporter.borrow().interval_ms();
            let look_ms = (interval_ms / 4).clamp(LOOK_MS.0, LOOK_MS.1);
            sleep(Duration::from_millis(look_ms.into())).await;
        }
    }

    /// Takes what is new into the spool.
    fn look(&self) {
        let dropped = || self.counters.dropped.load(Ordering::Relaxed);
        while let Some(report) = self.reporter.borrow_mut().next(dropped()) {
            let packet = Packet {
                id: report.message_id(),
                subject: subject::of_switch(&report.switch),
                bytes: report.encode_to_vec(),
            };
            let mut spool = self.spool.borrow_mut();
            let dropped = spool.push(packet);
            self.counters.dropped.fetch_add(dropped, Ordering::Relaxed);
            self.note_size(&spool);
            self.news.notify_one();
        }
    }

    fn note_size(&self, spool: &Spool) {
        let bytes = spool.bytes() as u64;
        self.counters.spooled_bytes.store(bytes, Ordering::Relaxed);
    }

    async fn send_again_and_again(&self) {
        let mut attempts = 0;
        let client = loop {
            match self.connect().await {
                Ok(client) => break client,
                Err(error) => self.complain(&error),
            }
            attempts += 1;
            sleep(backoff(attempts)).await;
        };
        let jetstream = jetstream::new(client.clone());
        let mut failures = 0;
        loop {
            if self.spool.borrow().first().is_none() {
                self.news.notified().await;
            } else if client.connection_state() == State::Connected
                && self.send_first(&jetstream).await
            {
                failures = 0;
            } else {
                failures += 1;
                sleep(backoff(failures)).await;
            }
        }
    }

    /// Connects; from then on the client connects again by itself.
    async fn connect(&self) -> Result<Client, String> {
        let counters = Arc::clone(&self.counters);
        let name = format!("vernier {}", self.reporter.borrow().name());
        let event = move |event: Event| match event {
            Event::Connected => {
                counters.is_connected.store(true, Ordering::Relaxed);
                tracing::info!("reports: connected to NATS");
            }
            Event::Disconnected => {
                // The library says so of every attempt that fails, too.
                if counters.is_connected.swap(false, Ordering::Relaxed) {
                    tracing::warn!(
                        "reports: the connection to NATS is lost; they wait in the spool"
                    );
                }
            }
            other => tracing::debug!("reports: NATS: {other}"),
        };
        self.connection.connect(&name, event).await
    }

    /// Sends the oldest; whether it was stored. It stays in the spool until then.
    async fn send_first(&self, jetstream: &jetstream::Context) -> bool {
        let Some(packet) = self.spool.borrow().first().cloned() else {
            return true;
        };
        let message = PublishMessage::build()
            .message_id(&packet.id)
            .payload(packet.bytes.into());
        self.counters.sent.fetch_add(1, Ordering::Relaxed);
        let stored = timeout(ANSWER_MAX, async {
            jetstream.send_publish(packet.subject, message).await?.await
        });
        match stored.await {
            Ok(Ok(_)) => {
                let mut spool = self.spool.borrow_mut();
                spool.take(&packet.id);
                self.note_size(&spool);
                self.counters.acknowledged.fetch_add(1, Ordering::Relaxed);
                self.complaint.take();
                true
            }
            Ok(Err(error)) if error.kind() == PublishErrorKind::MaxPayloadExceeded => {
                self.complain(&format!(
                    "a report is dropped: {error}; raise max_payload of the server"
                ));
                let mut spool = self.spool.borrow_mut();
                spool.take(&packet.id);
                self.note_size(&spool);
                self.counters.dropped.fetch_add(1, Ordering::Relaxed);
                true
            }
            Ok(Err(error)) => {
                let hint = match error.kind() {
                    PublishErrorKind::StreamNotFound => {
                        "no stream takes reports: start a vernier-station, which creates it, with JetStream enabled \
                         (nats-server --jetstream)"
                    }
                    _ => "see the log of the server",
                };
                self.complain(&format!("the server stores no reports: {error}; {hint}"));
                false
            }
            Err(_) => {
                let waited_s = ANSWER_MAX.as_secs();
                self.complain(&format!(
                    "the server did not answer within {waited_s} s; they are sent again"
                ));
                false
            }
        }
    }

    /// Logs it, unless it was the last thing logged.
    fn complain(&self, complaint: &str) {
        if self.complaint.replace(complaint.to_owned()) != complaint {
            tracing::warn!("reports: {complaint}");
        }
    }
}
