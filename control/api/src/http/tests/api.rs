use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use flate2::read::GzDecoder;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde_json::json;

use super::*;
use crate::{process, prometheus};
use contract::counters::ClassReading;
use contract::limits::answer_bytes_max;
use control::published::Lookup;
use records::answers::{
    COURSES_MAX, Classes, Epochs, FLOWS_DEFAULT, FlowPage, FlowState, SegmentCourses, Segments,
    StatusAnswer,
};
use records::history::{History, Sample};
use records::snapshot::{ClassCounts, FlowAnswer, Segment};

const FLOW: &str = "10.0.0.1:1027>10.0.0.2:80/tcp";

#[test]
fn every_path_answers_with_its_content_type() {
    let (server, _) = serve(example());
    let index = fetch(&server, "/");
    for route in routes::routes() {
        let path = route.path;
        assert!(index.body.contains(&format!("  {path} ")), "{path}");
        let target = match path {
            "/api/v1/flow" => format!("{path}?flow={}", FLOW.replace('>', "%3E")),
            "/api/v1/reload" => continue,
            path => path.to_owned(),
        };
        let expected = match path {
            "/metrics" => prometheus::Format::Text.content_type(),
            path if path.starts_with("/api") => "application/json",
            ui::PATH => ui::HTML,
            _ => "text/plain; charset=utf-8",
        };
        let answer = fetch(&server, &target);
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.header("content-type"), Some(expected), "{path}");
        let head = request(&server, "HEAD", &target, &[]);
        assert_eq!((head.status, head.body.as_str()), (200, ""), "{path}");
        assert_eq!(head.header("content-type"), Some(expected), "{path}");
        let deleted = request(&server, "DELETE", &target, &[]);
        assert_eq!(deleted.status, 405, "{path}");
        assert_eq!(deleted.header("allow"), Some("GET,HEAD"), "{path}");
        assert!(deleted.error().contains(path));
    }
    let answer = fetch(&server, "/metric");
    assert!(answer.status == 404 && answer.body.contains("/metrics"));
}

#[test]
fn browsers_are_redirected_from_the_root_to_the_page_and_others_get_the_paths() {
    let (server, _) = serve(example());
    let accept = "Accept: text/html,application/xhtml+xml,*/*;q=0.8";
    let browser = request(&server, "GET", "/", &[accept]);
    // Relative, so that it holds below a proxy's path.
    assert_eq!(
        (browser.status, browser.header("location")),
        (307, Some("ui"))
    );
    assert_eq!(browser.header("vary"), Some("accept"));
    let with_slash = fetch(&server, "/ui/");
    assert_eq!(
        (with_slash.status, with_slash.header("location")),
        (307, Some("../ui"))
    );
    let curl = request(&server, "GET", "/", &["Accept: */*"]);
    assert!(curl.status == 200 && curl.body.contains("/metrics"));
    for document in ["/ui/docs/ui.md", "/ui/docs/concepts.md"] {
        let text = fetch(&server, document);
        assert!(
            text.status == 200 && text.body.starts_with("# "),
            "{text:?}"
        );
    }
}

/// The body of an answer in chunks (RFC 9112, section 7.1).
fn unchunked(mut chunks: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = chunks.windows(2).position(|two| two == b"\r\n").unwrap();
        let length = std::str::from_utf8(&chunks[..end]).unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            return body;
        }
        body.extend(&chunks[end + 2..][..length]);
        chunks = &chunks[end + 2 + length + 2..];
    }
}

#[test]
fn answers_are_compressed_for_who_accepts_it() {
    let (server, _) = serve(example());
    for target in ["/metrics", "/api/v1/segments", "/api/v1/flows"] {
        let plain = fetch(&server, target);
        assert_eq!(plain.header("content-encoding"), None);
        let mut bytes = Vec::new();
        let mut client = ask(&server, "GET", target, &["Accept-Encoding: br, gzip"]);
        client.read_to_end(&mut bytes).unwrap();
        let head = bytes
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .unwrap();
        let answer = Answer::of(&String::from_utf8_lossy(&bytes[..head + 4]));
        assert_eq!(answer.header("content-encoding"), Some("gzip"), "{target}");
        assert!(
            answer.head.contains("vary: accept-encoding"),
            "{}",
            answer.head
        );
        let body = unchunked(&bytes[head + 4..]);
        let mut text = String::new();
        GzDecoder::new(&body[..]).read_to_string(&mut text).unwrap();
        if target == "/metrics" {
            assert!(text.contains("vernier_http_rejected_total") && body.len() * 3 < text.len());
        } else {
            assert_eq!(text, plain.body);
        }
    }
}

#[test]
fn metrics_come_in_the_format_that_is_asked_for() {
    let (server, _) = serve(example());
    let [text, open, protobuf] = prometheus::Format::ALL.map(prometheus::Format::content_type);
    let accept = |format, weight| format!("Accept: {format};q={weight}, text/plain;q=0.5");
    for (accept, expected) in [
        (accept(protobuf, 0.4), text),
        (accept(protobuf, 0.6), protobuf),
        (accept(open, 0.6), open),
    ] {
        for method in ["GET", "HEAD"] {
            let answer = request(&server, method, "/metrics", &[&accept]);
            assert_eq!(answer.status, 200, "{accept}");
            assert_eq!(answer.header("content-type"), Some(expected), "{accept}");
            assert_eq!(answer.header("vary"), Some("accept"));
            if method == "GET" {
                let own = "vernier_http_rejected_total";
                assert!(answer.body.contains(own));
                assert_eq!(answer.body.contains("# TYPE"), expected != protobuf);
                assert_eq!(answer.body.ends_with("# EOF\n"), expected == open);
            }
        }
    }
}

#[test]
fn json_is_the_published_snapshot() {
    let (server, published) = serve(Snapshot::default());
    published.publish(Snapshot::example(), Lookup::default());
    let whole = fetch(&server, "/api/v1/snapshot").body;
    assert_eq!(
        serde_json::from_str::<Snapshot>(&whole).unwrap(),
        Snapshot::example()
    );
    let segments = fetch(&server, "/api/v1/segments").body;
    assert_eq!(
        serde_json::from_str::<Segments>(&segments).unwrap(),
        Segments::from(&Snapshot::example())
    );
    let status = fetch(&server, "/api/v1/status").body;
    assert_eq!(
        serde_json::from_str::<StatusAnswer>(&status).unwrap(),
        StatusAnswer::from(&Snapshot::example())
    );
}

#[test]
fn ports_and_segments_are_chosen_by_name() {
    let (server, _) = serve(example());
    let names = |target: &str, list: &str, name: &str| -> Vec<String> {
        let answer = fetch(&server, target).json();
        let list = answer[list].as_array().unwrap();
        let name = |item: &Value| item[name].as_str().unwrap().to_owned();
        list.iter().map(name).collect()
    };
    let ports = |query: &str| names(&format!("/api/v1/ports{query}"), "ports", "name");
    assert_eq!(ports(""), ["east", "west"]);
    assert_eq!(ports("?name=west"), ["west"]);
    assert_eq!(ports("?name=north"), [""; 0]);
    let segments = |query: &str| names(&format!("/api/v1/segments{query}"), "segments", "ingress");
    assert_eq!(segments(""), ["east", "west"]);
    assert_eq!(segments("?egress=east"), ["west"]);
    assert_eq!(segments("?egress=east&class=gold"), [""; 0]);
}

#[test]
fn classes_are_sums_over_ports_and_segments() {
    let mut snapshot = example();
    let gold = |tx_packets| ClassCounts {
        class: "gold".to_owned(),
        counts: ClassReading {
            tx_packets,
            tx_bytes: 100 * tx_packets,
            dropped_packets: 1,
        },
    };
    for (port, packets) in snapshot.ports.iter_mut().zip([10, 32]) {
        port.classes.insert(0, gold(packets));
    }
    snapshot.segments[1] = snapshot.segments[0].clone();
    for segment in &mut snapshot.segments {
        segment.class = "gold".to_owned();
    }
    let (server, _) = serve(snapshot);
    let classes = fetch(&server, "/api/v1/classes").body;
    let classes: Classes = serde_json::from_str(&classes).unwrap();
    let [gold, all] = &classes.classes[..] else {
        panic!("{classes:?}");
    };
    assert_eq!((gold.class.as_str(), all.class.as_str()), ("gold", "all"));
    assert_eq!((gold.egress.tx_packets, gold.egress.tx_bytes), (42, 4_200));
    assert_eq!((gold.egress.dropped_packets, gold.segments), (2, 2));
    assert_eq!(gold.counts.sent_packets, 40_000);
    assert_eq!(gold.stamped_packets, 2 * 19_988);
    let mean_ns = 8.241e9 / 19_988.0;
    assert!((gold.mean_ns.unwrap() / mean_ns - 1.0).abs() < 1e-9);
    let variance_ns2 = 0.005e18 / 19_988.0 - mean_ns.powi(2);
    assert!((gold.stddev_ns.unwrap() / variance_ns2.sqrt() - 1.0).abs() < 1e-6);
    assert_eq!(
        (all.segments, all.stamped_packets, all.mean_ns),
        (0, 0, None)
    );
    assert_eq!(all.egress.tx_packets, 2 * 1_639_000);
}

#[test]
fn epochs_are_the_courses_of_segments() {
    let mut snapshot = example();
    for epoch in 0..82 {
        let sample = Sample {
            packets: 10,
            sum_ns: 5_000.0,
            ..Sample::default()
        };
        snapshot.segments[0].history.add(epoch, 250, &sample);
    }
    let (server, _) = serve(snapshot);
    let epochs = |query: &str| -> Epochs {
        serde_json::from_str(&fetch(&server, &format!("/api/v1/epochs{query}")).body).unwrap()
    };
    let all = epochs("");
    let origin_s = all.origin_unix_s.unwrap();
    assert!((origin_s - (1_700_000_000.25 - 82.0 * 0.25)).abs() < 1e-6);
    assert_eq!((all.epoch, all.segments.len()), (Some(81), 2));
    let buckets = |courses: &SegmentCourses| -> Vec<(u32, usize)> {
        let courses = courses.courses.iter();
        courses.map(|c| (c.width_s, c.buckets.len())).collect()
    };
    assert_eq!(buckets(&all.segments[0]), [(1, 21), (10, 3), (60, 1)]);
    let tens = epochs("?ingress=east&width_s=10");
    assert_eq!(tens.segments.len(), 1);
    assert_eq!(buckets(&tens.segments[0]), [(10, 3)]);
    assert_eq!(tens.segments[0].courses[0].buckets[1].packets, 400);
    assert_eq!(epochs("?width_s=1&egress=north").segments, []);
    assert_eq!((all.matching, all.offset), (2, 0));
    let second = epochs("?offset=1&limit=500");
    assert_eq!((second.matching, second.offset), (2, 1));
    assert_eq!(second.segments, all.segments[1..]);
    assert_eq!(epochs("?limit=0").segments, []);
}

#[test]
fn the_largest_answers_have_room() {
    let mut snapshot = example();
    let mut full = History::default();
    for epoch in 0..3_660 {
        let sample = Sample {
            packets: 1_000_000 + epoch,
            lost_packets: 1_000,
            sum_ns: 7.3e9,
            squares_ns2: 9.1e13,
            max_ns: 12_345.678,
            p50_ns: 6_543.210,
            p99_ns: 9_876.543,
            estimate_ns: Some((7_300.123, 45.678)),
        };
        full.add(epoch, 1_000, &sample);
    }
    let one = snapshot.segments[0].clone();
    let named = |n| Segment {
        ingress: format!("{n:064}"),
        egress: format!("{n:064}"),
        class: format!("{n:064}"),
        history: full.clone(),
        ..one.clone()
    };
    snapshot.segments = (0..COURSES_MAX).map(named).collect();
    let bytes_max = answer_bytes_max(COURSES_MAX);
    let (server, _) = serve(snapshot);
    let size = |target: &str| {
        let answer = fetch(&server, target);
        assert_eq!(answer.status, 200, "{target}: {}", answer.body);
        println!("{target}: {} bytes of {bytes_max}", answer.body.len());
        answer.body.len()
    };
    // However many segments there are.
    let of_segments = bytes_max - answer_bytes_max(0);
    assert!(size("/metrics") < of_segments);
    assert!(size("/api/v1/snapshot") < of_segments);
    assert!(size("/api/v1/segments") < of_segments);
    size("/api/v1/epochs?limit=500");
    let mut snapshot = example();
    let flows = snapshot.flows.as_mut().unwrap();
    let list = Arc::make_mut(&mut flows.list);
    list.flows = (0..20_000).map(|n| record(n % 1_000)).collect();
    let (server, _) = serve(snapshot);
    let page = fetch(&server, "/api/v1/flows?limit=10000");
    assert_eq!(page.status, 200, "{}", page.body);
}

#[test]
fn flows_come_in_pages() {
    let (server, _) = serve(example());
    let page = |query: &str| -> FlowPage {
        serde_json::from_str(&fetch(&server, &format!("/api/v1/flows{query}")).body).unwrap()
    };
    let first = page("");
    assert_eq!(
        (first.epoch, first.matching, first.offset),
        (Some(81), 150, 0)
    );
    assert_eq!(
        (first.flows.len(), first.state),
        (FLOWS_DEFAULT, FlowState::Active)
    );
    assert_eq!(first.flows[3].flow, FLOW);
    assert!((first.flows[3].last_seen_unix_s - 1_700_000_000.25).abs() < 1e-6);
    let second = page("?offset=100&limit=10000&sort=packets");
    assert_eq!((second.offset, second.flows.len()), (100, 50));
    let rising = page("?sort=total_packets&ascending=true&limit=1&contains=%3A11&ingress=east");
    assert_eq!(rising.flows[0].flow, "10.0.0.1:1173>10.0.0.2:80/tcp");
    let ended = page("?state=ended");
    assert_eq!((ended.matching, ended.state), (1, FlowState::Ended));
    assert_eq!(page("?class=gold").matching, 0);
    let (server, _) = serve(Snapshot {
        flows: None,
        ..example()
    });
    let none = fetch(&server, "/api/v1/flows").json();
    assert_eq!((&none["matching"], &none["epoch"]), (&json!(0), &json!(81)));
}

#[test]
fn what_cannot_be_understood_is_named() {
    let (server, _) = serve(example());
    for (target, wanted) in [
        (
            "flows?limit=10001",
            &["limit", "\"10001\"", "0 to 10000"][..],
        ),
        ("flows?limit=-1", &["limit", "\"-1\"", "0 to 10000"]),
        ("flows?offset=x", &["offset", "\"x\"", "a number"]),
        ("flows?ascending=yes", &["ascending", "\"yes\"", "`true`"]),
        ("flows?sort=size", &["sort", "`size`", "`total_packets`"]),
        ("flows?state=dead", &["state", "`dead`", "`active`"]),
        ("flows?limt=1", &["`limt`", "`limit`"]),
        ("flows?limit=1&limit=2", &["duplicate", "`limit`"]),
        ("segments?ingres=a", &["`ingres`", "`ingress`"]),
        ("epochs?width_s=5", &["width_s", "`5`", "`60`"]),
        ("status?x=1", &["`x`"]),
        ("flow", &["`flow`", "`source`"]),
        ("flow?flow=a&source=b", &["`flow`", "alone"]),
        ("flow?flow=10.0.0.1", &["flow: ", "\"10.0.0.1\""]),
        (
            "flow?source=10.0.0.1:x&destination=10.0.0.2:1&protocol=tcp",
            &["source", "\"10.0.0.1:x\""],
        ),
        ("flow?flow=%FF%00", &["flow: expected"]),
        (
            "flow?flow=%2312",
            &["flow: expected", "16 hexadecimal", "\"#12\""],
        ),
    ] {
        let answer = fetch(&server, &format!("/api/v1/{target}"));
        assert_eq!(answer.status, 400, "{target}: {answer:?}");
        let error = answer.error();
        for wanted in wanted {
            assert!(
                error.contains(wanted),
                "{target}: {wanted} is not in: {error}"
            );
        }
    }
}

#[test]
fn one_flow_is_found_in_either_spelling() {
    let (server, _) = serve(example());
    for query in [
        "flow=10.0.0.1:1027%3E10.0.0.2:80/tcp",
        "flow=10.0.0.1%3A1027%3e10.0.0.2:80%2Ftcp",
        "source=10.0.0.1:1027&destination=10.0.0.2:80&protocol=6",
    ] {
        let answer = fetch(&server, &format!("/api/v1/flow?{query}"));
        let answer: FlowAnswer = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(answer.flow, FLOW);
        assert_eq!(answer.tracked.len(), 1, "{query}");
    }
    let unknown = fetch(&server, "/api/v1/flow?flow=[fd00::1]%3E[fd00::2]/icmpv6");
    assert_eq!(
        (unknown.status, &unknown.json()["tracked"]),
        (200, &json!([]))
    );
}

#[tokio::test]
async fn while_one_flow_is_looked_for_another_has_to_wait() {
    let published = Arc::new(Published::new(example()));
    let sources = Sources::new(published, process::recorder(), None);
    let permit = Arc::clone(&sources.singles).try_acquire_owned().unwrap();
    let router = TowerToHyperService::new(routes::router(sources, Access::default()));
    let ask = async || {
        let request = Request::get("/api/v1/flow?flow=10.0.0.1%3E10.0.0.2/1");
        router
            .call(request.body(Body::empty()).unwrap())
            .await
            .unwrap()
    };
    let busy = ask().await;
    assert_eq!(busy.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(busy.headers()["retry-after"], "1");
    drop(permit);
    assert_eq!(ask().await.status(), StatusCode::OK);
    assert_eq!(ask().await.status(), StatusCode::OK);
}

#[test]
fn the_configuration_that_holds_is_shown_without_its_seed() {
    let (server, published) = serve(Snapshot::default());
    let early = fetch(&server, "/api/v1/config");
    assert_eq!(early.status, 503);
    assert!(early.error().contains("starting"));
    assert_eq!(early.header("retry-after"), Some("1"));
    let snapshot = example();
    let mut expected = Config::clone(snapshot.config.as_ref().unwrap());
    published.publish(snapshot, Lookup::default());
    let shown = fetch(&server, "/api/v1/config").body;
    assert!(!shown.contains("00112233"), "{shown}");
    expected.measurement.hash_seed = None;
    assert_eq!(serde_json::from_str::<Config>(&shown).unwrap(), expected);
}

#[test]
fn a_reload_is_asked_for_once_and_not_by_a_web_page() {
    let wanted = Arc::new(AtomicBool::new(false));
    let published = Arc::new(Published::new(example()));
    let server = bind()
        .with_reload(Arc::clone(&wanted))
        .serve(Arc::clone(&published))
        .unwrap();
    let path = "/api/v1/reload";
    let plain = request(&server, "POST", path, &[]);
    assert_eq!(plain.status, 403);
    assert!(plain.error().contains("X-Vernier: reload"));
    let get = request(&server, "GET", path, &["X-Vernier: reload"]);
    assert_eq!((get.status, get.header("allow")), (405, Some("POST")));
    assert!(!wanted.load(Ordering::Relaxed));
    let lines = ["X-Vernier: reload", "Content-Length: 0"];
    let asked = request(&server, "POST", path, &lines);
    assert_eq!((asked.status, asked.json()), (202, json!({ "after": 2 })));
    assert!(wanted.load(Ordering::Relaxed));
    published.publish(Snapshot::default(), Lookup::default());
    assert_eq!(request(&server, "POST", path, &lines).json()["after"], 0);
    let (server, _) = serve(example());
    let refused = request(&server, "POST", path, &lines);
    assert_eq!(refused.status, 409);
    assert!(refused.error().contains("--config"));
}

#[test]
fn readiness_says_why_not() {
    let (server, published) = serve(Snapshot::default());
    let answer = fetch(&server, "/readyz");
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (503, "the switch is starting\n")
    );
    assert_eq!(fetch(&server, "/healthz").status, 200);
    published.publish(Snapshot::example(), Lookup::default());
    assert_eq!(fetch(&server, "/readyz").status, 200);
}

#[test]
fn the_process_s_own_metrics_are_on_the_page() {
    let (server, _) = serve(Snapshot::example());
    fetch(&server, "/healthz");
    let text = fetch(&server, "/metrics").body;
    for wanted in [
        r#"vernier_http_requests_total{path="/healthz",status="200"}"#,
        "vernier_http_request_seconds_bucket",
        r#"vernier_http_rejected_total{reason="crowded"} 0"#,
        "process_cpu_seconds_total ",
    ] {
        assert!(text.contains(wanted), "{text}");
    }
    assert!(own_metric(&server, "vernier_http_connections") >= 1.0);
    let resident = own_metric(&server, "process_resident_memory_bytes");
    assert!(resident > 1e6 && resident <= own_metric(&server, "process_virtual_memory_bytes"));
    let (open, most) = (
        own_metric(&server, "process_open_fds"),
        own_metric(&server, "process_max_fds"),
    );
    assert!(3.0 < open && open < most, "{open} of {most}");
    if let Some(said) = prometheus::tests::promtool(&text) {
        assert_eq!(said, "exit status: 0", "{text}");
    }
}

fn document() -> Value {
    let (server, _) = serve(example());
    fetch(&server, "/api/v1/openapi.json").json()
}

/// Schemas that allow no property that they do not name.
fn strict(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.contains_key("properties") {
                object.insert("additionalProperties".to_owned(), json!(false));
            }
            object.values_mut().for_each(strict);
        }
        Value::Array(items) => items.iter_mut().for_each(strict),
        _ => {}
    }
}

/// All errors of `value` by the schema that stands somewhere in the document.
fn errors(document: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut root = schema.clone();
    root["components"] = document["components"].clone();
    root["components"]["schemas"]
        .as_object_mut()
        .unwrap()
        .values_mut()
        .for_each(strict);
    let validator = jsonschema::draft202012::new(&root).unwrap();
    let errors = validator.iter_errors(value);
    errors
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

/// A query with a value for every parameter of an operation that can be combined with others.
fn query(path: &str, operation: &Value) -> String {
    if path == "/api/v1/flow" {
        return "?source=10.0.0.1:1027&destination=10.0.0.2:80&protocol=tcp".to_owned();
    }
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let given = parameters.map(|parameter| {
        let schema = &parameter["schema"];
        let choice = schema
            .pointer("/oneOf/0/const")
            .or(schema.pointer("/enum/0"));
        let choice = choice.or(schema.pointer("/anyOf/0/oneOf/0/const"));
        let value = match (choice, &schema["type"]) {
            (Some(choice), _) => choice.as_str().unwrap(),
            (None, kind) if kind == "integer" || schema.get("maximum").is_some() => "0",
            (None, _)
                if schema
                    .get("pattern")
                    .or(schema.pointer("/anyOf/0/pattern"))
                    .is_some() =>
            {
                "10.0.0.0/8"
            }
            (None, kind) if kind == "boolean" => "true",
            (None, _) => "east",
        };
        format!("{}={value}", parameter["name"].as_str().unwrap())
    });
    format!("?{}", given.collect::<Vec<_>>().join("&"))
}

#[test]
fn every_path_is_described_and_nothing_else() {
    let document = document();
    assert_eq!(document["openapi"], "3.1.0");
    let described: BTreeSet<_> = document["paths"].as_object().unwrap().keys().collect();
    let routes = routes::routes();
    let paths: Vec<String> = routes.iter().map(|route| route.path.to_owned()).collect();
    assert_eq!(described, paths.iter().collect());
    // The router accepts each with the described method, and no other.
    let (server, _) = serve(example());
    for (path, methods) in document["paths"].as_object().unwrap() {
        let methods: Vec<_> = methods.as_object().unwrap().keys().collect();
        let allowed = request(&server, "PATCH", path, &[]);
        assert_eq!(allowed.status, 405, "{path}");
        let expected = match methods[..] {
            [method] if method == "get" => "GET,HEAD",
            [method] if method == "post" => "POST",
            _ => panic!("{path}: {methods:?}"),
        };
        assert_eq!(allowed.header("allow"), Some(expected), "{path}");
    }
}

#[test]
fn real_answers_are_as_described() {
    let document = document();
    let (server, _) = serve(example());
    for (path, methods) in document["paths"].as_object().unwrap() {
        let operation = &methods["get"];
        let schema = &operation["responses"]["200"]["content"]["application/json"]["schema"];
        if !schema.is_object() {
            continue;
        }
        let mut targets = vec![format!("{path}{}", query(path, operation))];
        if path != "/api/v1/flow" {
            targets.push(path.clone());
        }
        for target in targets {
            let answer = fetch(&server, &target);
            assert_eq!(answer.status, 200, "{target}: {answer:?}");
            let errors = errors(&document, schema, &answer.json());
            assert_eq!(errors, [""; 0], "{target}");
        }
    }
    // Not everything passes.
    let schema = &json!({ "$ref": "#/components/schemas/Status" });
    assert_ne!(errors(&document, schema, &json!({})), [""; 0]);
    let mut status = fetch(&server, "/api/v1/status").json();
    status["pools"][0]["used"] = json!("many");
    assert_eq!(errors(&document, schema, &status).len(), 1);
}

#[test]
fn refusals_are_as_described() {
    let document = document();
    let (server, _) = serve(Snapshot::default());
    let of = |path: &str, method: &str, status: u16| {
        let responses = &document["paths"][path][method]["responses"];
        responses[status.to_string()]["content"]["application/json"]["schema"].clone()
    };
    for (method, target, status) in [
        ("GET", "/api/v1/flows?limit=x", 400),
        ("GET", "/api/v1/config", 503),
        ("POST", "/api/v1/reload", 403),
    ] {
        let answer = request(&server, method, target, &[]);
        assert_eq!(answer.status, status, "{target}");
        let path = target.split('?').next().unwrap();
        let schema = of(path, &method.to_lowercase(), status);
        assert!(schema.is_object(), "{target}: {status} is not described");
        assert_eq!(errors(&document, &schema, &answer.json()), [""; 0]);
    }
    let schema = of("/api/v1/reload", "post", 202);
    let empty = errors(&document, &schema, &json!({ "after": 1 }));
    assert!(!schema.is_object() || empty.is_empty());
}

#[test]
fn all_that_is_referred_to_is_there() {
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(object) => {
                if let Some(Value::String(reference)) = object.get("$ref") {
                    found.insert(reference.clone());
                }
                object.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let document = document();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert!(found.len() > 20, "{found:?}");
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

#[test]
fn every_file_of_the_page_has_a_strict_policy() {
    let (server, _) = serve(example());
    for (path, kind) in [
        ("/ui", "text/html; charset=utf-8"),
        ("/ui/style.css", "text/css; charset=utf-8"),
        ("/ui/main.js", "text/javascript; charset=utf-8"),
    ] {
        let answer = fetch(&server, path);
        assert_eq!(answer.status, 200, "{path}");
        for (name, expected) in [
            ("content-type", kind),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-cache"),
        ] {
            assert_eq!(answer.header(name), Some(expected), "{path}");
        }
        let policy = answer.header("content-security-policy").unwrap();
        for rule in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "frame-ancestors 'none'",
            "form-action 'none'",
            "base-uri 'none'",
        ] {
            assert!(policy.contains(rule), "{path}: {rule}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
    }
    assert_eq!(fetch(&server, "/ui/../http.rs").status, 404);
    assert!(fetch(&server, "/ui").body.contains("data-of=\"switch\""));
    let (page, kind) = (fetch(&server, "/ui").body, "<script type=\"module\" src=");
    assert_eq!(page.matches("<script").count(), page.matches(kind).count());
}
