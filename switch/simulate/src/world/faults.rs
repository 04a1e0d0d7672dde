//! Faults that occur by themselves, and times without faults.

use std::collections::BTreeMap;

use rand::RngExt;
use rand_pcg::Pcg64;
use wire::frame::Kind;

use super::configure::{self, HOSTS};
use super::ledger::Sending;
use super::{EPOCH_NS, Event, FAULTY_NS, QUIET_NS, World};
use crate::outcome::Check;
use crate::rack::wired::{is_control, kind_of};

impl World {
    /// Schedules the first fault of each kind.
    pub(super) fn draw_faults(&mut self) {
        for (fault, _) in MOST {
            self.draw_fault(fault);
        }
    }

    fn draw_fault(&mut self, fault: Fault) {
        let rate = self.menu.of(fault);
        if fault.comes_by_itself() && rate > 0.0 {
            let after_s = -(1.0 - self.random.random::<f64>()).ln() / rate;
            self.push((after_s * 1e9) as u64, Event::Fault(fault));
        }
    }

    /// Injects the fault, unless in a quiet time, and schedules the next of its kind.
    pub(super) fn fault(&mut self, fault: Fault) {
        self.draw_fault(fault);
        if self.is_quiet {
            return;
        }
        let switch = self.random.random_range(0..self.places.len());
        if self.make(fault, switch) {
            self.figures.count_fault(fault);
        }
    }

    fn make(&mut self, fault: Fault, switch: usize) -> bool {
        match fault {
            Fault::ClockStep => self.step_clock(switch),
            Fault::WorkerStall | Fault::CoreStall => return self.stall(fault, switch),
            Fault::LinkFlap => {
                let link = self.random.random_range(0..self.links.len());
                self.set_link(link, false);
                let after = self.random.random_range(1_000_000..500_000_000);
                self.push(after, Event::LinkUp(link));
            }
            Fault::Reload => return self.reload(switch),
            Fault::Kill => {
                if self.places[switch].node.take().is_none() {
                    return false;
                }
                self.ledger.killed(switch);
                self.note(format_args!("switch {switch} is killed"));
                let after =
                    self.random.random_range(0..2) * self.random.random_range(0..500_000_000_u64);
                self.push(after, Event::Start(switch));
            }
            Fault::Replay | Fault::Forgery | Fault::HelloFlood => return self.attack(fault),
            Fault::PortRefusal => {
                let port = self
                    .random
                    .random_range(0..self.places[switch].shape.ports());
                let life = self.places[switch].life;
                self.set_room(switch, life, port, Some(0));
                let after = self.random.random_range(1_000_000..50_000_000);
                self.push(after, Event::PortFree(switch, life, port));
            }
            _ => return false,
        }
        true
    }

    fn step_clock(&mut self, switch: usize) {
        let size = self.random.random_range(10_000..20_000_000_i64);
        let by_ns = if self.random.random() { size } else { -size };
        let place = &mut self.places[switch];
        place.clocks.step(self.now, by_ns);
        // Until the switch has read its clock again, and fitted a line to readings of the new time.
        place.clock_disturbed_until = self.now + 500_000_000;
        self.note(format_args!(
            "the clock of switch {switch} is set by {by_ns} ns"
        ));
    }

    /// Corrects a clock that claims to be accurate: otherwise its delays would be impossible, and their epochs marked.
    fn right_clock(&mut self, switch: usize) {
        let place = &mut self.places[switch];
        let by_ns = -place.clocks.ahead_ns(self.now);
        if by_ns != 0 {
            place.clocks.step(self.now, by_ns);
            place.clock_disturbed_until = self.now + 500_000_000;
        }
    }

    fn stall(&mut self, fault: Fault, switch: usize) -> bool {
        let Some(node) = &mut self.places[switch].node else {
            return false;
        };
        if fault == Fault::CoreStall {
            let until = self.now + self.random.random_range(EPOCH_NS / 5..6 * EPOCH_NS);
            node.stalled_until = until;
            self.note(format_args!("core {switch} stalls until {until}"));
        } else {
            let worker = self.random.random_range(0..node.workers.len());
            let until = self.now + self.random.random_range(EPOCH_NS / 50..4 * EPOCH_NS);
            node.workers[worker].stalled_until = until;
            self.note(format_args!(
                "worker {worker} of switch {switch} stalls until {until}"
            ));
        }
        true
    }

    fn reload(&mut self, switch: usize) -> bool {
        let place = &self.places[switch];
        let json = configure::changed(&place.base, &place.shape, &mut self.random);
        let (Some(node), Ok(config)) = (&place.node, configure::parse(&json)) else {
            return false;
        };
        let measurement = &json["measurement"];
        let ports = json["ports"].as_array().map_or(0, Vec::len);
        node.state.lock().wanted = Some(config);
        self.note(format_args!(
            "switch {switch} reloads: {measurement}, {ports} ports, classes {}",
            json["classes"]
        ));
        true
    }

    /// An attacker on a wire sends recorded or forged frames.
    fn attack(&mut self, fault: Fault) -> bool {
        let link = self.random.random_range(0..self.links.len());
        let end = self.random.random_range(0..2);
        let (switch, port) = self.links[link].ends[1 - end];
        // Frames of the same direction, or reflected frames of the other.
        let from = if self.random.random::<f64>() < self.menu.reflected {
            1 - end
        } else {
            end
        };
        let recorded = &self.links[link].recorded[from];
        let is_of =
            |frame: &&Vec<u8>| fault != Fault::HelloFlood || kind_label(frame) == Some("hello");
        let count = recorded.iter().filter(is_of).count();
        if count == 0 {
            return false;
        }
        let any = self.random.random_range(0..count);
        let Some(mut frame) = recorded.iter().filter(is_of).nth(any).cloned() else {
            return false;
        };
        if fault == Fault::Forgery {
            for _ in 0..self.random.random_range(1..8) {
                let at = self.random.random_range(19..frame.len());
                frame[at] = self.random.random();
            }
        }
        let copies = if fault == Fault::HelloFlood {
            self.random.random_range(100..2_000)
        } else {
            1
        };
        for _ in 0..copies {
            let after = self.random.random_range(0..10_000_000);
            self.push(after, Event::Arrive(switch, port, frame.clone(), None));
        }
        true
    }

    /// Limits the packets that a port accepts, or removes the limit.
    pub(super) fn set_room(&mut self, switch: usize, life: u32, port: usize, room: Option<usize>) {
        let place = &mut self.places[switch];
        if let Some(node) = place.node.as_mut().filter(|_| place.life == life) {
            node.workers.set_room(port, room);
        }
    }

    /// Stops all faults and begins the time to recover; or ends that, and faults begin again.
    pub(super) fn phase(&mut self) -> Check {
        self.is_quiet = !self.is_quiet;
        if !self.is_quiet {
            self.note(format_args!("faults come again"));
            self.push(FAULTY_NS, Event::Phase);
            return self.recovered();
        }
        self.note(format_args!("faults cease"));
        self.push(QUIET_NS, Event::Phase);
        for link in 0..self.links.len() {
            self.set_link(link, true);
        }
        for switch in 0..self.places.len() {
            self.right_clock(switch);
            let base = configure::parse(&self.places[switch].base);
            let ports = HOSTS + self.places[switch].shape.wires;
            let Some(node) = &mut self.places[switch].node else {
                self.push(0, Event::Start(switch));
                continue;
            };
            node.stalled_until = 0;
            node.workers
                .iter_mut()
                .for_each(|one| one.stalled_until = 0);
            if let Ok(base) = base {
                node.state.lock().wanted = Some(base);
            }
            let life = self.places[switch].life;
            (0..ports).for_each(|port| self.set_room(switch, life, port, None));
        }
        Ok(())
    }
}

// Kinds, rates and sizes of faults, drawn for each world from its seed.

/// Faults of a world.
#[derive(Debug)]
pub struct Menu {
    /// Error of time stamp counters, 0 to 100 ppm either way.
    pub counter_ppm: f64,
    /// Drift of the system's clocks, 0 to 10 ppm either way, with a new rate every second.
    pub drift_ppm: f64,
    /// Difference between two workers' counters, 0 to 3 ticks.
    pub skew_ticks: u64,
    /// Share of replayed and forged frames that are reflected to their sender, 0 or 25 %.
    pub reflected: f64,
    often: BTreeMap<Fault, f64>,
}

impl Menu {
    /// Each fault occurs in half of the worlds, so that some occur alone.
    pub fn draw(random: &mut Pcg64) -> Self {
        let skew_ticks = random.random_range(0..4);
        let reflected = if random.random() { 0.25 } else { 0.0 };
        let mut up_to = |most: f64| {
            if random.random::<bool>() {
                random.random::<f64>() * most
            } else {
                0.0
            }
        };
        Self {
            counter_ppm: up_to(100.0),
            drift_ppm: up_to(10.0),
            skew_ticks,
            reflected,
            often: MOST.map(|(fault, most)| (fault, up_to(most))).into(),
        }
    }

    /// Only these faults, at their highest rate.
    #[cfg(test)]
    pub fn only(faults: &[Fault]) -> Self {
        let wanted = MOST.into_iter().filter(|(fault, _)| faults.contains(fault));
        Self {
            counter_ppm: 100.0,
            drift_ppm: 0.0,
            skew_ticks: 0,
            reflected: 0.5,
            often: wanted.collect(),
        }
    }

    /// Rate of a fault, as in [`MOST`].
    pub fn of(&self, fault: Fault) -> f64 {
        self.often.get(&fault).copied().unwrap_or_default()
    }
}

/// Highest rate of each fault: times per second of simulated time, or a share of data or control frames.
const MOST: [(Fault, f64); 17] = [
    (Fault::ClockStep, 0.5),
    (Fault::WorkerStall, 1.0),
    (Fault::CoreStall, 1.0),
    (Fault::LinkFlap, 0.3),
    (Fault::Reload, 2.0),
    (Fault::Kill, 0.2),
    (Fault::DataLost, 0.05),
    (Fault::DataReordered, 0.02),
    (Fault::DataDoubled, 0.01),
    (Fault::ControlLost, 0.1),
    (Fault::ControlReordered, 0.05),
    (Fault::ControlDoubled, 0.05),
    (Fault::ControlCorrupted, 0.05),
    (Fault::Replay, 50.0),
    (Fault::Forgery, 50.0),
    (Fault::HelloFlood, 0.5),
    (Fault::PortRefusal, 1.0),
];

/// Kinds of faults: first those that occur by themselves, then those of frames on a wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A system's clock is set, by 10 us to 20 ms either way.
    ClockStep,
    /// A worker makes no pass, for up to four epochs.
    WorkerStall,
    /// A control core makes no poll, for up to six epochs: shards come late.
    CoreStall,
    /// A link goes down, and comes back after 1 to 500 ms.
    LinkFlap,
    /// A configuration is read again.
    Reload,
    /// A switch is killed and loses its state; it starts again within 500 ms, sometimes at once.
    Kill,
    /// A recorded control frame of any age is sent again.
    Replay,
    /// A control frame is forged without the key.
    Forgery,
    /// One recorded hello, up to 2,000 times within 10 ms.
    HelloFlood,
    /// A port accepts nothing for 1 to 50 ms.
    PortRefusal,
    /// A data frame is lost.
    DataLost,
    /// A data frame arrives later than the frames behind it.
    DataReordered,
    /// A data frame arrives twice.
    DataDoubled,
    /// A control frame is lost.
    ControlLost,
    /// A control frame arrives later than the frames behind it.
    ControlReordered,
    /// A control frame arrives twice.
    ControlDoubled,
    /// A bit of a control frame is inverted.
    ControlCorrupted,
}

impl Fault {
    fn comes_by_itself(self) -> bool {
        self < Self::DataLost
    }
}

// Wires between switches, and the effect of the path on each frame.

/// Number of genuine control frames of a direction that are kept for replays.
const RECORDED: usize = 64;

/// A wire: both ends as (switch, port).
pub(super) struct Link {
    pub ends: [(usize, usize); 2],
    pub is_up: bool,
    /// Incremented when the link is lost; frames in flight are then lost.
    pub losses: u64,
    base_ns: u64,
    queue_ns: f64,
    last_arrival: [u64; 2],
    /// All control frames that each end has sent.
    pub recorded: [Vec<Vec<u8>>; 2],
}

/// Switches in a row: the last wire port of each to the first of the next.
pub(super) fn chain(switches: usize, random: &mut Pcg64) -> Vec<Link> {
    let link = |n: usize| Link {
        ends: [(n, if n == 0 { HOSTS } else { HOSTS + 1 }), (n + 1, HOSTS)],
        is_up: true,
        losses: 0,
        base_ns: random.random_range(10_000..500_000),
        queue_ns: 50_000.0,
        last_arrival: [0; 2],
        recorded: [Vec::new(), Vec::new()],
    };
    (0..switches - 1).map(link).collect()
}

/// The label of a control frame's kind.
pub(super) fn kind_label(frame: &[u8]) -> Option<&'static str> {
    let number = kind_of(frame)?;
    let kind = Kind::ALL.into_iter().find(|kind| kind.number() == number)?;
    Some(kind.label())
}

impl World {
    /// The link at a port of a switch, and the port's end of it.
    pub(super) fn link_at(&self, switch: usize, port: usize) -> Option<(usize, usize)> {
        let at = |link: &Link| link.ends.iter().position(|&end| end == (switch, port));
        (self.links.iter().enumerate()).find_map(|(n, link)| Some((n, at(link)?)))
    }

    /// For each port of a switch, whether its link is up.
    pub(super) fn links_of(&self, switch: usize) -> Vec<bool> {
        let ports = self.places[switch].shape.ports();
        let is_up = |port| {
            self.link_at(switch, port)
                .is_none_or(|(link, _)| self.links[link].is_up)
        };
        (0..ports).map(is_up).collect()
    }

    /// A link goes down or comes up.
    pub(super) fn set_link(&mut self, number: usize, is_up: bool) {
        let link = &mut self.links[number];
        if link.is_up == is_up {
            return;
        }
        link.is_up = is_up;
        link.losses += u64::from(!is_up);
        for (switch, port) in link.ends {
            if let Some(node) = &self.places[switch].node
                && let Some(has_link) = node.state.lock().has_link.get_mut(port)
            {
                *has_link = is_up;
            }
        }
        let state = if is_up { "up" } else { "down" };
        self.note(format_args!("link {number} is {state}"));
    }

    /// Handles a frame that leaves a switch through a wire.
    pub(super) fn transport(
        &mut self,
        (number, end): (usize, usize),
        frame: Vec<u8>,
        packet: Option<(u64, Sending)>,
    ) {
        let is_control = is_control(&frame);
        let link = &mut self.links[number];
        let (switch, port) = link.ends[1 - end];
        if is_control {
            let recorded = &mut link.recorded[end];
            if recorded.len() == RECORDED {
                let any = self.random.random_range(0..RECORDED);
                recorded.swap_remove(any);
            }
            recorded.push(frame.clone());
            if let Some(label) = kind_label(&frame) {
                let genuine = &mut self.places[switch].genuine[port - HOSTS];
                *genuine.entry(label.to_owned()).or_default() += 1;
            }
        }
        if !link.is_up {
            return;
        }
        let step = self.random.random_range(-0.5..0.5) * 4_000.0;
        link.queue_ns = (link.queue_ns + step - (link.queue_ns - 50_000.0) * 0.001).max(0.0);
        let bits = frame.len() as u64 * 8;
        let arrival =
            (self.now + link.base_ns + link.queue_ns as u64).max(link.last_arrival[end] + bits);
        link.last_arrival[end] = arrival;
        let after = arrival - self.now;
        self.disturb(is_control, after, (switch, port), frame, packet);
    }

    fn disturb(
        &mut self,
        is_control: bool,
        mut after: u64,
        (switch, port): (usize, usize),
        mut frame: Vec<u8>,
        packet: Option<(u64, Sending)>,
    ) {
        let [lost, reordered, doubled] = if is_control {
            [
                Fault::ControlLost,
                Fault::ControlReordered,
                Fault::ControlDoubled,
            ]
        } else {
            [Fault::DataLost, Fault::DataReordered, Fault::DataDoubled]
        };
        if self.happens(lost) {
            return;
        }
        if self.happens(reordered) {
            after += self.random.random_range(1_000..400_000);
        }
        if is_control && self.happens(Fault::ControlCorrupted) {
            // After the EtherType: without it, a frame is no control frame.
            let at = self.random.random_range(18..frame.len());
            frame[at] ^= 1 << self.random.random_range(0..8);
        }
        if self.happens(doubled) {
            let later = after + self.random.random_range(0..200_000);
            self.push(later, Event::Arrive(switch, port, frame.clone(), packet));
        }
        self.push(after, Event::Arrive(switch, port, frame, packet));
    }

    fn happens(&mut self, fault: Fault) -> bool {
        let share = self.menu.of(fault);
        let happens = !self.is_quiet && share > 0.0 && self.random.random::<f64>() < share;
        if happens {
            self.figures.count_fault(fault);
        }
        happens
    }
}
