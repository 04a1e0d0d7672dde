//! The live table's own history of a switch: sums at points in time, for charts of figures for which the switch itself
//! keeps no history.

use std::collections::{HashMap, VecDeque};
use std::mem::take;

use records::answers::{Classes, FlowPage, Width};
use records::history::BUCKETS_MAX;
use records::snapshot::{Flow, Snapshot, WireSegment};

/// How long a subject that is no longer present is kept.
const KEPT_S: f64 = 60.0;

/// Tolerance for early marks, because snapshots are not exactly regular.
const EARLY_S: f64 = 0.1;

/// Subjects that have sums. Except for [`Subject::Workers`] and [`Subject::Port`], these are packets that entered,
/// packets that were lost, packets whose delay is known, and the sum of their delays in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Subject {
    /// Sums are the seconds that each worker was busy.
    Workers,
    /// A port by name: packets received, sent, and dropped for each reason.
    Port(String),
    Class(String),
    /// A flow by name and segment.
    Flow(String, String),
    /// A segment on the wire by name.
    Wire(String),
}

impl Subject {
    pub(super) fn flow(flow: &Flow) -> Self {
        Self::Flow(flow.flow.clone(), flow.segment_title())
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Workers => "workers",
            Self::Port(name) | Self::Class(name) | Self::Flow(name, _) | Self::Wire(name) => name,
        }
    }
}

/// Sums at a time.
#[derive(Debug, Clone, Default)]
struct Mark {
    /// The switch's uptime.
    at_s: f64,
    sums: Vec<f64>,
    /// The greatest 99th percentile since the previous mark; 0 if unknown.
    peak: f64,
}

/// By how much sums rose.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step {
    /// The switch's uptime at the end.
    pub at_s: f64,
    pub duration_s: f64,
    pub sums: Vec<f64>,
    /// The greatest 99th percentile in between; 0 if unknown.
    pub peak: f64,
}

impl Step {
    /// `None` if the sums were reset in between.
    fn between(before: &Mark, after: &Mark) -> Option<Self> {
        let pairs = after.sums.iter().zip(&before.sums);
        let sums: Vec<f64> = pairs.map(|(after, before)| after - before).collect();
        let has_risen = sums.first().is_some_and(|first| *first >= 0.0);
        has_risen.then_some(Self {
            at_s: after.at_s,
            duration_s: after.at_s - before.at_s,
            sums,
            peak: after.peak,
        })
    }
}

/// Marks at least one width apart.
#[derive(Debug, Default)]
struct Level {
    marks: VecDeque<Mark>,
    /// The greatest 99th percentile since the last mark.
    peak: f64,
}

/// The sums of one subject.
#[derive(Debug, Default)]
struct Track {
    levels: [Level; Width::ALL.len()],
    latest: Mark,
}

/// Whether a mark at `at_s` is far enough from the previous one.
fn is_due(before: &Mark, at_s: f64, width: Width) -> bool {
    at_s - before.at_s >= f64::from(width.seconds()) - EARLY_S
}

impl Track {
    fn add(&mut self, at_s: f64, sums: Vec<f64>, peak: f64) {
        for (level, width) in self.levels.iter_mut().zip(Width::ALL) {
            level.peak = level.peak.max(peak);
            if level
                .marks
                .back()
                .is_none_or(|last| is_due(last, at_s, width))
            {
                if level.marks.len() > BUCKETS_MAX {
                    level.marks.pop_front();
                }
                level.marks.push_back(Mark {
                    at_s,
                    sums: sums.clone(),
                    peak: take(&mut level.peak),
                });
            }
        }
        self.latest = Mark { at_s, sums, peak };
    }

    /// Steps of this width, the oldest first. The last may be shorter, but at least a second.
    fn steps(&self, width: Width) -> Vec<Step> {
        let level = &self.levels[width as usize];
        let last = level.marks.back();
        let open = last.filter(|last| is_due(last, self.latest.at_s, Width::Second));
        let open = open.map(|_| Mark {
            peak: level.peak,
            ..self.latest.clone()
        });
        let marks: Vec<&Mark> = level.marks.iter().chain(&open).collect();
        let pairs = marks.windows(2);
        pairs
            .filter_map(|pair| Step::between(pair[0], pair[1]))
            .collect()
    }
}

/// The sums of all subjects of a switch.
#[derive(Debug, Default)]
pub(super) struct Memory {
    tracks: HashMap<Subject, Track>,
    /// The switch's uptime at the last snapshot.
    at_s: f64,
}

impl Memory {
    /// Adds a snapshot, and flows that came with it.
    pub(super) fn add(&mut self, snapshot: &Snapshot, page: Option<&FlowPage>) {
        if snapshot.uptime_s < self.at_s {
            // The switch was started again.
            self.tracks.clear();
        }
        self.at_s = snapshot.uptime_s;
        let busy = snapshot.workers.iter().map(|worker| worker.busy_s);
        self.note(Subject::Workers, busy.collect(), 0.0);
        for port in &snapshot.ports {
            let counts = [port.counts.rx_packets, port.counts.tx_packets];
            let dropped = port.drops.iter().map(|drop| drop.packets);
            let sums = counts.into_iter().chain(dropped);
            let sums = sums.map(|packets| packets as f64).collect();
            self.note(Subject::Port(port.name.clone()), sums, 0.0);
        }
        for class in Classes::from(snapshot).classes {
            let delayed = class.stamped_packets as f64;
            let sums = vec![
                class.counts.sent_packets as f64,
                class.counts.dropped_packets as f64,
                delayed,
                delayed * class.mean_ns.unwrap_or(0.0),
            ];
            let p99_ns = class.last.map_or(0.0, |last| last.stamped.p99_ns);
            self.note(Subject::Class(class.class), sums, p99_ns);
        }
        for segment in snapshot.wires.iter().flat_map(|wire| &wire.segments) {
            self.add_wire(segment);
        }
        for flow in page.into_iter().flat_map(|page| &page.flows) {
            let p99_ns = flow.quantiles.map_or(0.0, |quantiles| quantiles.p99_ns);
            self.note(Subject::flow(flow), flow_sums(flow), p99_ns);
        }
        let at_s = self.at_s;
        self.tracks
            .retain(|_, track| at_s - track.latest.at_s <= KEPT_S);
    }

    /// Its delays are not sums, so each snapshot's mean counts once.
    fn add_wire(&mut self, segment: &WireSegment) {
        let subject = Subject::Wire(segment.title());
        let before = self.tracks.get(&subject).map(|track| &*track.latest.sums);
        let (means, sum_ns) = match before {
            Some(&[_, _, means, sum_ns]) => (means, sum_ns),
            _ => (0.0, 0.0),
        };
        let chosen = segment.last.as_ref().and_then(|last| last.chosen.as_ref());
        let mean_ns = chosen.map(|chosen| chosen.mean_ns);
        let sums = vec![
            segment.sent_packets as f64,
            segment.lost_packets_max as f64,
            means + f64::from(u8::from(mean_ns.is_some())),
            sum_ns + mean_ns.unwrap_or(0.0),
        ];
        self.note(subject, sums, 0.0);
    }

    fn note(&mut self, subject: Subject, sums: Vec<f64>, peak: f64) {
        let track = self.tracks.entry(subject).or_default();
        track.add(self.at_s, sums, peak);
    }

    /// Steps of this width, the oldest first.
    pub(super) fn steps(&self, subject: &Subject, width: Width) -> Vec<Step> {
        let track = self.tracks.get(subject);
        track.map_or_else(Vec::new, |track| track.steps(width))
    }

    /// The last second or so.
    pub(super) fn last_second(&self, subject: &Subject) -> Option<Step> {
        self.steps(subject, Width::Second).pop()
    }
}

/// Since the flow was first seen; delays are stamped, or on a wire estimated.
fn flow_sums(flow: &Flow) -> Vec<f64> {
    let total = &flow.total;
    let (delayed, mean_ns) = match (total.mean_ns, flow.running) {
        (Some(mean_ns), _) => (total.packets, mean_ns),
        (None, Some(running)) => (running.packets, running.mean_ns),
        (None, None) => (0, 0.0),
    };
    let lost = total.lost_packets.unwrap_or(0);
    vec![
        (total.packets + lost) as f64,
        lost as f64,
        delayed as f64,
        delayed as f64 * mean_ns,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 250 ms apart: 100 packets a second, each with a delay of as many nanoseconds as seconds have passed.
    fn track(seconds: u32) -> Track {
        let mut track = Track::default();
        for quarter in 0..=4 * seconds {
            let at_s = f64::from(quarter) / 4.0;
            track.add(at_s, vec![100.0 * at_s], at_s);
        }
        track
    }

    #[test]
    fn steps_are_as_wide_as_asked_and_bounded_in_number() {
        let track = track(7_200);
        for width in Width::ALL {
            let width_s = f64::from(width.seconds());
            let steps = track.steps(width);
            assert!(
                (BUCKETS_MAX..BUCKETS_MAX + 2).contains(&steps.len()),
                "{width:?}"
            );
            for step in &steps {
                let (least, most) = (0.9 * width_s, 1.1 * width_s + 1.0);
                assert!(
                    (least..most).contains(&step.duration_s),
                    "{width:?} {step:?}"
                );
                assert!((step.sums[0] - 100.0 * step.duration_s).abs() < 1e-6);
                assert!((step.peak - step.at_s).abs() < 1e-9, "{width:?} {step:?}");
            }
        }
    }

    #[test]
    fn the_last_step_is_up_to_now() {
        let track = track(15);
        let ends = |width| {
            let steps = track.steps(width).into_iter();
            steps.map(|step| step.at_s).collect::<Vec<_>>()
        };
        assert_eq!(ends(Width::TenSeconds).last(), Some(&15.0));
        assert_eq!(ends(Width::Minute), [15.0]);
    }

    #[test]
    fn sums_that_begin_anew_are_no_step() {
        let mut track = track(3);
        track.add(4.0, vec![1.0], 0.0);
        track.add(5.0, vec![2.0], 0.0);
        let steps = track.steps(Width::Second);
        let last = steps.last().unwrap();
        assert!(steps.iter().all(|step| step.sums[0] >= 0.0));
        assert!((last.sums[0] - 1.0).abs() < 1e-9 && (last.at_s - 5.0).abs() < 1e-9);
    }

    #[test]
    fn a_switch_that_was_started_again_begins_anew() {
        let mut memory = Memory::default();
        let mut snapshot = Snapshot::example();
        for uptime_s in [20.0, 21.0, 22.0] {
            snapshot.uptime_s = uptime_s;
            snapshot.workers[0].busy_s = uptime_s / 2.0;
            memory.add(&snapshot, None);
        }
        let step = memory.last_second(&Subject::Workers).unwrap();
        assert!((step.sums[0] / step.duration_s - 0.5).abs() < 1e-9);
        snapshot.uptime_s = 1.0;
        memory.add(&snapshot, None);
        assert_eq!(memory.last_second(&Subject::Workers), None);
    }

    #[test]
    fn flows_that_are_not_seen_again_are_forgotten() {
        let mut memory = Memory::default();
        let mut snapshot = Snapshot::example();
        let flow = snapshot.flows.as_ref().unwrap().top[0].flow.clone();
        let subject = Subject::flow(&flow);
        let page = FlowPage {
            flows: vec![flow],
            ..FlowPage::of(&snapshot, &[], &records::answers::FlowQuery::default())
        };
        memory.add(&snapshot, Some(&page));
        assert!(memory.tracks.contains_key(&subject));
        snapshot.uptime_s += KEPT_S + 1.0;
        memory.add(&snapshot, None);
        assert!(!memory.tracks.contains_key(&subject));
    }
}
