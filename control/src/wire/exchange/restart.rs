//! An exchange that panicked starts anew, as after a restart of the switch, but keeps what it has
//! counted.

use measure::observation::End;
use wire::frame::{EpochFate, Sealer};

use super::settings::Moment;
use super::{Adaptation, Exchange, Order, Outgoing};

/// Before the next poll: a fault that comes back at once must not use up the control core's time.
const PAUSE_NS: u64 = 1_000_000_000;

/// Whether an exchange starts anew.
#[derive(Debug, Default)]
pub(super) struct Restart {
    /// A fault was seen; the pause has not begun.
    is_wanted: bool,
    /// No poll before.
    until_ns: u64,
}

impl Exchange {
    /// Whether a poll is to be done now.
    pub(super) fn may_poll(&mut self, now: Moment) -> bool {
        if std::mem::take(&mut self.restart.is_wanted) {
            self.restart.until_ns = now.monotonic_ns.saturating_add(PAUSE_NS);
        }
        self.send_orders();
        now.monotonic_ns >= self.restart.until_ns
    }

    /// Drops everything that a panic may have left half changed. The worker gets as many empty shards as
    /// were on this side, the session ends, and epochs that waited are counted.
    pub fn start_anew(&mut self) {
        self.counters.restarts += 1;
        self.restart.is_wanted = true;
        if let Some(session) = self.session.take() {
            self.counters.loops += session.loops();
            self.counters.strangers += session.strangers();
        }
        let settings = &self.settings;
        let sealer = Sealer::new(
            settings.own.switch,
            settings.own.port,
            &settings.keys,
            settings.key,
        );
        match sealer {
            Ok(sealer) => self.sealer = sealer,
            // It could be made at first, with the same settings.
            Err(_) => self.sealer.end(),
        }
        self.order(Order::End);
        self.end.block(false);
        self.outgoing = Outgoing::default();
        self.end.replace_taken(End::Sender, &self.settings.layout);
        let lost = self.end.replace_taken(End::Receiver, &self.settings.layout);
        self.adaptation.iter_mut().for_each(Adaptation::reset);
        self.epochs.start_anew(&self.settings);
        self.epochs.count(EpochFate::Unmeasured, lost);
        for segment in &mut self.sending {
            segment.latest = None;
        }
    }
}
