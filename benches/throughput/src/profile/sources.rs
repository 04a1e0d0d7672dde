//! Sources of addresses: files of this workspace, and libraries.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::{BySource, Spent};

/// Amounts by source. An address in `program` belongs to the innermost function of this workspace
/// that was inlined there; one in a library, to the library.
pub fn by_source(program: &Path, spent: &[Spent]) -> Result<BySource> {
    let program_name = program.canonicalize().context("cannot find vernierd")?;
    let is_program = |spent: &Spent| Path::new(&spent.object) == program_name;
    let own: BTreeSet<u64> = spent
        .iter()
        .filter(|spent| is_program(spent))
        .map(|spent| spent.address)
        .collect();
    let sources = own_sources(program, &own)?;
    let mut by_source = BySource::new();
    for spent in spent {
        let source = if is_program(spent) {
            sources.get(&spent.address).cloned()
        } else {
            Some(library(&spent.object))
        };
        let source = source.unwrap_or_else(|| "unknown".to_owned());
        *by_source.entry(source).or_default() += spent.amount as f64;
    }
    Ok(by_source)
}

/// `/usr/lib/.../librte_net_pcap.so.23.0` is known as `librte_net_pcap`.
fn library(object: &str) -> String {
    let name = object.rsplit('/').next().unwrap_or(object);
    name.split(".so").next().unwrap_or(name).to_owned()
}

/// The source of each address of `program`, asked of binutils' addr2line all at once.
fn own_sources(program: &Path, addresses: &BTreeSet<u64>) -> Result<BTreeMap<u64, String>> {
    let mut addr2line = Command::new("addr2line")
        .args(["--addresses", "--inlines", "--exe"])
        .arg(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start addr2line, which is in the Debian package binutils")?;
    let mut stdin = addr2line.stdin.take().context("addr2line has no pipe")?;
    let asked = addresses.clone();
    // It answers while it is asked: both pipes would fill up.
    let asking = std::thread::spawn(move || {
        let ask = |address| writeln!(stdin, "{address:#x}");
        asked.into_iter().try_for_each(ask)
    });
    let answer = addr2line.wait_with_output().context("addr2line failed")?;
    // Addresses that it could not be asked about have no source.
    let _ = asking.join();
    Ok(parse(&String::from_utf8_lossy(&answer.stdout), workspace()))
}

/// The folder of the workspace, as the debug information names it.
fn workspace() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap_or(package)
}

/// Each address's line is followed by those of the functions it is in, the innermost first.
fn parse(answer: &str, workspace: &Path) -> BTreeMap<u64, String> {
    let mut sources = BTreeMap::new();
    let mut address = None;
    let mut is_own = false;
    for line in answer.lines() {
        if let Some(hex) = line.strip_prefix("0x") {
            (address, is_own) = (u64::from_str_radix(hex, 16).ok(), false);
        } else if let (Some(address), false) = (address, is_own) {
            let file = line.rsplit_once(':').map_or(line, |(file, _)| file);
            if let Ok(inside) = Path::new(file).strip_prefix(workspace) {
                sources.insert(address, inside.display().to_string());
                is_own = true;
            } else {
                sources
                    .entry(address)
                    .or_insert_with(|| foreign(file).to_owned());
            }
        }
    }
    sources
}

/// What is neither of this workspace nor called by anything of it.
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
        let answer = "0x0000000000001000\n/rustc/59/library/core/src/num/mod.rs:12\n\
                      /w/measure/src/packet/hash.rs:30\n/w/switch/src/worker.rs:5 (discriminator 2)\n\
                      0x0000000000001010\n/rustc/59/library/std/src/thread.rs:9\n\
                      0x0000000000001020\n??:?\n";
        let sources = parse(answer, Path::new("/w"));
        let found: Vec<_> = sources.into_iter().collect();
        let expected = [
            (0x1000, "measure/src/packet/hash.rs"),
            (0x1010, "Rust's library"),
            (0x1020, "vernierd, elsewhere"),
        ];
        assert_eq!(
            found,
            expected.map(|(address, source)| (address, source.to_owned()))
        );
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
