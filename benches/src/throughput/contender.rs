//! Who competes.

use anyhow::{Context, Result};

use super::bench::{Bench, Input};
use super::ovs::{OpenVSwitch, Rules};
use super::testpmd::Testpmd;
use super::vernierd::{Extent, Forwarding, Vernierd};

/// A program, how it is set up, and on how many CPUs it forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contender {
    /// Its name in JSON and on the command line.
    pub id: &'static str,
    /// Its name in tables.
    pub label: &'static str,
    /// The program.
    pub program: Program,
    /// CPUs that forward, 1 or 2.
    pub cpus: usize,
}

/// A program and how it is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// DPDK's own forwarder.
    Testpmd(Testpmd),
    /// Open vSwitch with DPDK.
    OpenVSwitch(OpenVSwitch),
    /// This switch.
    Vernierd(Vernierd),
}

impl Contender {
    /// Why it cannot compete here, if so.
    pub fn absence(&self, bench: &Bench) -> Option<String> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        if cpus < self.cpus {
            return Some(format!("it takes {} CPUs, here are {cpus}", self.cpus));
        }
        match self.program {
            Program::OpenVSwitch(_) if !bench.hugepages => {
                Some("Open vSwitch takes hugepages".to_owned())
            }
            Program::OpenVSwitch(_) => bench.ovs.as_ref().err().cloned(),
            _ => None,
        }
    }

    /// Packets a second that it forwards, both ways together.
    ///
    /// # Errors
    /// When it cannot be started, fails, says nothing for a minute, or the user interrupts.
    pub fn rate_pps(&self, bench: &Bench, input: &Input) -> Result<f64> {
        let rate_pps = match self.program {
            Program::Testpmd(testpmd) => testpmd.rate_pps(bench, input, self.cpus),
            Program::Vernierd(vernierd) => vernierd.rate_pps(bench, input, self.cpus),
            Program::OpenVSwitch(ovs) => match &bench.ovs {
                Ok(programs) => programs.rate_pps(bench, input, ovs),
                Err(missing) => Err(anyhow::anyhow!("{missing}")),
            },
        };
        rate_pps.with_context(|| self.label)
    }

    const fn testpmd(id: &'static str, label: &'static str, mode: &'static str) -> Self {
        Self {
            id,
            label,
            program: Program::Testpmd(Testpmd {
                mode,
                latencystats: false,
                plugin: None,
            }),
            cpus: 1,
        }
    }

    const fn plugin(id: &'static str, label: &'static str, extent: Extent) -> Self {
        Self {
            id,
            label,
            program: Program::Testpmd(Testpmd {
                mode: "macswap",
                latencystats: false,
                plugin: Some(extent),
            }),
            cpus: 1,
        }
    }

    const fn ovs(id: &'static str, label: &'static str, rules: Rules) -> Self {
        Self {
            id,
            label,
            program: Program::OpenVSwitch(OpenVSwitch {
                rules,
                plugin: None,
            }),
            cpus: 1,
        }
    }

    const fn vernierd(
        id: &'static str,
        label: &'static str,
        forwarding: Forwarding,
        extent: Extent,
    ) -> Self {
        Self {
            id,
            label,
            program: Program::Vernierd(Vernierd { forwarding, extent }),
            cpus: 1,
        }
    }
}

/// testpmd passes packets on and touches nothing.
pub const IO: Contender = Contender::testpmd("io", "testpmd io", "io");
/// The same on two CPUs.
pub const IO_TWO: Contender = Contender {
    id: "io_two_cpus",
    label: "testpmd io, two CPUs",
    cpus: 2,
    ..IO
};
/// It swaps the Ethernet addresses.
pub const MACSWAP: Contender = Contender::testpmd("macswap", "testpmd macswap", "macswap");
/// It swaps Ethernet addresses, IP addresses and ports: it parses.
pub const FIVE_TUPLE_SWAP: Contender = Contender::testpmd("5tswap", "testpmd 5tswap", "5tswap");
/// It swaps Ethernet addresses and measures latency.
pub const LATENCYSTATS: Contender = Contender {
    id: "latencystats",
    label: "testpmd macswap + latencystats",
    program: Program::Testpmd(Testpmd {
        mode: "macswap",
        latencystats: true,
        plugin: None,
    }),
    cpus: 1,
};
/// It swaps Ethernet addresses, and the plugin measures: LDA, moments and histogram.
pub const PLUGIN_LDA: Contender = Contender::plugin(
    "plugin_lda",
    "testpmd macswap + plugin, LDA + moments + histogram",
    Extent::Lda,
);
/// The same with all that the plugin has: an LDS and flow slots besides.
pub const PLUGIN_EVERYTHING: Contender = Contender::plugin(
    "plugin_everything",
    "testpmd macswap + plugin, everything on",
    Extent::Flows,
);
/// Open vSwitch as a patch panel, as an operator types it.
pub const OVS: Contender = Contender::ovs("ovs", "OVS-DPDK, two in_port rules", Rules::AfterPorts);
/// The same with the plugin: LDA, moments and histogram.
pub const OVS_PLUGIN: Contender = Contender {
    id: "ovs_plugin",
    label: "OVS-DPDK, two in_port rules + plugin, LDA + moments + histogram",
    program: Program::OpenVSwitch(OpenVSwitch {
        rules: Rules::AfterPorts,
        plugin: Some(Extent::Lda),
    }),
    cpus: 1,
};
/// Open vSwitch as a patch panel at its best.
pub const OVS_SIMPLE: Contender = Contender::ovs(
    "ovs_simple",
    "OVS-DPDK, two in_port rules before ports",
    Rules::BeforePorts,
);

/// A patch panel that measures nothing.
pub const OFF_PATCH: Contender = Contender::vernierd(
    "off_patch",
    "vernierd patch, measurement off",
    Forwarding::Patch,
    Extent::Off,
);
/// A learning bridge that measures nothing.
pub const OFF: Contender = Contender::vernierd(
    "off",
    "vernierd bridge, measurement off",
    Forwarding::Bridge,
    Extent::Off,
);
/// A bridge that measures stamped delays.
pub const STAMPS: Contender = Contender::vernierd(
    "stamps",
    "vernierd bridge, stamped delays",
    Forwarding::Bridge,
    Extent::Stamps,
);
/// A patch panel with LDA, moments and histogram.
pub const LDA_PATCH: Contender = Contender::vernierd(
    "lda_patch",
    "vernierd patch, LDA + moments + histogram",
    Forwarding::Patch,
    Extent::Lda,
);
/// A bridge with LDA, moments and histogram.
pub const LDA: Contender = Contender::vernierd(
    "lda",
    "vernierd bridge, LDA + moments + histogram",
    Forwarding::Bridge,
    Extent::Lda,
);
/// The same with an LDS.
pub const LDS: Contender = Contender::vernierd(
    "lds",
    "vernierd bridge, + LDS",
    Forwarding::Bridge,
    Extent::Lds,
);
/// The same with flow slots.
pub const FLOWS: Contender = Contender::vernierd(
    "flows",
    "vernierd bridge, + flow slots",
    Forwarding::Bridge,
    Extent::Flows,
);
/// A bridge with everything on.
pub const EVERYTHING: Contender = Contender::vernierd(
    "everything",
    "vernierd bridge, everything on",
    Forwarding::Bridge,
    Extent::Everything,
);
/// The same with two workers.
pub const EVERYTHING_TWO: Contender = Contender {
    id: "everything_two_workers",
    label: "vernierd bridge, everything on, two workers",
    cpus: 2,
    ..EVERYTHING
};
