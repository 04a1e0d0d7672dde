//! The page at `/ui` in a real Chromium: its figures compared with the API, pictures, keys, the token, and a switch
//! that is killed.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::page::{Page, list, text};

use crate::support::{Daemon, key_file, memif, number, sum};

mod answers;
mod made;
mod token;

use answers::{flows, ports, segment, segments, wires};

/// Where pictures are left for people to look at.
fn pictures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/screenshots")
}

fn page_of(switch: &Daemon) -> Page {
    Page::open(
        &switch.address.to_string(),
        switch.folder.path(),
        pictures(),
    )
    .unwrap()
}

/// A switch with generated hosts, a wire to the next, queues that overflow, and two classes.
fn config(number: u32, role: &str, folder: &Path) -> Value {
    let host = |seed: u32| {
        format!(
            "generate:flows=60,rate=4000,size=256,seed={seed},side={}",
            number % 2
        )
    };
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
            "rli": { "policy": { "kind": "count", "packets": 100 } },
        },
        // One machine, one clock.
        "wire": { "switch": number, "keys": [{ "id": 1, "file": folder.join("wire.key") }], "clock": { "error_ns": 500 } },
        "prometheus": { "top_flows": 10 },
        "dpdk": { "memory_mib": 128, "mbufs": 16_384 },
    })
}

/// Two switches with a wire between them, under load.
fn pair(folder: &Path) -> [Daemon; 2] {
    key_file(folder);
    let mut switches = [(1, "server"), (2, "client")]
        .map(|(number, role)| Daemon::start(config(number, role, folder)));
    switches[0].wait_for(|switch| {
        let wires = switch.json("/api/v1/wires").unwrap_or_default();
        let mut both = list(&wires["wires"][0]["segments"]);
        let is_measured = both.all(|segment| !segment["last"]["chosen"].is_null());
        let segments = switch.json("/api/v1/segments").unwrap_or_default();
        wires["wires"][0]["session"] == "established"
            && is_measured
            && segments["epoch"].as_u64() > Some(3)
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
    assert!(
        status.contains("lab-1") && status.contains("running"),
        "{status}"
    );
    page.pictures("overview").unwrap();
    page.go("segments/clients/servers/web").unwrap();
    page.shows(|| segment(&switch)).unwrap();
    heat_map(&switch, &mut page);
    page.browser
        .wait_for("Number(document.querySelector('.chart').dataset.buckets) > 0")
        .unwrap();
    page.pictures("segment").unwrap();
    time(&mut page);

    page.go("flows").unwrap();
    page.shows(|| flows(&switch, "")).unwrap();
    page.pictures("flows").unwrap();
    let flow =
        switch.json("/api/v1/flows?scope=switch&limit=1").unwrap()["flows"][0]["flow"].clone();
    page.go(&format!(
        "flow/{}",
        text(&flow).replace('>', "%3E").replace('/', "%2F")
    ))
    .unwrap();
    let story = page.text("main").unwrap();
    assert!(
        story.contains("exact, by stamps") && story.contains("estimated"),
        "{story}"
    );
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

/// The cursor keeps its time while data arrive, in every chart and the heat map; the page is paused and resumed.
fn time(page: &mut Page) {
    let browser = &mut page.browser;
    let over = "(() => { const chart = document.querySelector('.chart'), box = chart.getBoundingClientRect();
        const at = { clientX: box.right - 30, clientY: box.top + 30, bubbles: true };
        chart.dispatchEvent(new PointerEvent('pointermove', at));
        window.refreshes = 0;
        new MutationObserver(() => window.refreshes++)
            .observe(document.querySelector('.view'), { attributes: true, attributeFilter: ['data-epoch'] }); })()";
    browser.value(over).unwrap();
    let cursors = "[...document.querySelectorAll('.cursor')].map((one) => one.dataset.s)";
    let before = browser.value(cursors).unwrap();
    assert_eq!(
        list(&before).count(),
        4,
        "three charts and the heat map: {before}"
    );
    assert!(list(&before).all(|at| at == &before[0]), "{before}");
    for refreshes in 1..=10 {
        browser
            .wait_for(&format!("refreshes >= {refreshes}"))
            .unwrap();
    }
    assert_eq!(browser.value(cursors).unwrap(), before);
    // Data come, but time stands still.
    let shown = "document.querySelector('.time .readout').textContent";
    browser.press("+").unwrap();
    let part = browser.value(shown).unwrap();
    assert!(text(&part).contains("stands still since"), "{part}");
    browser
        .wait_for("document.querySelector('#head').textContent.includes('stands still')")
        .unwrap();
    let now = "document.querySelector('.view').dataset.epoch";
    let epoch = browser.value(now).unwrap();
    let closed = format!("Number(document.body.dataset.epoch) > Number({epoch}) + 1");
    browser.wait_for(&closed).unwrap();
    assert_eq!(browser.value(now).unwrap(), epoch);
    assert_eq!(browser.value(shown).unwrap(), part);
    browser.press("Escape").unwrap();
    browser.wait_for(&format!("{now} !== {epoch}")).unwrap();
    assert!(!text(&browser.value(shown).unwrap()).contains("stands still"));
}

/// Columns of the heat map come, of the last minute and of each epoch; all their packets are in the distribution.
fn heat_map(switch: &Daemon, page: &mut Page) {
    let drawn = "Number(document.querySelector('.heat .place canvas').dataset.packets)";
    page.browser.wait_for(&format!("{drawn} > 0")).unwrap();
    let segment = "ingress=clients&egress=servers&class=web";
    let minute = switch
        .json(&format!("/api/v1/distributions?{segment}"))
        .unwrap();
    let parts = &minute["segments"][0]["parts"];
    assert!(list(parts).count() > 0, "{minute}");
    let packets = |buckets: &Value| sum(buckets, |bucket| number(&bucket["packets"]));
    let first = packets(&parts[0]["buckets"]);
    let drawn = page.browser.value(drawn).unwrap().as_f64().unwrap();
    let segments = switch.json(&format!("/api/v1/segments?{segment}")).unwrap();
    let all = packets(&segments["segments"][0]["total"]["buckets"]);
    assert!(
        first as f64 <= drawn && drawn <= all as f64,
        "{first} {drawn} {all}"
    );
}

/// The switch is killed, and comes back at the same address.
fn dies(switch: &mut Daemon, page: &mut Page) {
    page.go("segments").unwrap();
    page.shows(|| segments(switch)).unwrap();
    switch.last_words();
    page.browser
        .wait_for("document.body.dataset.state === 'gone'")
        .unwrap();
    let before = page.cells().unwrap();
    let banner = page.text("#banner").unwrap();
    for words in [
        "NO ANSWER from this switch",
        "Last answer",
        "UTC",
        "What is shown is of epoch",
    ] {
        assert!(banner.contains(words), "{words}: {banner}");
    }
    // Every view shows the last figures in grey, even views that were never opened.
    for view in [
        "overview",
        "segments/servers/clients/web",
        "flows",
        "wires",
        "ports",
        "ports/servers",
        "segments",
    ] {
        page.go(view).unwrap();
        assert!(page.cells().unwrap().len() > 3, "{view}");
        let filter = page
            .browser
            .value("getComputedStyle(document.querySelector('main')).filter")
            .unwrap();
        assert_eq!(filter, "grayscale(1)", "{view}");
    }
    assert_eq!(page.cells().unwrap(), before);
    let complaints = page.browser.complaints().unwrap();
    assert!(
        complaints.iter().all(|words| words.contains("net::ERR_")),
        "{complaints:?}"
    );
    page.browser.look(400, 800, true).unwrap();
    page.browser
        .picture(&pictures().join("gone-400-dark.png"))
        .unwrap();
    page.browser.look(1_600, 900, false).unwrap();
    page.browser
        .picture(&pictures().join("gone-1600-light.png"))
        .unwrap();
    switch.start_again();
    page.browser
        .wait_for(
            "document.body.dataset.state === 'live' && document.querySelector('#banner').hidden",
        )
        .unwrap();
}
