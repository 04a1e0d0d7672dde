//! The metrics page for Prometheus.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use api::prometheus::{Labels, Page, write_families};
use records::station::{Blame, PathAnswer, SegmentFigures, SwitchState};

use crate::Station;
use crate::path::Network;
use crate::place::{Name, label};
use crate::settings::Ends;
use crate::state::State;
use crate::summary::summary;

/// Number of blamed segments with their own series.
const BLAMED_MAX: usize = 32;

/// Writes metrics of switches, of the station and of its process.
///
/// # Errors
/// Errors of `out`.
pub fn write(station: &Station, out: &mut dyn io::Write) -> io::Result<()> {
    let states = station.fleet.states();
    let now = station.clock.now_unix_ns();
    write_families(&api::process::own_metrics(), out, |page| {
        switches(page, &states, now);
        segments(page, &states, now);
        paths(page, &station.paths, &station.network(&states));
        blamed(page, &station.blamer(&states).all(None, BLAMED_MAX));
        own(page, station);
    })
}

/// Returns the sample of a family without labels.
fn alone(value: f64) -> [(Labels<'static>, f64); 1] {
    [(Vec::new(), value)]
}

fn labels<'l, const N: usize>(labels: [(&'l str, &'l str); N]) -> Labels<'l> {
    labels.map(|(name, value)| (name, value.into())).into()
}

/// Returns the labels of a segment.
fn of_segment<'l>(kind: &'l str, [switch, from, to, class]: Name<'l>) -> Labels<'l> {
    labels([
        ("switch", switch),
        ("kind", kind),
        ("from", from),
        ("to", to),
        ("class", class),
    ])
}

fn switches(page: &mut Page, states: &[State], now_unix_ns: u64) {
    let summaries: Vec<_> = states
        .iter()
        .map(|state| summary(state, now_unix_ns))
        .collect();
    page.gauge(
        "vernier_station_switches",
        "Switches that have reported.",
        alone(summaries.len() as f64),
    );
    let series = summaries.iter();
    let series = series.map(|switch| (labels([("switch", &switch.switch)]), switch));
    page.metrics(SwitchState::metrics(), series);
}

/// Returns one figure of a segment.
type Figure = fn(&SegmentFigures) -> Option<f64>;

fn segments(page: &mut Page, states: &[State], now_unix_ns: u64) {
    let families: [(&str, &str, Figure); 5] = [
        (
            "delay_mean_seconds",
            "Mean delay of the last epoch with delays.",
            |of| Some(of.mean_ns? / 1e9),
        ),
        (
            "delay_bound_seconds",
            "Half-width of the nominal 98 % interval around the mean.",
            |of| Some(of.bound_ns? / 1e9),
        ),
        ("delay_p99_seconds", "99th percentile of the delay.", |of| {
            Some(of.p99_ns? / 1e9)
        }),
        ("packets", "Packets of that report.", |of| {
            Some(of.packets as f64)
        }),
        ("lost_packets", "Of these, packets lost.", |of| {
            Some(of.lost as f64)
        }),
    ];
    for (name, help, of) in families {
        // Old figures of a silent switch would look current.
        let reporting = states.iter().filter(|state| !state.is_silent(now_unix_ns));
        let places = reporting.flat_map(State::places);
        let series = places.filter_map(|place| {
            let labels = of_segment(label(place.kind()), place.name());
            Some((labels, of(&place.figures())?))
        });
        page.gauge(&format!("vernier_station_segment_{name}"), help, series);
    }
}

/// Returns one figure of a path.
type PathFigure = fn(&PathAnswer) -> Option<f64>;

/// Writes the paths between the ends in the configuration.
fn paths(page: &mut Page, watched: &[Ends], network: &Network<'_>) {
    let found = watched.iter().map(|ends| {
        let class = ends.class.as_deref();
        let found = network.paths(&ends.from, &ends.to, class);
        let paths = found.map_or_else(|_| Vec::new(), |found| found.paths);
        let labels = labels([
            ("from", &ends.from),
            ("to", &ends.to),
            ("class", class.unwrap_or_default()),
        ]);
        (labels, paths)
    });
    let found: Vec<_> = found.collect();
    page.gauge(
        "vernier_station_paths",
        "Paths of least cost, at most 16; 0 while an end is not known.",
        found
            .iter()
            .map(|(labels, paths)| (labels.clone(), paths.len() as f64)),
    );
    let families: [(&str, &str, PathFigure); 4] = [
        (
            "delay_mean_seconds",
            "Sum of the mean delays of the segments that are measured now.",
            |path| Some(path.sum.mean_ns? / 1e9),
        ),
        ("delay_bound_seconds", "Sum of their bounds.", |path| {
            Some(path.sum.bound_ns? / 1e9)
        }),
        (
            "loss_ratio",
            "Share of packets lost on the segments that are measured now.",
            |path| (path.sum.packets > 0).then_some(path.loss_ratio),
        ),
        (
            "uncovered_segments",
            "Segments that nothing measures now.",
            |path| {
                let uncovered = path.chain.iter().filter(|hop| !hop.is_covered());
                Some(uncovered.count() as f64)
            },
        ),
    ];
    for (name, help, of) in families {
        let series = found.iter().flat_map(|(labels, paths)| {
            paths.iter().enumerate().filter_map(move |(n, path)| {
                // Parallel links form paths over the same switches.
                let is_parallel = |other: &&PathAnswer| other.switches == path.switches;
                let link = paths[..n].iter().filter(is_parallel).count().to_string();
                let mut labels = labels.clone();
                labels.push(("path", path.switches.join(" > ").into()));
                labels.push(("link", link.into()));
                Some((labels, of(path)?))
            })
        });
        page.gauge(&format!("vernier_station_path_{name}"), help, series);
    }
}

/// Writes the number of risen segments, and the worst of them.
fn blamed(page: &mut Page, blame: &Blame) {
    let families = [
        (
            "delay_seconds",
            "By how much the mean delay is above the usual level; the worst 32 of delay and loss.",
            "delay",
            1e9,
        ),
        (
            "loss_ratio",
            "By how much the share of packets lost is above the usual level; likewise.",
            "loss",
            1.0,
        ),
    ];
    page.gauge(
        "vernier_station_blamed_segments",
        "Segments whose delay or loss has risen.",
        alone(blame.matching as f64),
    );
    page.gauge(
        "vernier_station_learning_segments",
        "Segments whose history is too short to find a rise of their delay.",
        alone(blame.learning as f64),
    );
    for (name, help, signal, unit) in families {
        let risen = blame.risen.iter().filter(|risen| risen.signal == signal);
        let series = risen.map(|risen| {
            let name = [&*risen.switch, &*risen.from, &*risen.to, &*risen.class];
            (of_segment(&risen.kind, name), risen.rise / unit)
        });
        page.gauge(&format!("vernier_station_blamed_{name}"), help, series);
    }
}

/// Writes the station's own counts, each with name, help and value.
fn own(page: &mut Page, station: &Station) {
    let count = |of: &AtomicU64| of.load(Ordering::Relaxed) as f64;
    let is_connected = station.is_connected.load(Ordering::Relaxed);
    let links = station.topology().map_or(0, |topology| topology.links());
    let bytes = station.fleet.minutes_bytes();
    let still = station.progress.lock().standing_still(Instant::now()).len();
    let work = &station.work;
    #[rustfmt::skip]
    let gauges = [
        ("connected", "Whether the station is connected to NATS.", f64::from(u8::from(is_connected))),
        ("stations", "Live stations, including this one.", count(&station.alive)),
        ("partitions", "Partitions that this station owns.", count(&station.owned)),
        ("still_partitions", "Partitions of all stations in which reports wait and none is acknowledged.", still as f64),
        ("located_segments", "Segments whose histories this station keeps, for localisation.", station.room.segments() as f64),
        ("lag_reports", "Reports that wait in the partitions of all stations.", count(&station.lag)),
        ("delay_seconds", "From an epoch's end to its state being written.", count(&work.delay_ns) / 1e9),
        ("history_bytes", "Bytes of minutes in memory.", bytes as f64),
        ("states_bytes", "Bytes of the last values of all switches in memory.", station.fleet.states_bytes() as f64),
        ("topology_links", "Links of the topology's file or of OSPF; 0 without.", links as f64),
    ];
    #[rustfmt::skip]
    let counters = [
        ("takeovers_total", "Times that this station took up a partition.", count(&work.takeovers)),
        ("reports_total", "Reports that this station counted.", count(&work.reports)),
        ("duplicate_reports_total", "Reports read here that had been counted before.", count(&work.duplicates)),
        ("refused_messages_total", "Messages that are no reports this station can read.", count(&work.refused)),
        ("located_refused_total", "Reports of segments for whose histories there was no room.", count(&station.room.refused)),
        ("read_again_reports_total", "Counted reports that were read again after a takeover, for localisation.", count(&work.read_again)),
        ("set_aside_total", "Values, minutes and reports that this station set aside so that others go on.", count(&work.set_aside)),
        ("ospf_unreadable_messages_total", "Messages of ospfd's that could not be read.", count(&station.ospf.unreadable_messages)),
        ("ospf_refused_lsas_total", "LSAs of OSPF for which there was no room.", count(&station.ospf.refused_lsas)),
        ("unreadable_values_total", "Values in JetStream that could not be read.", count(&station.fleet.unreadable)),
    ];
    for (name, help, value) in gauges {
        page.gauge(&format!("vernier_station_{name}"), help, alone(value));
    }
    for (name, help, value) in counters {
        page.counter(&format!("vernier_station_{name}"), help, alone(value));
    }
}
