//! A hostile NATS server and the real `vernierd` under traffic: endless data are not kept, packets are forwarded and
//! epochs measured meanwhile (apart from effects of a busy machine), and the log and `/readyz` report it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use serde_json::{Value, json};

use crate::hostile_clients::{MISSED_MAX, course};
use crate::reports::config;
use crate::support::{Daemon, assert_conserved, number, sum};

/// Memory that the server may cost `vernierd`, in KiB.
const GROWTH_KIB_MAX: u64 = 16 * 1_024;

/// Bytes that the server offers on each connection.
const OFFERED: usize = 256 << 20;

const INFO: &str = "INFO {\"server_id\":\"X\",\"version\":\"2.9.0\",\"headers\":true,\"jetstream\":true,\"max_payload\":1048576}\r\n";

/// How the server attacks.
#[derive(Debug, Clone, Copy)]
enum Attack {
    /// A message of eight exabytes, once the switch subscribes or publishes.
    Message,
    /// A line without an end, likewise.
    Line,
    /// An `INFO` without an end, at once.
    Info,
    /// Requests for a sign of life, one after the other.
    Pings,
}

/// A server; its address, and how often it was visited.
fn serve(attack: Attack) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let visits = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&visits);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            thread::spawn(move || {
                let _ = assault(stream, attack);
            });
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    (address, visits)
}

/// Sends until the switch hangs up.
fn assault(mut stream: TcpStream, attack: Attack) -> std::io::Result<()> {
    let (first, filling): (&[u8], &[u8]) = match attack {
        Attack::Info => (b"INFO {\"server_id\":\"", b"x"),
        Attack::Message => (b"MSG _INBOX.x 1 8000000000000000000\r\n", b"x"),
        Attack::Line => (b"MSG ", b"x"),
        Attack::Pings => (b"", b"PING\r\n"),
    };
    if !matches!(attack, Attack::Info) {
        stream.write_all(INFO.as_bytes())?;
        // CONNECT and PING.
        let mut read = [0; 4_096];
        while !read.windows(4).any(|bytes| bytes == b"PING") {
            if stream.read(&mut read)? == 0 {
                return Ok(());
            }
        }
        stream.write_all(b"PONG\r\n")?;
    }
    let mut echo = stream.try_clone()?;
    thread::spawn(move || std::io::copy(&mut echo, &mut std::io::sink()));
    stream.write_all(first)?;
    let block = filling.repeat((1 << 20) / filling.len());
    for _ in 0..OFFERED / block.len() {
        stream.write_all(&block)?;
    }
    Ok(())
}

fn reporting_to(server: SocketAddr) -> Value {
    let nats = json!({ "servers": [format!("nats://{server}")] });
    config(&json!({ "nats": nats, "spool_kib": 64 }))
}

fn withstands(attack: Attack, words: &str) {
    // The same while the server only refuses: what forwarding and measuring take.
    let mut quiet = Daemon::start(reporting_to("127.0.0.1:1".parse().unwrap()));
    quiet.wait_for(|daemon| daemon.metric("vernier_reports_dropped_total") > Some(5.0));
    let usual_kib = quiet.peak_kib();
    quiet.stop();

    let (server, visits) = serve(attack);
    let mut daemon = Daemon::start(reporting_to(server));
    daemon.wait_for(|_| visits.load(Ordering::Relaxed) >= 3);
    daemon.wait_for(|daemon| {
        let readiness = daemon.answer("/readyz");
        readiness.is_some_and(|(status, text)| status == 503 && text.contains(words))
    });
    daemon.wait_for(|daemon| daemon.metric("vernier_reports_dropped_total") > Some(5.0));
    let grown_kib = daemon.peak_kib().saturating_sub(usual_kib);
    assert!(grown_kib <= GROWTH_KIB_MAX, "{attack:?}: {grown_kib} KiB");
    eprintln!("{attack:?}: {grown_kib} KiB more than with a server that refuses");
    let snapshot = daemon.stop()["snapshot"].clone();
    assert_conserved(&snapshot);
    let dropped = |port: &Value| sum(&port["drops"], |drop| number(&drop["packets"]));
    assert_eq!(sum(&snapshot["ports"], dropped), 0, "{attack:?}");
    let (epochs, missed, sent) = course(&snapshot);
    assert!(sent > 10_000, "{sent} packets");
    assert!(
        missed as f64 <= MISSED_MAX * epochs as f64,
        "{missed} of {epochs} epochs were missed"
    );
}

#[test]
fn a_message_without_end_costs_no_memory_and_no_packet() {
    withstands(Attack::Message, "announces 8000000000000000000 bytes");
}

#[test]
fn a_line_without_end_costs_no_memory_and_no_packet() {
    withstands(Attack::Line, "a line of more than");
}

#[test]
fn an_info_without_end_costs_no_memory_and_no_packet() {
    withstands(Attack::Info, "a line of more than");
}

#[test]
fn signs_of_life_without_end_cost_no_memory_and_no_packet() {
    withstands(Attack::Pings, "unasked");
}
