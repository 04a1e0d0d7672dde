//! `docs/measurement-keys.md`: where the result of each key under `measurement` is seen.
//!
//! Two switches that differ in the key alone, or in what comes with it, get the same packets; their answers are
//! compared as HTTP, Prometheus, the tool and the live table show them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use api::http::Server;
use api::prometheus::{self, Format};
use console::client::Client;
use console::top;
use console::view::{self, Page};
use contract::config;
use control::published::Published;
use measure::packet::FlowKey;
use records::answers::StatusAnswer;
use records::snapshot::Snapshot;
use serde_json::Value;

use crate::frames::mix;
use crate::{Look, changed, elsewhere, groups, key, parse, schema};

#[path = "../../../../control/api/tests/documents/kept.rs"]
mod kept;

const HEAD: &str = "\
# Where the results of measurement keys are seen

For each key under `measurement` ([what it means](configuration.md#measurement)): the commands of [`vernier`](command-line.md), the
paths under `/api/v1/` ([HTTP API](http-api.md)), the families of `/metrics` (those that begin with `vernier_` and this word:
[metrics](metrics.md)) and the tabs of `vernier top` that differ where this key differs. `/api/v1/snapshot` has all of it.

This page is made by a test (`make docs`): simulated switches that differ in one key get the same packets, for a quarter of a second to
two seconds. The test fails where a key changes nothing.

| key | `vernier` | `/api/v1/` | `/metrics` | `vernier top` |
|---|---|---|---|---|
";

/// The columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Cli,
    Http,
    Prometheus,
    Table,
}

const PLACES: [Place; 4] = [Place::Cli, Place::Http, Place::Prometheus, Place::Table];

/// Texts by where they are shown, and by the name of command, path, metric or tab.
type Shown = BTreeMap<(Place, String), String>;

/// All that a switch shows.
fn shown(published: Arc<Published>) -> Shown {
    let snapshot = published.read();
    let server = Server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let server = server.serve(published).unwrap();
    let mut client = Client::new(&format!("http://{}", server.address()), None);
    let mut shown = Shown::new();
    for (path, text) in answers(&client) {
        shown.insert((Place::Http, path), text);
    }
    for (command, text) in commands(&client, &snapshot) {
        shown.insert((Place::Cli, command.to_owned()), text);
    }
    for (family, text) in families(&snapshot) {
        shown.insert((Place::Prometheus, family), text);
    }
    for (tab, text) in top::screens(&mut client, 160, 60).unwrap() {
        shown.insert((Place::Table, tab.to_owned()), text);
    }
    shown
}

/// The flows that [`mix`] and [`crate::switches::long`] begin with.
fn flows() -> impl Iterator<Item = String> {
    let of_mix = (0..8).map(|number| {
        let packet = mix(number);
        let protocol = if packet.protocol == 6 { "tcp" } else { "udp" };
        let (from, to) = packet.ports;
        format!(
            "10.0.0.{}:{from}>10.0.1.{}:{to}/{protocol}",
            packet.from, packet.to
        )
    });
    of_mix.chain(["10.0.0.1:1002>10.0.1.11:80/udp".to_owned()])
}

/// What every path answers, but those of the configuration and of everything at once.
fn answers(client: &Client) -> BTreeMap<String, String> {
    let document: Value = client.get("/api/v1/openapi.json", &[]).unwrap();
    let paths = document["paths"].as_object().unwrap().iter();
    let paths = paths.filter(|(_, operations)| operations["get"].is_object());
    let names = paths.filter_map(|(path, _)| path.strip_prefix("/api/v1/"));
    let mut answers = BTreeMap::new();
    for name in names.filter(|name| !["openapi.json", "config", "snapshot"].contains(name)) {
        let path = format!("/api/v1/{name}");
        let questions = match name {
            "flow" => flows().map(|flow| vec![("flow", flow)]).collect(),
            _ => vec![Vec::new()],
        };
        let mut text = String::new();
        for question in questions {
            let mut answer: Value = client.get(&path, &question).unwrap();
            without_durations(&mut answer);
            let _ = writeln!(text, "{answer}");
        }
        answers.insert(name.to_owned(), text);
    }
    answers
}

/// Times that are not simulated.
fn without_durations(answer: &mut Value) {
    match answer {
        Value::Object(fields) => {
            fields.remove("duration_s");
            fields.values_mut().for_each(without_durations);
        }
        Value::Array(list) => list.iter_mut().for_each(without_durations),
        _ => {}
    }
}

/// A page with all columns.
fn wide(view: impl FnOnce(&mut Page)) -> String {
    Page::plain(true, view)
}

/// What the commands print that show a running switch.
fn commands(client: &Client, snapshot: &Snapshot) -> [(&'static str, String); 7] {
    let flow = |name: String| {
        let answer = client.get("/api/v1/flow", &[("flow", name)]).unwrap();
        wide(|page| view::flow(page, &answer, 1, ""))
    };
    let status: StatusAnswer = client.get("/api/v1/status", &[]).unwrap();
    let status = wide(|page| view::status(page, &status));
    // The time that decoding took is not simulated.
    let status: Vec<&str> = status
        .lines()
        .filter(|line| !line.contains("decod"))
        .collect();
    [
        ("status", status.join("\n")),
        ("segments", wide(|page| view::segments(page, snapshot))),
        (
            "ports",
            wide(|page| view::ports(page, &client.get("/api/v1/ports", &[]).unwrap())),
        ),
        (
            "classes",
            wide(|page| view::classes(page, &client.get("/api/v1/classes", &[]).unwrap())),
        ),
        (
            "wires",
            wide(|page| view::wires(page, &client.get("/api/v1/wires", &[]).unwrap())),
        ),
        (
            "flows",
            wide(|page| view::flows(page, &client.get("/api/v1/flows", &[]).unwrap())),
        ),
        ("flow", flows().map(flow).collect()),
    ]
}

/// The lines of the page by the first word of their metrics.
fn families(snapshot: &Snapshot) -> BTreeMap<String, String> {
    let defaults = config::Prometheus::default();
    let config = snapshot.config.as_ref();
    let settings = config.map_or(&defaults, |config| &config.prometheus);
    let mut page = Vec::new();
    prometheus::write(snapshot, "", settings, Format::Text, &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    let mut families = BTreeMap::<String, String>::new();
    for line in page
        .lines()
        .filter(|line| !line.contains("decode_duration_seconds"))
    {
        if let Some(rest) = line.strip_prefix("vernier_") {
            let word = rest.split(['_', '{', ' ']).next().unwrap_or_default();
            let _ = writeln!(families.entry(word.to_owned()).or_default(), "{line}");
        }
    }
    families
}

/// Where each key under `measurement` of the table of keys changes something.
fn seen() -> BTreeMap<String, BTreeSet<(Place, String)>> {
    let mut seen = BTreeMap::<String, BTreeSet<_>>::new();
    for group in groups::all() {
        let Look::Run(run) = group.look else {
            continue;
        };
        let changes = group.changes.into_iter();
        let mut changes = changes
            .filter(|(place, _)| place.starts_with("/measurement/"))
            .peekable();
        if changes.peek().is_none() {
            continue;
        }
        let show = |json: &Value| shown(run(&parse(json)).published);
        let before = show(&group.base);
        assert_eq!(show(&group.base), before, "one configuration looks one way");
        for (place, value) in changes {
            let after = show(&changed(&group.base, place, value));
            let places = before.keys().chain(after.keys());
            let different = places.filter(|place| before.get(place) != after.get(place));
            seen.entry(key(place))
                .or_default()
                .extend(different.cloned());
        }
    }
    seen
}

#[test]
fn the_table_of_measurement_keys_is_current() {
    let seen = seen();
    let mut page = HEAD.to_owned();
    for name in schema::keys(config::schema().as_value()) {
        let Some(short) = name.strip_prefix("measurement.") else {
            continue;
        };
        let elsewhere = elsewhere::ELSEWHERE.iter().find(|(key, ..)| *key == name);
        if let Some((_, file, test)) = elsewhere {
            let _ = writeln!(
                page,
                "| `{short}` | by real time: `{test}` in [{file}](../{file}) | | | |"
            );
            continue;
        }
        let places = seen.get(&name).filter(|places| !places.is_empty());
        let places = places.unwrap_or_else(|| panic!("{name} changes nothing that is published"));
        let cells = PLACES.map(|column| {
            let names = places.iter().filter(|(place, _)| *place == column);
            let names: Vec<String> = names.map(|(_, name)| format!("`{name}`")).collect();
            names.join(", ")
        });
        let _ = writeln!(page, "| `{short}` | {} |", cells.join(" | "));
    }
    kept::keep("docs/measurement-keys.md", &page);
}

#[test]
fn flows_are_named_as_they_are_asked_for() {
    for flow in flows() {
        assert_eq!(flow.parse::<FlowKey>().unwrap().to_string(), flow);
    }
}
