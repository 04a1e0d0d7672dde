//! UDP sockets with timestamps of the kernel or the interface, DSCP and time to live.
//!
//! All through `nix` and `rustix`: no unsafe code. Nothing here waits.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, RecvMsg, SockaddrStorage, TimestampingFlag,
    Timestamps, recvmsg, sendmsg, setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;
use rustix::net::sockopt as options;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use serde::{Deserialize, Serialize};

use crate::arrival::Stamped;
use crate::wire::time::UnixNs;

mod error;
mod unreachable;

pub use error::SendError;
pub use unreachable::Unreachable;

/// Bytes that the kernel buffers for a socket in each direction; without privileges as far as `net.core.rmem_max` and `wmem_max`
/// allow.
const BUFFER_BYTES: usize = 4 << 20;

/// Time to live of what is sent: with the greatest, the other end sees how many hops there were (RFC 8762, section 4.3.1).
const TTL: u32 = 255;

/// Whose timestamps are asked for. Where they are not to be had, the next are taken.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum StampsWanted {
    /// The interface's, then the kernel's.
    Hardware,
    /// The kernel's, then this program's.
    #[default]
    Kernel,
    /// This program's.
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

/// A packet that was received.
#[derive(Debug, Clone, Copy)]
pub struct Received {
    /// Its bytes in the buffer.
    pub bytes: usize,
    /// Who sent it.
    pub from: SocketAddr,
    /// The address that it was sent to.
    pub to: IpAddr,
    /// When it arrived.
    pub stamps: Stamps,
    /// Its time to live; 255 where the system does not say.
    pub ttl: u8,
    /// Its DSCP and ECN.
    pub traffic_class: u8,
}

/// What a socket is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Requests with this traffic class, whose time of transmission matters.
    Send {
        /// DSCP and ECN.
        traffic_class: u8,
    },
    /// Replies.
    Reflect,
}

/// What a socket says of a request that was sent before.
#[derive(Debug, Clone, Copy)]
pub enum Report {
    /// The request of this number left.
    Left(u32, Stamps),
    /// A request to this address was not delivered.
    Unreachable(SocketAddr, Unreachable),
}

/// A socket.
#[derive(Debug)]
pub struct Socket {
    udp: UdpSocket,
    local: SocketAddr,
    control: Vec<u8>,
    stamping: Option<TimestampingFlag>,
    /// Number of the next packet whose time of transmission is reported.
    next_id: Option<u32>,
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.udp.as_fd()
    }
}

impl Socket {
    /// A socket at `local`; port 0 takes any that is free.
    ///
    /// # Errors
    /// The system's: the address is taken, not of this machine, or not permitted.
    pub fn open(local: SocketAddr, purpose: Purpose, wanted: StampsWanted) -> io::Result<Self> {
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
        match purpose {
            Purpose::Send { traffic_class } if local.is_ipv6() => {
                setsockopt(&socket, sockopt::Ipv6TClass, &i32::from(traffic_class))?;
                setsockopt(&socket, sockopt::Ipv6RecvErr, &true)?;
            }
            Purpose::Send { traffic_class } => {
                setsockopt(&socket, sockopt::Ipv4Tos, &i32::from(traffic_class))?;
                setsockopt(&socket, sockopt::Ipv4RecvErr, &true)?;
            }
            Purpose::Reflect if local.is_ipv6() => {
                setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?;
            }
            Purpose::Reflect => setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?,
        }
        enlarge(&socket);
        rustix::net::bind(&socket, &local)?;
        let udp = UdpSocket::from(socket);
        let local = udp.local_addr()?;
        let mut opened = Self {
            udp,
            local,
            control: cmsg_space!(
                Timestamps,
                TimeSpec,
                libc::in6_pktinfo,
                libc::sock_extended_err,
                libc::sockaddr_in6,
                libc::c_int,
                libc::c_int
            ),
            stamping: None,
            next_id: None,
        };
        opened.ask_for(wanted, purpose);
        Ok(opened)
    }

    /// Where it is.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Asks for the best timestamps that the system has; without any, this program takes them.
    fn ask_for(&mut self, wanted: StampsWanted, purpose: Purpose) {
        type Flag = TimestampingFlag;
        let mut flags = Flag::SOF_TIMESTAMPING_SOFTWARE | Flag::SOF_TIMESTAMPING_RX_SOFTWARE;
        if matches!(purpose, Purpose::Send { .. }) {
            flags |= Flag::SOF_TIMESTAMPING_TX_SOFTWARE
                | Flag::SOF_TIMESTAMPING_OPT_ID
                | Flag::SOF_TIMESTAMPING_OPT_TSONLY;
        }
        match wanted {
            StampsWanted::Program => return,
            StampsWanted::Kernel => {}
            StampsWanted::Hardware => {
                flags |= Flag::SOF_TIMESTAMPING_RX_HARDWARE | Flag::SOF_TIMESTAMPING_RAW_HARDWARE;
                if matches!(purpose, Purpose::Send { .. }) {
                    flags |= Flag::SOF_TIMESTAMPING_TX_HARDWARE;
                }
            }
        }
        if setsockopt(&self.udp, sockopt::Timestamping, &flags).is_ok() {
            self.stamping = Some(flags);
            self.next_id = flags.contains(Flag::SOF_TIMESTAMPING_OPT_ID).then_some(0);
        } else if let Err(error) = setsockopt(&self.udp, sockopt::ReceiveTimestampns, &true) {
            tracing::warn!("{}: the kernel takes no timestamps: {error}", self.local);
        }
    }

    /// Numbers of transmitted packets begin again: after a packet that was not sent, the kernel's count is not sure.
    fn count_anew(&mut self) {
        let Some(flags) = self.stamping.filter(|_| self.next_id.is_some()) else {
            return;
        };
        let without = flags - TimestampingFlag::SOF_TIMESTAMPING_OPT_ID;
        let begun = setsockopt(&self.udp, sockopt::Timestamping, &without)
            .and_then(|()| setsockopt(&self.udp, sockopt::Timestamping, &flags));
        self.next_id = begun.ok().map(|()| 0);
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
        match sent {
            Ok(_) => {
                let id = self.next_id;
                self.next_id = id.map(|id| id.wrapping_add(1));
                Ok(id)
            }
            Err(error) => {
                self.count_anew();
                Err(error)
            }
        }
    }

    /// Sends a reply from the address that the request was sent to.
    ///
    /// # Errors
    /// The system's; also when it would have to wait.
    pub fn reply(
        &self,
        packet: &[u8],
        to: SocketAddr,
        from: IpAddr,
        traffic_class: u8,
    ) -> io::Result<()> {
        let parts = [IoSlice::new(packet)];
        let address = SockaddrStorage::from(to);
        let send = |messages: &[ControlMessage]| {
            sendmsg(
                self.udp.as_raw_fd(),
                &parts,
                messages,
                MsgFlags::MSG_DONTWAIT,
                Some(&address),
            )
        };
        let class = i32::from(traffic_class);
        match from {
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
                let scope = match to {
                    SocketAddr::V6(to) => to.scope_id(),
                    SocketAddr::V4(_) => 0,
                };
                let info = libc::in6_pktinfo {
                    ipi6_addr: libc::in6_addr {
                        s6_addr: from.octets(),
                    },
                    ipi6_ifindex: scope,
                };
                send(&[
                    ControlMessage::Ipv6PacketInfo(&info),
                    ControlMessage::Ipv6TClass(&class),
                ])?
            }
        };
        Ok(())
    }

    /// The next packet that waits; `None`: there is none.
    ///
    /// # Errors
    /// The system's.
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        let mut parts = [IoSliceMut::new(buffer)];
        let fd = self.udp.as_raw_fd();
        let message = recvmsg::<SockaddrStorage>(
            fd,
            &mut parts,
            Some(&mut self.control),
            MsgFlags::MSG_DONTWAIT,
        );
        let message = match message {
            Ok(message) => message,
            Err(Errno::EAGAIN) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let Some(from) = message.address.as_ref().and_then(address) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let mut received = Received {
            bytes: message.bytes,
            from,
            to: self.local.ip(),
            stamps: Stamps::now(),
            ttl: u8::MAX,
            traffic_class: 0,
        };
        describe(&message, &mut received);
        Ok(Some(received))
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

/// What a message of the error queue says; `None`: nothing that matters here.
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
fn describe(message: &RecvMsg<'_, '_, SockaddrStorage>, received: &mut Received) {
    let Ok(controls) = message.cmsgs() else {
        return;
    };
    for control in controls {
        match control {
            ControlMessageOwned::ScmTimestampsns(times) => {
                received.stamps = of_kernel(&times).unwrap_or(received.stamps);
            }
            ControlMessageOwned::ScmTimestampns(time) => {
                if let Some(system) = unix(time) {
                    received.stamps.system = system;
                    received.stamps.by = Stamped::Kernel;
                }
            }
            ControlMessageOwned::Ipv4PacketInfo(info) => {
                received.to = IpAddr::from(info.ipi_addr.s_addr.to_ne_bytes());
            }
            ControlMessageOwned::Ipv6PacketInfo(info) => {
                received.to = IpAddr::from(info.ipi6_addr.s6_addr);
            }
            ControlMessageOwned::Ipv4Ttl(ttl) | ControlMessageOwned::Ipv6HopLimit(ttl) => {
                received.ttl = u8::try_from(ttl).unwrap_or(u8::MAX);
            }
            ControlMessageOwned::Ipv4Tos(class) => received.traffic_class = class,
            ControlMessageOwned::Ipv6TClass(class) => {
                received.traffic_class = u8::try_from(class).unwrap_or(0);
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
    v4.or_else(|| {
        address
            .as_sockaddr_in6()
            .map(|v6| SocketAddr::V6((*v6).into()))
    })
}
