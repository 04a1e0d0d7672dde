//! Why the system does not send a packet.

use std::fmt;
use std::io;

use nix::errno::Errno;

/// Why the system did not send a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.0.desc(), self.hint())
    }
}

impl std::error::Error for SendError {}
