//! Ports that stop, close and come back while the plugin observes them. The plugin must not read memory that a driver
//! has freed, and DPDK announces that a port is closed only afterwards. A mistake would crash the program.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what must hold in the plainest way"
)]

mod support;

use serde_json::json;
use support::testpmd::Testpmd;
use support::{Plugin, skip};
use testkit::hosts::Veth;

/// Rounds in which one of four ports closes and comes back.
const ROUNDS: usize = 8;

#[test]
fn nothing_is_asked_of_a_driver_that_may_have_freed_its_queues() {
    let settings = json!({ "measurement": { "interval_ms": 20, "flows": { "slots": 256 } } });
    let Some(mut plugin) = Plugin::with(settings) else {
        return;
    };
    let Ok(veth) = Veth::new() else {
        return skip("no veth");
    };
    plugin.preload("fence.c");
    let (near, far) = (&veth.0, veth.peer());
    let devices = [
        format!("net_af_packet0,iface={near}"),
        format!("net_af_packet1,iface={far}"),
        "net_null0".to_owned(),
        "net_ring0".to_owned(),
    ];
    let mut testpmd = Testpmd::start(Some(&plugin), &devices, &["--forward-mode=io"]);
    testpmd.tell("start tx_first");
    for round in 0..ROUNDS {
        plugin.wait_for_ports(4);
        let port = round % devices.len();
        let name = devices[port].split(',').next().unwrap();
        for command in [
            "stop",
            "port stop all",
            &format!("port close {port}"),
            &format!("device detach {name}"),
            &format!("port attach {}", devices[port]),
            "port start all",
            "start tx_first",
        ] {
            testpmd.tell(command);
        }
        testpmd.wait_for("is attached. Now total ports is 4", round + 1);
        testpmd.wait_for("Accumulated forward statistics", round + 1);
    }
    // It still measures the packets that circulate between both ends of the pair.
    plugin.wait_for_good_epochs();
    testpmd.tell("stop");
    testpmd.quit_quietly();
}
