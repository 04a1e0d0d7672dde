//! Segments on the wire: what each worker has of them, and what the control core has.

use std::sync::Arc;

use anyhow::Result;
use contract::config::{self, Config, WireKeys};
use contract::counters::WireCounters;
use contract::ids::PortIndex;
use contract::wire::handover::{WireControlEnd, wire_handover};
use measure::time::Ticks;
use wire::{Receiver, Sender};

use super::plans::Site;
use crate::wire::{Envelope, HelloGate, Route, Share, WirePort, WireSetup, source_address};

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
    /// The wire of the port at `place`, and the control core's end of it. `now` is the counter's reading.
    ///
    /// # Errors
    /// Keys that cannot be read, sizes that make no synopsis.
    pub fn wire<P>(
        &self,
        config: &Config,
        keys: &WireKeys,
        (place, wire): (usize, &config::Wire),
        now: Ticks,
    ) -> Result<(WirePort<P>, WireControlEnd)> {
        let layout = config.wire_layout(place)?;
        let (keys, key) = config.wire_keys(place, keys)?;
        let switch = config.wire_switch();
        let port = PortIndex::new(place);
        let counters = Arc::new(WireCounters::default());
        let (end, control_end) = wire_handover(&layout, Arc::clone(self.line), counters);
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
                self.rate,
                now,
            ),
            hellos: HelloGate::new(self.rate, now),
            schedule: self.schedule,
            recorder: (self.recording).map(|recording| recording.recorder(port)),
        };
        Ok((WirePort::new(setup), control_end))
    }
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
