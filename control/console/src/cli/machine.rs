//! Whether a switch would start on this machine: asked of `vernierd`, which looks with what it starts with.

use std::io;
use std::path::Path;
use std::process::Command;

use serde::Serialize;

/// What `vernierd --check` says.
#[derive(Debug, Serialize)]
pub struct Machine {
    /// `null` where there is no `vernierd` here.
    would_start: Option<bool>,
    /// What keeps it from starting, a line for each fault.
    faults: Vec<String>,
}

impl Machine {
    /// Asks the `vernierd` beside this program, or else that of `PATH`.
    ///
    /// # Errors
    /// The system's, where it is there and cannot be run.
    pub fn of(file: &Path) -> io::Result<Self> {
        let beside = std::env::current_exe()?.with_file_name("vernierd");
        let program = if beside.is_file() {
            beside
        } else {
            "vernierd".into()
        };
        let asked = Command::new(program)
            .args(["--check", "--config"])
            .arg(file)
            .output();
        let output = match asked {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let (would_start, faults) = (None, Vec::new());
                return Ok(Self {
                    would_start,
                    faults,
                });
            }
            other => other?,
        };
        let words = String::from_utf8_lossy(&output.stderr);
        let faults = words
            .lines()
            .filter_map(|line| line.strip_prefix("vernierd: "));
        Ok(Self {
            would_start: Some(output.status.success()),
            faults: faults.map(str::to_owned).collect(),
        })
    }

    /// What keeps a switch from starting.
    pub fn faults(&self) -> impl Iterator<Item = &str> {
        self.faults.iter().map(String::as_str)
    }

    /// Whether a start would fail.
    pub fn is_refused(&self) -> bool {
        self.would_start == Some(false)
    }

    pub fn text(&self) -> String {
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
