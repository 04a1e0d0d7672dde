//! Exports from a separate thread, which reads published snapshots and waits for nothing but the collector.

use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant, UNIX_EPOCH};

use contract::config::{Ipfix, Transport};
use control::contain::{Part, contain};
use control::published::{IpfixCounters, Published};
use control::running::{FAREWELL, backoff, look_every};
use records::snapshot::Snapshot;

use crate::compose::{Composer, Sink};
use crate::encoder::{Encoder, Message, Record};

/// Longest pause between two messages over UDP.
const GAP_MAX: Duration = Duration::from_millis(2);

/// Shorter pauses are skipped.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// Approximate octets of a flow's record.
const RECORD_BYTES: u64 = 180;

/// A running exporter; stopped when dropped.
pub type Running = control::running::Running<Sender<()>>;

/// Exports new epochs in `published`, by these settings.
///
/// # Errors
/// If the system cannot start a thread.
pub fn start(settings: Ipfix, published: Arc<Published>) -> io::Result<Running> {
    let counters = Arc::new(IpfixCounters::default());
    let _ = published.ipfix.set(Arc::clone(&counters));
    let (stop, stopped) = mpsc::channel();
    let mut exporting = Exporting {
        composer: Composer::default(),
        published,
        sending: Sending {
            encoder: Encoder::new(&settings),
            described: None,
            link: None,
            last_records: 0,
            attempts: 0,
            next_attempt: Instant::now(),
            pace: Pace::default(),
            stopped,
            counters,
            settings,
        },
    };
    Running::start("vernier-ipfix", stop, move || exporting.run())
}

/// State of the thread.
struct Exporting {
    published: Arc<Published>,
    composer: Composer,
    sending: Sending,
}

/// The stream of messages.
struct Sending {
    settings: Ipfix,
    encoder: Encoder,
    link: Option<Link>,
    /// Records of the last message; UDP may report only later that nobody listened.
    last_records: u32,
    /// When types, names and templates were last sent; `None` if they are due.
    described: Option<Instant>,
    /// Consecutive failed attempts to connect, and when the next one is due.
    attempts: usize,
    next_attempt: Instant,
    pace: Pace,
    /// Resolves when the switch stops.
    stopped: Receiver<()>,
    counters: Arc<IpfixCounters>,
}

/// Spreads messages over time, so that they do not overflow a collector's socket.
#[derive(Debug)]
struct Pace {
    began: Instant,
    gap: Duration,
    sent: u32,
    has_fault: bool,
    /// When to stop, at the end of the switch.
    deadline: Option<Instant>,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            gap: Duration::ZERO,
            sent: 0,
            has_fault: false,
            deadline: None,
        }
    }
}

impl Exporting {
    fn run(&mut self) {
        loop {
            let snapshot = self.published.read();
            if self.is_due(&snapshot) {
                self.export_contained(&snapshot);
            }
            let look = look_every(snapshot.interval_ms);
            if self.sending.wait(look).is_break() {
                break;
            }
        }
        self.sending.pace.deadline = Some(Instant::now() + FAREWELL);
        let snapshot = self.published.read();
        if snapshot.epoch > self.composer.exported {
            self.export_contained(&snapshot);
        }
    }

    /// A panic costs this export only: the collector gets a new connection, and types, names and templates
    /// again.
    fn export_contained(&mut self, snapshot: &Snapshot) {
        if contain(Part::Ipfix, || self.export(snapshot)).is_none() {
            let words = "a panic of this program interrupted an export";
            self.sending.give_up(0, words);
        }
    }

    /// Whether the epochs of an interval have closed since the last export.
    fn is_due(&self, snapshot: &Snapshot) -> bool {
        let interval_ms = self.sending.settings.interval().as_millis();
        let epochs = interval_ms.div_ceil(u128::from(snapshot.interval_ms.max(1)));
        let closed = snapshot.epoch.map_or(0, |epoch| epoch + 1);
        let exported = self.composer.exported.map_or(0, |epoch| epoch + 1);
        u128::from(closed - exported.min(closed)) >= epochs.max(1)
    }

    fn export(&mut self, snapshot: &Snapshot) {
        let (composer, sending) = (&mut self.composer, &mut self.sending);
        if !sending.connect() {
            return;
        }
        sending.begin(snapshot);
        let described = if sending.is_description_due() {
            sending.encoder.announce_again();
            sending.described = Some(Instant::now());
            composer.describe(sending.settings.enterprise, sending)
        } else {
            Continue(())
        };
        // Records that are cut off are exported the next time.
        if described.is_continue()
            && composer.export(snapshot, sending).is_continue()
            && sending.flush().is_continue()
        {
            sending.succeed();
        }
    }
}

impl Sink for Sending {
    fn take(&mut self, record: &Record) -> ControlFlow<()> {
        match self.encoder.push(record, unix_s()) {
            Some(full) => self.send(&full),
            None => Continue(()),
        }
    }
}

impl Sending {
    /// Waits; returns early when the switch stops.
    fn wait(&self, time: Duration) -> ControlFlow<()> {
        match self.stopped.recv_timeout(time) {
            Err(RecvTimeoutError::Timeout) => Continue(()),
            Ok(()) | Err(RecvTimeoutError::Disconnected) => Break(()),
        }
    }

    /// Whether there is a connection; tries to connect if an attempt is due.
    fn connect(&mut self) -> bool {
        if self.link.as_ref().is_some_and(Link::is_closed) {
            self.give_up(0, "the collector closed the connection");
        }
        if self.link.is_none() && Instant::now() >= self.next_attempt {
            match Link::open(&self.settings) {
                Ok(link) => {
                    tracing::info!("IPFIX: exporting to {}", self.settings.collector);
                    let dropped = u64::from(self.encoder.restart());
                    self.counters.count(|now| now.dropped_records += dropped);
                    self.described = None;
                    self.link = Some(link);
                }
                Err(error) => self.give_up(0, &error.to_string()),
            }
        }
        self.link.is_some()
    }

    /// Sets the pace of an export: over UDP it takes half of the time until the next one.
    fn begin(&mut self, snapshot: &Snapshot) {
        let flows = snapshot.flows.as_ref();
        let flows = flows.map_or(0, |flows| flows.list.flows.len());
        let bytes = RECORD_BYTES * (flows + snapshot.segments.len()) as u64;
        let messages = u32::try_from(bytes / u64::from(self.settings.message_bytes) + 1);
        let epoch = Duration::from_millis(snapshot.interval_ms.into());
        let is_paced = self.link.as_ref().is_some_and(|link| !link.is_tcp());
        let time = match self.pace.deadline {
            _ if !is_paced => Duration::ZERO,
            // All remaining time may be used.
            Some(_) => FAREWELL,
            None => self.settings.interval().max(epoch),
        };
        self.pace = Pace {
            gap: (time / 2 / messages.unwrap_or(u32::MAX)).min(GAP_MAX),
            deadline: self.pace.deadline,
            ..Pace::default()
        };
    }

    /// Once per connection over TCP; repeatedly over UDP.
    fn is_description_due(&self) -> bool {
        let is_tcp = self.link.as_ref().is_some_and(Link::is_tcp);
        let interval = Duration::from_secs(self.settings.template_s.into());
        (self.described).is_none_or(|at| !is_tcp && at.elapsed() >= interval)
    }

    fn flush(&mut self) -> ControlFlow<()> {
        match self.encoder.finish(unix_s()) {
            Some(message) => self.send(&message),
            None => Continue(()),
        }
    }

    fn send(&mut self, message: &Message) -> ControlFlow<()> {
        let Some(link) = &mut self.link else {
            return Break(());
        };
        let mut sent = link.send(&message.bytes);
        let is_tcp = link.is_tcp();
        let refused = |error: &io::Error| !is_tcp && error.kind() == ErrorKind::ConnectionRefused;
        if let Some(error) = sent.as_ref().err().filter(|error| refused(error)) {
            // Nobody received the previous message. A new listener has no templates.
            let why = error.to_string();
            sent = link.send(&message.bytes);
            self.fault(self.last_records, &why);
            self.described = None;
            self.encoder.announce_again();
        }
        self.last_records = message.records;
        match sent {
            Ok(()) => {
                self.counters.count(|now| {
                    now.messages += 1;
                    now.records += u64::from(message.records);
                });
                self.keep_pace()
            }
            Err(error) if is_tcp => {
                self.give_up(message.records, &error.to_string());
                Break(())
            }
            Err(error) => {
                self.fault(message.records, &error.to_string());
                self.keep_pace()
            }
        }
    }

    /// Waits if the export is ahead of its pace; returns early when the switch stops, or during its last
    /// export.
    fn keep_pace(&mut self) -> ControlFlow<()> {
        let pace = &mut self.pace;
        pace.sent += 1;
        let now = Instant::now();
        let ahead = (pace.began + pace.gap * pace.sent).saturating_duration_since(now);
        let pause = (ahead >= PAUSE_MIN).then_some(ahead);
        match (pace.deadline, pause) {
            (Some(deadline), _) if now >= deadline => Break(()),
            (None, Some(pause)) => self.wait(pause),
            (Some(_), Some(pause)) => {
                std::thread::sleep(pause);
                Continue(())
            }
            (_, None) => Continue(()),
        }
    }

    /// Handles records that were not sent, or a failed connection.
    fn fault(&mut self, dropped_records: u32, why: &str) {
        self.counters.count(|now| {
            now.dropped_records += u64::from(dropped_records);
            now.is_connected = false;
        });
        self.pace.has_fault = true;
        let complaint = format!("{}: {why}", self.settings.collector);
        if self.counters.complain(&complaint) {
            tracing::warn!("IPFIX: {complaint}");
        }
    }

    /// Connects again after a fault, after a pause that doubles.
    fn give_up(&mut self, dropped_records: u32, why: &str) {
        self.fault(dropped_records, why);
        self.link = None;
        self.next_attempt = Instant::now() + backoff(self.attempts);
        self.attempts += 1;
    }

    /// Notes that an export was completed.
    fn succeed(&mut self) {
        self.attempts = 0;
        if !self.pace.has_fault {
            self.counters.count(|now| now.is_connected = true);
            self.counters.clear_complaint();
        }
    }
}

fn unix_s() -> u32 {
    let now = UNIX_EPOCH.elapsed().unwrap_or_default();
    u32::try_from(now.as_secs()).unwrap_or(u32::MAX)
}

/// Longest time to connect, or to send a message.
const PATIENCE: Duration = Duration::from_secs(2);

/// A socket connected to the collector.
#[derive(Debug)]
pub(crate) enum Link {
    Udp(UdpSocket),
    Tcp(TcpStream),
}

impl Link {
    /// Connects to the first address that answers.
    ///
    /// # Errors
    /// If the name has no address, or none answers.
    pub fn open(settings: &Ipfix) -> io::Result<Self> {
        let (transport, target) = settings.target().ok_or(ErrorKind::InvalidInput)?;
        let mut linked = Err(io::Error::new(
            ErrorKind::NotFound,
            "the name has no address",
        ));
        for address in addresses(target)? {
            linked = match transport {
                Transport::Udp => udp(address).map(Self::Udp),
                Transport::Tcp => tcp(address).map(Self::Tcp),
            };
            if linked.is_ok() {
                break;
            }
        }
        linked
    }

    /// Sends a message.
    ///
    /// # Errors
    /// If it was not sent, and over UDP also if nobody received the previous message
    /// ([`ErrorKind::ConnectionRefused`]); a TCP connection is unusable then.
    pub fn send(&mut self, message: &[u8]) -> io::Result<()> {
        match self {
            Self::Udp(socket) => socket.send(message).map(|_| ()),
            Self::Tcp(stream) => stream.write_all(message),
        }
    }

    /// Whether the other end has closed the connection, which a TCP sender would otherwise notice one
    /// message late.
    pub fn is_closed(&self) -> bool {
        let Self::Tcp(stream) = self else {
            return false;
        };
        let set = stream.set_nonblocking(true);
        let is_open = match set.and_then(|()| stream.peek(&mut [0])) {
            Ok(octets) => octets > 0,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        };
        !is_open || stream.set_nonblocking(false).is_err()
    }

    /// Whether messages share a connection.
    pub fn is_tcp(&self) -> bool {
        matches!(self, Self::Tcp(_))
    }
}

/// Addresses of `host:port`. The resolver accepts the zone of a link-local address by name and number, if there are
/// no brackets.
fn addresses(target: &str) -> io::Result<impl Iterator<Item = SocketAddr> + use<>> {
    let (host, port) = target.rsplit_once(':').ok_or(ErrorKind::InvalidInput)?;
    let port: u16 = port.parse().map_err(|_| ErrorKind::InvalidInput)?;
    let bare = host.strip_prefix('[');
    let bare = bare.and_then(|host| host.strip_suffix(']'));
    (bare.unwrap_or(host), port).to_socket_addrs()
}

fn udp(address: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.connect(address)?;
    Ok(socket)
}

fn tcp(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_known_by_name_and_number() {
        for target in ["[fe80::1%lo]:9", "[fe80::1%1]:9"] {
            let found: Vec<_> = addresses(target).unwrap().collect();
            // The loopback interface is the first of every network namespace.
            let scopes = found.iter().map(|address| match address {
                SocketAddr::V6(v6) => (v6.scope_id(), v6.port()),
                SocketAddr::V4(_) => (0, 0),
            });
            assert!(scopes.eq([(1, 9)]), "{target}: {found:?}");
        }
        let found: Vec<_> = addresses("[::1]:9").unwrap().collect();
        assert_eq!(found, [SocketAddr::from((Ipv6Addr::LOCALHOST, 9))]);
    }
}
