//! Real switches while NATS is down, a station is killed and a switch is killed: the counts, and the reported gaps.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::pull;
use futures_util::StreamExt;
use report::msp::Report;
use serde_json::{Value, json};
use testkit::nats::NatsServer;
use testkit::process::{Process, wait_for};

use crate::Reporter;
use crate::support::Station;

/// Environment variable for the length of the outage in seconds; `make outage` makes it a minute.
const SECONDS: &str = "VERNIER_OUTAGE_SECONDS";

const INTERVAL_MS: u32 = 100;

/// Stops a switch with SIGTERM, so that it sends its remaining reports.
fn end(switch: Process) {
    switch.end().unwrap();
}

fn start(vernierd: &Path, folder: &Path, server: &NatsServer, name: &str, more: &Value) -> Process {
    let mut report = json!({ "nats": { "servers": [server.url()] } });
    for (key, value) in more.as_object().unwrap() {
        report[key] = value.clone();
    }
    let config = json!({
        "name": name,
        "ports": [
            { "name": "a", "device": "generate:flows=200,rate=2000,size=100,seed=1,side=0" },
            { "name": "b", "device": "generate:flows=200,rate=2000,size=100,seed=2,side=1" },
        ],
        "forwarding": { "mode": "patch", "pairs": [["a", "b"]] },
        "measurement": { "interval_ms": INTERVAL_MS, "flows": { "slots": 1_024 } },
        "workers": [{ "idle": "sleep" }],
        "http": { "listen": null },
        "dpdk": { "memory_mib": 64, "mbufs": 8_192 },
        "report": report,
    });
    Process::start_vernierd(&mut Command::new(vernierd), folder, name, &config).unwrap()
}

/// Returns the reports in the stations' stream, by switch and run, in order.
fn stored(server: &NatsServer) -> BTreeMap<(String, u64), Vec<Report>> {
    let reporter = Reporter::new(server);
    let reports: Vec<Report> = reporter.runtime.block_on(async {
        let stream = reporter.context.get_stream("VERNIER_REPORTS").await;
        let mut stream = stream.unwrap();
        let messages = stream.info().await.unwrap().state.messages;
        let consumer = stream.create_consumer(pull::Config::default()).await;
        let messages = consumer
            .unwrap()
            .messages()
            .await
            .unwrap()
            .take(usize::try_from(messages).unwrap());
        messages
            .map(|message| Report::read(&message.unwrap().payload).unwrap())
            .collect()
            .await
    });
    let mut runs = BTreeMap::<_, Vec<_>>::new();
    for report in reports {
        let run = (report.switch.clone(), report.incarnation);
        runs.entry(run).or_default().push(report);
    }
    runs
}

/// Returns the number of epochs of a run that no report covers. Asserts that none is covered twice.
fn missing(run: &[Report]) -> u64 {
    let mut next = 0;
    let mut missing = 0;
    for report in run {
        let first = report.epoch + 1 - report.epochs;
        assert!(
            first >= next,
            "epoch {first} of {} comes twice",
            report.switch
        );
        missing += first - next;
        next = report.epoch + 1;
    }
    missing
}

/// Returns the path of the program, if it is built.
fn vernierd() -> Option<PathBuf> {
    let programs = Path::new(env!("CARGO_BIN_EXE_vernier-station"));
    let vernierd = programs.with_file_name("vernierd");
    if !vernierd.exists() {
        testkit::skip("vernierd was not built (cargo build -p daemon)");
        return None;
    }
    Some(vernierd)
}

fn seconds() -> Duration {
    let seconds = std::env::var(SECONDS).map_or(6, |seconds| seconds.parse().unwrap());
    Duration::from_secs(seconds)
}

#[test]
fn what_fits_the_spool_is_counted_once_gaps_are_known_and_a_dead_switch_is_named() {
    let Some(vernierd) = vernierd() else { return };
    let half = seconds() / 2;
    let folder = tempfile::tempdir().unwrap();
    let mut server = NatsServer::start(folder.path(), "").unwrap();
    let [dies, lives] = [(); 2].map(|()| Station::start(&server, &json!({})));
    let switch = |name: &str, more: &Value| start(&vernierd, folder.path(), &server, name, more);
    // A hundred flows fill 64 KiB within seconds.
    let small = switch("small", &json!({ "spool_kib": 64, "top_flows": 100 }));
    let [whole, killed] = ["whole", "killed"].map(|name| switch(name, &json!({})));
    let all = ["small", "whole", "killed"];
    wait_for("all report", || {
        all.iter().all(|name| lives.reports(name) > 5)
    });

    server.kill();
    std::thread::sleep(half);
    drop(dies);
    drop(killed);
    std::thread::sleep(half);
    server.run("").unwrap();
    let killed = start(&vernierd, folder.path(), &server, "killed", &json!({}));
    let away = u64::from(1_000 / INTERVAL_MS) * seconds().as_secs();
    wait_for("what was spooled is counted", || {
        lives.reports("whole") > away
    });
    wait_for("the killed switch is back", || {
        lives
            .switch("killed")
            .is_some_and(|switch| switch["restarts"] == 1)
    });
    end(killed);
    wait_for("the switch that ended is dead, as others report", || {
        lives.json("/api/v1/blame")["failed"][0]["place"] == "killed"
    });
    [small, whole].into_iter().for_each(end);

    // A station that was present, and one that was not.
    let new = Station::start(&server, &json!({}));
    assert_counted(&[&lives, &new], &stored(&server));
}

/// NATS comes back without its store while two switches and two stations run.
#[test]
fn all_is_back_soon_after_nats_lost_its_store() {
    let Some(vernierd) = vernierd() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut server = NatsServer::start(folder.path(), "").unwrap();
    let stations = [(); 2].map(|()| Station::start(&server, &json!({})));
    let names = ["one", "two"];
    let switches = names.map(|name| start(&vernierd, folder.path(), &server, name, &json!({})));
    let all_report = |more_than: u64| {
        stations
            .iter()
            .all(|station| names.iter().all(|name| station.reports(name) > more_than))
    };
    wait_for("all report", || all_report(5));
    server.kill();
    std::thread::sleep(seconds() / 2);
    std::fs::remove_dir_all(folder.path().join("store")).unwrap();
    server.run("").unwrap();
    let began = Instant::now();
    wait_for("all report to a new store, and all are ready", || {
        all_report(5) && stations.iter().all(|station| station.readiness().0 == 200)
    });
    let took = began.elapsed();
    eprintln!("all was back {took:.1?} after NATS came back without its store");
    if std::env::var_os(SECONDS).is_some() {
        assert!(took <= 3 * report::connection::BACKOFF_MAX, "{took:?}");
    }
    switches.into_iter().for_each(end);
}

/// Asserts that every report is counted once, and that all dropped or unsent reports are known.
fn assert_counted(stations: &[&Station], runs: &BTreeMap<(String, u64), Vec<Report>>) {
    let mut of_name = BTreeMap::<&str, (u64, u64)>::new();
    for ((name, _), run) in runs {
        let (reports, gaps) = of_name.entry(name).or_default();
        *reports += run.len() as u64;
        *gaps += missing(run);
    }
    assert_eq!(
        runs.len(),
        4,
        "a run each, and two of the one that was killed"
    );
    assert_eq!((of_name["whole"].1, of_name["killed"].1), (0, 0));
    assert!(of_name["small"].1 > 0, "its spool was full");
    for station in stations {
        for (name, &(reports, gaps)) in &of_name {
            wait_for("all is counted", || station.reports(name) == reports);
            let switch = station.switch(name).unwrap();
            assert_eq!(switch["missed_epochs"].as_u64(), Some(gaps), "{switch}");
            assert_eq!(switch["restarts"], u64::from(*name == "killed"), "{switch}");
            let has_gaps = !switch["gaps"].as_array().unwrap().is_empty();
            assert_eq!(has_gaps, *name == "small", "{switch}");
        }
    }
}
