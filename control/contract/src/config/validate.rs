//! What no type can say: ranges, and names that refer to each other.

use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;
use std::ops::RangeInclusive;

use super::memory::Memory;
use super::packets::Held;
use super::{Config, Worker};

mod classes;
mod forwarding;
mod measurement;
mod ports;
mod ranges;
mod report;
mod serving;
mod wire;

pub use serving::http;

/// One step into a JSON document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step<'k> {
    Key(&'k str),
    Index(usize),
}

/// A path in a JSON document, displayed as `ports[1].egress.queue_packets`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyPath(pub(super) Vec<Step<'static>>);

impl KeyPath {
    /// The path of a member.
    #[must_use]
    pub fn key(&self, key: &'static str) -> Self {
        Self([&self.0[..], &[Step::Key(key)]].concat())
    }

    /// The path of an element, from 0.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self([&self.0[..], &[Step::Index(index)]].concat())
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
    /// What it may be.
    pub expected: String,
    /// What it is.
    pub got: String,
}

/// What a check comes to.
pub type Check = Result<(), Invalid>;

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
    Err(Invalid {
        path,
        expected: expected.to_string(),
        got: got.to_string(),
    })
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
fn laid_out<T>(
    path: KeyPath,
    layout: Result<T, impl fmt::Display>,
    expected: &str,
) -> Result<T, Invalid> {
    layout.map_err(|error| Invalid {
        path,
        expected: expected.to_owned(),
        got: error.to_string(),
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
    let expected = format!("{} to {} {what}", range.start(), range.end());
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
    ensure(known.contains(&name), path, expected, format!("{name:?}"))
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

/// Checks every range and reference; the first that does not hold is the error.
pub(super) fn validate(config: &Config) -> Check {
    let root = KeyPath::default();
    ranges::ranges(config)?;
    name(root.key("name"), &config.name)?;
    classes::classes(&root.key("classes"), config)?;
    ports::ports(&root.key("ports"), config)?;
    forwarding::forwarding(&root.key("forwarding"), config)?;
    classes::rules(&root.key("rules"), config)?;
    workers(&root.key("workers"), config)?;
    measurement::measurement(&root.key("measurement"), config)?;
    wire::switch(&root.key("wire"), config)?;
    wire::wires(&root.key("ports"), config)?;
    serving::http(&root.key("http"), &config.http)?;
    serving::prometheus(&root.key("prometheus"), &config.prometheus)?;
    report::report(&root.key("report"), config.report.as_ref())?;
    packets(root.key("dpdk").key("mbufs"), config)?;
    budget(root.key("memory_budget_mib"), config)
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
    for (index, Worker { core, .. }) in workers.iter().enumerate() {
        if let Some(core) = core {
            let path = path.index(index).key("core");
            unique(&mut cores, core, path, "a CPU of its own")?;
        }
    }
    if workers.iter().any(|worker| worker.queues.is_some()) {
        queues(path, config)?;
    }
    Ok(())
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
