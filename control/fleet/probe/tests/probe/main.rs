//! `vernier-probe` as it runs, on loopback: with `stamp-suite` at the other end, both ways; with clocks that are set; with
//! clients and strangers, forged packets and reflectors that err.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which the lints treat as ordinary functions"
)]

mod following;
mod loops;
mod measuring;
mod peers;
mod serving;
mod support;
