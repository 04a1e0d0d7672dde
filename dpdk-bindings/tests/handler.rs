//! A pool that several threads share refuses a handler for a single thread.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up fails")]

mod common;

use dpdk_bindings::{Eal, EalOptions, MempoolError};

#[test]
fn a_handler_for_one_thread_is_refused_by_name() {
    let options = EalOptions {
        memory_mib: 64,
        extra: vec!["--mbuf-pool-ops-name=ring_sp_sc".to_owned()],
        ..EalOptions::default()
    };
    let eal = Eal::init("test", &options).unwrap();
    for _ in 0..2 {
        // Twice with the same name: the first attempt leaves nothing behind.
        let error = eal.mempool("test", 255, 0, 2048).unwrap_err();
        let MempoolError::Handler { handler, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(handler, "ring_sp_sc");
        assert!(
            error.to_string().contains("--mbuf-pool-ops-name"),
            "{error}"
        );
    }
}
