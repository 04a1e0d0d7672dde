//! Packets that are overtaken around an epoch's rollover: LDA alone compared with LDA with a stash (in the manner of
//! Lee et al., "Fine-grained latency and loss measurements in the presence of reordering", SIGMETRICS 2011).

use std::sync::Arc;

use anyhow::Result;
use measure::lda::{Bank, LdaLayout};
use measure::observation::{End, Observation};
use measure::packet::PacketHash;
use measure::synopsis::Synopsis;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use reporting::Limit;
use reporting::statistics::{error_percent, mean, whole};
use wire::{Placed, SenderLists, WireLayout, WireShard, reconcile};

use super::stream::{Delays, Passed};
use super::{Bench, PACKETS_MIN, percent};
use crate::experiment::{Found, Plan};
use crate::recording::Packet;
use crate::trace::Losses;
use crate::traffic::mix;

/// Packets of each of the two epochs at scale 1, and rows of the one bank that takes them all.
const PACKETS: f64 = 100_000.0;
const ROWS: u32 = 512;
const SEEDS: u32 = 10;
/// From one packet to the next in picoseconds: more than neighbours' delays in one queue differ by, so that
/// no packet is overtaken there.
const GAP_PS: u64 = 1_000_000;
/// Shares of packets that others overtake.
const SHARES: [f64; 6] = [0.0, 0.001, 0.01, 0.1, 0.5, 1.0];
/// How many packets may overtake one: fewer than half of the usual list, and more than all of it.
const REACHES: [u32; 2] = [100, 1_000];
const LOSSES: [f64; 2] = [0.0, 0.001];
/// Packets listed on each side of a rollover: none, as a wire has by default, and more.
const STASHES: [u16; 3] = [0, 256, 2_048];

/// Number of the table.
const TABLE: usize = 6;

pub(super) fn plan<'a>(bench: &Arc<Bench<'a>>, plan: &mut Plan<'a>) {
    if bench.capture.is_some() {
        return;
    }
    let seeds = bench.setting.seeds(SEEDS);
    plan.table(
        "LDA: packets reordered around a rollover",
        format!(
            "Two epochs of {} packets each and the rollover between them; 1 x {ROWS} rows, p = 1; delays of one \
             queue. A share of packets is held back and overtaken by up to R others each, at random. Packets \
             that the marker overtakes count in the next epoch at the receiver's end, and spoil a cell in \
             either. Ours: lists of {} packets on each side of the rollover (the default of a wire of \
             10 Gb/s), which show the epoch of each packet; compared with LDA alone and lists of {}. They work as long \
             as packets are moved by no more than half a list: with R = {} a list of {} is too short. \
             FineComb's figures are only in a plot. Means of both epochs and of {seeds} seeds.",
            packets(bench),
            STASHES[1],
            STASHES[2],
            REACHES[1],
            STASHES[1],
        ),
    );
    for reach in REACHES {
        for loss in LOSSES {
            for share in SHARES {
                let bench = Arc::clone(bench);
                let case = Case { share, reach, loss };
                plan.case(seeds, move |seed, found| case.run(&bench, seed, found));
            }
        }
    }
}

/// Packets of an epoch.
fn packets(bench: &Bench<'_>) -> usize {
    whole(PACKETS * bench.setting.scale).max(PACKETS_MIN)
}

/// Shares of packets that are overtaken and lost, and by how many others packets are overtaken at most.
#[derive(Clone, Copy)]
struct Case {
    share: f64,
    reach: u32,
    loss: f64,
}

impl Case {
    fn run(self, bench: &Bench<'_>, seed: u64, found: &mut Found) -> Result<()> {
        let Self { share, reach, loss } = self;
        let epoch = packets(bench);
        let stream = bench.stream_of(2 * epoch, Delays::Queue, 6000 + seed);
        let crossing = self.cross(
            &stream.with(Losses::Uniform(loss), 7000 + seed),
            epoch,
            seed,
        );
        let measure = |stash: usize| crossing.measure(STASHES[stash]);
        let [alone, ours, longer] = [measure(0)?, measure(1)?, measure(2)?];
        let case = format!(
            "{} overtaken by up to {reach}, {} loss",
            percent(share),
            percent(loss)
        );
        // Within half a list every packet finds its epoch.
        let exact = (loss == 0.0 && reach < u32::from(STASHES[1]) / 2).then_some(());
        let row = found.row(TABLE, format!("usable cells: {case}"), "%", ours.usable);
        row.limit(exact.map(|()| Limit::AtLeast(100.0))).others([
            ("LDA alone", alone.usable),
            ("lists of 2048", longer.usable),
            ("packets misplaced", crossing.misplaced as f64),
            ("moved", ours.moved as f64),
        ]);
        let check = format!("error of the mean: {case}");
        let row = found.row(TABLE, check, "%", ours.mean_error);
        row.limit(exact.map(|()| Limit::AtMost(1e-6))).others([
            ("LDA alone", alone.mean_error),
            ("lists of 2048", longer.mean_error),
        ]);
        Ok(())
    }

    /// Sends two epochs of packets and the marker between them, which nothing holds back.
    fn cross(self, passed: &Passed, epoch: usize, seed: u64) -> Crossing {
        let mut rng = Pcg64::seed_from_u64(mix(8000 + seed));
        let key = mix(seed);
        let mut crossing = Crossing::default();
        let mut received = Vec::with_capacity(passed.sent());
        // When the last packet of the first epoch that is not held back arrives.
        let mut marker_ps = 0;
        for (number, delay_ps) in passed.delays().enumerate() {
            let place = usize::from(number >= epoch);
            let sent_ps = GAP_PS * number as u64;
            let packet = Packet::of_segment(PacketHash(mix(key ^ number as u64)), sent_ps, None);
            crossing.sent[place].push(packet.at(0));
            let held_ps = f64::from(self.reach) * rng.random::<f64>() * GAP_PS as f64;
            let is_held = rng.random_bool(self.share);
            let Some(delay_ps) = delay_ps.map(u64::from) else {
                continue;
            };
            if place == 0 {
                marker_ps = sent_ps + delay_ps;
            }
            let held_ps = if is_held { whole(held_ps) as u64 } else { 0 };
            let (packets, sum_ps) = &mut crossing.truth[place];
            (*packets, *sum_ps) = (*packets + 1, *sum_ps + delay_ps + held_ps);
            received.push((place, packet.at(delay_ps + held_ps)));
        }
        received.sort_by_key(|(_, packet)| packet.time);
        for (place, packet) in received {
            let counted = usize::from(packet.time > marker_ps);
            crossing.misplaced += usize::from(counted != place);
            crossing.received[counted].push(packet);
        }
        crossing
    }
}

/// Packets at both ends, by epoch as each end counts them.
#[derive(Default)]
struct Crossing {
    sent: [Vec<Observation>; 2],
    received: [Vec<Observation>; 2],
    /// Packets of each epoch that arrived, and the sum of their delays in picoseconds.
    truth: [(u64, u64); 2],
    /// Packets that the ends count in different epochs.
    misplaced: usize,
}

/// Results of the LDAs of both epochs, on average.
struct Outcome {
    /// Cells that can be read, and the error of the mean, in per cent.
    usable: f64,
    mean_error: f64,
    /// Packets that were moved to the epoch that they were sent in.
    moved: u64,
}

impl Crossing {
    fn measure(&self, stash_packets: u16) -> Result<Outcome> {
        let bank = Bank {
            rows: ROWS,
            probability: 1.0,
        };
        let layout = WireLayout {
            segments: 1,
            lda: LdaLayout::new(&[bank])?,
            lds: None,
            stash_packets,
            flows: 0,
            references: None,
        };
        let shard = |end, packets: &Vec<Observation>| {
            let mut shard = WireShard::new(&layout, end);
            shard.record(end, packets);
            shard
        };
        let senders = self.sent.each_ref().map(|sent| shard(End::Sender, sent));
        let receivers = self.received.each_ref();
        let mut receivers = receivers.map(|received| shard(End::Receiver, received));
        let last: Vec<_> = senders[0].stash.last().map(Placed::stashed).collect();
        let first = senders[1].stash.first().iter().map(Placed::stashed);
        let lists = SenderLists {
            last: &last,
            first: &first.collect::<Vec<_>>(),
        };
        let [earlier, later] = &mut receivers;
        let moved = reconcile(earlier, later, lists);
        let (mut usable, mut errors) = (Vec::new(), Vec::new());
        for ((sender, receiver), (packets, sum_ps)) in senders.iter().zip(receivers).zip(self.truth)
        {
            let mut lda = receiver.segments[0].lda.clone();
            lda.merge(&sender.segments[0].lda)?;
            let estimate = lda.estimate(packets);
            usable.push(100.0 * estimate.usable_cells as f64 / estimate.cells as f64);
            let mean_ps = sum_ps as f64 / packets as f64;
            errors.push(error_percent(estimate.mean_ticks.unwrap_or(0.0), mean_ps));
        }
        Ok(Outcome {
            usable: mean(usable),
            mean_error: mean(errors),
            moved: moved.to_later + moved.to_earlier,
        })
    }
}
