//! One generation, for all workers and for the control core.

use anyhow::{Context, Result};
use contract::change::Change;
use contract::config::{Config, WireKeys};
use contract::handover::ControlEnd;
use contract::ids::{GenerationId, PortIndex, WorkerIndex};
use contract::wire::handover::WireControlEnd;
use measure::shard::ShardLayout;
use measure::time::{Epoch, Ticks};

use super::cpus::near;
use super::lanes::{self, Way};
use super::plans::{Site, plan};
use crate::egress::EgressLayout;
use crate::generation::{Generation, Measuring};
use crate::packet_io::PacketIo;

impl Site<'_> {
    /// What each worker, and what the control core, has of generation `number`: lanes of the ports at `lanes_of`, where
    /// they replace others laid out as `old`, wires of those at `wires_of`, and how all measure. `now` is the counter's
    /// reading.
    ///
    /// # Errors
    /// Sizes that make no synopsis, keys that were not read, no threads.
    pub fn generations<I: PacketIo<Packet: Send>>(
        &self,
        number: GenerationId,
        config: &Config,
        [lanes_of, wires_of]: [&[usize]; 2],
        old: &[Option<EgressLayout>],
        keys: WireKeys,
        now: Ticks,
    ) -> Result<(Vec<Generation<I>>, Change)> {
        let unchanged = |_| Generation::unchanged(number);
        let mut generations: Vec<_> = self.cpus.iter().map(unchanged).collect();
        self.add_lanes(&mut generations, config, lanes_of, old)?;
        let layout = config.shard_layout(self.rate)?;
        let ends = self.add_plans(&mut generations, config, &layout)?;
        let wires = self.add_wires(&mut generations, config, &keys, wires_of, now)?;
        let change = Change {
            number,
            from: Epoch(0),
            config: config.clone(),
            layout,
            ends,
            wires,
            keys,
        };
        Ok((generations, change))
    }

    /// Lanes of the ports at `places`; `old` are the layouts of what they replace.
    fn add_lanes<I: PacketIo<Packet: Send>>(
        &self,
        generations: &mut [Generation<I>],
        config: &Config,
        places: &[usize],
        old: &[Option<EgressLayout>],
    ) -> Result<()> {
        let mut ways: Vec<Vec<_>> = self.cpus.iter().map(|_| Vec::new()).collect();
        for &place in places {
            for (worker, way) in ways.iter_mut().zip(lanes::ways(config, place)) {
                worker.push((place, way));
            }
        }
        for (worker, (generation, ways)) in generations.iter_mut().zip(ways).enumerate() {
            let lane = |(place, way): (usize, Way<I::Packet>)| {
                let old = old.get(place).and_then(Option::as_ref);
                let seed = self.seed ^ ((worker as u64) << 32 | place as u64);
                (place, way.lane(config, place, old, self.rate, seed))
            };
            let make = || ways.into_iter().map(lane).collect();
            generation.lanes = near(self.cpus[worker], self.usable, make)?;
        }
        Ok(())
    }

    /// Plans, and the other ends of their shards; none where nothing is measured.
    fn add_plans<I: PacketIo>(
        &self,
        generations: &mut [Generation<I>],
        config: &Config,
        layout: &ShardLayout,
    ) -> Result<Vec<Option<ControlEnd>>> {
        let mut ends = Vec::new();
        let arounds = self.devices.of(config, self.rate);
        for (worker, (generation, arounds)) in generations.iter_mut().zip(arounds).enumerate() {
            let mut planned = None;
            if config.measurement.enabled {
                let index = WorkerIndex::new(worker);
                let make = || plan(config, index, generation.number, layout, arounds);
                let (plan, end) = near(self.cpus[worker], self.usable, make)??;
                planned = Some(Box::new(plan));
                ends.push(Some(end));
            }
            generation.measuring = Measuring::Changed(planned);
        }
        Ok(ends)
    }

    /// The wires of the ports at `places`, each at the worker that owns its port; where there is no
    /// wire, none.
    fn add_wires<I: PacketIo<Packet: Send>>(
        &self,
        generations: &mut [Generation<I>],
        config: &Config,
        keys: &WireKeys,
        places: &[usize],
        now: Ticks,
    ) -> Result<Vec<(PortIndex, WireControlEnd)>> {
        let mut ends = Vec::new();
        for &place in places {
            let (owner, port) = (config.owner(place).unwrap_or(0), PortIndex::new(place));
            for (worker, generation) in generations.iter_mut().enumerate() {
                let Some(wire) = config.wire(place).filter(|_| worker == owner) else {
                    generation.wires.push((place, None));
                    continue;
                };
                let make = || self.wire(config, keys, (place, wire), now);
                let (wire, end) = near(self.cpus[worker], self.usable, make)?
                    .with_context(|| format!("port {}: wire", config.ports[place].name))?;
                generation.wires.push((place, Some(Box::new(wire))));
                ends.push((port, end));
            }
        }
        Ok(ends)
    }
}

/// Gives each worker its handles of a new port.
pub(crate) fn hand_out<I: PacketIo>(generations: &mut [Generation<I>], handles: Vec<I::Handles>) {
    assert_eq!(generations.len(), handles.len(), "a part for each worker");
    for (generation, handles) in generations.iter_mut().zip(handles) {
        generation.come.push(handles);
    }
}
