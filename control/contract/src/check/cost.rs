//! The approximate cost of a configuration for each packet.

use crate::config::{Config, FlowSelection, Forwarding};

/// The CPU on which the figures were measured.
pub const CPU: &str = "AMD EPYC, a virtual machine with 2 CPUs";

/// Accuracy of the figures.
pub const SOURCE: &str = "rough, frames of 64 bytes; `make bench STEPS=1` measures each step";

/// A step of the fast path, and the nanoseconds that it adds to a packet of 64 bytes.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Step {
    /// Name of the step.
    pub name: &'static str,
    /// Its duration.
    pub ns: f64,
}

const fn step(name: &'static str, ns: f64) -> Step {
    Step { name, ns }
}

// Measured by `make bench STEPS=1` (50,000 flows), each on top of the previous ones: PATCH, BRIDGE, STAMP,
// LDA, PARSE with FLOWS or LDS, and RLI. The rest are separate benchmarks on a slower machine.
const PATCH: Step = step("receive, pass on, transmit", 12.5);
const BRIDGE: Step = step("learn and look up addresses", 4.0);
const CLASSIFY: Step = step("classify", 6.0);
const QUEUE: Step = step("queue, schedule and shape", 15.0);
const HANDOVER: Step = step("hand over to an owner", 12.0);
const STAMP: Step = step("stamp, moments and histogram", 0.5);
const STAMP_EACH: Step = step("stamp every packet for itself", 20.0);
const LDA: Step = step("LDA", 1.0);
const PARSE: Step = step("parse and hash", 4.0);
const LDS: Step = step("LDS", 5.0);
const FLOWS: Step = step("flow counters", 5.0);
const RLI: Step = step("RLI", 4.5);

/// The steps of a packet under a configuration, at most: some ports may be without owner or queues.
pub fn steps(config: &Config) -> Vec<Step> {
    let measurement = &config.measurement;
    let ports = || config.ports.iter().filter(|port| port.is_present());
    let queues =
        ports().any(|port| port.egress.capacity_bps.is_some() || !port.egress.queues.is_empty());
    let hands_over = config.resolve().owners.iter().any(Option::is_some);
    let is_on = measurement.enabled;
    let flows = measurement.flows.as_ref();
    let counts_flows = flows.is_some_and(|flows| flows.select != FlowSelection::Sampled(0.0));
    let has_lds = measurement.lds.is_some();
    let is_plain = measurement
        .lds
        .as_ref()
        .is_some_and(|lds| lds.virtual_cells == 1 && lds.rows.iter().all(|&row| row >= 1.0))
        && config.classes.iter().all(|class| class.lds_weight == 1);
    let has_wires = config.wires().next().is_some();
    let stamps_each = measurement.stamps == crate::config::Stamps::Packet;
    let all = [
        (true, PATCH),
        (
            matches!(config.forwarding, Forwarding::Bridge { .. }),
            BRIDGE,
        ),
        (!config.rules.is_empty(), CLASSIFY),
        (queues, QUEUE),
        (hands_over, HANDOVER),
        (is_on, STAMP),
        (is_on && stamps_each, STAMP_EACH),
        (is_on && measurement.lda.is_some(), LDA),
        (is_on && (has_lds || counts_flows || has_wires), PARSE),
        // Packets of counted flows skip it if cells depend neither on the packet nor on its class.
        (is_on && has_lds && !(counts_flows && is_plain), LDS),
        (is_on && counts_flows, FLOWS),
        (is_on && measurement.rli.is_some(), RLI),
    ];
    let taken = all.into_iter().filter(|(is_taken, _)| *is_taken);
    taken.map(|(_, step)| step).collect()
}

/// Million packets of 64 bytes a second through these steps on one worker.
pub fn rate_mpps(steps: &[Step]) -> f64 {
    1e3 / steps.iter().map(|step| step.ns).sum::<f64>()
}

#[cfg(test)]
mod tests;
