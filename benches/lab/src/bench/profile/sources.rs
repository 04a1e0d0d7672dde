//! Sources of addresses: files, functions and lines of this workspace, and libraries.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use clap::ValueEnum;
use testkit::process::output;

use super::Spent;

/// Amounts by source.
pub type BySource = BTreeMap<String, f64>;

/// Granularity for the sources of this workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Division {
    File,
    Function,
    Line,
}

/// Amounts by source. An address in `program` belongs to the innermost function of this workspace
/// that was inlined there; one in a library, to the library.
pub fn by_source(program: &Path, spent: &[Spent], division: Division) -> Result<BySource> {
    let program_name = program.canonicalize().context("cannot find vernierd")?;
    let is_program = |spent: &Spent| Path::new(&spent.object) == program_name;
    let own: BTreeSet<u64> = spent
        .iter()
        .filter(|spent| is_program(spent))
        .map(|spent| spent.address)
        .collect();
    let sources = own_sources(program, &own, division)?;
    let mut by_source = BySource::new();
    for spent in spent {
        let source = if is_program(spent) {
            sources.get(&spent.address).cloned()
        } else {
            Some(library(&spent.object))
        };
        let source = source.unwrap_or_else(|| "unknown".to_owned());
        *by_source.entry(source).or_default() += spent.amount;
    }
    Ok(by_source)
}

/// `/usr/lib/.../librte_net_pcap.so.23.0` is shown as `librte_net_pcap`.
fn library(object: &str) -> String {
    let name = object.rsplit('/').next().unwrap_or(object);
    name.split(".so").next().unwrap_or(name).to_owned()
}

/// The source of each address of `program`, asked of binutils' addr2line all at once.
fn own_sources(
    program: &Path,
    addresses: &BTreeSet<u64>,
    division: Division,
) -> Result<BTreeMap<u64, String>> {
    let mut addr2line = Command::new("addr2line");
    addr2line.args("--addresses --functions --demangle --inlines --exe".split(' '));
    addr2line.arg(program);
    addr2line.args(addresses.iter().map(|address| format!("{address:#x}")));
    let answer = output(&mut addr2line);
    let answer = answer.context("addr2line is in the Debian package binutils")?;
    Ok(parse(&answer, workspace(), division))
}

/// The folder of the workspace, as the debug information names it.
fn workspace() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap_or(package)
}

/// Each address's line is followed by two for each of the functions it is in, the innermost first: its name, and
/// the file and line.
fn parse(answer: &str, workspace: &Path, division: Division) -> BTreeMap<u64, String> {
    let mut sources = BTreeMap::new();
    let mut address = None;
    let mut is_own = false;
    let mut lines = answer.lines();
    while let Some(line) = lines.next() {
        if let Some(hex) = line.strip_prefix("0x") {
            (address, is_own) = (u64::from_str_radix(hex, 16).ok(), false);
            continue;
        }
        let (function, location) = (line, lines.next().unwrap_or_default());
        let (Some(address), false) = (address, is_own) else {
            continue;
        };
        let (file, line) = location.rsplit_once(':').unwrap_or((location, "?"));
        if let Ok(inside) = Path::new(file).strip_prefix(workspace) {
            let file = inside.display();
            let source = match division {
                Division::File => file.to_string(),
                Division::Function => format!("{file} {}", without_path(function)),
                // Ignore a suffix such as ` (discriminator 2)`.
                Division::Line => format!("{file}:{}", line.split(' ').next().unwrap_or(line)),
            };
            sources.insert(address, source);
            is_own = true;
        } else {
            let foreign = foreign(file);
            sources.entry(address).or_insert_with(|| foreign.to_owned());
        }
    }
    sources
}

/// `switch::worker::Worker<I>::pass<R>` is shown as `pass`.
fn without_path(function: &str) -> String {
    let mut depth = 0;
    let is_outside = |c: &char| {
        depth += i32::from(*c == '<');
        let is_outside = depth == 0;
        depth -= i32::from(*c == '>');
        is_outside
    };
    let plain: String = function.chars().filter(is_outside).collect();
    plain.rsplit("::").next().unwrap_or(function).to_owned()
}

/// Code that is neither part of this workspace nor called by it.
fn foreign(file: &str) -> &'static str {
    if file.contains("/rustc/") {
        "Rust's library"
    } else if file.contains("/registry/") {
        "other crates"
    } else {
        "vernierd, elsewhere"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_function_of_the_workspace_counts() {
        let answer = "0x0000000000001000\nwrapping_mul\n/rustc/59/library/core/src/num/mod.rs:12\n\
                      mix<u64>\n/w/measure/src/packet/hash.rs:30 (discriminator 2)\n\
                      run\n/w/switch/src/worker.rs:5\n\
                      0x0000000000001010\nspawn\n/rustc/59/library/std/src/thread.rs:9\n\
                      0x0000000000001020\n??\n??:?\n";
        for (division, hash) in [
            (Division::File, "measure/src/packet/hash.rs"),
            (Division::Function, "measure/src/packet/hash.rs mix"),
            (Division::Line, "measure/src/packet/hash.rs:30"),
        ] {
            let sources = parse(answer, Path::new("/w"), division);
            let found: Vec<_> = sources.into_iter().collect();
            let expected = [
                (0x1000, hash),
                (0x1010, "Rust's library"),
                (0x1020, "vernierd, elsewhere"),
            ];
            assert_eq!(
                found,
                expected.map(|(address, source)| (address, source.to_owned()))
            );
        }
    }

    #[test]
    fn functions_go_by_their_last_names() {
        for (function, name) in [
            ("mix<u64>", "mix"),
            (
                "switch::worker::Worker<I>::pass<alloc::vec::Vec<R>>",
                "pass",
            ),
            (
                "<measure::lda::LdaPair<C> as measure::Synopsis>::record",
                "record",
            ),
            ("switch::run::{{closure}}", "{{closure}}"),
        ] {
            assert_eq!(without_path(function), name);
        }
    }

    #[test]
    fn the_workspace_has_the_data_plane() {
        assert!(workspace().join("switch/src/lib.rs").exists());
    }

    #[test]
    fn libraries_go_by_their_names() {
        assert_eq!(
            library("/usr/lib/dpdk/librte_net_pcap.so.23.0"),
            "librte_net_pcap"
        );
        assert_eq!(library("[vdso]"), "[vdso]");
    }
}
