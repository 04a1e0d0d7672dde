//! Requests that the system does not send, and addresses with zones.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use testkit::namespace::ip;
use testkit::process::{self, Process};

use crate::support::{Daemon, NEVER, folder, logged, own_network, probe};

/// The exit code, standard output and standard error of two packets to an address.
fn measured(address: &str) -> (Option<i32>, String, String) {
    let output = probe()
        .args([address, "-c", "2", "-i", "10", "--timeout-ms", "50"])
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn what_cannot_be_sent_ends_the_command_with_the_reason() {
    if !own_network() {
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

/// An ICMP message comes back, from this machine or another: nobody has to guess at firewalls.
#[test]
fn what_is_not_delivered_is_said() {
    if !own_network() {
        return;
    }
    // An address of a link at which nobody has it.
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
        let output = probe().args(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (out, error) = (text(output.stdout), text(output.stderr));
        assert_eq!(output.status.code(), Some(1), "{address}: {out}{error}");
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
    if !own_network() {
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
    daemon.process.end(&NEVER).unwrap();
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
    if !own_network() {
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
