//! The sender of reports, and the exporter of flows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use contract::record;

record! {
    /// Reports to NATS JetStream.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct Reports {
        /// Reports sent, those that were sent again too.
        #[metric(Counter = "vernier_reports_sent_total")]
        pub sent: u64,
        /// Reports that the server has stored.
        #[metric(Counter = "vernier_reports_acknowledged_total")]
        pub acknowledged: u64,
        /// Reports dropped, the oldest first, because the spool was full while no server took them.
        #[metric(Counter = "vernier_reports_dropped_total")]
        pub dropped: u64,
        /// Bytes of the reports that wait for the server.
        #[metric(Gauge = "vernier_reports_spooled_bytes")]
        pub spooled_bytes: u64,
        /// Whether the switch is connected to NATS.
        #[metric(Gauge = "vernier_reports_connected")]
        pub is_connected: bool,
    }
}

record! {
    /// Export of flows and segments to an IPFIX collector.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct IpfixExport {
        /// Messages sent to the IPFIX collector.
        #[metric(Counter = "vernier_ipfix_messages_total")]
        pub messages: u64,
        /// Data records in these messages, those of options too.
        #[metric(Counter = "vernier_ipfix_records_total")]
        pub records: u64,
        /// Data records dropped, because their message could not be sent, or found nobody who listens.
        #[metric(Counter = "vernier_ipfix_dropped_records_total")]
        pub dropped_records: u64,
        /// Whether the last message could be sent; over UDP it may be lost nevertheless.
        #[metric(Gauge = "vernier_ipfix_connected")]
        pub is_connected: bool,
    }
}
