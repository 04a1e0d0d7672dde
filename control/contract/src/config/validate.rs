//! What no type can say: ranges, and names that refer to each other.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;
use std::ops::RangeInclusive;

use super::memory::Memory;
use super::packets::Held;
use super::{Config, Worker, shape};
use crate::text;

mod classes;
mod forwarding;
mod ipfix;
mod measurement;
mod ports;
mod report;
mod serving;
mod wire;

pub use serving::http;

/// What the keys are called at which, or below which, there are secrets: what is wrong there is not quoted.
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

    /// Whether one of the two is, or is above, the other.
    pub(super) fn is_near(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0) || other.0.starts_with(&self.0)
    }

    /// Whether a secret belongs at this path, or near it.
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

/// A value that means nothing.
#[derive(Debug)]
pub struct Invalid {
    /// Where.
    pub path: KeyPath,
    /// What it may be; or all that is to say.
    pub expected: String,
    /// What it is; `None` where `expected` says it all.
    pub got: Option<String>,
}

impl Invalid {
    /// What was found out where the value was used.
    pub fn said(path: KeyPath, words: impl fmt::Display) -> Self {
        Self {
            path,
            expected: words.to_string(),
            got: None,
        }
    }
}

impl fmt::Display for Invalid {
    /// Removes control characters: quoted values may have some.
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

/// All that is wrong; one thing at least.
#[derive(Debug)]
pub struct Faults(pub Vec<Invalid>);

impl From<Invalid> for Faults {
    fn from(invalid: Invalid) -> Self {
        Self(vec![invalid])
    }
}

impl std::error::Error for Faults {}

impl fmt::Display for Faults {
    /// A line for each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

/// What a check comes to.
pub type Check<T = ()> = Result<T, Faults>;

/// All that several checks find.
///
/// # Errors
/// Every [`Invalid`] of theirs.
pub fn all(checks: impl IntoIterator<Item = Check>) -> Check {
    let faults = checks.into_iter().filter_map(Check::err);
    let faults: Vec<Invalid> = faults.flat_map(|faults| faults.0).collect();
    if faults.is_empty() {
        Ok(())
    } else {
        Err(Faults(faults))
    }
}

/// What must hold.
///
/// # Errors
/// [`Invalid`] where it does not.
pub fn ensure(
    holds: bool,
    path: KeyPath,
    expected: impl fmt::Display,
    got: impl fmt::Display,
) -> Check {
    if holds {
        return Ok(());
    }
    let invalid = Invalid {
        path,
        expected: expected.to_string(),
        got: Some(got.to_string()),
    };
    Err(invalid.into())
}

/// A number in a range.
///
/// # Errors
/// [`Invalid`] beyond it.
pub fn within<T: PartialOrd + fmt::Display>(
    path: KeyPath,
    value: T,
    range: RangeInclusive<T>,
) -> Check {
    let expected = format!("{} to {}", range.start(), range.end());
    ensure(range.contains(&value), path, expected, value)
}

/// Sizes of a synopsis; where they make none, the error says why.
fn laid_out<T>(path: KeyPath, layout: Result<T, impl fmt::Display>, expected: &str) -> Check<T> {
    layout.map_err(|error| {
        let got = Some(error.to_string());
        let expected = expected.to_owned();
        let invalid = Invalid {
            path,
            expected,
            got,
        };
        invalid.into()
    })
}

/// The length of a list: lists are counted, not quoted.
///
/// # Errors
/// [`Invalid`] where it has too few or too many.
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

/// A name: 1 to 64 letters, digits, `.`, `_` or `-`.
///
/// # Errors
/// [`Invalid`] of any other text.
pub fn name(path: KeyPath, name: &str) -> Check {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let holds = (1..=64).contains(&name.len()) && name.chars().all(is_plain);
    let expected = "1 to 64 letters, digits, `.`, `_` or `-`";
    ensure(holds, path, expected, format!("{name:?}"))
}

/// A name that refers to one of `known`; `what` is `port` or `class`.
fn known(path: KeyPath, name: &str, what: &str, known: &[&str]) -> Check {
    let expected = format!("the name of a {what} ({})", known.join(", "));
    let got = format!("{name:?}{}", suggestion(name, known.iter().copied()));
    ensure(known.contains(&name), path, expected, got)
}

/// What must not come twice; `what` ends in "of its own" or the like.
///
/// # Errors
/// [`Invalid`] of what was seen before.
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

/// First and last port of a range of TCP or UDP ports.
fn port_range(path: KeyPath, range: Option<(u16, u16)>) -> Check {
    let (first, last) = range.unwrap_or_default();
    let got = format!("[{first}, {last}]");
    ensure(first <= last, path, "the first port, then the last", got)
}

fn port_names(config: &Config) -> Vec<&str> {
    config.ports.iter().map(|port| port.name.as_str()).collect()
}

fn class_names(config: &Config) -> Vec<&str> {
    let classes = 0..config.class_count();
    classes.map(|class| config.class_name(class)).collect()
}

/// `; did you mean ...?`, where one of the words that there are is like this one.
pub fn suggestion<'w>(word: &str, words: impl IntoIterator<Item = &'w str>) -> String {
    /// How alike two words are at least, 0 to 1: at most two letters of five are another, or in another place.
    const ALIKE: f64 = 0.6;
    let likeness = |known: &&str| strsim::normalized_damerau_levenshtein(word, known);
    let alike = words.into_iter().filter(|known| likeness(known) >= ALIKE);
    let best = alike.max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    best.map_or(String::new(), |best| format!("; did you mean `{best}`?"))
}

/// Checks every range and reference.
///
/// # Errors
/// All that does not hold, but for what has no meaning before other things hold.
pub(super) fn validate(config: &Config) -> Check {
    let root = KeyPath::default();
    let ranges = shape::ranges(config);
    let names = all([
        name(root.key("name"), &config.name),
        classes::classes(&root.key("classes"), config),
        ports::ports(&root.key("ports"), config),
        forwarding::forwarding(&root.key("forwarding"), config),
        classes::rules(&root.key("rules"), config),
        workers(&root.key("workers"), config),
        wire::switch(&root.key("wire"), config),
        serving::http(&root.key("http"), &config.http),
        serving::prometheus(&root.key("prometheus"), &config.prometheus),
        report::report(&root.key("report"), config.report.as_ref()),
        ipfix::ipfix(&root.key("ipfix"), config.ipfix.as_ref()),
    ]);
    if let Err(mut faults) = ranges {
        // Sizes out of range cannot be laid out, and a value is wrong once.
        let Faults(more) = names.err().unwrap_or(Faults(Vec::new()));
        let is_new =
            |fault: &Invalid| !faults.0.iter().any(|known| known.path.is_near(&fault.path));
        let more: Vec<Invalid> = more.into_iter().filter(is_new).collect();
        faults.0.extend(more);
        return Err(faults);
    }
    let measurement = measurement::measurement(&root.key("measurement"), config);
    all([names, measurement])?;
    wire::wires(&root.key("ports"), config)?;
    all([
        packets(root.key("dpdk").key("mbufs"), config),
        budget(root.key("memory_budget_mib"), config),
    ])
}

/// All that is not packets fits.
fn budget(path: KeyPath, config: &Config) -> Check {
    let Some(budget_mib) = config.memory_budget_mib else {
        return Ok(());
    };
    let memory = Memory::of(config);
    let most = memory.largest().map_or("", |item| item.purpose);
    ensure(
        memory.total_mib() <= budget_mib as usize,
        path,
        format!("{} at least (most goes to: {most})", memory.total_mib()),
        budget_mib,
    )
}

/// The pool has more packet buffers than may be held at once: when it is empty no port receives.
fn packets(path: KeyPath, config: &Config) -> Check {
    let held = Held::of(config);
    let expected = format!(
        "{} at least ({} in descriptors of {} workers and all ports, {} in queues, {} in rings, {} by workers)",
        held.total(),
        held.descriptors,
        config.workers.len(),
        held.queues,
        held.rings,
        held.workers,
    );
    let mbufs = config.dpdk.mbufs;
    ensure(held.total() <= mbufs as usize, path, expected, mbufs)
}

fn workers(path: &KeyPath, config: &Config) -> Check {
    let workers = &config.workers;
    let mut cores = HashSet::new();
    let named = workers.iter().enumerate();
    let named = named.filter_map(|(index, Worker { core, .. })| Some((index, (*core)?)));
    let cores = all(named.map(|(index, core)| {
        let path = path.index(index).key("core");
        unique(&mut cores, core, path, "a CPU of its own")
    }));
    let has_queues = workers.iter().any(|worker| worker.queues.is_some());
    let queues = if has_queues {
        queues(path, config)
    } else {
        Ok(())
    };
    all([cores, queues])
}

/// Every receive queue is served by one worker.
fn queues(path: &KeyPath, config: &Config) -> Check {
    let names = port_names(config);
    let mut served = HashSet::new();
    for (index, worker) in config.workers.iter().enumerate() {
        let path = path.index(index);
        let Some(queues) = &worker.queues else {
            let expected = "`queues` for every worker, or for none";
            return ensure(false, path, expected, "a worker without");
        };
        for (index, (name, queue)) in queues.iter().enumerate() {
            let path = path.key("queues").index(index);
            known(path.index(0), name, "port", &names)?;
            let rx_queues = config.port_index(name).map(|port| config.rx_queues(port));
            let last = rx_queues.unwrap_or_default().saturating_sub(1);
            within(path.index(1), *queue, 0..=last)?;
            unique(
                &mut served,
                (name.as_str(), *queue),
                path,
                "a queue that no worker serves yet",
            )?;
        }
    }
    for (port, name) in names.into_iter().enumerate() {
        let unserved = (0..config.rx_queues(port)).find(|&queue| !served.contains(&(name, queue)));
        let queue = unserved.unwrap_or_default();
        ensure(
            unserved.is_none(),
            path.clone(),
            format!("a worker with [{name:?}, {queue}] among its `queues`"),
            "none",
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
