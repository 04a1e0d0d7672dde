//! What the kernel knows of an ospfd in the network namespace of this thread (`proc_net(5)`): whether it runs OSPF, and
//! which connections are its own.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};

/// IP protocol of OSPF.
const OSPF: u16 = 89;

/// Whether some program here runs OSPF: FRR's ospfd has a raw socket for each instance, and none before its configuration
/// has a `router ospf`. `None` where the kernel does not say.
pub fn runs_ospf() -> Option<bool> {
    let table = fs::read_to_string("/proc/thread-self/net/raw").ok()?;
    Some(sockets(&table).any(|socket| socket.local.port() == OSPF))
}

/// The user of a connection's end that is here and belongs to a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// A program of this user has it.
    User(u32),
    /// No program has it yet, or any more.
    Nobody,
}

/// Owners of the ends at `local` of connections to `remote`, for several of them at one time; `None` for an end that is
/// not here.
pub fn owners<const N: usize>(ends: [(SocketAddrV4, SocketAddrV4); N]) -> [Option<Owner>; N] {
    let table = fs::read_to_string("/proc/thread-self/net/tcp").unwrap_or_default();
    ends.map(|(local, remote)| owner(&table, local, remote))
}

fn owner(table: &str, local: SocketAddrV4, remote: SocketAddrV4) -> Option<Owner> {
    let mut found =
        sockets(table).filter(|socket| (socket.local, socket.remote) == (local, remote));
    found.next().map(|socket| match socket.inode {
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

/// The lines of a table but its heading: number, local and remote address, state, queues, timer, retransmissions, user,
/// timeouts, inode.
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

/// An address as the kernel writes it: the number that its bytes are in memory, and the port.
fn address(text: &str) -> Option<SocketAddrV4> {
    let (address, port) = text.split_once(':')?;
    let address = u32::from_str_radix(address, 16).ok()?.to_ne_bytes();
    let port = u16::from_str_radix(port, 16).ok()?;
    Some(SocketAddrV4::new(Ipv4Addr::from(address), port))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

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
