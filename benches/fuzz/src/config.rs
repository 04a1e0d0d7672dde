//! Configurations: from any text to a switch's memory.
//!
//! Oracle: a refusal names the place (origin, line and column, and the path of a value that is out of range). An
//! accepted configuration is the same after it is written and read again, shows no difference from itself, and
//! everything derived from it (workers, queues, segments, layouts, memory, the report of `--check`) can be computed and
//! is within its limits.

use std::sync::LazyLock;

use arbitrary::Arbitrary;
use contract::check;
use contract::config::memory::Memory;
use contract::config::{Config, ConfigError, PORTS_MAX, WORKERS_MAX};
use measure::time::TickRate;
use serde_json::Value;

use crate::read;

/// Longest text.
const TEXT_BYTES_MAX: usize = 1 << 16;

/// Largest number of values that a change adds, because nested lists grow exponentially.
const VALUES_MAX: usize = 4_096;

/// The repository's own examples.
static EXAMPLES: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let texts = examples().into_iter();
    texts
        .map(|text| serde_json::from_slice(&text).unwrap())
        .collect()
});

/// The texts of the examples.
pub(crate) fn examples() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let files = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "json"));
    paths.sort();
    paths
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect()
}

/// Every key and every word of the examples and of the schema, as libFuzzer reads dictionaries.
pub fn dictionary() -> String {
    let schema = serde_json::to_value(contract::config::schema()).unwrap();
    let mut words = std::collections::BTreeSet::new();
    for value in EXAMPLES.iter().chain([&schema]) {
        collect_words(value, &mut words);
    }
    let is_plain = |word: &&String| {
        (1..=40).contains(&word.len())
            && word
                .chars()
                .all(|c| c.is_ascii_graphic() && c != '\\' && c != '"')
    };
    let line = |word: &String| format!("\"\\\"{word}\\\"\"\n");
    words.iter().filter(is_plain).map(line).collect()
}

fn collect_words(value: &Value, words: &mut std::collections::BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                words.insert(key.clone());
                collect_words(value, words);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_words(item, words)),
        Value::String(word) => drop(words.insert(word.clone())),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// An example, disturbed.
#[derive(Debug, Arbitrary)]
struct Input {
    example: u8,
    changes: Vec<Change>,
}

#[derive(Debug, Arbitrary)]
struct Change {
    /// Index of the value in the document.
    at: u16,
    to: To,
}

#[derive(Debug, Arbitrary)]
enum To {
    Null,
    Bool(bool),
    Whole(u64),
    Small(u8),
    Signed(i64),
    Real(f64),
    Text(String),
    Empty,
    /// A value of an example.
    Other(u8, u16),
    /// Repeated this number of times in a list.
    Repeated(u8),
    /// Under another key of its object.
    Renamed(String),
    Removed,
}

/// A byte 0 begins actions on an example; any other text is a configuration itself.
pub fn config(bytes: &[u8]) {
    if let Some((0, rest)) = bytes.split_first() {
        if rest.len() < TEXT_BYTES_MAX
            && let Some(input) = read::<Input>(rest)
        {
            check(&disturbed(&input).to_string());
        }
    } else if let Some(text) = crate::text(bytes, TEXT_BYTES_MAX) {
        check(text);
    }
}

fn disturbed(input: &Input) -> Value {
    let mut value = EXAMPLES[usize::from(input.example) % EXAMPLES.len()].clone();
    for change in input.changes.iter().take(16) {
        let count = count(&value);
        let at = usize::from(change.at) % count;
        apply(&mut value, at, &change.to);
    }
    value
}

/// Number of values in a document, including itself.
fn count(value: &Value) -> usize {
    let members = match value {
        Value::Object(members) => members.values().map(count).sum(),
        Value::Array(items) => items.iter().map(count).sum(),
        _ => 0,
    };
    members + 1
}

/// The value with index `at`, and its parent.
fn find(value: &mut Value, mut at: usize) -> Option<&mut Value> {
    if at == 0 {
        return Some(value);
    }
    at -= 1;
    let members: Vec<&mut Value> = match value {
        Value::Object(members) => members.values_mut().collect(),
        Value::Array(items) => items.iter_mut().collect(),
        _ => return None,
    };
    for member in members {
        let inside = count(member);
        if at < inside {
            return find(member, at);
        }
        at -= inside;
    }
    None
}

fn apply(root: &mut Value, at: usize, to: &To) {
    let Some(value) = find(root, at) else { return };
    *value = match to {
        To::Null => Value::Null,
        To::Bool(is) => (*is).into(),
        To::Whole(number) => (*number).into(),
        To::Small(number) => (*number).into(),
        To::Signed(number) => (*number).into(),
        To::Real(number) => (*number).into(),
        To::Text(text) => text.as_str().into(),
        To::Empty if value.is_object() => Value::Object(serde_json::Map::new()),
        To::Empty => Value::Array(Vec::new()),
        To::Other(example, at) => {
            let mut other = EXAMPLES[usize::from(*example) % EXAMPLES.len()].clone();
            let at = usize::from(*at) % count(&other);
            find(&mut other, at).map(Value::take).unwrap_or_default()
        }
        To::Repeated(times) if count(value) * usize::from(*times) > VALUES_MAX => return,
        To::Repeated(times) => {
            // Names would be duplicate, so add a number.
            let numbered = (0..*times).map(|number| numbered(value, number));
            Value::Array(numbered.collect())
        }
        To::Renamed(key) => {
            if let Value::Object(members) = value
                && let Some(first) = members.keys().next().cloned()
                && let Some(member) = members.remove(&first)
            {
                members.insert(key.clone(), member);
            }
            return;
        }
        To::Removed => {
            if let Value::Object(members) = value
                && let Some(last) = members.keys().next_back().cloned()
            {
                members.remove(&last);
            }
            return;
        }
    };
}

fn numbered(value: &Value, number: u8) -> Value {
    let mut value = value.clone();
    if let Some(Value::String(name)) = value.get_mut("name") {
        name.push_str(&number.to_string());
    }
    value
}

fn check(text: &str) {
    let config = match Config::parse(text, "fuzz.json") {
        Ok(config) => config,
        Err(error) => return refused(&error),
    };
    assert!((1..=WORKERS_MAX).contains(&config.workers.len()));
    assert!(config.ports.len() <= PORTS_MAX);
    written_again(&config);
    assert_eq!(config.diff(&config), []);
    for port in 0..=config.ports.len() {
        let (queues, owner) = (config.rx_queues(port), config.owner(port));
        assert!(owner.is_none_or(|worker| worker < config.workers.len()));
        assert!(port < config.ports.len() || queues == 0);
        let _ = config.queue_of_class(port);
        assert!(config.resolve().segments_of_egress(port).len() <= config.segments().len());
    }
    let assignment = config.assignment();
    assert_eq!(assignment.len(), config.workers.len());
    config
        .shard_layout(TickRate::from_hz(1_000_000_000))
        .unwrap();
    assert!(Memory::of(&config).total_bytes() > 0);
    assert!(!check::report(&config).is_empty());
    let demo = Config::demo().unwrap();
    let changes = demo.diff(&config);
    assert!(changes.iter().all(|change| !change.to_string().is_empty()));
    // It may be refused, but must not panic.
    let _ = config.in_place_of(&demo);
}

/// Checks that a refusal names the place.
pub(crate) fn refused(error: &ConfigError) {
    let words = error.to_string();
    let ConfigError::Invalid { faults, .. } = error else {
        panic!("{words}");
    };
    assert!(!faults.is_empty());
    for fault in faults {
        let at = &fault.at;
        assert!(
            at.line >= 1 && words.contains(&format!("{at}: ")),
            "{words}"
        );
        assert!(!fault.invalid.expected.is_empty(), "{words}");
    }
}

/// A configuration in the form of `/api/v1/config` and the run folder.
fn written_again(config: &Config) {
    let text = serde_json::to_string_pretty(config).unwrap();
    let again = Config::parse(&text, "written.json");
    assert_eq!(&again.unwrap(), config, "{text}");
}
