//! The table: what was shown, by driver.

use std::process::Command;

use reporting::{Machine, Table, output_of};

use crate::nic::checks::{Driver, Shown};
use crate::nic::guest::QEMU;

/// In Markdown.
pub fn table(drivers: &[(Driver, Vec<Shown>)]) -> String {
    let names = drivers.iter().map(|(driver, _)| driver.name);
    let mut table = Table::default().words([""].into_iter().chain(names));
    let mut rows: Vec<&str> = Vec::new();
    for shown in drivers.iter().flat_map(|(_, shown)| shown) {
        if !rows.contains(&shown.what) {
            rows.push(shown.what);
        }
    }
    for row in rows {
        let cell = |(_, shown): &(Driver, Vec<Shown>)| {
            let cell = shown.iter().find(|shown| shown.what == row);
            let figure = cell.map_or("", |cell| cell.figure.as_deref().unwrap_or("FAILED"));
            figure.to_owned()
        };
        let cells = drivers.iter().map(cell);
        table.push([row.to_owned()].into_iter().chain(cells).collect());
    }
    table.markdown()
}

/// Says on standard error what was not shown; whether there is any.
pub fn complain(drivers: &[(Driver, Vec<Shown>)]) -> bool {
    let mut has_failed = false;
    for (driver, shown) in drivers {
        for error in shown.iter().filter_map(|shown| shown.figure.as_ref().err()) {
            eprintln!("{}: {error:#}", driver.name);
            has_failed = true;
        }
    }
    has_failed
}

/// The page in `benches/results`.
pub fn page(table: &str) -> String {
    let machine = Machine::of_this_run();
    let qemu = output_of(Command::new(QEMU).arg("--version"));
    let qemu = qemu.lines().next().unwrap_or_default();
    format!(
        "# Real PCI drivers\n\n\
         What the switch and the plugin do with DPDK's drivers of real PCI devices: `make nic`.\n\n\
         Devices are QEMU's, behind its IOMMU, bound to `vfio-pci`; the far end of each is a socket of the host. Without KVM the\n\
         guest is some twenty times slower than the machine: times compare drivers with each other, and say nothing of real\n\
         hardware.\n\n\
         {machine}; {qemu}; development build of {}.\n\n\
         {table}",
        machine.commit
    )
}
