//! The expected content of the page, from the API.

use contract::units::{bytes, count, duration_ns, rate};
use serde_json::Value;
use testkit::page::{Expected, add, cells, list, text, whole};

use crate::support::Daemon;

fn key(segment: &Value, names: [&str; 3]) -> String {
    names.map(|name| text(&segment[name])).join(" ")
}

const SEGMENT: [&str; 3] = ["ingress", "egress", "class"];

/// How the page writes a share of packets.
fn percent(share: f64) -> String {
    if share > 0.0 {
        format!("{:.3} %", share * 100.0)
    } else {
        "0 %".to_owned()
    }
}

/// The table of segments.
pub fn segments(switch: &Daemon) -> Option<(Option<u64>, Expected)> {
    let answer = switch.json("/api/v1/segments")?;
    let mut expected = Expected::new();
    for segment in list(&answer["segments"]) {
        let key = key(segment, SEGMENT);
        let last = &segment["last"];
        let counts = &last["counts"];
        let named = ["sent_packets", "sent_bytes", "dropped_packets"];
        let [Some(packets), Some(octets), Some(dropped)] = named.map(|name| counts[name].as_f64())
        else {
            return None;
        };
        let interval_ms = answer["interval_ms"].as_f64()?;
        let name = |field: &str| format!("{key} | {field}");
        for (column, number) in [
            ("packets/s", packets),
            ("bit/s", octets * 8.0),
            ("lost/s", dropped),
        ] {
            let a_second = number * 1e3 / interval_ms;
            expected.insert(name(column), (a_second, rate(a_second)));
        }
        let loss = dropped / packets.max(1.0);
        expected.insert(name("loss"), (loss, percent(loss)));
        for (column, field) in [
            ("mean", "mean_ns"),
            ("stddev", "stddev_ns"),
            ("p50", "p50_ns"),
            ("p99", "p99_ns"),
            ("p99.9", "p999_ns"),
            ("p99.99", "p9999_ns"),
            ("max", "max_ns"),
        ] {
            add(
                &mut expected,
                name(column),
                &last["stamped"][field],
                duration_ns,
            );
        }
    }
    assert!(expected.len() > 30, "{expected:?}");
    Some((answer["epoch"].as_u64(), expected))
}

/// One segment: its quantiles, its estimate, its totals.
pub fn segment(switch: &Daemon) -> Option<(Option<u64>, Expected)> {
    let answer = switch.json("/api/v1/segments?ingress=clients&egress=servers&class=web")?;
    let segment = &answer["segments"][0];
    let mut expected = Expected::new();
    for (column, of) in [
        ("last epoch", &segment["last"]["stamped"]),
        ("last minute", &segment["last_minute"]),
    ] {
        for (row, field) in [
            ("mean", "mean_ns"),
            ("p50", "p50_ns"),
            ("p99", "p99_ns"),
            ("p99.99", "p9999_ns"),
            ("max", "max_ns"),
        ] {
            add(
                &mut expected,
                format!("{row} | {column}"),
                &of[field],
                duration_ns,
            );
        }
    }
    let last = &segment["last"];
    add(
        &mut expected,
        "packets | last minute".to_owned(),
        &segment["last_minute"]["packets"],
        whole(count),
    );
    add(
        &mut expected,
        "mean".to_owned(),
        &last["stamped"]["mean_ns"],
        duration_ns,
    );
    let bound = last["lda"]["bound_ns"].as_f64()?;
    add(
        &mut expected,
        "LDA".to_owned(),
        &last["lda"]["mean_ns"],
        |mean| format!("{} \u{b1}{} (98 %)", duration_ns(mean), duration_ns(bound)),
    );
    let sent = &segment["total"]["counts"];
    let octets = sent["sent_bytes"].as_u64()?;
    add(
        &mut expected,
        "sent".to_owned(),
        &sent["sent_packets"],
        |packets| format!("{} packets, {}", whole(count)(packets), bytes(octets)),
    );
    Some((answer["epoch"].as_u64(), expected))
}

/// The table of flows, of those of a port.
pub fn flows(switch: &Daemon, query: &str) -> Option<(Option<u64>, Expected)> {
    let answer = switch.json(&format!("/api/v1/flows?sort=packets&limit=100{query}"))?;
    let interval_ms = switch.json("/api/v1/status")?["interval_ms"].as_f64()?;
    let mut expected = Expected::new();
    for flow in list(&answer["flows"]) {
        let key = format!("{} {}", text(&flow["flow"]), key(flow, SEGMENT));
        let (last, estimate) = (&flow["last"], &flow["estimate"]);
        let mut rates = |column: &str, number: Option<f64>| {
            let a_second = number.map(|number| number * 1e3 / interval_ms);
            let cell = a_second.map(|a_second| (a_second, rate(a_second)));
            expected.extend(cell.map(|cell| (format!("{key} | {column}"), cell)));
        };
        rates("packets/s", last["packets"].as_f64());
        rates("bit/s", last["bytes"].as_f64().map(|octets| octets * 8.0));
        rates("lost/s", last["lost_packets"].as_f64());
        // An estimate is shown only if the exact mean is unknown.
        let [mean, bound] = if last["mean_ns"].is_null() {
            [&estimate["mean_ns"], &estimate["bound_ns"]]
        } else {
            [&last["mean_ns"], &Value::Null]
        };
        cells(
            &mut expected,
            &key,
            &[
                ("mean", mean, &duration_ns),
                ("\u{b1}98%", bound, &duration_ns),
                ("stddev", &last["stddev_ns"], &duration_ns),
                ("p99", &flow["quantiles"]["p99_ns"], &duration_ns),
            ],
        );
    }
    Some((answer["epoch"].as_u64(), expected))
}

/// Both directions of the wire, and its session.
pub fn wires(switch: &Daemon) -> Option<(Option<u64>, Expected)> {
    let answer = switch.json("/api/v1/wires")?;
    let mut expected = Expected::new();
    for wire in list(&answer["wires"]) {
        let port = text(&wire["port"]);
        cells(
            &mut expected,
            port,
            &[
                ("control", &wire["control_bps"], &|bps| {
                    format!("{}bit/s", rate(bps))
                }),
                ("least delay", &wire["floor_ns"], &duration_ns),
            ],
        );
        for segment in list(&wire["segments"]) {
            let key = key(segment, ["from", "to", "class"]);
            let last = &segment["last"];
            cells(
                &mut expected,
                &key,
                &[
                    ("sent", &last["sent_packets"], &whole(count)),
                    ("mean", &last["chosen"]["mean_ns"], &duration_ns),
                    ("\u{b1}98%", &last["chosen"]["bound_ns"], &duration_ns),
                    (
                        "samples",
                        &last["chosen"]["effective_samples"],
                        &whole(count),
                    ),
                ],
            );
        }
    }
    assert!(expected.len() > 4, "{answer}");
    Some((answer["epoch"].as_u64(), expected))
}

/// Ports and their queues.
pub fn ports(switch: &Daemon) -> Option<(Option<u64>, Expected)> {
    let answer = switch.json("/api/v1/ports")?;
    let mut expected = Expected::new();
    for port in list(&answer["ports"]) {
        let key = text(&port["name"]);
        cells(
            &mut expected,
            key,
            &[
                ("rx/s", &port["rx_pps"], &rate),
                ("tx/s", &port["tx_pps"], &rate),
                ("queued", &port["queued_packets"], &whole(count)),
            ],
        );
        cells(
            &mut expected,
            &format!("{key} totals"),
            &[
                ("received", &port["rx_packets"], &whole(count)),
                ("sent", &port["tx_packets"], &whole(count)),
            ],
        );
        for queue in list(&port["queues"]) {
            let name = format!("{key} {} | packets now", text(&queue["queue"]));
            add(&mut expected, name, &queue["packets"], whole(count));
        }
    }
    Some((answer["epoch"].as_u64(), expected))
}
