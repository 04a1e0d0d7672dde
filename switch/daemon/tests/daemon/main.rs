//! `vernierd` as its users meet it: processes, kernel peers, HTTP clients, faults.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what must hold in the plainest way"
)]

mod around;
mod check;
mod commands;
mod dashboard;
mod exemplars;
mod faults;
mod flows;
mod hostile_clients;
mod hostile_nats;
mod http;
mod ipfix;
mod kernel_peers;
mod lifecycle;
mod lost_devices;
mod metrics_reference;
mod native_histograms;
mod page;
mod privileges;
mod prometheus;
mod reload;
mod reports;
mod restarts;
mod service;
mod soak;
mod support;
mod wire_peers;
mod workers;
