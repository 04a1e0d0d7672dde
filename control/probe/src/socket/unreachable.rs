//! Requests that a router, or the other end, sent back as not delivered (RFC 792, RFC 4443).

use std::fmt;
use std::net::IpAddr;

use nix::libc::{SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6, sock_extended_err};

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
    pub(super) fn of(error: &sock_extended_err, by: Option<IpAddr>) -> Option<Self> {
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
