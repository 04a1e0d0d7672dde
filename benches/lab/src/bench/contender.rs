//! The compared programs.

use anyhow::{Context, Result};

use crate::bench::load::Load;
use crate::bench::ovs::{self, Setup};
use crate::bench::plugin::Plugin;
use crate::bench::setting::Bench;
use crate::bench::testpmd::Testpmd;
use crate::bench::vernierd::{Extent, Vernierd};

/// A program, how it is set up, and on how many CPUs it forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contender {
    /// Its name on the command line.
    pub id: &'static str,
    pub program: Program,
    /// The plugin's measurement, if it is loaded.
    plugin: Option<Extent>,
    /// CPUs that forward, 1 or 2.
    pub cpus: usize,
}

/// A program and how it is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    Testpmd(Testpmd),
    OpenVSwitch(Setup),
    Vernierd(Vernierd),
}

impl Contender {
    /// Its name in tables.
    pub fn label(&self) -> String {
        let (label, on_two) = match self.program {
            Program::Testpmd(Testpmd { mode, latencystats }) => {
                let meter = if latencystats { " + latencystats" } else { "" };
                (format!("testpmd {mode}{meter}"), ", two CPUs")
            }
            Program::OpenVSwitch(setup) => {
                let ports = match setup {
                    Setup::RulesAfterPorts => "two in_port rules",
                    Setup::RulesBeforePorts => "two in_port rules before ports",
                    Setup::Machine => "a port and a virtual machine",
                };
                (format!("OVS-DPDK, {ports}"), "")
            }
            Program::Vernierd(vernierd) => {
                let base = if self.is_base() { "base: " } else { "" };
                let Vernierd { mode, extent, .. } = vernierd;
                let label = format!("{base}vernierd {mode}, {}", extent.label());
                (label, ", two workers")
            }
        };
        let plugin = match self.plugin {
            None => "",
            Some(Extent::Lda) => " + plugin, LDA + moments + histogram",
            Some(_) => " + plugin, everything on",
        };
        label + plugin + if self.cpus > 1 { on_two } else { "" }
    }

    /// Why it cannot run here, if it cannot.
    pub fn absence(&self, bench: &Bench) -> Option<String> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        if cpus < self.cpus {
            return Some(format!("it needs {} CPUs, but there are {cpus}", self.cpus));
        }
        match self.program {
            Program::OpenVSwitch(_) if !bench.hugepages => {
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

    /// Packets per second that it forwards in both directions together.
    pub fn rate_pps(&self, bench: &Bench, load: Load) -> Result<f64> {
        self.run(bench, load).with_context(|| self.label())
    }

    fn run(&self, bench: &Bench, load: Load) -> Result<f64> {
        let install = |extent| Plugin::install(bench, extent, load.flows());
        let plugin = self.plugin.map(install).transpose()?;
        let plugin = plugin.as_ref();
        match self.program {
            Program::Testpmd(testpmd) => testpmd.rate_pps(bench, load, self.cpus, plugin),
            Program::Vernierd(vernierd) => vernierd.rate_pps(bench, load, self.cpus),
            Program::OpenVSwitch(setup) => match &bench.ovs {
                Ok(root) => ovs::rate_pps(setup, bench, load, root, plugin),
                Err(missing) => Err(anyhow::anyhow!("{missing}")),
            },
        }
    }

    const fn new(id: &'static str, program: Program) -> Self {
        Self {
            id,
            program,
            plugin: None,
            cpus: 1,
        }
    }

    const fn on_two_cpus(self, id: &'static str) -> Self {
        Self {
            id,
            cpus: 2,
            ..self
        }
    }

    const fn with_plugin(self, id: &'static str, extent: Extent) -> Self {
        Self {
            id,
            plugin: Some(extent),
            ..self
        }
    }

    const fn testpmd(id: &'static str, mode: &'static str, latencystats: bool) -> Self {
        Self::new(id, Program::Testpmd(Testpmd { mode, latencystats }))
    }

    const fn vernierd(id: &'static str, mode: &'static str, extent: Extent) -> Self {
        let vernierd = Vernierd {
            is_base: false,
            mode,
            extent,
        };
        Self::new(id, Program::Vernierd(vernierd))
    }

    /// The base's vernierd, in the same way.
    const fn of_base(mut self, id: &'static str) -> Self {
        if let Program::Vernierd(vernierd) = &mut self.program {
            vernierd.is_base = true;
        }
        Self { id, ..self }
    }
}

/// testpmd forwards without changes.
pub const IO: Contender = Contender::testpmd("io", "io", false);
/// testpmd forwards without changes, on two CPUs.
pub const IO_TWO: Contender = IO.on_two_cpus("io_two_cpus");
/// testpmd swaps Ethernet addresses.
pub const MACSWAP: Contender = Contender::testpmd("macswap", "macswap", false);
/// testpmd swaps Ethernet addresses, IP addresses and ports, so it parses.
pub const FIVE_TUPLE_SWAP: Contender = Contender::testpmd("5tswap", "5tswap", false);
/// testpmd swaps Ethernet addresses and measures latency.
pub const LATENCYSTATS: Contender = Contender::testpmd("latencystats", "macswap", true);
/// testpmd swaps Ethernet addresses, and the plugin measures with LDA, moments and histogram.
pub const PLUGIN_LDA: Contender = MACSWAP.with_plugin("plugin_lda", Extent::Lda);
/// The same with an LDS and flow slots, everything that the plugin has.
pub const PLUGIN_EVERYTHING: Contender = MACSWAP.with_plugin("plugin_everything", Extent::Flows);

/// Open vSwitch as a patch panel, set up as by an operator.
pub const OVS: Contender = Contender::new("ovs", Program::OpenVSwitch(Setup::RulesAfterPorts));
/// Open vSwitch as a patch panel, in its fastest setup.
pub const OVS_SIMPLE: Contender =
    Contender::new("ovs_simple", Program::OpenVSwitch(Setup::RulesBeforePorts));
/// Open vSwitch between a DPDK port and a port of a virtual machine.
pub const MACHINE: Contender = Contender::new("machine", Program::OpenVSwitch(Setup::Machine));
/// The patch panel with the plugin: LDA, moments and histogram.
pub const OVS_PLUGIN: Contender = OVS.with_plugin("ovs_plugin", Extent::Lda);
/// The virtual machine with the plugin, and the object for ports of virtual machines preloaded.
pub const MACHINE_PLUGIN: Contender = MACHINE.with_plugin("machine_plugin", Extent::Lda);

pub const OFF_PATCH: Contender = Contender::vernierd("off_patch", "patch", Extent::Off);
pub const OFF: Contender = Contender::vernierd("off", "bridge", Extent::Off);
pub const STAMPS: Contender = Contender::vernierd("stamps", "bridge", Extent::Stamps);
pub const LDA_PATCH: Contender = Contender::vernierd("lda_patch", "patch", Extent::Lda);
pub const LDA: Contender = Contender::vernierd("lda", "bridge", Extent::Lda);
pub const LDS: Contender = Contender::vernierd("lds", "bridge", Extent::Lds);
pub const FLOWS: Contender = Contender::vernierd("flows", "bridge", Extent::Flows);
pub const EVERYTHING: Contender = Contender::vernierd("everything", "bridge", Extent::Everything);
pub const AROUND: Contender = Contender::vernierd("around", "bridge", Extent::Around);
pub const EVERYTHING_TWO: Contender = EVERYTHING.on_two_cpus("everything_two_workers");

pub const BASE_OFF_PATCH: Contender = OFF_PATCH.of_base("base_off_patch");
pub const BASE_OFF: Contender = OFF.of_base("base_off");
pub const BASE_LDA: Contender = LDA.of_base("base_lda");
pub const BASE_EVERYTHING: Contender = EVERYTHING.of_base("base_everything");
