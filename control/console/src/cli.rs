//! `vernier`, the command line tool: shows a running switch, checks configurations, and plans.
//!
//! One module for each kind of command; every command that prints can print JSON too.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::topology::read::ReadError;
use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use serde::Serialize;

use crate::client::{Client, ClientError, DEFAULT_URL, read_token};
use crate::view;
use contract::config::ConfigError;
use contract::text::{is_shown, say};

mod configuration;
mod flows;
mod mset;
mod plan;
mod plugin_args;
mod reload;
mod size;
mod station;
mod tables;
mod topology;

/// Exit code of a command that succeeded.
const DONE: u8 = 0;
/// What the user can correct: usage, a configuration.
const UNUSABLE: u8 = 2;
/// The switch refuses the configuration, or would.
const REFUSED: u8 = 3;

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed: no switch answers, or not in time
  2  bad usage, configuration, token file, topology or numbers; a switch would not start here (check)
  3  a reload is refused (reload), or would be (check)
`config diff` has those of diff(1): 0 same, 1 different, 2 trouble.";

/// Show a Vernier switch, and check configurations.
#[derive(Debug, Parser)]
#[command(name = "vernier", version, after_help = EXIT_CODES)]
struct Arguments {
    #[command(flatten)]
    station: station::Station,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show a live table of a running switch, or of several
    Top(tables::Top),
    /// Print the measured segments; with --station those of all switches
    Segments(Question),
    /// Ask a station for the segments of all paths between two switches
    Path(station::Path),
    /// Ask a station what is slow or lossy, since when, and where: in all of the fleet, on a path, or for a flow
    Blame(station::Blame),
    /// Ask a station which switches are silent, and what is missing of the others
    Missing(Form),
    /// Print the ports
    Ports(Question),
    /// Print the classes over all ports and segments since the switch started
    Classes(Question),
    /// Print the segments on the wire, both directions, and their clock
    Wires(Question),
    /// List the tracked flows, or some of them
    Flows(flows::Flows),
    /// Print everything about one flow, tracked or not
    Flow(flows::Flow),
    /// Print the state of the switch: readiness, last reload, workers, tables
    Status(Question),
    /// Validate a configuration; print what it would use, what a reload of it would change, and whether it would start here
    Check(configuration::Check),
    /// Show the running configuration, or compare configurations
    #[command(subcommand)]
    Config(configuration::Command),
    /// Make a switch read its configuration again, and print the outcome
    Reload(reload::Reload),
    /// Plan an LDA, and an LDS, for a rate, a loss and an error
    Size(size::Size),
    /// Plan which routers of a network to upgrade, so that few probes measure all its paths
    Plan(plan::Plan),
    /// Print the network as a router's OSPF has it, or follow it
    Topology(topology::Topology),
    /// Print which node of a network monitors which segments
    Mset(mset::Mset),
    /// Print the segments of the paths from one router of a network to another, and what nobody measures
    Paths(mset::Chains),
    /// Print the arguments by which a program's EAL loads the plugin, or add them to Open vSwitch's
    PluginArgs(plugin_args::PluginArgs),
    /// Print a completion script for a shell
    Completion {
        /// The shell
        shell: Shell,
    },
}

/// A switch's address, and how its answer is printed.
#[derive(Debug, Args)]
struct Question {
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    form: Form,
}

/// Address and token of a switch.
#[derive(Debug, Clone, Args)]
struct Connection {
    /// The switch's HTTP address
    #[arg(long, value_name = "URL", env = "VERNIER_URL", default_value = DEFAULT_URL)]
    url: String,
    /// File with the switch's token, where it needs one
    #[arg(long, value_name = "FILE", env = "VERNIER_TOKEN_FILE")]
    token_file: Option<PathBuf>,
}

impl Connection {
    /// The client of the switch.
    ///
    /// # Errors
    /// [`ClientError::TokenFile`].
    fn client(&self) -> Result<Client, ClientError> {
        client(&self.url, self.token_file.as_deref())
    }
}

/// A client of the switch or station at `url`, whose token is in this file.
fn client(url: &str, token_file: Option<&Path>) -> Result<Client, ClientError> {
    let token = token_file.map(read_token).transpose()?;
    Ok(Client::new(url, token))
}

/// How an answer is printed.
#[derive(Debug, Clone, Copy, Args)]
struct Form {
    /// Print JSON, with every field
    #[arg(long)]
    json: bool,
}

impl Form {
    /// Prints an answer as JSON or, by `text`, for people.
    fn show<T: Serialize>(self, answer: &T, text: impl FnOnce(&T) -> String) -> anyhow::Result<u8> {
        if self.json {
            print_json(answer)
        } else {
            print(&text(answer))
        }
    }
}

/// The command line, for its manual.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs the tool with the arguments of this process.
pub fn main() -> ExitCode {
    let Arguments { station, command } = Arguments::parse();
    let is_diff = matches!(command, Command::Config(configuration::Command::Diff(_)));
    match run(&station, command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            for line in format!("{error:#}").lines() {
                eprintln!("vernier: {line}");
            }
            ExitCode::from(if is_diff { UNUSABLE } else { exit_code(&error) })
        }
    }
}

fn run(station: &station::Station, command: Command) -> anyhow::Result<u8> {
    match command {
        Command::Top(top) => tables::top(top),
        Command::Segments(question) if station.is_given() => station.segments(question.form),
        Command::Segments(question) => tables::segments(&question),
        Command::Path(asked) => station.path(&asked),
        Command::Blame(asked) => station.blame(&asked),
        Command::Missing(form) => station.missing(form),
        Command::Ports(question) => tables::show(&question, "/api/v1/ports", view::ports),
        Command::Classes(question) => tables::show(&question, "/api/v1/classes", view::classes),
        Command::Wires(question) => tables::show(&question, "/api/v1/wires", view::wires),
        Command::Flows(question) => flows::list(&question),
        Command::Flow(question) => flows::one(&question),
        Command::Status(question) => tables::show(&question, "/api/v1/status", view::status),
        Command::Check(check) => configuration::check(&check),
        Command::Config(command) => configuration::run(&command),
        Command::Reload(reload) => reload::run(&reload),
        Command::Size(size) => size::run(&size),
        Command::Plan(plan) => plan::run(&plan),
        Command::Topology(arguments) => topology::run(&arguments),
        Command::Mset(mset) => mset::run(&mset),
        Command::Paths(chains) => mset::run_chains(&chains),
        Command::PluginArgs(arguments) => plugin_args::run(&arguments),
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "vernier", &mut script);
            print(&String::from_utf8_lossy(&script))
        }
    }
}

/// What the user can correct without the switch, in words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Correctable(String);

impl From<ReadError> for Correctable {
    fn from(error: ReadError) -> Self {
        Self(error.to_string())
    }
}

/// 2 for what the user can correct without the switch.
fn exit_code(error: &anyhow::Error) -> u8 {
    let is_question = matches!(
        error.downcast_ref::<ClientError>(),
        Some(ClientError::TokenFile { .. } | ClientError::Question { .. })
    );
    if is_question || error.is::<ConfigError>() || error.is::<Correctable>() {
        UNUSABLE
    } else {
        1
    }
}

/// Writes to standard output; a reader that stops early (`| head`) is no error. Names may be from anywhere: nothing of them
/// controls the terminal.
fn print(text: &str) -> anyhow::Result<u8> {
    say(&shown(text))?;
    Ok(DONE)
}

fn shown(text: &str) -> String {
    let shown = text.chars();
    shown
        .filter(|&c| matches!(c, '\n' | '\t') || is_shown(c))
        .collect()
}

fn print_json(value: &impl Serialize) -> anyhow::Result<u8> {
    print(&(serde_json::to_string_pretty(value)? + "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn no_name_controls_the_terminal() {
        let text = "a\u{1b}[2J b\u{9b}31m\r\nc\td\u{202e}e\n";
        assert_eq!(shown(text), "a[2J b31m\nc\tde\n");
    }

    #[test]
    fn what_the_user_can_correct_has_code_2() {
        let token = crate::client::read_token("/nowhere".as_ref()).unwrap_err();
        assert_eq!(exit_code(&token.into()), 2);
        let config = contract::config::Config::parse("{", "v.json").unwrap_err();
        assert_eq!(exit_code(&config.into()), 2);
        let url = "http://x".to_owned();
        assert_eq!(exit_code(&ClientError::NoToken { url }.into()), 1);
    }
}
