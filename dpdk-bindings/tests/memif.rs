//! `net_memif`: the other end, a separate process, goes away while packets pass; a server comes back under its name.

#![allow(
    clippy::unwrap_used,
    reason = "what does not work as it should fails the test"
)]

mod common;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Burst, eal, pool, start};
use dpdk_bindings::PortConfig;

/// Environment variable with the socket, for the process at the other end.
const SOCKET: &str = "VERNIER_TEST_MEMIF";
/// How often the other end goes away.
const ROUNDS: usize = 100;

fn device(role: &str, socket: &Path) -> String {
    let socket = socket.display();
    format!("net_memif0,role={role},id=0,socket={socket},socket-abstract=no,rsize=12")
}

#[test]
fn a_worker_survives_the_loss_of_its_peer() {
    if let Some(socket) = std::env::var_os(SOCKET) {
        return come_and_go(Path::new(&socket));
    }
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let eal = eal();
    let pool = pool(&eal);
    let port = start(&eal, &device("server", &socket), &pool);
    let (mut rx, mut tx) = (port.rx_queue(0).unwrap(), port.tx_queue(0).unwrap());
    let mut peer = Command::new(std::env::current_exe().unwrap())
        .args(std::env::args_os().skip(1))
        .env(SOCKET, &socket)
        .spawn()
        .unwrap();
    let (mut sent, mut received) = (0, Burst::new());
    let mut burst = Burst::new();
    let status = loop {
        for _ in 0..1000 {
            let room = burst.remaining_capacity();
            burst.extend((0..room).map_while(|_| pool.alloc_frame(&[], 1500)));
            sent += tx.transmit(&mut burst);
            rx.receive(&mut received);
            received.clear();
        }
        if let Some(status) = peer.try_wait().unwrap() {
            break status;
        }
    };
    assert!(status.success(), "{status}");
    assert!(sent > ROUNDS, "{sent} packets in {ROUNDS} rounds");
}

/// The other end: connects, takes packets and closes, again and again.
fn come_and_go(socket: &Path) {
    let eal = eal();
    let pool = pool(&eal);
    for round in 0..ROUNDS {
        let port = start(&eal, &device("client", socket), &pool);
        let mut rx = port.rx_queue(0).unwrap();
        let (began, mut received) = (Instant::now(), 0);
        while received < 256 {
            assert!(began.elapsed() < Duration::from_secs(20), "round {round}");
            // A client reconnects when its link is read.
            if !port.is_up() {
                std::thread::sleep(Duration::from_millis(1));
            }
            received += common::receive_all(&mut rx).len();
        }
    }
}

/// If the driver left its listening socket open, it could not listen there again, and would attribute a new client to a
/// removed port.
#[test]
fn a_server_that_was_closed_listens_again_by_the_same_name() {
    let folder = tempfile::tempdir().unwrap();
    let eal = eal();
    let pool = pool(&eal);
    for (n, is_abstract) in [(0, "yes"), (1, "no")] {
        let socket = folder.path().join(n.to_string());
        let device = |name: &str, role: &str, id| {
            let socket = socket.display();
            format!(
                "net_memif_{name},role={role},id={id},socket={socket},socket-abstract={is_abstract}"
            )
        };
        for round in 0..3 {
            // The second port keeps the socket when the first is closed.
            let server = start(&eal, &device("server", "server", 0), &pool);
            let other = start(&eal, &device("other", "server", 1), &pool);
            drop(server);
            let client = start(&eal, &device("client", "client", 1), &pool);
            let began = Instant::now();
            while !(client.is_up() && other.is_up()) {
                assert!(began.elapsed() < Duration::from_secs(20), "round {round}");
                std::thread::sleep(Duration::from_millis(1));
            }
            drop(other);
            drop(client);
            let refused = eal.attach(&device("late", "client", 1)).unwrap();
            let refused = refused.start(&PortConfig::default(), &pool);
            assert!(refused.is_err(), "nobody listens any more");
        }
    }
}
