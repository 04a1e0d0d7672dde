//! Every error says what is wrong, where, and what to do.

#![allow(
    clippy::unwrap_used,
    reason = "what does not fail as it should fails the test"
)]

mod common;

use common::{eal, pool, start};
use dpdk_bindings::{AttachError, Eal, Mempool, MempoolError, PortConfig, StartError};

/// Checks that a message is one line and holds these parts.
fn holds(error: &dyn std::error::Error, parts: &[&str]) {
    let text = error.to_string();
    println!("{text}");
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
    assert!(!text.contains('\n'), "one line: {text:?}");
}

#[test]
fn errors_say_what_where_and_what_to_do() {
    let eal = eal();
    let pool = pool(&eal);
    let _null = start(&eal, "net_null0", &pool);
    let error = eal.attach("net_null0,size=100").unwrap_err();
    assert!(matches!(error, AttachError::Taken { .. }));
    holds(&error, &["\"net_null0\" is taken"]);

    attach_errors(&eal);
    port_errors(&eal, &pool);
    pool_errors(&eal);

    // The failed attempts leave nothing behind.
    assert_eq!(eal.port_names(), ["net_null0"]);
    assert_eq!(pool.available(), pool.capacity());
}

fn attach_errors(eal: &Eal) {
    let error = eal.attach("net_nosuch0").unwrap_err();
    assert!(matches!(error, AttachError::NotFound { .. }), "{error:?}");
    holds(
        &error,
        &[
            "net_nosuch0",
            "net_af_packet0,iface=",
            "ports there are: net_null0",
        ],
    );

    let error = eal.attach("0000:00:1f.7").unwrap_err();
    holds(&error, &["0000:00:1f.7", "vfio-pci"]);

    for garbage in [
        "",
        ",",
        "net_null1,\0",
        "\u{1F980}",
        "=",
        "net_pcap0,rx_pcap=",
        "net_null,=,",
    ] {
        assert!(eal.attach(garbage).is_err(), "{garbage:?}");
    }

    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.pcap");
    let error = eal
        .attach(&format!("net_pcap0,rx_pcap={}", missing.display()))
        .unwrap_err();
    holds(
        &error,
        &[
            "net_pcap0",
            &missing.display().to_string(),
            "No such file",
            "rx_pcap=",
        ],
    );

    let garbage = folder.path().join("garbage.pcap");
    std::fs::write(&garbage, "this is no capture, whatever it is called").unwrap();
    let error = eal
        .attach(&format!("net_pcap0,rx_pcap={}", garbage.display()))
        .unwrap_err();
    assert!(matches!(error, AttachError::Driver { .. }), "{error:?}");
    holds(
        &error,
        &["garbage.pcap", "DPDK says:", "file format", "rx_pcap=FILE"],
    );

    let error = eal.attach("net_af_packet0,iface=nosuch0").unwrap_err();
    holds(&error, &["net_af_packet0", "DPDK says:", "CAP_NET_RAW"]);
}

fn port_errors(eal: &Eal, pool: &Mempool<'_>) {
    let many = PortConfig {
        rx_queues: 2000,
        ..PortConfig::default()
    };
    let error = eal
        .attach("net_null1")
        .unwrap()
        .start(&many, pool)
        .unwrap_err();
    assert!(matches!(error, StartError::Queues { .. }));
    holds(&error, &["net_null1", "2000 receive queues", "1 to "]);

    let tiny = PortConfig {
        mtu: 1,
        ..PortConfig::default()
    };
    let error = eal
        .attach("net_null1")
        .unwrap()
        .start(&tiny, pool)
        .unwrap_err();
    holds(&error, &["net_null1", "MTU 1 is outside"]);
}

fn pool_errors(eal: &Eal) {
    let error = eal.mempool("test", 2047, 0, 2048).unwrap_err();
    assert!(matches!(error, MempoolError::Taken { .. }));
    let error = eal.mempool("huge", 1 << 20, 0, 2048).unwrap_err();
    holds(&error, &["\"huge\"", "2368 MiB", "memory_mib"]);
    for (name, mbufs, cache, room) in [
        ("none", 0, 0, 2048),
        ("cached", 100, 99, 2048),
        ("room", 100, 0, 65_500),
        ("n\0l", 100, 0, 2048),
        ("a name that is longer than DPDK takes", 100, 0, 2048),
    ] {
        let error = eal.mempool(name, mbufs, cache, room).unwrap_err();
        assert!(matches!(error, MempoolError::Invalid { .. }), "{error:?}");
    }
}
