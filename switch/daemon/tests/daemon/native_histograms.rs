//! Tails as Prometheus computes them, from native and from classic histograms, against the counts in JSON.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use crate::prometheus::Prometheus;
use crate::support::{Daemon, number, vernierd};

const DELAY: &str = "vernier_segment_delay_seconds";

/// Queues that fill and empty, in two classes and both directions.
fn queues() -> Value {
    json!({
        "ports": [
            { "name": "east", "device": "generate:flows=400,rate=40000,burst=20,pareto=1.2",
              "egress": { "capacity_bps": 250_000_000 } },
            { "name": "west", "device": "generate:flows=300,rate=40000,burst=40,seed=5,side=1",
              "egress": { "capacity_bps": 240_000_000 } },
        ],
        "forwarding": { "mode": "patch", "pairs": [["east", "west"]] },
        "classes": [{ "name": "voice" }, { "name": "rest" }],
        "rules": [
            { "class": "voice", "destination_ports": [0, 443] },
            { "class": "voice", "source_ports": [0, 443] },
        ],
        "measurement": { "interval_ms": 500 },
    })
}

/// Packets of a segment by the bounds of their buckets in ns.
type Distribution = HashMap<u64, u64>;

/// Every distribution that JSON had, by segment and number of packets.
#[derive(Default)]
struct Versions(HashMap<(String, u64), Distribution>);

impl Versions {
    fn look(&mut self, switch: &Daemon) {
        let snapshot = switch.snapshot().unwrap();
        for segment in snapshot["segments"].as_array().unwrap() {
            let name = |key: &str| segment[key].as_str().unwrap();
            let name = format!("{}>{}/{}", name("ingress"), name("egress"), name("class"));
            let buckets = segment["total"]["buckets"].as_array().unwrap().iter();
            let buckets =
                buckets.map(|bucket| (number(&bucket["le_ns"]), number(&bucket["packets"])));
            let buckets: Distribution = buckets.collect();
            self.0.insert((name, buckets.values().sum()), buckets);
        }
    }

    /// The bucket that the share `q` of the packets between two scrapes ends in, as its bounds in ns.
    fn bucket_ns(&self, segment: &str, [from, to]: [u64; 2], q: f64) -> Option<(f64, f64)> {
        let at = |packets| self.0.get(&(segment.to_owned(), packets));
        let (from, to) = (at(from)?, at(to)?);
        let since =
            |(le_ns, packets): (&u64, &u64)| (*le_ns, packets - from.get(le_ns).unwrap_or(&0));
        let mut since: Vec<(u64, u64)> = to.iter().map(since).collect();
        since.sort_unstable();
        let mut left = q * since.iter().map(|(_, packets)| *packets).sum::<u64>() as f64;
        let (le_ns, _) = since.into_iter().find(|(_, packets)| {
            left -= *packets as f64;
            left <= 0.0
        })?;
        // Eight buckets an octave, which ends with its power of two.
        let width_ns = (1 << (le_ns - 1).ilog2()) / 8;
        Some(((le_ns - width_ns) as f64, le_ns as f64))
    }
}

/// The name of a segment in Prometheus.
fn segment(result: &Value) -> String {
    let label = |name: &str| result["metric"][name].as_str().unwrap();
    format!("{}/{}", label("segment"), label("class"))
}

/// Packets of every segment at the first and the last scrape of the last half minute.
fn scraped(prometheus: &Prometheus, series: &str, time: SystemTime) -> HashMap<String, [u64; 2]> {
    let results = prometheus.query_at(&format!("{series}[30s]"), time);
    let results = results.as_ref().and_then(Value::as_array);
    let packets = |sample: &Value| {
        let count = sample[1]["count"].as_str().or(sample[1].as_str());
        count.unwrap().parse().unwrap()
    };
    let ends = results.into_iter().flatten().map(|result| {
        let samples = result["histograms"]
            .as_array()
            .or(result["values"].as_array());
        let samples = samples.unwrap();
        (
            segment(result),
            [packets(&samples[0]), packets(&samples[samples.len() - 1])],
        )
    });
    ends.collect()
}

/// Greatest error of p99.9 over all segments against the counts in JSON, wherever in its bucket the exact one is; `None`
/// before there is one of every segment.
fn worst_error(
    prometheus: &Prometheus,
    versions: &Versions,
    [count, buckets]: [&str; 2],
) -> Option<f64> {
    let time = SystemTime::now() - Duration::from_millis(300);
    let scraped = scraped(prometheus, count, time);
    let p999 = format!("histogram_quantile(0.999, rate({buckets}[30s]))");
    let results = prometheus.query_at(&p999, time)?;
    let errors = results.as_array()?.iter().filter_map(|result| {
        let ends = scraped
            .get(&segment(result))
            .filter(|[from, to]| to > from)?;
        let (low, high) = versions.bucket_ns(&segment(result), *ends, 0.999)?;
        let p999_ns = result["value"][1].as_str()?.parse::<f64>().ok()? * 1e9;
        Some((p999_ns / low - 1.0).max(1.0 - p999_ns / high))
    });
    let errors: Vec<f64> = errors.collect();
    (errors.len() == 4).then(|| errors.into_iter().fold(0.0, f64::max))
}

/// Names and labels of the series of a switch in the last scrape.
fn all_series(prometheus: &Prometheus, selector: &str) -> BTreeSet<String> {
    let query = format!("{{job=\"vernier\", __name__=~\"vernier_.+\", {selector}}}");
    let results = prometheus.query(&query);
    let results = results.as_ref().and_then(Value::as_array);
    let series = results.into_iter().flatten().map(|result| {
        let mut labels = result["metric"].clone();
        // Text and protobuf write the bounds of classic buckets differently: 0.00001, 1e-05.
        if let Some(bound) = labels["le"].as_str() {
            labels["le"] = bound.parse::<f64>().unwrap().into();
        }
        labels.to_string()
    });
    series.collect()
}

/// The numbers of series in the line of `vernierd --check`: classic, and native.
fn checked(switch: &Daemon) -> [u64; 2] {
    let file = switch.folder.path().join("vernier.json");
    let output = vernierd()
        .args(["--check", "--static", "--config"])
        .arg(file)
        .output();
    let report = String::from_utf8(output.unwrap().stdout).unwrap();
    let line = report
        .lines()
        .find_map(|line| line.strip_prefix("prometheus"));
    let line = line.unwrap();
    let native = line.split_once('(').unwrap().1;
    [line, native].map(|text| text.split_whitespace().next().unwrap().parse().unwrap())
}

#[test]
fn tails_of_both_kinds_of_histograms_are_as_exact_as_told_and_cost_the_series_that_check_says() {
    let mut versions = Versions::default();
    let mut switch = Daemon::start(queues());
    versions.look(&switch);
    let started = [
        Prometheus::start_native(switch.address),
        Prometheus::start(switch.address),
    ];
    let [Some(native), Some(classic)] = started else {
        return;
    };
    let series = [
        DELAY.to_owned(),
        format!("{DELAY}_count"),
        format!("{DELAY}_bucket"),
    ];
    let mut errors = [Vec::new(), Vec::new()];
    let began = Instant::now();
    while errors.iter().any(|errors| errors.len() < 20) {
        assert!(began.elapsed() < Duration::from_mins(1), "{errors:?}");
        for _ in 0..10 {
            versions.look(&switch);
            std::thread::sleep(Duration::from_millis(20));
        }
        errors[0].extend(worst_error(&native, &versions, [&series[0], &series[0]]));
        errors[1].extend(worst_error(&classic, &versions, [&series[1], &series[2]]));
    }
    let worst = errors.map(|errors| errors.into_iter().fold(0.0, f64::max));
    println!("worst error of p99.9, native and classic: {worst:?}");
    assert!(worst[0] <= 0.125, "{worst:?}");
    // Four buckets an octave, linear in it: the first is a quarter wide.
    assert!(worst[1] <= 0.25, "{worst:?}");

    let both = [&classic, &native];
    let checked = checked(&switch);
    // A scrape may have failed, and series of estimates come and go from one scrape to the next.
    let delays = format!("__name__=~\"{DELAY}.*\"");
    switch.wait_for(|_| {
        both.map(|prometheus| all_series(prometheus, &delays).len() as u64) == checked
    });
    let others = format!("__name__!~\"{DELAY}.*\"");
    switch.wait_for(|_| {
        let [classic, native] = both.map(|prometheus| all_series(prometheus, &others));
        !classic.is_empty() && classic == native
    });
    switch.stop();
}
