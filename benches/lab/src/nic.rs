//! Tests the switch and the plugin with real PCI drivers.
//!
//! ```text
//!  host                                    guest: Debian's kernel, an IOMMU, vfio-pci
//!   frames <- unix sockets, a tap ------->  e1000e, vmxnet3, virtio <- DPDK <- vernierd, testpmd
//!   commands <- virtio-serial ----------->  busybox
//!   links, devices that are pulled <- QMP   the host's /usr and programs, read only (9p)
//! ```
//!
//! The guest is emulated (without KVM), so its times do not show the switch's speed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};
use checks::{DRIVERS, Driver, Shown};
use clap::Args;
use image::Image;
use reporting::{Machine, RESULTS, Table, output_of};
use testkit::process::stop_on_signals;

mod checks;
mod flows;
mod frames;
mod guest;
mod image;
mod program;
mod qmp;

/// Real PCI drivers (e1000e, vmxnet3, virtio) in a virtual machine, with the switch and the plugin.
///
/// It takes root and a network namespace of its own for one tap: `unshare --net`.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 all was shown, 1 something was not, 2 bad usage.")]
pub struct Arguments {
    /// Only these drivers; nothing is written then
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
    /// Where the guests' files are kept; by default nowhere
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
}

/// Where `make setup-nic` unpacks the kernel's package.
const KERNEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.tools/nic");

/// Shows each driver, or says why that is skipped, which CI does not accept; whether all was shown.
pub fn run(arguments: &Arguments) -> Result<bool> {
    match can_run() {
        Ok(()) => show(arguments),
        Err(error) if std::env::var_os("CI").is_some() => Err(error),
        Err(error) => {
            println!("vernier-lab: skipped: {error:#}");
            Ok(true)
        }
    }
}

/// Whether what it takes is there.
fn can_run() -> Result<()> {
    let version = Command::new(guest::QEMU).arg("--version").output();
    version.with_context(|| format!("no {} (make setup-nic)", guest::QEMU))?;
    let folder = Path::new(KERNEL).join("boot");
    std::fs::read_dir(&folder)
        .with_context(|| format!("no kernel in {} (make setup-nic)", folder.display()))?;
    Ok(())
}

fn show(arguments: &Arguments) -> Result<bool> {
    stop_on_signals()?;
    let program = std::env::current_exe()?.canonicalize()?;
    let programs = program.parent().context("a program is in a folder")?;
    let temporary = tempfile::tempdir()?;
    let folder = arguments.keep.as_deref().unwrap_or(temporary.path());
    let image = Image::build(Path::new(KERNEL), &folder.join("image"))?;
    let is_asked = |driver: &&Driver| {
        arguments.only.is_empty() || arguments.only.iter().any(|name| name == driver.name)
    };
    let (mut drivers, mut is_shown) = (Vec::new(), true);
    for driver in DRIVERS.iter().filter(is_asked) {
        let (name, mut shown, began) = (driver.name, Shown::new(), Instant::now());
        let done = checks::all(driver, &image, programs, &folder.join(name), &mut shown);
        let figure = match done {
            Ok(()) => format!("{:.0} s", began.elapsed().as_secs_f64()),
            Err(error) => {
                eprintln!("{name}: {error:#}");
                is_shown = false;
                "FAILED".to_owned()
            }
        };
        shown.push(("all of it", figure));
        drivers.push((name, shown));
    }
    let table = table(&drivers);
    print!("{table}");
    if arguments.only.is_empty() && is_shown {
        reporting::write_page(RESULTS.as_ref(), "nic", &page(&table))?;
    }
    Ok(is_shown)
}

/// What was shown, by driver, in Markdown.
fn table(drivers: &[(&str, Shown)]) -> String {
    let names = drivers.iter().map(|(name, _)| *name);
    let mut table = Table::default().words([""].into_iter().chain(names));
    let mut rows: Vec<&str> = Vec::new();
    for (what, _) in drivers.iter().flat_map(|(_, shown)| shown) {
        if !rows.contains(what) {
            rows.push(what);
        }
    }
    for row in rows {
        let cells = drivers.iter().map(|(_, shown)| {
            let cell = shown.iter().find(|(what, _)| *what == row);
            cell.map_or_else(String::new, |(_, figure)| figure.clone())
        });
        table.push([row.to_owned()].into_iter().chain(cells).collect());
    }
    table.markdown()
}

/// The page in `benches/results`.
fn page(table: &str) -> String {
    let machine = Machine::of_this_run();
    let qemu = output_of(Command::new(guest::QEMU).arg("--version"));
    let qemu = qemu.lines().next().unwrap_or_default();
    format!(
        "# Real PCI drivers\n\n\
         The switch and the plugin with DPDK's drivers of real PCI devices: `make nic`.\n\n\
         The devices are emulated by QEMU behind its IOMMU, and bound to `vfio-pci`; the other end of each is a socket of the host. Without KVM the\n\
         guest is some twenty times slower than the machine, so times only compare drivers with each other, and do not apply to real\n\
         hardware.\n\n\
         {machine}; {qemu}; development build of {}.\n\n\
         {table}",
        machine.commit
    )
}
