use std::os::unix::process::CommandExt as _;
use std::process::Command;

use super::*;

const PATIENCE: Duration = Duration::from_secs(15);

/// An ospfd that is no ospfd: it takes one connection, calls `before` with the address that it has to connect to, and
/// connects.
fn server(
    before: impl FnOnce(SocketAddrV4) + Send + 'static,
) -> (
    SocketAddrV4,
    std::thread::JoinHandle<(TcpStream, TcpStream)>,
) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, listener.local_addr().unwrap().port());
    let serve = move || {
        let (requests, peer) = listener.accept().unwrap();
        let back = SocketAddrV4::new(Ipv4Addr::LOCALHOST, peer.port() + 1);
        before(back);
        (requests, TcpStream::connect(back).unwrap())
    };
    (address, std::thread::spawn(serve))
}

#[test]
fn a_stranger_who_connects_first_is_refused() {
    if rustix::process::geteuid().as_raw() != 0 {
        return testkit::skip("another user's program needs root");
    }
    let (address, served) = server(|back| {
        // It ends when the other end is closed.
        let script = format!("exec 3<>/dev/tcp/{}/{} && cat <&3", back.ip(), back.port());
        let mut stranger = Command::new("bash");
        let stranger = stranger
            .args(["-c", &script])
            .uid(65_534)
            .gid(65_534)
            .status();
        assert!(stranger.unwrap().success());
    });
    let client = Client::open(address, PATIENCE).unwrap();
    let (_requests, changes) = served.join().unwrap();
    let peer = client.changes.stream.peer_addr().unwrap();
    assert_eq!(peer, changes.local_addr().unwrap());
}

#[test]
fn an_ospfd_that_runs_no_ospf_is_not_asked() {
    if kernel::runs_ospf() != Some(false) {
        eprintln!("SKIPPED: this machine runs OSPF");
        return;
    }
    let (address, served) = server(|_| ());
    let error = Client::connect(address, PATIENCE).unwrap_err();
    assert!(error.to_string().contains("no `router ospf`"), "{error}");
    let (mut requests, _changes) = served.join().unwrap();
    let mut asked = Vec::new();
    requests.read_to_end(&mut asked).unwrap();
    assert_eq!(asked, [0; 0]);
}
