//! Segments on the wire: what each worker has of them, and what the control core has.

use std::sync::Arc;

use anyhow::{Context, Result};
use contract::config::{self, Config, WireKeys};
use contract::counters::WireCounters;
use contract::ids::PortIndex;
use contract::wire::clock::SharedLine;
use contract::wire::handover::{WireControlEnd, wire_handover};
use dpdk_bindings::tsc;
use measure::time::{EpochSchedule, TickRate, Ticks};
use measure::wire::{Receiver, Sender};

use super::cpus::near;
use super::plans::Site;
use crate::wire::{
    Envelope, HelloGate, Recorder, Route, Share, WireChange, WirePort, WireSetup, source_address,
};

/// For each worker what changes at its wires: another one, or none.
pub type WorkerWires<P> = Vec<Vec<WireChange<P>>>;

/// Wires, and the control core's ends of them.
pub struct WirePlans<P> {
    /// For each worker.
    pub wires: WorkerWires<P>,
    /// By port.
    pub ends: Vec<(PortIndex, WireControlEnd)>,
}

/// Places at which the wire of `config` is another than that of `running`, or begins, or ends. With
/// other keys it is the same: the control core tells its worker.
pub fn changed(running: &Config, config: &Config) -> Vec<usize> {
    let is_other = |&place: &usize| {
        let (old, new) = (running.wire(place), config.wire(place));
        if old.is_none() && new.is_none() {
            return false;
        }
        let ports = (running.ports.get(place), config.ports.get(place));
        let is_same_port = match ports {
            (Some(old), Some(new)) => {
                (&old.device, old.mtu, &old.egress) == (&new.device, new.mtu, &new.egress)
            }
            _ => false,
        };
        let is_alike = match (old, new) {
            (Some(old), Some(new)) => old.is_same_but_for_keys(new),
            _ => false,
        };
        let are_all_alike = match (&running.wire, &config.wire) {
            (Some(old), Some(new)) => old.is_same_but_for_keys(new),
            (old, new) => old == new,
        };
        let is_same = is_same_port
            && is_alike
            && are_all_alike
            && running.classes == config.classes
            && running.rules == config.rules
            && running.owner(place) == config.owner(place)
            && running.workers.len() == config.workers.len();
        !is_same
    };
    (0..config.ports.len().max(running.ports.len()))
        .filter(is_other)
        .collect()
}

impl Site<'_> {
    /// The wires of the ports at `places`, each at the worker that owns its port; where there is no
    /// wire, none.
    ///
    /// # Errors
    /// Keys that were not read, sizes that make no synopsis.
    pub fn wires<P: Send>(
        &self,
        config: &Config,
        keys: &WireKeys,
        places: &[usize],
    ) -> Result<WirePlans<P>> {
        let mut plans = WirePlans {
            wires: self.cpus.iter().map(|_| Vec::new()).collect(),
            ends: Vec::new(),
        };
        for &place in places {
            let owner = config.owner(place).unwrap_or(0);
            for (worker, wires) in plans.wires.iter_mut().enumerate() {
                let Some(wire) = config.wire(place).filter(|_| worker == owner) else {
                    wires.push((place, None));
                    continue;
                };
                let cpu = self.cpus.get(worker).copied().unwrap_or_default();
                let name = &config.ports[place].name;
                let origin = Origin {
                    rate: self.rate,
                    schedule: self.schedule,
                    line: self.line,
                    recorder: (self.recording)
                        .map(|recording| recording.recorder(PortIndex::new(place))),
                    now: Ticks(tsc::now()),
                };
                let make = move || wire_port::<P>(config, keys, place, wire, origin);
                let (wire, end) =
                    near(cpu, self.usable, make)?.with_context(|| format!("port {name}: wire"))?;
                wires.push((place, Some(Box::new(wire))));
                plans.ends.push((PortIndex::new(place), end));
            }
        }
        Ok(plans)
    }
}

/// What a wire has of the switch that it belongs to.
pub struct Origin<'s> {
    /// Rate of the counter.
    pub rate: TickRate,
    /// When epochs begin.
    pub schedule: EpochSchedule,
    /// TAI, as the control core has it.
    pub line: &'s Arc<SharedLine>,
    /// Where its packets are taken down, for tests.
    pub recorder: Option<Recorder>,
    /// The counter, now.
    pub now: Ticks,
}

/// The wire of the port at `place`, and the control core's end of it.
///
/// # Errors
/// Keys that cannot be read, sizes that make no synopsis.
pub fn wire_port<P>(
    config: &Config,
    keys: &WireKeys,
    place: usize,
    wire: &config::Wire,
    origin: Origin<'_>,
) -> Result<(WirePort<P>, WireControlEnd)> {
    let layout = config.wire_layout(place)?;
    let (keys, key) = config.wire_keys(place, keys)?;
    let switch = config.wire_switch();
    let port = PortIndex::new(place);
    let counters = Arc::new(WireCounters::default());
    let (end, control_end) = wire_handover(&layout, Arc::clone(origin.line), counters);
    let sender = Sender::new(&layout, switch, port.0.into(), &keys, key)?;
    let receiver = Receiver::new(&layout, keys)?;
    let setup = WireSetup {
        port,
        sender,
        receiver,
        end,
        classes: config.wire_segment_of_class(place),
        envelope: envelope(config, place, wire),
        share: Share::new(
            config.wire_capacity_bps(place),
            wire.share,
            config::REFERENCES_OF_SHARE,
            origin.rate,
            origin.now,
        ),
        hellos: HelloGate::new(origin.rate, origin.now),
        schedule: origin.schedule,
        recorder: origin.recorder,
    };
    Ok((WirePort::new(setup), control_end))
}

fn envelope(config: &Config, place: usize, wire: &config::Wire) -> Envelope {
    let own = source_address(config.wire_switch(), PortIndex::new(place));
    let given = wire.peer.and_then(|peer| peer.source_mac);
    let source = given.map_or(own, |address| address.0);
    match &wire.peer {
        None => Envelope::Link {
            ethertype: wire.ethertype,
            source,
        },
        Some(peer) => Envelope::Route {
            route: Route {
                local: peer.local,
                remote: peer.remote,
                gateway: peer.gateway.0,
                udp_port: peer.udp_port,
                dscp: config.wire_dscps(place),
            },
            source,
        },
    }
}
