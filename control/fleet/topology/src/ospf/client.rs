//! A client of FRR's OSPF API (`ospfd -a`, TCP port 2607, IPv4).
//!
//! The kernel's tables of sockets in this thread's network namespace (`proc_net(5)`) tell whether an ospfd of this
//! machine runs OSPF, and which connections are its own.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{self, Timeout};
use rustix::net::{self, AddressFamily, SocketType};

use super::api::{self, Answer, Change, MessageError, Request};
use super::database::{Database, TYPES};
use super::presence::{OPAQUE_TYPE, Presence};

/// The port of ospfd's API.
pub const PORT: u16 = 2_607;

/// Number of attempts to find a pair of free ports.
const PORT_ATTEMPTS: usize = 50;
/// Bytes to read at once.
const READ_BYTES: usize = 1 << 13;
/// Limit of changes queued while a reply is pending.
const WAITING_MAX: usize = 1 << 20;

/// Why a request to ospfd failed.
#[derive(Debug, thiserror::Error)]
#[error("{at}: {problem}")]
pub struct ClientError {
    /// The server, or this end's address if the problem is here.
    at: String,
    /// What happened.
    pub problem: Problem,
}

impl ClientError {
    fn of(server: SocketAddrV4, problem: Problem) -> Self {
        let at = match problem {
            Problem::Ports(address) => address.to_string(),
            _ => server.to_string(),
        };
        Self { at, problem }
    }
}

/// Problems of a client.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// There is no connection.
    #[error("cannot connect to ospfd's API: {0}; ospfd needs the option -a")]
    Connect(io::Error),
    /// There are no two adjacent free ports.
    #[error(
        "no two free ports in a row after {PORT_ATTEMPTS} attempts: ospfd connects back to the second"
    )]
    Ports(Ipv4Addr),
    /// ospfd runs no OSPF.
    #[error(
        "ospfd runs no OSPF: its configuration has no `router ospf`, or it has not read it yet; it was not asked, \
         since ospfd of FRR up to 10.3 ends when it is asked before"
    )]
    NoInstance,
    /// ospfd did not connect back to this port within this many seconds.
    #[error("ospfd did not connect back to port {0} within {1} s: {2}")]
    Back(u16, u64, io::Error),
    /// The connection is lost.
    #[error("the connection to ospfd is lost: {0}")]
    Lost(io::Error),
    /// A message from ospfd cannot be parsed.
    #[error("{0}")]
    Message(MessageError),
    /// ospfd refused a request.
    #[error("ospfd refuses to {request}: {}", reason(*code))]
    Refused {
        /// The request.
        request: &'static str,
        /// The error code.
        code: i8,
    },
    /// There was no reply in time.
    #[error("ospfd did not answer the request to {0} in time")]
    Silent(&'static str),
}

/// Describes a code of `ospfd/ospf_api.h`.
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
}

impl Client {
    /// Connects. `patience` limits every wait for an answer.
    ///
    /// # Errors
    /// ospfd is not there, does not connect back, or is on this machine and does not run OSPF yet.
    pub fn connect(server: SocketAddrV4, patience: Duration) -> Result<Self, ClientError> {
        let connected = Self::open(server, patience).and_then(|client| {
            // What an ospfd of another machine runs is unknown here.
            let own = client.requests.stream.local_addr();
            let is_here = own.is_ok_and(|own| own.ip() == *server.ip());
            if is_here && runs_ospf() == Some(false) {
                return Err(Problem::NoInstance);
            }
            Ok(client)
        });
        connected.map_err(|problem| ClientError::of(server, problem))
    }

    /// Connects without sending a request.
    fn open(server: SocketAddrV4, patience: Duration) -> Result<Self, Problem> {
        let address = own_address(server).map_err(Problem::Connect)?;
        let (listener, port) = ports(address)?;
        let socket = bound(address, port, patience).map_err(Problem::Connect)?;
        net::connect(&socket, &server).map_err(|error| Problem::Connect(error.into()))?;
        let requests = TcpStream::from(socket);
        requests.set_nodelay(true).map_err(Problem::Connect)?;
        let own = SocketAddrV4::new(address, port);
        let changes = accept(&listener, server, own, patience)
            .map_err(|reason| Problem::Back(port + 1, patience.as_secs(), reason))?;
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
        })
    }

    /// Returns the whole database of LSAs and the router's own ID. [`Client::next`] returns all later
    /// changes.
    ///
    /// # Errors
    /// The connection is lost, or ospfd does not answer in time.
    pub fn synchronise(&mut self) -> Result<(Database, Ipv4Addr), ClientError> {
        let mut database = Database::default();
        self.ask(&Request::Watch(TYPES), "announce changes")?;
        self.ask(&Request::Database(TYPES), "send its LSAs")?;
        let mark = self.ask(&Request::RouterId, "send its id")?;
        let deadline = Instant::now() + self.patience;
        loop {
            match self.answer(deadline)? {
                Some(Answer::Changed(change)) => drop(database.apply(change)),
                // It follows all LSAs.
                Some(Answer::RouterId { sequence, id }) if sequence == mark => {
                    return Ok((database, id));
                }
                Some(_) => {}
                None => {
                    let problem = Problem::Silent("send its LSAs");
                    return Err(ClientError::of(self.server, problem));
                }
            }
        }
    }

    /// The next change before `deadline`, if any.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn next(&mut self, deadline: Instant) -> Result<Option<Change>, ClientError> {
        loop {
            match self.answer(deadline)? {
                Some(Answer::Changed(change)) => return Ok(Some(change)),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    /// Advertises in an area what a node is, for as long as this connection lasts: then ospfd withdraws the LSA. A
    /// second call replaces its content.
    ///
    /// # Errors
    /// ospfd refuses, or the connection is lost.
    pub fn advertise(&mut self, area: Ipv4Addr, presence: &Presence) -> Result<(), ClientError> {
        let registered = self.ask(&Request::Register(OPAQUE_TYPE), "register an opaque type");
        if let Err(error) = registered {
            // Either this client has registered it already, or another has: then the next request fails.
            let Problem::Refused { code: -5, .. } = error.problem else {
                return Err(error);
            };
        }
        let request = Request::Originate {
            area,
            opaque_type: OPAQUE_TYPE,
            body: presence.emit(),
        };
        self.ask(&request, "originate an opaque LSA").map(drop)
    }

    /// Messages that could not be parsed and were skipped, in total.
    pub const fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Sends a request and waits for its reply; returns its sequence number.
    fn ask(&mut self, request: &Request, what: &'static str) -> Result<u32, ClientError> {
        let answered = self.reply(request, what);
        answered.map_err(|problem| ClientError::of(self.server, problem))
    }

    fn reply(&mut self, request: &Request, what: &'static str) -> Result<u32, Problem> {
        // 0 marks unsolicited messages.
        self.sequence = self.sequence % 0x7fff_ffff + 1;
        let message = request.emit(self.sequence);
        let sent = self.requests.stream.write_all(&message);
        sent.map_err(Problem::Lost)?;
        let deadline = Instant::now() + self.patience;
        loop {
            match self.requests.next(deadline)? {
                Some(Ok(Answer::Reply { sequence, code })) if sequence == self.sequence => {
                    return match code {
                        0 => Ok(sequence),
                        code => Err(Problem::Refused {
                            request: what,
                            code,
                        }),
                    };
                }
                Some(Err(_)) => self.unreadable += 1,
                Some(Ok(_)) => {}
                None => return Err(Problem::Silent(what)),
            }
        }
    }

    /// The next announcement.
    fn answer(&mut self, deadline: Instant) -> Result<Option<Answer>, ClientError> {
        loop {
            let next = self.changes.next(deadline);
            match next.map_err(|problem| ClientError::of(self.server, problem))? {
                Some(Ok(answer)) => return Ok(Some(answer)),
                Some(Err(_)) => self.unreadable += 1,
                None => return Ok(None),
            }
        }
    }
}

impl Channel {
    /// The next message, or why it cannot be parsed; `None` if there is none before `deadline`.
    fn next(&mut self, deadline: Instant) -> Result<Option<Result<Answer, MessageError>>, Problem> {
        loop {
            match api::next(&mut self.received) {
                Ok(Some(answer)) => return Ok(Some(Ok(answer))),
                Err(reason @ MessageError::Version(_)) => {
                    return Err(Problem::Message(reason));
                }
                Err(reason) => return Ok(Some(Err(reason))),
                Ok(None) => {}
            }
            let left = deadline.saturating_duration_since(Instant::now());
            // A time-out of 0 would mean none.
            let wait = Some(left.max(Duration::from_millis(1)));
            self.stream.set_read_timeout(wait).map_err(Problem::Lost)?;
            debug_assert!(self.received.len() < WAITING_MAX);
            let mut bytes = [0; READ_BYTES];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(Problem::Lost(io::ErrorKind::UnexpectedEof.into())),
                Ok(read) => self.received.extend_from_slice(&bytes[..read]),
                Err(error) if is_timeout(&error) => {
                    if left.is_zero() {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(Problem::Lost(error)),
            }
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

/// The address from which this machine reaches the server.
fn own_address(server: SocketAddrV4) -> io::Result<Ipv4Addr> {
    let probe = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    probe.connect(server)?;
    match probe.local_addr()?.ip() {
        IpAddr::V4(address) => Ok(address),
        IpAddr::V6(_) => Err(io::ErrorKind::AddrNotAvailable.into()),
    }
}

/// A listener on a port with a free predecessor, and that predecessor.
fn ports(address: Ipv4Addr) -> Result<(TcpListener, u16), Problem> {
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
        // ospfd does not connect back from the port of its API.
        let is_free = port > 1_024 && TcpListener::bind((address, port)).is_ok();
        if is_free && port + 1 != PORT {
            return Ok((listener, port));
        }
    }
    Err(Problem::Ports(address))
}

fn bound(address: Ipv4Addr, port: u16, patience: Duration) -> io::Result<rustix::fd::OwnedFd> {
    let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    // This also limits connecting (socket(7)).
    sockopt::set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    net::bind(&socket, &SocketAddrV4::new(address, port))?;
    Ok(socket)
}

/// Whether the connection from `peer` to the port after `own` may be ospfd's. A program of this machine must have the
/// same user as the server's end of the connection from `own`: otherwise any program here could connect first and
/// fake a network.
fn may_be_of(server: SocketAddrV4, own: SocketAddrV4, peer: SocketAddrV4) -> bool {
    if peer.ip() != server.ip() {
        return false;
    }
    let back = SocketAddrV4::new(*own.ip(), own.port() + 1);
    match owners([(server, own), (peer, back)]) {
        // It is on another machine, or the kernel's tables are not available.
        [None, _] => true,
        [Some(Owner::User(server)), Some(Owner::User(peer))] => server == peer,
        _ => false,
    }
}

/// Accepts the connection back from ospfd; others are closed.
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

/// IP protocol of OSPF.
const OSPF: u16 = 89;

/// Whether a program of this machine runs OSPF: FRR's ospfd has a raw socket for each instance, and none before its
/// configuration has a `router ospf`. `None` if the kernel's tables are not available.
fn runs_ospf() -> Option<bool> {
    let table = fs::read_to_string("/proc/thread-self/net/raw").ok()?;
    Some(sockets(&table).any(|socket| socket.local.port() == OSPF))
}

/// The owner of a connection's local end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// A program of this user.
    User(u32),
    /// No program yet, or none any more.
    Nobody,
}

/// Owners of the local ends of connections, given as (local, remote) pairs and looked up at the same time; `None` for
/// an end that is not on this machine.
fn owners<const N: usize>(ends: [(SocketAddrV4, SocketAddrV4); N]) -> [Option<Owner>; N] {
    let table = fs::read_to_string("/proc/thread-self/net/tcp").unwrap_or_default();
    ends.map(|(local, remote)| owner(&table, local, remote))
}

fn owner(table: &str, local: SocketAddrV4, remote: SocketAddrV4) -> Option<Owner> {
    let mut all = sockets(table);
    let found = all.find(|socket| (socket.local, socket.remote) == (local, remote));
    found.map(|socket| match socket.inode {
        0 => Owner::Nobody,
        _ => Owner::User(socket.user),
    })
}

struct Socket {
    local: SocketAddrV4,
    remote: SocketAddrV4,
    user: u32,
    inode: u64,
}

/// The lines of a table without its heading: number, local and remote address, state, queues, timer, retransmissions,
/// user, timeouts, inode.
fn sockets(table: &str) -> impl Iterator<Item = Socket> {
    table.lines().skip(1).filter_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, remote) = (address(fields.next()?)?, address(fields.next()?)?);
        let mut fields = fields.skip(4);
        let user = fields.next()?.parse().ok()?;
        let inode = fields.nth(1)?.parse().ok()?;
        Some(Socket {
            local,
            remote,
            user,
            inode,
        })
    })
}

/// Parses the kernel's notation of an address: the bytes as a number in native order, and the port.
fn address(text: &str) -> Option<SocketAddrV4> {
    let (address, port) = text.split_once(':')?;
    let address = u32::from_str_radix(address, 16).ok()?.to_ne_bytes();
    let port = u16::from_str_radix(port, 16).ok()?;
    Some(SocketAddrV4::new(Ipv4Addr::from(address), port))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(15);

    /// A fake ospfd: accepts one connection, calls `before` with the address to connect back to, and connects.
    fn server(
        before: impl FnOnce(SocketAddrV4) + Send + 'static,
    ) -> (
        SocketAddrV4,
        std::thread::JoinHandle<(TcpStream, TcpStream)>,
    ) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, listener.local_addr().unwrap().port());
        let serve = move || {
            let (requests, peer) = listener.accept().unwrap();
            let back = SocketAddrV4::new(Ipv4Addr::LOCALHOST, peer.port() + 1);
            before(back);
            (requests, TcpStream::connect(back).unwrap())
        };
        (address, std::thread::spawn(serve))
    }

    #[test]
    fn a_stranger_who_connects_first_is_refused() {
        if rustix::process::geteuid().as_raw() != 0 {
            return testkit::skip("another user's program needs root");
        }
        let (address, served) = server(|back| {
            // It ends when the other end closes.
            let script = format!("exec 3<>/dev/tcp/{}/{} && cat <&3", back.ip(), back.port());
            let mut stranger = Command::new("bash");
            let stranger = stranger
                .args(["-c", &script])
                .uid(65_534)
                .gid(65_534)
                .status();
            assert!(stranger.unwrap().success());
        });
        let client = Client::open(address, PATIENCE).unwrap();
        let (_requests, changes) = served.join().unwrap();
        let peer = client.changes.stream.peer_addr().unwrap();
        assert_eq!(peer, changes.local_addr().unwrap());
    }

    #[test]
    fn an_ospfd_that_runs_no_ospf_is_not_asked() {
        if runs_ospf() != Some(false) {
            eprintln!("SKIPPED: this machine runs OSPF");
            return;
        }
        let (address, served) = server(|_| ());
        let error = Client::connect(address, PATIENCE).unwrap_err();
        assert!(error.to_string().contains("no `router ospf`"), "{error}");
        let (mut requests, _changes) = served.join().unwrap();
        let mut asked = Vec::new();
        requests.read_to_end(&mut asked).unwrap();
        assert_eq!(asked, [0; 0]);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn tables_are_read() {
        let raw = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n \
                   133: 00000000:0059 00000000:0000 07 00000000:00000000 00:00000000 00000000   101        0 126289 2 0 0\n";
        let found: Vec<_> = sockets(raw).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].local.port(), found[0].user, found[0].inode),
            (OSPF, 101, 126_289)
        );
        let tcp = "heading\n   1: 0100007F:0A2F 0201000A:9C40 01 00000000:00000000 00:00000000 00000000  101  0 7 1 0\n   \
                   2: 0100007F:0A30 0201000A:9C40 06 00000000:00000000 03:00000000 00000000  0  0 0 3 0\nnoise\n";
        let remote = SocketAddrV4::new(Ipv4Addr::new(10, 0, 1, 2), 40_000);
        let at = |port| owner(tcp, SocketAddrV4::new(Ipv4Addr::LOCALHOST, port), remote);
        assert_eq!(at(2_607), Some(Owner::User(101)));
        assert_eq!(at(2_608), Some(Owner::Nobody));
        assert_eq!(at(2_609), None);
    }

    #[test]
    fn ends_of_connections_have_owners() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = |address| match address {
            std::net::SocketAddr::V4(address) => address,
            std::net::SocketAddr::V6(_) => unreachable!("IPv4"),
        };
        let server = address(listener.local_addr().unwrap());
        let client = TcpStream::connect(server).unwrap();
        let own = address(client.local_addr().unwrap());
        // The other end is not accepted yet.
        let user = Owner::User(rustix::process::geteuid().as_raw());
        let ends = || owners([(own, server), (server, own), (server, server)]);
        assert_eq!(ends(), [Some(user), Some(Owner::Nobody), None]);
        let _accepted = listener.accept().unwrap();
        assert_eq!(ends(), [Some(user), Some(user), None]);
    }
}
