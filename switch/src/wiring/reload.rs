//! A changed configuration, read while packets flow: prepared beside the workers, refused whole or
//! taken up whole, at an epoch's turn.
//!
//! ```text
//!  wanted -> Preparing (a thread: read, compare, attach, allocate) -> Ready
//!         -> UnderWay (boxes at the workers; old parts come back) -> done: old ports are closed
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use anyhow::{Context, Result, anyhow, bail};
use control::config::Config;
use control::core::Desk;
use control::plant;
use control::wire::handover::WireControlEnd;
use dpdk_bindings::Port;

use super::crew::{Plans, Site, handles, open_source, port_index, present, replica};
use super::plant::Running;
use super::wires::{self, WirePlans};
use super::{budget, devices, lanes};
use crate::egress::EgressLayout;
use crate::generation::{Generation, Generations, Measuring};
use crate::packet_io::dpdk::{Change, DpdkIo, Handles};

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
}

enum Stage<'scope, 'pool> {
    Idle,
    Preparing(ScopedJoinHandle<'scope, Result<Option<Prepared<'pool>>>>),
    Ready(Box<Prepared<'pool>>),
    UnderWay { gone: Vec<usize>, returned: usize },
}

/// A generation that is ready to be taken up.
struct Prepared<'pool> {
    config: Config,
    number: u32,
    plans: PlansAhead,
    generations: Vec<Generation<DpdkIo<'pool>>>,
    wire_ends: Vec<(usize, WireControlEnd)>,
    come: Vec<(usize, Port<'pool>)>,
    gone: Vec<usize>,
    keys: Vec<String>,
    layouts: Vec<Option<EgressLayout>>,
}

/// The control core's part of the plans.
struct PlansAhead {
    layout: measure::shard::ShardLayout,
    ends: Vec<Option<control::handover::ControlEnd>>,
}

impl<'scope, 'env, 'pool> Reload<'scope, 'env, 'pool> {
    /// Nothing wanted yet. Preparing is done by threads of `scope`.
    pub fn new(orders: Orders, scope: &'scope Scope<'scope, 'env>) -> Self {
        Self {
            orders,
            scope,
            stage: Stage::Idle,
        }
    }

    /// Goes on, without waiting; says what is new.
    pub fn step(
        &mut self,
        site: Site<'pool>,
        running: &mut Running<'pool>,
        generations: &mut [Generations<DpdkIo<'pool>>],
        desk: &mut Desk<'_>,
    ) -> Option<Changes>
    where
        'pool: 'scope,
    {
        match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Idle => {
                if !self.orders.wanted.swap(false, Ordering::Relaxed) {
                    return None;
                }
                match self.begin(site, running) {
                    Ok(stage) => self.stage = stage,
                    Err(error) => return Some(Changes::Refused(error)),
                }
                Some(Changes::Reading)
            }
            Stage::Preparing(preparing) if !preparing.is_finished() => {
                self.stage = Stage::Preparing(preparing);
                None
            }
            Stage::Preparing(preparing) => match preparing.join() {
                Ok(Ok(Some(prepared))) => {
                    self.stage = Stage::Ready(Box::new(prepared));
                    None
                }
                Ok(Ok(None)) => Some(Changes::None),
                Ok(Err(error)) => Some(Changes::Refused(error)),
                Err(_) => Some(Changes::Refused(anyhow!("preparing it panicked"))),
            },
            Stage::Ready(prepared) if desk.is_busy() => {
                self.stage = Stage::Ready(prepared);
                None
            }
            Stage::Ready(prepared) => match prepared.take_up(running, generations, desk) {
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

    fn begin(&self, site: Site<'pool>, running: &Running<'pool>) -> Result<Stage<'scope, 'pool>>
    where
        'pool: 'scope,
    {
        let file = self.orders.file.clone();
        let file = file.context("it was built in and has no file; start with --config FILE")?;
        let config = running.config.clone();
        let layouts = running.layouts.clone();
        let number = running.number + 1;
        let prepare = move || prepare(site, &file, &config, layouts, number);
        let preparing = Builder::new()
            .name("vernier-reload".to_owned())
            .spawn_scoped(self.scope, prepare)
            .context("cannot start a thread to read it")?;
        Ok(Stage::Preparing(preparing))
    }
}

/// Reads the configuration and makes all that a change to it takes; nothing, if nothing has changed.
fn prepare<'pool>(
    site: Site<'pool>,
    file: &Path,
    running: &Config,
    mut layouts: Vec<Option<EgressLayout>>,
    number: u32,
) -> Result<Option<Prepared<'pool>>> {
    let mut config = Config::load_again(file, running)?;
    let changes = running.diff(&config);
    if changes.is_empty() {
        return Ok(None);
    }
    refuse_fixed(&changes)?;
    budget::keep(&config, site.budget_mib)?;

    let was_present = |place: &usize| present(running).any(|other| other == *place);
    let is_present: Vec<usize> = present(&config).collect();
    let come: Vec<usize> = is_present
        .iter()
        .copied()
        .filter(|p| !was_present(p))
        .collect();
    let gone: Vec<usize> = present(running)
        .filter(|p| !is_present.contains(p))
        .collect();

    let mut started = Vec::with_capacity(come.len());
    let mut taken: Vec<Vec<Handles<'pool>>> = site.cpus.iter().map(|_| Vec::new()).collect();
    for &place in &come {
        let source = open_source(&config.ports[place])?;
        let attached = devices::attach(&config, place, site.eal)?;
        devices::settle(&mut config, place, &attached);
        let port = devices::start(&config, place, attached, site)?;
        for (worker, handles) in taken
            .iter_mut()
            .zip(handles(&config, place, &port, source)?)
        {
            worker.push(handles);
        }
        started.push((place, port));
    }

    let are_classes_same = running.classes == config.classes;
    let is_other = |&place: &usize| {
        come.contains(&place)
            || gone.contains(&place)
            || !are_classes_same
            || running.ports[place].egress != config.ports[place].egress
    };
    let others: Vec<usize> = (0..config.ports.len()).filter(is_other).collect();
    let lanes = site.lanes(&config, &others, &layouts)?;
    layouts.resize_with(config.ports.len(), || None);
    for &place in &others {
        let is_there = is_present.contains(&place);
        layouts[place] = is_there.then(|| lanes::layout(&config, place, layouts[place].as_ref()));
    }

    let Plans {
        layout,
        plans,
        ends,
    } = site.plans(&config, number)?;
    let inlets = |place: usize| usize::from(running.rx_queues(place));
    let WirePlans {
        wires,
        ends: wire_ends,
    } = site.wires(&config, &wires::changed(running, &config))?;
    let parts = lanes.into_iter().zip(plans).zip(taken).zip(wires);
    let generations = parts.map(|(((lanes, plan), come), wires)| {
        let gone = gone
            .iter()
            .map(|&place| Handles::room(port_index(place), inlets(place)));
        Generation {
            number: number.into(),
            from: measure::time::Epoch(0),
            ports: Some(Change {
                gone: gone.collect(),
                come,
            }),
            decide: Some(replica(&config, site, None)),
            lanes,
            measuring: Measuring::Changed(plan),
            wires,
        }
    });
    Ok(Some(Prepared {
        number,
        plans: PlansAhead { layout, ends },
        generations: generations.collect(),
        wire_ends,
        come: started,
        gone,
        keys: changes.into_iter().map(|change| change.path).collect(),
        layouts,
        config,
    }))
}

/// Names what cannot change while the switch runs.
fn refuse_fixed(changes: &[control::config::Change]) -> Result<()> {
    let fixed: Vec<String> = changes
        .iter()
        .filter(|change| !change.is_live())
        .map(ToString::to_string)
        .collect();
    if !fixed.is_empty() {
        bail!("{}", fixed.join("; "));
    }
    Ok(())
}

impl<'pool> Prepared<'pool> {
    /// Sends the boxes to the workers; the places of ports that came and that go, and what changed.
    fn take_up(
        self,
        running: &mut Running<'pool>,
        generations: &mut [Generations<DpdkIo<'pool>>],
        desk: &mut Desk<'_>,
    ) -> Result<(Vec<usize>, Vec<usize>, Vec<String>)> {
        let from = measure::time::Epoch(desk.epoch().0 + EPOCHS_AHEAD);
        desk.change(plant::Change {
            number: self.number,
            from,
            config: self.config.clone(),
            layout: self.plans.layout,
            ends: self.plans.ends,
            wires: self.wire_ends,
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
