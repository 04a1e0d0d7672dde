//! Who takes results.

use super::SendFaults;
use crate::reflector::ReflectorCounts;
use crate::result::SessionResult;

/// Takes results as they come.
pub trait Sink {
    /// A session's interval.
    fn result(&mut self, result: SessionResult);

    /// What the reflector did so far, and replies that belong to no session; every 50 ms or so.
    fn counts(&mut self, reflector: Option<ReflectorCounts>, strangers: u64) {
        let _ = (reflector, strangers);
    }

    /// Sessions whose requests cannot be sent, when they are others than before.
    fn send_faults(&mut self, faults: SendFaults) {
        let _ = faults;
    }

    /// All results of intervals before this one have come; every 50 ms or so.
    fn closed(&mut self, before: u64) {
        let _ = before;
    }
}

/// Both take all.
impl<A: Sink, B: Sink> Sink for (A, B) {
    fn result(&mut self, result: SessionResult) {
        self.0.result(result.clone());
        self.1.result(result);
    }

    fn counts(&mut self, reflector: Option<ReflectorCounts>, strangers: u64) {
        self.0.counts(reflector, strangers);
        self.1.counts(reflector, strangers);
    }

    fn send_faults(&mut self, faults: SendFaults) {
        self.0.send_faults(faults.clone());
        self.1.send_faults(faults);
    }

    fn closed(&mut self, before: u64) {
        self.0.closed(before);
        self.1.closed(before);
    }
}
