//! The loop of one thread: sends due requests, receives replies, reflects, and closes intervals.
//!
//! ```text
//!  due sessions --> send --+                        +--> reflector --> reply
//!                          |   wait (ppoll) until --+--> session: reply, time of transmission
//!  every 50 ms: time-outs, intervals that end ------+--> results --> outlet
//! ```
//!
//! Sessions of the same source address and DSCP share a socket. Replies find their session by the reflector's address
//! and the SSID. At most 256 packets are received from a socket before the next one has its turn.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::clock::LocalClock;
use crate::published::Outlet;
use crate::reflector::Reflector;
use crate::send_faults::SendFaults;
use crate::session::{Intervals, Session};
use crate::socket::{Report, Socket, SocketError, Stamped};
use crate::wire::{Mode, Reply, UnixNs};

/// Packets received from one socket in a row.
const BATCH: usize = 256;

/// Time between two checks of time-outs and intervals.
const TICK: Duration = Duration::from_millis(50);

/// Bytes of the longest packet; the rest of a longer one is lost, and its reply is shorter.
const PACKET_BYTES: usize = 16 << 10;

/// Limit of pending times of transmission, for each socket.
const REPORTS_MAX: usize = 4_096;

/// Identifies a session; counts all sessions ever added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey(u64);

/// Identifies a socket: sessions of the same source, class and lane share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderKey {
    /// Source address; port 0 takes a free one.
    pub from: SocketAddr,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Counts from 0; each lane has a port of its own.
    pub lane: usize,
}

/// A socket for requests, and the sessions that share it.
#[derive(Debug)]
struct Sender {
    socket: Socket,
    key: SenderKey,
    /// By address.
    reflectors: HashMap<SocketAddr, Asked>,
    /// Packets whose time of transmission is pending: number, session, sequence number.
    reports: VecDeque<(u32, SessionKey, u32)>,
}

/// The sessions of one socket to one reflector.
#[derive(Debug, Default)]
struct Asked {
    /// By mode and SSID; the position of the SSID depends on the mode.
    sessions: HashMap<(Mode, u16), SessionKey>,
    /// The SSID assigned last.
    last_ssid: u16,
}

impl Asked {
    /// A free SSID, the one unused for longest; `None`: all are taken.
    fn free_ssid(&mut self) -> Option<u16> {
        for _ in 0..u16::MAX {
            self.last_ssid = self.last_ssid.checked_add(1).unwrap_or(1);
            let is_taken = |mode| self.sessions.contains_key(&(mode, self.last_ssid));
            if !is_taken(Mode::Open) && !is_taken(Mode::Authenticated) {
                return Some(self.last_ssid);
            }
        }
        None
    }

    /// The session that a packet may be a reply to. The session itself verifies the rest.
    fn session_of(&self, packet: &[u8]) -> Option<SessionKey> {
        let by_ssid = |mode: Mode| {
            let ssid = Reply::read(mode, packet)?.own.ssid;
            self.sessions.get(&(mode, ssid)).copied()
        };
        // A reflector without SSIDs returns none, which is enough if there is one session.
        let only = || self.sessions.values().next().copied();
        let found = by_ssid(Mode::Open).or_else(|| by_ssid(Mode::Authenticated));
        found.or_else(|| only().filter(|_| self.sessions.len() == 1))
    }
}

/// The state of the engine's thread.
#[derive(Debug)]
pub struct Engine {
    start: Instant,
    intervals: Intervals,
    /// Each with the index of its socket.
    sessions: BTreeMap<SessionKey, (Session, usize)>,
    /// Sessions ever added.
    added: u64,
    senders: Vec<Sender>,
    due: BinaryHeap<Reverse<(Duration, SessionKey)>>,
    reflector: Option<Reflector>,
    listeners: Vec<Socket>,
    /// All sockets behind one descriptor for `ppoll`, which, unlike `epoll_wait`, waits to the nanosecond.
    readable: OwnedFd,
    wanted: Stamped,
    clock: LocalClock,
    ticked: Duration,
    strangers: u64,
    buffer: Vec<u8>,
}

impl Engine {
    /// Creates an engine whose time starts now, with no sessions and no reflector.
    ///
    /// # Errors
    /// The system has no more descriptors.
    pub fn new(intervals: Intervals, wanted: Stamped) -> io::Result<Self> {
        Ok(Self {
            start: Instant::now(),
            intervals,
            sessions: BTreeMap::new(),
            added: 0,
            senders: Vec::new(),
            due: BinaryHeap::new(),
            reflector: None,
            listeners: Vec::new(),
            readable: epoll::create(CreateFlags::CLOEXEC)?,
            wanted,
            clock: LocalClock::default(),
            ticked: Duration::ZERO,
            strangers: 0,
            buffer: vec![0; PACKET_BYTES],
        })
    }

    /// Reflects packets sent to these addresses.
    ///
    /// # Errors
    /// [`SocketError`]
    pub fn reflect(
        &mut self,
        reflector: Reflector,
        listen: impl Iterator<Item = SocketAddr>,
    ) -> Result<(), SocketError> {
        for local in listen {
            let socket = self.open(local, None)?;
            self.listeners.push(socket);
        }
        self.reflector = Some(reflector);
        Ok(())
    }

    /// The addresses of the reflector, with the actual ports in place of 0.
    pub fn listening(&self) -> impl Iterator<Item = SocketAddr> {
        self.listeners.iter().map(Socket::local)
    }

    fn open(&self, local: SocketAddr, requests: Option<u8>) -> Result<Socket, SocketError> {
        let opened = Socket::open(local, requests, self.wanted).and_then(|socket| {
            // All sockets are polled, so that the event need not say which it was.
            let none = EventData::new_u64(0);
            epoll::add(&self.readable, &socket, none, EventFlags::IN)?;
            Ok(socket)
        });
        opened.map_err(|error| SocketError { local, error })
    }

    /// Returns the index of the socket for a session to `to`, for [`Engine::add`], its address, and an SSID; `None`
    /// if all 65,535 are taken. Opens the socket if there is none.
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
            self.senders.push(Sender {
                socket: self.open(key.from, Some(key.traffic_class))?,
                key,
                reflectors: HashMap::new(),
                reports: VecDeque::new(),
            });
            self.senders.len() - 1
        };
        let sender = &mut self.senders[index];
        let ssid = sender.reflectors.entry(to).or_default().free_ssid();
        Ok((index, sender.socket.local(), ssid))
    }

    /// Adds a session to the socket with this index.
    pub fn add(&mut self, session: Session, sender: usize) -> SessionKey {
        let key = SessionKey(self.added);
        self.added += 1;
        let id = &session.settings().id;
        let asked = self.senders[sender].reflectors.entry(id.to).or_default();
        asked.sessions.insert((session.mode(), id.ssid), key);
        if let Some(due) = session.due() {
            self.due.push(Reverse((due, key)));
        }
        self.sessions.insert(key, (session, sender));
        key
    }

    /// Ends a session. It sends no more, and is removed once its packets are answered or timed out and its last
    /// interval is closed.
    pub fn end(&mut self, key: SessionKey) {
        if let Some((session, _)) = self.sessions.get_mut(&key) {
            session.end(self.start.elapsed());
        }
    }

    /// When intervals start.
    pub fn intervals(&self) -> Intervals {
        self.intervals
    }

    /// Time since the start.
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Sends due requests, waits at most 50 ms for packets, and receives them.
    ///
    /// # Errors
    /// The system cannot wait for packets.
    pub fn step(&mut self, outlet: &mut Outlet) -> io::Result<()> {
        self.clock.watch(self.start);
        self.send_due();
        let now = self.now();
        if now >= self.ticked + TICK {
            self.ticked = now;
            self.tick(now, outlet);
        }
        self.wait()?;
        self.receive();
        Ok(())
    }

    /// Closes all intervals as they are. Call this last.
    pub fn finish(&mut self, outlet: &mut Outlet) {
        self.tick(self.now(), outlet);
        for (session, _) in self.sessions.values_mut() {
            while let Some(result) = session.finish(self.clock) {
                outlet.result(result);
            }
        }
        let present = self.intervals.at(self.now());
        let ends = self.sessions.values().map(|of| of.0.first_open());
        outlet.closed(ends.max().unwrap_or(present));
    }

    /// Whether all sessions have ended and there is no reflector.
    pub fn is_over(&self) -> bool {
        self.reflector.is_none() && self.sessions.values().all(|of| of.0.is_over())
    }

    /// Replies so far that belong to no session.
    pub fn strangers(&self) -> u64 {
        self.strangers
    }

    fn send_due(&mut self) {
        for _ in 0..BATCH {
            let now = self.now();
            let Some(&Reverse((_, key))) = self.due.peek().filter(|next| next.0.0 <= now) else {
                return;
            };
            self.due.pop();
            if let Some(next) = self.send(key, now) {
                self.due.push(Reverse((next, key)));
            }
        }
    }

    /// Sends the request of a session; returns when the next is due, or `None` if the session has ended.
    fn send(&mut self, key: SessionKey, now: Duration) -> Option<Duration> {
        let (session, sender) = self.sessions.get_mut(&key)?;
        let sender = self.senders.get_mut(*sender)?;
        session.due()?;
        let (to, wall) = (session.settings().id.to, UnixNs::now());
        if let Some(packet) = session.request(now, wall) {
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
        session.due()
    }

    /// Waits until a packet comes, a session is due, or the next tick.
    fn wait(&self) -> io::Result<()> {
        let mut until = self.ticked + TICK;
        if let Some(&Reverse((due, _))) = self.due.peek() {
            until = until.min(due);
        }
        let limit = until.saturating_sub(self.now());
        let limit = Timespec::try_from(limit).ok();
        let mut readable = [PollFd::new(&self.readable, PollFlags::IN)];
        match poll(&mut readable, limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Receives packets until no socket has any. Sockets do not block.
    fn receive(&mut self) {
        for index in 0..self.senders.len() {
            self.reports(index);
            self.replies(index);
        }
        self.requests();
    }

    /// Reads the error queue: times of transmission, which precede their replies, and undelivered requests.
    fn reports(&mut self, index: usize) {
        let now = self.now();
        let sender = &mut self.senders[index];
        for _ in 0..2 * BATCH {
            let (id, stamps) = match sender.socket.report() {
                Some(Report::Left(id, stamps)) => (id, stamps),
                Some(Report::Unreachable(to, why)) => {
                    let asked = sender.reflectors.get(&plain(to)).into_iter();
                    for key in asked.flat_map(|asked| asked.sessions.values()) {
                        if let Some((session, _)) = self.sessions.get_mut(key) {
                            session.was_unreachable(now, why);
                        }
                    }
                    continue;
                }
                None => return,
            };
            // Numbers are in order, and missing ones are skipped. A number from before a restart of the count is
            // unknown.
            let is_known = sender
                .reports
                .back()
                .is_some_and(|(last, ..)| last.wrapping_sub(id).cast_signed() >= 0);
            if !is_known {
                continue;
            }
            let is_due = |report: &mut (u32, _, _)| id.wrapping_sub(report.0).cast_signed() >= 0;
            while let Some((first, key, sequence)) = sender.reports.pop_front_if(is_due) {
                if first == id {
                    if let Some((session, _)) = self.sessions.get_mut(&key) {
                        session.transmitted(sequence, stamps);
                    }
                    break;
                }
            }
        }
    }

    fn replies(&mut self, index: usize) {
        let now = self.now();
        let sender = &mut self.senders[index];
        for _ in 0..BATCH {
            let Some((packet, arrival)) = sender.socket.receive(&mut self.buffer) else {
                return;
            };
            let asked = sender.reflectors.get(&plain(arrival.from));
            let key = asked.and_then(|asked| asked.session_of(packet));
            let Some((session, _)) = key.and_then(|key| self.sessions.get_mut(&key)) else {
                self.strangers += 1;
                continue;
            };
            session.answered(packet, arrival.stamps, self.clock, now);
        }
    }

    fn requests(&mut self) {
        let now = self.now();
        let Some(reflector) = &mut self.reflector else {
            return;
        };
        for socket in &mut self.listeners {
            for _ in 0..BATCH {
                let Some((packet, arrival)) = socket.receive(&mut self.buffer) else {
                    break;
                };
                let Some(pending) = reflector.reflect(packet, &arrival, now) else {
                    continue;
                };
                let class = pending.traffic_class;
                reflector.finish(packet, pending, UnixNs::now());
                if let Err(error) = socket.reply(packet, &arrival, class) {
                    let (local, from) = (socket.local(), arrival.from);
                    tracing::debug!("{local}: no reply to {from}: {error}");
                    reflector.not_sent();
                }
            }
        }
    }

    /// Handles time-outs, intervals that have ended, and sessions that are done.
    fn tick(&mut self, now: Duration, outlet: &mut Outlet) {
        for (session, _) in self.sessions.values_mut() {
            while let Some(result) = session.poll(now, self.clock) {
                outlet.result(result);
                if session.has_left() {
                    break;
                }
            }
        }
        let senders = &mut self.senders;
        self.sessions.retain(|_, (session, sender)| {
            let id = &session.settings().id;
            if session.has_left()
                && let Some(asked) = senders[*sender].reflectors.get_mut(&id.to)
            {
                asked.sessions.remove(&(session.mode(), id.ssid));
            }
            !session.has_left()
        });
        let sessions = || self.sessions.values().map(|of| &of.0);
        outlet.counted(
            self.reflector.as_ref().map(Reflector::counts),
            self.strangers,
            &SendFaults::of(sessions()),
        );
        let open = sessions().map(Session::first_open).min();
        outlet.closed(open.unwrap_or_else(|| self.intervals.at(now)));
    }
}

/// Without the flow label, since a reply has its own.
fn plain(mut address: SocketAddr) -> SocketAddr {
    if let SocketAddr::V6(v6) = &mut address {
        v6.set_flowinfo(0);
    }
    address
}
