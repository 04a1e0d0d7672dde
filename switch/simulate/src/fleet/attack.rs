//! What hostile senders send.

use prost::Message;
use rand::RngExt;
use report::msp::{Kind, Neighbour, Report, Segment};
use report::subject;
use station::values;

use super::{BEGIN_NS, HONEST, SECOND_NS, World};

impl World {
    /// A hostile sender, which may publish under its own name only, sends something.
    pub(super) fn attack(&mut self, sender: usize) {
        let name = self.hostile[sender].clone();
        let now_ns = BEGIN_NS + self.now_s * SECOND_NS;
        let victim = self.honest[self.random.random_range(0..HONEST)]
            .last
            .clone();
        let mut report = Report {
            switch: name.clone(),
            incarnation: self.random.random(),
            start_unix_ns: now_ns - SECOND_NS,
            wire_switch: Some(900 + sender as u32),
            node: None,
            ..victim.clone()
        };
        let mut subject = subject::of_switch(&name);
        let kind = self.random.random_range(0..11_u32);
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
                report.neighbours = [1, HONEST as u32]
                    .map(|peer_switch| Neighbour {
                        port: peer_switch % 2,
                        peer_switch,
                        peer_port: peer_switch % 2,
                        session: "established".to_owned(),
                        system: None,
                    })
                    .to_vec();
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
