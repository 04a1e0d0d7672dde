//! Honest switches, and what has to be known of them.

use prost::Message;
use rand::RngExt;
use report::msp::{Health, Kind, Neighbour, Report, Segment};
use report::subject;
use station::state::State;

use super::{BEGIN_NS, HONEST, SECOND_NS, World};

/// An honest switch, and what is true of it.
pub(super) struct Honest {
    pub name: String,
    pub number: u32,
    pub segments: u32,
    pub incarnation: u64,
    pub epoch: u64,
    /// Since its state began anew: reports, and packets of its first segment.
    pub reports: u64,
    pub packets: u64,
    pub restarts: u64,
    /// Somebody has written over its state: counts begin anew, from a report that is not known here.
    pub is_overwritten: bool,
    pub last: Report,
}

impl World {
    /// An honest switch closes an epoch. It has wires to the one before and the one after.
    pub(super) fn report(&mut self, place: usize) {
        let now_ns = BEGIN_NS + self.now_s * SECOND_NS;
        let switch = &mut self.honest[place];
        let mut names: Vec<String> = ["west", "east", "west:peer", "all", "lda"]
            .map(str::to_owned)
            .to_vec();
        let packets = self.random.random_range(1..1_000);
        let mean_ns = 1_000.0 * switch.number as f32;
        let segment = |kind: Kind, from, to| Segment {
            kind: kind.into(),
            from,
            to,
            class: 3,
            method: 4,
            packets,
            samples: packets,
            mean_ns,
            bound_ns: Some(1.0),
            stddev_ns: Some(10.0),
            ..Segment::default()
        };
        let mut segments = vec![segment(Kind::Inside, 0, 1), segment(Kind::Inside, 1, 0)];
        let mut neighbours = Vec::new();
        let mut wire = |port: u32, peer_switch| {
            neighbours.push(Neighbour {
                port,
                peer_switch,
                peer_port: 1 - port,
                session: "established".to_owned(),
                system: None,
            });
        };
        if switch.number > 1 {
            wire(0, switch.number - 1);
            segments.push(segment(Kind::Wire, 2, 0));
        }
        if (switch.number as usize) < HONEST {
            wire(1, switch.number + 1);
        }
        for port in names.len() as u32..switch.segments {
            names.push(format!("port-{port}"));
            segments.push(segment(Kind::Inside, port, 1));
        }
        switch.last = Report {
            version_major: 1,
            switch: switch.name.clone(),
            incarnation: switch.incarnation,
            epoch: switch.epoch,
            epochs: 1,
            start_unix_ns: now_ns - SECOND_NS,
            length_ns: SECOND_NS,
            health: Some(Health {
                clock: "locked".to_owned(),
                ..Health::default()
            }),
            names,
            segments,
            neighbours,
            wire_switch: Some(switch.number),
            ..Report::default()
        };
        switch.epoch += 1;
        switch.reports += 1;
        switch.packets += packets;
        let subject = subject::of_switch(&switch.name);
        let is_taken = self.server.publish(subject, switch.last.encode_to_vec());
        assert!(is_taken, "an honest report is small enough");
        self.counts[0] += 1;
    }
}

impl Honest {
    /// Whether this is what is known of it.
    pub fn check(&self, state: &State) -> Result<(), String> {
        let run = state.runs.first().cloned().unwrap_or_default();
        if (run.incarnation, run.epoch) != (self.incarnation, self.epoch - 1) {
            return Err(format!(
                "its last epoch is {}, not {}",
                run.epoch,
                self.epoch - 1
            ));
        }
        let known = &state.segments[0];
        let name = |index| state.name(index);
        if (name(known.last.from), name(known.last.to)) != ("west", "east")
            || known.last.packets != self.last.segments[0].packets
            || known.last.mean_ns.to_bits() != self.last.segments[0].mean_ns.to_bits()
        {
            return Err(format!("its first segment is {:?}", known.last));
        }
        if state.segments.len() != self.last.segments.len() {
            return Err(format!("it has {} segments", state.segments.len()));
        }
        if self.is_overwritten {
            let is_said = state.set_aside > 0 && state.missed_epochs == 0;
            return is_said
                .then_some(())
                .ok_or_else(|| "garbage over its state is not mentioned".to_owned());
        }
        let counted = [state.reports, state.restarts, state.missed_epochs];
        if counted != [self.reports, self.restarts, 0] || state.set_aside > 0 {
            return Err(format!(
                "reports, restarts, missed epochs: {counted:?}, not {:?}; {} set aside ({})",
                [self.reports, self.restarts, 0],
                state.set_aside,
                state.set_aside_why
            ));
        }
        Ok(())
    }
}
