//! Every key of the configuration has a visible effect, or is refused.
//!
//! Each [`Group`] has a configuration and a way to observe its effects: what complete switches in memory publish and
//! send, the resulting sizes, the packets of a source, or the server's responses. Each of its changes sets one key to
//! another value, and must change the observation. Showing the configuration itself does not count.
//! [`no_key_is_forgotten`] checks that every key of the schema has a row.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which the lints treat as ordinary functions"
)]

use std::collections::BTreeSet;

use contract::config::{self, Config};
use serde_json::Value;
use switches::Ran;

mod elsewhere;
mod frames;
mod groups;
mod measured;
mod plans;
mod schema;
mod served;
mod sources;
mod switches;
mod wires;

/// Keys that are changed in one configuration.
struct Group {
    /// The configuration without the changes.
    base: Value,
    /// How to observe a configuration.
    look: Look,
    /// The place of a key, as a JSON pointer, and another value. If a value is replaced as a whole, the name of the
    /// changed part follows `#`: an option of a device, or the key that distinguishes kinds.
    changes: Vec<(&'static str, Value)>,
}

/// How to observe a configuration.
#[derive(Clone, Copy)]
enum Look {
    /// Run a switch with it.
    Run(fn(&Config) -> Ran),
    /// In another way.
    Other(fn(&Config) -> String),
}

impl Look {
    fn at(self, config: &Config) -> String {
        match self {
            Self::Run(run) => run(config).seen(),
            Self::Other(look) => look(config),
        }
    }
}

/// Returns the base with another value at `place`.
fn changed(base: &Value, place: &str, value: Value) -> Value {
    let place = place.split('#').next().unwrap_or(place);
    let mut json = base.clone();
    let mut at = &mut json;
    for step in place.split('/').skip(1) {
        at = match step.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[step],
        };
    }
    *at = value;
    json
}

/// Returns the key at a place in the form of the schema's list: `ports[].egress.owner`.
fn key(place: &str) -> String {
    let mut key = String::new();
    for step in place.split(['/', '#']).filter(|step| !step.is_empty()) {
        if step.parse::<usize>().is_ok() {
            key += "[]";
        } else {
            key += if key.is_empty() { "" } else { "." };
            key += step;
        }
    }
    // The last index is the index of a value in a list.
    key.trim_end_matches("[]").to_owned()
}

fn parse(json: &Value) -> Config {
    Config::parse(&json.to_string(), "keys.json")
        .unwrap_or_else(|error| panic!("{error}\n{json:#}"))
}

/// Checks that every change of a group has a visible effect.
fn check(group: Group) {
    let Group {
        base,
        look,
        changes,
    } = group;
    let before = look.at(&parse(&base));
    let again = look.at(&parse(&base));
    for (before, again) in before.lines().zip(again.lines()) {
        assert_eq!(
            before, again,
            "the same configuration gives the same observation"
        );
    }
    let mut without_effect = Vec::new();
    for (place, value) in changes {
        let json = changed(&base, place, value);
        assert_ne!(json, base, "{place} has that value already");
        if look.at(&parse(&json)) == before {
            without_effect.push(place);
        }
    }
    assert!(
        without_effect.is_empty(),
        "these keys have no visible effect; give them one, or remove them: {without_effect:#?}"
    );
}

#[test]
fn no_key_is_forgotten() {
    let all = schema::keys(config::schema().as_value());
    let rows = groups::all();
    let rows = rows.iter().flat_map(|group| &group.changes);
    let mut tried: BTreeSet<String> = rows.map(|(place, _)| key(place)).collect();
    tried.extend(elsewhere::ELSEWHERE.map(|(key, ..)| key.to_owned()));
    tried.extend(groups::refused().into_iter().map(|(place, ..)| key(place)));
    let forgotten: Vec<_> = all.difference(&tried).collect();
    assert!(
        forgotten.is_empty(),
        "keys without a row that shows their effect (groups.rs): {forgotten:#?}"
    );
    let unknown: Vec<_> = tried.difference(&all).collect();
    assert!(
        unknown.is_empty(),
        "no keys of the configuration: {unknown:#?}"
    );
}

/// Checks keys that limit other keys.
#[test]
fn what_is_out_of_bounds_is_refused() {
    for (place, value, expected) in groups::refused() {
        let json = changed(&groups::bridge().base, place, value);
        let error = Config::parse(&json.to_string(), "keys.json").unwrap_err();
        assert!(error.to_string().contains(expected), "{place}: {error}");
    }
}

/// Checks that the tests exist that show keys whose effect depends on real time.
#[test]
fn other_tests_are_there() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (key, file, test) in elsewhere::ELSEWHERE {
        let code = std::fs::read_to_string(root.join(file)).unwrap();
        assert!(
            code.contains(&format!("fn {test}(")),
            "{key}: {file} has no test {test}"
        );
    }
}

macro_rules! groups {
    ($($name:ident),*) => {$(
        #[test]
        fn $name() {
            check(groups::$name());
        }
    )*};
}

groups!(
    bridge,
    patch,
    static_stations,
    vlan_access,
    vlan_trunk,
    long,
    shaped,
    class_queues,
    early_detection,
    references,
    around,
    stamps,
    planning,
    replay,
    generate,
    pinned,
    flow_rules,
    wire_direct,
    wire_virtual,
    wire_adaptive,
    wire_own_keys,
    wire_trusted,
    server,
    token,
    page
);
