//! A switch of workers, as a reload changes it: the configuration in use, its ports, and the ends to the workers.

use anyhow::Result;
use contract::change::Change;
use contract::config::Config;
use contract::ids::{GenerationId, PortIndex};
#[cfg(feature = "planted")]
use measure::planted;
use measure::time::Epoch;

use super::{Difference, Draft, Preparing, Target};
use crate::egress::EgressLayout;
use crate::generation::{Generation, Generations, WorkerEnds};
use crate::wiring::generations::hand_out;
use crate::wiring::lanes;
use crate::wiring::plans::is_present;
use crate::wiring::platform::Platform;

/// A platform on which generations are prepared while packets flow.
pub trait Prepare: Platform {
    /// Lets a preparation be made.
    ///
    /// # Errors
    /// When it cannot begin.
    fn prepare(&self, preparation: Preparation<Self>) -> Result<Preparing<Next<Self>>>;
}

/// The configuration that holds, and what was made of it.
pub struct Running<P: Platform> {
    /// What it runs on.
    pub platform: P,
    /// The configuration, ports by index.
    pub config: Config,
    /// By port index.
    pub ports: Vec<Option<P::Port>>,
    /// Number of the generation.
    pub number: GenerationId,
    /// The ends to the workers.
    pub workers: WorkerEnds<P::Io>,
    /// The egress side of each port, by index.
    layouts: Vec<Option<EgressLayout>>,
    /// Ports to be closed when all workers have given them back.
    gone: Vec<PortIndex>,
}

impl<P: Platform> Running<P> {
    /// What holds at the start, when there is a port at each place.
    pub fn new(
        platform: P,
        config: &Config,
        ports: Vec<P::Port>,
        workers: Vec<Generations<P::Io>>,
    ) -> Self {
        let layouts = (0..ports.len()).map(|place| Some(lanes::layout(config, place, None)));
        Self {
            platform,
            config: config.clone(),
            layouts: layouts.collect(),
            ports: ports.into_iter().map(Some).collect(),
            number: GenerationId::default(),
            workers: WorkerEnds::new(workers),
            gone: Vec::new(),
        }
    }

    fn close_gone(&mut self) {
        for port in std::mem::take(&mut self.gone) {
            self.ports[port.index()] = None;
        }
    }
}

/// A generation that is ready for the workers.
pub struct Next<P: Platform> {
    config: Config,
    difference: Difference,
    /// For each worker. Dropped before the ports, whose queues it has.
    generations: Vec<Generation<P::Io>>,
    /// The new ones.
    ports: Vec<P::Port>,
    layouts: Vec<Option<EgressLayout>>,
}

impl<P: Prepare> Target for Running<P> {
    type Draft = Draft;
    type Generation = Next<P>;

    fn prepare(&mut self, draft: Option<Draft>) -> Result<Option<Preparing<Next<P>>>> {
        let Some(draft) = draft else { return Ok(None) };
        let preparation = Preparation {
            platform: self.platform.clone(),
            draft,
            running: self.config.clone(),
            layouts: self.layouts.clone(),
            number: self.number.next(),
        };
        self.platform.prepare(preparation).map(Some)
    }

    fn apply(&mut self, mut next: Next<P>, from: Epoch) -> Difference {
        for generation in &mut next.generations {
            generation.from = from;
        }
        self.workers.send(next.generations);
        self.config = next.config;
        self.layouts = next.layouts;
        self.number = self.number.next();
        self.gone.clone_from(&next.difference.gone);
        self.ports.resize_with(self.config.ports.len(), || None);
        for (index, port) in next.difference.come.iter().zip(next.ports) {
            self.ports[index.index()] = Some(port);
        }
        next.difference
    }

    /// Closes the ports that are gone. The workers' handles went with the boxes: these are the last.
    fn release(&mut self, _: Epoch) -> bool {
        #[cfg(feature = "planted")]
        if planted::is(planted::Bug::EarlyClose) {
            self.close_gone();
        }
        let is_over = self.workers.collect();
        if is_over {
            self.close_gone();
        }
        is_over
    }
}

/// All that a generation is made of.
pub struct Preparation<P> {
    platform: P,
    draft: Draft,
    running: Config,
    layouts: Vec<Option<EgressLayout>>,
    number: GenerationId,
}

impl<P: Platform> Preparation<P> {
    /// Makes all that the change to the configuration takes.
    ///
    /// # Errors
    /// What cannot be had: devices, queues, memory, threads.
    pub fn make(self) -> Result<(Change, Next<P>)> {
        let (running, mut layouts) = (self.running, self.layouts);
        let Draft {
            mut config,
            difference,
            sources,
            wires: changed_wires,
            wire_keys,
        } = self.draft;
        let (mut ports, mut handles) = (Vec::new(), Vec::new());
        for (index, source) in difference.come.iter().zip(sources) {
            let port = self.platform.start(&mut config, index.index())?;
            handles.push(
                self.platform
                    .handles(&config, index.index(), &port, source)?,
            );
            ports.push(port);
        }
        let others = changed_ports(&running, &config);
        let places = [others.as_slice(), &changed_wires];
        let (site, now) = (self.platform.site(), self.platform.now());
        let (mut generations, change) =
            site.generations(self.number, &config, places, &layouts, wire_keys, now)?;
        for handles in handles {
            hand_out(&mut generations, handles);
        }
        for generation in &mut generations {
            generation.gone = Generation::<P::Io>::room(&running, &difference.gone);
            generation.decide = Some(site.replica(&config, None));
        }
        layouts.resize_with(config.ports.len(), || None);
        for place in others {
            let is_there = is_present(&config, place);
            layouts[place] =
                is_there.then(|| lanes::layout(&config, place, layouts[place].as_ref()));
        }
        let next = Next {
            config,
            difference,
            generations,
            ports,
            layouts,
        };
        Ok((change, next))
    }
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
