//! The way to the collector.

use std::io::{self, ErrorKind, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use contract::config::{Ipfix, Transport};

/// How long connecting, or sending a message, may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// A socket that is connected to the collector.
#[derive(Debug)]
pub(crate) enum Link {
    Udp(UdpSocket),
    Tcp(TcpStream),
}

impl Link {
    /// Connects to the first address that answers.
    ///
    /// # Errors
    /// When the name has no address, or no address answers.
    pub fn open(settings: &Ipfix) -> io::Result<Self> {
        let (transport, target) = settings.target().ok_or(ErrorKind::InvalidInput)?;
        let mut fault = io::Error::new(ErrorKind::NotFound, "the name has no address");
        for address in addresses(target)? {
            let link = match transport {
                Transport::Udp => udp(address).map(Self::Udp),
                Transport::Tcp => tcp(address).map(Self::Tcp),
            };
            match link {
                Ok(link) => return Ok(link),
                Err(error) => fault = error,
            }
        }
        Err(fault)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// When it was not sent, over UDP also where the message before found nobody ([`ErrorKind::ConnectionRefused`]); a connection
    /// by TCP is of no use then.
    pub fn send(&mut self, message: &[u8]) -> io::Result<()> {
        match self {
            Self::Udp(socket) => socket.send(message).map(|_| ()),
            Self::Tcp(stream) => stream.write_all(message),
        }
    }

    /// Whether the other end has closed the connection, which a sender by TCP would see one message late.
    pub fn is_closed(&self) -> bool {
        let Self::Tcp(stream) = self else {
            return false;
        };
        let peeked = stream
            .set_nonblocking(true)
            .and_then(|()| stream.peek(&mut [0]));
        let is_open = match peeked {
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

/// Addresses of `host:port`. The resolver knows the zone of a link-local address by name and number, if it is asked without
/// brackets.
fn addresses(target: &str) -> io::Result<impl Iterator<Item = SocketAddr> + use<>> {
    let (host, port) = target.rsplit_once(':').ok_or(ErrorKind::InvalidInput)?;
    let port: u16 = port.parse().map_err(|_| ErrorKind::InvalidInput)?;
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    (bare.unwrap_or(host), port).to_socket_addrs()
}

fn udp(address: SocketAddr) -> io::Result<UdpSocket> {
    let any = match address {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = UdpSocket::bind(any)?;
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
