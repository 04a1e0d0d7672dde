//! Metrics of sessions and reflector, for Prometheus. Each is declared once, with its words, beside what it shows.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use api::prometheus::{Labels, Page};
use topology::source::Counts;

use crate::published::{Board, Published, Totals};
use crate::reflector::ReflectorCounts;
use crate::result::Delays;

/// Name, words, and value.
type Family<T> = (&'static str, &'static str, fn(&T) -> Option<f64>);

/// Counters of sessions.
const COUNTERS: [Family<Totals>; 10] = [
    (
        "vernier_probe_sent_packets_total",
        "Packets that were sent, of closed intervals.",
        |t| Some(t.counts.sent as f64),
    ),
    (
        "vernier_probe_received_packets_total",
        "Packets that were answered in time.",
        |t| Some(t.counts.received as f64),
    ),
    (
        "vernier_probe_lost_packets_total",
        "Packets that were not answered in time.",
        |t| Some(t.counts.lost as f64),
    ),
    (
        "vernier_probe_duplicate_packets_total",
        "Replies to packets that were answered already.",
        |t| Some(t.counts.duplicates as f64),
    ),
    (
        "vernier_probe_reordered_packets_total",
        "Replies that arrived behind the reply to a later packet.",
        |t| Some(t.counts.reordered as f64),
    ),
    (
        "vernier_probe_late_packets_total",
        "Replies to packets whose time was over.",
        |t| Some(t.counts.late as f64),
    ),
    (
        "vernier_probe_not_sent_packets_total",
        "Packets that were due and not sent.",
        |t| Some(t.counts.not_sent as f64),
    ),
    (
        "vernier_probe_unusable_packets_total",
        "Replies whose delays are not counted: a clock was set.",
        |t| Some(t.counts.unusable as f64),
    ),
    (
        "vernier_probe_rejected_packets_total",
        "Replies that failed verification or belong to no packet.",
        |t| Some(t.counts.rejected as f64),
    ),
    (
        "vernier_probe_clock_steps_total",
        "Intervals in which the clock of either end was set.",
        |t| Some(t.clock_steps as f64),
    ),
];

/// Gauges of the last interval of sessions.
const GAUGES: [Family<Published>; 5] = [
    (
        "vernier_probe_least_round_trip_seconds",
        "Least round trip of the last interval.",
        |p| p.last.round_trip.map(|delays| delays.min_ns as f64 / 1e9),
    ),
    (
        "vernier_probe_clock_offset_seconds",
        "The reflector's clock less this one, where both directions take equally long.",
        |p| p.last.clocks.offset_ns.map(|ns| ns / 1e9),
    ),
    (
        "vernier_probe_clock_stepped",
        "Whether a clock was set in the last interval.",
        |p| Some(f64::from(u8::from(p.last.clocks.state.has_stepped()))),
    ),
    (
        "vernier_probe_reflector_clock_synchronised",
        "Whether the reflector says that its clock is synchronised.",
        |p| {
            p.last
                .reflector_clock
                .map(|clock| f64::from(u8::from(clock.is_synchronised)))
        },
    ),
    (
        "vernier_probe_reflector_clock_error_seconds",
        "Error estimate of the reflector's clock.",
        |p| p.last.reflector_clock.map(|clock| clock.error_ns / 1e9),
    ),
];

/// Counters of the reflector.
const REFLECTOR: [Family<ReflectorCounts>; 10] = [
    (
        "vernier_probe_reflector_answered_packets_total",
        "Requests that were answered.",
        |c| Some(c.answered as f64),
    ),
    (
        "vernier_probe_reflector_stateless_packets_total",
        "Requests of sessions without room in the table.",
        |c| Some(c.answered_without_state as f64),
    ),
    (
        "vernier_probe_reflector_short_packets_total",
        "Requests shorter than a base packet.",
        |c| Some(c.too_short as f64),
    ),
    (
        "vernier_probe_reflector_looped_packets_total",
        "Replies to its own replies, by another reflector or itself; they are not answered.",
        |c| Some(c.looped as f64),
    ),
    (
        "vernier_probe_reflector_unchecked_packets_total",
        "Requests whose HMAC was not checked: too many were wrong just before.",
        |c| Some(c.unchecked as f64),
    ),
    (
        "vernier_probe_reflector_unauthentic_packets_total",
        "Requests with a wrong HMAC, or without.",
        |c| Some(c.not_authentic as f64),
    ),
    (
        "vernier_probe_reflector_limited_packets_total",
        "Requests over the limit of their source.",
        |c| Some(c.over_limit as f64),
    ),
    (
        "vernier_probe_reflector_unauthentic_tlv_packets_total",
        "Requests whose TLVs failed verification.",
        |c| Some(c.tlv_not_authentic as f64),
    ),
    (
        "vernier_probe_reflector_malformed_tlv_packets_total",
        "Requests with a malformed TLV.",
        |c| Some(c.tlv_malformed as f64),
    ),
    (
        "vernier_probe_reflector_not_sent_packets_total",
        "Replies that the system did not take.",
        |c| Some(c.not_sent as f64),
    ),
];

/// Names of all families, for the documentation's test.
pub static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let counters = COUNTERS.iter().map(|family| family.0);
    let gauges = GAUGES.iter().map(|family| family.0);
    let reflector = REFLECTOR.iter().map(|family| family.0);
    let others = [
        DELAY,
        ROUND_TRIPS,
        STRANGERS,
        SESSIONS,
        OSPF_UNREADABLE,
        OSPF_REFUSED,
    ];
    counters
        .chain(gauges)
        .chain(reflector)
        .chain(others)
        .collect()
});

const DELAY: &str = "vernier_probe_delay_seconds";
const ROUND_TRIPS: &str = "vernier_probe_round_trip_seconds";
const STRANGERS: &str = "vernier_probe_unknown_packets_total";
const SESSIONS: &str = "vernier_probe_reflector_sessions";
const OSPF_UNREADABLE: &str = "vernier_probe_ospf_unreadable_messages_total";
const OSPF_REFUSED: &str = "vernier_probe_ospf_refused_lsas_total";

fn labels(session: &Published) -> Labels<'_> {
    vec![
        ("session", session.last.id.name.as_str().into()),
        ("to", session.last.id.to.to_string().into()),
    ]
}

/// Adds all families to a page.
pub fn families(page: &mut Page, board: &Board) {
    let sessions = board.sessions();
    let sessions = || sessions.iter().map(AsRef::as_ref);
    for (name, help, value) in COUNTERS {
        let sample = |session| Some((labels(session), value(&session.total)?));
        page.counter(name, help, sessions().filter_map(sample));
    }
    for (name, help, value) in GAUGES {
        let sample = |session| Some((labels(session), value(session)?));
        page.gauge(name, help, sessions().filter_map(sample));
    }
    let round_trips = sessions().map(|session: &Published| {
        let total = &session.total;
        (labels(session), total.round_trips, total.round_trip_s)
    });
    page.summary(ROUND_TRIPS, "Round trips since the start.", round_trips);
    let help =
        "Delays of the last interval, by direction (round_trip, forward, backward) and statistic.";
    page.gauge(DELAY, help, sessions().flat_map(delays));
    let strangers = [(Labels::new(), board.strangers() as f64)];
    let help = "Packets to sockets of sessions that belong to none.";
    page.counter(STRANGERS, help, strangers);
    let Some(counts) = board.reflector() else {
        return;
    };
    for (name, help, value) in REFLECTOR {
        page.counter(
            name,
            help,
            value(&counts).map(|value| (Labels::new(), value)),
        );
    }
    let sessions = [(Labels::new(), counts.sessions as f64)];
    page.gauge(SESSIONS, "Sessions in the reflector's table.", sessions);
}

/// Adds the counts of unusable messages and LSAs of OSPF.
pub fn ospf(page: &mut Page, counts: &Counts) {
    let count = |of: &AtomicU64| [(Labels::new(), of.load(Ordering::Relaxed) as f64)];
    let unreadable = "Messages of ospfd's that could not be read.";
    page.counter(
        OSPF_UNREADABLE,
        unreadable,
        count(&counts.unreadable_messages),
    );
    let refused = "LSAs of OSPF for which there was no room.";
    page.counter(OSPF_REFUSED, refused, count(&counts.refused_lsas));
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
