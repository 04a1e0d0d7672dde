//! Writes man pages and completions of all programs into a folder, as packages install them: `man1`, `man8`, `bash`, `fish`,
//! `zsh`.
#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Command, CommandFactory, Parser};
use clap_complete::{Shell, generate_to};
use clap_mangen::Man;

#[derive(Debug, Parser)]
struct Arguments {
    /// Output folder; created if necessary
    folder: PathBuf,
}

/// A program, and its section of the manual: 1 for users, 8 for services.
fn programs() -> [(Command, &'static str); 4] {
    [
        (console::cli::command(), "1"),
        (probe::cli::Arguments::command(), "8"),
        (station::cli::Arguments::command(), "8"),
        (daemon::cli::Arguments::command(), "8"),
    ]
}

fn main() -> Result<()> {
    write(&Arguments::parse().folder)
}

fn write(folder: &Path) -> Result<()> {
    let make = |name: &str| {
        let folder = folder.join(name);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok::<_, anyhow::Error>(folder)
    };
    for (command, section) in programs() {
        let pages = make(&format!("man{section}"))?;
        write_pages(command.clone(), section, &pages)?;
        let name = command.get_name().to_owned();
        for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
            let scripts = make(&shell.to_string())?;
            generate_to(shell, &mut command.clone(), &name, scripts)?;
        }
    }
    Ok(())
}

/// A page for the command, and one for each subcommand: `vernier-config-diff.1`.
fn write_pages(command: Command, section: &'static str, folder: &Path) -> Result<()> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let name = command.get_display_name().unwrap_or(command.get_name());
    let file = folder.join(format!("{name}.{section}"));
    let below: Vec<Command> = command.get_subcommands().cloned().collect();
    let mut page = Vec::new();
    let source = concat!("Vernier ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command).section(section).source(source);
    man.manual("Vernier").render(&mut page)?;
    fs::write(&file, page).with_context(|| file.display().to_string())?;
    below
        .into_iter()
        .filter(|command| !command.is_hide_set())
        .try_for_each(|command| write_pages(command, section, folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_and_command_has_a_page_and_completions() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        let read = |name: &str| {
            let file = folder.path().join(name);
            fs::read_to_string(&file).unwrap_or_else(|error| panic!("{name}: {error}"))
        };
        for (name, words) in [
            ("man1/vernier.1", "vernier\\-config(1)"),
            ("man1/vernier-top.1", "\\-\\-hosts"),
            (
                "man1/vernier-config-diff.1",
                "0 same, 1 different, 2 trouble",
            ),
            ("man8/vernierd.8", "\\-\\-check"),
            ("man8/vernier-probe.8", "\\-\\-reflect"),
            ("man8/vernier-station.8", "\\-\\-nats"),
            ("bash/vernierd.bash", "--log-format"),
            ("fish/vernier.fish", "blame"),
            ("zsh/_vernier-station", "--listen"),
        ] {
            assert!(read(name).contains(words), "{words:?} in {name}");
        }
        assert!(!read("man8/vernierd.8").contains("wire\\-record"), "hidden");
    }
}
