//! `vernier-probe` as it runs, on loopback: with `stamp-suite` at the other end, both ways; with clocks that are set; with
//! clients and strangers, forged packets and reflectors that err.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which the lints take for ordinary functions"
)]

mod clocks;
mod command_line;
mod document;
mod following;
mod loops;
mod odd_replies;
mod peers;
mod sending;
mod serving;
mod support;
