//! Reads JSON configurations: text to values, checks, and errors with positions. Used for the switch's own
//! configuration and those of other programs.
//!
//! Call [`read_file`], then [`parse_json`], then checks that return [`Invalid`], which [`value_error`] locates in the
//! text.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::hash::Hash;
use std::io;
use std::ops::RangeInclusive;
use std::path::Path;

use schemars::{JsonSchema, schema_for};
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use serde_path_to_error::Segment;

pub use super::serving::http;
use super::validate::validate;
use super::{Config, PORTS_MAX, shape};
use crate::{file, text};

/// Keys that contain secrets, directly or below; errors do not quote their values.
const SECRETS: [&str; 3] = ["hash_seed", "key", "token"];

/// One step into a JSON document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Key(Cow<'static, str>),
    Index(usize),
}

/// A path in a JSON document, displayed as `ports[1].egress.queue_packets`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyPath(pub(super) Vec<Step>);

impl KeyPath {
    /// The path of a member.
    #[must_use]
    pub fn key(&self, key: impl Into<Cow<'static, str>>) -> Self {
        self.then(Step::Key(key.into()))
    }

    /// The path of an element, from 0.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.then(Step::Index(index))
    }

    fn then(&self, step: Step) -> Self {
        Self([&self.0[..], &[step]].concat())
    }

    /// Whether one path equals or contains the other.
    pub(super) fn is_near(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0) || other.0.starts_with(&self.0)
    }

    /// Whether there is a secret at this path, or near it.
    pub(super) fn is_secret(&self) -> bool {
        let is_secret = |key: &str| SECRETS.iter().any(|secret| key.contains(secret));
        self.0
            .iter()
            .any(|step| matches!(step, Step::Key(key) if is_secret(key)))
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if depth == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

impl Serialize for KeyPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// An invalid value.
#[derive(Debug, Serialize)]
pub struct Invalid {
    /// Its path.
    pub path: KeyPath,
    /// Its valid values; or the whole message.
    pub expected: String,
    /// The value found; `None` if `expected` is the whole message.
    #[serde(rename = "found")]
    pub got: Option<String>,
    /// Line and column at which parsing stopped, for text that is not JSON and has no paths.
    #[serde(skip)]
    stopped: (usize, usize),
}

impl Invalid {
    fn new(path: KeyPath, expected: impl fmt::Display, got: Option<String>) -> Self {
        Self {
            path,
            expected: expected.to_string(),
            got,
            stopped: (1, 1),
        }
    }

    /// An error found when the value was used.
    pub fn said(path: KeyPath, words: impl fmt::Display) -> Self {
        Self::new(path, words, None)
    }
}

impl fmt::Display for Invalid {
    /// Removes control characters, which quoted values may contain.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = match &self.got {
            Some(got) => format!("expected {}, got {got}", self.expected),
            None => self.expected.clone(),
        };
        if !self.path.0.is_empty() {
            words = format!("{}: {words}", self.path);
        }
        text::clean(&mut words);
        f.write_str(&words)
    }
}

/// All that is invalid; not empty in an error.
#[derive(Debug, Default)]
pub struct Faults(pub Vec<Invalid>);

impl Faults {
    /// Whether a value at `path`, below it or above it is invalid.
    pub(super) fn is_near(&self, path: &KeyPath) -> bool {
        self.0.iter().any(|fault| fault.path.is_near(path))
    }
}

impl From<Invalid> for Faults {
    fn from(invalid: Invalid) -> Self {
        Self(vec![invalid])
    }
}

impl std::error::Error for Faults {}

impl fmt::Display for Faults {
    /// One line for each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

/// The result of a check.
pub type Check<T = ()> = Result<T, Faults>;

/// Combines the results of several checks.
///
/// # Errors
/// Every [`Invalid`] that they found.
pub fn all(checks: impl IntoIterator<Item = Check>) -> Check {
    let faults = checks.into_iter().filter_map(Check::err);
    let faults: Vec<Invalid> = faults.flat_map(|faults| faults.0).collect();
    if faults.is_empty() {
        Ok(())
    } else {
        Err(Faults(faults))
    }
}

/// Checks a condition.
///
/// # Errors
/// [`Invalid`] if it does not hold.
pub fn ensure(
    holds: bool,
    path: KeyPath,
    expected: impl fmt::Display,
    got: impl fmt::Display,
) -> Check {
    if holds {
        return Ok(());
    }
    Err(Invalid::new(path, expected, Some(got.to_string())).into())
}

/// Checks each entry of a list with its path.
///
/// # Errors
/// Every [`Invalid`] that was found.
pub fn each<T>(
    path: &KeyPath,
    list: impl IntoIterator<Item = T>,
    mut check: impl FnMut(KeyPath, T) -> Check,
) -> Check {
    let entries = list.into_iter().enumerate();
    all(entries.map(|(index, entry)| check(path.index(index), entry)))
}

/// Checks that a number is in a range.
///
/// # Errors
/// [`Invalid`] if it is not.
pub fn within<T: PartialOrd + fmt::Display>(
    path: KeyPath,
    value: T,
    range: RangeInclusive<T>,
) -> Check {
    let expected = format!("{} to {}", range.start(), range.end());
    ensure(range.contains(&value), path, expected, value)
}

/// Checks the sizes of a synopsis; the error says why they are invalid.
pub(super) fn laid_out<T>(
    path: KeyPath,
    layout: Result<T, impl fmt::Display>,
    expected: &str,
) -> Check<T> {
    layout.map_err(|error| Invalid::new(path, expected, Some(error.to_string())).into())
}

/// Checks all numbers and lists of a configuration against the ranges in its schema.
///
/// # Errors
/// Every [`Invalid`] out of its range.
pub fn ranges<T: Serialize + JsonSchema>(value: &T) -> Check {
    shape::within_ranges(value, &schema_for!(T).into())
}

/// Checks the length of a list, which the error counts instead of quoting.
///
/// # Errors
/// [`Invalid`] if it has too few or too many entries.
pub fn count_within(
    path: KeyPath,
    count: usize,
    range: RangeInclusive<usize>,
    what: &str,
) -> Check {
    let (least, most) = (range.start(), range.end());
    let expected = if least == most {
        format!("{least} {what}")
    } else {
        format!("{least} to {most} {what}")
    };
    ensure(range.contains(&count), path, expected, count)
}

/// Checks a name: 1 to 64 letters, digits, `.`, `_` or `-`.
///
/// # Errors
/// [`Invalid`] for any other text.
pub fn name(path: KeyPath, name: &str) -> Check {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let holds = (1..=64).contains(&name.len()) && name.chars().all(is_plain);
    let expected = "1 to 64 letters, digits, `.`, `_` or `-`";
    ensure(holds, path, expected, format!("{name:?}"))
}

/// Checks that a name refers to one of `known`; `what` is `port` or `class`.
pub(super) fn known(path: KeyPath, name: &str, what: &str, known: &[&str]) -> Check {
    let expected = format!("the name of a {what} ({})", known.join(", "));
    let got = format!("{name:?}{}", suggestion(name, known.iter().copied()));
    ensure(known.contains(&name), path, expected, got)
}

/// Checks that a value is new; `what` describes a unique value.
///
/// # Errors
/// [`Invalid`] if the value was seen before.
#[expect(
    clippy::implicit_hasher,
    reason = "sets of names in configurations have the usual one"
)]
pub fn unique<T: Eq + Hash + fmt::Debug>(
    seen: &mut HashSet<T>,
    value: T,
    path: KeyPath,
    what: &str,
) -> Check {
    let got = format!("{value:?} again");
    ensure(seen.insert(value), path, what, got)
}

/// Checks the first and last port of a range of TCP or UDP ports.
pub(super) fn port_range(path: KeyPath, range: Option<(u16, u16)>) -> Check {
    let (first, last) = range.unwrap_or_default();
    let got = format!("[{first}, {last}]");
    ensure(first <= last, path, "the first port, then the last", got)
}

/// `; did you mean ...?` if one of `words` is similar to `word`.
pub fn suggestion<'w>(word: &str, words: impl IntoIterator<Item = &'w str>) -> String {
    /// Least similarity, 0 to 1: at most two of five letters differ or are swapped.
    const ALIKE: f64 = 0.6;
    let likeness = |known: &&str| strsim::normalized_damerau_levenshtein(word, known);
    let alike = words.into_iter().filter(|known| likeness(known) >= ALIKE);
    let best = alike.max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    best.map_or(String::new(), |best| format!("; did you mean `{best}`?"))
}

/// Serde's message for a duplicate key, before the key; and ours, after it.
const TWICE_OF_SERDE: &str = "duplicate field ";
const TWICE: &str = " is given twice";

/// Most faults listed; the rest is counted.
const LISTED_MAX: usize = 20;

/// Most bytes of a configuration: room for the most static stations, and more.
const BYTES_MAX: u64 = 256 << 20;

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{origin}: cannot read the configuration: {error}")]
    Read {
        /// The file.
        origin: String,
        /// The reason.
        error: io::Error,
    },
    /// Not JSON, of another shape, or with invalid values.
    #[error("{}", listed(.faults, *.more))]
    Invalid {
        /// The first faults, at most 20.
        faults: Vec<Fault>,
        /// Number of further faults.
        more: usize,
    },
    /// A running switch has no free index for another port.
    #[error(
        "ports: the switch has had {PORTS_MAX} ports since its start, including removed ones; \
         restart it to add more"
    )]
    Ports,
}

/// Something invalid in a configuration's text.
#[derive(Debug, Serialize)]
pub struct Fault {
    /// Line and column.
    #[serde(flatten)]
    pub at: Position,
    /// Path and message.
    #[serde(flatten)]
    pub invalid: Invalid,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.invalid)
    }
}

fn listed(faults: &[Fault], more: usize) -> String {
    let mut lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines.join("\n")
}

/// A position in a configuration's text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Position {
    /// The file.
    #[serde(skip)]
    pub origin: String,
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.origin, self.line, self.column)
    }
}

impl Config {
    /// Reads and checks a configuration file.
    ///
    /// # Errors
    /// [`ConfigError`]: not readable, not JSON, an unknown key, a value out of range.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        Candidate::load(path)?.checked()
    }

    /// Reads and checks the new configuration file of a switch that runs `running`, and orders its ports
    /// ([`Config::in_place_of`]). If the file has no workers, they stay as they are.
    ///
    /// # Errors
    /// [`ConfigError`]: as [`Config::load`], or more ports than there are indices.
    pub fn load_again(path: impl AsRef<Path>, running: &Self) -> Result<Self, ConfigError> {
        let (text, origin) = read_file(path.as_ref())?;
        let keep_workers = |config: &mut Self| {
            if config.workers.is_empty() {
                config.workers.clone_from(&running.workers);
            }
        };
        let candidate = Candidate::settled(text, origin, keep_workers)?;
        candidate.checked()?.in_place_of(running)
    }

    /// Reads and checks a configuration; `origin` names it in errors.
    ///
    /// # Errors
    /// [`ConfigError`]: not JSON, an unknown key, a value out of range.
    pub fn parse(text: &str, origin: &str) -> Result<Self, ConfigError> {
        Candidate::parse(text.to_owned(), origin.to_owned())?.checked()
    }
}

/// Reads and checks the JSON file of another configuration.
///
/// # Errors
/// [`ConfigError`]: not readable, not JSON, an unknown key, a value that `check` rejects.
pub fn load<T: DeserializeOwned + JsonSchema>(
    path: &Path,
    check: fn(&T) -> Check,
) -> Result<T, ConfigError> {
    let (text, origin) = read_file(path)?;
    parse(&text, &origin, check)
}

/// Parses and checks such a text; `origin` names it in errors.
///
/// # Errors
/// As [`load`].
pub fn parse<T: DeserializeOwned + JsonSchema>(
    text: &str,
    origin: &str,
    check: fn(&T) -> Check,
) -> Result<T, ConfigError> {
    let parsed = parse_json(text, origin)?;
    check(&parsed).map_err(|faults| value_error(origin, text, faults))?;
    Ok(parsed)
}

/// Returns a file's text, and its name for errors.
///
/// # Errors
/// [`ConfigError::Read`]: it cannot be read, is not a regular file, or has more than 256 MiB.
pub fn read_file(path: &Path) -> Result<(String, String), ConfigError> {
    let origin = path.display().to_string();
    match file::read_text(path, BYTES_MAX) {
        Ok(text) => Ok((text, origin)),
        Err(error) => Err(ConfigError::Read { origin, error }),
    }
}

/// Parses a value of the right shape without checking it; `origin` names it in errors.
///
/// # Errors
/// [`ConfigError::Invalid`]: not JSON, or of another shape.
pub fn parse_json<T: DeserializeOwned + JsonSchema>(
    text: &str,
    origin: &str,
) -> Result<T, ConfigError> {
    parse_shape(text).map_err(|faults| value_error(origin, text, faults))
}

/// The same, with faults by path.
fn parse_shape<T: DeserializeOwned + JsonSchema>(text: &str) -> Check<T> {
    let mut json = serde_json::Deserializer::from_str(text);
    let parsed = serde_path_to_error::deserialize(&mut json)
        .map_err(|error| shape_faults::<T>(text, shape_fault(text, &error)))?;
    json.end()
        .map_err(|error| said_by_serde(KeyPath::default(), &error))?;
    Ok(parsed)
}

/// All faults in the shape of a text; serde reports only the `first`.
fn shape_faults<T: JsonSchema>(text: &str, first: Invalid) -> Faults {
    let mut faults = shape::faults(text, &schema_for!(T).into());
    // Values rejected by our own parsers are not in the schema.
    let is_said = |fault: &Invalid| fault.path.is_near(&first.path);
    if first.expected.ends_with(TWICE) || !faults.iter().any(is_said) {
        faults.push(first);
    }
    Faults(faults)
}

/// The fault of JSON with another shape, at the invalid value.
fn shape_fault(text: &str, error: &serde_path_to_error::Error<serde_json::Error>) -> Invalid {
    let steps = error.path().iter().filter_map(|segment| match segment {
        Segment::Map { key } => Some(Step::Key(Cow::Owned(key.clone()))),
        Segment::Seq { index } => Some(Step::Index(*index)),
        // Not even the key could be read.
        _ => None,
    });
    let mut invalid = said_by_serde(KeyPath(steps.collect()), error.inner());
    let message = &mut invalid.expected;
    if invalid.path.is_secret() {
        hide_value(message);
    }
    if let Some(hint) = no_json_hint(text, invalid.stopped) {
        *message = format!("{message}: {hint}");
    }
    if let Some(key) = message.strip_prefix(TWICE_OF_SERDE) {
        *message = format!("{key}{TWICE}");
    }
    invalid
}

/// Why parsing stopped, and where.
fn said_by_serde(path: KeyPath, error: &serde_json::Error) -> Invalid {
    let stopped @ (line, column) = (error.line(), error.column());
    let message = error.to_string();
    let end = format!(" at line {line} column {column}");
    Invalid {
        stopped,
        ..Invalid::said(path, message.strip_suffix(&end).unwrap_or(&message))
    }
}

/// Advice for JSON dialects, if the dialect is the cause.
fn no_json_hint(text: &str, (line, column): (usize, usize)) -> Option<&'static str> {
    if text.trim().is_empty() {
        return Some("the file is empty; expected an object");
    }
    let line = text.lines().nth(line.checked_sub(1)?)?;
    // Parsing stops within a comment's first two characters, or before them.
    let rest: String = line.chars().skip(column.saturating_sub(2)).collect();
    let is_comment = |rest: &str| {
        let rest = rest.trim_start_matches([' ', '\t', ',', '{', '[']);
        ["//", "/*", "#"].iter().any(|mark| rest.starts_with(mark))
    };
    is_comment(&rest).then_some("JSON has no comments")
}

/// Keeps the expected value, and removes the found one.
fn hide_value(message: &mut String) {
    if let Some((_, expected)) = message.rsplit_once(", expected ") {
        *message = format!("expected {expected}, got something else");
    }
}

/// The error for invalid values in a parsed text, in the order of the text.
pub fn value_error(origin: &str, text: &str, Faults(faults): Faults) -> ConfigError {
    let more = faults.len().saturating_sub(LISTED_MAX);
    let faults = faults.into_iter().take(LISTED_MAX).map(|invalid| {
        let (line, column) = position(text, &invalid.path).unwrap_or(invalid.stopped);
        let origin = origin.to_owned();
        let at = Position {
            origin,
            line,
            column,
        };
        Fault { at, invalid }
    });
    let mut faults: Vec<Fault> = faults.collect();
    faults.sort_by_key(|fault| (fault.at.line, fault.at.column));
    ConfigError::Invalid { faults, more }
}

/// Line and column where a value begins, or, for a default, the nearest enclosing value. `None` if the text
/// is not JSON.
fn position(text: &str, path: &KeyPath) -> Option<(usize, usize)> {
    let mut value: &RawValue = serde_json::from_str(text).ok()?;
    for step in &path.0 {
        match member(value.get(), step) {
            Some(inner) => value = inner,
            None => break,
        }
    }
    // Every value is a slice of `text`, so the distance between their starts is an offset in it.
    let before = text.get(..value.get().as_ptr().addr() - text.as_ptr().addr())?;
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.matches('\n').count() + 1;
    Some((line, before[line_start..].chars().count() + 1))
}

fn member<'t>(value: &'t str, step: &Step) -> Option<&'t RawValue> {
    match step {
        Step::Key(key) => {
            let object: BTreeMap<String, &RawValue> = serde_json::from_str(value).ok()?;
            object.get(key.as_ref()).copied()
        }
        Step::Index(index) => {
            let array: Vec<&RawValue> = serde_json::from_str(value).ok()?;
            array.get(*index).copied()
        }
    }
}

/// A configuration file as far as it can be understood, and all its faults so far, so that further checks can add
/// theirs before all are reported.
#[derive(Debug)]
pub struct Candidate {
    origin: String,
    text: String,
    config: Config,
    faults: Faults,
}

impl Candidate {
    /// Reads a file. Values of a wrong type and unknown keys are removed; what remains is only fit for further
    /// checks.
    ///
    /// # Errors
    /// [`ConfigError`]: not readable, not JSON, or invalid in a part that everything else depends on.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let (text, origin) = read_file(path.as_ref())?;
        Self::parse(text, origin)
    }

    fn parse(text: String, origin: String) -> Result<Self, ConfigError> {
        // The number of workers depends on the CPUs that this process may use.
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        Self::settled(text, origin, |config| config.settle_workers(cpus))
    }

    fn settled(
        text: String,
        origin: String,
        settle: impl FnOnce(&mut Config),
    ) -> Result<Self, ConfigError> {
        let (mut config, misshapen) = match parse_shape::<Config>(&text) {
            Ok(config) => (config, None),
            Err(faults) => match without(&text, &faults) {
                Some(config) => (config, Some(faults)),
                None => return Err(value_error(&origin, &text, faults)),
            },
        };
        settle(&mut config);
        let faults = misshapen.or_else(|| validate(&config).err());
        Ok(Self {
            origin,
            text,
            config,
            faults: faults.unwrap_or_default(),
        })
    }

    /// The configuration as far as it can be understood.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Whether a value at `path`, below it or above it is invalid.
    pub fn is_faulty_at(&self, path: &KeyPath) -> bool {
        self.faults.is_near(path)
    }

    /// Whether anything is invalid.
    pub fn is_faulty(&self) -> bool {
        !self.faults.0.is_empty()
    }

    fn checked(self) -> Result<Config, ConfigError> {
        self.finish(Ok(())).map(|(config, ())| config)
    }

    /// Returns the configuration and the value made from it, if nothing is invalid.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`]: all faults, with those in `found` at other paths.
    pub fn finish<T>(mut self, found: Check<T>) -> Result<(Config, T), ConfigError> {
        match found {
            Ok(made) if !self.is_faulty() => return Ok((self.config, made)),
            Ok(_) => {}
            Err(Faults(mut more)) => {
                more.retain(|fault| !self.is_faulty_at(&fault.path));
                self.faults.0.extend(more);
            }
        }
        Err(value_error(&self.origin, &self.text, self.faults))
    }
}

/// Parses a text without the members at these paths; `None` if the rest is not a configuration.
fn without(text: &str, faults: &Faults) -> Option<Config> {
    let mut json: Value = serde_json::from_str(text).ok()?;
    for fault in &faults.0 {
        let (last, before) = fault.path.0.split_last()?;
        let member = before.iter().try_fold(&mut json, |value, step| match step {
            Step::Key(key) => value.get_mut(key.as_ref()),
            Step::Index(index) => value.get_mut(index),
        });
        // Entries of a list are kept: removing one would move those behind it.
        if let (Some(Value::Object(members)), Step::Key(key)) = (member, last) {
            members.remove(key.as_ref());
        }
    }
    serde_json::from_value(json).ok()
}

#[cfg(test)]
mod tests;
