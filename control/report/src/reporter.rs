//! Who makes reports.

use std::sync::Arc;

use control::published::Published;

use crate::compose::Composer;
use crate::msp::Report;

/// Makes reports, in the order of their epochs, each once.
pub trait Reporter: Send + 'static {
    /// The next report; `None` until another epoch has closed. `dropped_reports` are those of the spool.
    fn next(&mut self, dropped_reports: u64) -> Option<Report>;

    /// How long an epoch is, in ms.
    fn interval_ms(&self) -> u32;

    /// The name in reports.
    fn name(&self) -> String;
}

/// The epochs that a switch publishes.
#[derive(Debug)]
pub(crate) struct Epochs {
    composer: Composer,
    published: Arc<Published>,
}

impl Epochs {
    pub fn new(incarnation: u64, top_flows: usize, published: Arc<Published>) -> Self {
        Self {
            composer: Composer::new(incarnation, top_flows),
            published,
        }
    }
}

impl Reporter for Epochs {
    fn next(&mut self, dropped_reports: u64) -> Option<Report> {
        self.composer
            .report(&self.published.read(), dropped_reports)
    }

    fn interval_ms(&self) -> u32 {
        self.published.read().interval_ms
    }

    fn name(&self) -> String {
        self.published.read().switch.clone()
    }
}
