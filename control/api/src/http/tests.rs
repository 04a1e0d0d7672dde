mod api;
mod clients;

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use super::*;
use contract::config::Config;
use records::snapshot::{FlowList, FlowRecord, SegmentName, Snapshot};

/// The example with flows in its lists, and a configuration.
fn example() -> Snapshot {
    let name = SegmentName {
        ingress: "east".to_owned(),
        egress: "west".to_owned(),
        class: "all".to_owned(),
    };
    let list = |flows: Vec<FlowRecord>| {
        Arc::new(FlowList {
            epoch: Some(81),
            segments: vec![Arc::new(name.clone())],
            flows,
            wire_times: None,
        })
    };
    let mut snapshot = Snapshot::example();
    let flows = snapshot.flows.as_mut().unwrap();
    flows.list = list((0..150).map(record).collect());
    flows.ended = list(vec![record(1_000)]);
    let mut config = Config::demo().unwrap();
    config.measurement.hash_seed = Some("00112233445566778899aabbccddeeff".to_owned());
    snapshot.config = Some(Arc::new(config));
    snapshot
}

/// Flow `n` from east to west; the first have most packets.
fn record(n: u16) -> FlowRecord {
    FlowRecord {
        segment: 0,
        ..FlowRecord::example(n, 1_000 - u64::from(n))
    }
}

fn bind() -> Server {
    Server::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap()
}

fn serve(snapshot: Snapshot) -> (Running, Arc<Published>) {
    let published = Arc::new(Published::new(snapshot));
    (bind().serve(Arc::clone(&published)).unwrap(), published)
}

/// An answer as it came.
#[derive(Debug)]
struct Answer {
    status: u16,
    /// First line and headers.
    head: String,
    body: String,
}

impl Answer {
    fn of(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self {
            status,
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1);
        lines.find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The error in a refusal.
    fn error(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/json"));
        self.json()["error"].as_str().unwrap().to_owned()
    }
}

/// A connection that has sent a request; `lines` are further lines of the header.
fn ask(server: &Running, method: &str, target: &str, lines: &[&str]) -> TcpStream {
    let mut client = TcpStream::connect(server.address()).unwrap();
    client
        .set_read_timeout(Some(Duration::from_secs(15)))
        .unwrap();
    let lines = lines.join("\r\n");
    let end = if lines.is_empty() { "" } else { "\r\n" };
    let request = format!(
        "{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{lines}{end}\r\n"
    );
    client.write_all(request.as_bytes()).unwrap();
    client
}

fn listen(mut client: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).unwrap();
    Answer::of(&String::from_utf8_lossy(&bytes))
}

fn request(server: &Running, method: &str, target: &str, lines: &[&str]) -> Answer {
    listen(ask(server, method, target, lines))
}

fn fetch(server: &Running, target: &str) -> Answer {
    request(server, "GET", target, &[])
}

/// The value of one of the process's own metrics.
fn own_metric(server: &Running, series: &str) -> f64 {
    let text = fetch(server, "/metrics").body;
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value
        .unwrap_or_else(|| panic!("no {series} in {text}"))
        .parse()
        .unwrap()
}

fn rejected(server: &Running, reason: &str) -> f64 {
    own_metric(
        server,
        &format!("vernier_http_rejected_total{{reason=\"{reason}\"}}"),
    )
}
