//! What people see of a measurement: tables, usage, odd replies, requests that the system does not send, and addresses with zones.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

use probe::wire::{ErrorEstimate, Format, Mode, Reply, Request, UnixNs};
use serde_json::{Value, json};
use testkit::namespace::{ip, own_network};
use testkit::process::{self, Background, Process};

use crate::support::{Daemon, folder, logged, probe, ran, reflector};

#[test]
fn a_table_has_three_rows_with_their_sample_sizes() {
    let (folder, _) = folder();
    for host in ["127.0.0.1", "::1"] {
        let (_reflector, address) = reflector(folder.path(), host, None);
        let (code, text, _) = ran(&[&address.to_string(), "-c", "40", "-i", "2"]);
        assert_eq!(code, Some(0), "{text}");
        assert!(
            text.contains("40 sent, 40 answered, 0 lost (0.0 %), 0 duplicates, 0 reordered"),
            "{text}"
        );
        for row in ["forward", "backward", "round trip"] {
            let row = text.lines().find(|line| line.starts_with(row)).unwrap();
            let cells: Vec<f64> = row[11..]
                .split_whitespace()
                .map(|cell| cell.parse().unwrap())
                .collect();
            assert_eq!((cells.len(), cells[0]), (7, 40.0), "{row}");
        }
    }
}

#[test]
fn who_gets_no_answer_is_informed_of_what_to_look_at() {
    // It receives everything and answers nothing.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let (code, text, error) = ran(&[&address, "-c", "3", "-i", "1", "--timeout-ms", "50"]);
    assert_eq!(code, Some(1));
    assert!(
        error.contains("no reply from") && error.contains("firewall"),
        "{error}"
    );
    assert!(
        text.contains("3 sent, 0 answered, 3 lost (100.0 %)"),
        "{text}"
    );
}

#[test]
fn bad_usage_is_named() {
    let (folder, _) = folder();
    let file = folder.path().join("probe.json");
    std::fs::write(
        &file,
        r#"{"sessions": [{"name": "a", "to": "192.0.2.1", "dscp": 99}]}"#,
    )
    .unwrap();
    let file = file.to_str().unwrap();
    let cases: [(&[&str], &str); 5] = [
        (
            &["--config", file],
            "sessions[0].dscp: expected 0 to 63, got 99",
        ),
        (
            &["192.0.2.1", "--dscp", "77"],
            "--dscp: expected 0 to 63, got 77",
        ),
        (
            &["192.0.2.1", "--length", "46"],
            "--length: expected 44, or 48 to 9000, got 46",
        ),
        (&["192.0.2.1", "--count", "0"], "1..=100000"),
        (&[], "required arguments"),
    ];
    for (arguments, expected) in cases {
        let (code, _, error) = ran(arguments);
        assert_eq!(code, Some(2), "{error}");
        assert!(error.contains(expected), "{error}");
    }
    let unreadable = "sessions[0].key_file: /nonexistent/key: cannot be read";
    let (_, _, error) = ran(&["192.0.2.1", "--key-file", "/nonexistent/key"]);
    assert!(error.contains(unreadable), "{error}");
    let check = |key: &str| {
        let session = format!(r#"{{"sessions": [{{"name": "a", "to": "192.0.2.1"{key}}}]}}"#);
        std::fs::write(file, session).unwrap();
        ran(&["--config", file, "--check"])
    };
    assert_eq!(check("").1, "1 session\n");
    let (code, _, error) = check(r#", "key_file": "/nonexistent/key""#);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains(unreadable), "{error}");
}

const COUNT: u64 = 8;

/// A reply, and how it is sent.
struct Answer {
    reply: Reply,
    /// All but the base packet.
    tail: Vec<u8>,
    /// Length in bytes if it is truncated.
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
                own: Request {
                    timestamp: now,
                    error: ErrorEstimate::new(true, Format::Ntp, 1_000),
                    ..*request
                },
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
    _answering: Background,
}

impl Odd {
    fn start(change: fn(&mut Answer)) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let elsewhere = UdpSocket::bind("127.0.0.1:0").unwrap();
        let patience = Some(Duration::from_millis(20));
        socket.set_read_timeout(patience).unwrap();
        let address = socket.local_addr().unwrap();
        let answering = Background::start(move |stopped| {
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
        });
        Self {
            address,
            _answering: answering,
        }
    }

    /// A measurement: standard output, standard error.
    fn measured(&self, arguments: &[&str]) -> (String, String) {
        let (address, count) = (self.address.to_string(), COUNT.to_string());
        let (_, text, error) = ran(&[&[&*address, "-c", &count, "-i", "2"], arguments].concat());
        (text, error)
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
        (
            "no error estimate",
            |a| a.reply.own.error.multiplier = 0,
            &[],
        ),
        (
            "the greatest error estimate",
            |a| a.reply.own.error = ErrorEstimate::from_bits(0xbfff),
            &[],
        ),
        (
            "PTP's timestamps",
            |a| {
                let now = Format::Ptp.encode(UnixNs::now());
                a.reply.own.error = ErrorEstimate::new(true, Format::Ptp, 1_000);
                (a.reply.own.timestamp, a.reply.received) = (now, now);
            },
            &[],
        ),
        (
            "nanoseconds over a second",
            |a| {
                a.reply.own.error = ErrorEstimate::new(true, Format::Ptp, 1_000);
                a.reply.own.timestamp = 1_500_000_000;
            },
            &[("unusable", COUNT)],
        ),
        ("always number 0", |a| a.reply.own.sequence = 0, &[]),
        ("no SSID", |a| a.reply.own.ssid = 0, &[]),
        ("a tail that is no TLV", |a| a.tail = vec![0xde; 13], &[]),
        ("a tail of zeros", |a| a.tail = vec![0; 30], &[]),
        (
            // Only once for the last: the run ends with its first copy.
            "twice",
            |a| a.times = 2 - usize::from(u64::from(a.reply.sender_sequence) + 1 == COUNT),
            &[("duplicates", COUNT - 1)],
        ),
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
            let plain = COUNT * u64::from(["sent", "received"].contains(&field));
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
            |a| a.reply.own.ssid = 0x1234,
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
            a.reply.own.timestamp = a.reply.own.timestamp.wrapping_add(DECADES);
        },
        |a| {
            a.reply.received = a.reply.received.wrapping_sub(DECADES);
            a.reply.own.timestamp = a.reply.own.timestamp.wrapping_sub(DECADES);
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

/// Two packets to an address.
fn measured(address: &str) -> (Option<i32>, String, String) {
    ran(&[address, "-c", "2", "-i", "10", "--timeout-ms", "50"])
}

#[test]
fn what_cannot_be_sent_ends_the_command_with_the_reason() {
    if !own_network().unwrap() {
        return;
    }
    // A broadcast address of this machine's own network, known by the system alone.
    ip("addr add 10.9.0.1/24 brd 10.9.0.255 dev lo").unwrap();
    let rules = "add table inet probe; \
        add chain inet probe out { type filter hook output priority 0; }; \
        add rule inet probe out ip daddr 127.0.0.9 drop";
    process::output(Command::new("nft").arg(rules)).unwrap();
    let cases = [
        ("192.0.2.1", "Network is unreachable"),
        ("[2001:db8::1]:862", "Network is unreachable"),
        ("fe80::1%lo", "unreachable"),
        ("127.0.0.9", "a firewall of this machine"),
        ("10.9.0.255", "a broadcast address"),
    ];
    for (address, why) in cases {
        let (code, text, error) = measured(address);
        assert_eq!(code, Some(1), "{address}: {text}{error}");
        assert!(error.contains("nothing was sent to "), "{error}");
        assert!(error.contains(why), "{address}: {error}");
        assert!(
            text.contains("0 sent, ") && text.contains("2 not sent: "),
            "{text}"
        );
    }
}

/// An ICMP message comes back, from this machine or another, so the cause is known.
#[test]
fn what_is_not_delivered_is_said() {
    if !own_network().unwrap() {
        return;
    }
    // An address that no host on the link has.
    ip("link add near type veth peer name far").unwrap();
    for end in ["near", "far"] {
        ip(&format!("link set {end} up")).unwrap();
    }
    ip("addr add 10.9.1.1/24 dev near").unwrap();
    let rules = "add table inet probe; \
        add chain inet probe in { type filter hook input priority 0; }; \
        add rule inet probe in udp dport 888 reject with icmpx type admin-prohibited";
    process::output(Command::new("nft").arg(rules)).unwrap();
    for (address, timeout_ms, why) in [
        (
            "127.0.0.1:999",
            "50",
            "port unreachable: nothing listens there (ICMP from 127.0.0.1)",
        ),
        (
            "[::1]:999",
            "50",
            "port unreachable: nothing listens there (ICMP from ::1)",
        ),
        (
            "127.0.0.1:888",
            "50",
            "prohibited by a firewall or a route (ICMP from 127.0.0.1)",
        ),
        // The kernel asks for it three times, a second apart.
        ("10.9.1.2", "5000", "host unreachable (ICMP from 10.9.1.1)"),
    ] {
        let arguments = [address, "-c", "5", "-i", "10", "--timeout-ms", timeout_ms];
        let (code, out, error) = ran(&arguments);
        assert_eq!(code, Some(1), "{address}: {out}{error}");
        // A message about one request does not keep the next from being sent.
        assert!(
            out.contains("5 sent, 0 answered, 5 lost"),
            "{address}: {out}"
        );
        let expected = format!(": {why}\n");
        assert!(error.ends_with(&expected), "{address}: {error}");
    }
}

#[test]
fn addresses_of_many_or_of_no_link_are_refused() {
    for (address, why) in [
        ("224.0.0.1", "multicast"),
        ("[ff02::1]:862", "multicast"),
        ("255.255.255.255", "broadcast"),
        ("fe80::1", "its zone"),
        ("fe80::1%nothing", "there is no interface \"nothing\""),
        ("2001:db8::1%lo", "link-local"),
    ] {
        let (code, _, error) = measured(address);
        assert_eq!(code, Some(2), "{address}: {error}");
        assert!(error.contains(why), "{address}: {error}");
    }
}

/// Lines of a log with these words.
fn lines(process: &Process, words: &str) -> usize {
    let log = process.log();
    log.lines().filter(|line| line.contains(words)).count()
}

#[test]
fn a_daemon_that_cannot_send_is_not_ready_and_logs_each_change_once() {
    if !own_network().unwrap() {
        return;
    }
    ip("addr add 10.9.0.1/32 dev lo").unwrap();
    let (folder, _) = folder();
    let config = json!({
        "interval_ms": 100,
        "sessions": [{ "name": "far", "to": "192.0.2.1", "interval_ms": 5, "timeout_ms": 50 }],
    });
    let mut daemon = Daemon::start(folder.path(), config, |_| {});
    let count = |session: &Value, field: &str| session["total"][field].as_u64().unwrap();
    let unsent = daemon.until("all is sent", |session| count(session, "not_sent") > 50);
    assert_eq!(count(&unsent, "sent"), 0);
    let why = unsent["last"]["not_sent_for"].as_str().unwrap();
    assert!(why.contains("Network is unreachable"), "{why}");
    let (status, text) = daemon.status("/readyz");
    assert_eq!(status, 503, "{text}");
    assert!(
        text.contains("far: requests cannot be sent: Network is unreachable"),
        "{text}"
    );
    assert_eq!(lines(&daemon.process, "requests cannot be sent"), 1);

    // A way there, on which packets are lost.
    ip("route add 192.0.2.0/24 dev lo").unwrap();
    daemon.until("nothing is sent", |session| count(session, "sent") > 50);
    assert_eq!(daemon.status("/readyz"), (200, "ok\n".to_owned()));
    ip("route del 192.0.2.0/24 dev lo").unwrap();
    let before = count(&unsent, "not_sent");
    daemon.until("all is sent", |session| {
        count(session, "not_sent") > before + 100
    });
    let (status, text) = daemon.status("/readyz");
    assert_eq!(status, 503, "{text}");
    assert_eq!(lines(&daemon.process, "requests cannot be sent"), 2);
    assert_eq!(lines(&daemon.process, "requests are sent again"), 1);
    daemon.process.end().unwrap();
}

/// A reflector at a link-local address, by the name of its interface.
fn link_local(folder: &Path) -> (Process, String) {
    ip("addr add fe80::11/64 dev lo nodad").unwrap();
    let mut command = probe();
    command.args(["--reflect", "--listen", "[fe80::11%lo]:0"]);
    let mut process = Process::start_logged(&mut command, folder.join("reflector.log")).unwrap();
    let address: String = logged(&mut process, "reflector at ");
    let port = address.rsplit(':').next().unwrap().to_owned();
    (process, port)
}

#[test]
fn zones_are_names_or_numbers_on_the_command_line_and_in_files() {
    if !own_network().unwrap() {
        return;
    }
    let (folder, _) = folder();
    let (_reflector, port) = link_local(folder.path());
    for zone in ["lo", "1"] {
        let to = format!("[fe80::11%{zone}]:{port}");
        let (code, text, error) = measured(&to);
        assert_eq!(code, Some(0), "{to}: {text}{error}");
        assert!(text.contains("2 sent, 2 answered"), "{text}");
        let config = json!({
            "interval_ms": 100,
            "sessions": [{ "name": "a", "to": to, "from": format!("fe80::11%{zone}"), "interval_ms": 5 }],
        });
        let mut daemon = Daemon::start(folder.path(), config, |_| {});
        let session = daemon.until("no reply", |session| {
            session["total"]["received"].as_u64() > Some(20)
        });
        assert_eq!(session["total"]["lost"], 0, "{session}");
    }
}
