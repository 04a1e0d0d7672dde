//! A testbed: two hosts, two switches and the impairment box between them, all in namespaces of
//! their own, which vanish with the process whatever happens.
//!
//! ```text
//!  namespace a          the testbed's own namespace, no way out            namespace b
//!   eth0 ------ l1 [switch 1] w1 ------ x1 [box] x2 ------ w2 [switch 2] l2 ------ eth0
//!   10.9.0.1                                                                 10.9.0.2
//! ```
//!
//! - [`spaces`]: namespaces and interfaces.
//! - [`nodes`]: the box, the switches and their configurations.
//! - [`views`]: what switches answer, epoch by epoch.
//! - [`traffic`]: a mix of flows of our own beside iperf3 and ping.
//! - [`captures`]: what both hosts saw, byte for byte.
//! - [`flood`]: one recorded hello, replayed as fast as it goes.
//! - [`memif`]: two switches with nothing between them, as fast as it goes.
//! - [`scenario`]: one run, from start to end; [`outcome`]: what comes of it; [`verdict`]: what the receiver said, held against
//!   what happened; [`report`]: the tables.

pub mod captures;
pub mod flood;
pub mod memif;
pub mod nodes;
pub mod outcome;
pub mod report;
pub mod scenario;
pub mod spaces;
pub mod traffic;
pub mod verdict;
pub mod views;
