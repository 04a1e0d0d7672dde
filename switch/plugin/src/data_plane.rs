//! Another program as the control core sees it: its ports and queues as they come and go, the plan of
//! each queue, and the epochs of queues that rest.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use contract::change::{Change, ChangeError, CoreStatus};
use contract::config::{Config, HostConfig, WireKeys};
use contract::handover::SHARDS_PER_WORKER;
use contract::ids::{GenerationId, PortIndex};
use control::data_plane::{DataPlane, Event};
use dpdk_bindings::{Host, plugin, tsc};
use measure::shard::ShardLayout;
use measure::time::{Epoch, TickRate, Ticks};
use records::snapshot::{self, Pool, PortFact};
use switch::wiring::{budget, plans};

use crate::plans::PlanChange;
use crate::ports::PortTable;
use crate::reload::{Present, Reload};
use crate::taps::{Queue, Taps};
use crate::unseen::Unseen;

/// How often ports are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How long a queue rests before its epochs are rolled over for it: less than any grace but the least.
const REST: Duration = Duration::from_millis(2);

/// A change is taken up so many epochs ahead: time for every queue to hear of it.
const EPOCHS_AHEAD: u64 = 2;

/// The program as the control core sees it.
pub struct HostDataPlane {
    host: Host<'static>,
    settings: HostConfig,
    rate: TickRate,
    ports: PortTable,
    taps: Taps,
    /// Most memory, where the settings name none.
    budget_mib: Option<usize>,
    /// Number of the generation.
    number: GenerationId,
    /// Queues came or went since then.
    has_changed: bool,
    /// A plan is being made; still set afterwards if that panicked.
    is_planning: bool,
    /// What follows when the control core has taken the change that it was given.
    offered: Option<Offered>,
    /// What the control core is to hear at the end of this poll.
    said: Vec<Event>,
    /// Ports that are not measured as they are now until the epoch is over.
    unsettled: Vec<(PortIndex, Epoch)>,
    looked_at: Option<Instant>,
    /// By port.
    watched: Vec<Watched>,
    reload: Reload,
    unseen: Unseen,
}

/// Plans for transmit queues, ready to be sent.
struct Offered {
    /// Whether it is for queues that came or went, not only for other settings.
    has_changed: bool,
    number: GenerationId,
    from: Epoch,
    changes: Vec<(Queue, PlanChange)>,
}

/// What is known of a port besides its queues.
#[derive(Debug, Default)]
struct Watched {
    is_up: bool,
    flaps: u64,
    /// Empty until it is known.
    driver: String,
}

impl HostDataPlane {
    pub fn new(
        host: Host<'static>,
        settings: HostConfig,
        rate: TickRate,
        taps: Taps,
        reload: Reload,
        unseen: Unseen,
    ) -> Self {
        Self {
            host,
            settings,
            rate,
            ports: PortTable::default(),
            taps,
            budget_mib: budget::of_machine(),
            number: GenerationId::default(),
            has_changed: false,
            is_planning: false,
            offered: None,
            said: Vec::new(),
            unsettled: Vec::new(),
            looked_at: None,
            watched: Vec::new(),
            reload,
            unseen,
        }
    }

    /// Sees which ports and queues there are.
    fn look(&mut self) {
        let names = &self.settings.port_names;
        let changed = self.ports.update(&self.host.ports(), names);
        self.watched
            .resize_with(self.ports.names().len(), Watched::default);
        for &index in &changed {
            self.has_changed = true;
            // Until a plan is made for what it is now.
            self.unsettled.push((index, Epoch(u64::MAX)));
            if let Some(port) = self.ports.port(index) {
                self.taps.attend(&self.host, port);
                tracing::info!(
                    "port {}: {} receive and {} transmit queues",
                    self.ports.name(index),
                    port.rx_queues,
                    port.tx_queues
                );
            }
        }
        self.said.extend(self.taps.take_new_workers());
        if !changed.is_empty() {
            self.taps.assign(&self.ports);
            for (_, port) in self.ports.present() {
                self.host.show(port);
            }
        }
        for (index, port) in self.ports.present() {
            let watched = &mut self.watched[index.index()];
            let is_up = self.host.is_up(port) == Some(true);
            if watched.driver.is_empty()
                && let Some(device) = self.host.device(port)
            {
                watched.driver = device.driver;
            }
            if is_up != watched.is_up {
                watched.is_up = is_up;
                watched.flaps += u64::from(!is_up);
                self.said.push(Event::Disturbed { port: index });
            }
        }
    }

    /// Makes plans for the queues that there are, and offers the control core a change to them.
    fn plan(&mut self, present: Epoch) -> Result<()> {
        let settings = self.reload.coming().unwrap_or(&self.settings);
        let config = settings.config(&self.ports.names());
        let layout = config.shard_layout(self.rate)?;
        let number = self.number.next();
        let from = Epoch(present.0 + EPOCHS_AHEAD);
        let Self { taps, ports, .. } = self;
        let hasher = taps.hasher().clone();
        let is_on = config.measurement.enabled;
        let planned: Vec<_> = taps
            .departures()
            .map(|((id, queue), tap)| {
                let of_port = ports.of_port(id).filter(|_| is_on);
                let of_port = of_port.filter(|(_, port)| queue < port.tx_queues);
                let part =
                    of_port.map(|(port, _)| layout.part(config.segments_of_egress(port.index())));
                ((id, queue), tap.worker, part)
            })
            .collect();
        let parts = planned.iter().filter_map(|(.., part)| part.as_ref());
        keep_budget(&config, &layout, parts, self.budget_mib)?;
        let mut ends = Vec::new();
        let mut changes = Vec::new();
        for (queue, worker, part) in planned {
            let plan = match part {
                Some(part) => {
                    let (mut plan, end) = plans::plan(&config, worker, number, &part, None)?;
                    plan.flows = plan.flows.map(|flows| flows.verified_by(hasher.clone()));
                    let worker = worker.index();
                    if ends.len() <= worker {
                        ends.resize_with(worker + 1, || None);
                    }
                    ends[worker] = Some(end);
                    Some(Box::new(plan))
                }
                None => None,
            };
            changes.push((queue, PlanChange { from, plan }));
        }
        self.said.push(Event::Change(Box::new(Change {
            number,
            from,
            config,
            layout,
            ends,
            wires: Vec::new(),
            keys: WireKeys::default(),
        })));
        self.offered = Some(Offered {
            has_changed: std::mem::take(&mut self.has_changed),
            number,
            from,
            changes,
        });
        Ok(())
    }

    /// [Plans](Self::plan) by the settings that are coming, if there are any; where that fails, those in use stay.
    fn try_plan(&mut self, present: Epoch) {
        let has_panicked = std::mem::replace(&mut self.is_planning, true);
        let is_reload = self.reload.coming().is_some();
        let planned = if has_panicked && is_reload {
            Err(ChangeError::Fault.into())
        } else {
            self.plan(present)
        };
        match planned {
            Ok(()) => (),
            Err(error) if is_reload => self.reload.refuse(&error),
            Err(error) => plugin::disable(&format!("{error:#}")),
        }
        self.is_planning = false;
    }

    /// The control core has taken a change: sends the queues their plans.
    fn take_up(&mut self, offered: Offered) {
        for (queue, change) in offered.changes {
            let Some(tap) = self.taps.departure(queue) else {
                continue;
            };
            let was_planned = std::mem::replace(&mut tap.is_planned, change.plan.is_some());
            if was_planned || tap.is_planned {
                tap.plans.send(change);
            }
        }
        self.number = offered.number;
        if let Some(settings) = self.reload.take_up(offered.from) {
            self.settings = settings;
        }
        for (_, until) in &mut self.unsettled {
            *until = offered.from.min(*until);
        }
    }

    /// Marks the present epoch for what is not measured as it should be.
    fn mark(&mut self, present: Epoch) {
        let said = &mut self.said;
        self.unsettled.retain(|&(port, until)| {
            said.push(Event::Disturbed { port });
            present <= until
        });
        for ((id, _), tap) in self.taps.departures() {
            if tap.has_missed()
                && let Some((port, _)) = self.ports.of_port(id)
            {
                said.push(Event::Disturbed { port });
            }
        }
    }
}

impl DataPlane for HostDataPlane {
    fn now(&mut self) -> Ticks {
        Ticks(tsc::now())
    }

    fn port(&mut self, port: PortIndex) -> PortFact {
        let watched = self.watched.get(port.index());
        let (Some(watched), Some(_)) = (watched, self.ports.port(port)) else {
            return PortFact::default();
        };
        PortFact {
            driver: watched.driver.clone(),
            is_up: watched.is_up,
            is_removed: false,
            link_flaps: watched.flaps,
            // The driver's counters are the program's to read.
            ..PortFact::default()
        }
    }

    /// The program's own, which is unknown.
    fn pools(&mut self) -> Vec<Pool> {
        Vec::new()
    }

    fn reload(&mut self) -> Option<snapshot::Reload> {
        self.reload.last()
    }

    fn poll(&mut self, core: CoreStatus) -> Vec<Event> {
        let is_due = |looked_at: Instant| looked_at.elapsed() >= LOOK_EVERY;
        if self.looked_at.is_none_or(is_due) {
            self.looked_at = Some(Instant::now());
            self.look();
            self.unseen.look();
        }
        self.reload.tick(core.epoch);
        // A plan that is on its way was made by the settings before.
        if self.offered.is_none() {
            let present = Present {
                settings: &self.settings,
                ports: &self.ports,
                rate: self.rate,
                hashing: self.taps.hashing(),
            };
            self.reload.step(&present, Instant::now());
        }
        if (self.has_changed || self.reload.coming().is_some())
            && self.offered.is_none()
            && !core.is_busy
            && self.taps.have_room()
        {
            self.try_plan(core.epoch);
        }
        self.mark(core.epoch);
        let rest_ticks = self.rate.ticks_in(REST);
        for (_, tap) in self.taps.departures() {
            tap.point.roll_over_for(Ticks(tsc::now()), rest_ticks);
            tap.plans.free_gone();
        }
        std::mem::take(&mut self.said)
    }

    fn answer(&mut self, answer: Result<(), ChangeError>) {
        let Some(offered) = self.offered.take() else {
            return;
        };
        match answer {
            Ok(()) => self.take_up(offered),
            Err(error) if self.reload.coming().is_some() => {
                // The plans in use were made by the settings before. Queues without one get theirs by these.
                self.has_changed |= offered.has_changed;
                self.reload.refuse(&error.into());
            }
            Err(ChangeError::Busy { .. }) => self.has_changed = true,
            Err(error) => plugin::disable(&error.to_string()),
        }
    }
}

/// Refuses queues whose shards take more memory than they may.
fn keep_budget<'l>(
    config: &Config,
    whole: &ShardLayout,
    parts: impl Iterator<Item = &'l ShardLayout>,
    budget_mib: Option<usize>,
) -> Result<()> {
    let named = config.memory_budget_mib.map(|mib| mib as usize);
    let Some(budget_mib) = named.or(budget_mib) else {
        return Ok(());
    };
    let (mut queues, mut bytes) = (0, 0);
    for part in parts {
        queues += 1;
        bytes += SHARDS_PER_WORKER * part.size_bytes().total();
    }
    // Sums under assembly, and what is decoded.
    bytes += 2 * SHARDS_PER_WORKER * whole.clone().without_flows().size_bytes().total();
    let mib = bytes >> 20;
    if mib > budget_mib {
        bail!(
            "measuring {queues} transmit queues takes {mib} MiB, more than the {budget_mib} MiB that it \
             may: ask for less (measurement.flows.slots, measurement.lds.cells), or name a \
             memory_budget_mib in the file that VERNIER_CONFIG names"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
