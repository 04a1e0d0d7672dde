//! Flow slots: exact counters of the flows that were selected.
