//! `vernier`, the command line tool: looks at a running switch, and at configurations.
//!
//! One module for each kind of question; every command that prints can print JSON too.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use serde::Serialize;

use crate::client::ClientError;
use contract::config::ConfigError;

mod configuration;
mod connection;
mod flows;
mod reload;
mod size;
mod tables;

use connection::Connection;

/// What a command that worked says to the shell.
const DONE: u8 = 0;
/// The switch refuses the configuration, or would.
const REFUSED: u8 = 3;

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed: no switch answers, or not in time
  2  bad usage, configuration, token file or numbers
  3  a reload is refused (reload), or would be (check)
`config diff` has those of diff(1): 0 same, 1 different, 2 trouble.";

/// Looks at a Vernier switch, and at configurations.
#[derive(Debug, Parser)]
#[command(name = "vernier", version, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Live table of a running switch
    Top(Connection),
    /// The measured segments, once
    Segments(Question),
    /// The ports, once
    Ports(Question),
    /// The classes over all ports and segments since the switch started
    Classes(Question),
    /// The segments on the wire, both directions, and the clock they go by
    Wires(Question),
    /// The flows that are tracked, or some of them
    Flows(flows::Flows),
    /// All that is known of one flow, tracked or not
    Flow(flows::Flow),
    /// The switch as a whole: readiness, last reload, workers, tables
    Status(Question),
    /// Validate a configuration, say what it would use, and what a reload of it would change
    Check(configuration::Check),
    /// Show the running configuration, or compare configurations
    #[command(subcommand)]
    Config(configuration::Command),
    /// Let a switch read its configuration again, and say what became of it
    Reload(reload::Reload),
    /// Dimension an LDA, and an LDS, for a rate, a loss and an error
    Size(size::Size),
    /// Print a completion script for a shell
    Completion {
        /// The shell
        shell: Shell,
    },
}

/// A question to a switch that takes no more than where it is.
#[derive(Debug, Args)]
struct Question {
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    form: Form,
}

/// How an answer is printed.
#[derive(Debug, Clone, Copy, Args)]
struct Form {
    /// As JSON, with everything that is known
    #[arg(long)]
    json: bool,
}

/// Runs the tool with the arguments of this process.
pub fn main() -> ExitCode {
    let command = Arguments::parse().command;
    let is_diff = matches!(command, Command::Config(configuration::Command::Diff(_)));
    match run(command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("vernier: {error:#}");
            ExitCode::from(if is_diff { 2 } else { exit_code(&error) })
        }
    }
}

fn run(command: Command) -> anyhow::Result<u8> {
    match command {
        Command::Top(connection) => tables::top(&connection),
        Command::Segments(question) => tables::segments(&question),
        Command::Ports(question) => tables::ports(&question),
        Command::Classes(question) => tables::classes(&question),
        Command::Wires(question) => tables::wires(&question),
        Command::Flows(question) => flows::list(&question),
        Command::Flow(question) => flows::one(&question),
        Command::Status(question) => tables::status(&question),
        Command::Check(check) => configuration::check(&check),
        Command::Config(command) => configuration::run(&command),
        Command::Reload(reload) => reload::run(&reload),
        Command::Size(size) => size::run(&size),
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "vernier", &mut script);
            print(&String::from_utf8_lossy(&script))
        }
    }
}

/// 2 for what the user can put right without looking at the switch.
fn exit_code(error: &anyhow::Error) -> u8 {
    let is_question = matches!(
        error.downcast_ref::<ClientError>(),
        Some(ClientError::TokenFile { .. } | ClientError::Question { .. })
    );
    let is_usage = is_question || error.is::<ConfigError>() || error.is::<size::SizeError>();
    if is_usage { 2 } else { 1 }
}

/// Writes to standard output; a reader that has seen enough (`| head`) is no error.
fn print(text: &str) -> anyhow::Result<u8> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(DONE),
    }
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
    fn what_the_user_can_put_right_has_code_2() {
        let token = crate::client::read_token("/nowhere".as_ref()).unwrap_err();
        assert_eq!(exit_code(&token.into()), 2);
        let config = contract::config::Config::parse("{", "v.json").unwrap_err();
        assert_eq!(exit_code(&config.into()), 2);
        let url = "http://x".to_owned();
        assert_eq!(exit_code(&ClientError::NoToken { url }.into()), 1);
    }
}
