//! The sender of reports.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::metric::record;

record! {
    /// Reports to NATS JetStream.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct Reports {
        /// Reports sent, those that were sent again too.
        #[metric(counter = "vernier_reports_sent_total")]
        pub sent: u64,
        /// Reports that the server has stored.
        #[metric(counter = "vernier_reports_acknowledged_total")]
        pub acknowledged: u64,
        /// Reports dropped, the oldest first, because the spool was full while no server took them.
        #[metric(counter = "vernier_reports_dropped_total")]
        pub dropped: u64,
        /// Bytes of the reports that wait for the server.
        #[metric(gauge = "vernier_reports_spooled_bytes")]
        pub spooled_bytes: u64,
        /// Whether the switch is connected to NATS.
        #[metric(gauge = "vernier_reports_connected")]
        pub is_connected: bool,
    }
}
