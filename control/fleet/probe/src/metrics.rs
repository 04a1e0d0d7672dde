//! Prometheus metrics of sessions and reflector, except those declared beside their fields.

use std::sync::atomic::{AtomicU64, Ordering};

use api::prometheus::{Labels, Page};
use contract::metric::{Metric, Shown};
use topology::source::Counts as OspfCounts;

use crate::published::{Board, Published, Totals};
use crate::reflector::ReflectorCounts;
use crate::result::{ClockQuality, Counts, Delays};

/// Gauges of the last interval of sessions.
const GAUGES: [Metric<Published>; 3] = [
    Metric::gauge(
        "vernier_probe_least_round_trip_seconds",
        "Least round-trip time of the last interval.",
        |p, each| {
            let round_trip = p.last.round_trip;
            round_trip
                .map(|delays| delays.min_ns as f64)
                .show(1e9, each);
        },
    ),
    Metric::gauge(
        "vernier_probe_clock_offset_seconds",
        "The reflector's clock minus this machine's, assuming that both directions take equally long.",
        |p, each| p.last.clocks.offset_ns.show(1e9, each),
    ),
    Metric::gauge(
        "vernier_probe_clock_stepped",
        "1 if a clock was set in the last interval, else 0.",
        |p, each| p.last.clocks.state.has_stepped().show(1.0, each),
    ),
];

fn labels(session: &Published) -> Labels<'_> {
    vec![
        ("session", session.last.id.name.as_str().into()),
        ("to", session.last.id.to.to_string().into()),
    ]
}

/// Adds all families to a page.
pub fn families(page: &mut Page, board: &Board) {
    let sessions = board.sessions();
    let sessions = (sessions.iter()).map(|session| (labels(session), session.as_ref()));
    let counts = sessions.clone();
    let counts = counts.map(|(labels, session)| (labels, &session.total.counts));
    page.metrics(Counts::metrics(), counts);
    let totals = sessions.clone();
    let totals = totals.map(|(labels, session)| (labels, &session.total));
    page.metrics(Totals::metrics(), totals.clone());
    page.metrics(&GAUGES, sessions.clone());
    let clocks = sessions.clone().filter_map(|(labels, session)| {
        let clock = session.last.reflector_clock.as_ref()?;
        Some((labels, clock))
    });
    page.metrics(ClockQuality::metrics(), clocks);
    let round_trips = totals.map(|(labels, total)| (labels, total.round_trips, total.round_trip_s));
    page.summary(
        "vernier_probe_round_trip_seconds",
        "Round-trip times since the start.",
        round_trips,
    );
    page.gauge(
        "vernier_probe_delay_seconds",
        "Delays of the last interval by direction (round_trip, forward, backward) and statistic.",
        sessions.flat_map(|(_, session)| delays(session)),
    );
    let state = board.read();
    let strangers = [(Labels::new(), state.strangers as f64)];
    let help = "Packets received by senders that belong to no session.";
    page.counter("vernier_probe_unknown_packets_total", help, strangers);
    let reflector = state.reflector;
    drop(state);
    let counts = reflector.iter().map(|counts| (Labels::new(), counts));
    page.metrics(ReflectorCounts::metrics(), counts);
}

/// Adds the counts of unusable OSPF messages and LSAs.
pub fn ospf(page: &mut Page, counts: &OspfCounts) {
    let count = |of: &AtomicU64| [(Labels::new(), of.load(Ordering::Relaxed) as f64)];
    page.counter(
        "vernier_probe_ospf_unreadable_messages_total",
        "Messages of ospfd that could not be parsed.",
        count(&counts.unreadable_messages),
    );
    page.counter(
        "vernier_probe_ospf_refused_lsas_total",
        "OSPF LSAs refused because the database is full.",
        count(&counts.refused_lsas),
    );
}

fn delays(session: &Published) -> Vec<(Labels<'_>, f64)> {
    let last = &session.last;
    let directions = [
        ("round_trip", last.round_trip),
        ("forward", last.forward),
        ("backward", last.backward),
    ];
    let known = directions
        .into_iter()
        .filter_map(|(direction, delays)| Some((direction, delays?)));
    let samples = known.flat_map(|(direction, delays): (_, Delays)| {
        let statistics = [
            ("mean", delays.mean_ns),
            ("deviation", delays.deviation_ns),
            ("p50", delays.p50_ns),
            ("p99", delays.p99_ns),
            ("max", delays.max_ns as f64),
        ];
        statistics.map(|(statistic, ns)| {
            let mut labels = labels(session);
            labels.push(("direction", direction.into()));
            labels.push(("statistic", statistic.into()));
            (labels, ns / 1e9)
        })
    });
    samples.collect()
}
