//! One rate for a while.

use std::borrow::Cow;
use std::time::Duration;

use arrayvec::ArrayVec;
use clap::Args;
use reporting::statistics::{mean, whole};
use serde::Serialize;

use crate::pktgen::frames::{Frames, Seen, look};
use crate::pktgen::seconds;
use crate::pktgen::wire::Wire;
use crate::ports::{BURST, nanoseconds};

/// Maximum number of probes whose delay is kept.
const DELAYS_MAX: usize = 1 << 20;

/// If the generator itself stalls for more frames than this, it does not send them later, because that would be an
/// unintended burst.
const BACKLOG_MAX: u64 = 256;

/// Load of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
pub struct Load {
    /// Send from both sides
    #[arg(long, global = true)]
    pub both_ways: bool,
    /// Seconds of a trial; the RFC's is 60
    #[arg(long, global = true, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub trial: Duration,
    /// Seconds to wait for stragglers; the RFC's is 2
    #[arg(long, global = true, value_name = "SECONDS", default_value = "0.5", value_parser = seconds)]
    pub settle: Duration,
    /// One in this number of frames carries its time of sending
    #[arg(long, global = true, value_name = "FRAMES", default_value_t = 100)]
    pub probe_every: u32,
}

/// Result of a trial.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// Intended load of all sending sides, in packets a second.
    pub wanted_pps: f64,
    /// Packets a second that were offered.
    pub offered_pps: f64,
    pub offered: u64,
    /// Frames that our port refused because it was full: the switch did not read in time.
    pub refused: u64,
    /// Frames that came back.
    pub received: u64,
    /// Frames that came in and were not ours.
    pub foreign: u64,
    /// Delays of probes, sorted, in nanoseconds.
    #[serde(skip)]
    pub delays_ns: Vec<u64>,
}

impl Outcome {
    /// Share of the offered frames that did not come back. Copies (flooding) never make it negative.
    pub fn loss(&self) -> f64 {
        let lost = self.offered.saturating_sub(self.received);
        lost as f64 / self.offered.max(1) as f64
    }

    /// Whether the generator could not offer the intended rate.
    pub fn is_short(&self) -> bool {
        self.offered_pps < 0.98 * self.wanted_pps
    }

    /// The delay that a share of all probes does not exceed; `None` without probes.
    pub fn delay_ns(&self, share: f64) -> Option<u64> {
        let last = self.delays_ns.len().checked_sub(1)?;
        let rank = whole((last as f64 * share).round());
        self.delays_ns.get(rank).copied()
    }

    /// Mean delay of probes; `None` without.
    pub fn mean_delay_ns(&self) -> Option<f64> {
        let mean_ns = mean(self.delays_ns.iter().map(|&ns| ns as f64));
        (!mean_ns.is_nan()).then_some(mean_ns)
    }
}

/// Counts received frames.
#[derive(Debug, Default)]
struct Tally {
    received: u64,
    foreign: u64,
    delays_ns: Vec<u64>,
}

impl Tally {
    /// Receives the frames waiting on both sides. Returns the time.
    fn poll(&mut self, wire: &mut impl Wire) -> u64 {
        let now_ns = wire.now_ns();
        for side in 0..2 {
            wire.receive(side, &mut |head| match look(head) {
                Seen::Foreign => self.foreign += 1,
                Seen::Plain => self.received += 1,
                Seen::Probe { sent_ns } => {
                    self.received += 1;
                    if self.delays_ns.len() < DELAYS_MAX {
                        self.delays_ns.push(now_ns.saturating_sub(sent_ns));
                    }
                }
            });
        }
        now_ns
    }
}

/// Sender of one side.
struct Sender<'a> {
    side: usize,
    frames: &'a Frames,
    rate_pps: f64,
    /// Frames that have been due, including those not sent later.
    due: u64,
    offered: u64,
    refused: u64,
}

impl Sender<'_> {
    /// Sends the frames due after `elapsed_ns` at the load's constant rate.
    fn poll(&mut self, wire: &mut impl Wire, load: &Load, elapsed_ns: u64, now_ns: u64) {
        let due = whole(elapsed_ns as f64 * self.rate_pps / 1e9) as u64;
        let backlog = due.saturating_sub(self.due);
        if backlog > BACKLOG_MAX {
            self.due = due - BACKLOG_MAX;
        }
        let number = backlog.min(BURST as u64);
        if number == 0 {
            return;
        }
        let every = u64::from(load.probe_every);
        let frame = |n| match self.frames.get(n) {
            frame if every != 0 && n % every == every - 1 => Cow::Owned(frame.probe(now_ns)),
            frame => Cow::Borrowed(frame),
        };
        let numbers = self.offered..self.offered + number;
        let burst: ArrayVec<_, BURST> = numbers.map(frame).collect();
        let taken = wire.send(self.side, &burst);
        self.refused += (burst.len() - taken) as u64;
        self.offered += number;
        self.due += number;
    }
}

/// Offers this rate on each sending side, and counts the returning frames. Frames of both sides are needed, because the
/// other side also sends one for each station, so that a bridge learns them.
pub fn run(wire: &mut impl Wire, frames: &[Frames; 2], rate_pps: f64, load: &Load) -> Outcome {
    greet(wire, frames, load.settle);
    let sending = if load.both_ways { 2 } else { 1 };
    let mut senders: Vec<Sender> = (0..sending)
        .map(|side| Sender {
            side,
            frames: &frames[side],
            rate_pps,
            due: 0,
            offered: 0,
            refused: 0,
        })
        .collect();
    let mut tally = Tally {
        delays_ns: Vec::with_capacity(DELAYS_MAX),
        ..Tally::default()
    };
    let started_ns = wire.now_ns();
    let duration_ns = nanoseconds(load.trial);
    let mut elapsed_ns = 0;
    while elapsed_ns < duration_ns {
        let now_ns = wire.now_ns();
        elapsed_ns = now_ns - started_ns;
        for sender in &mut senders {
            sender.poll(wire, load, elapsed_ns, now_ns);
        }
        tally.poll(wire);
    }
    let offered = senders.iter().map(|sender| sender.offered).sum();
    let until_ns = wire.now_ns() + nanoseconds(load.settle);
    while tally.received < offered && tally.poll(wire) < until_ns {}
    tally.delays_ns.sort_unstable();
    Outcome {
        wanted_pps: rate_pps * sending as f64,
        offered_pps: offered as f64 * 1e9 / elapsed_ns as f64,
        offered,
        refused: senders.iter().map(|sender| sender.refused).sum(),
        received: tally.received,
        foreign: tally.foreign,
        delays_ns: tally.delays_ns,
    }
}

/// Slowly sends one frame from every station of both sides, and waits until nothing arrives any more.
fn greet(wire: &mut impl Wire, frames: &[Frames; 2], settle: Duration) {
    const GAP_NS: u64 = 20_000;
    let discard = &mut |_: &[u8]| {};
    for (side, frames) in frames.iter().enumerate() {
        for hello in &frames.hellos {
            wire.send(side, &[Cow::Borrowed(hello)]);
            let sent_ns = wire.now_ns();
            while wire.now_ns() < sent_ns + GAP_NS {
                wire.receive(1 - side, discard);
                wire.receive(side, discard);
            }
        }
    }
    let settle_ns = nanoseconds(settle);
    let quiet_ns = settle_ns.min(50_000_000);
    let started_ns = wire.now_ns();
    let (mut now_ns, mut last_ns) = (started_ns, started_ns);
    while now_ns - last_ns < quiet_ns && now_ns - started_ns < settle_ns {
        now_ns = wire.now_ns();
        let received = [0, 1].map(|side| wire.receive(side, discard));
        if received != [0, 0] {
            last_ns = now_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use contract::config::device::Generate;

    use super::*;
    use crate::pktgen::wire::model::Model;

    fn frames() -> [Frames; 2] {
        [0, 1].map(|side| Frames::generate(&Generate::default(), side, 100, 1_500).unwrap())
    }

    const LOAD: Load = Load {
        both_ways: false,
        trial: Duration::from_millis(100),
        settle: Duration::from_millis(20),
        probe_every: 10,
    };

    #[test]
    fn what_the_switch_can_do_comes_back_whole() {
        let mut model = Model::new(1e6, 100, 5_000, 200);
        let outcome = run(&mut model, &frames(), 500_000.0, &LOAD);
        assert_eq!(model.lost, 0);
        assert_eq!((outcome.received, outcome.refused), (outcome.offered, 0));
        assert!(
            (outcome.offered_pps / 500_000.0 - 1.0).abs() < 0.001,
            "{outcome:?}"
        );
        assert!(!outcome.is_short());
        assert_eq!(outcome.delays_ns.len() as u64, outcome.offered / 10);
        // One service time and the fixed delay, and the steps of the clock.
        let least = outcome.delay_ns(0.0).unwrap();
        let most = outcome.delay_ns(1.0).unwrap();
        assert!((6_000..6_600).contains(&least), "{least}");
        assert!((6_000..8_600).contains(&most), "{most}");
        let mean = outcome.mean_delay_ns().unwrap();
        assert!(least as f64 <= mean && mean <= most as f64);
    }

    #[test]
    fn what_is_lost_is_counted_exactly() {
        let mut model = Model::new(1e6, 100, 5_000, 200);
        let outcome = run(&mut model, &frames(), 2e6, &LOAD);
        assert_eq!(outcome.offered - outcome.received, model.lost);
        // Half of it, less what the queue holds.
        assert!((outcome.loss() - 0.5).abs() < 0.01, "{}", outcome.loss());
        // The queue is full: its length is the delay.
        let median = outcome.delay_ns(0.5).unwrap();
        assert!((100_000..110_000).contains(&median), "{median}");
    }

    #[test]
    fn both_ways_is_twice_as_much() {
        let both = Load {
            both_ways: true,
            ..LOAD
        };
        let outcome = run(
            &mut Model::new(1e6, 100, 5_000, 200),
            &frames(),
            300_000.0,
            &both,
        );
        assert!((outcome.offered_pps / 600_000.0 - 1.0).abs() < 0.001);
        assert_eq!(outcome.received, outcome.offered);
    }

    #[test]
    fn a_clock_that_jumps_shows_as_an_offer_that_is_short() {
        // We come by every 200 us, when 1,000 frames are due.
        let outcome = run(
            &mut Model::new(1e9, 10_000, 0, 100_000),
            &frames(),
            5e6,
            &LOAD,
        );
        assert!(outcome.is_short(), "{outcome:?}");
        assert_eq!(outcome.received, outcome.offered);
        assert!((outcome.loss()).abs() < 1e-12);
    }
}
