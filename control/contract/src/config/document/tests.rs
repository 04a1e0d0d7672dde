use super::super::device::Generate;
use super::super::{Device, Forwarding, Measurement, Port};
use super::*;

const PATCH: &str = r#"{
  "ports": [
    { "name": "east", "device": "sink" },
    { "name": "west", "device": "generate:flows=9" }
  ],
  "forwarding": { "mode": "patch", "pairs": [["east", "west"]] }
}"#;

fn ends(config: &Config) -> Vec<(usize, usize)> {
    let segments = config.segments();
    segments.iter().map(|s| (s.ingress, s.egress)).collect()
}

fn error(text: &str) -> String {
    Config::parse(text, "v.json").unwrap_err().to_string()
}

fn patched(from: &str, to: &str) -> String {
    assert!(PATCH.contains(from));
    PATCH.replacen(from, to, 1)
}

#[test]
fn what_is_left_out_has_its_default() {
    let config = Config::parse(PATCH, "v.json").unwrap();
    assert_eq!(config.measurement, Measurement::default());
    assert_eq!(
        config.ports[1],
        Port {
            name: "west".to_owned(),
            device: Device::Generate(Generate {
                flows: 9,
                ..Generate::default()
            }),
            mtu: 1500,
            rx_queues: None,
            vlan: None,
            max_stations: None,
            egress: super::super::Egress::default(),
            wire: None,
        }
    );
    assert_eq!(ends(&config), [(0, 1), (1, 0)]);
}

#[test]
fn serialization_gives_the_same_configuration_back() {
    let bridge = patched(
        r#""mode": "patch", "pairs": [["east", "west"]]"#,
        r#""mode": "bridge", "ageing_s": 9"#,
    );
    let replay = Config::demo_replay("a.pcap").unwrap();
    let configs = [
        Config::parse(PATCH, "").unwrap(),
        Config::parse(&bridge, "").unwrap(),
        Config::demo().unwrap(),
        replay,
    ];
    for config in configs {
        let text = serde_json::to_string_pretty(&config).unwrap();
        assert_eq!(Config::parse(&text, "").unwrap(), config);
    }
}

#[test]
fn shape_errors_say_where_what_was_expected_and_what_was_found() {
    assert_eq!(error("{"), "v.json:1:1: EOF while parsing an object");
    assert_eq!(
        error(&patched(
            "\"device\": \"sink\"",
            "\"device\": \"sink\", \"mtuu\": 9"
        )),
        "v.json:3:49: ports[0].mtuu: expected one of the keys device, egress, max_stations, mtu, \
             name, rx_queues, vlan, wire, got `mtuu`; did you mean `mtu`?"
    );
    assert_eq!(
        error(&patched("\"sink\"", "\"generate:rate=0\"")),
        "v.json:3:33: ports[0].device: generate: `rate=0`: expected packets a second over 0, \
             up to 100000000"
    );
    assert_eq!(
        error(&patched("[\"east\", \"west\"]", "[\"east\"]")),
        "v.json:6:46: forwarding.pairs[0]: expected 2 entries, got 1"
    );
    assert_eq!(
        error(&patched("\"mode\": \"patch\",", "\"mode\": \"bridge\",")),
        "v.json:6:46: forwarding.pairs: expected one of the keys ageing_s, fdb_entries, \
             flood_limit_pps, mode, stations, got `pairs`"
    );
    let twice = error(&patched("\"device\"", "\"name\": 5, \"device\""));
    let lines: Vec<&str> = twice.lines().collect();
    assert!(
        lines.len() == 2 && twice.contains("ports[0].name: expected a string, got 5"),
        "{twice}"
    );
    assert!(
        lines
            .iter()
            .any(|line| line.ends_with("`name` is given twice")),
        "{twice}"
    );
    assert_eq!(
        error(&format!("{PATCH} {{}}")),
        "v.json:7:3: trailing characters"
    );
}

#[test]
fn a_secret_in_the_wrong_form_or_place_is_not_quoted() {
    let with = |keys: &str| error(&patched("] }\n}", &format!("] }}, {keys}\n}}")));
    let cases = [
        (
            r#""measurement": { "hash_seed": 31415926535 }"#,
            "measurement.hash_seed: expected a string or null, got",
        ),
        (
            r#""measurement": { "hash_seed": "31415926535" }"#,
            "measurement.hash_seed: expected 32 hexadecimal digits, got 11 characters",
        ),
        (
            r#""wire": { "switch": 1, "keys": ["31415926535"] }"#,
            "wire.keys[0]: expected an object, got",
        ),
        (
            r#""wire": { "switch": 1, "keys": [{ "id": "31415926535" }] }"#,
            "wire.keys[0].id: expected a whole number, got",
        ),
        (
            r#""http": { "token_file": 31415926535 }"#,
            "http.token_file: expected a string or null, got",
        ),
    ];
    for (keys, expected) in cases {
        let error = with(keys);
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains("31415"), "a secret in {error}");
    }
}

#[test]
fn a_host_s_forwarding_is_written_and_never_read() {
    let written = serde_json::to_value(Forwarding::Host).unwrap();
    assert_eq!(written, serde_json::json!({ "mode": "host" }));
    assert_eq!(
        error(&patched("\"mode\": \"patch\",", "\"mode\": \"host\",")),
        "v.json:6:27: forwarding.mode: expected \"patch\" or \"bridge\", got \"host\""
    );
}

#[test]
fn value_errors_point_at_the_value() {
    assert_eq!(
        error(&patched(
            "\"sink\"",
            "\"sink\",\n\"egress\": {\n  \"queue_packets\": 0}"
        )),
        "v.json:5:20: ports[0].egress.queue_packets: expected 1 to 65536, got 0"
    );
    assert_eq!(
        error(&patched("\"west\"]", "\"wset\"]")),
        "v.json:6:55: forwarding.pairs[0][1]: expected the name of a port (east, west), got \
             \"wset\"; did you mean `west`?"
    );
    // A default has no place in the file; use that of the object around it.
    let grace = patched("}\n}", "},\n  \"measurement\": { \"grace_ms\": 500 }\n}");
    assert_eq!(
        error(&grace),
        "v.json:7:32: measurement.grace_ms: expected less than half of interval_ms (1000), \
             got 500"
    );
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Config::load("/nowhere/v.json").unwrap_err().to_string();
    assert!(error.starts_with("/nowhere/v.json: cannot read the configuration: No such"));
}

#[test]
fn the_demos_need_no_privileges() {
    let replay = Config::demo_replay("/tmp/x.pcap").unwrap();
    assert_eq!(
        replay.ports[0].device.to_string(),
        "replay:/tmp/x.pcap?loop=0"
    );
    for config in [Config::demo().unwrap(), replay] {
        assert!(!config.dpdk.hugepages);
        assert_eq!(ends(&config), [(0, 1), (1, 0)]);
        assert!(!config.has_devices());
    }
}

#[test]
fn addresses_to_listen_on_are_those_that_people_write() {
    let listen = |listen: &str| {
        let http = format!(r#"{{ "http": {{ "listen": {listen}, "insecure": true }},"#);
        Config::parse(&PATCH.replacen('{', &http, 1), "v.json")
    };
    assert_eq!(
        listen(r#"":9464""#)
            .unwrap()
            .http
            .listen
            .unwrap()
            .to_string(),
        "[::]:9464"
    );
    assert_eq!(
        listen(r#""localhost:80""#)
            .unwrap()
            .http
            .listen
            .unwrap()
            .to_string(),
        "127.0.0.1:80"
    );
    assert_eq!(listen("null").unwrap().http.listen, None);
    let error = listen(r#""example.com:80""#).unwrap_err().to_string();
    let wanted =
        "http.listen: \"example.com:80\" is not an address with a port, such as 127.0.0.1:9464";
    assert!(error.contains(wanted), "{error}");
    // A port of every address is open to others.
    let open = r#"{ "http": { "listen": ":9464" },"#;
    let error = Config::parse(&PATCH.replacen('{', open, 1), "v.json").unwrap_err();
    assert!(error.to_string().contains("a loopback address"), "{error}");
}

#[test]
fn a_byte_order_mark_gets_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bom.json");
    std::fs::write(&file, format!("\u{feff}{PATCH}")).unwrap();
    let error = Config::load(&file).unwrap_err().to_string();
    assert!(
        error.contains("bom.json: cannot read the configuration"),
        "{error}"
    );
    assert!(
        error.contains("byte order mark (EF BB BF); save it as UTF-8 without one"),
        "{error}"
    );
}

#[test]
fn what_is_no_json_says_what_it_may_be() {
    let said = |text: &str| Config::parse(text, "v.json").unwrap_err().to_string();
    for text in ["", " \r\n"] {
        let said = said(text);
        assert!(
            said.ends_with(": the file is empty; expected an object"),
            "{said}"
        );
    }
    for text in [
        "// a switch\n{}",
        "# a switch\n{}",
        "{ /* a switch */ }",
        "{\n  \"name\": \"a\", // a switch\n  \"ports\": [] }",
        "{ \"ports\": [ # none\n ] }",
    ] {
        let said = said(text);
        assert!(said.ends_with(": JSON has no comments"), "{text:?}: {said}");
    }
    for text in ["{ \"name\": \"//\", }", "{ \"name\": tru }", "{} #"] {
        let said = said(text);
        assert!(!said.contains("no comments"), "{text:?}: {said}");
    }
}

/// All differences of a candidate, line by line, if `found` is empty.
fn said(text: &str) -> Vec<String> {
    let candidate = Candidate::parse(text.to_owned(), "v.json".to_owned()).unwrap();
    let error = candidate.finish(Ok(())).unwrap_err().to_string();
    error.lines().map(str::to_owned).collect()
}

#[test]
fn a_range_hides_no_name() {
    let text = patched(
        r#""mode": "patch""#,
        r#""mode": "patch", "link_loss_forwarding": false"#,
    );
    let text = text.replace(r#"["east", "west"]"#, r#"["east", "wst"]"#);
    let text = text.replacen(
        '{',
        r#"{ "measurement": { "interval_ms": 1 }, "workers": [{ "core": 1 }, { "core": 1 }],"#,
        1,
    );
    for said in [
        said(&text),
        error(&text).lines().map(str::to_owned).collect(),
    ] {
        assert_eq!(said.len(), 3, "{said:?}");
        for (line, what) in said.iter().zip([
            "interval_ms: expected 10 to 60000",
            "a CPU of its own",
            "did you mean `west`?",
        ]) {
            assert!(line.contains(what), "{line}");
        }
    }
}

#[test]
fn what_a_candidate_is_made_of_is_good_for_looking_at() {
    let text = PATCH.replacen(
        '{',
        r#"{ "mesurement": 1, "memory_budget_mib": "x", "name": "a b", "#,
        1,
    );
    let candidate = Candidate::parse(text, "v.json".to_owned()).unwrap();
    assert!(candidate.is_faulty());
    assert_eq!(candidate.config().ports.len(), 2);
    let root = KeyPath::default();
    assert!(candidate.is_faulty_at(&root.key("memory_budget_mib")));
    assert!(!candidate.is_faulty_at(&root.key("ports").index(0)));
    // A value found where a key was omitted is not a difference.
    let device = Invalid::said(root.key("ports").index(0).key("device"), "no such device");
    let budget = Invalid::said(root.key("memory_budget_mib"), "too little");
    let found: Check = Err(Faults(vec![device, budget]));
    let error = candidate.finish(found).unwrap_err().to_string();
    assert_eq!(error.matches("no such device").count(), 1, "{error}");
    assert!(!error.contains("too little"), "{error}");
    assert!(error.contains("did you mean `measurement`?"), "{error}");

    // Without a configuration nothing can be looked for.
    for text in [
        "",
        "{",
        "[]",
        "{}",
        &patched(r#""device": "sink""#, r#""device": 7"#),
    ] {
        assert!(
            Candidate::parse(text.to_owned(), "v.json".to_owned()).is_err(),
            "{text}"
        );
    }
    let candidate = Candidate::parse(PATCH.to_owned(), "v.json".to_owned()).unwrap();
    let (config, ()) = candidate.finish(Ok(())).unwrap();
    assert_eq!(config, Config::parse(PATCH, "v.json").unwrap());
}
