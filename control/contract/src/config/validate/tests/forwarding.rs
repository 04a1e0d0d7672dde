use serde_json::json;

use super::*;

#[test]
fn vlans_are_checked() {
    let patch = json!({ "mode": "patch", "pairs": [["a", "b"]] });
    check(&[
        (
            "/forwarding",
            patch,
            "ports[0].vlan: expected no VLANs in mode patch, which passes every frame as it is, \
             got some",
        ),
        (
            "/ports/1/vlan/vlan",
            json!(4095),
            "ports[1].vlan.vlan: expected 1 to 4094, got 4095",
        ),
        (
            "/ports/0/vlan/vlans",
            json!([7, 0]),
            "ports[0].vlan.vlans[1]: expected 1 to 4094, got 0",
        ),
        (
            "/ports/0/vlan/vlans",
            json!([7, 7]),
            "ports[0].vlan.vlans[1]: expected a VLAN once, got 7 again",
        ),
        (
            "/ports/0/vlan/vlans",
            json!("all"),
            "ports[0].vlan.vlans: expected a list or null, got \"all\"",
        ),
        (
            "/ports/0/vlan",
            json!({ "mode": "trunk", "vlans": [] }),
            "ports[0].vlan.vlans: expected one VLAN at least, or a `native` one, got none",
        ),
        (
            "/ports/0/vlan/native",
            json!(0),
            "ports[0].vlan.native: expected 1 to 4094, got 0",
        ),
    ]);
}

#[test]
fn stations_are_checked() {
    let station = |address: &str, vlan: u16, port: &str| json!({ "address": address, "vlan": vlan, "port": port });
    check(&[
        (
            "/forwarding/stations/0",
            station("03:00:00:00:00:01", 7, "a"),
            "forwarding.stations[0].address: expected the address of one station, not of a group \
             and not all zeros, got 03:00:00:00:00:01",
        ),
        (
            "/forwarding/stations/0",
            station("02:00:00:00:00:1", 7, "a"),
            "forwarding.stations[0].address: \"02:00:00:00:00:1\" is not an Ethernet address such as \
             02:00:00:00:00:01",
        ),
        (
            "/forwarding/stations/0",
            station("02:00:00:00:00:01", 7, "z"),
            "forwarding.stations[0].port: expected the name of a port (a, b, c), got \"z\"",
        ),
        (
            "/forwarding/stations/0",
            station("02:00:00:00:00:01", 6, "a"),
            "forwarding.stations[0].vlan: expected a VLAN of port a (7, 8, 9), got 6",
        ),
        (
            "/forwarding/stations/0",
            station("02:00:00:00:00:01", 8, "b"),
            "forwarding.stations[0].vlan: expected a VLAN of port b (7), got 8",
        ),
        (
            "/forwarding/stations/0",
            station("02:00:00:00:00:01", 8, "c"),
            "forwarding.stations[0].vlan: expected a VLAN of port c (0, since it has no VLANs), \
             got 8",
        ),
        (
            "/forwarding/stations",
            json!([
                station("02:00:00:00:00:01", 7, "a"),
                station("02:00:00:00:00:01", 7, "b")
            ]),
            "forwarding.stations[1].address: expected an address once in a VLAN, got \
             (\"02:00:00:00:00:01\", 7) again",
        ),
    ]);
    let mut full = rack();
    let stations = [1, 2].map(|n| station(&format!("02:00:00:00:00:0{n}"), 7, "a"));
    full["forwarding"]["stations"] = stations.to_vec().into();
    full["forwarding"]["fdb_entries"] = json!(1);
    let error = Config::parse(&full.to_string(), "")
        .unwrap_err()
        .to_string();
    assert!(
        error.ends_with("expected 0 to 1 stations (`fdb_entries`), got 2"),
        "{error}"
    );
}
