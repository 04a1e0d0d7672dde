//! The page for Prometheus.

use std::borrow::Cow;
use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use report::msp::Kind;

use records::blame::Blame;
use records::station::PathAnswer;

use crate::Station;
use crate::blame::Blamer;
use crate::path::{Network, figures, label};
use crate::settings::Ends;
use crate::state::{State, Sums};
use crate::summary::summary;

/// Blamed segments with series of their own.
const BLAMED_MAX: usize = 32;

/// Metrics of switches and of the station.
pub fn metrics(station: &Station) -> String {
    let states = station.fleet.states();
    let now = crate::now_unix_ns();
    let mut page = Page::default();
    switches(&mut page, &states, now);
    segments(&mut page, &states);
    let topology = station.topology();
    let network = Network::new(&states, topology.as_deref(), now);
    paths(&mut page, &station.paths, &network);
    blamed(&mut page, &Blamer::new(&states, now).all(None, BLAMED_MAX));
    own(&mut page, station);
    page.text + &api::process::own_metrics()
}

fn switches(page: &mut Page, states: &[State], now_unix_ns: u64) {
    let summaries: Vec<_> = states
        .iter()
        .map(|state| summary(state, now_unix_ns))
        .collect();
    page.family(
        "vernier_station_switches",
        "gauge",
        "Switches that have reported.",
    );
    page.series(&[], summaries.len());
    let mut each = |name, kind, help, of: fn(&records::station::SwitchState) -> Option<f64>| {
        page.family(name, kind, help);
        for switch in &summaries {
            if let Some(value) = of(switch) {
                page.series(&[("switch", &switch.switch)], value);
            }
        }
    };
    each(
        "vernier_station_switch_epoch_end_timestamp_seconds",
        "gauge",
        "End of the last epoch that the switch reported.",
        |s| Some(s.epoch_end_unix_s),
    );
    each(
        "vernier_station_switch_silent_since_timestamp_seconds",
        "gauge",
        "Since when the switch is silent; absent while it reports.",
        |s| s.silent_since_unix_s,
    );
    each(
        "vernier_station_switch_reports_total",
        "counter",
        "Reports counted.",
        |s| Some(s.reports as f64),
    );
    each(
        "vernier_station_switch_duplicate_reports_total",
        "counter",
        "Reports that had been counted before.",
        |s| Some(s.duplicates as f64),
    );
    each(
        "vernier_station_switch_missed_epochs_total",
        "counter",
        "Epochs that no report covers.",
        |s| Some(s.missed_epochs as f64),
    );
    each(
        "vernier_station_switch_restarts_total",
        "counter",
        "Times that the switch began anew.",
        |s| Some(s.restarts as f64),
    );
}

/// One figure of a segment.
type Figure = fn(&Sums) -> Option<f64>;

fn segments(page: &mut Page, states: &[State]) {
    let families: [(&str, &str, Figure); 5] = [
        (
            "delay_mean_seconds",
            "Mean delay of the last epoch with delays.",
            |s| Some(figures(s).mean_ns? / 1e9),
        ),
        (
            "delay_bound_seconds",
            "Half-width of the nominal 98 % interval around the mean.",
            |s| Some(figures(s).bound_ns? / 1e9),
        ),
        ("delay_p99_seconds", "99th percentile of the delay.", |s| {
            Some(figures(s).p99_ns? / 1e9)
        }),
        ("packets", "Packets of that report.", |s| {
            Some(s.packets as f64)
        }),
        ("lost_packets", "Of these, packets lost.", |s| {
            Some(s.lost as f64)
        }),
    ];
    for (name, help, of) in families {
        page.family(&format!("vernier_station_segment_{name}"), "gauge", help);
        for state in states {
            for known in &state.segments {
                let last = &known.last;
                if let Some(value) = of(&Sums::of(last)) {
                    let kind: Kind = last.kind();
                    page.series(
                        &[
                            ("switch", &state.switch),
                            ("kind", label(kind)),
                            ("from", state.name(last.from)),
                            ("to", state.name(last.to)),
                            ("class", state.name(last.class)),
                        ],
                        value,
                    );
                }
            }
        }
    }
}

/// One figure of a path.
type PathFigure = fn(&PathAnswer) -> Option<f64>;

/// Paths between the ends that the configuration names.
fn paths(page: &mut Page, watched: &[Ends], network: &Network<'_>) {
    let found = watched.iter().map(|ends| {
        let class = ends.class.as_deref();
        let found = network.paths(&ends.from, &ends.to, class);
        let paths = found.map_or_else(|_| Vec::new(), |found| found.paths);
        let labels = [
            ("from", ends.from.as_str()),
            ("to", &ends.to),
            ("class", class.unwrap_or_default()),
        ];
        (labels, paths)
    });
    let found: Vec<_> = found.collect();
    page.family(
        "vernier_station_paths",
        "gauge",
        "Paths of least cost, at most 16; 0 while an end is not known.",
    );
    for (labels, paths) in &found {
        page.series(labels, paths.len());
    }
    let families: [(&str, &str, PathFigure); 4] = [
        (
            "delay_mean_seconds",
            "Sum of the mean delays of the segments that are covered.",
            |path| Some(path.sum.mean_ns? / 1e9),
        ),
        ("delay_bound_seconds", "Sum of their bounds.", |path| {
            Some(path.sum.bound_ns? / 1e9)
        }),
        (
            "loss_ratio",
            "Share of packets lost on the segments that are covered.",
            |path| (path.sum.packets > 0).then_some(path.loss_ratio),
        ),
        (
            "uncovered_segments",
            "Segments that nothing measures.",
            |path| {
                let uncovered = path.chain.iter().filter(|hop| hop.figures.is_none());
                Some(uncovered.count() as f64)
            },
        ),
    ];
    for (name, help, of) in families {
        page.family(&format!("vernier_station_path_{name}"), "gauge", help);
        for (labels, paths) in &found {
            for (n, path) in paths.iter().enumerate() {
                let Some(value) = of(path) else { continue };
                // Parallel links are paths over the same switches.
                let is_parallel = |other: &&PathAnswer| other.switches == path.switches;
                let link = paths[..n].iter().filter(is_parallel).count().to_string();
                let by = [("path", path.switches.join(" > ")), ("link", link)];
                let by = by.each_ref().map(|(name, value)| (*name, value.as_str()));
                page.series(&[&labels[..], &by].concat(), value);
            }
        }
    }
}

/// What is risen: how many, and the worst of them.
fn blamed(page: &mut Page, blame: &Blame) {
    let families = [
        (
            "delay_seconds",
            "By how much the mean delay is above what is usual; the worst 32 of delay and loss.",
            "delay",
            1e9,
        ),
        (
            "loss_ratio",
            "By how much the share of packets lost is above what is usual; likewise.",
            "loss",
            1.0,
        ),
    ];
    page.family(
        "vernier_station_blamed_segments",
        "gauge",
        "Segments whose delay or loss is risen.",
    );
    page.series(&[], blame.matching);
    page.family(
        "vernier_station_learning_segments",
        "gauge",
        "Segments whose history is too short to find a rise of their delay.",
    );
    page.series(&[], blame.learning);
    for (name, help, signal, unit) in families {
        page.family(&format!("vernier_station_blamed_{name}"), "gauge", help);
        for risen in blame.risen.iter().filter(|risen| risen.signal == signal) {
            page.series(
                &[
                    ("switch", &risen.switch),
                    ("kind", &risen.kind),
                    ("from", &risen.from),
                    ("to", &risen.to),
                    ("class", &risen.class),
                ],
                risen.rise / unit,
            );
        }
    }
}

/// What the station counts of itself: name, type, help, value.
fn own(page: &mut Page, station: &Station) {
    let count = |of: &AtomicU64| of.load(Ordering::Relaxed) as f64;
    let is_connected = station.is_connected.load(Ordering::Relaxed);
    let links = station.topology().map_or(0, |topology| topology.links());
    let bytes = station.fleet.minutes_bytes();
    let work = &station.work;
    #[rustfmt::skip]
    let families = [
        ("connected", "gauge", "Whether the station is connected to NATS.", f64::from(u8::from(is_connected))),
        ("stations", "gauge", "Stations that live, this one among them.", count(&station.alive)),
        ("partitions", "gauge", "Partitions that this station owns.", count(&station.owned)),
        ("takeovers_total", "counter", "Times that this station took up a partition.", count(&work.takeovers)),
        ("reports_total", "counter", "Reports that this station counted.", count(&work.reports)),
        ("duplicate_reports_total", "counter", "Reports read here that had been counted before.", count(&work.duplicates)),
        ("refused_messages_total", "counter", "Messages that are no reports this station can read.", count(&work.refused)),
        ("located_segments", "gauge", "Segments whose histories this station keeps, for localisation.", station.room.segments() as f64),
        ("located_refused_total", "counter", "Reports of segments for whose histories there was no room.", count(&station.room.refused)),
        ("read_again_reports_total", "counter", "Counted reports that were read again after a takeover, for localisation.", count(&work.read_again)),
        ("lag_reports", "gauge", "Reports that wait in the partitions of all stations.", count(&station.lag)),
        ("delay_seconds", "gauge", "From an epoch's end to its state being written.", count(&work.delay_ns) / 1e9),
        ("history_bytes", "gauge", "Bytes of minutes in memory.", bytes as f64),
        ("unreadable_values_total", "counter", "Values in JetStream that could not be read.", count(&station.fleet.unreadable)),
        ("topology_links", "gauge", "Links of the topology's file or of OSPF; 0 without.", links as f64),
    ];
    for (name, kind, help, value) in families {
        page.family(&format!("vernier_station_{name}"), kind, help);
        page.series(&[], value);
    }
}

/// A page under construction, as text.
#[derive(Default)]
struct Page {
    text: String,
    /// The present family.
    name: String,
}

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        name.clone_into(&mut self.name);
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// A series.
    fn series(&mut self, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect();
        let labels = if labels.is_empty() {
            String::new()
        } else {
            format!("{{{}}}", labels.join(","))
        };
        let _ = writeln!(self.text, "{}{labels} {value}", self.name);
    }
}

/// A label's value as the text format writes it. Neighbours by LLDP have any name.
fn escaped(value: &str) -> Cow<'_, str> {
    if !value.contains(['\\', '"', '\n']) {
        return value.into();
    }
    let value = value.replace('\\', r"\\").replace('"', "\\\"");
    value.replace('\n', r"\n").into()
}
