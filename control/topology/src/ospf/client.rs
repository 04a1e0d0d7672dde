//! A client of FRR's OSPF API (`ospfd -a`, TCP port 2607, IPv4).

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{self, Timeout};
use rustix::net::{self, AddressFamily, SocketType};

use super::api::{self, Answer, Change, MessageError, Request};
use super::database::{Database, TYPES};
use super::kernel::{self, Owner};
use super::lsa::{AGE_MAX_S, HEADER_BYTES, Header, OPAQUE_AREA};
use super::presence::{OPAQUE_TYPE, Presence};

/// The port of ospfd's API.
pub const PORT: u16 = 2_607;

/// How often a pair of free ports is looked for.
const PORT_ATTEMPTS: usize = 50;
/// How many bytes are read at once.
const READ_BYTES: usize = 1 << 13;
/// Changes that wait while a reply is waited for, at most.
const WAITING_MAX: usize = 1 << 20;

/// Why ospfd cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No connection.
    #[error("{server}: cannot connect to ospfd's API: {reason}; ospfd needs the option -a")]
    Connect {
        /// Where.
        server: SocketAddrV4,
        /// Why.
        reason: io::Error,
    },
    /// No two free ports in a row.
    #[error(
        "{address}: no two free ports in a row after {PORT_ATTEMPTS} attempts: ospfd connects back to the second"
    )]
    Ports {
        /// Own address.
        address: Ipv4Addr,
    },
    /// ospfd runs no OSPF.
    #[error(
        "{server}: ospfd runs no OSPF: its configuration has no `router ospf`, or it has not read it yet; it was not asked, \
         since ospfd of FRR up to 10.3 ends when it is asked before"
    )]
    NoInstance {
        /// Where it is.
        server: SocketAddrV4,
    },
    /// ospfd did not connect back.
    #[error("{server}: ospfd did not connect back to port {port} within {seconds} s: {reason}")]
    Back {
        /// Where it is.
        server: SocketAddrV4,
        /// Where it was to connect to.
        port: u16,
        /// How long that was waited for.
        seconds: u64,
        /// What happened instead.
        reason: io::Error,
    },
    /// The connection is lost.
    #[error("{server}: the connection to ospfd is lost: {reason}")]
    Lost {
        /// Where it was.
        server: SocketAddrV4,
        /// Why.
        reason: io::Error,
    },
    /// What ospfd says cannot be read.
    #[error("{server}: {reason}")]
    Message {
        /// Where it is.
        server: SocketAddrV4,
        /// What is wrong.
        reason: MessageError,
    },
    /// ospfd refuses a request.
    #[error("{server}: ospfd refuses to {request}: {}", reason(*code))]
    Refused {
        /// Where it is.
        server: SocketAddrV4,
        /// What was asked.
        request: &'static str,
        /// Its code.
        code: i8,
    },
    /// No reply in time.
    #[error("{server}: ospfd did not answer the request to {request} in time")]
    Silent {
        /// Where it is.
        server: SocketAddrV4,
        /// What was asked.
        request: &'static str,
    },
}

/// By `ospfd/ospf_api.h`.
fn reason(code: i8) -> &'static str {
    match code {
        -2 => "it is not in that area",
        -3 => "there is no such LSA",
        -5 => {
            "another client has that opaque type: only one node can advertise itself by one ospfd"
        }
        -6 => "the opaque type is not registered",
        -7 => {
            "it is not ready: `capability opaque` is missing in its configuration, or it has no neighbour yet"
        }
        _ => "its log says why",
    }
}

/// One direction of messages.
#[derive(Debug)]
struct Channel {
    stream: TcpStream,
    received: Vec<u8>,
}

/// A connection to ospfd.
#[derive(Debug)]
pub struct Client {
    server: SocketAddrV4,
    requests: Channel,
    changes: Channel,
    sequence: u32,
    patience: Duration,
    unreadable: u64,
    /// The router's own id, once it is known.
    id: Ipv4Addr,
    /// What this client withdrew itself: ospfd 8.4 announces that a minute later only.
    withdrawn: Option<Change>,
}

impl Client {
    /// Connects. `patience` bounds every wait for an answer.
    ///
    /// # Errors
    /// If ospfd is not there, does not connect back, or is on this machine and runs no OSPF yet.
    pub fn connect(server: SocketAddrV4, patience: Duration) -> Result<Self, ClientError> {
        let client = Self::open(server, patience)?;
        // What ospfd of another machine runs is not known here.
        let own = client.requests.stream.local_addr();
        let is_here = own.is_ok_and(|own| own.ip() == *server.ip());
        if is_here && kernel::runs_ospf() == Some(false) {
            return Err(ClientError::NoInstance { server });
        }
        Ok(client)
    }

    /// Connects, and asks nothing.
    fn open(server: SocketAddrV4, patience: Duration) -> Result<Self, ClientError> {
        let failed = |reason| ClientError::Connect { server, reason };
        let address = own_address(server).map_err(failed)?;
        let (listener, port) = ports(address)?;
        let socket = bound(address, port, patience).map_err(failed)?;
        net::connect(&socket, &server).map_err(|error| failed(error.into()))?;
        let requests = TcpStream::from(socket);
        requests.set_nodelay(true).map_err(failed)?;
        let own = SocketAddrV4::new(address, port);
        let changes =
            accept(&listener, server, own, patience).map_err(|reason| ClientError::Back {
                server,
                port: port + 1,
                seconds: patience.as_secs(),
                reason,
            })?;
        let channel = |stream| Channel {
            stream,
            received: Vec::new(),
        };
        Ok(Self {
            server,
            requests: channel(requests),
            changes: channel(changes),
            sequence: 0,
            patience,
            unreadable: 0,
            id: Ipv4Addr::UNSPECIFIED,
            withdrawn: None,
        })
    }

    /// The whole database of LSAs; [`Client::next`] has what changes from then on. Also the router's own id.
    ///
    /// # Errors
    /// If the connection is lost, or ospfd does not answer in time.
    pub fn synchronise(&mut self) -> Result<(Database, Ipv4Addr), ClientError> {
        let mut database = Database::default();
        self.ask(&Request::Watch(TYPES), "announce changes")?;
        self.ask(&Request::Database(TYPES), "send its LSAs")?;
        let mark = self.ask(&Request::RouterId, "send its id")?;
        let deadline = Instant::now() + self.patience;
        loop {
            match self.answer(deadline)? {
                Some(Answer::Changed(change)) => drop(database.apply(change)),
                // It comes behind all LSAs.
                Some(Answer::RouterId { sequence, id }) if sequence == mark => {
                    self.id = id;
                    return Ok((database, id));
                }
                Some(_) => {}
                None => {
                    let (server, request) = (self.server, "send its LSAs");
                    return Err(ClientError::Silent { server, request });
                }
            }
        }
    }

    /// The next change, if one comes until `deadline`.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn next(&mut self, deadline: Instant) -> Result<Option<Change>, ClientError> {
        if let Some(change) = self.withdrawn.take() {
            return Ok(Some(change));
        }
        loop {
            match self.answer(deadline)? {
                Some(Answer::Changed(change)) => return Ok(Some(change)),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    /// Advertises in an area what a node is, as long as this connection stands: ospfd withdraws the LSA when it ends. It
    /// can be advertised anew with other content.
    ///
    /// # Errors
    /// If ospfd refuses, or the connection is lost.
    pub fn advertise(&mut self, area: Ipv4Addr, presence: &Presence) -> Result<(), ClientError> {
        let registered = self.ask(&Request::Register(OPAQUE_TYPE), "register an opaque type");
        match registered {
            // This client has it already, or another: then the next request fails.
            Ok(_) | Err(ClientError::Refused { code: -5, .. }) => {}
            Err(error) => return Err(error),
        }
        let request = Request::Originate {
            area,
            opaque_type: OPAQUE_TYPE,
            body: presence.emit(),
        };
        self.ask(&request, "originate an opaque LSA").map(drop)
    }

    /// Withdraws what was advertised.
    ///
    /// # Errors
    /// If nothing was, or the connection is lost.
    pub fn withdraw(&mut self, area: Ipv4Addr) -> Result<(), ClientError> {
        let opaque_type = OPAQUE_TYPE;
        let request = Request::Withdraw { area, opaque_type };
        self.ask(&request, "withdraw an opaque LSA")?;
        let header = Header {
            age_s: AGE_MAX_S,
            kind: OPAQUE_AREA,
            id: [opaque_type, 0, 0, 0].into(),
            advertiser: self.id,
            length: u16::try_from(HEADER_BYTES).unwrap_or(0),
        };
        self.withdrawn = Some(Change::Gone { area, header });
        Ok(())
    }

    /// Messages that could not be read, in all; they are skipped.
    pub const fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Sends a request and waits for its reply; its sequence number.
    fn ask(&mut self, request: &Request, what: &'static str) -> Result<u32, ClientError> {
        let server = self.server;
        // 0 is for what nobody asked.
        self.sequence = self.sequence % 0x7fff_ffff + 1;
        let message = request.emit(self.sequence);
        let sent = self.requests.stream.write_all(&message);
        sent.map_err(|reason| ClientError::Lost { server, reason })?;
        let deadline = Instant::now() + self.patience;
        loop {
            let answer = self.requests.next(deadline, server)?;
            match answer {
                Some(Ok(Answer::Reply { sequence, code })) if sequence == self.sequence => {
                    return match code {
                        0 => Ok(sequence),
                        code => Err(ClientError::Refused {
                            server,
                            request: what,
                            code,
                        }),
                    };
                }
                Some(Err(_)) => self.unreadable += 1,
                Some(Ok(_)) => {}
                None => {
                    return Err(ClientError::Silent {
                        server,
                        request: what,
                    });
                }
            }
        }
    }

    /// What is announced next.
    fn answer(&mut self, deadline: Instant) -> Result<Option<Answer>, ClientError> {
        loop {
            match self.changes.next(deadline, self.server)? {
                Some(Ok(answer)) => return Ok(Some(answer)),
                Some(Err(_)) => self.unreadable += 1,
                None => return Ok(None),
            }
        }
    }
}

impl Channel {
    /// The next message, or that it cannot be read; `None` if there is none until `deadline`.
    fn next(
        &mut self,
        deadline: Instant,
        server: SocketAddrV4,
    ) -> Result<Option<Result<Answer, MessageError>>, ClientError> {
        loop {
            match api::next(&mut self.received) {
                Ok(Some(answer)) => return Ok(Some(Ok(answer))),
                Err(reason @ MessageError::Version(_)) => {
                    return Err(ClientError::Message { server, reason });
                }
                Err(reason) => return Ok(Some(Err(reason))),
                Ok(None) => {}
            }
            let left = deadline.saturating_duration_since(Instant::now());
            // A wait of 0 would be one for ever.
            let wait = Some(left.max(Duration::from_millis(1)));
            let lost = |reason| ClientError::Lost { server, reason };
            self.stream.set_read_timeout(wait).map_err(lost)?;
            debug_assert!(self.received.len() < WAITING_MAX);
            let mut bytes = [0; READ_BYTES];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(lost(io::ErrorKind::UnexpectedEof.into())),
                Ok(read) => self.received.extend_from_slice(&bytes[..read]),
                Err(error) if is_timeout(&error) => {
                    if left.is_zero() {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(lost(error)),
            }
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

/// The address by which this machine reaches the server.
fn own_address(server: SocketAddrV4) -> io::Result<Ipv4Addr> {
    let probe = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    probe.connect(server)?;
    match probe.local_addr()?.ip() {
        IpAddr::V4(address) => Ok(address),
        IpAddr::V6(_) => Err(io::ErrorKind::AddrNotAvailable.into()),
    }
}

/// A listener on a port whose predecessor is free; that predecessor.
fn ports(address: Ipv4Addr) -> Result<(TcpListener, u16), ClientError> {
    for _ in 0..PORT_ATTEMPTS {
        let Ok(listener) = TcpListener::bind((address, 0)) else {
            continue;
        };
        let Some(port) = listener
            .local_addr()
            .ok()
            .and_then(|own| own.port().checked_sub(1))
        else {
            continue;
        };
        // ospfd connects to nobody on its own port.
        let is_free = port > 1_024 && TcpListener::bind((address, port)).is_ok();
        if is_free && port + 1 != PORT {
            return Ok((listener, port));
        }
    }
    Err(ClientError::Ports { address })
}

fn bound(address: Ipv4Addr, port: u16, patience: Duration) -> io::Result<rustix::fd::OwnedFd> {
    let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    // It bounds the connection's start, too (socket(7)).
    sockopt::set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    net::bind(&socket, &SocketAddrV4::new(address, port))?;
    Ok(socket)
}

/// Whether the connection from `peer` to the port after `own` may be ospfd's: of a program here, if it has the user that has
/// the server's end of the connection from `own`. Any program here could connect first, and pretend another network.
fn may_be_of(server: SocketAddrV4, own: SocketAddrV4, peer: SocketAddrV4) -> bool {
    if peer.ip() != server.ip() {
        return false;
    }
    let back = SocketAddrV4::new(*own.ip(), own.port() + 1);
    match kernel::owners([(server, own), (peer, back)]) {
        // It is elsewhere, or the kernel does not say.
        [None, _] => true,
        [Some(Owner::User(server)), Some(Owner::User(peer))] => server == peer,
        _ => false,
    }
}

/// The connection back, from ospfd; others are closed.
fn accept(
    listener: &TcpListener,
    server: SocketAddrV4,
    own: SocketAddrV4,
    patience: Duration,
) -> io::Result<TcpStream> {
    let deadline = Instant::now() + patience;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        sockopt::set_socket_timeout(
            listener,
            Timeout::Recv,
            Some(left.max(Duration::from_millis(1))),
        )?;
        match listener.accept() {
            Ok((stream, SocketAddr::V4(peer))) if may_be_of(server, own, peer) => {
                return Ok(stream);
            }
            Ok(_) => {}
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
