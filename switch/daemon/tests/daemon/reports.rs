//! Reports to a real `nats-server`.

use async_nats::jetstream::{self, consumer::pull, stream};
use contract::config::Nats;
use futures_util::StreamExt;
use report::connection::Connection;
use report::msp::{Kind, Report};
use report::subject;
use serde_json::{Value, json};
use testkit::nats::NatsServer;

use crate::support::{Daemon, assert_conserved, number, sum};

/// A switch with traffic that reports with these settings.
pub(crate) fn config(report: &Value) -> Value {
    json!({
        "name": "edge.1",
        "ports": [
            { "name": "a", "device": "generate:flows=20,rate=20000,size=100,seed=1,side=0" },
            { "name": "b", "device": "generate:flows=20,rate=20000,size=100,seed=2,side=1" },
        ],
        "forwarding": { "mode": "patch", "pairs": [["a", "b"]] },
        "measurement": { "interval_ms": 100, "flows": { "slots": 256 } },
        "dpdk": { "memory_mib": 64, "mbufs": 8_192 },
        "report": report,
    })
}

/// All reports in the stream, which is created if it does not exist.
fn stored(server: &NatsServer) -> Vec<Report> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.unwrap();
    runtime.block_on(async {
        let connection = Connection::of(&Nats::to(server.url())).unwrap();
        let client = connection.connect("test", |_| ()).await.unwrap();
        let config = stream::Config {
            name: "REPORTS".to_owned(),
            subjects: vec![subject::of_partition(subject::partition("edge.1"))],
            ..stream::Config::default()
        };
        let mut stream = jetstream::new(client)
            .get_or_create_stream(config)
            .await
            .unwrap();
        let messages = stream.info().await.unwrap().state.messages;
        let consumer = stream
            .create_consumer(pull::Config::default())
            .await
            .unwrap();
        let read = consumer
            .messages()
            .await
            .unwrap()
            .take(usize::try_from(messages).unwrap());
        read.map(|message| Report::read(&message.unwrap().payload).unwrap())
            .collect()
            .await
    })
}

#[test]
fn every_epoch_is_reported_once_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let server = NatsServer::start(folder.path(), "").unwrap();
    assert!(stored(&server).is_empty());
    let mut daemon = Daemon::start(config(&json!({ "nats": { "servers": [server.url()] } })));
    let acknowledged = |daemon: &Daemon| daemon.metric::<f64>("vernier_reports_acknowledged_total");
    daemon.wait_for(|daemon| acknowledged(daemon).is_some_and(|reports| reports >= 12.0));
    let summary = daemon.stop()["snapshot"].clone();

    let reports = stored(&server);
    let mut next = 0;
    for report in &reports {
        assert_eq!(report.switch, "edge.1");
        assert_eq!(report.incarnation, reports[0].incarnation);
        assert_eq!(
            report.epoch + 1 - report.epochs,
            next,
            "an epoch is missing, or comes twice"
        );
        next = report.epoch + 1;
    }
    assert_eq!(next, number(&summary["epoch"]) + 1);
    // Exactly the packets that the switch counted.
    let total = |name: &str| {
        sum(&summary["segments"], |segment| {
            number(&segment["total"]["counts"][name])
        })
    };
    let segments = || reports.iter().flat_map(|report| &report.segments);
    assert!(segments().all(|segment| segment.kind() == Kind::Inside));
    let packets: u64 = segments().map(|segment| segment.packets).sum();
    let lost: i64 = segments().map(|segment| segment.lost).sum();
    assert_eq!(
        (packets, u64::try_from(lost).unwrap()),
        (total("sent_packets"), total("dropped_packets"))
    );
    assert!(packets > 10_000, "{packets}");
    let newest = reports.last().unwrap();
    assert!(
        !newest.flows.is_empty() && newest.segments[0].quantiles.is_some(),
        "{newest:?}"
    );
}

#[test]
fn a_server_that_takes_nothing_does_not_disturb_forwarding() {
    let folder = tempfile::tempdir().unwrap();
    let server = NatsServer::start(
        folder.path(),
        "authorization { token: \"another-token-x\" }",
    )
    .unwrap();
    for (address, words) in [
        (server.url(), "the server does not admit this user"),
        ("nats://127.0.0.1:1".to_owned(), "is the server running"),
    ] {
        let with_report = config(&json!({ "nats": { "servers": [address] } }));
        let mut daemon = Daemon::start(with_report.clone());
        daemon.wait_for(|daemon| daemon.metric("vernier_reports_spooled_bytes") > Some(5_000.0));
        assert_eq!(daemon.metric("vernier_reports_connected"), Some(0.0));
        let mut changed = with_report;
        changed["report"]["top_flows"] = json!(3);
        daemon.reload(changed);
        let reload = daemon.wait_for_some(|daemon| {
            let reload = daemon.snapshot()?["reload"].clone();
            (reload["outcome"] == "refused").then_some(reload)
        });
        let message = reload["message"].as_str().unwrap();
        assert!(
            message.contains("report.top_flows: reports use the connection made"),
            "{message}"
        );
        let snapshot = daemon.snapshot().unwrap();
        assert!(sum(&snapshot["ports"], |port| number(&port["tx_packets"])) > 10_000);
        let id = daemon.id();
        let log = std::thread::spawn({
            let mut log = daemon.take_log();
            move || std::io::read_to_string(&mut log).unwrap()
        });
        crate::support::signal("-INT", id);
        let log = log.join().unwrap();
        assert_eq!(log.matches(words).count(), 1, "{log}");
        let summary = std::fs::read_to_string(daemon.folder.path().join("summary.json")).unwrap();
        assert_conserved(&serde_json::from_str::<Value>(&summary).unwrap()["snapshot"]);
    }
}
