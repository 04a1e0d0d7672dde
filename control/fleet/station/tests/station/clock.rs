//! Stations whose machines' clocks differ from the NATS server's, and more names than a station keeps.

use std::path::{Path, PathBuf};
use std::process::Command;

use report::msp::Report;
use serde_json::json;
use testkit::nats::NatsServer;
use testkit::process::wait_for;

use crate::support::Station;
use crate::{Reporter, chained};

/// Replaces libc's clock: the time of day plus `SHIFT_S`.
const SHIFTED: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *now) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, now);
    if (id == CLOCK_REALTIME) now->tv_sec += atoi(getenv("SHIFT_S"));
    return result;
}
"#;

fn shifting_library(folder: &Path) -> PathBuf {
    let (source, library) = (folder.join("shifted.c"), folder.join("shifted.so"));
    std::fs::write(&source, SHIFTED).unwrap();
    let mut compile = Command::new("cc");
    compile
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source]);
    assert!(compile.status().unwrap().success());
    library
}

fn is_silent(station: &Station, switch: &str) -> Option<bool> {
    Some(!station.switch(switch)?["silent_since_unix_s"].is_null())
}

#[test]
fn a_station_takes_the_time_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = NatsServer::start(folder.path(), "").unwrap();
    let library = shifting_library(folder.path());
    let stations = [1_000, -1_000].map(|shift_s: i32| {
        Station::start_by(&server, &json!({}), |command| {
            command
                .env("LD_PRELOAD", &library)
                .env("SHIFT_S", shift_s.to_string());
        })
    });
    let reporter = Reporter::new(&server);
    for epoch in 0..5 {
        reporter.send(&chained(1, epoch));
        for station in &stations {
            station.wait_for_epoch("s1", epoch);
            assert_eq!(is_silent(station, "s1"), Some(false));
            let segments = station.json("/api/v1/segments?switch=s1");
            let age_s = segments["segments"][0]["age_s"].as_f64().unwrap();
            assert!(age_s < 500.0, "{segments}");
        }
    }
    for station in &stations {
        wait_for("it is silent", || is_silent(station, "s1") == Some(true));
    }
}

#[test]
fn a_switch_with_a_wrong_clock_is_named_and_keeps_its_segments() {
    let folder = tempfile::tempdir().unwrap();
    let server = NatsServer::start(folder.path(), "").unwrap();
    let station = Station::start(&server, &json!({}));
    let reporter = Reporter::new(&server);
    let send = |epoch, off_ns| {
        let mut report = chained(2, epoch);
        report.start_unix_ns = report.start_unix_ns.saturating_add_signed(off_ns);
        reporter.send(&report);
        station.wait_for_epoch("s2", epoch);
    };
    let problems = || {
        let switch = station.switch("s2").unwrap();
        assert_eq!(
            station.json("/api/v1/segments?switch=s2")["matching"],
            3,
            "{switch}"
        );
        switch["problems"].to_string()
    };
    send(0, 0);
    send(1, 86_400_000_000_000);
    let said = problems();
    assert!(
        said.contains("the clock is 86") && said.contains("s ahead of the NATS server's"),
        "{said}"
    );
    send(2, 0);
    assert_eq!(problems(), "[]");
    send(3, -86_400_000_000_000);
    let said = problems();
    assert!(said.contains("the clock went back and is 86"), "{said}");
}

/// More names than the bucket has room for: the server and running stations forget those that have been silent the
/// longest, and a switch that continues is not affected.
#[test]
fn running_stations_forget_what_the_server_evicts() {
    const NAMES: u32 = 40;
    let folder = tempfile::tempdir().unwrap();
    let server = NatsServer::start(folder.path(), "").unwrap();
    let few = json!({ "switches_max": 10 });
    let stations = [(); 2].map(|()| Station::start(&server, &few));
    let reporter = Reporter::new(&server);
    let named = |name: String, epoch| Report {
        switch: name,
        wire_switch: None,
        ..chained(1, epoch)
    };
    let mut epochs = 0;
    let mut go_on = || {
        reporter.send(&named("honest".to_owned(), epochs));
        epochs += 1;
        wait_for("it is counted", || stations[0].reports("honest") == epochs);
    };
    for n in 0..NAMES {
        let name = format!("random{n}");
        reporter.send(&named(name.clone(), 0));
        // Otherwise a station that falls behind would write more names at once than there is room for, and
        // evict the other switch.
        wait_for("it is known", || stations[0].switch(&name).is_some());
        go_on();
    }
    for station in &stations {
        wait_for("names are forgotten", || {
            station.metric("vernier_station_switches") == 10
        });
        let page = station.text("/metrics").unwrap();
        assert!(
            page.contains("random39") && !page.contains("random0"),
            "{page}"
        );
    }
    // A switch that was forgotten is counted from zero.
    reporter.send(&named("random0".to_owned(), 1));
    for station in &stations {
        wait_for("it is back", || station.reports("random0") == 1);
    }
    go_on();
}
