//! The documents of the project that are made from the code, or must agree with it.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod documents;
