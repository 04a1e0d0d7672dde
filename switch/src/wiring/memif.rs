//! What a killed `net_memif` server leaves: its socket, at which the next one could not listen.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

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

/// The socket file at which a device is to listen. By default a device is a client, and its socket has
/// no file (`drivers/net/memif/rte_eth_memif.c`).
fn server_socket(device: &str) -> Option<&str> {
    let (name, arguments) = device.split_once(',')?;
    let value = |key: &str| {
        let mut pairs = arguments.split(',').filter_map(|pair| pair.split_once('='));
        pairs.find_map(|(name, value)| (name.trim() == key).then_some(value.trim()))
    };
    let is_server = value("role").is_some_and(|role| ["server", "master"].contains(&role));
    let has_file = value("socket-abstract") == Some("no");
    let is_memif = name.trim().starts_with("net_memif");
    (is_memif && is_server && has_file).then(|| value("socket"))?
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
