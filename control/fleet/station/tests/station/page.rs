//! The station's page in a real Chromium: slow segments, the network, a path, silent switches.

use std::path::Path;

use contract::units::{count, duration_ns};
use serde_json::json;
use testkit::nats::NatsServer;
use testkit::page::{Expected, Page, add, cells, list, text, whole};
use testkit::process::wait_for;

use super::Reporter;
use super::blame::{FLOW, Fleet, LEARN, SWITCHES};
use super::support::Station;

/// Length of an epoch: a switch is silent after 32 s, so that the display does not change during the checks.
const LENGTH_NS: u64 = 10_000_000_000;

/// Returns the risen segments.
fn risen(station: &Station) -> Expected {
    let mut expected = Expected::new();
    for one in list(&station.json("/api/v1/blame")["risen"]) {
        let key = ["title", "class", "signal"].map(|name| text(&one[name]));
        cells(
            &mut expected,
            &key.join(" "),
            &[
                ("usual", &one["usual"], &duration_ns),
                ("now", &one["now"], &duration_ns),
                ("sure", &one["confidence"], &|share| {
                    format!("{:.0} %", share * 100.0)
                }),
            ],
        );
    }
    expected
}

/// Returns all segments.
fn segments(station: &Station) -> Expected {
    let mut expected = Expected::new();
    for one in list(&station.json("/api/v1/segments")["segments"]) {
        let key = ["switch", "kind", "from", "to", "class"]
            .map(|name| text(&one[name]))
            .join(" ");
        cells(
            &mut expected,
            &key,
            &[
                ("packets", &one["packets"], &whole(count)),
                ("mean", &one["mean_ns"], &duration_ns),
                ("\u{b1}98%", &one["bound_ns"], &duration_ns),
                ("p99", &one["p99_ns"], &duration_ns),
                ("samples", &one["samples"], &whole(count)),
            ],
        );
    }
    expected
}

/// Returns the links of the map, and the flows that switches report.
fn links_and_flows(station: &Station) -> [Expected; 2] {
    let (mut links, mut flows) = (Expected::new(), Expected::new());
    for link in list(&station.json("/api/v1/topology")["links"]) {
        let key = ["from", "to"].map(|end| text(&link[end])).join(" ");
        cells(
            &mut links,
            &key,
            &[("delay", &link["mean_ns"], &duration_ns)],
        );
    }
    for flow in list(&station.json("/api/v1/flows")["flows"]) {
        cells(
            &mut flows,
            text(&flow["flow"]),
            &[
                ("seen", &flow["segments"], &whole(count)),
                ("packets", &flow["packets"], &whole(count)),
                ("delay", &flow["mean_ns"], &duration_ns),
            ],
        );
    }
    [links, flows]
}

/// Returns the path from end to end.
fn path(station: &Station) -> Expected {
    let mut expected = Expected::new();
    let answer = station.json("/api/v1/blame?from=s1:west&to=s4:east");
    for (place, hop) in list(&answer["paths"][0]["chain"]).enumerate() {
        cells(
            &mut expected,
            &format!("{place} {}", text(&hop["title"])),
            &[
                ("mean", &hop["level"]["mean_ns"], &duration_ns),
                ("\u{b1}98%", &hop["level"]["bound_ns"], &duration_ns),
                ("usual", &hop["level"]["usual_ns"], &duration_ns),
            ],
        );
    }
    let sum = &answer["paths"][0]["sum"]["mean_ns"];
    add(&mut expected, "sum | mean".to_owned(), sum, duration_ns);
    expected
}

#[test]
fn the_page_shows_the_slow_link_and_the_silent_switch_as_the_api_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let server = NatsServer::start(folder.path(), "").unwrap();
    let station = Station::start(&server, &json!({}));
    let reporter = Reporter::new(&server);
    let pictures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/screenshots");
    let mut page = Page::open(&station.address.to_string(), folder.path(), pictures).unwrap();
    page.go("overview").unwrap();
    assert!(
        page.text("main")
            .unwrap()
            .contains("no switch has reported yet")
    );
    page.pictures("station-empty").unwrap();

    let mut fleet = Fleet::new(LENGTH_NS, 30);
    fleet.send(&reporter, SWITCHES, LEARN, 0.0);
    fleet.send(&reporter, SWITCHES, 6, 100_000.0);
    fleet.settle(&station, SWITCHES);
    wait_for("the rise is found", || !risen(&station).is_empty());
    page.go("overview").unwrap();
    page.shows(|| Some((None, risen(&station)))).unwrap();
    network(&mut page, &station);
    page.pictures("station-slow").unwrap();

    looks(&mut page, &station, || {
        fleet.send(&reporter, SWITCHES, 1, 100_000.0);
    });

    // The last switch stops; the others continue.
    fleet.send(&reporter, SWITCHES - 1, 1, 100_000.0);
    page.go("overview").unwrap();
    wait_for("the last switch is silent on the page", || {
        page.browser
            .value("document.querySelector('[data-router=s4]')?.dataset.state")
            .unwrap()
            == "silent"
    });
    page.pictures("station-silent").unwrap();
    page.go("switches").unwrap();
    page.pictures("station-switches").unwrap();
    drop(station);
    page.browser
        .wait_for("document.body.dataset.state === 'gone'")
        .unwrap();
    assert!(
        page.text("#banner")
            .unwrap()
            .contains("NO ANSWER from this station")
    );
}

/// Checks the map: its links with their delays, and the slow link.
fn network(page: &mut Page, station: &Station) {
    let slow = "document.querySelector('[data-link=\"s2 s3\"]')?.dataset.state === 'slow'";
    page.browser.wait_for(slow).unwrap();
    let drawn = page
        .browser
        .value(
            "[...document.querySelectorAll('[data-link]')].map((one) => one.dataset.link).sort()",
        )
        .unwrap();
    assert_eq!(drawn, json!(["s1 s2", "s2 s3", "s3 s4"]));
    page.shows(|| Some((None, links_and_flows(station)[0].clone())))
        .unwrap();
    let map = station.json("/api/v1/topology");
    assert!(
        list(&map["links"]).all(|link| link["mean_ns"].as_f64() > Some(5_000.0)),
        "{map}"
    );
    assert_eq!(map["links"].as_array().unwrap().len(), 3, "{map}");
    assert_eq!(
        map["routers"][0],
        json!({ "name": "s1", "reports": true }),
        "{map}"
    );
}

/// Checks segments, a path and a flow; `report` sends the next epoch, so that no switch becomes silent.
fn looks(page: &mut Page, station: &Station, mut report: impl FnMut()) {
    report();
    page.go("segments").unwrap();
    page.shows(|| Some((None, segments(station)))).unwrap();
    page.pictures("station-segments").unwrap();
    page.go("segments/s3/wire/west%3Apeer/west/all").unwrap();
    page.browser
        .wait_for("document.querySelector('.words').textContent.includes('its delay has risen')")
        .unwrap();
    page.pictures("station-segment").unwrap();
    report();
    page.go("paths").unwrap();
    page.browser
        .wait_for("document.querySelectorAll('main a.open').length === 12")
        .unwrap();
    page.go("paths/s1%3Awest/s4%3Aeast").unwrap();
    page.shows(|| Some((None, path(station)))).unwrap();
    let words = page.text(".words").unwrap();
    assert!(
        words.contains("of the delay's rise is in s2:east > s3:west"),
        "{words}"
    );
    page.pictures("station-path").unwrap();
    page.go("flows").unwrap();
    page.shows(|| Some((None, links_and_flows(station)[1].clone())))
        .unwrap();
    page.browser.press("/").unwrap();
    page.browser.type_text("10.0.0.1:80").unwrap();
    page.browser
        .wait_for(
            "location.hash === '#/flows' && document.querySelectorAll('main a.open').length === 1",
        )
        .unwrap();
    assert!(page.text("main a.open").unwrap().contains(FLOW));
    page.browser.press("ArrowDown").unwrap();
    page.browser.press("Enter").unwrap();
    page.browser
        .wait_for("document.querySelectorAll('[data-hop]').length === 7 && document.querySelectorAll('tr[data-key]').length === 7")
        .unwrap();
    page.pictures("station-flow").unwrap();
}
