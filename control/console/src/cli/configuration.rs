//! Configurations: whether one is valid, what it would use, and how it differs from the running one.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::Context;
use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::output::print_page;
use super::{Correctable, DONE, Globals, Json, REFUSED, UNUSABLE, print, print_json};
use crate::view::Look;
use contract::check;
use contract::check::cost::Step;
use contract::config::memory::{self, Item, Memory};
use contract::config::{Change, Config, ConfigError, Fault};
use contract::units::counted;

/// `vernier check`.
#[derive(Debug, Args)]
pub struct Check {
    /// The configuration (JSON)
    file: PathBuf,
    /// Do not ask a running switch what a reload would change
    #[arg(long)]
    offline: bool,
    /// Do not check whether a switch would start on this machine; this is also skipped if a switch answers
    #[arg(long = "static")]
    is_static: bool,
    #[command(flatten)]
    form: Json,
}

/// `vernier config`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print the running configuration of a switch, with all defaults (JSON)
    Show(Json),
    /// Print how FILE differs from the running configuration, or OTHER from FILE (except
    /// `measurement.hash_seed`, which a switch does not show)
    Diff(Diff),
}

/// `vernier config diff`.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 same, 1 different, 2 trouble.")]
pub struct Diff {
    /// A configuration (JSON)
    file: PathBuf,
    /// Another file: print the changes from FILE to it, without asking a switch
    other: Option<PathBuf>,
    #[command(flatten)]
    form: Json,
}

/// `vernier config`: show or diff.
pub(super) fn run(globals: &Globals, command: &Command) -> anyhow::Result<u8> {
    match command {
        // The output is always JSON.
        Command::Show(_) => {
            let config: Value = globals.switch()?.get("/api/v1/config", &[])?;
            print_json(&config)
        }
        Command::Diff(diff) => compare(globals, diff),
    }
}

fn compare(globals: &Globals, diff: &Diff) -> anyhow::Result<u8> {
    let file = Config::load(&diff.file)?;
    let changes = match &diff.other {
        Some(other) => file.diff(&Config::load_again(other, &file)?),
        None => from_running(globals.switch()?.config()?, &diff.file)?,
    };
    if diff.form.json {
        print_json(&changes)?;
    } else {
        print(&changes.iter().map(difference_text).collect::<String>())?;
    }
    Ok(u8::from(!changes.is_empty()))
}

/// Changes that a file would make in a running configuration. The seed of the hashes is not compared, because a switch
/// does not show its own.
fn from_running(mut running: Config, file: &Path) -> Result<Vec<Change>, ConfigError> {
    let config = Config::load_again(file, &running)?;
    let seed = &config.measurement.hash_seed;
    running.measurement.hash_seed.clone_from(seed);
    Ok(running.diff(&config))
}

/// `vernier check`: what a configuration would use and, if a switch answers, what a reload would change.
pub(super) fn check(globals: &Globals, check: &Check) -> anyhow::Result<u8> {
    let config = match Config::load(&check.file) {
        Ok(config) => config,
        Err(error) => return invalid(check, error),
    };
    let reload = if check.offline {
        None
    } else {
        Some(Prospect::of(globals, check)?)
    };
    let is_refused = (reload.as_ref()).is_some_and(|reload| !all_live(&reload.changes));
    // Resources of a running switch are not available to another one.
    let answers = reload.as_ref().is_some_and(|reload| reload.url.is_some());
    let machine = if check.is_static || answers {
        None
    } else {
        Some(Machine::of(&check.file).context("cannot run vernierd")?)
    };
    let would_not_start = machine.as_ref().is_some_and(Machine::is_refused);
    if check.form.json {
        print_json(&Checked {
            machine,
            ..Checked::new(&config, reload.as_ref())
        })?;
    } else {
        let reload = reload.as_ref().map(Prospect::text);
        let machine = machine.as_ref().map(Machine::text);
        let more: Vec<String> = machine.into_iter().chain(reload).collect();
        print_page(Look::of_stdout(false, globals.color), |page| {
            page.say(&check::verdict(&config));
            page.say(&more.concat());
            page.say("\n");
            page.say(&check::report(&config));
        })?;
    }
    Ok(match (is_refused, would_not_start) {
        (true, _) => REFUSED,
        (false, true) => UNUSABLE,
        (false, false) => DONE,
    })
}

/// Lists the errors of a configuration and, unless only its text is checked, everything else that would prevent a start
/// here.
fn invalid(check: &Check, error: ConfigError) -> anyhow::Result<u8> {
    let faults = match &error {
        ConfigError::Invalid { faults, .. } => &faults[..],
        _ => &[],
    };
    let is_shown = !check.is_static && !faults.is_empty();
    // Without `vernierd`, report only the errors found here.
    let machine = is_shown.then(|| Machine::of(&check.file).ok()).flatten();
    let machine = machine.filter(Machine::is_refused);
    if check.form.json {
        let invalid = Checked {
            valid: false,
            error: Some(error.to_string()),
            faults,
            machine,
            ..Checked::default()
        };
        print_json(&invalid)?;
        return Err(error.into());
    }
    let words = error.to_string();
    let known: Vec<&str> = words.lines().collect();
    let faults = machine.iter().flat_map(|machine| &machine.faults);
    let more = faults
        .map(String::as_str)
        .filter(|fault| !known.contains(fault));
    let all: Vec<&str> = known.iter().copied().chain(more).collect();
    print(&format!("{}\n", counted(all.len(), "error")))?;
    Err(Correctable(all.join("\n")).into())
}

fn all_live(changes: &[Change]) -> bool {
    changes.iter().all(Change::is_live)
}

/// The outcome of a reload.
#[derive(Debug, Default, Serialize)]
struct Prospect {
    /// `null` if the switch could not be asked.
    url: Option<String>,
    switch: Option<String>,
    /// `null` if the switch could not be asked.
    is_refused: Option<bool>,
    /// Why it could not be asked, or why it would refuse before comparing.
    reason: Option<String>,
    /// The changes that it would make if nothing were refused.
    changes: Vec<Change>,
}

impl Prospect {
    fn of(globals: &Globals, check: &Check) -> anyhow::Result<Self> {
        let client = globals.switch()?;
        let running = match client.config() {
            Ok(running) => running,
            Err(error) => {
                return Ok(Self {
                    reason: Some(error.to_string()),
                    ..Self::default()
                });
            }
        };
        let url = Some(client.url().to_owned());
        let switch = running.name.clone();
        Ok(match from_running(running, &check.file) {
            Ok(changes) => Self {
                url,
                switch: Some(switch),
                is_refused: Some(!all_live(&changes)),
                reason: None,
                changes,
            },
            Err(error) => Self {
                url,
                is_refused: Some(true),
                reason: Some(error.to_string()),
                ..Self::default()
            },
        })
    }

    fn text(&self) -> String {
        let reason = self.reason.as_deref().unwrap_or_default();
        let Some(url) = &self.url else {
            return format!("a reload was not checked: {reason}\n");
        };
        let Some(switch) = &self.switch else {
            return format!("a reload of the switch at {url} would be refused: {reason}\n");
        };
        let would = format!("a reload of the switch \"{switch}\" at {url} would");
        let lines = |changes: &[&Change]| {
            let mut text = String::new();
            for change in changes {
                write_difference(&mut text, change, "  ", "");
                if let Some(why) = change.fixed {
                    let _ = writeln!(text, "    {why}");
                }
            }
            text
        };
        let (live, fixed): (Vec<&Change>, Vec<&Change>) =
            self.changes.iter().partition(|change| change.is_live());
        let (changed, refused) = (lines(&live), lines(&fixed));
        match (live.is_empty(), fixed.is_empty()) {
            (true, true) => format!("{would} change nothing\n"),
            (false, true) => format!("{would} change, at the end of an epoch:\n{changed}"),
            (is_all, false) => {
                let more = if is_all {
                    ""
                } else {
                    "and without them it would change:\n"
                };
                format!(
                    "{would} be REFUSED as a whole; these need a restart:\n{refused}{more}{changed}"
                )
            }
        }
    }
}

/// The result of `check`, as JSON.
#[derive(Debug, Default, Serialize)]
struct Checked<'c> {
    valid: bool,
    /// Errors in the file, as lines.
    error: Option<String>,
    /// The same errors as a list.
    faults: &'c [Fault],
    switch: Option<&'c str>,
    ports: Vec<&'c str>,
    segments: usize,
    workers: usize,
    packet_bytes: usize,
    memory_bytes: usize,
    memory: Vec<Item>,
    cost: Vec<Step>,
    reload: Option<&'c Prospect>,
    /// Whether it would start on this machine; `null` if that was not checked.
    machine: Option<Machine>,
}

impl<'c> Checked<'c> {
    fn new(config: &'c Config, reload: Option<&'c Prospect>) -> Self {
        let memory = Memory::of(config);
        Self {
            valid: true,
            switch: Some(&config.name),
            ports: config.ports.iter().map(|port| port.name.as_str()).collect(),
            segments: config.segments().len(),
            workers: config.workers.len(),
            packet_bytes: memory::packet_bytes(config),
            memory_bytes: memory.total_bytes(),
            memory: memory.items().to_vec(),
            cost: check::cost::steps(config),
            reload,
            ..Self::default()
        }
    }
}

/// Longest value, in characters, that is printed on the line of its key.
const INLINE_CHARS_MAX: usize = 60;

/// `measurement.lds.cells: 70000 -> 4000 (live)`, or why it needs a restart.
fn difference_text(change: &Change) -> String {
    let how = match change.fixed {
        Some(why) => format!(" (needs a restart: {why})"),
        None => " (live)".to_owned(),
    };
    let mut text = String::new();
    write_difference(&mut text, change, "", &how);
    text
}

/// Appends both values of a change, indented, with `how` behind the key's line.
fn write_difference(text: &mut String, change: &Change, indent: &str, how: &str) {
    let path = &change.path;
    let (old, new) = (change.old.to_string(), change.new.to_string());
    let fits = |value: &str| value.chars().count() <= INLINE_CHARS_MAX;
    if fits(&old) && fits(&new) {
        let _ = writeln!(text, "{indent}{path}: {old} -> {new}{how}");
        return;
    }
    let _ = writeln!(text, "{indent}{path}:{how}");
    let (old, new) = (json_lines(&change.old), json_lines(&change.new));
    let diff = TextDiff::from_lines(&old, &new);
    for (number, group) in diff.grouped_ops(1).iter().enumerate() {
        if number > 0 {
            let _ = writeln!(text, "{indent}    ...");
        }
        for line in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match line.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            let _ = writeln!(text, "{indent}  {sign} {}", line.value().trim_end());
        }
    }
}

/// A value over several lines; a missing value has no lines.
fn json_lines(value: &Value) -> String {
    if value.is_null() {
        String::new()
    } else {
        format!("{value:#}\n")
    }
}

/// Result of `vernierd --check`.
#[derive(Debug, Default, Serialize)]
struct Machine {
    /// `null` if there is no `vernierd` on this machine.
    would_start: Option<bool>,
    /// Reasons that prevent a start, one per line.
    faults: Vec<String>,
}

impl Machine {
    /// Runs the `vernierd` in the folder of this program, or else the one in `PATH`.
    ///
    /// # Errors
    /// The system's, if it exists but cannot be run.
    fn of(file: &Path) -> io::Result<Self> {
        let beside = std::env::current_exe()?.with_file_name("vernierd");
        let program = if beside.is_file() {
            beside
        } else {
            "vernierd".into()
        };
        let asked = process::Command::new(program)
            .args(["--check", "--config"])
            .arg(file)
            .output();
        let output = match asked {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            other => other?,
        };
        let words = String::from_utf8_lossy(&output.stderr);
        let faults = words.lines();
        let faults = faults.filter_map(|line| line.strip_prefix("vernierd: "));
        Ok(Self {
            would_start: Some(output.status.success()),
            faults: faults.map(str::to_owned).collect(),
        })
    }

    /// Whether a start would fail.
    fn is_refused(&self) -> bool {
        self.would_start == Some(false)
    }

    fn text(&self) -> String {
        match self.would_start {
            None => "this machine was not checked: there is no vernierd here\n".to_owned(),
            Some(true) => "a switch would start here\n".to_owned(),
            Some(false) => {
                let faults = self.faults.join("\n  ");
                format!("a switch would NOT start here:\n  {faults}\n")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn change(path: &str, fixed: Option<&'static str>) -> Change {
        Change {
            path: path.to_owned(),
            old: json!(1),
            new: json!(2),
            fixed,
        }
    }

    fn prospect(changes: Vec<Change>) -> String {
        let prospect = Prospect {
            url: Some("http://x".to_owned()),
            switch: Some("demo".to_owned()),
            changes,
            ..Prospect::default()
        };
        prospect.text()
    }

    #[test]
    fn live_and_refused_changes_are_separate() {
        let nothing = prospect(Vec::new());
        assert_eq!(
            nothing,
            "a reload of the switch \"demo\" at http://x would change nothing\n"
        );
        let live = prospect(vec![change("a", None)]);
        assert!(
            live.contains("would change, at the end of an epoch:\n  a: 1"),
            "{live}"
        );
        let both = prospect(vec![change("a", None), change("name", Some("why"))]);
        let (refused, changed) = both.split_once("and without them").unwrap();
        assert!(
            refused.contains("REFUSED") && refused.contains("  name: 1"),
            "{both}"
        );
        assert!(refused.contains("\n    why\n"), "{both}");
        assert!(
            changed.contains("  a: 1") && !changed.contains("name"),
            "{both}"
        );
    }

    fn between(old: Value, new: Value) -> String {
        difference_text(&Change {
            path: "a.b".to_owned(),
            old,
            new,
            fixed: None,
        })
    }

    #[test]
    fn what_fits_stands_on_one_line() {
        assert_eq!(between(json!(1), json!([2])), "a.b: 1 -> [2] (live)\n");
    }

    #[test]
    fn of_what_does_not_fit_the_lines_that_differ_are_shown() {
        let rules = |ports: u16| {
            let voice = json!({ "class": "voice", "ports": ports, "protocol": "udp" });
            json!([voice, { "class": "bulk", "ports": 80 }])
        };
        let expected = [
            "a.b: (live)",
            "        \"class\": \"voice\",",
            "  -     \"ports\": 5004,",
            "  +     \"ports\": 5006,",
            "        \"protocol\": \"udp\"",
        ];
        let said = between(rules(5004), rules(5006));
        assert_eq!(said.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_is_new_is_shown_whole() {
        let long = "x".repeat(100);
        assert_eq!(
            between(Value::Null, json!(long)),
            format!("a.b: (live)\n  + \"{long}\"\n")
        );
    }
}
