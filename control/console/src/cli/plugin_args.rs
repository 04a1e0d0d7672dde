//! The arguments with which a program's EAL loads the plugin, and their place in Open vSwitch's database.
//!
//! Options added there are recorded: a script beside the plugin (`packages/plugin/take-back`) removes just these, on request
//! or when the Debian package is removed, because EAL does not start if a file of `-d` is missing.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

/// Folders into which the package and `make install` put the plugin.
const PLUGINS: [&str; 2] = [
    "/usr/lib/vernier/librte_vernier.so",
    "/usr/local/lib/vernier/librte_vernier.so",
];

/// Folders with DPDK's libraries, and such folders by architecture in them.
const LIBRARIES: [&str; 4] = [
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/local/lib64",
];

/// The key of Open vSwitch's `other_config`.
const KEY: &str = "other_config:dpdk-extra";

#[derive(Debug, Args)]
pub(super) struct PluginArgs {
    /// Add them to Open vSwitch's dpdk-extra, and record them, so that --remove, or removing the package, removes just them
    #[arg(long, group = "change")]
    apply: bool,

    /// Remove from Open vSwitch's dpdk-extra what --apply added
    #[arg(long, group = "change")]
    remove: bool,

    /// The plugin [default: where the package or `make install` put it]
    #[arg(long, value_name = "FILE")]
    plugin: Option<PathBuf>,

    /// DPDK's folder of drivers, because -d replaces the default one [default: the installed one]
    #[arg(long, value_name = "FOLDER")]
    drivers: Option<PathBuf>,

    /// Open vSwitch's database, such as `unix:/run/openvswitch/db.sock` [default: that of ovs-vsctl]
    #[arg(long, value_name = "SERVER", requires = "change")]
    db: Option<String>,

    /// File that records the added options
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/var/lib/vernier-plugin/dpdk-extra",
        hide = true
    )]
    record: PathBuf,
}

pub(super) fn run(asked: &PluginArgs) -> Result<u8> {
    let plugin = asked.plugin.clone().map_or_else(installed_plugin, Ok)?;
    ensure!(plugin.is_file(), "{} is not a file", plugin.display());
    if asked.remove {
        return remove(asked, &plugin);
    }
    let drivers = asked.drivers.clone().map_or_else(installed_drivers, Ok)?;
    ensure!(drivers.is_dir(), "{} is not a folder", drivers.display());
    let (plugin, drivers) = (word(&plugin)?, word(&drivers)?);
    if asked.apply {
        return apply(asked, plugin, drivers);
    }
    super::print(&format!("-d {plugin} -d {drivers}\n"))
}

/// Adds the arguments to Open vSwitch's database.
fn apply(asked: &PluginArgs, plugin: &str, drivers: &str) -> Result<u8> {
    let vsctl = Vsctl {
        db: asked.db.as_deref(),
    };
    let present = vsctl.get(KEY)?;
    let Some(added) = missing(&present, plugin, drivers)? else {
        return super::print(&format!(
            "Open vSwitch's dpdk-extra names {plugin} already; nothing was changed.\n"
        ));
    };
    // Recorded first: a record of options that were never added does no harm, but options without a record would stay for ever.
    record(&asked.record, &added)?;
    let options = format!("{present} {added}");
    let options = options.trim();
    let setting = format!("{KEY}={}", serde_json::to_string(options)?);
    vsctl.run(&["set", "Open_vSwitch", ".", &setting])?;
    let mut text = format!(
        "Open vSwitch's dpdk-extra is now: {options}\n\
         It applies from the next start on: systemctl restart openvswitch-switch\n"
    );
    if vsctl.get("other_config:dpdk-init")? != "true" {
        text += "Open vSwitch does not use DPDK yet: ovs-vsctl set Open_vSwitch . other_config:dpdk-init=true\n";
    }
    super::print(&text)
}

/// Removes the recorded arguments from Open vSwitch's database, which need not be running.
fn remove(asked: &PluginArgs, plugin: &Path) -> Result<u8> {
    let script = plugin.with_file_name("take-back");
    let mut command = Command::new(&script);
    command.arg(plugin).arg(&asked.record);
    // Empty: the script's default.
    command.args(asked.db.iter().flat_map(|db| ["", db]));
    let output = command.output();
    let output = output.with_context(|| format!("{} cannot be run", script.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if said.is_empty() {
        let plugin = plugin.display();
        return super::print(&format!(
            "Nothing was changed: no dpdk-extra of Open vSwitch names {plugin}.\n"
        ));
    }
    super::print(&said)
}

/// Returns the options to add to the `present` ones; `None` if these name the plugin already.
fn missing(present: &str, plugin: &str, drivers: &str) -> Result<Option<String>> {
    let words = present.split_whitespace();
    let mut files = words.map(|word| word.strip_prefix("-d").unwrap_or(word));
    let name = Path::new(plugin).file_name();
    let is_copy = |file: &&str| *file != plugin && Path::new(file).file_name() == name;
    if let Some(other) = files.clone().find(is_copy) {
        bail!(
            "Open vSwitch's dpdk-extra names {other}, another copy of the plugin; take it out first, since only one of \
             them can measure"
        );
    }
    if files.clone().any(|file| file == plugin) {
        return Ok(None);
    }
    let has_drivers = files.any(|file| file == drivers);
    Ok(Some(if has_drivers {
        format!("-d {plugin}")
    } else {
        format!("-d {plugin} -d {drivers}")
    }))
}

/// Records the added options.
fn record(file: &Path, added: &str) -> Result<()> {
    let write = || {
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(file, format!("{added}\n"))
    };
    write().with_context(|| format!("{} cannot be written; nothing was changed", file.display()))
}

/// `ovs-vsctl`.
struct Vsctl<'a> {
    db: Option<&'a str>,
}

impl Vsctl<'_> {
    /// A key's value; empty if there is none.
    fn get(&self, key: &str) -> Result<String> {
        let said = self.run(&["--if-exists", "get", "Open_vSwitch", ".", key])?;
        let said = said.trim();
        // Strings other than plain words are printed as in JSON.
        if said.starts_with('"') {
            return serde_json::from_str(said).with_context(|| format!("ovs-vsctl said {said}"));
        }
        Ok(said.to_owned())
    }

    /// Runs it and returns its output.
    fn run(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new("ovs-vsctl");
        command.args(self.db.map(|db| format!("--db={db}")));
        command.args(["--no-wait", "--timeout=10"]).args(arguments);
        let output = command.output().map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                anyhow::anyhow!("there is no ovs-vsctl; is Open vSwitch installed?")
            }
            _ => anyhow::Error::new(error).context("ovs-vsctl cannot be run"),
        })?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.trim();
            bail!("ovs-vsctl failed; does Open vSwitch run, and are you root? {said}");
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Checks that a path is one word for EAL, Open vSwitch and a shell.
fn word(path: &Path) -> Result<&str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._+-".contains(&byte);
    let text = path.to_str().filter(|text| text.bytes().all(is_plain));
    let text = text.filter(|text| text.starts_with('/'));
    text.with_context(|| {
        format!(
            "{}: give an absolute path of letters, digits, and / . _ + - alone",
            path.display()
        )
    })
}

fn installed_plugin() -> Result<PathBuf> {
    let mut files = PLUGINS.iter().map(PathBuf::from);
    let found = files.find(|file| file.exists());
    let places = PLUGINS.join(", ");
    found.with_context(|| format!("the plugin is at none of {places}; name it by --plugin"))
}

fn installed_drivers() -> Result<PathBuf> {
    let libraries = LIBRARIES.map(PathBuf::from);
    let by_architecture = libraries.iter().flat_map(|folder| entries(folder));
    let all = libraries.iter().cloned().chain(by_architecture);
    let is_drivers = |folder: &PathBuf| {
        let name = folder.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("pmds-"))
    };
    let found = all.flat_map(|folder| entries(&folder.join("dpdk")));
    let mut found: Vec<_> = found.filter(is_drivers).collect();
    found.sort_unstable();
    match found.as_slice() {
        [folder] => Ok(folder.clone()),
        [] => bail!(
            "DPDK's folder of drivers (dpdk/pmds-*) is not in {}; name it by --drivers",
            LIBRARIES.join(", ")
        ),
        several => {
            let names = several.iter().map(|folder| folder.display().to_string());
            bail!(
                "there are several folders of drivers: {}; name the one of the program's DPDK by --drivers",
                names.collect::<Vec<_>>().join(", ")
            )
        }
    }
}

/// The entries of a folder; none if it cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let read = fs::read_dir(folder).into_iter().flatten().flatten();
    read.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLUGIN: &str = PLUGINS[0];
    const DRIVERS: &str = "/usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0";

    #[test]
    fn what_is_there_already_is_not_added_again() {
        let both = format!("-d {PLUGIN} -d {DRIVERS}");
        let added = |present: &str| missing(present, PLUGIN, DRIVERS).unwrap();
        assert_eq!(added(""), Some(both.clone()));
        assert_eq!(added("-m 128 --no-pci"), Some(both.clone()));
        assert_eq!(
            added(&format!("-d {DRIVERS}")),
            Some(format!("-d {PLUGIN}"))
        );
        assert_eq!(added(&both), None);
        assert_eq!(added(&format!("-m 1 -d{PLUGIN}")), None);
        let other = format!("-d {}", PLUGINS[1]);
        let error = missing(&other, PLUGIN, DRIVERS).unwrap_err().to_string();
        assert!(
            error.contains(PLUGINS[1]) && error.contains("another copy"),
            "{error}"
        );
    }

    #[test]
    fn paths_are_one_word_to_all_who_read_them() {
        assert_eq!(word(Path::new(PLUGIN)).unwrap(), PLUGIN);
        for path in [
            "lib.so",
            "/a b/lib.so",
            "/a\"/lib.so",
            "/a'/lib.so",
            "/a,b/lib.so",
            "/a$x",
        ] {
            assert!(word(Path::new(path)).is_err(), "{path}");
        }
    }
}
