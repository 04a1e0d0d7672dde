//! Reflectors whose replies are odd: shorter or longer, with other clocks, from elsewhere, twice.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use probe::wire::{ErrorEstimate, Format, Mode, Reply, Request, UnixNs};
use serde_json::Value;

use crate::support::probe;

const COUNT: u64 = 8;

/// A reply, and how it is sent.
struct Answer {
    reply: Reply,
    /// All but the base packet.
    tail: Vec<u8>,
    /// Bytes of the whole, where it is cut.
    bytes: usize,
    times: usize,
    is_from_elsewhere: bool,
}

impl Answer {
    /// What an ordinary reflector would send.
    fn to(request: &Request) -> Self {
        let now = Format::Ntp.encode(UnixNs::now());
        Self {
            reply: Reply {
                sequence: request.sequence,
                timestamp: now,
                error: ErrorEstimate::new(true, Format::Ntp, 1_000),
                ssid: request.ssid,
                received: now,
                sender_sequence: request.sequence,
                sender_timestamp: request.timestamp,
                sender_error: request.error,
                sender_ttl: 64,
            },
            tail: Vec::new(),
            bytes: usize::MAX,
            times: 1,
            is_from_elsewhere: false,
        }
    }
}

/// A thread that answers so.
struct Odd {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Odd {
    fn start(change: fn(&mut Answer)) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let elsewhere = UdpSocket::bind("127.0.0.1:0").unwrap();
        let patience = Some(Duration::from_millis(20));
        socket.set_read_timeout(patience).unwrap();
        let address = socket.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let run = move || {
            let mut buffer = [0; 1_024];
            while !stopped.load(Ordering::Relaxed) {
                let Ok((bytes, from)) = socket.recv_from(&mut buffer) else {
                    continue;
                };
                let request = Request::read(Mode::Open, &buffer[..bytes]).unwrap();
                let mut answer = Answer::to(&request);
                change(&mut answer);
                let mut packet = vec![0; Mode::Open.bytes()];
                answer.reply.write(Mode::Open, &mut packet);
                packet.extend(answer.tail);
                packet.truncate(answer.bytes);
                let by = if answer.is_from_elsewhere {
                    &elsewhere
                } else {
                    &socket
                };
                for _ in 0..answer.times {
                    by.send_to(&packet, from).unwrap();
                }
            }
        };
        Self {
            address,
            stop,
            thread: Some(std::thread::spawn(run)),
        }
    }

    /// A measurement: standard output, standard error.
    fn measured(&self, arguments: &[&str]) -> (String, String) {
        let output = probe()
            .arg(self.address.to_string())
            .args(["-c", &COUNT.to_string(), "-i", "2"])
            .args(arguments)
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr))
    }
}

impl Drop for Odd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// Decades, in NTP's seconds.
const DECADES: u64 = (40 * 365 * 86_400) << 32;

#[test]
fn replies_that_are_odd_are_taken_and_counted() {
    // With the counts that are other than those of a plain exchange.
    type Case = (
        &'static str,
        fn(&mut Answer),
        &'static [(&'static str, u64)],
    );
    let cases: [Case; 12] = [
        ("plain", |_| (), &[]),
        ("no error estimate", |a| a.reply.error.multiplier = 0, &[]),
        (
            "the greatest error estimate",
            |a| a.reply.error = ErrorEstimate::from_bits(0xbfff),
            &[],
        ),
        (
            "PTP's timestamps",
            |a| {
                let now = Format::Ptp.encode(UnixNs::now());
                a.reply.error = ErrorEstimate::new(true, Format::Ptp, 1_000);
                (a.reply.timestamp, a.reply.received) = (now, now);
            },
            &[],
        ),
        (
            "nanoseconds over a second",
            |a| {
                a.reply.error = ErrorEstimate::new(true, Format::Ptp, 1_000);
                a.reply.timestamp = 1_500_000_000;
            },
            &[("unusable", COUNT)],
        ),
        ("always sequence number 0", |a| a.reply.sequence = 0, &[]),
        ("no SSID", |a| a.reply.ssid = 0, &[]),
        ("a tail that is no TLV", |a| a.tail = vec![0xde; 13], &[]),
        ("a tail of zeros", |a| a.tail = vec![0; 30], &[]),
        ("twice", |a| a.times = 2, &[("duplicates", COUNT)]),
        ("41 bytes (RFC 5357, section 4.2.1)", |a| a.bytes = 41, &[]),
        ("36 bytes, the fewest", |a| a.bytes = 36, &[]),
    ];
    for (name, change, other) in cases {
        let odd = Odd::start(change);
        let (text, error) = odd.measured(&["--json", "--timeout-ms", "2000"]);
        let result: Value = serde_json::from_str(&text).unwrap();
        for field in [
            "sent",
            "received",
            "lost",
            "duplicates",
            "rejected",
            "unusable",
        ] {
            let plain = if ["sent", "received"].contains(&field) {
                COUNT
            } else {
                0
            };
            let other = other.iter().find(|(other, _)| *other == field);
            let expected = other.map_or(plain, |(_, count)| *count);
            assert_eq!(result[field], expected, "{name}, {field}: {result} {error}");
        }
    }
}

#[test]
fn replies_that_are_not_taken_are_explained() {
    type Case = (fn(&mut Answer), &'static str);
    let cases: [Case; 5] = [
        (
            |a| a.bytes = 35,
            "8 replies rejected: too short, 35 of 36 bytes",
        ),
        (
            |a| a.reply.sender_timestamp ^= 1,
            "8 replies rejected: the sender's timestamp is not that of the request",
        ),
        (
            |a| a.reply.sender_sequence += 1_000,
            "8 replies rejected: no request has the sequence number ",
        ),
        (
            |a| a.reply.ssid = 0x1234,
            "8 replies rejected: the SSID is 4660, not ",
        ),
        (
            |a| a.is_from_elsewhere = true,
            "8 packets from other addresses or ports",
        ),
    ];
    for (change, expected) in cases {
        let odd = Odd::start(change);
        let (text, error) = odd.measured(&["--timeout-ms", "300"]);
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains("firewall"), "{error}");
        let is_in_table = expected.contains("rejected");
        assert_eq!(text.contains(expected), is_in_table, "{text}");
    }
}

/// Columns are columns, however far apart the clocks are.
#[test]
fn clocks_that_are_decades_apart_do_not_break_the_table() {
    let cases: [fn(&mut Answer); 3] = [
        |_| (),
        |a| {
            a.reply.received = a.reply.received.wrapping_add(DECADES);
            a.reply.timestamp = a.reply.timestamp.wrapping_add(DECADES);
        },
        |a| {
            a.reply.received = a.reply.received.wrapping_sub(DECADES);
            a.reply.timestamp = a.reply.timestamp.wrapping_sub(DECADES);
        },
    ];
    for change in cases {
        let (text, error) = Odd::start(change).measured(&[]);
        let head = text.lines().find(|line| line.starts_with("us ")).unwrap();
        for name in ["forward", "backward", "round trip"] {
            let row = text.lines().find(|line| line.starts_with(name)).unwrap();
            let cells = row[11..].split_whitespace();
            let cells: Vec<f64> = cells.map(|cell| cell.parse().unwrap()).collect();
            assert_eq!((cells.len(), cells[0]), (7, 8.0), "{text}{error}");
            assert_eq!(row.len(), head.len(), "{text}");
        }
    }
}
