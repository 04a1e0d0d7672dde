//! The sender's part: lists and synopses of sealed epochs as frames, paced, and once more on request.

use std::collections::VecDeque;

use measure::observation::End;
use measure::time::Epoch;
use wire::SealedWire;
use wire::frame::{Request, Sealer};

use super::held::{Held, Piece, What};
use super::settings::{Moment, Settings};
use super::status::ExchangeCounters;
use contract::wire::handover::WireControlEnd;

/// Epochs that are kept to answer requests. The other two shards are the one that the worker fills and an
/// empty one for the next rollover.
const KEPT: usize = 2;

/// Frames of the worker's ring that are left to hellos and the like.
const RING_RESERVE: usize = 16;

/// What may be sent at once, as time: so much a late poll may catch up.
const BURST_NS: u64 = 20_000_000;

/// Everything that is still to be sent.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    held: VecDeque<Held>,
    pieces: VecDeque<Piece>,
    repeated: VecDeque<Piece>,
    /// Bytes that may be sent now; under 0 after a hello that could not wait.
    allowance: f64,
    bytes_per_s: f64,
    filled_ns: u64,
}

impl Outgoing {
    /// Takes a sealed epoch.
    pub fn take(
        &mut self,
        sealed: SealedWire,
        settings: &Settings,
        end: &mut WireControlEnd,
        counters: &mut ExchangeCounters,
    ) {
        while self.held.len() >= KEPT {
            self.forget(end, counters);
        }
        let held = Held::new(sealed);
        if held.is_withheld {
            counters.withheld_epochs += 1;
        }
        // The lists that show where misplaced packets belong are needed first. They are never requested
        // again: they are sent twice, some time apart.
        let lists = [What::First, What::Last].into_iter();
        let lists: Vec<Piece> = lists
            .flat_map(|what| held.stash_pieces(what, settings))
            .collect();
        let frames = |what| held.pieces(what, std::iter::once(0..u32::MAX), settings);
        let (sketches, others): (Vec<What>, Vec<What>) =
            (held.synopses().into_iter()).partition(|what| *what == What::Lds);
        self.pieces.extend(lists.iter().cloned());
        self.pieces.extend(others.into_iter().flat_map(frames));
        self.pieces.extend(lists);
        self.pieces.extend(sketches.into_iter().flat_map(frames));
        self.held.push_back(held);
        self.pace(settings, 2);
    }

    /// Answers a request, each once.
    pub fn answer(
        &mut self,
        (epoch, segment): (Epoch, u16),
        request: &Request,
        settings: &Settings,
        counters: &mut ExchangeCounters,
    ) {
        let held = self.held.iter_mut().find(|held| held.epoch == epoch);
        let asked = held.and_then(|held| {
            let what = held.asked(segment, request)?;
            held.answered.push(what);
            Some(held.pieces(what, request.ranges().iter().cloned(), settings))
        });
        let Some(pieces) = asked else {
            counters.requests_ignored += 1;
            return;
        };
        counters.requests_answered += 1;
        self.repeated.extend(pieces);
        self.pace(settings, 4);
    }

    /// Sends what is waiting in a part of an epoch, if the link's share allows.
    fn pace(&mut self, settings: &Settings, part: u64) {
        let waiting: usize = self
            .repeated
            .iter()
            .chain(&self.pieces)
            .map(|one| one.bytes)
            .sum();
        let within_s = (settings.epoch_ns / part).max(1) as f64 / 1e9;
        let wanted = (waiting as f64 / within_s).max(self.bytes_per_s);
        self.bytes_per_s = wanted.min(settings.frames.bytes_per_s as f64);
    }

    /// A frame of so many bytes is sent, whatever is waiting.
    pub fn spend(&mut self, bytes: usize) {
        self.allowance -= bytes as f64;
    }

    /// Lets time pass.
    pub fn refill(&mut self, now: Moment, settings: &Settings) {
        let elapsed_ns = now.monotonic_ns.saturating_sub(self.filled_ns);
        self.filled_ns = now.monotonic_ns;
        let per_s = self.bytes_per_s;
        let most = (per_s * BURST_NS as f64 / 1e9)
            .max((settings.frames.bytes_max + settings.frames.overhead_bytes) as f64);
        let more = per_s * elapsed_ns.min(1_000_000_000) as f64 / 1e9;
        self.allowance = (self.allowance + more).min(most);
    }

    /// Gives the worker as many frames as may be sent now.
    pub fn send(
        &mut self,
        now: Moment,
        settings: &Settings,
        sealer: &mut Sealer,
        end: &mut WireControlEnd,
        counters: &mut ExchangeCounters,
    ) {
        while end.room() > RING_RESERVE {
            let queue = if self.repeated.is_empty() {
                &mut self.pieces
            } else {
                &mut self.repeated
            };
            let Some(piece) = queue.front() else {
                self.bytes_per_s = 0.0;
                return;
            };
            if self.allowance < piece.bytes as f64 {
                return;
            }
            let Some(piece) = queue.pop_front() else {
                return;
            };
            let Some(held) = self.held.iter().find(|held| held.epoch == piece.epoch) else {
                counters.fragments_unsent += 1;
                continue;
            };
            self.allowance -= piece.bytes as f64;
            let mut length = None;
            let is_sent = end.send(piece.segment(), |buffer| {
                length = held.seal(&piece, now, settings, sealer, buffer);
                length
            });
            if length.is_none() || !is_sent {
                counters.fragments_unsent += 1;
            }
        }
    }

    /// Gives the oldest epoch back; what was to be sent of it is not.
    fn forget(&mut self, end: &mut WireControlEnd, counters: &mut ExchangeCounters) {
        let Some(held) = self.held.pop_front() else {
            return;
        };
        let before = self.pieces.len() + self.repeated.len();
        self.pieces.retain(|piece| piece.epoch != held.epoch);
        self.repeated.retain(|piece| piece.epoch != held.epoch);
        let dropped = before - self.pieces.len() - self.repeated.len();
        counters.fragments_unsent += dropped as u64;
        end.give_back(End::Sender, held.shard, &[]);
    }

    /// Gives everything back: there is no peer to send it to.
    pub fn reset(&mut self, end: &mut WireControlEnd, counters: &mut ExchangeCounters) {
        while !self.held.is_empty() {
            self.forget(end, counters);
        }
        self.pieces.clear();
        self.repeated.clear();
    }
}
