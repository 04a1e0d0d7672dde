//! UDP sockets with timestamps of the kernel or the interface, DSCP and time to live.
//!
//! All through `nix` and `rustix`: no unsafe code. Nothing here waits.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::libc::{self, SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6, sock_extended_err};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, RecvMsg, SockaddrStorage, TimestampingFlag,
    Timestamps, recvmsg, sendmsg, setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;
use rustix::net::sockopt as options;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wire::UnixNs;

/// Bytes that the kernel buffers for a socket in each direction; without privileges up to what `net.core.rmem_max` and `wmem_max`
/// allow.
const BUFFER_BYTES: usize = 4 << 20;

/// Time to live of what is sent: with the greatest, the other end sees how many hops there were (RFC 8762, section 4.3.1).
const TTL: u32 = 255;

/// Who takes a timestamp, the nearest to the wire first.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Stamped {
    /// The network interface, by its own clock.
    Hardware,
    /// The kernel, where it took the packet from the driver or passed it to it.
    #[default]
    Kernel,
    /// This program.
    Program,
}

/// When a packet passed, by each clock that says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamps {
    /// By the interface's clock.
    pub hardware: Option<UnixNs>,
    /// By the system's clock.
    pub system: UnixNs,
    /// Who read the system's clock.
    pub by: Stamped,
}

impl Stamps {
    /// Now, by this program.
    pub fn now() -> Self {
        Self {
            hardware: None,
            system: UnixNs::now(),
            by: Stamped::Program,
        }
    }
}

/// A packet that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Who sent it.
    pub from: SocketAddr,
    /// Where to: the address in its header, and the socket's port.
    pub to: SocketAddr,
    /// When.
    pub stamps: Stamps,
    /// Its time to live or hop limit; 255 where the system does not say.
    pub ttl: u8,
    /// Its DSCP and ECN, as one byte.
    pub traffic_class: u8,
}

impl Arrival {
    /// Its DSCP, 0 to 63.
    pub fn dscp(&self) -> u8 {
        self.traffic_class >> 2
    }
}

/// A socket's report on an earlier request.
#[derive(Debug, Clone, Copy)]
pub enum Report {
    /// The request of this number left.
    Left(u32, Stamps),
    /// A request to this address was not delivered.
    Unreachable(SocketAddr, Unreachable),
}

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
#[error("cannot open a UDP socket at {local}: {error}; {}", self.hint())]
pub struct SocketError {
    /// Where it should be.
    pub local: SocketAddr,
    /// The system's error.
    pub error: io::Error,
}

impl SocketError {
    /// What to do.
    fn hint(&self) -> &'static str {
        match self.error.kind() {
            io::ErrorKind::AddrInUse => {
                "another program has the port (`ss -lnup` shows it): stop it, or take another port"
            }
            io::ErrorKind::PermissionDenied => {
                "ports under 1024 need root or CAP_NET_BIND_SERVICE: take one over 1023"
            }
            io::ErrorKind::AddrNotAvailable => "take an address of this machine",
            io::ErrorKind::InvalidInput if self.local.is_ipv6() => {
                "a link-local address needs its zone, such as fe80::1%eth0"
            }
            _ => "take another address",
        }
    }
}

/// Why the system did not send a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}{}", self.0.desc(), self.hint())]
pub struct SendError(Errno);

impl SendError {
    /// Whether the system had no room just then: the next packet may well be sent.
    pub fn is_passing(self) -> bool {
        matches!(self.0, Errno::EAGAIN | Errno::ENOBUFS | Errno::EINTR)
    }

    /// What to do.
    fn hint(self) -> &'static str {
        match self.0 {
            Errno::ENETUNREACH | Errno::EHOSTUNREACH => {
                "; this machine has no route to it (see `ip route get ADDRESS`)"
            }
            Errno::EPERM => "; a firewall of this machine drops it (see `nft list ruleset`)",
            Errno::EACCES => "; it is a broadcast address, or a route prohibits it",
            Errno::EINVAL => "; no such zone, or not an address that can be sent to from here",
            Errno::ENODEV | Errno::ENXIO => "; the interface of its zone is gone",
            Errno::EADDRNOTAVAIL => "; the address that is sent from is gone",
            Errno::EMSGSIZE => "; take a shorter length",
            _ => "",
        }
    }
}

impl From<io::Error> for SendError {
    fn from(error: io::Error) -> Self {
        Self(Errno::from_raw(error.raw_os_error().unwrap_or_default()))
    }
}

/// An ICMP message says that a request was not delivered. Anyone can send such a message who knows the ports: it explains
/// losses, and changes no count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreachable {
    what: &'static str,
    /// Who says so.
    by: Option<IpAddr>,
}

impl Unreachable {
    /// `None`: what the socket reports is something else.
    fn of(error: &sock_extended_err, by: Option<IpAddr>) -> Option<Self> {
        let what = match (error.ee_origin, error.ee_type, error.ee_code) {
            (SO_EE_ORIGIN_ICMP, 3, 3) | (SO_EE_ORIGIN_ICMP6, 1, 4) => {
                "port unreachable: nothing listens there"
            }
            (SO_EE_ORIGIN_ICMP, 3, 9 | 10 | 13) | (SO_EE_ORIGIN_ICMP6, 1, 1 | 5 | 6) => {
                "prohibited by a firewall or a route"
            }
            (SO_EE_ORIGIN_ICMP, 3, 4) | (SO_EE_ORIGIN_ICMP6, 2, _) => {
                "too long for the path; take a shorter length"
            }
            (SO_EE_ORIGIN_ICMP, 3, 1) | (SO_EE_ORIGIN_ICMP6, 1, 3) => "host unreachable",
            (SO_EE_ORIGIN_ICMP, 3, _) | (SO_EE_ORIGIN_ICMP6, 1, _) => "network unreachable",
            (SO_EE_ORIGIN_ICMP, 11, _) | (SO_EE_ORIGIN_ICMP6, 3, _) => {
                "time to live exceeded: routers send it in a circle"
            }
            (SO_EE_ORIGIN_ICMP | SO_EE_ORIGIN_ICMP6, ..) => "not delivered",
            _ => return None,
        };
        Some(Self { what, by })
    }
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)?;
        match self.by {
            Some(by) => write!(f, " (ICMP from {by})"),
            None => Ok(()),
        }
    }
}

/// A socket.
#[derive(Debug)]
pub struct Socket {
    udp: UdpSocket,
    local: SocketAddr,
    control: Vec<u8>,
    stamping: TimestampingFlag,
    /// Number of the next packet whose time of transmission is reported.
    next_id: Option<u32>,
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.udp.as_fd()
    }
}

impl Socket {
    /// A socket at `local`; port 0 takes any that is free. With a traffic class (DSCP and ECN) it is for requests, whose times
    /// of transmission are reported; without, for replies.
    ///
    /// # Errors
    /// The system's: the address is taken, not of this machine, or not permitted.
    pub fn open(local: SocketAddr, requests: Option<u8>, wanted: Stamped) -> io::Result<Self> {
        let family = match local {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(family, SocketType::DGRAM, flags, None)?;
        if local.is_ipv6() {
            // A socket for IPv4 may have the same port.
            options::set_ipv6_v6only(&socket, true)?;
            options::set_ipv6_unicast_hops(&socket, Some(255))?;
            setsockopt(&socket, sockopt::Ipv6RecvHopLimit, &true)?;
            setsockopt(&socket, sockopt::Ipv6RecvTClass, &true)?;
        } else {
            options::set_ip_ttl(&socket, TTL)?;
            setsockopt(&socket, sockopt::Ipv4RecvTtl, &true)?;
            setsockopt(&socket, sockopt::IpRecvTos, &true)?;
        }
        match requests {
            Some(class) if local.is_ipv6() => {
                setsockopt(&socket, sockopt::Ipv6TClass, &i32::from(class))?;
                setsockopt(&socket, sockopt::Ipv6RecvErr, &true)?;
            }
            Some(class) => {
                setsockopt(&socket, sockopt::Ipv4Tos, &i32::from(class))?;
                setsockopt(&socket, sockopt::Ipv4RecvErr, &true)?;
            }
            None if local.is_ipv6() => {
                setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?;
            }
            None => setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?,
        }
        enlarge(&socket);
        rustix::net::bind(&socket, &local)?;
        let udp = UdpSocket::from(socket);
        let mut opened = Self {
            local: udp.local_addr()?,
            udp,
            control: cmsg_space!(
                Timestamps,
                TimeSpec,
                libc::in6_pktinfo,
                libc::sock_extended_err,
                libc::sockaddr_in6,
                libc::c_int,
                libc::c_int
            ),
            stamping: TimestampingFlag::empty(),
            next_id: None,
        };
        opened.ask_for(wanted, requests.is_some());
        Ok(opened)
    }

    /// Where it is.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Asks for the best timestamps that the system has; without any, this program takes them.
    fn ask_for(&mut self, wanted: Stamped, sends: bool) {
        type Flag = TimestampingFlag;
        let mut flags = Flag::SOF_TIMESTAMPING_SOFTWARE | Flag::SOF_TIMESTAMPING_RX_SOFTWARE;
        if sends {
            flags |= Flag::SOF_TIMESTAMPING_TX_SOFTWARE
                | Flag::SOF_TIMESTAMPING_OPT_ID
                | Flag::SOF_TIMESTAMPING_OPT_TSONLY;
        }
        match wanted {
            Stamped::Program => return,
            Stamped::Kernel => {}
            Stamped::Hardware => {
                flags |= Flag::SOF_TIMESTAMPING_RX_HARDWARE | Flag::SOF_TIMESTAMPING_RAW_HARDWARE;
                flags.set(Flag::SOF_TIMESTAMPING_TX_HARDWARE, sends);
            }
        }
        if setsockopt(&self.udp, sockopt::Timestamping, &flags).is_ok() {
            self.stamping = flags;
            self.next_id = sends.then_some(0);
        } else if let Err(error) = setsockopt(&self.udp, sockopt::ReceiveTimestampns, &true) {
            tracing::warn!("{}: the kernel takes no timestamps: {error}", self.local);
        }
    }

    /// Numbers of transmitted packets begin again: after a packet that was not sent, the kernel's count is not sure.
    fn count_anew(&mut self) {
        if self.next_id.is_some() {
            let without = self.stamping - TimestampingFlag::SOF_TIMESTAMPING_OPT_ID;
            let begun = setsockopt(&self.udp, sockopt::Timestamping, &without)
                .and_then(|()| setsockopt(&self.udp, sockopt::Timestamping, &self.stamping));
            self.next_id = begun.ok().map(|()| 0);
        }
    }

    /// Sends a request, with the socket's own traffic class. The number by which [`Socket::report`] says when it left; `None`
    /// where it will not. Numbers that were given before 0 mean nothing any more.
    ///
    /// # Errors
    /// The system's; also when it would have to wait.
    pub fn send(&mut self, packet: &[u8], to: SocketAddr) -> Result<Option<u32>, SendError> {
        let mut sent = self.udp.send_to(packet, to).map_err(SendError::from);
        if sent.is_err_and(|error| !error.is_passing()) {
            // Perhaps an earlier request's, which was sent back just now: the system says so once, in place of sending.
            self.count_anew();
            sent = self.udp.send_to(packet, to).map_err(SendError::from);
        }
        if let Err(error) = sent {
            self.count_anew();
            return Err(error);
        }
        let id = self.next_id;
        self.next_id = id.map(|id| id.wrapping_add(1));
        Ok(id)
    }

    /// Sends the reply to a request from the address that the request was sent to.
    ///
    /// # Errors
    /// The system's; also when it would have to wait.
    pub fn reply(&self, packet: &[u8], request: &Arrival, traffic_class: u8) -> io::Result<()> {
        let parts = [IoSlice::new(packet)];
        let to = SockaddrStorage::from(request.from);
        let send = |messages: &[ControlMessage]| {
            let flags = MsgFlags::MSG_DONTWAIT;
            sendmsg(self.udp.as_raw_fd(), &parts, messages, flags, Some(&to))
        };
        match request.to.ip() {
            IpAddr::V4(from) => {
                let info = libc::in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: libc::in_addr {
                        s_addr: u32::from_ne_bytes(from.octets()),
                    },
                    ipi_addr: libc::in_addr { s_addr: 0 },
                };
                send(&[
                    ControlMessage::Ipv4PacketInfo(&info),
                    ControlMessage::Ipv4Tos(&traffic_class),
                ])?
            }
            IpAddr::V6(from) => {
                let info = libc::in6_pktinfo {
                    ipi6_addr: libc::in6_addr {
                        s6_addr: from.octets(),
                    },
                    ipi6_ifindex: scope_id(request.from),
                };
                send(&[
                    ControlMessage::Ipv6PacketInfo(&info),
                    ControlMessage::Ipv6TClass(&traffic_class.into()),
                ])?
            }
        };
        Ok(())
    }

    /// The next packet that waits, in `buffer`; `None`: there is none, or the system has an error to say first.
    pub fn receive<'b>(&mut self, buffer: &'b mut [u8]) -> Option<(&'b mut [u8], Arrival)> {
        let mut parts = [IoSliceMut::new(buffer)];
        let (fd, flags) = (self.udp.as_raw_fd(), MsgFlags::MSG_DONTWAIT);
        let message = recvmsg::<SockaddrStorage>(fd, &mut parts, Some(&mut self.control), flags);
        let message = match message {
            Ok(message) => message,
            Err(error) => {
                if error != Errno::EAGAIN {
                    tracing::debug!("{}: {error}", self.local);
                }
                return None;
            }
        };
        let mut arrival = Arrival {
            from: message.address.as_ref().and_then(address)?,
            to: self.local,
            stamps: Stamps::now(),
            ttl: u8::MAX,
            traffic_class: 0,
        };
        describe(&message, &mut arrival);
        let bytes = message.bytes;
        buffer.get_mut(..bytes).map(|packet| (packet, arrival))
    }

    /// What became of a request that was sent before; `None`: nothing is reported now.
    pub fn report(&mut self) -> Option<Report> {
        let fd = self.udp.as_raw_fd();
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        loop {
            let message = recvmsg::<SockaddrStorage>(fd, &mut [], Some(&mut self.control), flags);
            let message = message.ok()?;
            if let Some(report) = reported(&message) {
                return Some(report);
            }
        }
    }
}

/// Content of a message of the error queue; `None` if it is irrelevant.
fn reported(message: &RecvMsg<'_, '_, SockaddrStorage>) -> Option<Report> {
    let (mut error, mut by, mut stamps) = (None, None, None);
    for control in message.cmsgs().ok()? {
        match control {
            ControlMessageOwned::ScmTimestampsns(times) => stamps = of_kernel(&times),
            ControlMessageOwned::Ipv4RecvErr(said, from) => {
                error = Some(said);
                by = from.map(|from| IpAddr::from(from.sin_addr.s_addr.to_ne_bytes()));
            }
            ControlMessageOwned::Ipv6RecvErr(said, from) => {
                error = Some(said);
                by = from.map(|from| IpAddr::from(from.sin6_addr.s6_addr));
            }
            _ => {}
        }
    }
    let error = error?;
    if error.ee_origin == libc::SO_EE_ORIGIN_TIMESTAMPING {
        return Some(Report::Left(error.ee_data, stamps?));
    }
    let to = message.address.as_ref().and_then(address)?;
    Some(Report::Unreachable(to, Unreachable::of(&error, by)?))
}

/// Buffers as large as the system allows, for times in which this program or the other end does not run. Less works, too.
fn enlarge(socket: &impl AsFd) {
    if setsockopt(socket, sockopt::RcvBufForce, &BUFFER_BYTES).is_err() {
        let _ = setsockopt(socket, sockopt::RcvBuf, &BUFFER_BYTES);
    }
    if setsockopt(socket, sockopt::SndBufForce, &BUFFER_BYTES).is_err() {
        let _ = setsockopt(socket, sockopt::SndBuf, &BUFFER_BYTES);
    }
}

/// Takes what stands beside a packet.
fn describe(message: &RecvMsg<'_, '_, SockaddrStorage>, arrival: &mut Arrival) {
    let Ok(controls) = message.cmsgs() else {
        return;
    };
    for control in controls {
        match control {
            ControlMessageOwned::ScmTimestampsns(times) => {
                arrival.stamps = of_kernel(&times).unwrap_or(arrival.stamps);
            }
            ControlMessageOwned::ScmTimestampns(time) => {
                if let Some(system) = unix(time) {
                    arrival.stamps.system = system;
                    arrival.stamps.by = Stamped::Kernel;
                }
            }
            ControlMessageOwned::Ipv4PacketInfo(info) => {
                arrival
                    .to
                    .set_ip(IpAddr::from(info.ipi_addr.s_addr.to_ne_bytes()));
            }
            ControlMessageOwned::Ipv6PacketInfo(info) => {
                arrival.to.set_ip(IpAddr::from(info.ipi6_addr.s6_addr));
            }
            ControlMessageOwned::Ipv4Ttl(ttl) | ControlMessageOwned::Ipv6HopLimit(ttl) => {
                arrival.ttl = u8::try_from(ttl).unwrap_or(u8::MAX);
            }
            ControlMessageOwned::Ipv4Tos(class) => arrival.traffic_class = class,
            ControlMessageOwned::Ipv6TClass(class) => {
                arrival.traffic_class = u8::try_from(class).unwrap_or(0);
            }
            _ => {}
        }
    }
}

/// `None` where there is no time of the system's clock; it is there whenever one is asked for.
fn of_kernel(times: &Timestamps) -> Option<Stamps> {
    let hardware = unix(times.hw_raw);
    let system = unix(times.system);
    Some(Stamps {
        hardware,
        system: system.or_else(|| hardware.map(|_| UnixNs::now()))?,
        by: if system.is_some() {
            Stamped::Kernel
        } else {
            Stamped::Program
        },
    })
}

/// Zero is no time.
fn unix(time: TimeSpec) -> Option<UnixNs> {
    let seconds = u64::try_from(time.tv_sec()).ok()?;
    let ns = u64::try_from(time.tv_nsec()).ok()?;
    let whole = seconds.checked_mul(1_000_000_000)?.checked_add(ns)?;
    (whole > 0).then_some(UnixNs(whole))
}

fn address(address: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = address
        .as_sockaddr_in()
        .map(|v4| SocketAddr::V4((*v4).into()));
    let v6 = || {
        address
            .as_sockaddr_in6()
            .map(|v6| SocketAddr::V6((*v6).into()))
    };
    v4.or_else(v6)
}

/// The zone of an address; 0 where it has none.
pub(crate) fn scope_id(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V6(v6) => v6.scope_id(),
        SocketAddr::V4(_) => 0,
    }
}
