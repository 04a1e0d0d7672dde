//! Sockets of `net_memif`: what a killed server leaves, at which the next one could not listen, and whether there is
//! a server for a client.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use contract::config::device::argument;

/// Removes the socket file of a server device, if there is one without a listener.
///
/// # Errors
/// When there is no listener, and it cannot be removed.
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

/// Whether a client that is attached may find its server: its socket is not known to be without one.
pub fn has_server(device: &str) -> bool {
    let socket = socket_file(device).filter(|_| !is_server(device));
    let mut socket = socket.map(Path::new).into_iter();
    socket.all(|path| path.exists() && !is_orphan(path))
}

/// A server that lives takes the connection, or refuses its type (memif's is `SOCK_SEQPACKET`).
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
    fn only_servers_with_a_file_have_one() {
        for (device, socket) in [
            ("net_memif", None),
            ("net_memif0,role=server,socket=/a", None),
            ("net_memif0,role=server,socket-abstract=yes,socket=/a", None),
            ("net_memif0,socket-abstract=no,socket=/a", None),
            ("net_null0,role=server,socket-abstract=no,socket=/a", None),
            (
                "net_memif0, socket=/a ,role=server,socket-abstract=no",
                Some("/a"),
            ),
        ] {
            assert_eq!(server_socket(device), socket, "{device}");
        }
    }
}
