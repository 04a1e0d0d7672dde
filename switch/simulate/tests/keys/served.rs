//! How the HTTP server answers.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;

use api::http::Server;
use api::prometheus::{self, Format};
use contract::config::Config;
use control::published::Published;
use records::snapshot::Snapshot;

/// The status of the response to each of several clients.
pub fn answers(config: &Config) -> String {
    let Some(server) = Server::of(&config.http).unwrap() else {
        return "no server".to_owned();
    };
    let published = Arc::new(Published::new(Snapshot::example()));
    let running = server.serve(published).unwrap();
    let mut seen = String::new();
    for headers in [
        "Host: localhost",
        "Host: switch.example",
        "Host: localhost\r\nAuthorization: Bearer 0123456789abcdef",
    ] {
        let mut client = TcpStream::connect(running.address()).unwrap();
        write!(
            client,
            "GET /metrics HTTP/1.1\r\n{headers}\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut status = String::new();
        BufReader::new(client).read_line(&mut status).unwrap();
        let _ = writeln!(seen, "{headers:?}: {status}");
    }
    seen
}

/// The page of metrics.
pub fn metrics(config: &Config) -> String {
    let mut page = Vec::new();
    let (snapshot, settings) = (Snapshot::example(), &config.prometheus);
    prometheus::write(&snapshot, "", settings, Format::Text, &mut page).unwrap();
    String::from_utf8(page).unwrap()
}
