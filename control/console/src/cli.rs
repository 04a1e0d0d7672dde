//! `vernier`, the command line tool: shows a running switch, checks configurations, and plans.
//!
//! One module for each kind of command; every command that prints can print JSON too.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::topology::read::ReadError;
use clap::builder::styling::Styles;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

use crate::client::{Client, ClientError, DEFAULT_STATION_URL, DEFAULT_URL, read_token};
use crate::view;
use contract::config::ConfigError;
use contract::text::with_causes;
use output::{Form, Json, Question, print, print_json};

mod configuration;
mod flows;
mod mset;
mod output;
mod plan;
mod plugin_args;
mod reload;
mod size;
mod station;
mod tables;
mod topology;

/// Exit code of a command that succeeded.
const DONE: u8 = 0;
/// Errors that the user can correct: usage, a configuration.
const UNUSABLE: u8 = 2;
/// The switch refuses the configuration, or would refuse it.
const REFUSED: u8 = 3;

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed: no switch answers, or not in time
  2  bad usage, configuration, token file, topology or numbers; a switch would not start here (check)
  3  a reload is refused (reload), or would be (check)
`config diff` has those of diff(1): 0 same, 1 different, 2 trouble.";

/// Show a Vernier switch or a fleet, check configurations, and plan.
#[derive(Debug, Parser)]
#[command(name = "vernier", version, after_help = EXIT_CODES)]
struct Arguments {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

/// Options that may come before or after the command.
#[derive(Debug, Args)]
struct Globals {
    /// Address of the switch
    #[arg(long, global = true, value_name = "URL", env = "VERNIER_URL", default_value = DEFAULT_URL, hide_env_values = true)]
    url: String,
    /// File with the switch's token, if it needs one
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "VERNIER_TOKEN_FILE",
        hide_env_values = true
    )]
    token_file: Option<PathBuf>,
    #[arg(
        help = "Address of the station [default: http://127.0.0.1:9465]",
        long,
        global = true,
        value_name = "URL",
        env = "VERNIER_STATION",
        hide_env_values = true
    )]
    station: Option<String>,
    /// File with the station's token, if it needs one
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "VERNIER_STATION_TOKEN_FILE",
        hide_env_values = true
    )]
    station_token_file: Option<PathBuf>,
    /// Colour losses and estimates
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show a live table of a switch, or of several
    Top(tables::Top),
    /// Print delay and loss by segment; with --station of all switches
    Segments(Question),
    /// Print the delay and loss of a segment over time
    History(tables::History),
    /// Print the segments of all paths between two switches
    Path(station::Path),
    /// Print what is slow or lossy, since when, and where
    Blame(station::Blame),
    /// Print silent switches, and gaps in the reports of others
    Missing(Question),
    /// Print the ports
    Ports(Question),
    /// Print the classes, summed over all ports and segments
    Classes(Question),
    /// Print the segments between switches, and the clock
    Wires(Question),
    /// List the tracked flows, or some of them
    Flows(flows::Flows),
    /// Print everything about one flow, tracked or not
    Flow(flows::Flow),
    /// Print the state of the switch
    Status(Question),
    /// Check a configuration, what it needs and what a reload changes
    Check(configuration::Check),
    /// Print the running configuration, or compare two
    #[command(subcommand)]
    Config(configuration::Command),
    /// Make the switch read its configuration again
    Reload(reload::Reload),
    /// Size an LDA and an LDS for a rate, a loss and an error
    Size(size::Size),
    /// Choose the routers of a network to upgrade
    Plan(plan::Plan),
    /// Print the network's topology from OSPF, or follow its changes
    Topology(topology::Topology),
    /// Print which node of a network monitors which segments
    Mset(mset::Mset),
    /// Print the segments of the paths between two routers
    Paths(mset::Chains),
    /// Print the EAL arguments that load the plugin
    PluginArgs(plugin_args::PluginArgs),
    /// Print a completion script for a shell
    Completion {
        /// The shell
        shell: Shell,
    },
}

/// The commands by subject. Commands that are not listed are in a last group.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Switch", &SWITCH),
    ("Configuration", &CONFIGURATION),
    ("Fleet", &FLEET),
    ("Planning", &["size", "plan", "topology", "mset", "paths"]),
];

const SWITCH: [&str; 9] = [
    "top", "status", "segments", "history", "flows", "flow", "ports", "classes", "wires",
];

const CONFIGURATION: [&str; 3] = ["check", "config", "reload"];

/// Commands that query a station, like `segments --station`.
const FLEET: [&str; 3] = ["path", "blame", "missing"];

/// Commands that print no table.
const UNCOLOURED: [&str; 6] = [
    "top",
    "config",
    "reload",
    "size",
    "plugin-args",
    "completion",
];

/// Whether an option for all commands has an effect on this one.
fn applies(option: &str, command: &str) -> bool {
    match option {
        "url" | "token_file" => SWITCH.contains(&command) || CONFIGURATION.contains(&command),
        "station" | "station_token_file" => FLEET.contains(&command) || command == "segments",
        "color" => !UNCOLOURED.contains(&command),
        _ => true,
    }
}

impl Globals {
    /// The client of the switch.
    ///
    /// # Errors
    /// [`ClientError::TokenFile`].
    fn switch(&self) -> Result<Client, ClientError> {
        client(&self.url, self.token_file.as_deref())
    }

    /// The client of the station, likewise.
    fn station(&self) -> Result<Client, ClientError> {
        let url = self.station.as_deref().unwrap_or(DEFAULT_STATION_URL);
        Ok(client(url, self.station_token_file.as_deref())?.of_station())
    }
}

/// A client of the switch or station at `url`, whose token is in this file.
fn client(url: &str, token_file: Option<&Path>) -> Result<Client, ClientError> {
    let token = token_file.map(read_token).transpose()?;
    Ok(Client::new(url, token))
}

/// The command line, also for its manual.
pub fn command() -> clap::Command {
    let mut command = Arguments::command();
    let options = command
        .get_arguments()
        .filter(|option| option.is_global_set());
    let options: Vec<_> = options.cloned().collect();
    for below in command.get_subcommands_mut() {
        for option in &options {
            if !applies(option.get_id().as_str(), below.get_name()) {
                *below = std::mem::take(below).arg(option.clone().hide(true));
            }
        }
    }
    let header = *Styles::styled().get_header();
    let groups = groups(&command);
    command.help_template(format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{groups}\n\
         {header}Options:{header:#}\n{{options}}{{after-help}}"
    ))
}

/// The commands in their groups.
fn groups(command: &clap::Command) -> String {
    let styles = Styles::styled();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let mut groups: Vec<(&str, Vec<&clap::Command>)> = GROUPS
        .map(|(title, names)| {
            let commands = names
                .iter()
                .filter_map(|name| command.find_subcommand(name));
            (title, commands.collect())
        })
        .into();
    let is_other = |below: &&clap::Command| {
        let mut names = GROUPS.iter().flat_map(|(_, names)| *names);
        names.all(|name| *name != below.get_name())
    };
    let others = command.get_subcommands().filter(is_other);
    groups.push(("Other", others.collect()));
    let mut text = String::new();
    for (title, commands) in groups {
        let _ = writeln!(text, "\n{header}{title}:{header:#}");
        for below in commands {
            let about = below.get_about().map(ToString::to_string);
            let (name, about) = (below.get_name(), about.unwrap_or_default());
            let _ = writeln!(text, "  {literal}{name:<12}{literal:#} {about}");
        }
    }
    text
}

/// Runs the tool with the arguments of this process.
pub fn main() -> ExitCode {
    let mut command = command();
    let matches = command.get_matches_mut();
    if let Some(why) = misplaced(&matches) {
        command.error(ErrorKind::UnknownArgument, why).exit();
    }
    let arguments = Arguments::from_arg_matches(&matches);
    let Arguments { globals, command } = arguments.unwrap_or_else(|error| error.exit());
    let is_diff = matches!(command, Command::Config(configuration::Command::Diff(_)));
    match run(&globals, command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            complain(&error);
            ExitCode::from(if is_diff { UNUSABLE } else { exit_code(&error) })
        }
    }
}

/// Reports options that have no effect on this command.
fn misplaced(matches: &ArgMatches) -> Option<String> {
    let name = matches.subcommand_name()?;
    let is_given = |option: &&str| {
        matches.value_source(option) == Some(ValueSource::CommandLine) && !applies(option, name)
    };
    let option = ["station", "station_token_file"]
        .into_iter()
        .find(is_given)?;
    let option = option.replace('_', "-");
    Some(format!(
        "--{option} is for path, blame, missing and segments; {name} does not query a station"
    ))
}

/// Writes an error to standard error.
fn complain(error: &anyhow::Error) {
    for line in with_causes(error.as_ref()).lines() {
        eprintln!("vernier: {line}");
    }
}

fn run(globals: &Globals, command: Command) -> anyhow::Result<u8> {
    match command {
        Command::Top(top) => tables::top(globals, &top),
        Command::Segments(question) if globals.station.is_some() => {
            station::segments(globals, question)
        }
        Command::Segments(question) => tables::segments(globals, question),
        Command::History(history) => tables::history(globals, &history),
        Command::Path(asked) => station::path(globals, &asked),
        Command::Blame(asked) => station::blame(globals, &asked),
        Command::Missing(question) => station::missing(globals, question),
        Command::Ports(question) => tables::show(globals, question, "ports", view::ports),
        Command::Classes(question) => tables::show(globals, question, "classes", view::classes),
        Command::Wires(question) => tables::wires(globals, question),
        Command::Flows(question) => flows::list(globals, &question),
        Command::Flow(question) => flows::one(globals, &question),
        Command::Status(question) => tables::status(globals, question),
        Command::Check(check) => configuration::check(globals, &check),
        Command::Config(command) => configuration::run(globals, &command),
        Command::Reload(reload) => reload::run(globals, &reload),
        Command::Size(size) => size::run(&size),
        Command::Plan(plan) => plan::run(globals.color, &plan),
        Command::Topology(arguments) => topology::run(globals.color, &arguments),
        Command::Mset(mset) => mset::run(globals.color, &mset),
        Command::Paths(chains) => mset::run_chains(globals.color, &chains),
        Command::PluginArgs(arguments) => plugin_args::run(&arguments),
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut self::command(), "vernier", &mut script);
            print(&String::from_utf8_lossy(&script))
        }
    }
}

/// An error that the user can correct without the switch.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Correctable(String);

impl From<ReadError> for Correctable {
    fn from(error: ReadError) -> Self {
        Self(error.to_string())
    }
}

/// 2 for errors that the user can correct without the switch.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn options_stand_before_and_after_the_command_where_they_apply() {
        let parse = |line: &str| {
            let matches = command().try_get_matches_from(line.split(' ')).unwrap();
            let globals = Arguments::from_arg_matches(&matches).unwrap().globals;
            (globals, misplaced(&matches))
        };
        for line in [
            "vernier --url http://a segments --station http://b",
            "vernier --station http://b segments --url http://a",
        ] {
            let (globals, misplaced) = parse(line);
            assert_eq!(globals.url, "http://a");
            assert_eq!(globals.station.as_deref(), Some("http://b"));
            assert_eq!(misplaced, None);
        }
        for line in ["vernier --station b ports", "vernier ports --station b"] {
            let why = parse(line).1.unwrap();
            assert!(why.contains("ports does not query a station"), "{why}");
        }
        for (line, urls) in [
            ("vernier --url a top", ["a"].as_slice()),
            ("vernier top --url a --url b,c", &["a", "b", "c"]),
        ] {
            let matches = command().try_get_matches_from(line.split(' ')).unwrap();
            match Arguments::from_arg_matches(&matches).unwrap().command {
                Command::Top(top) => assert_eq!(top.urls, urls, "{line}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn help_has_the_commands_in_groups_and_only_options_that_apply() {
        let help = command().render_help().to_string();
        for (title, names) in GROUPS {
            let (_, group) = help.split_once(&format!("\n{title}:\n")).unwrap();
            let group = group.split("\n\n").next().unwrap();
            let listed = group
                .lines()
                .map(|line| line.split_whitespace().next().unwrap());
            assert!(
                names
                    .iter()
                    .all(|name| listed.clone().any(|one| one == *name)),
                "{help}"
            );
        }
        let mut command = command();
        command.build();
        for (name, has_url, has_station) in [
            ("ports", true, false),
            ("segments", true, true),
            ("blame", false, true),
            ("plan", false, false),
        ] {
            let below = command.find_subcommand_mut(name).unwrap();
            let help = below.render_help().to_string();
            assert_eq!(help.contains("--url"), has_url, "{help}");
            assert_eq!(help.contains("--station"), has_station, "{help}");
        }
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
