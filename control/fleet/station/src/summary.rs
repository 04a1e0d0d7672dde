//! A switch's last reports, summarised for answers and metrics.

use records::station::{Gap, SwitchState};

use crate::clock;
use crate::state::State;

/// Summarises the state of a switch.
pub fn summary(state: &State, now_unix_ns: u64) -> SwitchState {
    let health = state.health.clone().unwrap_or_default();
    let mut problems: Vec<String> = health
        .unusable
        .iter()
        .map(|reason| format!("unusable: {reason}"))
        .collect();
    if health.stalled_workers > 0 {
        problems.push(format!("{} workers have stalled", health.stalled_workers));
    }
    problems.extend(health.unready);
    problems.extend(clock::problem(state.clock_off_ns));
    if state.evicted_segments > 0 {
        let evicted = state.evicted_segments;
        problems.push(format!("it has too many segments: {evicted} were evicted"));
    }
    if state.set_aside > 0 {
        let (set_aside, why) = (state.set_aside, &state.set_aside_why);
        problems.push(format!("set aside {set_aside} times, the last time {why}"));
    }
    let run = state.runs.first().cloned().unwrap_or_default();
    SwitchState {
        switch: state.switch.clone(),
        incarnation: format!("{:016x}", run.incarnation),
        epoch: run.epoch,
        epoch_end_unix_s: seconds(state.end_unix_ns),
        interval_s: seconds(state.length_ns),
        silent_since_unix_s: state.silent_since_unix_s(now_unix_ns),
        problems,
        clock: health.clock,
        reports: state.reports,
        duplicates: state.duplicates,
        missed_epochs: state.missed_epochs,
        dropped_reports: state.dropped_reports,
        restarts: state.restarts,
        evicted_segments: state.evicted_segments,
        set_aside: state.set_aside,
        gaps: (state.gaps.iter())
            .map(|gap| Gap {
                first_epoch: gap.first,
                last_epoch: gap.last,
                end_unix_s: seconds(gap.end_unix_ns),
            })
            .collect(),
    }
}

impl State {
    /// Returns since when the switch has been silent, in seconds since 1970.
    pub fn silent_since_unix_s(&self, now_unix_ns: u64) -> Option<f64> {
        self.is_silent(now_unix_ns)
            .then(|| seconds(self.end_unix_ns))
    }
}

/// Converts nanoseconds to seconds.
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
