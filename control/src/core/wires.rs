//! Segments on the wire: the clock, and one exchange for each port, from its first change to its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use measure::time::{TickRate, Ticks};
use wire::exchange::Moment;
use wire::session::{KeyId, KeyRing};

use super::flow_state::FlowState;
use crate::contain::{Part, contain};
use crate::data_plane::{DataPlane, ResultMode};
use crate::wire::clock::{ClockSource, ClockStatus, KernelClock, SystemTime, TaiClock};
use crate::wire::exchange::Exchange;
use crate::wire::flows::WireFlowsOf;
use contract::change::ChangeError;
use contract::config::{Config, WireClock as WireClockSettings, WireKeys};
use contract::ids::PortIndex;
use contract::wire::clock::SharedLine;
use contract::wire::handover::WireControlEnd;
use records::snapshot::{Wire, WireClock};

mod port;
mod record;
mod settings;

use port::WirePort;
use settings::settings;

/// All wires.
#[derive(Debug)]
pub(super) struct Wires {
    rate: TickRate,
    decoding: ResultMode,
    line: Arc<SharedLine>,
    clock: TaiClock,
    clock_settings: WireClockSettings,
    status: Option<ClockStatus>,
    ports: Vec<WirePort>,
    /// What wires that ended have counted, for when they come back: as many as ports have had names.
    ended: Vec<Wire>,
}

/// What a change brings, ready to begin.
#[derive(Debug)]
pub(super) struct Ahead {
    new: Vec<WirePort>,
    /// For ports whose exchanges stay: keys that are accepted, and the one to send under.
    keys: Vec<(PortIndex, KeyRing, KeyId)>,
}

/// The data plane's counter and the system's clock.
struct Clocks<'p>(&'p mut dyn DataPlane);

impl ClockSource for Clocks<'_> {
    fn ticks(&mut self) -> Ticks {
        self.0.now()
    }

    fn system(&mut self) -> SystemTime {
        self.0.system_time()
    }

    fn kernel(&mut self) -> Option<KernelClock> {
        self.0.kernel_clock()
    }
}

impl Wires {
    pub fn new(rate: TickRate, line: Arc<SharedLine>, decoding: ResultMode) -> Self {
        Self {
            rate,
            decoding,
            clock: TaiClock::new(rate, WireClockSettings::default(), Arc::clone(&line)),
            clock_settings: WireClockSettings::default(),
            line,
            status: None,
            ports: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// Makes the exchanges of a change, and reads the keys of those that stay; nothing has changed yet.
    ///
    /// # Errors
    /// [`ChangeError::Wire`] for keys that were not read, or what does not fit together.
    pub fn prepare(
        &self,
        config: &Config,
        ends: Vec<(PortIndex, WireControlEnd)>,
        keys: &WireKeys,
        now: Instant,
    ) -> Result<Ahead, ChangeError> {
        let refused = |port: PortIndex, message: String| ChangeError::Wire { port, message };
        let is_kept = |port: &&WirePort| {
            has_wire(config, port) && ends.iter().all(|(index, _)| *index != port.index)
        };
        // Where keys were not read, they are as they were.
        let kept = self.ports.iter().filter(is_kept).filter_map(|port| {
            let (ring, key) = config.wire_keys(port.index.index(), keys).ok()?;
            Some((port.index, ring, key))
        });
        let others: Vec<_> = kept.collect();
        let mut keyless = others
            .iter()
            .filter(|(_, ring, key)| ring.get(*key).is_none());
        if let Some((index, ..)) = keyless.next() {
            return Err(refused(*index, "it has no key to send under".to_owned()));
        }
        let each = ends.into_iter().map(|(index, end)| {
            self.port(config, index, end, keys, now)
                .map_err(|message| refused(index, message))
        });
        let new = each.collect::<Result<_, _>>()?;
        Ok(Ahead { new, keys: others })
    }

    fn port(
        &self,
        config: &Config,
        index: PortIndex,
        end: WireControlEnd,
        keys: &WireKeys,
        now: Instant,
    ) -> Result<WirePort, String> {
        let wire = config.wire(index.index()).ok_or("it has no `wire`")?;
        let settings = settings(config, index, wire, keys, self.rate)?;
        let share_bps = settings.frames.bytes_per_s as f64 * 8.0;
        let exchange = Exchange::new(settings, end, self.decoding).map_err(|e| e.to_string())?;
        Ok(WirePort::new(index, exchange, config, share_bps, now))
    }

    /// A change holds: new exchanges replace old ones of their ports; those of ports that have no wire
    /// any more end.
    pub fn begin(&mut self, config: &Config, Ahead { new, keys }: Ahead) {
        self.clock_settings = config.wire_clock();
        self.clock.configure(self.clock_settings);
        let is_replaced = |port: &WirePort| new.iter().any(|new| new.index == port.index);
        let (kept, over): (Vec<_>, Vec<_>) = std::mem::take(&mut self.ports)
            .into_iter()
            .partition(|port| has_wire(config, port) && !is_replaced(port));
        self.ports = kept;
        let over = over.iter();
        self.ended
            .extend(over.map(|port| port.counted(port.exchange.status().as_ref())));
        for mut port in new {
            let earlier = self.ended.iter().position(|old| old.port == port.name());
            if let Some(earlier) = earlier {
                port.continue_from(&self.ended.swap_remove(earlier));
            }
            self.ports.push(port);
        }
        self.ports.sort_by_key(|port| port.index);
        for (index, keys, key) in keys {
            let port = self.ports.iter_mut().find(|port| port.index == index);
            let Some(port) = port else { continue };
            if let Err(error) = port.exchange.set_keys(keys, key) {
                tracing::error!(port = port.name(), "keys stay as they are: {error}");
            }
        }
    }

    /// Renews the line, and lets every exchange do what is due. Returns whether an epoch has ended.
    pub fn poll(&mut self, data_plane: &mut dyn DataPlane, monotonic: Duration) -> bool {
        if self.ports.is_empty() {
            return false;
        }
        let Some(status) = contain(Part::Clock, || self.clock.look(&mut Clocks(data_plane))) else {
            self.clock = TaiClock::new(self.rate, self.clock_settings, Arc::clone(&self.line));
            return false;
        };
        self.status = Some(status);
        let Some(line) = self.clock.line() else {
            return false;
        };
        let now = Moment {
            tai_ns: line.tai_ns(data_plane.now()),
            monotonic_ns: u64::try_from(monotonic.as_nanos()).unwrap_or(u64::MAX),
            clock: status.view,
        };
        let mut has_ended = false;
        for port in &mut self.ports {
            has_ended |= port.poll(now, &mut || data_plane.random());
        }
        has_ended
    }

    /// The clock; `None` where there are no wires.
    pub fn clock(&self) -> Option<WireClock> {
        let status = self.status.filter(|_| !self.ports.is_empty())?;
        Some(WireClock {
            state: status.view.state.label().to_owned(),
            error_ns: status.view.error_ns.into(),
            error_source: status.error_source.label().to_owned(),
            fit_error_ns: status.fit_error_ns,
            tai_utc_s: status.view.tai_utc_s,
            ptp_domain: status.view.ptp_domain,
            steps: status.steps,
            last_step_ns: status.last_step_ns,
        })
    }

    /// Every wire that can be shown, with the names of `flows`; and what flows are looked up in.
    pub fn publish(&mut self, flows: &FlowState, now: Instant) -> (Vec<Wire>, Vec<WireFlowsOf>) {
        let names = flows.names();
        let (mut wires, mut lookups) = (Vec::new(), Vec::new());
        for port in &mut self.ports {
            let shown = contain(Part::Wire, || port.publish(&names, flows.hasher(), now));
            let Some((wire, lookup)) = shown else {
                port.exchange.start_anew();
                continue;
            };
            lookups.extend(lookup);
            wires.push(wire);
        }
        (wires, lookups)
    }

    pub fn is_empty(&self) -> bool {
        self.ports.is_empty()
    }
}

fn has_wire(config: &Config, port: &WirePort) -> bool {
    config.wire(port.index.index()).is_some()
}

#[cfg(test)]
mod tests;
