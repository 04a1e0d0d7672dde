//! What the control core tends besides the workers' shards: ports and their links, the filtering
//! database, changes of the configuration, the watchdog.

use std::time::{Duration, Instant};

use control::config::{Config, Forwarding};
use control::core::Desk;
use control::export::process;
use control::fdb::FdbMaster;
use control::plant;
use control::snapshot::{self, Fdb, Pool, PortFact};
use control::wire::clock::KernelClock;
use dpdk_bindings::{LinkError, Port, kernel_clock, lost_log_messages, tsc};

use super::crew::{Site, port_index, present};
use super::lanes::layout;
use super::links::{Event, LinkWatch};
use super::record::Record;
use super::reload::{Changes, Reload};
use super::service::Service;
use crate::egress::EgressLayout;
use crate::generation::Generations;
use crate::packet_io::dpdk::DpdkIo;

/// How often links are looked at: some drivers ask the kernel.
const LINKS_EVERY: Duration = Duration::from_millis(100);

/// The switch as the control core sees it.
pub struct Plant<'scope, 'env, 'pool: 'scope> {
    site: Site<'pool>,
    running: Running<'pool>,
    master: FdbMaster,
    links: LinkWatch,
    looked_at: Option<Instant>,
    events: Vec<Event>,
    generations: Vec<Generations<DpdkIo<'pool>>>,
    reload: Reload<'scope, 'env, 'pool>,
    record: Record,
    service: Service,
    began: Instant,
    /// Messages of DPDK that were lost, and counted.
    lost_messages: u64,
}

/// The configuration that holds, and what was made of it.
pub struct Running<'pool> {
    /// The configuration, each port in its place.
    pub config: Config,
    /// By place.
    pub ports: Vec<Option<Port<'pool>>>,
    /// The egress side of each port, by place.
    pub layouts: Vec<Option<EgressLayout>>,
    /// Number of the generation.
    pub number: u32,
}

impl<'pool> Running<'pool> {
    /// What holds at the start.
    pub fn new(config: &Config, ports: Vec<Port<'pool>>) -> Self {
        let layouts = present(config).map(|place| Some(layout(config, place, None)));
        Self {
            config: config.clone(),
            ports: ports.into_iter().map(Some).collect(),
            layouts: layouts.collect(),
            number: 0,
        }
    }
}

impl<'scope, 'env, 'pool: 'scope> Plant<'scope, 'env, 'pool> {
    /// A plant that runs as `running` says.
    pub fn new(
        site: Site<'pool>,
        running: Running<'pool>,
        master: FdbMaster,
        generations: Vec<Generations<DpdkIo<'pool>>>,
        reload: Reload<'scope, 'env, 'pool>,
    ) -> Self {
        let mut plant = Self {
            site,
            running,
            master,
            links: LinkWatch::new(),
            looked_at: None,
            events: Vec::new(),
            generations,
            reload,
            record: Record::default(),
            service: Service::from_env(),
            began: Instant::now(),
            lost_messages: 0,
        };
        for place in present(&plant.running.config) {
            plant.links.watch(place, None, plant.began);
        }
        plant.join_links();
        plant.service.ready(&plant.status());
        plant
    }

    /// Joins the fates of the ports of each patched pair, where links' losses are to be passed on.
    fn join_links(&mut self) {
        let config = &self.running.config;
        for place in 0..config.ports.len() {
            self.links.join(place, partner(config, place));
        }
    }

    /// Counts what DPDK could not say among the lines that the log lost.
    fn count_lost_messages(&mut self) {
        let lost = lost_log_messages();
        if lost > self.lost_messages {
            process::count_lost_log_lines(lost - self.lost_messages);
            self.lost_messages = lost;
        }
    }

    fn watch_links(&mut self, now: Instant, desk: &mut Desk<'_>) {
        let is_due = |looked_at| now.saturating_duration_since(looked_at) >= LINKS_EVERY;
        if !self.looked_at.is_none_or(is_due) {
            return;
        }
        self.looked_at = Some(now);
        let ports = &self.running.ports;
        let has_link = |place: usize| match ports.get(place) {
            Some(Some(port)) => port.link().up,
            _ => true,
        };
        self.links.look(now, has_link, &mut self.events);
        for event in std::mem::take(&mut self.events) {
            self.follow(event, desk);
        }
    }

    fn follow(&mut self, event: Event, desk: &mut Desk<'_>) {
        let (Event::Down(place) | Event::Up(place) | Event::Lower(place) | Event::Raise(place)) =
            event;
        let name = self.name(place);
        match event {
            Event::Down(_) | Event::Up(_) => {
                let is_up = matches!(event, Event::Up(_));
                let state = if is_up { "up" } else { "down" };
                tracing::warn!("port {name} is {state}");
                self.master.set_link(port_number(place), is_up);
                desk.disturb(place);
            }
            Event::Lower(_) | Event::Raise(_) => {
                let up = matches!(event, Event::Raise(_));
                let verb = if up {
                    "let up again"
                } else {
                    "taken down with its partner's"
                };
                match self.set_link(place, up) {
                    Ok(()) => tracing::warn!("port {name}: link {verb}"),
                    Err(error) => tracing::warn!("port {name}: link not {verb}: {error}"),
                }
            }
        }
    }

    fn set_link(&self, place: usize, up: bool) -> Result<(), LinkError> {
        match self.running.ports.get(place) {
            Some(Some(port)) => port.set_link(up),
            _ => Ok(()),
        }
    }

    fn name(&self, place: usize) -> String {
        let port = self.running.config.ports.get(place);
        port.map_or_else(String::new, |port| port.name.clone())
    }

    fn status(&self) -> String {
        let (ports, workers) = (
            present(&self.running.config).count(),
            self.generations.len(),
        );
        let number = self.running.number;
        format!("switching {ports} ports with {workers} workers, generation {number}")
    }

    /// Goes on with what a reload has come to.
    fn change(&mut self, desk: &mut Desk<'_>) {
        let Some(changes) =
            self.reload
                .step(self.site, &mut self.running, &mut self.generations, desk)
        else {
            return;
        };
        self.record.note(&changes);
        match changes {
            Changes::Reading => self.service.reloading(),
            Changes::Refused(error) => {
                tracing::error!("the configuration stays as it was: {error:#}");
                self.service.ready(&self.status());
            }
            Changes::None => {
                tracing::info!("the configuration is the same as before");
                self.service.ready(&self.status());
            }
            Changes::Begun { come, gone, .. } => {
                let now = Instant::now();
                self.master.reconfigure(&self.running.config);
                for place in gone {
                    self.master.set_link(port_number(place), false);
                }
                for place in come {
                    self.links.watch(place, None, now);
                    self.master.set_link(port_number(place), true);
                }
                self.join_links();
            }
            Changes::Done => {
                tracing::info!("{}", self.status());
                self.service.ready(&self.status());
            }
        }
    }
}

impl<'scope, 'pool: 'scope> plant::Plant for Plant<'scope, '_, 'pool> {
    fn now(&mut self) -> u64 {
        tsc::now()
    }

    fn port(&mut self, index: usize) -> PortFact {
        let Some(Some(port)) = self.running.ports.get(index) else {
            return PortFact::default();
        };
        let stats = port.stats();
        PortFact {
            driver: port.info().driver.clone(),
            is_up: self.links.is_up(index),
            link_flaps: self.links.flaps(index),
            missed_packets: stats.rx_missed,
            rx_error_packets: stats.rx_errors,
            tx_error_packets: stats.tx_errors,
            no_buffer_packets: stats.rx_no_mbuf,
            unsent_packets: None,
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
        self.site.pools.iter().map(facts).collect()
    }

    fn fdb(&mut self) -> Option<Fdb> {
        let Forwarding::Bridge { fdb_entries, .. } = self.running.config.forwarding else {
            return None;
        };
        let stats = self.master.stats();
        Some(Fdb {
            entries: self.master.len() as u64,
            capacity: u64::from(fdb_entries),
            moves: stats.moves,
            overflows: stats.overflows,
            replica_overflows: stats.replica_overflows,
            reports_lost: stats.reports_lost,
            restarts: stats.restarts,
        })
    }

    fn reload(&mut self) -> Option<snapshot::Reload> {
        self.record.last()
    }

    fn kernel_clock(&mut self) -> Option<KernelClock> {
        let clock = kernel_clock().ok()?;
        Some(KernelClock {
            is_synchronised: clock.is_synchronised,
            estimated_error_us: clock.estimated_error_us,
            error_us_max: clock.error_us_max,
        })
    }

    fn tend(&mut self, desk: &mut Desk<'_>) {
        let now = Instant::now();
        self.watch_links(now, desk);
        self.master.poll(now.saturating_duration_since(self.began));
        self.change(desk);
        self.count_lost_messages();
        if desk.stalled().next().is_none() {
            self.service.feed(now);
        }
    }
}

impl<'scope, 'pool: 'scope> Drop for Plant<'scope, '_, 'pool> {
    fn drop(&mut self) {
        self.service.stopping();
        for place in self.links.lowered().collect::<Vec<_>>() {
            if let Err(error) = self.set_link(place, true) {
                tracing::warn!("port {}: link stays down: {error}", self.name(place));
            }
        }
    }
}

fn port_number(place: usize) -> u8 {
    port_index(place).0
}

/// The port that shares the fate of the one at `place`.
fn partner(config: &Config, place: usize) -> Option<usize> {
    let Forwarding::Patch {
        pairs,
        link_loss_forwarding: true,
    } = &config.forwarding
    else {
        return None;
    };
    let name = &config.ports.get(place)?.name;
    let other = pairs
        .iter()
        .find_map(|(a, b)| match (a == name, b == name) {
            (true, _) => Some(b),
            (_, true) => Some(a),
            _ => None,
        });
    config.port_index(other?)
}
