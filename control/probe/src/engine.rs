//! The loop: one thread that sends what is due, receives what has come, reflects, and closes intervals.
//!
//! ```text
//!  due sessions --> send --+                        +--> reflector --> reply
//!                          |   wait (ppoll) until --+--> session: reply, time of transmission
//!  every 50 ms: time-outs, intervals that end ------+--> results --> sink
//! ```
//!
//! Sessions of the same source address and DSCP share a socket. Replies find their session by the reflector's address and the SSID. Of
//! each socket at most 256 packets are received before it is another's turn.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::arrival::Arrival;
use crate::reflector::Reflector;
use crate::session::{Arrived, Intervals, LocalClock, Session};
use crate::socket::{Purpose, Report, Socket, StampsWanted};
use crate::wire::time::UnixNs;

mod error;
mod faults;
mod sender;
mod sessions;
mod sink;
mod waiting;

use sender::Sender;
use sessions::Sessions;
use waiting::Waiting;

pub use error::SocketError;
pub use faults::SendFaults;
pub use sender::SenderKey;
pub use sessions::SessionKey;
pub use sink::Sink;

/// Packets of one socket in a row.
const BATCH: usize = 256;

/// Between two looks at time-outs and intervals.
const TICK: Duration = Duration::from_millis(50);

/// Bytes of the longest packet that is received: of a longer one the rest is lost, and its reply shorter.
const PACKET_BYTES: usize = 16 << 10;

/// Times of transmission that are waited for, of each socket.
const REPORTS_MAX: usize = 4_096;

/// A clock is set where it differs by more than this from one that never steps: more than it may be slewed by in a loop.
const STEP_NS_MIN: f64 = 100_000.0;

/// Two readings of clocks so far apart say nothing.
const READING_NS_MAX: u64 = 20_000;

/// Everything that one thread does.
#[derive(Debug)]
pub struct Engine {
    start: Instant,
    intervals: Intervals,
    sessions: Sessions,
    senders: Vec<Sender>,
    due: BinaryHeap<Reverse<(Duration, SessionKey)>>,
    reflector: Option<Reflector>,
    listeners: Vec<Socket>,
    waiting: Waiting,
    faults: SendFaults,
    wanted: StampsWanted,
    clock: LocalClock,
    /// The system's clock less the one that never steps, in ns.
    ahead_ns: Option<f64>,
    ticked: Duration,
    strangers: u64,
    buffer: Vec<u8>,
}

impl Engine {
    /// An engine whose time begins at `start`, with no sessions and no reflector.
    pub fn new(start: Instant, intervals: Intervals, wanted: StampsWanted) -> Self {
        Self {
            start,
            intervals,
            sessions: Sessions::default(),
            senders: Vec::new(),
            due: BinaryHeap::new(),
            reflector: None,
            listeners: Vec::new(),
            waiting: Waiting::default(),
            faults: SendFaults::default(),
            wanted,
            clock: LocalClock::default(),
            ahead_ns: None,
            ticked: Duration::ZERO,
            strangers: 0,
            buffer: vec![0; PACKET_BYTES],
        }
    }

    /// Reflects what comes to these addresses; returns where it listens, with the ports that were taken for 0.
    ///
    /// # Errors
    /// [`SocketError`]
    pub fn reflect(
        &mut self,
        reflector: Reflector,
        listen: &[SocketAddr],
    ) -> Result<Vec<SocketAddr>, SocketError> {
        for &local in listen {
            let socket = self.open(local, Purpose::Reflect)?;
            self.listeners.push(socket);
        }
        self.reflector = Some(reflector);
        Ok(self.listeners.iter().map(Socket::local).collect())
    }

    fn open(&mut self, local: SocketAddr, purpose: Purpose) -> Result<Socket, SocketError> {
        let opened = Socket::open(local, purpose, self.wanted);
        let opened = opened.and_then(|socket| {
            self.waiting.add(&socket)?;
            Ok(socket)
        });
        opened.map_err(|error| SocketError::new(local, error))
    }

    /// The socket for a session to `to`, opened where there is none. Returns its index, for [`Engine::add`], where it is, and
    /// an identifier for the session; `None` where all 65,535 are taken.
    ///
    /// # Errors
    /// [`SocketError`]
    pub fn sender(
        &mut self,
        key: SenderKey,
        to: SocketAddr,
    ) -> Result<(usize, SocketAddr, Option<u16>), SocketError> {
        let known = self.senders.iter().position(|sender| sender.key == key);
        let index = if let Some(index) = known {
            index
        } else {
            let traffic_class = key.traffic_class;
            let socket = self.open(key.from, Purpose::Send { traffic_class })?;
            self.senders.push(Sender::new(socket, key));
            self.senders.len() - 1
        };
        let sender = &mut self.senders[index];
        Ok((index, sender.socket.local(), sender.free_ssid(to)))
    }

    /// Adds a session to the socket of that index.
    pub fn add(&mut self, session: Session, sender: usize) -> SessionKey {
        let due = session.due();
        let (settings, mode) = (session.settings().clone(), session.mode());
        let key = self.sessions.add(session, sender);
        if let Some(sender) = self.senders.get_mut(sender) {
            sender.add(&settings, mode, key);
        }
        if let Some(due) = due {
            self.due.push(Reverse((due, key)));
        }
        key
    }

    /// Ends a session: no more is sent, and it leaves when what is under way is answered or timed out, and its last interval
    /// is closed.
    pub fn end(&mut self, key: SessionKey) {
        if let Some((session, _)) = self.sessions.get_mut(key) {
            session.end(self.start.elapsed());
        }
    }

    /// When intervals begin.
    pub fn intervals(&self) -> Intervals {
        self.intervals
    }

    /// Time since the start.
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Runs until `stop` is set, or all sessions are over, where there is no reflector. What is under way then is closed as it is.
    ///
    /// # Errors
    /// The system's, where it cannot wait for packets.
    pub fn run(&mut self, stop: &AtomicBool, sink: &mut dyn Sink) -> io::Result<()> {
        while !stop.load(Ordering::Relaxed) && !self.is_over() {
            self.step(sink)?;
        }
        self.finish(sink);
        Ok(())
    }

    /// Sends what is due, waits 50 ms at most for packets, and takes them.
    ///
    /// # Errors
    /// The system's, where it cannot wait for packets.
    pub fn step(&mut self, sink: &mut dyn Sink) -> io::Result<()> {
        self.watch_clock();
        self.send_due();
        let now = self.now();
        if now >= self.ticked + TICK {
            self.ticked = now;
            self.tick(now, sink);
        }
        self.wait()?;
        self.receive();
        Ok(())
    }

    /// Closes all intervals as they are. To be called last.
    pub fn finish(&mut self, sink: &mut dyn Sink) {
        self.tick(self.now(), sink);
        for session in self.sessions.iter_mut() {
            while let Some(result) = session.finish(self.clock) {
                sink.result(result);
            }
        }
        let present = self.intervals.at(self.now());
        let ends = self.sessions.iter().map(Session::first_open);
        sink.closed(ends.max().unwrap_or(present));
    }

    /// Whether all sessions are over, and there is no reflector.
    pub fn is_over(&self) -> bool {
        self.reflector.is_none() && self.sessions.iter().all(Session::is_over)
    }

    /// Replies so far that belong to no session.
    pub fn strangers(&self) -> u64 {
        self.strangers
    }

    /// Sees whether the system's clock was set.
    fn watch_clock(&mut self) {
        let before = Instant::now();
        let wall = UnixNs::now();
        let width = before.elapsed();
        if width.as_nanos() > u128::from(READING_NS_MAX) {
            return;
        }
        let monotonic = before.duration_since(self.start).as_secs_f64() * 1e9;
        // Both are under 2^61, so that a difference is exact to a quarter of a microsecond.
        let ahead_ns = wall.0 as f64 - monotonic;
        let moved_ns = self.ahead_ns.map_or(0.0, |before| ahead_ns - before);
        if moved_ns.abs() > STEP_NS_MIN {
            self.clock.steps = self.clock.steps.wrapping_add(1);
            self.clock.step_ns = moved_ns;
            tracing::warn!(
                "the clock of this machine was set by {:.6} s",
                moved_ns / 1e9
            );
        }
        self.ahead_ns = Some(ahead_ns);
    }

    fn send_due(&mut self) {
        for _ in 0..BATCH {
            let now = self.now();
            let Some(&Reverse((due, key))) = self.due.peek() else {
                return;
            };
            if due > now {
                return;
            }
            self.due.pop();
            self.send(key, now);
            let next = self.sessions.get_mut(key);
            if let Some(next) = next.and_then(|(session, _)| session.due()) {
                self.due.push(Reverse((next, key)));
            }
        }
    }

    fn send(&mut self, key: SessionKey, now: Duration) {
        // One that has left, or was ended.
        let Some((session, sender)) = self.sessions.get_mut(key) else {
            return;
        };
        let Some(sender) = self
            .senders
            .get_mut(sender)
            .filter(|_| session.due().is_some())
        else {
            return;
        };
        let to = session.settings().to;
        let wall = UnixNs::now();
        let Some(packet) = session.request(now, wall) else {
            return;
        };
        match sender.socket.send(packet, to) {
            Ok(id) => {
                let sequence = session.was_sent(now, wall, self.clock);
                if let Some(id) = id {
                    if id == 0 {
                        sender.reports.clear();
                    } else if sender.reports.len() == REPORTS_MAX {
                        sender.reports.pop_front();
                    }
                    sender.reports.push_back((id, key, sequence));
                }
            }
            Err(error) => {
                sender.reports.clear();
                session.was_refused(now, error);
            }
        }
    }

    /// Waits until a packet comes, a session is due, or the next tick.
    fn wait(&self) -> io::Result<()> {
        let now = self.now();
        let mut until = self.ticked + TICK;
        if let Some(&Reverse((due, _))) = self.due.peek() {
            until = until.min(due);
        }
        self.waiting.wait(until.saturating_sub(now))
    }

    /// Takes what has come. Sockets do not wait: one that has nothing says so.
    fn receive(&mut self) {
        for index in 0..self.senders.len() {
            self.reports(index);
            self.replies(index);
        }
        let Some(mut reflector) = self.reflector.take() else {
            return;
        };
        for index in 0..self.listeners.len() {
            self.requests(index, &mut reflector);
        }
        self.reflector = Some(reflector);
    }

    /// Reads the error queue: times of transmission, before their replies, and undelivered requests.
    fn reports(&mut self, index: usize) {
        let now = self.now();
        let Some(sender) = self.senders.get_mut(index) else {
            return;
        };
        for _ in 0..2 * BATCH {
            let (id, stamps) = match sender.socket.report() {
                Some(Report::Left(id, stamps)) => (id, stamps),
                Some(Report::Unreachable(to, why)) => {
                    for &session in sender.sessions_to(plain(to)) {
                        if let Some((session, _)) = self.sessions.get_mut(session) {
                            session.was_unreachable(now, why);
                        }
                    }
                    continue;
                }
                None => return,
            };
            // In order; one that is missing is not waited for. A number of before the count began anew is none of these.
            let is_known = sender
                .reports
                .back()
                .is_some_and(|(last, ..)| last.wrapping_sub(id).cast_signed() >= 0);
            if !is_known {
                continue;
            }
            while let Some(&(first, session, sequence)) = sender.reports.front() {
                let ahead = id.wrapping_sub(first).cast_signed();
                if ahead < 0 {
                    break;
                }
                sender.reports.pop_front();
                if ahead == 0 {
                    if let Some((session, _)) = self.sessions.get_mut(session) {
                        session.transmitted(sequence, stamps);
                    }
                    break;
                }
            }
        }
    }

    fn replies(&mut self, index: usize) {
        let now = self.now();
        let Some(sender) = self.senders.get_mut(index) else {
            return;
        };
        for _ in 0..BATCH {
            let received = match sender.socket.receive(&mut self.buffer) {
                Ok(Some(received)) => received,
                Ok(None) => return,
                Err(error) => {
                    tracing::debug!("{}: {error}", sender.socket.local());
                    continue;
                }
            };
            let packet = self.buffer.get(..received.bytes).unwrap_or_default();
            let from = plain(received.from);
            let session = sender.session_of(from, packet);
            let Some((session, _)) = session.and_then(|session| self.sessions.get_mut(session))
            else {
                self.strangers += 1;
                continue;
            };
            let arrived = Arrived {
                packet,
                stamps: received.stamps,
                clock: self.clock,
            };
            session.answered(&arrived, now);
        }
    }

    fn requests(&mut self, index: usize, reflector: &mut Reflector) {
        let now = self.now();
        let Some(socket) = self.listeners.get_mut(index) else {
            return;
        };
        for _ in 0..BATCH {
            let received = match socket.receive(&mut self.buffer) {
                Ok(Some(received)) => received,
                Ok(None) => return,
                Err(error) => {
                    tracing::debug!("{}: {error}", socket.local());
                    continue;
                }
            };
            let packet = self.buffer.get_mut(..received.bytes).unwrap_or_default();
            let arrival = Arrival {
                from: received.from,
                to: SocketAddr::new(received.to, socket.local().port()),
                // The time of the reply is by the system's clock; so is this one.
                at: received.stamps.system,
                stamped: received.stamps.by,
                ttl: received.ttl,
                traffic_class: received.traffic_class,
            };
            let Ok(pending) = reflector.reflect(packet, &arrival, now) else {
                continue;
            };
            let class = pending.traffic_class;
            reflector.finish(packet, pending, UnixNs::now());
            if let Err(error) = socket.reply(packet, received.from, received.to, class) {
                tracing::debug!("{}: no reply to {}: {error}", socket.local(), received.from);
                reflector.not_sent();
            }
        }
    }

    /// Time-outs, intervals that have ended, and sessions that leave.
    fn tick(&mut self, now: Duration, sink: &mut dyn Sink) {
        for session in self.sessions.iter_mut() {
            while let Some(result) = session.poll(now, self.clock) {
                sink.result(result);
                if session.has_left() {
                    break;
                }
            }
        }
        let open = self.sessions.iter().filter(|session| !session.has_left());
        let open = open.map(Session::first_open).min();
        for (key, session, sender) in self.sessions.leave() {
            if let Some(sender) = self.senders.get_mut(sender) {
                sender.remove(session.settings(), session.mode(), key);
            }
        }
        sink.counts(
            self.reflector.as_ref().map(Reflector::counts),
            self.strangers,
        );
        let faults = SendFaults::of(self.sessions.iter());
        if faults != self.faults {
            sink.send_faults(faults.clone());
            self.faults = faults;
        }
        sink.closed(open.unwrap_or_else(|| self.intervals.at(now)));
    }
}

/// Without flow label, which a reply has of its own.
fn plain(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(mut v6) => {
            v6.set_flowinfo(0);
            SocketAddr::V6(v6)
        }
        v4 @ SocketAddr::V4(_) => v4,
    }
}
