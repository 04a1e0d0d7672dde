//! The page of a constructed snapshot: a rise and its time, names that must not become markup, and all possible states
//! of a switch.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use api::http::{Running, Server};
use contract::units::{bytes, count, duration_ns, rate, uptime};
use control::published::{Lookup, Published};
use records::history::Sample;
use records::snapshot::{Segment, Snapshot, Status};
use testkit::page::Page;

use super::pictures;

/// A name that would be markup, were it not text.
const MARKUP: &str = "<img src=x onerror=alert(1)>";

/// Length of an epoch, and how many there were.
const INTERVAL_MS: u32 = 1_000;
const EPOCHS: u64 = 3_000;

/// The rise begins with this epoch: a minute and a half before the end.
const RISE: u64 = EPOCHS - 90;

/// The end of the last epoch.
const END_S: f64 = 1_700_003_000.0;

/// The example with histories: of the first segment delays and losses rise, those of the second stay.
fn snapshot() -> Snapshot {
    let mut snapshot = Snapshot::example();
    snapshot.interval_ms = INTERVAL_MS;
    snapshot.epoch = Some(EPOCHS - 1);
    snapshot.epoch_end_unix_s = Some(END_S);
    MARKUP.clone_into(&mut snapshot.segments[0].ingress);
    for (segment, rises) in snapshot.segments.iter_mut().zip([true, false]) {
        if let Some(last) = &mut segment.last {
            last.epoch = EPOCHS - 1;
        }
        remember(segment, rises);
    }
    snapshot
}

fn remember(segment: &mut Segment, rises: bool) {
    for epoch in 0..EPOCHS {
        let is_risen = rises && epoch >= RISE;
        // A tenth up and down.
        let noise = 1.0 + 0.1 * ((epoch * 7 % 11) as f64 / 5.0 - 1.0);
        let mean_ns = if is_risen { 900_000.0 } else { 200_000.0 } * noise;
        let packets = 10_000.0;
        segment.history.add(
            epoch,
            INTERVAL_MS,
            &Sample {
                packets: 10_000,
                lost_packets: if is_risen { 200 } else { 0 },
                sum_ns: packets * mean_ns,
                squares_ns2: packets * 1.5 * mean_ns * mean_ns,
                max_ns: 4.0 * mean_ns,
                p50_ns: 0.8 * mean_ns,
                p99_ns: 3.0 * mean_ns,
                estimate_ns: Some((mean_ns, 0.02 * mean_ns)),
            },
        );
    }
}

/// Epochs that end while the page is looked at, before none ends any more.
const MORE: u64 = 16;

/// Serves a snapshot whose epochs go on for some seconds.
fn serve(mut snapshot: Snapshot) -> (Running, JoinHandle<()>) {
    let server = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let published = Arc::new(Published::new(snapshot.clone()));
    let running = server.serve(Arc::clone(&published)).unwrap();
    let goes_on = spawn(move || {
        for _ in 0..MORE {
            sleep(Duration::from_secs(1));
            snapshot.epoch = snapshot.epoch.map(|epoch| epoch + 1);
            snapshot.epoch_end_unix_s = snapshot.epoch_end_unix_s.map(|end_s| end_s + 1.0);
            let lasts = snapshot.segments.iter_mut();
            for last in lasts.filter_map(|segment| segment.last.as_mut()) {
                last.epoch += 1;
            }
            published.publish(snapshot.clone(), Lookup::default());
        }
    });
    (running, goes_on)
}

/// The three rises of one segment are one incident, with evidence for its cause.
fn incident(page: &mut Page) {
    let cells = page.cells().unwrap();
    let shown = |column: &str| &*cells[&format!("{MARKUP} west all incident | {column}")][1];
    for (signal, now, usual) in [
        ("mean now", "9", "(2"),
        ("p99 now", "2.", "(6"),
        ("loss now", "1.961 %", "(0 %)"),
    ] {
        let cell = shown(signal);
        assert!(cell.starts_with(now) && cell.contains(usual), "{cells:?}");
    }
    // The bucket of ten seconds in which it rose.
    assert_eq!(shown("since"), "23:01:50", "{cells:?}");
    assert!(shown("for").starts_with("1m3"), "{cells:?}");
    assert_eq!(
        cells
            .keys()
            .filter(|name| name.ends_with("incident | since"))
            .count(),
        1,
        "three rises of one segment are one incident: {cells:?}"
    );
    let known = page.text("tr[data-key$=incident] td:last-child").unwrap();
    assert!(
        known.contains("load is as usual") && known.contains("packets queue at west"),
        "{known}"
    );
}

#[test]
fn what_is_slow_is_named_with_the_time_since_when_and_names_are_text() {
    let folder = tempfile::tempdir().unwrap();
    let (server, goes_on) = serve(snapshot());
    let mut page = Page::open(&server.address().to_string(), folder.path(), pictures()).unwrap();
    page.go("overview").unwrap();
    let verdict = page.text(".verdict").unwrap();
    assert!(
        verdict.contains("1 incident in 2 segments with packets"),
        "{verdict}"
    );
    incident(&mut page);
    let health = page.text(".words").unwrap();
    for words in [
        "worker 0 could not measure 1 epochs",
        "4 packets with negative delays",
        "port east has dropped 12 queue_full",
    ] {
        assert!(health.contains(words), "{words}: {health}");
    }
    let markup = page
        .browser
        .value("document.querySelectorAll('main img').length")
        .unwrap();
    assert_eq!(markup, 0);
    page.pictures("slow").unwrap();

    page.browser.press("ArrowDown").unwrap();
    page.browser.press("Enter").unwrap();
    page.browser
        .wait_for("document.querySelector('.trail b')?.textContent.includes('onerror') === true")
        .unwrap();
    page.browser
        .value("[...document.querySelectorAll('.choice button')][1].click(); 0")
        .unwrap();
    page.browser
        .wait_for("Number(document.querySelector('.chart').dataset.buckets) > 55")
        .unwrap();
    page.pictures("slow-segment").unwrap();
    for view in ["wires", "ports", "ports/west"] {
        page.go(view).unwrap();
        page.pictures(&format!("made-{}", view.replace('/', "-")))
            .unwrap();
    }
    // No epoch ends any more: the figures are old, and the page says so.
    goes_on.join().unwrap();
    page.browser
        .wait_for("document.body.dataset.state === 'still'")
        .unwrap();
    let banner = page.text("#banner").unwrap();
    assert!(banner.contains("No epoch has closed for"), "{banner}");
}

/// The page writes numbers as the command line does, digit by digit; also those in the middle between two.
fn writes_numbers_as_the_tools_do(page: &mut Page) {
    let numbers = [
        0.0,
        0.125,
        0.37,
        1.0,
        9.994,
        9.996,
        12.25,
        12.35,
        99.94,
        99.96,
        100.5,
        101.5,
        999.4,
        999.6,
        1_024.0,
        4_120.0,
        12_250.0,
        12_350.0,
        37_376.0,
        999_500.0,
        1_048_576.0,
        4.2e6,
        80_123_000.0,
        2.0e9,
        3.5e12,
        2.0e15,
    ];
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counts"
    )]
    let expected = numbers.map(|number: f64| {
        let whole = number as u64;
        let texts = [
            duration_ns(number),
            rate(number),
            count(whole),
            bytes(whole),
            uptime(number),
        ];
        (number, texts.to_vec())
    });
    let asked = format!(
        "import('/ui/units.js').then(({{ duration, rate, count, bytes, uptime }}) => {numbers:?}.map((n) => \
         [duration(n), rate(n), count(Math.floor(n)), bytes(Math.floor(n)), uptime(n)]))"
    );
    let shown = page.browser.value(&asked).unwrap();
    for ((number, texts), shown) in expected.into_iter().zip(shown.as_array().unwrap()) {
        assert_eq!(shown, &serde_json::json!(texts), "{number}");
    }
    assert_eq!(shown.as_array().unwrap().len(), numbers.len());
}

/// An axis is logarithmic where values are far apart, and every column of a view is explained.
fn scales(page: &mut Page) {
    let asked = "Promise.all([import('/ui/charts.js'), import('/ui/time.js')]).then(([{ Chart, SIGNALS }, { Axis }]) =>
        [1000, 20].map((most) => {
            const axis = new Axis();
            axis.take(600);
            const chart = new Chart(axis, 'x');
            chart.update([{ name: 'x', kind: 'mean', widthS: 10, points: [{ s: 100, v: 10 }, { s: 200, v: most * 10 }] }], SIGNALS.mean);
            return chart.place.dataset.scale;
        }))";
    let scales = page.browser.value(asked).unwrap();
    assert_eq!(scales, serde_json::json!(["log", "linear"]));
}

/// A switch that has measured nothing yet says so in every view; unknown values are not shown as 0.
#[test]
fn a_switch_without_anything_has_empty_views() {
    let folder = tempfile::tempdir().unwrap();
    let (server, goes_on) = serve(Snapshot::from(Status {
        switch: "new".to_owned(),
        interval_ms: 1_000,
        measuring: true,
        ..Status::default()
    }));
    let mut page = Page::open(&server.address().to_string(), folder.path(), pictures()).unwrap();
    writes_numbers_as_the_tools_do(&mut page);
    scales(&mut page);
    for (view, words) in [
        ("overview", "no packet has passed in the last 20 s"),
        ("segments", "no segment has been seen yet"),
        ("segments/a/b/all", "there is no such segment"),
        ("flows", "this switch tracks no flows (measurement.flows)"),
        (
            "flow/10.0.0.1%3A1%3E10.0.0.2%3A2%2Ftcp",
            "no packet of it is known now",
        ),
        (
            "wires",
            "no port measures the path to another switch (ports[].wire)",
        ),
        ("ports", "no ports"),
    ] {
        page.go(view).unwrap();
        let shown = page.text("main").unwrap();
        assert!(shown.contains(words), "{view}: {shown}");
        let silent = "[...document.querySelectorAll('main th')].filter((one) => one.textContent && !one.title).length";
        let silent = page.browser.value(silent).unwrap();
        assert_eq!(silent, 0, "{view}: every heading has its explanation");
        page.pictures(&format!("empty-{}", view.split('/').next().unwrap()))
            .unwrap();
    }
    goes_on.join().unwrap();
}
