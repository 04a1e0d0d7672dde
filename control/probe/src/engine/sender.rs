//! A socket that requests leave by, and the sessions that share it.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;

use super::SessionKey;
use crate::session::SessionSettings;
use crate::socket::Socket;
use crate::wire::packet::{Mode, Reply};

/// Which socket: sessions of the same source, class and lane share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderKey {
    /// Source address; port 0 takes one that is free.
    pub from: SocketAddr,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// From 0; sockets of another lane have another port.
    pub lane: usize,
}

/// A session's socket.
#[derive(Debug)]
pub(super) struct Sender {
    pub socket: Socket,
    pub key: SenderKey,
    /// Sessions by the reflector's address, mode and SSID: the mode says where the SSID is.
    sessions: HashMap<(SocketAddr, Mode, u16), SessionKey>,
    /// Sessions by the reflector's address: one that does not know SSIDs returns none, which does where there is one session.
    by_address: HashMap<SocketAddr, BTreeSet<SessionKey>>,
    /// The SSID that was given last, by the reflector's address.
    ssids: HashMap<SocketAddr, u16>,
    /// Packets whose time of transmission is not known yet: number, session, sequence number.
    pub reports: VecDeque<(u32, SessionKey, u32)>,
}

impl Sender {
    pub fn new(socket: Socket, key: SenderKey) -> Self {
        Self {
            socket,
            key,
            sessions: HashMap::new(),
            by_address: HashMap::new(),
            ssids: HashMap::new(),
            reports: VecDeque::new(),
        }
    }

    /// An SSID that no session to this reflector has, and the last one longest ago; `None`: all are taken.
    pub fn free_ssid(&mut self, to: SocketAddr) -> Option<u16> {
        let last = self.ssids.entry(to).or_insert(0);
        let is_taken = |ssid: u16| {
            [Mode::Open, Mode::Authenticated]
                .iter()
                .any(|&mode| self.sessions.contains_key(&(to, mode, ssid)))
        };
        for _ in 0..u16::MAX {
            *last = last.checked_add(1).unwrap_or(1);
            if !is_taken(*last) {
                return Some(*last);
            }
        }
        None
    }

    pub fn add(&mut self, settings: &SessionSettings, mode: Mode, session: SessionKey) {
        let key = (settings.to, mode, settings.ssid);
        self.sessions.insert(key, session);
        self.by_address
            .entry(settings.to)
            .or_default()
            .insert(session);
    }

    pub fn remove(&mut self, settings: &SessionSettings, mode: Mode, session: SessionKey) {
        self.sessions.remove(&(settings.to, mode, settings.ssid));
        if let Some(sessions) = self.by_address.get_mut(&settings.to) {
            sessions.remove(&session);
            if sessions.is_empty() {
                self.by_address.remove(&settings.to);
            }
        }
    }

    /// Sessions to this address.
    pub fn sessions_to(&self, to: SocketAddr) -> impl Iterator<Item = &SessionKey> {
        self.by_address.get(&to).into_iter().flatten()
    }

    /// The session that a packet of this reflector may be a reply to. It verifies the rest.
    pub fn session_of(&self, from: SocketAddr, packet: &[u8]) -> Option<SessionKey> {
        let by_ssid = |mode: Mode| {
            let ssid = Reply::read(mode, packet)?.ssid;
            self.sessions.get(&(from, mode, ssid)).copied()
        };
        let only = || {
            let sessions = self.by_address.get(&from)?;
            sessions.first().copied().filter(|_| sessions.len() == 1)
        };
        let found = by_ssid(Mode::Open).or_else(|| by_ssid(Mode::Authenticated));
        found.or_else(only)
    }
}
