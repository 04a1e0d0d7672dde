//! Devices that disappear and come back while the switch runs: the peer of a `net_memif` port, a kernel interface.
use std::path::Path;

use crate::support::{Daemon, assert_conserved, is_root, memif, signal};
use serde_json::{Value, json};
use testkit::hosts::Hosts;
use testkit::process::output;

/// One end of shared memory, with traffic of its own.
fn end(role: &str, folder: &Path) -> Value {
    json!({
        "ports": [
            { "name": "host", "device": "generate:flows=50,rate=2000" },
            { "name": "trunk", "device": memif(role, &folder.join("memif.sock")) },
        ],
        "forwarding": { "mode": "patch", "pairs": [["host", "trunk"]] },
        "dpdk": { "memory_mib": 64, "mbufs": 8192 },
    })
}

fn received(switch: &Daemon) -> Option<u64> {
    let trunk = switch.snapshot()?["ports"][1].clone();
    trunk["rx_packets"].as_u64()
}

fn is_ready(switch: &Daemon) -> bool {
    switch
        .answer("/readyz")
        .is_some_and(|(status, _)| status == 200)
}

/// Waits until both are ready and each receives what the other sends.
fn wait_for_both(ends: &mut [Daemon; 2]) {
    for switch in ends {
        switch.wait_for(is_ready);
        let before = switch.wait_for_some(received);
        switch.wait_for(|switch| received(switch) > Some(before));
    }
}

fn both_ends(folder: &Path) -> [Daemon; 2] {
    let mut ends = ["server", "client"].map(|role| Daemon::start(end(role, folder)));
    wait_for_both(&mut ends);
    ends
}

#[test]
fn a_memif_client_connects_again_when_its_server_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let mut ends = both_ends(folder.path());
    for how in ["-TERM", "-KILL", "-TERM"] {
        signal(how, ends[0].id());
        ends[1].wait_for(|client| !is_ready(client));
        let (_, reason) = ends[1].answer("/readyz").unwrap();
        assert!(reason.contains("port trunk"), "{reason}");
        // Long enough for the client to give its port up.
        ends[1].wait_for(|client| client.metric("vernier_port_removed{port=\"trunk\"}") == Some(1));
        let _ = ends[0].last_words();
        ends[0].start_again();
        wait_for_both(&mut ends);
    }
    for switch in ends {
        assert_conserved(&switch.stop()["snapshot"]);
    }
}

/// Another client has its place: attempts become less frequent, the log reports it once, and the port is used when the
/// place is free.
#[test]
fn a_second_client_of_a_memif_waits_without_filling_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let [mut server, client] = both_ends(folder.path());
    let mut second = Daemon::start(end("client", folder.path()));
    let mut log = second.take_log();
    let log = std::thread::spawn(move || std::io::read_to_string(&mut log).unwrap());
    // It finds the server, and loses it again.
    for removed in [1, 0, 1, 0, 1] {
        second.wait_for(|second| {
            second.metric("vernier_port_removed{port=\"trunk\"}") == Some(removed)
        });
    }
    client.stop();
    second.wait_for(is_ready);
    let before = server.wait_for_some(received);
    server.wait_for(|server| received(server) > Some(before));
    for switch in [second, server] {
        assert_conserved(&switch.stop()["snapshot"]);
    }
    let log = log.join().unwrap();
    for (words, at_most) in [
        ("it is used again when that is back", 1),
        ("it may have another client of this id", 1),
        ("its device is back and used again", 1),
    ] {
        assert!(log.matches(words).count() <= at_most, "{words}: {log}");
    }
    assert!(
        log.contains("it may have another client of this id"),
        "{log}"
    );
}

#[test]
fn a_memif_server_takes_a_client_that_was_killed_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut ends = both_ends(folder.path());
    for _ in 0..2 {
        ends[1].kill_and_start_again();
        wait_for_both(&mut ends);
    }
    for switch in ends {
        assert_conserved(&switch.stop()["snapshot"]);
    }
}

#[test]
fn a_memif_server_with_a_client_ends_well() {
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let [server, client] = both_ends(folder.path());
        // Either end first.
        for switch in [server, client] {
            assert_conserved(&switch.stop()["snapshot"]);
        }
    }
}

/// An interface is deleted under a port, and made again by the same name.
fn is_used_again(driver: &str, extra: &str) {
    if !is_root("network namespaces") {
        return;
    }
    let hosts = Hosts::new("10.98.0", &["a", "b"]).unwrap();
    let port = |host: &str| {
        let device = format!("{driver}_{host},iface={}{extra}", hosts.name(host));
        json!({ "name": host, "device": device })
    };
    let config = json!({
        "ports": [port("a"), port("b")],
        "forwarding": { "mode": "patch", "pairs": [["a", "b"]] },
    });
    let reaches = || {
        // An interface that is made again has another address.
        for host in ["a", "b"] {
            output(&mut hosts.inside(host, "ip neigh flush all")).unwrap();
        }
        output(&mut hosts.inside("a", "ping -c 1 -W 1 10.98.0.2")).is_ok()
    };
    let mut switch = Daemon::start(config.clone());
    switch.wait_for(|_| reaches());
    for round in 0..2 {
        let host = ["b", "a"][round];
        hosts.part(host).unwrap();
        let removed = format!("vernier_port_removed{{port=\"{host}\"}}");
        switch.wait_for(|switch| switch.metric(&removed) == Some(1));
        let (status, reason) = switch.answer("/readyz").unwrap();
        assert_eq!(status, 503);
        assert!(reason.contains(&format!("port {host}")), "{reason}");
        // A reload changes nothing, and harms nothing.
        switch.reload(config.clone());
        let address = format!("10.98.0.{}", 2 - round);
        hosts.join(host, &address).unwrap();
        switch.wait_for(|switch| switch.metric(&removed) == Some(0));
        switch.wait_for(is_ready);
        switch.wait_for(|_| reaches());
    }
    assert_conserved(&switch.stop()["snapshot"]);
}

#[test]
fn an_interface_that_is_made_again_is_used_again_by_net_af_packet() {
    is_used_again("net_af_packet", "");
}

#[test]
fn an_interface_that_is_made_again_is_used_again_by_net_af_xdp() {
    is_used_again("net_af_xdp", ",start_queue=0,queue_count=1");
}
