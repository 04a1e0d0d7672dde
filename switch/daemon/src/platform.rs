//! The platform of the switch: DPDK's ports, and threads that prepare changes while the workers run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{Builder, Scope};

use anyhow::{Context, Result};
use contract::config::Config;
use dpdk_bindings::{Port, tsc};
use measure::time::Ticks;
use switch::packet_io::dpdk::{DpdkIo, Handles};
use switch::preflight;
use switch::reconfigurer::{Job, Next, Preparation, Prepare, Preparing, Running};
use switch::source::Source;
use switch::wiring::Platform;
use switch::wiring::devices;
use switch::wiring::{DpdkSite, Site, handles};

/// DPDK, and the threads of a scope.
#[derive(Clone, Copy)]
pub struct Dpdk<'scope, 'env, 'pool: 'scope> {
    /// Ports and packets.
    pub dpdk: DpdkSite<'pool>,
    /// Where generations are prepared.
    pub scope: &'scope Scope<'scope, 'env>,
}

/// The running switch.
pub type RunningSwitch<'scope, 'env, 'pool> = Running<Dpdk<'scope, 'env, 'pool>>;

impl<'scope, 'pool: 'scope> Platform for Dpdk<'scope, '_, 'pool> {
    type Io = DpdkIo<'pool>;
    type Port = Port<'pool>;

    fn site(&self) -> Site<'_> {
        self.dpdk.site
    }

    fn now(&self) -> Ticks {
        Ticks(tsc::now())
    }

    fn start(&self, config: &mut Config, place: usize) -> Result<Port<'pool>> {
        let attached = devices::attach(config, place, self.dpdk.eal)?;
        devices::settle(config, place, &attached);
        if let Some(warning) = preflight::port_warning(&config.ports[place]) {
            tracing::warn!("{warning}");
        }
        devices::start(config, place, attached, self.dpdk)
    }

    fn handles(
        &self,
        config: &Config,
        place: usize,
        port: &Port<'pool>,
        source: Option<Source>,
    ) -> Result<Vec<Handles<'pool>>> {
        handles(config, place, port, source)
    }
}

impl<'scope, 'pool: 'scope> Prepare for Dpdk<'scope, '_, 'pool> {
    /// On a separate thread, because devices are slow.
    fn prepare(&self, preparation: Preparation<Self>) -> Result<Preparing<Next<Self>>> {
        let (result, job) = Job::new("preparing it");
        let prepare = move || {
            // A panic gives no result, and must not end the scope.
            if let Ok(prepared) = catch_unwind(AssertUnwindSafe(|| preparation.make())) {
                // The receiver is gone if the switch has stopped.
                let _ = result.send(prepared);
            }
        };
        Builder::new()
            .name("vernier-reload".to_owned())
            .spawn_scoped(self.scope, prepare)
            .context("cannot start a thread to prepare it")?;
        Ok(job)
    }
}
