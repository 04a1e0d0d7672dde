//! What people see.

use std::net::UdpSocket;

use crate::support::{folder, probe, reflector};

#[test]
fn a_table_has_three_rows_with_their_sample_sizes() {
    let (folder, _) = folder();
    for ip in ["127.0.0.1", "::1"] {
        let (_reflector, address) = reflector(folder.path(), ip, None);
        let output = probe()
            .arg(address.to_string())
            .args(["-c", "40", "-i", "2"])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}");
        assert!(
            text.contains("40 sent, 40 answered, 0 lost (0.0 %), 0 duplicates, 0 reordered"),
            "{text}"
        );
        for row in ["forward", "backward", "round trip"] {
            let row = text.lines().find(|line| line.starts_with(row)).unwrap();
            let cells: Vec<f64> = row[11..]
                .split_whitespace()
                .map(|cell| cell.parse().unwrap())
                .collect();
            assert_eq!((cells.len(), cells[0]), (7, 40.0), "{row}");
        }
    }
}

#[test]
fn who_gets_no_answer_is_informed_of_what_to_look_at() {
    // It takes what comes, and says nothing.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let output = probe()
        .arg(address.to_string())
        .args(["-c", "3", "-i", "1", "--timeout-ms", "50"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("no reply from") && error.contains("firewall"),
        "{error}"
    );
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("3 sent, 0 answered, 3 lost (100.0 %)"),
        "{text}"
    );
}

#[test]
fn bad_usage_is_named() {
    let (folder, _) = folder();
    let file = folder.path().join("probe.json");
    std::fs::write(
        &file,
        r#"{"sessions": [{"name": "a", "to": "192.0.2.1", "dscp": 99}]}"#,
    )
    .unwrap();
    let file = file.to_str().unwrap();
    let cases: [(&[&str], &str); 5] = [
        (
            &["--config", file],
            "sessions[0].dscp: expected 0 to 63, got 99",
        ),
        (
            &["192.0.2.1", "--dscp", "77"],
            "--dscp: expected 0 to 63, got 77",
        ),
        (
            &["192.0.2.1", "--length", "46"],
            "--length: expected 44, or 48 to 9000, got 46",
        ),
        (&["192.0.2.1", "--count", "0"], "1..=100000"),
        (&[], "required arguments"),
    ];
    for (arguments, expected) in cases {
        let output = probe().args(arguments).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(expected), "{error}");
    }
    let output = probe()
        .args(["192.0.2.1", "--key-file", "/nonexistent/key"])
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("sessions[0].key_file: /nonexistent/key: cannot be read"),
        "{error}"
    );
}
