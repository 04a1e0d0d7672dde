//! The sender's part: lists and synopses of sealed epochs as frames, paced, and once more on request.

use std::collections::VecDeque;

use measure::observation::End;
use measure::time::Epoch;
use measure::wire::SealedWire;
use measure::wire::frame::{Request, Sealer};

use super::held::{Held, Piece, What};
use super::settings::{Moment, Settings};
use super::status::ExchangeCounters;
use contract::wire::handover::WireControlEnd;

/// Epochs that are kept to answer requests. With the one that the worker fills and an empty one for
/// the next turn that is all there are.
const KEPT: usize = 2;

/// Frames of the worker's ring that are left to hellos and the like.
const RING_RESERVE: usize = 16;

/// What may be sent at once, as time: what a poll that comes late may catch up with.
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
        // What decides where misplaced packets belong is needed first. Nobody asks for it once more, so
        // that it is said twice, some time apart.
        let lists = [What::First, What::Last];
        let lists = lists.map(|what| held.stash_pieces(what, settings));
        self.pieces.extend(lists.iter().flatten().cloned());
        let mut lists = Some(lists);
        for what in held.synopses() {
            if what == What::Lds {
                self.pieces
                    .extend(lists.take().into_iter().flatten().flatten());
            }
            let all = std::iter::once(0..u32::MAX);
            self.pieces.extend(held.pieces(what, all, settings));
        }
        self.pieces.extend(lists.into_iter().flatten().flatten());
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
        self.bytes_per_s = wanted.min(settings.bytes_per_s as f64);
    }

    /// A frame of so many bytes goes, whatever is waiting.
    pub fn spend(&mut self, bytes: usize) {
        self.allowance -= bytes as f64;
    }

    /// Lets time pass.
    pub fn refill(&mut self, now: Moment, settings: &Settings) {
        let elapsed_ns = now.monotonic_ns.saturating_sub(self.filled_ns);
        self.filled_ns = now.monotonic_ns;
        let per_s = self.bytes_per_s;
        let most = (per_s * BURST_NS as f64 / 1e9)
            .max((settings.frame_bytes + settings.overhead_bytes) as f64);
        let more = per_s * elapsed_ns.min(1_000_000_000) as f64 / 1e9;
        self.allowance = (self.allowance + more).min(most);
    }

    /// Gives the worker as many frames as may go now.
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
            match length {
                Some(_) if is_sent => counters.bulk_sent += 1,
                _ => counters.fragments_unsent += 1,
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
        end.give_back(End::Sender, held.shard);
    }

    /// Gives everything back: there is no one to send it to.
    pub fn reset(&mut self, end: &mut WireControlEnd, counters: &mut ExchangeCounters) {
        while !self.held.is_empty() {
            self.forget(end, counters);
        }
        self.pieces.clear();
        self.repeated.clear();
    }
}
