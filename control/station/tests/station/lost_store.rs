//! NATS loses its store, or somebody deletes streams and consumers: running stations make all of it again, switches report on,
//! and `/readyz` says meanwhile what does not work.

use serde_json::json;
use testkit::nats::NatsServer;

use crate::support::{Station, Switch, wait_for};
use crate::{Reporter, chained, metric};

/// All is as after a first start: what the switches report from now on is counted, by a new count.
fn assert_all_works(stations: &[&Station], switches: &mut [Switch], names: &[&str]) {
    for station in stations {
        wait_for("the station is ready", || station.readiness().0 == 200);
    }
    for switch in switches.iter_mut() {
        switch.close();
    }
    for station in stations {
        wait_for("what is reported is counted", || {
            names.iter().all(|name| {
                station.switch(name).is_some_and(|switch| {
                    switch["epoch"] == switches[0].epochs() - 1
                        && switch["silent_since_unix_s"].is_null()
                })
            })
        });
    }
}

#[test]
fn a_store_that_is_lost_is_made_again_by_running_stations() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = NatsServer::start(folder.path(), "").unwrap();
    let [first, second] = [(); 2].map(|()| Station::start(&server, &json!({})));
    let names = ["a", "b", "c"];
    let mut switches = names.map(|name| Switch::start(&server, name, 100));
    for _ in 0..5 {
        switches.iter_mut().for_each(Switch::close);
        switches.iter().for_each(Switch::settle);
    }
    let mut gone = vec![Switch::start(&server, "gone", 100)];
    gone[0].close();
    let all = ["a", "b", "c", "gone"];
    wait_for("all are counted", || {
        all.iter()
            .all(|name| first.reports(name) > 0 && second.reports(name) > 0)
    });
    drop(gone);

    server.kill();
    for station in [&first, &second] {
        wait_for("it says that it is not connected", || {
            let (status, words) = station.readiness();
            status == 503 && words.contains("the connection to NATS is lost")
        });
    }
    std::fs::remove_dir_all(folder.path().join("store")).unwrap();
    server.run("").unwrap();
    assert_all_works(&[&first, &second], &mut switches, &names);
    for station in [&first, &second] {
        // Every station says the same, also one that starts now: what the lost store had is not known.
        assert_eq!(station.reports("gone"), 0);
    }
    // And again.
    server.kill();
    std::fs::remove_dir_all(folder.path().join("store")).unwrap();
    server.run("").unwrap();
    assert_all_works(&[&first, &second], &mut switches, &names);
}

#[test]
fn streams_and_consumers_that_somebody_deletes_are_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = NatsServer::start(folder.path(), "").unwrap();
    let station = Station::start(&server, &json!({}));
    let mut switches = [Switch::start(&server, "a", 100)];
    switches[0].close();
    wait_for("it is counted", || station.reports("a") == 1);
    let reporter = Reporter::new(&server);
    for stream in [
        "VERNIER_REPORTS",
        "KV_vernier_switches",
        "VERNIER_HISTORY",
        "KV_vernier_located",
    ] {
        let deleted = reporter.context.delete_stream(stream);
        reporter.runtime.block_on(deleted).unwrap();
        wait_for("the stream is there again", || {
            let found = reporter.context.get_stream(stream);
            reporter.runtime.block_on(found).is_ok()
        });
        assert_all_works(&[&station], &mut switches, &["a"]);
    }
    let partition = report::subject::partition("a");
    let before = metric(&station, "vernier_station_takeovers_total");
    reporter.runtime.block_on(async {
        let stream = reporter
            .context
            .get_stream("VERNIER_REPORTS")
            .await
            .unwrap();
        let name = format!("partition-{partition}");
        stream.delete_consumer(&name).await.unwrap();
    });
    switches[0].close();
    wait_for("what came without a consumer is counted", || {
        station
            .switch("a")
            .is_some_and(|switch| switch["epoch"] == switches[0].epochs() - 1)
    });
    assert!(metric(&station, "vernier_station_takeovers_total") > before);
}

/// Which of two has it is for the station to say, the same way for all; both are named.
#[test]
fn a_number_on_wires_that_another_switch_has_is_refused_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let server = NatsServer::start(folder.path(), "").unwrap();
    let station = Station::start(&server, &json!({}));
    let reporter = Reporter::new(&server);
    for number in 1..=3 {
        reporter.send(&chained(number, 0));
    }
    wait_for("all are counted", || {
        ["s1", "s2", "s3"]
            .iter()
            .all(|name| station.reports(name) == 1)
    });
    let before = station.json("/api/v1/path?from=s1:west&to=s3:east");
    let mut liar = chained(9, 0);
    liar.switch = "a-liar".to_owned();
    liar.wire_switch = Some(2);
    reporter.send(&liar);
    wait_for("the liar is counted", || station.reports("a-liar") == 1);
    let chain = |path: &serde_json::Value| {
        let hops = path["paths"][0]["chain"].as_array().unwrap().iter();
        hops.map(|hop| hop["title"].clone()).collect::<Vec<_>>()
    };
    let after = station.json("/api/v1/path?from=s1:west&to=s3:east");
    assert_eq!(chain(&after), chain(&before));
    let missing = station.json("/api/v1/missing");
    let named = missing["switches"].as_array().unwrap();
    let liar = named
        .iter()
        .find(|switch| switch["switch"] == "a-liar")
        .unwrap();
    let problem = liar["problems"][0].as_str().unwrap();
    assert!(problem.contains("wire number 2 is that of s2"), "{problem}");
}
