//! The reconfigurable state of the program: its ports and queues, which may be added and removed at any time, and the
//! plan of each queue.

use std::time::Duration;

use anyhow::{Result, bail};
use contract::change::Change;
use contract::config::{Config, HostConfig, WireKeys};
use contract::handover::SHARDS_PER_WORKER;
use contract::ids::{GenerationId, PortIndex};
use control::data_plane::Event;
use dpdk_bindings::{Host, tsc};
use measure::shard::ShardLayout;
use measure::time::{Epoch, TickRate, Ticks};
use records::snapshot::PortFact;
use switch::meter::Plan;
use switch::reconfigurer::{Difference, Job, Preparing, Target};
use switch::wiring::{budget_of_machine, plan};

use crate::departures::PlanChange;
use crate::open_vswitch::{self, OpenVSwitch};
use crate::ports::PortTable;
use crate::taps::{Queue, Taps};

/// How long a queue is idle before its epochs are rolled over for it; less than any grace except the shortest.
const REST: Duration = Duration::from_millis(2);

/// Settings that, with all keys below them, cannot change while the program runs, in addition to those of `vernierd`,
/// and the reasons.
const FIXED: [(&str, &str); 3] = [
    ("classes", CLASSES),
    ("rules", CLASSES),
    (
        "measurement.stamps",
        "packets in flight carry stamps made with the present value",
    ),
];

const CLASSES: &str = "packets in flight carry their present class";

const HASHES: &str = "packets do not carry these hashes, which the start did not ask for";

/// The host program with its queues.
pub struct Program {
    host: Host<'static>,
    /// The names of its ports, if it is Open vSwitch.
    open_vswitch: Option<OpenVSwitch>,
    /// The settings in use.
    pub settings: HostConfig,
    rate: TickRate,
    pub ports: PortTable,
    taps: Taps,
    /// Maximum memory, if the settings do not set it.
    budget_mib: Option<usize>,
    /// Number of the generation.
    pub number: GenerationId,
    /// The epoch with which the settings in use begin; `None` if queues were added or removed since.
    settled_from: Option<Epoch>,
    /// Whether queues were added or removed since then.
    pub has_changed: bool,
    /// Events for the control core at the end of this poll.
    pub said: Vec<Event>,
    /// Ports whose new state is not measured until the end of this epoch.
    unsettled: Vec<(PortIndex, Epoch)>,
    /// By port.
    watched: Vec<Watched>,
}

/// A generation of the program.
pub struct Plans {
    number: GenerationId,
    /// The new settings, if they differ from those in use.
    settings: Option<HostConfig>,
    /// The keys in which they differ.
    difference: Difference,
    /// A plan for each transmit queue; `None` if it is not measured.
    queues: Vec<(Queue, Option<Box<Plan>>)>,
}

/// Properties of a port other than its queues.
#[derive(Debug, Default)]
struct Watched {
    is_up: bool,
    flaps: u64,
    /// Empty until it is known.
    driver: String,
}

impl Program {
    pub fn new(
        host: Host<'static>,
        open_vswitch: Option<OpenVSwitch>,
        settings: HostConfig,
        rate: TickRate,
        taps: Taps,
    ) -> Self {
        Self {
            host,
            open_vswitch,
            settings,
            rate,
            ports: PortTable::default(),
            taps,
            budget_mib: budget_of_machine(),
            number: GenerationId::default(),
            settled_from: None,
            has_changed: false,
            said: Vec::new(),
            unsettled: Vec::new(),
            watched: Vec::new(),
        }
    }

    /// Updates ports and queues.
    pub fn look(&mut self) {
        let changed = self.look_at_ports();
        self.watched
            .resize_with(self.ports.names().len(), Watched::default);
        for &index in &changed {
            self.has_changed = true;
            // Until there is a plan for its new state.
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

    /// Updates the ports and their names; returns those that were added or removed, or have other queues than before.
    fn look_at_ports(&mut self) -> Vec<PortIndex> {
        let (names, ports) = (&self.settings.port_names, &mut self.ports);
        let mut present = self.host.ports();
        let Some(switch) = &mut self.open_vswitch else {
            return ports.update(&present, |port| names.get(port).map(String::as_str));
        };
        present.retain(|port| {
            let is_named = ports.knows(&port.name) || names.contains_key(&port.name);
            is_named || switch.is_settled(&port.name)
        });
        let switch = switch.names().unwrap_or_default();
        ports.update(&present, |port| {
            let of_switch = || Some(&open_vswitch::named(&switch, port)?.name);
            names.get(port).or_else(of_switch).map(String::as_str)
        })
    }

    /// Reads the properties of a port.
    pub fn port(&self, port: PortIndex) -> PortFact {
        let watched = self.watched.get(port.index());
        let (Some(watched), Some(port)) = (watched, self.ports.port(port)) else {
            return PortFact::default();
        };
        let names = self.open_vswitch.as_ref().and_then(OpenVSwitch::names);
        let bridge = || {
            Some(
                open_vswitch::named(names.as_ref()?, &port.name)?
                    .bridge
                    .clone(),
            )
        };
        PortFact {
            driver: watched.driver.clone(),
            bridge: bridge().unwrap_or_default(),
            is_up: watched.is_up,
            is_removed: false,
            link_flaps: watched.flaps,
            // Only the program may read the driver's counters.
            ..PortFact::default()
        }
    }

    /// Marks the current epoch for ports that are not measured correctly.
    pub fn mark(&mut self, present: Epoch) {
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

    /// Rolls epochs over for idle queues, and frees plans that are no longer in use.
    pub fn keep_up(&mut self) {
        let rest_ticks = self.rate.ticks_in(REST);
        for (_, tap) in self.taps.departures() {
            tap.point.roll_over_for(Ticks(tsc::now()), rest_ticks);
            tap.plans.free_gone();
        }
    }

    /// Returns the keys in which new settings differ from those in use.
    ///
    /// # Errors
    /// The keys that cannot change while the program runs, and why.
    fn changes(&self, new: &HostConfig) -> Result<Vec<String>> {
        let (names, old) = (self.ports.names(), &self.settings);
        let (mut keys, mut fixed) = (Vec::new(), Vec::new());
        let mut changed = |key: String, why: Option<&str>| {
            fixed.extend(why.map(|why| format!("{key}: {why}; restart the program to change it")));
            keys.push(key);
        };
        let config = new.config(&names);
        for change in old.config(&names).diff(&config) {
            let why = change.fixed.or_else(|| why_fixed(&change.path));
            changed(change.path, why);
        }
        if old.port_names != new.port_names {
            changed("port_names".to_owned(), None);
        }
        if config.shard_layout(self.rate)?.hashing() > self.taps.hashing() {
            changed("measurement".to_owned(), Some(HASHES));
        }
        if !fixed.is_empty() {
            bail!("{}", fixed.join("; "));
        }
        Ok(keys)
    }

    /// Makes plans for the existing queues, from new settings or from those in use.
    fn plan(
        &mut self,
        settings: Option<HostConfig>,
        difference: Difference,
    ) -> Result<(Change, Plans)> {
        let config = settings.as_ref().unwrap_or(&self.settings);
        let config = config.config(&self.ports.names());
        let (resolved, layout) = (config.resolve(), config.shard_layout(self.rate)?);
        let number = self.number.next();
        let Self { taps, ports, .. } = self;
        let hasher = taps.hasher().clone();
        let is_on = config.measurement.enabled;
        let planned: Vec<_> = taps
            .departures()
            .map(|((id, queue), tap)| {
                let of_port = ports.of_port(id).filter(|_| is_on);
                let of_port = of_port.filter(|(_, port)| queue < port.tx_queues);
                let part =
                    of_port.map(|(port, _)| layout.part(resolved.segments_of_egress(port.index())));
                ((id, queue), tap.worker, part)
            })
            .collect();
        let parts = planned.iter().filter_map(|(.., part)| part.as_ref());
        keep_budget(&config, &layout, parts, self.budget_mib)?;
        let mut ends = Vec::new();
        let mut queues = Vec::new();
        for (queue, worker, part) in planned {
            let plan = match part {
                Some(part) => {
                    let (mut plan, end) = plan(&config, worker, number, &part, None)?;
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
            queues.push((queue, plan));
        }
        let change = Change {
            number,
            from: Epoch(0),
            config,
            layout,
            ends,
            wires: Vec::new(),
            keys: WireKeys::default(),
        };
        let plans = Plans {
            number,
            settings,
            difference,
            queues,
        };
        Ok((change, plans))
    }
}

impl Target for Program {
    type Draft = HostConfig;
    type Generation = Plans;

    fn needs_generation(&self) -> bool {
        self.has_changed
    }

    fn prepare(&mut self, draft: Option<HostConfig>) -> Result<Option<Preparing<Plans>>> {
        let mut difference = Difference::default();
        let mut settings = None;
        if let Some(new) = draft {
            difference.keys = self.changes(&new)?;
            if difference.keys.is_empty() {
                return Ok(None);
            }
            settings = Some(new);
        }
        let planned = self.plan(settings, difference)?;
        Ok(Some(Job::done(Ok(planned))))
    }

    fn apply(&mut self, generation: Plans, from: Epoch) -> Difference {
        for (queue, plan) in generation.queues {
            let Some(tap) = self.taps.departure(queue) else {
                continue;
            };
            let was_planned = std::mem::replace(&mut tap.is_planned, plan.is_some());
            if was_planned || tap.is_planned {
                tap.plans.send(PlanChange { from, plan });
            }
        }
        self.number = generation.number;
        self.settled_from = generation.settings.is_some().then_some(from);
        // The change was prepared in this poll.
        self.has_changed = false;
        if let Some(settings) = generation.settings {
            self.settings = settings;
        }
        for (_, until) in &mut self.unsettled {
            *until = from.min(*until);
        }
        generation.difference
    }

    fn release(&mut self, present: Epoch) -> bool {
        let has_begun = self.settled_from.is_none_or(|from| present >= from);
        has_begun && self.taps.have_room()
    }
}

/// Refuses settings whose shards exceed the memory limit.
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
    // Memory for sums under assembly and for decoding.
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

/// Returns why the key at `path` cannot change while the program runs.
fn why_fixed(path: &str) -> Option<&'static str> {
    let is_under = |(key, _): &&(&str, &str)| {
        let rest = path.strip_prefix(*key);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    FIXED.iter().find(is_under).map(|(_, why)| *why)
}
