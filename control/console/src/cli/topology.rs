//! Prints the network's topology from OSPF, by [`topology::ospf`].

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ::topology::Role;
use ::topology::ospf::client::Client;
use ::topology::ospf::database::{Database, Names, View, ViewError};
use ::topology::ospf::presence::Presence;
use ::topology::ospf::server;
use ::topology::read::Record;
use anyhow::Context;
use clap::{Args, ColorChoice, ValueEnum};
use contract::file;

use super::{DONE, Form, print};
use crate::view::{Page, Table};

/// Longest wait for an answer of ospfd.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest file of names.
const NAMES_BYTES_MAX: u64 = 1 << 20;
/// Changes that follow each other faster are shown together: one failure changes the LSAs of several routers.
const SETTLE: Duration = Duration::from_millis(500);

/// `vernier topology`.
#[derive(Debug, Args)]
#[command(after_help = "\
--json prints the network as `plan`, `mset` and `paths` read it:
  vernier topology --ospf 127.0.0.1 --json | vernier mset --topology -
ospfd must run with -a (FRR, /etc/frr/daemons), and its API be reachable: TCP port 2607, in FRR 8 on all addresses,
without authentication; it connects back to the next port of this program.")]
pub struct Topology {
    /// FRR's ospfd on a router of the area: its IPv4 address, and the port of its API if it is not 2607
    #[arg(long, value_name = "HOST[:PORT]", value_parser = server)]
    ospf: SocketAddrV4,
    /// Names of routers by their ids: a JSON object, {"10.255.0.1": "london"}
    #[arg(long, value_name = "FILE")]
    names: Option<PathBuf>,
    /// Print what changes, until interrupted
    #[arg(long)]
    follow: bool,
    /// Advertise this router in OSPF while the command runs; implies --follow
    #[arg(long, value_name = "ROLE")]
    advertise: Option<Advertised>,
    /// Name of this router to advertise
    #[arg(long, value_name = "NAME", requires = "advertise")]
    name: Option<String>,
    /// Area to advertise it in
    #[arg(long, value_name = "ID", default_value = "0.0.0.0")]
    area: Ipv4Addr,
    #[command(flatten)]
    form: Form,
}

/// The advertised role of a router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Advertised {
    /// A router that measures between its ports
    MRouter,
    /// A router with a measurement server
    MServer,
}

impl From<Advertised> for Role {
    fn from(advertised: Advertised) -> Self {
        match advertised {
            Advertised::MRouter => Self::MRouter,
            Advertised::MServer => Self::MServer,
        }
    }
}

fn names(file: &Path) -> anyhow::Result<Names> {
    let text = file::read_text(file, NAMES_BYTES_MAX)
        .with_context(|| format!("{}: cannot be read", file.display()))?;
    serde_json::from_str(&text)
        .with_context(|| format!("{}: expected router ids and names", file.display()))
}

/// `vernier topology`.
pub(super) fn run(color: ColorChoice, arguments: &Topology) -> anyhow::Result<u8> {
    let names = arguments.names.as_deref().map(names).transpose()?;
    let names = names.unwrap_or_default();
    let mut client = Client::connect(arguments.ospf, PATIENCE)?;
    let (mut database, id) = client.synchronise()?;
    if let Some(role) = arguments.advertise {
        let name = arguments.name.clone();
        let role = role.into();
        client.advertise(arguments.area, &Presence { role, name })?;
    }
    if !arguments.follow && arguments.advertise.is_none() {
        let view = database.view(&names)?;
        incomplete(client.unreadable(), database.refused());
        let record = view.record();
        let view = |page: &mut Page, record: &Record| write(page, record, id);
        return arguments.form.show(color, &["links"], &record, view);
    }
    let (mut shown, mut said) = (None, (0, 0));
    loop {
        let missed = (client.unreadable(), database.refused());
        if missed != std::mem::replace(&mut said, missed) {
            incomplete(missed.0, missed.1);
        }
        shown = Some(follow(&database, &names, arguments.form, shown)?);
        settle(&mut client, &mut database)?;
    }
}

/// Warns that the network shown may lack parts.
fn incomplete(unreadable: u64, refused: u64) {
    for (number, what) in [
        (unreadable, "messages of ospfd could not be read"),
        (refused, "LSAs had no room"),
    ] {
        if number > 0 {
            eprintln!("vernier: the network may be incomplete: {number} {what}");
        }
    }
}

/// Waits for a change, and for others that follow immediately.
fn settle(client: &mut Client, database: &mut Database) -> anyhow::Result<()> {
    let mut wait = Duration::from_mins(1);
    loop {
        match client.next(Instant::now() + wait)? {
            Some(change) => wait = if database.apply(change) { SETTLE } else { wait },
            None if wait == SETTLE => return Ok(()),
            _ => {}
        }
    }
}

fn write(page: &mut Page, record: &Record, id: Ipv4Addr) {
    let neighbours = |name: &str| {
        let links = record.links.iter().filter(|link| link.from == name);
        let links = links.map(|link| format!("{} {}", link.to, link.weight.unwrap_or(1.0)));
        links.collect::<Vec<_>>().join(", ")
    };
    let rows = record.nodes.iter().map(|node| {
        let is_own = node.id == Some(id.to_string());
        [
            node.name.clone(),
            node.id.clone().unwrap_or_default(),
            node.role.map(Role::name).unwrap_or_default().to_owned(),
            if is_own { "here" } else { "" }.to_owned(),
            neighbours(&node.name),
        ]
    });
    let table = Table::new("router | id | role |  | links and costs", &["id"]);
    page.table(&table, rows);
}

/// Prints the changes since the last output: a line for each link or role, or a line of JSON with everything.
fn follow(
    database: &Database,
    names: &Names,
    form: Form,
    shown: Option<BTreeSet<String>>,
) -> anyhow::Result<BTreeSet<String>> {
    let view = match database.view(names) {
        Ok(view) => Some(view),
        // It may come.
        Err(ViewError::NoLinks) => None,
        Err(error) => return Err(error.into()),
    };
    let lines = view.as_ref().map(lines).unwrap_or_default();
    if form.is_json() {
        let record = view.map(|view| serde_json::to_string(&view.record()));
        match record {
            Some(record) if shown.as_ref() != Some(&lines) => print(&(record? + "\n"))?,
            _ => DONE,
        };
        return Ok(lines);
    }
    print(&differences(&shown.unwrap_or_default(), &lines))?;
    Ok(lines)
}

fn lines(view: &View) -> BTreeSet<String> {
    let name = |router| view.topology.name(router);
    let links = view
        .topology
        .all_links()
        .map(|(from, to, weight)| format!("link {} {} {}", name(from), name(to), weight.value()));
    let roles = view.topology.roles().iter();
    let roles = roles.map(|(&router, &has)| format!("{} {}", has.name(), name(router)));
    links.chain(roles).collect()
}

fn differences(old: &BTreeSet<String>, new: &BTreeSet<String>) -> String {
    let gone = old.difference(new).map(|line| format!("- {line}\n"));
    let come = new.difference(old).map(|line| format!("+ {line}\n"));
    gone.chain(come).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_lines() {
        let set = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        let old = set(&["link a b 1", "link b c 1"]);
        let new = set(&["link a b 1", "link b c 2", "m-router a"]);
        assert_eq!(
            differences(&old, &new),
            "- link b c 1\n+ link b c 2\n+ m-router a\n"
        );
    }

    #[test]
    fn names_are_a_json_object() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("names.json");
        std::fs::write(&file, r#"{"10.255.0.1": "london"}"#).unwrap();
        assert_eq!(
            names(&file).unwrap()[&Ipv4Addr::new(10, 255, 0, 1)],
            "london"
        );
        std::fs::write(&file, r#"{"ten": "london"}"#).unwrap();
        assert!(format!("{:#}", names(&file).unwrap_err()).contains("router ids"));
        std::fs::write(&file, "\u{feff}{}").unwrap();
        assert!(format!("{:#}", names(&file).unwrap_err()).contains("byte order mark"));
    }

    #[test]
    fn no_ospfd_is_an_error_that_says_what_to_do() {
        let port = testkit::process::free_ports(1).unwrap();
        let server = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let error = Client::connect(server, Duration::from_secs(1)).unwrap_err();
        let error = error.to_string();
        assert!(error.ends_with("ospfd needs the option -a"), "{error}");
    }
}
