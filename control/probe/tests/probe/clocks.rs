//! Clocks that are set, and a path that gets longer.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{
    Daemon, faketime, folder, peer_reflector, set_clock, stamp_suite, with_clock,
};

/// A hop between sender and reflector that delays what goes forward.
struct Hop {
    address: SocketAddr,
    delay_ms: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Hop {
    fn to(reflector: SocketAddr) -> Self {
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        for socket in [&near, &far] {
            socket.set_nonblocking(true).unwrap();
        }
        let address = near.local_addr().unwrap();
        let (delay_ms, stop) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (delay, stopped) = (Arc::clone(&delay_ms), Arc::clone(&stop));
        let run = move || {
            let (mut sender, mut buffer, mut waiting) = (None, [0; 2_048], Vec::new());
            while !stopped.load(Ordering::Relaxed) {
                while let Ok((bytes, from)) = near.recv_from(&mut buffer) {
                    sender = Some(from);
                    let until =
                        Instant::now() + Duration::from_millis(delay.load(Ordering::Relaxed));
                    waiting.push((until, buffer[..bytes].to_vec()));
                }
                waiting.retain(|(until, packet)| {
                    let waits = Instant::now() < *until;
                    if !waits {
                        far.send_to(packet, reflector).unwrap();
                    }
                    waits
                });
                while let Ok((bytes, _)) = far.recv_from(&mut buffer) {
                    near.send_to(&buffer[..bytes], sender.unwrap()).unwrap();
                }
                thread::sleep(Duration::from_micros(200));
            }
        };
        Self {
            address,
            delay_ms,
            stop,
            thread: Some(thread::spawn(run)),
        }
    }
}

impl Drop for Hop {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(thread::JoinHandle::join);
    }
}

fn config(to: SocketAddr) -> Value {
    json!({
        "interval_ms": 250,
        "timestamps": "program",
        "sessions": [{ "name": "a", "to": to.to_string(), "interval_ms": 5, "schedule": "periodic" }],
    })
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("a number, not {value}"))
}

/// Waits for so many intervals more, all of them steady in the end; the last.
fn steady(daemon: &mut Daemon) -> Value {
    let before = daemon.until("no result", |_| true);
    let since = number(&before["last"]["interval"]) + 8.0;
    daemon.until("clocks are not steady", |session| {
        session["last"]["clocks"]["state"] == "steady"
            && number(&session["last"]["interval"]) >= since
    })
}

#[test]
fn the_reflectors_clock_that_is_set_is_told_from_a_longer_path() {
    let (Some(program), Some(library)) = (stamp_suite(), faketime()) else {
        return;
    };
    let (folder, _) = folder();
    let offset = folder.path().join("offset");
    set_clock(&offset, 0.0);
    let (_peer, address) = peer_reflector(&program, folder.path(), "127.0.0.1", |command| {
        command.args(["--hwtstamp", "off"]);
        with_clock(command, &library, &offset);
    });
    let hop = Hop::to(address);
    let mut daemon = Daemon::start(folder.path(), config(hop.address), |_| {});
    let before = steady(&mut daemon);
    assert_eq!(before["total"]["clock_steps"], 0, "{before}");

    for (steps, (offset_s, step_s)) in (1_u32..).zip([(2.5, 2.5), (-3_600.0, -3_602.5)]) {
        set_clock(&offset, offset_s);
        let session = daemon.until("the step is not flagged", |session| {
            session["total"]["clock_steps"] == steps
        });
        let clocks = &session["last_step"]["clocks"];
        assert_eq!(clocks["state"], "reflector_stepped", "{session}");
        let measured_s = number(&clocks["step_ns"]) / 1e9;
        assert!((measured_s - step_s).abs() < 0.5, "{measured_s} {step_s}");
        steady(&mut daemon);
    }

    // The path gets longer by 200 ms: no clock's fault.
    let before = steady(&mut daemon);
    hop.delay_ms.store(200, Ordering::Relaxed);
    let least = |session: &Value, way: &str| number(&session["last"][way]["min_ns"]);
    let longer = |session: &Value| {
        !session["last"]["forward"].is_null()
            && least(session, "forward") - least(&before, "forward") > 150e6
    };
    daemon.until("the path is not longer", longer);
    let after = steady(&mut daemon);
    assert!(
        longer(&after) && least(&after, "round_trip") > 150e6,
        "{after}"
    );
    assert!(
        (least(&after, "backward") - least(&before, "backward")).abs() < 100e6,
        "{after}"
    );
    assert_eq!(after["total"]["clock_steps"], 2, "{after}");
}

#[test]
fn the_own_clock_that_is_set_is_known_as_such() {
    let (Some(program), Some(library)) = (stamp_suite(), faketime()) else {
        return;
    };
    let (folder, _) = folder();
    let offset = folder.path().join("offset");
    set_clock(&offset, 0.0);
    let (_peer, address) = peer_reflector(&program, folder.path(), "127.0.0.1", |_| ());
    let mut daemon = Daemon::start(folder.path(), config(address), |command| {
        with_clock(command, &library, &offset);
    });
    steady(&mut daemon);
    set_clock(&offset, 2.0);
    let session = daemon.until("the step is not flagged", |session| {
        session["total"]["clock_steps"] != 0
    });
    let clocks = &session["last_step"]["clocks"];
    assert_eq!(clocks["state"], "sender_stepped", "{session}");
    // The other clock falls behind.
    assert!(
        (number(&clocks["step_ns"]) / 1e9 + 2.0).abs() < 0.5,
        "{session}"
    );
    let session = steady(&mut daemon);
    // No packet that was under way meanwhile has a delay of seconds.
    assert!(
        number(&session["total"]["round_trip_s"]) / number(&session["total"]["round_trips"]) < 0.5,
        "{session}"
    );
    assert_eq!(session["total"]["clock_steps"], 1);
}
