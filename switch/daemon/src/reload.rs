//! A changed configuration, read while packets flow: prepared beside the workers, refused whole or
//! taken up whole, at an epoch's turn.
//!
//! ```text
//!  wanted -> Reading (a thread that nobody waits for: files, compare)
//!         -> Preparing (a thread: attach, allocate) -> Ready
//!         -> UnderWay (boxes at the workers; old parts come back) -> done: old ports are closed
//! ```

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use contract::config::{Config, WireKeys};
use contract::ids::{GenerationId, PortIndex};
use contract::wire::handover::WireControlEnd;
use control::core::CoreHandle;
use control::data_plane;
use dpdk_bindings::Port;

use crate::data_plane::Running;
use crate::draft::{Draft, READING_MAX, Reading, is_present};
use switch::egress::EgressLayout;
use switch::generation::{Generation, Generations, Measuring};
use switch::packet_io::dpdk::{Change, DpdkIo, Handles};
use switch::preflight;
use switch::wiring::plans::{Plans, Site, handles, replica};
use switch::wiring::wires::WirePlans;
use switch::wiring::{devices, lanes};

/// Epochs from the present one to that with which a generation begins: time for all workers to see
/// it.
const EPOCHS_AHEAD: u64 = 2;

/// Who asks for a reload, and of what.
#[derive(Debug, Clone)]
pub struct Orders {
    /// Set by SIGHUP.
    pub wanted: Arc<AtomicBool>,
    /// The configuration's file; none: it came from nowhere, and cannot change.
    pub file: Option<PathBuf>,
}

/// What has happened.
#[derive(Debug)]
pub enum Changes {
    /// The configuration is being read.
    Reading,
    /// It cannot be taken up; nothing has changed.
    Refused(anyhow::Error),
    /// It says what holds already.
    None,
    /// It holds now, and the workers take it up.
    Begun {
        /// Places of new ports.
        come: Vec<usize>,
        /// Places of ports that are no longer used.
        gone: Vec<usize>,
        /// The keys that changed.
        keys: Vec<String>,
    },
    /// All workers have taken it up, and what is gone is closed.
    Done,
}

/// A reload, as far as it got.
pub struct Reload<'scope, 'env, 'pool> {
    orders: Orders,
    scope: &'scope Scope<'scope, 'env>,
    stage: Stage<'scope, 'pool>,
    /// What took too long to read, and may still be at it: there is one such thread at most.
    overdue: Option<Reading<Option<Draft>>>,
}

enum Stage<'scope, 'pool> {
    Idle,
    Reading(Reading<Option<Draft>>),
    Preparing(ScopedJoinHandle<'scope, Result<Prepared<'pool>>>),
    Ready(Box<Prepared<'pool>>),
    UnderWay { gone: Vec<usize>, returned: usize },
}

/// A generation that is ready to be taken up.
struct Prepared<'pool> {
    config: Config,
    number: GenerationId,
    plans: PlansAhead,
    generations: Vec<Generation<DpdkIo<'pool>>>,
    wire_ends: Vec<(usize, WireControlEnd)>,
    wire_keys: WireKeys,
    come: Vec<(usize, Port<'pool>)>,
    gone: Vec<usize>,
    keys: Vec<String>,
    layouts: Vec<Option<EgressLayout>>,
}

/// The control core's part of the plans.
struct PlansAhead {
    layout: measure::shard::ShardLayout,
    ends: Vec<Option<contract::handover::ControlEnd>>,
}

impl<'scope, 'env, 'pool> Reload<'scope, 'env, 'pool> {
    /// Nothing wanted yet. Preparing is done by threads of `scope`.
    pub fn new(orders: Orders, scope: &'scope Scope<'scope, 'env>) -> Self {
        Self {
            orders,
            scope,
            stage: Stage::Idle,
            overdue: None,
        }
    }

    /// Whether the workers have a generation of it.
    pub fn is_under_way(&self) -> bool {
        matches!(self.stage, Stage::UnderWay { .. })
    }

    /// Goes on, without waiting; says what is new.
    pub fn step(
        &mut self,
        site: Site<'pool>,
        running: &mut Running<'pool>,
        generations: &mut [Generations<DpdkIo<'pool>>],
        handle: &mut CoreHandle<'_>,
    ) -> Option<Changes>
    where
        'pool: 'scope,
    {
        match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Idle => {
                if !self.orders.wanted.swap(false, Ordering::Relaxed) {
                    return None;
                }
                match self.read(site.budget_mib, running) {
                    Ok(reading) => self.stage = Stage::Reading(reading),
                    Err(error) => return Some(Changes::Refused(error)),
                }
                Some(Changes::Reading)
            }
            Stage::Reading(reading) => match reading.result() {
                None if reading.is_overdue(Instant::now()) => {
                    self.overdue = Some(reading);
                    Some(Changes::Refused(overdue()))
                }
                None => {
                    self.stage = Stage::Reading(reading);
                    None
                }
                Some(Ok(Some(draft))) => match self.prepare(site, draft, running) {
                    Ok(preparing) => {
                        self.stage = Stage::Preparing(preparing);
                        None
                    }
                    Err(error) => Some(Changes::Refused(error)),
                },
                Some(Ok(None)) => Some(Changes::None),
                Some(Err(error)) => Some(Changes::Refused(error)),
            },
            Stage::Preparing(preparing) if !preparing.is_finished() => {
                self.stage = Stage::Preparing(preparing);
                None
            }
            Stage::Preparing(preparing) => match preparing.join() {
                Ok(Ok(prepared)) => {
                    self.stage = Stage::Ready(Box::new(prepared));
                    None
                }
                Ok(Err(error)) => Some(Changes::Refused(error)),
                Err(_) => Some(Changes::Refused(anyhow!("preparing it panicked"))),
            },
            Stage::Ready(prepared) if handle.is_busy() => {
                self.stage = Stage::Ready(prepared);
                None
            }
            Stage::Ready(prepared) => match prepared.take_up(running, generations, handle) {
                Ok((come, gone, keys)) => {
                    self.stage = Stage::UnderWay {
                        gone: gone.clone(),
                        returned: 0,
                    };
                    Some(Changes::Begun { come, gone, keys })
                }
                Err(error) => Some(Changes::Refused(error)),
            },
            Stage::UnderWay { gone, returned } => {
                let back = generations
                    .iter_mut()
                    .filter_map(Generations::take_gone)
                    .count();
                let returned = returned + back;
                if returned < generations.len() {
                    self.stage = Stage::UnderWay { gone, returned };
                    return None;
                }
                // The workers' handles went with the boxes: these are the last.
                for place in gone {
                    running.ports[place] = None;
                }
                Some(Changes::Done)
            }
        }
    }

    fn read(
        &mut self,
        budget_mib: Option<usize>,
        running: &Running<'_>,
    ) -> Result<Reading<Option<Draft>>> {
        if let Some(earlier) = self.overdue.take_if(|earlier| earlier.result().is_none()) {
            self.overdue = Some(earlier);
            return Err(overdue());
        }
        self.overdue = None;
        let file = self.orders.file.clone();
        let file = file.context("it was built in and has no file; start with --config FILE")?;
        let config = running.config.clone();
        let read = move || Draft::read(&file, &config, budget_mib);
        Reading::begin(read, Instant::now())
    }

    fn prepare(
        &self,
        site: Site<'pool>,
        draft: Draft,
        running: &Running<'pool>,
    ) -> Result<ScopedJoinHandle<'scope, Result<Prepared<'pool>>>>
    where
        'pool: 'scope,
    {
        let config = running.config.clone();
        let layouts = running.layouts.clone();
        let number = running.number.next();
        let prepare = move || prepare(site, draft, &config, layouts, number);
        Builder::new()
            .name("vernier-reload".to_owned())
            .spawn_scoped(self.scope, prepare)
            .context("cannot start a thread to prepare it")
    }
}

fn overdue() -> anyhow::Error {
    let limit_s = READING_MAX.as_secs();
    anyhow!(
        "it, or a file that it names, is not read within {limit_s} s; see whether its file system answers"
    )
}

/// Makes all that a change to the configuration takes.
fn prepare<'pool>(
    site: Site<'pool>,
    draft: Draft,
    running: &Config,
    mut layouts: Vec<Option<EgressLayout>>,
    number: GenerationId,
) -> Result<Prepared<'pool>> {
    let Draft {
        mut config,
        keys,
        come: sources,
        gone,
        wires: changed_wires,
        wire_keys,
    } = draft;
    let generation = |_| giving_back(number, running, &gone);
    let mut generations: Vec<_> = site.cpus.iter().map(generation).collect();
    let mut started = Vec::with_capacity(sources.len());
    for (place, source) in sources {
        let port = start(site, &mut config, place)?;
        let handles = handles(&config, place, &port, source)?;
        give(&mut generations, handles, |generation, handles| {
            let ports = generation.ports.get_or_insert_default();
            ports.come.push(handles);
        });
        started.push((place, port));
    }

    let others = changed_ports(running, &config);
    let lanes = site.lanes(&config, &others, &layouts)?;
    layouts.resize_with(config.ports.len(), || None);
    for &place in &others {
        let is_there = is_present(&config, place);
        layouts[place] = is_there.then(|| lanes::layout(&config, place, layouts[place].as_ref()));
    }
    let Plans {
        layout,
        plans,
        ends,
    } = site.plans(&config, number)?;
    let WirePlans {
        wires,
        ends: wire_ends,
    } = site.wires(&config, &wire_keys, &changed_wires)?;
    give(&mut generations, lanes, |generation, lanes| {
        generation.lanes = lanes;
    });
    give(&mut generations, plans, |generation, plan| {
        generation.measuring = Measuring::Changed(plan);
    });
    give(&mut generations, wires, |generation, wires| {
        generation.wires = wires;
    });
    for generation in &mut generations {
        generation.decide = Some(replica(&config, site, None));
    }
    Ok(Prepared {
        number,
        plans: PlansAhead { layout, ends },
        generations,
        wire_ends,
        wire_keys,
        come: started,
        gone,
        keys,
        layouts,
        config,
    })
}

/// Attaches and starts the new port at `place`, and settles what the configuration leaves to its device.
fn start<'pool>(site: Site<'pool>, config: &mut Config, place: usize) -> Result<Port<'pool>> {
    let attached = devices::attach(config, place, site.eal)?;
    devices::settle(config, place, &attached);
    if let Some(warning) = preflight::port_warning(&config.ports[place]) {
        tracing::warn!("{warning}");
    }
    devices::start(config, place, attached, site)
}

/// Ports whose egress side is another than before; new ones and those that are gone are among them.
fn changed_ports(before: &Config, config: &Config) -> Vec<usize> {
    let is_changed = |&place: &usize| {
        let [old, new] = [before, config].map(|config| config.ports.get(place));
        before.classes != config.classes
            || is_present(before, place) != is_present(config, place)
            || old.map(|port| &port.egress) != new.map(|port| &port.egress)
    };
    (0..config.ports.len()).filter(is_changed).collect()
}

/// A generation that changes nothing but that the ports at `gone`, which `config` names, are given back.
pub fn giving_back<'pool>(
    number: GenerationId,
    config: &Config,
    gone: &[usize],
) -> Generation<DpdkIo<'pool>> {
    let room = |&place: &usize| {
        let inlets = usize::from(config.rx_queues(place));
        Handles::room(PortIndex::new(place), inlets)
    };
    Generation {
        number,
        from: measure::time::Epoch(0),
        ports: Some(Change {
            gone: gone.iter().map(room).collect(),
            come: Vec::new(),
        }),
        decide: None,
        lanes: Vec::new(),
        measuring: Measuring::Unchanged,
        wires: Vec::new(),
    }
}

/// Gives each worker its part.
fn give<'pool, P>(
    generations: &mut [Generation<DpdkIo<'pool>>],
    parts: Vec<P>,
    mut set: impl FnMut(&mut Generation<DpdkIo<'pool>>, P),
) {
    assert_eq!(generations.len(), parts.len(), "a part for each worker");
    for (generation, part) in generations.iter_mut().zip(parts) {
        set(generation, part);
    }
}

impl<'pool> Prepared<'pool> {
    /// Sends the boxes to the workers; the places of ports that came and that go, and what changed.
    fn take_up(
        self,
        running: &mut Running<'pool>,
        generations: &mut [Generations<DpdkIo<'pool>>],
        handle: &mut CoreHandle<'_>,
    ) -> Result<(Vec<usize>, Vec<usize>, Vec<String>)> {
        let from = measure::time::Epoch(handle.epoch().0 + EPOCHS_AHEAD);
        handle.change(data_plane::Change {
            number: self.number,
            from,
            config: self.config.clone(),
            layout: self.plans.layout,
            ends: self.plans.ends,
            wires: self.wire_ends,
            keys: self.wire_keys,
        })?;
        for (worker, mut generation) in generations.iter_mut().zip(self.generations) {
            generation.from = from;
            // Whatever was sent before has come back.
            let _ = worker.send(Box::new(generation));
        }
        running.config = self.config;
        running.layouts = self.layouts;
        running.number = self.number;
        running
            .ports
            .resize_with(running.config.ports.len(), || None);
        let come = self.come.iter().map(|(place, _)| *place).collect();
        for (place, port) in self.come {
            running.ports[place] = Some(port);
        }
        Ok((come, self.gone, self.keys))
    }
}
