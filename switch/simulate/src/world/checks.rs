//! After each step, enters passes, arrivals and snapshots in the ledger, and compares them with it.

use std::sync::Arc;

use contract::ids::PortIndex;
use measure::time::{Epoch, Ticks};
use records::snapshot::{ReloadOutcome, Snapshot, WireFigures};
use switch::packet_io::memory::MemoryPacket;

use super::configure::HOSTS;
use super::ledger::{Sending, Truth};
use super::rules;
use super::{EPOCH_NS, RECOVERED_EPOCHS, World};
use crate::outcome::{Check, Count, Violation, holds};
use crate::rack::wired::is_control;

/// Largest number of packets in a switch: queues, rings between workers, bursts.
const PACKETS_MAX: usize = 20_000;

/// Largest number of entries in the ledger, which covers four seconds.
const LEDGER_MAX: usize = 1_000_000;

impl World {
    /// A frame arrives.
    pub(super) fn arrive(
        &mut self,
        switch: usize,
        port: usize,
        frame: Vec<u8>,
        packet: Option<(u64, Sending)>,
    ) {
        let link = self.link_at(switch, port);
        let is_up = link.is_some_and(|(link, _)| self.links[link].is_up);
        if let Some(node) = &mut self.places[switch].node
            && is_up
        {
            let number = packet.map(|(number, _)| number);
            let is_taken = node.workers.arrive_as(port, frame, number);
            if let Some((number, sending)) = packet.filter(|_| is_taken) {
                self.ledger.came(switch, port, number, sending);
            }
        }
    }

    /// Runs a worker's pass, and enters its effects.
    pub(super) fn pass(&mut self, switch: usize, worker: usize) -> Check {
        let now = self.now;
        let place = &mut self.places[switch];
        let Some(node) = &mut place.node else {
            return Ok(());
        };
        node.clocks.clone_from(&place.clocks);
        node.pass(worker, now);
        let ticks = node.ticks(worker, now);
        let io = node.workers[worker].worker.io_mut();
        let received = io.take_received();
        let mut left = Vec::new();
        for port in 0..node.ports {
            let index = PortIndex::new(port);
            if io.has_port(index) {
                for (_, packet) in io.departed(index) {
                    left.push((port, packet));
                }
            }
        }
        let tai_ns = place.clocks.tai_ns(now);
        for one in received {
            let port = one.port.index();
            *place.received.entry(port).or_default() += 1;
            self.ledger.arrived(switch, port, one.number, tai_ns);
        }
        for (port, packet) in left {
            self.depart(switch, (ticks, tai_ns), port, &packet)?;
        }
        self.conserved(switch)
    }

    /// Enters a packet that has left through `port`.
    fn depart(
        &mut self,
        switch: usize,
        (ticks, tai_ns): (Ticks, u64),
        port: usize,
        packet: &MemoryPacket,
    ) -> Check {
        let (ingress, number, frame) = (packet.ingress(), packet.number(), packet.bytes());
        self.trace.fold(&[
            self.now,
            switch as u64,
            port as u64,
            frame.len() as u64,
            number.unwrap_or(0),
        ]);
        let link = self.link_at(switch, port);
        let place = &mut self.places[switch];
        let Some(node) = &place.node else {
            return Ok(());
        };
        self.figures.count(Count::Checks, 1);
        if let Some(number) = number {
            *place.sent.entry(port).or_default() += 1;
            let is_whole = self.ledger.is_whole(number, frame);
            holds("unchanged", is_whole != Some(false), || {
                format!("packet {number} left port {port} of switch {switch} as {frame:02x?}")
            })?;
            let epoch = node.memory.schedule.epoch_at(packet.received());
            if ticks < node.memory.schedule.sealed_from(epoch) {
                let egress = PortIndex::new(port);
                let segment = (switch, place.life, ingress, egress, epoch.0);
                let inside = ticks.saturating_since(packet.received());
                self.ledger.passed(self.now, segment, frame, inside);
            }
            if let Some(link) = link {
                let epoch = node.memory.schedule.epoch_at(ticks);
                let wire = (switch, place.life, PortIndex::new(port), epoch.0);
                let sending = self.ledger.sent(self.now, wire, tai_ns);
                self.transport(link, frame.to_vec(), Some((number, sending)));
            }
        } else {
            holds(
                "no-leak",
                link.is_some() && is_control(frame) && ingress.0 == u8::MAX,
                || {
                    format!(
                        "port {port} of switch {switch} sent {frame:02x?}, which came in by {ingress:?}"
                    )
                },
            )?;
            if let Some(link) = link {
                self.transport(link, frame.to_vec(), None);
            }
        }
        Ok(())
    }

    /// `conserved`: received + copies = transmitted + dropped + inside, and the counters of data frames equal the
    /// frames received and sent. `bounded`: no more packets are inside than queues and rings can hold.
    fn conserved(&mut self, switch: usize) -> Check {
        let place = &mut self.places[switch];
        let Some(node) = &mut place.node else {
            return Ok(());
        };
        self.figures.count(Count::Checks, 3);
        let workers = &mut node.workers;
        let came = workers.sum(|port| port.rx_packets.get() + port.copies.get());
        let went = workers.sum(|port| port.tx_packets.get() + port.dropped_total());
        let mut inside = 0;
        for one in workers.iter_mut() {
            let io = one.worker.io_mut();
            // A control frame that the driver refused is kept, and counted when it is sent.
            inside += io.live_packets() - io.made_packets() - io.waiting();
        }
        holds("conserved", came == went + inside as u64, || {
            format!(
                "switch {switch}: received and copied {came}, sent and dropped {went}, {inside} inside"
            )
        })?;
        for (&port, &sent) in &place.sent {
            let counted = workers.sum_at(port, |port| port.tx_packets.get());
            holds("conserved", counted == sent, || {
                format!("switch {switch}: port {port} sent {sent}, counted {counted}")
            })?;
        }
        for port in 0..HOSTS {
            let received = place.received.get(&port).copied().unwrap_or(0);
            let counted = workers.sum_at(port, |port| port.rx_packets.get());
            holds("conserved", counted == received, || {
                format!("switch {switch}: port {port} received {received}, counted {counted}")
            })?;
        }
        holds(
            "bounded",
            inside < PACKETS_MAX && self.ledger.len() < LEDGER_MAX,
            || {
                format!(
                    "switch {switch}: {inside} packets, {} entries",
                    self.ledger.len()
                )
            },
        )
    }

    /// Compares a snapshot with the ledger.
    pub(super) fn look(&mut self, switch: usize, snapshot: &Arc<Snapshot>) -> Check {
        if Arc::ptr_eq(snapshot, &self.places[switch].seen) {
            return Ok(());
        }
        let ports = snapshot.ports.iter();
        let tx: u64 = ports.map(|port| port.counts.tx_packets).sum();
        self.trace
            .fold(&[self.now, switch as u64, snapshot.epoch.unwrap_or(0), tx]);
        let seen = std::mem::replace(&mut self.places[switch].seen, Arc::clone(snapshot));
        rules::monotone(&seen, snapshot)?;
        self.figures.count(Count::Checks, 1);
        self.look_inside(switch, snapshot)?;
        self.look_at_flows(switch, snapshot)?;
        for wire in &snapshot.wires {
            self.look_at_wire(switch, wire)?;
        }
        Ok(())
    }

    fn look_inside(&mut self, switch: usize, snapshot: &Snapshot) -> Check {
        let place = &mut self.places[switch];
        let Some(node) = &place.node else {
            return Ok(());
        };
        let mut segments = snapshot.segments.iter();
        let has_classes = segments.any(|segment| segment.class != "all");
        let (running, changes) = {
            let state = node.state.lock();
            (state.running.clone(), state.changes)
        };
        for segment in &snapshot.segments {
            self.figures.count(Count::Checks, 2);
            rules::segment_sums(segment)?;
            rules::snapshot_sums(segment)?;
            let Some(last) = segment.last.as_ref().filter(|_| !has_classes) else {
                continue;
            };
            if place.checked.insert(segment.title(), last.epoch) == Some(last.epoch) {
                continue;
            }
            let ports = [&segment.ingress, &segment.egress].map(|name| running.port_index(name));
            let [Some(from), Some(to)] = ports.map(|port| port.map(PortIndex::new)) else {
                continue;
            };
            let key = (switch, place.life, from, to, last.epoch);
            let truth = self.ledger.inside.get(&key);
            let truth = truth.map_or_else(Truth::default, |(_, truth)| *truth);
            let may_miss =
                (changes.0.saturating_sub(2)..=changes.1.saturating_add(2)).contains(&last.epoch);
            rules::segment_truth(segment, truth, may_miss)?;
            self.figures.count(Count::Inside, 1);
            if let Some(lda) = &last.lda
                && truth.received == last.counts.received_packets
            {
                self.figures
                    .coverage
                    .judge("lda inside", lda.mean_ns, lda.bound_ns, truth.mean());
            }
        }
        Ok(())
    }

    /// Checks percentiles of flows with series of their own.
    fn look_at_flows(&mut self, switch: usize, snapshot: &Snapshot) -> Check {
        let place = &mut self.places[switch];
        let (Some(node), Some(flows)) = (&place.node, &snapshot.flows) else {
            return Ok(());
        };
        let (running, list) = (node.state.lock().running.clone(), &flows.list);
        let epoch = list.epoch.unwrap_or(0);
        if place.checked.insert("flows".to_owned(), epoch) == Some(epoch) {
            return Ok(());
        }
        let records = list.flows.iter();
        for record in records.filter(|record| record.last_epoch == epoch) {
            let (flow, Some(key)) = (snapshot.flow(list, record), record.key()) else {
                continue;
            };
            let Some(quantiles) = flow.quantiles else {
                continue;
            };
            let ports = [&flow.ingress, &flow.egress].map(|name| running.port_index(name));
            let [Some(from), Some(to)] = ports.map(|port| port.map(PortIndex::new)) else {
                continue;
            };
            let segment = (switch, place.life, from, to, epoch);
            let truth = self.ledger.flows.get(&(segment, *key));
            // Packets that a change of generation left out are in no histogram.
            let truth = truth.filter(|(_, delays)| delays.len() as u64 == flow.last.packets);
            if let Some((_, delays)) = truth {
                self.figures.count(Count::Checks, 1);
                self.figures.count(Count::OfFlows, 1);
                rules::flow_truth(&flow, &quantiles, delays)?;
            }
        }
        Ok(())
    }

    fn look_at_wire(&mut self, switch: usize, wire: &records::snapshot::Wire) -> Check {
        let place = &self.places[switch];
        let Some(port) = (0..place.shape.wires).find(|n| wire.port == format!("w{n}")) else {
            return Ok(());
        };
        self.figures.count(Count::Checks, 1);
        rules::accepted(wire, &place.genuine[port])?;
        let Some((link, end)) = self.link_at(switch, HOSTS + port) else {
            return Ok(());
        };
        let peer = self.links[link].ends[1 - end];
        for segment in &wire.segments {
            let Some(figures) = &segment.last else {
                continue;
            };
            let name = segment.name();
            let (sender, from) = if segment.is_incoming {
                peer
            } else {
                (switch, HOSTS + port)
            };
            if self.places[switch].checked.insert(name, figures.epoch) == Some(figures.epoch) {
                continue;
            }
            let life = self.places[sender].life;
            let truth = |life: u32| {
                let key = (sender, life, PortIndex::new(from), figures.epoch);
                self.ledger.of_wire(key)
            };
            let truths: Vec<Truth> = [truth(life), truth(life.saturating_sub(1))]
                .into_iter()
                .flatten()
                .collect();
            if truths.is_empty() {
                continue;
            }
            self.figures.count(Count::Checks, 1);
            self.figures.count(Count::OnWires, 1);
            let has_losses = figures.lost_packets.is_some();
            self.figures.count(Count::WithLosses, has_losses.into());
            rules::wire_truth(segment, figures, &truths).map_err(|broken| Violation {
                what: format!(
                    "switch {switch}: {}; {}, {:?}, {:?}",
                    broken.what, wire.session, segment.epochs, wire.total.events
                ),
                ..broken
            })?;
            let is_disturbed = [switch, peer.0].iter().any(|&n| {
                self.places[n].clock_disturbed_until + 2 * EPOCH_NS
                    > self.now.saturating_sub(8 * EPOCH_NS)
            });
            if is_disturbed || truths.len() > 1 || truths[0].received == 0 || truths[0].doubled > 0
            {
                continue;
            }
            self.judge_wire(figures, truths[0].mean());
        }
        Ok(())
    }

    /// Enters the bounds of all estimates of a wire.
    fn judge_wire(&mut self, figures: &WireFigures, mean_ns: f64) {
        let estimates = figures.estimates.iter();
        let estimates = estimates.map(|one| (one.method.as_str(), one));
        let chosen = figures.chosen.iter().map(|one| ("chosen", one));
        for (method, one) in estimates.chain(chosen) {
            if let Some(bound_ns) = one.bound_ns {
                let kind = format!("{method} on wires");
                let coverage = &mut self.figures.coverage;
                coverage.judge(&kind, one.mean_ns, bound_ns, mean_ns);
            }
        }
    }

    /// The current epoch of the switch at the other end of a wire.
    fn peer_epoch(&self, switch: usize, port: &str) -> u64 {
        let wires = 0..self.places[switch].shape.wires;
        let number = wires.into_iter().find(|n| port == format!("w{n}"));
        let link = number.and_then(|number| self.link_at(switch, HOSTS + number));
        let peer = link.and_then(|(link, end)| {
            let (peer, _) = self.links[link].ends[1 - end];
            self.places[peer].node.as_ref()
        });
        peer.map_or(0, |node| {
            node.memory.schedule.epoch_at(node.clocks.ticks(self.now)).0
        })
    }

    /// `recovered`: after [`super::QUIET_NS`] without faults, every wire is established, both of its directions have a
    /// recent usable epoch, and every switch has recently closed an epoch.
    pub(super) fn recovered(&mut self) -> Check {
        for switch in 0..self.places.len() {
            let place = &self.places[switch];
            let Some(node) = &place.node else {
                return holds("recovered", false, || {
                    format!("switch {switch} does not run")
                });
            };
            let ticks = node.clocks.ticks(self.now);
            let Epoch(present) = node.memory.schedule.epoch_at(ticks);
            let closed = place.seen.epoch.unwrap_or(0);
            self.figures.count(Count::Checks, 1);
            holds("recovered", closed + 4 >= present, || {
                format!("switch {switch}: epoch {closed} closed last, {present} is the present one")
            })?;
            let reload = place.seen.reload.as_ref().map(|reload| reload.outcome);
            let is_open = matches!(
                reload,
                Some(ReloadOutcome::Reading | ReloadOutcome::UnderWay)
            );
            holds("recovered", !is_open, || {
                format!("switch {switch}: a reload has not ended: {reload:?}")
            })?;
            for wire in &place.seen.wires {
                let is_up = wire.session == "established" && !wire.is_blocked;
                holds("recovered", is_up, || {
                    format!("switch {switch}: {} is {}", wire.port, wire.session)
                })?;
                if place.shape.is_patch {
                    // Ends that are patched to hosts may have had no traffic.
                    continue;
                }
                for segment in wire.segments.iter().filter(|segment| segment.is_incoming) {
                    let last = segment.last.as_ref().map_or(0, |last| last.epoch);
                    let sender = self.peer_epoch(switch, &wire.port);
                    holds("recovered", last + RECOVERED_EPOCHS >= sender, || {
                        let fate = segment.fate.as_deref().unwrap_or("none");
                        format!(
                            "switch {switch}: {}: {last} was usable last, {sender} is present, {fate}",
                            segment.name()
                        )
                    })?;
                }
            }
        }
        Ok(())
    }
}
