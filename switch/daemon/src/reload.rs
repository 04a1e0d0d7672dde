//! A changed configuration, read while packets flow: prepared beside the workers, refused whole or
//! taken up whole, at an epoch's rollover.
//!
//! ```text
//!  wanted -> Reading (a thread of its own: files, compare)
//!         -> Preparing (a thread: attach, allocate) -> Ready -> Offered (to the control core)
//!         -> UnderWay (boxes at the workers; old parts come back) -> done: old ports are closed
//! ```

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use contract::change::{self, ChangeError, CoreStatus};
use contract::config::Config;
use contract::ids::{GenerationId, PortIndex};
use dpdk_bindings::Port;
use measure::time::Epoch;

use crate::draft::{Draft, is_present};
use crate::running::Running;
use switch::egress::EgressLayout;
use switch::generation::{Generation, Generations, Measuring};
use switch::packet_io::dpdk::{Change, DpdkIo, Handles};
use switch::preflight;
use switch::source::Source;
use switch::wiring::plans::{Plans, Site, handles, replica};
use switch::wiring::reading::Reader;
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
        /// New ports.
        come: Vec<PortIndex>,
        /// Ports that are no longer used.
        gone: Vec<PortIndex>,
        /// The keys that changed.
        keys: Vec<String>,
    },
    /// All workers have taken it up, and what is gone is closed.
    Done,
}

/// How a reload continues.
#[derive(Debug)]
pub enum Step {
    /// Nothing has happened.
    Pending,
    /// The control core is to take a change; [`Reload::answer`] follows.
    Offered(Box<change::Change>),
    /// Something has happened.
    Changed(Changes),
}

/// A reload, as far as it got.
pub struct Reload<'scope, 'env, 'pool> {
    orders: Orders,
    scope: &'scope Scope<'scope, 'env>,
    stage: Stage<'scope, 'pool>,
    reader: Reader<Option<Draft>>,
}

enum Stage<'scope, 'pool> {
    Idle,
    Reading,
    Preparing(ScopedJoinHandle<'scope, Result<Prepared<'pool>>>),
    Ready(Box<Prepared<'pool>>),
    Offered(Box<Offered<'pool>>),
    UnderWay {
        gone: Vec<PortIndex>,
        returned: usize,
    },
}

/// A generation that is ready to be taken up.
struct Prepared<'pool> {
    /// For the control core, which takes it before any worker gets its part.
    change: change::Change,
    offered: Offered<'pool>,
}

/// What follows when the control core has taken the change.
struct Offered<'pool> {
    config: Config,
    number: GenerationId,
    generations: Vec<Generation<DpdkIo<'pool>>>,
    come: Vec<(PortIndex, Port<'pool>)>,
    gone: Vec<PortIndex>,
    keys: Vec<String>,
    layouts: Vec<Option<EgressLayout>>,
}

impl<'scope, 'env, 'pool> Reload<'scope, 'env, 'pool> {
    /// Nothing wanted yet. Preparing is done by threads of `scope`.
    pub fn new(orders: Orders, scope: &'scope Scope<'scope, 'env>) -> Self {
        Self {
            orders,
            scope,
            stage: Stage::Idle,
            reader: Reader::new(),
        }
    }

    /// Whether the workers have a generation of it.
    pub fn is_under_way(&self) -> bool {
        matches!(self.stage, Stage::UnderWay { .. })
    }

    /// Continues, without waiting.
    pub fn step(
        &mut self,
        site: Site<'pool>,
        running: &mut Running<'pool>,
        generations: &mut [Generations<DpdkIo<'pool>>],
        core: CoreStatus,
    ) -> Step
    where
        'pool: 'scope,
    {
        match self.try_step(site, running, generations, core) {
            Ok(step) => step,
            Err(error) => Step::Changed(Changes::Refused(error)),
        }
    }

    fn try_step(
        &mut self,
        site: Site<'pool>,
        running: &mut Running<'pool>,
        generations: &mut [Generations<DpdkIo<'pool>>],
        core: CoreStatus,
    ) -> Result<Step>
    where
        'pool: 'scope,
    {
        // Where an error ends it, no stage is left.
        self.stage = match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Idle => {
                if !self.orders.wanted.swap(false, Ordering::Relaxed) {
                    return Ok(Step::Pending);
                }
                self.read(site.budget_mib, running)?;
                self.stage = Stage::Reading;
                return Ok(Step::Changed(Changes::Reading));
            }
            Stage::Reading => match self.reader.take(Instant::now()) {
                None => Stage::Reading,
                Some(draft) => match draft? {
                    Some(draft) => Stage::Preparing(self.prepare(site, draft, running)?),
                    None => return Ok(Step::Changed(Changes::None)),
                },
            },
            Stage::Preparing(preparing) if !preparing.is_finished() => Stage::Preparing(preparing),
            Stage::Preparing(preparing) => {
                let prepared = preparing.join();
                let prepared = prepared.map_err(|_| anyhow!("preparing it panicked"))??;
                Stage::Ready(Box::new(prepared))
            }
            Stage::Ready(prepared) if core.is_busy => Stage::Ready(prepared),
            Stage::Ready(prepared) => {
                let (change, offered) = prepared.offer(Epoch(core.epoch.0 + EPOCHS_AHEAD));
                self.stage = Stage::Offered(Box::new(offered));
                return Ok(Step::Offered(Box::new(change)));
            }
            // A panic lost the change, or the answer.
            Stage::Offered(_) => return Err(ChangeError::Fault.into()),
            Stage::UnderWay { gone, returned } => {
                let back = generations.iter_mut().filter_map(Generations::take_gone);
                let returned = returned + back.count();
                if returned >= generations.len() {
                    // The workers' handles went with the boxes: these are the last.
                    for port in gone {
                        running.ports[port.index()] = None;
                    }
                    return Ok(Step::Changed(Changes::Done));
                }
                Stage::UnderWay { gone, returned }
            }
        };
        Ok(Step::Pending)
    }

    /// The control core has taken the change that was offered, or not.
    pub fn answer(
        &mut self,
        answer: Result<(), ChangeError>,
        running: &mut Running<'pool>,
        generations: &mut [Generations<DpdkIo<'pool>>],
    ) -> Changes {
        let Stage::Offered(offered) = std::mem::replace(&mut self.stage, Stage::Idle) else {
            return Changes::Refused(ChangeError::Fault.into());
        };
        if let Err(error) = answer {
            return Changes::Refused(error.into());
        }
        let (come, gone, keys) = offered.take_up(running, generations);
        self.stage = Stage::UnderWay {
            gone: gone.clone(),
            returned: 0,
        };
        Changes::Begun { come, gone, keys }
    }

    fn read(&mut self, budget_mib: Option<usize>, running: &Running<'_>) -> Result<()> {
        let file = self.orders.file.clone();
        let file = file.context("it was built in and has no file; start with --config FILE")?;
        let config = running.config.clone();
        let read = move || Draft::read(&file, &config, budget_mib);
        self.reader.begin(read, Instant::now())
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
    let come = start_all(site, &mut config, sources, &mut generations)?;
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
        change: change::Change {
            number,
            from: Epoch(0),
            config: config.clone(),
            layout,
            ends,
            wires: wire_ends,
            keys: wire_keys,
        },
        offered: Offered {
            config,
            number,
            generations,
            come,
            gone,
            keys,
            layouts,
        },
    })
}

/// Starts new ports, each with its source, and gives every worker its handles.
fn start_all<'pool>(
    site: Site<'pool>,
    config: &mut Config,
    sources: Vec<(PortIndex, Option<Source>)>,
    generations: &mut [Generation<DpdkIo<'pool>>],
) -> Result<Vec<(PortIndex, Port<'pool>)>> {
    let start = |(index, source): (PortIndex, _)| {
        let port = start(site, config, index.index())?;
        let handles = handles(config, index.index(), &port, source)?;
        give(generations, handles, |generation, handles| {
            let ports = generation.ports.get_or_insert_default();
            ports.come.push(handles);
        });
        Ok((index, port))
    };
    sources.into_iter().map(start).collect()
}

/// Attaches and starts the new port at `place`, and settles what the configuration leaves to its device.
///
/// # Errors
/// DPDK's, with the port's name.
pub fn start<'pool>(site: Site<'pool>, config: &mut Config, place: usize) -> Result<Port<'pool>> {
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

/// A generation that changes nothing but that the ports `gone`, which `config` names, are given back.
pub fn giving_back<'pool>(
    number: GenerationId,
    config: &Config,
    gone: &[PortIndex],
) -> Generation<DpdkIo<'pool>> {
    let room = |&port: &PortIndex| Handles::room(port, config.rx_queues(port.index()).into());
    let gone = gone.iter().map(room).collect();
    changing_ports(
        number,
        Change {
            gone,
            come: Vec::new(),
        },
    )
}

/// A generation that changes nothing but that a worker gets what `come` holds.
pub fn giving(number: GenerationId, come: Handles<'_>) -> Generation<DpdkIo<'_>> {
    changing_ports(
        number,
        Change {
            gone: Vec::new(),
            come: vec![come],
        },
    )
}

fn changing_ports(number: GenerationId, ports: Change<'_>) -> Generation<DpdkIo<'_>> {
    Generation {
        number,
        from: Epoch(0),
        ports: Some(ports),
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
    /// Lets it begin with epoch `from`.
    fn offer(self, from: Epoch) -> (change::Change, Offered<'pool>) {
        let Self {
            mut change,
            mut offered,
        } = self;
        change.from = from;
        for generation in &mut offered.generations {
            generation.from = from;
        }
        (change, offered)
    }
}

impl<'pool> Offered<'pool> {
    /// Sends the boxes to the workers; the ports that came and that go, and what changed.
    fn take_up(
        self,
        running: &mut Running<'pool>,
        generations: &mut [Generations<DpdkIo<'pool>>],
    ) -> (Vec<PortIndex>, Vec<PortIndex>, Vec<String>) {
        for (worker, generation) in generations.iter_mut().zip(self.generations) {
            let sent = worker.send(Box::new(generation));
            assert!(sent.is_ok(), "all generations before have come back");
        }
        running.config = self.config;
        running.layouts = self.layouts;
        running.number = self.number;
        running
            .ports
            .resize_with(running.config.ports.len(), || None);
        let come = self.come.iter().map(|(index, _)| *index).collect();
        for (index, port) in self.come {
            running.ports[index.index()] = Some(port);
        }
        (come, self.gone, self.keys)
    }
}
