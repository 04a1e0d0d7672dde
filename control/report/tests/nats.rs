//! The sender against Debian's `nats-server`: every epoch once and in order, faults of the server, TLS, credentials.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what must hold in the plainest way"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_nats::jetstream;
use contract::config::{Nats, Report as Settings};
use control::published::{Lookup, Published};
use futures_util::StreamExt;
use records::snapshot::Snapshot;
use report::connection::Connection;
use report::msp::Report;
use report::sender::{Running, Sender};
use report::subject;
use testkit::nats::NatsServer;
use testkit::process::wait_for;

fn settings(nats: Nats, spool_kib: u32) -> Settings {
    Settings {
        nats,
        top_flows: 10,
        spool_kib,
    }
}

/// A switch whose epochs the test closes.
struct Switch {
    published: Arc<Published>,
    snapshot: Snapshot,
    sender: Running,
}

impl Switch {
    fn start(settings: &Settings) -> Self {
        let mut snapshot = Snapshot::example();
        snapshot.interval_ms = 20;
        snapshot.epoch = None;
        let published = Arc::new(Published::new(snapshot.clone()));
        let sender = Sender::of(Some(settings)).unwrap().unwrap();
        let sender = sender.start(Arc::clone(&published)).unwrap();
        Self {
            published,
            snapshot,
            sender,
        }
    }

    /// Closes an epoch with 10 packets, and waits until the sender has taken it.
    fn close(&mut self) {
        let epoch = self.snapshot.epoch.map_or(0, |epoch| epoch + 1);
        self.snapshot.epoch = Some(epoch);
        self.snapshot.segments[0].total.counts.sent_packets += 10;
        let before = self.taken();
        self.published
            .publish(self.snapshot.clone(), Lookup::default());
        wait_for("the sender takes the report", || self.taken() > before);
    }

    /// Waits until every closed epoch is stored or dropped. [`close`](Self::close) cannot tell an acknowledgement of an
    /// earlier report from its own report being taken, so no report may be in flight to a server when it is called.
    fn settle(&self) {
        let closed = self.snapshot.epoch.map_or(0, |epoch| epoch + 1);
        wait_for("every report is stored or dropped", || {
            self.counts().acknowledged + self.counts().dropped == closed
        });
    }

    fn counts(&self) -> records::snapshot::Reports {
        self.published.reports.get().unwrap().read()
    }

    /// Marks of a report that was taken: acknowledged, dropped or in the spool.
    fn taken(&self) -> u64 {
        let counts = self.counts();
        counts.acknowledged * (1 << 20) + counts.dropped * (1 << 20) + counts.spooled_bytes
    }
}

async fn stream(nats: &Nats) -> jetstream::stream::Stream {
    let client = Connection::of(nats)
        .unwrap()
        .connect("test", |_| ())
        .await
        .unwrap();
    let config = jetstream::stream::Config {
        name: "REPORTS".to_owned(),
        subjects: vec![subject::REPORTS.to_owned()],
        ..jetstream::stream::Config::default()
    };
    jetstream::new(client)
        .get_or_create_stream(config)
        .await
        .unwrap()
}

/// The reports in the stream, in order.
async fn stored(nats: &Nats) -> Vec<Report> {
    let mut stream = stream(nats).await;
    let messages = stream.info().await.unwrap().state.messages;
    let consumer = stream
        .create_consumer(jetstream::consumer::pull::Config::default())
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
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// As stations connect, and as senders do, with the same result.
fn connect(runtime: &tokio::runtime::Runtime, nats: &Nats) -> Result<(), String> {
    let connection = Connection::of(nats).unwrap();
    let by_station = runtime
        .block_on(connection.connect("test", |_| ()))
        .map(drop);
    let by_sender = runtime
        .block_on(connection.open("test", "_INBOX.test", 0))
        .map(drop);
    match (by_station, by_sender) {
        (Ok(()), Ok(())) => Ok(()),
        (Err(station), Err(sender)) => {
            let hint = |error: &str| error.rsplit_once("; ").unwrap().1.to_owned();
            assert_eq!(hint(&station), hint(&sender), "{station} | {sender}");
            Err(sender)
        }
        (station, sender) => panic!("{station:?}, but {sender:?}"),
    }
}

#[test]
fn what_fitted_the_spool_arrives_once_and_in_order_and_the_rest_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = NatsServer::start(folder.path(), "").unwrap();
    let nats = Nats::to(server.url());
    let runtime = runtime();
    let mut switch = Switch::start(&settings(nats.clone(), 64));
    // No stream yet: nothing is lost.
    switch.close();
    runtime.block_on(stream(&nats));
    for _ in 0..4 {
        switch.settle();
        switch.close();
    }
    wait_for("all are stored", || switch.counts().acknowledged == 5);

    server.kill();
    wait_for("the server is missed", || !switch.counts().is_connected);
    // More than 64 KiB hold.
    while switch.counts().dropped < 10 {
        switch.close();
    }
    server.run("").unwrap();
    switch.settle();
    switch.close();
    switch.settle();

    let counts = switch.counts();
    let last = switch.snapshot.epoch.unwrap();
    assert_eq!(counts.acknowledged + counts.dropped, last + 1);
    let reports = runtime.block_on(stored(&nats));
    let epochs: Vec<u64> = reports.iter().map(|report| report.epoch).collect();
    let expected: Vec<u64> = (0..5).chain(5 + counts.dropped..=last).collect();
    assert_eq!(epochs, expected);
    assert_eq!(reports.last().unwrap().dropped_reports, counts.dropped);
    // Every packet is in one report: in those stored, or those dropped.
    let packets: u64 = reports[1..]
        .iter()
        .map(|report| report.segments[0].packets)
        .sum();
    assert_eq!(packets, 10 * (reports.len() as u64 - 1));
    drop(switch.sender);
}

#[test]
fn a_server_that_admits_nobody_is_named_and_a_wrong_address_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = NatsServer::start(
        folder.path(),
        "authorization { token: \"right-token-right\" }",
    )
    .unwrap();
    let runtime = runtime();
    let secret = |name: &str, text: &str| file(folder.path(), name, text, 0o600);
    let connect = |nats: &Nats| connect(&runtime, nats);
    let with = |token_file| Nats {
        token_file: Some(token_file),
        ..Nats::to(server.url())
    };
    connect(&with(secret("right", "right-token-right\n"))).unwrap();
    for nats in [
        with(secret("wrong", "wrong-token-wrong\n")),
        Nats::to(server.url()),
    ] {
        let error = connect(&nats).unwrap_err();
        assert!(error.contains("does not admit this user"), "{error}");
    }
    let error = connect(&Nats::to("nats://127.0.0.1:1")).unwrap_err();
    assert!(error.contains("is the server running"), "{error}");

    let open = Connection::of(&with(file(
        folder.path(),
        "open",
        "right-token-right\n",
        0o644,
    )));
    let error = open.unwrap_err().to_string();
    assert!(
        error.starts_with("nats.token_file ") && error.contains("chmod o= FILE"),
        "{error}"
    );
    let error = Connection::of(&Nats::to("nats://a:b:c"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("nats.servers") && error.contains("nats://host:4222"),
        "{error}"
    );
}

fn file(folder: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path
}

/// A token (JWT) in NATS's format, in which `issuer` describes `subject`.
fn jwt(issuer: &nkeys::KeyPair, subject: &nkeys::KeyPair, nats: &serde_json::Value) -> String {
    use base64::prelude::*;
    let head = serde_json::json!({ "typ": "JWT", "alg": "ed25519-nkey" });
    let claims = serde_json::json!({
        "jti": "x", "iat": 1, "iss": issuer.public_key(), "sub": subject.public_key(), "name": "test", "nats": nats,
    });
    let [head, claims] = [head, claims].map(|part| BASE64_URL_SAFE_NO_PAD.encode(part.to_string()));
    let text = format!("{head}.{claims}");
    let signature = issuer.sign(text.as_bytes()).unwrap();
    format!("{text}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
}

#[test]
fn a_user_is_admitted_by_password_nkey_and_credentials() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime();
    let connect = |nats: Nats| connect(&runtime, &nats);
    let secret = |name: &str, text: &str| Some(file(folder.path(), name, text, 0o600));
    let user = nkeys::KeyPair::new_user();
    let users = format!(
        "authorization {{ users: [ {{ nkey: {} }}, {{ user: edge, password: right }} ] }}",
        user.public_key()
    );
    let mut server = NatsServer::start(folder.path(), &users).unwrap();
    let by_password = |password: &str| Nats {
        user: Some("edge".to_owned()),
        password_file: secret("password", password),
        ..Nats::to(server.url())
    };
    connect(by_password("right\n")).unwrap();
    connect(by_password("wrong\n")).unwrap_err();
    let by_nkey = |seed: &str| Nats {
        nkey_file: secret("nkey", seed),
        ..Nats::to(server.url())
    };
    connect(by_nkey(&user.seed().unwrap())).unwrap();
    connect(by_nkey(&nkeys::KeyPair::new_user().seed().unwrap())).unwrap_err();

    // An operator, its account, and a user of that.
    let (operator, account) = (
        nkeys::KeyPair::new_operator(),
        nkeys::KeyPair::new_account(),
    );
    let of = |kind: &str| {
        let any = serde_json::json!({ "subs": -1, "data": -1, "payload": -1, "conn": -1, "leaf": -1, "imports": -1, "exports": -1 });
        serde_json::json!({ "type": kind, "version": 2, "limits": any, "subs": -1, "data": -1, "payload": -1 })
    };
    let (public, operators) = (
        account.public_key(),
        jwt(&operator, &operator, &of("operator")),
    );
    let accounts = jwt(&operator, &account, &of("account"));
    server.kill();
    let by_operator = format!(
        "operator: {operators}\nsystem_account: {public}\nresolver: MEMORY\nresolver_preload: {{ {public}: {accounts} }}"
    );
    server.run(&by_operator).unwrap();
    let by_credentials = |user: &nkeys::KeyPair, issuer: &nkeys::KeyPair| {
        let (jwt, seed) = (jwt(issuer, user, &of("user")), user.seed().unwrap());
        let text = format!(
            "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        );
        Nats {
            credentials_file: secret("creds", &text),
            ..Nats::to(server.url())
        }
    };
    connect(by_credentials(&user, &account)).unwrap();
    let error = connect(by_credentials(&user, &nkeys::KeyPair::new_account())).unwrap_err();
    assert!(error.contains("does not admit this user"), "{error}");
}

#[test]
fn only_so_many_flows_are_reported() {
    let snapshot = Snapshot::example();
    let flows = |top_flows| {
        let mut composer = report::compose::Composer::new(1, top_flows);
        composer.report(&snapshot, 0).unwrap().flows.len()
    };
    assert_eq!((flows(10), flows(0)), (1, 0));
}

/// An authority's certificate, and one of 127.0.0.1 that it has signed with its key.
fn authority(folder: &Path, name: &str) -> [PathBuf; 3] {
    let mut own = rcgen::CertificateParams::new(Vec::new()).unwrap();
    own.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let own_key = rcgen::KeyPair::generate().unwrap();
    let ca = own.self_signed(&own_key).unwrap();
    let issuer = rcgen::Issuer::new(own, own_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let of = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()])
        .unwrap();
    let certificate = of.signed_by(&key, &issuer).unwrap();
    [
        file(folder, &format!("{name}-ca.pem"), &ca.pem(), 0o644),
        file(folder, &format!("{name}.pem"), &certificate.pem(), 0o644),
        file(folder, &format!("{name}.key"), &key.serialize_pem(), 0o600),
    ]
}

#[test]
fn tls_with_certificates_of_both_ends_and_not_with_another_authority() {
    let folder = tempfile::tempdir().unwrap();
    let [ca_file, cert_file, key_file] = authority(folder.path(), "right");
    let [other_ca, ..] = authority(folder.path(), "other");
    let tls = format!(
        "tls {{ cert_file: {cert_file:?}, key_file: {key_file:?}, ca_file: {ca_file:?}, verify: true }}"
    );
    let server = NatsServer::start(folder.path(), &tls).unwrap();
    let right = Nats {
        ca_file: Some(ca_file),
        cert_file: Some(cert_file),
        key_file: Some(key_file),
        ..Nats::to(server.url())
    };
    let runtime = runtime();
    runtime.block_on(stream(&right));
    let mut switch = Switch::start(&settings(right.clone(), 64));
    switch.close();
    wait_for("it is stored", || switch.counts().acknowledged == 1);
    drop(switch.sender);
    assert_eq!(runtime.block_on(stored(&right)).len(), 1);

    let wrong = Nats {
        ca_file: Some(other_ca),
        ..right
    };
    let error = connect(&runtime, &wrong).unwrap_err();
    assert!(error.contains("see nats.ca_file"), "{error}");
}

#[test]
fn a_stream_that_is_gone_is_called_gone_and_nobody_is_blamed() {
    let folder = tempfile::tempdir().unwrap();
    let server = NatsServer::start(folder.path(), "").unwrap();
    let nats = Nats::to(server.url());
    let runtime = runtime();
    runtime.block_on(stream(&nats));
    let mut switch = Switch::start(&settings(nats.clone(), 64));
    switch.close();
    wait_for("it is stored", || switch.counts().acknowledged == 1);
    assert_eq!(switch.published.complaints(), Vec::<String>::new());

    runtime.block_on(async {
        let client = Connection::of(&nats).unwrap().connect("test", |_| ()).await;
        let context = jetstream::new(client.unwrap());
        context.delete_stream("REPORTS").await.unwrap();
    });
    switch.close();
    wait_for("a complaint", || !switch.published.complaints().is_empty());
    let words = switch.published.complaints().remove(0);
    assert!(words.contains("the stream of reports is gone"), "{words}");
    assert!(!words.contains("start a vernier-station"), "{words}");
    runtime.block_on(stream(&nats));
    wait_for("both are stored", || switch.counts().acknowledged == 2);
    assert_eq!(switch.published.complaints(), Vec::<String>::new());
    drop(switch.sender);
}

#[test]
fn what_a_user_may_not_publish_is_said_in_the_words_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let users = "authorization { users: [ { user: edge, password: right, permissions: { \
                 publish: \"vernier.report.*.another\", subscribe: \"_INBOX.>\" } } ] }";
    let server = NatsServer::start(folder.path(), users).unwrap();
    let nats = Nats {
        user: Some("edge".to_owned()),
        password_file: Some(file(folder.path(), "password", "right\n", 0o600)),
        ..Nats::to(server.url())
    };
    let mut switch = Switch::start(&settings(nats, 64));
    switch.close();
    let says = || switch.published.complaints().pop().unwrap_or_default();
    wait_for("the server's words", || {
        says().contains("Permissions Violation for Publish")
    });
    drop(switch.sender);
}

#[cfg(debug_assertions)]
mod contained {
    use control::contain::{Part, contained_in, inject};
    use report::sender::ReportCounters;
    use report::sender::Reporter;

    use super::*;

    /// Has a fault in each seventh report.
    struct Faulty(u64);

    impl Reporter for Faulty {
        fn next(&mut self, _: u64) -> Option<Report> {
            self.0 += 1;
            if self.0 < 20 && self.0.is_multiple_of(7) {
                inject::panic();
            }
            (self.0 < 20).then(|| Report {
                version_major: 1,
                switch: "faulty".to_owned(),
                epoch: self.0,
                ..Report::default()
            })
        }

        fn interval_ms(&self) -> u32 {
            20
        }

        fn name(&self) -> String {
            "faulty".to_owned()
        }
    }

    #[test]
    fn a_panic_of_the_thread_is_counted_and_the_next_reports_are_sent() {
        let folder = tempfile::tempdir().unwrap();
        let server = NatsServer::start(folder.path(), "").unwrap();
        let nats = Nats::to(server.url());
        let runtime = runtime();
        runtime.block_on(stream(&nats));
        let counters = Arc::new(ReportCounters::default());
        let sender = Sender::of(Some(&settings(nats.clone(), 64)))
            .unwrap()
            .unwrap();
        let sender = sender.start_with(Faulty(0), Arc::clone(&counters)).unwrap();
        wait_for("two panics", || contained_in(Part::Report) == 2);
        wait_for("a report is stored", || counters.read().acknowledged > 0);
        drop(sender);
        let now = counters.read();
        // 1 to 19 but 7 and 14: each was sent, or was in the spool when a panic emptied it.
        assert_eq!(now.acknowledged + now.dropped, 17);
    }
}
