//! The programs that are compared.

use anyhow::{Context, Result};

use crate::bench::ovs::{OpenVSwitch, Rules, Second};
use crate::bench::setting::{Bench, Build, Input, Memory};
use crate::bench::testpmd::{Meter, Testpmd};
use crate::bench::vernierd::{Extent, Forwarding, Vernierd};

/// A program, how it is set up, and on how many CPUs it forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contender {
    /// Its name in JSON and on the command line.
    pub id: &'static str,
    /// Its name in tables.
    pub label: &'static str,
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
    pub const fn is_base(&self) -> bool {
        matches!(self.program, Program::Vernierd(vernierd) if matches!(vernierd.build, Build::Base))
    }

    /// Packets a second that it forwards, both ways together.
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

    const fn on_one_cpu(id: &'static str, label: &'static str, program: Program) -> Self {
        Self {
            id,
            label,
            program,
            cpus: 1,
        }
    }

    const fn on_two_cpus(self, id: &'static str, label: &'static str) -> Self {
        Self {
            id,
            label,
            cpus: 2,
            ..self
        }
    }

    const fn testpmd(
        id: &'static str,
        label: &'static str,
        mode: &'static str,
        meter: Meter,
    ) -> Self {
        Self::on_one_cpu(id, label, Program::Testpmd(Testpmd { mode, meter }))
    }

    const fn ovs(
        id: &'static str,
        label: &'static str,
        rules: Rules,
        plugin: Option<Extent>,
    ) -> Self {
        let ovs = OpenVSwitch {
            rules,
            second: Second::Capture,
            plugin,
        };
        Self::on_one_cpu(id, label, Program::OpenVSwitch(ovs))
    }

    /// Open vSwitch between a capture and a virtual machine.
    const fn machine(id: &'static str, label: &'static str, plugin: Option<Extent>) -> Self {
        let ovs = OpenVSwitch {
            rules: Rules::AfterPorts,
            second: Second::Machine,
            plugin,
        };
        Self::on_one_cpu(id, label, Program::OpenVSwitch(ovs))
    }

    const fn patch(id: &'static str, label: &'static str, extent: Extent) -> Self {
        Self::vernierd(id, label, Build::This, Forwarding::Patch, extent)
    }

    const fn bridge(id: &'static str, label: &'static str, extent: Extent) -> Self {
        Self::vernierd(id, label, Build::This, Forwarding::Bridge, extent)
    }

    const fn base(
        id: &'static str,
        label: &'static str,
        forwarding: Forwarding,
        extent: Extent,
    ) -> Self {
        Self::vernierd(id, label, Build::Base, forwarding, extent)
    }

    const fn vernierd(
        id: &'static str,
        label: &'static str,
        build: Build,
        forwarding: Forwarding,
        extent: Extent,
    ) -> Self {
        let vernierd = Vernierd {
            build,
            forwarding,
            extent,
        };
        Self::on_one_cpu(id, label, Program::Vernierd(vernierd))
    }
}

/// testpmd forwards and changes nothing.
pub const IO: Contender = Contender::testpmd("io", "testpmd io", "io", Meter::None);
/// The same on two CPUs.
pub const IO_TWO: Contender = IO.on_two_cpus("io_two_cpus", "testpmd io, two CPUs");
/// It swaps the Ethernet addresses.
pub const MACSWAP: Contender =
    Contender::testpmd("macswap", "testpmd macswap", "macswap", Meter::None);
/// It swaps Ethernet addresses, IP addresses and ports: it parses.
pub const FIVE_TUPLE_SWAP: Contender =
    Contender::testpmd("5tswap", "testpmd 5tswap", "5tswap", Meter::None);
/// It swaps Ethernet addresses and measures latency.
pub const LATENCYSTATS: Contender = Contender::testpmd(
    "latencystats",
    "testpmd macswap + latencystats",
    "macswap",
    Meter::Latencystats,
);
/// It swaps Ethernet addresses, and the plugin measures: LDA, moments and histogram.
pub const PLUGIN_LDA: Contender = Contender::testpmd(
    "plugin_lda",
    "testpmd macswap + plugin, LDA + moments + histogram",
    "macswap",
    Meter::Plugin(Extent::Lda),
);
/// The same with all that the plugin has: an LDS and flow slots besides.
pub const PLUGIN_EVERYTHING: Contender = Contender::testpmd(
    "plugin_everything",
    "testpmd macswap + plugin, everything on",
    "macswap",
    Meter::Plugin(Extent::Flows),
);
/// Open vSwitch as a patch panel, as an operator types it.
pub const OVS: Contender = Contender::ovs(
    "ovs",
    "OVS-DPDK, two in_port rules",
    Rules::AfterPorts,
    None,
);
/// The same with the plugin: LDA, moments and histogram.
pub const OVS_PLUGIN: Contender = Contender::ovs(
    "ovs_plugin",
    "OVS-DPDK, two in_port rules + plugin, LDA + moments + histogram",
    Rules::AfterPorts,
    Some(Extent::Lda),
);
/// Open vSwitch between a port of DPDK's and a virtual machine's.
pub const MACHINE: Contender =
    Contender::machine("machine", "OVS-DPDK, a port and a virtual machine", None);
/// The same with the plugin, and the object for ports of virtual machines preloaded.
pub const MACHINE_PLUGIN: Contender = Contender::machine(
    "machine_plugin",
    "OVS-DPDK, a port and a virtual machine + plugin, LDA + moments + histogram",
    Some(Extent::Lda),
);
/// Open vSwitch as a patch panel at its best.
pub const OVS_SIMPLE: Contender = Contender::ovs(
    "ovs_simple",
    "OVS-DPDK, two in_port rules before ports",
    Rules::BeforePorts,
    None,
);

pub const OFF_PATCH: Contender =
    Contender::patch("off_patch", "vernierd patch, measurement off", Extent::Off);
pub const OFF: Contender =
    Contender::bridge("off", "vernierd bridge, measurement off", Extent::Off);
pub const STAMPS: Contender =
    Contender::bridge("stamps", "vernierd bridge, stamped delays", Extent::Stamps);
pub const LDA_PATCH: Contender = Contender::patch(
    "lda_patch",
    "vernierd patch, LDA + moments + histogram",
    Extent::Lda,
);
pub const LDA: Contender = Contender::bridge(
    "lda",
    "vernierd bridge, LDA + moments + histogram",
    Extent::Lda,
);
pub const LDS: Contender = Contender::bridge("lds", "vernierd bridge, + LDS", Extent::Lds);
pub const FLOWS: Contender =
    Contender::bridge("flows", "vernierd bridge, + flow slots", Extent::Flows);
pub const EVERYTHING: Contender = Contender::bridge(
    "everything",
    "vernierd bridge, everything on",
    Extent::Everything,
);
pub const AROUND: Contender = Contender::bridge(
    "around",
    "vernierd bridge, + around a device",
    Extent::Around,
);
pub const EVERYTHING_TWO: Contender = EVERYTHING.on_two_cpus(
    "everything_two_workers",
    "vernierd bridge, everything on, two workers",
);

pub const BASE_OFF_PATCH: Contender = Contender::base(
    "base_off_patch",
    "base: vernierd patch, measurement off",
    Forwarding::Patch,
    Extent::Off,
);
pub const BASE_OFF: Contender = Contender::base(
    "base_off",
    "base: vernierd bridge, measurement off",
    Forwarding::Bridge,
    Extent::Off,
);
pub const BASE_LDA: Contender = Contender::base(
    "base_lda",
    "base: vernierd bridge, LDA + moments + histogram",
    Forwarding::Bridge,
    Extent::Lda,
);
pub const BASE_EVERYTHING: Contender = Contender::base(
    "base_everything",
    "base: vernierd bridge, everything on",
    Forwarding::Bridge,
    Extent::Everything,
);
