//! The host program as a data plane of the control core.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use contract::change::{ChangeError, CoreStatus, Reload};
use contract::config::HostConfig;
use contract::ids::PortIndex;
use control::data_plane::{DataPlane, Event};
use dpdk_bindings::{plugin, tsc};
use measure::time::Ticks;
use records::snapshot::PortFact;
use switch::reconfigurer::{Orders, Progress, Reconfigurer};

use crate::program::Program;
use crate::taps::VhostWarning;

/// How often ports are checked.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The host program as a data plane.
pub struct HostDataPlane {
    program: Program,
    orders: Orders,
    reconfigurer: Reconfigurer<Program>,
    looked_at: Option<Instant>,
    vhost_warning: VhostWarning,
}

impl HostDataPlane {
    pub fn new(program: Program, orders: Orders, vhost_warning: VhostWarning) -> Self {
        Self {
            program,
            orders,
            reconfigurer: Reconfigurer::default(),
            looked_at: None,
            vhost_warning,
        }
    }

    /// Continues a reload, or makes plans for added or removed queues.
    fn change(&mut self, core: CoreStatus) {
        let now = Instant::now();
        if self.reconfigurer.is_idle() && self.orders.wanted.swap(false, Ordering::Relaxed) {
            let file = self.orders.file.clone();
            let file = file.context("VERNIER_CONFIG names no file");
            let read = file.map(|file| move || Ok(Some(HostConfig::load(file)?)));
            follow_reload(self.reconfigurer.begin(read, now));
        }
        match self.reconfigurer.step(&mut self.program, core, now) {
            Progress::Offered(change) => self.program.said.push(Event::Change(change)),
            progress => follow_reload(progress),
        }
    }
}

/// Reports the outcome of a reload.
fn follow_reload(progress: Progress) {
    match progress {
        Progress::Refused(error) => tracing::warn!("settings: not taken up: {error:#}"),
        Progress::Begun(difference) => {
            tracing::info!("settings: changed: {}", difference.named());
        }
        Progress::Failed(error) => plugin::disable(&format!("{error:#}")),
        _ => {}
    }
}

impl DataPlane for HostDataPlane {
    fn now(&mut self) -> Ticks {
        Ticks(tsc::now())
    }

    fn port(&mut self, port: PortIndex) -> PortFact {
        self.program.port(port)
    }

    fn reload(&mut self) -> Option<Reload> {
        self.reconfigurer.last()
    }

    fn poll(&mut self, core: CoreStatus) -> Vec<Event> {
        let is_due = |looked_at: Instant| looked_at.elapsed() >= LOOK_EVERY;
        if self.looked_at.is_none_or(is_due) {
            self.looked_at = Some(Instant::now());
            self.program.look();
            self.vhost_warning.look();
        }
        self.change(core);
        self.program.mark(core.epoch);
        self.program.keep_up();
        std::mem::take(&mut self.program.said)
    }

    fn answer(&mut self, answer: Result<(), ChangeError>) {
        follow_reload(self.reconfigurer.answer(answer, &mut self.program));
    }
}

#[cfg(test)]
mod tests;
