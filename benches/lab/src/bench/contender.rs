//! The programs that are compared.

use anyhow::{Context, Result};

use crate::bench::ovs::{OpenVSwitch, Setup};
use crate::bench::setting::{Bench, Input, Memory};
use crate::bench::testpmd::{Meter, Testpmd};
use crate::bench::vernierd::{Extent, Forwarding, Vernierd};

/// A program, how it is set up, and on how many CPUs it forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contender {
    /// Its name on the command line.
    pub id: &'static str,
    pub program: Program,
    /// CPUs that forward, 1 or 2.
    pub cpus: usize,
}

/// A program and how it is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    Testpmd(Testpmd),
    OpenVSwitch(OpenVSwitch),
    Vernierd(Vernierd),
}

impl Contender {
    /// Its name in tables.
    pub fn label(&self) -> String {
        let (label, on_two) = match self.program {
            Program::Testpmd(Testpmd { mode, meter }) => {
                let meter = match meter {
                    Meter::None => "",
                    Meter::Latencystats => " + latencystats",
                    Meter::Plugin(extent) => with_plugin(extent),
                };
                (format!("testpmd {mode}{meter}"), ", two CPUs")
            }
            Program::OpenVSwitch(ovs) => {
                let ports = match ovs.setup {
                    Setup::RulesAfterPorts => "two in_port rules",
                    Setup::RulesBeforePorts => "two in_port rules before ports",
                    Setup::Machine => "a port and a virtual machine",
                };
                let plugin = ovs.plugin.map_or("", with_plugin);
                (format!("OVS-DPDK, {ports}{plugin}"), "")
            }
            Program::Vernierd(vernierd) => {
                let base = if self.is_base() { "base: " } else { "" };
                let forwarding = vernierd.forwarding.mode();
                let label = format!("{base}vernierd {forwarding}, {}", vernierd.extent.label());
                (label, ", two workers")
            }
        };
        label + if self.cpus > 1 { on_two } else { "" }
    }

    /// Why it cannot run here, if so.
    pub fn absence(&self, bench: &Bench) -> Option<String> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        if cpus < self.cpus {
            return Some(format!("it takes {} CPUs, here are {cpus}", self.cpus));
        }
        match self.program {
            Program::OpenVSwitch(_) if bench.memory != Memory::Hugepages => {
                Some("Open vSwitch takes hugepages".to_owned())
            }
            Program::OpenVSwitch(_) => bench.ovs.as_ref().err().cloned(),
            _ => None,
        }
    }

    /// Whether it is the base's vernierd.
    pub fn is_base(&self) -> bool {
        matches!(self.program, Program::Vernierd(vernierd) if vernierd.is_base)
    }

    /// Packets a second that it forwards, both ways together.
    pub fn rate_pps(&self, bench: &Bench, input: &Input) -> Result<f64> {
        let rate_pps = match self.program {
            Program::Testpmd(testpmd) => testpmd.rate_pps(bench, input, self.cpus),
            Program::Vernierd(vernierd) => vernierd.rate_pps(bench, input, self.cpus),
            Program::OpenVSwitch(ovs) => match &bench.ovs {
                Ok(root) => ovs.rate_pps(bench, input, root),
                Err(missing) => Err(anyhow::anyhow!("{missing}")),
            },
        };
        rate_pps.with_context(|| self.label())
    }

    const fn new(id: &'static str, program: Program) -> Self {
        let cpus = 1;
        Self { id, program, cpus }
    }

    const fn on_two_cpus(self, id: &'static str) -> Self {
        Self {
            id,
            cpus: 2,
            ..self
        }
    }

    const fn testpmd(id: &'static str, mode: &'static str, meter: Meter) -> Self {
        Self::new(id, Program::Testpmd(Testpmd { mode, meter }))
    }

    const fn ovs(id: &'static str, setup: Setup, plugin: Option<Extent>) -> Self {
        Self::new(id, Program::OpenVSwitch(OpenVSwitch { setup, plugin }))
    }

    const fn vernierd(id: &'static str, forwarding: Forwarding, extent: Extent) -> Self {
        let vernierd = Vernierd {
            is_base: false,
            forwarding,
            extent,
        };
        Self::new(id, Program::Vernierd(vernierd))
    }

    /// The same of the base.
    const fn of_base(mut self, id: &'static str) -> Self {
        if let Program::Vernierd(vernierd) = &mut self.program {
            vernierd.is_base = true;
        }
        Self { id, ..self }
    }
}

/// What the plugin adds to a label.
fn with_plugin(extent: Extent) -> &'static str {
    match extent {
        Extent::Lda => " + plugin, LDA + moments + histogram",
        _ => " + plugin, everything on",
    }
}

/// testpmd forwards and changes nothing.
pub const IO: Contender = Contender::testpmd("io", "io", Meter::None);
/// The same on two CPUs.
pub const IO_TWO: Contender = IO.on_two_cpus("io_two_cpus");
/// It swaps the Ethernet addresses.
pub const MACSWAP: Contender = Contender::testpmd("macswap", "macswap", Meter::None);
/// It swaps Ethernet addresses, IP addresses and ports: it parses.
pub const FIVE_TUPLE_SWAP: Contender = Contender::testpmd("5tswap", "5tswap", Meter::None);
/// It swaps Ethernet addresses and measures latency.
pub const LATENCYSTATS: Contender =
    Contender::testpmd("latencystats", "macswap", Meter::Latencystats);
/// It swaps Ethernet addresses, and the plugin measures: LDA, moments and histogram.
pub const PLUGIN_LDA: Contender =
    Contender::testpmd("plugin_lda", "macswap", Meter::Plugin(Extent::Lda));
/// The same with an LDS and flow slots, which is all that the plugin has.
pub const PLUGIN_EVERYTHING: Contender =
    Contender::testpmd("plugin_everything", "macswap", Meter::Plugin(Extent::Flows));

/// Open vSwitch as a patch panel, as an operator types it.
pub const OVS: Contender = Contender::ovs("ovs", Setup::RulesAfterPorts, None);
/// Open vSwitch as a patch panel at its best.
pub const OVS_SIMPLE: Contender = Contender::ovs("ovs_simple", Setup::RulesBeforePorts, None);
/// Open vSwitch between a port of DPDK's and a virtual machine's.
pub const MACHINE: Contender = Contender::ovs("machine", Setup::Machine, None);
const LDA_ALONE: Option<Extent> = Some(Extent::Lda);
/// The patch panel with the plugin: LDA, moments and histogram.
pub const OVS_PLUGIN: Contender = Contender::ovs("ovs_plugin", Setup::RulesAfterPorts, LDA_ALONE);
/// The virtual machine with the plugin, and the object for ports of virtual machines preloaded.
pub const MACHINE_PLUGIN: Contender = Contender::ovs("machine_plugin", Setup::Machine, LDA_ALONE);

pub const OFF_PATCH: Contender = Contender::vernierd("off_patch", Forwarding::Patch, Extent::Off);
pub const OFF: Contender = Contender::vernierd("off", Forwarding::Bridge, Extent::Off);
pub const STAMPS: Contender = Contender::vernierd("stamps", Forwarding::Bridge, Extent::Stamps);
pub const LDA_PATCH: Contender = Contender::vernierd("lda_patch", Forwarding::Patch, Extent::Lda);
pub const LDA: Contender = Contender::vernierd("lda", Forwarding::Bridge, Extent::Lda);
pub const LDS: Contender = Contender::vernierd("lds", Forwarding::Bridge, Extent::Lds);
pub const FLOWS: Contender = Contender::vernierd("flows", Forwarding::Bridge, Extent::Flows);
pub const EVERYTHING: Contender =
    Contender::vernierd("everything", Forwarding::Bridge, Extent::Everything);
pub const AROUND: Contender = Contender::vernierd("around", Forwarding::Bridge, Extent::Around);
pub const EVERYTHING_TWO: Contender = EVERYTHING.on_two_cpus("everything_two_workers");

pub const BASE_OFF_PATCH: Contender = OFF_PATCH.of_base("base_off_patch");
pub const BASE_OFF: Contender = OFF.of_base("base_off");
pub const BASE_LDA: Contender = LDA.of_base("base_lda");
pub const BASE_EVERYTHING: Contender = EVERYTHING.of_base("base_everything");
