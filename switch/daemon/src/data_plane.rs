//! The switch as seen by the control core, apart from the workers' shards: ports and their links, the
//! filtering database, changes of the configuration, the watchdog.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use api::process;
use contract::change::{Change, ChangeError, CoreStatus, Reload};
use contract::config::Forwarding;
use contract::fdb::{FdbMaster, FdbSettings};
use contract::ids::PortIndex;
use control::contain::{Part, contain};
use control::data_plane::{self, KernelClock};
use dpdk_bindings::{Port, kernel_clock, lost_log_messages, tsc};
use measure::time::Ticks;
use records::snapshot::{DeviceCounts, Fdb, Pool, PortFact};

use crate::interface_records::InterfaceRecords;
use crate::platform::RunningSwitch;
use crate::removals::{Attempt, Removals};
use crate::service::Service;
use switch::reconfigurer::{Difference, Draft, Orders, Progress, Reconfigurer};
use switch::wiring::links::{Event, LinkWatch};
use switch::wiring::present;

/// Interval of link checks; some drivers ask the kernel.
const LINKS_EVERY: Duration = Duration::from_millis(100);

/// Losses of a port's device.
const INTERFACE_LOST: &str =
    "its interface is gone (deleted, or moved to another network namespace)";
const SERVER_LOST: &str = "its connection to the net_memif server is gone";

/// The switch as seen by the control core.
pub struct SwitchDataPlane<'scope, 'env, 'pool: 'scope> {
    running: RunningSwitch<'scope, 'env, 'pool>,
    master: FdbMaster,
    links: LinkWatch,
    lowered: InterfaceRecords,
    looked_at: Option<Instant>,
    events: Vec<Event>,
    /// Events for the control core at the end of this poll.
    said: Vec<data_plane::Event>,
    orders: Orders,
    /// Maximum memory without packet buffers, unless the configuration has a budget.
    budget_mib: Option<usize>,
    reconfigurer: Reconfigurer<RunningSwitch<'scope, 'env, 'pool>>,
    removals: Removals,
    service: Service,
    began: Instant,
    /// Lost messages of DPDK, counted.
    lost_messages: u64,
}

impl<'scope, 'env, 'pool: 'scope> SwitchDataPlane<'scope, 'env, 'pool> {
    /// A data plane that runs `running` until `orders` request a reload. A configuration without a budget may use
    /// `budget_mib` of memory.
    pub fn new(
        running: RunningSwitch<'scope, 'env, 'pool>,
        master: FdbMaster,
        orders: Orders,
        budget_mib: Option<usize>,
    ) -> Self {
        let mut data_plane = Self {
            running,
            master,
            links: LinkWatch::new(),
            lowered: InterfaceRecords::from_env(),
            looked_at: None,
            events: Vec::new(),
            said: Vec::new(),
            orders,
            budget_mib,
            reconfigurer: Reconfigurer::default(),
            removals: Removals::default(),
            service: Service::from_env(),
            began: Instant::now(),
            lost_messages: 0,
        };
        let ports: Vec<_> = present(&data_plane.running.config).collect();
        for port in ports.into_iter().map(PortIndex::new) {
            data_plane.watch_link(port, data_plane.began);
        }
        data_plane.join_links();
        data_plane.service.ready(&data_plane.status());
        data_plane
    }

    /// Watches the link of a new port.
    fn watch_link(&mut self, port: PortIndex, now: Instant) {
        let index = port.index();
        let interface = self.device(port).and_then(|device| device.info().interface);
        let was_lowered = interface.is_some_and(|interface| self.lowered.holds(interface));
        self.master.set_link(port, !was_lowered);
        if was_lowered {
            let name = self.name(port);
            tracing::warn!("port {name}: a switch that was killed has left its link down");
            self.links.watch_lowered(index, None, now);
        } else {
            self.links.watch(index, None, now);
        }
    }

    /// Joins the links of patched pairs, if link losses are forwarded.
    fn join_links(&mut self) {
        let config = &self.running.config;
        for place in 0..config.ports.len() {
            self.links.join(place, config.partner(place));
        }
    }

    /// Counts lost messages of DPDK as lost lines of the log.
    fn count_lost_messages(&mut self) {
        let lost = lost_log_messages();
        if lost > self.lost_messages {
            process::count_lost_log_lines(lost - self.lost_messages);
            self.lost_messages = lost;
        }
    }

    /// Forgets all learnt stations, also at the workers, after a panic.
    fn begin_master_anew(&mut self) {
        let empty = FdbMaster::new(FdbSettings::new(1, Duration::ZERO), Vec::new());
        let ends = std::mem::replace(&mut self.master, empty).into_ends();
        self.master = FdbMaster::new(self.running.config.fdb_settings(), ends);
        for place in 0..self.running.config.ports.len() {
            self.master
                .set_link(PortIndex::new(place), self.links.is_up(place));
        }
    }

    fn watch_links(&mut self, now: Instant) {
        let is_due = |looked_at| now.saturating_duration_since(looked_at) >= LINKS_EVERY;
        if !self.looked_at.is_none_or(is_due) {
            return;
        }
        self.looked_at = Some(now);
        let ports = &self.running.ports;
        let has_link = |place: usize| match ports.get(place) {
            _ if self.removals.facts(PortIndex::new(place)).is_some() => false,
            Some(Some(port)) => port.is_up(),
            _ => true,
        };
        self.links.look(now, has_link, &mut self.events);
        for event in std::mem::take(&mut self.events) {
            self.follow(event);
        }
    }

    fn follow(&mut self, event: Event) {
        let (Event::Down(place) | Event::Up(place) | Event::Lower(place) | Event::Raise(place)) =
            event;
        let port = PortIndex::new(place);
        match event {
            Event::Down(_) | Event::Up(_) => {
                let is_up = matches!(event, Event::Up(_));
                let state = if is_up { "up" } else { "down" };
                tracing::warn!("port {} is {state}", self.name(port));
                self.master.set_link(port, is_up);
                self.said.push(data_plane::Event::Disturbed { port });
            }
            Event::Lower(_) => self.lower_link(port),
            Event::Raise(_) => self.raise_link(port),
        }
    }

    /// Stops using ports whose devices are removed or lost, and reopens lost ones that are back.
    fn watch_removals(&mut self, now: Instant) {
        while let Some(port) = self.removals.find(&self.running.ports) {
            let facts = data_plane::DataPlane::port(self, port);
            self.removals.note(port, facts);
            tracing::error!(
                "port {}: its device is being removed; the port cannot be used until the switch is restarted",
                self.name(port)
            );
        }
        while let Some(port) = self.find_lost(now) {
            let facts = data_plane::DataPlane::port(self, port);
            let interface = self.device(port).and_then(|device| device.info().interface);
            interface.inspect(|&interface| self.lowered.clear(interface));
            if interface.is_some() {
                self.removals.note(port, facts);
                let name = self.name(port);
                tracing::error!(
                    "port {name}: {INTERFACE_LOST}; it is used again when that is back"
                );
                continue;
            }
            let times = self.removals.note_refusal(port, facts);
            let name = self.name(port);
            match times {
                0 => tracing::error!(
                    "port {name}: {SERVER_LOST}; it is used again when that is back"
                ),
                1 => tracing::error!(
                    "port {name}: the net_memif server ends each connection at once: it may have another client of this \
                     id, or another secret; it is tried again, less and less often"
                ),
                _ => tracing::debug!("port {name}: {SERVER_LOST} again"),
            }
        }
        for port in self.removals.collect(&mut self.running) {
            if !self.removals.is_refused(port) {
                tracing::warn!("port {}: its device is released", self.name(port));
            }
        }
        if !self.running.workers.are_busy() {
            self.removals.ask(&mut self.running);
            self.reopen(now);
        }
    }

    /// The first port whose device is lost and still in use; asks the kernel as often as for links.
    fn find_lost(&mut self, now: Instant) -> Option<PortIndex> {
        let is_due = |looked_at| now.saturating_duration_since(looked_at) >= LINKS_EVERY;
        let is_due = self.looked_at.is_none_or(is_due);
        is_due.then(|| self.removals.find_lost(&self.running, now))?
    }

    /// Reopens a lost device that is back.
    fn reopen(&mut self, now: Instant) {
        match self.removals.reopen(&mut self.running, now) {
            None => {}
            Some(Attempt::Failed(port, error)) => {
                tracing::warn!("port {}: not used again yet: {error}", self.name(port));
            }
            Some(Attempt::Resources(port)) => {
                if !self.removals.is_refused(port) {
                    let name = self.name(port);
                    tracing::warn!("port {name}: its device is back and used again");
                }
                self.said.push(data_plane::Event::Disturbed { port });
                if self.links.lowered().any(|place| place == port.index()) {
                    self.lower_link(port);
                }
            }
        }
    }

    fn device(&self, port: PortIndex) -> Option<&Port<'pool>> {
        self.running.ports.get(port.index())?.as_ref()
    }

    /// Takes a link down. A kernel interface stays down if this process is killed, so it is recorded first.
    fn lower_link(&self, port: PortIndex) {
        self.change_link(port, "taken down with its partner's", |device| {
            let interface = device.info().interface;
            if let Some(interface) = interface {
                self.lowered.note(interface, self.name(port))?;
            }
            let lowered = device.set_link(false);
            if lowered.is_err() {
                interface.inspect(|&interface| self.lowered.clear(interface));
            }
            Ok(lowered?)
        });
    }

    /// Brings a link up that was taken down.
    fn raise_link(&self, port: PortIndex) {
        self.change_link(port, "brought up again", |device| {
            device.set_link(true)?;
            let interface = device.info().interface;
            interface.inspect(|&interface| self.lowered.clear(interface));
            Ok(())
        });
    }

    /// Changes the link of a port, and logs it.
    fn change_link(
        &self,
        port: PortIndex,
        verb: &str,
        change: impl FnOnce(&Port<'pool>) -> anyhow::Result<()>,
    ) {
        let Some(device) = self.device(port) else {
            return;
        };
        let name = self.name(port);
        match change(device) {
            Ok(()) => tracing::warn!("port {name}: link {verb}"),
            Err(error) => tracing::warn!("port {name}: link not {verb}: {error:#}"),
        }
    }

    fn name(&self, port: PortIndex) -> &str {
        self.running.config.port_name(port.index())
    }

    fn status(&self) -> String {
        let (ports, workers) = (
            present(&self.running.config).count(),
            self.running.workers.count(),
        );
        let number = self.running.number;
        format!("switching {ports} ports with {workers} workers, generation {number}")
    }

    /// Continues a reload; returns the change for the control core once it is due.
    fn change(&mut self, core: CoreStatus) -> Option<Box<Change>> {
        let now = Instant::now();
        let is_wanted =
            self.reconfigurer.is_idle() && self.orders.wanted.swap(false, Ordering::Relaxed);
        let progress = if is_wanted {
            self.reconfigurer.begin(self.reading(), now)
        } else {
            self.reconfigurer.step(&mut self.running, core, now)
        };
        match progress {
            Progress::Offered(change) => Some(change),
            progress => {
                self.follow_reload(progress);
                None
            }
        }
    }

    /// The job that reads the configuration again.
    fn reading(&self) -> Result<impl FnOnce() -> Result<Option<Draft>> + Send + use<>> {
        let file = self.orders.file.clone();
        let file = file.context("it was built in and has no file; start with --config FILE")?;
        let (config, budget_mib) = (self.running.config.clone(), self.budget_mib);
        Ok(move || Draft::read(&file, &config, budget_mib))
    }

    /// Acts on a reload's progress.
    fn follow_reload(&mut self, progress: Progress) {
        match progress {
            Progress::Pending | Progress::Offered(_) => {}
            Progress::Reading => self.service.reloading(),
            Progress::Refused(error) | Progress::Failed(error) => {
                tracing::error!("the configuration stays as it was: {error:#}");
                self.service.ready(&self.status());
            }
            Progress::Unchanged => {
                tracing::info!("the configuration is the same as before");
                self.service.ready(&self.status());
            }
            Progress::Begun(Difference { come, gone, .. }) => {
                let now = Instant::now();
                self.master.reconfigure(self.running.config.fdb_settings());
                for port in come.iter().chain(&gone) {
                    self.removals.forget(*port);
                }
                for port in gone {
                    self.master.set_link(port, false);
                    if self.links.forget(port.index(), now) {
                        self.raise_link(port);
                    }
                }
                for port in come {
                    self.watch_link(port, now);
                }
                self.join_links();
            }
            Progress::Done => {
                tracing::info!("{}", self.status());
                self.service.ready(&self.status());
            }
        }
    }
}

impl<'scope, 'pool: 'scope> data_plane::DataPlane for SwitchDataPlane<'scope, '_, 'pool> {
    fn now(&mut self) -> Ticks {
        Ticks(tsc::now())
    }

    fn port(&mut self, port: PortIndex) -> PortFact {
        if let Some(facts) = self.removals.facts(port) {
            return facts.clone();
        }
        let index = port.index();
        let Some(device) = self.device(port) else {
            return PortFact::default();
        };
        let stats = device.stats();
        let counts = DeviceCounts {
            missed_packets: stats.rx_missed,
            rx_error_packets: stats.rx_errors,
            tx_error_packets: stats.tx_errors,
            no_buffer_packets: stats.rx_no_mbuf,
        };
        PortFact {
            driver: device.info().driver.clone(),
            is_up: self.links.is_up(index),
            link_flaps: self.links.flaps(index),
            device: Some(self.removals.all_counts(port, counts)),
            ..PortFact::default()
        }
    }

    fn pools(&mut self) -> Vec<Pool> {
        let facts = |(node, pool): (Option<u16>, &dpdk_bindings::Mempool<'_>)| {
            let size = u64::from(pool.capacity());
            Pool {
                name: node.map_or_else(|| "node0".to_owned(), |node| format!("node{node}")),
                used: size.saturating_sub(u64::from(pool.available())),
                size,
            }
        };
        self.running.platform.dpdk.pools.iter().map(facts).collect()
    }

    fn fdb(&mut self) -> Option<Fdb> {
        let Forwarding::Bridge { fdb_entries, .. } = self.running.config.forwarding else {
            return None;
        };
        Some(Fdb {
            entries: self.master.len() as u64,
            capacity: u64::from(fdb_entries),
            stats: self.master.stats(),
        })
    }

    fn reload(&mut self) -> Option<Reload> {
        self.reconfigurer.last()
    }

    fn kernel_clock(&mut self) -> Option<KernelClock> {
        let clock = kernel_clock().ok()?;
        Some(KernelClock {
            is_synchronised: clock.is_synchronised,
            estimated_error_us: clock.estimated_error_us,
            error_us_max: clock.error_us_max,
        })
    }

    fn poll(&mut self, core: CoreStatus) -> Vec<data_plane::Event> {
        let now = Instant::now();
        contain(Part::Upkeep, || self.watch_removals(now));
        contain(Part::Upkeep, || self.watch_links(now));
        let elapsed = now.saturating_duration_since(self.began);
        if contain(Part::Upkeep, || self.master.poll(elapsed)).is_none() {
            self.begin_master_anew();
        }
        self.count_lost_messages();
        if core.stalled_workers == 0 {
            self.service.feed(now);
        }
        let mut said = std::mem::take(&mut self.said);
        if !self.removals.is_under_way() {
            let change = contain(Part::Upkeep, || self.change(core)).flatten();
            said.extend(change.map(data_plane::Event::Change));
        }
        said
    }

    fn answer(&mut self, answer: Result<(), ChangeError>) {
        contain(Part::Upkeep, || {
            let progress = self.reconfigurer.answer(answer, &mut self.running);
            self.follow_reload(progress);
        });
    }
}

impl<'scope, 'pool: 'scope> Drop for SwitchDataPlane<'scope, '_, 'pool> {
    fn drop(&mut self) {
        self.service.stopping();
        for port in self.links.lowered().map(PortIndex::new) {
            self.raise_link(port);
        }
    }
}
