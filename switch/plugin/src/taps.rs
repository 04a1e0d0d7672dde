//! The program's queues, each tapped once for the life of the process, because DPDK keeps callbacks by port number,
//! whichever device has the number next.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use contract::config::PORTS_MAX;
use contract::counters::WorkerCounters;
use contract::ids::WorkerIndex;
use control::data_plane::Event;
use dpdk_bindings::{Host, HostPort, tsc};
use measure::packet::{Hasher, Hashing};
use measure::time::{EpochSchedule, Ticks};
use switch::meter::Meter;

use crate::arrivals::{Arrivals, Stamper};
use crate::departures::{Departures, PlanSender, Stamps};
use crate::ports::PortTable;
use crate::stamp::PortIds;

/// DPDK's numbers of a port and its queue.
pub type Queue = (u16, u16);

/// All present and former queues.
#[derive(Debug)]
pub struct Taps {
    stamper: Stamper,
    schedule: EpochSchedule,
    ids: Arc<PortIds>,
    arrivals: BTreeMap<Queue, Tapped<&'static Arrivals>>,
    departures: BTreeMap<Queue, Tapped<TransmitTap>>,
    workers: NewWorkers,
}

/// Transmit queues as workers of the control core, numbered in the order in which they are added.
#[derive(Debug, Default)]
struct NewWorkers {
    number: usize,
    /// Workers that the control core does not know yet.
    said: Vec<Event>,
}

impl NewWorkers {
    fn add(&mut self) -> (WorkerIndex, Arc<WorkerCounters>) {
        let worker = WorkerIndex::new(self.number);
        self.number += 1;
        let counters = Arc::new(WorkerCounters::new(PORTS_MAX));
        self.said.push(Event::WorkerAdded {
            worker,
            counters: Arc::clone(&counters),
        });
        (worker, counters)
    }
}

/// A queue, and whether packets are shown to it.
#[derive(Debug)]
struct Tapped<T> {
    tap: T,
    /// The port for which DPDK refused the callback; `None` once it accepted.
    refused_by: Option<u32>,
}

/// A transmit queue.
#[derive(Debug)]
pub struct TransmitTap {
    pub point: &'static Departures,
    pub plans: PlanSender,
    /// Its number among the control core's workers.
    pub worker: WorkerIndex,
    /// Whether it has received a plan that is still valid.
    pub is_planned: bool,
    /// Its unmeasured packets at the last check.
    unmeasured: u64,
}

impl Taps {
    pub fn new(stamper: Stamper, schedule: EpochSchedule) -> Self {
        Self {
            stamper,
            schedule,
            ids: Arc::new(PortIds::new()),
            arrivals: BTreeMap::new(),
            departures: BTreeMap::new(),
            workers: NewWorkers::default(),
        }
    }

    /// How flows are hashed.
    pub fn hasher(&self) -> &Hasher {
        &self.stamper.hasher
    }

    /// What each packet carries.
    pub fn hashing(&self) -> Hashing {
        self.stamper.hashing
    }

    /// Taps all untapped queues of a port; they belong to no port until they are [assigned](Self::assign).
    pub fn attend(&mut self, host: &Host<'_>, port: &HostPort) {
        let Self {
            stamper,
            schedule,
            ids,
            arrivals,
            departures,
            workers,
        } = self;
        let refused_by = Some(port.life.wrapping_sub(1));
        for number in 0..port.rx_queues {
            let queue = arrivals.entry((port.id, number)).or_insert_with(|| Tapped {
                tap: Box::leak(Box::new(Arrivals::new(stamper.clone(), workers.add().1))),
                refused_by,
            });
            let tap = queue.tap;
            queue.tap_once(port, "receive", number, || {
                host.tap_received(port, number, tap)
            });
        }
        for number in 0..port.tx_queues {
            let new = || Tapped {
                tap: TransmitTap::new(stamper, ids, *schedule, workers.add()),
                refused_by,
            };
            let queue = departures.entry((port.id, number)).or_insert_with(new);
            let tap = queue.tap.point;
            queue.tap_once(port, "transmit", number, || {
                host.tap_sent(port, number, tap)
            });
        }
    }

    /// Assigns every queue to its present port.
    pub fn assign(&self, ports: &PortTable) {
        for (index, port) in ports.all().enumerate() {
            self.ids.set(index, port.map(|port| port.id));
        }
        for (&(id, _), queue) in &self.arrivals {
            let port = ports.of_port(id).map(|(port, _)| port);
            queue.tap.home.move_to(port);
        }
        for (&(id, _), queue) in &self.departures {
            let port = ports.of_port(id).map(|(port, _)| port);
            queue.tap.point.home.move_to(port);
        }
    }

    /// Returns workers that the control core does not know yet, each once.
    pub fn take_new_workers(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.workers.said)
    }

    /// A tapped transmit queue.
    pub fn departure(&mut self, queue: Queue) -> Option<&mut TransmitTap> {
        self.departures.get_mut(&queue).map(|queue| &mut queue.tap)
    }

    /// Every transmit queue, with the numbers of its port and queue.
    pub fn departures(&mut self) -> impl Iterator<Item = (Queue, &mut TransmitTap)> {
        let queues = self.departures.iter_mut();
        queues.map(|(&number, queue)| (number, &mut queue.tap))
    }

    /// Whether every queue has room for another plan.
    pub fn have_room(&self) -> bool {
        let mut queues = self.departures.values();
        queues.all(|queue| queue.tap.plans.has_room())
    }
}

impl<T> Tapped<T> {
    /// Taps the queue, unless that was already done, or refused for this port.
    fn tap_once(
        &mut self,
        port: &HostPort,
        direction: &str,
        number: u16,
        tap: impl FnOnce() -> Result<(), dpdk_bindings::Errno>,
    ) {
        if self.refused_by.is_none_or(|life| life == port.life) {
            return;
        }
        self.refused_by = match tap() {
            Ok(()) => None,
            Err(errno) => {
                tracing::warn!(
                    "{direction} queue {number} of port {} is not measured: {errno}",
                    port.name
                );
                Some(port.life)
            }
        };
    }
}

impl TransmitTap {
    fn new(
        stamper: &Stamper,
        ids: &Arc<PortIds>,
        schedule: EpochSchedule,
        (worker, counters): (WorkerIndex, Arc<WorkerCounters>),
    ) -> Self {
        // The queue measures nothing yet.
        let meter = Meter::new(stamper.hasher.clone(), schedule, None, Ticks(tsc::now()));
        let stamps = Stamps {
            field: stamper.field,
            ids: Arc::clone(ids),
            has_classes: stamper.has_classes,
            hashing: stamper.hashing,
        };
        let (point, plans) = Departures::new(stamps, meter, counters);
        Self {
            point: Box::leak(Box::new(point)),
            plans,
            worker,
            is_planned: false,
            unmeasured: 0,
        }
    }

    /// Whether packets went unmeasured since the last time.
    pub fn has_missed(&mut self) -> bool {
        let before = std::mem::replace(&mut self.unmeasured, self.point.unmeasured());
        self.unmeasured != before
    }
}

// Logs, once, that the program has ports whose packets are not visible.

/// How often this is checked, because it reads the names of all threads.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Whether it was logged, and the time of the last check.
#[derive(Debug, Default)]
pub struct VhostWarning {
    is_said: bool,
    asked: Option<Instant>,
}

impl VhostWarning {
    /// Checks, if it is time.
    pub fn look(&mut self) {
        let is_due = |asked: Instant| asked.elapsed() >= ASK_EVERY;
        if self.is_said || !self.asked.is_none_or(is_due) {
            return;
        }
        self.asked = Some(Instant::now());
        if dpdk_bindings::misses_vhost() {
            self.is_said = true;
            tracing::warn!(
                "vhost-user ports of this program are not measured: it moves their packets by rte_vhost_dequeue_burst and \
                 rte_vhost_enqueue_burst, and libvernier_vhost.so is not preloaded (LD_PRELOAD; see plugin.md)"
            );
        }
    }
}
