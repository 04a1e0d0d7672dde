//! Hostile clients and the real `vernierd` under traffic: whatever they do, other clients are answered, packets are
//! forwarded and counted, epochs are measured, memory does not grow, and their actions are counted.
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::{Daemon, PATIENCE, assert_conserved, assert_segments_add_up, number, sum};
use serde_json::{Value, json};

/// Epochs of a quiet while, and at least as many of a siege.
const EPOCHS: u64 = 20;

/// Bytes in flight that `docs/operating.md` promises where there are so many segments, in KiB: the maximum during a
/// siege.
const fn growth_kib_max(segments: u64) -> u64 {
    16 * 1_024 + 64 * segments
}

/// The share of epochs that may be missed beside those of a quiet while, where the machine is busy with others.
pub const MISSED_MAX: f64 = 0.25;

fn config() -> Value {
    json!({
        "ports": [
            { "name": "east", "device": "generate:flows=500,rate=10000" },
            { "name": "west", "device": "generate:flows=200,rate=10000,burst=16,side=1" },
        ],
        "forwarding": { "mode": "patch", "pairs": [["east", "west"]] },
        "measurement": { "interval_ms": 100, "lda": { "banks": [
            { "rows": 256, "probability": 1.0 } ] } },
    })
}

/// Of a snapshot: number of the last epoch, epochs missed, packets sent.
pub fn course(snapshot: &Value) -> (u64, u64, u64) {
    (
        snapshot["epoch"].as_u64().unwrap_or(0),
        sum(&snapshot["workers"], |worker| {
            number(&worker["missed_epochs"])
        }),
        sum(&snapshot["ports"], |port| number(&port["tx_packets"])),
    )
}

/// The value of a series on a page for Prometheus.
fn metric(page: &str, series: &str) -> f64 {
    let mut lines = page.lines();
    let value = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    let value = value.unwrap_or_else(|| panic!("no {series} in {page}"));
    value.parse().unwrap()
}

fn rejected(page: &str, reason: &str) -> f64 {
    metric(
        page,
        &format!("vernier_http_rejected_total{{reason=\"{reason}\"}}"),
    )
}

/// The answer of `/metrics`; a client that is disconnected tries again.
fn page(switch: &mut Daemon) -> String {
    switch.wait_for_some(|switch| switch.get("/metrics"))
}

fn snapshot(switch: &mut Daemon) -> Value {
    switch.wait_for_some(Daemon::snapshot)
}

/// State of hostile clients: the address, the time of their end, and their number of connections.
struct Siege {
    address: SocketAddr,
    /// As what their visits are counted, and how many of these there must be.
    reason: &'static str,
    visits: u64,
    is_over: AtomicBool,
    connections: AtomicU64,
}

impl Siege {
    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    /// Another connection; `None` if the system lacks resources for a moment.
    fn connect(&self) -> Option<TcpStream> {
        let client = TcpStream::connect_timeout(&self.address, Duration::from_secs(1)).ok();
        if client.is_some() {
            self.connections.fetch_add(1, Ordering::Relaxed);
        } else {
            thread::sleep(Duration::from_millis(10));
        }
        client
    }
}

/// Figures of a switch over some time.
struct While {
    /// At its beginning and its end: see [`course`].
    first: (u64, u64, u64),
    last: (u64, u64, u64),
    resident_kib: u64,
    page: String,
}

impl While {
    /// A while without disturbance.
    fn quiet(switch: &mut Daemon) -> Self {
        let mut reach = |epoch: u64| {
            switch.wait_for_some(|switch| {
                let course = course(&switch.snapshot()?);
                (course.0 >= epoch).then_some(course)
            })
        };
        let first = reach(10);
        let last = reach(first.0 + EPOCHS);
        Self {
            first,
            last,
            resident_kib: switch.resident_kib(),
            page: page(switch),
        }
    }

    /// The share of epochs that were missed.
    fn missed(&self) -> f64 {
        let (epochs, missed) = (self.last.0 - self.first.0, self.last.1 - self.first.1);
        missed as f64 / epochs.max(1) as f64
    }
}

/// Lets hostile clients at a switch until they have come often enough, what they do was counted, and as many
/// epochs have passed as in a quiet while before.
fn besiege(
    switch: &mut Daemon,
    siege: &Siege,
    quiet: &While,
    attack: impl Fn(&Siege) + Sync,
) -> While {
    let (mut last, mut resident_kib) = (quiet.last, 0);
    let page = thread::scope(|scope| {
        let attacker = scope.spawn(|| attack(siege));
        // Every pass has the patience of one; the siege as a whole is bounded by its passes.
        let mut passes = 0;
        loop {
            let now = course(&snapshot(switch));
            let page = page(switch);
            resident_kib = resident_kib.max(switch.resident_kib());
            assert!(now.2 >= last.2 && now.0 >= last.0, "{last:?} {now:?}");
            last = now;
            let is_counted = rejected(&page, siege.reason) > rejected(&quiet.page, siege.reason);
            let connections = siege.connections.load(Ordering::Relaxed);
            if is_counted && connections >= siege.visits && now.0 >= quiet.last.0 + EPOCHS {
                siege.is_over.store(true, Ordering::Relaxed);
                attacker.join().unwrap();
                return page;
            }
            passes += 1;
            assert!(passes < 600, "{connections} {page}");
            thread::sleep(Duration::from_millis(100));
        }
    });
    While {
        first: quiet.last,
        last: course(&snapshot(switch)),
        resident_kib,
        page,
    }
}

/// A siege, and the conditions that must hold during and after it.
fn withstand(reason: &'static str, visits: u64, attack: impl Fn(&Siege) + Sync) {
    let mut switch = Daemon::start_logging(config(), "error");
    let quiet = While::quiet(&mut switch);
    let siege = Siege {
        address: switch.address,
        reason,
        visits,
        is_over: AtomicBool::new(false),
        connections: AtomicU64::new(0),
    };
    let besieged = besiege(&mut switch, &siege, &quiet, attack);
    assert!(besieged.last.2 > quiet.last.2, "nothing was forwarded");
    let (missed, missed_quiet) = (besieged.missed(), quiet.missed());
    assert!(
        missed <= missed_quiet + MISSED_MAX,
        "of epochs {missed} were missed, {missed_quiet} before"
    );
    let (quiet_kib, resident_kib) = (quiet.resident_kib, besieged.resident_kib);
    assert!(
        resident_kib <= quiet_kib + growth_kib_max(2),
        "{quiet_kib} KiB grew to {resident_kib}"
    );

    // Afterwards everything is as before: only the present client has a connection, and nothing more is counted.
    switch.wait_for(|switch| {
        let page = switch.get("/metrics");
        page.is_some_and(|page| metric(&page, "vernier_http_connections") <= 2.0)
    });
    let after = page(&mut switch);
    thread::sleep(Duration::from_millis(300));
    let later = page(&mut switch);
    for reason in ["slow", "crowded", "too_large", "garbage"] {
        let counts = (rejected(&after, reason), rejected(&later, reason));
        assert!((counts.0 - counts.1).abs() < 0.5, "{reason}: {counts:?}");
    }
    println!(
        "{} connections; missed {missed} of the epochs, {missed_quiet} before; {quiet_kib} KiB, \
         then {resident_kib} at most",
        siege.connections.load(Ordering::Relaxed)
    );
    let snapshot = &switch.stop()["snapshot"];
    assert_conserved(snapshot);
    assert_segments_add_up(snapshot, 0);
}

#[test]
fn headers_that_come_byte_by_byte_keep_nobody_out() {
    withstand("crowded", 600, |siege| {
        let header = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ";
        let mut clients: Vec<(Option<TcpStream>, usize)> = (0..300).map(|_| (None, 0)).collect();
        while siege.goes_on() {
            for (client, sent) in &mut clients {
                let byte = header.get(*sent).copied().unwrap_or(b'x');
                let went = client
                    .as_mut()
                    .is_some_and(|client| client.write_all(&[byte]).is_ok());
                *sent += 1;
                if !went {
                    (*client, *sent) = (siege.connect(), 0);
                }
            }
            thread::sleep(Duration::from_millis(50));
        }
    });
}

#[test]
fn ten_thousand_connections_keep_nobody_out() {
    withstand("crowded", 10_000, |siege| {
        // Disconnected clients need not be kept, because the switch holds nothing for them any more.
        let mut clients = VecDeque::new();
        while siege.goes_on() {
            clients.extend(siege.connect());
            if clients.len() > 500 {
                clients.pop_front();
            }
        }
    });
}

#[test]
fn garbage_is_counted_and_does_no_harm() {
    withstand("garbage", 500, |siege| {
        let garbage: Vec<u8> = (0..=255).cycle().skip(128).take(20_000).collect();
        let forms = [
            &garbage[..],
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"GET /metrics HTTP/9.9\r\n\r\n",
            b"\0\0\0\0\r\n\r\n",
        ];
        for form in forms.iter().cycle() {
            if !siege.goes_on() {
                break;
            }
            if let Some(mut client) = siege.connect() {
                // It may be cut off in the middle.
                let _ = client.write_all(form);
            }
        }
    });
}

#[test]
fn headers_without_end_are_refused() {
    withstand("too_large", 200, |siege| {
        let line = format!("X-Long: {}\r\n", "x".repeat(1_000));
        while siege.goes_on() {
            let Some(mut client) = siege.connect() else {
                continue;
            };
            let _ = client.write_all(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n");
            for _ in 0..1_000 {
                if client.write_all(line.as_bytes()).is_err() {
                    break;
                }
            }
        }
    });
}

#[test]
fn who_never_reads_an_answer_is_cut_off() {
    withstand("slow", 30, |siege| {
        // More answers than fit between the two, from as many clients as leave places free.
        let requests = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".repeat(5_000);
        let mut clients: Vec<TcpStream> = Vec::new();
        while siege.goes_on() {
            if clients.len() < 30
                && let Some(mut client) = siege.connect()
            {
                client.set_nonblocking(true).unwrap();
                let _ = client.write(requests.as_bytes());
                clients.push(client);
            } else {
                thread::sleep(Duration::from_millis(50));
            }
        }
    });
}

/// As many ports as Debian's DPDK opens.
const PORTS: u64 = 32;

/// All pairs of ports, in as many classes as there may be.
const SEGMENTS: u64 = PORTS * (PORTS - 1) * 8;

/// The largest configuration that starts everywhere; all segments are on every page.
fn largest() -> Value {
    let device = |port| match port {
        0 => "generate:flows=500,rate=1000",
        _ => "sink",
    };
    let port = |port| json!({ "name": format!("port-{port:02}"), "device": device(port) });
    let class = |class| json!({ "name": format!("class-{class}") });
    json!({
        "ports": (0..PORTS).map(port).collect::<Vec<_>>(),
        "classes": (0..8).map(class).collect::<Vec<_>>(),
        "forwarding": { "mode": "bridge" },
        "measurement": { "interval_ms": 1000, "lda": null },
    })
}

/// A client that asks for `path` and has read the head of the answer: its status and length.
fn asks(switch: &Daemon, path: &str) -> (TcpStream, u16, usize) {
    let mut client = TcpStream::connect(switch.address).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.write_all(request.as_bytes()).unwrap();
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        head.push(char::from(byte[0]));
    }
    let head = head.to_ascii_lowercase();
    let after = |start: &str| head.split_once(start).unwrap().1.split_whitespace().next();
    let number = |text: Option<&str>| text.unwrap().parse().unwrap();
    let status = number(after("http/1.1 "));
    let length = number(after("content-length: "));
    (client, u16::try_from(status).unwrap(), length)
}

#[test]
fn readers_that_stall_take_no_more_memory_than_is_promised() {
    let mut switch = Daemon::start_logging(largest(), "error");
    switch.wait_for(|switch| switch.answer("/readyz").is_some_and(|ready| ready.0 == 200));
    let page_kib = page(&mut switch).len() as u64 / 1_024;
    let quiet_kib = switch.resident_kib();
    let (mut stalled, mut refused, mut resident_kib) = (Vec::new(), 0, 0);
    for _ in 0..40 {
        match asks(&switch, "/metrics") {
            (client, 200, _) => stalled.push(client),
            (_, status, _) => {
                assert_eq!(status, 503);
                refused += 1;
            }
        }
        resident_kib = resident_kib.max(switch.resident_kib());
    }
    println!(
        "{page_kib} KiB a page; {} clients stall, {refused} were refused; {quiet_kib} KiB, then \
         {resident_kib} at most",
        stalled.len()
    );
    assert!(stalled.len() >= 2, "{refused}");
    assert!(
        resident_kib <= quiet_kib + growth_kib_max(SEGMENTS),
        "{quiet_kib} KiB grew to {resident_kib}"
    );
    // Small answers are possible meanwhile, large ones once the others have left.
    assert_eq!(switch.answer("/healthz").unwrap().0, 200);
    drop(stalled);
    page(&mut switch);
    switch.stop();
}

#[test]
fn a_slow_reader_is_not_thrown_out_for_newcomers_that_say_nothing() {
    let mut switch = Daemon::start_logging(largest(), "error");
    switch.wait_for(|switch| switch.answer("/readyz").is_some_and(|ready| ready.0 == 200));
    let (mut slow, status, length) = asks(&switch, "/metrics");
    assert!(status == 200 && length > 8 << 20, "{length}");
    let mut part = vec![0; length / 10];
    for _ in 0..10 {
        let newcomer = |_| TcpStream::connect(switch.address).unwrap();
        let silent: Vec<_> = (0..100).map(newcomer).collect();
        assert_eq!(switch.answer("/healthz").unwrap().0, 200);
        slow.read_exact(&mut part).unwrap();
        drop(silent);
    }
    assert!(rejected(&page(&mut switch), "crowded") >= 100.0);
    switch.stop();
}
