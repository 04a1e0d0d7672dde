//! What hostile senders send.

use prost::Message;
use rand::RngExt;
use report::msp::{Kind, Neighbour, Report, Segment};
use report::subject;
use station::values;

use super::{BEGIN_NS, HONEST, HOSTILE, SECOND_NS, World};

/// How long each sender does what it likes, then all do one thing together.
const CONCERTED_S: u64 = 10;

impl World {
    /// A hostile sender, which may publish under its own name only, sends something.
    pub(super) fn attack(&mut self, sender: usize) {
        let name = self.hostile[sender].clone();
        let now_ns = BEGIN_NS + self.now_s * SECOND_NS;
        let is_concerted = self.now_s / CONCERTED_S % 2 == 1;
        let victim = match sender {
            1 if is_concerted => 0,
            2 if is_concerted => HONEST - 1,
            _ => self.random.random_range(0..HONEST),
        };
        let victim = &self.honest[victim];
        // The switch whose state is lost has to claim its number anew: it keeps it only where nobody else does.
        let has_number = !victim.is_overwritten;
        let victim = victim.last.clone();
        let mut report = Report {
            switch: name.clone(),
            incarnation: self.random.random(),
            start_unix_ns: now_ns - SECOND_NS,
            wire_switch: Some(number(sender)),
            node: None,
            ..victim.clone()
        };
        let mut subject = subject::of_switch(&name);
        let kind = match sender {
            0 if is_concerted => 8,
            _ if is_concerted => 11,
            _ => self.random.random_range(0..12_u32),
        };
        match kind {
            0 | 1 => self.swell(&mut report),
            // Another's report under its own subject, and its own elsewhere.
            2 => report.switch.clone_from(&victim.switch),
            3 => subject = station::simulated::misplaced(&name),
            4 => report.start_unix_ns = now_ns.wrapping_add(self.random.random()),
            5 => {
                (report.epoch, report.epochs, report.length_ns) = (u64::MAX, u64::MAX, u64::MAX);
            }
            6 => (report.epoch, report.epochs) = (u64::MAX - 1, 0),
            7 => self.probe(&mut report, &victim.switch),
            // A short cut between the first honest switch and the last.
            8 => {
                let wire = |peer| wire(peer % 2, peer);
                report.neighbours = [1, HONEST as u32].map(wire).to_vec();
            }
            9 => {
                let key = format!(
                    "{}{}.{name}",
                    values::KEY,
                    self.random.random_range(0..64_u32)
                );
                let garbage = self.garbage(100);
                self.server.poke(key, garbage);
            }
            // The number of an honest switch, and from there a wire to the accomplice that has the short cut.
            11 if has_number => {
                let accomplice = number(self.random.random_range(0..HOSTILE));
                let accomplice = if is_concerted { number(0) } else { accomplice };
                report.wire_switch = victim.wire_switch;
                report.neighbours = [0, 1].map(|port| wire(port, accomplice)).to_vec();
            }
            _ => {}
        }
        let bytes = match kind {
            10 => self.garbage(1_000),
            _ => report.encode_to_vec(),
        };
        if self.server.publish(subject, bytes) {
            self.counts[1] += 1;
        }
        self.trace.fold(&[kind.into()]);
    }

    /// Near the greatest size, and with other names every time.
    fn swell(&mut self, report: &mut Report) {
        let tag: u64 = self.random.random();
        let count = self.random.random_range(100..700_u32);
        report.names = (0..count)
            .map(|n| format!("{tag:x}-{n}-\u{1b}[2J"))
            .collect();
        report.segments = (0..count)
            .map(|n| Segment {
                kind: (n % 5).cast_signed(),
                from: n,
                to: count - 1 - n,
                packets: u64::MAX,
                lost: i64::MIN,
                samples: u64::MAX,
                mean_ns: f32::MAX,
                ..Segment::default()
            })
            .collect();
        report.neighbours.clear();
        report.flows.clear();
    }

    /// Probes between honest nodes.
    fn probe(&mut self, report: &mut Report, node: &str) {
        report.node = Some(node.to_owned());
        report.names = self.honest.iter().map(|other| other.name.clone()).collect();
        let count = report.names.len() as u32;
        report.segments = (0..count * count)
            .map(|n| Segment {
                kind: Kind::Probe.into(),
                from: n / count,
                to: n % count,
                packets: 1,
                samples: 1,
                mean_ns: f32::NAN,
                ..Segment::default()
            })
            .collect();
        report.neighbours.clear();
    }
}

/// A hostile sender's own number on wires.
fn number(sender: usize) -> u32 {
    900 + sender as u32
}

fn wire(port: u32, peer_switch: u32) -> Neighbour {
    Neighbour {
        port,
        peer_switch,
        peer_port: port,
        session: "established".to_owned(),
        system: None,
    }
}
