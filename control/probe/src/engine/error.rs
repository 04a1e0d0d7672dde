//! Why a socket cannot be opened.

use std::io;
use std::net::SocketAddr;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
#[error("cannot open a UDP socket at {local}: {error}; {hint}")]
pub struct SocketError {
    /// Where it should be.
    pub local: SocketAddr,
    /// The system's error.
    pub error: io::Error,
    /// What to do.
    pub hint: &'static str,
}

impl SocketError {
    pub(super) fn new(local: SocketAddr, error: io::Error) -> Self {
        let hint = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "another program has the port (`ss -lnup` shows it): stop it, or take another port"
            }
            io::ErrorKind::PermissionDenied => {
                "ports under 1024 need root or CAP_NET_BIND_SERVICE: take one over 1023"
            }
            io::ErrorKind::AddrNotAvailable => "take an address of this machine",
            io::ErrorKind::InvalidInput if local.is_ipv6() => {
                "a link-local address needs its zone, such as fe80::1%eth0"
            }
            _ => "take another address",
        };
        Self { local, error, hint }
    }
}
