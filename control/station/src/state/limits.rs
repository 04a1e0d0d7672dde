//! What is kept of a switch within its limits, and what fits a message.

use std::cmp::Reverse;

use prost::Message;
use report::Names;

use super::{BYTES_MAX, Known, Minute, SEGMENTS_MAX, State};

impl Minute {
    /// Splits it into parts of at most `bytes_max` bytes each.
    pub fn split(self, bytes_max: usize) -> Vec<Self> {
        let mut parts = Vec::new();
        let mut rest = vec![self];
        while let Some(mut part) = rest.pop() {
            if part.encoded_len() <= bytes_max || part.segments.len() < 2 {
                part.part = u32::try_from(parts.len()).unwrap_or(u32::MAX);
                parts.push(part);
                continue;
            }
            let mut behind = part.clone();
            behind.segments = part.segments.split_off(part.segments.len() / 2);
            rest.extend([behind, part].map(Self::compacted));
        }
        parts
    }

    /// With the names that its segments refer to.
    fn compacted(mut self) -> Self {
        let mut names = Names::default();
        for segment in &mut self.segments {
            for index in [&mut segment.from, &mut segment.to, &mut segment.class] {
                renumber(index, &self.names, &mut names);
            }
        }
        self.names = names.all();
        self
    }
}

/// Makes an index into `old` an index into `new`, which gets the name.
fn renumber(index: &mut u32, old: &[String], new: &mut Names) {
    *index = new.index(old.get(*index as usize).map_or("", String::as_str));
}

impl State {
    /// Notes that something of this switch was set aside, so that others go on.
    pub fn set_aside(&mut self, why: &str) {
        self.set_aside = self.set_aside.saturating_add(1);
        why.clone_into(&mut self.set_aside_why);
    }

    /// Takes the lists that may be large out of the state.
    #[must_use]
    pub fn take_large(&mut self) -> Self {
        Self {
            names: std::mem::take(&mut self.names),
            segments: std::mem::take(&mut self.segments),
            flows: std::mem::take(&mut self.flows),
            neighbours: std::mem::take(&mut self.neighbours),
            ..Self::default()
        }
    }

    /// Puts them back.
    pub fn give_large(&mut self, large: Self) {
        self.names = large.names;
        self.segments = large.segments;
        self.flows = large.flows;
        self.neighbours = large.neighbours;
    }

    /// Evicts the segments that were reported longest ago until the state is within its limits.
    pub(super) fn evict(&mut self) {
        let before = self.segments.len();
        if self.encoded_len() > BYTES_MAX {
            self.compact();
        }
        while self.segments.len() > SEGMENTS_MAX
            || (self.encoded_len() > BYTES_MAX && !self.segments.is_empty())
        {
            self.segments
                .sort_by_key(|known| Reverse(known.end_unix_ns));
            let kept = SEGMENTS_MAX.min(self.segments.len() / 4 * 3);
            self.segments.truncate(kept);
            self.compact();
        }
        let evicted = (before - self.segments.len()) as u64;
        self.evicted_segments = self.evicted_segments.saturating_add(evicted);
    }

    /// Drops names that nothing refers to.
    pub(super) fn compact(&mut self) {
        let old = std::mem::take(&mut self.names);
        let mut names = Names::default();
        let mut renew = |index: &mut u32| renumber(index, &old, &mut names);
        for Known { last, .. } in &mut self.segments {
            for name in [
                &mut last.from,
                &mut last.to,
                &mut last.class,
                &mut last.method,
            ] {
                renew(name);
            }
        }
        for flow in &mut self.flows {
            [&mut flow.from, &mut flow.to, &mut flow.class]
                .into_iter()
                .for_each(&mut renew);
        }
        for other in &mut self.neighbours {
            renew(&mut other.port);
            renew(&mut other.peer_port);
        }
        self.names = names.all();
    }
}
