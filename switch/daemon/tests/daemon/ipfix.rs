//! Flows to real collectors by IPFIX: `nfcapd` with `nfdump`, `nfacctd`, and `tshark` for what comes by TCP.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufWriter, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::pcap;
use testkit::process::Process;

use crate::support::{Daemon, PATIENCE, free_address, number};

const FLOWS: u64 = 10_000;

/// A program from `make setup-test`, next to the sources or installed.
fn program(path: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let unpacked = root.join(".tools").join(path);
    if unpacked.exists() {
        return unpacked;
    }
    Path::new("/").join(path)
}

/// This number of flows in order, repeatedly, so that every flow has packets in every epoch.
fn capture(folder: &Path, flows: u64) -> PathBuf {
    let path = folder.join("flows.pcap");
    let mut capture = pcap::Writer::new(BufWriter::new(File::create(&path).unwrap())).unwrap();
    let to = (Ipv4Addr::new(10, 200, 0, 1), 80);
    for flow in 0..flows {
        let source = Ipv4Addr::from_bits(0x0a00_0000 + u32::try_from(flow / 10).unwrap());
        let payload = vec![0; usize::try_from(18 + flow % 300).unwrap()];
        let port = u16::try_from(7_000 + flow % 10).unwrap();
        let frame = pcap::udp_frame(0, (source, port), to, &payload);
        capture.write(&frame).unwrap();
    }
    capture.finish().unwrap();
    path
}

fn daemon(folder: &Path, flows: u64, interval_ms: u32, ipfix: &Value) -> Daemon {
    let replay = format!(
        "replay:{}?speed=0.02&loop=0",
        capture(folder, flows).display()
    );
    Daemon::start(json!({
        "ports": [{ "name": "in", "device": replay }, { "name": "out", "device": "sink" }],
        "forwarding": { "mode": "patch", "pairs": [["in", "out"]] },
        // Flows whose places in the table are taken are not tracked: so few of so many places that there is none, by this seed.
        "measurement": {
            "interval_ms": interval_ms,
            "hash_seed": "8d1f0c52a7be4b6f9e3312c4d07a55e1",
            "flows": { "slots": 65_536 },
        },
        "prometheus": { "top_flows": 20 },
        "ipfix": ipfix,
    }))
}

fn epoch(daemon: &Daemon) -> u64 {
    let status = daemon.json("/api/v1/status").unwrap();
    status["epoch"].as_u64().unwrap_or_default()
}

/// An epoch from this one on in which every flow had packets, and its flows as the API gives them. A machine that is short of time
/// may need several.
fn asked(daemon: &Daemon, from: u64) -> (u64, Vec<Value>) {
    let began = Instant::now();
    loop {
        let page = daemon.json("/api/v1/flows?scope=switch&limit=10000");
        let page = page.unwrap_or_default();
        let epoch = page["epoch"].as_u64().unwrap_or_default();
        let flows = page["flows"].as_array().into_iter().flatten();
        let flows =
            flows.filter(|flow| flow["last_epoch"] == epoch && flow["first_epoch"] != epoch);
        let flows: Vec<Value> = flows.cloned().collect();
        if epoch >= from && flows.len() as u64 == FLOWS {
            return (epoch, flows);
        }
        let waited = began.elapsed();
        assert!(waited < PATIENCE, "{} flows in epoch {epoch}", flows.len());
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Milliseconds since 1970 of `2026-11-27T20:10:39.364`, in UTC (Howard Hinnant's `days_from_civil`).
fn unix_ms(text: &str) -> i64 {
    let parts: Vec<i64> = text
        .split(['-', 'T', ':', '.'])
        .map(|part| part.parse().unwrap())
        .collect();
    let [year, month, day, hour, minute, second, ms] = parts[..] else {
        panic!("{text}");
    };
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = 365 * year + year / 4 - year / 100 + year / 400 + day_of_year - 719_468;
    (((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000 + ms
}

#[expect(clippy::cast_possible_truncation, reason = "milliseconds since 1970")]
fn ms(seconds: &Value) -> i64 {
    (1e3 * seconds.as_f64().unwrap()).round() as i64
}

/// `nfcapd`, which writes into a folder of its own.
fn nfcapd(folder: &Path, port: u16) -> Process {
    fs::create_dir(folder).unwrap();
    let mut command = Command::new(program("usr/bin/nfcapd"));
    command.args([
        "-b",
        "127.0.0.1",
        "-p",
        &port.to_string(),
        "-t",
        "60",
        "-B",
        "4000000",
        "-w",
    ]);
    command
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let collector = Process::start(&mut command).unwrap();
    listens(port);
    collector
}

/// Waits until the collector has its port.
fn listens(port: u16) {
    let began = Instant::now();
    while !testkit::process::has_udp_socket(port) {
        assert!(began.elapsed() < PATIENCE, "nobody listens");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Makes it write its data, and reads them with `nfdump`: flows by name.
fn nfdump(mut collector: Process, folder: &Path) -> HashMap<String, Vec<Value>> {
    collector.terminate();
    collector.child.wait().unwrap();
    let mut command = Command::new(program("usr/bin/nfdump"));
    command
        .arg("-R")
        .arg(folder)
        .args(["-o", "json"])
        .env("TZ", "UTC");
    let output = command.output().unwrap();
    let flows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let mut by_name = HashMap::new();
    for flow in flows {
        let text = |key: &str| flow[key].as_str().unwrap_or_default().to_owned();
        let name = format!(
            "{}:{}>{}:{}/udp",
            text("src4_addr"),
            flow["src_port"],
            text("dst4_addr"),
            flow["dst_port"]
        );
        by_name.entry(name).or_insert_with(Vec::new).push(flow);
    }
    by_name
}

/// An epoch in which the collector gets everything, by then: every flow once, with the same counts and times.
fn compare(daemon: &mut Daemon, from: u64, collector: Process, folder: &Path) {
    let (of, asked) = asked(daemon, from);
    daemon.wait_for(|daemon| epoch(daemon) > of);
    let dumped = nfdump(collector, folder);
    assert_eq!(dumped.len() as u64, FLOWS);
    for flow in asked {
        let end_ms = ms(&flow["last_seen_unix_s"]);
        let records = &dumped[flow["flow"].as_str().unwrap()];
        let is_of =
            |record: &&Value| (unix_ms(record["last"].as_str().unwrap()) - end_ms).abs() <= 1;
        let found: Vec<&Value> = records.iter().filter(is_of).collect();
        assert_eq!(found.len(), 1, "{flow:#} {records:#?}");
        let found = found[0];
        let counts = |packets, bytes| (number(packets), number(bytes));
        assert_eq!(
            counts(&found["in_packets"], &found["in_bytes"]),
            counts(&flow["last"]["packets"], &flow["last"]["bytes"])
        );
        let lasted_ms = end_ms - unix_ms(found["first"].as_str().unwrap());
        assert!((1_999..=2_001).contains(&lasted_ms), "{found:#}");
        assert_eq!(
            (number(&found["input_snmp"]), number(&found["output_snmp"])),
            (1, 2)
        );
    }
}

#[test]
fn nfdump_shows_every_flow_as_the_api_does_and_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_address().port();
    let first = folder.path().join("first");
    let collector = nfcapd(&first, port);
    let ipfix = json!({ "collector": format!("udp://127.0.0.1:{port}"), "template_s": 3_600 });
    let mut daemon = daemon(folder.path(), FLOWS, 2_000, &ipfix);
    compare(&mut daemon, 1, collector, &first);
    // Nobody listens for an export; the next collector is one that has seen no template.
    let away = epoch(&daemon);
    daemon.wait_for(|daemon| {
        let dropped: Option<f64> = daemon.metric("vernier_ipfix_dropped_records_total");
        epoch(daemon) > away && dropped > Some(0.0)
    });
    let second = folder.path().join("second");
    let collector = nfcapd(&second, port);
    let from = epoch(&daemon) + 2;
    compare(&mut daemon, from, collector, &second);
    daemon.stop();
}

/// `nfacctd`, which writes its data every second; its plugin ends with it.
fn nfacctd(folder: &Path, port: u16) -> Process {
    let primitives = folder.join("primitives");
    let fields = [
        ("epoch", "32473:4", 8),
        ("mean_us", "530", 4),
        ("sum_us", "533", 8),
        ("mean_ns", "32473:6", 8),
        ("deviation_ns", "32473:7", 8),
        ("lost", "133", 8),
    ];
    let lines = fields.map(|(name, field, length)| {
        format!("name={name} field_type={field} len={length} semantics=u_int\n")
    });
    fs::write(&primitives, lines.concat()).unwrap();
    let names = fields.map(|(name, ..)| name).join(", ");
    let config = format!(
        "daemonize: false\nnfacctd_ip: 127.0.0.1\nnfacctd_port: {port}\nnfacctd_pipe_size: 4000000\nplugins: print\n\
         aggregate_primitives: {primitives}\n\
         aggregate: src_host, dst_host, src_port, dst_port, proto, in_iface, out_iface, {names}\n\
         print_output: json\nprint_output_file: {output}\nprint_output_file_append: true\nprint_refresh_time: 1\n\
         print_cache_entries: 65537\nplugin_pipe_size: 40960000\nplugin_buffer_size: 40960\n",
        primitives = primitives.display(),
        output = folder.join("flows.json").display(),
    );
    let file = folder.join("nfacctd.conf");
    fs::write(&file, config).unwrap();
    let mut command = Command::new(program("usr/sbin/nfacctd"));
    command
        .arg("-f")
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let collector = Process::start(&mut command).unwrap();
    listens(port);
    collector
}

#[test]
fn nfacctd_gives_the_counts_and_delays_of_the_api() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_address().port();
    let _collector = nfacctd(folder.path(), port);
    let ipfix = json!({ "collector": format!("udp://127.0.0.1:{port}") });
    let mut daemon = daemon(folder.path(), FLOWS, 2_000, &ipfix);
    let (of, asked) = asked(&daemon, 1);
    let of = of.to_string();
    let lines = || {
        let text = fs::read_to_string(folder.path().join("flows.json")).unwrap_or_default();
        // The last line may be under way.
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let lines = lines.filter(|line: &Value| line["epoch"].as_str() == Some(&of));
        lines.collect::<Vec<Value>>()
    };
    daemon.wait_for(|_| lines().len() as u64 >= FLOWS);
    daemon.stop();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let lines = lines();
    assert_eq!(lines.len() as u64, FLOWS);
    let name = |line: &Value| {
        let [from, to] = ["ip_src", "ip_dst"].map(|key| text(&line[key]));
        let [source, destination] = ["port_src", "port_dst"].map(|key| number(&line[key]));
        format!(
            "{from}:{source}>{to}:{destination}/{}",
            text(&line["ip_proto"])
        )
    };
    let lines: HashMap<String, &Value> = lines.iter().map(|line| (name(line), line)).collect();
    for flow in asked {
        let line = lines[flow["flow"].as_str().unwrap()];
        let last = &flow["last"];
        for (key, count) in [("packets", "packets"), ("bytes", "bytes")] {
            assert_eq!(line[key], last[count], "{line:#} {flow:#}");
        }
        let field = |key: &str| text(&line[key]).parse::<f64>().unwrap();
        let mean_ns = last["mean_ns"].as_f64().unwrap();
        let packets = last["packets"].as_f64().unwrap();
        for (key, wanted) in [
            ("lost", last["lost_packets"].as_f64().unwrap()),
            ("mean_ns", mean_ns),
            ("deviation_ns", last["stddev_ns"].as_f64().unwrap()),
            ("mean_us", mean_ns / 1e3),
            ("sum_us", mean_ns * packets / 1e3),
        ] {
            assert!(
                (field(key) - wanted).abs() <= 0.5 + 1e-6,
                "{key}: {line:#} {flow:#}"
            );
        }
    }
}

/// Whole messages of a stream.
fn messages(mut stream: impl Read, wanted: usize) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    while messages.len() < wanted {
        let mut message = vec![0; 4];
        stream.read_exact(&mut message).unwrap();
        message.resize(u16::from_be_bytes([message[2], message[3]]).into(), 0);
        stream.read_exact(&mut message[4..]).unwrap();
        messages.push(message);
    }
    messages
}

#[test]
fn tshark_reads_what_comes_by_tcp() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let ipfix = json!({ "collector": format!("tcp://{address}"), "observation_domain": 7 });
    let daemon = daemon(folder.path(), 500, 200, &ipfix);
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let messages = messages(stream, 300);
    daemon.stop();
    // As datagrams, which need no TCP around them to be read.
    let path = folder.path().join("messages.pcap");
    let mut capture = pcap::Writer::new(File::create(&path).unwrap()).unwrap();
    for message in &messages {
        let end = (Ipv4Addr::LOCALHOST, 4_739);
        let frame = pcap::udp_frame(0, end, end, message);
        capture.write(&frame).unwrap();
    }
    capture.finish().unwrap();
    let tshark = |arguments: &[&str]| {
        let mut command = Command::new("tshark");
        command
            .arg("-r")
            .arg(&path)
            .args(["-d", "udp.port==4739,cflow"])
            .args(arguments);
        let output = command.output().expect("tshark (make setup-test)");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(tshark(&["-Y", "_ws.malformed || _ws.expert"]), "");
    let fields = [
        "cflow.version",
        "cflow.len",
        "cflow.sequence",
        "cflow.od_id",
    ];
    let fields = fields.map(|field| ["-e", field]).concat();
    let lines = tshark(&[&["-T", "fields"], &fields[..]].concat());
    assert_eq!(lines.lines().count(), messages.len());
    let sequences = lines.lines().zip(&messages).map(|(line, message)| {
        let mut values = line.split('\t');
        assert_eq!(values.next(), Some("10"));
        assert_eq!(values.next(), Some(&*message.len().to_string()));
        let sequence: u32 = values.next().unwrap().parse().unwrap();
        assert_eq!(values.next(), Some("7"));
        sequence
    });
    let sequences: Vec<u32> = sequences.collect();
    assert_eq!(sequences[0], 0);
    assert!(sequences.is_sorted());
    let text = tshark(&["-V"]);
    for words in [
        "DstAddr: 10.200.0.1",
        "SrcPort: 7003",
        "Dropped Packets: 0",
        "IfName: in",
    ] {
        assert!(text.contains(words), "{words}");
    }
}
