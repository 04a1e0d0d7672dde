//! From text to a [`Config`], with errors that say where.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io;

use schemars::{JsonSchema, schema_for};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_path_to_error::{Path, Segment};

use super::validate::{Faults, Invalid, KeyPath, Step, validate};
use super::{Config, PORTS_MAX, shape};
use crate::file;

/// What serde says of a key that is there twice, before it; and what we say, after it.
const TWICE_OF_SERDE: &str = "duplicate field ";
const TWICE: &str = " is given twice";

/// Most faults that are listed; of more only the number is given.
const LISTED_MAX: usize = 20;

/// Most bytes of a configuration: as many static stations as there may be, and room.
const BYTES_MAX: u64 = 256 << 20;

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{origin}: cannot read the configuration: {error}")]
    Read {
        /// The file.
        origin: String,
        /// Why not.
        error: io::Error,
    },
    /// It is not JSON, or not of the right shape, or values mean nothing or are out of range.
    #[error("{}", listed(.faults, *.more))]
    Invalid {
        /// The first of them, at most 20.
        faults: Vec<Fault>,
        /// How many more there are.
        more: usize,
    },
    /// A running switch has no index left for another port.
    #[error(
        "ports: the switch has had {PORTS_MAX} ports since its start, those that are gone counted; \
         restart it to name more"
    )]
    Ports,
}

/// Something that is wrong in a configuration's text.
#[derive(Debug)]
pub struct Fault {
    /// Where, by line and column.
    pub at: Position,
    /// Where, by keys, and what.
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

impl ConfigError {
    fn of(fault: Fault) -> Self {
        let (faults, more) = (vec![fault], 0);
        Self::Invalid { faults, more }
    }
}

/// A position in a configuration's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The file.
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
    pub fn load(path: impl AsRef<std::path::Path>) -> Result<Self, ConfigError> {
        let (text, origin) = read_file(path.as_ref())?;
        Self::parse(&text, &origin)
    }

    /// Reads and checks a configuration file anew for a switch that runs `running`, and puts it in
    /// order ([`Config::in_place_of`]). Where the file names no workers they stay as they are.
    ///
    /// # Errors
    /// [`ConfigError`]: as [`Config::load`], or more ports than there are indices.
    pub fn load_again(
        path: impl AsRef<std::path::Path>,
        running: &Self,
    ) -> Result<Self, ConfigError> {
        let (text, origin) = read_file(path.as_ref())?;
        let keep_workers = |config: &mut Self| {
            if config.workers.is_empty() {
                config.workers.clone_from(&running.workers);
            }
        };
        Self::parse_and_settle(&text, &origin, keep_workers)?.in_place_of(running)
    }

    /// Reads and checks a configuration; `origin` names it in errors.
    ///
    /// # Errors
    /// [`ConfigError`]: not JSON, an unknown key, a value out of range.
    pub fn parse(text: &str, origin: &str) -> Result<Self, ConfigError> {
        Self::parse_and_settle(text, origin, Self::settle_here)
    }

    fn parse_and_settle(
        text: &str,
        origin: &str,
        settle: impl FnOnce(&mut Self),
    ) -> Result<Self, ConfigError> {
        let mut config: Self = parse_json(text, origin)?;
        settle(&mut config);
        validate(&config).map_err(|faults| value_error(origin, text, faults))?;
        Ok(config)
    }

    /// Names workers by the CPUs that this process may use.
    pub(super) fn settle_here(&mut self) {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        self.settle_workers(cpus);
    }
}

/// Reads the JSON file of another configuration, whose ranges its owner checks.
///
/// # Errors
/// [`ConfigError`]: not readable, not JSON, an unknown key.
pub fn parse_file<T: DeserializeOwned + JsonSchema>(
    path: &std::path::Path,
) -> Result<T, ConfigError> {
    let (text, origin) = read_file(path)?;
    parse_json(&text, &origin)
}

/// A file's text, and what it is called in errors.
///
/// # Errors
/// [`ConfigError::Read`]: it cannot be read, is no regular file, or has more than 256 MiB.
pub fn read_file(path: &std::path::Path) -> Result<(String, String), ConfigError> {
    let origin = path.display().to_string();
    match file::read_text(path, BYTES_MAX) {
        Ok(text) => Ok((text, origin)),
        Err(error) => Err(ConfigError::Read { origin, error }),
    }
}

/// What the text spells, of the right shape but not checked yet; `origin` names it in errors.
///
/// # Errors
/// [`ConfigError::Invalid`]: not JSON, or not of this shape.
pub fn parse_json<T: DeserializeOwned + JsonSchema>(
    text: &str,
    origin: &str,
) -> Result<T, ConfigError> {
    parse_shape(text, origin).map_err(|misshapen| match misshapen {
        Misshapen::NoJson(error) => error,
        Misshapen::Values(faults) => value_error(origin, text, faults),
    })
}

/// Why a text has not the shape that it should have.
pub(super) enum Misshapen {
    /// It is not JSON.
    NoJson(ConfigError),
    /// Some of its values or keys are wrong.
    Values(Faults),
}

pub(super) fn parse_shape<T: DeserializeOwned + JsonSchema>(
    text: &str,
    origin: &str,
) -> Result<T, Misshapen> {
    let mut json = serde_json::Deserializer::from_str(text);
    let parsed = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let first = shape_fault(origin, text, error.path(), error.inner());
        shape_error::<T>(text, first)
    })?;
    json.end().map_err(|error| {
        let (at, message) = position_of(origin, &error);
        let invalid = Invalid::said(KeyPath::default(), message);
        Misshapen::NoJson(ConfigError::of(Fault { at, invalid }))
    })?;
    Ok(parsed)
}

/// All that is wrong with the shape of a text; serde says only the `first`.
fn shape_error<T: JsonSchema>(text: &str, first: Fault) -> Misshapen {
    let is_json = serde_json::from_str::<&RawValue>(text).is_ok();
    let schema = schema_for!(T).into();
    let mut faults = shape::faults(text, &schema);
    // What a parser of ours refuses, which no schema says.
    let is_said = |fault: &Invalid| fault.path.is_near(&first.invalid.path);
    if !is_json {
        return Misshapen::NoJson(ConfigError::of(first));
    }
    if first.invalid.expected.ends_with(TWICE) || !faults.iter().any(is_said) {
        faults.push(first.invalid);
    }
    Misshapen::Values(Faults(faults))
}

/// Whether the text has a value at this path, not a default.
pub(super) fn is_given(text: &str, path: &KeyPath) -> bool {
    let root: Option<&RawValue> = serde_json::from_str(text).ok();
    let mut steps = path.0.iter();
    let value = root.and_then(|root| steps.try_fold(root, |value, step| member(value.get(), step)));
    value.is_some()
}

/// A value that may not be there at all.
pub(super) fn refusal(origin: &str, text: &str, path: KeyPath, message: &str) -> ConfigError {
    value_error(origin, text, Invalid::said(path, message).into())
}

/// JSON that is no configuration: points at the value that is wrong.
fn shape_fault(origin: &str, text: &str, path: &Path, error: &serde_json::Error) -> Fault {
    let (end, mut message) = position_of(origin, error);
    let steps = path.iter().filter_map(|segment| match segment {
        Segment::Map { key } => Some(Step::Key(Cow::Owned(key.clone()))),
        Segment::Seq { index } => Some(Step::Index(*index)),
        // Where not even the key could be read.
        _ => None,
    });
    let path = KeyPath(steps.collect());
    if path.is_secret() {
        hide_value(&mut message);
    }
    if let Some(hint) = no_json_hint(text, &end) {
        message = format!("{message}: {hint}");
    }
    if let Some(key) = message.strip_prefix(TWICE_OF_SERDE) {
        message = format!("{key}{TWICE}");
    }
    Fault {
        at: position(origin, text, &path).unwrap_or(end),
        invalid: Invalid::said(path, message),
    }
}

/// What to do about what others call JSON, where that is what stopped reading.
fn no_json_hint(text: &str, end: &Position) -> Option<&'static str> {
    if text.trim().is_empty() {
        return Some("the file is empty; expected an object");
    }
    let line = text.lines().nth(end.line.checked_sub(1)?)?;
    // Reading stops within a comment's first two characters, or before them.
    let column = end.column.saturating_sub(2);
    let rest: String = line.chars().skip(column).collect();
    let is_comment = |rest: &str| {
        let rest = rest.trim_start_matches([' ', '\t', ',', '{', '[']);
        ["//", "/*", "#"].iter().any(|mark| rest.starts_with(mark))
    };
    is_comment(&rest).then_some("JSON has no comments")
}

/// Leaves what was expected, and not what was found.
fn hide_value(message: &mut String) {
    if let Some((_, expected)) = message.rsplit_once(", expected ") {
        *message = format!("expected {expected}, got something else");
    }
}

/// Where reading stopped, and why.
fn position_of(origin: &str, error: &serde_json::Error) -> (Position, String) {
    let (line, column) = (error.line(), error.column());
    let mut message = error.to_string();
    let end = format!(" at line {line} column {column}");
    message.truncate(message.strip_suffix(&end).unwrap_or(&message).len());
    let at = Position {
        origin: origin.to_owned(),
        line,
        column,
    };
    (at, message)
}

/// The error of values in a text that was parsed before, in the order of the text.
pub fn value_error(origin: &str, text: &str, Faults(faults): Faults) -> ConfigError {
    let more = faults.len().saturating_sub(LISTED_MAX);
    let faults = faults.into_iter().take(LISTED_MAX).map(|invalid| Fault {
        at: value_position(origin, text, &invalid.path),
        invalid,
    });
    let mut faults: Vec<Fault> = faults.collect();
    faults.sort_by_key(|fault| (fault.at.line, fault.at.column));
    ConfigError::Invalid { faults, more }
}

/// Where a value is, of a text that is JSON.
fn value_position(origin: &str, text: &str, path: &KeyPath) -> Position {
    let found = position(origin, text, path);
    debug_assert!(found.is_some(), "the text was parsed before");
    found.unwrap_or(Position {
        origin: origin.to_owned(),
        line: 1,
        column: 1,
    })
}

/// Where a value begins, or, for a default, the nearest value around it. `None`
/// when the text is not JSON.
fn position(origin: &str, text: &str, path: &KeyPath) -> Option<Position> {
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
    Some(Position {
        origin: origin.to_owned(),
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
    })
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

#[cfg(test)]
pub(super) mod tests;
