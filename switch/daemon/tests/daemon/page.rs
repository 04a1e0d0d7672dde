//! The page at `/ui` in a real Chromium: what it shows beside what the API says, how it looks, keys, the token, and a
//! switch that dies.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use contract::units::{bytes, count, duration_ns, rate};
use serde_json::{Value, json};
use testkit::page::{Expected, Page};

use crate::support::{Daemon, key_file, memif};

mod made;

const TOKEN: &str = "correct-horse-battery-staple";

/// Where pictures are left for people to look at.
fn pictures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/screenshots")
}

fn page_of(switch: &Daemon) -> Page {
    Page::open(&switch.address.to_string(), switch.folder.path(), pictures()).unwrap()
}

/// A switch with generated hosts, a wire to the next, queues that overflow, and two classes.
fn config(number: u32, role: &str, folder: &Path) -> Value {
    let host = |seed: u32| format!("generate:flows=60,rate=4000,size=256,seed={seed},side={}", number % 2);
    json!({
        "name": format!("lab-{number}"),
        "ports": [
            { "name": "clients", "device": host(1),
              "egress": { "capacity_bps": 7_000_000, "queues": [{ "classes": ["web", "rest"], "packets": 64 }] } },
            { "name": "servers", "device": host(2),
              "egress": { "capacity_bps": 9_000_000, "queues": [{ "classes": ["web", "rest"], "packets": 64 }] } },
            { "name": "host", "device": host(3) },
            { "name": "trunk", "device": memif(role, &folder.join("memif.sock")),
              "wire": { "capacity_bps": 1_000_000_000, "share": 0.02 } },
        ],
        "forwarding": { "mode": "patch", "pairs": [["clients", "servers"], ["host", "trunk"]] },
        "classes": [{ "name": "web" }, { "name": "rest" }],
        "rules": [{ "class": "web", "protocol": "tcp" }],
        "measurement": {
            "interval_ms": 1_000,
            "hash_seed": "00112233445566778899aabbccddeeff",
            "flows": { "slots": 1_024, "select": "all" },
            "lds": { "cells": 4_096 },
            "rli": {},
        },
        // One machine, one clock.
        "wire": { "switch": number, "keys": [{ "id": 1, "file": folder.join("wire.key") }], "clock": { "error_ns": 500 } },
        "workers": [{ "idle": "sleep" }],
        "prometheus": { "top_flows": 10 },
        "dpdk": { "memory_mib": 128, "mbufs": 16_384 },
    })
}

/// The parts of an answer's list.
fn list(answer: &Value) -> impl Iterator<Item = &Value> {
    answer.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Adds a number, if there is one, with the text that it should have.
fn add(expected: &mut Expected, name: String, number: &Value, write: impl FnOnce(f64) -> String) {
    if let Some(number) = number.as_f64() {
        expected.insert(name, (number, write(number)));
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts")]
fn whole(write: fn(u64) -> String) -> impl Fn(f64) -> String + Copy {
    move |number| write(number as u64)
}

fn key(segment: &Value, names: [&str; 3]) -> String {
    names.map(|name| text(&segment[name])).join(" ")
}

const SEGMENT: [&str; 3] = ["ingress", "egress", "class"];

/// The table of segments.
fn segments(switch: &Daemon) -> Option<(Option<u64>, Expected)> {
    let answer = switch.json("/api/v1/segments")?;
    let mut expected = Expected::new();
    for segment in list(&answer["segments"]) {
        let key = key(segment, SEGMENT);
        let last = &segment["last"];
        let sent = last["counts"]["sent_packets"].as_f64()?;
        let name = |field: &str| format!("{key} | {field}");
        let a_second = sent * 1e3 / answer["interval_ms"].as_f64()?;
        expected.insert(name("packets/s"), (a_second, rate(a_second)));
        add(&mut expected, name("lost"), &segment["total"]["counts"]["dropped_packets"], whole(count));
        add(&mut expected, name("samples"), &last["lda"]["effective_samples"], whole(count));
        for (column, part, field) in [
            ("true mean", "stamped", "mean_ns"),
            ("LDA mean", "lda", "mean_ns"),
            ("\u{b1}98%", "lda", "bound_ns"),
            ("stddev", "stamped", "stddev_ns"),
            ("p99", "stamped", "p99_ns"),
            ("p99.9", "stamped", "p999_ns"),
            ("p99.99", "stamped", "p9999_ns"),
            ("max", "stamped", "max_ns"),
        ] {
            add(&mut expected, name(column), &last[part][field], duration_ns);
        }
    }
    assert!(expected.len() > 30, "{expected:?}");
    Some((answer["epoch"].as_u64(), expected))
}

/// One segment: its quantiles, its estimate, its totals.
fn segment(switch: &Daemon) -> Option<(Option<u64>, Expected)> {
    let answer = switch.json("/api/v1/segments?ingress=clients&egress=servers&class=web")?;
    let segment = &answer["segments"][0];
    let mut expected = Expected::new();
    for (column, of) in [("last epoch", &segment["last"]["stamped"]), ("last minute", &segment["last_minute"])] {
        for (row, field) in [("mean", "mean_ns"), ("p50", "p50_ns"), ("p99", "p99_ns"), ("p99.99", "p9999_ns"), ("max", "max_ns")] {
            add(&mut expected, format!("{row} | {column}"), &of[field], duration_ns);
        }
    }
    let last = &segment["last"];
    add(&mut expected, "packets | last minute".to_owned(), &segment["last_minute"]["packets"], whole(count));
    add(&mut expected, "true mean".to_owned(), &last["stamped"]["mean_ns"], duration_ns);
    let bound = last["lda"]["bound_ns"].as_f64()?;
    add(&mut expected, "LDA".to_owned(), &last["lda"]["mean_ns"], |mean| {
        format!("{} \u{b1}{} (98 %)", duration_ns(mean), duration_ns(bound))
    });
    let sent = &segment["total"]["counts"];
    let octets = sent["sent_bytes"].as_u64()?;
    add(&mut expected, "sent".to_owned(), &sent["sent_packets"], |packets| {
        format!("{} packets, {}", whole(count)(packets), bytes(octets))
    });
    Some((answer["epoch"].as_u64(), expected))
}

/// The table of flows, of those of a port.
fn flows(switch: &Daemon, query: &str) -> Option<(Option<u64>, Expected)> {
    let answer = switch.json(&format!("/api/v1/flows?sort=packets&limit=100{query}"))?;
    let mut expected = Expected::new();
    for flow in list(&answer["flows"]) {
        let key = format!("{} {}", text(&flow["flow"]), key(flow, SEGMENT));
        let name = |field: &str| format!("{key} | {field}");
        let (last, estimate) = (&flow["last"], &flow["estimate"]);
        add(&mut expected, name("packets"), &last["packets"], whole(count));
        add(&mut expected, name("lost"), &last["lost_packets"], whole(count));
        add(&mut expected, name("mean"), &last["mean_ns"], duration_ns);
        add(&mut expected, name("stddev"), &last["stddev_ns"], duration_ns);
        add(&mut expected, name("p99"), &flow["quantiles"]["p99_ns"], duration_ns);
        add(&mut expected, name("estimate"), &estimate["mean_ns"], duration_ns);
        add(&mut expected, name("\u{b1}98%"), &estimate["bound_ns"], duration_ns);
    }
    Some((answer["epoch"].as_u64(), expected))
}

/// Both directions of the wire, and its session.
fn wires(switch: &Daemon) -> Option<(Option<u64>, Expected)> {
    let answer = switch.json("/api/v1/wires")?;
    let mut expected = Expected::new();
    for wire in list(&answer["wires"]) {
        let port = text(&wire["port"]);
        add(&mut expected, format!("{port} | control"), &wire["control_bps"], |bps| format!("{}bit/s", rate(bps)));
        add(&mut expected, format!("{port} | least delay"), &wire["floor_ns"], duration_ns);
        for segment in list(&wire["segments"]) {
            let key = key(segment, ["from", "to", "class"]);
            let name = |field: &str| format!("{key} | {field}");
            let last = &segment["last"];
            add(&mut expected, name("sent"), &last["sent_packets"], whole(count));
            add(&mut expected, name("mean"), &last["chosen"]["mean_ns"], duration_ns);
            add(&mut expected, name("\u{b1}98%"), &last["chosen"]["bound_ns"], duration_ns);
            add(&mut expected, name("samples"), &last["chosen"]["effective_samples"], whole(count));
        }
    }
    assert!(expected.len() > 4, "{answer}");
    Some((answer["epoch"].as_u64(), expected))
}

/// Ports and their queues.
fn ports(switch: &Daemon) -> Option<(Option<u64>, Expected)> {
    let answer = switch.json("/api/v1/ports")?;
    let mut expected = Expected::new();
    for port in list(&answer["ports"]) {
        let key = text(&port["name"]);
        let name = |field: &str| format!("{key} | {field}");
        add(&mut expected, name("rx/s"), &port["rx_pps"], rate);
        add(&mut expected, name("tx/s"), &port["tx_pps"], rate);
        add(&mut expected, name("received"), &port["rx_packets"], whole(count));
        add(&mut expected, name("sent"), &port["tx_packets"], whole(count));
        add(&mut expected, name("queued"), &port["queued_packets"], whole(count));
        for queue in list(&port["queues"]) {
            let name = format!("{key} {} | packets now", text(&queue["queue"]));
            add(&mut expected, name, &queue["packets"], whole(count));
        }
    }
    Some((answer["epoch"].as_u64(), expected))
}

/// Two switches with a wire between them, under load.
fn pair(folder: &Path) -> [Daemon; 2] {
    key_file(folder);
    let mut switches = [(1, "server"), (2, "client")].map(|(number, role)| Daemon::start(config(number, role, folder)));
    switches[0].wait_for(|switch| {
        let wires = switch.json("/api/v1/wires").unwrap_or_default();
        let mut both = list(&wires["wires"][0]["segments"]);
        let is_measured = both.all(|segment| !segment["last"]["chosen"].is_null());
        let segments = switch.json("/api/v1/segments").unwrap_or_default();
        wires["wires"][0]["session"] == "established" && is_measured && segments["epoch"].as_u64() > Some(3)
    });
    switches
}

#[test]
fn every_view_shows_what_the_api_says_under_load_and_says_when_the_switch_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let [mut switch, _other] = pair(folder.path());
    let mut page = page_of(&switch);

    page.go("segments").unwrap();
    page.shows(|| segments(&switch)).unwrap();
    page.pictures("segments").unwrap();
    page.go("overview").unwrap();
    let status = page.text("#head").unwrap();
    assert!(status.contains("lab-1") && status.contains("running"), "{status}");
    page.pictures("overview").unwrap();
    page.go("segments/clients/servers/web").unwrap();
    page.shows(|| segment(&switch)).unwrap();
    // Some columns of the heat map have come by now; all their packets are in the distribution.
    page.browser.wait_for("Number(document.querySelector('.heat canvas').dataset.packets) > 0").unwrap();
    page.browser.wait_for("Number(document.querySelector('.chart').dataset.buckets) > 3").unwrap();
    page.pictures("segment").unwrap();

    page.go("flows").unwrap();
    page.shows(|| flows(&switch, "")).unwrap();
    page.pictures("flows").unwrap();
    let flow = switch.json("/api/v1/flows?scope=switch&limit=1").unwrap()["flows"][0]["flow"].clone();
    page.go(&format!("flow/{}", text(&flow).replace('>', "%3E").replace('/', "%2F"))).unwrap();
    let story = page.text("main").unwrap();
    assert!(story.contains("exact, by stamps") && story.contains("estimated"), "{story}");
    page.pictures("flow").unwrap();

    page.go("wires").unwrap();
    page.shows(|| wires(&switch)).unwrap();
    page.pictures("wires").unwrap();
    page.go("ports").unwrap();
    page.shows(|| ports(&switch)).unwrap();
    page.pictures("ports").unwrap();
    page.go("ports/clients").unwrap();
    page.pictures("port").unwrap();

    dies(&mut switch, &mut page);
}

/// The switch is killed, and comes back at the same address.
fn dies(switch: &mut Daemon, page: &mut Page) {
    page.go("segments").unwrap();
    page.shows(|| segments(switch)).unwrap();
    let before = page.cells().unwrap();
    switch.last_words();
    page.browser.wait_for("document.body.dataset.state === 'gone'").unwrap();
    let banner = page.text("#banner").unwrap();
    for words in ["NO ANSWER from this switch", "Last answer", "UTC", "What is shown is of epoch"] {
        assert!(banner.contains(words), "{words}: {banner}");
    }
    assert!(page.cells().unwrap().len() >= before.len() / 2, "the last figures stay, greyed");
    let filter = page.browser.value("getComputedStyle(document.querySelector('main')).filter").unwrap();
    assert_eq!(filter, "grayscale(1)");
    let complaints = page.browser.complaints().unwrap();
    assert!(complaints.iter().all(|words| words.contains("ERR_CONNECTION_REFUSED")), "{complaints:?}");
    page.browser.look(400, 800, true).unwrap();
    page.browser.picture(&pictures().join("gone-400-dark.png")).unwrap();
    page.browser.look(1_600, 900, false).unwrap();
    page.browser.picture(&pictures().join("gone-1600-light.png")).unwrap();
    switch.start_again();
    page.browser.wait_for("document.body.dataset.state === 'live' && document.querySelector('#banner').hidden").unwrap();
}

#[test]
fn the_page_asks_for_the_token_and_keys_lead_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    key_file(folder.path());
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "{TOKEN}").unwrap();
    file.as_file().set_permissions(std::fs::Permissions::from_mode(0o600)).unwrap();
    let mut config = config(1, "server", folder.path());
    config["http"] = json!({ "token_file": file.path() });
    let switch = Daemon::start(config);
    let mut page = page_of(&switch);

    page.browser.wait_for("document.activeElement?.name === 'token'").unwrap();
    assert!(page.cells().unwrap().is_empty(), "no figure without the token");
    page.browser.picture(&pictures().join("token-1600-light.png")).unwrap();
    page.browser.type_text("wrong-horse-battery-staple").unwrap();
    page.browser.press("Enter").unwrap();
    page.browser.wait_for("document.querySelector('.token')?.textContent.includes('was not accepted') === true").unwrap();
    page.browser.type_text(TOKEN).unwrap();
    page.browser.press("Enter").unwrap();
    page.browser.wait_for("!!document.querySelector('.view[data-view=overview] tr[data-key] a.open')").unwrap();
    let complaints = page.browser.complaints().unwrap();
    assert!(complaints.iter().all(|words| words.contains("401")), "{complaints:?}");
    let kept = page.browser.value("[sessionStorage.length, JSON.stringify(localStorage).includes('horse')]").unwrap();
    assert_eq!(kept, json!([1, false]), "the token is in this tab only");

    keys(&mut page);
    let complaints = page.browser.complaints().unwrap();
    assert!(complaints.is_empty(), "{complaints:?}");
}

/// Views, rows, the search, the list of keys, and colours.
fn keys(page: &mut Page) {
    let at = |page: &mut Page, hash: &str| page.browser.wait_for(&format!("location.hash === '{hash}'")).unwrap();
    page.browser.press("2").unwrap();
    at(page, "#/segments");
    page.browser.wait_for("!!document.querySelector('.view[data-view=segments] tr[data-key]')").unwrap();
    page.browser.press("ArrowDown").unwrap();
    page.browser.press("j").unwrap();
    page.browser.press("k").unwrap();
    let first = "document.activeElement === document.querySelector('main a.open')";
    assert_eq!(page.browser.value(first).unwrap(), true);
    page.browser.press("Enter").unwrap();
    page.browser.wait_for("location.hash.split('/').length === 5").unwrap();
    page.browser.wait_for("!!document.querySelector('main .trail a')").unwrap();
    page.browser.press("Escape").unwrap();
    at(page, "#/segments");
    page.browser.press("/").unwrap();
    page.browser.wait_for("document.activeElement?.id === 'search'").unwrap();
    at(page, "#/flows");
    page.browser.type_text("10.255.255.0/24").unwrap();
    page.browser.wait_for("document.querySelector('.view').dataset.matching === '0'").unwrap();
    page.browser.value("document.getElementById('search').select(); 0").unwrap();
    page.browser.type_text("10.0.0.0/400").unwrap();
    page.browser.wait_for("document.querySelector('.note').textContent.includes('not a prefix')").unwrap();
    page.browser.complaints().unwrap();
    page.browser.value("document.getElementById('search').select(); 0").unwrap();
    page.browser.type_text("tcp in=clients 0.0.0.0/0").unwrap();
    page.browser.wait_for("Number(document.querySelector('.view').dataset.matching) > 0").unwrap();
    let names = page.browser.value("[...document.querySelectorAll('td a.open')].map((one) => one.textContent)").unwrap();
    assert!(list(&names).all(|name| text(name).contains("/tcp")), "{names}");
    page.browser.press("Escape").unwrap();
    page.browser.press("?").unwrap();
    assert_eq!(page.browser.value("document.getElementById('help').open").unwrap(), true);
    page.browser.picture(&pictures().join("keys-1600-light.png")).unwrap();
    page.browser.value("document.getElementById('help').close(); 0").unwrap();
    page.browser.press("t").unwrap();
    assert_eq!(page.browser.value("getComputedStyle(document.body).color").unwrap(), "rgb(223, 228, 232)");
}
