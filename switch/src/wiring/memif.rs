//! Sockets of `net_memif`: a killed server's leftovers, which would prevent listening; whether a client has a server;
//! and arguments that the driver refuses.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use contract::config::device::argument;

/// Longest name of a socket: `sun_path` of `sockaddr_un`, and a zero.
const SOCKET_BYTES_MAX: usize = 107;
/// Longest ring, as a power of two (`ETH_MEMIF_MAX_LOG2_RING_SIZE`).
const RING_LOG2_MAX: u8 = 14;

/// An argument of a `net_memif` device that the driver will refuse: the valid values, and the one found.
pub fn fault(device: &str) -> Option<(String, String)> {
    if !device.trim().starts_with("net_memif") {
        return None;
    }
    if let Some(ring) = argument(device, "rsize")
        && ring.parse::<u8>().map_or(true, |log2| log2 > RING_LOG2_MAX)
    {
        let expected = format!("rsize=0 to {RING_LOG2_MAX}, a ring's length as a power of two");
        return Some((expected, ring.to_owned()));
    }
    let socket = argument(device, "socket")?;
    if socket.len() > SOCKET_BYTES_MAX {
        let expected = format!("socket= with a path of at most {SOCKET_BYTES_MAX} bytes");
        return Some((expected, format!("{} bytes", socket.len())));
    }
    let path = Path::new(socket_file(device)?);
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        let got = format!("{socket:?}, and the folder does not exist; create it");
        return Some(("socket= with a path in a folder".to_owned(), got));
    }
    let is_other = fs::metadata(path).is_ok_and(|file| !file.file_type().is_socket());
    is_other.then(|| {
        let got = format!("{socket:?}, which is another file; choose another name");
        ("socket= with the path of a socket".to_owned(), got)
    })
}

/// Removes the socket file of a server device, if nobody listens there.
///
/// # Errors
/// If nobody listens, and it cannot be removed.
pub fn remove_orphan(device: &str) -> io::Result<()> {
    let Some(path) = server_socket(device).map(Path::new) else {
        return Ok(());
    };
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    if is_socket && is_orphan(path) {
        tracing::info!("removing {}: no process listens there", path.display());
        fs::remove_file(path)?;
    }
    Ok(())
}

fn is_server(device: &str) -> bool {
    argument(device, "role").is_some_and(|role| ["server", "master"].contains(&role))
}

/// The socket file at which a device listens or connects. By default a device is a client, and its socket has
/// no file (`drivers/net/memif/rte_eth_memif.c`).
fn socket_file(device: &str) -> Option<&str> {
    let has_file = argument(device, "socket-abstract") == Some("no");
    let is_memif = device.trim().starts_with("net_memif");
    (is_memif && has_file).then(|| argument(device, "socket"))?
}

fn server_socket(device: &str) -> Option<&str> {
    socket_file(device).filter(|_| is_server(device))
}

/// Whether an attached client may find its server: its socket is not known to be abandoned.
pub fn has_server(device: &str) -> bool {
    let socket = socket_file(device).filter(|_| !is_server(device));
    let mut socket = socket.map(Path::new).into_iter();
    socket.all(|path| path.exists() && !is_orphan(path))
}

/// A live server accepts the connection, or refuses its type (memif's is `SOCK_SEQPACKET`).
fn is_orphan(path: &Path) -> bool {
    let tried = UnixStream::connect(path);
    tried.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixDatagram, UnixListener};

    fn device(path: &Path) -> String {
        let path = path.display();
        format!("net_memif0,role=server,id=0,socket={path},socket-abstract=no")
    }

    #[test]
    fn only_a_socket_at_which_nobody_listens_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memif.sock");
        let device = device(&path);
        remove_orphan(&device).unwrap();

        let listener = UnixListener::bind(&path).unwrap();
        remove_orphan(&device).unwrap();
        assert!(path.exists(), "somebody listens");
        drop(listener);
        let client = device.replace("role=server", "role=client");
        remove_orphan(&client).unwrap();
        assert!(path.exists(), "it is not this device's");
        remove_orphan(&device).unwrap();
        assert!(!path.exists());

        let other = UnixDatagram::bind(&path).unwrap();
        remove_orphan(&device).unwrap();
        assert!(path.exists(), "of another type, but in use");
        drop(other);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "not a socket").unwrap();
        remove_orphan(&device).unwrap();
        assert!(path.exists());
    }

    #[test]
    fn what_the_driver_refuses_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memif.sock");
        let refused =
            |path: &Path| fault(&device(path)).map(|(expected, got)| format!("{expected}|{got}"));
        assert_eq!(refused(&path), None);
        assert_eq!(refused("memif.sock".as_ref()), None);
        fs::write(&path, "not a socket").unwrap();
        let other = refused(&path).unwrap();
        assert!(
            other.ends_with("which is another file; choose another name"),
            "{other}"
        );
        let nowhere = refused(&folder.path().join("no/memif.sock")).unwrap();
        assert!(
            nowhere.ends_with("and the folder does not exist; create it"),
            "{nowhere}"
        );
        let long = "s".repeat(108);
        let device = format!("net_memif0,role=client,socket={long}");
        assert_eq!(fault(&device).unwrap().1, "108 bytes");
        assert_eq!(fault(&format!("net_null0,socket={long}")), None);
        for (ring, is_taken) in [
            ("14", true),
            ("0", true),
            ("15", false),
            ("x", false),
            ("-1", false),
        ] {
            let device = format!("net_memif0,role=client,rsize={ring}");
            assert_eq!(fault(&device).is_none(), is_taken, "{ring}");
        }
    }

    #[test]
    fn only_servers_with_a_file_have_one() {
        for (device, socket) in [
            ("net_memif", None),
            ("net_memif0,role=server,socket=/a", None),
            ("net_memif0,role=server,socket-abstract=yes,socket=/a", None),
            ("net_memif0,socket-abstract=no,socket=/a", None),
            ("net_null0,role=server,socket-abstract=no,socket=/a", None),
            (
                "net_memif0,socket=/a,role=server,socket-abstract=no",
                Some("/a"),
            ),
        ] {
            assert_eq!(server_socket(device), socket, "{device}");
        }
    }
}
