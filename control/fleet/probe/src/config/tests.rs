use super::*;

fn parse(text: &str) -> Result<Config, String> {
    document::parse(text, "probe.json", Config::check).map_err(|error| error.to_string())
}

fn session(keys: &str) -> String {
    format!(r#"{{"sessions": [{{"name": "a", "to": "192.0.2.1"{keys}}}]}}"#)
}

fn to(address: &str) -> String {
    format!(r#"{{"sessions": [{{"name": "a", "to": "{address}"}}]}}"#)
}

fn reflector(keys: &str) -> String {
    format!(r#"{{"reflector": {{}}, {keys}}}"#)
}

#[test]
fn little_is_enough() {
    let config = parse(&session("")).unwrap();
    let session = &config.sessions[0];
    assert_eq!(session.to.with_port(PORT), "192.0.2.1:862".parse().unwrap());
    assert_eq!(
        (session.bytes(), session.gap()),
        (44, Duration::from_secs(1))
    );
    assert_eq!(config.http.listen, Some("127.0.0.1:9469".parse().unwrap()));
    let config = parse(r#"{"reflector": {}}"#).unwrap();
    assert_eq!(config.reflector.unwrap().listen.len(), 2);
}

#[test]
fn reports_go_by_the_names_of_node_and_prober() {
    let names = |keys: &str| {
        let text = format!(
            r#"{{"reflector": {{}}, "report": {{"nats": {{"servers": ["nats://a"]}}{keys}}}}}"#
        );
        let report = parse(&text).unwrap().report.unwrap();
        (report.node(), report.name())
    };
    let both = |node: &str, name: &str| (node.to_owned(), name.to_owned());
    assert_eq!(names(r#", "node": "a""#), both("a", "a.probe"));
    assert_eq!(names(r#", "node": "a", "name": "b""#), both("a", "b"));
    let (node, name) = names("");
    assert_eq!(name, format!("{node}.probe"));
}

#[test]
fn a_session_of_an_m_set_is_the_template_with_names_and_an_address() {
    let config = parse(
        r#"{"mset": {"topology": "a.json", "node": "a", "session": {"interval_ms": 5, "dscp": 46, "class": "gold"}}}"#,
    );
    let config = config.unwrap();
    let to = Address::try_from("192.0.2.9".to_owned()).unwrap();
    let session = config.mset.as_ref().unwrap().session("b", to, 1);
    assert_eq!(
        (&*session.name, session.node.as_deref()),
        ("mset.b_2", Some("b"))
    );
    assert_eq!(
        (session.dscp, &*session.class, session.to),
        (46, "gold", to)
    );
    assert_eq!(config.mset_node().as_deref(), Some("a"));
    // 400 packets within an interval and a time-out.
    assert_eq!(config.mset_room(), 10_000);
}

#[test]
fn a_share_of_the_link_is_a_gap() {
    // 44 + 66 bytes are 880 bits: a thousandth of 1 Mbit/s has one in 0.88 s.
    let config = parse(&session(r#", "share": 0.001, "link_bps": 1000000"#)).unwrap();
    assert_eq!(config.sessions[0].gap(), Duration::from_millis(880));
}

#[test]
fn lengths_have_room_for_tlvs() {
    let config = parse(&session(
        r#", "tlvs": ["class_of_service", "direct_measurement"], "key_file": "k""#,
    ));
    // 112, 8, 16 and the HMAC of 20.
    assert_eq!(config.unwrap().sessions[0].bytes(), 156);
    let error = parse(&session(r#", "tlvs": ["class_of_service"], "length": 53"#)).unwrap_err();
    assert!(
        error.contains("sessions[0].length: expected 52, or 56 to 9000, got 53"),
        "{error}"
    );
}

#[test]
fn addresses_are_read_with_ports_and_zones() {
    let address = |text: &str| Address::try_from(text.to_owned()).unwrap();
    for (text, expected) in [
        ("2001:db8::1", "[2001:db8::1]:9"),
        ("[2001:db8::1]", "[2001:db8::1]:9"),
        ("[2001:db8::1]:5", "[2001:db8::1]:5"),
        ("[fe80::1%3]:5", "[fe80::1%3]:5"),
        ("fe80::1%3", "[fe80::1%3]:9"),
        // An IPv4 address that is written as one of IPv6 is reached by IPv4.
        ("[::ffff:192.0.2.1]:5", "192.0.2.1:5"),
    ] {
        assert_eq!(address(text).with_port(9), expected.parse().unwrap());
    }
    // Loopback is interface 1 of every network.
    for text in ["fe80::1%lo", "[fe80::1%lo]"] {
        let address = address(text);
        assert_eq!(address.with_port(9), "[fe80::1%1]:9".parse().unwrap());
        assert_eq!(String::from(address), "fe80::1%1");
    }
    let refused = [
        "",
        "example.org",
        "1.2.3.4:",
        "1.2.3.4:70000",
        "[1.2.3.4]",
        "[::1",
        "fe80::1%",
        "[fe80::1%lo",
        "[fe80::1%]:5",
        "fe80::1%nothing",
        "2001:db8::1%lo",
        "1.2.3.4%lo",
    ];
    for text in refused {
        assert!(Address::try_from(text.to_owned()).is_err(), "{text}");
    }
}

#[test]
fn errors_say_where_and_what() {
    // Long: a table.
    let cases = [
        (
            "{}".to_owned(),
            "sessions: expected a session, a reflector, or `mset`, got neither",
        ),
        (session(r#", "dcsp": 3"#), "sessions[0]"),
        (
            session(r#", "dscp": 64"#),
            "sessions[0].dscp: expected 0 to 63, got 64",
        ),
        (
            session(r#", "from": "::1""#),
            "sessions[0].from: expected an address of the same family",
        ),
        (
            session(r#", "interval_ms": 0.001"#),
            "sessions[0].interval_ms: expected 0.01 to 3600000",
        ),
        (
            session(r#", "interval_ms": 5, "share": 0.1"#),
            "either `interval_ms`, or `share` and `link_bps`",
        ),
        (
            session(r#", "share": 0.1"#),
            "`share` and `link_bps` together",
        ),
        (
            session(r#", "share": 0, "link_bps": 5000"#),
            "sessions[0].share: expected over 0 to 1",
        ),
        (
            session(r#", "share": 1, "link_bps": 1000000000000"#),
            "sessions[0]: expected a rate of",
        ),
        (
            session(r#", "tlvs": ["location", "location"]"#),
            "sessions[0].tlvs[1]: expected each TLV once",
        ),
        (session(r#", "to": 5"#), "`to` is given twice"),
        (
            to("nowhere"),
            "sessions[0].to: \"nowhere\" is not an address",
        ),
        (to("0.0.0.0"), "sessions[0].to: expected the reflector's"),
        (
            to("239.1.2.3"),
            "sessions[0].to: expected the address of one reflector",
        ),
        (
            to("[fe80::1]:862"),
            "sessions[0].to: expected a link-local address with its zone",
        ),
        (
            r#"{"sessions": [{"name": "a b", "to": "::1"}]}"#.to_owned(),
            "sessions[0].name",
        ),
        (
            r#"{"sessions": [{"name": "a", "to": "::1"}, {"name": "a", "to": "::1"}]}"#.to_owned(),
            "sessions[1].name: expected a unique name, got \"a\" again",
        ),
        (
            r#"{"reflector": {"listen": []}}"#.to_owned(),
            "reflector.listen: expected 1 to 64 addresses, got 0",
        ),
        (
            r#"{"reflector": {"allowed_dscp": [0, 99]}}"#.to_owned(),
            "reflector.allowed_dscp[1]",
        ),
        (
            r#"{"reflector": {"limit_pps": 0}}"#.to_owned(),
            "reflector.limit_pps",
        ),
        (
            reflector(r#""interval_ms": 5"#),
            "interval_ms: expected 100 to 3600000",
        ),
        (
            reflector(r#""http": {"listen": "0.0.0.0:80"}"#),
            "http.listen: expected a loopback",
        ),
    ];
    assert_refused(&cases);
}

#[test]
fn errors_of_reports_and_m_sets_say_where_and_what() {
    assert_refused(&[
        (
            reflector(r#""report": {"nats": {"servers": []}}"#),
            "report.nats.servers: expected 1 to 16 servers",
        ),
        (
            reflector(r#""report": {"node": "a b", "nats": {"servers": ["nats://a"]}}"#),
            "report.node: expected 1 to 64 letters",
        ),
        (
            r#"{"sessions": [{"name": "a", "to": "::1", "timeout_ms": 3001}], "report": {"nats": {"servers": ["nats://a"]}}}"#
                .to_owned(),
            "report: expected `timeout_ms` of 3000 at most",
        ),
        (
            r#"{"mset": {"topology": "a.json", "ospf": "127.0.0.1:2607"}}"#.to_owned(),
            "mset: expected either `topology` or `ospf`",
        ),
        (
            r#"{"mset": {"topology": "a.json", "advertise": "m-server"}}"#.to_owned(),
            "mset: expected `names` and `advertise` with `ospf` only",
        ),
        (
            r#"{"mset": {"topology": "a.json", "session": {"to": "::1"}}}"#.to_owned(),
            "`to` differs by node",
        ),
        (
            r#"{"mset": {"topology": "a.json", "session": {"dscp": 64}}}"#.to_owned(),
            "mset.session.dscp: expected 0 to 63, got 64",
        ),
    ]);
}

fn assert_refused(cases: &[(String, &str)]) {
    for (text, expected) in cases {
        let error = parse(text).unwrap_err();
        assert!(
            error.contains(*expected) && error.starts_with("probe.json:1:"),
            "{text}\n{error}"
        );
    }
}
