use serde_json::json;

use super::check;

#[test]
fn classes_and_rules_are_checked() {
    check(&[
        (
            "/classes",
            (0..9).map(|n| json!({ "name": format!("c{n}") })).collect(),
            "classes: expected 0 to 8 entries, got 9",
        ),
        (
            "/classes/1/name",
            json!("voice"),
            "classes[1].name: expected a name of its own, got \"voice\" again",
        ),
        (
            "/rules/0/class",
            json!("cctv"),
            "rules[0].class: expected the name of a class (voice, rest), got \"cctv\"",
        ),
        (
            "/rules",
            vec![json!({ "class": "rest" }); 257].into(),
            "rules: expected 0 to 256 entries, got 257",
        ),
        (
            "/rules/0/ingress",
            json!(["a", "z"]),
            "rules[0].ingress[1]: expected the name of a port (a, b, c), got \"z\"",
        ),
        (
            "/rules/0/ingress",
            json!([]),
            "rules[0].ingress: expected one value at least, or no such key, got none",
        ),
        (
            "/rules/0/pcp",
            json!([0, 8]),
            "rules[0].pcp[1]: expected 0 to 7, got 8",
        ),
        (
            "/rules/0/source_ports",
            json!([5, 4]),
            "rules[0].source_ports: expected the first port, then the last, got [5, 4]",
        ),
        (
            "/rules/0/destination",
            json!("2001:db8::/32"),
            "rules[0].destination: expected an IPv4 prefix, as `source` is, got 2001:db8::/32",
        ),
        (
            "/rules/0/protocol",
            json!("icmp"),
            "rules[0].protocol: expected a protocol with ports (tcp, udp or sctp), since the rule \
             names some, got 1",
        ),
        (
            "/rules/0/protocol",
            json!("upd"),
            "rules[0].protocol: expected \"icmp\", \"tcp\", \"udp\", \"icmpv6\" or \"sctp\", or a whole number or null, \
             got \"upd\"; did you mean `udp`?",
        ),
    ]);
}
