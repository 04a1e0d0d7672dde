//! One wire port's part of the control core: its exchange, the rings to the worker, the decoding of flows, and the
//! containment of panics.

use std::sync::Arc;

use measure::observation::End;
use wire::exchange::{self, ExchangeError, Moment, Settings, WireStatus};
use wire::frame::ClockState;

use super::flows::{Decoding, WireFlowsView};
use crate::background::ResultMode;
use crate::contain::{Part, Point, contain, inject};
use contract::wire::handover::{FRAME_ROOM, FRAMES_MAX, WireControlEnd};

/// Pause after a panic, so that a repeated one does not use up the control core's time.
const PAUSE_NS: u64 = 1_000_000_000;

/// One wire port.
#[derive(Debug)]
pub struct Exchange {
    /// The session, and the pairing of epochs.
    pub machine: exchange::Exchange,
    /// The handover to the worker, with its counters.
    pub end: WireControlEnd,
    decoding: Decoding,
    /// Whether a panic occurred and the pause has not begun.
    is_faulty: bool,
    /// No poll before this time.
    paused_until_ns: u64,
}

impl Exchange {
    /// An exchange over one end of a handover. Takes decoded flows according to `mode`.
    ///
    /// # Errors
    /// [`ExchangeError`] for unusable settings.
    pub fn new(
        settings: Settings,
        end: WireControlEnd,
        mode: ResultMode,
    ) -> Result<Self, ExchangeError> {
        Ok(Self {
            decoding: Decoding::new(&settings, mode),
            machine: exchange::Exchange::new(settings)?,
            end,
            is_faulty: false,
            paused_until_ns: 0,
        })
    }

    /// Does everything due. `random` returns 64 unpredictable random bits. After a panic the exchange
    /// restarts, as after a restart of the switch, but keeps its counts.
    pub fn poll(&mut self, now: Moment, random: &mut impl FnMut() -> u64) {
        if std::mem::take(&mut self.is_faulty) {
            self.paused_until_ns = now.monotonic_ns.saturating_add(PAUSE_NS);
        }
        self.send_orders();
        if now.monotonic_ns >= self.paused_until_ns
            && contain(Part::Wire, || self.step(now, random)).is_none()
        {
            self.start_anew();
        }
    }

    fn step(&mut self, now: Moment, random: &mut impl FnMut() -> u64) {
        let steps = self.machine.outbox.counters.clock_steps;
        self.machine.begin_poll(now, random);
        self.take_sealed(now);
        (self.end).keep_clock(now.clock.state == ClockState::Locked);
        // Frames that arrive meanwhile wait for the next poll, so that no flood makes this one endless.
        for _ in 0..FRAMES_MAX {
            let Some(heard) = self.end.next_heard() else {
                break;
            };
            self.machine.hear(heard.frame(), now, random);
            self.give_back();
            // A shard is passed on before the frames that follow its rollover.
            self.take_sealed(now);
        }
        self.machine.tick(now, random);
        self.give_back();
        self.send_orders();
        self.end.block(self.machine.is_blocked());
        let mut buffer = [0; FRAME_ROOM];
        while let room @ 1.. = self.end.room() {
            let Some((segment, len)) = self.machine.next_frame(now, room, &mut buffer) else {
                break;
            };
            (self.end).send(segment, buffer.get(..len).unwrap_or_default());
        }
        self.machine.outbox.counters.decodes_skipped += u64::from(!self.decoding.poll());
        self.log_step(steps);
    }

    /// Passes the worker's sealed epochs to the exchange.
    fn take_sealed(&mut self, now: Moment) {
        for end in [End::Sender, End::Receiver] {
            while let Some(sealed) = self.end.take_sealed(end) {
                if end == End::Receiver {
                    inject::point(Point::Pairing);
                }
                self.machine.take_sealed(end, sealed, now);
                self.give_back();
            }
        }
    }

    /// Decodes flows, and returns used shards to the worker.
    fn give_back(&mut self) {
        let outbox = &mut self.machine.outbox;
        while let Some(flows) = outbox.flows.pop_front() {
            outbox.counters.decodes_skipped += u64::from(!self.decoding.give(flows));
        }
        while let Some((end, shard)) = outbox.shards.pop_front() {
            let named = match end {
                End::Sender => &[],
                End::Receiver => self.decoding.named(),
            };
            self.end.give_back(end, shard, named);
        }
    }

    /// Sends pending orders to the worker.
    fn send_orders(&mut self) {
        let orders = &mut self.machine.outbox.orders;
        while let Some(order) = orders.pop_front() {
            if let Err(order) = self.end.order(order) {
                orders.push_front(order);
                break;
            }
        }
    }

    /// Logs new steps of the clock, if any.
    fn log_step(&self, before: u64) {
        let step = self.machine.status().and_then(|status| status.floor.step);
        if self.machine.outbox.counters.clock_steps != before
            && let Some(step) = step
        {
            tracing::warn!(
                epoch = step.since.0,
                by_ns = step.by_ns,
                "the clocks of a wire's ends have stepped, or its path has changed"
            );
        }
    }

    /// Resets everything that a panic may have left half changed. The worker gets as many empty shards as
    /// were on this side, the session ends, and waiting epochs are counted.
    pub fn start_anew(&mut self) {
        self.is_faulty = true;
        self.end.block(false);
        let layout = &self.machine.settings().layout;
        self.end.replace_taken(End::Sender, layout);
        let lost = self.end.replace_taken(End::Receiver, layout);
        self.machine.start_anew(lost);
    }

    /// The published status; `None` before the first poll.
    pub fn status(&self) -> Option<WireStatus> {
        self.machine.status()
    }

    /// The arriving flows that were last decoded.
    pub fn flows(&self) -> Option<Arc<WireFlowsView>> {
        self.decoding.latest()
    }
}

#[cfg(test)]
mod tests;
