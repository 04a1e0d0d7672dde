//! Faults that come by themselves, and the times in which none come.

use rand::RngExt;

use super::configure::{self, HOSTS};
use super::link::kind_label;
use super::{EPOCH_NS, Event, FAULTY_NS, Fault, QUIET_NS, World, rules};
use contract::ids::PortIndex;

impl World {
    /// When the first of each kind comes.
    pub(super) fn draw_faults(&mut self) {
        for place in 0..self.menu.rates().len() {
            self.draw_fault(place);
        }
    }

    fn draw_fault(&mut self, place: usize) {
        let (_, rate) = self.menu.rates()[place];
        if rate > 0.0 {
            let after_s = -(1.0 - self.random.random::<f64>()).ln() / rate;
            self.push((after_s * 1e9) as u64, Event::Fault(place));
        }
    }

    /// The fault comes, unless it is quiet, and the next of its kind is drawn.
    pub(super) fn fault(&mut self, place: usize) {
        self.draw_fault(place);
        let (fault, _) = self.menu.rates()[place];
        if self.is_quiet {
            return;
        }
        let switch = self.random.random_range(0..self.places.len());
        if self.make(fault, switch) {
            *self.faults.entry(fault).or_default() += 1;
        }
    }

    fn make(&mut self, fault: Fault, switch: usize) -> bool {
        let now = self.now;
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
                self.trace
                    .note(now, format_args!("switch {switch} is killed"));
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
        // Until the switch has read its clock again, and drawn a line through readings of the new time.
        place.clock_disturbed_until = self.now + 500_000_000;
        self.trace.note(
            self.now,
            format_args!("the clock of switch {switch} is set by {by_ns} ns"),
        );
    }

    /// Sets a clock right that claims to be: otherwise its delays are impossible, and their epochs marked.
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
            self.trace
                .note(self.now, format_args!("core {switch} stalls until {until}"));
        } else {
            let worker = self.random.random_range(0..node.workers.len());
            let until = self.now + self.random.random_range(EPOCH_NS / 50..4 * EPOCH_NS);
            node.workers[worker].stalled_until = until;
            self.trace.note(
                self.now,
                format_args!("worker {worker} of switch {switch} stalls until {until}"),
            );
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
        self.trace.note(
            self.now,
            format_args!(
                "switch {switch} reloads: {measurement}, {ports} ports, classes {}",
                json["classes"]
            ),
        );
        node.state.lock().wanted = Some(config);
        true
    }

    /// Somebody on a wire sends what he has recorded, or makes up.
    fn attack(&mut self, fault: Fault) -> bool {
        let link = self.random.random_range(0..self.links.len());
        let end = self.random.random_range(0..2);
        let (switch, port) = self.links[link].ends[1 - end];
        // His own direction's frames, or those of the other, thrown back.
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

    /// Lets a port take so much, or all.
    pub(super) fn set_room(&mut self, switch: usize, life: u32, port: usize, room: Option<usize>) {
        let place = &mut self.places[switch];
        if let Some(node) = place.node.as_mut().filter(|_| place.life == life) {
            let index = PortIndex::new(port);
            for one in &mut node.workers {
                one.worker.io_mut().set_room(index, room);
            }
        }
    }

    /// Faults cease, all is mended, and time to recover begins; or that is over, and faults come again.
    pub(super) fn phase(&mut self) -> rules::Check {
        self.is_quiet = !self.is_quiet;
        if !self.is_quiet {
            self.trace.note(self.now, format_args!("faults come again"));
            self.push(FAULTY_NS, Event::Phase);
            return self.recovered();
        }
        self.trace.note(self.now, format_args!("faults cease"));
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
